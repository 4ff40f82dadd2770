// SPDX-License-Identifier: Apache-2.0
#include "core/graph/shape_inference.h"

#include <algorithm>
#include <deque>

#include "core/base/checked.h"
#include "core/base/plugin_call.h"
#include "core/graph/constraint.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"

// What a shape function's context points at.
struct tenon_shape_context {
  const tenon::graph::Node* node;
  const std::vector<const tenon::graph::OutputFacts*>* inputs;
  std::vector<tenon::graph::OutputFacts>* outputs;
  tenon::graph::ShapeInference::Naming naming;
  std::deque<tenon::Shape> scratch;  // shapes lent to the shape function
  bool used_values = false;

  // Whether it is given names, and may say some.
  bool has_names() const { return naming.names != nullptr && node->op->knows_dim_names; }
};

namespace tenon::graph {
namespace {

const OutputFacts& UnknownFacts() {
  static const OutputFacts facts;
  return facts;
}

const OutputFacts* Input(tenon_shape_context* context, int32_t index) {
  if (!Within(index, context->inputs->size())) return nullptr;
  return (*context->inputs)[index];
}

tenon_status* BadIndex(tenon_shape_context* context, const char* what, int32_t index) {
  return Internal(StrCat("the shape function of ", context->node->Describe(), " asked for ", what, " ", index,
                         ", which does not exist"))
      .release();
}

const tenon_node* ContextNode(tenon_shape_context* context) { return context->node; }

tenon_shape InputShape(tenon_shape_context* context, int32_t index) {
  const OutputFacts* facts = Input(context, index);
  if (facts == nullptr) return {nullptr, -1, 0};
  return context->has_names() ? context->naming.known->named_shape(context->node->inputs[index]).c()
                              : facts->shape.c();
}

tenon_status* InputValue(tenon_shape_context* context, int32_t index, tenon_tensor_view* out_value) {
  const OutputFacts* facts = Input(context, index);
  if (facts == nullptr) return BadIndex(context, "input", index);
  context->used_values = true;
  *out_value = facts->value.has_value() ? facts->value.view() : tenon_tensor_view{};
  return nullptr;
}

// Without the names, for who does not know them.
Shape WithoutNames(Shape shape) {
  for (int64_t& dim : shape.dims()) dim = std::max<int64_t>(dim, -1);
  return shape;
}

// The sizes that an input holds, as far as some are known; nullptr: none is.
const Shape* SizesIn(tenon_shape_context* context, int32_t index) {
  if (context->naming.known == nullptr) return nullptr;
  const Shape& sizes = context->naming.known->elements(context->node->inputs[index]);
  if (!sizes.known_rank()) return nullptr;
  return context->has_names() ? &sizes : &context->scratch.emplace_back(WithoutNames(sizes));
}

tenon_status* InputElements(tenon_shape_context* context, int32_t index, tenon_shape* out_elements) {
  if (Input(context, index) == nullptr) return BadIndex(context, "input", index);
  const Shape* const sizes = SizesIn(context, index);
  *out_elements = sizes == nullptr ? tenon_shape{nullptr, -1, 0} : sizes->c();
  return nullptr;
}

tenon_status* InputValueAsShape(tenon_shape_context* context, int32_t index, tenon_shape* out_shape) {
  const OutputFacts* facts = Input(context, index);
  if (facts == nullptr) return BadIndex(context, "input", index);
  context->used_values = true;
  Shape& shape = context->scratch.emplace_back(Shape::Unknown());
  if (facts->value.has_value()) {
    const tenon_tensor_view view = facts->value.view();
    if (view.dtype != TENON_DT_INT32 && view.dtype != TENON_DT_INT64)
      return InvalidArgument(StrCat("input ", index, " must be an int32 or int64 shape, found ", TypeName(view.dtype)))
          .release();
    // A scalar -1 is how TensorFlow writes an unknown shape.
    if (view.dl.ndim == 1 || (view.dl.ndim == 0 && IntegerAt(view, 0) >= 0)) {
      std::vector<int64_t> dims;
      for (int64_t i = 0; i < NumElements(view); ++i) {
        const int64_t dim = IntegerAt(view, i);
        if (dim < -1) return InvalidArgument(StrCat("input ", index, " is a shape with the dim ", dim)).release();
        dims.push_back(dim);
      }
      shape = Shape(std::move(dims));
    }
  } else if (const Shape* const sizes = SizesIn(context, index)) {
    shape = *sizes;
  } else if (facts->shape.rank() == 1 && facts->shape.dim(0) >= 0) {
    if (facts->shape.dim(0) > TENON_MAX_RANK)
      return InvalidArgument(StrCat("input ", index, " is a shape of ", facts->shape.dim(0), " dims; at most ",
                                    TENON_MAX_RANK, " are allowed")).release();
    shape = Shape(std::vector<int64_t>(static_cast<size_t>(facts->shape.dim(0)), -1));
  }
  *out_shape = shape.c();
  return nullptr;
}

tenon_status* CheckDims(tenon_shape_context* context, const char* service, tenon_shape shape) {
  if (shape.rank <= 0 || shape.dims != nullptr) return nullptr;
  return Internal(StrCat(DescribePlugin(context->node->op->package), ": its shape() called ", service,
                         " with dims NULL and rank ", shape.rank))
      .release();
}

bool HoldsNames(const Shape& shape) {
  return std::any_of(shape.dims().begin(), shape.dims().end(), [](int64_t dim) { return dim <= TENON_DIM_NAMES; });
}

// nullptr: each name is one that the context has.
tenon_status* CheckNames(tenon_shape_context* context, const char* service, int32_t index, const Shape& shape) {
  for (const int64_t dim : shape.dims())
    if (dim <= TENON_DIM_NAMES && !(context->has_names() && context->naming.names->Has(dim)))
      return Internal(StrCat(DescribePlugin(context->node->op->package), ": its shape() called ", service,
                             " for output ", index, " with the dim ", dim,
                             ", which is neither a size nor the name of one that it was given; with a dim that may be "
                             "unknown it computes by dim_sum, dim_product and dim_quotient alone"))
          .release();
  return nullptr;
}

// Of a context that has names.
NamedFacts& NamedOutput(tenon_shape_context* context, int32_t index) {
  context->naming.outputs->resize(context->outputs->size());
  return (*context->naming.outputs)[static_cast<size_t>(index)];
}

DimNames& NamesOf(tenon_shape_context* context) {
  static thread_local DimNames none;
  return context->has_names() ? *context->naming.names : none;
}

tenon_status* SetOutputShape(tenon_shape_context* context, int32_t index, tenon_shape shape) {
  if (!Within(index, context->outputs->size())) return BadIndex(context, "output", index);
  if (tenon_status* bad = CheckDims(context, "set_output_shape", shape)) return bad;
  Shape set(shape);
  if (HoldsNames(set)) {
    if (tenon_status* bad = CheckNames(context, "set_output_shape", index, set)) return bad;
    NamedOutput(context, index).shape = set;
    set = WithoutNames(std::move(set));
  } else if (context->has_names() && Within(index, context->naming.outputs->size())) {
    NamedOutput(context, index).shape = Shape::Unknown();
  }
  if (Status status = set.Validate(); !status.ok()) return status.release();
  (*context->outputs)[index].shape = std::move(set);
  return nullptr;
}

tenon_status* SetOutputElements(tenon_shape_context* context, int32_t index, tenon_shape elements) {
  if (!Within(index, context->outputs->size())) return BadIndex(context, "output", index);
  if (tenon_status* bad = CheckDims(context, "set_output_elements", elements)) return bad;
  Shape set(elements);
  if (HoldsNames(set))
    if (tenon_status* bad = CheckNames(context, "set_output_elements", index, set)) return bad;
  if (context->naming.names == nullptr) return nullptr;
  for (int64_t& dim : set.dims())
    if (dim < -1 && dim > TENON_DIM_NAMES) dim = -1;
  NamedOutput(context, index).elements = std::move(set);
  return nullptr;
}

int64_t DimSum(tenon_shape_context* context, int64_t a, int64_t b) { return NamesOf(context).Sum(a, b); }
int64_t DimProduct(tenon_shape_context* context, int64_t a, int64_t b) { return NamesOf(context).Product(a, b); }
int64_t DimQuotient(tenon_shape_context* context, int64_t a, int64_t b) { return NamesOf(context).Quotient(a, b); }

tenon_status* SetOutputValue(tenon_shape_context* context, int32_t index, const tenon_tensor_view* value) {
  if (!Within(index, context->outputs->size())) return BadIndex(context, "output", index);
  OutputFacts& facts = (*context->outputs)[index];
  const DType planned = context->node->output_types[index];
  const auto wrong = [&](const std::string& what) {
    return Internal(StrCat(DescribePlugin(context->node->op->package), ": its shape() gave set_output_value ", what,
                           " for output ", index))
        .release();
  };
  if (value->dtype != planned)
    return wrong(StrCat("a ", TypeName(value->dtype), " where the op says ", TypeName(planned)));
  if (value->dl.ndim < 0 || (value->dl.ndim > 0 && value->dl.shape == nullptr))
    return wrong(StrCat("a shape of rank ", value->dl.ndim, " without dims"));
  const Result<int64_t> bytes = ByteSize(planned, ShapeOf(*value));
  if (!bytes.ok() || static_cast<uint64_t>(*bytes) != value->byte_size || (*bytes > 0 && value->dl.data == nullptr))
    return wrong(StrCat(value->byte_size, " bytes", value->dl.data == nullptr ? " at NULL" : "", " for a shape of ",
                        bytes.ok() ? StrCat(*bytes, " bytes") : "any size"));
  auto tensor = Tensor::CopyOf(KeptPool(), *value);
  if (!tensor.ok()) return Status(tensor.status()).release();
  facts.shape = tensor->shape();
  facts.value = *std::move(tensor);
  return nullptr;
}

tenon_status* InputHandle(tenon_shape_context* context, int32_t index, tenon_shape* out_shape, uint32_t* out_dtype) {
  const OutputFacts* facts = Input(context, index);
  if (facts == nullptr) return BadIndex(context, "input", index);
  *out_shape = facts->handle_shape.c();
  *out_dtype = facts->handle_type;
  return nullptr;
}

tenon_status* SetOutputHandle(tenon_shape_context* context, int32_t index, tenon_shape shape, uint32_t dtype) {
  if (!Within(index, context->outputs->size())) return BadIndex(context, "output", index);
  if (tenon_status* bad = CheckDims(context, "set_output_handle", shape)) return bad;
  OutputFacts& facts = (*context->outputs)[index];
  facts.handle_shape = WithoutNames(Shape(shape));  // what it leads to may change between two readers
  facts.handle_type = dtype;
  return nullptr;
}

const tenon_shape_services* ShapeServices() {
  static const tenon_shape_services services = {
      TENON_HEAD(tenon_shape_services), NodeServices(), &ContextNode,    &InputShape,  &InputValue,
      &InputValueAsShape,               &SetOutputShape, &SetOutputValue, &InputHandle, &SetOutputHandle,
      &InputElements,                   &SetOutputElements, &DimSum,      &DimProduct,  &DimQuotient};
  return &services;
}

// The op's constraints against what is known of the inputs and attributes.
Status CheckConstraints(const Node& node, const std::vector<const OutputFacts*>& inputs) {
  if (node.op->constraints.empty()) return Status::Ok();
  const auto find = [&](const std::string& argument) -> const OutputFacts* {
    for (size_t i = 0; i < node.op->inputs.size(); ++i)
      if (node.op->inputs[i].name == argument && node.input_ranges[i].count > 0)
        return inputs[node.input_ranges[i].begin];
    return nullptr;
  };
  ConstraintFacts facts;
  facts.attr = [&](const std::string& name) -> std::optional<int64_t> {
    const AttrValue* value = node.FindAttr(name);
    if (value == nullptr || value->kind() != TENON_ATTR_INT) return std::nullopt;
    return value->i();
  };
  facts.rank = [&](const std::string& argument) -> std::optional<int64_t> {
    const OutputFacts* input = find(argument);
    if (input == nullptr || !input->shape.known_rank()) return std::nullopt;
    return input->shape.rank();
  };
  facts.dim = [&](const std::string& argument, int64_t index) -> std::optional<int64_t> {
    const OutputFacts* input = find(argument);
    if (input == nullptr || !input->shape.known_rank()) return std::nullopt;
    if (index < 0) index += input->shape.rank();
    if (index < 0 || index >= input->shape.rank() || input->shape.dim(static_cast<int>(index)) < 0) return std::nullopt;
    return input->shape.dim(static_cast<int>(index));
  };
  facts.numel = [&](const std::string& argument) -> std::optional<int64_t> {
    const OutputFacts* input = find(argument);
    std::optional<int64_t> known;
    if (input == nullptr || !input->shape.fully_known()) return known;
    if (auto count = input->shape.num_elements(); count.ok()) known = *count;
    return known;
  };
  facts.values = [&](const std::string& argument) -> std::optional<std::vector<int64_t>> {
    const OutputFacts* input = find(argument);
    if (input == nullptr || !input->value.has_value()) return std::nullopt;
    const tenon_tensor_view view = input->value.view();
    if (view.dtype != TENON_DT_INT32 && view.dtype != TENON_DT_INT64) return std::nullopt;
    std::vector<int64_t> out;
    for (int64_t i = 0; i < NumElements(view); ++i) out.push_back(IntegerAt(view, i));
    return out;
  };
  for (const Constraint& constraint : node.op->constraints) TENON_RETURN_IF_ERROR(Check(constraint, facts));
  return Status::Ok();
}

constexpr uint64_t kForward =
    TENON_OP_IDENTITY | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_LOOP_CONDITION;

// Of kForward: whether what is known of the value is known of the output.
bool KeepsValue(const Node& node) {
  const AttrValue* invariant = node.FindAttr("is_constant");
  const bool is_invariant =
      node.has(TENON_OP_ENTER) && invariant != nullptr && invariant->kind() == TENON_ATTR_BOOL && invariant->b();
  return is_invariant || !node.has(TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION | TENON_OP_NO_FOLD);
}

// Switch, merge and the loop ops mean the same whoever defines them.
bool InferByTrait(const Node& node, const std::vector<const OutputFacts*>& inputs, std::vector<OutputFacts>* outputs) {
  if (node.has(TENON_OP_CONSTANT)) {
    const AttrValue* value = node.FindAttr("value");
    if (value != nullptr && value->kind() == TENON_ATTR_TENSOR && !outputs->empty())
      (*outputs)[0] = FactsOf(value->tensor());
    return true;
  }
  if (node.has(TENON_OP_SWITCH)) {
    for (OutputFacts& output : *outputs) {
      output = *inputs[0];
      output.value = output.constant = Tensor();
    }
    return true;
  }
  if (node.has(TENON_OP_MERGE)) {
    OutputFacts& merged = (*outputs)[0];
    bool first = true;
    for (const OutputFacts* input : inputs) {
      if (first) merged = *input;
      else merged.shape = Widen(merged.shape, input->shape);
      first = false;
    }
    merged.value = merged.constant = Tensor();
    if (outputs->size() > 1) (*outputs)[1].shape = Shape();
    return true;
  }
  if (node.has(kForward)) {
    for (size_t i = 0; i < outputs->size() && i < inputs.size(); ++i) {
      (*outputs)[i] = *inputs[i];
      if (!KeepsValue(node)) (*outputs)[i].value = (*outputs)[i].constant = Tensor();
    }
    return true;
  }
  return false;
}

bool IsFromBehind(const Graph& graph, const Edge& edge, const Node& node) {
  return !edge.node || IsBackEdge(graph.node(edge.node), node);
}

// The inputs of which the op says that it takes their elements.
std::vector<Edge> ElementInputs(const Node& node) {
  std::vector<Edge> inputs;
  for (const size_t argument : node.op->properties.elements) {
    const ArgRange& range = node.input_ranges[argument];
    for (int32_t i = 0; i < range.count; ++i) inputs.push_back(node.inputs[static_cast<size_t>(range.begin + i)]);
  }
  return inputs;
}

// Of dims that broadcast against each other: -1 where it is not known which of two it is.
int64_t Broadcast(int64_t x, int64_t y) {
  if (x == y || y == 1) return x;
  if (x == 1) return y;
  return x > 1 && y < 0 ? x : y > 1 && x < 0 ? y : -1;
}
Shape Broadcast(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank()) return Shape::Unknown();
  std::vector<int64_t> dims;
  for (int from_end = std::max(a.rank(), b.rank()); from_end > 0; --from_end)
    dims.push_back(Broadcast(from_end <= a.rank() ? a.dim(a.rank() - from_end) : 1,
                             from_end <= b.rank() ? b.dim(b.rank() - from_end) : 1));
  return Shape(std::move(dims));
}

// The shape that the outputs of a node have by what its op says of itself; of unknown rank: it says nothing of it.
Shape ShapeBySaying(const Node& node, const ShapeInference& known) {
  constexpr uint64_t kOfOneShape = TENON_PROPERTY_ELEMENTWISE | TENON_PROPERTY_NORMALIZES;
  const uint64_t said = node.op->properties.flags;
  const std::vector<Edge> inputs = (said & kOfOneShape) == 0 ? std::vector<Edge>() : ElementInputs(node);
  if (inputs.empty()) return Shape::Unknown();
  Shape shape = known.named_shape(inputs[0]);
  if ((said & TENON_PROPERTY_BROADCASTS) != 0)
    for (const Edge& edge : inputs) shape = Broadcast(shape, known.named_shape(edge));
  return shape;
}

// What the same ops say of names; views; and of the others those that do not know names, by their properties.
void CarryNames(const Graph& graph, const Node& node, const ShapeInference& known, std::vector<NamedFacts>* outputs) {
  const auto say = [&](size_t index) -> NamedFacts& {
    outputs->resize(node.output_types.size());
    return (*outputs)[index];
  };
  if (node.has(TENON_OP_SWITCH)) {
    for (size_t i = 0; i < node.output_types.size(); ++i) say(i).shape = known.named_shape(node.inputs[0]);
  } else if (node.has(TENON_OP_MERGE)) {
    // What comes round has another size each time.
    const auto comes_round = [&](const Edge& edge) { return IsFromBehind(graph, edge, node); };
    if (node.inputs.empty() || std::any_of(node.inputs.begin(), node.inputs.end(), comes_round)) return;
    Shape merged = known.named_shape(node.inputs[0]);
    for (const Edge& edge : node.inputs) merged = Widen(merged, known.named_shape(edge));
    say(0).shape = std::move(merged);
  } else if (node.has(kForward)) {
    for (size_t i = 0; i < node.output_types.size() && i < node.inputs.size(); ++i) {
      say(i).shape = known.named_shape(node.inputs[i]);
      if (KeepsValue(node)) say(i).elements = known.elements(node.inputs[i]);
    }
  } else if ((node.op->properties.flags & TENON_PROPERTY_VIEW) != 0) {
    const ArgRange& viewed = node.input_ranges[node.op->properties.elements[0]];
    if (viewed.count > 0) say(0).elements = known.elements(node.inputs[static_cast<size_t>(viewed.begin)]);
  } else if (!node.op->knows_dim_names) {
    const Shape shape = ShapeBySaying(node, known);
    const bool of_all = (node.op->properties.flags & TENON_PROPERTY_ELEMENTWISE) != 0;
    for (size_t i = 0; shape.known_rank() && i < (of_all ? node.output_types.size() : 1); ++i) say(i).shape = shape;
  }
}

}  // namespace

Shape Widen(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank() || a.rank() != b.rank()) return Shape::Unknown();
  std::vector<int64_t> dims;
  for (int i = 0; i < a.rank(); ++i) dims.push_back(a.dim(i) == b.dim(i) ? a.dim(i) : -1);
  return Shape(std::move(dims));
}

OutputFacts FactsOf(const Tensor& tensor) {
  OutputFacts facts;
  facts.shape = tensor.shape();
  facts.constant = tensor;
  if (tensor.byte_size() <= kMaxTrackedBytes) facts.value = tensor;
  return facts;
}

Status ShapeInference::InferNode(const Node& node, const std::vector<const OutputFacts*>& inputs, const Naming& naming,
                                 std::vector<OutputFacts>* outputs, bool* used_values) {
  outputs->assign(node.output_types.size(), OutputFacts());
  *used_values = false;
  if (Status status = CheckConstraints(node, inputs); !status.ok()) return std::move(status).Annotate(node.Describe());
  if (node.has(TENON_OP_SWITCH) && inputs.size() > 1 && inputs[1]->shape.known_rank() && inputs[1]->shape.rank() != 0)
    return InvalidArgument(
        StrCat(node.Describe(), ": its predicate must be a scalar, found the shape ", inputs[1]->shape.ToString()));
  if (InferByTrait(node, inputs, outputs)) return Status::Ok();
  if (node.op->c == nullptr || node.op->c->shape == nullptr) return Status::Ok();
  tenon_shape_context context{&node, &inputs, outputs, naming, {}, false};
  Status status = node.op->plugin->Call("shape", &node.name, &node.op->name, [&](tenon_plugin_self* self) {
    return node.op->c->shape(self, ShapeServices(), &context);
  });
  *used_values = context.used_values;
  if (!status.ok()) return std::move(status).Annotate(node.Describe());
  return Status::Ok();
}

void ShapeInference::Fix(Edge edge, OutputFacts facts) {
  results_.resize(graph_->size());
  NodeResult& result = results_[edge.node];
  const size_t count = graph_->node(edge.node).output_types.size();
  result.outputs.resize(count);
  result.fixed.resize(count);
  result.outputs[edge.index] = std::move(facts);
  result.fixed[edge.index] = true;
}

const OutputFacts& ShapeInference::facts(Edge edge) const {
  if (!results_.contains(edge.node)) return UnknownFacts();
  const NodeResult& result = results_[edge.node];
  return Within(edge.index, result.outputs.size()) ? result.outputs[edge.index]
                                                                  : UnknownFacts();
}

const NamedFacts* ShapeInference::FindNamed(Edge edge) const {
  if (!results_.contains(edge.node)) return nullptr;
  const std::vector<NamedFacts>& named = results_[edge.node].named;
  return Within(edge.index, named.size()) ? &named[static_cast<size_t>(edge.index)] : nullptr;
}

const Shape& ShapeInference::named_shape(Edge edge) const {
  const NamedFacts* const named = FindNamed(edge);
  return named != nullptr && named->shape.known_rank() ? named->shape : facts(edge).shape;
}

const Shape& ShapeInference::elements(Edge edge) const {
  static const Shape nothing = Shape::Unknown();
  const NamedFacts* const named = FindNamed(edge);
  return named == nullptr ? nothing : named->elements;
}

// Whether a value of that type and shape is a list of sizes that are kept track of.
static bool MayHoldSizes(DType type, const Shape& shape) {
  constexpr int64_t kMostSizes = 32;
  return (type == TENON_DT_INT32 || type == TENON_DT_INT64) && shape.fully_known() &&
         (shape.rank() == 0 || (shape.rank() == 1 && shape.dim(0) <= kMostSizes));
}

void ShapeInference::NameOutput(const Node& node, size_t index, NodeResult& result) {
  const DType type = node.output_types[index];
  OutputFacts& facts = result.outputs[index];
  const bool is_fed = !fed_.empty() && fed_.contains({node.id, static_cast<int32_t>(index)});
  if (is_fed) facts.value = facts.constant = Tensor();
  const bool is_said = index < result.named.size() && !is_fed && !(index < result.fixed.size() && result.fixed[index]);
  NamedFacts named = is_said ? std::move(result.named[index]) : NamedFacts();
  const Shape& shape = facts.shape;
  if (!MayHoldSizes(type, shape)) {
    named.elements = Shape::Unknown();
  } else if (facts.value.has_value()) {
    const tenon_tensor_view view = facts.value.view();
    std::vector<int64_t> sizes;
    for (int64_t i = 0; i < NumElements(view); ++i) sizes.push_back(std::max<int64_t>(IntegerAt(view, i), -1));
    named.elements = Shape(std::move(sizes));
  } else if (named.elements.rank() != (shape.rank() == 0 ? 1 : shape.dim(0))) {
    named.elements = Shape::Unknown();
  } else if (type == TENON_DT_INT32) {
    for (int64_t& size : named.elements.dims())
      if (size > INT32_MAX) size = -1;
  }
  // Two who read a reference may see it before and after it changed.
  if (IsRef(type) || !shape.known_rank() || shape.fully_known()) {
    named.shape = Shape::Unknown();
  } else {
    const bool fits = named.shape.rank() == shape.rank();
    std::vector<int64_t> dims = shape.dims();
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] < 0) dims[d] = fits && named.shape.dims()[d] < -1 ? named.shape.dims()[d] : names_.New();
    named.shape = Shape(std::move(dims));
  }
  if (index >= result.named.size()) {
    if (!named.shape.known_rank() && !named.elements.known_rank()) return;
    result.named.resize(result.outputs.size());
  }
  result.named[index] = std::move(named);
}

Status ShapeInference::Evaluate(const Node& node, const std::vector<const OutputFacts*>& inputs, NodeResult& result) {
  constexpr uint64_t kNever = TENON_OP_STATEFUL | TENON_OP_NO_FOLD | TENON_OP_CONSTANT | TENON_OP_SWITCH |
                              TENON_OP_MERGE | TENON_OP_ENTER | TENON_OP_EXIT | TENON_OP_NEXT_ITERATION |
                              TENON_OP_LOOP_CONDITION | TENON_OP_SEND | TENON_OP_RECV | TENON_OP_FEED | TENON_OP_CALL |
                              TENON_OP_IO | TENON_OP_IDENTITY | TENON_OP_NO_OP;
  if (!evaluator_ || node.has(kNever) || inputs.empty() || result.outputs.empty()) return Status::Ok();
  bool wanted = false;
  for (const OutputFacts& output : result.outputs) {
    if (output.value.has_value()) continue;
    wanted = true;
    // Only small results of known shape; others are cheaper to compute in the step.
    if (output.shape.fully_known()) {
      auto count = output.shape.num_elements();
      if (!count.ok() || static_cast<uint64_t>(*count) > kMaxTrackedBytes / 8) return Status::Ok();
    }
  }
  if (!wanted) return Status::Ok();
  std::vector<Tensor> values;
  for (const OutputFacts* input : inputs) {
    if (!input->value.has_value()) return Status::Ok();
    values.push_back(input->value);
  }
  TENON_ASSIGN_OR_RETURN(std::vector<Tensor> outputs, evaluator_(node, values, result.outputs));
  for (size_t i = 0; i < outputs.size(); ++i) {
    result.outputs[i].shape = outputs[i].shape();
    if (outputs[i].byte_size() <= kMaxTrackedBytes) result.outputs[i].value = std::move(outputs[i]);
  }
  if (!outputs.empty()) ++evaluated_;
  return Status::Ok();
}

Status ShapeInference::InferOne(NodeId id) {
  const Node& node = graph_->node(id);
  NodeResult& result = results_[id];
  if (result.done) return Status::Ok();
  std::vector<const OutputFacts*> inputs;
  for (const Edge& edge : node.inputs) {
    if (!(node.has(TENON_OP_MERGE) && IsFromBehind(*graph_, edge, node))) inputs.push_back(&facts(edge));
  }
  const bool all_fixed =
      !result.fixed.empty() && std::all_of(result.fixed.begin(), result.fixed.end(), [](bool f) { return f; });
  const auto name = [&] {
    for (size_t i = 0; i < result.outputs.size(); ++i) NameOutput(node, i, result);
  };
  result.named.clear();
  if (all_fixed) {
    name();
    result.done = true;
    return Status::Ok();
  }
  std::vector<OutputFacts> before = std::move(result.outputs);
  CarryNames(*graph_, node, *this, &result.named);
  TENON_RETURN_IF_ERROR(
      InferNode(node, inputs, {this, &names_, &result.named}, &result.outputs, &result.used_values));
  for (size_t i = 0; i < result.fixed.size(); ++i)
    if (result.fixed[i]) result.outputs[i] = before[i];
  if (const auto it = merge_shapes_.find(id); it != merge_shapes_.end()) result.outputs[0].shape = it->second;
  // A failing evaluation is not an error here: the step will say it, if it gets there.
  (void)Evaluate(node, inputs, result).ok();
  name();
  result.done = true;
  return Charge(result);
}

Status ShapeInference::Charge(NodeResult& result) {
  const auto bytes_of = [](const Shape& shape) { return shape.dims().capacity() * sizeof(int64_t); };
  uint64_t bytes = 0;
  for (const OutputFacts& facts : result.outputs) bytes += bytes_of(facts.shape);
  for (const NamedFacts& named : result.named) bytes += sizeof named + bytes_of(named.shape) + bytes_of(named.elements);
  if (bytes <= result.charged) return Status::Ok();
  Status status = charge_.Add(bytes - result.charged);
  if (status.ok()) {
    result.charged = bytes;
  } else {
    result.named.clear();
    result.outputs.assign(result.outputs.size(), OutputFacts());
  }
  return status;
}

bool ShapeInference::RelaxMerges(const std::vector<NodeId>& order) {
  bool changed = false;
  for (NodeId id : order) {
    const Node& node = graph_->node(id);
    if (!node.has(TENON_OP_MERGE) || !results_[id].done) continue;
    for (const Edge& edge : node.inputs) {
      if (!edge.node || !IsBackEdge(graph_->node(edge.node), node)) continue;
      if (!results_[edge.node].done) continue;
      const Shape& merged = results_[id].outputs[0].shape;
      Shape widened = Widen(merged, facts(edge).shape);
      if (widened == merged) continue;
      merge_shapes_[id] = std::move(widened);
      changed = true;
    }
  }
  return changed;
}

Status ShapeInference::Run(const std::vector<NodeId>& order) {
  results_.resize(graph_->size());
  std::vector<NodeId> all;
  if (order.empty()) {
    TENON_ASSIGN_OR_RETURN(all, graph_->TopologicalOrder());
  }
  const std::vector<NodeId>& used = order.empty() ? all : order;
  Status first;
  const auto infer = [&]() -> Status {
    for (NodeId id : used) {
      TENON_RETURN_IF_ERROR(CheckAllowance());
      if (Status status = InferOne(id); !status.ok() && first.ok()) first = std::move(status);
    }
    return Status::Ok();
  };
  TENON_RETURN_IF_ERROR(infer());
  const bool has_loops = std::any_of(used.begin(), used.end(),
                                     [this](NodeId id) { return graph_->node(id).has(TENON_OP_NEXT_ITERATION); });
  // Each round makes at least one dim unknown, so this ends; the bound is for loops with very many variables.
  for (int round = 0; has_loops && round < 64 && RelaxMerges(used); ++round) {
    for (NodeId id : used) results_[id].done = false;
    TENON_RETURN_IF_ERROR(infer());
  }
  return first;
}

}  // namespace tenon::graph
