// SPDX-License-Identifier: Apache-2.0
// The dynamic executor: runs a plan node by node as values arrive, for control flow that straight code cannot express,
// asynchronous kernels, and as the reference that straight code is tested against.
//
// Semantics (tagged dataflow): a value belongs to a frame (a loop that runs) and an iteration of it. A node runs in an
// iteration when all its inputs have arrived there; a merge when one live input has, or all are dead. Deadness spreads
// through data and control edges. Enter, Exit and NextIteration move values between frames and iterations.
//
// Invariants. All bookkeeping belongs to the thread that drives the step; kernels that finish elsewhere leave a message
// in an inbox. So there is no lock and no atomic for a node. Run returns when nothing of the step runs any more.
#ifndef TENON_CORE_EXEC_DYNAMIC_EXECUTOR_H_
#define TENON_CORE_EXEC_DYNAMIC_EXECUTOR_H_

#include <memory>
#include <vector>

#include "core/graph/loop_analysis.h"
#include "core/exec/plan.h"

namespace tenon::exec {

// What never changes between the steps of a plan.
class DynamicPlan {
 public:
  static Result<std::unique_ptr<DynamicPlan>> Create(const Plan& plan);

  struct Target {
    int32_t node;
    int32_t input;  // -1: a control edge
  };
  struct NodeInfo {
    const graph::Node* node = nullptr;
    NodeRunner* runner = nullptr;
    int frame = 0;             // where it runs; an Enter runs in the parent of the frame that it enters
    int32_t local = -1;        // its number within its frame
    int32_t first_input = -1;  // of the iteration's input values
    int32_t data_inputs = 0;
    int32_t control_inputs = 0;
    int entered_frame = -1;    // of an Enter
    bool is_constant_enter = false;
    std::vector<std::vector<Target>> outputs;  // one list an output
    std::vector<Target> controls;
    std::vector<int32_t> fetches;              // pairs (output, fetch)
  };
  struct FrameInfo {
    int parent = -1;
    std::vector<int32_t> nodes;
    int32_t input_values = 0;
    int32_t enters = 0;
    int64_t parallel_iterations = 10;
  };
  struct Feed {
    std::vector<Target> targets;
  };

  const Plan& plan() const { return *plan_; }
  const std::vector<NodeInfo>& nodes() const { return nodes_; }
  const std::vector<FrameInfo>& frames() const { return frames_; }
  const std::vector<Feed>& feeds() const { return feeds_; }

 private:
  explicit DynamicPlan(const Plan* plan) : plan_(plan) {}
  Status Fill();

  const Plan* plan_;
  std::vector<NodeInfo> nodes_;  // by node id; node == nullptr: not in the plan
  std::vector<FrameInfo> frames_;
  std::vector<Feed> feeds_;
};

// Runs a step. out_fetches: one view a fetch; their buffers are given to the caller (a view without buffer is borrowed
// from a feed).
Status RunDynamicStep(const DynamicPlan& plan, Step* step, const tenon_tensor_view* const* feeds,
                      std::vector<tenon_tensor_view>* out_fetches);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DYNAMIC_EXECUTOR_H_
