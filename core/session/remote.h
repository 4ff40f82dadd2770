// SPDX-License-Identifier: Apache-2.0
// Remote: other processes that run a session's steps, as the session sees them. net/cluster brings it.
//
// The session keeps the graph, and prunes, optimizes and places; a remote gets the placed graph, and runs it where its devices are.
#ifndef TENON_CORE_SESSION_REMOTE_H_
#define TENON_CORE_SESSION_REMOTE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/exec/plan.h"

namespace tenon::session {

// One step at a time.
class RemoteRun {
 public:
  virtual ~RemoteRun() = default;
  // On the caller's thread, which waits. Feeds are borrowed until Finish.
  virtual Status Run(exec::Step* step, const tenon_tensor_view* const* feeds) = 0;
  // Fetch i in a buffer of its own, in host memory; from a Run that went well until Finish.
  virtual const tenon_tensor_view& fetch(size_t i) const = 0;
  virtual void Finish() = 0;
};

// Any thread.
class RemotePlan {
 public:
  virtual ~RemotePlan() = default;
  virtual std::unique_ptr<RemoteRun> NewRun() = 0;
  // JSON: which node runs where.
  virtual std::string Explain() const = 0;
};

// Any thread. Outlives its plans.
class Remote {
 public:
  virtual ~Remote() = default;
  // With whole names; the first is the default. Fixed.
  virtual const std::vector<exec::Device>& devices() const = 0;
  // graph: just the nodes to run, each with the whole name of its device. env: for what the host evaluates itself.
  virtual Result<std::shared_ptr<RemotePlan>> MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches,
                                                       std::vector<int32_t> targets, const exec::Environment& env,
                                                       const exec::Plan::Options& options) = 0;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_REMOTE_H_
