// SPDX-License-Identifier: Apache-2.0
// Session: a graph that grows, the plans of its steps, and the state that its steps share.
//
// All functions may be called from any thread, also while steps run. Steps are isolated from one another; they share
// variables and other resources alone. An error ends its own step only.
#ifndef TENON_CORE_SESSION_SESSION_H_
#define TENON_CORE_SESSION_SESSION_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/exec/dynamic_executor.h"
#include "core/exec/parted_plan.h"
#include "core/exec/plan_run.h"
#include "core/optimize/optimize.h"
#include "core/session/remote.h"
#include "core/session/runtime.h"
#include "core/session/session_options.h"
#include "core/session/session_placer.h"

namespace tenon::session {

class Session;

struct RunOptions {
  uint64_t timeout_ns = 0;
  uint64_t asked_ns = 0;  // the timeout that was asked for, where planning has taken some of it; 0: timeout_ns
  Cancellation* cancellation = nullptr;  // the caller's
  trace::Trace* trace = nullptr;
  // Of a part (Session::PreparePart): where it meets the others; the feeds are followed by the shapes of what it receives.
  exec::Rendezvous* rendezvous = nullptr;
};

// One run's state, pooled.
struct RunContext {
  exec::Step step;
  Cancellation cancellation;
  std::atomic<bool> active{false};
  std::unique_ptr<exec::PlanRun> run;       // of one program for all devices
  std::unique_ptr<exec::PartedRun> parted;  // of one part for each device
  std::unique_ptr<RemoteRun> remote;        // in other processes
  // Whether what ran did not end, and may use all that the step had, at any time.
  bool abandoned() const;
  // Back to their pools.
  void ReturnInstances();
};

// A (feeds, fetches, targets) prepared for many runs. Concurrent runs are allowed.
class Callable : public std::enable_shared_from_this<Callable> {
 public:
  ~Callable();
  // JSON: how each node runs.
  std::string Explain() const { return remote_ != nullptr ? remote_->Explain() : parted_ != nullptr ? parted_->Explain() : plan_->Explain(); }
  // Of a part: its receives, in the order of their shapes.
  const std::vector<int32_t>& receives() const { return plan_->receives(); }
  // Of a part: whether it waits for nobody once what it receives is there.
  bool RunsThrough() const { return plan_->RunsThrough(); }
  uint64_t FixedProgram(const tenon_tensor_view* const* feeds) const { return plan_->FixedProgram(feeds); }
  size_t feed_count() const { return feed_places_.size(); }
  size_t fetch_count() const { return fetch_devices_.size(); }
  // Whose memory fetch i stays in; nullptr: the host's.
  const exec::Device* fetch_device(size_t i) const { return fetch_devices_[i]; }

  // Runs on this thread. Feeds are borrowed. Fetches in a device's memory share it; others are copies.
  Status Run(const RunOptions& options, const tenon_tensor_view* const* feeds, std::vector<Tensor>* out_fetches);
  // Copies the fetches into the caller's memory; sizes and types must fit. UNIMPLEMENTED: one stays on a device.
  Status RunInto(const RunOptions& options, const tenon_tensor_view* const* feeds, const tenon_tensor_view* fetches);

 private:
  friend class Session;
  // Gives the fetches, one by one, while the step's memory is still there.
  using Taker = Status (*)(void* argument, size_t index, const tenon_tensor_view& view);
  Status Execute(const RunOptions& options, const tenon_tensor_view* const* feeds, Taker taker, void* argument);
  Status ExecuteIn(RunContext* context, const RunOptions& options, const tenon_tensor_view* const* feeds, Taker taker, void* argument);
  class Ends;  // what cancels a run from outside
  Status RunSteps(RunContext* context, const tenon_tensor_view* const* feeds, Ends* ends, Taker taker, void* argument);
  Status CheckFeeds(const tenon_tensor_view* const* feeds) const;
  RunContext* AcquireContext();
  void GiveBack(RunContext* context);

  std::shared_ptr<Session> session_;

  std::shared_ptr<exec::Plan> plan_;          // or
  std::shared_ptr<exec::PartedPlan> parted_;  // or
  std::shared_ptr<RemotePlan> remote_;
  struct FeedPlace {
    DType type;
    const exec::Device* device;  // nullptr: the host's memory
    Shape shape = Shape::Unknown();  // that its placeholder declares
    // Whether a tensor of the type has that shape, and the bytes that its own says.
    bool Fits(const tenon_tensor_view& view) const;
  };
  std::vector<FeedPlace> feed_places_;
  std::vector<std::string> feed_names_;
  std::vector<const exec::Device*> fetch_devices_;
  bool fetches_on_devices_ = false;
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::vector<RunContext*> idle_;
  std::vector<std::unique_ptr<RunContext>> contexts_;
};

struct SessionMetrics {
  uint64_t steps, plans_built, plans_reused, bindings_built, bytes_in_use, peak_bytes, nodes_folded, nodes_merged, host_waits,
      device_bytes_in_use, device_peak_bytes, captured_launches;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // INVALID_ARGUMENT, UNIMPLEMENTED: an option that is wrong, or that such a session cannot honour, by its name.
  static Result<std::shared_ptr<Session>> Create(Runtime* runtime, SessionOptions options);
  ~Session();
  // Cancels what runs and waits for it; not for ever: what does not end keeps what it has. Callables refuse to run from now on.
  void Close();

  Status Extend(std::string_view graph_def);
  // Adds the nodes of `graph` whose names this session does not know.
  Status ExtendGraph(const graph::Graph& graph);

  // feed_devices, fetch_devices: one name each, "" for the host's memory; or none at all. options: what ends the preparing.
  Result<std::shared_ptr<Callable>> Prepare(const std::vector<std::string_view>& feeds,
                                            const std::vector<std::string_view>& fetches,
                                            const std::vector<std::string_view>& targets,
                                            const std::vector<std::string_view>& feed_devices = {},
                                            const std::vector<std::string_view>& fetch_devices = {}, const RunOptions& options = {});
  // A part of a graph that was partitioned elsewhere: `part` says what its nodes send and receive. Their devices are this session's, or none.
  Result<std::shared_ptr<Callable>> PreparePart(graph::Graph graph, std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches,
                                                std::vector<int32_t> targets, std::shared_ptr<const exec::PartInfo> part);
  // The device of that name, whole or in part, when it says one alone.
  Result<int32_t> FindDevice(std::string_view name) const;
  // A copy of a value, which lies in the memory `from`, in the memory `to` (0: the host's, else the number of a device).
  Result<Tensor> CopyTo(const tenon_tensor_view& value, int32_t from, int32_t to);
  const exec::SessionDevice& device(int32_t index) const { return env_.devices[static_cast<size_t>(index)]; }
  // Prepare, cached by names, and Run.
  Status Run(const RunOptions& options, const std::vector<std::string_view>& feed_names,
             const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
             const std::vector<std::string_view>& target_names, std::vector<Tensor>* out_fetches);

  // Where the nodes of a step would run, and why; nothing is run.
  Result<PlacementReport> ExplainPlacement(const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                                           const std::vector<std::string_view>& targets);
  const SessionPlacer& placer() const { return *placer_; }

  SessionMetrics metrics() const;
  Runtime* runtime() const { return runtime_; }
  BufferPool* pool() const { return pool_; }

 private:
  friend class Callable;
  friend class PartialRun;
  Session(Runtime* runtime, SessionOptions options) : runtime_(runtime), options_(std::move(options)), graph_(&runtime->ops()) {}
  class Planning;
  // Another try without the cached callables, if their plans are what takes the memory.
  Result<std::shared_ptr<Callable>> PrepareCached(const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                                                  const std::vector<std::string_view>& targets, const RunOptions& options);
  Status FindMemories(const std::vector<std::string_view>& names, const std::vector<std::string_view>& devices, const char* what,
                      std::vector<int32_t>* out) const;
  Result<std::shared_ptr<Callable>> MakeCallable(graph::Graph graph, optimize::Request request);
  std::shared_ptr<Callable> NewCallable(const graph::Graph& graph, const optimize::Request& request);
  exec::Plan::Options PlanOptions() const;
  void Keep(const std::shared_ptr<Callable>& callable);

  // Inlines calls and merges common subexpressions.
  Result<graph::Graph> Optimize(graph::Graph graph, optimize::Request* request);
  optimize::HasKernel HasKernel() const;

  Runtime* runtime_;
  SessionOptions options_;
  std::unique_ptr<SessionPlacer> placer_;
  mutable std::shared_mutex graph_mutex_;
  graph::Graph graph_;
  BufferPool* pool_ = nullptr;
  exec::Environment env_;
  exec::Environment placement_env_;  // the devices that steps run on
  exec::ResourceManager resources_;
  exec::KernelStore store_;
  std::mutex cache_mutex_;
  std::unordered_map<std::string, std::shared_ptr<Callable>> cache_;
  std::mutex run_mutex_;
  std::condition_variable idle_;
  std::vector<std::weak_ptr<Callable>> callables_;
  std::atomic<bool> closing_{false};
  Cancellation closed_;  // cancelled when it closes: ends what is being planned
  std::atomic<int64_t> active_{0};
  std::atomic<uint64_t> steps_{0}, plans_built_{0}, plans_reused_{0}, nodes_merged_{0}, host_waits_{0}, captured_launches_{0}, next_step_{1};
};

// A step whose feeds arrive in several calls. One call at a time.
class PartialRun {
 public:
  static Result<std::unique_ptr<PartialRun>> Setup(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                   const std::vector<std::string_view>& fetches,
                                                   const std::vector<std::string_view>& targets);
  Status Step(const RunOptions& options, const std::vector<std::string_view>& feed_names, const tenon_tensor_view* const* feeds,
              const std::vector<std::string_view>& fetch_names, std::vector<Tensor>* out_fetches);

 private:
  PartialRun(std::shared_ptr<Session> session, graph::Graph graph) : session_(std::move(session)), graph_(std::move(graph)) {}
  std::shared_ptr<Session> session_;
  graph::Graph graph_;
  std::vector<graph::Edge> feeds_, fetches_;  // declared and still open
  std::vector<int32_t> targets_;
  std::map<graph::Edge, Tensor> known_;       // fed, or computed by an earlier call
  std::vector<bool> executed_;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_SESSION_H_
