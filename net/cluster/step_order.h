// SPDX-License-Identifier: Apache-2.0
// StepOrder: what a master asks of a part in one step, and its answer.
#ifndef TENON_NET_CLUSTER_STEP_ORDER_H_
#define TENON_NET_CLUSTER_STEP_ORDER_H_

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/trace/trace.h"
#include "net/cluster/packet.h"
#include "net/cluster/worker_step.h"

namespace tenon::cluster {

// One thread at a time.
struct StepOrder : std::enable_shared_from_this<StepOrder> {
  RunPart head;
  InPacket packet;
  Reply reply;
  std::deque<std::vector<int64_t>> dims;
  std::vector<tenon_tensor_view> views;
  std::vector<const tenon_tensor_view*> pointers;
  Status status;         // whether it could be read
  uint64_t program = 0;  // that will run it, when it is known and does the same work each time
  bool here = false;     // on the transport's thread
  trace::Trace trace;
  uint64_t began = 0;  // on `thread`, by its own clock
  std::thread::id thread;
  // The answer. The fetches' bytes are in `out`, which points into them: all stay until they are sent.
  std::vector<Tensor> fetches;
  std::vector<exec::Message> given;  // of a step in goes: what nobody has taken yet
  OutPacket out;
  RunReply answer;

  // The feeds, and the shapes of what the part receives.
  Status Read(const WorkerPart& part);
  // Runs the step, for the answer: on this thread, and, when it has waited, on one of the services' background.
  // computed: once.
  void Compute(const std::shared_ptr<WorkerStep>& step, std::function<void(Status)> computed);
  // Of a step in goes, once it has ended.
  Status TakeLeft(WorkerStep* step);

 private:
  Status Fill(std::vector<Tensor> given);
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_STEP_ORDER_H_
