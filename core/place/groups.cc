// SPDX-License-Identifier: Apache-2.0
#include "core/place/groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "core/graph/graph.h"
#include "core/graph/loop_analysis.h"
#include "core/place/device_name.h"

namespace tenon::place {
namespace {

using graph::Edge;
using graph::Node;

// Why two nodes were joined, for errors.
enum class Bond : uint8_t { kNone, kClass, kReference, kHandle, kLoopVariable, kVariant, kConvenience };

const char* Describe(Bond bond) {
  switch (bond) {
    case Bond::kClass: return "is of one colocation class with";
    case Bond::kReference: return "takes a reference that comes from";
    case Bond::kHandle: return "takes a resource handle that comes from";
    case Bond::kLoopVariable: return "is of one loop variable with";
    case Bond::kVariant: return "takes a variant that comes from";
    case Bond::kConvenience: return "was put with";
    case Bond::kNone: break;
  }
  return "is joined to";
}

class Joiner {
 public:
  Joiner(const Request& request, const Positions& position, const Constraints& constraints, DeviceSets* sets)
      : request_(request), graph_(*request.graph), position_(position), constraints_(constraints), sets_(sets),
        parent_(request.order.size()), size_(request.order.size(), 1), bonds_(request.order.size()) {
    for (Position i : parent_.ids()) parent_[i] = i;
    fed_.insert(request.feeds.begin(), request.feeds.end());
  }

  Result<Groups> Join() {
    for (graph::NodeId id : request_.order) JoinByNeed(graph_.node(id));
    Number();
    TENON_RETURN_IF_ERROR(IntersectAll());
    TENON_RETURN_IF_ERROR(BindToTasks());
    JoinByConvenience();
    Number();
    return std::move(out_);
  }

 private:
  Position PositionOf(graph::NodeId node) const { return node ? position_[node] : Position(); }
  const Node& NodeAt(Position position) const { return graph_.node(request_.order[position]); }
  // The producer of an input that is computed in this step; none when it is fed or open.
  Position Producer(const Edge& edge) const {
    return !edge.node || fed_.contains(edge) ? Position() : PositionOf(edge.node);
  }

  Position Root(Position i) {
    while (parent_[i] != i) {
      Position& parent = parent_[i];
      parent = parent_[parent];
      i = parent;
    }
    return i;
  }

  void Union(Position a, Position b, Bond bond) {
    if (!a || !b) return;
    if (bonds_[a].bond == Bond::kNone) bonds_[a] = {bond, b};
    a = Root(a);
    b = Root(b);
    if (a == b) return;
    if (size_[a] > size_[b]) std::swap(a, b);
    parent_[a] = b;
    size_[b] += size_[a];
  }

  void JoinByNeed(const Node& node) {
    const Position here = PositionOf(node.id);
    JoinClasses(node, here);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge edge = node.inputs[i];
      const Position from = Producer(edge);
      if (!from) continue;
      const DType type = graph_.TypeOf(edge);
      if (IsRef(node.input_types[i])) Union(here, from, Bond::kReference);
      else if (type == TENON_DT_RESOURCE) Union(here, from, Bond::kHandle);
      else if (OfOneLoopVariable(NodeAt(from), node, i)) Union(here, from, Bond::kLoopVariable);
    }
  }

  // A class is known by its text, so that its nodes are together even when the step lacks the node that names it.
  void JoinClasses(const Node& node, Position here) {
    const graph::AttrValue* classes = node.FindAttr("_class");
    if (classes == nullptr || (classes->kind() & ~TENON_ATTR_LIST) != TENON_ATTR_STRING) return;
    for (size_t i = 0; i < classes->size(); ++i) {
      std::string_view text = classes->s(i);
      if (!text.starts_with("loc")) continue;
      text.remove_prefix(3);
      if (text.starts_with(":")) text.remove_prefix(1);
      if (!text.starts_with("@")) continue;
      text.remove_prefix(1);
      const Position leader = PositionOf(graph_.Find(text));
      const auto [it, added] = classes_.emplace(std::string(text), leader ? leader : here);
      if (it->second != here) Union(here, it->second, Bond::kClass);
    }
  }

  // Enter -> Merge <- NextIteration, Merge -> Switch on a loop's condition -> Exit.
  bool OfOneLoopVariable(const Node& from, const Node& to, size_t input) const {
    if (to.has(TENON_OP_MERGE)) return from.has(TENON_OP_ENTER | TENON_OP_NEXT_ITERATION);
    if (to.has(TENON_OP_EXIT)) return from.has(TENON_OP_SWITCH);
    if (!to.has(TENON_OP_SWITCH) || input != 0 || !from.has(TENON_OP_MERGE)) return false;
    const Position predicate = Producer(to.inputs[1]);
    return predicate && NodeAt(predicate).has(TENON_OP_LOOP_CONDITION);
  }

  // Groups get numbers by their first node.
  void Number() {
    IdVector<Position, GroupId> group_of_root(parent_.size());
    IdVector<GroupId, int32_t> sizes;
    out_.sets.clear();
    out_.group_of.resize(parent_.size());
    for (Position i : parent_.ids()) {
      const Position root = Root(i);
      if (!group_of_root[root]) {
        group_of_root[root] = sizes.push_back(0);
        if (!root_sets_.empty()) out_.sets.push_back(root_sets_[root]);
      }
      out_.group_of[i] = group_of_root[root];
      ++sizes[out_.group_of[i]];
    }
    ListMembers(sizes);
  }
  void ListMembers(const IdVector<GroupId, int32_t>& sizes) {
    out_.first_member.assign(1, MemberId(0));
    for (int32_t size : sizes) out_.first_member.push_back(MemberId(out_.first_member.back().number() + size));
    IdVector<GroupId, MemberId> next = out_.first_member;
    out_.members.resize(parent_.size());
    for (Position i : parent_.ids()) {
      MemberId& member = next[out_.group_of[i]];
      out_.members[member] = i;
      ++member;
    }
  }

  SetId Own(Position position) {
    return sets_->Intersect(constraints_.kernels[position], constraints_.wishes[position]);
  }

  // The devices of each group, by its root.
  Status IntersectAll() {
    root_sets_.assign(parent_.size(), DeviceSets::kAll);
    for (GroupId g : IdRange(GroupId(0), out_.first_member.last_id())) {
      SetId kernels = DeviceSets::kAll, set = DeviceSets::kAll;
      for (Position member : out_.of(g)) {
        const SetId before = kernels;
        kernels = sets_->Intersect(kernels, constraints_.kernels[member]);
        if (sets_->empty(kernels)) return NoCommonKernel(g, member, before);
        set = sets_->Intersect(set, Own(member));
      }
      if (sets_->empty(set)) {
        TENON_ASSIGN_OR_RETURN(set, Soften(g, kernels));
      }
      root_sets_[Root(out_.of(g)[0])] = set;
    }
    return Status::Ok();
  }

  std::string Names(SetId set) const {
    std::string out;
    for (DeviceId device : sets_->devices(set))
      out += StrCat(out.empty() ? "" : ", ", (*request_.devices)[device].name);
    return out;
  }

  // How `member` came into its group, or else how `other` did.
  std::string BondText(Position member, Position other) const {
    for (Position node : {member, other}) {
      const Link& link = bonds_[node];
      if (link.bond != Bond::kNone)
        return StrCat(NodeAt(node).Describe(), " ", Describe(link.bond), " ", NodeAt(link.other).Describe());
    }
    return "others join them";
  }

  Status NoCommonKernel(GroupId group, Position member, SetId before) {
    Position other = out_.of(group)[0];
    for (Position earlier : out_.of(group)) {
      if (earlier == member) break;
      if (sets_->empty(sets_->Intersect(constraints_.kernels[earlier], constraints_.kernels[member]))) {
        other = earlier;
        break;
      }
    }
    return Unimplemented(StrCat(NodeAt(member).Describe(), " must be on one device with ", NodeAt(other).Describe(),
                                " (", BondText(member, other), "), but can run on ",
                                Names(constraints_.kernels[member]), " alone, and what it must be with on ",
                                Names(before), HomeText(group)));
  }
  // State is where the step that made it put it.
  std::string HomeText(GroupId group) const {
    if (request_.homes == nullptr) return "";
    for (Position member : out_.of(group)) {
      const Node& node = NodeAt(member);
      const auto home = request_.homes->find(std::string(graph::StateName(node)));
      if (home != request_.homes->end())
        return StrCat("; the state of ", node.Describe(), " stands on ", home->second,
                      " since an earlier step: name a device for it that has kernels for all that uses it");
    }
    return "";
  }

  // The device names of a group contradict one another, or its kernels.
  Result<SetId> Soften(GroupId group, SetId kernels) {
    SetId set = kernels;
    for (Position member : out_.of(group)) {
      SetId both = sets_->Intersect(set, constraints_.wishes[member]);
      if (!sets_->empty(both)) {
        set = both;
        continue;
      }
      const std::string conflict = Conflict(group, member, kernels);
      if (!request_.soft_placement)
        return InvalidArgument(StrCat(conflict, "; change a device name, or allow soft placement"));
      both = sets_->Intersect(set, constraints_.tasks[member]);
      if (sets_->empty(both) && !MayLeaveItsTask(member))
        return InvalidArgument(StrCat(conflict, "; soft placement keeps a node's job and task: change a device name"));
      out_.notes.push_back(StrCat(conflict, "; its device name is not followed"));
      if (!sets_->empty(both)) set = both;
    }
    return set;
  }
  // What uses state goes where that is, and the nodes of a loop variable to the first of them.
  bool MayLeaveItsTask(Position member) const {
    const bool has_home =
        request_.homes != nullptr && request_.homes->contains(std::string(graph::StateName(NodeAt(member))));
    return has_home || (!sets_->empty(sets_->Intersect(constraints_.kernels[member], constraints_.tasks[member])) &&
                        bonds_[member].bond != Bond::kClass);
  }

  std::string Conflict(GroupId group, Position member, SetId kernels) {
    const Node& node = NodeAt(member);
    const SetId wish = constraints_.wishes[member];
    const std::string wants = StrCat(node.Describe(), " wants ", WishOf(request_, node));
    if (sets_->empty(Own(member)))
      return StrCat(wants, ", but can run on ", Names(constraints_.kernels[member]), " alone");
    for (Position other : out_.of(group)) {
      if (other == member) continue;
      const bool by_name = sets_->empty(sets_->Intersect(wish, constraints_.wishes[other]));
      if (!by_name && !sets_->empty(sets_->Intersect(wish, constraints_.kernels[other]))) continue;
      const std::string must = by_name ? StrCat("wants ", WishOf(request_, NodeAt(other)))
                                       : StrCat("can run on ", Names(constraints_.kernels[other]), " alone");
      return StrCat(wants, ", but must be on one device with ", NodeAt(other).Describe(), ", which ", must, " (",
                    BondText(member, other), ")");
    }
    return StrCat(wants, ", but the nodes that it must be on one device with can go to ", Names(kernels), " alone (",
                  BondText(member, member), ")");
  }

  // ---- Tasks ----

  void NumberTasks() {
    std::map<std::string_view, size_t> numbers;
    for (const DeviceInfo& device : *request_.devices)
      task_of_.push_back(numbers.emplace(TaskOf(device.name), numbers.size()).first->second);
    for (size_t task = 0; task < numbers.size(); ++task) {
      DeviceSets::Members members;
      for (const DeviceId device : task_of_.ids()) members.push_back(task_of_[device] == task);
      task_sets_.push_back(sets_->Intern(members));
    }
  }
  size_t FirstTask(SetId set) const { return task_of_[sets_->devices(set).front()]; }
  bool IsOfOneTask(SetId set) const {
    const std::vector<DeviceId>& devices = sets_->devices(set);
    return std::all_of(devices.begin(), devices.end(),
                       [&](DeviceId device) { return task_of_[device] == task_of_[devices.front()]; });
  }
  // All devices of the tasks in which it has one.
  SetId Widen(SetId set) {
    if (set == DeviceSets::kAll) return set;
    SetId& wide = wide_[set];
    if (wide) return wide;
    std::vector<bool> has(task_sets_.size(), false);
    for (const DeviceId device : sets_->devices(set)) has[task_of_[device]] = true;
    DeviceSets::Members members;
    for (const DeviceId device : task_of_.ids()) members.push_back(has[task_of_[device]]);
    return wide = sets_->Intern(members);
  }

  // With several tasks, what cannot leave its process stays in one of them; and state goes where all clients of the
  // cluster put it.
  Status BindToTasks() {
    NumberTasks();
    if (task_sets_.size() > 1) FindVariants();
    bundle_of_ = parent_;
    bundle_sets_.assign(parent_.size(), DeviceSets::kAll);
    // First those that stay, so that what may be parted is parted for a name alone.
    for (const auto& [from, to] : variants_)
      if (stays_[from] && !Bundle(from, to)) return WouldCross(from, to);
    std::erase_if(variants_,
                  [this](const auto& edge) { return !stays_[edge.first] && !Bundle(edge.first, edge.second); });
    NarrowToBundles();
    if (request_.of_cluster) {
      for (const Position i : parent_.ids())
        if (MakesState(NodeAt(i))) Settle(Root(i));
      NarrowToBundles();
    }
    JoinBundles();
    return Status::Ok();
  }

  void FindVariants() {
    for (const graph::NodeId id : request_.order)
      for (const Edge& edge : graph_.node(id).inputs)
        if (const Position from = Producer(edge); from && IsVariant(edge)) variants_.emplace_back(from, PositionOf(id));
    FindThoseThatStay();
  }
  bool IsVariant(const Edge& edge) const { return edge.node && BaseType(graph_.TypeOf(edge)) == TENON_DT_VARIANT; }

  // Nodes whose variants do not leave their process: those of makers that do not say so, and what comes of them by
  // nodes that pass values on.
  void FindThoseThatStay() {
    constexpr uint64_t kPassesOn =
        TENON_OP_IDENTITY | TENON_OP_SWITCH | TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION;
    stays_.assign(parent_.size(), false);
    if (variants_.empty()) return;
    const auto brings_one = [this](const Edge& edge) {
      const Position from = Producer(edge);
      return IsVariant(edge) && (!from || stays_[from]);
    };
    for (bool more = true; more;) {  // again for the back edges of loops
      more = false;
      for (const graph::NodeId id : request_.order) {
        const Node& node = graph_.node(id);
        const Position here = PositionOf(id);
        if (stays_[here]) continue;
        stays_[here] = node.has(kPassesOn) ? std::any_of(node.inputs.begin(), node.inputs.end(), brings_one)
                                           : !request_.variants_may_cross || !request_.variants_may_cross(node);
        more = more || stays_[here];
      }
    }
  }

  // Groups that must be in one task are a bundle: union-find over their roots.
  Position BundleOf(Position i) {
    i = Root(i);
    while (bundle_of_[i] != i) i = bundle_of_[i] = bundle_of_[bundle_of_[i]];
    return i;
  }

  // Of the tasks of a bundle those where this group may go too.
  SetId TasksFor(Position node) {
    return sets_->Intersect(bundle_sets_[BundleOf(node)], Widen(root_sets_[Root(node)]));
  }

  // False: there is no task for both.
  bool Bundle(Position from, Position to) {
    const SetId both = sets_->Intersect(TasksFor(from), TasksFor(to));
    if (sets_->empty(both)) return false;
    const Position a = BundleOf(from), b = BundleOf(to);
    bundle_of_[b] = a;
    bundle_sets_[a] = both;
    return true;
  }

  Status WouldCross(Position from, Position to) {
    const auto where = [&](Position node) {
      return StrCat(NodeAt(node).Describe(), ", which can go to ",
                    Names(sets_->Intersect(root_sets_[Root(node)], TasksFor(node))), " alone");
    };
    return InvalidArgument(
        StrCat(where(to), ", takes a variant of ", where(from),
               "; the variants of datasets, queues and the like do not leave their process (those of lists and "
               "optionals do). Give both nodes one task, or let tensors cross instead"));
  }

  void NarrowToBundles() {
    for (const auto& edge : variants_)
      for (const Position node : {edge.first, edge.second}) {
        SetId& set = root_sets_[Root(node)];
        set = sets_->Intersect(set, bundle_sets_[BundleOf(node)]);
      }
  }

  // A bundle that may still go to several tasks goes to one device, so that costs choose which; where its groups have
  // none in common, to the first of the tasks.
  void JoinBundles() {
    IdVector<Position, SetId> common(parent_.size(), DeviceSets::kAll);
    for (const auto& edge : variants_)
      for (const Position node : {edge.first, edge.second}) {
        SetId& set = common[BundleOf(node)];
        set = sets_->Intersect(set, root_sets_[Root(node)]);
      }
    IdVector<Position, bool> joins(parent_.size(), false);
    for (const auto& edge : variants_) {
      const Position bundle = BundleOf(edge.first);
      SetId& tasks = bundle_sets_[bundle];
      joins[bundle] = !IsOfOneTask(tasks) && !sets_->empty(common[bundle]);
      if (!IsOfOneTask(tasks) && sets_->empty(common[bundle]))
        tasks = task_sets_[FirstTask(root_sets_[Root(edge.first)])];
    }
    NarrowToBundles();
    // Roots change from here on.
    std::vector<std::tuple<Position, Position, SetId>> joined;
    for (const auto& [from, to] : variants_)
      if (const Position bundle = BundleOf(from); joins[bundle]) joined.emplace_back(from, to, common[bundle]);
    for (const auto& [from, to, set] : joined) {
      Union(to, from, Bond::kVariant);
      root_sets_[Root(from)] = set;
    }
  }

  // The one device of a group that makes state.
  void Settle(Position root) {
    const SetId set = root_sets_[root];
    const std::vector<DeviceId>& devices = sets_->devices(set);
    if (devices.size() < 2) return;
    const auto rank = [&](DeviceId device) {
      return std::pair(IsRunByHost(root, device), -(*request_.devices)[device].flops);
    };
    DeviceId best = devices.front();
    for (const DeviceId device : devices)
      if (task_of_[device] == FirstTask(set) && rank(device) < rank(best)) best = device;
    DeviceSets::Members one(request_.devices->size(), false);
    one[best] = true;
    root_sets_[root] = sets_->Intern(one);
    SetId& bundle = bundle_sets_[BundleOf(root)];
    bundle = sets_->Intersect(bundle, task_sets_[task_of_[best]]);
  }
  // Whether what makes the group's state would not be the device's there.
  bool IsRunByHost(Position root, DeviceId device) const {
    if (!request_.run_by_host || (*request_.devices)[device].host_memory) return false;
    const std::span<const Position> members = out_.of(out_.group_of[root]);
    return std::any_of(members.begin(), members.end(), [&](Position member) {
      return MakesState(NodeAt(member)) && request_.run_by_host(NodeAt(member), device);
    });
  }

  // ---- What is put together where nothing speaks against it ----

  // Joins `follower` to `leader` when that takes no device from the leader.
  void Follow(Position follower, Position leader) {
    if (!follower || !leader) return;
    const Position from = Root(follower), to = Root(leader);
    if (from == to) return;
    const SetId set = root_sets_[to];
    if (!sets_->IsSubset(set, root_sets_[from])) return;
    Union(follower, leader, Bond::kConvenience);
    root_sets_[Root(leader)] = set;
  }

  bool IsAlone(Position position) { return size_[Root(position)] == 1; }

  void JoinByConvenience() {
    FindReaders();
    for (graph::NodeId id : request_.order) {
      const Node& node = graph_.node(id);
      const Position here = PositionOf(id);
      if (node.has(TENON_OP_LOOP_CONDITION)) JoinCondition(node, here);
      if (!IsAlone(here)) continue;
      if (graph::IsConstantEnter(node)) Follow(here, first_reader_[here]);
      else if (node.has(TENON_OP_METADATA) && !node.inputs.empty()) Follow(here, Producer(node.inputs[0]));
    }
  }

  // The engine reads a loop's condition on the host before each turn.
  void JoinCondition(const Node& node, Position here) {
    const Position predicate = Producer(node.inputs[0]);
    if (!IsAlone(here)) return;
    DeviceSets::Members host;
    for (const DeviceInfo& device : *request_.devices) host.push_back(device.host_memory);
    Narrow(here, sets_->Intern(host));
    if (!predicate || !IsAlone(predicate)) return;
    Narrow(predicate, root_sets_[here]);
    Follow(here, predicate);
  }
  void Narrow(Position position, SetId wish) {
    SetId& set = root_sets_[Root(position)];
    const SetId both = sets_->Intersect(set, wish);
    if (!sets_->empty(both)) set = both;
  }

  void FindReaders() {
    first_reader_.resize(parent_.size());
    for (graph::NodeId id : request_.order)
      for (const Edge& edge : graph_.node(id).inputs) {
        const Position from = Producer(edge);
        if (from && !first_reader_[from]) first_reader_[from] = PositionOf(id);
      }
  }

  struct Link {
    Bond bond = Bond::kNone;
    Position other;
  };

  const Request& request_;
  const graph::Graph& graph_;
  const Positions& position_;
  const Constraints& constraints_;
  DeviceSets* sets_;
  std::set<Edge> fed_;
  IdVector<Position, Position> parent_;
  IdVector<Position, int32_t> size_;
  IdVector<Position, Link> bonds_;
  std::unordered_map<std::string, Position> classes_;
  IdVector<Position, SetId> root_sets_;  // of roots, once known
  IdVector<Position, Position> first_reader_;
  IdVector<DeviceId, size_t> task_of_;
  std::vector<SetId> task_sets_;
  std::map<SetId, SetId> wide_;
  std::vector<std::pair<Position, Position>> variants_;  // edges: from, to
  IdVector<Position, bool> stays_;  // whether variants that come from there do not leave their process
  IdVector<Position, Position> bundle_of_;  // of roots
  IdVector<Position, SetId> bundle_sets_;   // of roots of bundles: the devices of the tasks where all of it may go
  Groups out_;
};

}  // namespace

bool MakesState(const graph::Node& node) {
  const auto handle = [](DType type) { return IsRef(type) || type == TENON_DT_RESOURCE; };
  return std::any_of(node.output_types.begin(), node.output_types.end(), handle) &&
         std::none_of(node.input_types.begin(), node.input_types.end(), handle);
}

Result<Groups> FindGroups(const Request& request, const Positions& position, const Constraints& constraints,
                          DeviceSets* sets) {
  return Joiner(request, position, constraints, sets).Join();
}

}  // namespace tenon::place
