// SPDX-License-Identifier: Apache-2.0
// Regions grow along the graph. Each node has an age: the number of regions that were left on the longest way to it. A
// region is of one age, and who reads it from outside is older; so regions never depend on each other in a circle,
// however they grow, and nothing has to be searched.
#include "region/claiming.h"

#include <algorithm>
#include <numeric>

#include "emit/row_plan.h"
#include "region/edge_moves.h"
#include "region/node_formula.h"
#include "region/region.h"
#include "tenon/extras/device/regions.h"

namespace tenon::cpu_codegen {
namespace {

class Claiming {
 public:
  Claiming(const tenon_graph_cursor& cursor, Level level, LeastElements least, const sdk::Claims& claims)
      : cursor_(cursor),
        level_(level),
        least_(least),
        claims_(claims),
        graph_(cursor),
        nodes_(graph_.size()),
        regions_(graph_.size()) {}

  void Run(std::span<const int64_t> ids) {
    for (int64_t id : ids) Read(id);
    if (has_edges_) ReadReaders();
    for (int64_t id = 0; id < static_cast<int64_t>(graph_.size()); ++id) Place(id);
    for (int64_t id = 0; id < static_cast<int64_t>(graph_.size()); ++id) {
      if (nodes_[At(id)].parent == id) ClaimRegion(id);
    }
  }

 private:
  // kSmall: generated, but of so few elements that it is not worth it, unless beside the rows that they were reduced
  // from.
  // kTiled: an element-wise node that is not generated, which the host may take together with its neighbours.
  enum class Kind : uint8_t { kOther, kTiled, kSmall, kGenerated, kReduced, kSoftmax, kUpdate, kConcat };
  struct Info {
    Kind kind = Kind::kOther;
    int32_t age = 0;
    int64_t parent = -1;     // towards the node that the region is found by; -1: in none
    size_t reduced = 0;      // trailing dims that it reduces
    size_t leading = 0;      // or leading ones
    size_t size = 1;         // nodes of the program
    bool is_part = false;    // of kind kOther, and may be taken by the region that reads its parts
    bool is_final = false;   // nothing in the region may read it
  };
  struct Region {
    std::vector<int64_t> nodes;
    std::vector<int64_t> shape;  // of elements, as far as the graph says it; {INT64_MIN} where the rank is not known
    size_t reduced = 0;          // trailing dims that are reduced; 0: none yet
    size_t leading = 0;          // leading ones
    size_t size = 0;             // nodes of the program
    bool has_update = false;     // the last node changes variables
    bool is_spoiled = false;     // a node of it is not generated
    bool has_concat = false;     // results of it stand side by side
  };
  static inline const std::vector<int64_t> kAnyRank = {INT64_MIN};
  static size_t At(int64_t id) { return static_cast<size_t>(id); }

  void ClaimRegion(int64_t id) {
    Region& region = regions_[At(id)];
    if (has_edges_ && !region.is_spoiled) TakeEdges(id, &region);
    if (region.nodes.size() >= 2 && !region.is_spoiled) {
      std::sort(region.nodes.begin(), region.nodes.end());
      return claims_.Claim(region.nodes);
    }
    for (int64_t node : region.nodes)
      if (nodes_[At(node)].kind == Kind::kSmall)
        claims_.Refuse(node, TENON_REFUSE_COST, "so few elements are not worth it");
  }

  void Read(int64_t id) {
    const std::string_view op = graph_.at(id).op;
    if (const UpdateOp* const update = UpdateOpOf(op)) return ReadUpdate(id, *update);
    if (const EdgeOp edge = EdgeOpOf(op); edge != EdgeOp::kNone)
      return edge == EdgeOp::kConcat ? ReadConcat(id) : ReadPart(id, edge);
    nodes_[At(id)].kind = ReductionOf(op) != Function::kUnknown || IsSoftmax(op) ? KindOfRows(id) : KindOf(id);
  }
  // Nothing in its region comes after it.
  void ReadUpdate(int64_t id, const UpdateOp& op) {
    if (!IsGeneratedUpdate(op, graph_.services(), graph_.at(id).node, level_) ||
        IsSmall(ShapeOf(graph_.at(id).inputs.at(static_cast<size_t>(op.gradient)))))
      return;
    nodes_[At(id)].kind = Kind::kUpdate;
    nodes_[At(id)].is_final = true;
  }

  // ---- Edges ----

  // A node whose parts lie where constants say it.
  void ReadPart(int64_t id, EdgeOp op) {
    const std::vector<tenon_output>& inputs = graph_.at(id).inputs;
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].node < 0 ||
          (IsArgument(op, graph_.at(id).op, static_cast<int32_t>(i)) && ConstantOf(inputs[i]) == nullptr))
        return;
    nodes_[At(id)].is_part = has_edges_ = true;
  }
  // Elements of a row of the part; -1: it is none, or the graph does not say it.
  int64_t RowAt(const tenon_output& part) const {
    const int64_t row = RowAt(part, 256);
    return row >= kLeastEdgeRow && row == RowAt(part, 192) ? row : -1;
  }
  // Dims that the graph does not know are `some`.
  int64_t RowAt(const tenon_output& part, int64_t some) const {
    const tenon_node_services& services = graph_.services();
    const sdk::RegionGraph::Node& node = graph_.at(part.node);
    std::vector<std::vector<int64_t>> shapes;
    std::vector<tenon_tensor_view> views(node.inputs.size());
    const auto add = [&](const tenon_output& edge) {
      shapes.push_back(ShapeOf(edge));
      if (shapes.back() == kAnyRank) return false;
      std::replace_if(shapes.back().begin(), shapes.back().end(), [](int64_t dim) { return dim < 0; }, some);
      return true;
    };
    bool are_known = std::all_of(node.inputs.begin(), node.inputs.end(), add);
    for (int32_t k = 0; k < services.output_count(node.node); ++k) are_known = add({part.node, k, 0}) && are_known;
    if (!are_known) return -1;
    std::vector<const tenon_tensor_view*> inputs;
    for (size_t i = 0; i < views.size(); ++i) {
      views[i].dtype = services.input_dtype(node.node, static_cast<int32_t>(i));
      views[i].dl.shape = shapes[i].data();
      views[i].dl.ndim = static_cast<int32_t>(shapes[i].size());
      const tenon_tensor_view* const constant = ConstantOf(node.inputs[i]);
      inputs.push_back(constant == nullptr ? &views[i] : constant);
    }
    try {
      return PartOf(EdgeOpOf(node.op), services, node.node, part.index, inputs,
                    {shapes.begin() + static_cast<int64_t>(views.size()), shapes.end()})
          .row;
    } catch (const sdk::KernelError&) {
      return -1;
    }
  }
  // Of a few values of one shape, each of which a node makes that is generated.
  void ReadConcat(int64_t id) {
    const std::vector<tenon_output>& inputs = graph_.at(id).inputs;
    const auto count = static_cast<int64_t>(inputs.size()) - 1;
    if (count < 2 || count > kMostConcatenated || ConstantOf(inputs.back()) == nullptr) return;
    const std::vector<int64_t> shape = ShapeOf(inputs[0]);
    if (shape.empty() || shape == kAnyRank || shape.back() < kLeastEdgeRow || IsSmall(shape)) return;
    for (auto input = inputs.begin(); input != inputs.end() - 1; ++input) {
      const bool is_again =
          std::any_of(inputs.begin(), input, [&](const tenon_output& each) { return each.node == input->node; });
      if (input->node < 0 || input->node >= id || is_again || nodes_[At(input->node)].kind != Kind::kGenerated ||
          ShapeOf(*input) != shape)
        return;
    }
    const int64_t row = RowOfConcatenated(shape, ShapeOf({id, 0, 0}));
    if (row < kLeastEdgeRow) return;
    nodes_[At(id)].kind = Kind::kConcat;
    nodes_[At(id)].is_final = true;
    has_edges_ = true;
  }
  void ReadReaders() {
    readers_.resize(graph_.size());
    for (int64_t id = 0; id < static_cast<int64_t>(graph_.size()); ++id) {
      for (const int64_t source : graph_.at(id).before) readers_[At(source)].push_back(id);
      for (const tenon_output& input : graph_.at(id).inputs)
        if (input.node >= id) readers_[At(input.node)].push_back(id);  // the next turn of a loop
    }
  }
  bool AreReadersIn(int64_t id, int64_t root) {
    return std::all_of(readers_[At(id)].begin(), readers_[At(id)].end(),
                       [&](int64_t reader) { return nodes_[At(reader)].parent >= 0 && Root(reader) == root; });
  }
  // Concatenations of what nobody else reads outside stay; parts that nobody else reads come in. Neither makes a
  // circle: who reads a concatenation is older, and what a part reads is not.
  void TakeEdges(int64_t root, Region* region) {
    if (region->has_concat) {
      std::erase_if(region->nodes, [&](int64_t id) {
        const std::vector<tenon_output>& inputs = graph_.at(id).inputs;
        return nodes_[At(id)].kind == Kind::kConcat &&
               !std::all_of(inputs.begin(), inputs.end() - 1, [&](const tenon_output& input) {
                 return AreReadersIn(input.node, root) && ConcatsOf(input.node) == 1;
               });
      });
    }
    if (region->leading > 0 || region->reduced == region->shape.size()) return;
    std::vector<int64_t> parts;
    for (const int64_t id : region->nodes)
      for (const tenon_output& input : graph_.at(id).inputs)
        if (input.node >= 0 && nodes_[At(input.node)].is_part &&
            std::find(parts.begin(), parts.end(), input.node) == parts.end() && MayTakePart(input, id, root, *region))
          parts.push_back(input.node);
    if (region->nodes.size() + parts.size() > kMostNodes) return;
    region->nodes.insert(region->nodes.end(), parts.begin(), parts.end());
  }
  int64_t ConcatsOf(int64_t id) const {
    return std::count_if(readers_[At(id)].begin(), readers_[At(id)].end(),
                         [&](int64_t reader) { return nodes_[At(reader)].kind == Kind::kConcat; });
  }
  bool MayTakePart(const tenon_output& part, int64_t reader, int64_t root, const Region& region) {
    if (graph_.at(part.node).dead_with != graph_.at(reader).dead_with || !AreReadersIn(part.node, root)) return false;
    const std::vector<int64_t> shape = ShapeOf(part);
    if (shape.empty() || region.shape.empty() || shape.size() > region.shape.size() ||
        shape.back() != region.shape.back() || shape.back() < kLeastEdgeRow || IsSmall(shape))
      return false;
    for (const int64_t other : readers_[At(part.node)])
      for (const tenon_output& input : graph_.at(other).inputs)
        if (input.node == part.node && ShapeOf(input) != shape) return false;
    const int64_t row = RowAt(part);
    if (row < 0 || region.reduced == 0) return row > 0;
    // Its rows are those that are reduced.
    const sdk::Dims reduced = sdk::Dims(region.shape).last(region.reduced);
    return row == std::accumulate(reduced.begin(), reduced.end(), int64_t{1}, std::multiplies<>());
  }

  // ---- Elements and rows ----

  Kind KindOf(int64_t id) {
    constexpr size_t kNodesOfPower = 4;
    const NodeFormula formula(graph_.services(), graph_.at(id).node, level_);
    if (!formula.is_said()) return Kind::kOther;
    const bool is_power = formula.is_power() && IsPower(id);
    if (!is_power && !formula.is_generated()) {
      if (formula.is_of_known()) claims_.Refuse(id, formula.refusal(), formula.why());
      return Kind::kTiled;
    }
    nodes_[At(id)].size = is_power ? kNodesOfPower : formula.nodes().size();
    return IsSmall(ShapeOf({id, 0, 0})) ? Kind::kSmall : Kind::kGenerated;
  }
  // Shapes are a stranger's: their product may be no number.
  bool IsSmall(const std::vector<int64_t>& shape) const { return IsSmallerThan(least_.all, shape); }
  static bool IsSmallerThan(int64_t least, const std::vector<int64_t>& shape) {
    if (std::any_of(shape.begin(), shape.end(), [](int64_t dim) { return dim < 0; })) return false;
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
    int64_t count = 1;
    for (const int64_t dim : shape) {
      if (count > least / dim) return false;
      count *= dim;
    }
    return count < least;
  }

  // Of the last or the first dims alone, as far as the graph says it: axes that are constant, and rows of so many
  // elements that code is worth it.
  Kind KindOfRows(int64_t id) {
    const std::string_view op = graph_.at(id).op;
    const NodeTypes types = TypesOf(graph_.services(), graph_.at(id).node);
    const Function function = ReductionOf(op);
    const bool reduces = function != Function::kUnknown;
    const std::vector<int64_t> shape = ShapeOf(graph_.at(id).inputs.at(0));
    if (reduces ? !IsGeneratedReduction(function, types.inputs.at(0), level_)
                : !IsGenerated(Function::kExp, {types.inputs.at(0)}, types.inputs.at(0), level_))
      return Kind::kOther;
    if (shape.empty() || shape[0] == INT64_MIN || IsSmall(shape)) return Kind::kOther;
    const ReducedDims dims = reduces ? DimsReducedBy(id, shape.size()) : ReducedDims{1, 0};
    if (dims.trailing + dims.leading == 0) return Kind::kOther;
    const bool is_whole = reduces && dims.trailing == shape.size();
    if (dims.leading > 0 && IsSmallerThan(least_.columns, shape)) return Kind::kOther;
    if (!is_whole && !HasRowsFor(shape, dims)) return Kind::kOther;
    sdk::NodeContext node(&graph_.services(), graph_.at(id).node);
    if (IsBiasGradient(op) && node.String("data_format") == "NCHW") return Kind::kOther;
    nodes_[At(id)].is_final = reduces && (is_whole || dims.leading > 0 || !node.Bool("keep_dims"));
    sdk::Check(node.Finish());
    nodes_[At(id)].reduced = dims.trailing;
    nodes_[At(id)].leading = dims.leading;
    return reduces ? Kind::kReduced : Kind::kSoftmax;
  }
  // Rows of as many elements as the graph says, which are worth it.
  static bool HasRowsFor(const std::vector<int64_t>& shape, const ReducedDims& dims) {
    constexpr int64_t kMostColumns = int64_t{1} << 24;
    const int64_t most = dims.leading > 0 ? kMostColumns : kMostReduced;
    const sdk::Dims all(shape), own = dims.leading > 0 ? all.subspan(dims.leading) : all.last(dims.trailing);
    int64_t row = 1;
    for (const int64_t dim : own) {
      if (dim < 0 || dim > most) return false;
      row = std::min(row * dim, most + 1);
    }
    if (row > most || row < (dims.leading > 0 ? 2 : kLeastReduced)) return false;
    return dims.leading == 0 || std::any_of(shape.begin(), shape.begin() + static_cast<int64_t>(dims.leading),
                                            [](int64_t dim) { return dim != 1; });
  }
  // None: they are not constant, or neither the first nor the last ones.
  ReducedDims DimsReducedBy(int64_t id, size_t rank) const {
    if (IsBiasGradient(graph_.at(id).op)) return {0, rank - 1};
    const tenon_tensor_view* const value = ConstantOf(graph_.at(id).inputs.at(1));
    return value == nullptr ? ReducedDims() : DimsOfAxes(*value, rank);
  }
  // A power that products compute.
  bool IsPower(int64_t id) const {
    const NodeTypes types = TypesOf(graph_.services(), graph_.at(id).node);
    const tenon_tensor_view* const value = ConstantOf(graph_.at(id).inputs.at(1));
    return value != nullptr && PowerOf(*value) != 0 &&
           IsGenerated(Function::kReciprocal, {types.output}, types.output, level_);
  }
  const tenon_tensor_view* ConstantOf(const tenon_output& output) const {
    if (output.node < 0 || graph_.at(output.node).op != "Const") return nullptr;
    sdk::NodeContext node(&graph_.services(), graph_.at(output.node).node);
    const tenon_attr_value value = node.Raw("value");
    sdk::Check(node.Finish());
    return value.kind == TENON_ATTR_TENSOR && value.count == 1 ? static_cast<const tenon_tensor_view*>(value.data)
                                                               : nullptr;
  }

  std::vector<int64_t> ShapeOf(const tenon_output& output) const {
    tenon_shape shape = {nullptr, -1, 0};
    sdk::Check(cursor_.output_shape(cursor_.graph, output, &shape));
    if (shape.rank < 0) return {INT64_MIN};
    return {shape.dims, shape.dims + shape.rank};
  }

  int64_t Root(int64_t id) {
    while (nodes_[At(id)].parent != id) {
      nodes_[At(id)].parent = nodes_[At(nodes_[At(id)].parent)].parent;
      id = nodes_[At(id)].parent;
    }
    return id;
  }

  void Place(int64_t id) {
    const sdk::RegionGraph::Node& node = graph_.at(id);
    Info& info = nodes_[At(id)];
    for (int64_t source : node.before) info.age = std::max(info.age, nodes_[At(source)].age);
    const auto is_beside = [&](int64_t source) {
      return nodes_[At(source)].age == info.age && nodes_[At(source)].parent >= 0;
    };
    if (info.kind == Kind::kConcat && !std::all_of(node.inputs.begin(), node.inputs.end() - 1,
                                                   [&](const tenon_output& input) { return is_beside(input.node); }))
      info.kind = Kind::kOther;
    if (info.kind == Kind::kOther) {
      if (std::any_of(node.before.begin(), node.before.end(), is_beside)) ++info.age;
      return;
    }
    // All regions of that age that it reads, or none.
    Region own = Alone(id);
    const std::vector<int64_t> shape = own.shape;
    std::vector<int64_t> joined;
    bool may = true;
    for (int64_t source : node.before) {
      if (!is_beside(source)) continue;
      may = may && !nodes_[At(source)].is_final;
      const int64_t root = Root(source);
      if (std::find(joined.begin(), joined.end(), root) != joined.end()) continue;
      joined.push_back(root);
      may = may && graph_.at(source).dead_with == node.dead_with &&
            MayTake(&own, regions_[At(root)], info.kind, shape, joined.size() == 1);
    }
    if (!may && info.kind == Kind::kConcat) {
      info.kind = Kind::kOther;
      ++info.age;
      return;
    }
    info.parent = id;
    if (!may) {
      ++info.age;
      own = Alone(id);
    }
    regions_[At(id)] = std::move(own);
    if (!may) return;
    for (int64_t root : joined) {
      Region& other = regions_[At(root)];
      regions_[At(id)].nodes.insert(regions_[At(id)].nodes.end(), other.nodes.begin(), other.nodes.end());
      other = Region();
      nodes_[At(root)].parent = id;
    }
  }

  // The region of a node by itself.
  Region Alone(int64_t id) const {
    const Info& info = nodes_[At(id)];
    constexpr size_t kNodesOfSoftmax = 8;
    if (info.kind == Kind::kUpdate)
      return {{id},
              ShapeOf(graph_.at(id).inputs[static_cast<size_t>(UpdateOpOf(graph_.at(id).op)->gradient)]),
              0,
              0,
              kNodesOfUpdate,
              true,
              false,
              false};
    if (info.kind == Kind::kConcat) return {{id}, ShapeOf(graph_.at(id).inputs[0]), 0, 0, 0, false, false, true};
    const bool is_spoiled = info.kind == Kind::kTiled || info.kind == Kind::kSmall;
    const size_t size = info.kind == Kind::kSoftmax ? kNodesOfSoftmax : info.size;
    return {{id},         ShapeOf(info.reduced + info.leading > 0 ? graph_.at(id).inputs[0] : tenon_output{id, 0, 0}),
            info.reduced, info.leading,
            size,         false,
            is_spoiled,   false};
  }
  // Whether the node's region can be one with another, and if so, makes it what both are. shape: of the node, or what
  // it reduces.
  static bool MayTake(Region* own, const Region& other, Kind kind, const std::vector<int64_t>& shape, bool is_first) {
    const bool is_of_row =
        other.shape != shape && (kind == Kind::kGenerated || kind == Kind::kSmall) && RowsOf(other) == shape;
    if (other.shape != shape && !is_of_row) return false;
    if (is_first && is_of_row) {
      own->shape = other.shape;
      own->is_spoiled = false;
    }
    if (own->shape != other.shape || own->size + other.size > kMostNodes) return false;
    if (own->has_update || other.has_update) {
      // One at most, of elements.
      if ((own->has_update && other.has_update) || own->reduced + own->leading + other.reduced + other.leading != 0)
        return false;
      own->has_update = true;
    }
    if (own->reduced != 0 && other.reduced != 0 && own->reduced != other.reduced) return false;
    if (own->leading != 0 && other.leading != 0 && own->leading != other.leading) return false;
    own->has_concat = own->has_concat || other.has_concat;
    if (own->has_concat && own->reduced + own->leading + other.reduced + other.leading != 0) return false;
    own->size += other.size;
    own->reduced = std::max(own->reduced, other.reduced);
    own->leading = std::max(own->leading, other.leading);
    // Rows are what is left of the leading dims.
    if (own->reduced != 0 && own->leading != 0 && own->reduced + own->leading != own->shape.size()) return false;
    own->is_spoiled = own->is_spoiled || other.is_spoiled;
    return own->reduced + own->leading == 0 || !own->is_spoiled;
  }
  // The shape of what has one element for each row; none where there are no rows.
  static std::vector<int64_t> RowsOf(const Region& region) {
    std::vector<int64_t> shape = region.shape;
    if (region.reduced == 0 || region.reduced == shape.size()) return {INT64_MIN, INT64_MIN};
    std::fill(shape.end() - static_cast<int64_t>(region.reduced), shape.end(), 1);
    return shape;
  }

  const tenon_graph_cursor& cursor_;
  const Level level_;
  const LeastElements least_;
  const sdk::Claims& claims_;
  const sdk::RegionGraph graph_;
  std::vector<Info> nodes_;
  bool has_edges_ = false;
  std::vector<std::vector<int64_t>> readers_;  // of nodes, if there are edges
  std::vector<Region> regions_;  // by the node that they are found by
};

}  // namespace

void ClaimRegions(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, Level level, LeastElements least,
                  const sdk::Claims& claims) {
  // Two that follow one another: else the graph is not read.
  const auto is_ours = [&](int64_t id) {
    const tenon_node* const node = cursor.node(cursor.graph, id);
    const std::string_view op = sdk::ToText(cursor.node_services->op(node));
    return NodeFormula::IsSaid(*cursor.node_services, node) || ReductionOf(op) != Function::kUnknown || IsSoftmax(op) ||
           UpdateOpOf(op) != nullptr || EdgeOpOf(op) != EdgeOp::kNone;
  };
  if (std::count_if(nodes.begin(), nodes.end(), is_ours) >= 2) Claiming(cursor, level, least, claims).Run(nodes);
}

}  // namespace tenon::cpu_codegen
