// SPDX-License-Identifier: Apache-2.0
// What the golden cases cannot say: Fourier transforms of every length, and special functions at their edges.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <numbers>

#include "kernels/numbers/fourier.h"
#include "tenon/extras/kernel/integrals.h"

namespace tenon::cpu::special_test {
namespace {

using Complex = std::complex<double>;

std::vector<Complex> Waves(int64_t n) {
  std::vector<Complex> values;
  for (int64_t k = 0; k < n; ++k)
    values.emplace_back(std::sin(1.7 * static_cast<double>(k) + 1), std::cos(0.3 * static_cast<double>(k * k % 101)));
  return values;
}
std::vector<Complex> Transformed(const std::vector<Complex>& values, bool inverse) {
  const auto poll = [](int64_t) {};
  const Fourier transform(static_cast<int64_t>(values.size()), inverse, poll);
  std::vector<Complex> out(values.size()), scratch(static_cast<size_t>(transform.scratch()) + 1);
  transform.Run(values.data(), out.data(), scratch.data(), poll);
  return out;
}
// By the definition, of one element.
Complex Naive(const std::vector<Complex>& values, int64_t k, bool inverse) {
  const auto n = static_cast<int64_t>(values.size());
  Complex sum;
  for (int64_t j = 0; j < n; ++j)
    sum += values[static_cast<size_t>(j)] *
           std::polar(1.0,
                      (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n));
  return sum;
}

TEST(Fourier, IsItsDefinitionAtEveryLength) {
  for (int64_t n = 1; n <= 130; ++n)
    for (const bool inverse : {false, true}) {
      const std::vector<Complex> values = Waves(n), found = Transformed(values, inverse);
      for (int64_t k = 0; k < n; ++k) {
        const Complex wanted = Naive(values, k, inverse);
        ASSERT_NEAR(std::abs(found[static_cast<size_t>(k)] - wanted), 0, 1e-12 * static_cast<double>(n))
            << "element " << k << " of " << n << ", inverse " << inverse;
      }
    }
}

// In n^2 steps these lengths would take minutes.
TEST(Fourier, TakesLargePrimesAndComesBack) {
  for (const int64_t n : {100003, 524287, 2 * 65537}) {
    const std::vector<Complex> values = Waves(n), there = Transformed(values, false), back = Transformed(there, true);
    for (const int64_t k : {int64_t{0}, int64_t{1}, n / 3, n - 1}) {
      EXPECT_NEAR(std::abs(there[static_cast<size_t>(k)] - Naive(values, k, false)), 0, 1e-12 * static_cast<double>(n))
          << "element " << k << " of " << n;
    }
    double worst = 0;
    for (size_t k = 0; k < values.size(); ++k)
      worst = std::max(worst, std::abs(back[k] / static_cast<double>(n) - values[k]));
    EXPECT_LT(worst, 1e-11) << n;
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

// Where a function goes from one way of computing it to another, both ways agree: it does not jump by more than a slope
// says that is no larger than the function, or 1.
void ExpectNoJump(double (*function)(double), std::initializer_list<double> seams) {
  for (const double seam : seams) {
    const double below = function(std::nextafter(seam, -kInfinity)), above = function(std::nextafter(seam, kInfinity));
    EXPECT_NEAR(below, above, (4e-15 + 5e-16 * seam) * std::max(1.0, std::fabs(above))) << "at " << seam;
  }
}

TEST(Integrals, DoNotJumpWhereTheyAreComputedInAnotherWay) {
  using namespace sdk::integrals;  // NOLINT
  ExpectNoJump(Dawson<double>, {1, std::sqrt(150.0)});
  ExpectNoJump(Expint<double>, {0.2725074107813666, 0.4725074107813666, 40});
  ExpectNoJump(Spence<double>, {0.5, 2});
  ExpectNoJump([](double x) { return Fresnel<double>(x).sine; }, {1.5});
  ExpectNoJump([](double x) { return Fresnel<double>(x).cosine; }, {1.5});
}

TEST(Integrals, HoldAtTheEndsOfTheLine) {
  using namespace sdk::integrals;  // NOLINT
  EXPECT_EQ(Dawson<double>(0), 0);
  EXPECT_EQ(Dawson<double>(kInfinity), 0);
  EXPECT_TRUE(std::isnan(Dawson<double>(kNan)));
  EXPECT_EQ(Expint<double>(0), -kInfinity);
  EXPECT_EQ(Expint<double>(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Expint<double>(-1)) && std::isnan(Expint<double>(kNan)));
  EXPECT_EQ(Spence<double>(1), 0);
  EXPECT_DOUBLE_EQ(Spence<double>(0), std::numbers::pi * std::numbers::pi / 6);
  EXPECT_EQ(Spence<double>(kInfinity), -kInfinity);
  EXPECT_TRUE(std::isnan(Spence<double>(-1e-300)) && std::isnan(Spence<double>(kNan)));
  for (const double x : {kInfinity, 1e300, 1e12}) {
    EXPECT_EQ(Fresnel<double>(x).sine, 0.5);
    EXPECT_EQ(Fresnel<double>(-x).cosine, -0.5);
  }
  EXPECT_TRUE(std::isnan(Fresnel<double>(kNan).sine));
  EXPECT_EQ(Erfinv<double>(1, kInfinity), kInfinity);
}

}  // namespace
}  // namespace tenon::cpu::special_test
