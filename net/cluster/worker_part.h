// SPDX-License-Identifier: Apache-2.0
// WorkerPart: the part (TensorFlow: partition) of a session's steps that a worker runs, as a master registered it.
#ifndef TENON_NET_CLUSTER_WORKER_PART_H_
#define TENON_NET_CLUSTER_WORKER_PART_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/exec/plan/plan_options.h"
#include "core/session/session.h"
#include "net/cluster/asked_values.h"
#include "net/cluster/metrics.h"
#include "net/cluster/packet.h"
#include "net/cluster/quick_runs.h"

namespace tenon::cluster {

// Does not change once it is registered, but for what its last runs took.
struct WorkerPart {
  uint32_t number = 0;
  std::vector<std::string> names;  // of channels
  std::vector<int32_t> to;         // by channel: of `tasks`; -1: here
  std::vector<Task> tasks;
  std::vector<uint32_t> parts;     // of each of `tasks`
  std::map<std::string, Task> peers;  // that it sends values to, or gets them from; by address
  std::vector<size_t> peer_numbers;  // of each of `tasks`, as metrics number them
  std::vector<int32_t> from;       // by channel: of `tasks`
  std::vector<int32_t> receives;   // channels, in the order of the callable's receives
  std::set<int32_t> of_variants;   // those of `receives` whose values are variants
  std::vector<uint64_t> asked_bytes;  // by channel: of its value, which its receiver asks for; 0: it is not asked for
  std::vector<AskingWindow::Value> asks;  // those of `receives` that are asked for
  uint64_t receive_window = 0;
  bool in_goes = false;  // its steps stand still between their callers' calls, and these are the channels of those:
  std::vector<int32_t> fed, given;
  std::shared_ptr<session::Callable> callable;
  bool runs_through = false;         // its steps wait for nobody once all that it receives is there
  std::set<std::string> targets;     // addresses, with their schemes, of those it sends values to
  mutable QuickRuns quick;

  bool Receives(int32_t channel) const;
  // Whether this part sends it when it is asked for it.
  bool IsAskedFor(int32_t channel) const;
};

// A part on its way: what a master's message says of it, checked.
struct PartPlan {
  // own: this task. INVALID_ARGUMENT: what the message says does not fit together, or the graph.
  static Result<PartPlan> Read(const RegisterPart& asked, const graph::OpRegistry& ops, std::string_view own,
                               WorkerMetrics* metrics);
  // Makes its callable; once.
  Status Prepare(session::Session* session, const RegisterPart& asked);

  std::shared_ptr<WorkerPart> part = std::make_shared<WorkerPart>();

 private:
  explicit PartPlan(const graph::OpRegistry& ops) : graph_(&ops) {}
  Status ReadGraph(const RegisterPart& asked);
  Status ReadNodes(const RegisterPart& asked);
  Status ReadChannel(const RegisterPart& asked, const Channel& channel, std::string_view own);
  Status ReadEnds(const RegisterPart& asked);

  graph::Graph graph_;
  std::shared_ptr<exec::PartInfo> info_ = std::make_shared<exec::PartInfo>();
  std::vector<graph::Edge> feeds_, fetches_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_PART_H_
