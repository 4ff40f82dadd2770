// SPDX-License-Identifier: Apache-2.0
// ClusterGreeting: how a master's session begins: one task says which others there are, and each opens the session.
#ifndef TENON_NET_CLUSTER_CLUSTER_GREETING_H_
#define TENON_NET_CLUSTER_CLUSTER_GREETING_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/place/device_name.h"
#include "net/cluster/cluster_session.h"

namespace tenon::cluster {

// One thread.
class ClusterGreeting {
 public:
  // It outlives this, and nobody else has it yet.
  explicit ClusterGreeting(ClusterSession* session) : session_(session), options_(session->options()) {}

  // Greets all tasks that the session's device filters leave, and opens the session at each. UNAVAILABLE or
  // DEADLINE_EXCEEDED name the task that cannot be reached.
  Status Join();

  // Whether the credentials may be shown at an address that another task gave.
  static Status CheckGiven(const std::vector<std::string>& given, const Task& task);

 private:
  // The hello of the first given task that answers.
  Status GreetAny(uint64_t deadline_ns, HelloReply* out);
  Status Greet(std::string_view address, uint64_t deadline_ns, HelloReply* out);
  Status Open(size_t task, uint64_t deadline_ns, const HelloReply& hello);
  // The devices that the option device_filters leaves of a task.
  Status AddDevices(const HelloReply& hello);
  Status ReadFilters();
  // Of a task's name, whether any of its devices may be.
  bool IsVisible(const place::DeviceName& name, bool whole_task) const;

  ClusterSession* const session_;
  const MasterOptions& options_;
  std::vector<std::string> given_;          // addresses
  std::vector<place::DeviceName> filters_;  // none: all devices
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_GREETING_H_
