// SPDX-License-Identifier: Apache-2.0
// What ops of nn do that TensorFlow's CPU does not, so that no golden case says it: by what it must equal.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::nn_ops_test {
namespace {

class NnOps : public ::testing::Test {
 protected:
  // Numbers of several sizes, none twice in a row.
  Output Some(const Shape& shape, int seed, double size = 1) {
    std::vector<float> values;
    for (int64_t i = 0; i < shape.element_count(); ++i)
      values.push_back(static_cast<float>(std::sin(static_cast<double>(i) * 1.7 + seed) * size));
    return Floats(values, shape);
  }
  Output Floats(const std::vector<float>& values, const Shape& shape) { return g_.Const(*Tensor::From(values, shape)); }
  Output Ints(const std::vector<int32_t>& values) {
    return g_.Const(*Tensor::From(values, {static_cast<int64_t>(values.size())}));
  }
  template <class T>
  Output Of(const std::vector<T>& values, const Shape& shape) {
    return g_.Const(*Tensor::From(values, shape));
  }
  Output Transposed(const Output& x, const std::vector<int32_t>& order) { return g_.Op("Transpose", {x, Ints(order)}); }

  // Pairs of which the second is what the first must be.
  void Expect(const std::vector<std::pair<Output, Output>>& pairs, double tolerance = 1e-5) {
    std::vector<Name> fetches;
    for (const auto& [found, wanted] : pairs) fetches.insert(fetches.end(), {found, wanted});
    const auto values = RunOnce(g_, {}, fetches);
    ASSERT_EQ(values.size(), 2 * pairs.size()) << g_.status().message();
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_EQ(values[2 * i].shape(), values[2 * i + 1].shape()) << "pair " << i;
      const std::vector<float> found = Values<float>(values[2 * i]), wanted = Values<float>(values[2 * i + 1]);
      for (size_t k = 0; k < found.size(); ++k)
        EXPECT_NEAR(found[k], wanted[k], tolerance * (1 + std::abs(wanted[k]))) << "pair " << i << ", element " << k;
    }
  }
  std::string Refusal(const Output& fetch) {
    auto session = Session::Create(TheRuntime(), g_);
    return session.ok() ? session->Run({}, {fetch}).status().message() : session.status().message();
  }

  Graph g_{TheRuntime()};
  const std::vector<int32_t> kFirst = {0, 4, 1, 2, 3}, kLast = {0, 2, 3, 4, 1};  // where the channels go
};

TEST_F(NnOps, TakeVolumesWithTheChannelsFirst) {
  const Shape volume{2, 5, 6, 4, 3}, filter{2, 3, 2, 3, 5}, result{2, 3, 3, 2, 5};
  const Output x = Some(volume, 1), w = Some(filter, 2), dy = Some(result, 3);
  const Output x_first = Transposed(x, kFirst), dy_first = Transposed(dy, kFirst);
  const Attrs last = {{"strides", {1, 2, 2, 2, 1}}, {"padding", "SAME"}},
              first = {{"strides", {1, 1, 2, 2, 2}}, {"padding", "SAME"}, {"data_format", "NCDHW"}};
  Attrs pool_last = last, pool_first = first;
  pool_last.push_back({"ksize", {1, 3, 2, 2, 1}});
  pool_first.push_back({"ksize", {1, 1, 3, 2, 2}});
  const auto back = [&](const Output& y) { return Transposed(y, kLast); };
  const Output pooled = g_.Op("MaxPool3D", {x}, pool_last), pooled_first = g_.Op("MaxPool3D", {x_first}, pool_first);
  const Output mean_dy = Some({2, 3, 3, 2, 3}, 4), mean_dy_first = Transposed(mean_dy, kFirst);
  Expect({{back(g_.Op("Conv3D", {x_first, w}, first)), g_.Op("Conv3D", {x, w}, last)},
          {back(g_.Op("Conv3DBackpropInputV2", {Ints({2, 3, 5, 6, 4}), w, dy_first}, first)),
           g_.Op("Conv3DBackpropInputV2", {Ints({2, 5, 6, 4, 3}), w, dy}, last)},
          {g_.Op("Conv3DBackpropFilterV2", {x_first, Ints({2, 3, 2, 3, 5}), dy_first}, first),
           g_.Op("Conv3DBackpropFilterV2", {x, Ints({2, 3, 2, 3, 5}), dy}, last)},
          {back(pooled_first), pooled},
          {back(g_.Op("AvgPool3D", {x_first}, pool_first)), g_.Op("AvgPool3D", {x}, pool_last)},
          {back(g_.Op("MaxPool3DGrad", {x_first, pooled_first, mean_dy_first}, pool_first)),
           g_.Op("MaxPool3DGrad", {x, pooled, mean_dy}, pool_last)},
          {back(g_.Op("MaxPool3DGradGrad", {x_first, pooled_first, x_first}, pool_first)), pooled},
          {back(g_.Op("AvgPool3DGrad", {Ints({2, 3, 5, 6, 4}), mean_dy_first}, pool_first)),
           g_.Op("AvgPool3DGrad", {Ints({2, 5, 6, 4, 3}), mean_dy}, pool_last)}});
}

// A dilated filter is a larger one with zeros between, and groups are convolutions of slices.
TEST_F(NnOps, ConvolveVolumesWithHolesAndInGroups) {
  const Output x = Some({1, 6, 5, 7, 4}, 1), w = Some({2, 2, 3, 4, 6}, 2);
  const Attrs plain = {{"strides", {1, 1, 1, 1, 1}}, {"padding", "VALID"}};
  Attrs holes = plain;
  holes.push_back({"dilations", {1, 3, 1, 2, 1}});
  // [2,2,3] spread to [4,2,5] by zeros.
  Output spread = w;
  const auto insert = [&](int axis, int rate, int64_t size) {
    std::vector<Output> parts;
    Shape shape = axis == 0 ? Shape{1, 2, 3, 4, 6} : Shape{4, 2, 1, 4, 6};
    const Output zero = Floats(std::vector<float>(static_cast<size_t>(shape.element_count()), 0), shape);
    for (int64_t i = 0; i < size; ++i) {
      std::vector<int32_t> begin(5, 0), extent(5, -1);
      begin[static_cast<size_t>(axis)] = static_cast<int32_t>(i);
      extent[static_cast<size_t>(axis)] = 1;
      for (int k = 0; i > 0 && k + 1 < rate; ++k) parts.push_back(zero);
      parts.push_back(g_.Op("Slice", {spread, Ints(begin), Ints(extent)}));
    }
    parts.push_back(g_.Const(axis));
    spread = g_.Op("ConcatV2", parts);
  };
  insert(0, 3, 2);
  insert(2, 2, 3);
  const auto slice = [&](const Output& of, int32_t begin, int32_t size) {
    return g_.Op("Slice", {of, Ints({0, 0, 0, 0, begin}), Ints({-1, -1, -1, -1, size})});
  };
  const Output grouped = Some({2, 2, 3, 2, 6}, 3);  // of 2 of 4 channels: two groups
  const Output parts = g_.Op("ConcatV2", {g_.Op("Conv3D", {slice(x, 0, 2), slice(grouped, 0, 3)}, plain),
                                          g_.Op("Conv3D", {slice(x, 2, 2), slice(grouped, 3, 3)}, plain), g_.Const(4)});
  Expect({{g_.Op("Conv3D", {x, w}, holes), g_.Op("Conv3D", {x, spread}, plain)},
          {g_.Op("Conv3D", {x, grouped}, plain), parts}});
}

TEST_F(NnOps, ConvolveEitherWithTheChannelsFirstAndWithGroupsAndPadding) {
  const Output x = Some({2, 3, 6, 5, 4}, 1), w = Some({2, 3, 2, 6}, 2);
  const Attrs grouped = {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}, {"batch_dims", 2}, {"groups", 2}};
  const Output flat = g_.Op("Reshape", {x, Ints({6, 6, 5, 4})});
  const Output images = g_.Op("Conv2D", {flat, w}, {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}});
  const Output w3 = Some({2, 2, 2, 4, 3}, 3);
  const Attrs padded = {
      {"strides", {1, 1, 1, 1, 1}}, {"padding", "EXPLICIT"}, {"explicit_paddings", {0, 0, 1, 0, 0, 2, 1, 1, 0, 0}}};
  const Output around = g_.Op("Pad", {x, g_.Op("Reshape", {Ints({0, 0, 1, 0, 0, 2, 1, 1, 0, 0}), Ints({5, 2})})});
  const Attrs first = {{"strides", {1, 1, 1, 1, 1}}, {"padding", "VALID"}, {"data_format", "CHANNELS_FIRST"}};
  const Attrs valid = {{"strides", {1, 1, 1, 1, 1}}, {"padding", "VALID"}};
  Expect({{g_.Op("Conv", {x, w}, grouped), g_.Op("Reshape", {images, Ints({2, 3, 6, 5, 6})})},
          {g_.Op("Conv", {x, w3}, padded), g_.Op("Conv3D", {around, w3}, valid)},
          {Transposed(g_.Op("Conv", {Transposed(x, kFirst), w3}, first), kLast), g_.Op("Conv3D", {x, w3}, valid)}});
  EXPECT_NE(Refusal(g_.Op("Conv", {x, w}, {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}, {"batch_dims", 2}}))
                .find("groups"),
            std::string::npos);
}

TEST_F(NnOps, ReadGradientsWhereMaximaStoodAndRefuseOtherPlaces) {
  const Output x = Some({2, 4, 4, 3}, 1), dx = Some({2, 4, 4, 3}, 2);
  for (const bool in_batch : {false, true}) {
    const Attrs attrs = {
        {"ksize", {1, 2, 3, 1}}, {"strides", {1, 1, 2, 1}}, {"padding", "SAME"}, {"include_batch_in_index", in_batch}};
    const Operation pool = g_.AddNode("MaxPoolWithArgmax", {x}, attrs);
    const Output wanted = g_.Op("MaxPoolGradGrad", {x, pool.output(0), dx},
                                {{"ksize", {1, 2, 3, 1}}, {"strides", {1, 1, 2, 1}}, {"padding", "SAME"}});
    Expect({{g_.Op("MaxPoolGradGradWithArgmax", {x, dx, pool.output(1)}, attrs), wanted}});
  }
  const Attrs whole = {{"ksize", {1, 4, 4, 1}}, {"strides", {1, 1, 1, 1}}, {"padding", "VALID"}};
  for (const int64_t place : {int64_t{48}, int64_t{-1}}) {
    const Output places = Of<int64_t>({0, 1, 2, 3, 4, place}, {2, 1, 1, 3});
    EXPECT_NE(Refusal(g_.Op("MaxPoolGradWithArgmax", {x, Some({2, 1, 1, 3}, 3), places}, whole))
                  .find("argmax[5] is " + std::to_string(place)),
              std::string::npos);
  }
}

TEST_F(NnOps, DrawOtherRegionsInEachStepUnlessToldNotTo) {
  const Output x = Some({1, 40, 30, 1}, 1);
  const auto drawn = [&](bool repeats, int64_t seed) {
    Attrs attrs = {
        {"pooling_ratio", std::vector<float>{1, 1.44f, 1.73f, 1}}, {"deterministic", repeats}, {"seed", seed}};
    return g_.AddNode("FractionalMaxPool", {x}, attrs).output(1);
  };
  const Output free = drawn(false, 0), fixed = drawn(true, 7), own = drawn(true, 0);
  auto session = Session::Create(TheRuntime(), g_);
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<std::vector<std::vector<int64_t>>> runs;
  for (int i = 0; i < 3; ++i) {
    const auto values = session->Run({}, {free, fixed, own});
    ASSERT_TRUE(values.ok()) << values.status().message();
    runs.push_back({Values<int64_t>((*values)[0]), Values<int64_t>((*values)[1]), Values<int64_t>((*values)[2])});
    for (const auto& cuts : runs.back()) {
      ASSERT_EQ(cuts.size(), 28u);
      EXPECT_EQ(cuts.front(), 0);
      EXPECT_EQ(cuts.back(), 40);
      for (size_t k = 1; k < cuts.size(); ++k) EXPECT_TRUE(cuts[k] - cuts[k - 1] == 1 || cuts[k] - cuts[k - 1] == 2);
    }
  }
  EXPECT_FALSE(runs[0][0] == runs[1][0] && runs[1][0] == runs[2][0]);
  EXPECT_TRUE(runs[0][1] == runs[1][1] && runs[1][1] == runs[2][1]);
  EXPECT_TRUE(runs[0][2] == runs[1][2] && runs[1][2] == runs[2][2]);
}

// The last class and the first one changed places.
TEST_F(NnOps, LoseTheSameWithTheBlankFirst) {
  const Output x = Some({6, 2, 4}, 1, 2), first = g_.Op("Roll", {x, g_.Const(1), g_.Const(2)});
  const Output places = Of<int64_t>({0, 0, 0, 1, 0, 2, 1, 0}, {4, 2}), labels = Ints({0, 0, 2, 1}),
               labels_first = Ints({1, 1, 3, 2}), lengths = Ints({6, 4});
  const Operation loss = g_.AddNode("CTCLoss", {x, places, labels, lengths}),
                  second = g_.AddNode("CTCLossV2", {first, places, labels_first, lengths});
  const Output dy = Floats({2, -3}, {2});
  const auto dx = g_.Gradients({loss.output(0)}, {x}, {dy}), dx_first = g_.Gradients({second.output(0)}, {first}, {dy});
  Expect({{second.output(0), loss.output(0)},
          {g_.Op("Roll", {second.output(1), g_.Const(-1), g_.Const(2)}), loss.output(1)},
          {g_.Op("Roll", {dx_first[0].dense, g_.Const(-1), g_.Const(2)}), dx[0].dense}});
}

TEST_F(NnOps, FindTheSmallestAlongAnyDim) {
  const Output x = Some({3, 5, 4}, 1);
  for (const int axis : {1, -2, 2, 0}) {
    const int64_t at = axis < 0 ? axis + 3 : axis;
    std::vector<int32_t> order = {0, 1, 2};
    std::swap(order[static_cast<size_t>(at)], order[2]);
    const Operation found =
        g_.AddNode("ApproxTopK", {x}, {{"k", 2}, {"reduction_dimension", axis}, {"is_max_k", false}});
    const Operation wanted = g_.AddNode("TopKV2", {g_.Op("Neg", {Transposed(x, order)}), g_.Const(2)});
    const auto as_floats = [&](const Output& places) { return g_.Op("Cast", {places}, {{"DstT", DType::kFloat}}); };
    const auto dx = g_.Gradients({found.output(0)}, {x}, {found.output(0)});
    // Each of the chosen has its own value as its gradient, the others none.
    const Output smallest = g_.Op("Max", {found.output(0), g_.Const(axis)}, {{"keep_dims", true}});
    const Output masked = g_.Op("SelectV2", {g_.Op("LessEqual", {x, smallest}), x, g_.Op("ZerosLike", {x})});
    Expect({{found.output(0), g_.Op("Neg", {Transposed(wanted.output(0), order)})},
            {as_floats(found.output(1)), as_floats(Transposed(wanted.output(1), order))},
            {dx[0].dense, masked}});
  }
}

class Layer : public NnOps {
 protected:
  static constexpr int64_t kTime = 4, kBatch = 2, kInputs = 3, kCells = 5;
  std::vector<Output> Inputs(int64_t steps, const Output& x, const Output& w, const Output& b) {
    const Output c = Some({kBatch, kCells}, 5), h = Some({kBatch, kCells}, 6);
    return {Of<int64_t>({steps}, {}), x, c, h, w, Some({kCells}, 7), Some({kCells}, 8), Some({kCells}, 9), b};
  }
  const Output x_ = Some({kTime, kBatch, kInputs}, 1), w_ = Some({kInputs + kCells, 4 * kCells}, 2, 0.5),
               b_ = Some({4 * kCells}, 3);
};

// The columns of f and ci changed places.
TEST_F(Layer, IsTheSameWithItsGatesInTheOtherOrder) {
  const auto swapped = [&](const Output& gates, int32_t axis) {
    const Operation parts = g_.AddNode("Split", {g_.Const(axis), gates}, {{"num_split", 4}});
    return g_.Op("ConcatV2", {parts.output(0), parts.output(2), parts.output(1), parts.output(3), g_.Const(axis)});
  };
  const Output w = swapped(w_, 1), b = swapped(b_, 0);
  for (const bool peeps : {false, true}) {
    const std::vector<Output> first_inputs = Inputs(kTime, x_, w_, b_), second_inputs = Inputs(kTime, x_, w, b);
    const Operation first =
        g_.AddNode("BlockLSTM", first_inputs, {{"forget_bias", 0.0f}, {"cell_clip", 0.0f}, {"use_peephole", peeps}});
    const Operation second = g_.AddNode("BlockLSTMV2", second_inputs, {{"use_peephole", peeps}});
    const auto dx = g_.Gradients({first.output(6)}, {first_inputs[1], first_inputs[3], w_, b_}),
               dx2 = g_.Gradients({second.output(6)}, {second_inputs[1], second_inputs[3], w, b});
    Expect({{second.output(6), first.output(6)},
            {second.output(1), first.output(1)},
            {dx2[0].dense, dx[0].dense},
            {dx2[1].dense, dx[1].dense},
            {swapped(dx2[2].dense, 1), dx[2].dense},
            {swapped(dx2[3].dense, 0), dx[3].dense}});
  }
}

TEST_F(Layer, LeavesZerosBehindTheLastStep) {
  const Attrs attrs = {{"use_peephole", true}};
  const Operation whole = g_.AddNode("BlockLSTM", Inputs(kTime, x_, w_, b_), attrs),
                  part = g_.AddNode("BlockLSTM", Inputs(2, x_, w_, b_), attrs);
  std::vector<std::pair<Output, Output>> pairs;
  for (int i = 0; i < 7; ++i) {
    const auto steps = [&](const Output& of, int32_t begin) {
      return g_.Op("Slice", {of, Ints({begin, 0, 0}), Ints({2, -1, -1})});
    };
    pairs.push_back({steps(part.output(i), 0), steps(whole.output(i), 0)});
    pairs.push_back({steps(part.output(i), 2), g_.Op("ZerosLike", {steps(whole.output(i), 2)})});
  }
  Expect(pairs);
  for (const int64_t steps : {int64_t{-1}, kTime + 1}) {
    EXPECT_NE(Refusal(g_.AddNode("BlockLSTM", Inputs(steps, x_, w_, b_), attrs).output(6))
                  .find("seq_len_max is " + std::to_string(steps)),
              std::string::npos);
  }
}

// Two layers with dropout are two nodes with the reserved mask between them, forward and backward.
TEST_F(NnOps, ReserveWhatDropoutDrewBetweenLayers) {
  const Output x = Some({5, 2, 3}, 1), h = Some({4, 2, 4}, 2), w = Some({1144}, 3, 0.5), zero = Floats({0}, {});
  const Attrs kind = {{"rnn_mode", "gru"}, {"direction", "bidirectional"}};
  Attrs drops = kind;
  drops.insert(drops.end(), {{"dropout", 0.4f}, {"seed", 5}});
  const Operation whole = g_.AddNode("CudnnRNN", {x, h, zero, w}, drops);
  // A layer's weights, [12, inputs] and [12, 4] twice, stand before all biases, of 24 twice.
  const auto piece = [&](const Output& of, int32_t begin, int32_t size) {
    return g_.Op("Slice", {of, Ints({begin}), Ints({size})});
  };
  const auto states = [&](int32_t begin) { return g_.Op("Slice", {h, Ints({begin, 0, 0}), Ints({2, -1, -1})}); };
  const int32_t first = 2 * 12 * (3 + 4), second = 2 * 12 * (8 + 4), biases = 48;
  ASSERT_LE(first + second + 2 * biases, 1144);
  const Output all = piece(w, 0, first + second + 2 * biases);
  const Operation one = g_.AddNode("CudnnRNN", {x, h, zero, all}, drops);
  const Operation low = g_.AddNode(
      "CudnnRNN",
      {x, states(0), zero, g_.Op("ConcatV2", {piece(w, 0, first), piece(w, first + second, biases), g_.Const(0)})},
      kind);
  const Output mask = g_.Op("Reshape", {one.output(3), Ints({5, 2, 8})});
  const Operation high =
      g_.AddNode("CudnnRNN",
                 {g_.Op("Mul", {low.output(0), mask}), states(2), zero,
                  g_.Op("ConcatV2", {piece(w, first, second), piece(w, first + second + biases, biases), g_.Const(0)})},
                 kind);
  const Output dy = Some({5, 2, 8}, 4);
  const auto of_one = g_.Gradients({one.output(0)}, {x, h, w}, {dy}),
             of_two = g_.Gradients({high.output(0)}, {x, h, w}, {dy});
  Expect({{one.output(0), high.output(0)},
          {one.output(1), g_.Op("ConcatV2", {low.output(1), high.output(1), g_.Const(0)})},
          {of_one[0].dense, of_two[0].dense},
          {of_one[1].dense, of_two[1].dense},
          {of_one[2].dense, of_two[2].dense}});
  const auto drawn = RunOnce(g_, {}, {one.output(3)});
  ASSERT_EQ(drawn.size(), 1u);
  size_t kept = 0;
  for (const float value : Values<float>(drawn[0])) {
    EXPECT_TRUE(value == 0 || value == 1 / 0.6f) << value;
    kept += value != 0 ? 1 : 0;
  }
  EXPECT_GT(kept, 20u);
  EXPECT_LT(kept, 70u);
  EXPECT_NE(Refusal(whole.output(0)).find("params has 1144 elements"), std::string::npos);
}

TEST_F(NnOps, SayHowManyParametersThereAreAndWhatIsCudnnsAlone) {
  const auto size = [&](const char* mode, const char* direction, int layers) {
    return g_.Op("CudnnRNNParamsSize", {g_.Const(layers), g_.Const(4), g_.Const(3)},
                 {{"T", DType::kFloat}, {"S", DType::kInt64}, {"rnn_mode", mode}, {"direction", direction}});
  };
  const auto values = RunOnce(
      g_, {},
      {size("lstm", "unidirectional", 1), size("gru", "bidirectional", 2), size("rnn_tanh", "unidirectional", 3)});
  ASSERT_EQ(values.size(), 3u);
  EXPECT_EQ(Values<int64_t>(values[0]), (std::vector<int64_t>{16 * (3 + 4 + 2)}));
  EXPECT_EQ(Values<int64_t>(values[1]), (std::vector<int64_t>{2 * 12 * (3 + 4 + 2) + 2 * 12 * (8 + 4 + 2)}));
  EXPECT_EQ(Values<int64_t>(values[2]), (std::vector<int64_t>{4 * (3 + 4 + 2) + 2 * 4 * (4 + 4 + 2)}));
  const Output x = Some({5, 2, 4}, 1), h = Some({1, 2, 4}, 2), w = Some({160}, 3);
  EXPECT_NE(Refusal(g_.AddNode("CudnnRNN", {x, h, h, w}, {{"input_mode", "skip_input"}}).output(0)).find("skip_input"),
            std::string::npos);
  EXPECT_NE(
      Refusal(g_.AddNode("CudnnRNN", {x, h, h, w}, {{"input_mode", "auto_select"}}).output(0)).find("linear_input"),
      std::string::npos);
  EXPECT_NE(Refusal(g_.AddNode("CudnnRNNV3", {x, h, h, w, Ints({5, 5})}, {{"num_proj", 2}}).output(0)).find("num_proj"),
            std::string::npos);
  EXPECT_NE(Refusal(g_.AddNode("CudnnRNNV3", {x, h, h, w, Ints({5, 6})}).output(0)).find("sequence_lengths[1] is 6"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::engine::nn_ops_test
