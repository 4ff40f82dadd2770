// SPDX-License-Identifier: Apache-2.0
// DynamicPlan: a plan laid out for the dynamic executor. Immutable.
//
// Each frame (0 is the step itself, the others are loops) has its nodes in topological order and a slot for each value
// that is consumed in it. An edge is a slot: its producer writes the slot of the frame that the edge leads to, and its
// consumers' inputs point at it, so that no value is copied for a consumer. An Enter writes a slot of the loop that it
// enters, an Exit one of the loop around its own. Feeds have the root's first slots; they, and constants that wait for
// nothing, are there from the start; nobody counts them.
#ifndef TENON_CORE_EXEC_DATAFLOW_DYNAMIC_PLAN_H_
#define TENON_CORE_EXEC_DATAFLOW_DYNAMIC_PLAN_H_

#include <deque>
#include <memory>
#include <vector>

#include "core/exec/plan/device_constants.h"
#include "core/exec/plan/plan.h"
#include "core/graph/frame_id.h"

namespace tenon::graph {
class LoopAnalysis;
}

namespace tenon::exec {

using graph::FrameId;

class DynamicPlan {
 public:
  using LocalId = Id<struct LocalKind>;  // of a node, within its frame
  // Both outlive it.
  static Result<std::unique_ptr<const DynamicPlan>> Create(const Plan& plan, DeviceConstants* constants);

  enum class Kind : uint8_t {
    kKernel,
    kForward,
    kSwitch,
    kMerge,
    kEnter,
    kExit,
    kNextIteration,
    kTrigger,
    kConstant,
    kUnfed,
    kTransfer,
    kSend,
    kReceive
  };

  struct Target {
    static constexpr int32_t kPlain = -2;         // any input of a node that is no merge
    static constexpr int32_t kMergeControl = -1;  // others: the input of a merge
    LocalId node;  // of the frame that the edge leads to
    int32_t input;
  };
  // A reference input whose node wants the variable's value: read from slot `from` into slot `to` before it runs.
  struct Dereference {
    int32_t input, from, to;
    int32_t memory;  // of the variable
    DType dtype;     // that the node wants
  };
  struct NodeInfo {
    Kind kind = Kind::kKernel;
    bool is_static = false;       // its value is there from the start; never runs
    bool runs_when_dead = false;  // a control trigger
    bool constant_enter = false;
    bool follows_queues = false;  // a control edge leads to it from another device's queue
    bool may_run_beside = false;  // MayRunBeside of its runner
    bool host_waits = false;      // for work of a device: the thread that drives the step stands still meanwhile
    graph::NodeId id;
    FrameId frame = graph::kStep;  // where it runs; an Enter runs in the parent of the frame that it enters
    LocalId local;
    int32_t rank = 0;          // its place in the plan's order, which is that of construction
    int32_t pending = 0;       // inputs that must arrive; of a merge: its control inputs
    int32_t first_input = 0;   // of the frame's input_slots
    int32_t input_count = 0;
    int32_t first_output = 0;  // slots of the frame that its outputs lead to
    int32_t output_count = 0;
    int32_t first_range = 0;   // of ranges(): output k's targets, then the controls
    int32_t first_dereference = 0, dereference_count = 0;  // of the frame's
    int32_t call = -1;         // number among the frame's kernels
    int32_t entered = -1;      // of an Enter: number among its frame's children
    int32_t exit = -1;         // of an Exit: number among its frame's exits
    ChannelId channel;         // of a send or receive
    int32_t first_fetch = 0, fetch_count = 0;  // of fetch_order()
    const graph::Node* node = nullptr;
    NodeRunner* runner = nullptr;
  };
  struct SlotInfo {
    int32_t uses = 0;  // consumers
    const Tensor* constant = nullptr;
    int32_t memory = 0;  // of the constant
  };
  struct NodeState {
    int32_t pending;
    int32_t dead;     // inputs that arrived dead
    int32_t live;     // a merge's first live input
    int32_t started;  // of a merge
  };
  struct FrameInfo {
    FrameId parent;
    int child = -1;  // its number among its parent's children
    int32_t depth = 0;
    int32_t rank = -1;  // of a loop: the first of its nodes', or of those of the loop around it that stands in no other
    int32_t enters = 0;
    int64_t parallel_iterations = 10;
    std::vector<FrameId> children;
    IdVector<LocalId, NodeInfo> nodes;
    IdVector<LocalId, NodeState> initial;
    std::vector<SlotInfo> slots;
    std::vector<int32_t> input_slots;
    std::vector<Dereference> dereferences;
    std::vector<LocalId> sources, exits, kernels;
  };
  struct Fetch {
    int32_t slot = -1;  // of the root
    bool is_static = false;
  };

  const Plan& plan() const { return *plan_; }
  const IdVector<FrameId, FrameInfo>& frames() const { return frames_; }
  const std::vector<Target>& targets() const { return targets_; }
  const std::vector<int32_t>& ranges() const { return ranges_; }
  const std::vector<Fetch>& fetches() const { return fetches_; }
  // Fetches, those of one node side by side.
  const std::vector<int32_t>& fetch_order() const { return fetch_order_; }
  // Merges that a feed goes to.
  const std::vector<Target>& fed_merges() const { return fed_merges_; }

 private:
  DynamicPlan(const Plan* plan, DeviceConstants* constants);
  Status Fill();
  Status LayOutNodes(const graph::LoopAnalysis& loops);
  Status Connect();
  void FindFollowers();
  Status FindFetches();
  int32_t AddSlot(FrameId frame);
  NodeInfo& InfoOf(graph::NodeId id) {
    const auto [frame, local] = where_[id];
    return frames_[frame].nodes[local];
  }
  bool Runs(graph::NodeId id) const { return bool(where_[id].first); }
  // The frame that a node's outputs lead to.
  FrameId Onward(const NodeInfo& info) const;

  const Plan* plan_;
  DeviceConstants* constants_;
  graph::NodeMap<std::pair<FrameId, LocalId>> where_;  // none: not in the plan
  IdVector<FrameId, FrameInfo> frames_;
  std::vector<Target> targets_;
  std::vector<int32_t> ranges_;
  std::vector<Fetch> fetches_;
  std::vector<int32_t> fetch_order_;
  std::vector<Target> fed_merges_;
  std::deque<Tensor> device_constants_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DATAFLOW_DYNAMIC_PLAN_H_
