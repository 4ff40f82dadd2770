// SPDX-License-Identifier: Apache-2.0
#include "tests/crossings/calculation.h"

namespace tenon::crossings {
namespace {

using host::Graph, host::Operation, host::Output, host::Shape;

constexpr double kBound = 32;

Output Vector(Graph& g, const Dims& dims) {
  std::vector<int32_t> values;
  for (const int64_t dim : dims) values.push_back(static_cast<int32_t>(dim));
  return g.Const(values, Shape{static_cast<int64_t>(values.size())});
}
Output Long(Graph& g, const Dims& dims) {
  return g.Const(std::vector<int64_t>(dims), Shape{static_cast<int64_t>(dims.size())});
}
std::vector<Output> Firsts(const std::vector<Value>& in) {
  std::vector<Output> firsts;
  for (const Value& value : in) firsts.push_back(value[0]);
  return firsts;
}

}  // namespace

Output Calculation::Scalar(Graph& g, DType dtype, double number) const {
  if (dtype == DType::kFloat) return g.Const(static_cast<float>(number));
  if (dtype == DType::kDouble) return g.Const(number);
  if (dtype == DType::kInt32) return g.Const(static_cast<int32_t>(number));
  return g.Const(static_cast<int64_t>(number));
}

Output Calculation::Constant(Graph& g, DType dtype, const Dims& dims, double number) const {
  std::vector<double> values;
  for (int64_t i = 0; i < CountOf(dims); ++i) values.push_back(PatternOf(number, i, smooth_, dtype));
  return g.Const(host::View(TensorOf(dtype, dims, values)));
}

Output Calculation::Bounded(Graph& g, DType dtype, const Output& x, int64_t count) const {
  if (!IsFloating(dtype)) return g.Op("FloorMod", {x, Scalar(g, dtype, kModulus)});
  if (!smooth_) return g.Op("Minimum", {g.Op("Maximum", {x, Scalar(g, dtype, -kBound)}), Scalar(g, dtype, kBound)});
  return count <= 1 ? x : g.Op("Mul", {x, Scalar(g, dtype, 1 / static_cast<double>(count))});
}

Output Calculation::Cast(Graph& g, const Type& from, const Type& to, const Output& x) const {
  const Output cast = g.Op("Cast", {x}, {{"DstT", to.dtype}});
  if (from.dtype == DType::kBool || IsFloating(from.dtype) || !IsFloating(to.dtype)) return cast;
  return smooth_ ? g.Op("Mul", {cast, Scalar(g, to.dtype, 1.0 / 128)}) : Bounded(g, to.dtype, cast);
}

Output Calculation::SumOf(Graph& g, const Output& x, const Dims& dims) const {
  Dims axes;
  for (size_t i = 0; i < dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  return g.Op("Sum", {x, Vector(g, axes)});
}

Output Calculation::Total(Graph& g, const Output& x, const Dims& dims) const {
  return SumOf(g, g.Op("Mul", {x, Constant(g, x.dtype(), dims, 8)}), dims);
}

Value Calculation::ToSparse(Graph& g, DType dtype, const Output& x) const {
  // Which elements there are is a question, which a smooth program does not ask floats.
  const Output mask = smooth_ ? Constant(g, DType::kBool, {2, 3}, 1) : g.Op("NotEqual", {x, Scalar(g, dtype, 0)});
  const Output indices = g.Op("Where", {mask});
  return {indices, g.Op("GatherNd", {x, indices})};
}

Value Calculation::ToRagged(Graph& g, const Output& x, const Output& lengths) const {
  const Output columns = g.Const(std::vector<int64_t>{0, 1, 2}, Shape{1, 3});
  const Output indices = g.Op("Where", {g.Op("Less", {columns, g.Op("Reshape", {lengths, Vector(g, {2, 1})})})});
  const Output splits =
      g.Op("ConcatV2", {g.Const(std::vector<int64_t>{0}, Shape{1}), g.Op("Cumsum", {lengths, g.Const(0)}), g.Const(0)});
  return {g.Op("GatherNd", {x, indices}), splits};
}

host::Argument Calculation::ArgumentOf(const Type& type, size_t part) const {
  switch (type.kind) {
    case Kind::kTensor: return {type.dtype, Shape(type.dims)};
    case Kind::kSparse:
      return part == 0 ? host::Argument(DType::kInt64, Shape{-1, 2}) : host::Argument(type.dtype, Shape{-1});
    case Kind::kRagged:
      return part == 0 ? host::Argument(type.dtype, Shape{-1}) : host::Argument(DType::kInt64, Shape{3});
    default: return {DType::kVariant, Shape()};
  }
}

std::vector<Output> Calculation::Seen(Graph& g, const Type& type, const Value& value) const {
  switch (type.kind) {
    case Kind::kList:
      return {g.Op("TensorListLength", {value[0]}),
              g.Op("TensorListStack", {value[0], Vector(g, type.dims)}, {{"element_dtype", type.dtype}})};
    case Kind::kOptional: return {g.Op("OptionalHasValue", {value[0]})};
    default: return value;
  }
}

std::vector<Value> Calculation::Make(Graph& g, const Step& step, const std::vector<Type>& types,
                                     const std::vector<Value>& in) const {
  const Type& type = step.out[0];
  const DType dtype = type.dtype;
  const std::vector<Output> x = Firsts(in);
  const auto one = [](const Output& output) { return std::vector<Value>{{output}}; };
  const auto element_shape = [&](const Type& of) { return Vector(g, of.dims); };
  switch (step.what) {
    case Do::k_constant: return one(Constant(g, dtype, type.dims, step.number));
    case Do::k_add: return one(Bounded(g, dtype, g.Op("AddV2", x), 2));
    case Do::k_subtract: return one(Bounded(g, dtype, g.Op("Sub", x), 2));
    case Do::k_multiply: return one(Bounded(g, dtype, g.Op("Mul", x)));
    case Do::k_maximum: return one(g.Op("Maximum", x));
    case Do::k_minimum: return one(g.Op("Minimum", x));
    case Do::k_negate: return one(g.Op("Neg", x));
    case Do::k_absolute: return one(g.Op("Abs", x));
    case Do::k_square: return one(Bounded(g, dtype, g.Op("Square", x)));
    case Do::k_identity: return one(g.Op("Identity", x));
    case Do::k_cast: return one(Cast(g, types[0], type, x[0]));
    case Do::k_add_n: return one(Bounded(g, dtype, g.Op("AddN", x), 3));
    case Do::k_select: return one(g.Op("SelectV2", x));
    case Do::k_less: return one(g.Op("Less", x));
    case Do::k_equal: return one(g.Op("Equal", x));
    case Do::k_both: return one(g.Op("LogicalAnd", x));
    case Do::k_either: return one(g.Op("LogicalOr", x));
    case Do::k_opposite: return one(g.Op("LogicalNot", x));
    case Do::k_tanh: return one(g.Op("Tanh", x));
    case Do::k_sigmoid: return one(g.Op("Sigmoid", x));
    case Do::k_sine: return one(g.Op("Sin", x));
    case Do::k_bell: return one(g.Op("Exp", {g.Op("Neg", {g.Op("Square", x)})}));
    case Do::k_relu: return one(g.Op("Relu", x));
    case Do::k_stop: return one(g.Op("StopGradient", x));
    case Do::k_remainder: return one(g.Op("FloorMod", {x[0], Scalar(g, dtype, step.number)}));
    case Do::k_spread: return one(g.Op("BroadcastTo", {x[0], Vector(g, type.dims)}));
    case Do::k_sum: return one(Bounded(g, dtype, SumOf(g, x[0], types[0].dims), CountOf(types[0].dims)));
    case Do::k_sum_rows: return one(Bounded(g, dtype, g.Op("Sum", {x[0], Vector(g, {1})}), types[0].dims[1]));
    case Do::k_greatest: {
      Dims axes;
      for (size_t i = 0; i < types[0].dims.size(); ++i) axes.push_back(static_cast<int64_t>(i));
      return one(g.Op("Max", {x[0], Vector(g, axes)}));
    }
    case Do::k_cumulate: return one(Bounded(g, dtype, g.Op("Cumsum", {x[0], g.Const(0)}), 3));
    case Do::k_transpose: return one(g.Op("Transpose", {x[0], Vector(g, {1, 0})}));
    case Do::k_reshape: return one(g.Op("Reshape", {x[0], Vector(g, type.dims)}));
    case Do::k_backwards: return one(g.Op("ReverseV2", {x[0], Vector(g, {0})}));
    case Do::k_join: {
      Dims begin(type.dims.size(), 0);
      begin[0] = static_cast<int64_t>(step.number);
      return one(g.Op("Slice", {g.Op("ConcatV2", {x[0], x[1], g.Const(0)}), Vector(g, begin), Vector(g, type.dims)}));
    }
    case Do::k_matmul: return one(Bounded(g, dtype, g.Op("MatMul", x), types[0].dims[1]));
    case Do::k_take: return one(g.Op("GatherV2", {x[0], x[1], g.Const(0)}));
    case Do::k_take_rows: return one(g.Op("GatherV2", {x[0], x[1], g.Const(0)}));
    case Do::k_put_row: case Do::k_add_row: {
      Dims row{1};
      row.insert(row.end(), types[2].dims.begin(), types[2].dims.end());
      const std::vector<Output> inputs{x[0], g.Op("Reshape", {x[1], Vector(g, {1, 1})}),
                                       g.Op("Reshape", {x[2], Vector(g, row)})};
      if (step.what == Do::k_put_row) return one(g.Op("TensorScatterUpdate", inputs));
      return one(Bounded(g, dtype, g.Op("TensorScatterAdd", inputs), 2));
    }
    case Do::k_pack: return one(g.Op("Pack", x));
    case Do::k_unpack: {
      std::vector<Value> values;
      for (const Output& output : g.AddNode("Unpack", x, {{"num", static_cast<int64_t>(step.out.size())}}).outputs())
        values.push_back({output});
      return values;
    }
    case Do::k_segments:
      return one(Bounded(g, dtype,
                         g.Op("UnsortedSegmentSum", {x[0], x[1], g.Const(static_cast<int32_t>(types[0].dims[0]))}), 3));
    case Do::k_arg_max:
      return one(
          g.Op("Cast", {g.Op("ArgMax", {g.Op("Reshape", {x[0], Vector(g, {-1})}), g.Const(0)})}, {{"DstT", dtype}}));
    case Do::k_sort: return one(g.AddNode("TopKV2", {x[0], g.Const(static_cast<int32_t>(type.dims.back()))}).output(0));
    case Do::k_one_hot: return one(g.Op("OneHot", {x[0], g.Const(3), Scalar(g, dtype, 1), Scalar(g, dtype, 0)}));
    case Do::k_size: return one(g.Op("Sum", {g.Op("Shape", x), Vector(g, {0})}));
    case Do::k_random:
      return one(
          g.Op("StatelessRandomUniformInt",
               {Vector(g, type.dims), Vector(g, {static_cast<int64_t>(step.number), 7}), g.Const(-8), g.Const(9)}));
    case Do::k_dice:
      return one(g.Op("RandomUniformInt", {Vector(g, type.dims), g.Const(-8), g.Const(9)},
                      {{"seed", static_cast<int64_t>(step.number)}, {"seed2", 3}}));
    case Do::k_text_of: return one(g.Op("AsString", x));
    case Do::k_join_text:
      return one(g.Op("Substr", {g.Op("StringJoin", x, {{"separator", "-"}}), g.Const(0), g.Const(7)}));
    case Do::k_text_length: return one(g.Op("StringLength", x));
    case Do::k_upper: return one(g.Op("StringUpper", x));
    case Do::k_hash: return one(g.Op("StringToHashBucketFast", x, {{"num_buckets", 19}}));
    case Do::k_number_of: return one(g.Op("StringToNumber", x, {{"out_type", dtype}}));
    case Do::k_list_of: return one(g.Op("TensorListFromTensor", {x[0], element_shape(type)}));
    case Do::k_list_blank:
      return one(g.Op("TensorListReserve", {element_shape(type), g.Const(static_cast<int32_t>(type.length))},
                      {{"element_dtype", dtype}}));
    case Do::k_list_get:
      return one(g.Op("TensorListGetItem", {x[0], x[1], element_shape(type)}, {{"element_dtype", dtype}}));
    case Do::k_list_set: return one(g.Op("TensorListSetItem", x));
    case Do::k_list_push: return one(g.Op("TensorListPushBack", x));
    case Do::k_list_pop: {
      const Operation popped =
          g.AddNode("TensorListPopBack", {x[0], element_shape(step.out[1])}, {{"element_dtype", dtype}});
      return {{popped.output(0)}, {popped.output(1)}};
    }
    case Do::k_list_stack:
      return one(g.Op("TensorListStack", {x[0], element_shape(types[0])},
                      {{"element_dtype", dtype}, {"num_elements", static_cast<int64_t>(types[0].length)}}));
    case Do::k_list_length: return one(g.Op("TensorListLength", x));
    case Do::k_list_join: {
      const Operation joined =
          g.AddNode("TensorListConcatV2", {x[0], Vector(g, {-1}), Long(g, {})}, {{"element_dtype", dtype}});
      return one(Bounded(g, dtype, g.Op("Sum", {joined.output(0), Vector(g, {0})}), 3 * types[0].length));
    }
    case Do::k_list_split: {
      const Output list = g.Op("TensorListSplit", {x[0], Vector(g, {-1}), Long(g, {1, 2})});
      return one(g.Op("TensorListGetItem", {list, g.Const(1), Vector(g, {2})}, {{"element_dtype", dtype}}));
    }
    case Do::k_some: return one(g.Op("OptionalFromValue", x));
    case Do::k_nothing: return one(g.Op("OptionalNone", {}));
    case Do::k_has: return one(g.Op("OptionalHasValue", x));
    case Do::k_to_sparse: return {ToSparse(g, dtype, x[0])};
    case Do::k_sparse_dense: return one(g.Op("ScatterNd", {in[0][0], in[0][1], Long(g, {2, 3})}));
    case Do::k_sparse_scale: return {{in[0][0], Bounded(g, dtype, g.Op("Mul", {in[0][1], x[1]}))}};
    case Do::k_sparse_matmul:
      return one(Bounded(g, dtype, g.Op("SparseTensorDenseMatMul", {in[0][0], in[0][1], Long(g, {2, 3}), x[1]}), 3));
    case Do::k_to_ragged: return {ToRagged(g, x[0], x[1])};
    case Do::k_ragged_dense:
      return one(g.Op("RaggedTensorToTensor", {Long(g, {2, 3}), in[0][0], Scalar(g, dtype, 0), in[0][1]},
                      {{"row_partition_types", std::vector<std::string>{"ROW_SPLITS"}}}));
    case Do::k_ragged_square: return {{Bounded(g, dtype, g.Op("Square", {in[0][0]})), in[0][1]}};
    default: return {};  // what has state or parts is the lowering's
  }
}

}  // namespace tenon::crossings
