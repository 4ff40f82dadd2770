// SPDX-License-Identifier: Apache-2.0
// oneDNN's products of bytes against plain integers: the cases of devices/cpu, larger ones, and what is refused. Covers
// N6.
#include "testing/int8_case.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "package.h"
#include "program.h"

namespace tenon::cpu_onednn::int8_test {
namespace {

using cpu::Int8Case;
using cpu::Int8Numbers;
using cpu::Kernel;
using testing::Result;
using testing::Tensor;
using testing::Values;

class OnednnInt8 : public ::testing::Test {
 protected:
  void SetUp() override {
    use_always = true;
    if (!HasByteProducts()) GTEST_SKIP() << "this CPU has no VNNI";
  }
  void TearDown() override { use_always = false; }
};

TEST_F(OnednnInt8, ProductsAreThoseOfIntegers) {
  for (const Int8Case& which : cpu::Int8Cases()) ASSERT_NO_FATAL_FAILURE(cpu::ExpectIntegers(kKernelPackage, which));
  // As in networks: many channels, rows in shares.
  for (Int8Case which :
       {Int8Case{.batch = 1,
       .height = 14,
       .width = 14,
       .in = 128,
       .out = 96,
       .kernel_height = 3,
       .kernel_width = 3,
       .input_zero = 0,
       .bias = true,
       .activation = "Relu",
       .output_scale = 0x1p4f},
        Int8Case{.batch = 1,
        .height = 28,
        .width = 28,
        .in = 3,
        .out = 32,
        .kernel_height = 7,
        .kernel_width = 7,
        .stride = 2,
        .input_zero = 120,
        .norm = true},
        Int8Case{.batch = 2,
        .height = 14,
        .width = 14,
        .in = 256,
        .out = 64,
        .input_zero = 3,
        .output_zero = 9,
        .addend_zero = 5,
        .norm = true,
        .addend = true,
        .activation = "Relu"},
        Int8Case{
            .batch = 130, .in = 512, .out = 100, .matrices = true, .input_zero = 14, .bias = true, .bytes = false}})
    ASSERT_NO_FATAL_FAILURE(cpu::ExpectIntegers(kKernelPackage, which));
}

// One plan, run again with other weights: what is no constant is not kept.
TEST_F(OnednnInt8, WeightsThatChangeAreReadAgain) {
  const Int8Case which{.batch = 4, .in = 32, .out = 16, .matrices = true, .bias = true};
  Int8Numbers numbers(which);
  Kernel kernel(numbers.op());
  numbers.Configure(kernel);
  kernel.From(kKernelPackage);
  for (int turn = 0; turn < 3; ++turn) {
    for (int32_t& weight : numbers.weights) weight = -weight;
    numbers.bias[0] += 8;
    const Result result = kernel.Run(numbers.Inputs(), {numbers.Output()});
    ASSERT_EQ(result.code, TENON_OK) << result.message;
    const std::vector<double> wanted = numbers.Wanted();
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_EQ(Values<uint8_t>(result[0])[i], wanted[i]) << turn;
  }
}

// The same square matrix, once as it is and once transposed, is packed as two.
TEST_F(OnednnInt8, AMatrixAndItsTransposeAreTwo) {
  Int8Numbers plain({.batch = 3, .in = 32, .out = 32, .matrices = true});
  std::fill(plain.steps.begin(), plain.steps.end(), 0x1p-6f);
  const std::vector<Tensor> inputs = plain.Inputs();
  std::vector<std::vector<uint8_t>> results;
  for (const bool transposed : {false, true, false}) {
    Kernel kernel(plain.op());
    plain.Configure(kernel);
    kernel.Attr("transpose_b", transposed).From(kKernelPackage).Constant(1);
    const Result result = kernel.Run(inputs, {plain.Output()});
    ASSERT_EQ(result.code, TENON_OK) << result.message;
    results.push_back(Values<uint8_t>(result[0]));
  }
  EXPECT_EQ(results[0], results[2]);
  EXPECT_NE(results[0], results[1]);
}

std::vector<uint8_t> SomeBytes(int64_t count, uint32_t seed) {
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
  return bytes;
}
Tensor Bytes(const std::vector<int64_t>& dims, uint32_t seed) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return cpu::Make<uint8_t>(dims, SomeBytes(count, seed), TENON_DT_QUINT8);
}
// Zeros that are bytes, at an end, and none.
constexpr std::array<std::pair<float, float>, 4> kRanges = {{{-1.f, 2.f}, {0.f, 1.f}, {-3.f, 0.f}, {5.f, 5.5f}}};

template <class Configure>
void ExpectThePlainKernels(const char* op, const Tensor& a, const Tensor& b, const std::vector<int64_t>& out,
                           const Configure& configure) {
  for (const auto& [low_a, high_a] : kRanges) {
    for (const auto& [low_b, high_b] : kRanges) {
      std::vector<Result> results;
      for (const bool onednn : {false, true}) {
        Kernel kernel(op, TENON_DT_QUINT8);
        configure(kernel);
        kernel.Threads(3);
        if (onednn) kernel.From(kKernelPackage);
        results.push_back(
            kernel.Run({a, b, cpu::Scalar(low_a), cpu::Scalar(high_a), cpu::Scalar(low_b), cpu::Scalar(high_b)},
                       {Tensor(TENON_DT_QINT32, out), cpu::Out<float>(), cpu::Out<float>()}));
        ASSERT_EQ(results.back().code, TENON_OK) << results.back().message;
      }
      for (size_t i = 0; i < 3; ++i)
        ASSERT_EQ(results[0][i].bytes, results[1][i].bytes) << op << " " << low_a << " " << low_b << " output " << i;
    }
  }
}

TEST_F(OnednnInt8, QuantizedProductsAreThePlainKernelsToTheLastInteger) {
  for (const auto& [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {7, 33, 20}, {70, 50, 129}, {4, 6, 70000}}) {
    for (int turn = 0; turn < 4; ++turn) {
      const bool ta = turn & 1, tb = turn & 2;
      ExpectThePlainKernels("QuantizedMatMul", Bytes(ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k}, 1),
                            Bytes(tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n}, 2), {m, n},
                            [&](Kernel& kernel) { kernel.Attr("transpose_a", ta).Attr("transpose_b", tb); });
    }
  }
}

TEST_F(OnednnInt8, QuantizedConvolutionsAreThePlainKernelsToTheLastInteger) {
  struct Case {
    std::vector<int64_t> x, filter, out;
    int64_t stride;
    const char* padding;
  };
  for (const Case& which : {Case{{2, 9, 11, 5}, {3, 3, 5, 7}, {2, 9, 11, 7}, 1, "SAME"},
                            {{1, 8, 8, 16}, {1, 1, 16, 33}, {1, 8, 8, 33}, 1, "VALID"},
                            {{1, 8, 9, 4}, {3, 2, 4, 6}, {1, 4, 5, 6}, 2, "SAME"},
                            {{2, 10, 10, 3}, {4, 3, 3, 8}, {2, 4, 4, 8}, 2, "VALID"},
                            {{1, 3, 3, 2}, {5, 5, 2, 3}, {1, 3, 3, 3}, 1, "SAME"}}) {
    ExpectThePlainKernels("QuantizedConv2D", Bytes(which.x, 3), Bytes(which.filter, 4), which.out, [&](Kernel& kernel) {
      kernel.Attr("strides", std::vector<int64_t>{1, which.stride, which.stride, 1})
          .Attr("dilations", std::vector<int64_t>{1, 1, 1, 1})
          .Attr("padding", std::string(which.padding));
    });
  }
}

TEST_F(OnednnInt8, SmallWorkIsLeftToThePlainKernel) {
  use_always = false;
  const Int8Numbers numbers({.batch = 1, .in = 8, .out = 8, .matrices = true});
  Kernel kernel(numbers.op());
  numbers.Configure(kernel);
  EXPECT_EQ(kernel.From(kKernelPackage).Run(numbers.Inputs(), {numbers.Output()}).code, TENON_UNIMPLEMENTED);
}

}  // namespace
}  // namespace tenon::cpu_onednn::int8_test
