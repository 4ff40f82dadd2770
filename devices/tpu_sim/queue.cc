// SPDX-License-Identifier: Apache-2.0
#include "queue.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

#include "device.h"

namespace tenon::tpu_sim {
namespace {

using Clock = std::chrono::steady_clock;

const char* UnitName(Unit unit) {
  switch (unit) {
    case Unit::kNone: return "";
    case Unit::kCompute: return "the matrix and vector units";
    case Unit::kMemory: return "the memory channel";
    case Unit::kHostLink: return "the link to the host";
    case Unit::kInterconnect: return "the interconnect";
  }
  return "";
}

template <size_t kSize>
void CopyText(char (&out)[kSize], const std::string& text) {
  const size_t length = std::min(text.size(), kSize - 1);
  std::memcpy(out, text.data(), length);
  out[length] = '\0';
}

Clock::duration Seconds(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e6)));
}

// Calls what was submitted; what it throws is how it failed.
Outcome Call(const std::function<Outcome()>& run) {
  if (!run) return {};
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return Fault(TENON_RESOURCE_EXHAUSTED, "out of host memory in the simulator");
  } catch (const std::exception& problem) {
    return Fault(TENON_INTERNAL, problem.what());
  }
}

}  // namespace

Queue::Queue(std::shared_ptr<Device> device, int64_t number)
    : device_(std::move(device)), number_(number), name_(sdk::Concat("queue ", number, " of ", device_->name())) {}

Queue::~Queue() = default;

void Queue::Start() {
  // The thread holds the queue until it is closed.
  thread_ = std::thread([self = shared_from_this()] { self->Serve(); });
}

Outcome Queue::Submit(Work work) {
  const Lock lock(device_->system().mutex);
  if (!device_->lost().ok()) return device_->lost();
  if (closing_ || device_->closed()) return Fault(TENON_FAILED_PRECONDITION, name_, " is closed");
  for (const Point& point : work.signals) ++point.timeline->promised;
  work_.push_back(std::move(work));
  changed_.notify_all();
  return {};
}

void Queue::Close() {
  std::thread thread;
  {
    const Lock lock(device_->system().mutex);
    closing_ = true;
    thread.swap(thread_);
    changed_.notify_all();
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
  auto freed = std::make_shared<Freed>(Freed{data, bytes});
  Work work;
  work.name = "free";
  work.always = [this, kind, freed](const Outcome&) {
    {
      const Lock lock(device_->system().mutex);
      std::erase(freed_, freed);
      if (freed->taken) return;
    }
    device_->Free(kind, freed->data);
  };
  if (kind == kDeviceKind) {
    const Lock lock(device_->system().mutex);
    freed_.push_back(freed);
  }
  const auto always = work.always;
  if (!Submit(std::move(work)).ok()) always({});
}

void* Queue::TakeFreed(uint64_t bytes, uint64_t alignment) {
  const Lock lock(device_->system().mutex);
  for (auto it = freed_.begin(); it != freed_.end(); ++it) {
    Freed& freed = **it;
    if (freed.bytes < bytes || reinterpret_cast<uintptr_t>(freed.data) % std::max<uint64_t>(alignment, 1) != 0) continue;
    freed.taken = true;
    void* data = freed.data;
    freed_.erase(it);
    return data;
  }
  return nullptr;
}

// ---- The thread ----

void Queue::Serve() {
  Lock lock(device_->system().mutex);
  while (true) {
    changed_.wait(lock, [&] { return !work_.empty() || closing_; });
    if (work_.empty()) return;
    Work work = std::move(work_.front());
    work_.pop_front();
    Do(lock, work);
    // What the work holds may be the last of a device: its destructor needs the lock.
    lock.unlock();
    work = Work();
    lock.lock();
  }
}

// Until the points are reached. Gives the cycle from which the work may begin, and what it waited for longest.
Outcome Queue::Await(Lock& lock, const Work& work, int64_t* cycle, std::string* waited_for) {
  for (const Point& point : work.waits) {
    while (true) {
      PointState state = point.timeline->At(point.value);
      if (state.kind == PointState::kPoisoned) return std::move(state.outcome);
      if (state.kind == PointState::kReached) {
        if (state.cycle > *cycle) {
          *cycle = state.cycle;
          *waited_for = state.by == nullptr ? "" : *state.by;
        }
        break;
      }
      if (!device_->lost().ok()) return device_->lost();
      if (closing_) return Fault(TENON_CANCELLED, name_, " was closed before ", work.name, " could run");
      if (point.timeline->hopeless()) {
        return Fault(TENON_CANCELLED, work.name, " on ", name_, " waits for ", point.value,
                     " on a semaphore that was destroyed at ", point.timeline->value());
      }
      point.timeline->listeners.push_back(&changed_);
      changed_.wait(lock);
      std::erase(point.timeline->listeners, &changed_);
    }
  }
  return {};
}

void Queue::Do(Lock& lock, Work& work) {
  int64_t begin = clock_;
  std::string waited_for;
  Outcome outcome = Await(lock, work, &begin, &waited_for);
  if (outcome.ok()) outcome = device_->lost();
  if (outcome.ok()) outcome = handed_on_;
  if (outcome.ok() && work.unit != Unit::kNone) {
    device_->CountWork();
    outcome = device_->lost();
  }
  int64_t end = begin;
  const int64_t free_since = clock_;
  if (outcome.ok()) {
    int64_t& unit_free = device_->unit_free(work.unit);
    if (work.unit != Unit::kNone && unit_free > begin) {
      begin = unit_free;
      waited_for = UnitName(work.unit);
    }
    const double late = work.unit == Unit::kNone ? 0 : static_cast<double>(device_->Delay()) * 1e-6;
    work.cost.stall += std::llround(late * device_->options().machine.clock);
    end = begin + work.cost.total();
    if (work.unit != Unit::kNone) unit_free = end;
    clock_ = end;
    outcome = Run(lock, work, late);
    if (outcome.ok()) outcome = device_->lost();
    if (outcome.ok() && work.unit != Unit::kNone) outcome = device_->LateFault(work.name);
  }
  if (work.always) {
    lock.unlock();
    work.always(outcome);
    lock.lock();
  }
  if (work.unit != Unit::kNone) {
    tenon_tpu_sim_span span = {};
    span.queue = static_cast<uint64_t>(number_);
    span.begin = static_cast<uint64_t>(begin);
    span.end = static_cast<uint64_t>(end);
    if (end > begin) {
      span.matrix = static_cast<uint64_t>(work.cost.matrix);
      span.vector = static_cast<uint64_t>(work.cost.vector);
      span.load = static_cast<uint64_t>(work.cost.load);
      span.stall = static_cast<uint64_t>(work.cost.stall);
    }
    span.waited = static_cast<uint64_t>(begin - free_since);
    CopyText(span.name, work.name);
    CopyText(span.waited_for, waited_for);
    span.code = outcome.code;
    device_->Log(span);
  }
  // A failure reaches who waits, or, where nobody can wait for this work, the next signals of the queue.
  handed_on_ = work.signals.empty() ? outcome : Outcome();
  for (const Point& point : work.signals) {
    --point.timeline->promised;
    if (outcome.ok()) {
      point.timeline->Signal(point.value, end, name_);
    } else {
      point.timeline->Poison(point.value, outcome);
    }
  }
}

// Runs the work without the lock, for as long as pacing and delays want.
Outcome Queue::Run(Lock& lock, Work& work, double late) {
  const double pace = device_->options().pace;
  const double cycles = static_cast<double>(work.cost.total()) - late * device_->options().machine.clock;
  const Clock::time_point begin = Clock::now();
  lock.unlock();
  Outcome outcome = Call(work.run);
  lock.lock();
  double seconds = 0;
  if (pace > 0) seconds = pace * cycles / device_->options().machine.clock;
  if (seconds > 0) SleepUntil(lock, begin + Seconds(seconds));
  if (late > 0) SleepUntil(lock, Clock::now() + Seconds(late));
  return outcome;
}

// Closing the queue or losing the device ends it early. The last stretch is spun, because a thread wakes up too late.
void Queue::SleepUntil(Lock& lock, Clock::time_point until) {
  constexpr auto kSpin = std::chrono::microseconds(60);
  const auto stop = [&] { return closing_ || !device_->lost().ok(); };
  while (!stop() && Clock::now() + kSpin < until) changed_.wait_until(lock, until - kSpin, stop);
  if (stop()) return;
  lock.unlock();
  while (Clock::now() < until) std::this_thread::yield();
  lock.lock();
}

}  // namespace tenon::tpu_sim
