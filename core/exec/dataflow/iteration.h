// SPDX-License-Identifier: Apache-2.0
// What the dynamic executor has of a frame: its iterations, each with a slot for each value, a call for each kernel,
// and memory of its own for small results. All of it is made once and used again by later iterations and steps.
#ifndef TENON_CORE_EXEC_DATAFLOW_ITERATION_H_
#define TENON_CORE_EXEC_DATAFLOW_ITERATION_H_

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/exec/dataflow/dynamic_plan.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/node_runner.h"

namespace tenon::exec::dataflow {

using Kind = DynamicPlan::Kind;
using LocalId = DynamicPlan::LocalId;
using NodeInfo = DynamicPlan::NodeInfo;
using FrameInfo = DynamicPlan::FrameInfo;
using Target = DynamicPlan::Target;
using NodeState = DynamicPlan::NodeState;

class Elsewhere;
struct FrameInstance;
struct Iteration;

struct Slot {
  tenon_tensor_view view{};
  uint64_t shape_id = 0;                   // equal ids: equal dims; 0: not known
  const PreparedNode* made_for = nullptr;  // the view is ready for this kernel's result
  char* memory = nullptr;                  // of its own
  uint32_t capacity = 0;
  int32_t uses = 0;    // consumers that are still to come, while owned
  int32_t depth = 0;   // of the frame whose memory a view without buffer points into
  bool owned = false;  // holds a reference to the buffer
};

// A kernel of an iteration.
struct Call : tenon_frame_context {
  tenon_frame frame{};
  std::shared_ptr<const PreparedNode> last;
  uint64_t* seen = nullptr;  // [inputs] shape ids that `last` was found for
  Iteration* iteration = nullptr;
  const NodeInfo* info = nullptr;
  // Of one that runs elsewhere.
  Elsewhere* home = nullptr;  // where it comes back to
  Buffer* workspace = nullptr;
  bool elsewhere = false;
  bool computes = false;   // there, on a thread for what computes
  void* number = nullptr;  // in AsyncCalls; nullptr: a thread of ours has it
  Call* next = nullptr;    // in the inbox
  uint64_t begin_ns = 0, end_ns = 0;
  Status status;
};

// Values of an iteration are moved by its own functions alone: they keep the counts of who consumes them.
struct Iteration {
  const FrameInfo* info = nullptr;
  FrameInstance* frame = nullptr;
  BufferPool* pool = nullptr;
  int64_t number = 0;
  uint64_t turn = 0;    // its loop's rank, and when it began: the lower comes first; 0: the step itself
  int64_t running = 0;  // nodes ready or running
  // Ready nodes, a bit each, by their numbers: those of the step and of a turn become ready in about this order.
  std::vector<uint64_t> ready, ready_dead;
  size_t first_ready = 0;  // word before which there is none
  size_t ready_count = 0, dead_count = 0;  // the second: of those that are dead
  size_t active_at = 0;  // its place among those that have ready nodes
  int64_t children = 0;  // child frames that run
  int64_t owned = 0;     // slots that hold a buffer
  IdVector<LocalId, NodeState> states;
  std::vector<Slot> slots;
  std::unique_ptr<Call[]> calls;
  std::vector<const tenon_tensor_view*> input_views;
  std::vector<tenon_tensor_view*> output_views;
  std::vector<uint64_t> seen;
  std::vector<FrameInstance*> child_frames;        // by number of the child
  std::vector<std::pair<char*, uint64_t>> chunks;  // of the pool
  uint64_t chunk_used = 0;
  Iteration* next_spare = nullptr;

  Slot& Input(const NodeInfo& node, int32_t i) { return slots[info->input_slots[node.first_input + i]]; }
  // The slot holds a reference to its buffer from now on, for its consumers.
  void Own(Slot* slot, int32_t uses) {
    slot->owned = true;
    slot->uses = uses;
    ++owned;
  }
  void Own(int32_t at) { Own(&slots[at], info->slots[at].uses); }
  // One consumer less.
  void Use(Slot* slot) {
    if (!slot->owned || --slot->uses > 0) return;
    ReleaseOutput(&slot->view);
    slot->owned = false;
    --owned;
  }
  // The node has consumed what it was given.
  void UseInputs(const NodeInfo& node);
  // The same memory under another name; somebody else keeps it.
  Slot& Lend(const Slot& from, int32_t to) {
    Slot& slot = slots[to];
    slot.view = from.view;
    slot.shape_id = from.shape_id;
    slot.depth = from.depth;
    return slot;
  }
  // The same within the iteration, with a reference of its own.
  void Forward(const Slot& from, int32_t to) {
    Slot& slot = Lend(from, to);
    if (slot.view.buffer == nullptr) return;
    Retain(slot.view.buffer);
    Own(to);
  }
  // Of another iteration: what stands in memory that that one will use again is copied.
  Status Carry(const Slot& from, const Iteration& source, int32_t to);
  // The slot's own memory, grown when it must be; old memory stays with the iteration.
  Result<char*> MemoryOf(Slot* slot, uint64_t bytes);
  // Its values are let go, and nothing of it runs.
  void ReleaseSlots();
  void FreeMemory();
};

// A loop that runs, or the step itself.
struct FrameInstance {
  FrameId frame = graph::kStep;
  const FrameInfo* info = nullptr;
  Iteration* parent = nullptr;
  int32_t pending_enters = 0;
  int64_t first_number = 0;
  std::deque<Iteration*> iterations;  // the oldest first
  struct Invariant {
    const NodeInfo* enter;
    bool dead;
    Slot value;
  };
  std::vector<Invariant> invariants;
  std::vector<const NodeInfo*> waiting;  // NextIterations of the newest, held back by the limit
  enum class ExitState : uint8_t { kNone, kDead, kLive };
  std::vector<ExitState> exits;
  FrameInstance* next_spare = nullptr;
};

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_ITERATION_H_
