// SPDX-License-Identifier: Apache-2.0
// ProgramInstance: a program's memory and frames for one step at a time.
//
// An instance has its own arena, views and frames. Running is a loop over (function, kernel, prepared, frame): no
// bookkeeping for a node.
#ifndef TENON_CORE_EXEC_PROGRAM_INSTANCE_H_
#define TENON_CORE_EXEC_PROGRAM_INSTANCE_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/exec/program/fetch_places.h"
#include "core/exec/program/machine.h"
#include "core/exec/program/sent_buffers.h"

namespace tenon::exec {

class ProgramInstance {
 public:
  // The program outlives it.
  static Result<std::unique_ptr<ProgramInstance>> Create(const Program* program);
  ~ProgramInstance();

  // Feeds are borrowed for the step. Where the step keeps its fetches, large ones are made where it has a place for
  // them, or in buffers of their own, instead of the arena; what copies from a device bring, where the place is pinned
  // memory, which stays when the device does not come back.
  Status Run(Step* step, const tenon_tensor_view* const* feeds);
  // Whether a device still has hold of its memory: it may not be used again, nor freed.
  bool abandoned() const { return machine_.queues.abandoned(); }
  // What fetch i is; valid until Finish.
  const tenon_tensor_view& fetch(size_t i) const { return machine_.views[code_.fetch_slots[i]]; }
  // Whether it was made in a buffer of its own.
  bool fetch_is_own(size_t i) const { return fetches_->IsOwn(i); }
  // What the operations took, one by one, in the last Run; empty: it was not timed.
  const std::vector<OperationTime>& times() const { return times_; }
  // Releases the step's buffers.
  void Finish();

 private:
  explicit ProgramInstance(const Program* program) : program_(program), code_(program->code()), machine_(program) {}
  Status MakeArenas();
  // What is no value's and no workspace.
  void GuardArena();
  void MakeViews();
  void MakeView(SlotId id);
  void MakeBlocks();
  void MakeBlock(const std::vector<Operation>& operations, program::Block* block);
  program::Context* MakeContext(const Operation& operation);
  program::Instruction MakeInstruction(program::Context* context);
  void BindFeeds(const tenon_tensor_view* const* feeds);
  Status RunWithQueues(Step* step);
  // The step's own block.
  tenon_status* ExecuteAll();

  const Program* const program_;
  const ProgramCode& code_;
  std::vector<char*> arenas_;  // by memory
  program::Machine machine_;
  program::Block block_;
  std::optional<program::FetchPlaces> fetches_;
  std::optional<program::SentBuffers> sent_;
  std::vector<std::pair<SlotId, int32_t>> feed_slots_;  // and the feed
  std::vector<SlotId> feed_aliases_;
  std::vector<SlotId> buffer_slots_;
  std::vector<OperationTime> times_;
  bool borrows_ = false;  // there are fetches, or feeds in a device's memory: the caller's, when the step has returned
  Step* bound_step_ = nullptr;  // that the contexts know; a run context keeps its step
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PROGRAM_INSTANCE_H_
