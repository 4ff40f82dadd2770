// SPDX-License-Identifier: Apache-2.0
// Products of the GPU plugins against the CPU's, on the emulated grid (which has two processors: large tiles and split
// depths come soon).
#include <limits>

#include "code/product.h"
#include "tests/device/tested.h"
#include "emulation/grid.h"

namespace tenon::device_test {
namespace {

constexpr uint32_t kTypes[] = {TENON_DT_FLOAT,    TENON_DT_DOUBLE, TENON_DT_HALF,
                               TENON_DT_BFLOAT16, TENON_DT_INT32,  TENON_DT_INT64};

// One rounding of a sum whose order is another.
double ToleranceOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return 3e-6;
    case TENON_DT_DOUBLE: return 1e-14;
    case TENON_DT_HALF: return 1e-3;
    case TENON_DT_BFLOAT16: return 8e-3;
    default: return 0;
  }
}

struct Sizes {
  int64_t m, n, k;
};
DeviceCase ProductCase(const Sizes& s, bool transpose_a, bool transpose_b, uint32_t dtype) {
  const Dimensions left = transpose_a ? Dimensions{s.k, s.m} : Dimensions{s.m, s.k};
  const Dimensions right = transpose_b ? Dimensions{s.n, s.k} : Dimensions{s.k, s.n};
  return {"MatMul",
          {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
          {ValuesOf(dtype, RandomFloatsOf(left, 1), 100), ValuesOf(dtype, RandomFloatsOf(right, 2), 100)},
          {{dtype, {s.m, s.n}}}};
}

TEST(GpuProducts, AreTheCpus) {
  Bench bench;
  const Sizes sizes[] = {{1, 1, 1},    {5, 7, 3},    {33, 31, 257}, {64, 64, 64}, {65, 1, 100},
                         {1, 300, 17}, {68, 72, 44}, {4, 3, 0},     {0, 2, 3},    {2, 0, 3}};
  for (const Sizes& s : sizes) {
    for (const uint32_t dtype : kTypes) {
      for (int transposed = 0; transposed < 4; ++transposed) {
        EXPECT_EQ(Compare(bench, ProductCase(s, transposed % 2 != 0, transposed / 2 != 0, dtype), ToleranceOf(dtype)),
                  "")
            << s.m << " " << s.n << " " << s.k << " of dtype " << dtype << ", transposed " << transposed;
      }
    }
  }
}

TEST(GpuProducts, OfLargeTilesAreTheCpus) {
  Bench bench;
  for (const Sizes& s : {Sizes{130, 257, 19}, Sizes{256, 132, 40}, Sizes{200, 100, 300}}) {
    for (const uint32_t dtype : {TENON_DT_FLOAT, TENON_DT_HALF, TENON_DT_BFLOAT16}) {
      for (int transposed = 0; transposed < 4; ++transposed) {
        EXPECT_EQ(Compare(bench, ProductCase(s, transposed % 2 != 0, transposed / 2 != 0, dtype), ToleranceOf(dtype)),
                  "")
            << s.m << " of dtype " << dtype;
      }
    }
  }
}

TEST(GpuProducts, WhoseDepthIsSplitAreTheCpus) {
  Bench bench;
  for (const Sizes& s : {Sizes{3, 5, 1000}, Sizes{20, 64, 513}, Sizes{70, 9, 2000}}) {
    for (const uint32_t dtype : kTypes) {
      EXPECT_EQ(Compare(bench, ProductCase(s, true, false, dtype), ToleranceOf(dtype)), "")
          << s.k << " of dtype " << dtype;
    }
  }
}

TEST(GpuProducts, OfBatchesAreTheCpus) {
  Bench bench;
  const struct {
    Dimensions x, y, out;
  } cases[] = {{{2, 3, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}},
               {{4, 5}, {7, 5, 6}, {7, 4, 6}},
               {{2, 1, 4, 4}, {1, 3, 4, 8}, {2, 3, 4, 8}},
               {{0, 4, 5}, {5, 6}, {0, 4, 6}},
               {{3, 1, 2, 1, 2, 3}, {4, 1, 5, 3, 2}, {3, 4, 2, 5, 2, 2}},
               {{6, 65, 3}, {6, 3, 66}, {6, 65, 66}},
               {{1, 2, 300}, {2, 300, 4}, {2, 2, 4}}};
  const auto turned = [](Dimensions dims) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
    return dims;
  };
  for (const auto& c : cases) {
    for (const uint32_t dtype : kTypes) {
      for (const bool adjoint : {false, true}) {
        const Attributes attributes = {{"adj_x", adjoint}, {"adj_y", adjoint}};
        const Tensor x = ValuesOf(dtype, RandomFloatsOf(adjoint ? turned(c.x) : c.x, 1), 100),
                     y = ValuesOf(dtype, RandomFloatsOf(adjoint ? turned(c.y) : c.y, 2), 100);
        EXPECT_EQ(Compare(bench, {"BatchMatMulV2", attributes, {x, y}, {{dtype, c.out}}}, ToleranceOf(dtype)), "")
            << dtype;
        if (dtype == TENON_DT_HALF) continue;
        Attributes three = attributes;
        if (dtype == TENON_DT_BFLOAT16) {
          const Attributes sums = {{"adj_x", adjoint},
                                   {"adj_y", adjoint},
                                   {"Ta", Type{dtype}},
                                   {"Tb", Type{dtype}},
                                   {"Tout", Type{TENON_DT_FLOAT}}};
          EXPECT_EQ(Compare(bench, {"BatchMatMulV3", sums, {x, y}, {{TENON_DT_FLOAT, c.out}}}, 1e-5), "") << "sums";
        }
        for (const char* name : {"Ta", "Tb", "Tout"}) three[name] = Type{dtype};
        EXPECT_EQ(Compare(bench, {"BatchMatMulV3", three, {x, y}, {{dtype, c.out}}}, ToleranceOf(dtype)), "") << dtype;
      }
    }
  }
  const Attributes plain = {{"adj_x", false}, {"adj_y", true}};
  EXPECT_EQ(
      Compare(
          bench,
          {"BatchMatMul", plain, {RandomFloatsOf({2, 3, 4}), RandomFloatsOf({2, 5, 4})}, {{TENON_DT_FLOAT, {2, 3, 5}}}},
          1e-6),
      "");
}

TEST(GpuProducts, KeepInfinityAndNanWhereTheyBelong) {
  Bench bench;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  const Attributes plain = {{"transpose_a", false}, {"transpose_b", false}};
  const DeviceCase c = {"MatMul",
                        plain,
                        {Floats({3, 2}, {1, kNan, kInfinity, 2, 3, 4}), Floats({2, 2}, {1, 2, 3, 0})},
                        {{TENON_DT_FLOAT, {3, 2}}}};
  EXPECT_EQ(Compare(bench, c, 0), "");
}

TEST(GpuProducts, OfHalvesRoundTheirOutputOnce) {
  Bench bench;
  std::vector<Tensor> got;
  // 256 + 1 + 1 is 258; had every sum been rounded to 8 bits it would be 256.
  EXPECT_EQ(bench.OnDevice({"MatMul",
                            {{"transpose_a", false}, {"transpose_b", false}},
                            {ValuesOf(TENON_DT_BFLOAT16, Floats({1, 3}, {256, 1, 1}), 100),
                             ValuesOf(TENON_DT_BFLOAT16, Floats({3, 1}, {1, 1, 1}), 100)},
                            {{TENON_DT_BFLOAT16, {1, 1}}}},
                           &got),
            "");
  EXPECT_EQ(Numbers(got[0])[0], 258);
}

TEST(GpuProducts, OfHalvesAreTheirSumsWhereTheseAreAskedFor) {
  Bench bench;
  for (const uint32_t dtype : {TENON_DT_HALF, TENON_DT_BFLOAT16}) {
    for (const Sizes& s : {Sizes{5, 7, 3}, Sizes{33, 31, 257}, Sizes{128, 256, 64}, Sizes{4, 3, 0}}) {
      const auto sums = [&](uint32_t result) {
        DeviceCase c = ProductCase(s, false, true, dtype);
        c.op = "BatchMatMulV3";
        c.attributes = {
            {"adj_x", false}, {"adj_y", true}, {"Ta", Type{dtype}}, {"Tb", Type{dtype}}, {"Tout", Type{result}}};
        c.outputs = {{result, {s.m, s.n}}};
        return c;
      };
      EXPECT_EQ(Compare(bench, sums(TENON_DT_FLOAT), 3e-6), "")
          << s.m << " " << s.n << " " << s.k << " of dtype " << dtype;
      EXPECT_EQ(Compare(bench, sums(dtype), ToleranceOf(dtype)), "")
          << s.m << " " << s.n << " " << s.k << " of dtype " << dtype;
    }
  }
}

// What no op asks for yet: the epilogue, and batches of which a block takes several.
TEST(GpuProducts, AddABiasAndCutOffWhatIsNegative) {
  constexpr int64_t kBatches = 5, kRows = 7, kColumns = 9, kDepth = 40;
  const auto a = Values<float>(RandomFloatsOf({kBatches, kRows, kDepth}, 1)),
             b = Values<float>(RandomFloatsOf({kDepth, kColumns}, 2)),
             bias = Values<float>(RandomFloatsOf({kColumns}, 3));
  for (const bool of_rows : {false, true}) {
    for (const int64_t parts : {1, 2}) {
      std::vector<float> out(kBatches * kRows * kColumns), sums(out.size() * 2);
      gpu::ProductParams p = {};
      p.left = a.data();
      p.right = b.data();
      p.out = out.data();
      p.parts = parts > 1 ? sums.data() : nullptr;
      p.rows = kRows;
      p.columns = kColumns;
      p.depth = kDepth;
      p.part_depth = parts == 1 ? 48 : 32;
      p.parts_count = parts;
      p.batch_blocks = 2;
      p.left_view = {.line = {kDepth, 0, 0}, .depth = {1, 0, 0}, .along_depth = true, .quads = false};
      p.right_view = {.line = {1, 0, 0}, .depth = {kColumns, 0, 0}, .along_depth = false, .quads = false};
      p.out_row.step = kColumns;
      p.out_column_step = 1;
      p.batches.count = p.batches.inner = kBatches;
      p.batches.left_step = kRows * kDepth;
      p.batches.out_step = kRows * kColumns;
      p.epilogue = {bias.data(), true, of_rows};
      const uint32_t blocks[] = {1, static_cast<uint32_t>(parts), 2}, sum_blocks[] = {3, 1, 1};
      EXPECT_EQ(gpu::EmulatedKernel::Find("Product_f32")->Run(blocks, gpu::kProductThreads, &p), "");
      if (parts > 1) {
        EXPECT_EQ(gpu::EmulatedKernel::Find("ProductSum_f32")->Run(sum_blocks, 64, &p), "");
      }
      for (size_t i = 0; i < out.size(); ++i) {
        const size_t column = i % kColumns, row = i / kColumns;  // of all batches
        double sum = bias[of_rows ? row % kRows : column];
        for (size_t k = 0; k < kDepth; ++k)
          sum += static_cast<double>(a[row * kDepth + k]) * static_cast<double>(b[k * kColumns + column]);
        EXPECT_NEAR(out[i], std::max(sum, 0.0), 1e-5) << i;
      }
    }
  }
}

TEST(GpuProducts, RefuseShapesThatDoNotFit) {
  Bench bench;
  std::vector<Tensor> out;
  const Attributes plain = {{"transpose_a", false}, {"transpose_b", false}};
  EXPECT_EQ(bench.OnDevice(
                {"MatMul", plain, {RandomFloatsOf({2, 3}), RandomFloatsOf({4, 2})}, {{TENON_DT_FLOAT, {2, 2}}}}, &out),
            "INVALID_ARGUMENT: the inner dims of [2,3] and [4,2] differ");
  EXPECT_EQ(bench.OnDevice({"MatMul", plain, {RandomFloatsOf({2, 3}), RandomFloatsOf({3})}, {{TENON_DT_FLOAT, {2, 2}}}},
                           &out),
            "INVALID_ARGUMENT: matrices have 2 dims; the shapes are [2,3] and [3]");
}

}  // namespace
}  // namespace tenon::device_test
