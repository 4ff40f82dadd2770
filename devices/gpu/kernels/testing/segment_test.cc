// SPDX-License-Identifier: Apache-2.0
// Sums by segment, their gradients and sparse products of the GPU plugins against the CPU's, on the emulated grid.
#include <limits>

#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

template <class Index>
Tensor IndicesOf(const std::vector<int>& values) {
  return Make<Index>({static_cast<int64_t>(values.size())}, std::vector<Index>(values.begin(), values.end()));
}
Tensor IndicesOf(uint32_t dtype, const std::vector<int>& values) {
  return dtype == TENON_DT_INT64 ? IndicesOf<int64_t>(values) : IndicesOf<int32_t>(values);
}
std::vector<int> RandomBelow(int64_t count, int limit, uint32_t seed) {
  std::vector<int> out;
  for (float x : Values<float>(RandomFloatsOf({count}, seed, 0, static_cast<float>(limit))))
    out.push_back(std::min(limit - 1, static_cast<int>(x)));
  return out;
}
std::vector<int> Sorted(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return values;
}
// Small whole numbers, whose sums are exact.
Tensor Whole(uint32_t dtype, const Dimensions& dims, uint32_t seed = 3) {
  std::vector<float> values;
  for (float x : Values<float>(RandomFloatsOf(dims, seed, -4, 4))) values.push_back(std::floor(x));
  return ValuesOf(dtype, Floats(dims, values));
}
// Of results that are divided.
double Close(uint32_t dtype) { return ToleranceOf(dtype, dtype == TENON_DT_DOUBLE ? 1e-13 : 3e-6); }

// Ids that stay with one segment, that begin late, that leave some out, that cross chunks and levels.
std::vector<std::vector<int>> ManyIds() {
  return {{},       {0},           {4},
          {0, 0, 3, 3, 3, 9},      std::vector<int>(5000, 0),
          std::vector<int>(70, 2), Sorted(RandomBelow(3000, 7, 1)),
          Sorted(RandomBelow(3000, 4000, 2)), Sorted(RandomBelow(33, 5, 4))};
}

TEST(SortedSegments, AreSummedAsTheCpuDoes) {
  Bench bench;
  for (const uint32_t dtype : kNumberTypes) {
    for (const uint32_t index : {TENON_DT_INT32, TENON_DT_INT64}) {
      for (const std::vector<int>& ids : ManyIds()) {
        for (const Dimensions& tail : {Dimensions{}, Dimensions{3}, Dimensions{2, 17}, Dimensions{0}}) {
          if (ids.size() > 1000 && tail.size() == 2) continue;
          Dimensions dims = {static_cast<int64_t>(ids.size())};
          dims.insert(dims.end(), tail.begin(), tail.end());
          const bool half = dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
          // The CPU rounds halves after each addition: only few are exact.
          if (half && ids.size() > 100 && ids[ids.size() - 1] < 100) continue;
          const DeviceCase given = {"SegmentSum",
                                    {{"T", Type{dtype}}, {"Tindices", Type{index}}},
                                    {Whole(dtype, dims), IndicesOf(index, ids)},
                                    {{dtype, {0}}}};
          EXPECT_EQ(Compare(bench, given, 0), "") << ids.size() << " rows of dtype " << dtype;
          if (dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64) continue;
          DeviceCase mean = given;
          mean.op = "SegmentMean";
          EXPECT_EQ(Compare(bench, mean, Close(dtype)), "") << ids.size() << " rows of dtype " << dtype;
        }
      }
    }
  }
}

TEST(SparseSegments, OfANumberThatIsGivenAreTheCpus) {
  Bench bench;
  std::vector<Tensor> out;
  for (const uint32_t dtype : kFloatTypes) {
    for (const char* op :
         {"SparseSegmentSumWithNumSegments", "SparseSegmentMeanWithNumSegments", "SparseSegmentSqrtNWithNumSegments"}) {
      const Attributes types = {{"T", Type{dtype}},
                                {"Tidx", Type{TENON_DT_INT32}},
                                {"Tsegmentids", Type{TENON_DT_INT32}},
                                {"Tnumsegments", Type{TENON_DT_INT32}}};
      DeviceCase given = {
          op, types, {Whole(dtype, {5, 7}), Ints({4, 0, 4, 1, 2}), Ints({0, 0, 2, 2, 3}), Int(6)}, {{dtype, {0}}}, {3}};
      EXPECT_EQ(Compare(bench, given, Close(dtype)), "") << op << dtype;
      given.inputs[3] = Int(3);
      EXPECT_EQ(bench.OnDevice(given, &out), "INVALID_ARGUMENT: segment_ids has 3, which is not below num_segments, 3");
      given.inputs[3] = Int(-1);
      EXPECT_EQ(bench.OnDevice(given, &out), "INVALID_ARGUMENT: num_segments is -1; it must not be negative");
      given = {op, types, {Whole(dtype, {5, 7}), Ints({}), Ints({}), Int(2)}, {{dtype, {0}}}, {3}};
      EXPECT_EQ(Compare(bench, given, 0), "") << op << dtype;
    }
  }
}

TEST(SortedSegments, SayWhatIsWrongWithTheirIds) {
  Bench bench;
  std::vector<Tensor> out;
  const auto fails = [&](const Tensor& ids) {
    return bench.OnDevice(
        {"SegmentSum", {{"Tindices", Type{ids.dtype}}}, {Floats({3}, {1, 2, 3}), ids}, {{TENON_DT_FLOAT, {0}}}}, &out);
  };
  EXPECT_NE(fails(Ints({0, 2, 1})).find("segment ids are not increasing, or negative, at 2"), std::string::npos);
  EXPECT_NE(fails(Ints({-1, 2, 3})).find("segment ids are not increasing, or negative, at 0"), std::string::npos);
  EXPECT_NE(fails(Make<int64_t>({3}, {0, 1, std::numeric_limits<int64_t>::max()}))
                .find("segment_ids[2] = 9223372036854775807 leaves no number"),
            std::string::npos);
  EXPECT_EQ(fails(Ints({0, 1})), "INVALID_ARGUMENT: segment_ids of shape [2] are no prefix of data's shape [3]");
  EXPECT_EQ(fails(Ints({0, 1, 1})), "");
}

constexpr const char* kSums[] = {"SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"};
Attributes TypesOf(uint32_t dtype, uint32_t index, uint32_t ids) {
  return {{"T", Type{dtype}}, {"Tidx", Type{index}}, {"Tsegmentids", Type{ids}}};
}

TEST(SparseSegments, AreSummedAsTheCpuDoes) {
  Bench bench;
  for (const uint32_t dtype : kNumberTypes) {
    const bool whole = dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64;
    for (const char* op : kSums) {
      if (whole && op != kSums[0]) continue;
      for (const std::vector<int>& ids : ManyIds()) {
        const std::vector<int> indices = RandomBelow(static_cast<int64_t>(ids.size()), 40, 9);
        for (const Dimensions& data : {Dimensions{40}, Dimensions{40, 5}, Dimensions{40, 0}}) {
          for (const uint32_t index : {TENON_DT_INT32, TENON_DT_INT64}) {
            const uint32_t other = index == TENON_DT_INT32 ? TENON_DT_INT64 : TENON_DT_INT32;
            const DeviceCase given = {op,
                                      TypesOf(dtype, index, other),
                                      {Whole(dtype, data), IndicesOf(index, indices), IndicesOf(other, ids)},
                                      {{dtype, {0}}}};
            EXPECT_EQ(Compare(bench, given, Close(dtype)), "") << ids.size() << " rows of dtype " << dtype;
          }
        }
      }
    }
  }
}

TEST(SparseSegments, SayWhatIsWrong) {
  Bench bench;
  std::vector<Tensor> out;
  const auto fails = [&](const std::vector<int32_t>& indices, const std::vector<int32_t>& ids) {
    return bench.OnDevice({"SparseSegmentMean",
                           TypesOf(TENON_DT_FLOAT, TENON_DT_INT32, TENON_DT_INT32),
                           {Floats({3}, {1, 2, 3}), Ints(indices), Ints(ids)},
                           {{TENON_DT_FLOAT, {0}}}},
                          &out);
  };
  EXPECT_NE(fails({0, 3}, {0, 1}).find("indices[1] = 3 is not in [0, 3)"), std::string::npos);
  EXPECT_NE(fails({0, -1}, {0, 1}).find("indices[1] = -1 is not in [0, 3)"), std::string::npos);
  EXPECT_NE(fails({0, 1}, {-2, 1}).find("segment ids must be >= 0: segment_ids[0] = -2"), std::string::npos);
  EXPECT_NE(fails({0, 1}, {2, 1}).find("segment ids are not increasing: segment_ids[1] = 1"), std::string::npos);
  EXPECT_EQ(fails({0, 1, 1}, {2, 3}), "INVALID_ARGUMENT: 3 indices and 2 segment_ids");
}

TEST(SparseSegments, HaveTheCpusGradients) {
  Bench bench;
  for (const uint32_t dtype : kFloatTypes) {
    for (const int64_t count : {0, 1, 9, 2500}) {
      if (count > 1000 && dtype != TENON_DT_FLOAT && dtype != TENON_DT_HALF) continue;
      const std::vector<int> indices = RandomBelow(count, 300, 1), ids = Sorted(RandomBelow(count, 20, 2));
      for (const Dimensions& grad : {Dimensions{20}, Dimensions{20, 6}, Dimensions{20, 0}}) {
        if (count > 1000 && grad != Dimensions{20, 6}) continue;
        for (const uint32_t index : {TENON_DT_INT32, TENON_DT_INT64}) {
          const std::vector<Tensor> in = {RandomOf(dtype, grad), IndicesOf(index, indices),
                                          IndicesOf(TENON_DT_INT32, ids), Int(301)};
          Dimensions out = grad;
          out[0] = 301;
          for (const std::string op : kSums) {
            const Attributes attributes = TypesOf(dtype, index, TENON_DT_INT32);
            EXPECT_EQ(Compare(bench, {op + "Grad", attributes, in, {{dtype, out}}, {3}}, Close(dtype)), "")
                << count << " of dtype " << dtype;
            EXPECT_EQ(Compare(bench, {op + "GradV2", attributes, in, {{dtype, {0}}, {index, {0}}}, {3}}, Close(dtype)),
                      "")
                << count << " of dtype " << dtype;
          }
        }
      }
    }
  }
  std::vector<Tensor> out;
  const auto fails = [&](const char* op, const std::vector<int32_t>& indices, const std::vector<int32_t>& ids) {
    DeviceCase given = {op,
                        TypesOf(TENON_DT_FLOAT, TENON_DT_INT32, TENON_DT_INT32),
                        {Floats({2}, {1, 2}), Ints(indices), Ints(ids), Int(3)},
                        {{TENON_DT_FLOAT, {3}}},
                        {3}};
    if (given.op.ends_with("V2")) given.outputs.push_back({TENON_DT_INT32, {0}});
    return bench.OnDevice(given, &out);
  };
  for (const char* op : {"SparseSegmentSumGrad", "SparseSegmentSqrtNGradV2"}) {
    EXPECT_NE(fails(op, {0, 3}, {0, 1}).find("indices[1] = 3 is not in [0, 3)"), std::string::npos) << op;
    EXPECT_NE(fails(op, {0, 1}, {0, 2}).find("segment_ids[1] = 2 is not in [0, 2)"), std::string::npos) << op;
  }
}

TEST(SparseProducts, AreTheCpus) {
  Bench bench;
  for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32}) {
    for (const int64_t count : {0, 1, 40, 3000}) {
      for (const int64_t columns : {1, 9, 0}) {
        if (count > 1000 && columns != 9) continue;
        for (int turned = 0; turned < 4; ++turned) {
          const bool a = turned % 2 != 0, b = turned / 2 != 0;
          const std::vector<int> m = RandomBelow(count, 50, 1), k = RandomBelow(count, 30, 2);
          std::vector<int64_t> pairs;
          for (size_t i = 0; i < m.size(); ++i) pairs.insert(pairs.end(), {a ? k[i] : m[i], a ? m[i] : k[i]});
          const DeviceCase given = {
              "SparseTensorDenseMatMul",
              {{"T", Type{dtype}}, {"Tindices", Type{TENON_DT_INT64}}, {"adjoint_a", a}, {"adjoint_b", b}},
              {Make<int64_t>({count, 2}, pairs), RandomOf(dtype, {count}, 3),
               a ? Make<int64_t>({2}, {30, 50}) : Make<int64_t>({2}, {50, 30}),
               RandomOf(dtype, b ? Dimensions{columns, 30} : Dimensions{30, columns}, 4)},
              {{dtype, {50, columns}}},
              {2}};
          EXPECT_EQ(Compare(bench, given, Close(dtype) * 3), "")
              << count << " of dtype " << dtype << " turned " << turned;
        }
      }
    }
  }
  std::vector<Tensor> out;
  const auto fails = [&](bool turned, const std::vector<int32_t>& pairs) {
    return bench.OnDevice(
        {"SparseTensorDenseMatMul",
         {{"T", Type{TENON_DT_FLOAT}}, {"Tindices", Type{TENON_DT_INT32}}, {"adjoint_a", turned}, {"adjoint_b", false}},
         {Make<int32_t>({2, 2}, pairs), Floats({2}, {1, 2}), Make<int64_t>({2}, {3, 3}), RandomFloatsOf({3, 2})},
         {{TENON_DT_FLOAT, {3, 2}}},
         {2}},
        &out);
  };
  EXPECT_NE(fails(false, {0, 0, 1, 4}).find("k (4) from index[1,1] out of bounds (>=3)"), std::string::npos);
  EXPECT_NE(fails(false, {0, 0, -1, 2}).find("m (-1) from index[1,0] out of bounds (>=3)"), std::string::npos);
  EXPECT_NE(fails(true, {0, 0, 1, 4}).find("m (4) from index[1,1] out of bounds (>=3)"), std::string::npos);
}

}  // namespace
}  // namespace tenon::device_test
