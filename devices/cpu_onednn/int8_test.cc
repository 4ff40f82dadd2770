// SPDX-License-Identifier: Apache-2.0
// oneDNN's products of bytes against plain integers: the cases of devices/cpu, larger ones, and what is refused. Covers N6.
#include "testing/int8_case.h"

#include <gtest/gtest.h>

#include <dnnl.hpp>

#include "package.h"
#include "program.h"

namespace tenon::cpu_onednn {
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
    if (dnnl::get_effective_cpu_isa() < dnnl::cpu_isa::avx512_core_vnni) GTEST_SKIP() << "this CPU has no VNNI";
  }
  void TearDown() override { use_always = false; }
};

TEST_F(OnednnInt8, ProductsAreThoseOfIntegers) {
  for (const Int8Case& which : cpu::Int8Cases()) ASSERT_NO_FATAL_FAILURE(cpu::ExpectIntegers(kKernelPackage, which));
  // As in networks: many channels, rows in shares.
  for (Int8Case which : {Int8Case{.batch = 1, .height = 14, .width = 14, .in = 128, .out = 96, .kernel_height = 3, .kernel_width = 3, .input_zero = 0, .bias = true, .activation = "Relu", .output_scale = 0x1p4f},
                         Int8Case{.batch = 1, .height = 28, .width = 28, .in = 3, .out = 32, .kernel_height = 7, .kernel_width = 7, .stride = 2, .input_zero = 120, .norm = true},
                         Int8Case{.batch = 2, .height = 14, .width = 14, .in = 256, .out = 64, .input_zero = 3, .output_zero = 9, .addend_zero = 5, .norm = true, .addend = true, .activation = "Relu"},
                         Int8Case{.batch = 130, .in = 512, .out = 100, .matrices = true, .input_zero = 14, .bias = true, .bytes = false}})
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

TEST_F(OnednnInt8, SmallWorkIsLeftToThePlainKernel) {
  use_always = false;
  const Int8Numbers numbers({.batch = 1, .in = 8, .out = 8, .matrices = true});
  Kernel kernel(numbers.op());
  numbers.Configure(kernel);
  EXPECT_EQ(kernel.From(kKernelPackage).Run(numbers.Inputs(), {numbers.Output()}).code, TENON_UNIMPLEMENTED);
}

}  // namespace
}  // namespace tenon::cpu_onednn
