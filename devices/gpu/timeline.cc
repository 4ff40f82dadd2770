// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

#include <algorithm>

#include "device.h"

namespace tenon::gpu {
namespace {
std::atomic<uint64_t> timelines_made{0};
}  // namespace

Timeline::Timeline(std::shared_ptr<Device> device, const Record& record, uint64_t initial)
    : device_(std::move(device)), record_(record), number_(++timelines_made), submitted_(initial) {
  record_.Reset(initial);
}
Timeline::~Timeline() { device_->ReturnRecord(record_); }

void Timeline::FailFrom(uint64_t point, const Outcome& why) {
  if (!failure_.ok() && point > failed_at_) return;  // it has failed before that
  failure_ = why;
  failed_at_ = point - 1;
  has_failed_.store(true, std::memory_order_relaxed);
}

// What a kernel has reported since.
void Timeline::NoteFault() {
  const FaultRecord& fault = *record_.fault;
  if (__atomic_load_n(&fault.state, __ATOMIC_ACQUIRE) == kFaulted && (failure_.ok() || failed_at_ > fault.reached)) {
    FailFrom(fault.reached + 1, device_->Describe(fault));
  }
}

// Looks at what may have failed the points up to `value` since. Two timelines may wait for each other, again and again;
// their points do not, so only what was submitted before a point is asked for it.
void Timeline::Settle(uint64_t value) {
  NoteFault();
  ++settling_;
  for (size_t i = 0; i < dependencies_.size(); ++i) {
    const Dependency each = dependencies_[i];
    if (each.settled || each.from > value || each.from > failed_at_) continue;
    const State state = each.by_known ? each.timeline->Known(each.value) : each.timeline->At(each.value);
    if (state == State::kFailed)
      FailFrom(each.from, each.timeline->failure_.ok() ? each.timeline->device_->lost() : each.timeline->failure_);
    if (state != State::kOpen) dependencies_[i].settled = true;
  }
  if (--settling_ == 0) {
    std::erase_if(dependencies_, [](const Dependency& each) { return each.settled; });
  }
}

Timeline::State Timeline::At(uint64_t value) {
  if (device_->is_lost()) {
    if (failure_.ok()) FailFrom(word() + 1, device_->lost());
    return State::kFailed;
  }
  Settle(value);
  if (value > failed_at_) return State::kFailed;
  return word() >= value ? State::kReached : State::kOpen;
}

Timeline::State Timeline::Known(uint64_t value) {
  if (device_->is_lost()) return At(value);
  NoteFault();
  if (value > failed_at_) return State::kFailed;
  return word() >= value ? State::kReached : State::kOpen;
}

uint64_t Timeline::value() {
  Settle(submitted_);
  return std::min(word(), failed_at_);
}

void Timeline::Signal(uint64_t value) {
  submitted_ = value;
  record_.Set(value);
}

void Timeline::Fail(const Outcome& why) {
  Settle(submitted_);
  if (failure_.ok()) FailFrom(word() + 1, why);
  KeepReleased();
}
void Timeline::KeepReleased() {
  if (failure_.ok()) return;
  // Exchanged, so that what a stream writes meanwhile is seen now or the next time.
  if (__atomic_exchange_n(&record_.fault->word, kReleased, __ATOMIC_ACQ_REL) == submitted_) word_stays_ = true;
  if (!record_.has_copy()) waited_stays_ = word_stays_;
  else if (__atomic_exchange_n(record_.waited, kReleased, __ATOMIC_ACQ_REL) == submitted_) waited_stays_ = true;
}

void Timeline::DependOn(std::shared_ptr<Timeline> other, uint64_t value, bool by_known) {
  Settle(submitted_);
  dependencies_.push_back({std::move(other), value, submitted_ + 1, by_known});
}

}  // namespace tenon::gpu
