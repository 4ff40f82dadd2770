// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <algorithm>

#include "device.h"

namespace tenon::tpu_sim {
namespace {

// Older points count as reached when the oldest mark was.
constexpr size_t kMostMarks = 256;

}  // namespace

const Outcome& Timeline::OwnerLost() const { return owner_->lost(); }

PointState Timeline::At(uint64_t value) const {
  PointState state;
  if (!OwnerLost().ok()) {
    state.kind = PointState::kPoisoned;
    state.outcome = OwnerLost();
    return state;
  }
  for (const Interval& interval : poisoned_) {
    if (value >= interval.first && value <= interval.last) {
      state.kind = PointState::kPoisoned;
      state.outcome = interval.outcome;
      return state;
    }
  }
  if (value > value_) return state;
  state.kind = PointState::kReached;
  const auto mark = std::lower_bound(marks_.begin(), marks_.end(), value,
                                     [](const Mark& m, uint64_t v) { return m.value < v; });
  if (mark != marks_.end()) {
    state.cycle = mark->cycle;
    state.by = &mark->by;
  }
  return state;
}

void Timeline::Signal(uint64_t value, int64_t cycle, const std::string& by) {
  if (value > value_) {
    value_ = value;
    marks_.push_back({value, cycle, by});
    if (marks_.size() > kMostMarks) marks_.pop_front();
  }
  Wake();
}

void Timeline::Poison(uint64_t value, const Outcome& outcome) {
  poisoned_.push_back({std::min(value, value_ + 1), value, outcome});
  value_ = std::max(value_, value);
  Wake();
}

void Timeline::Wake() {
  changed.notify_all();
  for (std::condition_variable* listener : listeners) listener->notify_all();
}

}  // namespace tenon::tpu_sim
