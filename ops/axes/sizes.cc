// SPDX-License-Identifier: Apache-2.0
#include "sizes.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string_view>

namespace tenon::ops {

using sdk::NodeContext;
using sdk::Output;
using sdk::Shape;

namespace {

// What an output's shape comes from. Of other ops than those below, what they say of themselves says it.
enum class Rule {
  kNone,         // it is known for its elements, or to be looked at
  kSame,         // its first input's of which elements are taken
  kBroadcast,    // what those inputs broadcast to
  kMatMul,
  kBatchMatMul,
  kReshape,
  kTranspose,
  kReduction,
  kGather,       // with an axis
  kGatherRows,
  kEinsum,
  kImages,       // the batch is input 0's, the rest as the graph says
  kElements,     // input 0's elements
  kSecondElements,
};
struct Known {
  std::string_view op;
  Rule rule;
};
constexpr Known kKnown[] = {
    {"BroadcastGradientArgs", Rule::kNone}, {"Shape", Rule::kNone}, {"ShapeN", Rule::kNone}, {"Pack", Rule::kNone},
    {"StridedSlice", Rule::kNone}, {"ConcatV2", Rule::kNone}, {"Const", Rule::kNone}, {"Identity", Rule::kSame},
    {"StopGradient", Rule::kSame}, {"PreventGradient", Rule::kSame}, {"MatMul", Rule::kMatMul},
    {"BatchMatMul", Rule::kBatchMatMul}, {"BatchMatMulV2", Rule::kBatchMatMul},
    {"BatchMatMulV3", Rule::kBatchMatMul}, {"Einsum", Rule::kEinsum}, {"Reshape", Rule::kReshape},
    {"Transpose", Rule::kTranspose}, {"GatherV2", Rule::kGather}, {"Gather", Rule::kGatherRows},
    {"ResourceGather", Rule::kGatherRows}, {"Conv2D", Rule::kImages}, {"DepthwiseConv2dNative", Rule::kImages},
    {"MaxPool", Rule::kImages}, {"AvgPool", Rule::kImages}, {"Fill", Rule::kElements},
    {"RandomUniform", Rule::kElements}, {"RandomStandardNormal", Rule::kElements},
    {"StatelessRandomUniform", Rule::kElements}, {"StatelessRandomUniformV2", Rule::kElements},
    {"BroadcastTo", Rule::kSecondElements},
};
constexpr uint64_t kTellingProperties = TENON_PROPERTY_ELEMENTWISE | TENON_PROPERTY_NORMALIZES | TENON_PROPERTY_REDUCES;

const Known* FindKnown(std::string_view op) {
  const auto* const found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& known) { return known.op == op; });
  return found == std::end(kKnown) ? nullptr : found;
}
bool IsKnown(const NodeContext& c) {
  return FindKnown(c.op()) != nullptr || (c.Properties().flags & kTellingProperties) != 0;
}

Rule RuleOf(std::string_view op, const tenon_node_properties& said) {
  if (const Known* const known = FindKnown(op)) return known->rule;
  if ((said.flags & TENON_PROPERTY_REDUCES) != 0) return said.axes_input >= 0 ? Rule::kReduction : Rule::kNone;
  if ((said.flags & kTellingProperties) == 0 || said.elements == 0) return Rule::kNone;
  return (said.flags & TENON_PROPERTY_BROADCASTS) != 0 ? Rule::kBroadcast : Rule::kSame;
}

// Inputs past the last bit have that one's.
bool IsElements(const tenon_node_properties& said, int input) {
  return (said.elements >> std::min(input, 63) & 1) != 0;
}

// Whose outputs are not there in some steps, or there more than once.
bool Steers(std::string_view op) {
  return op.find("Switch") != op.npos || op == "Merge" || op == "RefMerge" || op == "Enter" || op == "RefEnter" ||
         op == "Exit" || op == "RefExit" || op == "NextIteration" || op == "RefNextIteration";
}

std::optional<Dims> Joined(Dims first, std::span<const Dim> second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// Smaller types cut sizes off.
bool HoldsSizes(uint32_t dtype) { return dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64; }

constexpr size_t kMostElements = 32;  // that are kept of a tensor

}  // namespace

Sizes::Sizes(sdk::PassContext& p) : p_(p), ops_(static_cast<size_t>(p.node_count())), is_straight_(ops_.size(), true) {
  for (int64_t id = 0; id < static_cast<int64_t>(ops_.size()); ++id) Read(id);
}

void Sizes::Read(int64_t id) {
  p_.With(id, [&](NodeContext& c) {
    const bool is_known = IsKnown(c);
    if (is_known && p_.Runs(id)) ops_[static_cast<size_t>(id)] = c.op();
    bool straight = !Steers(c.op()) && (!OpOf(id).empty() || !is_known);
    const auto look = [&](int64_t source) {
      straight = straight && (source < 0 || (source < id && IsStraight(source)));
    };
    for (int i = 0; i < c.input_count(); ++i) look(p_.input(id, i).node);
    for (int i = 0; i < p_.control_input_count(id); ++i) look(p_.control_input(id, i));
    is_straight_[static_cast<size_t>(id)] = straight;
    if (!straight || OpOf(id).empty()) return;
    const std::vector<Facts> facts = ByOp(id, c);
    for (size_t i = 0; i < facts.size(); ++i) facts_.emplace(std::pair(id, static_cast<int32_t>(i)), facts[i]);
  });
}

const Sizes::Facts& Sizes::Of(Output edge) {
  static const Facts nothing;
  if (edge.node < 0 || !p_.ok()) return nothing;
  const auto found = facts_.find({edge.node, edge.index});
  return found != facts_.end() ? found->second
                               : facts_.emplace(std::pair(edge.node, edge.index), Unknown(edge)).first->second;
}

// As the graph says.
Sizes::Facts Sizes::Unknown(Output edge) {
  Facts facts;
  const Shape shape = p_.shape(edge);
  if (!shape.known_rank()) return facts;
  facts.shape.emplace();
  for (const int64_t dim : shape.dims()) facts.shape->push_back(dim >= 0 ? Dim(dim) : Dim::Named(names_++));
  const auto numbers = shape.rank() <= 1 ? p_.Integers(edge) : std::nullopt;
  if (numbers.has_value() && numbers->size() <= kMostElements) facts.elements = Dims(numbers->begin(), numbers->end());
  return facts;
}

std::vector<Sizes::Facts> Sizes::ByOp(int64_t id, NodeContext& c) {
  std::vector<Facts> all;
  const bool is_shapes = c.op() == "ShapeN";
  for (int32_t i = 0; i < (is_shapes ? c.output_count() : 1); ++i) {
    Facts facts = Unknown({id, i, 0});
    if (std::optional<Dims> shape = ShapeByOp(id, c); shape.has_value() && i == 0) {
      const bool fits = facts.shape.has_value() && facts.shape->size() == shape->size();
      for (size_t d = 0; fits && d < shape->size(); ++d) {
        if (!(*facts.shape)[d].is_number()) (*facts.shape)[d] = (*shape)[d];
      }
      if (!facts.shape.has_value()) facts.shape = std::move(shape);
    }
    if (!facts.elements.has_value()) facts.elements = is_shapes ? ShapeOfInput(id, i) : ElementsByOp(id, c);
    // Of a matrix nothing is said: whoever takes rows or sums of it would take elements.
    const bool is_list = facts.shape.has_value() && facts.shape->size() <= 1;
    if (facts.elements.has_value() && (!is_list || facts.elements->size() > kMostElements)) facts.elements.reset();
    all.push_back(std::move(facts));
  }
  return all;
}

std::optional<Dims> Sizes::ShapeByOp(int64_t id, NodeContext& c) {
  const tenon_node_properties said = c.Properties();
  const int first = said.elements == 0 ? 0 : std::countr_zero(said.elements);
  switch (RuleOf(c.op(), said)) {
    case Rule::kSame: return ShapeOfInput(id, first);
    case Rule::kBroadcast: {
      std::optional<Dims> all = ShapeOfInput(id, first);
      for (int i = first + 1; i < c.input_count() && all.has_value(); ++i) {
        if (!IsElements(said, i)) continue;
        const std::optional<Dims> next = ShapeOfInput(id, i);
        all = next.has_value() ? Broadcast(*all, *next) : std::nullopt;
      }
      return all;
    }
    case Rule::kMatMul: return OfProduct(id, c.Bool("transpose_a"), c.Bool("transpose_b"));
    case Rule::kBatchMatMul: return OfProduct(id, c.Bool("adj_x"), c.Bool("adj_y"));
    case Rule::kReshape: return OfReshape(id);
    case Rule::kTranspose: return OfTranspose(id);
    case Rule::kReduction:
      return OfReduction(id, first, said.axes_input,
                         said.keep_dims_attr.size != 0 && c.Bool(sdk::ToText(said.keep_dims_attr)));
    case Rule::kGather: return c.Int("batch_dims") == 0 ? OfGather(id, true) : std::nullopt;
    case Rule::kGatherRows: return OfGather(id, false);
    case Rule::kEinsum: return OfEinsum(id, c.String("equation"), c.input_count());
    case Rule::kImages: return OfImages(id);
    case Rule::kElements: return ElementsOfInput(id, 0);
    case Rule::kSecondElements: return ElementsOfInput(id, 1);
    case Rule::kNone: return {};
  }
  return {};
}

std::optional<Dims> Sizes::ElementsByOp(int64_t id, NodeContext& c) {
  const std::string_view op = c.op();
  if (op == "Shape") return ShapeOfInput(id, 0);
  if (op == "Identity" || op == "Cast" || op == "Reshape")
    return HoldsSizes(c.input_type(0)) && HoldsSizes(c.output_type(0)) ? ElementsOfInput(id, 0) : std::nullopt;
  if (op == "StridedSlice") return ElementsOfSlice(id, c);
  if (op == "Pack" || op == "ConcatV2") {
    Dims all;
    const int count = c.input_count() - (op == "Pack" ? 0 : 1);
    for (int i = 0; i < count; ++i) {
      const std::optional<Dims> shape = ShapeOfInput(id, i), part = ElementsOfInput(id, i);
      if (!part.has_value() || !shape.has_value() || shape->size() != (op == "Pack" ? 0u : 1u)) return {};
      all.insert(all.end(), part->begin(), part->end());
    }
    return all;
  }
  if ((op == "Prod" || op == "Mul") && HoldsSizes(c.output_type(0))) {
    const std::optional<Dims> first = ElementsOfInput(id, 0), second = ElementsOfInput(id, 1);
    if (!first.has_value() || !second.has_value()) return {};
    // Of a vector along its one axis, or of two numbers.
    if (op == "Prod" ? second->size() != 1 : first->size() != 1 || second->size() != 1) return {};
    const std::optional<Dim> product = op == "Prod" ? Product(*first) : Dim::Product((*first)[0], (*second)[0]);
    return product.has_value() ? std::optional<Dims>({*product}) : std::nullopt;
  }
  if (op == "GatherV2" || op == "Gather") {
    const std::optional<Dims> from = ElementsOfInput(id, 0);
    const auto places = NumbersOfInput(id, 1);
    if (!from.has_value() || !places.has_value()) return {};
    Dims taken;
    for (const int64_t place : *places) {
      if (place < 0 || place >= static_cast<int64_t>(from->size())) return {};
      taken.push_back((*from)[static_cast<size_t>(place)]);
    }
    return taken;
  }
  return {};
}

std::optional<std::vector<int64_t>> Sizes::NumbersOfInput(int64_t id, int index) {
  const std::optional<Dims> elements = ElementsOfInput(id, index);
  if (!elements.has_value() ||
      !std::all_of(elements->begin(), elements->end(), [](const Dim& dim) { return dim.is_number(); }))
    return {};
  std::vector<int64_t> numbers;
  for (const Dim& dim : *elements) numbers.push_back(dim.number());
  return numbers;
}

std::optional<Dims> Sizes::OfProduct(int64_t id, bool turned_x, bool turned_y) {
  const std::optional<Dims> x = ShapeOfInput(id, 0), y = ShapeOfInput(id, 1);
  if (!x.has_value() || !y.has_value() || x->size() < 2 || y->size() < 2) return {};
  const std::optional<Dims> batch = Broadcast(Dims(x->begin(), x->end() - 2), Dims(y->begin(), y->end() - 2));
  if (!batch.has_value()) return {};
  return Joined(*batch, Dims{(*x)[x->size() - (turned_x ? 1 : 2)], (*y)[y->size() - (turned_y ? 2 : 1)]});
}

std::optional<Dims> Sizes::OfReshape(int64_t id) {
  const std::optional<Dims> from = ShapeOfInput(id, 0);
  std::optional<Dims> to = ElementsOfInput(id, 1);
  if (!to.has_value()) return {};
  const auto left = std::find(to->begin(), to->end(), Dim(-1));
  if (left == to->end()) return to;
  *left = Dim(1);
  const std::optional<Dim> all = from.has_value() ? Product(*from) : std::nullopt, rest = Product(*to);
  const std::optional<Dim> size = all.has_value() && rest.has_value() ? Dim::Quotient(*all, *rest) : std::nullopt;
  if (!size.has_value()) return {};
  *left = *size;
  return to;
}

std::optional<Dims> Sizes::OfTranspose(int64_t id) {
  const std::optional<Dims> from = ShapeOfInput(id, 0);
  const auto order = NumbersOfInput(id, 1);
  if (!from.has_value() || !order.has_value() || order->size() != from->size()) return {};
  Dims turned;
  for (int64_t axis : *order) {
    if (axis < 0) axis += static_cast<int64_t>(from->size());
    if (axis < 0 || axis >= static_cast<int64_t>(from->size())) return {};
    turned.push_back((*from)[static_cast<size_t>(axis)]);
  }
  return turned;
}

std::optional<Dims> Sizes::OfReduction(int64_t id, int input, int axes_input, bool keeps) {
  const std::optional<Dims> from = ShapeOfInput(id, input);
  const auto axes = NumbersOfInput(id, axes_input);
  if (!from.has_value() || !axes.has_value()) return {};
  const auto rank = static_cast<int64_t>(from->size());
  std::vector<bool> summed(from->size(), false);
  for (const int64_t axis : *axes) {
    if (axis < -rank || axis >= rank) return {};
    summed[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  }
  Dims left;
  for (size_t d = 0; d < from->size(); ++d) {
    if (!summed[d]) left.push_back((*from)[d]);
    else if (keeps) left.push_back(1);
  }
  return left;
}

std::optional<Dims> Sizes::OfGather(int64_t id, bool has_axis) {
  const std::optional<Dims> places = ShapeOfInput(id, 1);
  const std::optional<Dims> from = ShapeOfInput(id, 0);
  if (!places.has_value()) return {};
  if (has_axis && NumbersOfInput(id, 2) != std::vector<int64_t>{0}) return {};
  // Of a variable's rows the graph knows the rest.
  const std::optional<Dims> whole = Unknown({id, 0, 0}).shape;
  if (!whole.has_value() || whole->size() < places->size() || (has_axis && (!from.has_value() || from->empty())))
    return {};
  return Joined(*places, has_axis ? std::span(*from).subspan(1) : std::span(*whole).subspan(places->size()));
}

std::optional<Dims> Sizes::OfEinsum(int64_t id, std::string_view equation, int operands) {
  const size_t arrow = equation.find("->");
  if (arrow == equation.npos || equation.find('.') != equation.npos || equation.find(' ') != equation.npos) return {};
  std::map<char, Dim> sizes;
  std::string_view left = equation.substr(0, arrow);
  for (int i = 0; i < operands; ++i) {
    const std::string_view labels = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), labels.size() + 1));
    const std::optional<Dims> shape = ShapeOfInput(id, i);
    if (!shape.has_value() || shape->size() != labels.size()) return {};
    for (size_t d = 0; d < labels.size(); ++d) {
      // What has one label has one size; a number says more than a name.
      const auto [known, is_new] = sizes.emplace(labels[d], (*shape)[d]);
      if (!is_new && !known->second.is_number()) known->second = (*shape)[d].is_number() ? (*shape)[d] : known->second;
    }
  }
  Dims out;
  for (const char label : equation.substr(arrow + 2)) {
    const auto found = sizes.find(label);
    if (found == sizes.end()) return {};
    out.push_back(found->second);
  }
  return out;
}

std::optional<Dims> Sizes::OfImages(int64_t id) {
  const std::optional<Dims> images = ShapeOfInput(id, 0);
  std::optional<Dims> out = Unknown({id, 0, 0}).shape;
  if (!images.has_value() || images->empty() || !out.has_value() || out->empty()) return {};
  (*out)[0] = (*images)[0];
  return out;
}

std::optional<Dims> Sizes::ElementsOfSlice(int64_t id, NodeContext& c) {
  const std::optional<Dims> from = ElementsOfInput(id, 0), shape = ShapeOfInput(id, 0);
  const auto begin = NumbersOfInput(id, 1), end = NumbersOfInput(id, 2), stride = NumbersOfInput(id, 3);
  if (!from.has_value() || !shape.has_value() || shape->size() != 1 || !begin.has_value() || !end.has_value() ||
      !stride.has_value())
    return {};
  if (begin->size() != 1 || end->size() != 1 || *stride != std::vector<int64_t>{1}) return {};
  if (c.Int("ellipsis_mask") != 0 || c.Int("new_axis_mask") != 0) return {};
  const auto count = static_cast<int64_t>(from->size());
  const auto at = [count](int64_t place) { return std::clamp<int64_t>(place < 0 ? place + count : place, 0, count); };
  const int64_t first = (c.Int("begin_mask") & 1) != 0 ? 0 : at((*begin)[0]);
  const bool is_one = (c.Int("shrink_axis_mask") & 1) != 0;
  if (is_one && ((*begin)[0] < -count || (*begin)[0] >= count)) return {};
  const int64_t last = is_one ? first + 1 : std::max(first, (c.Int("end_mask") & 1) != 0 ? count : at((*end)[0]));
  if (last > count) return {};
  return Dims(from->begin() + first, from->begin() + last);
}

}  // namespace tenon::ops
