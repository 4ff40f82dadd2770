// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dynamic_executor.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <random>

namespace tenon::exec {
namespace {

using graph::Node;
using NodeInfo = DynamicPlan::NodeInfo;
using Target = DynamicPlan::Target;

// A value on its way: holds a reference to its buffer, if it has one.
struct Value {
  tenon_tensor_view view{};
  bool present = false;

  Value() = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;
  Value(Value&& other) noexcept : view(other.view), present(std::exchange(other.present, false)) { other.view.buffer = nullptr; }
  ~Value() { Clear(); }
  void Set(const tenon_tensor_view& from) {
    Clear();
    view = from;
    present = true;
    if (view.buffer != nullptr) Retain(view.buffer);
  }
  void Clear() {
    if (present && view.buffer != nullptr) Release(view.buffer);
    view.buffer = nullptr;
    present = false;
  }
};

struct NodeState {
  int32_t pending_data = 0;
  int32_t pending_controls = 0;
  int32_t dead = 0;      // dead inputs so far
  int32_t live = -1;     // the merge's input that arrived alive
  bool started = false;
};

struct FrameInstance;

struct Iteration {
  FrameInstance* frame = nullptr;
  int64_t number = 0;
  int64_t running = 0;   // nodes ready or running
  int64_t children = 0;  // child frames that run
  std::vector<NodeState> states;
  std::vector<Value> inputs;
};

struct FrameInstance {
  int info = 0;
  FrameInstance* parent = nullptr;
  Iteration* parent_iteration = nullptr;
  int32_t pending_enters = 0;
  std::deque<std::unique_ptr<Iteration>> iterations;  // the oldest first
  int64_t first_number = 0;
  std::vector<std::pair<const NodeInfo*, Value>> invariants;
  struct Waiting {
    const NodeInfo* node;
    Value value;
  };
  std::vector<Waiting> waiting;  // next iterations held back by the limit
  std::vector<const NodeInfo*> dead_exits, live_exits;
  std::map<std::pair<int64_t, int>, std::unique_ptr<FrameInstance>> children;  // (iteration, frame info)
};

struct Ready {
  const NodeInfo* node;
  Iteration* iteration;
  bool dead;
};

class Executor {
 public:
  Executor(const DynamicPlan& plan, Step* step, std::vector<tenon_tensor_view>* fetches)
      : plan_(plan), step_(step), fetches_(fetches), fetched_(fetches->size(), 0), last_(plan.nodes().size()),
        shuffled_(plan.plan().options().schedule_seed != 0) {
    if (shuffled_) random_.seed(plan.plan().options().schedule_seed);
  }

  Status Run(const tenon_tensor_view* const* feeds) {
    FrameInstance root;
    root.pending_enters = 0;
    root_ = &root;
    Iteration* iteration = NewIteration(&root);
    iteration->running = 1;  // until all sources are started
    const Plan& plan = plan_.plan();
    for (size_t i = 0; i < plan_.feeds().size(); ++i) {
      for (const Target& target : plan_.feeds()[i].targets) Deliver(target, iteration, feeds[i], false);
    }
    for (int32_t id : plan_.frames()[0].nodes) {
      const NodeInfo& info = plan_.nodes()[static_cast<size_t>(id)];
      if (info.data_inputs == 0 && info.control_inputs == 0) Start(info, iteration, false);
    }
    Loop();
    Status status = std::move(error_);
    if (status.ok())
      for (size_t i = 0; i < fetched_.size(); ++i)
        if (!fetched_[i] && plan.FeedOf(plan.fetches()[i]) < 0 && status.ok())
          status = Internal(StrCat("fetch '", plan.graph().EdgeName(plan.fetches()[i]),
                                   "' has no value: it lies in a branch that was not taken"));
    return status;
  }

 private:
  // ---- Frames and iterations ----

  Iteration* NewIteration(FrameInstance* frame) {
    const DynamicPlan::FrameInfo& info = plan_.frames()[static_cast<size_t>(frame->info)];
    std::unique_ptr<Iteration> iteration;
    if (!spare_[frame->info].empty()) {
      iteration = std::move(spare_[frame->info].back());
      spare_[frame->info].pop_back();
    } else {
      iteration = std::make_unique<Iteration>();
      iteration->inputs.resize(static_cast<size_t>(info.input_values));
      iteration->states.resize(info.nodes.size());
    }
    for (size_t i = 0; i < info.nodes.size(); ++i) {
      const NodeInfo& node = plan_.nodes()[static_cast<size_t>(info.nodes[i])];
      iteration->states[i] = {node.data_inputs, node.control_inputs, 0, -1, false};
    }
    iteration->frame = frame;
    iteration->running = 0;
    iteration->children = 0;
    iteration->number = frame->first_number + static_cast<int64_t>(frame->iterations.size());
    Iteration* raw = iteration.get();
    frame->iterations.push_back(std::move(iteration));
    // Loop invariants are there in every iteration.
    ++raw->running;
    for (auto& [enter, value] : frame->invariants) Spread(enter->outputs[0], enter->controls, raw, &value.view, !value.present);
    --raw->running;
    return raw;
  }

  FrameInstance* ChildFrame(Iteration* iteration, int info) {
    auto& slot = iteration->frame->children[{iteration->number, info}];
    if (slot == nullptr) {
      slot = std::make_unique<FrameInstance>();
      slot->info = info;
      slot->parent = iteration->frame;
      slot->parent_iteration = iteration;
      slot->pending_enters = plan_.frames()[static_cast<size_t>(info)].enters;
      ++iteration->children;
      NewIteration(slot.get());
    }
    return slot.get();
  }

  // Called when something of the iteration ended: drops finished iterations, and the frame when all are.
  void Settle(FrameInstance* frame) {
    while (frame != root_) {
      while (!frame->iterations.empty()) {
        Iteration* oldest = frame->iterations.front().get();
        if (oldest->running != 0 || oldest->children != 0 || (frame->first_number == 0 && frame->pending_enters != 0)) return;
        const int64_t number = oldest->number;
        for (Value& value : oldest->inputs) value.Clear();
        spare_[frame->info].push_back(std::move(frame->iterations.front()));
        frame->iterations.pop_front();
        frame->first_number = number + 1;
        if (!frame->waiting.empty()) {
          std::vector<FrameInstance::Waiting> waiting = std::move(frame->waiting);
          frame->waiting.clear();
          Iteration* next = NewIteration(frame);
          ++next->running;
          for (auto& held : waiting) Spread(held.node->outputs[0], held.node->controls, next, &held.value.view, false);
          --next->running;
        }
      }
      // The frame is over.
      FrameInstance* parent = frame->parent;
      Iteration* iteration = frame->parent_iteration;
      ++iteration->running;
      for (const NodeInfo* exit : frame->dead_exits) {
        Spread(exit->outputs[0], exit->controls, iteration, nullptr, true);
        NoteFetches(*exit, nullptr);
      }
      --iteration->running;
      --iteration->children;
      parent->children.erase({iteration->number, frame->info});
      frame = parent;
    }
  }

  // ---- Values on their way ----

  void Start(const NodeInfo& info, Iteration* iteration, bool dead) {
    NodeState& state = iteration->states[static_cast<size_t>(info.local)];
    if (state.started) return;
    state.started = true;
    ++iteration->running;
    ready_.push_back({&info, iteration, dead});
  }

  // An input arrives at a node. view == nullptr or dead: no value.
  void Deliver(const Target& target, Iteration* iteration, const tenon_tensor_view* view, bool dead, bool from_enter = false) {
    const NodeInfo& info = plan_.nodes()[static_cast<size_t>(target.node)];
    NodeState& state = iteration->states[static_cast<size_t>(info.local)];
    if (target.input < 0) {
      --state.pending_controls;
      if (dead && !info.node->has(TENON_OP_MERGE)) ++state.dead;
    } else {
      --state.pending_data;
      if (dead) ++state.dead;
      else if (!info.node->has(TENON_OP_MERGE) || state.live < 0)
        iteration->inputs[static_cast<size_t>(info.first_input + target.input)].Set(*view);
    }
    if (info.node->has(TENON_OP_MERGE)) {
      if (target.input >= 0 && !dead && state.live < 0) state.live = target.input;
      // A dead Enter means that the loop never turns: its other input will not come.
      const bool all_dead = state.dead == info.data_inputs || (target.input >= 0 && dead && from_enter);
      if (all_dead && state.live < 0) state.dead = info.data_inputs;
      if (state.pending_controls == 0 && (state.live >= 0 || state.dead == info.data_inputs)) Start(info, iteration, state.live < 0);
      return;
    }
    if (state.pending_data == 0 && state.pending_controls == 0)
      Start(info, iteration, state.dead > 0 && !info.node->has(TENON_OP_CONTROL_TRIGGER));
  }

  void Spread(const std::vector<Target>& targets, const std::vector<Target>& controls, Iteration* iteration,
              const tenon_tensor_view* view, bool dead, bool from_enter = false) {
    for (const Target& target : targets) Deliver(target, iteration, view, dead, from_enter);
    for (const Target& target : controls) Deliver(target, iteration, nullptr, dead);
  }

  void NoteFetches(const NodeInfo& info, const tenon_tensor_view* const* outputs) {
    for (size_t i = 0; i + 1 < info.fetches.size(); i += 2) {
      const tenon_tensor_view* view = outputs == nullptr ? nullptr : outputs[info.fetches[i]];
      if (view == nullptr) continue;
      const auto at = static_cast<size_t>(info.fetches[i + 1]);
      tenon_tensor_view kept = *view;
      if (IsRef(kept.dtype)) {
        Status status = ReadVariable(*static_cast<Resource**>(DataOf(kept)), &kept);
        if (!status.ok()) return Fail(std::move(status).Annotate(info.node->Describe()));
      } else if (kept.buffer != nullptr) {
        Retain(kept.buffer);
      }
      if (fetched_[at]) ReleaseOutput(&(*fetches_)[at]);
      (*fetches_)[at] = kept;
      fetched_[at] = 1;
    }
  }

  // outputs[k] == nullptr: dead.
  void Propagate(const NodeInfo& info, Iteration* iteration, const tenon_tensor_view* const* outputs, bool dead) {
    const Node& node = *info.node;
    if (node.has(TENON_OP_ENTER)) return PropagateEnter(info, iteration, dead ? nullptr : outputs[0]);
    if (node.has(TENON_OP_EXIT)) {
      if (!dead) {
        std::erase(iteration->frame->dead_exits, &info);
        iteration->frame->live_exits.push_back(&info);
        Spread(info.outputs[0], info.controls, iteration->frame->parent_iteration, outputs[0], false);
        NoteFetches(info, outputs);
      } else {
        NoteDeadExit(info, iteration->frame);
      }
      return;
    }
    if (node.has(TENON_OP_NEXT_ITERATION)) {
      if (!dead) PropagateNext(info, iteration, outputs[0]);
      return;
    }
    for (size_t k = 0; k < info.outputs.size(); ++k) {
      const bool gone = dead || outputs[k] == nullptr;
      for (const Target& target : info.outputs[k]) Deliver(target, iteration, gone ? nullptr : outputs[k], gone);
    }
    for (const Target& target : info.controls) Deliver(target, iteration, nullptr, dead);
    if (!dead) NoteFetches(info, outputs);
  }

  // Remembered once; the frame's end says it, unless a later iteration brings a value.
  void NoteDeadExit(const NodeInfo& info, FrameInstance* frame) {
    if (std::find(frame->live_exits.begin(), frame->live_exits.end(), &info) != frame->live_exits.end()) return;
    if (std::find(frame->dead_exits.begin(), frame->dead_exits.end(), &info) == frame->dead_exits.end())
      frame->dead_exits.push_back(&info);
  }

  void PropagateEnter(const NodeInfo& info, Iteration* iteration, const tenon_tensor_view* view) {
    FrameInstance* child = ChildFrame(iteration, info.entered_frame);
    const bool dead = view == nullptr;
    if (info.is_constant_enter) {
      Value value;
      if (!dead) value.Set(*view);
      child->invariants.emplace_back(&info, std::move(value));
      for (auto& each : child->iterations) {
        ++each->running;
        Spread(info.outputs[0], info.controls, each.get(), view, dead, true);
        --each->running;
      }
    } else {
      Iteration* first = child->iterations.front().get();
      ++first->running;
      Spread(info.outputs[0], info.controls, first, view, dead, true);
      --first->running;
    }
    --child->pending_enters;
    Settle(child);
  }

  void PropagateNext(const NodeInfo& info, Iteration* iteration, const tenon_tensor_view* view) {
    FrameInstance* frame = iteration->frame;
    const int64_t last = frame->first_number + static_cast<int64_t>(frame->iterations.size()) - 1;
    if (iteration->number == last) {
      if (static_cast<int64_t>(frame->iterations.size()) >= plan_.frames()[static_cast<size_t>(frame->info)].parallel_iterations) {
        FrameInstance::Waiting held{&info, {}};
        held.value.Set(*view);
        frame->waiting.push_back(std::move(held));
        return;
      }
      NewIteration(frame);
    }
    Iteration* next = frame->iterations[static_cast<size_t>(iteration->number + 1 - frame->first_number)].get();
    Spread(info.outputs[0], info.controls, next, view, false);
  }

  // ---- Running nodes ----

  void Fail(Status status) {
    if (!error_.ok()) return;
    error_ = std::move(status);
    if (!step_->cancellation->cancelled()) step_->cancellation->Cancel(Status(Code::kCancelled, "another node of the step failed"));
  }

  void Loop() {
    for (;;) {
      if (step_->cancellation->cancelled() && error_.ok()) Fail(step_->cancellation->reason());
      if (!error_.ok()) {
        ready_.clear();
        if (outstanding_ == 0) return;
      }
      if (outstanding_ > 0) TakeInbox(ready_.empty());
      if (ready_.empty()) {
        if (outstanding_ == 0) return;
        continue;
      }
      if (!error_.ok()) continue;
      const Ready next = TakeReady();
      Process(next);
    }
  }

  Ready TakeReady() {
    if (shuffled_) std::swap(ready_.front(), ready_[random_() % ready_.size()]);
    const Ready next = ready_.front();
    ready_.pop_front();
    return next;
  }

  void Finished(const NodeInfo& info, Iteration* iteration) {
    for (int32_t i = 0; i < info.data_inputs; ++i) iteration->inputs[static_cast<size_t>(info.first_input + i)].Clear();
    --iteration->running;
    if (iteration->frame != root_ && iteration->running == 0) Settle(iteration->frame);
  }

  void Process(const Ready& ready) {
    const NodeInfo& info = *ready.node;
    const Node& node = *info.node;
    Iteration* iteration = ready.iteration;
    if (ready.dead) {
      Propagate(info, iteration, nullptr, true);
      return Finished(info, iteration);
    }
    Value* inputs = iteration->inputs.data() + info.first_input;
    constexpr uint64_t kForward = TENON_OP_IDENTITY | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION;
    if (node.has(TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER)) {
      Propagate(info, iteration, nullptr, false);
    } else if (node.has(TENON_OP_CONSTANT)) {
      const tenon_tensor_view view = node.FindAttr("value")->tensor().view();
      const tenon_tensor_view* out = &view;
      Propagate(info, iteration, &out, false);
    } else if (node.has(TENON_OP_SWITCH)) {
      ProcessSwitch(info, iteration, inputs);
    } else if (node.has(TENON_OP_MERGE)) {
      ProcessMerge(info, iteration, inputs);
    } else if (node.has(kForward)) {
      ProcessForward(info, iteration, inputs);
    } else if (node.has(TENON_OP_FEED)) {
      bool fed = false;
      for (size_t k = 0; k < info.outputs.size(); ++k) fed = fed || plan_.plan().FeedOf({node.id, static_cast<int32_t>(k)}) >= 0;
      if (!fed) Fail(InvalidArgument(StrCat(node.Describe(), " must be fed with a value of type ", TypeName(node.output_types[0]))));
      for (const Target& target : info.controls) Deliver(target, iteration, nullptr, false);
    } else {
      return ProcessKernel(info, iteration, inputs);
    }
    Finished(info, iteration);
  }

  // Reads the variable when the node wants the value of a reference.
  Status Dereference(const NodeInfo& info, int32_t i, Value* value, DType want) {
    if (!IsRef(value->view.dtype) || IsRef(want)) return Status::Ok();
    tenon_tensor_view read;
    Status status = ReadVariable(*static_cast<Resource**>(DataOf(value->view)), &read);
    if (!status.ok()) return std::move(status).Annotate(StrCat(info.node->Describe(), ", input ", i));
    value->Clear();
    value->view = read;
    value->present = true;
    return Status::Ok();
  }

  void ProcessSwitch(const NodeInfo& info, Iteration* iteration, Value* inputs) {
    if (Status status = Dereference(info, 0, &inputs[0], info.node->input_types[0]); !status.ok()) return Fail(std::move(status));
    if (NumElements(inputs[1].view) != 1)
      return Fail(InvalidArgument(StrCat(info.node->Describe(), ": its predicate must be one bool, found ", ShapeOf(inputs[1].view).ToString())));
    const bool taken = *static_cast<const uint8_t*>(DataOf(inputs[1].view)) != 0;
    const tenon_tensor_view* outputs[2] = {taken ? nullptr : &inputs[0].view, taken ? &inputs[0].view : nullptr};
    Propagate(info, iteration, outputs, false);
  }

  void ProcessMerge(const NodeInfo& info, Iteration* iteration, Value* inputs) {
    NodeState& state = iteration->states[static_cast<size_t>(info.local)];
    int32_t index = state.live;
    tenon_tensor_view which = MakeView(TENON_DT_INT32, {nullptr, 0, 0}, &index, sizeof index, nullptr);
    // The index must outlive this call where somebody reads it.
    Buffer* buffer = nullptr;
    if (info.outputs.size() > 1 && (!info.outputs[1].empty() || !info.fetches.empty())) {
      auto made = step_->env->pool->Allocate(sizeof index, {nullptr, 0, 0});
      if (!made.ok()) return Fail(made.status());
      buffer = *made;
      *static_cast<int32_t*>(buffer->data) = index;
      which = MakeView(TENON_DT_INT32, {buffer->dims, 0, 0}, buffer->data, sizeof index, buffer);
    }
    const tenon_tensor_view* outputs[2] = {&inputs[index].view, &which};
    Propagate(info, iteration, outputs, false);
    if (buffer != nullptr) Release(buffer);
  }

  void ProcessForward(const NodeInfo& info, Iteration* iteration, Value* inputs) {
    std::vector<const tenon_tensor_view*>& outputs = forwarded_;
    outputs.clear();
    for (size_t k = 0; k < info.outputs.size(); ++k) {
      if (Status status = Dereference(info, static_cast<int32_t>(k), &inputs[k], info.node->output_types[k]); !status.ok())
        return Fail(std::move(status));
      outputs.push_back(&inputs[k].view);
    }
    Propagate(info, iteration, outputs.data(), false);
  }

  // One kernel that runs elsewhere.
  struct Call {
    Executor* executor;
    const NodeInfo* info;
    Iteration* iteration;
    std::shared_ptr<const PreparedNode> prepared;
    tenon_frame_context context;
    tenon_frame frame{};
    std::vector<const tenon_tensor_view*> inputs;
    std::vector<tenon_tensor_view> views;
    std::vector<tenon_tensor_view*> outputs;
    Status status;
  };

  void ProcessKernel(const NodeInfo& info, Iteration* iteration, Value* inputs) {
    const Node& node = *info.node;
    auto& pointers = kernel_inputs_;
    pointers.clear();
    for (int32_t i = 0; i < info.data_inputs; ++i) {
      if (Status status = Dereference(info, i, &inputs[i], node.input_types[static_cast<size_t>(i)]); !status.ok()) {
        Fail(std::move(status));
        return Finished(info, iteration);
      }
      pointers.push_back(&inputs[i].view);
    }
    auto& last = last_[static_cast<size_t>(node.id)];
    auto prepared = info.runner->Resolve(pointers, last);
    if (!prepared.ok()) {
      Fail(prepared.status());
      return Finished(info, iteration);
    }
    last = *prepared;
    const bool async = last->kernel->has(TENON_KERNEL_ASYNC) && last->kernel->registration().run_async != nullptr;
    // A kernel worth a thread goes to one when there is other work for this one.
    const bool elsewhere = !async && (last->kernel->has(TENON_KERNEL_BLOCKING) ||
                                      (last->kernel->has(TENON_KERNEL_EXPENSIVE) && !ready_.empty() && step_->env->threads->threads() > 1));
    if (async || elsewhere) return StartCall(info, iteration, async);
    const size_t count = info.outputs.size();
    views_.assign(count, tenon_tensor_view{});
    output_pointers_.clear();
    for (tenon_tensor_view& view : views_) output_pointers_.push_back(&view);
    Status status = RunNode(step_, *last, node, pointers, output_pointers_);
    if (!status.ok()) {
      Fail(std::move(status));
    } else {
      const std::vector<tenon_tensor_view*> made = output_pointers_;
      Propagate(info, iteration, made.data(), false);
    }
    for (tenon_tensor_view& view : views_) ReleaseOutput(&view);
    Finished(info, iteration);
  }

  void StartCall(const NodeInfo& info, Iteration* iteration, bool async) {
    auto call = std::make_unique<Call>();
    call->executor = this;
    call->info = &info;
    call->iteration = iteration;
    call->prepared = last_[static_cast<size_t>(info.node->id)];
    call->inputs = kernel_inputs_;
    call->views.resize(info.outputs.size());
    for (tenon_tensor_view& view : call->views) call->outputs.push_back(&view);
    ++outstanding_;
    Call* raw = call.release();
    if (!async) {
      step_->env->threads->Schedule([raw] {
        raw->status = RunNode(raw->executor->step_, *raw->prepared, *raw->info->node, raw->inputs, raw->outputs);
        raw->executor->Post(raw);
      });
      return;
    }
    raw->context.step = step_;
    raw->context.node = info.node;
    raw->frame = {TENON_HEAD(tenon_frame), raw->inputs.data(), raw->outputs.data(), static_cast<int32_t>(raw->inputs.size()),
                  static_cast<int32_t>(raw->outputs.size()), nullptr, 0, nullptr, FrameServices(), &raw->context, step_->id};
    const tenon_kernel_registration& kernel = raw->prepared->kernel->registration();
    tenon_status* refused = AllocateFixed(raw);
    if (refused == nullptr)
      refused = kernel.run_async(raw->prepared->kernel->state(), raw->prepared->prepared, &raw->frame, &CallDone, raw);
    if (refused != nullptr) CallDone(raw, refused);
  }

  // Outputs whose shape is known before an asynchronous kernel runs.
  static tenon_status* AllocateFixed(Call* call) {
    for (size_t k = 0; k < call->outputs.size(); ++k) {
      const Shape& shape = call->prepared->outputs[k].shape;
      if (call->prepared->kernel->dynamic_output(k) || !shape.fully_known()) continue;
      if (tenon_status* bad = FrameServices()->alloc_output(&call->frame, static_cast<int32_t>(k), shape.c(), 0)) return bad;
    }
    return nullptr;
  }

  static void CallDone(void* argument, tenon_status* status) {
    auto* call = static_cast<Call*>(argument);
    call->status = Status(status).Annotate(call->info->node->Describe());
    ReleasePins(&call->context);
    call->executor->Post(call);
  }

  void Post(Call* call) {
    std::lock_guard lock(inbox_mutex_);
    inbox_.push_back(call);
    inbox_wake_.notify_one();
  }

  void TakeInbox(bool wait) {
    std::vector<Call*> done;
    {
      std::unique_lock lock(inbox_mutex_);
      if (wait) inbox_wake_.wait(lock, [this] { return !inbox_.empty(); });
      done.swap(inbox_);
    }
    for (Call* raw : done) {
      std::unique_ptr<Call> call(raw);
      --outstanding_;
      if (!call->status.ok()) {
        Fail(std::move(call->status));
      } else if (error_.ok()) {
        bool set = true;
        for (tenon_tensor_view* view : call->outputs) set = set && view->dl.data != nullptr;
        if (set) Propagate(*call->info, call->iteration, call->outputs.data(), false);
        else Fail(Internal(StrCat(call->info->node->Describe(), ": its kernel finished without setting all outputs")));
      }
      for (tenon_tensor_view& view : call->views) ReleaseOutput(&view);
      Finished(*call->info, call->iteration);
    }
  }

  const DynamicPlan& plan_;
  Step* step_;
  std::vector<tenon_tensor_view>* fetches_;
  std::vector<char> fetched_;
  std::vector<std::shared_ptr<const PreparedNode>> last_;  // by node id
  std::minstd_rand random_;
  bool shuffled_;
  FrameInstance* root_ = nullptr;
  std::deque<Ready> ready_;
  Status error_;
  std::map<int, std::vector<std::unique_ptr<Iteration>>> spare_;
  // Scratch of the driving thread.
  std::vector<const tenon_tensor_view*> kernel_inputs_, forwarded_;
  std::vector<tenon_tensor_view> views_;
  std::vector<tenon_tensor_view*> output_pointers_;
  // Kernels that run elsewhere.
  int64_t outstanding_ = 0;
  std::mutex inbox_mutex_;
  std::condition_variable inbox_wake_;
  std::vector<Call*> inbox_;
};

}  // namespace

Status RunDynamicStep(const DynamicPlan& plan, Step* step, const tenon_tensor_view* const* feeds,
                      std::vector<tenon_tensor_view>* out_fetches) {
  out_fetches->assign(plan.plan().fetches().size(), tenon_tensor_view{});
  for (size_t i = 0; i < out_fetches->size(); ++i)
    if (const int feed = plan.plan().FeedOf(plan.plan().fetches()[i]); feed >= 0) {
      (*out_fetches)[i] = *feeds[feed];
      if ((*out_fetches)[i].buffer != nullptr) Retain((*out_fetches)[i].buffer);
    }
  Status status = Executor(plan, step, out_fetches).Run(feeds);
  if (!status.ok())
    for (tenon_tensor_view& view : *out_fetches) ReleaseOutput(&view);
  return status;
}

}  // namespace tenon::exec
