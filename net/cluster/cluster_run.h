// SPDX-License-Identifier: Apache-2.0
// ClusterRun: one step of a cluster's plan: a call to each task that has a part, and its answer.
#ifndef TENON_NET_CLUSTER_CLUSTER_RUN_H_
#define TENON_NET_CLUSTER_CLUSTER_RUN_H_

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/exec/device/step.h"
#include "core/exec/runnable.h"
#include "core/trace/trace.h"
#include "net/cluster/clock_difference.h"
#include "net/cluster/cluster_parts.h"
#include "net/cluster/open_runs.h"

namespace tenon::cluster {

class ClusterRun : public exec::Run, private OpenRun {
 public:
  explicit ClusterRun(std::shared_ptr<const ClusterParts> parts)
      : parts_(std::move(parts)),
        fetches_(parts_->fetch_count),
        views_(parts_->fetch_count),
        losses_(parts_->all.size()) {}

  // Where the step has a resumer it stands still while its tasks work.
  Status Go(exec::Step* step, const tenon_tensor_view* const* feeds) override;
  bool stands_still() const override { return stands_still_; }
  Status GoOn() override;
  const tenon_tensor_view& fetch(size_t i) const override { return views_[i]; }
  void Finish() override {
    for (Tensor& tensor : fetches_) tensor = Tensor();
  }

 protected:
  struct Open {
    OutPacket packet;
    uint64_t call = 0, called_ns = 0;
    bool done = false;
    bool answered = false;  // by the task itself
  };
  // A call into a part, of a packet that is finished; of a step that is given up meanwhile it is cancelled. of: an
  // Open, or what is like it.
  template <class Of, class Answer>
  void Call(std::string_view method, size_t part, Of* of, Answer answer);
  // Calls the tasks.
  Status Begin(exec::Step* step, const tenon_tensor_view* const* feeds);
  // Until all parts have answered; then the session forgets the step.
  void Await();
  // What became of the step, once it is awaited.
  Status End();
  // Of a part's answer, what comes after its fetches.
  virtual Status TakeGiven([[maybe_unused]] size_t part, [[maybe_unused]] const RunReply& reply,
                           [[maybe_unused]] InPacket* packet) {
    return Status::Ok();
  }
  // The step has been given up.
  virtual void CancelCalls();
  // Of a call that was made then; nothing where none is traced.
  template <class Answer>
  void TakeTrace(size_t part, uint64_t called_ns, const Answer& answer);
  ClusterSession& session() const { return *parts_->session; }
  const ClusterParts::Part& part(size_t i) const { return parts_->all[i]; }
  const std::shared_ptr<Connection>& ConnectionTo(size_t i) const { return session().tasks().connection(part(i).task); }
  bool Uses(size_t task) const override {
    return std::any_of(parts_->all.begin(), parts_->all.end(), [task](const auto& part) { return part.task == task; });
  }
  void GiveUp(Status why) override;

  const std::shared_ptr<const ClusterParts> parts_;
  std::shared_ptr<const exec::ChannelShapes::Known> shapes_;
  std::vector<Tensor> fetches_;
  std::vector<tenon_tensor_view> views_;
  std::mutex mutex_;
  trace::Trace* trace_ = nullptr;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Open>> open_;
  std::vector<Subscription> losses_;  // of the parts' tasks
  size_t running_ = 0;
  bool given_up_ = false;
  uint64_t number_ = 0, begin_ns_ = 0;  // of the step

 private:
  // Whether there is something to wait for: then the last answer tells the resumer.
  bool Park(const std::shared_ptr<exec::Resumer>& resumer);
  void NoteUnsettled();
  void Start(size_t part, const tenon_tensor_view* const* feeds);
  void Done(size_t part, Status status, tenon_span response);
  Status Take(size_t part, tenon_span response);

  std::shared_ptr<exec::Resumer> resumer_;  // to be told; mutex_ guards it
  Subscription cancelled_;
  bool stands_still_ = false;
  bool repeated_ = false;  // a planted bug's
  Status first_;
};

template <class Of, class Answer>
void ClusterRun::Call(std::string_view method, size_t part, Of* of, Answer answer) {
  const std::shared_ptr<Connection>& connection = ConnectionTo(part);
  const uint64_t call = connection->Call(method, of->packet.pieces(), 0, std::move(answer));
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    of->call = call;
    late = given_up_ && !of->done;
  }
  if (late) connection->Cancel(call);
}

// A worker's spans, by this process's clock.
template <class Answer>
void ClusterRun::TakeTrace(size_t index, uint64_t called_ns, const Answer& answer) {
  const std::lock_guard lock(mutex_);
  if (trace_ == nullptr) return;
  const int64_t ahead = ClockAheadNs(called_ns, answer.came_ns(), answer.answered_ns(), trace::Trace::Now());
  const auto here = [ahead](uint64_t ns) {
    return static_cast<uint64_t>(std::max<int64_t>(0, static_cast<int64_t>(ns) - ahead));
  };
  const std::string& task = session().tasks().task(part(index).task).name();
  for (const TraceSpan& span : answer.spans())
    trace_->AddOn({StrCat(task, span.group()), span.group().empty() ? StrCat("thread ", span.line()) : span.line()},
                  span.name(), span.category(), here(span.begin_ns()), here(span.end_ns()), span.detail());
}

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_CLUSTER_RUN_H_
