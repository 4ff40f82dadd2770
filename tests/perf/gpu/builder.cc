// SPDX-License-Identifier: Apache-2.0
#include "builder.h"

#include <utility>

namespace tenon::perf {

using host::Attrs;
using host::DType;
using host::Operation;
using host::Output;
using host::Shape;
using host::Tensor;
using train::Initializer;

namespace {

// 1 where the graph has failed already.
int64_t Last(const Output& x) {
  const std::vector<int64_t> dims = x.shape().dims();
  return dims.empty() ? 1 : dims.back();
}

}  // namespace

Output Builder::Part(std::string_view name, host::Result<Tensor> value) {
  if (!value.ok()) {
    graph_.Fail(value.status());
    return Output();
  }
  const auto scope = graph_.Scope("batch");
  BatchPart part{std::string(name), *value, {}, {}};
  const DType dtype = value->dtype();
  const Shape shape = value->shape();
  part.fed = graph_.Placeholder(part.name + "/fed", dtype, shape);
  const Output handle =
      graph_.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", "batch/" + part.name}}, name);
  part.assign = graph_.AddNode("AssignVariableOp", {handle, part.fed}, {{"dtype", dtype}});
  network_.batch_.push_back(std::move(part));
  return graph_.Op("ReadVariableOp", {handle}, {{"dtype", dtype}});
}

Output Builder::Normal(std::string_view name, const Shape& shape) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(shape.element_count()));
  for (float& value : values) value = normal(random_);
  return Part(name, Tensor::From(values, shape));
}

Output Builder::Integers(std::string_view name, const Shape& shape, int64_t end) {
  std::uniform_int_distribution<int64_t> any(0, end - 1);
  std::vector<int64_t> values(static_cast<size_t>(shape.element_count()));
  for (int64_t& value : values) value = any(random_);
  return Given(name, values, shape);
}

Output Builder::Given(std::string_view name, const std::vector<int64_t>& values, const Shape& shape) {
  return Part(name, Tensor::From(values, shape));
}

Output Builder::Conv(const std::string& name, Output x, int64_t filters, const Window& window, bool bias) {
  const int64_t inputs = Last(x);
  const Output kernel = Weight(name + "/kernel", {window.size, window.size, inputs, filters},
                               Initializer::He(window.size * window.size * inputs));
  Attrs attrs = {{"strides", {1, window.stride, window.stride, 1}}, {"padding", window.pad > 0 ? "EXPLICIT" : "VALID"}};
  const int64_t p = window.pad;
  if (p > 0) attrs.push_back({"explicit_paddings", {0, 0, p, p, p, p, 0, 0}});
  const Output product = graph_.Op("Conv2D", {x, kernel}, attrs, name + "/Conv2D");
  Count(product.shape().element_count() * window.size * window.size * inputs, x);
  return bias ? Op("BiasAdd", {product, Weight(name + "/bias", {filters}, Initializer::Constant(0))}) : product;
}

void Builder::Count(int64_t multiplications, const Output& x) {
  const bool given = x.valid() && Operation(x).op() == "ReadVariableOp";  // the batch, which has no gradient
  network_.flop_ += multiplications * (given ? 4 : 6);
}

Output Builder::BatchNorm(const std::string& name, Output x) {
  const Shape channels{Last(x)};
  const Output scale = Weight(name + "/scale", channels, Initializer::Constant(1));
  const Output offset = Weight(name + "/offset", channels, Initializer::Constant(0));
  const train::Variable& mean = model_.State(name + "/mean", channels, 0);
  const train::Variable& variance = model_.State(name + "/variance", channels, 1);
  const Operation normal =
      graph_.AddNode("FusedBatchNormV3", {x, scale, offset, mean.value, variance.value},
                     {{"epsilon", 1e-5f}, {"exponential_avg_factor", 0.1f}, {"is_training", true}}, name);
  for (int32_t i : {1, 2}) {
    const train::Variable& average = i == 1 ? mean : variance;
    network_.averages_.push_back(
        graph_.AddNode("AssignVariableOp", {average.handle, normal.output(i)}, {{"dtype", average.dtype}}));
  }
  return normal.output(0);
}

Output Builder::MaxPool(Output x, int64_t size, int64_t stride, const char* padding) {
  return Op("MaxPool", {x}, {{"ksize", {1, size, size, 1}}, {"strides", {1, stride, stride, 1}}, {"padding", padding}});
}

Output Builder::Dense(const std::string& name, Output x, int64_t units, float deviation) {
  const int64_t inputs = Last(x);
  Count(x.shape().element_count() * units, x);
  return model_.Dense(name, x, inputs, units,
                      deviation > 0 ? Initializer::TruncatedNormal(deviation) : Initializer::He(inputs));
}

Output Builder::LayerNorm(const std::string& name, Output x) {
  const int64_t width = Last(x);
  const Output scale = Weight(name + "/scale", {width}, Initializer::Constant(1));
  const Output offset = Weight(name + "/offset", {width}, Initializer::Constant(0));
  const std::vector<int64_t> last = {x.shape().rank() - 1};
  const Output mean = Mean(x, last, true);
  const Output variance = Mean(Op("SquaredDifference", {x, Op("StopGradient", {mean})}), last, true);
  const Output factor = Mul(Op("Rsqrt", {Add(variance, graph_.Const(1e-12f))}), scale);
  return Add(Mul(x, factor), Op("Sub", {offset, Mul(mean, factor)}));
}

Output Builder::Gelu(Output x) {
  const Output erf = Op("Erf", {Scale(x, 0.70710678f)});
  return Mul(Scale(x, 0.5f), Add(erf, graph_.Const(1.0f)));
}

Output Builder::List(const std::vector<int64_t>& values) {
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return graph_.Const(narrow, {static_cast<int64_t>(narrow.size())});
}

Output Builder::Reshape(Output x, const std::vector<int64_t>& dims) { return Op("Reshape", {x, List(dims)}); }
Output Builder::Transpose(Output x, const std::vector<int64_t>& order) { return Op("Transpose", {x, List(order)}); }
Output Builder::Rows(Output table, Output which) { return Op("GatherV2", {table, which, graph_.Const(0)}); }
Output Builder::Product(Output a, Output b, bool transpose) {
  const std::vector<int64_t> right = b.shape().dims();
  if (right.size() < 2) return Output();  // the graph has failed already
  Count(a.shape().element_count() * right[right.size() - (transpose ? 2 : 1)], a);
  if (right.size() == 2) return Op("MatMul", {a, b}, {{"transpose_b", transpose}});
  return Op("BatchMatMulV2", {a, b}, {{"adj_y", transpose}});
}
Output Builder::Mean(Output x, const std::vector<int64_t>& axes, bool keep) {
  return Op("Mean", {x, List(axes)}, {{"keep_dims", keep}});
}

}  // namespace tenon::perf
