// SPDX-License-Identifier: Apache-2.0
// DynamicPartition, DynamicStitch and InvertPermutation of the GPU plugins against the CPU's, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

Tensor RandomParts(const Dimensions& dims, int parts) {
  std::vector<int32_t> values;
  for (float x : Values<float>(RandomFloatsOf(dims, 7, 0, static_cast<float>(parts))))
    values.push_back(static_cast<int32_t>(x));
  return Make<int32_t>(dims, values);
}
DeviceCase PartitionOf(const Tensor& data, const Tensor& parts, int count) {
  return {"DynamicPartition",
          {{"T", Type{data.dtype}}},
          {data, parts},
          std::vector<Tensor>(static_cast<size_t>(count), Tensor{data.dtype, {0}})};
}

TEST(Partitions, AreTheCpus) {
  Bench bench;
  for (const uint32_t dtype : kSizes) {
    for (const int parts : {1, 2, 15, 16, 40}) {
      for (const Dimensions& dims :
           {Dimensions{0}, Dimensions{1}, Dimensions{300}, Dimensions{5000}, Dimensions{40, 7}}) {
        EXPECT_EQ(Same(bench, PartitionOf(Numbered(dtype, dims), RandomParts(dims, parts), parts)), "") << dtype;
        Dimensions rows = dims;
        rows.push_back(3);
        EXPECT_EQ(Same(bench, PartitionOf(Numbered(dtype, rows), RandomParts(dims, parts), parts)), "") << dtype;
      }
    }
    EXPECT_EQ(Same(bench, PartitionOf(Numbered(dtype, {5, 0}), RandomParts({5}, 2), 2)), "");
    EXPECT_EQ(Same(bench, PartitionOf(Numbered(dtype, {2, 8}), Make<int32_t>({}, {1}), 3)), "");
  }
}

TEST(Partitions, OutsideFail) {
  Bench bench;
  std::vector<Tensor> out;
  for (const int32_t bad : {-1, 2}) {
    const std::string text = bench.OnDevice(PartitionOf(Floats({3}, {1, 2, 3}), Ints({0, bad, 1}), 2), &out);
    EXPECT_NE(text.find("partitions[1] = " + std::to_string(bad) + " is not in [0, 2)"), std::string::npos) << text;
  }
  EXPECT_EQ(bench.OnDevice(PartitionOf(Floats({3}, {1, 2, 3}), Ints({0, 1}), 2), &out),
            "INVALID_ARGUMENT: partitions of shape [2] are no prefix of data's shape [3]");
}

DeviceCase Stitch(uint32_t dtype, const std::vector<Tensor>& indices, const Dimensions& tail) {
  DeviceCase given = {"DynamicStitch", {{"T", Type{dtype}}}, indices, {{dtype, {0}}}};
  int first = 1;
  for (const Tensor& each : indices) {
    Dimensions dims = each.dims;
    dims.insert(dims.end(), tail.begin(), tail.end());
    given.inputs.push_back(Numbered(dtype, dims, first++));
  }
  return given;
}

TEST(Stitches, AreTheCpus) {
  Bench bench;
  const std::vector<std::vector<Tensor>> indices = {{Ints({0, 2, 1})},
                                                   {Ints({5}), Ints({1, 5, 0}), Ints({5, 1})},
                                                   {Make<int32_t>({}, {3}), Make<int32_t>({2, 2}, {0, 3, 7, 7})},
                                                   {Ints({}), Ints({})},
                                                   {Ints({}), Ints({0})},
                                                   {RandomParts({3000}, 700), RandomParts({50, 9}, 1000)}};
  for (const uint32_t dtype : kSizes) {
    for (const auto& each : indices) {
      for (const Dimensions& tail : {Dimensions{}, Dimensions{3}, Dimensions{2, 4}, Dimensions{0}})
        EXPECT_EQ(Same(bench, Stitch(dtype, each, tail)), "") << dtype;
    }
  }
}

TEST(Stitches, OfShapesAreTheHosts) {
  Bench bench;
  DeviceCase given = {"DynamicStitch",         {},           {Ints({0, 1, 2}), Ints({1}), Ints({7, 8, 9}), Ints({1})},
                      {{TENON_DT_INT32, {0}}}, {0, 1, 2, 3}, {0}};
  EXPECT_EQ(Compare(bench, given, 0), "");
  given.attributes["T"] = Type{TENON_DT_INT32};
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(given, &out), "");
  EXPECT_EQ(Values<int32_t>(out.at(0)), (std::vector<int32_t>{7, 1, 9}));
}

TEST(Stitches, OfNegativePlacesFail) {
  Bench bench;
  std::vector<Tensor> out;
  const std::string text = bench.OnDevice(Stitch(TENON_DT_FLOAT, {Ints({0, 1}), Ints({2, -3})}, {2}), &out);
  EXPECT_NE(text.find("indices[1][1] = -3 is negative"), std::string::npos) << text;
  DeviceCase uneven = Stitch(TENON_DT_FLOAT, {Ints({0, 1})}, {2});
  uneven.inputs[1] = Floats({3}, {1, 2, 3});
  const std::string want = bench.OnCpu(uneven, &out);
  EXPECT_NE(want, "");
  EXPECT_EQ(bench.OnDevice(uneven, &out), want);
}

template <class T>
DeviceCase Permutation(const std::vector<T>& values) {
  const auto count = static_cast<int64_t>(values.size());
  return {"InvertPermutation", {}, {Make<T>({count}, values)}, {{sdk::DtypeOf<T>::value, {count}}}};
}

TEST(Permutations, AreInvertedAsTheCpuDoes) {
  Bench bench;
  for (const int64_t count : {0, 1, 5, 3001}) {
    std::vector<int32_t> narrow;
    std::vector<int64_t> wide;
    for (int64_t i = 0; i < count; ++i)
      narrow.push_back(static_cast<int32_t>(i * 7 % count)), wide.push_back(i * 7 % count);
    DeviceCase on_host = Permutation(narrow);
    on_host.host = on_host.host_outputs = {0};
    EXPECT_EQ(Compare(bench, on_host, 0), "") << count;
    EXPECT_EQ(Same(bench, Permutation(wide)), "") << count;
  }
  std::vector<Tensor> out;
  EXPECT_NE(bench.OnDevice(Permutation<int64_t>({0, 3, 1}), &out).find("3 is not between 0 and 3"), std::string::npos);
  EXPECT_NE(bench.OnDevice(Permutation<int64_t>({0, -1, 1}), &out).find("-1 is not between 0 and 3"),
            std::string::npos);
  EXPECT_NE(bench.OnDevice(Permutation<int64_t>({2, 0, 2}), &out).find("2 is duplicated in the input."),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::device_test
