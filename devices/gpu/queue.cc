// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "driver.h"
#include "patience.h"

namespace tenon::gpu {
// ---- Life ----

Outcome Queue::Open() {
  Card& card = this->card();
  Outcome outcome = card.Activate();
  if (outcome.ok()) outcome = card.CreateStream(priority_, &stream_);
  void* control = nullptr;
  if (outcome.ok()) outcome = card.Allocate(sizeof(FaultControl), nullptr, &control);
  control_ = static_cast<FaultControl*>(control);
  for (Record* record : {&progress_, &called_}) {
    if (outcome.ok()) outcome = device_->NewRecord(record);
  }
  if (outcome.ok()) {
    staging_ = std::make_unique<Staging>(*device_);
    outcome = staging_->Open();
  }
  return outcome.ok() ? SwitchTo(nullptr) : outcome;
}

Outcome Queue::OpenCapture(Queue& parent) {
  keeps_ = true;
  parent_ = &parent;
  control_ = parent.control_;
  Outcome outcome = card().Activate();
  if (outcome.ok()) outcome = device_->TakeCaptureStream(&stream_);
  if (outcome.ok()) outcome = card().BeginCapture(stream_);
  is_capturing_ = outcome.ok();
  return outcome;
}

Outcome Queue::EndCapture(CapturedGraph* out_graph, uint64_t* out_nodes) {
  Outcome joined = device_->Note(SubmitJoined());
  Outcome ended = device_->Note(card().EndCapture(stream_, out_graph, out_nodes));
  is_capturing_ = !ended.ok();
  if (joined.ok() || !ended.ok()) return joined.ok() ? ended : joined;
  card().DestroyGraph(std::exchange(*out_graph, nullptr));
  return joined;
}

void Queue::OpenList(const Queue& parent) {
  keeps_ = true;
  control_ = parent.control_;
  list_ = std::make_unique<WorkList>();
}

void Queue::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_.exchange(true)) return;
    const std::lock_guard system_lock(device_->system().mutex);
    for (const auto& [timeline, value] : waits_) {
      if (timeline->At(value) != Timeline::State::kOpen) continue;
      timeline->Fail(Fault(TENON_CANCELLED, "a queue of ", device_->name(),
                           " was destroyed while its work waited for point ", value));
    }
    waits_.clear();
  }
  if (stream_ == nullptr || keeps_) return;
  // The stream does not wait for host calls any more; they are made all the same.
  if (called_.fault != nullptr) called_.Set(kReleased);  // none: it was not opened whole
  if (card().Activate().ok()) {
    (void)device_->Note(card().Synchronize(stream_));
    if (staging_ != nullptr) (void)device_->Note(staging_->Synchronize());
  }
  if (device_->system().watcher.IsThisThread()) return;
  std::unique_lock lock(call_mutex_);
  call_ended_.wait(lock, [&] { return open_calls_ == 0; });
}

Queue::~Queue() {
  Close();
  (void)card().Activate();
  if (is_capturing_) {
    CapturedGraph graph = nullptr;
    uint64_t nodes = 0;
    if (card().EndCapture(stream_, &graph, &nodes).ok()) card().DestroyGraph(graph);
  }
  if (stream_ != nullptr && keeps_ && !is_capturing_) device_->ReturnCaptureStream(stream_);
  else if (stream_ != nullptr) card().DestroyStream(stream_);
  if (control_ != nullptr && !keeps_) card().Free(control_, nullptr);
  staging_.reset();
  for (const Record& record : {progress_, called_}) {
    if (record.fault != nullptr) device_->ReturnRecord(record);
  }
}

// ---- Submitting ----

Queue::Turn::Turn(Queue& queue, Timeline* timeline, bool joins) : lock_(queue.mutex_) {
  outcome_ = queue.device_->CheckAlive();
  if (outcome_.ok() && queue.closed_)
    outcome_ = Fault(TENON_FAILED_PRECONDITION, "a queue of ", queue.device_->name(), " is closed");
  if (outcome_.ok() && queue.list_ == nullptr) outcome_ = queue.card().Activate();
  if (outcome_.ok() && timeline != nullptr) {
    if (timeline->number() != queue.current_) outcome_ = queue.SwitchTo(timeline);
    pointless_ = timeline->has_failed();
  }
  if (outcome_.ok() && !joins && !queue.joined_.empty()) outcome_ = queue.SubmitJoined();
  if (!outcome_.ok()) outcome_ = queue.device_->Note(std::move(outcome_));
}

Outcome Queue::GiveListed(const WorkList& list, uint64_t first, uint64_t count) {
  Outcome outcome = list.Give(first, count, card(), stream_, &joined_);
  return outcome.ok() && !keeps_ ? SubmitJoined() : outcome;
}

// What kernels report from now on is said of this timeline.
Outcome Queue::SwitchTo(Timeline* timeline) {
  FaultRecord* const record = timeline == nullptr ? nullptr : timeline->record().fault;
  Outcome outcome = card().WriteWord(&control_->record, reinterpret_cast<uint64_t>(record), stream_);
  if (outcome.ok()) outcome = card().WriteWord(&control_->claimed, 0, stream_);
  if (outcome.ok()) current_ = timeline == nullptr ? 0 : timeline->number();
  return outcome;
}

Outcome Queue::Await(const tenon_submission& submission, Timeline* timeline) {
  for (uint64_t i = 0; i < submission.wait_count; ++i) {
    const tenon_timeline_point& point = submission.waits[i];
    Timeline& other = *Timeline::Of(point.semaphore);
    {
      const std::lock_guard lock(device_->system().mutex);
      if (other.At(point.value) == Timeline::State::kReached) continue;
      if (timeline != nullptr) timeline->DependOn(other.shared_from_this(), point.value);
      std::erase_if(waits_, [](const auto& wait) { return wait.first->At(wait.second) != Timeline::State::kOpen; });
      waits_.emplace_back(other.shared_from_this(), point.value);
    }
    if (Outcome outcome = other.record().Await(card(), point.value, stream_); !outcome.ok()) return outcome;
  }
  return {};
}

Outcome Queue::Tell(const tenon_submission& submission, Timeline* timeline) {
  if (submission.signal == 0 || timeline == nullptr) return {};
  {
    const std::lock_guard lock(device_->system().mutex);
    if (timeline->word() == kReleased) return {};  // it has failed: who waits goes on
    timeline->NoteSubmitted(submission.signal);
  }
  return timeline->record().Write(card(), submission.signal, stream_);
}

Outcome Queue::Mark(uint64_t* out_mark) {
  *out_mark = ++marks_;
  return card().WriteWord(&progress_.fault->word, *out_mark, stream_);
}

Outcome Queue::CallHost(const tenon_submission& submission, std::function<void(const Outcome&)> function) {
  const std::shared_ptr<Timeline> timeline =
      submission.timeline == nullptr ? nullptr : Timeline::Of(submission.timeline)->shared_from_this();
  const std::shared_ptr<Queue> self = shared_from_this();
  const Turn turn(*this, timeline.get());
  Outcome outcome = turn.outcome();
  if (!outcome.ok() && outcome.code != TENON_UNAVAILABLE) return outcome;
  uint64_t mark = 0;
  if (outcome.ok()) outcome = Await(submission, timeline.get());
  if (outcome.ok()) outcome = Mark(&mark);
  const uint64_t call = ++calls_;
  if (outcome.ok()) outcome = called_.Await(card(), call, stream_);
  if (outcome.ok()) outcome = Tell(submission, timeline.get());
  (void)device_->Note(std::move(outcome));
  {
    const std::lock_guard lock(call_mutex_);
    ++open_calls_;
  }
  // A lost GPU takes host calls too; the watcher finds out.
  const std::lock_guard lock(device_->system().mutex);
  device_->system().watcher.Watch(
      device_, [self, mark] { return self->device_->is_lost() || self->HasReached(mark); },
      [self, timeline, call, function = std::move(function)] {
        function(self->OutcomeOfCall(timeline.get()));
        if (!self->closed_) self->called_.Set(call);
        const std::lock_guard lock(self->call_mutex_);
        --self->open_calls_;
        self->call_ended_.notify_all();
      });
  return {};
}

Outcome Queue::OutcomeOfCall(Timeline* timeline) {
  if (device_->is_lost()) return device_->lost();
  const std::lock_guard lock(device_->system().mutex);
  if (timeline != nullptr && timeline->At(timeline->next_point()) == Timeline::State::kFailed)
    return timeline->failure();
  if (closed_)
    return Fault(TENON_CANCELLED, "a queue of ", device_->name(), " was destroyed before its host call began");
  return {};
}

void Queue::FreeLater(std::function<void()> free) {
  uint64_t mark = 0;
  {
    const Turn turn(*this, nullptr);
    if (!turn.outcome().ok() || !device_->Note(Mark(&mark)).ok()) mark = 0;
  }
  const std::lock_guard lock(device_->system().mutex);
  device_->system().watcher.Watch(
      device_, [self = shared_from_this(), mark] { return self->device_->is_lost() || self->HasReached(mark); },
      std::move(free));
}

// ---- Reading back ----

// Pinned memory for words that a stream writes: records of the device.
class Queue::Words {
 public:
  static constexpr size_t kOfRecord = sizeof(FaultRecord) / sizeof(int64_t);
  explicit Words(Queue& queue) : queue_(queue) {}
  // A stream that has not got there still writes them.
  ~Words() {
    const auto give_back = [device = queue_.device_, records = std::move(records_)] {
      for (const Record& record : records) device->ReturnRecord(record);
    };
    if (is_written) give_back();
    else queue_.FreeLater(give_back);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;

  // Before the turn that they are copied in.
  Outcome MakeRoom(size_t count) {
    for (size_t done = 0; done < count; done += kOfRecord) {
      Record record;
      if (Outcome outcome = queue_.device_->NewRecord(&record); !outcome.ok()) return outcome;
      records_.push_back(record);
    }
    return {};
  }
  Outcome CopyFrom(const int64_t* words, size_t count) {
    is_written = false;
    Outcome outcome;
    for (size_t done = 0; done < count && outcome.ok(); done += kOfRecord) {
      const size_t n = std::min(kOfRecord, count - done);
      outcome = queue_.card().Copy(records_[done / kOfRecord].fault, words + done, n * sizeof(int64_t), queue_.stream_);
    }
    return outcome;
  }
  void CopyTo(std::span<int64_t> out) const {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = reinterpret_cast<const int64_t*>(records_[i / kOfRecord].fault)[i % kOfRecord];
  }
  bool is_written = true;  // no stream will write there

 private:
  Queue& queue_;
  std::vector<Record> records_;
};

Outcome Queue::Read(Timeline* timeline, const int64_t* words, std::span<int64_t> out,
                    const std::function<bool()>& is_cancelled) {
  if (keeps_)
    return Fault(TENON_FAILED_PRECONDITION, "a capture of ", device_->name(), " cannot wait for its own work");
  uint64_t mark = 0;
  Words copy(*this);
  if (Outcome outcome = copy.MakeRoom(out.size()); !outcome.ok()) return device_->Note(std::move(outcome));
  {
    const Turn turn(*this, timeline);
    Outcome outcome = turn.outcome();
    if (outcome.ok()) outcome = copy.CopyFrom(words, out.size());
    if (outcome.ok()) outcome = Mark(&mark);
    if (!outcome.ok()) return device_->Note(std::move(outcome));
  }
  const auto is_due = [&] { return HasReached(mark) || device_->is_lost(); };
  Outcome outcome = WaitFor(*device_, {}, Patience::Clock::time_point::max(), is_due,
                            [&](bool) { return StateAt(mark, timeline, is_cancelled); });
  copy.is_written = HasReached(mark);
  if (outcome.ok()) copy.CopyTo(out);
  return outcome;
}

// None: it has not come there yet.
std::optional<Outcome> Queue::StateAt(uint64_t mark, Timeline* timeline,
                                      const std::function<bool()>& is_cancelled) const {
  const bool reached = HasReached(mark);  // before the timeline is asked: what was reported is there when the mark is
  if (device_->is_lost()) return device_->lost();
  if (timeline != nullptr) {
    const std::lock_guard lock(device_->system().mutex);
    if (timeline->At(timeline->next_point()) == Timeline::State::kFailed) return timeline->failure();
  }
  if (reached) return Outcome();
  if (is_cancelled()) return Fault(TENON_CANCELLED, "the step ended while the host waited for ", device_->name());
  return {};
}

// ---- Copies and fills ----

Outcome Queue::Copy(const Place& target, const Place& source, uint64_t bytes) {
  if (bytes == 0) return {};
  if ((target.device == nullptr && !target.pinned) || (source.device == nullptr && !source.pinned)) {
    return CopyThroughStaging(target, source, bytes);
  }
  if (source.device != nullptr && target.device != nullptr && source.device != target.device) {
    return card().CopyBetween(target.address, target.device->card(), source.address, source.device->card(), bytes,
                              stream_);
  }
  return card().Copy(target.address, source.address, bytes, stream_);
}

// Pageable memory is read and written by the host when the stream gets there: a driver that did so while it submits
// would wait for work that this thread has still to submit.
Outcome Queue::CopyThroughStaging(const Place& target, const Place& source, uint64_t bytes) {
  if (staging_ == nullptr)
    return Fault(TENON_FAILED_PRECONDITION, "a capture of ", device_->name(), " copies pinned memory alone");
  if (target.device != nullptr) return staging_->ToDevice(target.address, source.address, bytes, priority_, stream_);
  if (source.device != nullptr) return staging_->FromDevice(target.address, source.address, bytes, priority_, stream_);
  return staging_->CopyOnHost(target.address, source.address, bytes, stream_);
}

Outcome Queue::Fill(char* target, uint64_t bytes, const char* pattern, uint64_t pattern_bytes) {
  if (bytes == 0) return {};
  const bool even = std::all_of(pattern, pattern + pattern_bytes, [&](char c) { return c == pattern[0]; });
  const uint64_t unit = even ? 1 : pattern_bytes;
  uint32_t value = 0;
  std::memcpy(&value, pattern, std::min<uint64_t>(unit, 4));
  if (unit <= 4 && bytes % unit == 0 && reinterpret_cast<uintptr_t>(target) % unit == 0) {
    return card().Fill(target, value, static_cast<uint32_t>(unit), bytes / unit, stream_);
  }
  // The filled part doubles until all is filled; its beginning is written byte by byte.
  uint64_t done = std::min(bytes, pattern_bytes);
  Outcome outcome;
  for (uint64_t i = 0; i < done && outcome.ok(); ++i)
    outcome = card().Fill(target + i, static_cast<unsigned char>(pattern[i]), 1, 1, stream_);
  while (done < bytes && outcome.ok()) {
    const uint64_t more = std::min(done, bytes - done);
    outcome = card().Copy(target + done, target, more, stream_);
    done += more;
  }
  return outcome;
}

}  // namespace tenon::gpu
