// SPDX-License-Identifier: Apache-2.0
// Pixels that change places or sizes, on the GPU plugins against the CPU, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

Tensor Pairs(const std::vector<int32_t>& values) {
  return Make<int32_t>({static_cast<int64_t>(values.size() / 2), 2}, values);
}

TEST(Blocks, MoveAsOnTheCpu) {
  Bench bench;
  struct {
    Dimensions image, apart;
    std::vector<int32_t> blocks, pairs;
  } cases[] = {{{2, 4, 6, 3}, {8, 2, 3, 3}, {2, 2}, {0, 0, 0, 0}},
               {{1, 5, 7, 16}, {6, 3, 3, 16}, {2, 3}, {1, 0, 0, 2}},
               {{3, 31}, {12, 9}, {4}, {3, 2}},
               {{2, 3, 1}, {2, 3, 1}, {1}, {0, 0}},
               {{2, 3}, {2, 3}, {}, {}},
               {{0, 4, 2}, {0, 2, 2}, {2}, {0, 0}},
               {{1, 2, 3, 2, 5}, {8, 2, 2, 1, 5}, {2, 2, 2}, {1, 1, 0, 1, 0, 0}}};
  for (uint32_t dtype : kSizes) {
    for (const auto& [image, apart, blocks, pairs] : cases) {
      EXPECT_EQ(
          Same(bench,
               {"SpaceToBatchND", {}, {Numbered(dtype, image), Ints(blocks), Pairs(pairs)}, {{dtype, apart}}, {1, 2}}),
          "")
          << dtype;
      EXPECT_EQ(
          Same(bench,
               {"BatchToSpaceND", {}, {Numbered(dtype, apart), Ints(blocks), Pairs(pairs)}, {{dtype, image}}, {1, 2}}),
          "")
          << dtype;
    }
    const Attributes two = {{"block_size", int64_t{2}}, {"data_format", std::string("NHWC")}};
    for (const int64_t channels : {1, 3, 4}) {
      const Dimensions image = {2, 4, 6, channels}, deep = {2, 2, 3, 4 * channels};
      EXPECT_EQ(Same(bench, {"SpaceToDepth", two, {Numbered(dtype, image)}, {{dtype, deep}}}), "") << dtype;
      EXPECT_EQ(Same(bench, {"DepthToSpace", two, {Numbered(dtype, deep)}, {{dtype, image}}}), "") << dtype;
    }
  }
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"SpaceToBatchND",
                            {},
                            {RandomFloatsOf({1, 4}), Ints({2}), Pairs({0, 1})},
                            {{TENON_DT_FLOAT, {2, 2}}},
                            {1, 2}},
                           &out),
            "INVALID_ARGUMENT: dims 4 and 2 do not go with blocks of 2 and 0 and 1 at the ends");
}

TEST(Sequences, AreReversedAsOnTheCpu) {
  Bench bench;
  const auto dims = [](int64_t sequence, int64_t batch) {
    return Attributes{{"seq_dim", sequence}, {"batch_dim", batch}};
  };
  for (uint32_t dtype : kSizes) {
    const auto x = [&](const Dimensions& shape) { return Numbered(dtype, shape); };
    EXPECT_EQ(Same(bench, {"ReverseSequence", dims(1, 0), {x({3, 5, 2}), Ints({0, 3, 5})}, {{dtype, {3, 5, 2}}}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"ReverseSequence", dims(0, 1), {x({5, 3, 4}), Ints({1, 5, 4})}, {{dtype, {5, 3, 4}}}}), "")
        << dtype;
    EXPECT_EQ(
        Same(bench, {"ReverseSequence", dims(3, 1), {x({2, 3, 2, 33}), Ints({33, 2, 31})}, {{dtype, {2, 3, 2, 33}}}}),
        "")
        << dtype;
    EXPECT_EQ(Same(bench, {"ReverseSequence", dims(1, 0), {x({0, 5}), Ints({})}, {{dtype, {0, 5}}}}), "") << dtype;
  }
  std::vector<Tensor> out;
  EXPECT_NE(
      bench
          .OnDevice({"ReverseSequence", dims(1, 0), {RandomFloatsOf({2, 3}), Ints({1, 4})}, {{TENON_DT_FLOAT, {2, 3}}}},
                    &out)
          .find("seq_lengths[1] = 4 is not in [0, 3]"),
      std::string::npos);
}

constexpr std::pair<bool, bool> kSamplings[] = {{false, false}, {true, false}, {false, true}};
// Original and resized heights and widths.
constexpr int64_t kResizes[][4] = {{3, 4, 7, 9}, {9, 7, 4, 3},  {5, 5, 5, 5},
                                   {1, 6, 3, 1}, {4, 2, 31, 8}, {33, 3, 2, 2}};

TEST(Resizes, AreTheCpus) {
  Bench bench;
  for (const auto& [corners, half] : kSamplings) {
    const Attributes attributes = {{"align_corners", corners}, {"half_pixel_centers", half}};
    for (const auto& [h, w, new_h, new_w] : kResizes) {
      const Tensor size = Ints({static_cast<int32_t>(new_h), static_cast<int32_t>(new_w)});
      const Dimensions original = {2, h, w, 3}, resized = {2, new_h, new_w, 3};
      for (uint32_t dtype : kNumberTypes) {
        EXPECT_EQ(
            Compare(bench,
                    {"ResizeBilinear", attributes, {RandomOf(dtype, original), size}, {{TENON_DT_FLOAT, resized}}, {1}},
                    1e-6),
            "");
        const Tensor dy = RandomOf(dtype, resized);
        const Tensor old_size = Ints({static_cast<int32_t>(h), static_cast<int32_t>(w)});
        EXPECT_EQ(Same(bench, {"ResizeNearestNeighborGrad", attributes, {dy, old_size}, {{dtype, original}}, {1}}), "")
            << dtype;
        if (dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64) continue;
        DeviceCase gradient = {"ResizeBilinearGrad",
                               attributes,
                               {RandomFloatsOf(resized), RandomOf(dtype, original)},
                               {{dtype, original}}};
        gradient.attributes["T"] = Type{dtype};
        // The CPU fuses products and sums, which moves a sum of halves by one step.
        const double near = dtype == TENON_DT_HALF ? 2e-3 : dtype == TENON_DT_BFLOAT16 ? 1.6e-2 : 1e-6;
        EXPECT_EQ(Compare(bench, gradient, near), "") << dtype;
      }
      for (uint32_t dtype : {TENON_DT_UINT8, TENON_DT_HALF, TENON_DT_FLOAT, TENON_DT_INT64}) {
        EXPECT_EQ(
            Same(bench,
                 {"ResizeNearestNeighbor", attributes, {Numbered(dtype, original), size}, {{dtype, resized}}, {1}}),
            "")
            << dtype;
      }
      EXPECT_EQ(Compare(bench,
                        {"ResizeBilinear",
                         attributes,
                         {Numbered(TENON_DT_UINT8, original), size},
                         {{TENON_DT_FLOAT, resized}},
                         {1}},
                        1e-6),
                "");
    }
    EXPECT_EQ(Same(bench, {"ResizeNearestNeighbor",
                           attributes,
                           {Numbered(TENON_DT_FLOAT, {1, 3, 2, 8}), Ints({5, 7})},
                           {{TENON_DT_FLOAT, {1, 5, 7, 8}}},
                           {1}}),
              "");
    EXPECT_EQ(Same(bench, {"ResizeBilinear",
                           attributes,
                           {RandomFloatsOf({0, 3, 2, 1}), Ints({5, 7})},
                           {{TENON_DT_FLOAT, {0, 5, 7, 1}}},
                           {1}}),
              "");
    EXPECT_EQ(Same(bench, {"ResizeNearestNeighborGrad",
                           attributes,
                           {RandomFloatsOf({1, 0, 2, 1}), Ints({2, 3})},
                           {{TENON_DT_FLOAT, {1, 2, 3, 1}}},
                           {1}}),
              "");
  }
}

}  // namespace
}  // namespace tenon::device_test
