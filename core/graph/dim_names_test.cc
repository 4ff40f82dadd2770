// SPDX-License-Identifier: Apache-2.0
#include "core/graph/dim_names.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon::graph::dim_names_test {
namespace {

TEST(DimNames, AreEachOfTheirOwn) {
  DimNames names;
  std::set<int64_t> all;
  for (int i = 0; i < 10000; ++i) {
    const int64_t name = names.New();
    EXPECT_LE(name, TENON_DIM_NAMES);
    EXPECT_TRUE(names.Has(name));
    EXPECT_TRUE(all.insert(name).second);
  }
  EXPECT_FALSE(names.Has(-1));
  EXPECT_FALSE(names.Has(7));
  EXPECT_FALSE(names.Has(TENON_DIM_NAMES));
  EXPECT_FALSE(names.Has(INT64_MIN));
  EXPECT_FALSE(names.Has(INT64_MIN + 1));
}

TEST(DimNames, ComputeNumbersAsNumbers) {
  DimNames names;
  EXPECT_EQ(names.Sum(2, 3), 5);
  EXPECT_EQ(names.Product(2, 3), 6);
  EXPECT_EQ(names.Product(0, 3), 0);
  EXPECT_EQ(names.Quotient(6, 3), 2);
  EXPECT_EQ(names.Quotient(0, 3), 0);
  EXPECT_EQ(names.Quotient(7, 3), -1);
  EXPECT_EQ(names.Quotient(7, 0), -1);
  EXPECT_EQ(names.Quotient(0, 0), -1);
  EXPECT_EQ(names.Sum(INT64_MAX, 1), -1);
  EXPECT_EQ(names.Product(INT64_MAX, 2), -1);
}

TEST(DimNames, OfWhatIsComputedInTwoWaysAreOne) {
  DimNames names;
  const int64_t n = names.New(), m = names.New();
  EXPECT_NE(n, m);
  EXPECT_EQ(names.Sum(n, 0), n);
  EXPECT_EQ(names.Product(n, 1), n);
  EXPECT_EQ(names.Product(n, 0), 0);
  EXPECT_EQ(names.Sum(n, n), names.Product(2, n));
  EXPECT_EQ(names.Product(n, m), names.Product(m, n));
  EXPECT_NE(names.Product(n, m), names.Sum(n, m));
  EXPECT_EQ(names.Product(names.Sum(n, 2), m), names.Sum(names.Product(2, m), names.Product(n, m)));
  EXPECT_EQ(names.Quotient(names.Product(names.Product(n, m), 12), names.Product(m, 4)), names.Product(n, 3));
  EXPECT_EQ(names.Quotient(names.Product(n, m), m), n);
  EXPECT_EQ(names.Quotient(names.Sum(n, m), names.Sum(m, n)), 1);
  EXPECT_EQ(names.Quotient(names.Sum(names.Product(n, 4), names.Product(n, m)), n), names.Sum(m, 4));
}

TEST(DimNames, StandForSizesInAStep) {
  DimNames names;
  const int64_t n = names.New(), m = names.New();
  const int64_t dim = names.Sum(names.Product(names.Product(n, m), 3), names.Sum(n, 5));
  EXPECT_EQ(names.SizeOf(dim, {{n, 2}, {m, 7}}), 49);
  EXPECT_EQ(names.SizeOf(6, {}), 6);
  EXPECT_EQ(names.SizeOf(dim, {{n, 2}}), std::nullopt);
  EXPECT_EQ(names.SizeOf(-1, {{n, 2}}), std::nullopt);
}

TEST(DimNames, SayNothingOfWhatIsNotKnown) {
  DimNames names;
  const int64_t n = names.New(), m = names.New();
  EXPECT_EQ(names.Quotient(n, 2), -1) << "it may be odd";
  EXPECT_EQ(names.Quotient(n, m), -1);
  EXPECT_EQ(names.Quotient(6, n), -1);
  EXPECT_EQ(names.Quotient(names.Product(n, n), n), -1) << "of no elements [n, n] becomes [1, n]";
  EXPECT_EQ(names.Sum(n, -1), -1);
  EXPECT_EQ(names.Product(-1, 0), -1);
  EXPECT_EQ(names.Quotient(-1, 2), -1);
}

TEST(DimNames, KnowWhatWasComputedWithThemAsNumbers) {
  DimNames names;
  for (int i = 0; i < 1000; ++i) names.New();
  const int64_t n = names.New();
  for (const int64_t wrong : {n + 1, n - 1, n * 2, n / 2, n - 7, n + 1000, -n})
    EXPECT_FALSE(names.Has(wrong)) << wrong - n;
  EXPECT_EQ(names.Sum(n - 1, 1), -1);
}

TEST(DimNames, HaveABound) {
  DimNames names;
  int64_t product = names.New(), sum = product;
  for (int i = 0; i < 40; ++i) {
    const int64_t one = names.New();
    product = names.Product(product, one);
    sum = names.Sum(sum, one);
  }
  EXPECT_EQ(product, -1);
  EXPECT_EQ(sum, -1);
}

}  // namespace
}  // namespace tenon::graph::dim_names_test
