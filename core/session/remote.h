// SPDX-License-Identifier: Apache-2.0
// Remote: other processes that run a session's steps, as the session sees them. net/cluster brings it.
//
// The session keeps the graph, and prunes, optimizes and places; a remote gets the placed graph, and runs it where its
// devices are.
#ifndef TENON_CORE_SESSION_REMOTE_H_
#define TENON_CORE_SESSION_REMOTE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/exec/plan/plan_options.h"
#include "core/graph/graph.h"

namespace tenon::exec {
class Runnable;
struct Device;
struct Environment;
}  // namespace tenon::exec

namespace tenon::session {

// Any thread. Outlives its plans.
class Remote {
 public:
  virtual ~Remote() = default;
  // With whole names; the first is the default. Fixed.
  virtual const std::vector<exec::Device>& devices() const = 0;
  // graph: just the nodes to run, each with the whole name of its device. env: for what the host evaluates itself.
  // What comes gives its fetches in host memory, in buffers of their own. Where options.part says which nodes meet
  // callers, steps go in several goes, and their rendezvous is a CallersMeeting.
  virtual Result<std::shared_ptr<exec::Runnable>> MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                           std::vector<graph::Edge> fetches,
                                                           std::vector<graph::NodeId> targets,
                                                           const exec::Environment& env,
                                                           const exec::PlanOptions& options) = 0;
  // Empties containers everywhere, "" for the unnamed one: how much was dropped. One that fails does not keep the
  // others from it.
  virtual Result<int64_t> ResetContainers(const std::vector<std::string_view>& containers) = 0;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_REMOTE_H_
