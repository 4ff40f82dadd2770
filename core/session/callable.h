// SPDX-License-Identifier: Apache-2.0
// Callable: a (feeds, fetches, targets) prepared for many runs. Concurrent runs are allowed.
#ifndef TENON_CORE_SESSION_CALLABLE_H_
#define TENON_CORE_SESSION_CALLABLE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/session/run_options.h"
#include "core/tensor/tensor.h"

namespace tenon::exec {
class Plan;
class Runnable;
struct Device;
struct RunnableCounts;
}  // namespace tenon::exec

namespace tenon::session {

struct Steps;

class Callable : public std::enable_shared_from_this<Callable> {
 public:
  struct Feed {
    std::string name;
    DType type;
    const exec::Device* device;  // nullptr: the host's memory
    Shape shape = Shape::Unknown();  // that its placeholder declares
    // Whether a tensor of the type has that shape, and the bytes that its own says.
    bool Fits(const tenon_tensor_view& view) const;
  };

  // session: kept as long as this lives; `steps` is its. fetch_devices: whose memory each fetch stays in; nullptr: the
  // host's.
  Callable(std::shared_ptr<const void> session, Steps* steps, std::shared_ptr<exec::Runnable> runnable,
           std::vector<Feed> feeds, std::vector<const exec::Device*> fetch_devices);
  ~Callable();

  // JSON: how each node runs.
  std::string Explain() const;
  exec::RunnableCounts counts() const;
  // nullptr: more than one plan, or none in this process.
  const exec::Plan* plan() const;
  uint64_t FixedProgram(const tenon_tensor_view* const* feeds) const;
  size_t feed_count() const { return feeds_.size(); }
  size_t fetch_count() const { return fetch_devices_.size(); }
  const exec::Device* fetch_device(size_t i) const { return fetch_devices_[i]; }

  // Runs on this thread. Feeds are borrowed. Fetches in a device's memory share it; others are the caller's own.
  Status Run(const RunOptions& options, const tenon_tensor_view* const* feeds, std::vector<Tensor>* out_fetches);
  // As Run, but that no thread waits: where the step can do nothing before a kernel elsewhere or another part has done
  // something, this returns, and the step goes on in what `later` is given (to be called soon on a thread of its own).
  // done: once, on this thread or there; what options lead to, and feeds, must live until then.
  using Later =
      std::function<Status(std::function<void()>)>;  // an error: it was not taken, and is done where it was tried
  using Done = std::function<void(Status, std::vector<Tensor>)>;
  void RunAsync(const RunOptions& options, const tenon_tensor_view* const* feeds, Later later, Done done);
  // The fetches in the caller's memory, where the step makes them if nothing else of it stands there; sizes and types
  // must fit. UNIMPLEMENTED: one stays on a device.
  Status RunInto(const RunOptions& options, const tenon_tensor_view* const* feeds, const tenon_tensor_view* fetches);

  // For a kernel that calls a function: fetches of any type, each with a reference to a buffer of its own (the pool's,
  // where it had none), or no buffer at all on failure. places: none, or for each fetch nullptr or memory where it goes
  // if it is of that dtype and shape; then it has no buffer.
  Status RunKept(const RunOptions& options, const tenon_tensor_view* const* feeds, BufferPool* pool,
                 std::span<const tenon_tensor_view* const> places, std::span<tenon_tensor_view> out_fetches);

  // Why a feed does not fit what is declared.
  static Status CheckFeed(const Feed& feed, const tenon_tensor_view* view);

  // When it was run last: of Steps::next.
  uint64_t last_run() const { return last_run_.load(std::memory_order_relaxed); }
  // Lets go of the memory that waits for a next run. Whether there was any.
  bool DropIdle();
  // The nodes of its plan, roughly what it takes by itself.
  size_t node_count() const;

  // Cancels each step that runs. Under the mutex of its steps.
  void CancelRunning(const Status& why) const;

 private:
  struct Context;  // of one run, pooled
  class Ends;
  class Async;
  // Takes the fetches, one by one, while the step's memory is still there. own: Run::fetch_is_own.
  using Taker = std::function<Status(size_t index, const tenon_tensor_view& view, bool own)>;
  // keeps: of whoever keeps the fetches. places: as of RunKept.
  Status Execute(const RunOptions& options, const tenon_tensor_view* const* feeds, const Taker& take,
                 BufferPool* keeps = nullptr, std::span<const tenon_tensor_view* const> places = {});
  Status ExecuteIn(Context* context, const RunOptions& options, const tenon_tensor_view* const* feeds,
                   const Taker& take);
  // For Run: how fetches are taken, and where they are made.
  Taker TakeInto(std::vector<Tensor>* out_fetches) const;
  BufferPool* Keeps() const;
  // Whether a step may begin, with these options.
  Status MayBegin(const RunOptions& options) const;
  void Begin(Context* context, const RunOptions& options, BufferPool* keeps,
             std::span<const tenon_tensor_view* const> places);
  // What has run, well or not: its fetches are taken, and all that it has is let go.
  Status Conclude(Context* context, Status status, const Taker& take);
  // What its caller is told of a run that came to `status`: of one that was cancelled meanwhile the reason, also where
  // it went on to its end.
  static Status OutcomeOf(const Context& context, Status status);
  void Count(Context* context);
  // What a traced step took, if the session wants to know.
  void Record(const RunOptions& options, const tenon_tensor_view* const* feeds) const;
  Status CheckFeeds(const tenon_tensor_view* const* feeds) const;
  friend class StepInGoes;
  Context* Acquire();
  void GiveBack(Context* context);

  const std::shared_ptr<const void> session_;
  Steps* const steps_;
  const std::shared_ptr<exec::Runnable> runnable_;
  const std::vector<Feed> feeds_;
  const std::vector<const exec::Device*> fetch_devices_;
  std::atomic<uint64_t> last_run_{0};
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::vector<Context*> idle_;
  std::vector<std::unique_ptr<Context>> contexts_;
};

// One step of a callable that is fed and fetched at a rendezvous alone (PlanOptions::part), in several goes. One thread
// at a time.
class StepInGoes {
 public:
  // The rendezvous outlives it.
  StepInGoes(std::shared_ptr<Callable> callable, exec::Rendezvous* rendezvous)
      : callable_(std::move(callable)), rendezvous_(rendezvous) {}
  // What stands still is cancelled.
  ~StepInGoes();
  StepInGoes(const StepInGoes&) = delete;
  StepInGoes& operator=(const StepInGoes&) = delete;

  // Runs on this thread until the step stands still (exec::Step::enough), or has ended. A failure, also one of the
  // options', is its end.
  Status Go(const RunOptions& options, std::function<bool()> enough);
  bool ended() const { return ended_; }

 private:
  Status Drive(const RunOptions& options);
  void End();

  const std::shared_ptr<Callable> callable_;
  exec::Rendezvous* const rendezvous_;
  Callable::Context* context_ = nullptr;
  bool begun_ = false, ended_ = false;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_CALLABLE_H_
