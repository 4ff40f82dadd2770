// SPDX-License-Identifier: Apache-2.0
// Claiming for a compiler: the graph as regions see it, and regions that grow without ever depending on themselves.
//
//   const RegionGraph graph(cursor);
//   Regions regions(graph);
//   for (int64_t id = 0; ...) wanted(id) ? regions.Place(id, [&](size_t region) { return fits(id, region); })
//       : regions.Pass(id);
//   ... regions.Of(id) ...
//
// Nodes of one region are dead together: with a condition or a loop around, a region does not reach across. Nodes are
// given by id, in rising order: each to Place or Pass once. Failures of the cursor are thrown as in kernel.h. One
// thread; the cursor and the graph outlive both classes. Time grows with nodes times regions.
#ifndef TENON_SDK_DEVICE_REGIONS_H_
#define TENON_SDK_DEVICE_REGIONS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/graph.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

inline bool IsOneOf(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

// A set of small numbers.
class Bits {
 public:
  bool Has(size_t i) const { return i / 64 < words_.size() && (words_[i / 64] >> (i % 64) & 1) != 0; }
  void Add(size_t i) {
    if (i / 64 >= words_.size()) words_.resize(i / 64 + 1);
    words_[i / 64] |= UINT64_C(1) << (i % 64);
  }
  void Add(const Bits& other) {
    if (other.words_.size() > words_.size()) words_.resize(other.words_.size());
    for (size_t w = 0; w < other.words_.size(); ++w) words_[w] |= other.words_[w];
  }
  template <class Function>
  void ForEach(Function&& function) const {
    for (size_t w = 0; w < words_.size(); ++w) {
      for (uint64_t rest = words_[w]; rest != 0; rest &= rest - 1)
        function(w * 64 + static_cast<size_t>(__builtin_ctzll(rest)));
    }
  }

 private:
  std::vector<uint64_t> words_;
};

// The graph with what claiming has to know of its nodes.
class RegionGraph {
 public:
  explicit RegionGraph(const tenon_graph_cursor& cursor) : cursor_(cursor), services_(*cursor.node_services) {
    const int64_t count = cursor.node_count(cursor.graph);
    nodes_.resize(static_cast<size_t>(count));
    for (int64_t id = 0; id < count; ++id) Read(id);
  }

  struct Node {
    const tenon_node* node = nullptr;
    std::string_view op;
    std::vector<tenon_output> inputs;  // of data; back edges too
    std::vector<int64_t> before;       // sources of data and control, without back edges
    int dead_with = 0;  // nodes of one number are dead together
    bool known = false;  // its values follow from shapes and constants
  };
  const Node& at(int64_t id) const { return nodes_[static_cast<size_t>(id)]; }
  size_t size() const { return nodes_.size(); }
  const tenon_node_services& services() const { return services_; }
  std::string_view name(int64_t id) const { return ToText(services_.name(at(id).node)); }

 private:
  void Read(int64_t id) {
    Node& n = nodes_[static_cast<size_t>(id)];
    n.node = cursor_.node(cursor_.graph, id);
    n.op = ToText(services_.op(n.node));
    const int32_t inputs = services_.input_count(n.node);
    for (int32_t i = 0; i < inputs; ++i) {
      tenon_output source = {-1, 0, 0};
      Check(cursor_.input(cursor_.graph, id, i, &source));
      n.inputs.push_back(source);
      if (source.node >= 0 && source.node < id) n.before.push_back(source.node);
    }
    const int32_t controls = cursor_.control_input_count(cursor_.graph, id);
    for (int32_t i = 0; i < controls; ++i) {
      int64_t source = -1;
      Check(cursor_.control_input(cursor_.graph, id, i, &source));
      if (source >= 0 && source < id) n.before.push_back(source);
    }
    n.dead_with = DeadWith(id, n);
    n.known = IsKnown(id, n);
  }

  // Which branches a node hangs on: those of its sources, and of a switch the side; after a merge nothing is known but
  // that merge.
  int DeadWith(int64_t id, const Node& n) {
    std::vector<std::pair<int64_t, int32_t>> hangs_on;
    if (IsOneOf(n.op, {"Merge", "RefMerge"})) {
      hangs_on = {{id, 0}};
    } else {
      const auto add = [&](int64_t source) {
        const auto& more = branches_[static_cast<size_t>(at(source).dead_with)];
        hangs_on.insert(hangs_on.end(), more.begin(), more.end());
      };
      for (int64_t source : n.before) add(source);
      for (const tenon_output& input : n.inputs) {
        if (input.node >= 0 && input.node < id && IsOneOf(at(input.node).op, {"Switch", "RefSwitch"})) {
          hangs_on.emplace_back(input.node, input.index);
        }
      }
      std::sort(hangs_on.begin(), hangs_on.end());
      hangs_on.erase(std::unique(hangs_on.begin(), hangs_on.end()), hangs_on.end());
    }
    const auto [found, is_new] = numbers_.emplace(std::move(hangs_on), static_cast<int>(branches_.size()));
    if (is_new) branches_.push_back(found->first);
    return found->second;
  }
  bool IsKnown(int64_t id, const Node& n) const {
    if (IsOneOf(n.op, {"Const", "Shape", "ShapeN", "Size", "Rank"})) return true;
    if (!IsOneOf(n.op, {"Pack",         "StridedSlice",
                        "Slice",        "ConcatV2",
                        "Cast",         "AddV2",
                        "Add",          "Sub",
                        "Mul",          "FloorDiv",
                        "FloorMod",     "Maximum",
                        "Minimum",      "Prod",
                        "Sum",          "Range",
                        "Fill",         "Gather",
                        "GatherV2",     "Reshape",
                        "ExpandDims",   "Squeeze",
                        "Identity",     "BroadcastGradientArgs",
                        "ConcatOffset", "InvertPermutation",
                        "Split",        "Unpack"})) {
      return false;
    }
    return !n.inputs.empty() && std::all_of(n.inputs.begin(), n.inputs.end(), [&](const tenon_output& input) {
      return input.node >= 0 && input.node < id && at(input.node).known;
    });
  }

  const tenon_graph_cursor& cursor_;
  const tenon_node_services& services_;
  std::vector<Node> nodes_;
  std::map<std::vector<std::pair<int64_t, int32_t>>, int> numbers_;
  std::vector<std::vector<std::pair<int64_t, int32_t>>> branches_;
};

// Regions while they grow. upstream(r): regions that r depends on, however far; of a node outside, those it depends on.
class Regions {
 public:
  explicit Regions(const RegionGraph& graph) : graph_(graph), region_of_(graph.size(), kNone), outside_(graph.size()) {}

  static constexpr size_t kNone = SIZE_MAX;
  // The region's number, which stays until two are joined; kNone: none.
  size_t Of(int64_t id) const {
    const size_t r = region_of_[static_cast<size_t>(id)];
    return r == kNone ? kNone : Root(r);
  }

  // Puts the node into those regions of its sources that fit(region), if that makes no circle, else into a new one.
  template <class Fit>
  void Place(int64_t id, Fit&& fit) {
    const RegionGraph::Node& n = graph_.at(id);
    size_t home = kNone;
    for (const tenon_output& input : n.inputs) {
      if (input.node < 0 || input.node >= id || graph_.at(input.node).dead_with != n.dead_with) continue;
      const size_t r = Of(input.node);
      if (r == kNone || r == home || !MayJoin(n, r) || !fit(r)) continue;
      if (home == kNone) {
        home = r;
      } else if (!upstream_[home].Has(r) && !upstream_[r].Has(home)) {
        home = Unite(home, r);
      }
    }
    if (home == kNone) {
      home = parent_.size();
      parent_.push_back(home);
      upstream_.emplace_back();
    }
    region_of_[static_cast<size_t>(id)] = home;
    Bits above = Above(n, home);
    upstream_[home].Add(above);
    // Who depends on this region depends on what it depends on.
    for (size_t r = 0; r < upstream_.size(); ++r) {
      if (r != home && upstream_[r].Has(home)) upstream_[r].Add(upstream_[home]);
    }
  }
  // A node that is in no region.
  void Pass(int64_t id) { outside_[static_cast<size_t>(id)] = Above(graph_.at(id), kNone); }

 private:
  size_t Root(size_t r) const {
    while (parent_[r] != r) r = parent_[r];
    return r;
  }
  // All regions above the node, `but` excepted where it is a direct source.
  Bits Above(const RegionGraph::Node& n, size_t but) const {
    Bits above;
    for (int64_t source : n.before) {
      const size_t r = Of(source);
      if (r != kNone && r == but) continue;
      if (r != kNone) {
        above.Add(r);
        above.Add(upstream_[r]);
      } else {
        const Bits& direct = outside_[static_cast<size_t>(source)];
        direct.ForEach([&](size_t each) {
          above.Add(Root(each));
          above.Add(upstream_[Root(each)]);
        });
      }
    }
    return above;
  }
  bool MayJoin(const RegionGraph::Node& n, size_t region) const { return !Above(n, region).Has(region); }
  // Of two regions that do not depend on each other.
  size_t Unite(size_t a, size_t b) {
    parent_[b] = a;
    upstream_[a].Add(upstream_[b]);
    for (Bits& bits : upstream_) {
      if (bits.Has(b)) {
        bits.Add(a);
        bits.Add(upstream_[a]);
      } else if (bits.Has(a)) {
        bits.Add(upstream_[a]);
      }
    }
    return a;
  }

  const RegionGraph& graph_;
  std::vector<size_t> region_of_;
  std::vector<Bits> outside_;
  std::vector<size_t> parent_;
  std::vector<Bits> upstream_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_REGIONS_H_
