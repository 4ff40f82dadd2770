// SPDX-License-Identifier: Apache-2.0
// Einsum of the GPU plugins against the CPU's, on the emulated grid.
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

constexpr uint32_t kTypes[] = {TENON_DT_FLOAT,    TENON_DT_DOUBLE, TENON_DT_HALF,
                               TENON_DT_BFLOAT16, TENON_DT_INT32,  TENON_DT_INT64};

struct Equation {
  const char* text;
  std::vector<Dimensions> in;
  Dimensions out;
};
std::string CompareEinsum(Bench& bench, const Equation& e, uint32_t dtype) {
  std::vector<Tensor> in;
  for (const Dimensions& dims : e.in)
    in.push_back(ValuesOf(dtype, RandomFloatsOf(dims, static_cast<uint32_t>(in.size() + 1)), 100));
  const bool half = dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
  // The CPU keeps sums that it multiplies as floats, where these are rounded.
  return Compare(bench, {"Einsum", {{"equation", std::string(e.text)}}, in, {{dtype, e.out}}},
                 ToleranceOf(dtype, dtype == TENON_DT_DOUBLE ? 1e-13 : 1e-5) * (half ? 3 : 1));
}

TEST(GpuEinsum, OfOneOperandIsTheCpus) {
  Bench bench;
  const Equation equations[] = {{"ab->ba", {{5, 7}}, {7, 5}},
                                {"ab->ab", {{5, 7}}, {5, 7}},
                                {"abc->b", {{5, 7, 300}}, {7}},
                                {"ab->", {{50, 70}}, {}},
                                {"aa->a", {{6, 6}}, {6}},
                                {"aab->b", {{6, 6, 9}}, {9}},
                                {"aab->ba", {{6, 6, 9}}, {9, 6}},
                                {"a->aa", {{5}}, {5, 5}},
                                {"abc->cb", {{4, 3, 2}}, {2, 3}},
                                {"abc->ca", {{33, 70, 40}}, {40, 33}},
                                {"...a->a...", {{2, 3, 4}}, {4, 2, 3}},
                                {"a...->...", {{5, 3, 2}}, {3, 2}},
                                {"aabb->ab", {{3, 3, 4, 4}}, {3, 4}},
                                {"ii->", {{300, 300}}, {}},
                                {"ab->a", {{3, 0}}, {3}},
                                {"ab->b", {{3, 0}}, {0}},
                                {"->", {{}}, {}},
                                {"a->", {{1}}, {}},
                                {"ab->bb", {{3, 4}}, {4, 4}},
                                {"ab->a", {{7, 1}}, {7}}};
  for (const Equation& e : equations) {
    for (const uint32_t dtype : kTypes)
      EXPECT_EQ(CompareEinsum(bench, e, dtype), "") << e.text << " of dtype " << dtype;
  }
}

TEST(GpuEinsum, OfTwoOperandsIsTheCpus) {
  Bench bench;
  const Equation equations[] = {
      // Matrices, every way round.
      {"ab,bc->ac", {{5, 7}, {7, 9}}, {5, 9}},
      {"ab,cb->ac", {{5, 7}, {9, 7}}, {5, 9}},
      {"ba,bc->ac", {{7, 5}, {7, 9}}, {5, 9}},
      {"ba,cb->ca", {{7, 70}, {90, 7}}, {90, 70}},
      {"ab,bc->ca", {{70, 33}, {33, 65}}, {65, 70}},
      {"ab,ab->", {{13, 300}, {13, 300}}, {}},
      {"ab,b->a", {{13, 30}, {30}}, {13}},
      {"a,b->ab", {{13}, {30}}, {13, 30}},
      {"a,b->ba", {{13}, {30}}, {30, 13}},
      {",->", {{}, {}}, {}},
      {",ab->ba", {{}, {3, 4}}, {4, 3}},
      {"ab,ab->ab", {{13, 3}, {13, 3}}, {13, 3}},
      // Batches: even, uneven, and that the output has in another order.
      {"abc,acd->abd", {{3, 5, 7}, {3, 7, 9}}, {3, 5, 9}},
      {"bac,acd->abd", {{5, 3, 7}, {3, 7, 9}}, {3, 5, 9}},
      {"abc,acd->dba", {{3, 5, 7}, {3, 7, 9}}, {9, 5, 3}},
      {"aecd,abcd->acbe", {{2, 5, 3, 8}, {2, 6, 3, 8}}, {2, 3, 6, 5}},
      {"acbe,aecd->abcd", {{2, 3, 6, 5}, {2, 5, 3, 8}}, {2, 6, 3, 8}},
      {"abc,cde->abde", {{2, 6, 12}, {12, 3, 4}}, {2, 6, 3, 4}},
      {"abcd,cde->abe", {{2, 6, 3, 4}, {3, 4, 12}}, {2, 6, 12}},
      {"abcd,dce->abe", {{2, 6, 3, 4}, {4, 3, 12}}, {2, 6, 12}},
      {"abcdef,fbd->eca", {{2, 3, 4, 2, 5, 3}, {3, 3, 2}}, {5, 4, 2}},
      {"cabd,db->bca", {{2, 3, 4, 5}, {5, 4}}, {4, 2, 3}},
      // Ellipses that broadcast.
      {"...ab,...bc->...ac", {{3, 5, 7}, {7, 9}}, {3, 5, 9}},
      {"...ab,...bc->...ac", {{3, 1, 5, 7}, {4, 7, 9}}, {3, 4, 5, 9}},
      {"...ab,...bc->...ac", {{1, 4, 1, 5, 2}, {3, 1, 2, 2, 9}}, {3, 4, 2, 5, 9}},
      {"a...,...->a...", {{3, 1, 5}, {4, 5}}, {3, 4, 5}},
      {"...a,a...->...", {{4, 3}, {3, 4}}, {4}},
      {"...,...->...", {{3, 1}, {4}}, {3, 4}},
      // Sums of what one alone has, diagonals, and both.
      {"abx,bc->ac", {{5, 7, 4}, {7, 9}}, {5, 9}},
      {"ab,bcx->ac", {{5, 7}, {7, 9, 300}}, {5, 9}},
      {"aab,bc->ac", {{5, 5, 7}, {7, 9}}, {5, 9}},
      {"aabx,bccy->cab", {{5, 5, 7, 3}, {7, 9, 9, 2}}, {9, 5, 7}},
      {"ab,b->aa", {{5, 7}, {7}}, {5, 5}},
      {"ab,cb->acc", {{5, 7}, {3, 7}}, {5, 3, 3}},
      {"xab,bc->ac", {{3, 1, 5}, {5, 4}}, {1, 4}},
      {"...xa,...ab->...b", {{1, 2, 3, 4}, {5, 1, 4, 6}}, {5, 2, 6}},
      // Nothing, and one element.
      {"ab,bc->ac", {{5, 0}, {0, 9}}, {5, 9}},
      {"ab,bc->ac", {{0, 4}, {4, 9}}, {0, 9}},
      {"abx,bc->ac", {{5, 7, 0}, {7, 9}}, {5, 9}},
      {"ab,bc->ac", {{1, 1}, {1, 1}}, {1, 1}},
      {"zab,zbc->zac", {{0, 2, 4}, {0, 4, 9}}, {0, 2, 9}},
      // Large tiles, and a depth that is split.
      {"ab,cb->ca", {{130, 19}, {257, 19}}, {257, 130}},
      {"abc,bcd->ad", {{20, 30, 20}, {30, 20, 16}}, {20, 16}},
      {"abc,dbc->ad", {{3, 500, 3}, {5, 500, 3}}, {3, 5}}};
  for (const Equation& e : equations) {
    for (const uint32_t dtype : kTypes)
      EXPECT_EQ(CompareEinsum(bench, e, dtype), "") << e.text << " of dtype " << dtype;
  }
}

TEST(GpuEinsum, RefusesWhatTheCpuRefuses) {
  Bench bench;
  std::vector<Tensor> out;
  const auto einsum = [&](const char* text, const Dimensions& x, const Dimensions& y) {
    return DeviceCase{"Einsum",
                      {{"equation", std::string(text)}},
                      {RandomFloatsOf(x), RandomFloatsOf(y)},
                      {{TENON_DT_FLOAT, {2, 2}}}};
  };
  for (const DeviceCase& bad :
       {einsum("ab,bc->ac", {2, 3}, {4, 2}), einsum("ab,bc->ad", {2, 3}, {3, 2}), einsum("abc,bc->ac", {2, 3}, {3, 2}),
        einsum("ab,bc", {2, 3}, {3, 2}), einsum("aa,bc->ac", {2, 3}, {3, 2})}) {
    const std::string want = bench.OnCpu(bad, &out);
    EXPECT_NE(want, "");
    EXPECT_EQ(bench.OnDevice(bad, &out), want);
  }
}

}  // namespace
}  // namespace tenon::device_test
