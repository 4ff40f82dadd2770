// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/machine.h"

#include "core/base/clock.h"
#include "core/exec/device/step.h"
#include "core/exec/exchange/values.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/op_def.h"
#include "core/trace/trace.h"

namespace tenon::exec::program {
namespace {

// What came out of an instruction, in a catch block: a kernel threw it, or the engine has no memory left.
tenon_status* WasThrown(const tenon_frame& frame) {
  const Context& context = *static_cast<const Context*>(frame.context);
  if (context.plugin == nullptr || context.operation->kind != Operation::Kind::kRun || context.names_itself)
    return EngineThrew().release();
  EndLostUpdates(frame);
  return Thrown(*context.plugin, "run").release();
}

template <bool kTimed>
tenon_status* RunBlock(const Block& block, std::vector<OperationTime>* times) {
  const Instruction* at = block.instructions.data();
  const Instruction* const end = at + block.instructions.size();
  std::atomic<const void*>& trail = ThisThreadsTrail().frame;
  tenon_status* bad = nullptr;
  try {
    for (; at != end; ++at) {
      tenon_frame* const frame = at->frame;  // read once: the store would have it read again
      trail.store(frame, std::memory_order_release);
      const uint64_t begin = kTimed ? NowNs() : 0, shared = kTimed ? HostThreads::SharedRuns() : 0;
      if (bad = at->run(at->kernel, at->prepared, frame); __builtin_expect(bad != nullptr, 0)) break;
      if constexpr (kTimed) times->push_back({NowNs() - begin, HostThreads::SharedRuns() != shared});
    }
  } catch (...) {
    bad = WasThrown(*at->frame);
  }
  trail.store(nullptr, std::memory_order_relaxed);
  return bad == nullptr ? nullptr : NameNode(bad, *ContextOf(at->frame));
}

// What a trace says of an instruction besides its name.
std::string Detail(const Context& context, bool went_well) {
  switch (context.operation->kind) {
    case Operation::Kind::kSend: return DescribeTransfer(*context.node, context.inputs[0]);
    case Operation::Kind::kReceive: return DescribeTransfer(*context.node, went_well ? context.outputs[0] : nullptr);
    default: return {};
  }
}

bool IsTraced(const Context& context) {
  const Operation::Kind kind = context.operation->kind;
  return kind != Operation::Kind::kRelease && kind != Operation::Kind::kCheck && kind != Operation::Kind::kBranch &&
         context.stretch == nullptr;
}

tenon_status* RunTraced(const Block& block, trace::Trace* trace) {
  for (const Instruction& instruction : block.instructions) {
    const Context& context = *ContextOf(instruction.frame);
    const uint64_t begin = trace::Trace::Now();
    ThisThreadsTrail().frame.store(instruction.frame, std::memory_order_release);
    tenon_status* bad = nullptr;
    try {
      bad = instruction.run(instruction.kernel, instruction.prepared, instruction.frame);
    } catch (...) {
      bad = WasThrown(*instruction.frame);
    }
    ThisThreadsTrail().frame.store(nullptr, std::memory_order_relaxed);
    if (IsTraced(context))
      trace->Add(context.operation->region != nullptr ? context.operation->region->label() : context.node->name,
                 context.node->op->name, begin, trace::Trace::Now(), Detail(context, bad == nullptr));
    if (bad != nullptr) return NameNode(bad, context);
  }
  return nullptr;
}

}  // namespace

tenon_status* Machine::Execute(const Block& block) {
  return step->trace == nullptr ? RunBlock<false>(block, nullptr) : RunTraced(block, step->trace);
}

tenon_status* ExecuteTimed(const Block& block, std::vector<OperationTime>* times) {
  return RunBlock<true>(block, times);
}

tenon_status* NameNode(tenon_status* bad, const Context& context) {
  return context.operation->kind == Operation::Kind::kRun && !context.names_itself
             ? Status(bad).Annotate(context.node->Describe()).release()
             : bad;
}

}  // namespace tenon::exec::program
