// SPDX-License-Identifier: Apache-2.0
// Softmax, the cross entropies and InTopKV2 of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Rows that a few threads hold, a warp, a block, and longer ones; begun at multiples of 16 bytes and anywhere.
const Dimensions kRows[] = {{5, 10}, {3, 1},   {2, 2, 70}, {7},       {0, 4},    {4, 0},    {40, 3},    {3, 31},
                            {5, 64}, {2, 256}, {2, 257},   {3, 1024}, {3, 1031}, {1, 4097}, {3, 9003}, {2, 18001}};

TEST(Softmax, OfEveryTypeIsTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kFloatTypes) {
    for (const Dimensions& dims : kRows) {
      for (const char* op : {"Softmax", "LogSoftmax"}) {
        EXPECT_EQ(Compare(bench, {op, {}, {ValuesOf(dtype, RandomFloatsOf(dims, 8, -9, 9))}, {{dtype, dims}}},
                          ToleranceOf(dtype, 2e-6)),
                  "")
            << dtype << " " << dims.back();
      }
    }
  }
  const Tensor special = Floats({6, 3}, {kNan, 1, 2, 1, 2, kNan, kInfinity, 1, 2, -kInfinity, 1, 2, -kInfinity,
                                         -kInfinity, -kInfinity, 1000, -1000, 0});
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    EXPECT_EQ(Compare(bench, {op, {}, {special}, {{TENON_DT_FLOAT, {6, 3}}}}, 1e-6), "");
  }
  // In rows that are walked along as in those that are held: threads that see nothing finite, and something that is not
  // finite.
  for (const int64_t width : {2000, 20000}) {
    std::vector<float> values(static_cast<size_t>(6 * width), -kInfinity);
    const auto at = [&](int64_t row, int64_t j) -> float& { return values[static_cast<size_t>(row * width + j)]; };
    at(0, width - 1) = 3;
    at(1, 0) = -5;
    at(1, width / 2) = 90;
    at(2, width / 3) = kNan;
    at(3, width / 3) = kInfinity;
    for (int64_t j = 0; j < width; ++j) at(5, j) = static_cast<float>(j % 7) - (j < width / 2 ? 500.0f : 0.0f);
    for (const char* op : {"Softmax", "LogSoftmax"}) {
      EXPECT_EQ(Compare(bench, {op, {}, {Floats({6, width}, values)}, {{TENON_DT_FLOAT, {6, width}}}}, 2e-6), "")
          << op << width;
    }
  }
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"Softmax", {}, {Floats({}, {1})}, {{TENON_DT_FLOAT, {}}}}, &out),
            "INVALID_ARGUMENT: logits must have a dim; they are a scalar");
}

TEST(CrossEntropy, OfEveryTypeIsTheCpusWithBroadcasting) {
  Bench bench;
  const char* dense = "SoftmaxCrossEntropyWithLogits";
  for (const uint32_t dtype : kFloatTypes) {
    for (const Dimensions& dims : {Dimensions{5, 10}, Dimensions{3, 1}, Dimensions{2, 600}, Dimensions{1, 4099},
                                   Dimensions{2, 9003}, Dimensions{0, 3}, Dimensions{2, 0}}) {
      const std::vector<Tensor> outputs = {{dtype, {dims[0]}}, {dtype, dims}};
      for (const Dimensions& x : {dims, Dimensions{1, dims[1]}, Dimensions{dims[0], 1}, Dimensions{1, 1}}) {
        for (const Dimensions& y : {dims, Dimensions{1, dims[1]}, Dimensions{dims[0], 1}}) {
          const Tensor logits = ValuesOf(dtype, RandomFloatsOf(x, 8, -9, 9)),
                       labels = ValuesOf(dtype, RandomFloatsOf(y, 9, 0, 1));
          if (dims[1] == 0 && (x[1] == 1 || y[1] == 1)) continue;
          EXPECT_EQ(
              Compare(bench, {dense, {}, {logits, labels}, outputs}, ToleranceOf(dtype, dims[1] > 1000 ? 1e-4 : 5e-6)),
              "")
              << dtype << " " << dims[1];
        }
      }
    }
  }
  // A label of zero counts nothing, also where the logit is infinitely low.
  const std::vector<Tensor> outputs = {{TENON_DT_FLOAT, {2}}, {TENON_DT_FLOAT, {2, 2}}};
  EXPECT_EQ(
      Compare(bench, {dense, {}, {Floats({2, 2}, {-kInfinity, 1, 1, kNan}), Floats({2, 2}, {0, 1, 0, 1})}, outputs},
              1e-6),
      "");
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({dense, {}, {RandomFloatsOf({3, 2}), RandomFloatsOf({2, 2})}, outputs}, &out),
            "INVALID_ARGUMENT: logits of shape [3,2] and labels of shape [2,2] do not broadcast to [2,2]");
}

TEST(SparseCrossEntropy, IsTheCpusAndReportsLabelsLate) {
  Bench bench;
  const char* sparse = "SparseSoftmaxCrossEntropyWithLogits";
  for (const uint32_t dtype : kFloatTypes) {
    for (const int64_t width : {1, 10, 33, 600, 4099, 9003}) {
      const std::vector<Tensor> outputs = {{dtype, {3}}, {dtype, {3, width}}};
      const Tensor logits = ValuesOf(dtype, RandomFloatsOf({3, width}, 8, -9, 9));
      const auto last = static_cast<int32_t>(width - 1);
      EXPECT_EQ(Compare(bench, {sparse, {}, {logits, Ints({0, last, last / 2})}, outputs}, ToleranceOf(dtype, 5e-6)),
                "")
          << dtype << " " << width;
      EXPECT_EQ(Compare(bench, {sparse, {}, {logits, Make<int64_t>({3}, {last, 0, last / 3})}, outputs},
                        ToleranceOf(dtype, 5e-6)),
                "")
          << dtype << " " << width;
    }
  }
  const std::vector<Tensor> outputs = {{TENON_DT_FLOAT, {3}}, {TENON_DT_FLOAT, {3, 10}}};
  for (const int32_t bad : {10, -1}) {
    std::vector<Tensor> out;
    const std::string text = bench.OnDevice({sparse, {}, {RandomFloatsOf({3, 10}), Ints({0, bad, 9})}, outputs}, &out);
    EXPECT_TRUE(text.ends_with("Received a label value of " + std::to_string(bad) +
                               " which is outside the valid range of [0, 10); it is label 1"))
        << text;
  }
}

TEST(InTopK, IsTheCpus) {
  Bench bench;
  const Attributes narrow = {{"T", Type{TENON_DT_INT32}}}, wide = {{"T", Type{TENON_DT_INT64}}};
  const Tensor few = Floats({4, 3}, {0.1f, 0.7f, 0.2f, 0.5f, 0.5f, 0.0f, 0.2f, kInfinity, 0.1f, 1, kNan, 0});
  for (const int32_t k : {0, 1, 2, 3, 9}) {
    for (const std::vector<int32_t>& targets : {std::vector<int32_t>{2, 1, 0, 0}, {1, 0, 1, 1}, {-1, 3, 100, 2}}) {
      EXPECT_EQ(Compare(bench, {"InTopKV2", narrow, {few, Ints(targets), Int(k)}, {{TENON_DT_BOOL, {4}}}}, 0), "") << k;
    }
    for (const int64_t width : {33, 1300}) {
      const Tensor many = RandomFloatsOf({3, width}, 1, 0, 1);
      EXPECT_EQ(Compare(bench,
                        {"InTopKV2",
                         wide,
                         {many, Make<int64_t>({3}, {1, width - 1, 5}), Make<int64_t>({}, {width / 2})},
                         {{TENON_DT_BOOL, {3}}}},
                        0),
                "");
    }
  }
}

}  // namespace
}  // namespace tenon::device_test
