// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <algorithm>

#include "device.h"

namespace tenon::tpu_sim {
namespace {

// Older points count as reached when the oldest mark was.
constexpr size_t kMostMarks = 256;

}  // namespace

void CallAll(Notices& notices) {
  for (const Notice& notice : std::exchange(notices, {})) notice.call(notice.outcome);
}

const Outcome& Timeline::failure() const { return owner_->lost().ok() ? failure_ : owner_->lost(); }

PointState Timeline::At(uint64_t value) const {
  PointState state;
  if (value > value_ || !owner_->lost().ok()) {
    if (failure().ok()) return state;
    state.kind = PointState::kFailed;
    state.failure = &failure();
    return state;
  }
  state.kind = PointState::kReached;
  size_t low = 0, high = marks_.size();
  const auto mark = [this](size_t i) -> const Mark& { return marks_[(marks_begin_ + i) % marks_.size()]; };
  while (low < high) {
    const size_t middle = (low + high) / 2;
    mark(middle).value < value ? low = middle + 1 : high = middle;
  }
  if (low < marks_.size()) {
    state.reached = mark(low).moment;
  }
  return state;
}

void Timeline::Signal(uint64_t value, MomentPointer moment, Notices* out) {
  if (value <= value_ || !failure_.ok()) return;
  value_ = value;
  if (marks_.size() < kMostMarks) {
    marks_.push_back({value, std::move(moment)});
  } else {
    marks_[marks_begin_] = {value, std::move(moment)};
    marks_begin_ = (marks_begin_ + 1) % kMostMarks;
  }
  Wake(out);
}

void Timeline::Fail(const Outcome& why, Notices* out) {
  if (!failure_.ok()) return;
  failure_ = why;
  Wake(out);
}

void Timeline::Notify(uint64_t value, sdk::HostCall call, Notices* out) {
  pending_.push_back({value, call});
  Wake(out);
}

void Timeline::Wake(Notices* out) {
  changed.notify_all();
  for (std::condition_variable* listener : listeners) listener->notify_all();
  std::erase_if(pending_, [&](const Pending& pending) {
    const PointState state = At(pending.value);
    if (state.kind == PointState::kOpen) return false;
    owner_->system().clock.Observe(state.reached);
    out->push_back({pending.call, state.failure == nullptr ? Outcome() : *state.failure});
    return true;
  });
}

}  // namespace tenon::tpu_sim
