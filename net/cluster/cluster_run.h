// SPDX-License-Identifier: Apache-2.0
// ClusterRun: one step of a cluster's plan: a call to each task that has a part, and its answer.
#ifndef TENON_NET_CLUSTER_CLUSTER_RUN_H_
#define TENON_NET_CLUSTER_CLUSTER_RUN_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "core/trace/trace.h"
#include "net/cluster/cluster_plan.h"

namespace tenon::cluster {

class ClusterRun : public exec::Run {
 public:
  explicit ClusterRun(std::shared_ptr<ClusterPlan> plan)
      : plan_(std::move(plan)), fetches_(plan_->fetch_count()), views_(plan_->fetch_count()), losses_(plan_->parts().size()) {}

  Status Go(exec::Step* step, const tenon_tensor_view* const* feeds) override;
  const tenon_tensor_view& fetch(size_t i) const override { return views_[i]; }
  void Finish() override {
    for (Tensor& tensor : fetches_) tensor = Tensor();
  }
  // Cancels what is still open; the first reason is the step's answer.
  void GiveUp(Status why);

 private:
  struct Open {
    OutPacket packet;
    uint64_t call = 0, called_ns = 0;
    bool done = false;
    bool answered = false;  // by the task itself
  };
  void NoteUnsettled(uint64_t number);
  void Start(size_t part, uint64_t number, const tenon_tensor_view* const* feeds);
  void Done(size_t part, Status status, tenon_span response);
  Status Take(size_t part, tenon_span response);
  void TakeTrace(size_t part, const RunReply& reply);
  // Until all parts have answered; then the master forgets the step.
  void Await(uint64_t number);
  Master& master() const { return *plan_->master(); }

  const std::shared_ptr<ClusterPlan> plan_;
  std::shared_ptr<const exec::ChannelShapes::Known> shapes_;
  std::vector<Tensor> fetches_;
  std::vector<tenon_tensor_view> views_;
  trace::Trace* trace_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Open>> open_;
  std::vector<Subscription> losses_;  // of the parts' tasks
  size_t running_ = 0;
  bool given_up_ = false, repeated_ = false;  // repeated: a planted bug's
  Status first_;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_RUN_H_
