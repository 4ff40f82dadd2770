// SPDX-License-Identifier: Apache-2.0
// What kernels ask to be called for later (tenon_work_services), in the hands of the test: it calls, and says when.
//
//   KernelRunner step;
//   const auto call = step.Start(kFetchKernel, node, {&address});
//   step.works->RunUntil([&] { return call->done(); });  // moments come at once, descriptors when they are ready
//   step.works->Advance(10'000'000'000);                 // what a resource does each ten seconds, in the background
//
// There is no thread, and time stands still until the test moves it. What is asked for is called on the thread that
// runs it, one after the other, in the order of its moments, then of asking; what may wait (TENON_WORK_MAY_WAIT) too,
// so that a test of one that waits for another runs them from two threads. A step's work ends with its kernel: what it
// leaves behind is dropped, and the run fails. Work in the background ends with the step (step.h), which is a session
// here. All functions may be called from any thread. live_works counts works in the background that nobody has ended.
#ifndef TENON_TESTING_WORKS_H_
#define TENON_TESTING_WORKS_H_

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/kernel.h"
#include "tenon/testing/host.h"

namespace tenon::testing {

inline std::atomic<int64_t> live_works{0};

class Works;

}  // namespace tenon::testing

// The C ABI's opaque work: of a frame's step, or in the background.
struct tenon_work {
  // stops: what cancels it besides Cancel(); nullptr or empty: nothing. It outlives End().
  tenon_work(std::shared_ptr<tenon::testing::Works> of, std::string what, const std::function<bool()>* stops = nullptr)
      : works(std::move(of)), name(std::move(what)), stops_(stops) {}
  tenon_work(const tenon_work&) = delete;
  tenon_work& operator=(const tenon_work&) = delete;

  bool cancelled() const;
  bool ended() const { return ended_; }
  void Cancel() { cancelled_ = true; }
  void End() { ended_ = true; }

  const std::shared_ptr<tenon::testing::Works> works;
  const std::string name;

 private:
  const std::function<bool()>* const stops_;
  std::atomic<bool> cancelled_{false}, ended_{false};
};

namespace tenon::testing {

class Works : public std::enable_shared_from_this<Works> {
 public:
  // What one step may have under way, as in the engine: things that are to come, and of those the ones that may wait.
  static constexpr size_t kMost = 65536, kMostWaiting = 256;
  // Calls in one go, of what asks again and again.
  static constexpr uint64_t kMostCalls = 1'000'000;

  // Closed when the last that was given has gone; works in the background, and what holds those, may live longer.
  static std::shared_ptr<Works> OfStep() {
    auto made = std::make_shared<Works>();
    Works* const works = made.get();
    return {works, [made = std::move(made)](Works* gone) { gone->Close(); }};
  }

  // ---- For tests ----

  // Calls what is next: what is due, else what is ready, else what has the earliest moment, to which it moves the time.
  // Waits for descriptors alone, and for those no longer than until that moment, in real time. Whether there was
  // something.
  bool RunNext() {
    for (const uint64_t begun = After(std::chrono::nanoseconds(0));;) {
      std::vector<pollfd> awaited;
      if (auto next = TakeNext(After(std::chrono::nanoseconds(0)) - begun, &awaited))
        return Call(std::move(*next)), true;
      if (awaited.empty()) return false;
      (void)poll(awaited.data(), awaited.size(), kSliceMs);
    }
  }
  // The same until done() says so. Whether it did.
  template <class Done>
  bool RunUntil(Done&& done) {
    for (uint64_t calls = 0; !done(); ++calls) {
      if (calls == kMostCalls || !RunNext()) return done();
    }
    return true;
  }
  // Moves the time by so many nanoseconds, and calls what comes on the way and what is ready. How many calls it were.
  uint64_t Advance(uint64_t ns) {
    const uint64_t until = now() > kNever - 1 - ns ? kNever - 1 : now() + ns;
    uint64_t calls = 0;
    for (std::optional<Item> next; calls < kMostCalls && (next = TakeUntil(until)); ++calls) Call(std::move(*next));
    return calls;
  }
  // What is to come.
  size_t pending() const {
    const std::lock_guard lock(mutex_);
    return items_.size();
  }
  // Nanoseconds that the test has let go by.
  uint64_t now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  // As the end of a session: what is to come comes with CANCELLED, and nothing more is taken.
  void Close() {
    closed_ = true;
    RunAll([](const Item&) { return true; });
    const std::lock_guard lock(mutex_);
    std::erase_if(works_, [](const auto& work) { return work->ended(); });
  }
  bool closed() const { return closed_; }

  // ---- For the services ----

  // after_ns: in the step's time; kNever: with no bound. descriptor: -1, or what is awaited, until then.
  tenon_status* Take(tenon_work* work, uint64_t after_ns, bool may_wait, int descriptor, short events,
                     tenon_done_function function, void* argument, uint64_t* out_token) {
    const std::lock_guard lock(mutex_);
    if (tenon_status* refused = RefusedLocked(*work, may_wait, function)) return refused;
    if (out_token != nullptr) *out_token = next_;
    items_.emplace(next_++,
                   Item{HeldLocked(work), function, argument, after_ns > kNever - now_ ? kNever : now_ + after_ns,
                        descriptor, events, may_wait, TENON_OK});
    return nullptr;
  }
  // Whether it was not called, and will not be.
  bool Forget(tenon_work* work, uint64_t token) {
    const std::lock_guard lock(mutex_);
    const auto found = items_.find(token);
    return found != items_.end() && found->second.work.get() == work && (items_.erase(found), true);
  }
  // Of a frame, until EndStep.
  tenon_work* BeginStep(std::string name, const std::function<bool()>* stops) {
    auto work = std::make_shared<tenon_work>(shared_from_this(), std::move(name), stops);
    const std::lock_guard lock(mutex_);
    return works_.emplace_back(std::move(work)).get();
  }
  // Until EndBackground.
  tenon_work* BeginBackground(std::string name) {
    ++live_works;
    return BeginStep(std::move(name), nullptr);
  }
  // What is to come of it comes with CANCELLED, before this returns.
  void Cancel(tenon_work* work) {
    work->Cancel();
    RunAll([work](const Item& item) { return item.work.get() == work; });
  }
  // Of a kernel that has run: what is to come is dropped. How many that were.
  size_t EndStep(tenon_work* work) {
    const std::lock_guard lock(mutex_);
    work->End();
    const size_t left = std::erase_if(items_, [work](const auto& item) { return item.second.work.get() == work; });
    if (closed_) std::erase_if(works_, [work](const auto& held) { return held.get() == work; });
    return left;
  }
  // What is called on other threads has come back when this returns.
  void EndBackground(tenon_work* work) {
    Cancel(work);
    std::unique_lock lock(mutex_);
    const std::shared_ptr<tenon_work> held = HeldLocked(work);
    const auto runs = [&](const auto& running) {
      return running.second == work && running.first != std::this_thread::get_id();
    };
    back_.wait(lock, [&] { return std::none_of(running_.begin(), running_.end(), runs); });
    std::erase(works_, held);
    --live_works;
    lock.unlock();  // the last reference may be here
  }

  static constexpr uint64_t kNever = UINT64_MAX;

 private:
  static constexpr int kSliceMs = 10;  // between looks for what other threads have asked for

  struct Item {
    std::shared_ptr<tenon_work> work;
    tenon_done_function function;
    void* argument;
    uint64_t when;
    int descriptor;
    short events;
    bool may_wait;
    uint32_t code;  // with which it is called
  };

  std::shared_ptr<tenon_work> HeldLocked(tenon_work* work) const {
    return *std::find_if(works_.begin(), works_.end(), [work](const auto& held) { return held.get() == work; });
  }
  tenon_status* RefusedLocked(const tenon_work& work, bool may_wait, tenon_done_function function) const {
    const auto most = [](size_t count, const char* what) {
      return NewStatus(TENON_RESOURCE_EXHAUSTED,
                       "a step has at most " + std::to_string(count) + " things under way" + what);
    };
    if (function == nullptr) return NewStatus(TENON_INVALID_ARGUMENT, "there is no function to call");
    if (work.ended())
      return NewStatus(TENON_FAILED_PRECONDITION,
                       "the kernel has run, or called done, and its work has ended with that");
    if (work.cancelled()) return NewStatus(TENON_CANCELLED, Cancelled(work));
    if (items_.size() >= kMost) return most(kMost, "");
    return may_wait && WaitingLocked() >= kMostWaiting ? most(kMostWaiting, " that may wait") : nullptr;
  }
  size_t WaitingLocked() const {
    return static_cast<size_t>(
        std::count_if(items_.begin(), items_.end(), [](const auto& item) { return item.second.may_wait; }));
  }
  static std::string Cancelled(const tenon_work& work) {
    return "the work '" + work.name + "' was cancelled, or its step";
  }
  static bool IsReady(const Item& item) {
    pollfd one = {item.descriptor, item.events, 0};
    return item.descriptor >= 0 && poll(&one, 1, 0) == 1;
  }
  // With what it is to be called now; nothing: it is not.
  std::optional<uint32_t> DueLocked(const Item& item) const {
    if (item.work->cancelled()) return TENON_CANCELLED;
    if (IsReady(item)) return TENON_OK;
    if (item.when > now_) return std::nullopt;
    return item.descriptor >= 0 ? TENON_DEADLINE_EXCEEDED : TENON_OK;
  }
  std::optional<Item> TakeDueLocked() {
    auto first = items_.end();
    std::optional<uint32_t> code;
    for (auto it = items_.begin(); it != items_.end(); ++it) {
      if (first != items_.end() && it->second.when >= first->second.when) continue;
      if (const auto due = DueLocked(it->second)) first = it, code = due;
    }
    if (first == items_.end()) return std::nullopt;
    Item item = std::move(first->second);
    items_.erase(first);
    item.code = *code;
    running_.emplace_back(std::this_thread::get_id(), item.work.get());
    return item;
  }
  // kNever: nothing has a moment.
  uint64_t EarliestLocked() const {
    uint64_t earliest = kNever;
    for (const auto& [token, item] : items_) earliest = std::min(earliest, item.when);
    return earliest;
  }
  std::optional<Item> TakeUntil(uint64_t until) {
    const std::lock_guard lock(mutex_);
    if (auto due = TakeDueLocked()) return due;
    const uint64_t earliest = EarliestLocked();
    now_ = std::max(now_, std::min(earliest, until));
    return earliest <= until ? TakeDueLocked() : std::nullopt;
  }
  // waited: for descriptors, by now. awaited: those that are to be waited for.
  std::optional<Item> TakeNext(uint64_t waited, std::vector<pollfd>* awaited) {
    const std::lock_guard lock(mutex_);
    if (auto due = TakeDueLocked()) return due;
    for (const auto& [token, item] : items_) {
      if (item.descriptor >= 0) awaited->push_back({item.descriptor, item.events, 0});
    }
    const uint64_t earliest = EarliestLocked(),
                   patience = static_cast<uint64_t>(std::chrono::nanoseconds(kPatience).count());
    if (!awaited->empty() && waited < std::min(patience, earliest - now_)) return std::nullopt;
    awaited->clear();
    if (earliest == kNever) return std::nullopt;
    now_ = earliest;
    return TakeDueLocked();
  }
  // Called without a lock: it may ask for more.
  void Call(Item item) {
    tenon_status* const status = item.code == TENON_OK ? nullptr
                                 : item.code == TENON_CANCELLED
                                     ? NewStatus(item.code, Cancelled(*item.work))
                                     : NewStatus(item.code, "the descriptor was not ready in time");
    item.function(item.argument, status);
    const std::lock_guard lock(mutex_);
    running_.erase(std::find(running_.begin(), running_.end(), std::pair{std::this_thread::get_id(), item.work.get()}));
    back_.notify_all();
  }
  // Of those that are cancelled.
  template <class Which>
  void RunAll(Which&& which) {
    for (;;) {
      std::optional<Item> next;
      {
        const std::lock_guard lock(mutex_);
        const auto found =
            std::find_if(items_.begin(), items_.end(), [&](const auto& item) { return which(item.second); });
        if (found == items_.end()) return;
        next = std::move(found->second);
        next->code = TENON_CANCELLED;
        items_.erase(found);
        running_.emplace_back(std::this_thread::get_id(), next->work.get());
      }
      Call(std::move(*next));
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable back_;
  std::vector<std::shared_ptr<tenon_work>> works_;
  std::map<uint64_t, Item> items_;  // by token
  std::vector<std::pair<std::thread::id, tenon_work*>> running_;
  uint64_t now_ = 0, next_ = 1;
  std::atomic<bool> closed_{false};
};

}  // namespace tenon::testing

inline bool tenon_work::cancelled() const {
  return cancelled_ || works->closed() || (stops_ != nullptr && *stops_ && !ended_ && (*stops_)());
}

#endif  // TENON_TESTING_WORKS_H_
