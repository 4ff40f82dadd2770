// SPDX-License-Identifier: Apache-2.0
// How far two runs may be apart. Covers R11.
#include "sdk/app/cli/compare/deviation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tenon::cli::deviation_test {
namespace {

using host::Shape;
using host::Tensor;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();

Tensor Floats(std::vector<float> values) { return *Tensor::From(values, Shape{static_cast<int64_t>(values.size())}); }

TEST(Deviation, IsTheLargestDifferenceOverTheLargestElement) {
  const Deviation deviation = Compare(Floats({1, -4, 0}), Floats({1, -4.5, 0.25}));
  EXPECT_TRUE(deviation.misfit.empty());
  EXPECT_TRUE(deviation.rounds);
  EXPECT_EQ(deviation.relative, 0.125);
  EXPECT_EQ(deviation.magnitude, 4);
  EXPECT_EQ(deviation.different, 2);
  EXPECT_EQ(deviation.worst, 1);
  EXPECT_EQ(Compare(Floats({1, 2}), Floats({1, 2})).relative, 0);
  EXPECT_EQ(Compare(Floats({}), Floats({})).worst, -1);
}

TEST(Deviation, ANumberIsNoneInBothOrTheRunsPart) {
  EXPECT_EQ(Compare(Floats({kNaN, kInfinity, 2}), Floats({kNaN, kInfinity, 2})).relative, 0);
  EXPECT_EQ(Compare(Floats({kNaN, 1}), Floats({0, 1})).relative, kInfinity);
  EXPECT_EQ(Compare(Floats({kInfinity, 1}), Floats({-kInfinity, 1})).relative, kInfinity);
  EXPECT_EQ(Compare(Floats({0, 0}), Floats({0, 1e-30f})).relative, kInfinity)
      << "nothing is known of how large it should be";
}

TEST(Deviation, WhatDoesNotRoundIsEqualOrNot) {
  const Deviation numbers = Compare(*Tensor::From(std::vector<int32_t>{1, 2, 3}, Shape{3}),
                                    *Tensor::From(std::vector<int32_t>{1, 5, 4}, Shape{3}));
  EXPECT_FALSE(numbers.rounds);
  EXPECT_EQ(numbers.different, 2);
  EXPECT_EQ(numbers.worst, 1);
  EXPECT_EQ(Compare(*Tensor::Strings({"a", "b"}), *Tensor::Strings({"a", "bb"})).different, 1);
}

TEST(Deviation, AnotherTypeOrShapeIsNamed) {
  EXPECT_EQ(Compare(Floats({1, 2}), Floats({1})).misfit, "float32[1] instead of float32[2]");
  EXPECT_EQ(Compare(Floats({1}), *Tensor::From(std::vector<double>{1}, Shape{1})).misfit,
            "float64[1] instead of float32[1]");
}

Deviation Of(double relative, double magnitude, int64_t elements) {
  Deviation out;
  out.rounds = true;
  out.relative = relative;
  out.magnitude = magnitude;
  out.elements = elements;
  out.unit = 1.0 / (1 << 24);
  return out;
}

TEST(Deviation, WhatIsPredictedGrowsWithTheInputsAndWithTheirNumber) {
  const Deviation output = Of(0, 1, 4), exact = Of(0, 1, 4), many = Of(0, 1, 400), bad = Of(0.01, 1, 4),
                  large = Of(0.001, 100, 4);
  const double unit = output.unit;
  EXPECT_DOUBLE_EQ(PredictedDeviation(output, {&exact}, 0, 1), unit);
  EXPECT_DOUBLE_EQ(PredictedDeviation(output, {&many}, 0, 2), 2 * unit * 10) << "a sum of a hundred elements";
  EXPECT_DOUBLE_EQ(PredictedDeviation(output, {&bad, &exact}, 0, 1), 0.01 + unit * std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(PredictedDeviation(output, {&large}, 0, 1), 0.1 + 100 * unit) << "what cancels leaves the error";
  EXPECT_DOUBLE_EQ(PredictedDeviation(output, {&exact}, 0.001, 1), 0.001) << "the policy allows it";
  EXPECT_DOUBLE_EQ(PredictedDeviation(output, {&large}, 0, 1000), 1) << "nothing is predicted any more";
}

}  // namespace
}  // namespace tenon::cli::deviation_test
