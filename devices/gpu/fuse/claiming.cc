// SPDX-License-Identifier: Apache-2.0
#include "fuse/claiming.h"

#include <algorithm>
#include <map>
#include <string>

#include "fuse/attention.h"
#include "fuse/attention_gradient.h"
#include "fuse/batch_norm.h"
#include "fuse/product.h"
#include "fuse/rows.h"
#include "fuse/source.h"
#include "tenon/extras/device/regions.h"

namespace tenon::gpu {
namespace {

constexpr size_t kMostNodes = 24, kMostNodesOfRows = 32;

struct Refusal {
  uint32_t reason = 0;  // 0: none
  std::string text;
};

bool IsFused(uint32_t dtype) { return !FusedType(dtype).empty(); }
// Integers that are divided by zero are reported by the op's own kernel.
bool MayFail(std::string_view op, uint32_t dtype) {
  return (dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64) &&
         sdk::IsOneOf(op, {"Div", "RealDiv", "FloorDiv", "FloorMod", "TruncateDiv", "Pow"});
}

bool HasChannelsFirst(const tenon_node_services& services, const tenon_node* node) {
  tenon_attr_value format = {};
  sdk::Check(services.attr(node, TENON_SPAN("data_format"), &format));
  return format.kind == TENON_ATTR_STRING && sdk::ToText(*static_cast<const tenon_span*>(format.data)) == "NCHW";
}

Refusal CheckNode(const sdk::RegionGraph& graph, int64_t id) {
  const sdk::RegionGraph::Node& n = graph.at(id);
  if (FusedFunction(n.op).empty())
    return {TENON_REFUSE_OP, sdk::Concat(n.op, " is not element-wise, or is run by its own kernel")};
  const tenon_node_services& services = graph.services();
  const auto inputs = static_cast<int32_t>(n.inputs.size());
  for (int32_t i = 0; i < inputs; ++i) {
    if (!IsFused(services.input_dtype(n.node, i)))
      return {TENON_REFUSE_DTYPE,
              sdk::Concat("chains of ", sdk::TypeName(services.input_dtype(n.node, i)), " are not compiled")};
  }
  if (!IsFused(services.output_dtype(n.node, 0)))
    return {TENON_REFUSE_DTYPE,
            sdk::Concat("chains of ", sdk::TypeName(services.output_dtype(n.node, 0)), " are not compiled")};
  if (MayFail(n.op, services.output_dtype(n.node, 0)))
    return {TENON_REFUSE_OP, sdk::Concat(n.op, " of integers may have no answer")};
  if (n.op == "BiasAdd" && HasChannelsFirst(services, n.node))
    return {TENON_REFUSE_OP, "its channels are not the last dim"};
  if (n.op == "Cast") {
    tenon_attr_value truncate = {};
    sdk::Check(services.attr(n.node, TENON_SPAN("Truncate"), &truncate));
    if (truncate.kind == TENON_ATTR_BOOL && *static_cast<const uint8_t*>(truncate.data) != 0)
      return {TENON_REFUSE_OP, "a cast that truncates"};
  }
  return {};
}

// The shape as far as the graph says it; nothing where the rank is unknown.
std::vector<int64_t> ShapeOf(const tenon_graph_cursor& cursor, const tenon_output& output) {
  if (output.node < 0) return {INT64_MIN};
  tenon_shape shape = {nullptr, -1, 0};
  sdk::Check(cursor.output_shape(cursor.graph, output, &shape));
  if (shape.rank < 0) return {INT64_MIN};
  return {shape.dims, shape.dims + shape.rank};
}

// Claiming, for one graph.
class Claiming {
 public:
  Claiming(const tenon_graph_cursor& cursor, std::span<const int64_t> ids, const sdk::Claims& claims)
      : cursor_(cursor),
        graph_(cursor),
        claims_(claims),
        regions_(graph_),
        ours_(graph_.size()),
        whole_of_(graph_.size(), -1) {
    for (int64_t id : ids) ours_[static_cast<size_t>(id)] = true;
    const std::vector<int> readers = ReadersOf(graph_);
    for (int64_t id = 0; id < size(); ++id) {
      if (!ours_[static_cast<size_t>(id)]) continue;
      std::vector<int64_t> end = EndOfProduct(cursor_, graph_, readers, ours_, id);
      if (end.empty()) end = EndOfBatchNorm(graph_, readers, ours_, id);
      // A sum may end two of them: it ends the first.
      if (end.empty() || whole_of_[static_cast<size_t>(end.front())] >= 0) continue;
      end.push_back(id);
      MakeWhole(id, end);
    }
    FindAttentions();
  }

  void Run() {
    for (int64_t id = 0; id < size(); ++id) Place(id);
    for (auto& [number, region] : members_) {
      std::sort(region.nodes.begin(), region.nodes.end());
      if (region.nodes.size() >= 2) {
        claims_.Claim(region.nodes);
      } else {
        for (int64_t id : region.nodes) Refuse(id, {TENON_REFUSE_COST, "it stands alone: nothing is saved"});
      }
    }
  }

 private:
  // One that will be one launch.
  struct Region {
    std::vector<int64_t> nodes;
    int64_t whole = -1;          // the product, normalisation or attention that it is; -1: a chain
    std::vector<int64_t> shape;  // of a chain's elements
    bool of_rows = false;        // with sums along its rows
  };
  int64_t size() const { return static_cast<int64_t>(graph_.size()); }
  void FindAttentions() {
    ReaderLists readers;  // of graphs that have a Softmax
    for (int64_t id = 0; id < size(); ++id) {
      if (!ours_[static_cast<size_t>(id)] || graph_.at(id).op != "Softmax") continue;
      if (readers.empty()) readers = ListReaders(graph_);
      std::vector<int64_t> all = NodesOfAttention(cursor_, graph_, readers, ours_, id);
      if (all.empty()) all = NodesOfAttentionGradient(cursor_, graph_, readers, ours_, id);
      // One of a mask's sums may end a normalisation.
      if (std::all_of(all.begin(), all.end(), [&](int64_t each) { return whole_of_[static_cast<size_t>(each)] < 0; }))
        MakeWhole(id, all);
    }
  }
  void MakeWhole(int64_t number, const std::vector<int64_t>& nodes) {
    for (int64_t each : nodes) whole_of_[static_cast<size_t>(each)] = number;
  }
  void Refuse(int64_t id, const Refusal& why) const { claims_.Refuse(id, why.reason, why.text); }

  // The node as a region of its own.
  Refusal Begin(int64_t id, Region* out) const {
    const auto at = static_cast<size_t>(id);
    if (!ours_[at]) return {TENON_REFUSE_OTHER, ""};
    *out = {{id}, whole_of_[at], {}, false};
    if (out->whole >= 0) return {};
    if (!IsOpOfRows(graph_.at(id).op)) {
      out->shape = ShapeOf(cursor_, {id, 0, 0});
      return CheckNode(graph_, id);
    }
    out->of_rows = true;
    out->shape = ShapeOf(cursor_, graph_.at(id).inputs[0]);
    const std::string why = WhyNotOfRows(cursor_, id, out->shape);
    return why.empty() ? Refusal() : Refusal{TENON_REFUSE_OP, sdk::Concat("it is no part of a chain: ", why)};
  }

  // Whether the node, which is `one`, may stand in the region.
  static bool Fits(const Region& one, const Region& region) {
    if (one.whole != region.whole || one.whole >= 0) return one.whole == region.whole;
    return one.shape == region.shape || (region.of_rows && !one.of_rows && IsShapeOfOnes(one.shape, region.shape));
  }

  void Place(int64_t id) {
    Region all;
    const Refusal refusal = Begin(id, &all);
    if (refusal.reason != 0) {
      regions_.Pass(id);
      if (ours_[static_cast<size_t>(id)]) Refuse(id, refusal);
      return;
    }
    std::vector<size_t> joined;
    size_t size = 1;
    regions_.Place(id, [&](size_t number) {
      const Region& other = members_[number];
      if (!Fits(all, other) || (!joined.empty() && members_[joined.front()].shape != other.shape)) return false;
      if (all.whole < 0 && size + other.nodes.size() > (all.of_rows || other.of_rows ? kMostNodesOfRows : kMostNodes))
        return false;
      size += other.nodes.size();
      joined.push_back(number);
      return true;
    });
    for (size_t number : joined) {
      Region& other = members_[number];
      if (regions_.Of(other.nodes.front()) != regions_.Of(id)) continue;  // it would have made a circle
      all.nodes.insert(all.nodes.end(), other.nodes.begin(), other.nodes.end());
      all.shape = other.shape;
      all.of_rows = all.of_rows || other.of_rows;
      members_.erase(number);
    }
    members_[regions_.Of(id)] = std::move(all);
  }

  const tenon_graph_cursor& cursor_;
  const sdk::RegionGraph graph_;
  const sdk::Claims& claims_;
  sdk::Regions regions_;
  std::vector<bool> ours_;
  std::vector<int64_t> whole_of_;  // the product, normalisation or attention that a node is part of; -1: none
  std::map<size_t, Region> members_;  // by the numbers of regions
};

}  // namespace

void ClaimNodes(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, const sdk::Claims& claims) {
  Claiming(cursor, nodes, claims).Run();
}

}  // namespace tenon::gpu
