// SPDX-License-Identifier: Apache-2.0
// What an instance of a program runs: blocks of instructions, each a call with its frame and what that knows.
#ifndef TENON_CORE_EXEC_PROGRAM_INSTRUCTION_H_
#define TENON_CORE_EXEC_PROGRAM_INSTRUCTION_H_

#include <memory>
#include <vector>

#include "core/exec/kernel/frame.h"
#include "core/exec/program/program_code.h"
#include "tenon/device.h"

namespace tenon::exec::program {

class Stretch;
struct Machine;

struct Instruction {
  using Run = tenon_status* (*)(tenon_kernel* kernel, const tenon_prepared* prepared, tenon_frame* frame);
  Run run;
  tenon_kernel* kernel;
  const tenon_prepared* prepared;
  tenon_frame* frame;
};

struct Block {
  std::vector<Instruction> instructions;
};

struct LoopState {
  const Loop* plan;
  Block condition, body;
  int64_t turn = 0;
};

struct BranchState {
  const Branch* plan;
  Block block;
};

// A value of the arena that goes to another part and is not written afterwards: made in a buffer, which is what is
// sent, so that sending copies nothing. The buffer serves the next step too, unless the one who got it has it still.
struct SentBuffer {
  SlotId root;
  std::vector<SlotId> slots;  // that show its memory
  Buffer* buffer = nullptr;
};

// What an instruction's frame->context points at.
struct Context : tenon_frame_context {
  Context();
  ~Context();  // (capture.cc)

  Machine* machine = nullptr;
  const Operation* operation = nullptr;
  bool names_itself = false;                 // of kRun: errors have the node's name already
  std::shared_ptr<const PreparedNode> last;  // of a dynamic operation
  tenon_frame frame{};
  std::vector<const tenon_tensor_view*> inputs;
  std::vector<tenon_tensor_view*> outputs;
  LoopState* loop = nullptr;
  BranchState* branch = nullptr;
  std::unique_ptr<Stretch> stretch;
  const SentBuffer* sent = nullptr;  // of a send
  std::vector<tenon_timeline_point> waits;
};

inline Context* ContextOf(tenon_frame* frame) { return static_cast<Context*>(frame->context); }

}  // namespace tenon::exec::program

#endif  // TENON_CORE_EXEC_PROGRAM_INSTRUCTION_H_
