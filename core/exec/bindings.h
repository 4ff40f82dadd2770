// SPDX-License-Identifier: Apache-2.0
// Bindings: what a plan became for which shapes of its feeds.
//
// For each set of shapes it makes a Program (straight code), or says that the dynamic executor must run the plan.
// Programs are kept, the last few of them.
#ifndef TENON_CORE_EXEC_BINDINGS_H_
#define TENON_CORE_EXEC_BINDINGS_H_

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/cancellation.h"
#include "core/exec/plan/device_constants.h"
#include "core/exec/plan/plan.h"
#include "core/exec/runnable.h"
#include "core/exec/threads/pooled.h"

namespace tenon::exec {

struct OperationTime;
class DynamicInstance;
class DynamicPlan;
class Program;
class ProgramInstance;
using BoundProgram = Pooled<Program, ProgramInstance>;
using BoundDynamicPlan = Pooled<DynamicPlan, DynamicInstance>;

// Any thread.
class Bindings final : public Runnable {
 public:
  explicit Bindings(std::shared_ptr<const Plan> plan);
  ~Bindings() override;

  // The program for these feed shapes; made on first use. `last` is tried first. A NULL program: run dynamically.
  // Of a part, the feeds are followed by a view for each of the plan's receives(), which shows the shape that will
  // come, as far as it is known. cancellation: the step's, which ends the making too, and the wait for constants on
  // their way to devices; nullptr: nothing does.
  Result<std::shared_ptr<BoundProgram>> Bind(const tenon_tensor_view* const* feeds,
                                             const std::shared_ptr<BoundProgram>& last,
                                             Cancellation* cancellation = nullptr);
  // The dynamic executor's form of the plan; made on first use.
  Result<BoundDynamicPlan*> Dynamic(Cancellation* cancellation = nullptr);

  // How long a step took that was timed: of the program, operation by operation; dynamically, of feeds whose program
  // stands by.
  void NoteTimes(const std::shared_ptr<BoundProgram>& program, const std::vector<OperationTime>& times);
  bool any_stands_by() const { return any_stands_by_.load(std::memory_order_relaxed); }
  void NoteDynamic(const tenon_tensor_view* const* feeds, uint64_t ns);

  std::unique_ptr<Run> NewRun() override;
  bool DropIdle() override;
  std::string Explain() const override;
  Counts counts() const override;
  const Plan* plan() const override { return plan_.get(); }
  TracedGraph traced() const override { return {&plan_->graph(), &plan_->order(), &plan_->feeds()}; }
  uint64_t FixedProgram(const tenon_tensor_view* const* feeds) const override;

 private:
  // Whether the plan runs dynamically whatever the feeds are.
  bool always_dynamic() const { return always_dynamic_.load(std::memory_order_relaxed); }
  graph::NodeMap<const char*> HowNodesRun() const;
  std::string InputNames(const graph::Node& node) const;

  const std::shared_ptr<const Plan> plan_;
  DeviceConstants constants_;
  std::atomic<bool> always_dynamic_;
  mutable std::mutex mutex_;  // guards all below but the counts
  std::string why_dynamic_;   // what the last refused binding said
  std::vector<std::shared_ptr<BoundProgram>> programs_;
  std::vector<std::vector<Shape>> dynamic_shapes_;  // of feeds, for which no program could be made
  // A program whose kernels the dynamic executor runs side by side (program/side_by_side.h).
  struct StandsBy {
    std::shared_ptr<BoundProgram> program;
    uint64_t straight_ns;           // a step of it
    uint64_t best_ns = UINT64_MAX;  // a dynamic one
    int steps = 0;
  };
  std::vector<StandsBy> stand_by_;
  std::atomic<bool> any_stands_by_{false};
  size_t next_evicted_ = 0;
  std::unique_ptr<BoundDynamicPlan> dynamic_;
  std::atomic<uint64_t> bindings_built_{0}, nodes_folded_{0};
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_BINDINGS_H_
