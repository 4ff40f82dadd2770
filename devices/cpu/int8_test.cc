// SPDX-License-Identifier: Apache-2.0
// Numbers as bytes and back, and products of bytes against plain integers. Covers N6.
#include <gtest/gtest.h>

#include <cmath>

#include "testing/int8_case.h"

namespace tenon::cpu::int8_test {
namespace {

Result Quantized(const std::vector<float>& values, float scale, int64_t zero, uint32_t threads = 1) {
  Kernel kernel("Tenon>Int8Quantize");
  kernel.Attr("scale", scale).Attr("zero", zero).Threads(threads);
  return kernel.Run({Vector<float>(values)}, {Tensor(TENON_DT_UINT8, {static_cast<int64_t>(values.size())})});
}

TEST(Int8, NumbersGoToTheNearestByteAndBack) {
  const Result bytes = Quantized({0, 0.24f, 0.25f, 0.75f, 1.25f, -1, -100, 1e30f, -1e30f, 127.5f}, 0.5f, 4);
  ASSERT_EQ(bytes.code, TENON_OK) << bytes.message;
  EXPECT_EQ(Values<uint8_t>(bytes[0]),
            (std::vector<uint8_t>{4, 4, 4, 6, 6, 2, 0, 255, 0, 255}));  // halves go to the even one
  Kernel kernel("Tenon>Int8Dequantize");
  kernel.Attr("scale", 0.5f).Attr("zero", int64_t{4});
  const Result back = kernel.Run({bytes[0]}, {Out<float>({10})});
  ASSERT_EQ(back.code, TENON_OK) << back.message;
  EXPECT_EQ(Values<float>(back[0]), (std::vector<float>{0, 0, 0, 1, 1, -1, -2, 125.5f, -2, 125.5f}));
}

TEST(Int8, EveryByteComesBack) {
  std::vector<float> values;
  for (int i = 0; i < 100'000; ++i) values.push_back(static_cast<float>(i % 256 - 100) * 0.3f);
  const Result bytes = Quantized(values, 0.3f, 100, 5);
  ASSERT_EQ(bytes.code, TENON_OK) << bytes.message;
  const auto got = Values<uint8_t>(bytes[0]);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i % 256);
}

TEST(Int8, WhatIsNoNumberIsNamed) {
  for (const float wrong : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    std::vector<float> values(9000, 1);
    values[8191] = wrong;
    const Result refused = Quantized(values, 1, 0);
    EXPECT_EQ(refused.code, TENON_INVALID_ARGUMENT);
    EXPECT_NE(refused.message.find("element 8191 is "), std::string::npos) << refused.message;
  }
  Int8Numbers numbers({.batch = 2, .in = 3, .out = 4, .matrices = true, .bias = true});
  for (const int wrong : {1, 2}) {
    Kernel kernel(numbers.op());
    numbers.Configure(kernel);
    std::vector<Tensor> inputs = numbers.Inputs();
    std::vector<float> values = Values<float>(inputs[static_cast<size_t>(wrong)]);
    values[2] = std::nanf("");
    inputs[static_cast<size_t>(wrong)] = Make<float>(inputs[static_cast<size_t>(wrong)].dims, values);
    const Result refused = kernel.Run(inputs, {numbers.Output()});
    EXPECT_EQ(refused.code, TENON_INVALID_ARGUMENT);
    EXPECT_NE(refused.message.find("channel 2"), std::string::npos) << refused.message;
  }
}

TEST(Int8, WrongAttributesAreRefused) {
  EXPECT_EQ(Quantized({1}, 0, 0).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Quantized({1}, std::nanf(""), 0).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Quantized({1}, 1, 256).code, TENON_INVALID_ARGUMENT);
  const Int8Numbers numbers({.batch = 2, .in = 3, .out = 4, .matrices = true, .bias = true});
  const auto refused = [&](const char* attr, testing::Attribute value) {
    Kernel kernel(numbers.op());
    numbers.Configure(kernel);
    kernel.Attr(attr, std::move(value));
    return kernel.Run(numbers.Inputs(), {numbers.Output()}).code;
  };
  EXPECT_EQ(refused("steps", std::vector<std::string>{"norm"}), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(refused("M", int64_t{3}), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(refused("input_zero", int64_t{-1}), TENON_INVALID_ARGUMENT);
  EXPECT_EQ(refused("output_scale", HUGE_VALF), TENON_INVALID_ARGUMENT);
}

TEST(Int8, ProductsAreThoseOfIntegers) {
  for (const Int8Case& which : Int8Cases()) ASSERT_NO_FATAL_FAILURE(ExpectIntegers(kKernelPackage, which));
}

TEST(Int8, ChannelsWithoutWeightsAreTheirBias) {
  Int8Numbers numbers({.batch = 1, .in = 4, .out = 2, .matrices = true, .bias = true, .bytes = false});
  std::fill(numbers.weights.begin(), numbers.weights.end(), 0);
  Kernel kernel(numbers.op());
  numbers.Configure(kernel);
  const Result result = kernel.Run(numbers.Inputs(), {numbers.Output()});
  ASSERT_EQ(result.code, TENON_OK) << result.message;
  EXPECT_EQ(Values<float>(result[0]), numbers.bias);
}

}  // namespace
}  // namespace tenon::cpu::int8_test
