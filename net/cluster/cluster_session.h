// SPDX-License-Identifier: Apache-2.0
// ClusterSession: a master's session at the tasks of a cluster, as its plans and runs use it.
#ifndef TENON_NET_CLUSTER_CLUSTER_SESSION_H_
#define TENON_NET_CLUSTER_CLUSTER_SESSION_H_

#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/exec/device/device.h"
#include "core/session/session_options.h"
#include "net/cluster/network.h"
#include "net/cluster/open_runs.h"
#include "net/cluster/task_table.h"
#include "net/cluster/unsettled_parts.h"

namespace tenon::cluster {

struct MasterOptions {
  // Of any task, or of several, separated by commas. Credentials go to these alone, and to sockets beside one of them:
  // whoever answers at an address may say that the cluster's other tasks are anywhere.
  std::string address;
  std::string credentials;          // of the transports, JSON
  uint64_t connect_ns = 10'000'000'000;
  uint64_t ping_ns = 500'000'000, silence_ns = 3'000'000'000, lease_ns = 15'000'000'000;
  session::SessionOptions session;  // what holds at the workers is sent to them
};

// Any thread, once it is joined (cluster_greeting.h). What it is made of has its own locks; the rest is fixed then.
class ClusterSession {
 public:
  ClusterSession(Network::Finder finder, MasterOptions options);
  // The tasks are told, and what still comes from them is waited for.
  ~ClusterSession();
  ClusterSession(const ClusterSession&) = delete;
  ClusterSession& operator=(const ClusterSession&) = delete;

  const MasterOptions& options() const { return options_; }
  uint64_t number() const { return number_; }
  Network& network() { return network_; }
  TaskTable& tasks() { return tasks_; }
  const TaskTable& tasks() const { return tasks_; }
  OpenRuns& runs() { return runs_; }
  UnsettledParts& unsettled() { return unsettled_; }
  const std::vector<exec::Device>& devices() const { return devices_; }
  void Add(exec::Device device) { devices_.push_back(std::move(device)); }
  uint32_t NewPartNumber() { return next_part_.fetch_add(1); }
  // Bytes of large values that a part asks for ahead of need (asked_values.h).
  uint64_t receive_window() const {
    return options_.session.receive_window == 0 ? uint64_t{8} << 20 : options_.session.receive_window;
  }

  // Tells the tasks that nobody runs these parts any more, without waiting for them. A task that does not hear it keeps
  // them to the session's end.
  void Drop(const std::map<size_t, DropParts>& of_tasks);
  // How many resources were dropped. Those that live are asked, whatever the others say; the first error is returned.
  Result<int64_t> ResetContainers(const std::vector<std::string_view>& containers);

 private:
  // Gives up what values of that task were lost of, beyond the losses that are known.
  void TakeLosses(size_t task, uint64_t known, const PingReply& answer);

  const MasterOptions options_;
  const uint64_t number_;
  Network network_;  // serves nothing
  OpenRuns runs_;
  TaskTable tasks_;
  UnsettledParts unsettled_;
  std::vector<exec::Device> devices_;
  std::atomic<uint32_t> next_part_{1};
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_SESSION_H_
