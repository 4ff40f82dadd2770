// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/arena.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "core/base/checked.h"
#include "core/base/guard.h"
#include "core/exec/device/environment.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/lower/memory_planner.h"

namespace tenon::exec {
namespace {

std::span<const tenon_in_place> InPlaceOf(const Operation& operation) {
  if (operation.region != nullptr) return operation.region->in_place();
  if (operation.kind != Operation::Kind::kRun && operation.kind != Operation::Kind::kGuarded &&
      operation.kind != Operation::Kind::kQueued)
    return {};
  const tenon_kernel_registration& kernel = operation.prepared->kernel->registration();
  return {kernel.in_place, kernel.in_place_count};
}

class Arena {
 public:
  Arena(const Environment& env, ProgramCode* code) : env_(env), code_(code) {}
  void Run();

 private:
  void ExtendSelected();
  void ShareInPlace(std::vector<Operation>& block);
  void NoteWriters(const std::vector<Operation>& block);
  void NoteReaders(const std::vector<Operation>& block);
  bool IsReadByOthers(SlotId root, QueueId queue) const;
  void PlanArena(int32_t memory);
  // How values of a memory share it.
  enum class Sharing {
    kApart,    // not what one queue writes and another reads; what different queues write does not either
    kByTurns,  // what one queue writes and another reads in two buffers by turns
    kAll,
  };
  uint64_t PlaceSlots(int32_t memory, Sharing sharing);
  std::unordered_map<SlotId, int32_t> SecondTurns(const std::vector<SlotId>& slots) const;

  const Environment& env_;
  ProgramCode* const code_;
  std::unordered_map<SlotId, QueueId> writer_of_;  // root of an arena: the queue that first writes it
  std::unordered_set<SlotId> crossing_;            // roots that another queue reads
  std::unordered_map<SlotId, std::vector<QueueId>> readers_of_;  // root: the queues that read it
};

// A select shows the memory of one of its sides, which may be a select in turn; sides are made before it. By then each
// select's own end is known, that of a loop around its users too; the sides of one within a loop have been used there.
void Arena::ExtendSelected() {
  for (auto it = code_->slots.rbegin(); it != code_->slots.rend(); ++it)
    if (it->home == Home::kSelected)
      for (const SlotId side : it->sides) {
        Slot& root = code_->root(side);
        root.last = std::max(root.last, it->last);
      }
}

void Arena::NoteReaders(const std::vector<Operation>& block) {
  for (const Operation& operation : block) {
    if (!operation.queue) continue;
    for (SlotId slot : operation.inputs) {
      std::vector<QueueId>& readers = readers_of_[code_->RootOf(slot)];
      if (std::find(readers.begin(), readers.end(), operation.queue) == readers.end())
        readers.push_back(operation.queue);
    }
  }
}

bool Arena::IsReadByOthers(SlotId root, QueueId queue) const {
  const auto it = readers_of_.find(root);
  return it != readers_of_.end() &&
         std::any_of(it->second.begin(), it->second.end(), [queue](QueueId reader) { return reader != queue; });
}

// Lets outputs take over inputs that die with the operation, where the kernel allows it; not what another queue reads,
// for which it would have to wait.
void Arena::ShareInPlace(std::vector<Operation>& block) {
  for (Operation& operation : block) {
    if (operation.kind == Operation::Kind::kBranch) ShareInPlace(code_->branch(operation.branch).block);
    if (operation.kind == Operation::Kind::kLoop) {
      Loop& loop = code_->loop(operation.loop);
      ShareInPlace(loop.condition_block);
      ShareInPlace(loop.body_block);
    }
    for (const tenon_in_place& pair : InPlaceOf(operation)) {
      const size_t in = pair.input, out = pair.output;
      if (in >= operation.inputs.size() || out >= operation.outputs.size()) continue;
      const SlotId root = code_->RootOf(operation.inputs[in]);
      Slot& target = code_->at(operation.outputs[out]);
      if (code_->at(root).home != Home::kArena || target.home != Home::kArena ||
          code_->at(root).last != operation.position || code_->at(root).bytes != target.bytes ||
          code_->at(operation.inputs[in]).bytes != target.bytes || code_->at(root).memory != target.memory)
        continue;
      bool elsewhere = false;
      for (size_t i = 0; i < operation.inputs.size(); ++i)
        elsewhere = elsewhere || (i != in && code_->RootOf(operation.inputs[i]) == root);
      if (elsewhere || (operation.queue && IsReadByOthers(root, operation.queue))) continue;
      const int32_t last = target.last;
      if (operation.queue && readers_of_.contains(operation.outputs[out])) {
        const std::vector<QueueId> readers = std::move(readers_of_[operation.outputs[out]]);
        std::vector<QueueId>& all = readers_of_[root];
        all.insert(all.end(), readers.begin(), readers.end());
      }
      target.home = Home::kAlias;
      target.target = root;
      code_->at(root).last = std::max(last, operation.position);
    }
  }
}

void Arena::NoteWriters(const std::vector<Operation>& block) {
  for (const Operation& operation : block)
    if (operation.queue)
      for (SlotId slot : operation.outputs) writer_of_.try_emplace(code_->RootOf(slot), operation.queue);
  for (const Operation& operation : block)
    for (SlotId slot : operation.inputs)
      if (const auto it = writer_of_.find(code_->RootOf(slot)); it != writer_of_.end() && it->second != operation.queue)
        crossing_.insert(code_->RootOf(slot));
}

// Offsets in one memory's arena, and behind them the workspace of the host, or of each queue of the device. What
// different queues write shares no memory, lest one waits for another that it does not need; unless that takes too
// much. Nor do, where that is little of the device's memory, values that go from queue to queue: a copy to the device
// would wait until the value before is read. So transfers that are put off until they are needed
// (plan/transfer_order.h) save memory above that only.
void Arena::PlanArena(int32_t memory) {
  const uint64_t all = memory == 0 ? 0 : env_.devices[memory].device->memory_bytes;
  uint64_t total = PlaceSlots(memory, all == 0 ? Sharing::kByTurns : Sharing::kApart);
  if (all != 0 && total > all / 16) total = PlaceSlots(memory, Sharing::kByTurns);
  if (all != 0 && total > all / 2) total = PlaceSlots(memory, Sharing::kAll);
  for (size_t q = 0; q < code_->workspace_offset.size(); ++q) {
    if ((q == 0 ? 0 : env_.queues[QueueId(q - 1)].device) != memory) continue;
    const uint64_t workspace = code_->workspace_offset[q];
    code_->workspace_offset[q] = total;
    total += RoundUp(workspace, 64);
  }
  code_->arena_bytes[memory] = total;
}

// Until when values that another queue reads keep their memory: until the next such value has been read, so that one
// can be written while the other is read (two buffers by turns).
std::unordered_map<SlotId, int32_t> Arena::SecondTurns(const std::vector<SlotId>& slots) const {
  std::vector<SlotId> crossing;
  for (SlotId slot : slots)
    if (crossing_.contains(slot)) crossing.push_back(slot);
  std::sort(crossing.begin(), crossing.end(),
            [this](SlotId a, SlotId b) { return code_->at(a).last < code_->at(b).last; });
  std::unordered_map<SlotId, int32_t> until;
  for (size_t i = 0; i + 1 < crossing.size(); ++i) until[crossing[i]] = code_->at(crossing[i + 1]).last;
  return until;
}

uint64_t Arena::PlaceSlots(int32_t memory, Sharing sharing) {
  const bool by_queue = sharing != Sharing::kAll;
  std::map<QueueId, std::vector<SlotId>> groups;
  for (const SlotId i : code_->slots.ids()) {
    const Slot& slot = code_->slots[i];
    if (slot.home != Home::kArena || slot.memory != memory) continue;
    const auto writer = writer_of_.find(i);
    groups[by_queue && memory != 0 && writer != writer_of_.end() ? writer->second : QueueId()].push_back(i);
  }
  uint64_t total = 0;
  for (const auto& [queue, slots] : groups) {
    MemoryPlanner planner;
    const std::unordered_map<SlotId, int32_t> later =
        sharing == Sharing::kByTurns ? SecondTurns(slots) : std::unordered_map<SlotId, int32_t>();
    for (SlotId slot : slots) {
      const Slot& value = code_->at(slot);
      if (kGuards && memory == 0) {  // a place for each, and a guard behind it
        planner.Add(value.bytes > kMaxBytes ? value.bytes : value.bytes + kGuardBytes, 0,
                    std::numeric_limits<int32_t>::max());
        continue;
      }
      const auto it = later.find(slot);
      const bool apart = sharing == Sharing::kApart && crossing_.contains(slot);
      planner.Add(value.bytes, value.first,
                  apart               ? std::numeric_limits<int32_t>::max()
                  : it == later.end() ? value.last
                                      : it->second);
    }
    const std::vector<uint64_t> offsets = planner.Plan();
    for (size_t i = 0; i < slots.size(); ++i) code_->at(slots[i]).offset = total + offsets[i];
    total += planner.total();
  }
  return total;
}

void Arena::Run() {
  ExtendSelected();
  for (Slot& slot : code_->slots) slot.last = std::max(slot.last, slot.first);
  code_->ForEachBlock([this](const std::vector<Operation>& block) { NoteReaders(block); });
  ShareInPlace(code_->operations);
  const size_t memories = std::max<size_t>(1, env_.devices.size());
  code_->arena_bytes.resize(memories);
  code_->ForEachBlock([this](const std::vector<Operation>& block) { NoteWriters(block); });
  for (size_t memory = 0; memory < memories; ++memory) PlanArena(static_cast<int32_t>(memory));
}

}  // namespace

void ShareMemory(const Environment& env, ProgramCode* code) { Arena(env, code).Run(); }

}  // namespace tenon::exec
