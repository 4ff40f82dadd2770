// SPDX-License-Identifier: Apache-2.0
// WorkerSessions: what masters ask of their sessions at a worker: how they begin, what they register, and how they end.
#ifndef TENON_NET_CLUSTER_WORKER_SESSIONS_H_
#define TENON_NET_CLUSTER_WORKER_SESSIONS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/session/runtime.h"
#include "net/cluster/early_steps.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"
#include "net/cluster/peers.h"
#include "net/cluster/session_table.h"
#include "net/cluster/worker_budgets.h"

namespace tenon::exec {
class ResourceManager;
}  // namespace tenon::exec

namespace tenon::cluster {

// Any thread; it has no lock of its own: what changes is the table's and the sessions'. A request that fails is
// answered by who hands it over.
class WorkerSessions {
 public:
  // What it is given with the worker's start; all but the list of tasks outlive it.
  struct Parts {
    session::Runtime* runtime;
    const StepServices* services;
    SessionTable* table;
    EarlySteps* early;
    Peers* peers;
    const WorkerBudgets* budgets;
    uint64_t incarnation;
    std::vector<Task> tasks;  // of the cluster
  };
  explicit WorkerSessions(Parts parts);
  // Variables of all sessions that have not asked for their own go.
  ~WorkerSessions();
  WorkerSessions(const WorkerSessions&) = delete;
  WorkerSessions& operator=(const WorkerSessions&) = delete;

  // These two take their time.
  Status Open(tenon_peer* peer, tenon_span request, Reply reply);
  Status Register(tenon_span request, Reply reply);
  Status Drop(tenon_span request, Reply reply);
  Status Reset(tenon_span request, Reply reply);
  Status Close(tenon_span request, Reply reply);

  // Ends a session, and waits for its steps; these are cancelled.
  void End(const SessionTable::Session& session, const Status& why);
  void EndAll();
  void EndLate(uint64_t now_ns);
  // Those of a master that is gone, in the background.
  void OnLost(tenon_peer* master);
  // Gives up the open steps that exchange values with a task. noted: what was sent to it may be lost, also of steps
  // that are over.
  void LosePeer(const std::string& address, std::string_view why, bool noted);

 private:
  void Log(uint64_t session, uint32_t level, std::string_view text) const;
  // Ends the sessions of an owner, and waits for their steps, for a bounded time.
  Status EndOf(const std::string& owner, const std::string& secret);
  Result<std::shared_ptr<session::Session>> Make(const OpenSession& asked, session::SessionOptions options) const;
  Status CheckOwn(const Task& task) const;

  const Parts parts_;
  const std::unique_ptr<exec::ResourceManager> unnamed_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_SESSIONS_H_
