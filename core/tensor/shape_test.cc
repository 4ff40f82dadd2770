// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/shape.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon::shape_test {
namespace {

TEST(Shape, IsAScalarAtFirst) {
  const Shape shape;
  EXPECT_EQ(shape.rank(), 0);
  EXPECT_TRUE(shape.fully_known());
  EXPECT_EQ(shape.ToString(), "[]");
  EXPECT_EQ(*shape.num_elements(), 1);
}

TEST(Shape, ShowsWhatIsUnknown) {
  EXPECT_EQ(Shape::Unknown().ToString(), "?");
  EXPECT_EQ(Shape::Unknown().rank(), -1);
  EXPECT_FALSE(Shape::Unknown().fully_known());
  EXPECT_EQ((Shape{2, -1, 3}).ToString(), "[2,?,3]");
  EXPECT_FALSE((Shape{2, -1, 3}).fully_known());
}

TEST(Shape, CrossesToTheAbiAndBack) {
  const Shape shape{4, -1, 0};
  EXPECT_EQ(Shape(shape.c()), shape);
  EXPECT_EQ(Shape(Shape::Unknown().c()), Shape::Unknown());
  EXPECT_EQ(Shape(Shape().c()), Shape());
  EXPECT_FALSE(Shape() == Shape::Unknown());
}

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(*(Shape{2, 3, 5}).num_elements(), 30);
  EXPECT_EQ(*(Shape{2, 0, 5}).num_elements(), 0);
  EXPECT_EQ((Shape{2, -1}).num_elements().status().ToString(), "INVALID_ARGUMENT: shape [2,?] is not fully known");
  EXPECT_EQ(Shape::Unknown().num_elements().status().ToString(),
            "INVALID_ARGUMENT: a shape of unknown rank has no number of elements");
}

TEST(Shape, SaysWhenItsElementsCannotBeCounted) {
  const int64_t big = int64_t{1} << 32;
  EXPECT_EQ(*(Shape{big, big / 4}).num_elements(), int64_t{1} << 62);
  EXPECT_EQ((Shape{big, big}).num_elements().status().ToString(),
            "INVALID_ARGUMENT: shape [4294967296,4294967296] has more elements than fit in 63 bits");
  // The other dims are allocated and looped over, so a zero does not make them fit.
  EXPECT_FALSE((Shape{big, big, 0}).num_elements().ok());
  EXPECT_FALSE((Shape{big, big, 0}).Validate().ok());
}

TEST(Shape, ValidatesItsRankAndItsDims) {
  EXPECT_TRUE(Shape::Unknown().Validate().ok());
  EXPECT_TRUE((Shape{-1, 7}).Validate().ok());
  EXPECT_TRUE(Shape(std::vector<int64_t>(254, 1)).Validate().ok());
  EXPECT_EQ(Shape(std::vector<int64_t>(255, 1)).Validate().ToString(),
            "INVALID_ARGUMENT: a shape has rank 255; at most 254 is allowed");
  EXPECT_EQ((Shape{3, -2}).Validate().ToString(), "INVALID_ARGUMENT: shape [3,?] has the negative dim -2");
  EXPECT_FALSE((Shape{std::numeric_limits<int64_t>::min()}).Validate().ok());
}

TEST(Shape, FitsAnotherWhereNothingKnownDiffers) {
  EXPECT_TRUE((Shape{2, -1}).CompatibleWith({2, 3}));
  EXPECT_TRUE((Shape{2, 3}).CompatibleWith({-1, 3}));
  EXPECT_TRUE(Shape::Unknown().CompatibleWith({1, 2, 3}));
  EXPECT_TRUE((Shape{1, 2, 3}).CompatibleWith(Shape::Unknown()));
  EXPECT_FALSE((Shape{2, -1}).CompatibleWith({3, 3}));
  EXPECT_FALSE((Shape{2}).CompatibleWith({2, 1}));
  EXPECT_FALSE(Shape().CompatibleWith({1}));
}

}  // namespace
}  // namespace tenon::shape_test
