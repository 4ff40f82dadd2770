// SPDX-License-Identifier: Apache-2.0
// Session: a graph that grows, the plans of its steps, and the state that its steps share.
//
// All functions may be called from any thread, also while steps run. Steps are isolated from one another; they share
// variables and other resources alone. An error ends its own step only.
#ifndef TENON_CORE_SESSION_SESSION_H_
#define TENON_CORE_SESSION_SESSION_H_

#include <atomic>
#include <condition_variable>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/optimize/optimize.h"
#include "core/session/callable.h"
#include "core/session/frozen_variables.h"
#include "core/session/planning.h"
#include "core/session/prepared_steps.h"
#include "core/session/session_options.h"

struct tenon_function;

namespace tenon::exec {
class KernelStore;
struct PartInfo;
struct PlanOptions;
struct SessionDevice;
struct StepTimes;
}  // namespace tenon::exec

namespace tenon::session {

class FunctionCode;
class Runtime;
class SessionPlacer;
struct PartialRunPlan;
struct PluginAnswers;
struct PlacementReport;

struct SessionMetrics {
  uint64_t steps, plans_built, plans_reused, bindings_built, bytes_in_use, peak_bytes, nodes_folded, nodes_merged,
      host_waits, device_bytes_in_use, device_peak_bytes, captured_launches;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  // INVALID_ARGUMENT, UNIMPLEMENTED: an option that is wrong, or that such a session cannot honour, by its name.
  static Result<std::shared_ptr<Session>> Create(Runtime* runtime, SessionOptions options);
  ~Session();
  // Cancels what runs and waits for it; not for ever: what does not end keeps what it has. Callables refuse to run from
  // now on, with the reason that the first one gave who closed it.
  void Close(const Status& why = Status::Of(Code::kCancelled, "the session was closed"));

  Status Extend(std::string_view graph_def, const RunOptions& options = {});
  // Adds the nodes of `graph` whose names this session does not know.
  Status ExtendGraph(const graph::Graph& graph);

  // feed_devices, fetch_devices: one name each, "" for the host's memory; or none at all. options: what ends the
  // preparing.
  Result<std::shared_ptr<Callable>> Prepare(const std::vector<std::string_view>& feeds,
                                            const std::vector<std::string_view>& fetches,
                                            const std::vector<std::string_view>& targets,
                                            const std::vector<std::string_view>& feed_devices = {},
                                            const std::vector<std::string_view>& fetch_devices = {},
                                            const RunOptions& options = {});
  // A part of a graph that was partitioned elsewhere: `part` says what its nodes send and receive. Their devices are
  // this session's, or none. in_goes: of steps that stand still where they wait (StepInGoes).
  Result<std::shared_ptr<Callable>> PreparePart(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
                                                std::shared_ptr<const exec::PartInfo> part, bool in_goes);
  // The device of that name, whole or in part, when it says one alone.
  Result<int32_t> FindDevice(std::string_view name) const;
  // From now on variables are constants to the steps that are prepared (frozen_variables.h). For good; asked for twice
  // it is once. UNIMPLEMENTED: the steps run in other processes.
  Status Freeze();
  // Empties containers where the steps run, "" for the unnamed one: how much was dropped.
  Result<int64_t> ResetContainers(const std::vector<std::string_view>& containers);
  // A copy of a value, which lies in the memory `from`, in the memory `to` (0: the host's, else the number of a
  // device).
  Result<Tensor> CopyTo(const tenon_tensor_view& value, int32_t from, int32_t to);
  const exec::SessionDevice& device(int32_t index) const;
  // Prepare and Run; the step stays prepared for a while (prepared_steps.h). What such steps keep for their next run
  // they give up where another lacks it.
  Status Run(const RunOptions& options, const std::vector<std::string_view>& feed_names,
             const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
             const std::vector<std::string_view>& target_names, std::vector<Tensor>* out_fetches);

  // Where the nodes of a step would run, and why; nothing is run.
  Result<PlacementReport> ExplainPlacement(const std::vector<std::string_view>& feeds,
                                           const std::vector<std::string_view>& fetches,
                                           const std::vector<std::string_view>& targets);
  const SessionPlacer& placer() const { return *placer_; }

  SessionMetrics metrics() const;
  Runtime* runtime() const { return runtime_; }
  BufferPool* pool() const { return pool_; }

  // For runs whose feeds come one after the other; kept as those of Run are, but over a cluster, where a plan goes from
  // the tasks with its last run.
  Result<std::shared_ptr<const PartialRunPlan>> PreparePartialRun(const std::vector<std::string_view>& feeds,
                                                                  const std::vector<std::string_view>& fetches,
                                                                  const std::vector<std::string_view>& targets);
  // With the library of the session's graph and no node.
  graph::Graph EmptyGraph() const;

 private:
  Session(Runtime* runtime, SessionOptions options);
  // What a step of these names needs of the graph.
  struct Pruned {
    graph::Graph graph;
    optimize::Request request;
  };
  Result<Pruned> Prune(const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                       const std::vector<std::string_view>& targets) const;
  Result<graph::Graph> InlineCalls(graph::Graph graph, optimize::Request* request) const;
  // What this thread plans while the answer lives ends with the session, and with what the options say.
  Planning StartPlanning(const RunOptions& options);
  // make() -> Result<PreparedSteps::Step>, of what is not kept under the key.
  template <typename Make>
  Result<PreparedSteps::Step> FindOrMake(const std::string& key, const Make& make);
  Result<std::shared_ptr<Callable>> PrepareOnce(const std::vector<std::string_view>& feeds,
                                                const std::vector<std::string_view>& fetches,
                                                const std::vector<std::string_view>& targets,
                                                const std::vector<std::string_view>& feed_devices,
                                                const std::vector<std::string_view>& fetch_devices,
                                                const RunOptions& options);
  // What they refuse of a placed graph; nothing where none is asked: without compiling, or in other processes.
  Result<PluginAnswers> AskPlugins(graph::Graph placed, std::shared_ptr<const exec::StepTimes> times,
                                   const optimize::Request& request);
  Status FindMemories(const std::vector<std::string_view>& names, const std::vector<std::string_view>& devices,
                      const char* what, std::vector<int32_t>* out) const;
  Result<std::shared_ptr<Callable>> MakeCallable(graph::Graph graph, optimize::Request request,
                                                 exec::KernelStore* store, uint32_t precision);
  // Optimized, placed and changed by plugins' passes: what a plan is made of.
  Result<exec::PlanOptions> MakeReady(graph::Graph* graph, optimize::Request* request, uint32_t precision);
  std::vector<Callable::Feed> FeedsOf(const graph::Graph& graph, const optimize::Request& request) const;
  Result<std::shared_ptr<const PartialRunPlan>> MakePartialRun(Pruned pruned);
  uint32_t KernelPrecision() const;
  Result<std::shared_ptr<Callable>> NewCallable(graph::Graph graph, optimize::Request request,
                                                exec::PlanOptions options, exec::KernelStore* store);
  Result<std::shared_ptr<exec::Runnable>> NewRunnable(graph::Graph graph, optimize::Request request,
                                                      exec::PlanOptions options, exec::KernelStore* store);
  void DropFunctions();
  // Of the callable that was not run for longest, of those that keep memory for their next run.
  bool GiveUpIdle();
  // A function of the graph, for kernels; a reference is the caller's.
  Result<tenon_function*> MakeFunction(const graph::FunctionRef& function, std::string_view device);
  // In whose memory the i-th lies; nullptr: the host's.
  const exec::Device* OwnerOf(const std::vector<int32_t>& memories, size_t i) const;
  exec::PlanOptions PlanOptions() const;
  // Inlines calls, makes constants of frozen variables, and merges common subexpressions.
  Result<graph::Graph> Optimize(graph::Graph graph, optimize::Request* request);
  // What a graph of variables and reads alone gives: resource variables' own buffers, where they are in the host's
  // memory.
  Result<std::vector<Tensor>> ReadVariables(graph::Graph graph, const std::vector<graph::Edge>& fetches);

  struct State;  // what its steps work with

  Runtime* runtime_;
  const std::unique_ptr<State> state_;
  SessionOptions options_;
  std::unique_ptr<SessionPlacer> placer_;
  mutable std::shared_mutex graph_mutex_;
  graph::Graph graph_;
  BufferPool* pool_ = nullptr;
  PreparedSteps prepared_;
  std::condition_variable idle_;
  std::vector<std::weak_ptr<Callable>> callables_;  // the steps' mutex guards them
  std::mutex functions_mutex_;
  std::vector<std::weak_ptr<FunctionCode>> functions_;
  std::mutex freeze_mutex_;
  std::atomic<bool> is_frozen_{false};
  std::unique_ptr<FrozenVariables> frozen_;  // there once it is; goes before the pool closes
  std::atomic<uint64_t> plans_built_{0}, plans_reused_{0}, nodes_merged_{0};
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_SESSION_H_
