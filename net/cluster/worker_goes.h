// SPDX-License-Identifier: Apache-2.0
// WorkerGoes: how a step of a part goes on between its callers' calls, and stands still while nothing comes. It holds
// no thread then.
#ifndef TENON_NET_CLUSTER_WORKER_GOES_H_
#define TENON_NET_CLUSTER_WORKER_GOES_H_

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "core/exec/exchange/rendezvous.h"
#include "core/session/callable.h"
#include "core/trace/trace.h"
#include "net/cluster/network.h"
#include "net/cluster/packet.h"

namespace tenon::cluster {

class PartStep;
struct StepServices;

// What a master asks of a step in goes, and its answer.
struct GoOrder {
  GoStep head;
  InPacket packet;
  Reply reply;
  std::vector<exec::Message> given;  // whose bytes stand in `out`
  OutPacket out;
  GoReply answer;
};

// Any thread.
class WorkerGoes {
 public:
  // Both outlive it; the step owns it.
  WorkerGoes(PartStep* step, const StepServices* services);

  // It runs from now on, and calls `ended` once, at its end. Values may have come before.
  void Begin(bool trace, std::function<void(Status status)> ended);
  // Answers the order when it is time, now or later. An error: it has not, and will not.
  Status Ask(std::shared_ptr<GoOrder> order);
  // Values, from another task and to one of the part's.
  void Came();
  void Sent(int32_t to);

  // What was made of a channel, for an answer.
  Status Give(int32_t channel, std::vector<exec::Message>* given, OutPacket* out, ChannelValue* head);
  // For the last answer.
  void TellSent(google::protobuf::RepeatedField<uint64_t>* out) const;
  void TakeTrace(google::protobuf::RepeatedPtrField<TraceSpan>* out);

 private:
  using Orders = std::vector<std::shared_ptr<GoOrder>>;
  void Wake(uint64_t came);
  void Drive();
  void End(Status status);
  Status Feed(const std::shared_ptr<GoOrder>& order);
  // Those that are to be answered now. Under the mutex.
  Orders TakeReady();
  bool IsReady(const GoOrder& order) const;
  void Answer(const Orders& orders);
  // From now on, until the caller says otherwise. Under the mutex.
  void Trace(bool traces);

  PartStep* const step_;
  const StepServices* const services_;
  mutable std::mutex mutex_;
  std::unique_ptr<session::StepInGoes> goes_;  // of the thread that drives it
  std::function<void(Status status)> ended_;
  bool begun_ = false, over_ = false;
  bool driving_ = false, news_ = false;  // news: what has come since
  bool elsewhere_ = false;               // what drives it waits for kernels
  Orders waiting_;
  std::vector<uint64_t> sent_;
  uint64_t received_ = 0;
  bool traces_ = false;
  std::unique_ptr<trace::Trace> trace_;  // that is not told yet
  Subscription given_up_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_GOES_H_
