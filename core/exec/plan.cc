// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan.h"

#include <algorithm>

#include "core/base/json_escape.h"
#include "core/exec/claims.h"
#include "core/exec/dynamic_plan.h"
#include "core/exec/program.h"
#include "core/exec/transfer_order.h"
#include "core/partition/transfers.h"

namespace tenon::exec {
namespace {

constexpr size_t kMaxPrograms = 16;

}  // namespace

bool NeedsKernel(const graph::Node& node) {
  constexpr uint64_t kByEngine = TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER | TENON_OP_CONSTANT | TENON_OP_SWITCH |
                                 TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION |
                                 TENON_OP_LOOP_CONDITION | TENON_OP_IDENTITY | TENON_OP_FEED | TENON_OP_SEND | TENON_OP_RECV;
  return !node.has(kByEngine);
}

Plan::Plan(graph::Graph graph, const Environment& env) : graph_(std::move(graph)), env_(env) {}
Plan::~Plan() = default;

Result<std::shared_ptr<Plan>> Plan::Create(graph::Graph graph, std::vector<graph::Edge> feeds,
                                           std::vector<graph::Edge> fetches, std::vector<int32_t> targets,
                                           const Environment& env, KernelStore* store, Options options) {
  std::shared_ptr<Plan> plan(new Plan(std::move(graph), env));
  plan->feeds_ = std::move(feeds);
  for (size_t i = 0; i < plan->feeds_.size(); ++i) plan->feed_of_.emplace(plan->feeds_[i], static_cast<int>(i));
  plan->fetches_ = std::move(fetches);
  plan->targets_ = std::move(targets);
  plan->options_ = std::move(options);
  TENON_RETURN_IF_ERROR(plan->FindOrder());
  TENON_RETURN_IF_ERROR(plan->MakeRunners(store));
  const int32_t own = plan->graph_.size();
  if (plan->uses_queues_) TENON_RETURN_IF_ERROR(plan->AddTransfers());
  if (plan->uses_queues_ || plan->options_.part != nullptr) {
    TENON_ASSIGN_OR_RETURN(TransferOrder transfers, OrderTransfers(*plan, own));
    plan->order_ = std::move(transfers.order);
    plan->waits_ = std::move(transfers.waits);
  }
  for (int32_t id : plan->order_)
    if (plan->graph_.node(id).has(TENON_OP_RECV)) plan->receives_.push_back(id);
  // A part keeps the order of all parts, which sets of nodes as wholes would not.
  if (plan->options_.compile && plan->options_.part == nullptr && plan->env_.compilers) {
    TENON_ASSIGN_OR_RETURN(plan->claims_, Claims::Find(*plan));
  }
  plan->always_dynamic_.store(plan->options_.force_dynamic);
  return plan;
}

bool Plan::RunsThrough() const {
  return !uses_queues_ && std::none_of(order_.begin(), order_.end(), [this](int32_t id) {
    return graph_.node(id).has(TENON_OP_ENTER) || (runner(id) != nullptr && runner(id)->has(TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING));
  });
}

Status Plan::FindOrder() {
  order_.clear();
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> all, graph_.TopologicalOrder());
  for (int32_t id : all) {
    const graph::Node& node = graph_.node(id);
    // Nodes that are only there to name a feed.
    bool only_fed = !node.output_types.empty() && std::find(targets_.begin(), targets_.end(), id) == targets_.end();
    for (size_t k = 0; k < node.output_types.size(); ++k) only_fed = only_fed && FeedOf({id, static_cast<int32_t>(k)}) >= 0;
    bool open = false;
    for (const graph::Edge& edge : node.inputs) open = open || edge.node < 0;
    if (!open && !(only_fed && node.has(TENON_OP_FEED | TENON_OP_RECV))) order_.push_back(id);
  }
  return Status::Ok();
}

Status Plan::MakeRunners(KernelStore* store) {
  runners_.resize(static_cast<size_t>(graph_.size()));
  device_of_.assign(static_cast<size_t>(graph_.size()), 0);
  transfer_from_.assign(static_cast<size_t>(graph_.size()), -1);
  const auto on_device = [](int32_t memory) { return memory != 0; };
  uses_queues_ = std::any_of(options_.feed_memories.begin(), options_.feed_memories.end(), on_device) ||
                 std::any_of(options_.fetch_memories.begin(), options_.fetch_memories.end(), on_device);
  std::map<std::string_view, int32_t> devices;
  for (const SessionDevice& device : env_.devices) devices.emplace(device.device->name, device.index);
  for (int32_t id : order_) {
    const graph::Node& node = graph_.node(id);
    if (const auto it = devices.find(node.device); it != devices.end()) device_of_[static_cast<size_t>(id)] = it->second;
    uses_queues_ = uses_queues_ || MemoryOfDevice(id) != 0;
    if (node.has(TENON_OP_CONSTANT) && (node.FindAttr("value") == nullptr || node.FindAttr("value")->kind() != TENON_ATTR_TENSOR))
      return InvalidArgument(StrCat(node.Describe(), " is a constant without a tensor in its attribute 'value'"));
    if (node.has(TENON_OP_SEND | TENON_OP_RECV) && ChannelOf(id) < 0)
      return Unimplemented(StrCat(node.Describe(), ": sends and receives run in the parts of a graph that the engine itself has partitioned"));
    if (!NeedsKernel(node)) continue;
    TENON_ASSIGN_OR_RETURN(runners_[static_cast<size_t>(id)], NodeRunner::Create(node, env_, store, DeviceOf(id)));
    TENON_RETURN_IF_ERROR(runners_[static_cast<size_t>(id)]->KnowHandles(graph_));
  }
  return Status::Ok();
}

int32_t Plan::MemoryOf(graph::Edge edge) const {
  if (const int feed = FeedOf(edge); feed >= 0) return options_.feed_memories.empty() ? 0 : options_.feed_memories[static_cast<size_t>(feed)];
  const graph::Node& node = graph_.node(edge.node);
  const DType type = node.output_types[static_cast<size_t>(edge.index)];
  if (!IsPlain(BaseType(type)) || node.has(TENON_OP_LOOP_CONDITION) || (node.has(TENON_OP_MERGE) && edge.index > 0)) return 0;
  const NodeRunner* runner = runners_[static_cast<size_t>(edge.node)].get();
  if (runner == nullptr || IsRef(type)) return MemoryOfDevice(edge.node);
  return runner->host_output(static_cast<size_t>(edge.index)) ? 0 : runner->queued_on()->memory;
}

int32_t Plan::MemoryWanted(const graph::Node& node, int32_t input) const {
  if (!IsPlain(node.input_types[static_cast<size_t>(input)])) return 0;
  if (node.has(TENON_OP_LOOP_CONDITION) || (node.has(TENON_OP_SWITCH) && input == 1)) return 0;
  const NodeRunner* runner = runners_[static_cast<size_t>(node.id)].get();
  if (runner == nullptr) return MemoryOfDevice(node.id);
  return runner->host_input(static_cast<size_t>(input)) ? 0 : runner->queued_on()->memory;
}

Status Plan::AddTransfers() {
  const auto device = [this](int32_t memory) -> const SessionDevice& { return env_.devices[static_cast<size_t>(memory)]; };
  partition::Memories memories;
  memories.of = [this](graph::Edge edge) { return MemoryOf(edge); };
  memories.wanted = [this](const graph::Node& node, int32_t input) { return MemoryWanted(node, input); };
  memories.direct = [&](int32_t from, int32_t to) { return device(from).device->driver == device(to).device->driver; };
  memories.name = [&](int32_t memory) { return device(memory).device->name; };
  std::vector<graph::Edge> fetches = fetches_;
  std::vector<int32_t> fetch_memories = options_.fetch_memories;
  fetch_memories.resize(fetches.size());
  // Nodes are added while oracles are asked about old ones alone.
  TENON_ASSIGN_OR_RETURN(const std::vector<partition::AddedNode> added,
                         partition::AddTransfers(&graph_, order_, feeds_, &fetches, fetch_memories, memories));
  fetches_ = std::move(fetches);
  kept_.resize(static_cast<size_t>(graph_.size()));
  for (size_t i = 0; i < fetches_.size(); ++i)
    if (fetch_memories[i] != 0) kept_[static_cast<size_t>(fetches_[i].node)] = true;
  runners_.resize(static_cast<size_t>(graph_.size()));
  device_of_.resize(static_cast<size_t>(graph_.size()), 0);
  transfer_from_.resize(static_cast<size_t>(graph_.size()), -1);
  for (const partition::AddedNode& node : added) {
    device_of_[static_cast<size_t>(node.node)] = node.memory;
    transfer_from_[static_cast<size_t>(node.node)] = node.from;
  }
  return Status::Ok();
}

Result<Tensor> Plan::OnDevice(const Tensor& value, int32_t memory) const {
  std::lock_guard lock(constants_mutex_);
  auto& [host, copy] = constants_[{value.buffer(), memory}];
  if (copy.has_value()) return copy;
  const SessionDevice& device = env_.devices[static_cast<size_t>(memory)];
  TENON_ASSIGN_OR_RETURN(Tensor fresh, Tensor::Allocate(device.pool, value.dtype(), value.shape()));
  const tenon_copy_args args{TENON_HEAD(tenon_copy_args), value.data(), fresh.data(), value.byte_size(), nullptr, device.device->handle};
  bool abandoned = false;
  const Allowance* const allowance = Allowance::Current();
  Cancellation* const for_whom = allowance == nullptr ? nullptr : allowance->cancellation();
  if (Status status = CopyNow(env_, device, args, "constant", for_whom, &abandoned); !status.ok()) {
    if (abandoned) {  // the copy may still be made
      Retain(value.buffer());
      Retain(fresh.buffer());
    }
    return std::move(status).Annotate("a constant");
  }
  host = value;
  copy = std::move(fresh);
  return copy;
}

Result<Message> Plan::Pack(const tenon_tensor_view& value, BufferPool* pool) const {
  TENON_ASSIGN_OR_RETURN(Message message, Message::Of(value, pool));
  return Shorten(std::move(message), options_.part->precision, pool);
}

Result<Message> Plan::Unpack(int32_t receive, Message message, BufferPool* pool) const {
  // A short value may also be what was sent.
  return graph_.node(receive).output_types[0] == TENON_DT_FLOAT ? Lengthen(std::move(message), pool) : std::move(message);
}

int Plan::FeedOf(graph::Edge edge) const {
  const auto found = feed_of_.find(edge);
  return found == feed_of_.end() ? -1 : found->second;
}

namespace {

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

Result<std::shared_ptr<Program>> Plan::Bind(const tenon_tensor_view* const* feeds, const std::shared_ptr<Program>& last,
                                            Cancellation* cancellation) {
  if (last != nullptr && last->Fits(feeds)) return last;
  if (always_dynamic()) return std::shared_ptr<Program>();
  const Allowance allowance(cancellation, env_.pool);
  std::unique_lock lock(mutex_, std::defer_lock);
  TENON_RETURN_IF_ERROR(LockBefore(cancellation, &lock));
  for (const std::vector<Shape>& shapes : dynamic_shapes_)
    if (AreShapes(feeds, shapes)) return std::shared_ptr<Program>();
  for (const auto& program : programs_)
    if (program->Fits(feeds)) return program;
  Program::Refusal refusal;
  uint64_t folded = 0;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Program> program, Program::Build(*this, feeds, &refusal, &folded));
  bindings_built_.fetch_add(1, std::memory_order_relaxed);
  nodes_folded_.store(folded, std::memory_order_relaxed);
  if (program == nullptr) {
    why_dynamic_ = std::move(refusal.text);
    dynamic_shapes_.emplace_back();
    for (size_t i = 0; i < feeds_.size(); ++i) dynamic_shapes_.back().push_back(ShapeOf(*feeds[i]));
    if (!refusal.for_these_shapes || dynamic_shapes_.size() > kMaxPrograms) always_dynamic_.store(true);
    return program;
  }
  if (programs_.size() < kMaxPrograms) programs_.push_back(program);
  else programs_[next_evicted_++ % kMaxPrograms] = program;
  return program;
}

uint64_t Plan::FixedProgram(const tenon_tensor_view* const* feeds) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);  // who makes a program has it long
  if (!lock.owns_lock()) return 0;
  for (const auto& program : programs_)
    if (program->Fits(feeds)) return program->fixed() ? program->serial() : 0;
  return 0;
}

Result<DynamicPlan*> Plan::Dynamic(Cancellation* cancellation) {
  const Allowance allowance(cancellation, env_.pool);
  std::unique_lock lock(mutex_, std::defer_lock);
  TENON_RETURN_IF_ERROR(LockBefore(cancellation, &lock));
  if (dynamic_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(dynamic_, DynamicPlan::Create(*this));
  }
  return dynamic_.get();
}

std::string Plan::Explain() const {
  std::lock_guard lock(mutex_);
  // How the newest program runs each node; nodes that no program runs were folded or forwarded.
  std::vector<const char*> how(static_cast<size_t>(graph_.size()), always_dynamic() || !dynamic_shapes_.empty() ? "dynamic" : "not bound");
  const auto mark = [&how](const std::vector<Operation>& block, auto& self, const Program& program, bool in_loop) -> void {
    for (const Operation& operation : block) {
      if (operation.kind == Operation::Kind::kLoop) {
        self(program.loops()[static_cast<size_t>(operation.loop)].condition_block, self, program, true);
        self(program.loops()[static_cast<size_t>(operation.loop)].body_block, self, program, true);
      } else if (operation.kind == Operation::Kind::kBranch) {
        self(program.branches()[static_cast<size_t>(operation.branch)].block, self, program, in_loop);
      } else if (operation.kind != Operation::Kind::kRelease && operation.kind != Operation::Kind::kCheck) {
        if (operation.region != nullptr) {
          for (int32_t node : operation.region->nodes()) how[static_cast<size_t>(node)] = "compiled";
        } else {
          how[static_cast<size_t>(operation.node)] = operation.kind == Operation::Kind::kDynamic ? "shapes at run time"
                                                   : in_loop                                   ? "loop"
                                                                                               : "straight";
        }
      }
    }
  };
  if (!programs_.empty()) {
    for (auto& text : how) text = "folded or forwarded";
    mark(programs_.back()->operations(), mark, *programs_.back(), false);
  }
  std::string out = "[";
  bool first = true;
  for (int32_t id : order_) {
    const graph::Node& node = graph_.node(id);
    const NodeRunner* runner = runners_[static_cast<size_t>(id)].get();
    out += StrCat(first ? "\n" : ",\n", "{\"name\":\"", JsonEscape(node.name), "\",\"op\":\"", JsonEscape(node.op->name),
                  "\",\"op_plugin\":\"", JsonEscape(node.op->package), "\",\"device\":\"",
                  env_.devices.empty() ? "" : JsonEscape(env_.devices[static_cast<size_t>(DeviceOf(id))].device->name),
                  TransferFrom(id) < 0 ? "" : StrCat("\",\"moves_from\":\"", JsonEscape(env_.devices[static_cast<size_t>(TransferFrom(id))].device->name)),
                  "\",\"kernel_plugin\":\"",
                  runner == nullptr ? "" : JsonEscape(runner->plugin()), "\",\"priority\":",
                  runner == nullptr ? 0 : runner->registration().priority, ",\"runs\":\"", how[static_cast<size_t>(id)],
                  programs_.empty() && !why_dynamic_.empty() ? StrCat("\",\"why\":\"", JsonEscape(why_dynamic_)) : "", "\"}");
    first = false;
  }
  return out + "\n]\n";
}

}  // namespace tenon::exec
