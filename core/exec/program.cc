// SPDX-License-Identifier: Apache-2.0
#include "core/exec/program.h"

#include <algorithm>
#include <cstring>

namespace tenon::exec {
namespace {

bool HasStrings(const tenon_frame_context& context) {
  const std::vector<DType>& types = context.node->output_types;
  return std::find(types.begin(), types.end(), TENON_DT_STRING) != types.end();
}

// As CallRun, of a frame that the block's loop has put on the thread's trail already.
tenon_status* RunOnTrail(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  try {
    return kernel.registration().run(kernel.state(), prepared, frame);
  } catch (...) {
    EndLostUpdates(*frame);
    return Thrown(kernel.plugin(), "run").release();
  }
}

// Where a queue's kernels have their workspace.
size_t MemoryOfQueue(const Program& program, int32_t queue) {
  return queue < 0 ? 0 : static_cast<size_t>(program.plan().env().queues[static_cast<size_t>(queue)].device);
}

}  // namespace

tenon_status* ProgramInstance::NameNode(tenon_status* bad, const Context& context) {
  return context.operation->kind == Operation::Kind::kRun && !context.names_itself ? Status(bad).Annotate(context.node->Describe()).release() : bad;
}

Program::Program(const Plan* plan) : plan_(plan), serial_([] {
  static std::atomic<uint64_t> last{0};
  return ++last;
}()) {}

Program::~Program() = default;

bool AreShapes(const tenon_tensor_view* const* feeds, const std::vector<Shape>& shapes) {
  for (size_t i = 0; i < shapes.size(); ++i) {
    const std::vector<int64_t>& dims = shapes[i].dims();
    const tenon_dl_tensor& dl = feeds[i]->dl;
    if (dl.ndim != shapes[i].rank()) return false;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dl.shape[d] != dims[d]) return false;
  }
  return true;
}

std::string Program::DescribeLargest() const {
  uint64_t largest = 0;
  std::string text = "the memory of a step";
  const auto look = [&](const std::vector<Operation>& block) {
    for (const Operation& operation : block)
      for (int32_t slot : operation.outputs)
        if (slots_[static_cast<size_t>(slot)].bytes > largest) {
          largest = slots_[static_cast<size_t>(slot)].bytes;
          text = StrCat("the memory of a step, of which ", plan_->graph().node(operation.node).Describe(), " takes ", largest, " bytes");
        }
  };
  look(operations_);
  for (const Branch& branch : branches_) look(branch.block);
  for (const Loop& loop : loops_) {
    look(loop.condition_block);
    look(loop.body_block);
  }
  return text;
}

Result<ProgramInstance*> Program::Acquire() {
  ProgramInstance* instance = idle_.Take();
  if (instance != nullptr) return instance;
  return ProgramInstance::Create(this);
}

Result<ProgramInstance*> ProgramInstance::Create(Program* program) {
  std::unique_ptr<ProgramInstance> instance(new ProgramInstance(program));
  if (Status status = instance->MakeArenas(); !status.ok()) return std::move(status).Annotate(program->DescribeLargest());
  instance->points_.resize(static_cast<size_t>(program->point_count()));
  const Environment& env = program->plan().env();
  const std::vector<Slot>& slots = program->slots();
  instance->views_.resize(slots.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    const Slot& slot = slots[i];
    tenon_tensor_view& view = instance->views_[i];
    const Slot& home = slots[static_cast<size_t>(RootOf(slots, static_cast<int32_t>(i)))];
    void* data = nullptr;
    Buffer* buffer = nullptr;
    if (home.home == Home::kArena) data = instance->arenas_[static_cast<size_t>(home.memory)] + home.offset;
    if (home.home == Home::kConstant) {
      data = home.constant.data();
      buffer = home.constant.buffer();
    }
    view = MakeView(slot.dtype, slot.shape.c(), data, slot.bytes, buffer);
    if (home.home == Home::kConstant) view.flags |= TENON_VIEW_READ_ONLY;
    if (slot.memory != 0) MarkDevice(&view, *env.devices[static_cast<size_t>(slot.memory)].device);
    if (slot.home == Home::kFeed) instance->feed_slots_.emplace_back(static_cast<int32_t>(i), slot.target);
    if (slot.home == Home::kAlias && home.home == Home::kFeed) instance->feed_aliases_.push_back(static_cast<int32_t>(i));
    if (slot.home == Home::kBuffer) instance->buffer_slots_.push_back(static_cast<int32_t>(i));
  }
  for (const Loop& loop : program->loops()) {
    instance->loops_.push_back(std::make_unique<LoopState>());
    instance->loops_.back()->plan = &loop;
  }
  for (const Branch& branch : program->branches()) {
    instance->branches_.push_back(std::make_unique<BranchState>());
    instance->branches_.back()->plan = &branch;
  }
  for (auto& branch : instance->branches_) instance->MakeBlock(branch->plan->block, &branch->block);
  for (auto& loop : instance->loops_) {
    instance->MakeBlock(loop->plan->condition_block, &loop->condition);
    instance->MakeBlock(loop->plan->body_block, &loop->body);
  }
  instance->MakeBlock(program->operations(), &instance->block_);
  return instance.release();
}

Status ProgramInstance::MakeArenas() {
  const Environment& env = program_->plan().env();
  arenas_.resize(std::max<size_t>(1, env.devices.size()));
  for (size_t memory = 0; memory < arenas_.size(); ++memory) {
    const uint64_t bytes = program_->arena_bytes(memory);
    if (bytes == 0) continue;
    BufferPool* pool = memory == 0 ? env.pool : env.devices[memory].pool;
    TENON_ASSIGN_OR_RETURN(void* arena, pool->AllocateRaw(bytes));
    arenas_[memory] = static_cast<char*>(arena);
    // Touched now, so that steps have no page faults.
    if (memory == 0) std::memset(arena, 0, bytes);
  }
  return Status::Ok();
}

ProgramInstance::~ProgramInstance() {
  const Environment& env = program_->plan().env();
  for (size_t memory = 0; memory < arenas_.size(); ++memory)
    if (arenas_[memory] != nullptr)
      (memory == 0 ? env.pool : env.devices[memory].pool)->FreeRaw(arenas_[memory], program_->arena_bytes(memory));
}

void Program::GiveBack(ProgramInstance* instance) {
  // A device that does not come back may still write there: that memory is lost rather than given to another.
  if (!instance->abandoned()) idle_.GiveBack(instance);
}

void ProgramInstance::MakeBlock(const std::vector<Operation>& operations, Block* block) {
  const graph::Graph& graph = program_->plan().graph();
  for (const Operation& operation : operations) {
    contexts_.push_back(std::make_unique<Context>());
    Context& context = *contexts_.back();
    context.node = &graph.node(operation.node);
    context.instance = this;
    context.operation = &operation;
    context.waits.reserve(operation.waits.size());
    for (int32_t slot : operation.inputs) context.inputs.push_back(&views_[static_cast<size_t>(slot)]);
    for (int32_t slot : operation.outputs) context.outputs.push_back(&views_[static_cast<size_t>(slot)]);
    const uint64_t workspace = operation.region != nullptr     ? operation.region->workspace_bytes()
                               : operation.prepared != nullptr ? operation.prepared->workspace_bytes
                                                               : 0;
    context.frame = {TENON_HEAD(tenon_frame),
                     context.inputs.data(),
                     context.outputs.data(),
                     static_cast<int32_t>(context.inputs.size()),
                     static_cast<int32_t>(context.outputs.size()),
                     workspace == 0 ? nullptr : arenas_[MemoryOfQueue(*program_, operation.queue)] + program_->workspace_offset(operation.queue),
                     workspace,
                     nullptr,
                     nullptr,
                     nullptr,
                     {nullptr, 0},
                     FrameServices(),
                     &context};
    Instruction instruction{nullptr, nullptr, nullptr, &context.frame};
    if (operation.prepared != nullptr) {
      instruction.kernel = operation.prepared->kernel->state();
      instruction.prepared = operation.prepared->prepared;
      context.plugin = &operation.prepared->kernel->plugin();
    }
    if (operation.region != nullptr) context.plugin = &operation.region->plugin();
    switch (operation.kind) {
      case Operation::Kind::kRun:
        // What readers of strings believe is looked at; other outputs cost nothing here.
        if (HasStrings(context)) instruction.run = &RunGuarded;
        else instruction.run = operation.prepared->kernel->registration().run;
        context.names_itself = instruction.run == &RunGuarded;
        break;
      case Operation::Kind::kCompiled: instruction.run = &RunCompiled; break;
      case Operation::Kind::kGuarded: instruction.run = &RunGuarded; break;
      case Operation::Kind::kQueued: instruction.run = &RunQueued; break;
      case Operation::Kind::kTransfer: instruction.run = &RunTransfer; break;
      case Operation::Kind::kWait: instruction.run = &RunWait; break;
      case Operation::Kind::kDynamic: instruction.run = &RunDynamic; break;
      case Operation::Kind::kRead: instruction.run = &RunRead; break;
      case Operation::Kind::kView: instruction.run = &RunView; break;
      case Operation::Kind::kRelease: instruction.run = &RunRelease; break;
      case Operation::Kind::kLoop:
        instruction.run = &RunLoop;
        context.loop = loops_[static_cast<size_t>(operation.loop)].get();
        break;
      case Operation::Kind::kBranch:
        instruction.run = &RunBranch;
        context.branch = branches_[static_cast<size_t>(operation.branch)].get();
        break;
      case Operation::Kind::kSelect: instruction.run = &RunSelect; break;
      case Operation::Kind::kCheck: instruction.run = &RunCheck; break;
      case Operation::Kind::kSend: instruction.run = &RunSend; break;
      case Operation::Kind::kReceive: instruction.run = &RunReceive; break;
    }
    if (operation.queue >= 0) queued_.push_back(&context);
    SetPlace(context.place, *context.node, &context.frame);
    block->instructions.push_back(instruction);
  }
  FindStretches(block);
}

Status ProgramInstance::Run(Step* step, const tenon_tensor_view* const* feeds) {
  step_ = step;
  for (const auto& [slot, feed] : feed_slots_) {
    const tenon_tensor_view& given = *feeds[feed];
    tenon_tensor_view& view = views_[static_cast<size_t>(slot)];
    view.dl.data = DataOf(given);
    view.buffer = given.buffer;
    view.flags = FeedFlags(given, program_->slots()[static_cast<size_t>(slot)].memory == 0);
  }
  for (int32_t slot : feed_aliases_) {
    const tenon_tensor_view& target = views_[static_cast<size_t>(program_->slots()[static_cast<size_t>(slot)].target)];
    tenon_tensor_view& view = views_[static_cast<size_t>(slot)];
    view.dl.data = target.dl.data;
    view.buffer = target.buffer;
    view.flags = target.flags;
  }
  if (step != bound_step_)
    for (const auto& context : contexts_) context->step = step;
  bound_step_ = step;
  if (program_->queues().empty()) return Status(Execute(block_));
  // What is thrown must not leave before the devices are done.
  return work_.Complete(Guarded([&] {
    Status status = BeginQueues(step);
    return status.ok() ? Status(Execute(block_)) : std::move(status);
  }));
}

Status ProgramInstance::BeginQueues(Step* step) {
  Status status = work_.Begin(step);
  const bool renewed = work_.TakeRenewed();
  for (int32_t queue : program_->queues())
    if (status.ok()) status = work_.Use(queue);
  if (!status.ok() || (!renewed && !points_are_new_)) return status;
  points_are_new_ = false;
  std::fill(points_.begin(), points_.end(), tenon_timeline_point{});
  for (Context* context : queued_) {
    const NodeRunner* runner = program_->plan().runner(context->operation->node).get();
    if (runner != nullptr && runner->queued_on() != nullptr) context->place = runner->PlaceFor(&work_, context->operation->queue);
    SetPlace(context->place, *context->node, &context->frame);
    if (context->operation->region != nullptr) context->frame.label = Span(context->operation->region->label());
  }
  return status;
}

std::span<const tenon_timeline_point> ProgramInstance::PointsOf(Context* context) {
  context->waits.clear();
  for (int32_t wait : context->operation->waits) {
    const tenon_timeline_point& point = points_[static_cast<size_t>(wait)];
    if (point.value == 0) continue;
    // The latest point of a timeline stands for those before it.
    const auto same = std::find_if(context->waits.begin(), context->waits.end(),
                                   [&](const tenon_timeline_point& other) { return other.semaphore == point.semaphore; });
    if (same == context->waits.end()) context->waits.push_back(point);
    else same->value = std::max(same->value, point.value);
  }
  return context->waits;
}

Status ProgramInstance::BeforeWork(Context* context) {
  if (context->operation->waits.empty()) return Status::Ok();
  const auto points = PointsOf(context);
  return points.empty() ? Status::Ok() : work_.Wait(context->operation->queue, points);
}

Status ProgramInstance::AfterWork(Context* context) {
  if (context->operation->signal < 0) return Status::Ok();
  TENON_ASSIGN_OR_RETURN(points_[static_cast<size_t>(context->operation->signal)],
                         work_.Signal(context->operation->queue, context->node->name));
  return Status::Ok();
}

const tenon_tensor_view& ProgramInstance::fetch(size_t i) const {
  return views_[static_cast<size_t>(program_->fetch_slots()[i])];
}

void ProgramInstance::Finish() {
  for (int32_t slot : buffer_slots_) {
    tenon_tensor_view& view = views_[static_cast<size_t>(slot)];
    ReleaseOutput(&view);
    view.dl.data = nullptr;
  }
  step_ = nullptr;
}

tenon_status* ProgramInstance::RunBlock(const Block& block) {
  const Instruction* at = block.instructions.data();
  const Instruction* const end = at + block.instructions.size();
  std::atomic<const void*>& trail = ThisThreadsTrail().frame;
  tenon_status* bad = nullptr;
  try {
    for (; at != end; ++at) {
      tenon_frame* const frame = at->frame;  // read once: the store would have it read again
      trail.store(frame, std::memory_order_release);
      if (bad = at->run(at->kernel, at->prepared, frame); __builtin_expect(bad != nullptr, 0)) break;
    }
  } catch (...) {
    bad = WasThrown(*at->frame);
  }
  trail.store(nullptr, std::memory_order_relaxed);
  return bad == nullptr ? nullptr : NameNode(bad, *ContextOf(at->frame));
}

// What came out of an instruction, in a catch block: a kernel threw it, or the engine has no memory left.
tenon_status* ProgramInstance::WasThrown(const tenon_frame& frame) {
  const Context& context = *static_cast<const Context*>(frame.context);
  if (context.plugin == nullptr || context.operation->kind != Operation::Kind::kRun || context.names_itself) return EngineThrew().release();
  EndLostUpdates(frame);
  return Thrown(*context.plugin, "run").release();
}

tenon_status* ProgramInstance::RunTraced(const Block& block, trace::Trace* trace) {
  for (const Instruction& instruction : block.instructions) {
    Context* context = ContextOf(instruction.frame);
    const uint64_t begin = trace::Trace::Now();
    ThisThreadsTrail().frame.store(instruction.frame, std::memory_order_release);
    tenon_status* bad = nullptr;
    try {
      bad = instruction.run(instruction.kernel, instruction.prepared, instruction.frame);
    } catch (...) {
      bad = WasThrown(*instruction.frame);
    }
    ThisThreadsTrail().frame.store(nullptr, std::memory_order_relaxed);
    if (context->operation->kind != Operation::Kind::kRelease && context->operation->kind != Operation::Kind::kCheck &&
        context->operation->kind != Operation::Kind::kBranch && context->stretch == nullptr)
      trace->Add(context->operation->region != nullptr ? context->operation->region->label() : context->node->name,
                 context->node->op->name, begin, trace::Trace::Now());
    if (bad != nullptr) return NameNode(bad, *context);
  }
  return nullptr;
}

tenon_status* ProgramInstance::RunCheck(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (!context->step->cancellation->cancelled()) return nullptr;
  return context->step->cancellation->reason().Annotate(StrCat("before ", context->node->Describe())).release();
}

tenon_status* ProgramInstance::RunCompiled(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  const CompiledRegion& region = *ContextOf(frame)->operation->region;
  tenon_status* bad = region.Run(frame);
  return bad == nullptr ? nullptr : Status(bad).Annotate(region.label()).release();
}

tenon_status* ProgramInstance::RunGuarded(tenon_kernel*, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const KernelInstance& instance = *context->operation->prepared->kernel;
  tenon_status* bad = RunOnTrail(instance, prepared, frame);
  if (context->pin_count != 0) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  return CheckOutputs(context);
}

// What the kernel itself made must have the shape that was planned.
tenon_status* ProgramInstance::CheckOutputs(Context* context) {
  const std::vector<Slot>& slots = context->instance->program_->slots();
  for (size_t k = 0; k < context->outputs.size(); ++k) {
    const Slot& slot = slots[static_cast<size_t>(context->operation->outputs[k])];
    const tenon_tensor_view& view = *context->outputs[k];
    if (Status status = CheckCells(*context, k, view); !status.ok()) return status.release();
    if (slot.home != Home::kBuffer) continue;
    if (view.buffer == nullptr) return NotSet(*context, k).release();
    const std::vector<int64_t>& dims = slot.shape.dims();
    if (slot.shape.fully_known() &&
        (static_cast<size_t>(view.dl.ndim) != dims.size() ||
         (!dims.empty() && std::memcmp(view.dl.shape, dims.data(), dims.size() * sizeof(int64_t)) != 0)))
      return FailedPrecondition(StrCat(context->node->Describe(), ": output ", k, " was planned as ", slot.shape.ToString(),
                                       ", found ", ShapeOf(view).ToString())).release();
  }
  return nullptr;
}

tenon_status* ProgramInstance::RunQueued(tenon_kernel*, const tenon_prepared* prepared, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  const Operation& operation = *context->operation;
  if (Status status = self->BeforeWork(context); !status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
  tenon_status* bad = operation.region != nullptr ? operation.region->Run(frame)
                                                  : RunOnTrail(*operation.prepared->kernel, prepared, frame);
  if (context->pin_count != 0) ReleasePins(context);
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe()).release();
  if (operation.guarded)
    if (tenon_status* wrong = CheckOutputs(context)) return wrong;
  Status status = self->AfterWork(context);
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* ProgramInstance::RunTransfer(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  const Operation& operation = *context->operation;
  const std::vector<SessionDevice>& devices = self->program_->plan().env().devices;
  const Slot& to = self->program_->slots()[static_cast<size_t>(operation.outputs[0])];
  const int32_t from_memory = self->program_->slots()[static_cast<size_t>(operation.inputs[0])].memory;
  const auto handle = [&](int32_t memory) { return memory == 0 ? nullptr : devices[static_cast<size_t>(memory)].device->handle; };
  const tenon_tensor_view& source = *context->inputs[0];
  tenon_tensor_view& target = *context->outputs[0];
  const auto transfer = [&]() -> Status {
    if (to.home == Home::kBuffer) {
      BufferPool* pool = to.memory == 0 ? context->step->env->pool : devices[static_cast<size_t>(to.memory)].pool;
      ReleaseOutput(&target);
      TENON_ASSIGN_OR_RETURN(Buffer * buffer, pool->Allocate(source.byte_size, {source.dl.shape, source.dl.ndim, 0}));
      target = MakeView(source.dtype, {buffer->dims, buffer->rank, 0}, buffer->data, source.byte_size, buffer);
      if (to.memory != 0) MarkDevice(&target, *devices[static_cast<size_t>(to.memory)].device);
    }
    const tenon_copy_args args{TENON_HEAD(tenon_copy_args), DataOf(source),       DataOf(target),
                               source.byte_size,            handle(from_memory), handle(to.memory)};
    return self->work_.Copy(operation.queue, args, self->PointsOf(context), context->node->name,
                            operation.signal < 0 ? nullptr : &self->points_[static_cast<size_t>(operation.signal)]);
  };
  Status status = transfer();
  return status.ok() ? nullptr : std::move(status).Annotate(context->node->Describe()).release();
}

tenon_status* ProgramInstance::RunWait(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  for (const tenon_timeline_point& point : context->instance->PointsOf(context))
    if (Status status = context->instance->work_.HostWait(point); !status.ok())
      return std::move(status).Annotate(StrCat("before ", context->node->Describe())).release();
  return nullptr;
}

tenon_status* ProgramInstance::RunDynamic(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  if (Status status = context->instance->BeforeWork(context); !status.ok()) return status.release();
  const auto& runner = context->instance->program_->plan().runner(context->operation->node);
  auto prepared = runner->Resolve(context->inputs, context->last);
  if (!prepared.ok()) return Status(prepared.status()).release();
  context->last = *prepared;
  for (tenon_tensor_view* output : context->outputs) ReleaseOutput(output);
  Status status = RunNode(context->step, context->place, *context->last, *context->node, context->inputs, context->outputs);
  if (status.ok() && context->operation->queue >= 0) status = context->instance->AfterWork(context);
  return status.release();
}

tenon_status* ProgramInstance::RunRead(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  tenon_tensor_view* output = context->outputs[0];
  Resource* resource = *static_cast<Resource**>(DataOf(*context->inputs[0]));
  const Operation& operation = *context->operation;
  const Slot& to = context->instance->program_->slots()[static_cast<size_t>(operation.outputs[0])];
  const Device* device = to.memory == 0 ? nullptr : context->step->env->devices[static_cast<size_t>(to.memory)].device;
  Status status = context->instance->BeforeWork(context);
  // Not before: its memory may be another's then.
  ReleaseOutput(output);
  if (status.ok() && device != nullptr) status = context->instance->work_.AwaitWrite(operation.queue, resource);
  if (status.ok()) status = ReadVariable(resource, device, output, nullptr, context->step->cancellation);
  if (status.ok() && operation.queue >= 0) status = context->instance->AfterWork(context);
  if (!status.ok()) return std::move(status).Annotate(context->node->Describe()).release();
  const Shape& planned = to.shape;
  if (planned.fully_known() && !(ShapeOf(*output) == planned))
    return FailedPrecondition(StrCat(context->node->Describe(), ": variable '", resource->name, "' has the shape ",
                                     ShapeOf(*output).ToString(), ", the graph says ", planned.ToString())).release();
  return nullptr;
}

tenon_status* ProgramInstance::RunView(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  context->outputs[0]->dl.data = DataOf(*context->inputs[0]);
  context->outputs[0]->buffer = context->inputs[0]->buffer;
  context->outputs[0]->flags = context->inputs[0]->flags;
  return nullptr;
}

tenon_status* ProgramInstance::RunRelease(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  ReleaseOutput(ContextOf(frame)->outputs[0]);
  return nullptr;
}

tenon_status* ProgramInstance::RunBranch(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const BranchState& state = *context->branch;
  const bool taken = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0;
  return taken == (state.plan->side != 0) ? context->instance->Execute(state.block) : nullptr;
}

tenon_status* ProgramInstance::RunSelect(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  const int side = *static_cast<const uint8_t*>(DataOf(*context->inputs[0])) != 0 ? 1 : 0;
  *context->outputs[0] = *context->inputs[1 + side];
  if (context->outputs.size() > 1)
    *static_cast<int32_t*>(DataOf(*context->outputs[1])) = context->operation->input_of_side[side];
  return nullptr;
}

tenon_status* ProgramInstance::RunLoop(tenon_kernel*, const tenon_prepared*, tenon_frame* frame) {
  Context* context = ContextOf(frame);
  ProgramInstance* self = context->instance;
  LoopState& state = *context->loop;
  const Loop& loop = *state.plan;
  const auto view = [self](int32_t slot) -> tenon_tensor_view& { return self->views_[static_cast<size_t>(slot)]; };
  const auto copy = [&](int32_t from, int32_t to) {
    const tenon_tensor_view& source = view(from);
    const tenon_tensor_view& target = view(to);
    // Small carried values are the common case; a fixed size lets the compiler leave memcpy's call out.
    if (target.byte_size == 4) std::memcpy(target.dl.data, DataOf(source), 4);
    else if (target.byte_size == 8) std::memcpy(target.dl.data, DataOf(source), 8);
    else std::memcpy(target.dl.data, DataOf(source), target.byte_size);
  };
  for (const Loop::Carried& carried : loop.carried)
    if (!carried.queued) copy(carried.initial, carried.current);
  const tenon_tensor_view& condition = view(loop.condition);
  Cancellation* cancellation = context->step->cancellation;
  for (state.turn = 0;; ++state.turn) {
    if (cancellation->cancelled())
      return cancellation->reason().Annotate(StrCat("in the loop of ", context->node->Describe())).release();
    if (tenon_status* bad = self->Execute(state.condition)) return bad;
    if (*static_cast<const uint8_t*>(DataOf(condition)) == 0) return nullptr;
    if (tenon_status* bad = self->Execute(state.body)) return bad;
    for (const Loop::Carried& carried : loop.carried)
      if (carried.through_temporary && !carried.queued) copy(carried.next, carried.temporary);
    for (const Loop::Carried& carried : loop.carried)
      if (!carried.queued) copy(carried.through_temporary ? carried.temporary : carried.next, carried.current);
  }
}

}  // namespace tenon::exec
