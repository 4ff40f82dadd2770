// SPDX-License-Identifier: Apache-2.0
// Reductions, softmax and normalisations as machine code: which nodes of a graph are one pass, with the bits of their
// kernels where these are exact; and what is left to kernels. Random graphs are codegen_test.cc's. Covers N8.
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/engine/codegen.h"

namespace tenon::engine::codegen_rows_test {
namespace {

using Feeds = std::vector<std::pair<Output, Tensor>>;

// As Keras writes it: the moments of the last dim, one factor and one term.
Output Norm(Graph& g, const Output& x, const Output& scale, const Output& offset) {
  const Output last = g.Const<int32_t>({-1});
  const Attrs keep = {{"keep_dims", true}};
  const Output mean = g.Op("Mean", {x, last}, keep),
               variance = g.Op("Mean", {g.Op("SquaredDifference", {x, mean}), last}, keep);
  const Output factor = g.Op("Mul", {g.Op("Rsqrt", {g.Op("AddV2", {variance, g.Const(1e-6f)})}), scale});
  return g.Op("AddV2", {g.Op("Mul", {x, factor}), g.Op("Sub", {offset, g.Op("Mul", {mean, factor})})});
}

TEST_P(Codegen, ANormalisationIsOnePass) {
  for (const Shape& shape : {Shape{1, 128, 768}, Shape{3, 5, 33}, Shape{40, 1024}, Shape{7, 1500}, Shape{2, 70000}}) {
    Graph g(*runtime_);
    const int64_t width = shape[static_cast<size_t>(shape.rank() - 1)];
    const Output x = g.Placeholder("x", DType::kFloat, shape), y = g.Placeholder("y", DType::kFloat, shape),
                 scale = g.Placeholder("scale", DType::kFloat, {width}),
                 offset = g.Placeholder("offset", DType::kFloat, {width});
    const Feeds feeds = {{x, Ramp(shape)}, {y, Ramp(shape)}, {scale, Ramp({width})}, {offset, Ramp({width})}};
    const bool is_long = width > 65536;
    const Output sum = g.Op("AddV2", {x, y});
    const int alone = Compare(g, feeds, {Norm(g, x, scale, offset)}),
              behind = Compare(g, feeds, {Norm(g, sum, scale, offset)}),
              between = Compare(g, feeds, {g.Op("Relu", {Norm(g, sum, scale, offset)}), sum});
    if (is_long) continue;  // means of so many are their kernel's
    EXPECT_EQ(alone, 10) << width;
    EXPECT_EQ(behind, 11) << width;
    EXPECT_EQ(between, 12) << width;
  }
}

// A batch whose size the graph does not know: rows are known, and the code is the same for all sizes.
TEST_P(Codegen, RowsMayBeAsManyAsAStepSays) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {-1, 128}), scale = g.Placeholder("scale", DType::kFloat, {128}),
               y = Norm(g, x, scale, scale);
  for (const int64_t rows : {1, 2, 3, 50, 3000})
    EXPECT_EQ(Compare(g, {{x, Ramp({rows, 128})}, {scale, Ramp({128})}}, {y}), 10) << rows;
  Compare(g, {{x, Ramp({0, 128})}, {scale, Ramp({128})}}, {y});
}

// Scores of attention: a factor, a mask for each row of a batch, softmax, and what stands behind it.
TEST_P(Codegen, AttentionsWeightsAreOnePass) {
  for (const int64_t keys : {16, 40, 128, 700}) {
    Graph g(*runtime_);
    const Output x = g.Placeholder("x", DType::kFloat, {2, 3, 20, keys}),
                 mask = g.Placeholder("mask", DType::kFloat, {2, 1, 1, keys}),
                 heads = g.Placeholder("heads", DType::kFloat, {3, 1, 1});
    const Feeds feeds = {{x, Ramp({2, 3, 20, keys})}, {mask, Ramp({2, 1, 1, keys})}, {heads, Ramp({3, 1, 1})}};
    const Output scores = g.Op("AddV2", {g.Op("Mul", {x, g.Const(0.125f)}), mask});
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      const Output y = g.Op(op, {scores}), z = g.Op("Mul", {y, heads});
      const Answer kernels = RunIt(*runtime_, g, feeds, {z, y}, false), code = RunIt(*runtime_, g, feeds, {z, y}, true),
                   alone = RunIt(*runtime_, g, feeds, {y}, true);
      ASSERT_EQ(kernels.failure + code.failure + alone.failure, "");
      EXPECT_EQ(code.how.at("compiled"), 4);
      EXPECT_EQ(alone.how.at("compiled"), 3);
      EXPECT_EQ(DifferenceOf(code.values[1], alone.values[0]), "");
      for (size_t k = 0; k < 2; ++k) {
        const auto right = Values<float>(kernels.values[k]), got = Values<float>(code.values[k]);
        for (size_t i = 0; i < right.size(); ++i)
          ASSERT_NEAR(got[i], right[i], 2e-6f * std::max(1.f, std::fabs(right[i]))) << op << " " << i;
      }
    }
  }
}

// The end of a loss, of whatever is broadcast into it; more than one share of the kernel's, and elements behind the
// last block.
TEST_P(Codegen, ALossIsOnePass) {
  for (const Shape& shape : {Shape{30, 40}, Shape{2, 512}, Shape{100, 1500}, Shape{3, 5, 7, 11}}) {
    Graph g(*runtime_);
    const int64_t width = shape[static_cast<size_t>(shape.rank() - 1)];
    const Output x = g.Placeholder("x", DType::kFloat, shape), y = g.Placeholder("y", DType::kFloat, shape),
                 bias = g.Placeholder("bias", DType::kFloat, {width});
    std::vector<int32_t> axes;
    for (int32_t d = 0; d < shape.rank(); ++d) axes.push_back(d);
    const Output all = g.Const(axes, Shape{static_cast<int64_t>(axes.size())});
    const Feeds feeds = {{x, Ramp(shape)}, {y, Ramp(shape)}, {bias, Ramp({width})}};
    for (const char* op : {"Sum", "Mean", "Max", "Min", "Prod"})
      for (const bool keeps : {false, true}) {
        const Output difference = g.Op("SquaredDifference", {x, y}),
                     loss = g.Op(op, {difference, all}, {{"keep_dims", keeps}});
        EXPECT_EQ(Compare(g, feeds, {loss}), 2) << op;
        const Output predicted = g.Op("Relu", {g.Op("AddV2", {x, bias})}),
                     other = g.Op("Abs", {g.Op("Sub", {predicted, y})});
        EXPECT_EQ(Compare(g, feeds,
                          {g.Op(op, {other, all}, {{"keep_dims", keeps}}), other,
                           g.Op("Max", {other, all}, {{"keep_dims", !keeps}})}),
                  6)
            << op;
      }
  }
}

// Behind the sum of a whole another chain begins.
TEST_P(Codegen, WhatReadsAnEndOfARegionIsNotInIt) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output square = g.Op("Square", {x});
  const Output whole = g.Op("Mean", {square, g.Const<int32_t>({0, 1})}),
               rows = g.Op("Sum", {square, g.Const<int32_t>({1})});
  // Of [64, 64] and [64]: a row of sums beside each row of elements, and not one sum beside each.
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Neg", {g.Op("Sub", {square, rows})})}), 4);
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Neg", {g.Op("Sub", {square, whole})})}), 4);
  const Output kept = g.Op("Sum", {square, g.Const<int32_t>({-1})}, {{"keep_dims", true}});
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Neg", {g.Op("Sub", {square, kept})}), kept, square}), 4);
}

// Axes that a step feeds, that stand twice or nowhere, that are none or neither the first nor the last: the kernel's,
// with its answer or its failure.
TEST_P(Codegen, OtherAxesAreLeftToKernels) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {30, 40, 20}),
               axes = g.Placeholder("axes", DType::kInt32, Shape::Unknown());
  const Output y = g.Op("Square", {g.Op("Neg", {x})}), constant = g.Const<int32_t>({2});
  const auto fed = [&](std::vector<int32_t> values) {
    return *Tensor::From(values, Shape{static_cast<int64_t>(values.size())});
  };
  const Output by_feed = g.Op("Sum", {y, axes}), by_constant = g.Op("Sum", {y, constant});
  for (const auto& values :
       std::vector<std::vector<int32_t>>{{2}, {0}, {1, 2}, {2, 1, 0}, {2, 2}, {-1, 2}, {3}, {-4}}) {
    EXPECT_EQ(
        Compare(g, {{x, Ramp({30, 40, 20})}, {axes, fed(values)}}, {by_feed}),
        RunIt(*runtime_, g, {{x, Ramp({30, 40, 20})}, {axes, fed(values)}}, {by_feed}, true).failure.empty() ? 2 : 0);
    Compare(g, {{x, Ramp({30, 40, 20})}, {constant, fed(values)}}, {by_constant});
  }
  for (const auto& values : std::vector<std::vector<int32_t>>{{1}, {0, 2}, {}}) {
    Graph h(*runtime_);
    const Output z = h.Placeholder("z", DType::kFloat, {30, 40, 20});
    EXPECT_EQ(Compare(h, {{z, Ramp({30, 40, 20})}},
                      {h.Op("Max", {h.Op("Square", {h.Op("Neg", {z})}),
                                    h.Const(values, Shape{static_cast<int64_t>(values.size())})})}),
              2);
  }
}

// ---- Columns: reductions of the first dims ----

// As many rows and columns as the kernels have ways for: few columns side by side with rows behind them and several
// shares of them, many columns, blocks that are cut short.
const Shape kColumnShapes[] = {{64, 512},  {65, 100},   {7, 3000},      {200, 10},  {40, 10},
                               {2100, 2},  {12289, 5},  {1000, 64},     {130, 65},  {2, 1500},
                               {300, 127}, {3, 50, 33}, {2, 3, 20, 16}, {4097, 33}, {129, 2500}};

TEST_P(Codegen, ABiasGradientIsTakenOnTheWay) {
  for (const Shape& shape : kColumnShapes)
    for (const DType dtype : {DType::kFloat, DType::kBfloat16, DType::kHalf, DType::kDouble, DType::kInt32}) {
      Graph g(*runtime_);
      const Output x = g.Placeholder("x", DType::kFloat, shape), y = g.Placeholder("y", DType::kFloat, shape);
      const auto as = [&](const Output& value) {
        return dtype == DType::kFloat ? value : g.Op("Cast", {value}, {{"DstT", dtype}});
      };
      const Output gradient = g.Op("ReluGrad", {as(x), as(y)}), bias = g.Op("BiasAddGrad", {gradient});
      const int casts = dtype == DType::kFloat ? 0 : 2;
      EXPECT_EQ(Compare(g, {{x, Ramp(shape)}, {y, Ramp(shape)}}, {gradient, bias}, "both: "), 2 + casts) << shape[0];
      EXPECT_EQ(Compare(g, {{x, Ramp(shape)}, {y, Ramp(shape)}}, {bias}, "the sum alone: "), 2 + casts) << shape[0];
      EXPECT_EQ(Compare(g, {{x, Ramp(shape)}, {y, Ramp(shape)}}, {g.Op("Neg", {gradient}), bias}, "and one more: "),
                3 + casts)
          << shape[0];
    }
}

// With inputs that have one element for each row, one for each column, and one for all; -0, NaN and infinities.
TEST_P(Codegen, ColumnsAreReducedOfWhateverIsBroadcast) {
  for (const Shape& shape : kColumnShapes) {
    std::vector<float> odd = Values<float>(Ramp(shape));
    for (size_t i = 0; i < odd.size(); ++i)
      if (i % 501 == 7)
        odd[i] = i % 3 == 0   ? -0.f
                 : i % 5 == 0 ? std::numeric_limits<float>::quiet_NaN()
                              : std::numeric_limits<float>::infinity();
    Graph g(*runtime_);
    const int32_t rank = shape.rank();
    const int64_t width = shape[static_cast<size_t>(rank - 1)];
    std::vector<int64_t> dims;
    for (int32_t d = 0; d < rank; ++d) dims.push_back(d + 1 == rank ? 1 : shape[static_cast<size_t>(d)]);
    std::vector<int64_t> last = dims;
    last[0] = 1;
    last.back() = width;
    std::vector<int32_t> axes(static_cast<size_t>(rank - 1));
    std::iota(axes.begin(), axes.end(), 0);
    const Output x = g.Placeholder("x", DType::kFloat, shape),
                 of_rows = g.Placeholder("of_rows", DType::kFloat, Shape(dims)),
                 of_columns = g.Placeholder("of_columns", DType::kFloat, {width}),
                 of_some = g.Placeholder("of_some", DType::kFloat, Shape(last)),
                 leading = g.Const(axes, Shape{rank - 1});
    const Feeds feeds = {{x, *Tensor::From(odd, shape)},
                         {of_rows, Ramp(Shape(dims))},
                         {of_columns, Ramp({width})},
                         {of_some, Ramp(Shape(last))}};
    for (const char* op : {"Sum", "Mean", "Max", "Min", "Prod"})
      for (const bool keeps : {false, true}) {
        const auto reduced = [&](const Output& value) { return g.Op(op, {value, leading}, {{"keep_dims", keeps}}); };
        const Output one = g.Op("Mul", {g.Op("AddV2", {x, of_columns}), of_rows}),
                     other = g.Op("Maximum", {g.Op("Sub", {one, of_some}), g.Const(0.25f)});
        EXPECT_EQ(Compare(g, feeds, {reduced(one)}, op), 3) << shape[0];
        EXPECT_EQ(Compare(g, feeds, {other, reduced(one), reduced(other)}, op), 6) << shape[0];
        EXPECT_EQ(Compare(g, feeds, {reduced(g.Op("Abs", {g.Op("Neg", {x})}))}, op), 3) << shape[0];
      }
  }
}

// The gradients of a normalisation: sums of rows, what is made of them, and sums of columns, in one pass.
TEST_P(Codegen, RowsAndColumnsGoTogether) {
  for (const Shape& shape :
       {Shape{64, 128}, Shape{3, 50, 33}, Shape{500, 16}, Shape{130, 1100}, Shape{2, 2, 64}, Shape{3000, 20}}) {
    Graph g(*runtime_);
    const int32_t rank = shape.rank();
    const int64_t width = shape[static_cast<size_t>(rank - 1)];
    std::vector<int32_t> axes(static_cast<size_t>(rank - 1));
    std::iota(axes.begin(), axes.end(), 0);
    const Output x = g.Placeholder("x", DType::kFloat, shape), dy = g.Placeholder("dy", DType::kFloat, shape),
                 scale = g.Placeholder("scale", DType::kFloat, {width}), leading = g.Const(axes, Shape{rank - 1}),
                 last = g.Const<int32_t>({-1});
    const Output scaled = g.Op("Mul", {dy, scale}),
                 sum = g.Op("Sum", {g.Op("Mul", {scaled, x}), last}, {{"keep_dims", true}}),
                 dx = g.Op("Sub", {scaled, g.Op("Mul", {x, sum})});
    const Output of_scale = g.Op("Sum", {g.Op("Mul", {dy, x}), leading}), of_dx = g.Op("Max", {dx, leading}),
                 chained = g.Op("Square", {dx});
    const Feeds feeds = {{x, Ramp(shape)}, {dy, Ramp(shape)}, {scale, Ramp({width})}};
    EXPECT_EQ(Compare(g, feeds, {dx, of_dx}), 6) << width;
    EXPECT_EQ(Compare(g, feeds, {chained, of_dx, sum}), 7) << width;
    Compare(g, feeds, {of_scale, dx});
  }
}

TEST_P(Codegen, ColumnsTakeMemoryOver) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64}), product = g.Op("MatMul", {x, x}),
               y = g.Op("ReluGrad", {product, x}), z = g.Op("Mul", {y, product});
  const Feeds feeds = {{x, Ramp({64, 64})}};
  EXPECT_EQ(Compare(g, feeds, {g.Op("BiasAddGrad", {y}), y}), 2);
  EXPECT_EQ(Compare(g, feeds, {g.Op("BiasAddGrad", {z}), y, z}), 3);
  EXPECT_EQ(Compare(g, feeds, {g.Op("BiasAddGrad", {z}), y, z, g.Op("MatMul", {product, x})}), 3);
}

// Nobody in the region may read what columns were reduced to; one row, one column and no elements are their kernel's;
// channels that come first too.
TEST_P(Codegen, ColumnsThatAreNone) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {-1, 64}), square = g.Op("Square", {g.Op("Neg", {x})}),
               sum = g.Op("Sum", {square, g.Const<int32_t>({0})});
  for (const int64_t rows : {1, 0}) EXPECT_EQ(Compare(g, {{x, Ramp({rows, 64})}}, {sum}), 0) << rows;
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Neg", {g.Op("Sub", {square, sum})})}), 5);
  Graph h(*runtime_);
  const Output image = h.Placeholder("image", DType::kFloat, {2, 20, 5, 6}),
               negative = h.Op("Abs", {h.Op("Neg", {image})});
  EXPECT_EQ(Compare(h, {{image, Ramp({2, 20, 5, 6})}},
                    {h.Op("BiasAddGrad", {negative}, {{"data_format", "NCHW"}}), negative}),
            2);
  Graph k(*runtime_);
  const Output thin = k.Placeholder("thin", DType::kFloat, {600, 1}), changed = k.Op("Abs", {k.Op("Neg", {thin})});
  EXPECT_EQ(Compare(k, {{thin, Ramp({600, 1})}}, {k.Op("BiasAddGrad", {changed}), changed}), 2);
}

// A stranger may feed what is reduced, the results inside, and shapes that do not go together.
TEST_P(Codegen, WhatIsFedIntoRowsIsTaken) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown()), y = g.Op("Neg", {x});
  const Output last = g.Const<int32_t>({1}), mean = g.Op("Mean", {y, last}, {{"keep_dims", true}}),
               centred = g.Op("Sub", {y, mean}), z = g.Op("Square", {centred});
  for (const Shape& shape :
       {Shape{20, 30}, Shape{20, 1}, Shape{1, 30}, Shape{30}, Shape{}, Shape{2, 20, 30}, Shape{0, 30}, Shape{20, 0}})
    Compare(g, {{x, Ramp(shape)}}, {z});
  Compare(g, {{x, Ramp({20, 30})}, {mean, Ramp({20, 1})}}, {z, y});
  Compare(g, {{x, Ramp({20, 30})}, {mean, Ramp({1, 30})}}, {z, y});
  Compare(g, {{y, Ramp({20, 30})}}, {z, mean});
  Compare(g, {{centred, Ramp({20, 30})}, {x, Ramp({20, 30})}}, {z, mean});
  Graph h(*runtime_);
  const Output a = h.Placeholder("a", DType::kFloat, {20, 30}),
               sum = h.Op("Sum", {h.Op("Neg", {a}), h.Const<int32_t>({1})}, {{"keep_dims", true}}),
               b = h.Op("Mul", {h.Op("AddV2", {a, sum}), sum});
  EXPECT_EQ(Compare(h, {{a, Ramp({20, 30})}}, {b}), 4);
  EXPECT_EQ(Compare(h, {{a, Ramp({20, 30})}, {sum, Ramp({20, 1})}}, {b}), 2);
}

// The product's memory is the rows' to write in, unless they need it to the last.
TEST_P(Codegen, RowsTakeMemoryOver) {
  Graph g(*runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64}), scale = g.Placeholder("scale", DType::kFloat, {64});
  const Output product = g.Op("MatMul", {x, x}), residual = g.Op("AddV2", {product, x});
  const Feeds feeds = {{x, Ramp({64, 64})}, {scale, Ramp({64})}};
  EXPECT_EQ(Compare(g, feeds, {Norm(g, residual, scale, scale)}), 11);
  EXPECT_EQ(Compare(g, feeds, {Norm(g, product, scale, scale)}), 10);
  EXPECT_EQ(Compare(g, feeds, {g.Op("AddV2", {Norm(g, residual, scale, scale), product})}), 12);
  EXPECT_EQ(Compare(g, feeds,
                    {g.Op("Mul", {Norm(g, residual, scale, scale), product}), residual, g.Op("MatMul", {product, x})}),
            12);
}

// The same bits for any number of threads, with many rows and with one.
TEST(CodegenRows, DoNotDependOnThreads) {
  for (const Shape& shape : {Shape{4000, 100}, Shape{300, 3000}, Shape{20000, 17}}) {
    std::vector<Tensor> first;
    for (const uint32_t threads : {1u, 2u, 5u}) {
      RuntimeOptions options;
      options.threads = threads;
      auto runtime = Runtime::Create(options);
      ASSERT_TRUE(runtime.ok()) << runtime.status().message();
      Graph g(*runtime);
      const Output x = g.Placeholder("x", DType::kFloat, shape), y = g.Op("Tanh", {g.Op("Neg", {x})});
      const Answer answer = RunIt(*runtime, g, {{x, Ramp(shape)}},
                                  {g.Op("Sum", {y, g.Const<int32_t>({0, 1})}), g.Op("Softmax", {g.Op("Sigmoid", {x})}),
                                   g.Op("Mean", {g.Op("Sqrt", {g.Op("Abs", {x})}), g.Const<int32_t>({0})})},
                                  true);
      ASSERT_EQ(answer.failure, "");
      if (first.empty()) first = answer.values;
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(DifferenceOf(first[i], answer.values[i]), "") << threads << " threads";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Codegen, ::testing::Values("avx512", "avx2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tenon::engine::codegen_rows_test
