// SPDX-License-Identifier: Apache-2.0
// timeout_seconds of a collective: what watches that it ends in time, wherever its members stand. The pass over steps
// (pass.cc) puts the two nodes around each collective that has the attribute: Tenon>CollectiveBegins runs when the
// member's value is there and ends when Tenon>CollectiveEnds has run, or fails the step when the time is over.
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/kernel/work.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

class Watch;

// One Tenon>CollectiveBegins that runs. Its work is there until it has called done.
struct Waiting {
  Waiting(Done done, Work work, std::string late, std::shared_ptr<Watch> watch, uint64_t step)
      : done(done), work(work), late(std::move(late)), watch(std::move(watch)), step(step) {}
  const Done done;
  const Work work;
  const std::string late;  // what is said then
  const std::shared_ptr<Watch> watch;
  const uint64_t step;
  std::mutex mutex;
  bool is_over = false, has_ended = false;  // the time, or the step; the collective
  uint64_t token = 0;
};
using WaitingPtr = std::shared_ptr<Waiting>;

// Of one collective in the steps of a session. In a loop its turns end in the order in which they began.
class Watch {
 public:
  struct Entry {
    WaitingPtr waiting;
    void* argument = nullptr;  // of OnTime
  };
  // False: it has ended already.
  bool Begin(uint64_t step, Entry entry) {
    const std::lock_guard lock(mutex_);
    Turns& turns = steps_[step];
    const bool has_ended = turns.ended > 0;
    if (has_ended) --turns.ended;
    else turns.entries.push_back(std::move(entry));
    DropIfEmpty(step);
    return !has_ended;
  }
  // The oldest; none: it has not begun yet.
  Entry End(uint64_t step) {
    const std::lock_guard lock(mutex_);
    Turns& turns = steps_[step];
    Entry entry;
    if (turns.entries.empty()) {
      ++turns.ended;
    } else {
      entry = std::move(turns.entries.front());
      turns.entries.pop_front();
    }
    DropIfEmpty(step);
    // Of steps that failed between the two.
    while (steps_.size() > kMostSteps) steps_.erase(steps_.begin());
    return entry;
  }
  // Its time is over, or the step's.
  void Forget(uint64_t step, const WaitingPtr& waiting) {
    const std::lock_guard lock(mutex_);
    const auto turns = steps_.find(step);
    if (turns == steps_.end()) return;
    std::erase_if(turns->second.entries, [&](const Entry& entry) { return entry.waiting == waiting; });
    DropIfEmpty(step);
  }

 private:
  static constexpr size_t kMostSteps = 4096;
  struct Turns {
    std::deque<Entry> entries;
    int64_t ended = 0;  // before they began
  };
  void DropIfEmpty(uint64_t step) {
    const auto turns = steps_.find(step);
    if (turns->second.entries.empty() && turns->second.ended == 0) steps_.erase(turns);
  }
  std::mutex mutex_;
  std::map<uint64_t, Turns> steps_;
};

void OnTime(void* argument, tenon_status* status) noexcept {
  const std::unique_ptr<WaitingPtr> held(static_cast<WaitingPtr*>(argument));
  Waiting& waiting = **held;
  Outcome outcome = TakeStatus(status);
  {
    const std::lock_guard lock(waiting.mutex);
    waiting.is_over = true;
    if (waiting.has_ended) outcome = {};
    else if (outcome.ok()) outcome = {TENON_DEADLINE_EXCEEDED, waiting.late};
  }
  waiting.watch->Forget(waiting.step, *held);
  waiting.done(ToStatus(outcome));
}

// The collective has come to its end: the kernel has too, if need be on the thread that comes for the time.
void End(Waiting& waiting, void* argument) {
  {
    const std::lock_guard lock(waiting.mutex);
    if (waiting.is_over) return;
    waiting.has_ended = true;
    if (waiting.work.services().forget(waiting.work.get(), waiting.token) == 0) return;
  }
  const std::unique_ptr<WaitingPtr> held(static_cast<WaitingPtr*>(argument));
  waiting.done(nullptr);
}

constexpr tenon_span kWatchType = TENON_SPAN("tenon.CollectiveWatch/1");

// The session's watch over the collective that the attribute names.
struct Watching {
  explicit Watching(CreateContext& c) : collective(c.String("collective")) {
    const std::string name = Concat("collective watch ", collective);
    if (c.ok())
      c.Check(c.args().services->resource_handle(c.args().context, {}, ToSpan(name), ToSpan("collective watch"), 0,
                                                 &handle));
  }
  std::shared_ptr<Watch> Find(const RunContext& c) const {
    return ObjectOf<std::shared_ptr<Watch>>(
        c, handle, kWatchType, [] { return std::make_unique<std::shared_ptr<Watch>>(std::make_shared<Watch>()); });
  }
  const std::string collective;
  tenon_resource* handle = nullptr;
};

struct Begins {
  explicit Begins(CreateContext& c)
      : watching(c), what(c.String("what")), since(c.String("since")), seconds(c.Float("timeout_seconds")) {}
  void RunAsync(RunContext c, Done done) const {
    const std::shared_ptr<Watch> watch = watching.Find(c);
    const uint64_t step = c.services().step_id(c.frame());
    const auto nanoseconds = static_cast<uint64_t>(std::min(static_cast<double>(seconds), 1e9) * 1e9);
    const auto waiting =
        std::make_shared<Waiting>(done, Work(c),
                                  Concat("'", watching.collective, "': ", what, " has not come to its end ", seconds,
                                         " s (timeout_seconds) after ", since),
                                  watch, step);
    auto held = std::make_unique<WaitingPtr>(waiting);
    const Work& work = waiting->work;
    Check(work.services().schedule(work.get(), nanoseconds, 0, &OnTime, held.get(), &waiting->token));
    WaitingPtr* const argument = held.release();  // the frame may be gone from here on
    if (!watch->Begin(step, {waiting, argument})) End(*waiting, argument);
  }
  Watching watching;
  const std::string what, since;
  const float seconds;
};

struct Ends {
  explicit Ends(CreateContext& c) : watching(c) {}
  void Run(RunContext c) const {
    const Watch::Entry entry = watching.Find(c)->End(c.services().step_id(c.frame()));
    if (entry.waiting != nullptr) End(*entry.waiting, entry.argument);
  }
  Watching watching;
};

}  // namespace

TENON_KERNEL(kCollectiveBeginsKernel) = Registration<Begins>("Tenon>CollectiveBegins",
                                                             {.flags = TENON_KERNEL_DETERMINISTIC});
TENON_KERNEL(kCollectiveEndsKernel) = Registration<Ends>("Tenon>CollectiveEnds", {.flags = TENON_KERNEL_DETERMINISTIC});

TENON_OP(kCollectiveBegins) = DefineOp({
    .name = "Tenon>CollectiveBegins",
    .attrs = "collective: string; what: string; since: string; timeout_seconds: float",
    .doc = "Ends when the Tenon>CollectiveEnds of that collective has run; fails when that takes longer. For "
           "collectives with timeout_seconds.",
    .traits = TENON_OP_STATEFUL,
});

TENON_OP(kCollectiveEnds) = DefineOp({
    .name = "Tenon>CollectiveEnds",
    .attrs = "collective: string",
    .doc = "Says that a collective has come to its end. For collectives with timeout_seconds.",
    .traits = TENON_OP_STATEFUL,
});

}  // namespace tenon::ops
