// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tenon::tensor_test {
namespace {

TEST(ByteSize, IsCheckedAgainstOverflow) {
  EXPECT_EQ(*ByteSize(TENON_DT_FLOAT, {3, 5}), 60);
  EXPECT_EQ(*ByteSize(TENON_DT_STRING, {2}), 32);
  EXPECT_EQ(*ByteSize(TENON_DT_FLOAT, {0, 5}), 0);
  EXPECT_EQ(ByteSize(TENON_DT_FLOAT, {int64_t{1} << 62}).status().ToString(),
            "RESOURCE_EXHAUSTED: a tensor of float[4611686018427387904] needs more memory than any machine has");
  EXPECT_EQ(*ByteSize(TENON_DT_UINT8, {int64_t{1} << 46}), int64_t{1} << 46);
  EXPECT_EQ(ByteSize(TENON_DT_UINT8, {(int64_t{1} << 46) + 1}).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(ByteSize(99, {1}).status().ToString(), "INVALID_ARGUMENT: there is no element type 99");
  EXPECT_EQ(ByteSize(TENON_DT_FLOAT, {-1}).status().ToString(), "INVALID_ARGUMENT: shape [?] is not fully known");
}

TEST(Tensor, SharesItsBufferWhenCopied) {
  const int32_t values[] = {1, 2, 3};
  auto first = Tensor::FromValues<int32_t>(GlobalPool(), TENON_DT_INT32, {3}, values);
  ASSERT_TRUE(first.ok());
  Tensor second = *first;
  EXPECT_EQ(second.data(), first->data());
  EXPECT_FALSE(IsUnique(second.buffer()));
  *first = Tensor();
  EXPECT_TRUE(IsUnique(second.buffer()));
  EXPECT_EQ(second.as<int32_t>()[2], 3);
  EXPECT_EQ(second.byte_size(), 12u);
  EXPECT_FALSE(Tensor().has_value());
}

TEST(Tensor, RefusesShapesThatCannotBe) {
  EXPECT_FALSE(Tensor::Allocate(GlobalPool(), TENON_DT_FLOAT, {-1}).ok());
  EXPECT_FALSE(Tensor::Allocate(GlobalPool(), TENON_DT_FLOAT, Shape::Unknown()).ok());
  EXPECT_FALSE(Tensor::Allocate(GlobalPool(), TENON_DT_FLOAT, {int64_t{1} << 40, int64_t{1} << 40}).ok());
  EXPECT_FALSE(Tensor::Allocate(GlobalPool(), TENON_DT_INVALID, {1}).ok());
}

TEST(Tensor, HoldsStringsWithTheirBytes) {
  const std::string_view texts[] = {"", "a", std::string_view("b\0c", 3)};
  auto tensor = Tensor::Strings(GlobalPool(), {3}, texts);
  ASSERT_TRUE(tensor.ok());
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(tensor->string(i), texts[i]);
  EXPECT_EQ(tensor->byte_size(), 48u);
  EXPECT_EQ(StringBytes(tensor->view()), 4u);
  EXPECT_EQ(StringAt(tensor->view(), 2), texts[2]);
}

TEST(Tensor, TakesAsManyStringsAsItsShapeSays) {
  const std::string_view texts[] = {"a", "b"};
  EXPECT_EQ(Tensor::Strings(GlobalPool(), {3}, texts).status().ToString(),
            "INVALID_ARGUMENT: shape [3] needs 3 strings, got 2");
  EXPECT_EQ(Tensor::Strings(GlobalPool(), {}, texts).status().ToString(),
            "INVALID_ARGUMENT: shape [] needs 1 strings, got 2");
}

TEST(Tensor, CopiesWhatAViewShows) {
  std::vector<float> values(24);
  std::iota(values.begin(), values.end(), 0.0f);
  auto tensor = Tensor::FromValues<float>(GlobalPool(), TENON_DT_FLOAT, {4, 6}, std::span<const float>(values));
  ASSERT_TRUE(tensor.ok());
  auto copy = Tensor::CopyOf(GlobalPool(), tensor->view());
  ASSERT_TRUE(copy.ok());
  EXPECT_NE(copy->data(), tensor->data());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), copy->as<float>()));
  // A transposed part, rows 1 and 2 of the columns 3 to 5, by strides and an offset.
  const int64_t dims[] = {3, 2}, strides[] = {1, 6};
  tenon_tensor_view part = tensor->view();
  part.dl.shape = const_cast<int64_t*>(dims);
  part.dl.strides = const_cast<int64_t*>(strides);
  part.dl.byte_offset = (6 + 3) * sizeof(float);
  part.byte_size = 6 * sizeof(float);
  auto taken = Tensor::CopyOf(GlobalPool(), part);
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(taken->shape(), (Shape{3, 2}));
  const float wanted[] = {9, 15, 10, 16, 11, 17};
  EXPECT_TRUE(std::equal(wanted, wanted + 6, taken->as<float>()));
}

TEST(Tensor, CopiesStringsWithTheirBytes) {
  const std::string_view texts[] = {"one", "", "three"};
  auto tensor = Tensor::Strings(GlobalPool(), {3}, texts);
  ASSERT_TRUE(tensor.ok());
  auto copy = Tensor::CopyOf(GlobalPool(), tensor->view());
  ASSERT_TRUE(copy.ok());
  *tensor = Tensor();
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(copy->string(i), texts[i]);
}

TEST(Tensor, CopiesNothingOfAnEmptyOne) {
  auto tensor = Tensor::Allocate(GlobalPool(), TENON_DT_DOUBLE, {0, 3});
  ASSERT_TRUE(tensor.ok());
  auto copy = Tensor::CopyOf(GlobalPool(), tensor->view());
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(copy->shape(), (Shape{0, 3}));
  EXPECT_EQ(copy->num_elements(), 0);
}

TEST(TensorView, SaysWhatItsMemoryIs) {
  auto tensor = Tensor::Allocate(GlobalPool(), TENON_DT_INT64, {2});
  ASSERT_TRUE(tensor.ok());
  tensor->as<int64_t>()[1] = -7;
  const tenon_tensor_view view = tensor->view();
  EXPECT_EQ(view.flags, TENON_VIEW_HOST_VISIBLE | TENON_VIEW_ALIGNED64);
  EXPECT_EQ(view.byte_size, 16u);
  EXPECT_EQ(view.buffer, tensor->buffer());
  EXPECT_EQ(IntegerAt(view, 1), -7);
  EXPECT_EQ(NumElements(view), 2);
  EXPECT_EQ(ShapeOf(view), (Shape{2}));
  const tenon_tensor_view odd = MakeView(TENON_DT_INT8, {nullptr, 0, 0}, tensor->as<char>() + 1, 1, nullptr);
  EXPECT_EQ(odd.flags, TENON_VIEW_HOST_VISIBLE);
}

}  // namespace
}  // namespace tenon::tensor_test
