// SPDX-License-Identifier: Apache-2.0
// Regions grow along the graph. Each node has an age: the number of regions that were left on the longest way to it. A region is of one age, and who reads it from outside is older; so regions
// never depend on each other in a circle, however they grow, and nothing has to be searched.
#include "claiming.h"

#include <algorithm>

#include "tenon/sdk/device/regions.h"

namespace tenon::cpu_codegen {
namespace {

// Has a tile function (ext/draft/tile.h) and is not generated: the host takes it together with its neighbours.
bool IsOnlyTiled(std::string_view op) {
  return sdk::IsOneOf(op, {"Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Atan2", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "Erf", "Erfc", "Erfinv", "Pow", "FloorMod", "TruncateMod", "NextAfter",
                           "Xlog1py", "Lgamma", "Digamma", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift", "Invert"});
}

class Claiming {
 public:
  Claiming(const tenon_graph_cursor& cursor, Level level, int64_t least, const sdk::Claims& claims)
      : cursor_(cursor), level_(level), least_(least), claims_(claims), graph_(cursor), kind_(graph_.size(), Kind::kOther), age_(graph_.size()), parent_(graph_.size(), -1) {}

  void Run(std::span<const int64_t> ids) {
    for (int64_t id : ids) kind_[At(id)] = KindOf(id);
    regions_.resize(graph_.size());
    for (int64_t id = 0; id < static_cast<int64_t>(graph_.size()); ++id) Place(id);
    for (int64_t id = 0; id < static_cast<int64_t>(graph_.size()); ++id) {
      if (parent_[At(id)] != id) continue;
      Region& region = regions_[At(id)];
      if (region.nodes.size() < 2 || region.is_spoiled) continue;
      std::sort(region.nodes.begin(), region.nodes.end());
      claims_.Claim(region.nodes);
    }
  }

 private:
  enum class Kind : uint8_t { kOther, kTiled, kGenerated };
  struct Region {
    std::vector<int64_t> nodes;
    std::vector<int64_t> shape;  // as far as the graph says it; {INT64_MIN} where the rank is not known
    bool is_spoiled = false;     // a node of it is not generated
  };
  static size_t At(int64_t id) { return static_cast<size_t>(id); }

  Kind KindOf(int64_t id) const {
    const std::string_view op = graph_.at(id).op;
    if (IsOnlyTiled(op)) return Kind::kTiled;
    const Function function = FunctionOf(op);
    if (function == Function::kUnknown) return Kind::kOther;
    const auto refuse = [&](uint32_t reason, const std::string& text) {
      claims_.Refuse(id, reason, text);
      return Kind::kTiled;
    };
    const NodeTypes types = TypesOf(cursor_, id);
    if (!IsGenerated(function, types.inputs, types.output, level_)) return refuse(TENON_REFUSE_DTYPE, sdk::Concat(op, " of ", sdk::TypeName(types.inputs.empty() ? types.output : types.inputs[0]), " is not generated"));
    sdk::NodeContext node(&graph_.services(), graph_.at(id).node);
    if (op == "BiasAdd" && node.String("data_format") == "NCHW") return refuse(TENON_REFUSE_OP, "its channels are not the last dim");
    if (function == Function::kCast && node.Bool("Truncate")) return refuse(TENON_REFUSE_OP, "a cast that truncates");
    sdk::Check(node.Finish());
    const std::vector<int64_t> shape = ShapeOf(id);
    if (std::all_of(shape.begin(), shape.end(), [](int64_t dim) { return dim >= 0; }) && sdk::Count(shape) < least_) return refuse(TENON_REFUSE_COST, "so few elements are not worth it");
    return Kind::kGenerated;
  }

  std::vector<int64_t> ShapeOf(int64_t id) const {
    tenon_shape shape = {nullptr, -1, 0};
    sdk::Check(cursor_.output_shape(cursor_.graph, {id, 0, 0}, &shape));
    if (shape.rank < 0) return {INT64_MIN};
    return {shape.dims, shape.dims + shape.rank};
  }

  int64_t Root(int64_t id) {
    while (parent_[At(id)] != id) {
      parent_[At(id)] = parent_[At(parent_[At(id)])];
      id = parent_[At(id)];
    }
    return id;
  }

  void Place(int64_t id) {
    const sdk::RegionGraph::Node& node = graph_.at(id);
    int32_t age = 0;
    for (int64_t source : node.before) age = std::max(age, age_[At(source)]);
    if (kind_[At(id)] == Kind::kOther) {
      for (int64_t source : node.before)
        if (age_[At(source)] == age && parent_[At(source)] >= 0) {
          ++age;
          break;
        }
      age_[At(id)] = age;
      return;
    }
    // All regions of that age that it reads, or none.
    const std::vector<int64_t> shape = ShapeOf(id);
    std::vector<int64_t> joined;
    size_t size = 1;
    bool may = true;
    for (int64_t source : node.before) {
      if (age_[At(source)] != age || parent_[At(source)] < 0) continue;
      const int64_t root = Root(source);
      if (std::find(joined.begin(), joined.end(), root) != joined.end()) continue;
      joined.push_back(root);
      size += regions_[At(root)].nodes.size();
      may = may && graph_.at(source).dead_with == node.dead_with && regions_[At(root)].shape == shape && size <= kMostNodes;
    }
    parent_[At(id)] = id;
    age_[At(id)] = age + (may ? 0 : 1);
    Region& own = regions_[At(id)];
    own.nodes = {id};
    own.shape = shape;
    own.is_spoiled = kind_[At(id)] == Kind::kTiled;
    if (!may) return;
    for (int64_t root : joined) {
      Region& other = regions_[At(root)];
      own.nodes.insert(own.nodes.end(), other.nodes.begin(), other.nodes.end());
      own.is_spoiled = own.is_spoiled || other.is_spoiled;
      other = Region();
      parent_[At(root)] = id;
    }
  }

  const tenon_graph_cursor& cursor_;
  const Level level_;
  const int64_t least_;
  const sdk::Claims& claims_;
  const sdk::RegionGraph graph_;
  std::vector<Kind> kind_;
  std::vector<int32_t> age_;
  std::vector<int64_t> parent_;   // of regions' nodes: towards the one that the region is found by; -1: in none
  std::vector<Region> regions_;  // by that node
};

}  // namespace

NodeTypes TypesOf(const tenon_graph_cursor& cursor, int64_t id) {
  const tenon_node_services& services = *cursor.node_services;
  const tenon_node* node = cursor.node(cursor.graph, id);
  NodeTypes types;
  for (int32_t i = 0, count = services.input_count(node); i < count; ++i) types.inputs.push_back(services.input_dtype(node, i));
  types.output = services.output_dtype(node, 0);
  return types;
}

void ClaimRegions(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, Level level, int64_t least, const sdk::Claims& claims) {
  // Two that follow one another: else the graph is not read.
  const auto is_ours = [&](int64_t id) { return FunctionOf(sdk::ToText(cursor.node_services->op(cursor.node(cursor.graph, id)))) != Function::kUnknown; };
  if (std::count_if(nodes.begin(), nodes.end(), is_ours) >= 2) Claiming(cursor, level, least, claims).Run(nodes);
}

}  // namespace tenon::cpu_codegen
