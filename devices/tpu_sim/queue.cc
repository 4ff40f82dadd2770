// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <new>

#include "device.h"
#include "driver.h"
#include "tenon/extras/device/label.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::tpu_sim {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kItemsAtOnce = 64;

uint64_t Nanoseconds(Steady::time_point time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

Steady::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Steady::duration>(std::chrono::duration<double>(std::min(seconds, 1e6)));
}

}  // namespace

Queue::Queue(std::shared_ptr<Device> device, int64_t number)
    : device_(std::move(device)),
      number_(number),
      name_(sdk::Concat("queue ", number, " of ", device_->name())),
      time_(device_->system().clock.NewQueue(device_->time(), number)),
      random_(device_->options().seed + static_cast<uint64_t>(device_->index()) +
              static_cast<uint64_t>(number) * 1000) {}

Queue::~Queue() = default;

void Queue::Start() {
  // The thread holds the queue until it is closed.
  thread_ = std::thread([self = shared_from_this()] { self->Serve(); });
}

// ---- Submitting ----

Queue::Work& Queue::TakeItem(const Order& order) {
  if (spare_ == nullptr) {
    items_.push_back(std::make_unique<Work[]>(kItemsAtOnce));
    for (size_t i = 0; i < kItemsAtOnce; ++i) items_.back()[i].next = std::exchange(spare_, &items_.back()[i]);
  }
  Work& work = *spare_;
  work.what = order.what;
  work.kind = order.kind;
  work.unit = order.unit;
  work.cost = order.cost;
  work.label.assign(order.label.data, order.label.size);
  work.timeline = order.timeline;
  work.signal = order.signal;
  work.submitted = device_->system().clock.now();
  work.waits.clear();
  for (uint64_t i = 0; i < order.wait_count; ++i) {
    work.waits.push_back({Timeline::Of(order.waits[i].semaphore), order.waits[i].value});
  }
  // Nothing throws from here on.
  spare_ = work.next;
  work.next = nullptr;
  return *(fresh_ = &work);
}

void Queue::Append() {
  (last_ == nullptr ? first_ : last_->next) = fresh_;
  last_ = fresh_;
  if (std::exchange(sleeping_, false)) submitted_.notify_one();
}

Outcome Queue::WhyGone(Lock& lock) const {
  lock.unlock();
  const Lock system_lock(device_->system().mutex);
  if (!device_->lost().ok()) return device_->lost();
  return Fault(TENON_FAILED_PRECONDITION, name_, " is closed");
}

void Queue::Lose() {
  gone_ = true;
  reached_.notify_all();
}

void Queue::Close() {
  std::thread thread;
  {
    const Lock lock(submit_mutex_);
    gone_ = closing_ = true;
    thread.swap(thread_);
    submitted_.notify_all();
  }
  {
    const Lock lock(device_->system().mutex);
    reached_.notify_all();
  }
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

// ---- Memory that is freed in order ----

void Queue::FreeLater(uint32_t kind, void* data, uint64_t bytes) {
  uint64_t number;
  {
    const Lock lock(submit_mutex_);
    number = ++frees_;
    if (kind == kDeviceKind) freed_.push_back({number, data, bytes});
  }
  const auto free = [this, kind, data, number](const Outcome&) {
    if (kind == kDeviceKind) {
      const Lock lock(submit_mutex_);
      if (std::erase_if(freed_, [&](const Freed& each) { return each.number == number; }) == 0) return;  // taken again
    }
    device_->Free(kind, data);
  };
  if (!Submit({.what = "free"}, free).ok()) free({});
}

void* Queue::TakeFreed(uint64_t bytes, uint64_t alignment) {
  const Lock lock(submit_mutex_);
  const auto found = std::find_if(freed_.begin(), freed_.end(), [&](const Freed& each) {
    return each.bytes >= bytes && reinterpret_cast<uintptr_t>(each.data) % std::max<uint64_t>(alignment, 1) == 0;
  });
  if (found == freed_.end()) return nullptr;
  void* data = found->data;
  freed_.erase(found);
  return data;
}

// ---- The thread ----

// Waits until there is work and takes it; gives back what is done. NULL: closed.
Queue::Work* Queue::TakeAll(Work* done) {
  Lock lock(submit_mutex_);
  while (done != nullptr) {
    Work* next = done->next;
    done->next = std::exchange(spare_, done);
    done = next;
  }
  while (first_ == nullptr && !closing_) {
    sleeping_ = true;
    submitted_.wait(lock);
  }
  sleeping_ = false;
  last_ = nullptr;
  return std::exchange(first_, nullptr);
}

void Queue::Serve() {
  Work* batch = nullptr;
  while ((batch = TakeAll(batch)) != nullptr) {
    for (Work* work = batch; work != nullptr; work = work->next) Do(*work);
  }
}

std::string Queue::Describe(const Work& work) const {
  return work.label.empty() ? std::string(work.what) : sdk::Concat(work.what, " '", work.label, "'");
}

// Why the work may not begin.
Outcome Queue::Obstacle(const Work& work) const {
  if (work.timeline != nullptr && !work.timeline->failure().ok()) return work.timeline->failure();
  if (!device_->lost().ok()) return device_->lost();
  if (closing_) return Fault(TENON_CANCELLED, name_, " was destroyed before ", Describe(work), " began");
  return {};
}

// Until the points are reached; notes when they were.
Outcome Queue::Await(Lock& lock, const Work& work) {
  Outcome obstacle = Obstacle(work);
  waited_.clear();
  if (MomentPointer host = device_->system().clock.HostAt(work.submitted)) waited_.push_back(std::move(host));
  for (size_t i = 0; i < work.waits.size() && obstacle.ok();) {
    Timeline& timeline = *work.waits[i].timeline;
    const PointState state = timeline.At(work.waits[i].value);
    if (state.kind == PointState::kFailed) return *state.failure;
    if (state.kind == PointState::kReached) {
      if (state.reached != nullptr) waited_.push_back(state.reached);
      ++i;
      continue;
    }
    timeline.listeners.push_back(&reached_);
    if (work.timeline != nullptr) work.timeline->listeners.push_back(&reached_);
    reached_.wait(lock);
    std::erase(timeline.listeners, &reached_);
    if (work.timeline != nullptr) std::erase(work.timeline->listeners, &reached_);
    obstacle = Obstacle(work);
  }
  return obstacle;
}

void Queue::Do(Work& work) {
  Lock lock(device_->system().mutex);
  const bool takes_unit = work.unit != Unit::kNone;
  const bool skipped = work.timeline != nullptr && !work.timeline->failure().ok();
  Outcome outcome = Await(lock, work);
  if (outcome.ok() && takes_unit) {
    device_->CountWork(&notices_);
    outcome = device_->lost();
  }
  Span span;
  bool took_unit = false;
  if (outcome.ok()) {
    took_unit = takes_unit;
    outcome = Execute(lock, work, &span);
  } else if (work.run.always()) {
    lock.unlock();
    (void)Call(work, outcome);
    lock.lock();
  }
  if (takes_unit && !skipped) {
    span.queue = static_cast<uint64_t>(number_);
    span.kind = work.kind;
    span.code = outcome.code;
    const std::string_view name = work.label.empty() ? std::string_view(work.what) : std::string_view(work.label);
    sdk::EndOfLabel(name, sizeof(span.name) - 1).copy(span.name, sizeof(span.name) - 1);
  }
  Settle(work, outcome, Note(work, span, takes_unit && !skipped, took_unit));
  lock.unlock();
  // From here on the timeline may be gone.
  CallAll(notices_);
  work.run.Clear();
}

// Tells the clock what was done. Gives when the point of the work is reached; nullptr where it has none.
MomentPointer Queue::Note(const Work& work, const Span& span, bool logged, bool took_unit) {
  const bool tells = work.timeline != nullptr && work.signal != 0;
  if (!logged && !tells && work.waits.empty()) return nullptr;
  Deed deed;
  deed.unit = took_unit ? work.unit : Unit::kNone;
  deed.logged = logged;
  deed.span = span;
  deed.waits = waited_;
  if (tells) {
    deed.done = std::make_shared<Moment>();
    deed.done->by = {Origin::kQueue, static_cast<int32_t>(device_->index()), static_cast<int32_t>(number_)};
  }
  MomentPointer done = deed.done;
  device_->system().clock.Note(*time_, std::move(deed));
  return done;
}

// Runs the work, without the lock.
Outcome Queue::Execute(Lock& lock, Work& work, Span* span) {
  double late = 0;
  if (work.unit != Unit::kNone) {
    late = static_cast<double>(device_->Delay(&random_)) * 1e-6;
    work.cost.stall += std::llround(late * device_->options().machine.clock);
    span->cycles = work.cost;
  }
  const Steady::time_point began = Steady::now();
  lock.unlock();
  Outcome outcome = work.run ? Call(work, {}) : Outcome();
  lock.lock();
  if (work.unit == Unit::kNone) return outcome;
  Pace(lock, work, late, began);
  span->begin_ns = Nanoseconds(began);
  span->end_ns = Nanoseconds(Steady::now());
  if (outcome.ok()) outcome = device_->lost();
  return outcome.ok() ? device_->LateFault({work.what, work.label, work.kind}, Describe(work)) : outcome;
}

// Calls what was submitted; what it throws is how it failed.
Outcome Queue::Call(Work& work, const Outcome& before) const {
  Outcome outcome;
  try {
    outcome = work.run(before);
  } catch (sdk::KernelError& problem) {
    outcome = TakeStatus(problem.release());
  } catch (const std::bad_alloc&) {
    outcome = Fault(TENON_RESOURCE_EXHAUSTED, "out of host memory in the simulator");
  } catch (const std::exception& problem) {
    outcome = Fault(TENON_INTERNAL, problem.what());
  }
  if (!outcome.ok()) outcome.message = sdk::Concat(Describe(work), " on ", device_->name(), ": ", outcome.message);
  return outcome;
}

// Moves the work's timeline on, or fails it.
void Queue::Settle(const Work& work, const Outcome& outcome, MomentPointer moment) {
  if (work.timeline == nullptr) {
    if (!outcome.ok() && work.unit != Unit::kNone && outcome.code != TENON_CANCELLED) {
      tenon_plugin_host->log(TENON_LOG_ERROR, sdk::ToSpan(outcome.message));
    }
  } else if (!outcome.ok()) {
    work.timeline->Fail(outcome, &notices_);
  } else if (work.signal != 0) {
    work.timeline->Signal(work.signal, std::move(moment), &notices_);
  }
}

// Makes real time pass as pacing and delays want.
void Queue::Pace(Lock& lock, const Work& work, double late, Steady::time_point begin) {
  const Options& options = device_->options();
  const double cycles = static_cast<double>(work.cost.total()) - late * options.machine.clock;
  const double seconds = options.pace * cycles / options.machine.clock;
  if (seconds > 0) SleepUntil(lock, begin + Seconds(seconds));
  if (late > 0) SleepUntil(lock, Steady::now() + Seconds(late));
}

// Closing the queue or losing the device ends it early. The last stretch is spun, because a thread wakes up too late.
void Queue::SleepUntil(Lock& lock, Steady::time_point until) {
  constexpr auto kSpin = std::chrono::microseconds(60);
  const auto stop = [&] { return closing_ || !device_->lost().ok(); };
  while (!stop() && Steady::now() + kSpin < until) reached_.wait_until(lock, until - kSpin, stop);
  if (stop()) return;
  lock.unlock();
  while (Steady::now() < until) std::this_thread::yield();
  lock.lock();
}

}  // namespace tenon::tpu_sim
