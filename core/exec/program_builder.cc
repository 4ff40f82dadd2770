// SPDX-License-Identifier: Apache-2.0
// Binds a plan to feed shapes: infers and folds, finds what must run, emits operations in order, shares memory.
#include <algorithm>
#include <climits>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/base/checked.h"
#include "core/exec/memory_planner.h"
#include "core/exec/program.h"
#include "core/exec/queue_chooser.h"
#include "core/exec/synchronizer.h"
#include "core/graph/branch_analysis.h"
#include "core/graph/loop_analysis.h"
#include "core/place/cost_model.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {

using graph::BranchAnalysis;
using graph::BranchMerge;
using graph::Edge;
using graph::Node;
using graph::Frame;
using graph::LoopAnalysis;
using graph::LoopVariable;
using graph::OutputFacts;

constexpr int kDeepestOnQueues = 8;

class ProgramBuilder {
 public:
  ProgramBuilder(const Plan& plan, Program* program)
      : plan_(plan), graph_(plan.graph()), program_(program), inference_(&plan.graph()), chooser_(plan.env()) {
    program_->workspace_offset_.resize(plan.env().queues.size() + 1);
  }

  // Whether it could be built; the refusal otherwise.
  Result<bool> Build(const tenon_tensor_view* const* feeds, Program::Refusal* refusal, uint64_t* folded) {
    if (Status status = Infer(feeds); !status.ok()) {
      // Shapes that do not fit may stand in a branch that these feeds do not take.
      TENON_RETURN_IF_ERROR(CheckAllowance());
      if (!HasConditional()) return status;
      *refusal = {std::string(status.message()), true};
      return false;
    }
    *folded = static_cast<uint64_t>(inference_.evaluated());
    // Over all nodes: a constant that is folded away may be what ties a node to its loop.
    TENON_ASSIGN_OR_RETURN(loops_, LoopAnalysis::Run(graph_, plan_.order()));
    FindNeeded();
    for (int32_t id : plan_.order())
      if (needed_[static_cast<size_t>(id)]) needed_order_.push_back(id);
    const BranchAnalysis::IsFed is_fed = [this](Edge edge) { return plan_.FeedOf(edge) >= 0; };
    const BranchAnalysis branches = BranchAnalysis::Run(graph_, plan_.order(), loops_, is_fed);
    branches_ = &branches;
    if (Supported()) {
      slot_of_.resize(static_cast<size_t>(graph_.size()));
      TENON_RETURN_IF_ERROR(EmitFrame(0, Part::kAll, &program_->operations_));
      TENON_RETURN_IF_ERROR(EmitFetches());
    }
    *refusal = refusal_;
    if (!refusal_.text.empty()) return false;
    ShareMemory();
    if (plan_.uses_queues()) {
      TENON_RETURN_IF_ERROR(PlaceConstants());
      Synchronizer(program_, selected_from_).Run();
    }
    return true;
  }

 private:
  Status PlaceConstants() {
    for (Slot& slot : program_->slots_) {
      if (slot.home != Home::kConstant || slot.memory == 0) continue;
      TENON_ASSIGN_OR_RETURN(slot.constant, plan_.OnDevice(slot.constant, slot.memory));
    }
    return Status::Ok();
  }

  const SessionDevice& DeviceOfMemory(int32_t memory) const { return plan_.env().devices[static_cast<size_t>(memory)]; }

  const Slot& At(int32_t slot) const { return program_->slots_[static_cast<size_t>(slot)]; }
  Slot& At(int32_t slot) { return program_->slots_[static_cast<size_t>(slot)]; }
  void GiveUp(std::string why, bool for_these_shapes = false) {
    if (refusal_.text.empty()) refusal_ = {std::move(why), for_these_shapes};
  }
  bool HasConditional() const {
    for (int32_t id : plan_.order())
      if (graph_.node(id).has(TENON_OP_MERGE)) return true;
    return false;
  }

  // ---- What is known and what is needed ----

  Status Infer(const tenon_tensor_view* const* feeds) {
    for (size_t i = 0; i < plan_.feeds().size(); ++i) {
      OutputFacts facts;
      facts.shape = ShapeOf(*feeds[i]);
      program_->feed_shapes_.push_back(facts.shape);
      inference_.Fix(plan_.feeds()[i], std::move(facts));
    }
    for (size_t i = 0; i < plan_.receives().size(); ++i) {
      OutputFacts facts;
      facts.shape = ShapeOf(*feeds[plan_.feeds().size() + i]);
      program_->feed_shapes_.push_back(facts.shape);
      inference_.Fix({plan_.receives()[i], 0}, std::move(facts));
    }
    if (plan_.options().fold) {
      inference_.set_evaluator([this](const Node& node, const std::vector<Tensor>& inputs, const std::vector<OutputFacts>&) {
        // A device's own arithmetic is not foretold by the host's.
        if (HasOwnArithmetic(node)) return Result<std::vector<Tensor>>(std::vector<Tensor>{});
        return EvaluateNode(node, inputs, plan_.env());
      });
    }
    return inference_.Run(plan_.order());
  }

  bool HasOwnArithmetic(const Node& node) const {
    const auto& runner = plan_.runner(node.id);
    if (runner == nullptr || runner->queued_on() == nullptr) return false;
    return std::any_of(node.output_types.begin(), node.output_types.end(), [](DType type) { return IsFloating(type); });
  }

  // Whether an edge's value stands in the plan, so that its producer need not run.
  bool Known(Edge edge) const {
    const Node& node = graph_.node(edge.node);
    return plan_.FeedOf(edge) < 0 && !node.has(TENON_OP_STATEFUL) && inference_.facts(edge).value.has_value();
  }

  // Backwards from fetches and targets. Behind a known value only nodes with effects are still wanted.
  void FindNeeded() {
    needed_.assign(static_cast<size_t>(graph_.size()), false);
    std::vector<bool> in_order(static_cast<size_t>(graph_.size()), false), passed(in_order);
    for (int32_t id : plan_.order()) in_order[static_cast<size_t>(id)] = true;
    std::vector<std::pair<int32_t, bool>> stack;  // node, wanted
    const auto follow = [&](Edge edge, bool wanted) {
      if (edge.node >= 0 && plan_.FeedOf(edge) < 0) stack.emplace_back(edge.node, wanted && !Known(edge));
    };
    for (const Edge& fetch : plan_.fetches()) follow(fetch, true);
    for (int32_t target : plan_.targets()) stack.emplace_back(target, true);
    while (!stack.empty()) {
      auto [id, wanted] = stack.back();
      stack.pop_back();
      const auto at = static_cast<size_t>(id);
      if (!in_order[at]) continue;
      wanted = wanted || graph_.node(id).has(TENON_OP_WRITES_STATE | TENON_OP_IO);
      if (wanted ? needed_[at] : (needed_[at] || passed[at])) continue;
      (wanted ? needed_ : passed)[at] = true;
      // A merge needs its predicate, which hangs on its inputs even where their values are known.
      const bool merge = graph_.node(id).has(TENON_OP_MERGE);
      for (const Edge& edge : graph_.node(id).inputs) {
        if (merge && edge.node >= 0 && plan_.FeedOf(edge) < 0) stack.emplace_back(edge.node, wanted);
        else follow(edge, wanted);
      }
      for (int32_t control : graph_.node(id).controls) stack.emplace_back(control, wanted);
      // A value that is sent may be known, but not how often.
      if (!wanted || plan_.ChannelOf(id) < 0) continue;
      for (int frame = loops_.frame_of(id); frame > 0; frame = loops_.frames()[static_cast<size_t>(frame)].parent)
        if (const int32_t condition = loops_.frames()[static_cast<size_t>(frame)].condition; condition >= 0) stack.emplace_back(condition, true);
    }
  }

  bool Supported() {
    std::vector<bool> used(loops_.frames().size(), false);
    for (int32_t id : needed_order_) used[static_cast<size_t>(loops_.frame_of(id))] = true;
    for (size_t i = 1; i < loops_.frames().size(); ++i)
      if (used[i] && !loops_.frames()[i].structured) GiveUp(StrCat("loop '", loops_.frames()[i].name, "': ", loops_.frames()[i].why_not));
    if (!branches_->why_not().empty()) GiveUp(branches_->why_not());
    // Waits of queues are found by walking each loop twice, and so those in it twice as often.
    for (const Frame& frame : loops_.frames())
      if (plan_.uses_queues() && frame.depth > kDeepestOnQueues)
        GiveUp(StrCat("loop '", frame.name, "' lies in ", frame.depth - 1, " others; where devices have queues, at most ", kDeepestOnQueues - 1, " are run as one program"));
    for (const Edge& fetch : plan_.fetches())
      if (plan_.FeedOf(fetch) < 0 && branches_->RegionOf(fetch) != 0)
        GiveUp(StrCat("fetch '", graph_.EdgeName(fetch), "' lies in a branch"));
    for (int32_t id : needed_order_) {
      const auto& runner = plan_.runner(id);
      if (runner != nullptr && runner->has(TENON_KERNEL_ASYNC)) GiveUp(StrCat(graph_.node(id).Describe(), " is asynchronous"));
      if (plan_.ChannelOf(id) >= 0) CheckExchange(graph_.node(id));
    }
    return refusal_.text.empty();
  }

  // The other part waits for what is sent, and sends what is waited for, whether or not a branch is taken. Here it may not
  // show: what is sent may be a known value of the branch.
  void CheckExchange(const Node& node) {
    if (plan_.MayBeDead(plan_.ChannelOf(node.id))) GiveUp(StrCat(node.Describe(), " may have a dead value"));
  }

  // ---- Slots ----

  int32_t NewSlot(DType dtype, Shape shape, Home home, int32_t memory = 0) {
    Slot slot;
    slot.dtype = dtype;
    slot.memory = memory;
    slot.shape = std::move(shape);
    slot.home = home;
    if (slot.shape.fully_known())
      if (auto bytes = ByteSize(dtype, slot.shape); bytes.ok()) slot.bytes = static_cast<uint64_t>(*bytes);
    slot.first = position_;
    program_->slots_.push_back(std::move(slot));
    def_loop_.push_back(loop_stack_.empty() ? -1 : loop_stack_.back());
    return static_cast<int32_t>(program_->slots_.size() - 1);
  }

  int32_t Root(int32_t slot) const { return RootOf(program_->slots_, slot); }

  int32_t ConstantSlot(Tensor tensor, int32_t memory) {
    const int32_t slot = NewSlot(tensor.dtype(), tensor.shape(), Home::kConstant, memory);
    At(slot).constant = std::move(tensor);
    return slot;
  }

  // The slot of an edge; feeds and constants get theirs here.
  Result<int32_t> SlotOf(Edge edge) {
    if (edge.node < 0) return InvalidArgument("an input of a node is open");
    auto& slots = slot_of_[static_cast<size_t>(edge.node)];
    if (slots.empty()) slots.assign(graph_.node(edge.node).output_types.size(), -1);
    int32_t& slot = slots[static_cast<size_t>(edge.index)];
    if (slot >= 0) return slot;
    const Node& node = graph_.node(edge.node);
    if (const int feed = plan_.FeedOf(edge); feed >= 0) {
      slot = NewSlot(plan_.FeedType(static_cast<size_t>(feed)), program_->feed_shapes_[static_cast<size_t>(feed)], Home::kFeed, plan_.MemoryOf(edge));
      At(slot).target = feed;
    } else if (node.has(TENON_OP_CONSTANT) && node.FindAttr("value") != nullptr) {
      slot = ConstantSlot(node.FindAttr("value")->tensor(), plan_.MemoryOf(edge));
    } else if (Known(edge)) {
      slot = ConstantSlot(inference_.facts(edge).value, plan_.MemoryOf(edge));
    } else {
      return Internal(StrCat("output ", edge.index, " of ", node.Describe(), " is used before it is made"));
    }
    return slot;
  }

  void SetSlot(Edge edge, int32_t slot) {
    auto& slots = slot_of_[static_cast<size_t>(edge.node)];
    if (slots.empty()) slots.assign(graph_.node(edge.node).output_types.size(), -1);
    // A fed output keeps its feed.
    if (plan_.FeedOf(edge) < 0) slots[static_cast<size_t>(edge.index)] = slot;
  }

  // Notes that the slot is read now. Inside a loop, what was made outside it is needed until the loop ends. What a select may show is
  // used as long as the select is (ExtendSelected).
  void Use(int32_t slot) {
    const int32_t root = Root(slot);
    At(root).last = std::max(At(root).last, position_);
    for (int32_t loop : loop_stack_) {
      if (DefinedWithin(root, loop)) continue;
      extend_[loop].push_back(root);
      break;
    }
  }

  // A select shows the memory of one of its sides, which may be a select in turn; sides are made before it. By then each select's own end
  // is known, that of a loop around its users too; the sides of one within a loop have been used there.
  void ExtendSelected() {
    for (auto it = selected_from_.rbegin(); it != selected_from_.rend(); ++it)
      for (const int32_t side : {it->second.first, it->second.second}) {
        Slot& root = At(Root(side));
        root.last = std::max(root.last, At(it->first).last);
      }
  }

  bool DefinedWithin(int32_t slot, int32_t loop) const {
    for (int32_t at = def_loop_[static_cast<size_t>(slot)]; at >= 0; at = loop_parent_[static_cast<size_t>(at)])
      if (at == loop) return true;
    return false;
  }

  // ---- Emission ----

  Operation& Push(std::vector<Operation>* block, Operation::Kind kind, int32_t node) {
    Operation operation;
    operation.kind = kind;
    operation.node = node;
    operation.position = position_++;
    block->push_back(std::move(operation));
    return block->back();
  }

  // The items of a frame, in order: all of them, or those of its condition part, or of its body.
  enum class Part { kAll, kCondition, kBody };
  Status EmitFrame(int frame, Part part, std::vector<Operation>* block) {
    const Frame& f = loops_.frames()[static_cast<size_t>(frame)];
    TENON_ASSIGN_OR_RETURN(const std::vector<LoopAnalysis::Item> items, loops_.Items(graph_, needed_order_, frame));
    OpenBranches open{block, {}};
    for (const LoopAnalysis::Item& item : HasClaims() ? ClaimsAsWholes(items, frame) : items) {
      // A loop belongs to the part in which it is entered.
      const int32_t entry = item.node >= 0 ? item.node : loops_.frames()[static_cast<size_t>(item.child)].enters[0];
      bool body = f.body.contains(entry);
      if (item.node < 0)
        for (int32_t enter : loops_.frames()[static_cast<size_t>(item.child)].enters) body = body || f.body.contains(enter);
      if (part != Part::kAll && body != (part == Part::kBody)) continue;
      const int region = item.node >= 0 ? branches_->region_of(item.node) : branches_->region_of_loop(item.child);
      std::vector<Operation>* into = open.Top();
      if (item.node < 0 || MayEmit(graph_.node(item.node))) {
        TENON_ASSIGN_OR_RETURN(into, BlockOf(region, &open));
      }
      Status status = item.node >= 0 ? EmitNode(item.node, into) : EmitLoop(item.child, into);
      TENON_RETURN_IF_ERROR(CheckAllowance());
      if (!status.ok()) {
        if (region == 0) return status;
        // It may be a branch that is not taken.
        GiveUp(std::string(status.message()), true);
      }
      if (!refusal_.text.empty()) return Status::Ok();
    }
    return Status::Ok();
  }

  // The blocks of the regions that are being emitted, the outermost first.
  struct OpenBranches {
    std::vector<Operation>* base;
    std::vector<std::pair<int, std::vector<Operation>*>> stack;
    std::vector<Operation>* Top() const { return stack.empty() ? base : stack.back().second; }
  };

  // Goes to the region's block: what runs in one region one after the other shares a block.
  Result<std::vector<Operation>*> BlockOf(int region, OpenBranches* open) {
    std::vector<int> path;
    for (int at = region; at != 0; at = branches_->regions()[static_cast<size_t>(at)].parent) path.insert(path.begin(), at);
    size_t common = 0;
    while (common < path.size() && common < open->stack.size() && open->stack[common].first == path[common]) ++common;
    open->stack.resize(common);
    for (; common < path.size(); ++common) {
      const graph::Region& opened = branches_->regions()[static_cast<size_t>(path[common])];
      TENON_ASSIGN_OR_RETURN(const int32_t predicate, PredicateSlot(opened.predicate, opened.parent));
      Use(predicate);
      Operation& operation = Push(open->Top(), Operation::Kind::kBranch, opened.predicate.node);
      operation.inputs = {predicate};
      operation.branch = static_cast<int32_t>(program_->branches_.size());
      program_->branches_.push_back({predicate, opened.side, {}});
      open->stack.emplace_back(path[common], &program_->branches_.back().block);
    }
    return open->Top();
  }

  // The host's copy of what lies on a device, made before, where the region around runs.
  Edge OnHost(Edge edge, int around) {
    if (plan_.MemoryOf(edge) == 0) return edge;
    for (int32_t id : needed_order_)
      if (plan_.TransferFrom(id) >= 0 && plan_.MemoryOf({id, 0}) == 0 && !slot_of_[static_cast<size_t>(id)].empty() &&
          branches_->IsWithin(around, branches_->region_of(id)) && branches_->Resolve({id, 0}) == edge)
        return {id, 0};
    GiveUp(StrCat("predicate '", graph_.EdgeName(edge), "' lies on a device, without a copy for the host where it is asked"));
    return edge;
  }

  Result<int32_t> PredicateSlot(Edge predicate, int around) {
    predicate = OnHost(predicate, around);
    TENON_ASSIGN_OR_RETURN(const int32_t slot, SlotOf(predicate));
    if (At(slot).dtype != TENON_DT_BOOL || !At(slot).shape.fully_known() || At(slot).bytes != 1)
      GiveUp(StrCat("predicate '", graph_.EdgeName(predicate), "' is not known to be one bool"));
    return slot;
  }

  // Whether a node becomes an operation (some that may do not).
  bool MayEmit(const Node& node) const {
    if (branches_->FindMerge(node.id) != nullptr || plan_.runner(node.id) != nullptr || plan_.TransferFrom(node.id) >= 0 ||
        plan_.ChannelOf(node.id) >= 0)
      return true;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].node >= 0 && IsRef(graph_.TypeOf(node.inputs[i])) && !IsRef(node.input_types[i])) return true;
    return false;
  }

  bool HasClaims() const { return plan_.claims() != nullptr && !plan_.claims()->claims().empty(); }
  // The claim that the node is run with; -1: none. A claim whose nodes do not run in the same loop and branch, whatever its
  // compiler thought, is none.
  int32_t ClaimOf(int32_t id) const {
    const int32_t claim = HasClaims() ? plan_.claims()->ClaimOf(id) : -1;
    if (claim < 0) return -1;
    whole_claims_.resize(plan_.claims()->claims().size(), -1);
    int8_t& whole = whole_claims_[static_cast<size_t>(claim)];
    if (whole < 0) {
      const auto& nodes = plan_.claims()->claims()[static_cast<size_t>(claim)].nodes;
      whole = std::all_of(nodes.begin(), nodes.end(), [&](int32_t node) { return RunTogether(node, id); });
    }
    return whole != 0 ? claim : -1;
  }
  bool RunTogether(int32_t a, int32_t b) const {
    const int frame = loops_.frame_of(a);
    if (frame != loops_.frame_of(b) || branches_->region_of(a) != branches_->region_of(b)) return false;
    const auto& body = loops_.frames()[static_cast<size_t>(frame)].body;
    return body.contains(a) == body.contains(b);
  }

  // The items in an order in which the nodes of a claim follow each other.
  std::vector<LoopAnalysis::Item> ClaimsAsWholes(const std::vector<LoopAnalysis::Item>& items, int frame) const {
    // Items and claims by number; a loop stands for all of its nodes.
    std::unordered_map<int32_t, size_t> item_of;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].node >= 0) item_of[items[i].node] = i;
      else
        for (int32_t id : needed_order_)
          if (loops_.IsWithin(loops_.frame_of(id), items[i].child)) item_of[id] = i;
    }
    std::vector<size_t> whole(items.size());
    std::unordered_map<int32_t, size_t> first_of_claim;
    for (size_t i = 0; i < items.size(); ++i) {
      const int32_t claim = items[i].node < 0 ? -1 : ClaimOf(items[i].node);
      whole[i] = claim < 0 ? i : first_of_claim.try_emplace(claim, i).first->second;
    }
    std::vector<std::vector<size_t>> members(items.size()), users(items.size());
    std::vector<int32_t> pending(items.size(), 0);
    for (size_t i = 0; i < items.size(); ++i) members[whole[i]].push_back(i);
    for (const auto& [id, item] : item_of) {
      // Through nodes that are no items: their values are known, but what they come after still comes first.
      std::vector<int32_t> stack = {id};
      std::unordered_set<int32_t> seen;
      const auto depend = [&, at = whole[item]](int32_t source) {
        const auto it = item_of.find(source);
        if (it == item_of.end()) {
          if (loops_.frame_of(source) < 0 || !loops_.IsWithin(loops_.frame_of(source), frame)) return;
          if (seen.insert(source).second) stack.push_back(source);
        } else if (whole[it->second] != at) {
          users[whole[it->second]].push_back(at);
          ++pending[at];
        }
      };
      while (!stack.empty()) {
        const Node& node = graph_.node(stack.back());
        stack.pop_back();
        for (const Edge& edge : node.inputs)
          if (edge.node >= 0 && plan_.FeedOf(edge) < 0 && !graph::IsBackEdge(graph_.node(edge.node), node)) depend(edge.node);
        for (int32_t control : node.controls) depend(control);
      }
    }
    std::vector<LoopAnalysis::Item> out;
    std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;  // near the old order
    for (size_t i = 0; i < items.size(); ++i)
      if (whole[i] == i && pending[i] == 0) ready.push(i);
    while (!ready.empty()) {
      const size_t at = ready.top();
      ready.pop();
      for (size_t member : members[at]) out.push_back(items[member]);
      for (size_t user : users[at])
        if (--pending[user] == 0) ready.push(user);
    }
    return out;
  }

  // A claim is emitted with its first node.
  Status EmitClaim(int32_t number, std::vector<Operation>* block) {
    if (!emitted_claims_.insert(number).second) return Status::Ok();
    const Claims::Claim& claim = plan_.claims()->claims()[static_cast<size_t>(number)];
    std::vector<int32_t> nodes;
    for (int32_t id : claim.nodes)
      if (needed_[static_cast<size_t>(id)]) nodes.push_back(id);
    const auto inside = [&](int32_t id) { return std::find(nodes.begin(), nodes.end(), id) != nodes.end(); };
    std::vector<Edge> in, out;
    bool shapes_known = true;
    for (int32_t id : nodes) {
      for (const Edge& edge : graph_.node(id).inputs) {
        const bool from_outside = plan_.FeedOf(edge) >= 0 || !inside(edge.node) || Known(edge);
        if (from_outside && std::find(in.begin(), in.end(), edge) == in.end()) in.push_back(edge);
        shapes_known = shapes_known && inference_.facts(edge).shape.fully_known();
      }
      for (size_t k = 0; k < graph_.node(id).output_types.size(); ++k) {
        const Edge edge{id, static_cast<int32_t>(k)};
        shapes_known = shapes_known && inference_.facts(edge).shape.fully_known();
        if (!Known(edge) && IsReadOutside(edge, inside)) out.push_back(edge);
      }
    }
    std::shared_ptr<const CompiledRegion> region;
    if (shapes_known) {
      TENON_ASSIGN_OR_RETURN(region, CompiledRegion::Compile(plan_, *plan_.claims(), claim, nodes, in, out, inference_));
    }
    if (region == nullptr) {
      for (int32_t id : nodes) TENON_RETURN_IF_ERROR(EmitKernel(graph_.node(id), block));
      return Status::Ok();
    }
    return EmitRegion(std::move(region), *claim.device, in, out, block);
  }

  bool IsReadOutside(Edge edge, const std::function<bool(int32_t)>& inside) {
    if (std::find(plan_.fetches().begin(), plan_.fetches().end(), edge) != plan_.fetches().end()) return true;
    if (readers_.empty()) {
      readers_.resize(static_cast<size_t>(graph_.size()));
      for (int32_t id : needed_order_)
        for (const Edge& read : graph_.node(id).inputs)
          if (read.node >= 0) readers_[static_cast<size_t>(read.node)].emplace_back(read.index, id);
    }
    const auto& readers = readers_[static_cast<size_t>(edge.node)];
    return std::any_of(readers.begin(), readers.end(), [&](const auto& reader) { return reader.first == edge.index && !inside(reader.second); });
  }

  Status EmitRegion(std::shared_ptr<const CompiledRegion> region, const SessionDevice& device, const std::vector<Edge>& in,
                    const std::vector<Edge>& out, std::vector<Operation>* block) {
    const Node& first = graph_.node(region->nodes()[0]);
    std::vector<int32_t> inputs, outputs;
    for (const Edge& edge : in) {
      TENON_ASSIGN_OR_RETURN(int32_t slot, SlotOf(edge));
      if (IsRef(At(slot).dtype)) {
        TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, first, edge, block));
      }
      Use(inputs.emplace_back(slot));
    }
    int32_t queue = -1;
    double seconds = 0;
    if (device.queued()) {
      queue = chooser_.Choose(device.first_queue, device.compute_count(), RootsOf(inputs));
      KeepForQueue(queue, device, inputs);
      for (int32_t id : region->nodes()) seconds += SecondsOf(graph_.node(id), device);
    }
    for (const Edge& edge : out) {
      outputs.push_back(NewSlot(graph_.TypeOf(edge), inference_.facts(edge).shape, Home::kArena, plan_.MemoryOf(edge)));
      SetSlot(edge, outputs.back());
    }
    if (queue >= 0) chooser_.Submit(queue, seconds, RootsOf(inputs), RootsOf(outputs));
    uint64_t& workspace = program_->workspace_offset_[static_cast<size_t>(queue + 1)];
    workspace = std::max(workspace, region->workspace_bytes());
    Operation& operation = Push(block, queue >= 0 ? Operation::Kind::kQueued : Operation::Kind::kCompiled, first.id);
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(outputs);
    operation.queue = queue;
    operation.region = std::move(region);
    return Status::Ok();
  }

  Status EmitNode(int32_t id, std::vector<Operation>* block) {
    const Node& node = graph_.node(id);
    if (const int32_t claim = ClaimOf(id); claim >= 0) return EmitClaim(claim, block);
    constexpr uint64_t kForward = TENON_OP_IDENTITY | TENON_OP_LOOP_CONDITION | TENON_OP_NEXT_ITERATION;
    constexpr uint64_t kByLoop = TENON_OP_ENTER | TENON_OP_MERGE | TENON_OP_SWITCH | TENON_OP_EXIT;
    if (const BranchMerge* merge = branches_->FindMerge(id)) return EmitSelect(node, *merge, block);
    if (node.has(TENON_OP_SWITCH) && !IsVariableSwitch(id)) return EmitSwitch(node, block);
    if (node.has(TENON_OP_NO_OP | TENON_OP_CONTROL_TRIGGER | TENON_OP_CONSTANT | kByLoop)) return Status::Ok();
    bool all_fed = !node.output_types.empty();
    for (size_t k = 0; k < node.output_types.size(); ++k)
      all_fed = all_fed && plan_.FeedOf({id, static_cast<int32_t>(k)}) >= 0;
    if (all_fed) return Status::Ok();
    if (node.has(TENON_OP_FEED))
      return InvalidArgument(StrCat(node.Describe(), " must be fed with a value of type ", TypeName(node.output_types[0])));
    if (plan_.ChannelOf(id) >= 0) return EmitExchange(node, block);
    if (node.has(kForward)) {
      for (size_t k = 0; k < node.output_types.size(); ++k) {
        TENON_ASSIGN_OR_RETURN(int32_t slot, SlotOf(node.inputs[k]));
        if (IsRef(At(slot).dtype) && !IsRef(node.output_types[k])) {
          TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[k], block));
        }
        if (plan_.TransferFrom(id) >= 0) slot = EmitTransfer(slot, node, block);
        SetSlot({id, static_cast<int32_t>(k)}, slot);
      }
      return Status::Ok();
    }
    return EmitKernel(node, block);
  }

  // Of a loop variable: its loop gives it its slots.
  bool IsVariableSwitch(int32_t id) const {
    for (const LoopVariable& variable : loops_.frames()[static_cast<size_t>(loops_.frame_of(id))].variables)
      if (variable.switch_node == id) return true;
    return false;
  }

  // Both sides are the value; a side is read in its region alone.
  Status EmitSwitch(const Node& node, std::vector<Operation>* block) {
    TENON_ASSIGN_OR_RETURN(int32_t slot, SlotOf(node.inputs[0]));
    if (IsRef(At(slot).dtype) && !IsRef(node.output_types[0])) {
      TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
    }
    for (int32_t side = 0; side < 2; ++side) SetSlot({node.id, side}, slot);
    return Status::Ok();
  }

  Status EmitSelect(const Node& node, const BranchMerge& merge, std::vector<Operation>* block) {
    TENON_ASSIGN_OR_RETURN(const int32_t predicate, PredicateSlot(merge.predicate, branches_->region_of(node.id)));
    int32_t sides[2];
    for (int side = 0; side < 2; ++side) {
      const Edge edge = node.inputs[static_cast<size_t>(merge.input_of_side[side])];
      TENON_ASSIGN_OR_RETURN(sides[side], SlotOf(edge));
      if (IsRef(At(sides[side]).dtype) != IsRef(node.output_types[0])) GiveUp(StrCat(node.Describe(), " merges a reference and a value"));
      Use(sides[side]);
    }
    Use(predicate);
    const bool same = At(sides[0]).shape == At(sides[1]).shape;
    const int32_t value = NewSlot(At(sides[0]).dtype, same ? At(sides[0]).shape : Shape::Unknown(), Home::kSelected,
                                  At(sides[0]).memory);
    selected_from_[value] = {sides[0], sides[1]};
    SetSlot({node.id, 0}, value);
    std::vector<int32_t> outputs = {value};
    if (node.output_types.size() > 1) {
      outputs.push_back(NewSlot(TENON_DT_INT32, Shape(), Home::kArena));
      SetSlot({node.id, 1}, outputs.back());
    }
    Operation& operation = Push(block, Operation::Kind::kSelect, node.id);
    operation.inputs = {predicate, sides[0], sides[1]};
    operation.outputs = std::move(outputs);
    operation.input_of_side[0] = merge.input_of_side[0];
    operation.input_of_side[1] = merge.input_of_side[1];
    return Status::Ok();
  }

  // Reads the variable that a reference slot names.
  Result<int32_t> EmitRead(int32_t reference, const Node& node, Edge edge, std::vector<Operation>* block) {
    Use(reference);
    const int32_t memory = plan_.MemoryOf(edge);
    const int32_t slot = NewSlot(BaseType(At(reference).dtype), inference_.facts(edge).shape, Home::kBuffer, memory);
    Operation& operation = Push(block, Operation::Kind::kRead, node.id);
    operation.inputs = {reference};
    operation.outputs = {slot};
    if (memory != 0) operation.queue = DeviceOfMemory(memory).first_queue;
    return slot;
  }

  // A send or a receive. What comes has a buffer of its own, which the sender may share.
  Status EmitExchange(const Node& node, std::vector<Operation>* block) {
    std::vector<int32_t> inputs, outputs;
    if (node.has(TENON_OP_SEND)) {
      TENON_ASSIGN_OR_RETURN(int32_t slot, SlotOf(node.inputs[0]));
      if (IsRef(At(slot).dtype)) {
        TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[0], block));
      }
      Use(slot);
      inputs.push_back(slot);
    } else {
      outputs.push_back(NewSlot(node.output_types[0], inference_.facts({node.id, 0}).shape, Home::kBuffer));
      SetSlot({node.id, 0}, outputs[0]);
    }
    Operation& operation = Push(block, inputs.empty() ? Operation::Kind::kReceive : Operation::Kind::kSend, node.id);
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(outputs);
    operation.around = loop_stack_;
    return Status::Ok();
  }

  // A value into the memory of the node's device. What the host's memory gives stays there until the step's end: the copy
  // runs while the host goes on.
  int32_t EmitTransfer(int32_t from, const Node& node, std::vector<Operation>* block) {
    const int32_t memory = DeviceOfMemory(plan_.DeviceOf(node.id)).memory;
    const bool fixed = At(from).shape.fully_known();
    const int32_t to = NewSlot(At(from).dtype, At(from).shape, fixed && !plan_.IsKept(node.id) ? Home::kArena : Home::kBuffer, memory);
    Use(from);
    PushTransfer(from, to, node.id, block);
    return to;
  }

  // Buffers of pools are their device's main queue's, which alone knows when earlier work has done with them; copies of arenas
  // have queues of their own.
  void PushTransfer(int32_t from, int32_t to, int32_t node, std::vector<Operation>* block) {
    if (At(from).memory == 0 || At(Root(from)).home != Home::kArena) KeepToTheEnd(from);
    const SessionDevice& device = DeviceOfMemory(At(from).memory == 0 ? At(to).memory : At(from).memory);
    Operation& operation = Push(block, Operation::Kind::kTransfer, node);
    operation.inputs = {from};
    operation.outputs = {to};
    if (At(to).home == Home::kBuffer && At(to).memory != 0) operation.queue = DeviceOfMemory(At(to).memory).first_queue;
    else if (At(from).memory == At(to).memory || At(to).home == Home::kBuffer) operation.queue = device.first_queue;
    else operation.queue = At(from).memory == 0 ? device.copy_in() : device.copy_out();
    const double speed = device.device->properties.link_bytes_per_second;
    chooser_.Submit(operation.queue, speed > 0 ? static_cast<double>(At(from).bytes) / speed : 0, {Root(from)}, {Root(to)});
  }

  Status EmitKernel(const Node& node, std::vector<Operation>* block) {
    const auto& runner = plan_.runner(node.id);
    std::vector<int32_t> inputs;
    std::vector<const OutputFacts*> facts;
    bool shapes_known = true, handles = false;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(int32_t slot, SlotOf(node.inputs[i]));
      if (IsRef(At(slot).dtype) && !IsRef(node.input_types[i])) {
        TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, node, node.inputs[i], block));
      }
      handles = handles || IsRef(At(slot).dtype) || At(slot).dtype == TENON_DT_RESOURCE;
      shapes_known = shapes_known && At(slot).shape.fully_known();
      inputs.push_back(slot);
      facts.push_back(&inference_.facts(node.inputs[i]));
    }
    std::vector<OutputFacts> outputs;
    bool own_outputs = false;
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      outputs.push_back(inference_.facts({node.id, static_cast<int32_t>(k)}));
      const bool dynamic = IsDynamicOutput(runner->registration(), k);
      own_outputs = own_outputs || dynamic;
      // A kernel allocates strings and variants because their bytes are its own affair; their shapes it takes from inference.
      const bool inferred = !dynamic || node.output_types[k] == TENON_DT_STRING || node.output_types[k] == TENON_DT_VARIANT;
      if (inferred && !IsRef(node.output_types[k])) shapes_known = shapes_known && outputs.back().shape.fully_known();
    }
    const SessionDevice* queued_on = runner->queued_on();
    const Operation::Kind kind = !shapes_known              ? Operation::Kind::kDynamic
                                 : queued_on != nullptr     ? Operation::Kind::kQueued
                                 : handles || own_outputs ? Operation::Kind::kGuarded
                                                          : Operation::Kind::kRun;
    const int32_t queue = queued_on == nullptr ? -1 : ChooseQueue(node, *runner, kind, inputs);
    for (int32_t slot : inputs) Use(slot);
    if (shapes_known && runner->has(TENON_KERNEL_VIEW)) return EmitView(node, inputs[0], outputs[0], block);
    std::shared_ptr<const PreparedNode> prepared;
    if (shapes_known) {
      TENON_ASSIGN_OR_RETURN(prepared, runner->Prepare(facts, outputs));
      uint64_t& workspace = program_->workspace_offset_[static_cast<size_t>(queue + 1)];
      workspace = std::max(workspace, prepared->workspace_bytes);
    }
    std::vector<int32_t> out;
    for (size_t k = 0; k < node.output_types.size(); ++k) {
      const bool dynamic = IsDynamicOutput(runner->registration(), k);
      const DType dtype = node.output_types[k];
      Shape shape = IsRef(dtype) ? Shape() : outputs[k].shape;
      if (kind == Operation::Kind::kDynamic && !shape.fully_known()) shape = Shape::Unknown();
      const bool in_buffer = dynamic || kind == Operation::Kind::kDynamic;
      out.push_back(NewSlot(dtype, std::move(shape), in_buffer ? Home::kBuffer : Home::kArena,
                            runner->host_output(k) ? 0 : queued_on->memory));
      SetSlot({node.id, static_cast<int32_t>(k)}, out.back());
    }
    Operation& operation = Push(block, kind, node.id);
    if (queue >= 0) chooser_.Submit(queue, SecondsOf(node, *queued_on), RootsOf(inputs), RootsOf(out));
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(out);
    operation.prepared = std::move(prepared);
    operation.queue = queue;
    operation.guarded = handles || own_outputs;
    if ((position_ & 63) == 0 || runner->has(TENON_KERNEL_EXPENSIVE)) Push(block, Operation::Kind::kCheck, node.id);
    return Status::Ok();
  }

  // Variables and buffers of pools belong to the main queue; what another one reads of them stays until the step's end.
  int32_t ChooseQueue(const Node& node, const NodeRunner& runner, Operation::Kind kind, const std::vector<int32_t>& inputs) {
    const SessionDevice& device = *runner.queued_on();
    const int32_t compute = device.compute_count();
    if (compute == 1 || runner.main_queue_only() || kind == Operation::Kind::kDynamic || node.input_types.empty()) return device.first_queue;
    const int32_t queue = chooser_.Choose(device.first_queue, compute, RootsOf(inputs));
    KeepForQueue(queue, device, inputs);
    return queue;
  }
  void KeepForQueue(int32_t queue, const SessionDevice& device, const std::vector<int32_t>& inputs) {
    if (queue == device.first_queue) return;
    for (int32_t slot : inputs)
      if (At(slot).memory != 0 && At(Root(slot)).home != Home::kArena) KeepToTheEnd(slot);
  }
  std::vector<int32_t> RootsOf(std::vector<int32_t> slots) const {
    for (int32_t& slot : slots) slot = Root(slot);
    return slots;
  }
  double SecondsOf(const Node& node, const SessionDevice& device) const {
    if (device.compute_count() == 1) return 0;
    bool guessed = false;
    const auto cost = place::StaticCost(node, inference_, &guessed);
    const tenon_device_properties& own = device.device->properties;
    place::DeviceInfo info;
    info.flops = own.flops;
    info.bytes_per_second = own.bytes_per_second;
    info.launch_seconds = own.launch_seconds;
    return cost.ok() ? place::SecondsOn(*cost, info) : own.launch_seconds;
  }

  Status EmitView(const Node& node, int32_t input, const OutputFacts& facts, std::vector<Operation>* block) {
    const int32_t slot = NewSlot(node.output_types[0], facts.shape, Home::kAlias, At(input).memory);
    At(slot).target = input;
    SetSlot({node.id, 0}, slot);
    if (At(slot).bytes != At(input).bytes)
      return InvalidArgument(StrCat(node.Describe(), ": a view of ", At(input).shape.ToString(), " cannot have the shape ",
                                    At(slot).shape.ToString()));
    if (At(Root(input)).home != Home::kBuffer && At(Root(input)).home != Home::kSelected) return Status::Ok();
    Operation& operation = Push(block, Operation::Kind::kView, node.id);
    operation.inputs = {input};
    operation.outputs = {slot};
    return Status::Ok();
  }

  Status EmitLoop(int frame, std::vector<Operation>* block) {
    const Frame& f = loops_.frames()[static_cast<size_t>(frame)];
    const auto index = static_cast<int32_t>(program_->loops_.size());
    program_->loops_.emplace_back();
    loop_parent_.push_back(loop_stack_.empty() ? -1 : loop_stack_.back());
    // Made outside: where the carried values live, from the loop's start.
    Loop loop;
    std::vector<std::pair<int32_t, const LoopVariable*>> variables;
    for (int32_t enter : f.invariants) {
      if (!needed_[static_cast<size_t>(enter)]) continue;
      TENON_ASSIGN_OR_RETURN(const int32_t slot, SlotOf(graph_.node(enter).inputs[0]));
      SetSlot({enter, 0}, slot);
      Use(slot);
    }
    for (const LoopVariable& variable : f.variables) {
      if (!needed_[static_cast<size_t>(variable.merge)]) continue;
      const Node& enter = graph_.node(variable.enter);
      TENON_ASSIGN_OR_RETURN(int32_t initial, SlotOf(enter.inputs[0]));
      if (IsRef(At(initial).dtype) && !IsRef(enter.output_types[0])) {
        TENON_ASSIGN_OR_RETURN(initial, EmitRead(initial, enter, enter.inputs[0], block));
      }
      const DType dtype = At(initial).dtype;
      const Shape& shape = inference_.facts({variable.merge, 0}).shape;
      if ((!IsPlain(dtype) && dtype != TENON_DT_RESOURCE && !IsRef(dtype)) || (!IsRef(dtype) && !(shape == At(initial).shape)) ||
          !At(initial).shape.fully_known()) {
        GiveUp(StrCat("loop '", f.name, "': ", graph_.node(variable.merge).Describe(), " has no fixed shape or is no plain value"));
        return Status::Ok();
      }
      Use(initial);
      const int32_t current = NewSlot(dtype, At(initial).shape, Home::kArena, At(initial).memory);
      SetSlot({variable.merge, 0}, current);
      if (variable.switch_node >= 0) {
        SetSlot({variable.switch_node, 0}, current);
        SetSlot({variable.switch_node, 1}, current);
      }
      if (variable.exit >= 0) SetSlot({variable.exit, 0}, current);
      loop.carried.push_back({initial, current, -1, false, -1, At(initial).memory != 0});
      if (At(initial).memory != 0) PushTransfer(initial, current, variable.merge, block);
      variables.emplace_back(current, &variable);
    }
    Operation& operation = Push(block, Operation::Kind::kLoop, f.condition);
    operation.loop = index;
    loop_stack_.push_back(index);
    TENON_RETURN_IF_ERROR(EmitFrame(frame, Part::kCondition, &loop.condition_block));
    if (!refusal_.text.empty()) return Status::Ok();
    TENON_ASSIGN_OR_RETURN(loop.condition, SlotOf({f.condition, 0}));
    Use(loop.condition);
    ++position_;
    TENON_RETURN_IF_ERROR(EmitFrame(frame, Part::kBody, &loop.body_block));
    if (!refusal_.text.empty()) return Status::Ok();
    for (size_t i = 0; i < variables.size(); ++i) {
      TENON_ASSIGN_OR_RETURN(const int32_t next, SlotOf(graph_.node(variables[i].second->next).inputs[0]));
      if (At(next).bytes != At(variables[i].first).bytes || !At(next).shape.fully_known()) {
        GiveUp(StrCat("loop '", f.name, "': a variable changes its shape"));
        return Status::Ok();
      }
      Use(next);
      loop.carried[i].next = next;
    }
    // A next value that is another variable's current one must be copied before that one is overwritten.
    for (auto& carried : loop.carried) {
      for (const auto& other : loop.carried)
        if (&other != &carried && MayStandIn(carried.next, Root(other.current))) carried.through_temporary = true;
      if (carried.through_temporary) {
        carried.temporary = NewSlot(At(carried.current).dtype, At(carried.current).shape, Home::kArena, At(carried.current).memory);
        At(carried.temporary).last = position_;
      }
    }
    CarryOnDevices(loop, variables);
    const int32_t end = position_++;
    loop_stack_.pop_back();
    for (const auto& carried : loop.carried) At(carried.current).last = std::max(At(carried.current).last, end);
    for (int32_t slot : extend_[index]) At(slot).last = std::max(At(slot).last, end);
    extend_.erase(index);
    loop_end_.resize(program_->loops_.size());
    loop_end_[static_cast<size_t>(index)] = end;
    program_->loops_[static_cast<size_t>(index)] = std::move(loop);
    return Status::Ok();
  }

  // The copies between turns of what lies in a device's memory: to the temporaries first.
  void CarryOnDevices(Loop& loop, const std::vector<std::pair<int32_t, const LoopVariable*>>& variables) {
    for (const bool first : {true, false})
      for (size_t i = 0; i < variables.size(); ++i) {
        const Loop::Carried& carried = loop.carried[i];
        if (!carried.queued || (first && !carried.through_temporary)) continue;
        const int32_t from = !first && carried.through_temporary ? carried.temporary : carried.next;
        const int32_t to = first ? carried.temporary : carried.current;
        Use(from);
        At(Root(to)).last = std::max(At(Root(to)).last, position_);
        PushTransfer(from, to, variables[i].second->merge, &loop.body_block);
      }
  }

  // Whether a slot's value may be the memory of that root.
  bool MayStandIn(int32_t slot, int32_t root) const {
    std::vector<int32_t> left = {Root(slot)};
    std::unordered_set<int32_t> seen;
    while (!left.empty()) {
      const int32_t own = left.back();
      left.pop_back();
      if (own == root) return true;
      const auto it = seen.insert(own).second ? selected_from_.find(own) : selected_from_.end();
      if (it == selected_from_.end()) continue;
      left.push_back(Root(it->second.first));
      left.push_back(Root(it->second.second));
    }
    return false;
  }

  Status EmitFetches() {
    if (!refusal_.text.empty()) return Status::Ok();
    for (const Edge& fetch : plan_.fetches()) {
      TENON_ASSIGN_OR_RETURN(int32_t slot, SlotOf(fetch));
      if (IsRef(At(slot).dtype)) {
        TENON_ASSIGN_OR_RETURN(slot, EmitRead(slot, graph_.node(fetch.node), fetch, &program_->operations_));
      }
      KeepToTheEnd(slot);
      program_->fetch_slots_.push_back(slot);
    }
    return Status::Ok();
  }

  void KeepToTheEnd(int32_t slot) { At(Root(slot)).last = INT_MAX; }

  // ---- Memory ----

  static std::span<const tenon_in_place> InPlaceOf(const Operation& operation) {
    if (operation.region != nullptr) return operation.region->in_place();
    if (operation.kind != Operation::Kind::kRun && operation.kind != Operation::Kind::kGuarded && operation.kind != Operation::Kind::kQueued) return {};
    const tenon_kernel_registration& kernel = operation.prepared->kernel->registration();
    return {kernel.in_place, kernel.in_place_count};
  }

  // Lets outputs take over inputs that die with the operation, where the kernel allows it.
  void ShareInPlace(std::vector<Operation>& block) {
    for (Operation& operation : block) {
      if (operation.kind == Operation::Kind::kBranch) ShareInPlace(program_->branches_[static_cast<size_t>(operation.branch)].block);
      if (operation.kind == Operation::Kind::kLoop) {
        Loop& loop = program_->loops_[static_cast<size_t>(operation.loop)];
        ShareInPlace(loop.condition_block);
        ShareInPlace(loop.body_block);
      }
      for (const tenon_in_place& pair : InPlaceOf(operation)) {
        const auto in = static_cast<size_t>(pair.input), out = static_cast<size_t>(pair.output);
        if (in >= operation.inputs.size() || out >= operation.outputs.size()) continue;
        const int32_t root = Root(operation.inputs[in]);
        Slot& target = At(operation.outputs[out]);
        if (At(root).home != Home::kArena || target.home != Home::kArena || At(root).last != operation.position ||
            At(root).bytes != target.bytes || At(operation.inputs[in]).bytes != target.bytes || At(root).memory != target.memory)
          continue;
        bool elsewhere = false;
        for (size_t i = 0; i < operation.inputs.size(); ++i)
          elsewhere = elsewhere || (i != in && Root(operation.inputs[i]) == root);
        if (elsewhere) continue;
        const int32_t last = target.last;
        target.home = Home::kAlias;
        target.target = root;
        At(root).last = std::max(last, operation.position);
      }
    }
  }

  void ShareMemory() {
    ExtendSelected();
    for (Slot& slot : program_->slots_) slot.last = std::max(slot.last, slot.first);
    ShareInPlace(program_->operations_);
    const size_t memories = std::max<size_t>(1, plan_.env().devices.size());
    program_->arena_bytes_.resize(memories);
    NoteWriters(program_->operations_);
    for (const Branch& branch : program_->branches_) NoteWriters(branch.block);
    for (const Loop& loop : program_->loops_) {
      NoteWriters(loop.condition_block);
      NoteWriters(loop.body_block);
    }
    for (size_t memory = 0; memory < memories; ++memory) PlanArena(static_cast<int32_t>(memory));
    IndexReleases();
    InsertReleases(program_->operations_);
  }

  // Offsets in one memory's arena, and behind them the workspace of the host, or of each queue of the device. What different
  // queues write shares no memory, lest one waits for another that it does not need; unless that takes too much.
  void PlanArena(int32_t memory) {
    uint64_t total = PlaceSlots(memory, true);
    const uint64_t most = memory == 0 ? 0 : DeviceOfMemory(memory).device->memory_bytes / 2;
    if (most != 0 && total > most) total = PlaceSlots(memory, false);
    const std::vector<SessionQueue>& queues = plan_.env().queues;
    for (size_t q = 0; q < program_->workspace_offset_.size(); ++q) {
      if ((q == 0 ? 0 : queues[q - 1].device) != memory) continue;
      const uint64_t workspace = program_->workspace_offset_[q];
      program_->workspace_offset_[q] = total;
      total += RoundUp(workspace, 64);
    }
    program_->arena_bytes_[static_cast<size_t>(memory)] = total;
  }

  void NoteWriters(const std::vector<Operation>& block) {
    for (const Operation& operation : block)
      if (operation.queue >= 0)
        for (int32_t slot : operation.outputs) writer_of_.try_emplace(Root(slot), operation.queue);
    for (const Operation& operation : block)
      for (int32_t slot : operation.inputs)
        if (const auto it = writer_of_.find(Root(slot)); it != writer_of_.end() && it->second != operation.queue) crossing_.insert(Root(slot));
  }

  // Until when values that another queue reads keep their memory: until the next such value has been read, so that one can
  // be written while the other is read (two buffers by turns).
  std::unordered_map<int32_t, int32_t> SecondTurns(const std::vector<int32_t>& slots) const {
    std::vector<int32_t> crossing;
    for (int32_t slot : slots)
      if (crossing_.contains(slot)) crossing.push_back(slot);
    std::sort(crossing.begin(), crossing.end(), [this](int32_t a, int32_t b) { return At(a).last < At(b).last; });
    std::unordered_map<int32_t, int32_t> until;
    for (size_t i = 0; i + 1 < crossing.size(); ++i) until[crossing[i]] = At(crossing[i + 1]).last;
    return until;
  }

  uint64_t PlaceSlots(int32_t memory, bool by_queue) {
    std::map<int32_t, std::vector<int32_t>> groups;
    for (size_t i = 0; i < program_->slots_.size(); ++i) {
      const Slot& slot = program_->slots_[i];
      if (slot.home != Home::kArena || slot.memory != memory) continue;
      const auto writer = writer_of_.find(static_cast<int32_t>(i));
      groups[by_queue && memory != 0 && writer != writer_of_.end() ? writer->second : -1].push_back(static_cast<int32_t>(i));
    }
    uint64_t total = 0;
    for (const auto& [queue, slots] : groups) {
      MemoryPlanner planner;
      const std::unordered_map<int32_t, int32_t> later = by_queue ? SecondTurns(slots) : std::unordered_map<int32_t, int32_t>();
      for (int32_t slot : slots) {
        const auto it = later.find(slot);
        planner.Add(At(slot).bytes, At(slot).first, it == later.end() ? At(slot).last : it->second);
      }
      const std::vector<uint64_t> offsets = planner.Plan();
      for (size_t i = 0; i < slots.size(); ++i) At(slots[i]).offset = total + offsets[i];
      total += planner.total();
    }
    return total;
  }

  // Drops buffers right after their last reader; those of fetches stay.
  void InsertReleases(std::vector<Operation>& block) {
    std::vector<Operation> out;
    for (Operation& operation : block) {
      int32_t end = operation.position;
      if (operation.kind == Operation::Kind::kBranch) InsertReleases(program_->branches_[static_cast<size_t>(operation.branch)].block);
      if (operation.kind == Operation::Kind::kLoop) {
        Loop& loop = program_->loops_[static_cast<size_t>(operation.loop)];
        InsertReleases(loop.condition_block);
        InsertReleases(loop.body_block);
        end = loop_end_[static_cast<size_t>(operation.loop)];
      }
      const int32_t node = operation.node;
      out.push_back(std::move(operation));
      const auto range = release_at_.equal_range(end);
      for (auto it = range.first; it != range.second; ++it) {
        Operation release;
        release.kind = Operation::Kind::kRelease;
        release.node = node;
        release.position = end;
        release.outputs = {it->second};
        out.push_back(std::move(release));
      }
    }
    block = std::move(out);
  }

  void IndexReleases() {
    for (size_t i = 0; i < program_->slots_.size(); ++i) {
      const Slot& slot = program_->slots_[i];
      if (slot.home == Home::kBuffer && slot.last != INT_MAX) release_at_.emplace(slot.last, static_cast<int32_t>(i));
    }
  }

  const Plan& plan_;
  const graph::Graph& graph_;
  Program* program_;
  graph::ShapeInference inference_;
  LoopAnalysis loops_;
  const BranchAnalysis* branches_ = nullptr;
  QueueChooser chooser_;
  std::set<int32_t> emitted_claims_;
  mutable std::vector<int8_t> whole_claims_;  // by claim: -1 not looked at
  std::unordered_map<int32_t, int32_t> writer_of_;  // root of an arena: the queue that first writes it
  std::unordered_set<int32_t> crossing_;            // roots that another queue reads
  std::vector<std::vector<std::pair<int32_t, int32_t>>> readers_;  // of each node: output, reader
  Program::Refusal refusal_;
  std::vector<bool> needed_;
  std::vector<int32_t> needed_order_;
  std::vector<std::vector<int32_t>> slot_of_;
  int32_t position_ = 0;
  std::vector<int32_t> loop_stack_;
  std::vector<int32_t> loop_parent_;  // of loops
  std::vector<int32_t> loop_end_;
  std::vector<int32_t> def_loop_;     // of slots: the innermost loop at their making
  std::unordered_map<int32_t, std::vector<int32_t>> extend_;
  std::map<int32_t, std::pair<int32_t, int32_t>> selected_from_;  // slot -> those of the sides, which are made before it
  std::multimap<int32_t, int32_t> release_at_;
};

Result<std::shared_ptr<Program>> Program::Build(const Plan& plan, const tenon_tensor_view* const* feeds,
                                                Refusal* refusal, uint64_t* folded) {
  std::shared_ptr<Program> program(new Program(&plan));
  ProgramBuilder builder(plan, program.get());
  TENON_ASSIGN_OR_RETURN(const bool built, builder.Build(feeds, refusal, folded));
  if (!built) return std::shared_ptr<Program>();
  using Kind = Operation::Kind;
  program->fixed_ = std::none_of(program->operations_.begin(), program->operations_.end(), [](const Operation& operation) {
    return operation.kind == Kind::kLoop || operation.kind == Kind::kBranch || operation.kind == Kind::kDynamic;
  });
  return program;
}

}  // namespace tenon::exec
