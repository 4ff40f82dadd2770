// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program/capture.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/kernel_instance.h"
#include "tenon/ext/draft/lasting_view.h"

namespace tenon::exec::program {
namespace {

constexpr int kRunsBefore = 2;         // a step or two may be all that there is
constexpr size_t kMostCaptured = 4;    // sets of addresses: two buffers a variable change places together
// Then addresses change in every step, and capturing costs more than it saves: it is left alone for a while.
constexpr int kMostReplaced = 16;
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

Context::Context() = default;
Context::~Context() = default;

Stretch::~Stretch() {
  for (const Captured& each : captured_) TellPlugin(*plugin_, "destroy", [&] { capture_->destroy(each.graph); });
  if (list_ != nullptr) TellPlugin(*plugin_, "queue_destroy", [this] { driver_->queue_destroy(list_); });
}

// ---- Finding it ----

bool Stretch::MayMove(SlotId slot) const {
  const Home home = machine_.code.root(slot).home;
  return home != Home::kArena && home != Home::kConstant;
}

bool Stretch::IsFixed(SlotId slot) const {
  const Slot& at = machine_.code.at(slot);
  if (at.memory != 0 || at.dtype == TENON_DT_RESOURCE) return true;
  return machine_.code.root(slot).home == Home::kConstant;
}

const Device& Stretch::DeviceOf(QueueId queue) const {
  const Environment& env = machine_.program.plan().env();
  return *env.devices[env.queues[queue].device].device;
}

bool Stretch::Joins(const Context& context) {
  const Operation& operation = *context.operation;
  const Role role = RoleOf(machine_.code, operation);
  if (role == Role::kNone) return false;
  if (role == Role::kDrop || role == Role::kAsk) return !empty();
  const bool works = role == Role::kWork || role == Role::kUpdate;
  if (works &&
      !std::all_of(operation.inputs.begin(), operation.inputs.end(), [this](SlotId slot) { return IsFixed(slot); }))
    return false;
  if (!operation.waits.empty() && !(works && work_.instructions.empty() && before_.instructions.empty())) return false;
  if (role == Role::kRead && operation.signal) return false;
  if (role == Role::kUpdate) {
    const tenon_graph_capture* capture = CaptureOf(DeviceOf(operation.queue));
    if (capture == nullptr || capture->make_list == nullptr) return false;
  }
  if (empty()) queue_ = operation.queue;
  return operation.queue == queue_;
}

bool Stretch::Add(const Instruction& instruction) {
  const Operation& operation = *ContextOf(instruction.frame)->operation;
  all_.instructions.push_back(instruction);
  const Role role = RoleOf(machine_.code, operation);
  if (role == Role::kUpdate) {
    updates_.push_back({before_.instructions.size(), work_.instructions.size(), drops_.instructions.size()});
    before_.instructions.push_back(instruction);
  }
  (role == Role::kRead || role == Role::kAsk ? before_
   : role == Role::kDrop                     ? drops_
                                             : work_)
      .instructions.push_back(instruction);
  if (role != Role::kWork && role != Role::kUpdate) return false;
  const auto look = [&](const std::vector<SlotId>& operands) {
    for (SlotId slot : operands)
      if (MayMove(slot) && machine_.code.at(slot).dtype != TENON_DT_RESOURCE)
        moving_.push_back(&machine_.views[slot]);
  };
  look(operation.inputs);
  look(operation.outputs);
  return bool(operation.signal);
}

bool Stretch::Close() {
  if (work_.instructions.size() < kLeastWork) return false;
  capture_ = CaptureOf(DeviceOf(queue_));
  if (capture_ == nullptr) return false;
  std::sort(moving_.begin(), moving_.end());
  moving_.erase(std::unique(moving_.begin(), moving_.end()), moving_.end());
  driver_ = DeviceOf(queue_).driver;
  plugin_ = &DeviceOf(queue_).plugin;
  return true;
}

void FindStretches(Machine* machine, Block* block) {
  const Environment& env = machine->program.plan().env();
  if (!env.capture || env.queues.empty()) return;
  std::vector<Instruction> out;
  auto stretch = std::make_unique<Stretch>(machine);
  const auto close = [&] {
    auto closed = std::exchange(stretch, std::make_unique<Stretch>(machine));
    if (!closed->Close()) {
      out.insert(out.end(), closed->instructions().begin(), closed->instructions().end());
      return;
    }
    Context& context = *machine->contexts.emplace_back(std::make_unique<Context>());
    context.node = closed->first().node;
    context.machine = machine;
    context.operation = closed->first().operation;
    context.frame.context = &context;
    context.stretch = std::move(closed);
    const auto run = [](tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
      return ContextOf(frame)->stretch->Run();
    };
    out.push_back({run, nullptr, nullptr, &context.frame});
  };
  for (const Instruction& instruction : block->instructions) {
    const Context& context = *ContextOf(instruction.frame);
    bool joins = stretch->Joins(context);
    if (!joins && !stretch->empty()) {
      close();
      joins = stretch->Joins(context);
    }
    if (!joins) out.push_back(instruction);
    else if (stretch->Add(instruction)) close();
  }
  close();
  block->instructions = std::move(out);
}

// ---- A step ----

tenon_status* Stretch::Run() {
  if (refused_ || machine_.step->trace != nullptr || runs_ < kRunsBefore) {
    ++runs_;
    return machine_.Execute(all_);
  }
  if (pause_ > 0) {
    --pause_;
    return machine_.Execute(all_);
  }
  bool begun = false;
  if (tenon_status* bad = RunBefore(&begun)) return bad;
  if (!begun) return machine_.Execute(all_);  // what came before may be done again
  if (tenon_status* bad = RunCaptured()) return bad;
  return machine_.Execute(drops_);
}

void Stretch::TakeAddresses() {
  addresses_.clear();
  for (const tenon_tensor_view* view : moving_) addresses_.push_back(DataOf(*view));
  addresses_.insert(addresses_.end(), late_.addresses.begin(), late_.addresses.end());
}

tenon_status* Stretch::RunCaptured() {
  TakeAddresses();
  const auto found = std::find_if(captured_.begin(), captured_.end(),
                                  [&](const Captured& each) { return each.addresses == addresses_; });
  if (found != captured_.end()) {
    std::rotate(found, found + 1, captured_.end());
    if (replaced_ > 0) --replaced_;
  } else {
    EndLasting();  // before kernels see the views
    Result<tenon_captured_graph*> graph = Capture();
    if (!graph.ok()) {
      refused_ = true;
      SayWhy(StrCat(": ", graph.status().message()));
      tenon_status* bad = RunOneByOne();
      Status ended = EndUpdates(bad == nullptr ? Status::Ok() : Status(Code::kAborted, "its work was not submitted"));
      return bad != nullptr ? bad : ended.release();
    }
    if (Status room = MakeRoom(*graph); !room.ok()) {
      (void)EndUpdates(Status(Code::kAborted, "its work was not submitted"));
      return room.release();
    }
    captured_.push_back({addresses_, *graph});
  }
  Status status = Launch(captured_.back().graph);
  if (Status ended = EndUpdates(status); status.ok()) status = std::move(ended);
  return status.ok() ? nullptr
                     : std::move(status).Annotate(StrCat("the work from ", first().node->Describe(), " on")).release();
}

Status Stretch::MakeRoom(tenon_captured_graph* graph) {
  if (captured_.size() < kMostCaptured) return Status::Ok();
  const auto destroy = [this](tenon_captured_graph* each) {
    TellPlugin(*plugin_, "destroy", [&] { capture_->destroy(each); });
  };
  // A step before may still be running it.
  if (Status ended = machine_.queues.work().AwaitStepsBefore(); !ended.ok()) {
    destroy(graph);
    return ended;
  }
  destroy(captured_.front().graph);
  captured_.erase(captured_.begin());
  if (++replaced_ < kMostReplaced) return Status::Ok();
  replaced_ = 0;
  pause_ = next_pause_;
  next_pause_ = std::min(2 * next_pause_, kLongestPause);
  SayWhy(StrCat(" for ", pause_, " steps: its addresses change in every step"));
  return Status::Ok();
}

void Stretch::SayWhy(const std::string& why) const {
  Log(TENON_LOG_INFO, StrCat("the work from ", first().node->Describe(), " on is submitted kernel by kernel", why));
}

Status Stretch::Launch(tenon_captured_graph* graph) {
  TENON_RETURN_IF_ERROR(machine_.queues.BeforeWork(ContextOf(work_.instructions.front().frame)));
  TENON_RETURN_IF_ERROR(machine_.queues.work().Launch(queue_, *capture_, graph, first().node->name));
  return machine_.queues.AfterWork(ContextOf(work_.instructions.back().frame));
}

// Runs the kernels with frames whose queue keeps what it is given.
Result<tenon_captured_graph*> Stretch::Capture() {
  tenon_queue* keeping = nullptr;
  TENON_RETURN_IF_ERROR(
      CallPlugin(*plugin_, "begin", [&] { return capture_->begin(machine_.queues.work().queue(queue_), &keeping); }));
  Status status = CaptureWork(keeping);
  tenon_captured_graph* graph = nullptr;
  uint64_t nodes = 0;
  Status ended = CallPlugin(*plugin_, "end", [&] { return capture_->end(keeping, &graph, &nodes); });
  if (status.ok()) status = std::move(ended);
  if (status.ok()) return graph;
  if (graph != nullptr) TellPlugin(*plugin_, "destroy", [&] { capture_->destroy(graph); });
  return status;
}

Status Stretch::CaptureWork(tenon_queue* keeping) {
  auto update = updates_.begin();
  for (size_t i = 0; i < work_.instructions.size(); ++i) {
    if (update != updates_.end() && update->work == i) {
      TENON_RETURN_IF_ERROR(CallPlugin(*plugin_, "give", [&] {
        return capture_->give(list_, update->first, update->count, keeping, nullptr);
      }));
      ++update;
      continue;
    }
    const Instruction& instruction = work_.instructions[i];
    const Context& context = *ContextOf(instruction.frame);
    const Operation& operation = *context.operation;
    tenon_frame frame = context.frame;
    frame.queue = keeping;
    frame.timeline = nullptr;
    Status status(operation.region != nullptr ? operation.region->Run(&frame)
                                              : CallRun(*operation.prepared->kernel, instruction.prepared, &frame));
    if (!status.ok()) return std::move(status).Annotate(context.node->Describe());
  }
  return Status::Ok();
}

tenon_status* Stretch::RunOneByOne() {
  QueueWork& work = machine_.queues.work();
  auto update = updates_.begin();
  Block one;
  for (size_t i = 0; i < work_.instructions.size(); ++i) {
    const Instruction& instruction = work_.instructions[i];
    if (update == updates_.end() || update->work != i) {
      one.instructions = {instruction};
      if (tenon_status* bad = machine_.Execute(one)) return bad;
      continue;
    }
    Context* const context = ContextOf(instruction.frame);
    Status status = machine_.queues.BeforeWork(context);
    const auto give = [&] {
      return capture_->give(list_, update->first, update->count, work.queue(queue_), work.timeline(queue_));
    };
    if (status.ok()) status = CallPlugin(*plugin_, "give", give);
    if (status.ok()) status = machine_.queues.AfterWork(context);
    if (!status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
    ++update;
  }
  return nullptr;
}

// ---- Updates ----

Status Stretch::MakeList() {
  if (list_ != nullptr) {
    capture_->clear_list(list_);
    return Status::Ok();
  }
  return CallPlugin(*plugin_, "make_list",
                    [&] { return capture_->make_list(machine_.queues.work().queue(queue_), &list_); });
}

tenon_status* Stretch::RunBefore(bool* out_begun) {
  *out_begun = true;
  if (updates_.empty()) return machine_.Execute(before_);
  late_.updates.clear();
  late_.addresses.clear();
  late_.dropped.clear();
  Status status = MakeList();
  size_t index = 0;
  tenon_status* bad = nullptr;
  for (size_t i = 0; i < before_.instructions.size() && status.ok() && bad == nullptr; ++i) {
    const Instruction& each = before_.instructions[i];
    if (index < updates_.size() && updates_[index].before == i) {
      status = BeginUpdate(index++);
      continue;
    }
    for (const tenon_tensor_view* input : ContextOf(each.frame)->inputs) {
      if (!IsRef(input->dtype) && input->dtype != TENON_DT_RESOURCE) continue;
      const Resource* const resource = *static_cast<Resource**>(DataOf(*input));
      if (late_.Has(resource))
        status = Unimplemented(StrCat("variable '", resource->name, "' is read after it was updated"));
    }
    if (!status.ok()) break;
    bad = each.run(each.kernel, each.prepared, each.frame);
    if (bad != nullptr) bad = NameNode(bad, *ContextOf(each.frame));
  }
  if (status.ok() && bad == nullptr) return nullptr;
  for (const LateUpdates::Update& update : late_.updates)
    EndUpdate(update.resource, update.frame, TENON_UPDATE_UNTOUCHED);
  late_.updates.clear();
  *out_begun = false;
  // Anything else, as another step's update that is under way, may be past by the next step.
  if (status.code() == Code::kUnimplemented) {
    refused_ = true;
    SayWhy(StrCat(": ", status.message()));
  }
  return bad;
}

Status Stretch::BeginUpdate(size_t index) {
  Update& update = updates_[index];
  for (size_t i = index == 0 ? 0 : updates_[index - 1].drops; i < update.drops; ++i) {
    const tenon_buffer* buffer = ContextOf(drops_.instructions[i].frame)->outputs[0]->buffer;
    if (buffer != nullptr) late_.dropped.push_back(buffer);
  }
  const Instruction& instruction = work_.instructions[update.work];
  Context* const context = ContextOf(instruction.frame);
  update.frame = context->frame;
  update.frame.queue = list_;
  update.frame.timeline = nullptr;
  update.first = capture_->list_size(list_);
  context->late = &late_;
  Status status(CallRun(*context->operation->prepared->kernel, instruction.prepared, &update.frame));
  context->late = nullptr;
  update.count = capture_->list_size(list_) - update.first;
  if (context->pin_count == 0) return status;
  ReleasePins(context);
  return status.ok() ? Unimplemented(StrCat(context->node->Describe(), " reads variables")) : std::move(status);
}

void Stretch::EndLasting() {
  std::vector<const void*> written;
  const std::vector<const void*>& addresses = late_.addresses;  // old and new memory of each
  for (size_t i = 0; i + 1 < addresses.size(); i += 2)
    if (addresses[i] == addresses[i + 1]) written.push_back(addresses[i]);
  std::sort(written.begin(), written.end());
  for (tenon_tensor_view* view : moving_)
    if (std::binary_search(written.begin(), written.end(), DataOf(*view))) view->flags &= ~TENON_VIEW_LASTING;
}

Status Stretch::EndUpdates(const Status& launched) {
  if (late_.updates.empty()) return Status::Ok();
  std::vector<Resource*>& written = late_.written;
  written.clear();
  for (const LateUpdates::Update& update : late_.updates) {
    EndUpdate(update.resource, update.frame,
              launched.ok() ? update.outcome : static_cast<uint32_t>(TENON_UPDATE_FAILED));
    if (launched.ok() && update.outcome == TENON_UPDATE_COMMIT) written.push_back(update.resource);
  }
  late_.updates.clear();
  return written.empty() ? Status::Ok() : machine_.queues.work().NoteWrites(queue_, written);
}

}  // namespace tenon::exec::program
