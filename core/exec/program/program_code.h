// SPDX-License-Identifier: Apache-2.0
// ProgramCode: what a program is made of. The passes of lower/ write it; afterwards it does not change.
//
// Every value has a slot. A slot's view points into the arena (offset fixed by lifetimes), at a constant, at a feed, at
// another slot's memory (alias), or at a buffer that the step makes (variables, data-dependent shapes). A structured
// while loop is one operation over two blocks of its own, the side of a conditional one over one block.
#ifndef TENON_CORE_EXEC_PROGRAM_PROGRAM_CODE_H_
#define TENON_CORE_EXEC_PROGRAM_PROGRAM_CODE_H_

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/claims.h"

namespace tenon::exec {

// kSelected: where the taken side of a conditional has it, known only in the step.
enum class Home : uint8_t { kArena, kConstant, kFeed, kAlias, kBuffer, kSelected };

using SlotId = Id<struct SlotKind>;
using LoopId = Id<struct LoopKind>;
using BranchId = Id<struct BranchKind>;
using PointId = Id<struct PointKind>;

struct Slot {
  DType dtype = TENON_DT_INVALID;
  Shape shape;
  uint64_t bytes = 0;
  Home home = Home::kArena;
  SlotId target;         // of an alias
  int32_t feed = -1;     // the number of a feed
  int32_t memory = 0;    // 0: the host's; else the number of a device with queues
  uint64_t offset = 0;   // in the memory's arena
  Tensor constant;       // in its memory
  std::array<SlotId, 2> sides;  // of a selected one: the slots that it may show, made before it
  // Positions in emission order, over the alias group (kept at its root).
  int32_t first = -1;
  int32_t last = -1;
};

struct Operation {
  enum class Kind : uint8_t {
    kRun,       // the kernel itself
    kGuarded,   // the kernel with variables or outputs of its own: pins and shapes are looked after
    kCompiled,  // what a compiler made of a set of nodes, on the host
    kQueued,    // the kernel submits work to a device's queue
    kTransfer,  // a value into another memory, or within a device
    kWait,      // the host waits for points
    kDynamic,   // shapes are known only now
    kRead,      // dereference a variable into a slot
    kView,      // point a slot at another slot's buffer
    kRelease,   // drop a slot's buffer
    kLoop,
    kBranch,   // a block that runs when a predicate has a value
    kSelect,   // a merge: outputs are the value and, as int32, which input it is; inputs: predicate, false side, true
               // side
    kCheck,    // cancelled?
    kSend,     // a value to another part
    kReceive,  // waits for one
  };
  Kind kind = Kind::kRun;
  graph::NodeId node;
  int32_t position = -1;
  std::vector<SlotId> inputs, outputs;
  std::shared_ptr<const PreparedNode> prepared;
  std::shared_ptr<const CompiledRegion> region;  // of what stands for a set of nodes; `node` is the first
  bool guarded = false;  // as kGuarded, of a queue's kernel
  QueueId queue;         // none: the host
  std::vector<PointId> waits;  // must be reached before
  PointId signal;              // is told after it; none: nobody waits for it
  LoopId loop;
  BranchId branch;
  int32_t input_of_side[2] = {-1, -1};  // of a select
  std::vector<LoopId> around;  // of a send or receive: the loops, the outermost first
};

struct Branch {
  SlotId predicate;  // a bool
  int side = 0;
  std::vector<Operation> block;
};

struct Loop {
  struct Carried {
    SlotId initial, current, next;
    bool through_temporary;  // next may be another variable's current: all such copies go through a temporary
    SlotId temporary;
    bool queued = false;  // in a device's memory: transfers in the blocks do it
  };
  std::vector<Operation> condition_block, body_block;
  std::vector<Carried> carried;
  SlotId condition;  // a bool
  int32_t end = -1;        // the position that ends it
};

struct ProgramCode {
  std::vector<Shape> feed_shapes;  // of feeds, then of what is received
  IdVector<SlotId, Slot> slots;
  std::vector<Operation> operations;
  IdVector<LoopId, Loop> loops;
  std::deque<Branch> branches;  // their blocks stay where they are while others are added
  std::vector<SlotId> fetch_slots;
  std::vector<uint64_t> arena_bytes;       // by memory
  std::vector<uint64_t>
      workspace_offset;  // of the host (0) or a queue (its number + 1), within the arena of its memory
  std::vector<QueueId> queues;             // that it submits to
  int32_t point_count = 0;                 // that it waits for

  uint64_t& workspace(QueueId queue) { return workspace_offset[queue ? queue.index() + 1 : 0]; }
  uint64_t workspace(QueueId queue) const { return workspace_offset[queue ? queue.index() + 1 : 0]; }

  Slot& at(SlotId slot) { return slots[slot]; }
  const Slot& at(SlotId slot) const { return slots[slot]; }
  // The slot that holds what an alias shows; any other is its own.
  SlotId RootOf(SlotId slot) const {
    while (at(slot).home == Home::kAlias) slot = at(slot).target;
    return slot;
  }
  // Whether a loop carries it from turn to turn.
  bool IsCarried(SlotId root) const {
    const auto is_root = [&](SlotId slot) { return slot && RootOf(slot) == root; };
    for (const Loop& loop : loops)
      for (const Loop::Carried& each : loop.carried)
        if (is_root(each.initial) || is_root(each.current) || is_root(each.next) || is_root(each.temporary))
          return true;
    return false;
  }
  Slot& root(SlotId slot) { return at(RootOf(slot)); }
  const Slot& root(SlotId slot) const { return at(RootOf(slot)); }
  Loop& loop(LoopId index) { return loops[index]; }
  const Loop& loop(LoopId index) const { return loops[index]; }
  Branch& branch(BranchId index) { return branches[index.index()]; }
  const Branch& branch(BranchId index) const { return branches[index.index()]; }

  // The blocks: the step's own, then those of branches and loops. A block's operations may be replaced.
  template <typename Visit>
  void ForEachBlock(Visit&& visit) { VisitBlocks(*this, visit); }
  template <typename Visit>
  void ForEachBlock(Visit&& visit) const { VisitBlocks(*this, visit); }

 private:
  template <typename Self, typename Visit>
  static void VisitBlocks(Self& self, Visit& visit) {
    visit(self.operations);
    for (auto& each : self.branches) visit(each.block);
    for (auto& each : self.loops) {
      visit(each.condition_block);
      visit(each.body_block);
    }
  }
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PROGRAM_PROGRAM_CODE_H_
