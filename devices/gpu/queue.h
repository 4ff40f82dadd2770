// SPDX-License-Identifier: Apache-2.0
// Queue: a stream of the GPU, with what a queue of device.h asks beyond one: timelines, host calls, copies of any
// memory.
//
// Work goes to the stream at once, from the submitting thread; the GPU waits and signals by itself. A Turn is the right
// to submit: one piece of work, of one timeline, at a time. In a Turn the GPU is the calling thread's, so that
// libraries of the vendor may be called. What a failed timeline is given is not submitted, as far as its failure is
// known.
#ifndef TENON_DEVICES_GPU_QUEUE_H_
#define TENON_DEVICES_GPU_QUEUE_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "device.h"
#include "staging.h"
#include "tenon/device.h"
#include "work_list.h"

namespace tenon::gpu {

// What captured work needs for as long as it may be launched.
class Kept {
 public:
  virtual ~Kept() = default;
  std::atomic<uint64_t> launches{0};  // of what it is kept for
};

class Queue : public sdk::Handled<Queue, tenon_queue> {
 public:
  // number: within its device; of a capture, its parent's.
  Queue(std::shared_ptr<Device> device, int32_t priority, uint64_t number)
      : device_(std::move(device)), priority_(priority), number_(number) {}
  ~Queue();
  Outcome Open();
  // Opens it as one that keeps what it is given, for launches on `parent`, whose control its kernels get.
  Outcome OpenCapture(Queue& parent);
  // Of a capture, whose work will be launched there; else NULL.
  Queue* parent() const { return parent_; }
  // Of a capture: what its graph needs. By the thread that captures.
  void Keep(std::shared_ptr<Kept> kept) { kept_.push_back(std::move(kept)); }
  const std::vector<std::shared_ptr<Kept>>& kept() const { return kept_; }
  // By the thread that captures, which until then may do little else; it is over however it ends.
  Outcome EndCapture(CapturedGraph* out_graph, uint64_t* out_nodes);
  // Opens it as one that notes what it is given, for `parent`.
  void OpenList(const Queue& parent);
  // Of one that notes; else NULL.
  WorkList* list() const { return list_.get(); }
  // Needs a Turn that joins. Launches of a capture that may become one wait for what is given next.
  Outcome GiveListed(const WorkList& list, uint64_t first, uint64_t count);
  Outcome SubmitJoined() { return joined_.Submit(card(), stream_); }
  // Nothing is taken any more. What waits is let go (the timelines that it waits for fail: nothing else ends such a
  // wait), host calls that have not begun are told so, and all has ended when this returns, but for the host call that
  // it is called from.
  void Close();

  Device& device() const { return *device_; }
  uint64_t number() const { return number_; }
  // Who notes the work of this queue; NULL while nobody watches, and of captures.
  Profile* profile() const { return !keeps_ && device_->profile().is_watched() ? &device_->profile() : nullptr; }
  Card& card() const { return device_->card(); }
  Stream stream() const { return stream_; }
  // Needs a Turn.
  FaultControl* control() const { return control_; }

  class Turn {
   public:
    // timeline NULL: the work belongs to none. Fails when the GPU is lost or the queue is closed. joins: for
    // GiveListed.
    Turn(Queue& queue, Timeline* timeline, bool joins = false);
    const Outcome& outcome() const { return outcome_; }
    // Whether the timeline is known to have failed: its work is left out.
    bool pointless() const { return pointless_; }

   private:
    std::unique_lock<std::mutex> lock_;
    Outcome outcome_;
    bool pointless_ = false;
  };

  // One submission: its waits, the work, its signal. work(): gives an Outcome; not called where it would be pointless.
  // kind: for the profile; NULL: there is no work.
  template <class Work>
  Outcome Submit(const tenon_submission& submission, const char* kind, Work&& work) {
    Timeline* const timeline = Timeline::Of(submission.timeline);
    const Turn turn(*this, timeline);
    Outcome outcome = turn.outcome();
    if (outcome.ok()) outcome = Await(submission, timeline);
    if (outcome.ok() && !turn.pointless()) {
      const Profile::Piece piece(kind == nullptr ? nullptr : profile(), number_, stream_, submission.label, kind);
      outcome = work();
    }
    if (outcome.ok()) outcome = Tell(submission, timeline);
    return device_->Note(std::move(outcome));
  }
  // Calls function(outcome so far) on the watcher's thread when the queue gets there, and goes on when it has returned.
  Outcome CallHost(const tenon_submission& submission, std::function<void(const Outcome&)> function);

  // Where the bytes of a copy are.
  struct Place {
    char* address = nullptr;
    Device* device = nullptr;  // NULL: the host
    bool pinned = false;       // the stream may read and write it by itself
  };
  // Needs a Turn.
  Outcome Copy(const Place& target, const Place& source, uint64_t bytes);
  Outcome Fill(char* target, uint64_t bytes, const char* pattern, uint64_t pattern_bytes);

  // Words of device memory, when the work submitted so far is done. Waits for that without a lock; it ends early when
  // the timeline has failed (what kernels have reported until then counts), is_cancelled(), or the GPU is lost. Not of
  // captures.
  Outcome Read(Timeline* timeline, const int64_t* words, std::span<int64_t> out,
               const std::function<bool()>& is_cancelled);

  // Asks the stream to say when it has got here; needs a Turn. Not of captures.
  Outcome Mark(uint64_t* out_mark);
  bool HasReached(uint64_t mark) const { return progress_.word() >= mark; }

  // Runs free() when the work submitted so far is done.
  void FreeLater(std::function<void()> free);

 private:
  Outcome Await(const tenon_submission& submission, Timeline* timeline);
  Outcome Tell(const tenon_submission& submission, Timeline* timeline);
  Outcome SwitchTo(Timeline* timeline);
  Outcome OutcomeOfCall(Timeline* timeline);
  Outcome CopyThroughStaging(const Place& target, const Place& source, uint64_t bytes);
  class Words;
  std::optional<Outcome> StateAt(uint64_t mark, Timeline* timeline, const std::function<bool()>& is_cancelled) const;

  const std::shared_ptr<Device> device_;
  const int32_t priority_;
  const uint64_t number_;
  std::mutex mutex_;
  Stream stream_ = nullptr;
  FaultControl* control_ = nullptr;   // device memory
  bool keeps_ = false;                // a capture or a list: control_ is another's
  bool is_capturing_ = false;         // begun, and not ended well
  Queue* parent_ = nullptr;           // of a capture
  std::vector<std::shared_ptr<Kept>> kept_;
  std::unique_ptr<WorkList> list_;
  WorkList::Joined joined_;           // of a capture
  Record progress_;                   // its word is how far the stream has come
  Record called_;                     // its word is which host calls have returned
  uint64_t current_ = 0;              // number of the timeline that control_ names
  uint64_t marks_ = 0, calls_ = 0;
  std::vector<std::pair<std::shared_ptr<Timeline>, uint64_t>> waits_;  // that were open when they were submitted
  std::unique_ptr<Staging> staging_;  // none: of a capture or a list
  std::atomic<bool> closed_{false};

  std::mutex call_mutex_;
  std::condition_variable call_ended_;
  uint64_t open_calls_ = 0;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_QUEUE_H_
