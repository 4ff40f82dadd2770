// SPDX-License-Identifier: Apache-2.0
// Reductions of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Reduce, OfEveryTypeOverAnyAxesIsTheCpus) {
  Bench bench;
  // Rows of few and many, columns of few and many, what is split among blocks, what alternates, empty results and empty
  // sums.
  const struct {
    Dimensions in;
    std::vector<int32_t> axes;
    Dimensions out;
  } shapes[] = {{{4, 5, 6}, {1}, {4, 6}},
                {{4, 5, 6}, {0, 2}, {5}},
                {{4, 5, 6}, {-1}, {4, 5}},
                {{4, 5, 6}, {}, {4, 5, 6}},
                {{4, 5}, {0, 1}, {}},
                {{3, 1, 2}, {1}, {3, 1, 2}},
                {{0, 3}, {0}, {3}},
                {{0, 3}, {1}, {0}},
                {{}, {}, {}},
                {{1}, {0}, {}},
                {{31}, {0}, {}},
                {{9001}, {0}, {}},
                {{3, 257}, {1}, {3}},
                {{2, 1031}, {1}, {2}},
                {{1031, 3}, {0}, {3}},
                {{400, 33}, {0}, {33}},
                {{2, 3, 2, 5, 3}, {0, 2, 4}, {3, 5}},
                {{3, 5, 2, 33}, {0, 2}, {5, 33}},
                {{700, 2, 9}, {0, 2}, {2}},
                {{1, 300}, {0}, {300}},
                {{3, 300}, {0}, {300}}};
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    for (const uint32_t dtype : kNumberTypes) {
      for (const auto& [in, axes, out] : shapes) {
        const bool whole = dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64;
        if (whole && op[1] == 'e' && CountOf(in) == 0 && CountOf(out) != 0) continue;
        const bool product = op[0] == 'P';
        const Tensor x = ValuesOf(dtype, RandomFloatsOf(in, 7, product ? 0.995f : -1, product ? 1.006f : 3), 100);
        EXPECT_EQ(
            Compare(bench, {op, {}, {x, Ints(axes)}, {{dtype, out}}, {1}}, ToleranceOf(dtype, product ? 1e-5 : 1e-6)),
            "")
            << dtype << " of " << CountOf(in) << " to " << CountOf(out);
      }
    }
  }
  DeviceCase late = {"Sum", {}, {RandomFloatsOf({4, 5}), Make<int64_t>({1}, {-2})}, {{TENON_DT_FLOAT, {5}}}, {1}};
  late.constant = false;
  EXPECT_EQ(Compare(bench, late, 1e-6), "");
}

TEST(Reduce, OfSpecialNumbersIsTheCpus) {
  Bench bench;
  for (const char* op : {"Sum", "Mean", "Prod", "Max", "Min"}) {
    for (const std::vector<float>& x : {std::vector<float>{1, kNan, 3, -kInfinity},
                                        {kInfinity, 2, 5},
                                        {kInfinity, -kInfinity},
                                        {-kInfinity, -kInfinity},
                                        {-0.0f}}) {
      const auto n = static_cast<int64_t>(x.size());
      EXPECT_EQ(Compare(bench, {op, {}, {Floats({n}, x), Ints({0})}, {{TENON_DT_FLOAT, {}}}, {1}}, 0), "") << n;
      EXPECT_EQ(
          Compare(bench, {op, {}, {ValuesOf(TENON_DT_HALF, Floats({n, 1}, x)), Ints({0})}, {{TENON_DT_HALF, {1}}}, {1}},
                  0),
          "")
          << n;
    }
  }
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"Sum", {}, {Floats({1, 1}, {-0.0f}), Ints({0})}, {{TENON_DT_FLOAT, {1}}}, {1}}, &out), "");
  EXPECT_TRUE(std::signbit(Values<float>(out[0])[0]));
  // Means do not wrap, sums do.
  const Tensor large = Ints({2000000000, 2000000000, 2000000003});
  EXPECT_EQ(Compare(bench, {"Mean", {}, {large, Ints({0})}, {{TENON_DT_INT32, {}}}, {1}}, 0), "");
  EXPECT_EQ(Compare(bench, {"Sum", {}, {large, Ints({0})}, {{TENON_DT_INT32, {}}}, {1}}, 0), "");
  // Many small floats beside a large one are not lost.
  std::vector<float> many(20000, 1.0f);
  many[0] = 1e8f;
  EXPECT_EQ(bench.OnDevice({"Sum", {}, {Floats({20000}, many), Ints({0})}, {{TENON_DT_FLOAT, {}}}, {1}}, &out), "");
  EXPECT_EQ(Values<float>(out[0])[0], 100020000.0f);
}

TEST(Reduce, RefusesWhatTheCpuRefuses) {
  Bench bench;
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"Sum", {}, {RandomFloatsOf({2}), Ints({3})}, {{TENON_DT_FLOAT, {}}}, {1}}, &out),
            "INVALID_ARGUMENT: axis 3 of a reduction of shape [2] is outside [-1, 1)");
  EXPECT_EQ(bench.OnDevice({"Mean", {}, {Ints({}), Ints({0})}, {{TENON_DT_INT32, {}}}, {1}}, &out),
            "INVALID_ARGUMENT: Integer division by zero: the mean of no elements");
  EXPECT_EQ(bench.OnDevice({"Sum", {}, {RandomFloatsOf({2, 2}), Ints({1})}, {{TENON_DT_FLOAT, {3}}}, {1}}, &out),
            "INVALID_ARGUMENT: the axes leave 2 elements; the output has 3");
}

TEST(Reduce, OfBoolsIsTheCpus) {
  Bench bench;
  for (const char* op : {"All", "Any"}) {
    EXPECT_EQ(Compare(bench, {op, {}, {Bools({2, 2}, {0, 1, 1, 1}), Ints({1})}, {{TENON_DT_BOOL, {2}}}, {1}}, 0), "");
    EXPECT_EQ(Compare(bench, {op, {}, {Bools({0, 2}, {}), Ints({0})}, {{TENON_DT_BOOL, {2}}}, {1}}, 0), "");
    for (const int odd : {0, 1}) {
      std::vector<int> x(5000, 1 - odd);
      x[4997] = odd;
      EXPECT_EQ(Compare(bench, {op, {}, {Bools({5000}, x), Ints({0})}, {{TENON_DT_BOOL, {}}}, {1}}, 0), "");
      EXPECT_EQ(Compare(bench, {op, {}, {Bools({2500, 2}, x), Ints({0})}, {{TENON_DT_BOOL, {2}}}, {1}}, 0), "");
    }
  }
}

TEST(Reduce, SquaresAndBiasGradientsAreTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kFloatTypes) {
    for (const Dimensions& in : {Dimensions{}, Dimensions{0}, Dimensions{31, 3}, Dimensions{20011}}) {
      EXPECT_EQ(Compare(bench, {"L2Loss", {}, {ValuesOf(dtype, RandomFloatsOf(in))}, {{dtype, {}}}},
                        ToleranceOf(dtype, 1e-6)),
                "")
          << dtype;
    }
  }
  for (const uint32_t dtype : kNumberTypes) {
    for (const char* format : {"NHWC", "NCHW"}) {
      for (const Dimensions& in : {Dimensions{2, 3, 4, 3}, Dimensions{1, 5}, Dimensions{300, 7, 1},
                                   Dimensions{0, 2, 2, 2}, Dimensions{3, 2, 40, 17}}) {
        const int64_t channels = format[1] == 'C' ? in[1] : in.back();
        const DeviceCase grad = {"BiasAddGrad",
                                 {{"data_format", std::string(format)}},
                                 {ValuesOf(dtype, RandomFloatsOf(in), 100)},
                                 {{dtype, {channels}}}};
        EXPECT_EQ(Compare(bench, grad, ToleranceOf(dtype, 3e-6)), "") << dtype << format << in.size();
      }
    }
  }
}

TEST(Reduce, PlacesOfTheLargestAndSmallestAreTheCpus) {
  Bench bench;
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (const Dimensions& in : {Dimensions{3, 5}, Dimensions{1, 1}, Dimensions{2, 300}, Dimensions{33, 40},
                                 Dimensions{2, 9000}, Dimensions{1500, 3}}) {
      for (const int32_t axis : {0, 1, -1}) {
        for (const uint32_t dtype : kNumberTypes) {
          // Few values, so that many are equal.
          Tensor x = ValuesOf(dtype, RandomFloatsOf(in, 3, -4, 4), in[1] == 9000 ? 100 : 1);
          for (const uint32_t place : {TENON_DT_INT64, TENON_DT_INT32}) {
            const DeviceCase arg = {op, {}, {x, Int(axis)}, {{place, {axis == 0 ? in[1] : in[0]}}}, {1}};
            EXPECT_EQ(Compare(bench, arg, 0), "") << dtype << " axis " << axis << " of " << in[0] << ", " << in[1];
          }
        }
      }
    }
    for (const std::vector<float>& x : {std::vector<float>{kNan, 1, 2},
                                        {1, kNan, 3, 3},
                                        {-kInfinity, -kInfinity},
                                        {kNan, kInfinity, -kInfinity},
                                        {kNan, kNan},
                                        {5, kNan, -kInfinity}}) {
      EXPECT_EQ(
          Compare(bench, {op, {}, {Floats({static_cast<int64_t>(x.size())}, x), Int(0)}, {{TENON_DT_INT64, {}}}, {1}},
                  0),
          "");
    }
    EXPECT_EQ(Compare(bench, {op, {}, {Bools({4}, {0, 1, 0, 1}), Int(0)}, {{TENON_DT_INT64, {}}}, {1}}, 0), "");
    EXPECT_EQ(Compare(bench, {op, {}, {Floats({0, 3}, {}), Int(1)}, {{TENON_DT_INT64, {0}}}, {1}}, 0), "");
    std::vector<Tensor> out;
    EXPECT_EQ(bench.OnDevice({op, {}, {Floats({0, 3}, {}), Int(0)}, {{TENON_DT_INT64, {3}}}, {1}}, &out),
              "INVALID_ARGUMENT: Reduction axis 0 is empty in shape [0,3]");
    EXPECT_EQ(bench.OnDevice({op, {}, {Floats({1}, {1}), Int(1)}, {{TENON_DT_INT64, {}}}, {1}}, &out),
              "INVALID_ARGUMENT: Expected dimension in the range [-1, 1), but got 1");
  }
}

TEST(AddN, OfAnyNumberOfInputsIsTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kNumberTypes) {
    for (const int64_t count : {0, 1, 13, 64}) {
      std::vector<Tensor> many;
      for (uint32_t i = 0; i < 70; ++i) many.push_back(ValuesOf(dtype, RandomFloatsOf({count}, i), 100));
      for (const int64_t n : {1, 2, 3, 32, 33, 70}) {
        EXPECT_EQ(Compare(bench, {"AddN", {}, {many.begin(), many.begin() + n}, {{dtype, {count}}}}, 0), "")
            << dtype << " " << n;
      }
    }
  }
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice({"AddN", {}, {RandomFloatsOf({2}), RandomFloatsOf({3})}, {{TENON_DT_FLOAT, {2}}}}, &out),
            "INVALID_ARGUMENT: input 1 of AddN has shape [3]; the sum's is [2]");
}

TEST(CheckNumerics, GivesWhatIsFiniteAndSaysLateWhatIsNot) {
  Bench bench;
  const Attributes message = {{"message", std::string("of {x}")}};
  for (const uint32_t dtype : kFloatTypes) {
    EXPECT_EQ(
        Compare(bench, {"CheckNumerics", message, {ValuesOf(dtype, RandomFloatsOf({5001}))}, {{dtype, {5001}}}}, 0),
        "");
    EXPECT_EQ(Compare(bench, {"CheckNumerics", message, {ValuesOf(dtype, RandomFloatsOf({0}))}, {{dtype, {0}}}}, 0),
              "");
    for (const auto& [a, b, what] : {std::tuple<float, float, const char*>{kNan, 0, "NaN"},
                                     {1, -kInfinity, "Inf"},
                                     {kNan, kInfinity, "Inf and NaN"}}) {
      std::vector<float> x(5001, 1.0f);
      x[1234] = a;
      x[5000] = b;
      std::vector<Tensor> out;
      const std::string text =
          bench.OnDevice({"CheckNumerics", message, {ValuesOf(dtype, Floats({5001}, x))}, {{dtype, {5001}}}}, &out);
      EXPECT_NE(text.find(std::string("INVALID_ARGUMENT")), std::string::npos) << text;
      EXPECT_TRUE(text.ends_with(std::string(": of {x} : Tensor had ") + what + " values")) << text;
    }
  }
}

}  // namespace
}  // namespace tenon::device_test
