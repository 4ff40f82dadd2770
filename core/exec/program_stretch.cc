// SPDX-License-Identifier: Apache-2.0
// Stretches: what a program gives a queue between two waits, as one captured piece.
//
// Invariants. A stretch's work has no wait but before its first operation and no signal but after its last one; reads of variables
// within it may come before all of its work, because nothing in it writes one, and so may the question whether the step was cancelled;
// releases may come after. What is captured has the addresses of its frames: those of the instance's arenas never change, the others
// are compared before every launch.
#include <algorithm>

#include "core/base/log.h"
#include "core/exec/program.h"

namespace tenon::exec {
namespace {

constexpr int kRunsBefore = 2;         // a step or two may be all that there is
constexpr size_t kMostCaptured = 4;    // sets of addresses: two buffers a variable change places together
constexpr int kMostReplaced = 16;      // then addresses change in every step, and capturing costs more than it saves
constexpr size_t kLeastWork = 2;

const tenon_graph_capture* CaptureOf(const Device& device) {
  if (device.driver->get_extension == nullptr) return nullptr;
  return static_cast<const tenon_graph_capture*>(device.driver->get_extension(device.handle, Span(TENON_EXTENSION_GRAPH_CAPTURE)));
}

enum class Role { kNone, kRead, kAsk, kWork, kDrop };

Role RoleOf(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kRead:
      return operation.queue >= 0 ? Role::kRead : Role::kNone;
    case Operation::Kind::kCheck:
      return Role::kAsk;
    case Operation::Kind::kRelease:
      return Role::kDrop;
    case Operation::Kind::kQueued:
      if (operation.region != nullptr) return operation.guarded ? Role::kNone : Role::kWork;
      if (operation.prepared->kernel->has(TENON_KERNEL_PASSIVE)) return Role::kRead;
      return operation.prepared->kernel->has(TENON_KERNEL_CAPTURE_SAFE) && !operation.guarded ? Role::kWork : Role::kNone;
    default:
      return Role::kNone;
  }
}

}  // namespace

ProgramInstance::Stretch::~Stretch() {
  for (const Captured& each : captured) capture->destroy(each.graph);
}

// Whether the address of a slot's value may be another in the next step.
bool ProgramInstance::MayMove(int32_t slot) const {
  const std::vector<Slot>& slots = program_->slots();
  while (slots[static_cast<size_t>(slot)].home == Home::kAlias) slot = slots[static_cast<size_t>(slot)].target;
  const Home home = slots[static_cast<size_t>(slot)].home;
  return home != Home::kArena && home != Home::kConstant;
}

// Whether the operation goes on with the stretch; a new stretch takes its queue from it.
bool ProgramInstance::JoinsStretch(const Context& context, const Stretch& stretch, int32_t* queue) const {
  const Operation& operation = *context.operation;
  const Role role = RoleOf(operation);
  if (role == Role::kNone) return false;
  if (role == Role::kDrop || role == Role::kAsk) return !stretch.all.instructions.empty();
  if (!operation.waits.empty() && !(role == Role::kWork && stretch.work.instructions.empty() && stretch.reads.instructions.empty())) return false;
  if (role == Role::kRead && operation.signal >= 0) return false;
  if (stretch.all.instructions.empty()) *queue = operation.queue;
  return operation.queue == *queue;
}

void ProgramInstance::AddToStretch(const Instruction& instruction, Stretch* stretch) const {
  const Operation& operation = *ContextOf(instruction.frame)->operation;
  stretch->all.instructions.push_back(instruction);
  const Role role = RoleOf(operation);
  (role == Role::kRead || role == Role::kAsk ? stretch->reads : role == Role::kDrop ? stretch->drops : stretch->work).instructions.push_back(instruction);
  if (role != Role::kWork) return;
  const auto look = [&](const std::vector<int32_t>& operands) {
    for (int32_t slot : operands)
      if (MayMove(slot)) stretch->moving.push_back(&views_[static_cast<size_t>(slot)]);
  };
  look(operation.inputs);
  look(operation.outputs);
}

// Replaces each stretch of the block's instructions by one.
void ProgramInstance::FindStretches(Block* block) {
  const Environment& env = program_->plan().env();
  if (!env.capture || env.queues.empty()) return;
  std::vector<Instruction> out;
  auto stretch = std::make_unique<Stretch>();
  int32_t queue = -1;
  const auto close = [&] {
    const tenon_graph_capture* capture =
        stretch->work.instructions.size() < kLeastWork ? nullptr : CaptureOf(*env.devices[static_cast<size_t>(env.queues[static_cast<size_t>(queue)].device)].device);
    if (capture == nullptr) {
      out.insert(out.end(), stretch->all.instructions.begin(), stretch->all.instructions.end());
    } else {
      std::sort(stretch->moving.begin(), stretch->moving.end());
      stretch->moving.erase(std::unique(stretch->moving.begin(), stretch->moving.end()), stretch->moving.end());
      stretch->capture = capture;
      contexts_.push_back(std::make_unique<Context>());
      Context& context = *contexts_.back();
      const Context& first = *ContextOf(stretch->work.instructions.front().frame);
      context.node = first.node;
      context.instance = this;
      context.operation = first.operation;
      context.frame.context = &context;
      context.stretch = std::move(stretch);
      out.push_back({&RunStretch, nullptr, nullptr, &context.frame});
    }
    stretch = std::make_unique<Stretch>();
  };
  for (const Instruction& instruction : block->instructions) {
    const Context& context = *ContextOf(instruction.frame);
    bool joins = JoinsStretch(context, *stretch, &queue);
    if (!joins && !stretch->all.instructions.empty()) {
      close();
      joins = JoinsStretch(context, *stretch, &queue);
    }
    if (!joins) {
      out.push_back(instruction);
      continue;
    }
    AddToStretch(instruction, stretch.get());
    if (context.operation->signal >= 0 && RoleOf(*context.operation) == Role::kWork) close();
  }
  close();
  block->instructions = std::move(out);
}

tenon_status* ProgramInstance::RunStretch(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  Stretch& stretch = *context->stretch;
  if (stretch.refused || self->step_->trace != nullptr || stretch.runs < kRunsBefore) {
    ++stretch.runs;
    return self->Execute(stretch.all);
  }
  if (tenon_status* bad = self->Execute(stretch.reads)) return bad;
  if (tenon_status* bad = self->RunCaptured(&stretch)) return bad;
  return self->Execute(stretch.drops);
}

tenon_status* ProgramInstance::RunCaptured(Stretch* stretch) {
  std::vector<const void*>& addresses = stretch->addresses;
  addresses.clear();
  for (const tenon_tensor_view* view : stretch->moving) addresses.push_back(DataOf(*view));
  auto found = std::find_if(stretch->captured.begin(), stretch->captured.end(), [&](const Stretch::Captured& each) { return each.addresses == addresses; });
  if (found == stretch->captured.end()) {
    Result<tenon_captured_graph*> graph = Capture(*stretch);
    if (graph.ok() && stretch->captured.size() == kMostCaptured) {
      stretch->capture->destroy(stretch->captured.front().graph);
      stretch->captured.erase(stretch->captured.begin());
      if (++stretch->replaced == kMostReplaced) stretch->refused = true;
    }
    if (!graph.ok()) stretch->refused = true;
    if (stretch->refused) {
      const Context& first = *ContextOf(stretch->work.instructions.front().frame);
      Log(TENON_LOG_INFO, StrCat("the work from ", first.node->Describe(), " on is submitted kernel by kernel: ",
                                 graph.ok() ? "its addresses change in every step" : graph.status().message()));
    }
    if (!graph.ok()) return Execute(stretch->work);
    stretch->captured.push_back({addresses, *graph});
  } else {
    std::rotate(found, found + 1, stretch->captured.end());
  }
  Context* const first = ContextOf(stretch->work.instructions.front().frame);
  Context* const last = ContextOf(stretch->work.instructions.back().frame);
  const auto launch = [&]() -> Status {
    TENON_RETURN_IF_ERROR(BeforeWork(first));
    TENON_RETURN_IF_ERROR(work_.Launch(first->operation->queue, *stretch->capture, stretch->captured.back().graph, first->node->name));
    return AfterWork(last);
  };
  Status status = launch();
  return status.ok() ? nullptr : std::move(status).Annotate(StrCat("the work from ", first->node->Describe(), " on")).release();
}

// Runs the kernels with frames whose queue keeps what it is given.
Result<tenon_captured_graph*> ProgramInstance::Capture(const Stretch& stretch) {
  tenon_queue* keeping = nullptr;
  const int32_t queue = ContextOf(stretch.work.instructions.front().frame)->operation->queue;
  TENON_RETURN_IF_ERROR(Status(stretch.capture->begin(work_.queue(queue), &keeping)));
  Status status;
  for (const Instruction& instruction : stretch.work.instructions) {
    Context* context = ContextOf(instruction.frame);
    const Operation& operation = *context->operation;
    tenon_frame frame = context->frame;
    frame.queue = keeping;
    frame.timeline = nullptr;
    status = Status(operation.region != nullptr ? operation.region->Run(&frame)
                                                : operation.prepared->kernel->registration().run(instruction.kernel, instruction.prepared, &frame));
    if (!status.ok()) {
      status = std::move(status).Annotate(context->node->Describe());
      break;
    }
  }
  tenon_captured_graph* graph = nullptr;
  uint64_t nodes = 0;
  Status ended(stretch.capture->end(keeping, &graph, &nodes));
  if (status.ok()) status = std::move(ended);
  if (status.ok()) return graph;
  if (graph != nullptr) stretch.capture->destroy(graph);
  return status;
}

}  // namespace tenon::exec
