// SPDX-License-Identifier: Apache-2.0
// WorkerValues: values that come from other tasks, on their way into the memory of their steps.
#ifndef TENON_NET_CLUSTER_WORKER_VALUES_H_
#define TENON_NET_CLUSTER_WORKER_VALUES_H_

#include "net/cluster/packet.h"
#include "net/cluster/session_table.h"

namespace tenon::cluster {

// Any thread; it has no lock of its own.
class WorkerValues {
 public:
  // Both outlive it.
  WorkerValues(const StepServices* services, const SessionTable* table) : services_(services), table_(table) {}

  // Memory for a value, which then is placed: it is there, or (an error) never will be. The token is placed's.
  Status Place(tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes, tenon_bytes* out_memory,
               void** out_token) const;
  void Placed(void* token, Status status) const;

 private:
  struct Arrival;
  static Status MakeRoom(const WorkerSession& session, const DataHead& head, uint64_t bytes, Arrival* arrival);
  // The number of who sent it, as metrics have it.
  size_t SenderOf(const WorkerPart* part, const DataKey& key) const;
  // Makes variants of the bytes that came.
  Status Unpack(Arrival* arrival) const;

  const StepServices* const services_;
  const SessionTable* const table_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_VALUES_H_
