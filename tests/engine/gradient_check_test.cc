// SPDX-License-Identifier: Apache-2.0
// Every gradient against central differences in double. Covers K1 to K3.
//
// Each op of the runtime that has a gradient has a case here (or a reason), and each op that has none a reason: an op
// that is new and stands nowhere fails the test with its name.
#include <functional>
#include <set>

#include "tests/engine/gradient_case.h"

namespace tenon::engine::gradient_check_test {
namespace {

using Cases = std::vector<Case>;

// Shapes that broadcast against each other, both ways, to new shapes and from nothing.
const std::vector<std::pair<Shape, Shape>>& BroadcastPairs() {
  static const std::vector<std::pair<Shape, Shape>> pairs = {
      {{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{3}, {2, 3}},       {{2, 1}, {1, 3}}, {{}, {2, 2}}, {{2, 2}, {}},
      {{}, {}},         {{1}, {}},     {{2, 1, 2}, {3, 1}}, {{0, 3}, {3}},    {{3}, {0, 3}}, {{1, 1}, {4}}};
  return pairs;
}

void AddBinary(Cases& cases) {
  struct Range {
    const char* op;
    double x_low, x_high, y_low, y_high;
  };
  for (const Range& r :
       {Range{"Add", -2, 2, -2, 2}, Range{"AddV2", -2, 2, -2, 2}, Range{"Sub", -2, 2, -2, 2},
        Range{"Mul", -2, 2, -2, 2}, Range{"RealDiv", -2, 2, 0.5, 2}, Range{"Div", -2, 2, -2, -0.5},
        Range{"DivNoNan", -2, 2, 0.5, 2}, Range{"Maximum", -2, 2, -2, 2}, Range{"Minimum", -2, 2, -2, 2},
        Range{"Pow", 0.5, 2, -2, 2}, Range{"SquaredDifference", -2, 2, -2, 2},
        // Where the quotient stays between two whole numbers: above 0 and below.
        Range{"FloorMod", 2.6, 2.9, 1.02, 1.1}, Range{"FloorMod", -1.9, -1.6, 1.05, 1.1}})
    for (const auto& [x, y] : BroadcastPairs())
      cases.push_back({r.op, {X(x, r.x_low, r.x_high), X(y, r.y_low, r.y_high)}});
  cases.push_back({"Pow", {XAt({3}, {-1.5, -0.5, 2}), Fixed({3}, {2, 3, -1})}});
  cases.push_back({"DivNoNan", {X({3}), Fixed({3}, {0, 2, 0})}});
}

void AddUnary(Cases& cases) {
  struct Range {
    const char* op;
    double low, high;
  };
  for (const Range& r :
       {Range{"Neg", -2, 2},      Range{"Abs", -2, 2},      Range{"Sign", -2, 2},          Range{"Exp", -2, 2},
        Range{"Expm1", -2, 2},    Range{"Log", 0.3, 3},     Range{"Log1p", -0.5, 3},       Range{"Square", -2, 2},
        Range{"Sqrt", 0.3, 3},    Range{"Rsqrt", 0.3, 3},   Range{"Reciprocal", -2, -0.3}, Range{"Sin", -4, 4},
        Range{"Cos", -4, 4},      Range{"Tanh", -2, 2},     Range{"Sigmoid", -4, 4},       Range{"Erf", -2, 2},
        Range{"Relu", -2, 2},     Range{"Relu6", -4, 10},   Range{"Elu", -2, 2},           Range{"LeakyRelu", -2, 2},
        Range{"Softplus", -4, 4}, Range{"Identity", -2, 2}, Range{"L2Loss", -2, 2}})
    for (const Shape& shape : {Shape{}, Shape{2, 3}, Shape{17}, Shape{2, 0}})
      cases.push_back({r.op, {X(shape, r.low, r.high)}});
  cases.push_back({"LeakyRelu", {X({7})}, {{"alpha", 0.5f}}});
  cases.push_back({"CheckNumerics", {X({2, 3})}, {{"message", "m"}}});
  cases.push_back({"CheckNumericsV2", {X({2, 3})}, {{"message", "m"}}});
  cases.push_back({"IdentityN", {X({2}), X({3})}});
  cases.push_back({"QuantizeAndDequantizeV4Grad",
                   {X({2, 3}), Fixed({2, 3}, {-2, 0, 2, 1, -1, 3}), Fixed({}, {-1}), Fixed({}, {1})}});
  cases.push_back({"QuantizeAndDequantizeV4Grad",
                   {X({2, 2}), Fixed({2, 2}, {-2, 0, 2, 1}), Fixed({2}, {-1, -3}), Fixed({2}, {1, 3})},
                   {{"axis", 0}}});
  cases.push_back({"PlaceholderWithDefault", {X({2})}, {{"shape", Shape{2}}}});
  // What carries a gradient has one itself. The range is of what the function gave.
  for (const Range& r : {Range{"SqrtGrad", 0.5, 2}, Range{"RsqrtGrad", 0.5, 2}, Range{"ReciprocalGrad", 0.5, 2},
                         Range{"TanhGrad", -0.9, 0.9}, Range{"SigmoidGrad", 0.1, 0.9}})
    for (const Shape& shape : {Shape{}, Shape{2, 3}}) cases.push_back({r.op, {X(shape, r.low, r.high), X(shape)}});
  for (const Range& r : {Range{"ReluGrad", -2, 2}, Range{"Relu6Grad", -4, 10}, Range{"EluGrad", -0.9, 2},
                         Range{"LeakyReluGrad", -2, 2}, Range{"SoftplusGrad", -3, 3}})
    for (const Shape& shape : {Shape{5}, Shape{2, 3}}) cases.push_back({r.op, {X(shape), X(shape, r.low, r.high)}});
  // Through float the differences are of float's precision; the function is a line, so that the step may be long.
  cases.push_back({"Cast", {X({4})}, {{"DstT", DType::kDouble}}});
  cases.push_back({"Cast", {X({4})}, {{"DstT", DType::kFloat}}, true, 0.25, 1e-5});
}

// Angles, special functions, and what else is of numbers one by one.
void AddCurves(Cases& cases) {
  struct Range {
    const char* op;
    double low, high;
  };
  for (const Range& r :
       {Range{"Tan", -1, 1},         Range{"Asin", -0.8, 0.8},  Range{"Acos", -0.8, 0.8},   Range{"Atan", -3, 3},
        Range{"Sinh", -2, 2},        Range{"Cosh", -2, 2},      Range{"Asinh", -3, 3},      Range{"Acosh", 1.3, 4},
        Range{"Atanh", -0.8, 0.8},   Range{"Selu", -2, 2},      Range{"Inv", 0.4, 2},       Range{"Lgamma", 0.6, 4},
        Range{"Lgamma", -1.8, -1.2}, Range{"Digamma", 0.6, 4},  Range{"Erfinv", -0.8, 0.8}, Range{"Ndtri", 0.1, 0.9},
        Range{"Dawsn", -3, 3},       Range{"Expint", 0.5, 3},   Range{"Spence", 0.3, 3},    Range{"FresnelSin", -2, 2},
        Range{"FresnelCos", -2, 2},  Range{"BesselI0", -2, 2},  Range{"BesselI0e", 0.3, 2}, Range{"BesselI1", 0.3, 2},
        Range{"BesselI1e", 0.3, 2},  Range{"BesselJ0", -4, 4},  Range{"BesselJ1", 0.3, 4},  Range{"BesselY0", 0.5, 4},
        Range{"BesselY1", 0.6, 4},   Range{"BesselK0", 0.5, 3}, Range{"BesselK0e", 0.5, 3}, Range{"BesselK1", 0.6, 3},
        Range{"BesselK1e", 0.6, 3}})
    for (const Shape& shape : {Shape{}, Shape{2, 3}, Shape{2, 0}}) cases.push_back({r.op, {X(shape, r.low, r.high)}});
  cases.push_back({"Softsign", {X({2, 3})}, {}, false});
  cases.push_back({"InvGrad", {X({2, 3}, 0.5, 2), X({2, 3})}});
  cases.push_back({"SeluGrad", {X({5}), X({5}, -0.9, 2)}});
  for (const auto& [x, y] : BroadcastPairs()) {
    cases.push_back({"Atan2", {X(x, 0.5, 2), X(y, 0.5, 2)}});
    cases.push_back({"Xlog1py", {X(x, 0.5, 2), X(y, 0.2, 2)}});
    cases.push_back({"Igamma", {X(x, 0.5, 3), X(y, 0.5, 3)}, {}, false});
    cases.push_back({"Igammac", {X(x, 0.5, 3), X(y, 0.5, 3)}, {}, false});
  }
  cases.push_back({"NextAfter", {X({2, 3}), Fixed({3}, {-3, 0, 3})}});
  cases.push_back({"Polygamma", {Fixed({3}, {1, 2, 3}), X({2, 3}, 1.5, 4)}});
  cases.push_back({"Zeta", {Fixed({3}, {2, 3, 2.5}), X({2, 3}, 1, 3)}});
  cases.push_back({"Betainc", {Fixed({3}, {1.5, 2, 0.7}), Fixed({3}, {2, 0.8, 1.5}), X({3}, 0.2, 0.8)}, {}, false});
  cases.push_back({"Betainc", {Fixed({2}, {1.5, 2}), Fixed({}, {2}), X({}, 0.2, 0.8)}, {}, false});
  cases.push_back({"ClipByValue", {X({2, 3}), X({}, -1, -0.5), X({}, 0.5, 1)}});
  cases.push_back({"ClipByValue", {X({7}), X({7}, -1, -0.5), X({7}, 0.5, 1)}});
}

void AddReductions(Cases& cases) {
  for (const char* op : {"Sum", "Mean", "Max", "Min", "Prod"}) {
    for (const bool keep_dims : {false, true}) {
      for (const std::vector<double>& axes :
           std::vector<std::vector<double>>{{}, {0}, {1}, {-1}, {0, 2}, {2, 0}, {-2, 0}, {0, 1, 2}})
        cases.push_back({op, {X({2, 3, 2}), List(axes)}, {{"keep_dims", keep_dims}}});
      cases.push_back({op, {X({2, 3}), One(1)}, {{"keep_dims", keep_dims}}});
      cases.push_back({op, {X({2, 3}), LongList({0})}, {{"keep_dims", keep_dims}}});
      cases.push_back({op, {X({}), List({})}, {{"keep_dims", keep_dims}}});
      cases.push_back({op, {X({0, 3}), List({1})}, {{"keep_dims", keep_dims}}});
    }
  }
  for (const char* op : {"Sum", "Prod"}) cases.push_back({op, {X({3, 0}), List({1})}});
  for (const bool keep_dims : {false, true}) {
    for (const std::vector<double>& axes : std::vector<std::vector<double>>{{0}, {-1, 0}, {0, 1, 2}})
      cases.push_back({"EuclideanNorm", {X({2, 3, 2}, 0.5, 2), List(axes)}, {{"keep_dims", keep_dims}}});
    cases.push_back({"CumulativeLogsumexp", {X({2, 3, 2}), One(1)}, {{"reverse", keep_dims}}, false});
  }
  cases.push_back(
      {"IsotonicRegression", {XAt({2, 4}, {3, 1, 2, 0.5, 1, 2, 4, 0})}, {{"output_dtype", DType::kDouble}}});
  // One zero in a row, two, and none. The second gradient is exact only where there is none (ops/math/reduce.cc).
  cases.push_back({"Prod", {XAt({3, 3}, {0, 2, 3, 0, 0, 3, 1, 2, 3}), List({1})}, {}, false});
}

void AddProducts(Cases& cases) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto matrix = [](int64_t rows, int64_t columns, bool turned) {
        return turned ? Shape{columns, rows} : Shape{rows, columns};
      };
      cases.push_back(
          {"MatMul", {X(matrix(2, 3, ta)), X(matrix(3, 4, tb))}, {{"transpose_a", ta}, {"transpose_b", tb}}});
      cases.push_back(
          {"MatMul", {X(matrix(2, 0, ta)), X(matrix(0, 2, tb))}, {{"transpose_a", ta}, {"transpose_b", tb}}});
      const auto stack = [&](std::vector<int64_t> batch, int64_t rows, int64_t columns, bool turned) {
        const Shape last = matrix(rows, columns, turned);
        batch.insert(batch.end(), last.dims().begin(), last.dims().end());
        return Shape(batch);
      };
      const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> batches = {
          {{}, {}}, {{2}, {2}}, {{}, {2}}, {{2}, {}}, {{2, 1}, {3}}, {{1}, {2, 2}}, {{0}, {1}}};
      for (const auto& [x, y] : batches)
        cases.push_back(
            {"BatchMatMulV2", {X(stack(x, 2, 3, ta)), X(stack(y, 3, 2, tb))}, {{"adj_x", ta}, {"adj_y", tb}}});
    }
  cases.push_back({"AddN", {X({2, 2})}});
  cases.push_back({"AddN", {X({2, 2}), X({2, 2}), X({2, 2})}});
  cases.push_back({"SegmentSum", {X({4, 2}), List({0, 0, 1, 3})}});
  cases.push_back({"SegmentSum", {X({3}), LongList({0, 1, 1})}});
  cases.push_back({"UnsortedSegmentSum", {X({4, 2}), List({2, 0, -1, 2}), One(4)}});
  cases.push_back({"UnsortedSegmentSum", {X({2, 2, 3}), Longs({2, 2}, {1, 0, -1, 1}), One(2)}});
  cases.push_back({"UnsortedSegmentSum", {X({3}), List({0, 1, 0}), Longs({}, {2})}});
  cases.push_back({"UnsortedSegmentSum", {X({3, 2}), List({-1, -1, -1}), One(0)}});
}

void AddSegments(Cases& cases) {
  for (const char* op : {"SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin"}) {
    cases.push_back({op, {X({4, 2}), List({0, 0, 1, 3})}});
    cases.push_back({op, {X({3}), LongList({0, 1, 1})}});
  }
  for (const char* op : {"UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin"}) {
    cases.push_back({op, {X({4, 2}), List({2, 0, -1, 1}), One(3)}});
    cases.push_back({op, {X({2, 2, 3}), Longs({2, 2}, {1, 0, -1, 1}), One(2)}});
    cases.push_back({op, {X({3}), List({0, 1, 0}), Longs({}, {2})}});
    cases.push_back({op, {X({3, 2}), List({-1, -1, -1}), One(0)}});
  }
  // The second gradient is exact only where no element is zero.
  cases.push_back({"SegmentProd", {XAt({6}, {0, 2, 0, 0, 3, 4}), List({0, 0, 1, 1, 1, 2})}, {}, false});
  cases.push_back(
      {"UnsortedSegmentProd", {XAt({6}, {0, 2, 0, 0, 3, 4}), List({0, 0, 1, 1, 1, -1}), One(2)}, {}, false});
  cases.push_back({"AccumulateNV2", {X({2, 2}), X({2, 2})}, {{"shape", Shape{2, 2}}}});
}

void AddShapes(Cases& cases) {
  cases.push_back({"Reshape", {X({2, 3}), List({3, -1})}});
  cases.push_back({"Reshape", {X({}), LongList({1, 1})}});
  cases.push_back({"Reshape", {X({0, 3}), List({3, 0})}});
  for (double axis : {0, 1, -1, -3}) cases.push_back({"ExpandDims", {X({2, 3}), One(axis)}});
  cases.push_back({"Squeeze", {X({1, 2, 1})}});
  cases.push_back({"Squeeze", {X({1, 2, 1})}, {{"squeeze_dims", {-1}}}});
  cases.push_back({"Fill", {List({2, 3}), X({})}});
  cases.push_back({"Fill", {LongList({}), X({})}});
  cases.push_back({"BroadcastTo", {X({3}), List({2, 3})}});
  cases.push_back({"BroadcastTo", {X({2, 1}), LongList({3, 2, 2})}});
  cases.push_back({"BroadcastTo", {X({}), List({2, 2})}});
  cases.push_back({"ConcatV2", {X({2, 3}), X({1, 3}), One(0)}});
  cases.push_back({"ConcatV2", {X({2, 1}), X({2, 0}), X({2, 2}), One(-1)}});
  cases.push_back({"ConcatV2", {X({2}), X({3}), Longs({}, {0})}});
  cases.push_back({"Split", {One(1), X({2, 4})}, {{"num_split", 2}}});
  cases.push_back({"Split", {One(-2), X({3, 2})}, {{"num_split", 3}}});
  cases.push_back({"Split", {One(0), X({3})}, {{"num_split", 1}}});
  cases.push_back({"SplitV", {X({2, 5}), LongList({2, 0, 3}), One(1)}, {{"num_split", 3}}});
  cases.push_back({"SplitV", {X({4, 2}), List({-1, 1}), One(-2)}, {{"num_split", 2}}});
  for (int axis : {0, 1, -1}) {
    cases.push_back({"Pack", {X({2, 3}), X({2, 3})}, {{"axis", axis}}});
    cases.push_back({"Unpack", {X({2, 2})}, {{"num", 2}, {"axis", axis}}});
  }
  cases.push_back({"Pack", {X({}), X({}), X({})}});
  cases.push_back({"Transpose", {X({2, 3, 2}), List({2, 0, 1})}});
  cases.push_back({"Transpose", {X({2, 3}), LongList({1, 0})}});
  cases.push_back({"ConjugateTranspose", {X({2, 3, 2}), List({2, 0, 1})}});
  cases.push_back({"Tile", {X({2, 2}), List({2, 3})}});
  cases.push_back({"Tile", {X({2}), LongList({1})}});
  cases.push_back({"Tile", {X({2}), List({0})}});
  cases.push_back({"Tile", {X({}), List({})}});
  cases.push_back({"Pad", {X({2, 2}), Ints({2, 2}, {1, 0, 2, 1})}});
  cases.push_back({"Pad", {X({2}), Longs({1, 2}, {0, 3})}});
  cases.push_back({"PadV2", {X({2, 1}), Ints({2, 2}, {1, 0, 0, 1}), X({})}});
  cases.push_back({"ReverseV2", {X({2, 3}), List({1})}});
  cases.push_back({"ReverseV2", {X({2, 3}), LongList({-1, 0})}});
  cases.push_back({"ReverseV2", {X({2}), List({})}});
  cases.push_back({"Slice", {X({3, 4}), List({1, 0}), List({2, 3})}});
  cases.push_back({"Slice", {X({3, 4}), LongList({0, 2}), LongList({-1, -1})}});
}

void AddStridedSlices(Cases& cases) {
  struct Spec {
    Shape shape;
    std::vector<double> begin, end, strides;
    int64_t begin_mask = 0, end_mask = 0, ellipsis_mask = 0, new_axis_mask = 0, shrink_axis_mask = 0;
    Shape out;
  };
  const std::vector<Spec> specs = {
      {{5}, {1}, {4}, {2}, 0, 0, 0, 0, 0, {2}},
      {{5}, {4}, {0}, {-2}, 0, 0, 0, 0, 0, {2}},
      {{5}, {0}, {0}, {-1}, 1, 1, 0, 0, 0, {5}},
      {{3, 4}, {1, 0}, {2, 4}, {1, 3}, 0, 0, 0, 0, 1, {2}},
      {{3, 4}, {0, -2}, {0, 0}, {1, 1}, 1, 3, 0, 0, 0, {3, 2}},
      {{2, 2, 3}, {0, 1}, {0, 2}, {1, 1}, 0, 0, 1, 0, 2, {2, 2}},
      {{3}, {0, 1}, {0, 3}, {1, 1}, 0, 0, 0, 1, 0, {1, 2}},
  };
  for (const Spec& s : specs) {
    const Attrs masks = {{"begin_mask", s.begin_mask},
                         {"end_mask", s.end_mask},
                         {"ellipsis_mask", s.ellipsis_mask},
                         {"new_axis_mask", s.new_axis_mask},
                         {"shrink_axis_mask", s.shrink_axis_mask}};
    cases.push_back({"StridedSlice", {X(s.shape), List(s.begin), List(s.end), List(s.strides)}, masks});
    cases.push_back({"StridedSlice", {X(s.shape), LongList(s.begin), LongList(s.end), LongList(s.strides)}, masks});
    const std::vector<double> shape(s.shape.dims().begin(), s.shape.dims().end());
    cases.push_back({"StridedSliceGrad", {List(shape), List(s.begin), List(s.end), List(s.strides), X(s.out)}, masks});
  }
}

void AddChoices(Cases& cases) {
  cases.push_back({"Gather", {X({4, 2}), List({1, 3, 1})}});
  cases.push_back({"Gather", {X({4}), Longs({2, 2}, {0, 3, 3, 3})}});
  cases.push_back({"GatherV2", {X({4, 2}), List({2, 0, 2}), One(0)}});
  cases.push_back({"GatherV2", {X({4, 2}), Longs({}, {3}), One(-2)}});
  cases.push_back({"GatherV2", {X({2, 4}), Ints({2, 2}, {1, 0, 1, 3}), One(1)}});
  cases.push_back({"GatherV2", {X({2, 3, 2}), List({2, 2}), One(1)}});
  cases.push_back({"GatherV2", {X({2, 3}), Longs({0}, {}), One(-1)}});
  cases.push_back({"GatherV2", {X({2, 4, 2}), Ints({2, 3}, {1, 0, 1, 3, 3, 2}), One(1)}, {{"batch_dims", 1}}});
  cases.push_back({"GatherV2", {X({2, 2, 3}), Ints({2, 2}, {1, 0, 2, 2}), One(2)}, {{"batch_dims", 1}}});
  cases.push_back({"Select", {Bools({2, 2}, {1, 0, 0, 1}), X({2, 2}), X({2, 2})}});
  cases.push_back({"Select", {Bools({2}, {1, 0}), X({2, 2}), X({2, 2})}});
  cases.push_back({"Select", {Bools({}, {1}), X({2, 2}), X({2, 2})}});
  cases.push_back({"SelectV2", {Bools({2, 1}, {1, 0}), X({3}), X({})}});
  cases.push_back({"SelectV2", {Bools({}, {0}), X({2, 1}), X({1, 3})}});
  cases.push_back({"SelectV2", {Bools({2, 3}, {1, 0, 1, 0, 0, 1}), X({2, 3}), X({2, 3})}});
  cases.push_back({"DynamicPartition", {X({4, 2}), List({1, 0, 1, 2})}, {{"num_partitions", 4}}});
  cases.push_back({"DynamicPartition", {X({2, 2}), Ints({2, 2}, {1, 0, 1, 1})}, {{"num_partitions", 2}}});
  // Each index once: of a row that a later one overwrites the op has, by definition, that one's gradient.
  cases.push_back({"DynamicStitch", {List({3, 0}), Ints({}, {2}), X({2, 2}), X({2})}, {{"N", 2}}});
  cases.push_back({"DynamicStitch", {Ints({2, 2}, {3, 0, 1, 2}), X({2, 2})}, {{"N", 1}}});
}

// Images: batch, height, width, channels; with NCHW the channels come second.
Shape Image(const std::string& format, int64_t n, int64_t h, int64_t w, int64_t c) {
  return format == "NHWC" ? Shape{n, h, w, c} : Shape{n, c, h, w};
}
std::vector<int64_t> PerPixel(const std::string& format, int64_t height, int64_t width) {
  return format == "NHWC" ? std::vector<int64_t>{1, height, width, 1} : std::vector<int64_t>{1, 1, height, width};
}
std::vector<double> Dims(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

void AddConvolutions(Cases& cases) {
  struct Spec {
    int64_t height, width, in, filter_height, filter_width, filter_in, out, stride, dilation;
    const char* padding;
    int64_t out_height, out_width;
  };
  for (const std::string format : {"NHWC", "NCHW"})
    for (const Spec& s :
         {Spec{4, 3, 2, 2, 2, 2, 3, 1, 1, "SAME", 4, 3}, Spec{4, 5, 1, 3, 2, 1, 2, 1, 1, "VALID", 2, 4},
          Spec{5, 4, 2, 3, 3, 2, 1, 2, 1, "SAME", 3, 2}, Spec{5, 5, 1, 2, 2, 1, 2, 1, 2, "VALID", 3, 3},
          Spec{4, 4, 4, 2, 2, 2, 4, 1, 1, "SAME", 4, 4}, Spec{3, 3, 1, 2, 2, 1, 1, 2, 1, "EXPLICIT", 3, 1}}) {
      std::vector<int64_t> around(8, 0);
      if (std::string(s.padding) == "EXPLICIT") {
        around[format == "NHWC" ? 2 : 4] = 1;  // before the height
        around[format == "NHWC" ? 3 : 5] = 2;  // after it
      }
      const bool is_explicit = std::string(s.padding) == "EXPLICIT";
      const Attrs attrs = {{"strides", PerPixel(format, s.stride, s.stride)},
                           {"dilations", PerPixel(format, s.dilation, s.dilation)},
                           {"padding", s.padding},
                           {"explicit_paddings", is_explicit ? around : std::vector<int64_t>()},
                           {"data_format", format}};
      const Shape image = Image(format, 2, s.height, s.width, s.in),
                  filter{s.filter_height, s.filter_width, s.filter_in, s.out};
      const Shape out = Image(format, 2, s.out_height, s.out_width, s.out);
      cases.push_back({"Conv2D", {X(image), X(filter)}, attrs});
      cases.push_back({"Conv2DBackpropInput", {List(Dims(image)), X(filter), X(out)}, attrs});
      cases.push_back({"Conv2DBackpropFilter", {X(image), List(Dims(filter)), X(out)}, attrs});
    }
}

void AddPools(Cases& cases) {
  struct Spec {
    int64_t height, width, size, stride;
    const char* padding;
    int64_t out_height, out_width;
  };
  for (const std::string format : {"NHWC", "NCHW"})
    for (const Spec& s :
         {Spec{4, 4, 2, 2, "VALID", 2, 2}, Spec{5, 4, 3, 2, "SAME", 3, 2}, Spec{4, 3, 2, 1, "SAME", 4, 3}}) {
      const Attrs attrs = {{"ksize", PerPixel(format, s.size, s.size)},
                           {"strides", PerPixel(format, s.stride, s.stride)},
                           {"padding", s.padding},
                           {"data_format", format}};
      const Shape image = Image(format, 2, s.height, s.width, 2), out = Image(format, 2, s.out_height, s.out_width, 2);
      cases.push_back({"MaxPool", {X(image)}, attrs});
      cases.push_back({"AvgPool", {X(image)}, attrs});
      cases.push_back({"AvgPoolGrad", {List(Dims(image)), X(out)}, attrs});
    }
  // These are also given what MaxPool made: a [1,2,4,1] image and its maxima.
  const Attrs attrs = {{"ksize", {1, 2, 2, 1}}, {"strides", {1, 2, 2, 1}}, {"padding", "VALID"}};
  const Input image = Fixed({1, 2, 4, 1}, {3, 1, 2, 8, 4, 0, 7, 5}), maxima = Fixed({1, 1, 2, 1}, {4, 8});
  cases.push_back({"MaxPoolGrad", {image, maxima, X({1, 1, 2, 1})}, attrs});
  cases.push_back({"MaxPoolGradGrad", {image, maxima, X({1, 2, 4, 1})}, attrs});
  // The same windows as inputs, and with the places of the maxima.
  const Attrs valid = {{"padding", "VALID"}};
  const Input size = List({1, 2, 2, 1}), places = Longs({1, 1, 2, 1}, {4, 3});
  cases.push_back({"MaxPoolV2", {X({2, 4, 5, 2}), size, size}, valid});
  cases.push_back({"MaxPoolGradV2", {image, maxima, X({1, 1, 2, 1}), size, size}, valid});
  cases.push_back({"MaxPoolGradGradV2", {image, maxima, X({1, 2, 4, 1}), size, size}, valid});
  cases.push_back({"MaxPoolWithArgmax", {X({2, 4, 5, 2})}, attrs});
  cases.push_back({"MaxPoolGradWithArgmax", {image, X({1, 1, 2, 1}), places}, attrs});
  cases.push_back({"MaxPoolGradGradWithArgmax", {image, X({1, 2, 4, 1}), places}, attrs});
  for (const char* op : {"FractionalMaxPool", "FractionalAvgPool"})
    for (const bool overlapping : {false, true})
      cases.push_back({op,
                       {X({2, 5, 4, 2})},
                       {{"pooling_ratio", std::vector<float>{1, 1.5f, 1.3f, 1}},
                        {"overlapping", overlapping},
                        {"deterministic", true},
                        {"seed", 3}},
                       false});
}

void AddVolumes(Cases& cases) {
  struct Spec {
    std::vector<int64_t> size, strides, out;
    const char* padding;
  };
  const std::vector<int64_t> volume = {3, 4, 3};
  for (const bool first : {false, true})
    for (const Spec& s : {Spec{{2, 2, 2}, {1, 1, 1}, {2, 3, 2}, "VALID"}, Spec{{1, 3, 2}, {1, 2, 1}, {3, 2, 3}, "SAME"},
                          Spec{{1, 1, 1}, {1, 1, 1}, {3, 4, 3}, "VALID"}}) {
      const auto five = [&](const std::vector<int64_t>& sides, int64_t batch, int64_t channels) {
        std::vector<int64_t> dims = {batch};
        if (first) dims.push_back(channels);
        dims.insert(dims.end(), sides.begin(), sides.end());
        if (!first) dims.push_back(channels);
        return dims;
      };
      const Attrs attrs = {
          {"strides", five(s.strides, 1, 1)}, {"padding", s.padding}, {"data_format", first ? "NCDHW" : "NDHWC"}};
      const Shape x(five(volume, 2, 2)), y(five(s.out, 2, 3)), filter{s.size[0], s.size[1], s.size[2], 2, 3};
      cases.push_back({"Conv3D", {X(x), X(filter)}, attrs});
      cases.push_back({"Conv3DBackpropInputV2", {List(Dims(x)), X(filter), X(y)}, attrs});
      cases.push_back({"Conv3DBackpropFilterV2", {X(x), List(Dims(filter)), X(y)}, attrs});
      Attrs pool = attrs;
      pool.push_back({"ksize", five(s.size, 1, 1)});
      cases.push_back({"AvgPool3D", {X(x)}, pool});
      cases.push_back({"AvgPool3DGrad", {List(Dims(x)), X(Shape(five(s.out, 2, 2)))}, pool});
    }
  for (const char* padding : {"SAME", "VALID"})
    cases.push_back({"Dilation2D",
                     {X({2, 5, 4, 2}), X({2, 3, 2})},
                     {{"strides", {1, 2, 1, 1}}, {"rates", {1, 1, 1, 1}}, {"padding", padding}},
                     false});
}

void AddLosses(Cases& cases) {
  for (const char* op : {"Softmax", "LogSoftmax"})
    for (const Shape& shape : {Shape{4}, Shape{2, 3}, Shape{2, 2, 3}, Shape{0, 3}}) cases.push_back({op, {X(shape)}});
  cases.push_back({"SoftmaxCrossEntropyWithLogits", {X({2, 3}), Distribution({2, 3})}});
  cases.push_back({"SoftmaxCrossEntropyWithLogits", {X({1, 3}), Distribution({2, 3})}});
  cases.push_back({"SoftmaxCrossEntropyWithLogits", {X({2, 3}), Distribution({1, 3})}});
  cases.push_back({"SparseSoftmaxCrossEntropyWithLogits", {X({3, 4}), List({3, 0, 2})}});
  cases.push_back({"SparseSoftmaxCrossEntropyWithLogits", {X({2, 3}), LongList({1, 1})}});
  for (const std::string format : {"NHWC", "NCHW"}) {
    cases.push_back({"BiasAdd", {X(Image(format, 2, 2, 2, 3)), X({3})}, {{"data_format", format}}});
    cases.push_back({"BiasAddGrad", {X(Image(format, 2, 2, 2, 3))}, {{"data_format", format}}});
  }
  cases.push_back({"BiasAdd", {X({4, 2}), X({2})}});
  cases.push_back({"BiasAdd", {X({0, 2}), X({2})}});
  cases.push_back({"BiasAddGrad", {X({4, 2})}});
  for (const bool scaled : {false, true}) {
    const Attrs attrs = {{"variance_epsilon", 0.1f}, {"scale_after_normalization", scaled}};
    cases.push_back(
        {"BatchNormWithGlobalNormalization", {X({2, 1, 2, 3}), X({3}), X({3}, 0.5, 2), X({3}), X({3})}, attrs, false});
  }
}

// Matrices whose rows are led by their diagonal, and whose values lie apart.
void AddMatrices(Cases& cases) {
  const Input square = XAt({3, 3}, {3, 0.4, -0.3, 0.2, -2, 0.5, -0.6, 0.1, 1.5}),
              stack = XAt({2, 2, 2}, {2, 0.3, -0.4, 1.2, -1.1, 0.5, 0.2, 3});
  for (const bool adjoint : {false, true}) {
    cases.push_back({"MatrixInverse", {square}, {{"adjoint", adjoint}}});
    cases.push_back({"MatrixInverse", {stack}, {{"adjoint", adjoint}}});
    cases.push_back({"MatrixSolve", {square, X({3, 2})}, {{"adjoint", adjoint}}});
    cases.push_back({"MatrixSolve", {stack, X({2, 2, 1})}, {{"adjoint", adjoint}}});
    for (const bool lower : {false, true}) {
      const Attrs attrs = {{"adjoint", adjoint}, {"lower", lower}};
      cases.push_back({"MatrixTriangularSolve", {square, X({3, 2})}, attrs});
      cases.push_back({"MatrixTriangularSolve", {stack, X({2, 2})}, attrs});
      cases.push_back({"MatrixTriangularSolve", {XAt({1, 2, 2}, {2, 0.3, -0.4, 1.2}), X({3, 2, 1})}, attrs});
      cases.push_back({"BandedTriangularSolve", {XAt({2, 3}, {2, -1.5, 1.2, 1.6, -1.8, 2.1}), X({3, 2})}, attrs});
      cases.push_back({"BandedTriangularSolve", {XAt({1, 3}, {2, -1.5, 1.2}), X({2, 3, 2})}, attrs});
    }
  }
  for (const char* op : {"MatrixDeterminant", "LogMatrixDeterminant"})
    for (const Input& matrix : {square, stack}) cases.push_back({op, {matrix}});
  const Input tall = XAt({3, 2}, {2, 0.3, -0.4, 1.2, 0.5, -0.7}), wide = XAt({2, 3}, {2, 0.3, -0.4, 0.6, 1.2, 0.5});
  for (const double regularizer : {0.0, 0.5})
    for (const Input& matrix : {tall, wide, square})
      cases.push_back({"MatrixSolveLs", {matrix, X({matrix.shape.dims()[0], 2}), Fixed({}, {regularizer})}});
  for (const Input& matrix : {tall, wide, square, stack}) {
    cases.push_back({"Qr", {matrix}, {}, false});
    cases.push_back({"Svd", {matrix}, {{"compute_uv", false}}, false});
    cases.push_back({"Svd", {matrix}, {}, false});
  }
  for (const bool vectors : {false, true})
    for (const Input& matrix : {square, stack})
      cases.push_back({"SelfAdjointEigV2", {matrix}, {{"compute_v", vectors}}, false});
  cases.push_back({"MatrixSquareRoot", {XAt({3, 3}, {3, 0.4, -0.3, 0.2, 2, 0.5, -0.6, 0.1, 1.5})}});
  cases.push_back({"MatrixSquareRoot", {XAt({2, 2, 2}, {2, 0.3, -0.4, 1.2, 1.1, 0.5, 0.2, 3})}});
  for (const bool pivoting : {false, true})
    cases.push_back({"TridiagonalSolve",
                     {XAt({3, 3}, {0.3, -0.4, 0.5, 2, -1.5, 1.8, 0.6, 0.7, -0.2}), X({3, 2})},
                     {{"partial_pivoting", pivoting}}});
  cases.push_back({"TridiagonalMatMul", {X({1, 3}), X({1, 3}), X({1, 3}), X({3, 2})}});
  cases.push_back({"TridiagonalMatMul", {X({2, 1, 2}), X({2, 1, 2}), X({2, 1, 2}), X({2, 2, 1})}});
  cases.push_back({"Cross", {X({2, 3}), X({2, 3})}});
  cases.push_back({"Diag", {X({2, 2})}});
  cases.push_back({"DiagPart", {X({2, 3, 2, 3})}});
  cases.push_back({"MatrixDiag", {X({2, 3})}});
  for (const Shape& shape : {Shape{3, 3}, Shape{2, 3, 2}}) cases.push_back({"MatrixDiagPart", {X(shape)}});
  cases.push_back({"MatrixSetDiag", {X({2, 2, 3}), X({2, 2})}});
  for (const std::string version : {"V2", "V3"})
    for (const char* align : {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"}) {
      const Attrs attrs = version == "V3" ? Attrs{{"align", align}} : Attrs{};
      cases.push_back({"MatrixDiag" + version, {X({2, 3, 3}), List({-1, 1}), One(-1), One(4), Fixed({}, {7})}, attrs});
      cases.push_back({"MatrixDiag" + version, {X({2, 3}), One(1), One(-1), One(-1), Fixed({}, {7})}, attrs});
      cases.push_back({"MatrixDiagPart" + version, {X({2, 3, 4}), List({-2, 1}), Fixed({}, {7})}, attrs});
      cases.push_back({"MatrixSetDiag" + version, {X({3, 4}), X({3, 3}), List({-1, 1})}, attrs});
    }
}

void AddMoves(Cases& cases) {
  cases.push_back({"Roll", {X({2, 3, 2}), List({1, -4}), LongList({1, -1})}});
  cases.push_back({"Roll", {X({3}), One(2), One(0)}});
  cases.push_back({"Snapshot", {X({2})}});
  cases.push_back({"ParallelDynamicStitch", {List({3, 0}), Ints({}, {2}), X({2, 2}), X({2})}, {{"N", 2}}});
  cases.push_back({"TensorStridedSliceUpdate",
                   {X({3, 4}), List({1, 0}), List({2, 4}), List({1, 3}), X({2})},
                   {{"shrink_axis_mask", 1}}});
  cases.push_back({"TensorStridedSliceUpdate", {X({5}), LongList({4}), LongList({0}), LongList({-2}), X({})}});
  cases.push_back({"NthElement", {X({2, 4}), One(1)}});
  cases.push_back({"NthElement", {X({3}), One(0)}, {{"reverse", true}}});
  cases.push_back({"BiasAddV1", {X({2, 2, 3}), X({3})}});
}

const Cases& AllCases() {
  static const Cases all = [] {
    Cases cases;
    for (const auto add :
         {AddBinary, AddUnary, AddCurves, AddReductions, AddProducts, AddSegments, AddShapes, AddStridedSlices,
          AddChoices, AddConvolutions, AddPools, AddVolumes, AddLosses, AddMatrices, AddMoves})
      add(cases);
    return cases;
  }();
  return all;
}

// ---- The checks ----

TEST(GradientCheck, AgreesWithCentralDifferencesForEveryCase) {
  std::set<std::string> ops, with_slope;
  for (size_t i = 0; i < AllCases().size(); ++i)
    for (const Knowledge knowledge : {Knowledge::kShape, Knowledge::kRank, Knowledge::kNothing}) {
      const Case& test = AllCases()[i];
      GradientCheck check(test, i, knowledge);
      if (!check.Run(false)) ADD_FAILURE() << "case " << i << ", " << test.op << ": " << check.why();
      ops.insert(test.op);
      if (check.saw_slope()) with_slope.insert(test.op);
    }
  // No op passes because all its gradients are 0, but for the one whose gradient is.
  with_slope.insert("Sign");
  EXPECT_EQ(ops, with_slope);
}

TEST(GradientCheck, OfAGradientAgreesToo) {
  for (size_t i = 0; i < AllCases().size(); ++i) {
    const Case& test = AllCases()[i];
    GradientCheck check(test, i, Knowledge::kShape);
    if (test.second_order && !check.Run(true)) ADD_FAILURE() << "case " << i << ", " << test.op << ": " << check.why();
  }
}

// d(sum of w * y)/d(the variable), where y is made of the variable's value.
void CheckVariable(const std::function<Output(Graph&, const Output& handle)>& make, const Shape& shape) {
  Graph g(TheRuntime());
  const Output handle = g.Op("VarHandleOp", {}, {{"dtype", DType::kDouble}, {"shape", shape}, {"shared_name", "v"}});
  const Output value = g.Placeholder("value", DType::kDouble, shape);
  const Operation assign = g.AddNode("AssignVariableOp", {handle, value}, {{"dtype", DType::kDouble}});
  const Output y = g.Op("Square", {make(g, handle)});
  const std::vector<Gradient> gradients = g.Gradients({y}, {handle});
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  std::vector<double> at(static_cast<size_t>(shape.element_count()));
  for (size_t i = 0; i < at.size(); ++i) at[i] = 0.3 * static_cast<double>(i) - 1;
  const auto sum = [&](const std::vector<double>& point) {
    const Status assigned = session->RunTargets({assign}, {{value, View(point, shape)}});
    EXPECT_TRUE(assigned.ok()) << assigned;
    auto values = session->Run({}, {y});
    EXPECT_TRUE(values.ok()) << values.status();
    double total = 0;
    for (double element : Values<double>((*values)[0])) total += element;
    return total;
  };
  std::vector<double> numeric(at.size()), found(at.size(), 0.0);
  for (size_t i = 0; i < at.size(); ++i) {
    std::vector<double> up = at, down = at;
    up[i] += 1e-5;
    down[i] -= 1e-5;
    numeric[i] = (sum(up) - sum(down)) / 2e-5;
  }
  sum(at);
  const Gradient& gradient = gradients[0];
  const bool slices = gradient.kind == Gradient::Kind::kSlices;
  auto values = session->Run(
      {}, slices ? std::vector<Name>{gradient.dense, gradient.indices} : std::vector<Name>{gradient.dense});
  ASSERT_TRUE(values.ok()) << values.status();
  const std::vector<double> rows = Values<double>((*values)[0]);
  const size_t row = at.size() / static_cast<size_t>(shape[0]);
  for (size_t k = 0; k < rows.size(); ++k)
    found[slices ? static_cast<size_t>(DoublesOf((*values)[1])[k / row]) * row + k % row : k] += rows[k];
  for (size_t i = 0; i < at.size(); ++i) EXPECT_NEAR(found[i], numeric[i], 1e-6) << "element " << i;
}

TEST(VariableGradient, OfAReadVariableAgreesWithDifferences) {
  CheckVariable(
      [](Graph& g, const Output& v) {
        return g.Op("ReadVariableOp", {v}, {{"dtype", DType::kDouble}});
      },
      {4});
}

TEST(VariableGradient, OfGatheredRowsAgreesWithDifferences) {
  for (const Input& indices : {List({2, 0, 2}), Longs({2, 2}, {1, 3, 3, 3}), Ints({}, {1})})
    CheckVariable(
        [&](Graph& g, const Output& v) {
          const Tensor value = TensorOf(indices.dtype, indices.shape, indices.values);
          return g.Op("ResourceGather", {v, g.Const(View(value))}, {{"dtype", DType::kDouble}});
        },
        {4, 2});
}

TEST(VariableGradient, OfGatheredPlacesAgreesWithDifferences) {
  for (const Input& indices : {Ints({2, 2}, {3, 1, 0, 0}), Longs({3, 1}, {2, 0, 2})})
    CheckVariable(
        [&](Graph& g, const Output& v) {
          const Tensor value = TensorOf(indices.dtype, indices.shape, indices.values);
          return g.Op("ResourceGatherNd", {v, g.Const(View(value))}, {{"dtype", DType::kDouble}});
        },
        {4, 2});
}

TEST(PreventGradient, RefusesWithItsMessage) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  g.Gradients({g.Op("PreventGradient", {x}, {{"message", "not through here"}})}, {x});
  EXPECT_NE(g.status().message().find("not through here"), std::string::npos) << g.status();
}

// ---- Nothing is left out ----

// Ops whose gradients are checked elsewhere, and where.
const std::map<std::string, std::string>& CheckedElsewhere() {
  static const std::map<std::string, std::string> elsewhere = {
      {"ReadVariableOp", "VariableGradient"},
      {"RefIdentity", "variable_test"},
      {"ResourceGather", "VariableGradient"},
      {"ResourceGatherNd", "VariableGradient"},
      {"PreventGradient", "refuses by definition"},
      {"TensorArrayConcatV3", "golden_functions_test"},
      {"TensorArrayGatherV3", "golden_functions_test"},
      {"TensorArrayReadV3", "golden_functions_test"},
      {"TensorArrayScatterV3", "golden_functions_test"},
      {"TensorArraySplitV3", "golden_functions_test"},
      {"TensorArrayGradV3", "loop_derivatives_test"},
      {"TensorArrayWriteV3", "golden_functions_test"},
      {"Rint", "none, which it says, as it is made of another op"},
      {"FakeQuantWithMinMaxArgsGradient", "none, which it says, as it is made of others"},
      {"FakeQuantWithMinMaxVarsGradient", "none, which it says, as it is made of others"},
      {"FakeQuantWithMinMaxVarsPerChannelGradient", "none, which it says, as it is made of others"},
      {"BlockLSTMV2", "nn_ops_test"},
      {"CTCLossV2", "nn_ops_test"},
      {"Conj", "of complex numbers, which the golden cases have"}};
  return elsewhere;
}

// Ops whose gradients the golden cases compare with TensorFlow's (tests/golden/cases).
const std::set<std::string>& WithGoldenGradients() {
  static const std::set<std::string> ops = {"BatchMatMul",
                                            "BatchMatMulV3",
                                            "BatchToSpaceND",
                                            "Concat",
                                            "Cumprod",
                                            "Cumsum",
                                            "DepthToSpace",
                                            "DepthwiseConv2dNative",
                                            "DepthwiseConv2dNativeBackpropFilter",
                                            "DepthwiseConv2dNativeBackpropInput",
                                            "Einsum",
                                            "EnsureShape",
                                            "Erfc",
                                            "FusedBatchNorm",
                                            "FusedBatchNormGrad",
                                            "FusedBatchNormGradV2",
                                            "FusedBatchNormGradV3",
                                            "FusedBatchNormV2",
                                            "FusedBatchNormV3",
                                            "GatherNd",
                                            "LRN",
                                            "MatrixBandPart",
                                            "MirrorPad",
                                            "MirrorPadGrad",
                                            "MulNoNan",
                                            "OptionalFromValue",
                                            "OptionalGetValue",
                                            "Print",
                                            "RaggedGather",
                                            "RaggedTensorFromVariant",
                                            "RaggedTensorToSparse",
                                            "RaggedTensorToTensor",
                                            "RaggedTensorToVariant",
                                            "ResizeBilinear",
                                            "ResizeNearestNeighbor",
                                            "ReverseSequence",
                                            "ScatterNd",
                                            "SpaceToBatchND",
                                            "SpaceToDepth",
                                            "SparseAdd",
                                            "SparseDenseCwiseDiv",
                                            "SparseDenseCwiseMul",
                                            "SparseFillEmptyRows",
                                            "SparseMatMul",
                                            "SparseReduceSum",
                                            "SparseReorder",
                                            "SparseSlice",
                                            "SparseSoftmax",
                                            "SparseTensorDenseAdd",
                                            "SparseSegmentMean",
                                            "SparseSegmentSqrtN",
                                            "SparseSegmentSum",
                                            "SparseTensorDenseMatMul",
                                            "SparseToDense",
                                            "TensorListConcatV2",
                                            "TensorListFromTensor",
                                            "TensorListGather",
                                            "TensorListGetItem",
                                            "TensorListPopBack",
                                            "TensorListPushBack",
                                            "TensorListResize",
                                            "TensorListScatterIntoExistingList",
                                            "TensorListScatterV2",
                                            "TensorListSetItem",
                                            "TensorListSplit",
                                            "TensorListStack",
                                            "TensorScatterAdd",
                                            "TensorScatterMax",
                                            "TensorScatterMin",
                                            "TensorScatterSub",
                                            "TensorScatterUpdate",
                                            "TopKV2",
                                            "Xdivy",
                                            "Xlogy",
                                            "Angle",
                                            "Complex",
                                            "ComplexAbs",
                                            "Imag",
                                            "Real",
                                            "FFT",
                                            "FFT2D",
                                            "FFT3D",
                                            "IFFT",
                                            "IFFT2D",
                                            "IFFT3D",
                                            "IRFFT",
                                            "IRFFT2D",
                                            "RFFT",
                                            "RFFT2D",
                                            "SparseSegmentMeanWithNumSegments",
                                            "SparseSegmentSqrtNWithNumSegments",
                                            "SparseSegmentSumWithNumSegments",
                                            "Cholesky",
                                            "CropAndResize",
                                            "Eig",
                                            "ExtractImagePatches",
                                            "RGBToHSV",
                                            "ResizeBicubic",
                                            "ScaleAndTranslate",
                                            "FakeQuantWithMinMaxArgs",
                                            "FakeQuantWithMinMaxVars",
                                            "FakeQuantWithMinMaxVarsPerChannel",
                                            "QuantizeAndDequantizeV2",
                                            "QuantizeAndDequantizeV3",
                                            "QuantizeAndDequantizeV4",
                                            "DebugIdentityV2",
                                            "RandomGamma",
                                            "ApproxTopK",
                                            "BlockLSTM",
                                            "CTCLoss",
                                            "CudnnRNN",
                                            "CudnnRNNV2",
                                            "CudnnRNNV3",
                                            "MaxPool3D",
                                            "MaxPool3DGrad",
                                            "MaxPool3DGradGrad"};
  return ops;
}

// Ops without a gradient function, and why that is right.
const std::map<std::string, std::vector<std::string>>& WithoutGradient() {
  static const std::map<std::string, std::vector<std::string>> reasons = {
      {"answers with booleans",
       {"All", "Any", "Equal", "Greater", "GreaterEqual", "InTopK", "InTopKV2", "IsFinite", "IsNan", "Less",
        "LessEqual", "LogicalAnd", "LogicalNot", "LogicalOr", "NotEqual", "IsInf", "OptionalHasValue", "ToBool",
        "ApproximateEqual"}},
      {"answers with whole numbers: positions, shapes, counts",
       {"ArgMax",
        "ArgMin",
        "BroadcastGradientArgs",
        "ConcatOffset",
        "CudnnRNNParamsSize",
        "InvertPermutation",
        "Rank",
        "Shape",
        "ShapeN",
        "Size",
        "Where",
        "VariableShape",
        "ComputeAccidentalHits",
        "SparseReshape",
        "BroadcastArgs",
        "DataFormatDimMap",
        "DataFormatVecPermute",
        "StatelessRandomGetKeyCounter",
        "Bucketize",
        "HistogramFixedWidth"}},
      {"is of bits", {"BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "PopulationCount", "RightShift"}},
      {"has none in TensorFlow either",
       {"Bitcast", "Conv", "XlaDynamicSlice", "XlaDynamicUpdateSlice", "GRUBlockCell", "LSTMBlockCell", "InplaceAdd",
        "InplaceSub", "InplaceUpdate", "IRFFT3D", "Lu", "MatrixExponential", "MatrixLogarithm", "Mod", "RFFT3D",
        "TruncateMod"}},
      {"is flat between its jumps, and its gradient is taken as none",
       {"Ceil", "Floor", "FloorDiv", "Round", "TruncateDiv"}},
      {"does not depend on the values of its floating inputs", {"OnesLike", "ZerosLike"}},
      {"counts, with weights that TensorFlow does not differentiate either",
       {"Bincount", "DenseBincount", "DenseCountSparseOutput", "RaggedCountSparseOutput", "SparseCountSparseOutput"}},
      {"is made of settings or whole numbers", {"OneHot", "Range", "LinSpace", "RaggedRange"}},
      {"which elements are equal jumps with the data",
       {"ListDiff", "Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"}},
      {"has no inputs, or is where values come from", {"Const", "Placeholder", "_Arg", "Timestamp"}},
      {"stops gradients by definition", {"StopGradient"}},
      {"carries no value", {"ControlTrigger", "NoOp", "_Retval", "Assert"}},
      {"is made when a graph is parted, after its gradients were", {"_HostRecv", "_HostSend", "_Recv", "_Send"}},
      {"is differentiated by the engine itself: control_flow_test",
       {"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "RefEnter", "RefExit", "RefMerge", "RefNextIteration",
        "RefSwitch", "Switch"}},
      {"becomes dataflow before it is differentiated: golden_functions_test",
       {"Case", "If", "PartitionedCall", "RemoteCall", "StatefulPartitionedCall", "StatelessCase", "StatelessIf",
        "StatelessWhile", "SymbolicGradient", "While"}},
      {"is made of other ops, which have gradients: decomposition_test",
       {"_FusedBatchNormEx", "_FusedConv2D", "_FusedMatMul", "_SwitchN", "AdjustContrastv2",
        "BatchNormWithGlobalNormalizationGrad", "CholeskyGrad", "GuaranteeConst", "ParallelConcat", "SelfAdjointEig",
        "SegmentMaxV2", "SegmentMinV2", "SegmentProdV2", "SegmentSumV2"}},
      {"is random",
       {"RandomStandardNormal", "RandomUniform", "RandomUniformInt", "TruncatedNormal", "LogUniformCandidateSampler",
        "RandomShuffle", "StatelessRandomNormalV2", "StatelessRandomUniform", "StatelessRandomUniformV2",
        "StatelessTruncatedNormalV2"}},
      {"names, reads or changes state",
       {"ResourceScatterDiv",
        "ResourceScatterMax",
        "ResourceScatterMin",
        "ResourceScatterMul",
        "ResourceScatterNdAdd",
        "ResourceScatterNdMax",
        "ResourceScatterNdMin",
        "ResourceScatterNdSub",
        "ResourceScatterNdUpdate",
        "ScatterDiv",
        "ScatterMax",
        "ScatterMin",
        "ScatterMul",
        "ScatterNdAdd",
        "ScatterNdMax",
        "ScatterNdMin",
        "ScatterNdSub",
        "ScatterNdUpdate",
        "ApplyAdagrad",
        "ApplyAdam",
        "ApplyGradientDescent",
        "ApplyMomentum",
        "Assign",
        "AssignAdd",
        "AssignAddVariableOp",
        "AssignSub",
        "AssignSubVariableOp",
        "AssignVariableOp",
        "DestroyResourceOp",
        "IsVariableInitialized",
        "ResourceApplyAdagrad",
        "ResourceApplyAdam",
        "ResourceApplyGradientDescent",
        "ResourceApplyMomentum",
        "ResourceScatterAdd",
        "ResourceSparseApplyAdagrad",
        "ScatterAdd",
        "ScatterSub",
        "StackCloseV2",
        "StackPopV2",
        "StackPushV2",
        "StackV2",
        "VarHandleOp",
        "VarIsInitializedOp",
        "Variable",
        "VariableV2",
        "ApplyFtrl",
        "ApplyRMSProp",
        "DisableCopyOnRead",
        "ResourceApplyAdagradV2",
        "ResourceApplyFtrl",
        "ResourceApplyKerasMomentum",
        "ResourceApplyRMSProp",
        "ResourceScatterSub",
        "ResourceScatterUpdate",
        "ResourceSparseApplyFtrl",
        "ResourceSparseApplyKerasMomentum",
        "ResourceSparseApplyMomentum",
        "ScatterUpdate",
        "SparseApplyAdagrad",
        "SparseApplyFtrl",
        "ResourceSparseApplyRMSProp",
        "SparseApplyMomentum",
        "SparseApplyRMSProp",
        "CountUpTo",
        "ResourceCountUpTo",
        "ApplyAdaMax",
        "ApplyAdadelta",
        "ApplyAdagradDA",
        "ApplyAdagradV2",
        "ApplyAddSign",
        "ApplyCenteredRMSProp",
        "ApplyFtrlV2",
        "ApplyPowerSign",
        "ApplyProximalAdagrad",
        "ApplyProximalGradientDescent",
        "ResourceApplyAdaMax",
        "ResourceApplyAdadelta",
        "ResourceApplyAdagradDA",
        "ResourceApplyAdamWithAmsgrad",
        "ResourceApplyAddSign",
        "ResourceApplyCenteredRMSProp",
        "ResourceApplyFtrlV2",
        "ResourceApplyPowerSign",
        "ResourceApplyProximalAdagrad",
        "ResourceApplyProximalGradientDescent",
        "ResourceSparseApplyAdadelta",
        "ResourceSparseApplyAdagradDA",
        "ResourceSparseApplyAdagradV2",
        "ResourceSparseApplyCenteredRMSProp",
        "ResourceSparseApplyFtrlV2",
        "ResourceSparseApplyProximalAdagrad",
        "ResourceSparseApplyProximalGradientDescent",
        "SparseApplyAdadelta",
        "SparseApplyAdagradDA",
        "SparseApplyAdagradV2",
        "SparseApplyCenteredRMSProp",
        "SparseApplyFtrlV2",
        "SparseApplyProximalAdagrad",
        "SparseApplyProximalGradientDescent"}},
      {"is of quantized numbers, which have no gradient",
       {"Dequantize", "QuantizeDownAndShrinkRange", "QuantizeV2", "QuantizedBiasAdd", "QuantizedConcat",
        "QuantizedConv2D", "QuantizedMatMul", "QuantizedMaxPool", "QuantizedRelu", "QuantizedReshape",
        "RequantizationRange", "Requantize"}},
      {"makes, measures or ends a tensor array", {"TensorArrayCloseV3", "TensorArraySizeV3", "TensorArrayV3"}},
      {"makes or measures a list of tensors",
       {"EmptyTensorList", "TensorListElementShape", "TensorListLength", "TensorListReserve"}},
      {"holds nothing", {"OptionalNone"}},
      {"fills, asks or changes a table",
       {"HashTableV2", "InitializeTableFromTextFileV2", "InitializeTableV2", "LookupTableExportV2", "LookupTableFindV2",
        "LookupTableImportV2", "LookupTableInsertV2", "LookupTableRemoveV2", "LookupTableSizeV2",
        "MutableHashTableOfTensorsV2", "MutableHashTableV2"}},
      {"changes pictures, and TensorFlow does not differentiate it either",
       {"AdjustHue", "AdjustSaturation", "CropAndResizeGradBoxes", "CropAndResizeGradImage", "DrawBoundingBoxes",
        "DrawBoundingBoxesV2", "ExtractGlimpse", "ExtractGlimpseV2", "HSVToRGB", "ResizeArea", "ResizeBicubicGrad",
        "ScaleAndTranslateGrad"}},
      {"is a dataset, or takes from one",
       {"AnonymousIterator",
        "AnonymousIteratorV2",
        "AnonymousIteratorV3",
        "AnonymousMemoryCache",
        "AnonymousRandomSeedGenerator",
        "AnonymousSeedGenerator",
        "AssertCardinalityDataset",
        "AssertNextDataset",
        "BatchDataset",
        "BatchDatasetV2",
        "BytesProducedStatsDataset",
        "CacheDataset",
        "CacheDatasetV2",
        "ConcatenateDataset",
        "DatasetCardinality",
        "DatasetToSingleElement",
        "DeleteIterator",
        "DeleteMemoryCache",
        "DeleteRandomSeedGenerator",
        "DeleteSeedGenerator",
        "DirectedInterleaveDataset",
        "DummyMemoryCache",
        "DummySeedGenerator",
        "EagerPyFunc",
        "ExperimentalDatasetCardinality",
        "ExperimentalDirectedInterleaveDataset",
        "ExperimentalGroupByWindowDataset",
        "ExperimentalIgnoreErrorsDataset",
        "ExperimentalMapAndBatchDataset",
        "ExperimentalMapDataset",
        "ExperimentalParallelInterleaveDataset",
        "ExperimentalRandomDataset",
        "ExperimentalScanDataset",
        "ExperimentalTakeWhileDataset",
        "ExperimentalUnbatchDataset",
        "ExperimentalUniqueDataset",
        "FilterByLastComponentDataset",
        "FilterDataset",
        "FinalizeDataset",
        "FixedLengthRecordDataset",
        "FixedLengthRecordDatasetV2",
        "FlatMapDataset",
        "GeneratorDataset",
        "GroupByWindowDataset",
        "IgnoreErrorsDataset",
        "InterleaveDataset",
        "Iterator",
        "IteratorFromStringHandle",
        "IteratorFromStringHandleV2",
        "IteratorGetNext",
        "DeserializeIterator",
        "SerializeIterator",
        "ListSnapshotChunksDataset",
        "LoadDataset",
        "SaveDataset",
        "SaveDatasetV2",
        "SnapshotChunkDataset",
        "SnapshotDataset",
        "SnapshotDatasetReader",
        "SnapshotDatasetV2",
        "SnapshotNestedDatasetReader",
        "IteratorGetNextAsOptional",
        "IteratorGetNextSync",
        "IteratorToStringHandle",
        "IteratorV2",
        "LatencyStatsDataset",
        "MakeIterator",
        "MapAndBatchDataset",
        "MapDataset",
        "MaxIntraOpParallelismDataset",
        "ModelDataset",
        "NonSerializableDataset",
        "OneShotIterator",
        "OptimizeDataset",
        "OptimizeDatasetV2",
        "OptionsDataset",
        "PaddedBatchDataset",
        "PaddedBatchDatasetV2",
        "ParallelBatchDataset",
        "ParallelFilterDataset",
        "ParallelInterleaveDataset",
        "ParallelInterleaveDatasetV2",
        "ParallelInterleaveDatasetV3",
        "ParallelInterleaveDatasetV4",
        "ParallelMapDataset",
        "ParallelMapDatasetV2",
        "PrefetchDataset",
        "PrivateThreadPoolDataset",
        "PyFunc",
        "PyFuncStateless",
        "RandomDataset",
        "RandomDatasetV2",
        "RangeDataset",
        "ReduceDataset",
        "RepeatDataset",
        "RewriteDataset",
        "ScanDataset",
        "ShardDataset",
        "ShuffleAndRepeatDataset",
        "ShuffleAndRepeatDatasetV2",
        "ShuffleDataset",
        "ShuffleDatasetV2",
        "ShuffleDatasetV3",
        "SkipDataset",
        "SparseTensorSliceDataset",
        "TFRecordDataset",
        "TFRecordDatasetV2",
        "TakeDataset",
        "TakeWhileDataset",
        "TensorDataset",
        "TensorSliceDataset",
        "TextLineDataset",
        "UnbatchDataset",
        "UniqueDataset",
        "UnwrapDatasetVariant",
        "WindowDataset",
        "WrapDatasetVariant",
        "ZipDataset",
        "AnonymousMultiDeviceIterator",
        "AnonymousMultiDeviceIteratorV3",
        "AssertPrevDataset",
        "AutoShardDataset",
        "CSVDataset",
        "CSVDatasetV2",
        "ChooseFastestBranchDataset",
        "ChooseFastestDataset",
        "DataServiceDataset",
        "DataServiceDatasetV2",
        "DataServiceDatasetV3",
        "DataServiceDatasetV4",
        "DatasetFingerprint",
        "DatasetFromGraph",
        "DatasetToGraph",
        "DatasetToGraphV2",
        "DatasetToTFRecord",
        "DeleteMultiDeviceIterator",
        "DenseToSparseBatchDataset",
        "DummyIterationCounter",
        "ExperimentalAssertNextDataset",
        "ExperimentalAutoShardDataset",
        "ExperimentalBytesProducedStatsDataset",
        "ExperimentalCSVDataset",
        "ExperimentalChooseFastestDataset",
        "ExperimentalDatasetToTFRecord",
        "ExperimentalDenseToSparseBatchDataset",
        "ExperimentalGroupByReducerDataset",
        "ExperimentalIteratorGetDevice",
        "ExperimentalLMDBDataset",
        "ExperimentalLatencyStatsDataset",
        "ExperimentalMatchingFilesDataset",
        "ExperimentalMaxIntraOpParallelismDataset",
        "ExperimentalNonSerializableDataset",
        "ExperimentalParseExampleDataset",
        "ExperimentalPrivateThreadPoolDataset",
        "ExperimentalRebatchDataset",
        "ExperimentalSetStatsAggregatorDataset",
        "ExperimentalSleepDataset",
        "ExperimentalSlidingWindowDataset",
        "ExperimentalSqlDataset",
        "ExperimentalStatsAggregatorHandle",
        "ExperimentalStatsAggregatorSummary",
        "ExperimentalThreadPoolDataset",
        "ExperimentalThreadPoolHandle",
        "GlobalShuffleDataset",
        "GroupByReducerDataset",
        "IndexFlatMapDataset",
        "InitializeTableFromDataset",
        "IteratorGetDevice",
        "IteratorGetModelProto",
        "LMDBDataset",
        "LegacyParallelInterleaveDatasetV2",
        "ListDataset",
        "MatchingFilesDataset",
        "MultiDeviceIterator",
        "MultiDeviceIteratorFromStringHandle",
        "MultiDeviceIteratorGetNextFromShard",
        "MultiDeviceIteratorInit",
        "MultiDeviceIteratorToStringHandle",
        "ParseExampleDataset",
        "ParseExampleDatasetV2",
        "RebatchDataset",
        "RebatchDatasetV2",
        "RegisterDataset",
        "RegisterDatasetV2",
        "SamplingDataset",
        "SetStatsAggregatorDataset",
        "SleepDataset",
        "SlidingWindowDataset",
        "SqlDataset",
        "StatsAggregatorHandle",
        "StatsAggregatorHandleV2",
        "StatsAggregatorSetSummaryWriter",
        "StatsAggregatorSummary",
        "ThreadPoolDataset",
        "ThreadPoolHandle",
        "WeightedFlatMapDataset"}},
      {"says which labels are most likely", {"CTCBeamSearchDecoder", "CTCGreedyDecoder"}},
      {"is sound as a file", {"DecodeWav", "EncodeWav"}},
      {"chooses boxes",
       {"CombinedNonMaxSuppression", "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3",
        "NonMaxSuppressionV4", "NonMaxSuppressionV5", "NonMaxSuppressionWithOverlaps", "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2"}},
      {"is a picture as a file, or comes of one",
       {"DecodeAndCropJpeg", "DecodeBmp", "DecodeGif", "DecodeImage", "DecodeJpeg", "DecodePng", "EncodeJpeg",
        "EncodeJpegVariableQuality", "EncodePng", "ExtractJpegShape"}},
      {"makes tensors of bytes and texts",
       {"DecodeCSV", "DecodeJSONExample", "DecodePaddedRaw", "DecodeRaw", "ParseExample", "ParseExampleV2",
        "ParseSequenceExample", "ParseSequenceExampleV2", "ParseSingleExample", "ParseSingleSequenceExample",
        "ParseTensor", "SerializeTensor", "StringToNumber"}},
      {"reads or writes files",
       {"FixedLengthRecordReader",
        "FixedLengthRecordReaderV2",
        "IdentityReader",
        "IdentityReaderV2",
        "MatchingFiles",
        "ReadFile",
        "ReaderNumRecordsProduced",
        "ReaderNumRecordsProducedV2",
        "ReaderNumWorkUnitsCompleted",
        "ReaderNumWorkUnitsCompletedV2",
        "ReaderRead",
        "ReaderReadUpTo",
        "ReaderReadUpToV2",
        "ReaderReadV2",
        "ReaderReset",
        "ReaderResetV2",
        "ReaderRestoreState",
        "ReaderRestoreStateV2",
        "ReaderSerializeState",
        "ReaderSerializeStateV2",
        "TFRecordReader",
        "TFRecordReaderV2",
        "TextLineReader",
        "TextLineReaderV2",
        "WholeFileReader",
        "WholeFileReaderV2",
        "WriteFile"}},
      {"tells TensorBoard something",
       {"HistogramSummary", "ImageSummary", "MergeSummary", "ScalarSummary", "AudioSummary", "AudioSummaryV2"}},
      {"hands values from step to step",
       {"FIFOQueueV2",
        "PaddingFIFOQueueV2",
        "QueueCloseV2",
        "QueueDequeueManyV2",
        "QueueDequeueUpToV2",
        "QueueDequeueV2",
        "QueueEnqueueManyV2",
        "QueueEnqueueV2",
        "QueueIsClosedV2",
        "QueueSizeV2",
        "RandomShuffleQueueV2",
        "AccumulatorApplyGradient",
        "AccumulatorNumAccumulated",
        "AccumulatorSetGlobalStep",
        "AccumulatorTakeGradient",
        "Barrier",
        "BarrierClose",
        "BarrierIncompleteSize",
        "BarrierInsertMany",
        "BarrierReadySize",
        "BarrierTakeMany",
        "ConditionalAccumulator",
        "FIFOQueue",
        "MapClear",
        "MapIncompleteSize",
        "MapPeek",
        "MapSize",
        "MapStage",
        "MapUnstage",
        "MapUnstageNoKey",
        "OrderedMapClear",
        "OrderedMapIncompleteSize",
        "OrderedMapPeek",
        "OrderedMapSize",
        "OrderedMapStage",
        "OrderedMapUnstage",
        "OrderedMapUnstageNoKey",
        "PaddingFIFOQueue",
        "PriorityQueue",
        "PriorityQueueV2",
        "QueueClose",
        "QueueDequeue",
        "QueueDequeueMany",
        "QueueDequeueUpTo",
        "QueueEnqueue",
        "QueueEnqueueMany",
        "QueueIsClosed",
        "QueueSize",
        "RandomShuffleQueue",
        "ResourceAccumulatorApplyGradient",
        "ResourceAccumulatorNumAccumulated",
        "ResourceAccumulatorSetGlobalStep",
        "ResourceAccumulatorTakeGradient",
        "ResourceConditionalAccumulator",
        "SparseAccumulatorApplyGradient",
        "SparseAccumulatorTakeGradient",
        "SparseConditionalAccumulator",
        "Stage",
        "StageClear",
        "StagePeek",
        "StageSize",
        "Unstage"}},
      {"is a gradient that TensorFlow does not differentiate either",
       {"BlockLSTMGrad",
        "BlockLSTMGradV2",
        "CudnnRNNBackprop",
        "CudnnRNNBackpropV2",
        "CudnnRNNBackpropV3",
        "Dilation2DBackpropFilter",
        "Dilation2DBackpropInput",
        "FractionalAvgPoolGrad",
        "FractionalMaxPoolGrad",
        "GRUBlockCellGrad",
        "LSTMBlockCellGrad",
        "SoftsignGrad",
        "IgammaGradA",
        "RandomGammaGrad",
        "LRNGrad",
        "ResizeBilinearGrad",
        "ResizeNearestNeighborGrad",
        "SparseFillEmptyRowsGrad",
        "SparseSegmentMeanGrad",
        "SparseSegmentSumGrad",
        "SparseSegmentMeanGradV2",
        "SparseSegmentSqrtNGrad",
        "SparseSegmentSqrtNGradV2",
        "SparseSegmentSumGradV2"}},
      {"meets the group's other members; TensorFlow has no gradient of it either",
       {"CollectiveBcastRecv", "CollectiveBcastRecvV2", "CollectiveBcastSend", "CollectiveBcastSendV2",
        "CollectiveGather", "CollectiveGatherV2", "CollectiveReduce", "CollectiveReduceV2", "NcclAllReduce"}},
      {"works on files or strings",
       {"MergeV2Checkpoints",
        "RestoreV2",
        "SaveV2",
        "ShardedFilename",
        "StringJoin",
        "StringToHashBucketFast",
        "StaticRegexFullMatch",
        "AsString",
        "ReduceJoin",
        "RegexFullMatch",
        "RegexReplace",
        "StaticRegexReplace",
        "StringLength",
        "StringSplit",
        "StringSplitV2",
        "StringToHashBucket",
        "StringToHashBucketStrong",
        "Substr",
        "DecodeBase64",
        "EncodeBase64",
        "PrintV2",
        "StringFormat",
        "StringLower",
        "StringNGrams",
        "StringStrip",
        "StringUpper",
        "UnicodeDecode",
        "UnicodeDecodeWithOffsets",
        "UnicodeEncode",
        "UnicodeScript",
        "UnicodeTranscode",
        "UnsortedSegmentJoin"}},
      {"packs sparse tensors or takes them out again, and TensorFlow does not differentiate it either",
       {"AddManySparseToTensorsMap", "AddSparseToTensorsMap", "DeserializeManySparse", "DeserializeSparse",
        "SerializeManySparse", "SerializeSparse", "TakeManySparseFromTensorsMap"}},
      {"is a gradient, of which TensorFlow has none either",
       {"RaggedTensorToVariantGradient", "SparseAddGrad", "SparseSliceGrad"}},
      {"takes sparse tensors apart or together, and TensorFlow does not differentiate it either",
       {"SparseConcat", "SparseDenseCwiseAdd", "SparseReduceMax", "SparseReduceMaxSparse", "SparseReduceSumSparse",
        "SparseSparseMaximum", "SparseSparseMinimum", "SparseSplit"}},
      {"crosses features, which are whole numbers and texts",
       {"RaggedCross", "SparseCross", "SparseCrossHashed", "SparseCrossV2"}},
      {"draws numbers, which TensorFlow does not differentiate either",
       {"Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomPoissonV2",
        "RngReadAndSkip",
        "RngSkip",
        "StatefulStandardNormalV2",
        "StatefulTruncatedNormal",
        "StatefulUniform",
        "StatefulUniformFullInt",
        "StatefulUniformInt",
        "StatelessMultinomial",
        "StatelessRandomBinomial",
        "StatelessRandomGetAlg",
        "StatelessRandomGetKeyCounterAlg",
        "StatelessRandomNormal",
        "StatelessRandomUniformFullInt",
        "StatelessRandomUniformFullIntV2",
        "StatelessRandomUniformInt",
        "StatelessRandomUniformIntV2",
        "StatelessShuffle",
        "StatelessTruncatedNormal"}},
      {"samples classes",
       {"AllCandidateSampler", "FixedUnigramCandidateSampler", "LearnedUnigramCandidateSampler",
        "ThreadUnsafeUnigramCandidateSampler", "UniformCandidateSampler"}},
      {"is of a table or a mutex",
       {"AnonymousHashTable", "AnonymousMutableDenseHashTable", "AnonymousMutableHashTable",
        "AnonymousMutableHashTableOfTensors", "ConsumeMutexLock", "MutableDenseHashTableV2", "MutexLock", "MutexV2"}},
      {"changes or makes a variable, or a part of one",
       {"DestroyTemporaryVariable", "ResourceStridedSliceAssign", "StridedSliceAssign", "TemporaryVariable"}},
      {"is for debuggers, and TensorFlow does not differentiate it either",
       {"Abort", "Copy", "CopyHost", "DebugIdentity", "DebugIdentityV3", "DebugNanCount", "DebugNumericSummaryV2",
        "DeepCopy"}},
      {"saves or restores", {"Restore", "RestoreSlice", "Save", "SaveSlices"}},
      {"tells a viewer",
       {"CloseSummaryWriter", "CreateSummaryFileWriter", "FlushSummaryWriter", "ImportEvent", "SummaryWriter",
        "TensorSummary", "TensorSummaryV2", "WriteAudioSummary", "WriteGraphSummary", "WriteHistogramSummary",
        "WriteImageSummary", "WriteRawProtoSummary", "WriteScalarSummary", "WriteSummary"}},
      {"only what places a step adds it, long after gradients are made",
       {"Tenon>CollectiveBegins", "Tenon>CollectiveEnds", "Tenon>CollectiveJoin", "Tenon>CollectiveMerge",
        "Tenon>CollectivePart"}},
      {"stand for others in steps of bfloat16 and float16, once the graph is placed",
       {"Tenon>CastN", "Tenon>Conv2DBackpropFilterSums"}},
      {"stand for loops of cells that have none, once the graph is placed", {"Tenon>GRULayer", "Tenon>LSTMLayer"}},
      {"stand for others in steps of 8-bit integers, once the graph is placed",
       {"Tenon>Int8Conv2D", "Tenon>Int8Dequantize", "Tenon>Int8MatMul", "Tenon>Int8Quantize"}},
      {"is of a group, and TensorFlow differentiates it in Python, if at all",
       {"CollectiveAllToAllV2", "CollectiveAssignGroupV2", "CollectiveInitializeCommunicator",
        "CollectiveReduceScatterV2", "CollectiveReduceV3", "NcclBroadcast", "NcclReduce"}},
      {"counts", {"SparseBincount"}},
      {"is of sets",
       {"DenseToDenseSetOperation", "DenseToSparseSetOperation", "SetSize", "SparseToSparseSetOperation"}},
  };
  return reasons;
}

TEST(GradientCheck, LeavesOutNoOpOfTheRuntime) {
  std::set<std::string> cased, excused;
  for (const Case& test : AllCases()) cased.insert(test.op);
  for (const auto& [op, where] : CheckedElsewhere()) cased.insert(op);
  cased.insert(WithGoldenGradients().begin(), WithGoldenGradients().end());
  for (const auto& [reason, ops] : WithoutGradient()) excused.insert(ops.begin(), ops.end());
  size_t with_gradient = 0;
  for (const tenon_op_info& info : TheRuntime().Ops()) {
    const std::string op(Text(info.name));
    const bool has_gradient = info.has_gradient != 0;
    with_gradient += has_gradient;
    EXPECT_EQ(cased.count(op) == 1, has_gradient)
        << op << (has_gradient ? ": its gradient has no case here" : ": a case, and no gradient");
    EXPECT_EQ(excused.count(op) == 1, !has_gradient)
        << op
        << (has_gradient ? " has a gradient, though a reason against it stands here"
                         : ": why it has no gradient stands nowhere here");
  }
  EXPECT_GE(with_gradient, 90u);
  std::printf("%zu ops with a gradient, %zu cases\n", with_gradient, AllCases().size());
}

}  // namespace
}  // namespace tenon::engine::gradient_check_test
