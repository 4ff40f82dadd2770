// SPDX-License-Identifier: Apache-2.0
// Long calls: made without the interpreter's lock, and ended by KeyboardInterrupt.
//
// Python runs the handlers of signals in the main thread alone, and only where that thread asks for them. So what the
// main thread calls is made on a second thread, while the first waits and asks; where a handler raises (Ctrl-C), the
// call is cancelled, waited for, and the exception goes on. To hand a call over takes some ten microseconds, which is
// much beside a small step. So calls whose like were quick before are made by the main thread itself, and a watcher
// reads the bytes that Python writes when a signal comes (signal.set_wakeup_fd): SIGINT with Python's own handler
// cancels the call at once; other handlers wait until the call has ended. Any other thread makes its calls itself, and
// no signal ends them.
#ifndef TENON_PYTHON_INTERRUPT_H_
#define TENON_PYTHON_INTERRUPT_H_

#include <atomic>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

#include "errors.h"

namespace tenon::python {

// How long the last call of a kind took, in nanoseconds; before the first one it is held for long.
struct CallHistory {
  std::atomic<int64_t> last_ns{INT64_MAX};
};

// Calls that one word ends: those that were given one tenon.Cancellation, those of a session. A call may be of several.
// With the interpreter's lock, which nothing takes away between a look at what the calls are of and their beginning.
class CallGroup {
 public:
  CallGroup() = default;
  // why: what is said of a call that it ended, before what the engine says.
  explicit CallGroup(std::string why) : why_(std::move(why)) {}
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  // Those under way.
  void End();
  // And those that come.
  void EndForGood();

 private:
  friend class Membership;
  const std::string why_;
  std::mutex mutex_;
  std::vector<class Membership*> calls_;
  bool ended_ = false;
};

// work: without the interpreter's lock, perhaps on another thread, until it has returned. It honours the cancellation,
// and throws nothing. groups: of the call; NULL is none. stop: set where a handler ends the call, for work that is more
// than steps; or NULL. Throws python_error when a handler raised.
using CancellableWork = std::function<Status(const host::Cancellation&)>;
Status RunInterruptibly(CallHistory& history, const CancellableWork& work,
                        std::initializer_list<CallGroup*> groups = {}, std::atomic<bool>* stop = nullptr);

// In the child of a fork there is but the thread that forked.
void AfterFork();
// Once, at import, in whatever thread.
void FindMainThread();

}  // namespace tenon::python

#endif  // TENON_PYTHON_INTERRUPT_H_
