// SPDX-License-Identifier: Apache-2.0
// PartedPlan: a step as one plan a device, of its partition each, which exchange values by channels. PartedRun: one
// step of it at a time.
//
// Each part runs on a thread of its own, as it would on a machine of its own: the caller's runs the first. Parts meet
// at a rendezvous and nowhere else, variables and other resources excepted, which belong to the session. The first
// failure of a part aborts the rendezvous and cancels the other parts; it is what the step answers, with the part's
// device.
//
// The plan is immutable, apart from its known shapes; a run serves one step at a time.
#ifndef TENON_CORE_EXEC_PARTS_PARTED_PLAN_H_
#define TENON_CORE_EXEC_PARTS_PARTED_PLAN_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/exec/parts/channel_shapes.h"
#include "core/exec/bindings.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/exchange/rendezvous.h"
#include "core/partition/partition.h"

namespace tenon::exec {

class PartedPlan final : public Runnable {
 public:
  struct Part {
    std::string device;
    std::shared_ptr<Bindings> bindings;
    std::vector<int32_t> feed_numbers;  // among the step's
    std::vector<ChannelId> channels;    // of the plan's receives()
  };
  struct Fetch {
    int32_t part, index;
  };

  // The graph's nodes have the full names of the environment's devices.
  static Result<std::shared_ptr<PartedPlan>> Create(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                    std::vector<graph::Edge> fetches,
                                                    std::vector<graph::NodeId> targets, const Environment& env,
                                                    KernelStore* store, Plan::Options options);

  const graph::Graph& graph() const { return graph_; }  // the whole
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<Fetch>& fetches() const { return fetches_; }
  const std::vector<std::string>& channel_names() const { return channel_names_; }
  const Environment& env() const { return env_; }

  ChannelShapes& shapes() { return *shapes_; }

  std::unique_ptr<Run> NewRun() override;
  bool DropIdle() override;
  // Part by part.
  std::string Explain() const override;
  Counts counts() const override;

 private:
  PartedPlan(graph::Graph graph, const Environment& env) : graph_(std::move(graph)), env_(env) {}
  Status MakeParts(partition::Partitioned parted, KernelStore* store, const Plan::Options& options);
  int32_t DeviceOf(const std::string& name) const;
  std::shared_ptr<const StepTimes> TimesOf(const StepTimes& whole, const partition::Part& part, int32_t device) const;

  graph::Graph graph_;
  const Environment env_;
  std::vector<graph::Edge> feeds_;
  IdVector<ChannelId, graph::Edge> values_;
  std::vector<Part> parts_;
  std::vector<Fetch> fetches_;
  std::vector<std::string> channel_names_;
  std::unique_ptr<ChannelShapes> shapes_;
};

class PartedRun final : public Run {
 public:
  explicit PartedRun(PartedPlan* plan);
  ~PartedRun() override;
  PartedRun(const PartedRun&) = delete;
  PartedRun& operator=(const PartedRun&) = delete;

  Status Go(Step* step, const tenon_tensor_view* const* feeds) override;
  const tenon_tensor_view& fetch(size_t i) const override;
  void Finish() override;
  bool abandoned() const override;
  void ReturnInstances() override;

  const Rendezvous& rendezvous() const { return rendezvous_; }

 private:
  struct Part {
    Part(const PartedPlan::Part& from, PartedRun* owner);
    const PartedPlan::Part& from;
    std::unique_ptr<Run> run;
    Step step;
    std::unique_ptr<Cancellation> cancellation;
    Subscription cancelled;
    std::vector<const tenon_tensor_view*> feeds;
    Status status;
    std::thread thread;
  };

  void Begin(Step* step, const tenon_tensor_view* const* feeds);
  Status End(Step* step);
  void RunPart(size_t part);
  void NoteFailure(size_t part, const Status& status);
  void EndThreads();
  void Serve(size_t part);

  PartedPlan* plan_;
  Rendezvous rendezvous_;
  std::shared_ptr<const ChannelShapes::Known> shapes_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::mutex mutex_;  // guards all below
  std::condition_variable start_, done_;
  uint64_t step_number_ = 0;  // threads run a part when it grows
  size_t running_ = 0;
  bool stop_ = false;
  int64_t first_failed_ = -1;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PARTS_PARTED_PLAN_H_
