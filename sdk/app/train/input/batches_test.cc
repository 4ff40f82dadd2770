// SPDX-License-Identifier: Apache-2.0
// Batches: every example once a pass, in an order of the seed and the pass alone; rows of arrays of any type; arrays
// that do not fit each other.
#include "tenon/train/batches.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tenon::train::batches_test {
namespace {

Tensor Numbers(int64_t rows, int64_t columns, int32_t first = 0) {
  std::vector<int32_t> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<int32_t>(i);
  return *Tensor::From(values, {rows, columns});
}
std::vector<int32_t> ValuesOf(const View& view) {
  const tenon_tensor_view raw = view.c_view();
  const auto* const begin =
      reinterpret_cast<const int32_t*>(static_cast<const char*>(raw.dl.data) + raw.dl.byte_offset);
  return {begin, begin + raw.byte_size / sizeof(int32_t)};
}

TEST(BatchSampler, EachKindOfLastBatch) {
  BatchSampler filled(10, 4, 1), smaller(10, 4, 1, LastBatch::kSmaller), dropped(10, 4, 1, LastBatch::kDropped);
  EXPECT_EQ(filled.StepsInPass(), 3);
  EXPECT_EQ(smaller.StepsInPass(), 3);
  EXPECT_EQ(dropped.StepsInPass(), 2);
  EXPECT_EQ(filled.Indices(2).size(), 4u);
  EXPECT_EQ(smaller.Indices(2).size(), 2u);
  EXPECT_EQ(dropped.Indices(2).size(), 4u) << "of the second pass";
  EXPECT_EQ(BatchSampler(3, 4, 1, LastBatch::kDropped).StepsInPass(), 0);
  EXPECT_TRUE(BatchSampler(3, 4, 1, LastBatch::kDropped).Indices(5).empty());
  for (int64_t pass = 0; pass < 3; ++pass) {
    std::vector<int64_t> seen;
    for (int64_t step = 0; step < 3; ++step) {
      const std::vector<int64_t> indices = smaller.Indices(pass * 3 + step);
      seen.insert(seen.end(), indices.begin(), indices.end());
    }
    EXPECT_NE(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})) << "it is mixed";
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  }
  EXPECT_NE(smaller.Indices(0), smaller.Indices(3)) << "each pass has an order of its own";
}

TEST(BatchSampler, WithoutASeedTheOrderStays) {
  BatchSampler sampler(5, 2, std::nullopt, LastBatch::kSmaller);
  for (const int64_t step : {7, 1, 4}) EXPECT_EQ(sampler.Indices(step), (std::vector<int64_t>{2, 3})) << step;
  EXPECT_EQ(sampler.Indices(2), (std::vector<int64_t>{4}));
}

TEST(RowGatherer, TakesRowsThatFollowEachOtherAndOthers) {
  RowGatherer rows(Numbers(4, 2));
  const auto adjacent = rows.Take(std::vector<int64_t>{1, 2});
  ASSERT_TRUE(adjacent.ok()) << adjacent.status();
  EXPECT_EQ(adjacent->shape(), (Shape{2, 2}));
  EXPECT_EQ(ValuesOf(*adjacent), (std::vector<int32_t>{2, 3, 4, 5}));
  const auto mixed = rows.Take(std::vector<int64_t>{3, 0, 3});
  ASSERT_TRUE(mixed.ok()) << mixed.status();
  EXPECT_EQ(mixed->shape(), (Shape{3, 2}));
  EXPECT_EQ(ValuesOf(*mixed), (std::vector<int32_t>{6, 7, 0, 1, 6, 7}));
  RowGatherer texts(*Tensor::Strings(std::vector<std::string>{"a", "b", "c", "d"}, Shape{2, 2}));
  const auto second = texts.Take(std::vector<int64_t>{1});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->shape(), (Shape{1, 2}));
  EXPECT_EQ(host::DTypeName(second->dtype()), "string");
  RowGatherer empty(*Tensor::Zeros(DType::kFloat, Shape{3, 0}));
  const auto nothing = empty.Take(std::vector<int64_t>{2, 0});
  ASSERT_TRUE(nothing.ok()) << nothing.status();
  EXPECT_EQ(nothing->shape(), (Shape{2, 0}));
}

TEST(ArrayBatches, GiveTheSameRowsOfAllArrays) {
  auto batches = ArrayBatches::Create({{"'a'", Numbers(7, 2)}, {"'b'", Numbers(7, 1)}}, 3, 5, LastBatch::kSmaller);
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->StepsInPass(), 3);
  for (const int64_t step : {4, 0, 8, 2}) {
    const auto views = batches->At(step);
    ASSERT_TRUE(views.ok()) << views.status();
    const std::vector<int32_t> a = ValuesOf((*views)[0]), b = ValuesOf((*views)[1]);
    ASSERT_EQ(a.size(), 2 * b.size());
    for (size_t i = 0; i < b.size(); ++i) EXPECT_EQ(a[2 * i], 2 * b[i]) << step;
  }
}

TEST(ArrayBatches, RefuseWhatDoesNotFit) {
  const auto says = [](std::vector<NamedRows> arrays, int64_t batch, LastBatch last) {
    return ArrayBatches::Create(std::move(arrays), batch, std::nullopt, last).status().message();
  };
  EXPECT_NE(says({}, 1, LastBatch::kSmaller).find("no array"), std::string::npos);
  EXPECT_NE(
      says({{"'a'", Numbers(7, 2)}, {"'b'", Numbers(6, 2)}}, 1, LastBatch::kSmaller).find("'b' has 6 rows, 'a' has 7"),
      std::string::npos);
  EXPECT_NE(says({{"'a'", Numbers(0, 2)}}, 1, LastBatch::kSmaller).find("'a' has no rows"), std::string::npos);
  EXPECT_NE(says({{"'a'", *Tensor::Scalar(1.0f)}}, 1, LastBatch::kSmaller).find("'a' is a single value"),
            std::string::npos);
  EXPECT_NE(says({{"'a'", Numbers(7, 2)}}, 0, LastBatch::kSmaller).find("a batch of 0"), std::string::npos);
  EXPECT_NE(says({{"'a'", Numbers(7, 2)}}, 8, LastBatch::kDropped).find("no whole batch of 8"), std::string::npos);
}

}  // namespace
}  // namespace tenon::train::batches_test
