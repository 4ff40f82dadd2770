// SPDX-License-Identifier: Apache-2.0
#include "core/exec/bindings.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/base/clock.h"
#include "core/base/json_escape.h"
#include "core/exec/dataflow/dynamic_instance.h"
#include "core/exec/device/step.h"
#include "core/exec/lower/lower.h"
#include "core/exec/program/instance.h"
#include "core/exec/program/side_by_side.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {
namespace {

constexpr size_t kMaxPrograms = 16;

// Another step may make a program meanwhile, and take its time.
Status LockBefore(Cancellation* cancellation, std::unique_lock<std::mutex>* lock) {
  constexpr std::chrono::microseconds kPoll(200);
  if (cancellation == nullptr) lock->lock();
  while (!lock->owns_lock() && !lock->try_lock()) {
    if (cancellation->cancelled()) return cancellation->reason();
    std::this_thread::sleep_for(kPoll);
  }
  return Status::Ok();
}

}  // namespace

Bindings::Bindings(std::shared_ptr<const Plan> plan)
    : plan_(std::move(plan)), constants_(&plan_->env()), always_dynamic_(plan_->options().force_dynamic) {}
Bindings::~Bindings() = default;

Result<std::shared_ptr<BoundProgram>> Bindings::Bind(const tenon_tensor_view* const* feeds,
                                                     const std::shared_ptr<BoundProgram>& last,
                                                     Cancellation* cancellation) {
  if (last != nullptr && (*last)->Fits(feeds) && !(*last)->stands_by()) return last;
  if (always_dynamic()) return std::shared_ptr<BoundProgram>();
  const Allowance allowance(cancellation, plan_->env().pool);
  std::unique_lock lock(mutex_, std::defer_lock);
  TENON_RETURN_IF_ERROR(LockBefore(cancellation, &lock));
  for (const std::vector<Shape>& shapes : dynamic_shapes_)
    if (AreShapes(feeds, shapes)) return std::shared_ptr<BoundProgram>();
  for (const StandsBy& each : stand_by_)
    if ((*each.program)->Fits(feeds)) return std::shared_ptr<BoundProgram>();
  for (const auto& program : programs_)
    if ((*program)->Fits(feeds)) return program;
  TENON_ASSIGN_OR_RETURN(Lowered lowered, Lower(*plan_, feeds, &constants_));
  bindings_built_.fetch_add(1, std::memory_order_relaxed);
  nodes_folded_.store(lowered.folded, std::memory_order_relaxed);
  if (lowered.program == nullptr) {
    why_dynamic_ = std::move(lowered.refusal.text);
    dynamic_shapes_.emplace_back();
    for (size_t i = 0; i < plan_->feeds().size(); ++i) dynamic_shapes_.back().push_back(ShapeOf(*feeds[i]));
    if (!lowered.refusal.for_these_shapes || dynamic_shapes_.size() > kMaxPrograms) always_dynamic_.store(true);
    return std::shared_ptr<BoundProgram>();
  }
  auto program = std::make_shared<BoundProgram>(std::move(lowered.program));
  if (programs_.size() < kMaxPrograms) programs_.push_back(program);
  else programs_[next_evicted_++ % kMaxPrograms] = program;
  return program;
}

void Bindings::NoteTimes(const std::shared_ptr<BoundProgram>& program, const std::vector<OperationTime>& times) {
  if (!(*program)->TakeTrial()) return;
  const uint64_t saved = SavedSideBySide(*plan_, (*program)->code(), times);
  if (saved == 0) return;
  uint64_t straight = 0;
  for (const OperationTime& time : times) straight += time.ns;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find(programs_.begin(), programs_.end(), program);
    if (at == programs_.end() || stand_by_.size() >= kMaxPrograms) return;
    stand_by_.push_back({program, straight});
    programs_.erase(at);
    next_evicted_ = 0;
    (*program)->set_stands_by(true);
    any_stands_by_.store(true);
    why_dynamic_ = StrCat("its kernels run side by side: that saves ", saved / 1000, " of ", straight / 1000, " us");
  }
  program->DropIdle();
}

// It goes back where nothing is gained.
void Bindings::NoteDynamic(const tenon_tensor_view* const* feeds, uint64_t ns) {
  constexpr int kSteps = 4;
  const std::lock_guard lock(mutex_);
  const auto at = std::find_if(stand_by_.begin(), stand_by_.end(),
                               [&](const StandsBy& each) { return (*each.program)->Fits(feeds); });
  if (at == stand_by_.end() || at->steps == kSteps) return;
  at->best_ns = std::min(at->best_ns, ns);
  if (++at->steps < kSteps || at->best_ns < at->straight_ns - at->straight_ns / 20) return;
  (*at->program)->set_stands_by(false);
  if (programs_.size() < kMaxPrograms) programs_.push_back(at->program);
  stand_by_.erase(at);
  any_stands_by_.store(!stand_by_.empty());
}

uint64_t Bindings::FixedProgram(const tenon_tensor_view* const* feeds) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // who makes a program has it long
  if (!lock.owns_lock()) return 0;
  for (const auto& program : programs_)
    if ((*program)->Fits(feeds)) return (*program)->fixed() ? (*program)->serial() : 0;
  return 0;
}

Result<BoundDynamicPlan*> Bindings::Dynamic(Cancellation* cancellation) {
  const Allowance allowance(cancellation, plan_->env().pool);
  std::unique_lock lock(mutex_, std::defer_lock);
  TENON_RETURN_IF_ERROR(LockBefore(cancellation, &lock));
  if (dynamic_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<const DynamicPlan> plan, DynamicPlan::Create(*plan_, &constants_));
    dynamic_ = std::make_unique<BoundDynamicPlan>(std::move(plan));
  }
  return dynamic_.get();
}

// How the newest program runs each node; nodes that no program runs were folded or forwarded.
graph::NodeMap<const char*> Bindings::HowNodesRun() const {
  graph::NodeMap<const char*> how(
      plan_->graph().size(),
      always_dynamic() || !dynamic_shapes_.empty() || !stand_by_.empty() ? "dynamic" : "not bound");
  if (programs_.empty()) return how;
  std::fill(how.begin(), how.end(), "folded or forwarded");
  const ProgramCode& code = (*programs_.back())->code();
  const auto mark = [&](const std::vector<Operation>& block, bool in_loop, const auto& self) -> void {
    for (const Operation& operation : block) {
      if (operation.kind == Operation::Kind::kLoop) {
        const Loop& loop = code.loop(operation.loop);
        self(loop.condition_block, true, self);
        self(loop.body_block, true, self);
      } else if (operation.kind == Operation::Kind::kBranch) {
        self(code.branch(operation.branch).block, in_loop, self);
      } else if (operation.region != nullptr) {
        for (graph::NodeId node : operation.region->nodes()) how[node] = operation.region->how();
      } else if (operation.kind != Operation::Kind::kRelease && operation.kind != Operation::Kind::kCheck) {
        how[operation.node] = operation.kind == Operation::Kind::kDynamic ? "shapes at run time"
                              : in_loop                                   ? "loop"
                                                                          : "straight";
      }
    }
  };
  mark(code.operations, false, mark);
  return how;
}

// ",\"refused\":[{...}]"; nothing where none has refused.
static std::string Refused(const std::vector<KernelRefusal>& refusals) {
  std::string out;
  for (const KernelRefusal& refusal : refusals)
    out += StrCat(out.empty() ? ",\"refused\":[" : ",", "{\"plugin\":\"", JsonEscape(refusal.plugin),
                  "\",\"reason\":\"", JsonEscape(refusal.reason), "\"}");
  return out.empty() ? out : out + "]";
}

// In quotes.
std::string Bindings::InputNames(const graph::Node& node) const {
  std::string names;
  for (const graph::Edge input : node.inputs)
    names += StrCat(names.empty() ? "" : ",", "\"", JsonEscape(plan_->graph().EdgeName(input)), "\"");
  return names;
}

// ",\"note\":\"...\""; nothing where nobody told something of the node.
static std::string Note(const PlanOptions& options, const graph::Node& node) {
  if (options.notes == nullptr) return "";
  const auto found = options.notes->find(node.name);
  return found == options.notes->end() ? "" : StrCat(",\"note\":\"", JsonEscape(found->second), "\"");
}

std::string Bindings::Explain() const {
  std::lock_guard lock(mutex_);
  const graph::NodeMap<const char*> how = HowNodesRun();
  const std::string why =
      programs_.empty() && !why_dynamic_.empty() ? StrCat("\",\"why\":\"", JsonEscape(why_dynamic_)) : "";
  const std::vector<SessionDevice>& devices = plan_->env().devices;
  const auto name = [&](int32_t device) { return JsonEscape(devices[device].device->name); };
  std::string out = "[";
  for (graph::NodeId id : plan_->order()) {
    const graph::Node& node = plan_->graph().node(id);
    const NodeRunner* runner = plan_->runner(id).get();
    out += StrCat(out.size() == 1 ? "\n" : ",\n", "{\"name\":\"", JsonEscape(node.name), "\",\"op\":\"",
                  JsonEscape(node.op->name), "\",\"op_plugin\":\"", JsonEscape(node.op->package), "\",\"device\":\"",
                  devices.empty() ? "" : name(plan_->DeviceOf(id)),
                  plan_->TransferFrom(id) < 0 ? "" : StrCat("\",\"moves_from\":\"", name(plan_->TransferFrom(id))),
                  "\",\"kernel_plugin\":\"", runner == nullptr ? "" : JsonEscape(runner->plugin()),
                  "\",\"priority\":", runner == nullptr ? 0 : runner->registration().priority,
                  runner == nullptr ? "" : Refused(runner->refusals()), ",\"runs\":\"", how[id], why, "\",\"inputs\":[",
                  InputNames(node), "]", Note(plan_->options(), node), "}");
  }
  return out + "\n]\n";
}

Runnable::Counts Bindings::counts() const {
  return {bindings_built_.load(std::memory_order_relaxed), nodes_folded_.load(std::memory_order_relaxed)};
}

// ---- Runs ----

namespace {

// Keeps the program or executor that served the last step.
class BoundRun final : public Run {
 public:
  explicit BoundRun(Bindings* bindings) : bindings_(bindings) {}
  ~BoundRun() override { ReturnBoth(); }

  Status Go(Step* step, const tenon_tensor_view* const* feeds) override;
  bool stands_still() const override { return dynamic_ran_ && dynamic_->stands_still(); }
  Status GoOn() override { return dynamic_->GoOn(); }
  const tenon_tensor_view& fetch(size_t i) const override {
    return dynamic_ran_ ? dynamic_->fetch(i) : instance_->fetch(i);
  }
  bool fetch_is_own(size_t i) const override { return !dynamic_ran_ && instance_->fetch_is_own(i); }
  void Finish() override;
  bool abandoned() const override {
    return (dynamic_ != nullptr && dynamic_->abandoned()) || (instance_ != nullptr && instance_->abandoned());
  }
  void ReturnInstances() override { ReturnBoth(); }

 private:
  void ReturnBoth();
  void LetGoOfWhatStandsBy();
  Bindings* const bindings_;
  std::shared_ptr<BoundProgram> program_;     // of `instance_`
  ProgramInstance* instance_ = nullptr;       // kept between steps of the same shapes
  BoundDynamicPlan* dynamic_plan_ = nullptr;  // of `dynamic_`
  DynamicInstance* dynamic_ = nullptr;
  bool ran_ = false, dynamic_ran_ = false;
};

// An instance, with what idle steps of the session give up for it where there is no memory: nothing of this step has
// run.
template <typename From>
auto AcquireFrom(From& from, const Step& step) {
  constexpr std::chrono::milliseconds kPoll(1);
  constexpr int kMostPolls = 2000;
  const Environment& env = *step.env;
  const Allowance allowance(step.cancellation, nullptr);
  auto instance = from.Acquire();
  const auto lacks = [&] { return !instance.ok() && instance.status().code() == Code::kResourceExhausted; };
  bool given = false;
  while (lacks() && env.give_up_idle && env.give_up_idle()) {
    given = true;
    instance = from.Acquire();
  }
  // A device's memory is free when its queues have come to where it was freed.
  for (int polls = 0; given && !env.queues.empty() && lacks() && polls < kMostPolls && !step.cancellation->cancelled();
       ++polls) {
    std::this_thread::sleep_for(kPoll);
    instance = from.Acquire();
  }
  return instance;
}

Status BoundRun::Go(Step* step, const tenon_tensor_view* const* feeds) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<BoundProgram> program, bindings_->Bind(feeds, program_, step->cancellation));
  dynamic_ran_ = program == nullptr;
  if (dynamic_ran_) {
    if (dynamic_ == nullptr) {
      TENON_ASSIGN_OR_RETURN(dynamic_plan_, bindings_->Dynamic(step->cancellation));
      TENON_ASSIGN_OR_RETURN(dynamic_, AcquireFrom(*dynamic_plan_, *step));
    }
    ran_ = true;
    LetGoOfWhatStandsBy();
    if (!bindings_->any_stands_by()) return dynamic_->Run(step, feeds);
    const uint64_t begin = NowNs();
    Status status = dynamic_->Run(step, feeds);
    if (status.ok() && !dynamic_->stands_still()) bindings_->NoteDynamic(feeds, NowNs() - begin);
    return status;
  }
  if (program != program_) {
    if (instance_ != nullptr) program_->GiveBack(std::exchange(instance_, nullptr));
    program_ = std::move(program);
  }
  if (instance_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(instance_, AcquireFrom(*program_, *step));
  }
  ran_ = true;
  Status status = instance_->Run(step, feeds);
  if (status.ok() && !instance_->times().empty()) bindings_->NoteTimes(program_, instance_->times());
  return status;
}

// Its arena is not needed while the dynamic executor runs instead.
void BoundRun::LetGoOfWhatStandsBy() {
  if (instance_ == nullptr || !(*program_)->stands_by()) return;
  program_->GiveBack(std::exchange(instance_, nullptr));
  program_->DropIdle();
  program_.reset();
}

void BoundRun::Finish() {
  if (!std::exchange(ran_, false)) return;
  if (dynamic_ran_) dynamic_->Finish();
  else instance_->Finish();
}

void BoundRun::ReturnBoth() {
  if (instance_ != nullptr) program_->GiveBack(std::exchange(instance_, nullptr));
  if (dynamic_ != nullptr) dynamic_plan_->GiveBack(std::exchange(dynamic_, nullptr));
  program_.reset();
}

}  // namespace

bool Bindings::DropIdle() {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // who makes a program may be the one that asks
  if (!lock.owns_lock()) return false;
  bool dropped = dynamic_ != nullptr && dynamic_->DropIdle();
  for (const auto& program : programs_) dropped = program->DropIdle() || dropped;
  return dropped;
}

std::unique_ptr<Run> Bindings::NewRun() { return std::make_unique<BoundRun>(this); }

}  // namespace tenon::exec
