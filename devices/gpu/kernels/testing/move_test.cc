// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements, against the CPU's, on the emulated grid.
#include "devices/gpu/code/index.h"
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

TEST(Indices, AreDividedExactly) {
  for (const int64_t size :
       {INT64_C(1), INT64_C(2), INT64_C(3), INT64_C(7), INT64_C(31), INT64_C(641), INT64_C(65535), INT64_C(65537),
        INT64_C(1) << 30, (INT64_C(1) << 30) + 1, INT64_C(2147483646), INT64_C(2147483647)}) {
    const gpu::Dim dim = gpu::DimOf(size);
    const auto check = [&](int64_t index) {
      if (index < 0 || index > INT32_MAX) return;
      auto narrow = static_cast<uint32_t>(index);
      auto wide = static_cast<uint64_t>(index);
      EXPECT_EQ(gpu::TakeDim(&narrow, dim), index % size) << index << " by " << size;
      EXPECT_EQ(gpu::TakeDim(&wide, dim), index % size) << index << " by " << size;
      EXPECT_EQ(narrow, index / size) << index << " by " << size;
      EXPECT_EQ(static_cast<int64_t>(wide), index / size) << index << " by " << size;
    };
    for (const int64_t multiple :
         {INT64_C(0), INT64_C(1), INT64_C(2), INT32_MAX / size / 2, INT32_MAX / size - 1, INT32_MAX / size}) {
      for (int64_t beside = -2; beside <= 2; ++beside) check(multiple * size + beside);
    }
    for (int64_t index = 0; index <= INT32_MAX; index += 1299709) check(index);
    check(INT32_MAX);
  }
  // Above 31 bits only the wide index is meant.
  uint64_t index = UINT64_C(0x123456789abc);
  const gpu::Dim large = gpu::DimOf(INT64_C(0x100000001));
  EXPECT_EQ(gpu::TakeDim(&index, large), INT64_C(0x123456789abc) % INT64_C(0x100000001));
  EXPECT_EQ(index, UINT64_C(0x123456789abc) / UINT64_C(0x100000001));
}

TEST(Moves, OfSlicesAreTheCpus) {
  Bench bench;
  const Attributes masks = {{"begin_mask", int64_t{0}},
                            {"end_mask", int64_t{0}},
                            {"ellipsis_mask", int64_t{0}},
                            {"new_axis_mask", int64_t{0}},
                            {"shrink_axis_mask", int64_t{0}}};
  for (uint32_t dtype : kSizes) {
    const auto x = [&](const Dimensions& dims) { return Numbered(dtype, dims); };
    EXPECT_EQ(
        Same(bench, {"Slice", {}, {x({5, 6, 7}), Ints({1, 0, 2}), Ints({3, -1, 4})}, {{dtype, {3, 6, 4}}}, {1, 2}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Slice", {}, {x({5, 32}), Ints({1, 16}), Ints({3, 16})}, {{dtype, {3, 16}}}, {1, 2}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Slice", {}, {x({257, 31}), Ints({1, 3}), Ints({255, 1})}, {{dtype, {255, 1}}}, {1, 2}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Slice", {}, {x({5, 6}), Ints({1, 0}), Ints({0, 6})}, {{dtype, {0, 6}}}, {1, 2}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Slice", {}, {x({}), Ints({}), Ints({})}, {{dtype, {}}}, {1, 2}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"Slice", {}, {x({9}), Ints({1}), Ints({8})}, {{dtype, {8}}}, {1, 2}}), "") << dtype;
    EXPECT_EQ(
        Same(bench,
             {"XlaDynamicSlice", {}, {x({5, 6, 7}), Ints({4, -1, 2}), Ints({3, 6, 4})}, {{dtype, {3, 6, 4}}}, {1, 2}}),
        "")
        << dtype;
    EXPECT_EQ(
        Same(bench,
             {"XlaDynamicUpdateSlice", {}, {x({5, 6, 7}), x({3, 1, 4}), Ints({9, 5, -2})}, {{dtype, {5, 6, 7}}}, {2}}),
        "")
        << dtype;
    EXPECT_EQ(Same(bench, {"XlaDynamicUpdateSlice", {}, {x({5, 6}), x({0, 6}), Ints({1, 0})}, {{dtype, {5, 6}}}, {2}}),
              "")
        << dtype;
    EXPECT_EQ(Same(bench, {"XlaDynamicUpdateSlice", {}, {x({}), x({}), Ints({})}, {{dtype, {}}}, {2}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"StridedSlice",
                           masks,
                           {x({6, 9}), Ints({5, 1}), Ints({0, 8}), Ints({-2, 3})},
                           {{dtype, {3, 3}}},
                           {1, 2, 3}}),
              "")
        << dtype;
    EXPECT_EQ(Same(bench, {"StridedSlice",
                           masks,
                           {x({33, 4}), Ints({32, 0}), Ints({-34, 4}), Ints({-1, 1})},
                           {{dtype, {33, 4}}},
                           {1, 2, 3}}),
              "")
        << dtype;
    EXPECT_EQ(Same(bench, {"StridedSlice",
                           masks,
                           {x({6, 9}), Ints({3, 1}), Ints({3, 8}), Ints({1, 3})},
                           {{dtype, {0, 3}}},
                           {1, 2, 3}}),
              "")
        << dtype;
    EXPECT_EQ(Same(bench, {"StridedSliceGrad",
                           masks,
                           {Ints({6, 9}), Ints({5, 1}), Ints({0, 8}), Ints({-2, 3}), x({3, 3})},
                           {{dtype, {6, 9}}},
                           {0, 1, 2, 3}}),
              "")
        << dtype;
    EXPECT_EQ(Same(bench, {"StridedSliceGrad",
                           masks,
                           {Ints({6, 2}), Ints({0, 0}), Ints({6, 2}), Ints({1, 1}), x({6, 2})},
                           {{dtype, {6, 2}}},
                           {0, 1, 2, 3}}),
              "")
        << dtype;
    EXPECT_EQ(Same(bench, {"ReverseV2", {}, {x({3, 5, 4}), Ints({0, -1})}, {{dtype, {3, 5, 4}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"ReverseV2", {}, {x({3, 5, 4}), Ints({1})}, {{dtype, {3, 5, 4}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"ReverseV2", {}, {x({0, 5}), Ints({1})}, {{dtype, {0, 5}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"Tile", {}, {x({2, 3}), Ints({3, 2})}, {{dtype, {6, 6}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"Tile", {}, {x({2, 1, 16}), Ints({1, 5, 1})}, {{dtype, {2, 5, 16}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"Tile", {}, {x({2, 3}), Ints({0, 2})}, {{dtype, {0, 6}}}, {1}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"BroadcastTo", {}, {x({2, 1, 3}), Ints({4, 2, 5, 3})}, {{dtype, {4, 2, 5, 3}}}, {1}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"BroadcastTo", {}, {x({}), Ints({3, 5})}, {{dtype, {3, 5}}}, {1}}), "") << dtype;
  }
  std::vector<Tensor> out;
  EXPECT_EQ(
      bench.OnDevice({"Slice", {}, {Floats({2}, {1, 2}), Ints({1}), Ints({2})}, {{TENON_DT_FLOAT, {2}}}, {1, 2}}, &out),
      "INVALID_ARGUMENT: slice [1, 1 + 2) of dim 0 is outside shape [2]");
  // Arguments that only a run knows.
  DeviceCase late = {
      "Slice", {}, {RandomFloatsOf({5, 6}), Ints({1, 2}), Ints({3, 3})}, {{TENON_DT_FLOAT, {3, 3}}}, {1, 2}};
  late.constant = false;
  EXPECT_EQ(Same(bench, late), "");
}

TEST(Moves, OfTransposesAreTheCpus) {
  Bench bench;
  const std::pair<Dimensions, std::vector<int32_t>> cases[] = {{{3, 4}, {1, 0}},
                                                               {{33, 65}, {1, 0}},
                                                               {{70, 129}, {1, 0}},
                                                               {{2, 3, 4}, {2, 0, 1}},
                                                               {{3, 9, 40}, {0, 2, 1}},
                                                               {{9, 2, 33}, {2, 1, 0}},
                                                               {{2, 5, 3, 8}, {0, 2, 1, 3}},
                                                               {{8, 3, 2, 9, 1}, {3, 4, 1, 2, 0}},
                                                               {{2, 3}, {0, 1}},
                                                               {{0, 4}, {1, 0}},
                                                               {{}, {}},
                                                               {{1, 1, 7}, {2, 1, 0}},
                                                               {{8, 8}, {-1, 0}},
                                                               {{2, 10, 12, 3}, {0, 3, 1, 2}},
                                                               {{2, 3, 10, 12}, {0, 2, 3, 1}}};
  for (uint32_t dtype : kSizes) {
    for (const auto& [dims, perm] : cases) {
      Dimensions out;
      for (int32_t p : perm)
        out.push_back(dims[static_cast<size_t>(p < 0 ? p + static_cast<int32_t>(dims.size()) : p)]);
      EXPECT_EQ(Same(bench, {"Transpose", {}, {Numbered(dtype, dims), Ints(perm)}, {{dtype, out}}, {1}}), "") << dtype;
    }
  }
}

TEST(Moves, OfPadsAreTheCpus) {
  Bench bench;
  const auto pads = [](const std::vector<int32_t>& values) {
    return Make<int32_t>({static_cast<int64_t>(values.size() / 2), 2}, values);
  };
  struct {
    Dimensions in, out;
    std::vector<int32_t> paddings;
  } cases[] = {{{2, 3}, {4, 8}, {1, 1, 2, 3}},
               {{2, 5, 4, 16}, {2, 8, 6, 16}, {0, 0, 1, 2, 1, 1, 0, 0}},
               {{3}, {3}, {0, 0}},
               {{}, {}, {}},
               {{0, 2}, {3, 2}, {1, 2, 0, 0}},
               {{33}, {65}, {31, 1}},
               {{2, 0}, {2, 0}, {0, 0, 0, 0}},
               {{2, 2, 3, 1}, {3, 2, 3, 2}, {1, 0, 0, 0, 0, 0, 0, 1}}};
  for (uint32_t dtype : kSizes) {
    for (const auto& [in, out, paddings] : cases) {
      EXPECT_EQ(Same(bench, {"Pad", {}, {Numbered(dtype, in), pads(paddings)}, {{dtype, out}}, {1}}), "") << dtype;
      EXPECT_EQ(
          Same(bench,
               {"PadV2", {}, {Numbered(dtype, in), pads(paddings), Numbered(dtype, {}, 77)}, {{dtype, out}}, {1}}),
          "")
          << dtype;
    }
  }
  struct {
    const char* mode;
    Dimensions in, out;
    std::vector<int32_t> paddings;
  } mirrors[] = {{"REFLECT", {3, 4}, {6, 9}, {1, 2, 3, 2}},
                 {"SYMMETRIC", {3, 4}, {9, 9}, {3, 3, 4, 1}},
                 {"REFLECT", {2, 5, 16}, {2, 8, 16}, {0, 0, 1, 2, 0, 0}},
                 {"SYMMETRIC", {1, 3}, {3, 3}, {1, 1, 0, 0}},
                 {"REFLECT", {4}, {4}, {0, 0}},
                 {"SYMMETRIC", {}, {}, {}},
                 {"REFLECT", {0, 3}, {0, 5}, {0, 0, 1, 1}},
                 {"SYMMETRIC", {2, 2, 2, 2}, {4, 2, 5, 3}, {1, 1, 0, 0, 2, 1, 0, 1}}};
  for (const auto& [mode, in, out, paddings] : mirrors) {
    const Attributes attributes = {{"mode", std::string(mode)}};
    if (!in.empty() && in[0] == 0) continue;  // REFLECT needs an element to pad beside
    for (uint32_t dtype : kSizes)
      EXPECT_EQ(Same(bench, {"MirrorPad", attributes, {Numbered(dtype, in), pads(paddings)}, {{dtype, out}}, {1}}), "")
          << dtype;
    for (uint32_t dtype : kNumberTypes)
      EXPECT_EQ(Same(bench, {"MirrorPadGrad", attributes, {RandomOf(dtype, out), pads(paddings)}, {{dtype, in}}, {1}}),
                "")
          << dtype << mode;
  }
}

TEST(Moves, OfPartsSideBySideAreTheCpus) {
  Bench bench;
  for (uint32_t dtype : kSizes) {
    const auto x = [&](const Dimensions& dims, int first) { return Numbered(dtype, dims, first); };
    EXPECT_EQ(
        Same(bench, {"ConcatV2", {}, {x({2, 3}, 1), x({2, 5}, 2), x({2, 0}, 3), Int(-1)}, {{dtype, {2, 8}}}, {3}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"ConcatV2", {}, {x({1, 31}, 1), x({3, 31}, 2), Int(0)}, {{dtype, {4, 31}}}, {2}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"ConcatV2", {}, {x({0, 3}, 1), x({0, 1}, 2), Int(1)}, {{dtype, {0, 4}}}, {2}}), "") << dtype;
    EXPECT_EQ(Same(bench, {"Concat", {}, {Int(1), x({3, 16}, 1), x({3, 32}, 2)}, {{dtype, {3, 48}}}, {0}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Pack", {{"axis", int64_t{-2}}}, {x({3, 2}, 1), x({3, 2}, 4)}, {{dtype, {3, 2, 2}}}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Pack", {{"axis", int64_t{0}}}, {x({}, 1), x({}, 4), x({}, 5)}, {{dtype, {3}}}}), "")
        << dtype;
    EXPECT_EQ(Same(bench, {"Unpack", {{"axis", int64_t{1}}}, {x({3, 2, 5}, 1)}, {{dtype, {3, 5}}, {dtype, {3, 5}}}}),
              "")
        << dtype;
    EXPECT_EQ(
        Same(bench, {"Split", {}, {Int(1), x({3, 6}, 1)}, {{dtype, {3, 2}}, {dtype, {3, 2}}, {dtype, {3, 2}}}, {0}}),
        "")
        << dtype;
    EXPECT_EQ(Same(bench, {"SplitV",
                           {},
                           {x({33, 4}, 1), Ints({1, 0, 32}), Int(0)},
                           {{dtype, {1, 4}}, {dtype, {0, 4}}, {dtype, {32, 4}}},
                           {1, 2}}),
              "")
        << dtype;
    // More parts than one launch takes.
    DeviceCase many = {"Pack", {{"axis", int64_t{1}}}, {}, {{dtype, {3, 131}}}};
    for (int i = 0; i < 131; ++i) many.inputs.push_back(x({3}, i));
    EXPECT_EQ(Same(bench, many), "") << dtype;
    many = {"ConcatV2", {{"T", Type{dtype}}}, {}, {{dtype, {2, 70 * 3}}}, {70}};
    for (int i = 0; i < 70; ++i) many.inputs.push_back(x({2, 3}, i));
    many.inputs.push_back(Int(1));
    EXPECT_EQ(Same(bench, many), "") << dtype;
  }
}

TEST(Bitcasts, AreTheCpus) {
  Bench bench;
  const Attributes types = {{"T", Type{TENON_DT_FLOAT}}, {"type", Type{TENON_DT_UINT8}}};
  EXPECT_EQ(Same(bench, {"Bitcast", types, {Numbered(TENON_DT_FLOAT, {3, 5})}, {{TENON_DT_UINT8, {3, 5, 4}}}}), "");
  EXPECT_EQ(Same(bench, {"Bitcast", types, {Numbered(TENON_DT_FLOAT, {0, 5})}, {{TENON_DT_UINT8, {0, 5, 4}}}}), "");
}

TEST(Fills, AreTheCpus) {
  Bench bench;
  const Attributes one = {};
  for (uint32_t dtype : kSizes) {
    for (const Dimensions& dims : {Dimensions{}, Dimensions{0, 3}, Dimensions{257}, Dimensions{3, 31}}) {
      const std::vector<int32_t> values(dims.begin(), dims.end());
      EXPECT_EQ(Same(bench, {"Fill", {{"T", Type{dtype}}}, {Ints(values), Numbered(dtype, {})}, {{dtype, dims}}, {0}}),
                "")
          << dtype;
      EXPECT_EQ(Same(bench, {"ZerosLike", one, {Numbered(dtype, dims)}, {{dtype, dims}}}), "") << dtype;
      EXPECT_EQ(Same(bench, {"OnesLike", one, {Numbered(dtype, dims)}, {{dtype, dims}}}), "") << dtype;
    }
  }
  for (uint32_t dtype : {TENON_DT_BOOL, TENON_DT_BFLOAT16, TENON_DT_COMPLEX64, TENON_DT_DOUBLE, TENON_DT_INT16}) {
    EXPECT_EQ(Same(bench, {"OnesLike", one, {Numbered(dtype, {37})}, {{dtype, {37}}}}), "") << dtype;
  }
}

template <class T>
DeviceCase RangeOf(float start, float limit, float delta, int64_t count) {
  const auto scalar = [](float x) { return Make<T>({}, {static_cast<T>(x)}); };
  const uint32_t dtype = sdk::DtypeOf<T>::value;
  return {
      "Range", {{"Tidx", Type{dtype}}}, {scalar(start), scalar(limit), scalar(delta)}, {{dtype, {count}}}, {0, 1, 2}};
}
TEST(Fills, OfNumbersInARowAreTheCpus) {
  Bench bench;
  EXPECT_EQ(Same(bench, RangeOf<int64_t>(3, -90, -2, 47)), "");
  EXPECT_EQ(Same(bench, RangeOf<int64_t>(3, 3, 1, 0)), "");
  EXPECT_EQ(Same(bench, RangeOf<float>(0, 10, 0.1f, 100)), "");
  EXPECT_EQ(Same(bench, RangeOf<float>(0, 40000, 1.0f, 40000)), "");
  EXPECT_EQ(Same(bench, RangeOf<float>(1, 301, 0.01f, 30000)), "");
  EXPECT_EQ(Same(bench, RangeOf<double>(5, -5, -0.25f, 40)), "");
  EXPECT_EQ(Same(bench, RangeOf<sdk::Half>(0, 4, 0.25f, 16)), "");
  EXPECT_EQ(Same(bench, RangeOf<sdk::Bfloat16>(0, 4, 0.5f, 8)), "");
  std::vector<Tensor> out;
  EXPECT_EQ(bench.OnDevice(RangeOf<float>(0, 1, 0, 3), &out), "INVALID_ARGUMENT: Requires delta != 0");
  for (int32_t n : {1, 2, 33, 300}) {
    EXPECT_EQ(
        Compare(bench, {"LinSpace", {}, {Floats({}, {-2.5f}), Floats({}, {7}), Int(n)}, {{TENON_DT_FLOAT, {n}}}, {2}},
                1e-6),
        "");
    EXPECT_EQ(
        Compare(
            bench,
            {"LinSpace", {}, {Make<double>({}, {1}), Make<double>({}, {-3}), Int(n)}, {{TENON_DT_DOUBLE, {n}}}, {2}},
            1e-15),
        "");
  }
}

}  // namespace
}  // namespace tenon::device_test
