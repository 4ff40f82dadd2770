// SPDX-License-Identifier: Apache-2.0
// Stretches: the capture segments of a program: what it gives a queue between two waits, as one captured piece.
//
// Invariants. A stretch's work has no wait but before its first operation and no signal but after its last one. What
// the host does within it comes before all of the work, in the program's order: reads of variables, handles, the
// question whether the step was cancelled. Releases come after. What is captured has the addresses of its frames: those
// of the instance's arenas never change, the others are compared before every launch.
//
// Updates of variables are work too. Their kernels run in every step, for the variables' books: on a list, before all
// of the work, in the program's order with the reads; the updates stay open until the work is launched. Memory that the
// stretch holds and drops before an update does not count as held, so that an update is in place where it would be,
// kernel by kernel. What reads or updates a variable that is open already, which is looked at in every step, ends the
// attempt: all goes kernel by kernel. Who holds updates open does not wait for others.
//
// A kernel with an argument in the host's memory is work only where that is constant: a capture would keep its value.
#include <algorithm>

#include "core/base/log.h"
#include "core/exec/device/environment.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/program/instance.h"
#include "tenon/ext/draft/lasting_view.h"

namespace tenon::exec {
namespace {

constexpr int kRunsBefore = 2;         // a step or two may be all that there is
constexpr size_t kMostCaptured = 4;    // sets of addresses: two buffers a variable change places together
constexpr int kMostReplaced =
    16;  // then addresses change in every step, and capturing costs more than it saves: it is left alone for a while
constexpr int kLongestPause = 4096;    // in steps
constexpr size_t kLeastWork = 2;

const tenon_graph_capture* CaptureOf(const Device& device) {
  return ExtensionOf<tenon_graph_capture>(device, TENON_EXTENSION_GRAPH_CAPTURE);
}

enum class Role { kNone, kRead, kAsk, kWork, kUpdate, kDrop };

// Handles of variables and the like, which the host makes of nothing.
bool MakesHandles(const ProgramCode& code, const Operation& operation) {
  return operation.inputs.empty() && !operation.queue &&
         std::all_of(operation.outputs.begin(), operation.outputs.end(),
                     [&](SlotId slot) { return code.at(slot).dtype == TENON_DT_RESOURCE; });
}

Role RoleOf(const ProgramCode& code, const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kRead:
      return operation.queue ? Role::kRead : Role::kNone;
    case Operation::Kind::kCheck:
      return Role::kAsk;
    case Operation::Kind::kRun:
      return operation.inputs.empty() && !operation.queue ? Role::kAsk : Role::kNone;
    case Operation::Kind::kGuarded:
      return MakesHandles(code, operation) ? Role::kAsk : Role::kNone;
    case Operation::Kind::kRelease:
      return Role::kDrop;
    case Operation::Kind::kQueued:
      if (operation.region != nullptr) return operation.guarded ? Role::kNone : Role::kWork;
      if (operation.prepared->kernel->has(TENON_KERNEL_PASSIVE)) return Role::kRead;
      if (operation.prepared->kernel->has(TENON_KERNEL_CAPTURE_UPDATES)) return Role::kUpdate;
      return operation.prepared->kernel->has(TENON_KERNEL_CAPTURE_SAFE) && !operation.guarded ? Role::kWork
                                                                                              : Role::kNone;
    default:
      return Role::kNone;
  }
}

}  // namespace

ProgramInstance::Stretch::~Stretch() {
  for (const Captured& each : captured) TellPlugin(*plugin, "destroy", [&] { capture->destroy(each.graph); });
  if (list != nullptr) TellPlugin(*plugin, "queue_destroy", [this] { driver->queue_destroy(list); });
}

// Whether the address of a slot's value may be another in the next step.
bool ProgramInstance::MayMove(SlotId slot) const {
  const Home home = code_.root(slot).home;
  return home != Home::kArena && home != Home::kConstant;
}

// Whether a capture may keep what the host's memory has there: it is no argument's value, or always the same.
bool ProgramInstance::IsFixed(SlotId slot) const {
  const Slot& at = code_.at(slot);
  if (at.memory != 0 || at.dtype == TENON_DT_RESOURCE) return true;
  return code_.root(slot).home == Home::kConstant;
}

const Device& ProgramInstance::DeviceOfQueue(QueueId queue) const {
  const Environment& env = program_->plan().env();
  return *env.devices[env.queues[queue].device].device;
}

// Whether the operation goes on with the stretch; a new stretch takes its queue from it.
bool ProgramInstance::JoinsStretch(const Context& context, const Stretch& stretch, QueueId* queue) const {
  const Operation& operation = *context.operation;
  const Role role = RoleOf(code_, operation);
  if (role == Role::kNone) return false;
  if (role == Role::kDrop || role == Role::kAsk) return !stretch.all.instructions.empty();
  const bool works = role == Role::kWork || role == Role::kUpdate;
  if (works &&
      !std::all_of(operation.inputs.begin(), operation.inputs.end(), [this](SlotId slot) { return IsFixed(slot); }))
    return false;
  if (!operation.waits.empty() && !(works && stretch.work.instructions.empty() && stretch.before.instructions.empty()))
    return false;
  if (role == Role::kRead && operation.signal) return false;
  if (role == Role::kUpdate) {
    const tenon_graph_capture* capture = CaptureOf(DeviceOfQueue(operation.queue));
    if (capture == nullptr || capture->make_list == nullptr) return false;
  }
  if (stretch.all.instructions.empty()) *queue = operation.queue;
  return operation.queue == *queue;
}

void ProgramInstance::AddToStretch(const Instruction& instruction, Stretch* stretch) {
  const Operation& operation = *ContextOf(instruction.frame)->operation;
  stretch->all.instructions.push_back(instruction);
  const Role role = RoleOf(code_, operation);
  if (role == Role::kUpdate) {
    stretch->updates.push_back(
        {stretch->before.instructions.size(), stretch->work.instructions.size(), stretch->drops.instructions.size()});
    stretch->before.instructions.push_back(instruction);
  }
  (role == Role::kRead || role == Role::kAsk ? stretch->before
   : role == Role::kDrop                     ? stretch->drops
                                             : stretch->work)
      .instructions.push_back(instruction);
  if (role != Role::kWork && role != Role::kUpdate) return;
  const auto look = [&](const std::vector<SlotId>& operands) {
    for (SlotId slot : operands)
      if (MayMove(slot) && code_.at(slot).dtype != TENON_DT_RESOURCE) stretch->moving.push_back(&views_[slot]);
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
  QueueId queue;
  const auto close = [&] {
    const tenon_graph_capture* capture =
        stretch->work.instructions.size() < kLeastWork ? nullptr : CaptureOf(DeviceOfQueue(queue));
    if (capture == nullptr) {
      out.insert(out.end(), stretch->all.instructions.begin(), stretch->all.instructions.end());
    } else {
      std::sort(stretch->moving.begin(), stretch->moving.end());
      stretch->moving.erase(std::unique(stretch->moving.begin(), stretch->moving.end()), stretch->moving.end());
      stretch->capture = capture;
      stretch->driver = DeviceOfQueue(queue).driver;
      stretch->plugin = &DeviceOfQueue(queue).plugin;
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
    const Role role = RoleOf(code_, *context.operation);
    if (context.operation->signal && (role == Role::kWork || role == Role::kUpdate)) close();
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
  if (stretch.pause > 0) {
    --stretch.pause;
    return self->Execute(stretch.all);
  }
  bool begun = false;
  if (tenon_status* bad = self->RunBefore(&stretch, &begun)) return bad;
  if (!begun) return self->Execute(stretch.all);  // what came before may be done again
  if (tenon_status* bad = self->RunCaptured(&stretch)) return bad;
  return self->Execute(stretch.drops);
}

tenon_status* ProgramInstance::RunCaptured(Stretch* stretch) {
  std::vector<const void*>& addresses = stretch->addresses;
  addresses.clear();
  for (const tenon_tensor_view* view : stretch->moving) addresses.push_back(DataOf(*view));
  addresses.insert(addresses.end(), stretch->late.addresses.begin(), stretch->late.addresses.end());
  auto found = std::find_if(stretch->captured.begin(), stretch->captured.end(),
                            [&](const Stretch::Captured& each) { return each.addresses == addresses; });
  if (found == stretch->captured.end()) {
    EndLasting(stretch);  // before kernels see the views
    Result<tenon_captured_graph*> graph = Capture(*stretch);
    if (graph.ok() && stretch->captured.size() == kMostCaptured) {
      // A step before may still be running it.
      if (Status ended = work_.AwaitStepsBefore(); !ended.ok()) {
        TellPlugin(*stretch->plugin, "destroy", [&] { stretch->capture->destroy(*graph); });
        (void)EndUpdates(stretch, Status(Code::kAborted, "its work was not submitted"));
        return ended.release();
      }
      TellPlugin(*stretch->plugin, "destroy",
                 [stretch] { stretch->capture->destroy(stretch->captured.front().graph); });
      stretch->captured.erase(stretch->captured.begin());
      if (++stretch->replaced == kMostReplaced) {
        stretch->replaced = 0;
        stretch->pause = stretch->next_pause;
        stretch->next_pause = std::min(2 * stretch->next_pause, kLongestPause);
      }
    }
    if (!graph.ok()) stretch->refused = true;
    if (stretch->refused || stretch->pause > 0) {
      const Context& first = *ContextOf(stretch->work.instructions.front().frame);
      Log(TENON_LOG_INFO,
          StrCat("the work from ", first.node->Describe(), " on is submitted kernel by kernel",
                 graph.ok() ? StrCat(" for ", stretch->pause, " steps: its addresses change in every step")
                            : StrCat(": ", graph.status().message())));
    }
    if (!graph.ok()) {
      tenon_status* bad = RunOneByOne(*stretch);
      Status ended =
          EndUpdates(stretch, bad == nullptr ? Status::Ok() : Status(Code::kAborted, "its work was not submitted"));
      return bad != nullptr ? bad : ended.release();
    }
    stretch->captured.push_back({addresses, *graph});
  } else {
    std::rotate(found, found + 1, stretch->captured.end());
    if (stretch->replaced > 0) --stretch->replaced;
  }
  Context* const first = ContextOf(stretch->work.instructions.front().frame);
  Context* const last = ContextOf(stretch->work.instructions.back().frame);
  const auto launch = [&]() -> Status {
    TENON_RETURN_IF_ERROR(BeforeWork(first));
    TENON_RETURN_IF_ERROR(
        work_.Launch(first->operation->queue, *stretch->capture, stretch->captured.back().graph, first->node->name));
    return AfterWork(last);
  };
  Status status = launch();
  if (Status ended = EndUpdates(stretch, status); status.ok()) status = std::move(ended);
  return status.ok() ? nullptr
                     : std::move(status).Annotate(StrCat("the work from ", first->node->Describe(), " on")).release();
}

// Runs the kernels with frames whose queue keeps what it is given.
Result<tenon_captured_graph*> ProgramInstance::Capture(const Stretch& stretch) {
  tenon_queue* keeping = nullptr;
  const QueueId queue = ContextOf(stretch.work.instructions.front().frame)->operation->queue;
  TENON_RETURN_IF_ERROR(
      CallPlugin(*stretch.plugin, "begin", [&] { return stretch.capture->begin(work_.queue(queue), &keeping); }));
  Status status;
  auto update = stretch.updates.begin();
  for (size_t i = 0; i < stretch.work.instructions.size(); ++i) {
    const Instruction& instruction = stretch.work.instructions[i];
    Context* context = ContextOf(instruction.frame);
    const Operation& operation = *context->operation;
    if (update != stretch.updates.end() && update->work == i) {
      status = CallPlugin(*stretch.plugin, "give", [&] {
        return stretch.capture->give(stretch.list, update->first, update->count, keeping, nullptr);
      });
      ++update;
      if (!status.ok()) break;
      continue;
    }
    tenon_frame frame = context->frame;
    frame.queue = keeping;
    frame.timeline = nullptr;
    status = Status(operation.region != nullptr ? operation.region->Run(&frame)
                                                : CallRun(*operation.prepared->kernel, instruction.prepared, &frame));
    if (!status.ok()) {
      status = std::move(status).Annotate(context->node->Describe());
      break;
    }
  }
  tenon_captured_graph* graph = nullptr;
  uint64_t nodes = 0;
  Status ended = CallPlugin(*stretch.plugin, "end", [&] { return stretch.capture->end(keeping, &graph, &nodes); });
  if (status.ok()) status = std::move(ended);
  if (status.ok()) return graph;
  if (graph != nullptr) TellPlugin(*stretch.plugin, "destroy", [&] { stretch.capture->destroy(graph); });
  return status;
}

// ---- Updates ----

tenon_status* ProgramInstance::RunBefore(Stretch* stretch, bool* out_begun) {
  *out_begun = true;
  if (stretch->updates.empty()) return Execute(stretch->before);
  LateUpdates& late = stretch->late;
  late.updates.clear();
  late.addresses.clear();
  late.dropped.clear();
  Status status;
  if (stretch->list == nullptr) {
    tenon_queue* const queue = work_.queue(ContextOf(stretch->work.instructions.front().frame)->operation->queue);
    status =
        CallPlugin(*stretch->plugin, "make_list", [&] { return stretch->capture->make_list(queue, &stretch->list); });
  } else {
    stretch->capture->clear_list(stretch->list);
  }
  size_t index = 0;
  tenon_status* bad = nullptr;
  for (size_t i = 0; i < stretch->before.instructions.size() && status.ok() && bad == nullptr; ++i) {
    const Instruction& each = stretch->before.instructions[i];
    if (index < stretch->updates.size() && stretch->updates[index].before == i) {
      status = BeginUpdate(stretch, index++);
      continue;
    }
    for (const tenon_tensor_view* input : ContextOf(each.frame)->inputs) {
      if (!IsRef(input->dtype) && input->dtype != TENON_DT_RESOURCE) continue;
      const Resource* const resource = *static_cast<Resource**>(DataOf(*input));
      if (late.Has(resource))
        status = Unimplemented(StrCat("variable '", resource->name, "' is read after it was updated"));
    }
    if (!status.ok()) break;
    bad = each.run(each.kernel, each.prepared, each.frame);
    if (bad != nullptr) bad = NameNode(bad, *ContextOf(each.frame));
  }
  if (status.ok() && bad == nullptr) return nullptr;
  for (const LateUpdates::Update& update : late.updates)
    exec::EndUpdate(update.resource, update.frame, TENON_UPDATE_UNTOUCHED);
  late.updates.clear();
  *out_begun = false;
  // Anything else, as another step's update that is under way, may be past by the next step.
  if (status.code() == Code::kUnimplemented) {
    stretch->refused = true;
    Log(TENON_LOG_INFO, StrCat("the work from ", ContextOf(stretch->work.instructions.front().frame)->node->Describe(),
                               " on is submitted kernel by kernel: ", status.message()));
  }
  return bad;
}

// An update's host's half: what its kernel gives its queue is noted.
Status ProgramInstance::BeginUpdate(Stretch* stretch, size_t index) {
  Stretch::Update& update = stretch->updates[index];
  for (size_t i = index == 0 ? 0 : stretch->updates[index - 1].drops; i < update.drops; ++i) {
    const tenon_buffer* buffer = ContextOf(stretch->drops.instructions[i].frame)->outputs[0]->buffer;
    if (buffer != nullptr) stretch->late.dropped.push_back(buffer);
  }
  const Instruction& instruction = stretch->work.instructions[update.work];
  Context* const context = ContextOf(instruction.frame);
  update.frame = context->frame;
  update.frame.queue = stretch->list;
  update.frame.timeline = nullptr;
  update.first = stretch->capture->list_size(stretch->list);
  context->late = &stretch->late;
  Status status(CallRun(*context->operation->prepared->kernel, instruction.prepared, &update.frame));
  context->late = nullptr;
  update.count = stretch->capture->list_size(stretch->list) - update.first;
  if (context->pin_count == 0) return status;
  ReleasePins(context);
  return status.ok() ? Unimplemented(StrCat(context->node->Describe(), " reads variables")) : std::move(status);
}

// What these updates write in place does not last: who would hold it now would come too late.
void ProgramInstance::EndLasting(Stretch* stretch) {
  std::vector<const void*> written;
  const std::vector<const void*>& addresses = stretch->late.addresses;  // old and new memory of each
  for (size_t i = 0; i + 1 < addresses.size(); i += 2)
    if (addresses[i] == addresses[i + 1]) written.push_back(addresses[i]);
  std::sort(written.begin(), written.end());
  for (tenon_tensor_view* view : stretch->moving)
    if (std::binary_search(written.begin(), written.end(), DataOf(*view))) view->flags &= ~TENON_VIEW_LASTING;
}

// What the kernels have begun is ended as they said, if their work was launched.
Status ProgramInstance::EndUpdates(Stretch* stretch, const Status& launched) {
  if (stretch->late.updates.empty()) return Status::Ok();
  std::vector<Resource*>& written = stretch->late.written;
  written.clear();
  for (const LateUpdates::Update& update : stretch->late.updates) {
    exec::EndUpdate(update.resource, update.frame,
                    launched.ok() ? update.outcome : static_cast<uint32_t>(TENON_UPDATE_FAILED));
    if (launched.ok() && update.outcome == TENON_UPDATE_COMMIT) written.push_back(update.resource);
  }
  stretch->late.updates.clear();
  return written.empty()
             ? Status::Ok()
             : work_.NoteWrites(ContextOf(stretch->work.instructions.front().frame)->operation->queue, written);
}

// The work of updates that have begun, and all other kernels, without a capture.
tenon_status* ProgramInstance::RunOneByOne(const Stretch& stretch) {
  auto update = stretch.updates.begin();
  Block one;
  for (size_t i = 0; i < stretch.work.instructions.size(); ++i) {
    const Instruction& instruction = stretch.work.instructions[i];
    if (update == stretch.updates.end() || update->work != i) {
      one.instructions = {instruction};
      if (tenon_status* bad = Execute(one)) return bad;
      continue;
    }
    Context* const context = ContextOf(instruction.frame);
    const QueueId queue = context->operation->queue;
    Status status = BeforeWork(context);
    const auto give = [&] {
      return stretch.capture->give(stretch.list, update->first, update->count, work_.queue(queue),
                                   work_.timeline(queue));
    };
    if (status.ok()) status = CallPlugin(*stretch.plugin, "give", give);
    if (status.ok()) status = AfterWork(context);
    if (!status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
    ++update;
  }
  return nullptr;
}

}  // namespace tenon::exec
