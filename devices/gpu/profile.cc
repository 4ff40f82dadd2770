// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <algorithm>
#include <chrono>

namespace tenon::gpu {
namespace {

constexpr size_t kMostSpans = size_t{1} << 16;

uint64_t Now() { return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)); }

template <size_t kSize>
void CopyText(std::string_view text, char (&out)[kSize]) {
  out[text.copy(out, kSize - 1)] = '\0';
}

}  // namespace

Profile::~Profile() {
  for (const Pending& each : pending_) {
    card_.DestroyEvent(each.begin);
    card_.DestroyEvent(each.end);
  }
  for (Event event : spare_) card_.DestroyEvent(event);
  if (base_ != nullptr) card_.DestroyEvent(base_);
}

Outcome Profile::Watch(bool on, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (!on) {
    watchers_.fetch_sub(1, std::memory_order_relaxed);
    return {};
  }
  if (watchers_ == 0) {
    Settle();
    Outcome outcome = card_.Activate();
    if (outcome.ok() && base_ == nullptr) outcome = card_.CreateEvent(&base_);
    if (outcome.ok()) outcome = card_.Record(base_, stream);
    if (outcome.ok()) outcome = card_.Synchronize(stream);
    if (!outcome.ok()) return outcome;
    base_ns_ = Now();
  }
  watchers_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Event Profile::TakeEvent() {
  Event event = nullptr;
  if (spare_.empty()) return card_.CreateEvent(&event).ok() ? event : nullptr;
  event = spare_.back();
  spare_.pop_back();
  return event;
}

Profile::Piece::Piece(Profile* profile, uint64_t queue, Stream stream, tenon_span label, const char* kind) : profile_(profile), stream_(stream) {
  if (profile_ == nullptr) return;
  const std::lock_guard lock(profile_->mutex_);
  begin_ = profile_->TakeEvent();
  if (begin_ == nullptr || !profile_->card_.Record(begin_, stream_).ok()) {
    profile_ = nullptr;
    return;
  }
  span_ = {};
  span_.queue = queue;
  CopyText(sdk::ToText(label), span_.name);
  CopyText(kind, span_.kind);
}

Profile::Piece::~Piece() {
  if (profile_ == nullptr) return;
  const std::lock_guard lock(profile_->mutex_);
  const Event end = profile_->TakeEvent();
  if (end == nullptr || !profile_->card_.Record(end, stream_).ok()) {
    profile_->spare_.push_back(begin_);
    if (end != nullptr) profile_->spare_.push_back(end);
    return;
  }
  profile_->pending_.push_back({span_, begin_, end});
  if (profile_->pending_.size() > kMostSpans) profile_->Settle();
}

uint64_t Profile::HostTime(Event event) const {
  double after = 0;
  return card_.Elapsed(base_, event, &after).ok() ? base_ns_ + static_cast<uint64_t>(std::max(after, 0.0)) : 0;
}

// What has ended becomes spans, in the order of its end.
void Profile::Settle() {
  std::vector<tenon_profile_span> ended;
  std::erase_if(pending_, [&](Pending& each) {
    if (!card_.HasCome(each.end)) return false;
    each.span.begin_ns = HostTime(each.begin);
    each.span.end_ns = HostTime(each.end);
    ended.push_back(each.span);
    spare_.push_back(each.begin);
    spare_.push_back(each.end);
    return true;
  });
  std::stable_sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
  for (tenon_profile_span& span : ended) {
    span.number = next_++;
    spans_.push_back(span);
  }
  while (spans_.size() > kMostSpans) spans_.pop_front();
}

void Profile::Read(uint64_t first, tenon_profile_span* out_spans, uint64_t capacity, uint64_t* out_count, uint64_t* out_next) {
  const std::lock_guard lock(mutex_);
  if (card_.Activate().ok()) Settle();
  first = capacity == 0 ? next_ : std::clamp(first, next_ - spans_.size(), next_);
  *out_count = std::min(capacity, next_ - first);
  *out_next = first + *out_count;
  const auto at = spans_.end() - static_cast<std::ptrdiff_t>(next_ - first);
  std::copy_n(at, *out_count, out_spans);
}

}  // namespace tenon::gpu
