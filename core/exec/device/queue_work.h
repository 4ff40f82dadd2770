// SPDX-License-Identifier: Apache-2.0
// QueueWork: what one step has submitted to the queues of asynchronous devices, and how its end is known.
//
// An instance (a step's memory) has one. There is a timeline for each queue that the instance uses; a point on it is
// signalled only where another queue or the host waits. When work fails, or the step is cancelled, the
// timelines fail: what has not begun is not run, and the instance gets new ones for its next step.
//
// Invariants. Complete() returns when nothing of the step runs on a device any more; only then may its memory be used
// again. Should a device not come back within `patience`, abandoned() is true, and the memory is never used again.
// One thread drives a step; a cancellation may come from any.
//
// A step whose results nobody waits for (Step::may_end_later) may end later: Complete() then returns when its work has
// been submitted and what it reads of the host's memory has been read. Its end is a point of its device's main queue,
// behind which all that the instance's next step submits stands: memory that only the queues use needs no wait of the
// host. What of other steps comes to the same variables and pools does so by the main queue too (device.h). Only so
// many steps go ahead of a device. A failure is found by the session's next step (Unfinished). A step that is cancelled
// does not end those before it.
#ifndef TENON_CORE_EXEC_DEVICE_QUEUE_WORK_H_
#define TENON_CORE_EXEC_DEVICE_QUEUE_WORK_H_

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/cancellation.h"
#include "core/exec/device/queue_id.h"
#include "core/exec/device/timeline.h"
#include "core/exec/device/unfinished.h"
#include "core/tensor/buffer.h"
#include "tenon/ext/draft/capture.h"

struct tenon_resource;

namespace tenon::exec {

struct Environment;
struct SessionDevice;
struct Step;

class QueueWork final : public UnfinishedWork {
 public:
  static constexpr std::chrono::seconds kPatience{10};           // with the queues of a step that has failed
  static constexpr std::chrono::seconds kPatienceWithAStep{60};  // that has returned
  static constexpr size_t kMostAhead = 16;  // steps that have returned; then it waits until half of them have ended
  explicit QueueWork(const Environment* env, std::chrono::seconds patience = kPatience)
      : env_(env), patience_(patience) {}
  ~QueueWork() = default;

  // Before the first submission of a step.
  Status Begin(Step* step);
  bool begun() const { return step_ != nullptr; }
  // Makes the queue ready for work of the step; on its first use in the instance, makes its timeline.
  Status Use(QueueId queue);
  tenon_queue* queue(QueueId queue) const;
  tenon_semaphore* timeline(QueueId queue) const { return lanes_[queue].timeline->semaphore(); }

  // The queue waits, or tells a point that it has done all submitted so far. The point is returned.
  Status Wait(QueueId queue, std::span<const tenon_timeline_point> points);
  Result<tenon_timeline_point> Signal(QueueId queue, std::string_view label);
  // Copies; out_point: where its end is told, NULL: nobody asks.
  Status Copy(QueueId queue, const tenon_copy_args& args, std::span<const tenon_timeline_point> waits,
              std::string_view label, tenon_timeline_point* out_point);
  // Launches what was captured for the queue.
  Status Launch(QueueId queue, const tenon_graph_capture& capture, tenon_captured_graph* graph, std::string_view label);
  // The host waits.
  Status HostWait(const tenon_timeline_point& point);

  // Updates of variables have been submitted to the queue, and ended.
  Status NoteWrites(QueueId queue, std::span<tenon_resource* const> resources);
  // The host waits for all that was submitted so far; what was held until then is released.
  Status CatchUp();
  // What is submitted to `queue` from now on comes after all that the other devices have so far.
  Status Follow(QueueId queue);
  // Complete() will answer so.
  void FailLater(Status status) {
    if (later_.ok()) later_ = std::move(status);
  }
  // The queue waits for another step's write of the variable, if it is still under way.
  Status AwaitWrite(QueueId queue, tenon_resource* resource);
  // The reference is released when the step's work is done.
  void Hold(Buffer* buffer) {
    held_.push_back(buffer);
    held_bytes_ += buffer->capacity;
  }
  uint64_t held_bytes() const { return held_bytes_; }

  // Waits for all of the step; `status` is how the host's part went, and the answer how the whole went. may_end_later:
  // no memory that is the caller's is used by the queues but such as they copy from.
  Status Complete(Status status, bool may_end_later = false);
  bool abandoned() const override { return abandoned_; }
  // Between steps, by one thread at a time.
  bool goes_on() const override { return !ahead_.empty(); }
  Status LookAhead() override;
  Status AwaitAhead() override;
  // Within a step: waits for those before it.
  Status AwaitStepsBefore();
  // Before the instance goes: as AwaitAhead; a failure is told to the session's next step.
  void Close();
  // Whether the instance's points have no meaning any more: its timelines are new.
  bool TakeRenewed() { return std::exchange(renewed_, false); }

 private:
  struct Lane {
    std::shared_ptr<Timeline> timeline;
    uint64_t value = 0;  // last told
    bool used = false;   // in this step
    bool ahead = false;  // by steps before that may not have ended
    bool reads_host = false;  // in this step
  };
  struct Write {
    tenon_resource* resource;
    Buffer* buffer;
    QueueId queue;
    uint64_t value;
  };
  // A step that has returned.
  struct Ahead {
    uint64_t end;  // on the main queue's timeline
    std::vector<std::shared_ptr<Timeline>> borrowed;
  };
  enum class Known { kAllEnded, kSoFar, kFailed };
  const Device& DeviceOf(QueueId queue) const;
  tenon_submission Submission(QueueId queue, std::span<const tenon_timeline_point> waits, uint64_t signal,
                              std::string_view label) const;
  Status Barrier(QueueId queue, const tenon_submission& submission) const;
  Status AwaitPoint(const Device& device, const tenon_timeline_point& point);
  void LogAbandoned() const;
  // A point of the device's main queue that comes after all that the step has submitted; value 0: nothing.
  Result<tenon_timeline_point> EndOf(const SessionDevice& device);
  Status WaitForDevices();
  const SessionDevice* OnlyDevice() const;
  bool MayEndLater() const;
  Status EndLater();
  Status AwaitRoom();
  Status AwaitSteps(size_t count);
  Status AwaitEnds() const;
  void GoOnLater();
  void EndFailed(const Status& why);
  void FailLanes(const Status& status);
  Status Drain();
  void SettleWrites(Known known);
  tenon_copy_args NamePinned(tenon_copy_args args, const Device& device);
  void ReleaseHeld();
  void ReleasePinned();

  const Environment* env_;
  std::chrono::seconds patience_;  // with the queues of a step that has failed
  Step* step_ = nullptr;
  IdVector<QueueId, Lane> lanes_;
  std::vector<Write> writes_;
  std::vector<std::shared_ptr<Timeline>> borrowed_;  // of other steps
  std::vector<Buffer*> held_;
  std::vector<Buffer*> pinned_;  // of pinned tensors, that the step's copies name
  uint64_t held_bytes_ = 0;
  std::vector<tenon_timeline_point> ends_;
  std::deque<Ahead> ahead_;
  QueueId main_;  // of the steps ahead
  std::mutex mutex_;  // timelines against a cancellation, spares_
  bool spares_ = false;  // a cancellation leaves the timelines alone: steps before use them
  Status later_;
  Subscription cancelled_;
  std::atomic<bool> abandoned_{false};
  bool renewed_ = false, writes_host_ = false;
  bool listed_ = false;  // among the unfinished, or was, as far as who drives the instance knows
};

// A copy that a device makes by itself, outside of any step; waits for it until `cancellation` (nullptr: none) ends it.
// out_abandoned: whether the device may still use what the copy names.
Status CopyNow(const Environment& env, const SessionDevice& device, const tenon_copy_args& args, std::string_view label,
               Cancellation* cancellation, bool* out_abandoned);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_QUEUE_WORK_H_
