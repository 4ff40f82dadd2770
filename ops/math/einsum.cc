// SPDX-License-Identifier: Apache-2.0
// Einsum: products and sums over labelled dims.
#include "tenon/extras/op/einsum.h"

#include <map>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void EinsumShape(ShapeContext& c) {
  std::string error;
  const EinsumEquation equation = ParseEinsum(c.String("equation"), c.input_count(), &error);
  std::vector<std::vector<int>> labels;
  std::map<int, int64_t> dims;
  bool ranks = true;
  for (int i = 0; c.ok() && error.empty() && i < c.input_count(); ++i) {
    const Shape input = c.Input(i);
    if (!input.known_rank()) {
      ranks = false;
      continue;
    }
    labels.push_back(EinsumEquation::Labels(equation.inputs[static_cast<size_t>(i)], input.rank(), &error));
    std::map<int, int64_t> own;
    for (size_t k = 0; k < labels.back().size(); ++k) {
      const auto [found, fresh] = own.try_emplace(labels.back()[k], input[static_cast<int>(k)]);
      if (!fresh) found->second = c.Merge(found->second, input[static_cast<int>(k)], "the dims of a label");
    }
    for (const auto& [label, dim] : own) {
      const auto [found, fresh] = dims.try_emplace(label, dim);
      if (fresh) continue;
      found->second = label < kEllipsis ? c.Merge(found->second, dim, "the dims of a label")
                                        : c.Broadcast({found->second}, {dim})[0];
    }
  }
  if (!error.empty()) return c.Invalid(error);
  const bool ellipsis = equation.output.find('.') != equation.output.npos;
  if (!ranks && ellipsis) return;
  Shape out = Shape::Scalar();
  for (int label : equation.OutputLabels(ranks ? EinsumEquation::EllipsisDims(labels) : 0, &error)) {
    const auto found = dims.find(label);
    out.Append(found == dims.end() ? kUnknown : found->second);
  }
  if (!error.empty()) return c.Invalid(error);
  c.SetOutput(0, out);
}

namespace {

// Subscripts as TensorFlow writes them.
std::string Written(std::string subscripts) {
  if (const size_t at = subscripts.find('.'); at != subscripts.npos) subscripts.replace(at, 1, "...");
  return subscripts;
}
bool Has(std::string_view subscripts, char label) { return subscripts.find(label) != subscripts.npos; }

// The gradient of one operand. Labels that it alone has were summed over: their gradient is repeated along them.
class OperandGradient {
 public:
  OperandGradient(GradientContext& g, int index, std::string subscripts)
      : g_(g), x_(g.input(index)), subscripts_(std::move(subscripts)) {}

  Output Of(Output dy, const std::string& output, const Output* other, const std::string& other_subscripts) {
    std::string kept, summed;
    for (char label : subscripts_) {
      const bool reached = label == '.' || Has(output, label) || Has(other_subscripts, label);
      if (reached) {
        kept += label;
      } else if (!Has(summed, label)) {
        summed += label;
      }
    }
    if (other == nullptr) return summed.empty() ? Sum({dy}, Written(output), subscripts_) : Repeat(dy, output, summed);
    const Output gradient = Sum({dy, *other}, Written(output) + "," + Written(other_subscripts), kept);
    return summed.empty() ? gradient : Repeat(gradient, kept, summed);
  }

 private:
  Output Sum(const std::vector<Output>& inputs, const std::string& from, const std::string& to) {
    return g_.Op("Einsum", inputs, {{"equation", std::string_view(equation_ = from + "->" + Written(to))}});
  }
  // A new first dim for each summed label, of its size in x; then the dims in x's order.
  Output Repeat(Output gradient, const std::string& from, const std::string& summed) {
    std::vector<Output> sizes;
    for (char label : summed) sizes.push_back(SizeOf(label));
    sizes.push_back(g_.ShapeOf(gradient));
    const Output ones = g_.Vector(std::vector<int64_t>(summed.size(), 1));
    const Output thin = g_.Reshape(gradient, g_.Concat({ones, sizes.back()}));
    const Output wide = g_.Op("BroadcastTo", {thin, g_.Concat(sizes)});
    return Sum({wide}, Written(summed + from), subscripts_);
  }
  // The size of x's dim of that label, as a vector of one.
  Output SizeOf(char label) {
    const int64_t at = static_cast<int64_t>(subscripts_.find(label));
    const size_t ellipsis = subscripts_.find('.');
    const int64_t index = ellipsis < static_cast<size_t>(at) ? at - static_cast<int64_t>(subscripts_.size()) : at;
    const int64_t dim = g_.shape(x_)[static_cast<int>(index)];
    if (dim >= 0) return g_.Vector({dim});
    return g_.VectorSlice(g_.ShapeOf(x_), index, index == -1 ? std::nullopt : std::optional<int64_t>(index + 1));
  }

  GradientContext& g_;
  Output x_;
  std::string subscripts_, equation_;
};

// Sums a gradient over the dims of the ellipsis along which x was repeated against y.
Output SumRepeated(GradientContext& g, Output gradient, Output x, const std::string& x_subscripts, Output y,
                   const std::string& y_subscripts) {
  const auto bounds = [](const std::string& subscripts) {
    const int begin = static_cast<int>(subscripts.find('.'));
    return std::pair(begin, static_cast<int>(subscripts.size()) - begin - 1);
  };
  const auto [x_begin, x_after] = bounds(x_subscripts);
  const auto [y_begin, y_after] = bounds(y_subscripts);
  const Shape sx = g.shape(x), sy = g.shape(y);
  const auto middle = [](const Shape& shape, int begin, int after) {
    return shape.known_rank() ? shape.Slice(begin, shape.rank() - after) : Shape();
  };
  auto axes = GradientContext::RepeatedAxes(middle(sx, x_begin, x_after), middle(sy, y_begin, y_after));
  if (axes.has_value()) {
    if (axes->empty()) return gradient;
    for (int64_t& axis : *axes) axis += x_begin;
    return g.Reshape(g.Sum(gradient, g.Vector(*axes)), g.ShapeOf(x));
  }
  const auto part = [&](Output of, int begin, int after) {
    return g.VectorSlice(g.ShapeOf(of), begin, after == 0 ? std::nullopt : std::optional<int64_t>(-after));
  };
  const int64_t both = g.Node("BroadcastGradientArgs", {part(x, x_begin, x_after), part(y, y_begin, y_after)});
  const Output shifted = g.Add({both, 0, 0}, g.Number(x_begin));
  return g.Reshape(g.Sum(gradient, shifted), g.ShapeOf(x));
}

}  // namespace

static void EinsumGradient(GradientContext& g) {
  std::string error;
  EinsumEquation equation = ParseEinsum(g.String("equation"), g.input_count(), &error);
  if (!error.empty()) return g.Invalid(error);
  const Output dy = g.dy(0);
  std::string& x = equation.inputs.front();
  if (g.input_count() == 1) return g.SetDx(0, OperandGradient(g, 0, x).Of(dy, equation.output, nullptr, ""));
  std::string& y = equation.inputs.back();
  const bool ellipsis = Has(equation.output, '.');
  for (std::string* operand : {&x, &y}) {
    if (ellipsis && !Has(*operand, '.')) *operand += '.';
  }
  const Output a = g.Conj(g.input(0)), b = g.Conj(g.input(1));
  const Output dx = OperandGradient(g, 0, x).Of(dy, equation.output, &b, y);
  const Output db = OperandGradient(g, 1, y).Of(dy, equation.output, &a, x);
  g.SetDx(0, ellipsis ? SumRepeated(g, dx, g.input(0), x, g.input(1), y) : dx);
  g.SetDx(1, ellipsis ? SumRepeated(g, db, g.input(1), y, g.input(0), x) : db);
}

// A multiply-add for each value of all labels together.
static void EinsumCost(CostContext& c) {
  std::string error;
  const EinsumEquation equation = ParseEinsum(c.String("equation"), c.input_count(), &error);
  std::map<int, double> dims;
  for (int i = 0; error.empty() && i < c.input_count(); ++i) {
    const Shape input = c.Input(i);
    const auto labels = EinsumEquation::Labels(equation.inputs[static_cast<size_t>(i)], input.rank(), &error);
    for (size_t k = 0; k < labels.size(); ++k) {
      double& dim = dims[labels[k]];
      dim = std::max(dim, static_cast<double>(input[static_cast<int>(k)]));
    }
  }
  double flops = 2;
  for (const auto& [label, dim] : dims) flops *= dim;
  c.SetFlops(flops);
}

TENON_OP(kEinsum) = DefineOp({
    .name = "Einsum",
    .inputs = "inputs: N * T",
    .outputs = "output: T",
    .attrs = "equation: string; N: int >= 1; T: type",
    .doc = "The sum of products of elements over the labels that the output does not have: 'ab,bc->ac' is a matrix "
           "product. "
           "The dims of an ellipsis broadcast.",
    .properties = "product(inputs)",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<EinsumShape>,
    .gradient = GradientFunction<EinsumGradient>,
    .cost = CostFunction<EinsumCost>,
});

}  // namespace tenon::ops
