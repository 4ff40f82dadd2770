// SPDX-License-Identifier: Apache-2.0
#include "core/exec/device/queue_work.h"

#include <algorithm>
#include <condition_variable>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/exec/device/async_calls.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/pinned.h"
#include "core/exec/device/step.h"
#include "core/trace/trace.h"

namespace tenon::exec {
namespace {

constexpr uint64_t kQueueTurnNs = 500'000'000;

// Counts the queues that have not got past a step's work.
struct Passed {
  std::mutex mutex;
  std::condition_variable changed;
  size_t open = 0;
};

// Of a number of AsyncCalls: a driver may refuse the call and make it all the same, or make it after all patience.
void NotePassed(void* number, tenon_status* status) {
  const Status ignored(status);  // of a queue that is lost: it runs nothing either
  auto* const passed = static_cast<Passed*>(AsyncCalls::The().Close(number));
  if (passed == nullptr) return;
  std::lock_guard lock(passed->mutex);
  if (--passed->open == 0) passed->changed.notify_all();
}

}  // namespace

const Device& QueueWork::DeviceOf(QueueId queue) const {
  return *env_->devices[env_->queues[queue].device].device;
}

tenon_queue* QueueWork::queue(QueueId queue) const { return env_->queues[queue].queue; }

tenon_submission QueueWork::Submission(QueueId queue, std::span<const tenon_timeline_point> waits, uint64_t signal,
                                       std::string_view label) const {
  return {TENON_HEAD(tenon_submission), waits.data(), waits.size(), timeline(queue), signal, Span(label)};
}

Status QueueWork::Begin(Step* step) {
  if (env_->unfinished != nullptr) {
    TENON_RETURN_IF_ERROR(env_->unfinished->TakeFailure());
    if (std::exchange(listed_, false)) env_->unfinished->Remove(this);
  }
  if (abandoned_)
    return Status(Code::kUnavailable,
                  "work of a step before does not leave its device's queues; its memory is not used again");
  step_ = step;
  writes_host_ = false;
  lanes_.resize(env_->queues.size());
  spares_ = goes_on();
  const bool begun = cancelled_.Begin(step->cancellation, [this](const Status& reason) {
    std::lock_guard lock(mutex_);
    if (!spares_) FailLanes(reason);
  });
  if (!begun) return step->cancellation->reason();
  return ahead_.size() < kMostAhead ? Status::Ok() : AwaitRoom();
}

Status QueueWork::Use(QueueId queue) {
  Lane& lane = lanes_[queue];
  const bool first = !std::exchange(lane.used, true);
  if (lane.timeline == nullptr) {
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<Timeline> timeline, Timeline::Create(&DeviceOf(queue)));
    std::lock_guard lock(mutex_);
    lane.timeline = std::move(timeline);
  }
  if (!first || !goes_on() || queue == main_) return Status::Ok();
  // What the steps before do on other queues ends at that point.
  const tenon_timeline_point end{lanes_[main_].timeline->semaphore(), ahead_.back().end};
  return Wait(queue, {&end, 1});
}

Status QueueWork::Barrier(QueueId queue, const tenon_submission& submission) const {
  const Device& device = DeviceOf(queue);
  return CallPlugin(device.plugin, "queue_barrier",
                    [&] { return device.driver->queue_barrier(this->queue(queue), &submission); });
}

Status QueueWork::Wait(QueueId queue, std::span<const tenon_timeline_point> points) {
  const tenon_submission submission = Submission(queue, points, 0, "wait");
  return Barrier(queue, submission);
}

Result<tenon_timeline_point> QueueWork::Signal(QueueId queue, std::string_view label) {
  Lane& lane = lanes_[queue];
  const tenon_submission submission = Submission(queue, {}, lane.value + 1, label);
  TENON_RETURN_IF_ERROR(Barrier(queue, submission));
  return tenon_timeline_point{submission.timeline, ++lane.value};
}

Status QueueWork::Copy(QueueId queue, const tenon_copy_args& args, std::span<const tenon_timeline_point> waits,
                       std::string_view label, tenon_timeline_point* out_point) {
  Lane& lane = lanes_[queue];
  lane.reads_host = lane.reads_host || args.source_device == nullptr;
  writes_host_ = writes_host_ || args.target_device == nullptr;
  const tenon_submission submission = Submission(queue, waits, out_point == nullptr ? 0 : lane.value + 1, label);
  const Device& device = DeviceOf(queue);
  const DeviceCopy* between = args.source_device == nullptr || args.target_device == nullptr
                                  ? nullptr
                                  : env_->FindCopy(args.source_device, args.target_device);
  if (between != nullptr) {
    Status status = CallPlugin(between->plugin, "copy", [&] {
      return between->table->copy(between->self, this->queue(queue), &args, &submission);
    });
    if (!status.ok()) return std::move(status).Annotate(DescribePlugin(between->plugin));
  } else {
    const tenon_copy_args named = NamePinned(args, device);
    TENON_RETURN_IF_ERROR(CallPlugin(device.plugin, "queue_copy", [&] {
      return device.driver->queue_copy(this->queue(queue), &named, &submission);
    }));
  }
  if (out_point != nullptr) *out_point = {submission.timeline, ++lane.value};
  return Status::Ok();
}

// To a driver its own pinned memory is no ordinary one. What the copy uses of it stays until the step's end.
tenon_copy_args QueueWork::NamePinned(tenon_copy_args args, const Device& device) {
  const auto owner = [&](const void* data) -> tenon_device* {
    Buffer* const buffer = RetainPinnedAround(data, args.bytes);
    if (buffer == nullptr) return nullptr;
    if (std::find(pinned_.begin(), pinned_.end(), buffer) == pinned_.end()) pinned_.push_back(buffer);
    else Release(buffer);
    return OwnerOfPinned(*buffer, device);
  };
  if (args.source_device == nullptr) args.source_device = owner(args.source);
  if (args.target_device == nullptr) args.target_device = owner(args.target);
  return args;
}

Status QueueWork::Launch(QueueId queue, const tenon_graph_capture& capture, tenon_captured_graph* graph,
                         std::string_view label) {
  const tenon_submission submission = Submission(queue, {}, 0, label);
  TENON_RETURN_IF_ERROR(CallPlugin(DeviceOf(queue).plugin, "launch",
                                   [&] { return capture.launch(this->queue(queue), graph, &submission); }));
  ++step_->captured_launches;
  return Status::Ok();
}

// In turns, so that a step that was cancelled, or is late, does not wait for a device that never answers.
Status QueueWork::AwaitPoint(const Device& device, const tenon_timeline_point& point) {
  for (;;) {
    const uint64_t until = NowNs() + kQueueTurnNs;
    Status status = CallPlugin(device.plugin, "semaphore_wait",
                               [&] { return device.driver->semaphore_wait(point.semaphore, point.value, until); });
    // A failure before the turn has passed is the work's own.
    if (status.code() != Code::kDeadlineExceeded || NowNs() < until) return status;
    if (!step_->cancellation->cancelled()) continue;
    return step_->cancellation->reason().Annotate(
        StrCat(DescribePlugin(device.plugin), ": the work of ", device.name, " has not ended"));
  }
}

Status QueueWork::HostWait(const tenon_timeline_point& point) {
  if (point.value == 0) return Status::Ok();
  if (step_->cancellation->cancelled()) return step_->cancellation->reason();
  ++step_->host_waits;
  for (const Lane& lane : lanes_) {
    if (lane.timeline == nullptr || lane.timeline->semaphore() != point.semaphore) continue;
    const Device& device = lane.timeline->device();
    const uint64_t begin = step_->trace == nullptr ? 0 : trace::Trace::Now();
    Status status = AwaitPoint(device, point);
    if (step_->trace != nullptr)
      step_->trace->Add(StrCat("wait for ", device.name), "wait", begin, trace::Trace::Now());
    return status.ok() || step_->cancellation->cancelled() ? std::move(status)
                                                           : std::move(status).Annotate(device.name);
  }
  return Internal("a step waits for a point of no timeline of its own");
}

Status QueueWork::NoteWrites(QueueId queue, std::span<Resource* const> resources) {
  TENON_ASSIGN_OR_RETURN(const tenon_timeline_point point, Signal(queue, "written"));
  for (Resource* resource : resources) {
    std::lock_guard lock(resource->mutex);
    resource->written = {lanes_[queue].timeline, point.value};
    writes_.push_back({resource, resource->value, queue, point.value});
  }
  return Status::Ok();
}

Status QueueWork::AwaitWrite(QueueId queue, Resource* resource) {
  WritePoint written;
  {
    std::lock_guard lock(resource->mutex);
    written = resource->written;
  }
  if (written.timeline == nullptr || written.timeline == lanes_[queue].timeline) return Status::Ok();
  uint64_t reached = 0;
  if (written.timeline->Query(&reached).ok() && reached >= written.value) return Status::Ok();
  const tenon_timeline_point point{written.timeline->semaphore(), written.value};
  borrowed_.push_back(std::move(written.timeline));
  return Wait(queue, {&point, 1});
}

void QueueWork::ReleasePinned() {
  for (Buffer* buffer : pinned_) Release(buffer);
  pinned_.clear();
}

void QueueWork::ReleaseHeld() {
  ReleasePinned();
  for (Buffer* buffer : held_) Release(buffer);
  held_.clear();
  held_bytes_ = 0;
}

Status QueueWork::CatchUp() {
  TENON_RETURN_IF_ERROR(WaitForDevices());
  ReleaseHeld();
  return Status::Ok();
}

Status QueueWork::Follow(QueueId queue) {
  ends_.clear();
  for (const SessionDevice& device : env_->devices) {
    if (!device.queued() || device.first_queue == queue || !lanes_[device.first_queue].used) continue;
    if (device.device->driver != DeviceOf(queue).driver) return CatchUp();
    TENON_ASSIGN_OR_RETURN(const tenon_timeline_point end, Signal(device.first_queue, "followed"));
    ends_.push_back(end);
  }
  return ends_.empty() ? Status::Ok() : Wait(queue, ends_);
}

// The main queue comes after the others.
Result<tenon_timeline_point> QueueWork::EndOf(const SessionDevice& device) {
  ends_.clear();
  for (const QueueId q :
       IdRange(device.first_queue.next(), QueueId(device.first_queue.number() + device.device->queues->size())))
    if (lanes_[q].used) {
      TENON_ASSIGN_OR_RETURN(const tenon_timeline_point end, Signal(q, "end of step"));
      ends_.push_back(end);
    }
  if (ends_.empty() && !lanes_[device.first_queue].used) return tenon_timeline_point{};
  TENON_RETURN_IF_ERROR(Use(device.first_queue));
  if (!ends_.empty()) TENON_RETURN_IF_ERROR(Wait(device.first_queue, ends_));
  return Signal(device.first_queue, "end of step");
}

// One wait a device.
Status QueueWork::WaitForDevices() {
  for (const SessionDevice& device : env_->devices) {
    if (!device.queued()) continue;
    TENON_ASSIGN_OR_RETURN(const tenon_timeline_point end, EndOf(device));
    TENON_RETURN_IF_ERROR(HostWait(end));
  }
  return Status::Ok();
}

Status QueueWork::Complete(Status status, bool may_end_later) {
  if (step_ == nullptr) return status;
  // Nothing was submitted behind the steps before: they stay as they are.
  if (goes_on() && std::none_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.used; })) {
    (void)cancelled_.End();
    Status before = Unfinished::OfStepBefore(LookAhead());
    GoOnLater();
    return status.ok() ? std::move(before) : std::move(status);
  }
  // The host's own failure leaves the devices' work as it is: what was begun ends well, as on a synchronous device.
  const bool later = may_end_later && status.ok() && later_.ok() && MayEndLater();
  Status devices = Guarded([&] { return later ? EndLater() : WaitForDevices(); });
  if (devices.ok()) devices = std::exchange(later_, Status::Ok());
  // A cancellation may come when all of the work has ended: the step is done, but its timelines have failed, and are
  // not the next step's.
  const bool cancelled = !cancelled_.End();
  if (later && devices.ok() && !cancelled) {
    ReleasePinned();  // it has been read
    GoOnLater();
    return status;
  }
  if (later && devices.ok()) devices = step_->cancellation->reason();
  if (!devices.ok()) {
    EndFailed(devices);
    if (env_->unfinished != nullptr) env_->unfinished->Told(devices);
  } else {
    SettleWrites(Known::kAllEnded);
    ahead_.clear();
    for (Lane& lane : lanes_) {
      if (cancelled) lane = {};
      lane.used = lane.ahead = lane.reads_host = false;
    }
    renewed_ = renewed_ || cancelled;
    borrowed_.clear();
    ReleaseHeld();
  }
  step_ = nullptr;
  return status.ok() ? std::move(devices) : std::move(status);
}

// ---- Steps that end later ----

// The one that the step used; nullptr: several, or none.
const SessionDevice* QueueWork::OnlyDevice() const {
  const SessionDevice* only = nullptr;
  for (const QueueId q : lanes_.ids()) {
    if (!lanes_[q].used) continue;
    const SessionDevice* const device = &env_->devices[env_->queues[q].device];
    if (only != nullptr && only != device) return nullptr;
    only = device;
  }
  return only;
}

bool QueueWork::MayEndLater() const {
  return env_->unfinished != nullptr && step_->may_end_later && !writes_host_ && held_.empty() &&
         step_->local_resources.empty() && step_->objects.empty() && OnlyDevice() != nullptr;
}

Status QueueWork::EndLater() {
  const SessionDevice& device = *OnlyDevice();
  TENON_ASSIGN_OR_RETURN(const tenon_timeline_point end, EndOf(device));
  // The host's memory is the caller's, or the host's next step's.
  for (const Lane& lane : lanes_)
    if (lane.used && lane.reads_host) TENON_RETURN_IF_ERROR(HostWait({lane.timeline->semaphore(), lane.value}));
  main_ = device.first_queue;
  ahead_.push_back({end.value, std::move(borrowed_)});
  borrowed_.clear();
  return Status::Ok();
}

// Until there are steps again that end later.
void QueueWork::GoOnLater() {
  for (Lane& lane : lanes_) {
    lane.ahead = lane.ahead || lane.used;
    lane.used = lane.reads_host = false;
  }
  step_ = nullptr;
  if (!goes_on()) return;
  listed_ = env_->unfinished->Add(this);
  if (listed_) return;
  if (Status status = AwaitAhead(); !status.ok()) env_->unfinished->Tell(std::move(status));
}

Status QueueWork::AwaitRoom() { return AwaitSteps(kMostAhead / 2); }
Status QueueWork::AwaitStepsBefore() { return AwaitSteps(ahead_.size()); }

// The oldest of those before.
Status QueueWork::AwaitSteps(size_t count) {
  if (count == 0) return Status::Ok();
  TENON_RETURN_IF_ERROR(HostWait({lanes_[main_].timeline->semaphore(), ahead_[count - 1].end}));
  return Unfinished::OfStepBefore(LookAhead());
}

Status QueueWork::LookAhead() {
  if (!goes_on()) return Status::Ok();
  uint64_t reached = 0;
  Status failed = lanes_[main_].timeline->Query(&reached);
  if (failed.ok()) {
    while (goes_on() && ahead_.front().end <= reached) ahead_.pop_front();
    SettleWrites(goes_on() ? Known::kSoFar : Known::kAllEnded);
    if (goes_on()) return failed;
    for (Lane& lane : lanes_) lane.ahead = false;
    std::lock_guard lock(mutex_);
    spares_ = false;
    return failed;
  }
  EndFailed(failed);
  return failed;
}

// Each gets patience of its own: steps may be long, and nobody has cancelled these.
Status QueueWork::AwaitEnds() const {
  if (!goes_on()) return Status::Ok();
  const Device& device = DeviceOf(main_);
  Status ended;
  for (const Ahead& each : ahead_) {
    const uint64_t until =
        NowNs() + static_cast<uint64_t>(std::chrono::nanoseconds(kPatienceWithAStep / kPatience * patience_).count());
    if (ended.ok())
      ended = CallPlugin(device.plugin, "semaphore_wait", [&] {
        return device.driver->semaphore_wait(lanes_[main_].timeline->semaphore(), each.end, until);
      });
  }
  return ended;
}

Status QueueWork::AwaitAhead() {
  Status ended = AwaitEnds();
  if (ended.ok()) return LookAhead();
  EndFailed(ended);
  return ended;
}

void QueueWork::Close() {
  if (std::exchange(listed_, false)) env_->unfinished->Remove(this);
  if (Status status = AwaitAhead(); !status.ok()) env_->unfinished->Tell(std::move(status));
}

// ---- Failures ----

// What was submitted ends, or is given up.
void QueueWork::EndFailed(const Status& why) {
  // The steps before have failed if the device says so, not by what came after them.
  if (step_ != nullptr) (void)AwaitEnds();
  {
    std::lock_guard lock(mutex_);
    FailLanes(why);
    spares_ = false;
  }
  // What cannot be asked for is not known to have ended.
  abandoned_ = !Guarded([&] { return Drain(); }).ok();
  if (abandoned_) LogAbandoned();
  SettleWrites(Known::kFailed);
  {
    std::lock_guard lock(mutex_);
    for (Lane& lane : lanes_) lane = {};
  }
  renewed_ = true;
  if (abandoned_) {  // what is borrowed stays
    for (Ahead& each : ahead_) borrowed_.insert(borrowed_.end(), each.borrowed.begin(), each.borrowed.end());
  } else {
    borrowed_.clear();
    ReleaseHeld();
  }
  ahead_.clear();
}

void QueueWork::FailLanes(const Status& status) {
  for (const Lane& lane : lanes_)
    if (lane.timeline != nullptr) lane.timeline->Fail(status);
}

// OK: all queues have got past the step's work.
Status QueueWork::Drain() {
  Passed passed;
  std::vector<void*> numbers;
  numbers.reserve(lanes_.size());
  // Whoever is in NotePassed by then uses `passed` still.
  const auto give_up = [&] {
    size_t given_up = 0;
    for (void* number : numbers) given_up += AsyncCalls::The().GiveUp(number) ? 1 : 0;
    std::unique_lock lock(passed.mutex);
    passed.changed.wait(lock, [&] { return passed.open == given_up; });
  };
  const auto ask = [&](QueueId q) -> Status {
    const Device& device = DeviceOf(q);
    TENON_ASSIGN_OR_RETURN(void* const number,
                           AsyncCalls::The().Open(&passed, {device.plugin, "queue_host_call() on", device.name}));
    numbers.push_back(number);
    {
      std::lock_guard lock(passed.mutex);
      ++passed.open;
    }
    const tenon_submission submission{TENON_HEAD(tenon_submission), nullptr, 0, nullptr, 0, Span("drain")};
    Status refused = CallPlugin(device.plugin, "queue_host_call", [&] {
      return device.driver->queue_host_call(env_->queues[q].queue, &NotePassed, number, &submission);
    });
    if (!refused.ok()) NotePassed(number, refused.release());  // the queue is closed
    return Status::Ok();
  };
  Status asked;
  for (const QueueId q : lanes_.ids())
    if (asked.ok() && (lanes_[q].used || lanes_[q].ahead)) asked = Guarded([&] { return ask(q); });
  if (asked.ok()) {
    std::unique_lock lock(passed.mutex);
    if (passed.changed.wait_for(lock, patience_, [&] { return passed.open == 0; })) return asked;
    asked = Status(Code::kDeadlineExceeded, "");
  }
  give_up();
  return asked;
}

void QueueWork::LogAbandoned() const {
  std::string devices;
  (void)Guarded([&] {  // without memory for the names it goes without
    for (const QueueId q : lanes_.ids()) {
      const Device& device = DeviceOf(q);
      if ((lanes_[q].used || lanes_[q].ahead) && devices.find(device.name) == std::string::npos)
        devices += StrCat(devices.empty() ? "" : ", ", device.name, " (", DescribePlugin(device.plugin), ")");
    }
  });
  Log(TENON_LOG_ERROR, Status::Of(Code::kInternal, "work of a step that has failed does not leave the queues of ",
                                  devices, " within ", patience_.count(), " s; its memory is never used again")
                           .message());
}

void QueueWork::SettleWrites(Known known) {
  QueueId asked;
  uint64_t reached = 0;
  std::erase_if(writes_, [&](const Write& write) {
    const Lane& lane = lanes_[write.queue];
    if (known != Known::kAllEnded && asked != write.queue) {
      asked = write.queue;
      reached = 0;
      static_cast<void>(lane.timeline->Query(&reached));
    }
    const bool done = known == Known::kAllEnded || reached >= write.value;
    if (!done && known == Known::kSoFar) return false;
    std::lock_guard lock(write.resource->mutex);
    if (write.resource->written.timeline == lane.timeline && write.resource->written.value == write.value)
      write.resource->written = {};
    if (!done && write.resource->value == write.buffer) write.resource->poisoned = true;
    return true;
  });
}

Status CopyNow(const Environment& env, const SessionDevice& device, const tenon_copy_args& args, std::string_view label,
               Cancellation* cancellation, bool* out_abandoned) {
  Cancellation own;
  Step step;
  step.env = &env;
  step.cancellation = cancellation == nullptr ? &own : cancellation;
  QueueWork work(&env);
  TENON_RETURN_IF_ERROR(work.Begin(&step));
  Status status = work.Use(device.first_queue);
  if (status.ok()) status = work.Copy(device.first_queue, args, {}, label, nullptr);
  status = work.Complete(std::move(status));
  *out_abandoned = work.abandoned();
  return status.ok() ? status : std::move(status).Annotate(StrCat("on ", device.device->name));
}

}  // namespace tenon::exec
