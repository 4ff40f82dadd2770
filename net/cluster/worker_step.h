// SPDX-License-Identifier: Apache-2.0
// WorkerStep: a step of a part at its worker: when it runs, and how its values come and go. What is for another task
// goes there.
#ifndef TENON_NET_CLUSTER_WORKER_STEP_H_
#define TENON_NET_CLUSTER_WORKER_STEP_H_

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "net/cluster/asked_values.h"
#include "net/cluster/part_step.h"
#include "net/cluster/worker_goes.h"

namespace tenon::cluster {

class WorkerStep : public PartStep {
 public:
  WorkerStep(const StepServices* services, std::shared_ptr<WorkerSession> owner, std::shared_ptr<const WorkerPart> of,
             uint64_t id)
      : PartStep(std::move(owner), std::move(of), id),
        services_(services),
        window_(part->asks, part->receive_window) {
    if (part->in_goes) goes = std::make_unique<WorkerGoes>(this, services);
  }

  Status Send(const exec::RendezvousKey& key, exec::Message message) override;
  void Receive(const exec::RendezvousKey& key, Receiver receiver) override;
  // Values that are asked for (asked_values.h): asks for the first; tells senders of those that it did not need; what
  // another task says of one of this part's; calls `then` when the last has gone or the step is cancelled, on the
  // thread where that happens or in the background.
  void AskFirst();
  void AskNoMore();
  void Wished(int32_t channel, bool wanted);
  void WhenGiven(std::function<void()> then);
  // In the background, with this step's lines of the log.
  void Later(std::function<void()> work);
  // A value that came from another task; the step may run in this call.
  Status Take(const exec::RendezvousKey& key, exec::Message message);
  // Calls `run` when all values are there, on the thread that brings the last; cancelled before, in the background.
  void RunWhenReady(std::function<void()> run);

  std::unique_ptr<WorkerGoes> goes;  // of a part in goes
  bool started() const { return started_ns != 0; }
  // The lock of its session's parts guards the next three.
  uint64_t started_ns = 0;  // 0: values have come, the master's message has not; fixed once it is not
  std::vector<Reply> settles;  // to be given when it is over
  tenon_peer* early_of = nullptr;  // who sent its first value, until it begins

 private:
  std::shared_ptr<WorkerStep> Self() { return std::static_pointer_cast<WorkerStep>(shared_from_this()); }
  Status SendNow(const exec::RendezvousKey& key, exec::Message message, int32_t to);
  // Asks for the values that the window now names, or that they are not wanted. `what`: a member of AskingWindow, and
  // what it takes.
  template <class What, class... Channel>
  void AskWhat(bool wanted, What what, Channel... channel);
  void Ask(const std::vector<int32_t>& channels, bool wanted);
  // What is to be done when nothing is kept any more, once.
  std::function<void()> TakeThen(bool over);
  // The channel's number among the part's tasks; -1: it stays here.
  int32_t TargetOf(const exec::RendezvousKey& key) const;
  // The value as it goes out: plain bytes, which the message keeps; cells and bytes of strings side by side; variants
  // as variant_bytes.h says.
  Result<tenon_span> Lay(exec::Message* message) const;
  // A value did not reach another task.
  void Lost(Status why);
  // The run, when it is time for it and nobody has taken it.
  std::function<void()> TakeRun(bool ready);

  const StepServices* const services_;
  std::mutex run_mutex_;
  size_t came_ = 0;  // values
  std::function<void()> run_;
  std::mutex asked_mutex_;
  AskingWindow window_;
  KeptValues kept_;
  std::function<void()> then_;
  Subscription given_up_, kept_no_more_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_WORKER_STEP_H_
