// SPDX-License-Identifier: Apache-2.0
#include "profile.h"

#include <algorithm>
#include <chrono>

#include "tenon/extras/device/label.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostSpans = size_t{1} << 16;

uint64_t Now() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

template <size_t kSize>
void CopyText(std::string_view text, char (&out)[kSize]) {
  out[text.copy(out, kSize - 1)] = '\0';
}

}  // namespace

Profile::~Profile() {
  StopTracer();
  while (!pending_.empty()) Drop(pending_.begin());
  for (Event event : spare_) card_.DestroyEvent(event);
  if (base_ != nullptr) card_.DestroyEvent(base_);
}

Outcome Profile::Watch(bool on, Stream stream) {
  const std::lock_guard lock(mutex_);
  if (!on) {
    if (watchers_ == 1 && traces_ && card_.Activate().ok()) Settle();
    if (watchers_ == 1) StopTracer();
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
    traces_ = tracer_ != nullptr && tracer_->Start();
  }
  watchers_.fetch_add(1, std::memory_order_relaxed);
  return {};
}

// Of pieces that still run it has told a part, which would be taken for all.
void Profile::StopTracer() {
  if (!traces_) return;
  tracer_->Stop();
  traces_ = false;
  for (auto& [number, each] : pending_) each.traced.clear();
}

Event Profile::TakeEvent() {
  Event event = nullptr;
  if (spare_.empty()) return card_.CreateEvent(&event).ok() ? event : nullptr;
  event = spare_.back();
  spare_.pop_back();
  return event;
}

Event Profile::Mark(Stream stream) {
  const Event event = TakeEvent();
  if (event == nullptr || card_.Record(event, stream).ok()) return event;
  spare_.push_back(event);
  return nullptr;
}

void Profile::Drop(std::map<uint64_t, Pending>::iterator piece) {
  for (Event event : {piece->second.begin, piece->second.end}) {
    if (event != nullptr) spare_.push_back(event);
  }
  pending_.erase(piece);
}

Profile::Piece::Piece(Profile* profile, uint64_t queue, Stream stream, tenon_span label, const char* kind)
    : profile_(profile), stream_(stream) {
  if (profile_ == nullptr) return;
  const std::lock_guard lock(profile_->mutex_);
  const Event begin = profile_->Mark(stream_);
  if (begin == nullptr) {
    profile_ = nullptr;
    return;
  }
  number_ = ++profile_->pieces_;
  Pending& pending = profile_->pending_[number_];
  pending.begin = begin;
  pending.span = {};
  pending.span.queue = queue;
  CopyText(sdk::EndOfLabel(sdk::ToText(label), sizeof(pending.span.name) - 1), pending.span.name);
  CopyText(kind, pending.span.kind);
  traced_ = profile_->traces_ && profile_->tracer_->Begin(number_);
}

Profile::Piece::~Piece() {
  if (profile_ == nullptr) return;
  const std::lock_guard lock(profile_->mutex_);
  if (traced_) profile_->tracer_->End();
  const auto piece = profile_->pending_.find(number_);
  if (piece == profile_->pending_.end()) return;
  piece->second.end = profile_->Mark(stream_);
  if (piece->second.end == nullptr) profile_->Drop(piece);
  if (profile_->pending_.size() > kMostSpans) profile_->Settle();
}

uint64_t Profile::HostTime(Event event) const {
  double after = 0;
  return card_.Elapsed(base_, event, &after).ok() ? base_ns_ + static_cast<uint64_t>(std::max(after, 0.0)) : 0;
}

// What has ended becomes spans, in the order of its end.
void Profile::Settle() {
  std::vector<std::map<uint64_t, Pending>::iterator> over;  // before the tracer is asked: it has heard all of them
  for (auto piece = pending_.begin(); piece != pending_.end(); ++piece) {
    if (piece->second.end != nullptr && card_.HasCome(piece->second.end)) over.push_back(piece);
  }
  if (traces_) AskTracer();
  std::vector<tenon_profile_span> ended;
  for (const auto& piece : over) {
    Conclude(piece->second, &ended);
    Drop(piece);
  }
  while (pending_.size() > kMostSpans) Drop(pending_.begin());
  std::stable_sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
  for (tenon_profile_span& span : ended) {
    span.number = next_++;
    spans_.push_back(span);
  }
  while (spans_.size() > kMostSpans) spans_.pop_front();
}

void Profile::AskTracer() {
  std::vector<Tracer::Record> records;
  tracer_->Collect(&records);
  for (const Tracer::Record& record : records) {
    const auto piece = pending_.find(record.piece);
    if (piece != pending_.end()) piece->second.traced.push_back(record);
  }
}

void Profile::Conclude(const Pending& piece, std::vector<tenon_profile_span>* out_spans) const {
  if (piece.traced.empty()) {
    tenon_profile_span& span = out_spans->emplace_back(piece.span);
    span.begin_ns = HostTime(piece.begin);
    span.end_ns = HostTime(piece.end);
    // A graph that was made before tracing began, or whose records were lost.
    if (traces_ && span.kind == std::string_view("graph"))
      CopyText("as a whole: of what is in it nothing was told", span.detail);
  }
  for (const Tracer::Record& record : piece.traced) {
    tenon_profile_span& span = out_spans->emplace_back(piece.span);
    span.begin_ns = record.begin_ns;
    span.end_ns = record.end_ns;
    CopyText(record.kind, span.kind);
    CopyText(record.detail, span.detail);
  }
}

void Profile::Read(uint64_t first, tenon_profile_span* out_spans, uint64_t capacity, uint64_t* out_count,
                   uint64_t* out_next) {
  const std::lock_guard lock(mutex_);
  if (card_.Activate().ok()) Settle();
  first = capacity == 0 ? next_ : std::clamp(first, next_ - spans_.size(), next_);
  *out_count = std::min(capacity, next_ - first);
  *out_next = first + *out_count;
  const auto at = spans_.end() - static_cast<std::ptrdiff_t>(next_ - first);
  std::copy_n(at, *out_count, out_spans);
}

}  // namespace tenon::gpu
