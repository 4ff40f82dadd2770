// SPDX-License-Identifier: Apache-2.0
#include "core/place/groups.h"

#include <algorithm>
#include <set>
#include <unordered_map>

namespace tenon::place {
namespace {

using graph::Edge;
using graph::Node;

// Why two nodes were joined, for errors.
enum class Bond : uint8_t { kNone, kClass, kReference, kHandle, kLoopVariable, kConvenience };

const char* Describe(Bond bond) {
  switch (bond) {
    case Bond::kClass: return "is of one colocation class with";
    case Bond::kReference: return "takes a reference that comes from";
    case Bond::kHandle: return "takes a resource handle that comes from";
    case Bond::kLoopVariable: return "is of one loop variable with";
    case Bond::kConvenience: return "was put with";
    case Bond::kNone: break;
  }
  return "is joined to";
}

class Joiner {
 public:
  Joiner(const Request& request, const graph::NodeMap<int32_t>& position, const Constraints& constraints, DeviceSets* sets)
      : request_(request), graph_(*request.graph), position_(position), constraints_(constraints), sets_(sets),
        parent_(request.order.size()), size_(request.order.size(), 1), bonds_(request.order.size()) {
    for (size_t i = 0; i < parent_.size(); ++i) parent_[i] = static_cast<int32_t>(i);
    fed_.insert(request.feeds.begin(), request.feeds.end());
  }

  Result<Groups> Join() {
    for (graph::NodeId id : request_.order) JoinByNeed(graph_.node(id));
    Number();
    TENON_RETURN_IF_ERROR(IntersectAll());
    JoinByConvenience();
    Number();
    return std::move(out_);
  }

 private:
  int32_t PositionOf(graph::NodeId node) const { return !node ? -1 : position_[node]; }
  const Node& NodeAt(int32_t position) const { return graph_.node(request_.order[position]); }
  // The producer of an input that is computed in this step; -1 when it is fed or open.
  int32_t Producer(const Edge& edge) const { return !edge.node || fed_.contains(edge) ? -1 : PositionOf(edge.node); }

  int32_t Root(int32_t i) {
    while (parent_[i] != i) {
      int32_t& parent = parent_[i];
      parent = parent_[parent];
      i = parent;
    }
    return i;
  }

  void Union(int32_t a, int32_t b, Bond bond) {
    if (a < 0 || b < 0) return;
    if (bonds_[a].bond == Bond::kNone) bonds_[a] = {bond, b};
    a = Root(a);
    b = Root(b);
    if (a == b) return;
    if (size_[a] > size_[b]) std::swap(a, b);
    parent_[a] = b;
    size_[b] += size_[a];
  }

  void JoinByNeed(const Node& node) {
    const int32_t here = PositionOf(node.id);
    JoinClasses(node, here);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Edge edge = node.inputs[i];
      const int32_t from = Producer(edge);
      if (from < 0) continue;
      const DType type = graph_.TypeOf(edge);
      if (IsRef(node.input_types[i])) Union(here, from, Bond::kReference);
      else if (type == TENON_DT_RESOURCE) Union(here, from, Bond::kHandle);
      else if (OfOneLoopVariable(NodeAt(from), node, i)) Union(here, from, Bond::kLoopVariable);
    }
  }

  // A class is known by its text, so that its nodes are together even when the step lacks the node that names it.
  void JoinClasses(const Node& node, int32_t here) {
    const graph::AttrValue* classes = node.FindAttr("_class");
    if (classes == nullptr || (classes->kind() & ~TENON_ATTR_LIST) != TENON_ATTR_STRING) return;
    for (size_t i = 0; i < classes->size(); ++i) {
      std::string_view text = classes->s(i);
      if (!text.starts_with("loc")) continue;
      text.remove_prefix(3);
      if (text.starts_with(":")) text.remove_prefix(1);
      if (!text.starts_with("@")) continue;
      text.remove_prefix(1);
      const int32_t leader = PositionOf(graph_.Find(text));
      const auto [it, added] = classes_.emplace(std::string(text), leader >= 0 ? leader : here);
      if (it->second != here) Union(here, it->second, Bond::kClass);
    }
  }

  // Enter -> Merge <- NextIteration, Merge -> Switch on a loop's condition -> Exit.
  bool OfOneLoopVariable(const Node& from, const Node& to, size_t input) const {
    if (to.has(TENON_OP_MERGE)) return from.has(TENON_OP_ENTER | TENON_OP_NEXT_ITERATION);
    if (to.has(TENON_OP_EXIT)) return from.has(TENON_OP_SWITCH);
    if (!to.has(TENON_OP_SWITCH) || input != 0 || !from.has(TENON_OP_MERGE)) return false;
    const int32_t predicate = Producer(to.inputs[1]);
    return predicate >= 0 && NodeAt(predicate).has(TENON_OP_LOOP_CONDITION);
  }

  // Groups get numbers by their first node.
  void Number() {
    const size_t count = parent_.size();
    std::vector<int32_t> number(count, -1);
    std::vector<int> sets;
    out_.group_of.assign(count, -1);
    std::vector<int32_t> sizes;
    for (size_t i = 0; i < count; ++i) {
      const size_t root = static_cast<size_t>(Root(static_cast<int32_t>(i)));
      if (number[root] < 0) {
        number[root] = static_cast<int32_t>(sizes.size());
        sizes.push_back(0);
        if (!root_sets_.empty()) sets.push_back(root_sets_[root]);
      }
      out_.group_of[i] = number[root];
      ++sizes[number[root]];
    }
    out_.sets = std::move(sets);
    out_.offsets.assign(sizes.size() + 1, 0);
    for (size_t g = 0; g < sizes.size(); ++g) out_.offsets[g + 1] = out_.offsets[g] + sizes[g];
    std::vector<int32_t> next(out_.offsets.begin(), out_.offsets.end() - 1);
    out_.members.resize(count);
    for (size_t i = 0; i < count; ++i)
      out_.members[static_cast<size_t>(next[out_.group_of[i]]++)] = static_cast<int32_t>(i);
  }

  int Own(int32_t position) {
    const size_t i = static_cast<size_t>(position);
    return sets_->Intersect(constraints_.kernels[i], constraints_.wishes[i]);
  }

  // The devices of each group, by its root.
  Status IntersectAll() {
    root_sets_.assign(parent_.size(), DeviceSets::kAll);
    const int32_t count = static_cast<int32_t>(out_.offsets.size()) - 1;
    for (int32_t g = 0; g < count; ++g) {
      int kernels = DeviceSets::kAll, set = DeviceSets::kAll;
      for (int32_t member : out_.of(g)) {
        const int before = kernels;
        kernels = sets_->Intersect(kernels, constraints_.kernels[member]);
        if (sets_->empty(kernels)) return NoCommonKernel(g, member, before);
        set = sets_->Intersect(set, Own(member));
      }
      if (sets_->empty(set)) {
        TENON_ASSIGN_OR_RETURN(set, Soften(g, kernels));
      }
      root_sets_[static_cast<size_t>(Root(out_.of(g)[0]))] = set;
    }
    return Status::Ok();
  }

  std::string Names(int set) const {
    std::string out;
    for (int device : sets_->devices(set)) out += StrCat(out.empty() ? "" : ", ", (*request_.devices)[device].name);
    return out;
  }

  // How `member` came into its group, or else how `other` did.
  std::string BondText(int32_t member, int32_t other) const {
    for (int32_t node : {member, other}) {
      const Link& link = bonds_[node];
      if (link.bond != Bond::kNone)
        return StrCat(NodeAt(node).Describe(), " ", Describe(link.bond), " ", NodeAt(link.other).Describe());
    }
    return "others join them";
  }

  Status NoCommonKernel(int32_t group, int32_t member, int before) {
    int32_t other = out_.of(group)[0];
    for (int32_t earlier : out_.of(group)) {
      if (earlier == member) break;
      if (sets_->empty(sets_->Intersect(constraints_.kernels[earlier], constraints_.kernels[member]))) {
        other = earlier;
        break;
      }
    }
    return Unimplemented(StrCat(NodeAt(member).Describe(), " must be on one device with ", NodeAt(other).Describe(), " (",
                                BondText(member, other), "), but can run on ",
                                Names(constraints_.kernels[member]), " alone, and what it must be with on ", Names(before)));
  }

  // The device names of a group contradict one another, or its kernels.
  Result<int> Soften(int32_t group, int kernels) {
    int set = kernels;
    for (int32_t member : out_.of(group)) {
      const int wish = constraints_.wishes[member];
      const int both = sets_->Intersect(set, wish);
      if (!sets_->empty(both)) {
        set = both;
        continue;
      }
      const std::string conflict = Conflict(group, member, kernels);
      if (!request_.soft_placement)
        return InvalidArgument(StrCat(conflict, "; change a device name, or allow soft placement"));
      out_.notes.push_back(StrCat(conflict, "; its device name is not followed"));
    }
    return set;
  }

  std::string Conflict(int32_t group, int32_t member, int kernels) {
    const Node& node = NodeAt(member);
    const int wish = constraints_.wishes[member];
    const std::string wants = StrCat(node.Describe(), " wants ", WishOf(request_, node));
    if (sets_->empty(Own(member)))
      return StrCat(wants, ", but can run on ", Names(constraints_.kernels[member]), " alone");
    for (int32_t other : out_.of(group)) {
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

  // Joins `follower` to `leader` when that takes no device from the leader.
  void Follow(int32_t follower, int32_t leader) {
    if (follower < 0 || leader < 0) return;
    const int32_t from = Root(follower), to = Root(leader);
    if (from == to) return;
    const int set = root_sets_[to];
    if (!sets_->IsSubset(set, root_sets_[from])) return;
    Union(follower, leader, Bond::kConvenience);
    root_sets_[Root(leader)] = set;
  }

  bool IsAlone(int32_t position) { return size_[Root(position)] == 1; }

  void JoinByConvenience() {
    FindReaders();
    for (graph::NodeId id : request_.order) {
      const Node& node = graph_.node(id);
      const int32_t here = PositionOf(id);
      if (node.has(TENON_OP_LOOP_CONDITION)) JoinCondition(node, here);
      if (!IsAlone(here)) continue;
      if (IsInvariant(node)) Follow(here, first_reader_[here]);
      else if (node.has(TENON_OP_METADATA) && !node.inputs.empty()) Follow(here, Producer(node.inputs[0]));
    }
  }

  static bool IsInvariant(const Node& node) {
    const graph::AttrValue* constant = node.has(TENON_OP_ENTER) ? node.FindAttr("is_constant") : nullptr;
    return constant != nullptr && constant->kind() == TENON_ATTR_BOOL && constant->b();
  }

  // The engine reads a loop's condition on the host before each turn.
  void JoinCondition(const Node& node, int32_t here) {
    const int32_t predicate = Producer(node.inputs[0]);
    if (!IsAlone(here)) return;
    std::vector<bool> host(sets_->device_count());
    for (size_t i = 0; i < host.size(); ++i) host[i] = (*request_.devices)[i].host_memory;
    Narrow(here, sets_->Intern(host));
    if (predicate < 0 || !IsAlone(predicate)) return;
    Narrow(predicate, root_sets_[here]);
    Follow(here, predicate);
  }
  void Narrow(int32_t position, int wish) {
    int& set = root_sets_[Root(position)];
    const int both = sets_->Intersect(set, wish);
    if (!sets_->empty(both)) set = both;
  }

  void FindReaders() {
    first_reader_.assign(parent_.size(), -1);
    for (graph::NodeId id : request_.order)
      for (const Edge& edge : graph_.node(id).inputs) {
        const int32_t from = Producer(edge);
        if (from >= 0 && first_reader_[from] < 0) first_reader_[from] = PositionOf(id);
      }
  }

  struct Link {
    Bond bond = Bond::kNone;
    int32_t other = -1;
  };

  const Request& request_;
  const graph::Graph& graph_;
  const graph::NodeMap<int32_t>& position_;
  const Constraints& constraints_;
  DeviceSets* sets_;
  std::set<Edge> fed_;
  std::vector<int32_t> parent_, size_;
  std::vector<Link> bonds_;
  std::unordered_map<std::string, int32_t> classes_;
  std::vector<int> root_sets_;  // by root, once known
  std::vector<int32_t> first_reader_;
  Groups out_;
};

}  // namespace

Result<Groups> FindGroups(const Request& request, const graph::NodeMap<int32_t>& position, const Constraints& constraints,
                          DeviceSets* sets) {
  return Joiner(request, position, constraints, sets).Join();
}

}  // namespace tenon::place
