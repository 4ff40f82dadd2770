// SPDX-License-Identifier: Apache-2.0
// SessionPlacer: where the nodes of a session's steps run, from one step to the next.
//
// A session makes many plans, and state (variables, queues, random streams) must be found by all of them where the
// first put it. So when a plan has state that is new, the session's whole graph is placed first, and says where state
// lives: a plan that only initializes knows nothing of the step that trains. With one device nothing of this is done.
// Thread-safe. Also keeps the costs that traced steps measured, for placements that follow.
#ifndef TENON_CORE_SESSION_SESSION_PLACER_H_
#define TENON_CORE_SESSION_SESSION_PLACER_H_

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/exec/runnable.h"
#include "core/optimize/optimize.h"
#include "core/place/cost_model.h"
#include "core/place/explain.h"
#include "core/place/place.h"
#include "core/place/placement_file.h"
#include "core/session/session_options.h"
#include "core/trace/trace.h"

namespace tenon::exec {
class Plan;
struct Environment;
struct StepTimes;
}  // namespace tenon::exec

namespace tenon::session {

class Runtime;

struct PlacementOptions {
  // What a session's options say of placement, but for the default device. INVALID_ARGUMENT names the line of a text
  // that cannot be read.
  static Result<PlacementOptions> Of(const SessionOptions& options);

  std::string default_device;  // may be partial; empty: none
  bool soft_placement = true, one_task = false, of_cluster = false;
  std::string placer;  // id of the plugin that chooses; empty: the engine
  std::optional<place::PlacementFile> file;
  place::CostModel costs;
};

// A placement in the forms that people and programs read.
struct PlacementReport {
  std::string json, svg, file;
};

// What devices' compilers and kernels say of a placed graph: the nodes that they refuse, and what is predicted where
// compilers take some.
struct PluginAnswers {
  std::vector<place::Refusal> refusals;
  std::string note;  // for people; may be empty
};

class SessionPlacer {
 public:
  // `whole` is the session's graph, which `whole_mutex` guards. All must outlive the placer.
  SessionPlacer(const Runtime* runtime, const exec::Environment* env, const graph::Graph* whole,
                std::shared_mutex* whole_mutex, PlacementOptions options);

  // Writes the device into each node of a step's graph. Do not hold `whole_mutex`.
  // What the step is predicted to take goes to `times`; nothing with one device alone.
  Status Place(const optimize::Request& request, graph::Graph* graph, exec::StepTimes* times);
  using AskCompilers =
      std::function<Result<PluginAnswers>(graph::Graph placed, std::shared_ptr<const exec::StepTimes> times)>;
  // What Place would do, explained, with what compilers refuse; where they cannot be asked, a note says why.
  Result<PlacementReport> Explain(const optimize::Request& request, const graph::Graph& graph, const AskCompilers& ask);

  // Takes what nodes took in a traced step that got these feeds, and the ways of values from task to task.
  void RecordCosts(const exec::TracedGraph& traced, const tenon_tensor_view* const* feeds, const trace::Trace& trace);
  // The file of measured costs (place/cost_model.h), those given at first too.
  std::string Costs() const;

 private:
  Result<place::Request> RequestFor(const graph::Graph& graph, const std::vector<graph::Edge>& feeds,
                                    const std::vector<graph::Edge>& fetches) const;
  Result<place::Placement> PlaceNow(const optimize::Request& request, const graph::Graph& graph,
                                    PlacementReport* report, const AskCompilers& ask,
                                    std::unique_lock<std::mutex>* lock);
  // Settles where new state of `graph` lives, if the whole graph can be placed.
  Status FindHomes(const graph::Graph& graph);
  exec::StepTimes TimesOf(const place::Placement& placement, const graph::Graph& graph) const;
  void Remember(const graph::Graph& graph, const place::Placement& placement);

  const Runtime* runtime_;
  const exec::Environment* env_;
  const graph::Graph* whole_;
  std::shared_mutex* whole_mutex_;
  PlacementOptions options_;
  place::Devices devices_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::string> homes_;  // of nodes with state, by StateName
  bool told_of_dropped_ = false;  // device names that could not hold: said once
  size_t checked_nodes_ = SIZE_MAX;                        // of the whole graph, when the file was checked
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_SESSION_PLACER_H_
