// SPDX-License-Identifier: Apache-2.0
// Choices, casts, views and answers about shapes of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

Tensor Conditions(Dimensions dims) {
  Tensor value = {TENON_DT_BOOL, std::move(dims)};
  for (size_t i = 0; i < value.bytes.size(); ++i) value.bytes[i] = static_cast<char>(i * 7 % 5 % 2);
  return value;
}

TEST(Select, ChoosesAsTheCpu) {
  Bench bench;
  for (uint32_t dtype : kSizes) {
    const Attributes type = {{"T", Type{dtype}}};
    for (const Dimensions& dims : {Dimensions{33, 3}, Dimensions{}, Dimensions{0, 2}, Dimensions{257}}) {
      const Tensor yes = Numbered(dtype, dims, 3), no = Numbered(dtype, dims, 90);
      EXPECT_EQ(Same(bench, {"Select", type, {Conditions(dims), yes, no}, {{dtype, dims}}}), "") << dtype;
      EXPECT_EQ(Same(bench, {"Select", type, {Bools({}, {1}), yes, no}, {{dtype, dims}}}), "") << dtype;
      if (dims.empty()) continue;
      EXPECT_EQ(Same(bench, {"Select", type, {Conditions({dims[0]}), yes, no}, {{dtype, dims}}}), "") << dtype;
    }
    const Dimensions shapes[][4] = {{{2, 1}, {2, 3}, {3}, {2, 3}},
                                    {{4, 1, 3}, {2, 1}, {}, {4, 2, 3}},
                                    {{}, {5}, {1}, {5}},
                                    {{3}, {}, {}, {3}},
                                    {{0, 1}, {3}, {}, {0, 3}}};
    for (const auto& [c, t, e, out] : shapes) {
      EXPECT_EQ(
          Same(bench,
               {"SelectV2", type, {Conditions(c), Numbered(dtype, t, 3), Numbered(dtype, e, 90)}, {{dtype, out}}}),
          "")
          << dtype;
    }
  }
  std::vector<Tensor> out;
  const Tensor two = Floats({2}, {1, 2});
  EXPECT_EQ(
      bench.OnDevice(
          {"Select", {{"T", Type{TENON_DT_FLOAT}}}, {Bools({3}, {1, 0, 1}), two, two}, {{TENON_DT_FLOAT, {2}}}}, &out),
      "INVALID_ARGUMENT: a condition of shape [3] does not choose from shape [2]");
}

template <class Index>
Tensor IndicesOf(Dimensions dims, const std::vector<int>& values) {
  return Make<Index>(std::move(dims), std::vector<Index>(values.begin(), values.end()));
}
TEST(Select, OneHotIsTheCpus) {
  Bench bench;
  for (uint32_t dtype : kSizes) {
    for (const Tensor& indices :
         {IndicesOf<int32_t>({2, 3}, {0, 4, -1, 2, 5, 1}), IndicesOf<int64_t>({2, 3}, {3, 3, 0, 2, 9, 1}),
          IndicesOf<uint8_t>({2, 3}, {3, 3, 0, 2, 255, 1})}) {
      for (int64_t axis : {-1, 0, 1, 2}) {
        Dimensions out = {2, 3};
        out.insert(axis < 0 ? out.end() : out.begin() + axis, 5);
        const Attributes attributes = {{"T", Type{dtype}}, {"axis", axis}};
        EXPECT_EQ(Same(bench, {"OneHot",
                               attributes,
                               {indices, Int(5), Numbered(dtype, {}, 3), Numbered(dtype, {}, 90)},
                               {{dtype, out}},
                               {1}}),
                  "")
            << dtype << " along " << axis;
      }
    }
    const Attributes last = {{"T", Type{dtype}}, {"axis", int64_t{-1}}};
    const Tensor on = Numbered(dtype, {}, 3), off = Numbered(dtype, {}, 90);
    EXPECT_EQ(Same(bench, {"OneHot", last, {Int(2), Int(33), on, off}, {{dtype, {33}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"OneHot", last, {Ints({}), Int(3), on, off}, {{dtype, {0, 3}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"OneHot", last, {Ints({1}), Int(0), on, off}, {{dtype, {1, 0}}}, {1}}), "") << dtype;
  }
}

TEST(Select, BandsAreTheCpus) {
  Bench bench;
  for (uint32_t dtype : kSizes) {
    for (const auto& [lower, upper] :
         {std::pair(-1, 0), std::pair(0, -1), std::pair(1, 2), std::pair(0, 0), std::pair(3, 5), std::pair(-1, -1)}) {
      for (const Dimensions& dims : {Dimensions{2, 3, 5}, Dimensions{33, 31}, Dimensions{0, 4, 5}}) {
        EXPECT_EQ(
            Same(bench,
                 {"MatrixBandPart", {}, {Numbered(dtype, dims), Int(lower), Int(upper)}, {{dtype, dims}}, {1, 2}}),
            "")
            << dtype;
      }
    }
  }
}

Tensor CastOnCpu(Bench& bench, const Tensor& x, uint32_t to) {
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnCpu({"Cast", {{"SrcT", Type{x.dtype}}, {"DstT", Type{to}}}, {x}, {{to, x.dims}}}, &out), "");
  return out.at(0);
}
TEST(Cast, OfEveryPairIsTheCpus) {
  Bench bench;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const std::vector<float> numbers = {-1.5f,      0,     -0.0f,   2.7f, 300,   -7.9f,  kNan,  kInfinity,
                                      -kInfinity, 1e30f, -1e30f,  3e9f, -3e9f, 127.5f, 65504, 65520.0f,
                                      1e-8f,      1e19f, 0.3333f, 2047, 32768, -129,   255,   1e-40f};
  const uint32_t types[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32,
                            TENON_DT_INT64, TENON_DT_BOOL,   TENON_DT_UINT8, TENON_DT_INT8,    TENON_DT_INT16};
  for (uint32_t from : types) {
    const auto count = static_cast<int64_t>(numbers.size());
    const Tensor x =
        from == TENON_DT_FLOAT ? Floats({count}, numbers) : CastOnCpu(bench, Floats({count}, numbers), from);
    for (uint32_t to : types) {
      const Attributes attributes = {{"SrcT", Type{from}}, {"DstT", Type{to}}};
      EXPECT_EQ(Same(bench, {"Cast", attributes, {x}, {{to, {count}}}}), "") << from << " to " << to;
      EXPECT_EQ(Same(bench, {"Cast", attributes, {{from, {0}}}, {{to, {0}}}}), "") << from << " to " << to;
      const Tensor one = CastOnCpu(bench, Floats({}, {-2.25f}), from);
      EXPECT_EQ(Same(bench, {"Cast", attributes, {one}, {{to, {}}}}), "") << from << " to " << to;
    }
    for (uint32_t to : {TENON_DT_HALF, TENON_DT_BFLOAT16}) {
      const Attributes cut = {{"SrcT", Type{from}}, {"DstT", Type{to}}, {"Truncate", true}};
      EXPECT_EQ(Same(bench, {"Cast", cut, {x}, {{to, {count}}}}), "") << from << " to " << to;
    }
  }
}

// More than one launch takes, of no element, of one chunk and of several, with and without a whole pack.
TEST(Cast, OfManyTensorsIsThatOfEach) {
  Bench bench;
  std::vector<Tensor> inputs;
  for (int64_t i = 0; i < 140; ++i)
    inputs.push_back(RandomFloatsOf({i == 60 ? 10000 : i % 9, 1 + i % 3}, static_cast<uint32_t>(i)));
  for (const uint32_t to : {TENON_DT_HALF, TENON_DT_BFLOAT16}) {
    std::vector<Tensor> outputs;
    for (const Tensor& input : inputs) outputs.push_back({to, input.dims});
    const DeviceCase all = {"Tenon>CastN", {{"N", int64_t{140}}, {"DstT", Type{to}}}, inputs, outputs};
    EXPECT_EQ(Same(bench, all), "") << to;
    std::vector<Tensor> got;
    ASSERT_EQ(bench.OnCpu(all, &got), "");
    for (size_t i = 0; i < inputs.size(); ++i)
      EXPECT_EQ(Values<uint16_t>(got[i]), Values<uint16_t>(CastOnCpu(bench, inputs[i], to))) << i;
  }
}

TEST(Shapes, AreToldOnTheHost) {
  Bench bench;
  const Tensor x = RandomFloatsOf({3, 5, 2});
  const Attributes type = {{"T", Type{TENON_DT_FLOAT}}};
  EXPECT_EQ(Same(bench, {"Shape", type, {x}, {{TENON_DT_INT32, {3}}}, {}, {0}}), "");
  EXPECT_EQ(Same(bench, {"Shape", type, {x}, {{TENON_DT_INT64, {3}}}, {}, {0}}), "");
  EXPECT_EQ(
      Same(bench, {"ShapeN", type, {x, Floats({}, {1})}, {{TENON_DT_INT32, {3}}, {TENON_DT_INT32, {0}}}, {}, {0, 1}}),
      "");
  EXPECT_EQ(Same(bench, {"Size", type, {x}, {{TENON_DT_INT32, {}}}, {}, {0}}), "");
  EXPECT_EQ(Same(bench, {"Rank", type, {x}, {{TENON_DT_INT32, {}}}, {}, {0}}), "");
}

TEST(Views, AreMarkedAndAreCopiesWhenTheyAreRun) {
  Bench bench;
  const Tensor x = RandomFloatsOf({3, 4});
  EXPECT_EQ(Same(bench, {"Reshape", {}, {x, Ints({12})}, {{TENON_DT_FLOAT, {12}}}, {1}}), "");
  EXPECT_EQ(Same(bench, {"ExpandDims", {}, {x, Int(0)}, {{TENON_DT_FLOAT, {1, 3, 4}}}, {1}}), "");
  EXPECT_EQ(Same(bench, {"Squeeze", {}, {x}, {{TENON_DT_FLOAT, {3, 4}}}}), "");
  EXPECT_EQ(Same(bench, {"EnsureShape", {}, {x}, {{TENON_DT_FLOAT, {3, 4}}}}), "");
  for (const char* op : {"Reshape", "ExpandDims", "Squeeze", "EnsureShape"}) {
    EXPECT_NE(FindKernel(bench.tested, {op})->traits & TENON_KERNEL_VIEW, 0u) << op;
  }
}

}  // namespace
}  // namespace tenon::device_test
