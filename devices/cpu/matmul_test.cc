// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "testing/kernel.h"

namespace tenon::cpu::matmul_test {
namespace {

template <class T>
std::vector<T> Pattern(int64_t n, int seed) {
  std::vector<T> v;
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1u;
  for (int64_t i = 0; i < n; ++i) {
    state = state * 1664525u + 1013904223u;
    v.push_back(static_cast<T>(static_cast<int>(state >> 28) - 8));
  }
  return v;
}

// Small integers, so that every order of summation gives the same bits.
template <class T>
void CheckProduct(int64_t m, int64_t n, int64_t k, bool ta, bool tb, uint32_t threads) {
  const auto a = Pattern<T>(m * k, 1), b = Pattern<T>(k * n, 2);
  std::vector<T> want;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += static_cast<double>(a[static_cast<size_t>(ta ? p * m + i : i * k + p)]) *
               static_cast<double>(b[static_cast<size_t>(tb ? j * k + p : p * n + j)]);
      }
      want.push_back(static_cast<T>(sum));
    }
  }
  Kernel kernel("MatMul");
  kernel.Attr("transpose_a", ta).Attr("transpose_b", tb).Threads(threads);
  const Result r = kernel.Run(
      {Make<T>(ta ? std::vector{k, m} : std::vector{m, k}, a), Make<T>(tb ? std::vector{n, k} : std::vector{k, n}, b)},
      {Out<T>({m, n})});
  ASSERT_EQ(r.code, TENON_OK) << r.message;
  const auto got = Values<T>(r[0]);
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(static_cast<double>(got[i]), static_cast<double>(want[i]))
        << m << "x" << n << "x" << k << " " << ta << tb << " at " << i;
  }
}

TEST(MatMul, MultipliesEverySizeUpToATileAndBeyond) {
  for (int64_t m : {1, 2, 3, 7, 8, 9, 17}) {
    for (int64_t n : {1, 5, 16, 17, 32, 33, 70}) {
      for (int64_t k : {1, 4, 33}) {
        for (int t = 0; t < 4; ++t) {
          CheckProduct<float>(m, n, k, t & 1, t & 2, 1);
          CheckProduct<double>(m, n, k, t & 1, t & 2, 1);
        }
      }
    }
  }
}

TEST(MatMul, BlocksLargeSumsAndSharesThem) {
  for (int t = 0; t < 4; ++t) {
    CheckProduct<float>(130, 300, 700, t & 1, t & 2, 4);
    CheckProduct<float>(500, 40, 600, t & 1, t & 2, 4);
    CheckProduct<double>(130, 150, 600, t & 1, t & 2, 4);
    CheckProduct<float>(1, 700, 300, t & 1, t & 2, 2);
  }
}

// Thirds, so that another order of summation gives other bits.
template <class T>
void CheckSharing(int64_t m, int64_t n, int64_t k, bool ta, bool tb) {
  std::vector<T> a, b;
  for (T x : Pattern<T>(m * k, 1)) a.push_back(x / T(3));
  for (T x : Pattern<T>(k * n, 2)) b.push_back(x / T(3));
  std::vector<T> first;
  for (uint32_t threads : {1u, 2u, 3u, 7u}) {
    Kernel kernel("MatMul");
    kernel.Attr("transpose_a", ta).Attr("transpose_b", tb).Threads(threads);
    const Result r = kernel.Run({Make<T>(ta ? std::vector{k, m} : std::vector{m, k}, a),
                                 Make<T>(tb ? std::vector{n, k} : std::vector{k, n}, b)},
                                {Out<T>({m, n})});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    if (threads == 1) first = Values<T>(r[0]);
    EXPECT_EQ(first, Values<T>(r[0])) << m << "x" << n << "x" << k << " " << ta << tb << " by " << threads;
  }
}

TEST(MatMul, GivesTheSameBitsHoweverItIsShared) {
  for (int t = 0; t < 4; ++t) {
    CheckSharing<float>(203, 149, 1501, t & 1, t & 2);
    CheckSharing<float>(149, 203, 1501, t & 1, t & 2);
    CheckSharing<double>(203, 149, 701, t & 1, t & 2);
    CheckSharing<double>(70, 311, 701, t & 1, t & 2);
    CheckSharing<float>(1, 1777, 1501, t & 1, t & 2);
    CheckSharing<float>(2, 1777, 1501, t & 1, t & 2);
    CheckSharing<float>(1777, 1, 1501, t & 1, t & 2);
    CheckSharing<double>(1777, 1, 1501, t & 1, t & 2);
  }
}

TEST(MatMul, MultipliesIntegersAndHalves) {
  for (int t = 0; t < 4; ++t) {
    CheckProduct<int32_t>(5, 70, 9, t & 1, t & 2, 2);
    CheckProduct<int64_t>(5, 7, 9, t & 1, t & 2, 1);
    CheckProduct<Half>(5, 7, 9, t & 1, t & 2, 1);
    CheckProduct<Bfloat16>(1, 70, 19, t & 1, t & 2, 2);
    CheckProduct<int32_t>(1, 70, 19, t & 1, t & 2, 2);
  }
}

TEST(MatMul, GivesZerosForAnEmptySumAndNothingForNoRows) {
  CheckProduct<float>(3, 4, 0, false, false, 1);
  CheckProduct<float>(0, 4, 5, false, false, 1);
  CheckProduct<float>(3, 0, 5, false, true, 1);
}

TEST(MatMul, NamesBothShapesWhenTheyDoNotFit) {
  Kernel kernel("MatMul");
  kernel.Attr("transpose_a", false).Attr("transpose_b", false);
  const Result r = kernel.Run({Make<float>({2, 3}, std::vector<float>(6)), Make<float>({2, 3}, std::vector<float>(6))},
                              {Out<float>({2, 3})});
  EXPECT_EQ(r.code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(r.message, "the inner dims of [2,3] and [2,3] differ");
}

TEST(MatMul, SaysWhichAttributeIsMissing) {
  const Result r = Kernel("MatMul").Run({Make<float>({1, 1}, {1.f}), Make<float>({1, 1}, {1.f})}, {Out<float>({1, 1})});
  EXPECT_EQ(r.code, TENON_NOT_FOUND);
  EXPECT_NE(r.message.find("transpose_a"), std::string::npos);
}

TEST(MatMul, LetsANanThroughAZero) {
  Kernel kernel("MatMul");
  kernel.Attr("transpose_a", false).Attr("transpose_b", false);
  const Result r =
      kernel.Run({Make<float>({1, 2}, {0, 1}), Make<float>({2, 1}, {std::nanf(""), 1})}, {Out<float>({1, 1})});
  EXPECT_TRUE(std::isnan(Values<float>(r[0])[0]));
}

TEST(MatMul, WrapsIntegersAround) {
  Kernel kernel("MatMul");
  kernel.Attr("transpose_a", false).Attr("transpose_b", false);
  const Result r =
      kernel.Run({Make<int32_t>({1, 2}, {INT32_MAX, 1}), Make<int32_t>({2, 1}, {2, 5})}, {Out<int32_t>({1, 1})});
  EXPECT_EQ(Values<int32_t>(r[0])[0], 3);
}

// A sum that half could not hold on its way.
TEST(BatchMatMul, SumsHalvesAsFloats) {
  const int64_t k = 4096;
  for (uint32_t threads : {1u, 3u}) {
    Kernel kernel("BatchMatMulV2");
    kernel.Attr("adj_x", false).Attr("adj_y", false).Threads(threads);
    std::vector<Half> x, y;
    for (int64_t i = 0; i < 3 * k; ++i) x.push_back(Half(1.f)), y.push_back(Half(i % 2 == 0 ? 0.25f : 0.5f));
    const Result r = kernel.Run({Make<Half>({3, 1, k}, x), Make<Half>({3, k, 1}, y)}, {Out<Half>({3, 1, 1})});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    for (Half value : Values<Half>(r[0])) EXPECT_EQ(static_cast<float>(value), 1536.f);
  }
}

TEST(BatchMatMul, BroadcastsBatchDims) {
  const auto x = Pattern<float>(2 * 1 * 3 * 4, 3), y = Pattern<float>(5 * 6 * 4, 4);
  Kernel kernel("BatchMatMulV2");
  kernel.Attr("adj_x", false).Attr("adj_y", true);
  const Result r = kernel.Run({Make<float>({2, 1, 3, 4}, x), Make<float>({5, 6, 4}, y)}, {Out<float>({2, 5, 3, 6})});
  ASSERT_EQ(r.code, TENON_OK) << r.message;
  const auto got = Values<float>(r[0]);
  for (size_t p = 0; p < 2; ++p)
    for (size_t q = 0; q < 5; ++q)
      for (size_t i = 0; i < 3; ++i)
        for (size_t j = 0; j < 6; ++j) {
          float sum = 0;
          for (size_t k = 0; k < 4; ++k) sum += x[(p * 3 + i) * 4 + k] * y[(q * 6 + j) * 4 + k];
          EXPECT_EQ(got[((p * 5 + q) * 3 + i) * 6 + j], sum);
        }
}

// Tiles of four rows and 256 columns, whole and cut.
TEST(BatchMatMul, OfBytesGivesIntegersThatWrap) {
  for (auto [m, n, k] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {1, 700, 9}, {4, 256, 33}, {5, 257, 16}, {9, 3, 70000}, {2, 2, 0}}) {
    for (int form = 0; form < 4; ++form) {
      const bool adjoint_x = (form & 1) != 0, adjoint_y = (form & 2) != 0;
      const bool wraps = k == 70000;
      const auto x = wraps ? std::vector<uint8_t>(static_cast<size_t>(m * k), 255) : Pattern<uint8_t>(m * k, 5);
      const auto y = wraps ? std::vector<int8_t>(static_cast<size_t>(k * n), -128) : Pattern<int8_t>(k * n, 6);
      Kernel kernel("BatchMatMulV3", TENON_DT_UINT8);
      kernel.Attr("adj_x", adjoint_x).Attr("adj_y", adjoint_y).Threads(3);
      const Result r = kernel.Run({Make<uint8_t>(adjoint_x ? std::vector{k, m} : std::vector{m, k}, x),
                                   Make<int8_t>(adjoint_y ? std::vector{n, k} : std::vector{k, n}, y)},
                                  {Out<int32_t>({m, n})});
      ASSERT_EQ(r.code, TENON_OK) << r.message;
      const auto got = Values<int32_t>(r[0]);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          int64_t sum = 0;
          for (int64_t p = 0; p < k; ++p)
            sum += int64_t{x[static_cast<size_t>(adjoint_x ? p * m + i : i * k + p)]} *
                   y[static_cast<size_t>(adjoint_y ? j * k + p : p * n + j)];
          ASSERT_EQ(got[static_cast<size_t>(i * n + j)], static_cast<int32_t>(static_cast<uint32_t>(sum)))
              << m << " " << n << " " << k << " " << form;
        }
    }
  }
}

}  // namespace
}  // namespace tenon::cpu::matmul_test
