// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/claims.h"

#include <algorithm>
#include <deque>
#include <set>
#include <span>
#include <utility>

#include "core/base/checked.h"
#include "core/base/live_objects.h"
#include "core/base/log.h"
#include "core/exec/device/environment.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/kernel_question.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/plan/offered_loop.h"
#include "core/exec/plan/plan.h"
#include "core/exec/plan/tile_groups.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"
#include "tenon/ext/draft/compile_loop.h"

namespace tenon::exec {

using graph::Edge;
using graph::Node;

// Behind a compiler's tenon_claim_sink.
struct ClaimSink {
  Claims* claims;
  const CompilerEntry* compiler;
  const SessionDevice* device;

  static tenon_status* Claim(tenon_claim_context* context, const int64_t* nodes, uint64_t count) {
    auto* sink = reinterpret_cast<ClaimSink*>(context);
    return sink->claims->Take(*sink->compiler, *sink->device, nodes, count).release();
  }
  static tenon_status* Refuse(tenon_claim_context* context, int64_t node, uint32_t, tenon_span text) {
    auto* sink = reinterpret_cast<ClaimSink*>(context);
    if (!sink->claims->cursor_.Has(node))
      return InvalidArgument(StrCat("there is no node ", node, " to refuse")).release();
    sink->claims->refusals_[sink->claims->cursor_.IdOf(node)] = {sink->compiler->plugin, std::string(View(text))};
    return nullptr;
  }
};

bool MayBeClaimed(const Plan& plan, graph::NodeId id, int32_t priority, const SessionDevice& device) {
  const NodeRunner* runner = plan.runner(id).get();
  if (runner == nullptr || runner->registration().priority > priority) return false;
  if (device.queued()) return !runner->main_queue_only() && runner->queued_on() == &device;
  return plan.DeviceOf(id) == device.index && runner->queued_on() == nullptr &&
         !runner->has(TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING | TENON_KERNEL_STATEFUL);
}

// A compiler makes a step faster, and never decides whether it runs: what it fails at is said, and done without it.
static void LeaveToKernels(const Status& failure) {
  Log(TENON_LOG_WARNING, StrCat(failure.message(), "; the kernels run instead"));
}

Claims::Claims(const Plan& plan)
    : plan_(plan),
      inference_(&plan.graph()),
      cursor_(plan.graph(), plan.order(), [this]() -> const graph::ShapeInference& { return Inferred(); }),
      claim_of_(plan.graph().size(), -1) {}

const graph::ShapeInference& Claims::Inferred() {
  if (std::exchange(inferred_, true)) return inference_;
  inference_.SetFed(plan_.feeds());
  // What cannot be inferred is unknown here; who binds the plan says why.
  static_cast<void>(inference_.Run());
  return inference_;
}

Result<std::unique_ptr<Claims>> Claims::Find(const Plan& plan) {
  std::unique_ptr<Claims> claims(new Claims(plan));
  std::vector<CompilerEntry> compilers = plan.env().compilers ? plan.env().compilers() : std::vector<CompilerEntry>();
  // Of several for a device the one of the highest priority chooses first.
  std::stable_sort(compilers.begin(), compilers.end(), [](const CompilerEntry& a, const CompilerEntry& b) {
    return a.table->priority > b.table->priority;
  });
  for (const SessionDevice& device : plan.env().devices) {
    for (const CompilerEntry& compiler : compilers)
      if (View(compiler.table->device_type) == device.device->type) {
        const auto first = std::ssize(claims->claims_);
        Status status = claims->Ask(compiler, device);
        if (status.ok() && first < std::ssize(claims->claims_)) status = claims->BreakCircles(first);
        if (status.ok()) continue;
        TENON_RETURN_IF_ERROR(CheckAllowance());
        LeaveToKernels(
            std::move(status).Annotate(StrCat("the compiler of ", compiler.plugin, " for ", device.device->name)));
        claims->Forget(first);
      }
  }
  std::vector<LoopCompilerEntry> of_loops =
      plan.env().loop_compilers ? plan.env().loop_compilers() : std::vector<LoopCompilerEntry>();
  std::stable_sort(of_loops.begin(), of_loops.end(),
                   [](const auto& a, const auto& b) { return a.table->priority > b.table->priority; });
  for (const SessionDevice& device : plan.env().devices)
    for (const LoopCompilerEntry& compiler : of_loops)
      if (!device.queued() && View(compiler.table->device_type) == device.device->type)
        claims->loop_compilers_.push_back({compiler, &device});
  return claims;
}

// The claims from `first` on: their nodes run by themselves.
void Claims::Forget(int64_t first) {
  for (const Claim& claim : std::span(claims_).subspan(static_cast<size_t>(first)))
    for (const graph::NodeId id : claim.nodes) claim_of_[id] = -1;
  claims_.resize(static_cast<size_t>(first));
}

// What feeds one another and is computed piece by piece: whatever stands in a way is left to run node by node.
void Claims::TakeTiles() {
  const auto first = std::ssize(claims_);
  for (const SessionDevice& device : plan_.env().devices) {
    if (device.queued()) continue;
    const auto may = [&](graph::NodeId id) { return claim_of_[id] < 0 && plan_.DeviceOf(id) == device.index; };
    for (std::vector<graph::NodeId>& nodes : FindTileGroups(plan_, may)) {
      for (const graph::NodeId id : nodes) claim_of_[id] = static_cast<int32_t>(claims_.size());
      claims_.push_back({std::move(nodes), {}, &device});
    }
  }
  if (first == std::ssize(claims_)) return;
  // One at a time, as others may be stuck for it alone; of many all that are, as each look takes as long as the graph
  // is large.
  constexpr int kMostLooks = 16;
  int looks = 0;
  for (std::vector<int32_t> stuck = InCircles(); !stuck.empty() && stuck.back() >= first; stuck = InCircles()) {
    do {
      GiveUp(stuck.back(), "its set and another would depend on each other");
      stuck.pop_back();
    } while (looks >= kMostLooks && !stuck.empty() && stuck.back() >= first);
    ++looks;
  }
}

void Claims::GiveUp(int32_t claim, const char* why) {
  for (const graph::NodeId id : claims_[claim].nodes) {
    claim_of_[id] = -1;
    if (claims_[claim].compiler.table != nullptr) refusals_[id] = {claims_[claim].compiler.plugin, why};
  }
  claims_[claim].nodes.clear();
}

// Sets of two compilers may depend on each other, though neither can know: then the later one's are given up.
Status Claims::BreakCircles(int32_t first) {
  for (std::vector<int32_t> stuck = InCircles(); !stuck.empty(); stuck = InCircles()) {
    if (first == 0 || stuck.back() < first)
      return InvalidArgument("the sets of nodes that it claimed depend on each other in a circle");
    GiveUp(stuck.back(), "its set and one of another compiler would depend on each other");
  }
  return Status::Ok();
}

void Claims::Divide(const std::vector<std::vector<graph::NodeId>>& pieces, const Predicted& predicted) {
  const std::vector<Claim> whole = std::exchange(claims_, {});
  const graph::NodeMap<int32_t> whole_of = claim_of_;
  predicted_ = predicted;
  claim_of_.assign(claim_of_.size(), -1);
  for (const std::vector<graph::NodeId>& piece : pieces) {
    const Claim& from = whole[whole_of[piece[0]]];
    for (graph::NodeId id : piece) claim_of_[id] = static_cast<int32_t>(claims_.size());
    claims_.push_back({piece, from.compiler, from.device});
  }
  for (const Claim& claim : whole)
    for (graph::NodeId id : claim.nodes)
      if (claim_of_[id] < 0)
        refusals_[id] = {claim.compiler.plugin,
                         "it was claimed; the step is predicted to be no longer when it runs by itself, as it or what "
                         "reads it need not wait for others"};
}

const Claims::Refusal* Claims::RefusalOf(graph::NodeId node) const {
  const auto it = refusals_.find(node);
  return it == refusals_.end() ? nullptr : &it->second;
}

Status Claims::Ask(const CompilerEntry& compiler, const SessionDevice& device) {
  std::vector<int64_t> nodes;
  for (graph::NodeId id : plan_.order())
    if (claim_of_[id] < 0 && MayBeClaimed(plan_, id, compiler.table->priority, device))
      nodes.push_back(cursor_.NumberOf(id));
  if (nodes.empty()) return Status::Ok();
  ClaimSink own{this, &compiler, &device};
  const tenon_claim_sink sink{TENON_HEAD(tenon_claim_sink), reinterpret_cast<tenon_claim_context*>(&own),
                              &ClaimSink::Claim, &ClaimSink::Refuse};
  return CallPlugin(compiler.plugin, "claim", [&] {
    return compiler.table->claim(compiler.self, cursor_.c(), nodes.data(), nodes.size(), device.device->handle, &sink);
  });
}

Status Claims::Take(const CompilerEntry& compiler, const SessionDevice& device, const int64_t* nodes, uint64_t count) {
  Claim claim;
  claim.compiler = compiler;
  claim.device = &device;
  for (uint64_t i = 0; i < count; ++i) {
    if (!cursor_.Has(nodes[i])) return InvalidArgument(StrCat("there is no node ", nodes[i], " to claim"));
    const graph::NodeId id = cursor_.IdOf(nodes[i]);
    if (!MayBeClaimed(plan_, id, compiler.table->priority, device))
      return InvalidArgument(StrCat(plan_.graph().node(id).Describe(), " is not one of those that may be claimed"));
    if (claim_of_[id] >= 0) return InvalidArgument(StrCat(plan_.graph().node(id).Describe(), " is claimed twice"));
    claim_of_[id] = static_cast<int32_t>(claims_.size());
    claim.nodes.push_back(id);
  }
  std::sort(claim.nodes.begin(), claim.nodes.end(),
            [this](graph::NodeId a, graph::NodeId b) { return cursor_.NumberOf(a) < cursor_.NumberOf(b); });
  if (claim.nodes.empty()) return InvalidArgument("a claim has no node");
  claims_.push_back(std::move(claim));
  return Status::Ok();
}

// With each claim as one, every node must come after what it depends on: the claims that do not, or come behind such.
std::vector<int32_t> Claims::InCircles() const {
  const graph::Graph& graph = plan_.graph();
  const size_t count = graph.size();
  const auto whole = [&](graph::NodeId id) { return ClaimOf(id) < 0 ? id.index() : count + ClaimOf(id); };
  std::vector<std::vector<size_t>> users(count + claims_.size());
  std::vector<int32_t> pending(users.size(), 0);
  std::set<size_t> all;
  for (graph::NodeId id : plan_.order()) {
    all.insert(whole(id));
    const Node& node = graph.node(id);
    const auto depend = [&](graph::NodeId source) {
      if (!source || whole(source) == whole(id) || cursor_.NumberOf(source) > cursor_.NumberOf(id)) return;
      users[whole(source)].push_back(whole(id));
      ++pending[whole(id)];
    };
    for (const Edge& edge : node.inputs) depend(edge.node);
    for (graph::NodeId control : node.controls) depend(control);
  }
  std::deque<size_t> ready;
  for (size_t at = 0; at < users.size(); ++at)
    if (pending[at] == 0) ready.push_back(at);
  while (!ready.empty()) {
    const size_t at = ready.front();
    ready.pop_front();
    all.erase(at);
    for (size_t user : users[at])
      if (--pending[user] == 0) ready.push_back(user);
  }
  std::vector<int32_t> stuck;
  for (size_t at : all)
    if (at >= count) stuck.push_back(static_cast<int32_t>(at - count));
  return stuck;
}

namespace {

// Behind tenon_compile_context: views of edges, kept until compile() returns, and what nodes of a loop read.
struct Compilation {
  const graph::Graph* graph;
  const Claims* claims;
  const graph::ShapeInference* inference;
  const OfferedLoop* loop;
  std::deque<tenon_tensor_view> views;

  tenon_output ToC(Edge edge) const {
    return edge.node ? tenon_output{claims->cursor().NumberOf(edge.node), edge.index, 0} : tenon_output{-1, 0, 0};
  }
  std::vector<tenon_output> ToC(const std::vector<Edge>& edges) const {
    std::vector<tenon_output> out;
    for (const Edge& edge : edges) out.push_back(ToC(edge));
    return out;
  }
  std::vector<int64_t> NumbersOf(const std::vector<graph::NodeId>& nodes) const {
    std::vector<int64_t> numbers;
    for (graph::NodeId id : nodes) numbers.push_back(claims->cursor().NumberOf(id));
    return numbers;
  }

  static tenon_status* Get(tenon_compile_context* context, tenon_output output, const tenon_tensor_view** out_view) {
    auto* self = reinterpret_cast<Compilation*>(context);
    if (!self->claims->cursor().Has(output.node))
      return InvalidArgument(StrCat("there is no node ", output.node)).release();
    const Edge edge{self->claims->cursor().IdOf(output.node), output.index};
    const Node& node = self->graph->node(edge.node);
    if (!Within(edge.index, node.output_types.size()))
      return InvalidArgument(StrCat(node.Describe(), " has no output ", edge.index)).release();
    self->views.push_back(ShapeView(BaseType(self->graph->TypeOf(edge)), self->inference->facts(edge), true));
    *out_view = &self->views.back();
    return nullptr;
  }
  static tenon_status* SourceOf(tenon_compile_context* context, int64_t node, int32_t input, tenon_output* out_source) {
    const auto* self = reinterpret_cast<const Compilation*>(context);
    if (!self->claims->cursor().Has(node)) return InvalidArgument(StrCat("there is no node ", node)).release();
    const graph::NodeId id = self->claims->cursor().IdOf(node);
    const auto found = self->loop->sources.find({id, input});
    if (found == self->loop->sources.end())
      return InvalidArgument(
                 StrCat(self->graph->node(id).Describe(), " has no input ", input, ", or is none of the loop's"))
          .release();
    *out_source = self->ToC(found->second);
    return nullptr;
  }
};

// What a compiler made, of a claim or a loop: their tables' destroy() and run() are alike.
template <class Entry>
class DeviceRegion final : public CompiledRegion {
 public:
  DeviceRegion(const Entry& compiler, std::vector<graph::NodeId> nodes, std::string label)
      : CompiledRegion(std::move(nodes), std::move(label), compiler.plugin), compiler_(compiler) {}
  ~DeviceRegion() override {
    if (executable_ != nullptr)
      TellPlugin(compiler_.plugin, "destroy", [this] { compiler_.table->destroy(executable_); });
  }
  // compile(executable) asks the table. UNIMPLEMENTED: the compiler would rather not.
  template <class Function>
  Status Compile(tenon_compile_args* args, Function&& compile) {
    TENON_RETURN_IF_ERROR(
        CallPlugin(compiler_.plugin, "compile", &label(), nullptr, [&] { return compile(&executable_); }));
    if (executable_ == nullptr)
      return Internal(
          StrCat(DescribePlugin(compiler_.plugin), ": its compile() gave success and no executable for ", label()));
    workspace_bytes_ = args->out_workspace_bytes;
    in_place_ = {args->out_in_place, args->out_in_place_count};
    live_ = std::make_unique<LiveObject>(compiler_.plugin);
    return Status::Ok();
  }
  const char* how() const override { return "compiled"; }
  tenon_status* Run(tenon_frame* frame) const override {
    const KernelCall mark(frame);
    try {
      return compiler_.table->run(executable_, frame);
    } catch (...) {
      EndLostUpdates(*frame);
      return Thrown(compiler_.plugin, "run").release();
    }
  }

 private:
  const Entry compiler_;
  tenon_executable* executable_ = nullptr;
  std::unique_ptr<LiveObject> live_;
};

// ask(args, executable): compile() of the entry's table.
template <class Entry, class Function>
Result<std::shared_ptr<const CompiledRegion>> Compiled(const Plan& plan, const Entry& compiler,
                                                       const SessionDevice& device, Compilation* compilation,
                                                       const std::vector<graph::NodeId>& nodes,
                                                       const std::vector<Edge>& inputs,
                                                       const std::vector<Edge>& outputs, Function&& ask) {
  const std::vector<int64_t> numbers = compilation->NumbersOf(nodes);
  const std::vector<tenon_output> in = compilation->ToC(inputs), out = compilation->ToC(outputs);
  tenon_compile_args args{TENON_HEAD(tenon_compile_args),
                          compilation->claims->cursor().c(),
                          numbers.data(),
                          numbers.size(),
                          in.data(),
                          in.size(),
                          out.data(),
                          out.size(),
                          device.device->handle,
                          plan.env().precision,
                          plan.env().threads == nullptr ? 1 : plan.env().threads->at_once(),
                          reinterpret_cast<tenon_compile_context*>(compilation),
                          &Compilation::Get,
                          0,
                          nullptr,
                          0};
  std::string label = plan.graph().node(nodes[0]).name;
  if (nodes.size() > 1) label += StrCat(" and ", nodes.size() - 1, " more");
  auto region = std::make_shared<DeviceRegion<Entry>>(compiler, nodes, std::move(label));
  Status status = region->Compile(&args, [&](tenon_executable** executable) { return ask(&args, executable); });
  if (status.code() == Code::kUnimplemented) return std::shared_ptr<const CompiledRegion>();
  if (!status.ok()) {
    TENON_RETURN_IF_ERROR(CheckAllowance());
    LeaveToKernels(std::move(status).Annotate(StrCat("compiling ", region->label(), " for ", device.device->name)));
    return std::shared_ptr<const CompiledRegion>();
  }
  return std::shared_ptr<const CompiledRegion>(std::move(region));
}

}  // namespace

Result<std::shared_ptr<const CompiledRegion>> CompileClaim(
    const Plan& plan, const Claims& claims, const Claims::Claim& claim, const std::vector<graph::NodeId>& nodes,
    const std::vector<Edge>& inputs, const std::vector<Edge>& outputs, const graph::ShapeInference& inference) {
  Compilation compilation{&plan.graph(), &claims, &inference, nullptr, {}};
  return Compiled(plan, claim.compiler, *claim.device, &compilation, nodes, inputs, outputs,
                  [&](tenon_compile_args* args, tenon_executable** executable) {
                    return claim.compiler.table->compile(claim.compiler.self, args, executable);
                  });
}

Result<std::shared_ptr<const CompiledRegion>> CompileLoop(const Plan& plan, const Claims& claims,
                                                          const Claims::LoopCompiler& by, const OfferedLoop& loop,
                                                          const graph::ShapeInference& inference) {
  Compilation compilation{&plan.graph(), &claims, &inference, &loop, {}};
  std::vector<tenon_loop_variable> variables;
  for (const OfferedLoop::Variable& each : loop.variables)
    variables.push_back({compilation.ToC(each.initial), compilation.ToC(each.current), compilation.ToC(each.next),
                         compilation.ToC(each.result)});
  const tenon_compile_loop told{TENON_HEAD(tenon_compile_loop),  variables.data(),     variables.size(),
                                compilation.ToC(loop.condition), loop.condition_nodes, &Compilation::SourceOf};
  return Compiled(plan, by.compiler, *by.device, &compilation, loop.nodes, loop.inputs, loop.outputs,
                  [&](tenon_compile_args* args, tenon_executable** executable) {
                    return by.compiler.table->compile(by.compiler.self, args, &told, executable);
                  });
}

}  // namespace tenon::exec
