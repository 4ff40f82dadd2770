// SPDX-License-Identifier: Apache-2.0
#include "interrupt.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "cause.h"

namespace tenon::python {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kBetweenSignals = 10ms;  // that a handler may wait while a long call runs
constexpr int64_t kQuickNs = 300'000;   // of a call: beside more, handing it over is little

unsigned long main_thread = 0;  // NOLINT: Python's type

bool OnMainThread() { return PyThread_get_thread_ident() == main_thread; }

// ---- Long calls: a second thread ----

// The second thread. It lives as long as the process, and is never joined.
class Runner {
 public:
  Runner() { std::thread([this] { Loop(); }).detach(); }
  void Start(std::function<void()> job) {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
    done_ = false;
    changed_.notify_all();
  }
  // Whether it is done by then.
  bool Wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [this] { return done_; });
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return job_ != nullptr; });
      const auto job = std::exchange(job_, nullptr);
      lock.unlock();
      job();
      lock.lock();
      done_ = true;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;
  bool done_ = false;
};

Runner* idle_runner =
    nullptr;  // of the main thread alone; a handler that makes a call while one is under way gets another

bool WaitWithoutLock(Runner& runner, std::chrono::milliseconds longest) {
  const WithoutLock unlocked;
  return runner.Wait(longest);
}

Status RunOnRunner(const CancellableWork& work, host::Cancellation& cancellation, std::atomic<bool>* stop = nullptr) {
  Runner* runner = idle_runner == nullptr ? new Runner : idle_runner;
  idle_runner = nullptr;
  Status status;
  runner->Start([&] { status = work(cancellation); });
  while (!WaitWithoutLock(*runner, kBetweenSignals)) {
    if (PyErr_CheckSignals() == 0) continue;
    const nb::python_error raised;  // takes the error over while we wait
    if (stop != nullptr) *stop = true;
    cancellation.Cancel();
    while (!WaitWithoutLock(*runner, 1h)) {
    }
    idle_runner = runner;
    throw raised;
  }
  idle_runner = runner;
  return status;
}

// ---- Quick calls: a watcher of signals ----

// Reads what Python's own handler in C writes, and cancels the call that the main thread makes. It lives as long as the
// process.
class Watcher {
 public:
  // NULL where there are no descriptors left: then nobody watches.
  static Watcher* Start() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return nullptr;
    return new Watcher(ends[0], ends[1]);
  }
  // With the interpreter's lock, as Python wants it.
  void Begin(host::Cancellation& cancellation) {
    const int others = SetWakeupFd(write_end_);
    const std::lock_guard lock(mutex_);
    cancellation_ = &cancellation;
    others_ = others;
    cancelled_ = false;
    ++call_;
  }
  // Whether the call was cancelled. Throws what a handler raised.
  bool End() {
    SetWakeupFd(others_);  // first: whatever was written to us is a signal that Python knows of
    bool cancelled = false;
    {
      const std::lock_guard lock(mutex_);
      cancellation_ = nullptr;
      cancelled = cancelled_;
    }
    if (PyErr_CheckSignals() == 0) return cancelled;
    // What is said of this signal is not for the next call.
    const std::lock_guard lock(mutex_);
    for (unsigned char number; read(read_end_, &number, 1) == 1;) {
    }
    throw nb::python_error();
  }

 private:
  Watcher(int read_end, int write_end) : read_end_(read_end), write_end_(write_end) {
    std::thread([this] { Loop(); }).detach();
  }
  // Gives the one before; -1: there was none. Python's function, as its C one is not for everybody.
  static int SetWakeupFd(int descriptor) {
    static PyObject* const set = nb::object(nb::module_::import_("signal").attr("set_wakeup_fd")).release().ptr();
    const auto number = nb::steal(PyLong_FromLong(descriptor));
    const auto before = nb::steal(PyObject_CallFunctionObjArgs(set, number.ptr(), nullptr));
    if (before.is_valid()) return static_cast<int>(PyLong_AsLong(before.ptr()));
    PyErr_Clear();  // somebody has closed it meanwhile
    return descriptor == -1 ? -1 : SetWakeupFd(-1);
  }
  void Loop() {
    for (pollfd ready{read_end_, POLLIN, 0};;) {
      if (poll(&ready, 1, -1) != 1) continue;
      uint64_t call = 0;
      if (TakeSignal(&call) == SIGINT && HandlerIsPythons()) CancelCall(call);
    }
  }
  // 0: somebody else took it. call: during which it came. Tells whoever else wants to know of signals, as asyncio.
  int TakeSignal(uint64_t* call) {
    const std::lock_guard lock(mutex_);
    unsigned char number = 0;
    if (read(read_end_, &number, 1) != 1) return 0;
    *call = call_;
    if (others_ >= 0 && write(others_, &number, 1) != 1) return number;  // it is full, and so awake
    return number;
  }
  static bool HandlerIsPythons() {
    const WithLock locked;
    try {
      const nb::module_ signal = nb::module_::import_("signal");
      return signal.attr("getsignal")(int{SIGINT}).is(nb::object(signal.attr("default_int_handler")));
    } catch (const nb::python_error&) {
      return false;
    }
  }
  void CancelCall(uint64_t call) {
    const std::lock_guard lock(mutex_);
    if (cancellation_ == nullptr || call != call_) return;  // it has ended by itself
    cancellation_->Cancel();
    cancelled_ = true;
  }

  const int read_end_, write_end_;
  std::mutex mutex_;
  host::Cancellation* cancellation_ = nullptr;
  int others_ = -1;
  uint64_t call_ = 0;
  bool cancelled_ = false;
};

Watcher* watcher = nullptr;

// spent: the cancellation was used, whether or not the call saw it.
Status RunWatched(const CancellableWork& work, host::Cancellation& cancellation, bool* spent) {
  if (watcher == nullptr) watcher = Watcher::Start();
  if (watcher == nullptr) return RunOnRunner(work, cancellation);
  watcher->Begin(cancellation);
  Status status;
  {
    const WithoutLock unlocked;
    status = work(cancellation);
  }
  *spent = watcher->End();
  return status;
}

}  // namespace

// That a call is of groups, while it lasts.
class Membership {
 public:
  Membership(std::initializer_list<CallGroup*> groups, host::Cancellation& cancellation)
      : groups_(groups), cancellation_(cancellation) {
    for (CallGroup* const group : groups_) {
      if (group == nullptr) continue;
      const std::lock_guard lock(group->mutex_);
      group->calls_.push_back(this);
      if (group->ended_) End(group->why_);
    }
  }
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;
  ~Membership() { Leave(); }
  // With its group's mutex.
  void End(const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(ended_, true)) why_ = why;
    cancellation_.Cancel();
  }
  // Afterwards nobody ends it. True: somebody had.
  bool Leave() {
    for (CallGroup* const group : std::exchange(groups_, {})) {
      if (group == nullptr) continue;
      const std::lock_guard lock(group->mutex_);
      std::erase(group->calls_, this);
    }
    return ended_;
  }
  const std::string& why() const { return why_; }

 private:
  std::vector<CallGroup*> groups_;
  host::Cancellation& cancellation_;
  std::mutex mutex_;
  bool ended_ = false;
  std::string why_;
};

void CallGroup::End() {
  const std::lock_guard lock(mutex_);
  for (Membership* const call : calls_) call->End(why_);
}

void CallGroup::EndForGood() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  End();
}

void FindMainThread() {
  main_thread = nb::cast<unsigned long>(nb::module_::import_("threading").attr("main_thread")().attr("ident"));
}

void AfterFork() {
  idle_runner = nullptr;  // their threads are not here
  watcher = nullptr;
  main_thread = PyThread_get_thread_ident();
  ForgetOtherCalls();
}

Status RunInterruptibly(CallHistory& history, const CancellableWork& work, std::initializer_list<CallGroup*> groups,
                        std::atomic<bool>* stop) {
  // Used again until it has cancelled something. A call within a handler, while another is under way, makes one of its
  // own.
  thread_local std::unique_ptr<host::Cancellation> kept;
  std::unique_ptr<host::Cancellation> own = std::move(kept);
  if (own == nullptr) own = std::make_unique<host::Cancellation>(Take(host::Cancellation::Create()));
  host::Cancellation& cancellation = *own;
  Membership membership(groups, cancellation);
  CallInFlight call;
  Status status;
  bool spent = false;
  if (OnMainThread()) {
    const auto begin = Clock::now();
    const bool quick = history.last_ns.load(std::memory_order_relaxed) < kQuickNs;
    status = quick ? RunWatched(work, cancellation, &spent) : RunOnRunner(work, cancellation, stop);
    history.last_ns.store(std::chrono::nanoseconds(Clock::now() - begin).count(), std::memory_order_relaxed);
  } else {
    const WithoutLock unlocked;
    status = work(cancellation);
  }
  if (membership.Leave()) {
    spent = true;
    if (!membership.why().empty() && status.code() == Code::kCancelled) status = status.Annotate(membership.why());
  }
  if (!spent) kept = std::move(own);
  if (!status.ok()) call.Failed();
  return status;
}

}  // namespace tenon::python
