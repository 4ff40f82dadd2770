// SPDX-License-Identifier: Apache-2.0
// SparseToDense, SparseReshape, SparseFillEmptyRows, Bincount and DenseBincount of the GPU plugins against the CPU's,
// on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

Tensor Longs(Dimensions dims, const std::vector<int64_t>& values) { return Make<int64_t>(std::move(dims), values); }

// ---- Sparse tensors ----

DeviceCase ToDense(uint32_t dtype, const Tensor& indices, const std::vector<int64_t>& shape, const Dimensions& values,
                   bool validate) {
  const auto rank = static_cast<int64_t>(shape.size());
  const Tensor dims = indices.dtype == TENON_DT_INT64
                          ? Longs({rank}, shape)
                          : Make<int32_t>({rank}, std::vector<int32_t>(shape.begin(), shape.end()));
  return {"SparseToDense", {{"T", Type{dtype}}, {"Tindices", Type{indices.dtype}}, {"validate_indices", validate}},
          {indices, dims, Numbered(dtype, values), Numbered(dtype, {}, 90)}, {{dtype, shape}}, {1}};
}

TEST(SparseTensors, BecomeDenseAsOnTheCpu) {
  Bench bench;
  std::vector<int64_t> many, unsorted;
  for (int64_t i = 0; i < 3000; ++i) many.push_back(2 * i), unsorted.push_back(i * 7 % 500);
  for (const uint32_t dtype : kSizes) {
    EXPECT_EQ(Same(bench, ToDense(dtype, Ints({1, 3, 4}), {6}, {3}, true)), "") << dtype;
    EXPECT_EQ(Same(bench, ToDense(dtype, Int(2), {5}, {}, true)), "") << dtype;
    EXPECT_EQ(Same(bench, ToDense(dtype, Longs({3, 2}, {0, 1, 2, 0, 2, 3}), {3, 4}, {3}, true)), "") << dtype;
    EXPECT_EQ(Same(bench, ToDense(dtype, Longs({3, 2}, {2, 3, 0, 1, 2, 3}), {3, 4}, {3}, false)), "") << dtype;
    EXPECT_EQ(Same(bench, ToDense(dtype, Longs({0, 2}, {}), {3, 4}, {0}, true)), "") << dtype;
    EXPECT_EQ(Same(bench, ToDense(dtype, Longs({3000}, many), {6000}, {}, true)), "") << dtype;
    EXPECT_EQ(Same(bench, ToDense(dtype, Longs({3000}, unsorted), {500}, {3000}, false)), "") << dtype;
  }
  std::vector<Tensor> out;
  const auto fails = [&](const Tensor& indices, bool validate) {
    return bench.OnDevice(ToDense(TENON_DT_FLOAT, indices, {3, 4}, {}, validate), &out);
  };
  EXPECT_NE(fails(Longs({2, 2}, {0, 1, 1, 4}), false).find("indices[1] is out of bounds: 4 is not in [0, 4)"),
            std::string::npos);
  EXPECT_NE(fails(Longs({2, 2}, {1, 1, 0, 2}), true)
                .find("indices[1] is out of order. Many sparse ops require sorted indices."),
            std::string::npos);
  EXPECT_NE(fails(Longs({2, 2}, {1, 1, 1, 1}), true).find("indices[1] is repeated."), std::string::npos);
  EXPECT_EQ(fails(Longs({2, 2}, {1, 1, 1, 1}), false), "");
}

TEST(SparseTensors, AreReshapedAsOnTheCpu) {
  Bench bench;
  std::vector<Tensor> out;
  const auto reshape = [](const Tensor& indices, const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
    const auto rank = static_cast<int64_t>(from.size()), new_rank = static_cast<int64_t>(to.size());
    return DeviceCase{"SparseReshape", {}, {indices, Longs({rank}, from), Longs({new_rank}, to)},
                {{TENON_DT_INT64, {indices.dims[0], new_rank}}, {TENON_DT_INT64, {new_rank}}}, {1, 2}, {1}};
  };
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 1000; ++i) many.insert(many.end(), {i, i % 6});
  EXPECT_EQ(Compare(bench, reshape(Longs({3, 2}, {0, 1, 1, 0, 2, 5}), {3, 6}, {2, 9}), 0), "");
  EXPECT_EQ(Compare(bench, reshape(Longs({3, 2}, {0, 1, 1, 0, 2, 5}), {3, 6}, {-1, 3, 2}), 0), "");
  EXPECT_EQ(Compare(bench, reshape(Longs({1000, 2}, many), {1000, 6}, {6000}), 0), "");
  EXPECT_EQ(Compare(bench, reshape(Longs({1, 3}, {int64_t{1} << 30, 5, 7}), {int64_t{1} << 31, 8, 9}, {9, -1}), 0), "");
  EXPECT_EQ(Compare(bench, reshape(Longs({0, 2}, {}), {0, 6}, {0, 3}), 0), "");
  EXPECT_NE(bench.OnDevice(reshape(Longs({2, 2}, {0, 1, 3, 0}), {3, 6}, {18}), &out)
                .find("input_indices[1] has 3, which is not in [0, 3)"),
            std::string::npos);
  const DeviceCase uneven = reshape(Longs({1, 2}, {0, 1}), {3, 6}, {4, 5});
  const std::string want = bench.OnCpu(uneven, &out);
  EXPECT_NE(want, "");
  EXPECT_EQ(bench.OnDevice(uneven, &out), want);
}

TEST(SparseTensors, HaveTheirEmptyRowsFilledAsOnTheCpu) {
  Bench bench;
  std::vector<Tensor> out;
  const auto fill = [](uint32_t dtype, const Tensor& indices, int64_t rows) {
    return DeviceCase{"SparseFillEmptyRows",
                      {{"T", Type{dtype}}},
                      {indices, Numbered(dtype, {indices.dims[0]}), Longs({2}, {rows, 9}), Numbered(dtype, {}, 77)},
                      {{TENON_DT_INT64, {0, 2}}, {dtype, {0}}, {TENON_DT_BOOL, {0}}, {TENON_DT_INT64, {0}}},
                      {2}};
  };
  std::vector<int64_t> many;
  for (int64_t i = 0; i < 3000; ++i) many.insert(many.end(), {i * 7 % 5000, i % 9});
  for (const uint32_t dtype : kSizes) {
    EXPECT_EQ(Same(bench, fill(dtype, Longs({4, 2}, {3, 1, 1, 0, 3, 0, 1, 8}), 6)), "") << dtype;
    EXPECT_EQ(Same(bench, fill(dtype, Longs({1, 2}, {0, 5}), 1)), "") << dtype;
    EXPECT_EQ(Same(bench, fill(dtype, Longs({0, 2}, {}), 3)), "") << dtype;
    EXPECT_EQ(Same(bench, fill(dtype, Longs({0, 2}, {}), 0)), "") << dtype;
    EXPECT_EQ(Same(bench, fill(dtype, Longs({3000, 2}, many), 5000)), "") << dtype;
  }
  EXPECT_NE(bench.OnDevice(fill(TENON_DT_FLOAT, Longs({2, 2}, {0, 1, 4, 0}), 4), &out)
                .find("indices(1, 0) is invalid: 4 is not in [0, 4)"),
            std::string::npos);
  const DeviceCase none = fill(TENON_DT_FLOAT, Longs({1, 2}, {0, 1}), 0);
  const std::string want = bench.OnCpu(none, &out);
  EXPECT_NE(want, "");
  EXPECT_EQ(bench.OnDevice(none, &out), want);
}

// ---- Bins ----

TEST(Bins, AreCountedAsOnTheCpu) {
  Bench bench;
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_INT32, TENON_DT_INT64}) {
    for (const Dimensions& dims :
         {Dimensions{0}, Dimensions{1}, Dimensions{5000}, Dimensions{40, 9}, Dimensions{0, 3}}) {
      std::vector<int32_t> values;
      std::vector<float> whole;
      for (float x : Values<float>(RandomFloatsOf(dims, 3, 0, 60)))
        values.push_back(static_cast<int32_t>(x)), whole.push_back(std::floor(x) - 20);
      const Tensor x = Make<int32_t>(dims, values), weights = ValuesOf(dtype, Floats(dims, whole)), none = {dtype, {0}};
      for (const int32_t bins : {0, 7, 60, 3000}) {
        for (const bool weighted : {false, true}) {
          EXPECT_EQ(
              Compare(
                  bench,
                  {"Bincount", {{"T", Type{dtype}}}, {x, Int(bins), weighted ? weights : none}, {{dtype, {bins}}}, {1}},
                  0),
              "")
              << dtype;
          for (const bool binary : {false, true}) {
            const Dimensions out = dims.size() == 2 ? Dimensions{dims[0], bins} : Dimensions{bins};
            const Attributes attributes = {
                {"T", Type{dtype}}, {"Tidx", Type{TENON_DT_INT32}}, {"binary_output", binary}};
            EXPECT_EQ(
                Compare(bench,
                        {"DenseBincount", attributes, {x, Int(bins), weighted ? weights : none}, {{dtype, out}}, {1}},
                        0),
                "")
                << dtype;
          }
        }
      }
    }
  }
  std::vector<Tensor> out;
  for (const int32_t bins : {3, 3000}) {
    EXPECT_NE(bench
                  .OnDevice({"Bincount",
                             {{"T", Type{TENON_DT_FLOAT}}},
                             {Ints({0, 2, -4}), Int(bins), Floats({0}, {})},
                             {{TENON_DT_FLOAT, {bins}}},
                             {1}},
                            &out)
                  .find("Input arr must be non-negative! arr[2] is -4"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace tenon::device_test
