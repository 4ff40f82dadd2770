// SPDX-License-Identifier: Apache-2.0
// Quantized numbers beside real ones: what is lost is as little as the ranges say. Covers N6.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "testing/kernel.h"

namespace tenon::cpu::quantized_test {
namespace {

using F = std::vector<float>;

F RandomNumbers(size_t count, float low, float high, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> between(low, high);
  F values(count);
  for (float& value : values) value = between(random);
  return values;
}

Result QuantizeNumbers(const std::vector<int64_t>& dims, const F& values, float low, float high, uint32_t type,
                       const char* mode) {
  Kernel kernel("QuantizeV2", type);
  kernel.Attr("T", Type{type})
      .Attr("mode", std::string(mode))
      .Attr("round_mode", std::string("HALF_AWAY_FROM_ZERO"))
      .Attr("narrow_range", false)
      .Attr("axis", int64_t{-1})
      .Attr("ensure_minimum_range", 0.01f)
      .Threads(3);
  return kernel.Run({Make<float>(dims, values), Scalar(low), Scalar(high)},
                    {Tensor(type, dims), Out<float>(), Out<float>()});
}

Result RealNumbers(const Result& quantized, uint32_t type, const char* mode) {
  Kernel kernel("Dequantize", type);
  kernel.Attr("T", Type{type})
      .Attr("dtype", Type{TENON_DT_FLOAT})
      .Attr("mode", std::string(mode))
      .Attr("narrow_range", false)
      .Attr("axis", int64_t{-1})
      .Threads(3);
  return kernel.Run({quantized[0], quantized[1], quantized[2]}, {Out<float>(quantized[0].dims)});
}

float One(const Tensor& tensor) { return Values<float>(tensor)[0]; }

TEST(Quantized, ComesBackWithinHalfAStepInEveryTypeAndMode) {
  const std::vector<int64_t> dims = {61, 157};  // uneven shares
  const F values = RandomNumbers(61 * 157, -2, 5, 1);
  for (const uint32_t type : {TENON_DT_QINT8, TENON_DT_QUINT8, TENON_DT_QINT16, TENON_DT_QUINT16}) {
    for (const char* mode : {"MIN_COMBINED", "MIN_FIRST", "SCALED"}) {
      if (std::string(mode) == "SCALED" && (type == TENON_DT_QUINT8 || type == TENON_DT_QUINT16))
        continue;  // without negative numbers
      const Result quantized = QuantizeNumbers(dims, values, -2, 5, type, mode);
      ASSERT_EQ(quantized.code, TENON_OK) << quantized.message;
      const Result real = RealNumbers(quantized, type, mode);
      ASSERT_EQ(real.code, TENON_OK) << real.message;
      const float steps = sdk::ElementSize(type) == 1 ? 255 : 65535,
                  step = (One(quantized[2]) - One(quantized[1])) / steps;
      const F got = Values<float>(real[0]);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(got[i], values[i], step * 0.51f + 1e-5f) << mode << " at " << i;
    }
  }
}

TEST(Quantized, NeitherNaNNorInfinityLeavesTheIntegers) {
  const F odd = {std::nanf(""), HUGE_VALF, -HUGE_VALF, 0};
  for (const char* mode : {"MIN_COMBINED", "MIN_FIRST", "SCALED"}) {
    const Result r = QuantizeNumbers({4}, odd, -1, 1, TENON_DT_QINT32, mode);
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    std::vector<int32_t> got(4);
    std::memcpy(got.data(), r[0].bytes.data(), 16);
    EXPECT_EQ(got[0], std::numeric_limits<int32_t>::lowest()) << mode;
    EXPECT_GT(got[1], 2'147'000'000) << mode;
    EXPECT_LT(got[2], -2'147'000'000) << mode;
  }
}

// The real numbers of a 32-bit result.
F Unpacked(const Result& r) {
  std::vector<int32_t> integers(static_cast<size_t>(r[0].count()));
  std::memcpy(integers.data(), r[0].bytes.data(), integers.size() * 4);
  F values;
  const double level = (static_cast<double>(One(r[2])) - static_cast<double>(One(r[1]))) / 4294967295.0;
  for (int32_t integer : integers) values.push_back(static_cast<float>(integer * level));
  return values;
}

TEST(Quantized, AProductIsThatOfTheNumbersWithinTheirSteps) {
  for (const auto& [m, n, k] : {std::tuple{1, 1, 1}, {7, 33, 20}, {64, 50, 129}, {3, 5, 0}, {4, 6, 700}}) {
    for (int turn = 0; turn < 4; ++turn) {
      const bool ta = turn & 1, tb = turn & 2;
      const F a = RandomNumbers(static_cast<size_t>(m * k), -1, 3, 2),
              b = RandomNumbers(static_cast<size_t>(k * n), -0.5f, 0.25f, 3);
      const std::vector<int64_t> a_dims = ta ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k},
                                 b_dims = tb ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
      const Result qa = QuantizeNumbers(a_dims, a, -1, 3, TENON_DT_QUINT8, "MIN_FIRST"),
                   qb = QuantizeNumbers(b_dims, b, -0.5f, 0.25f, TENON_DT_QUINT8, "MIN_FIRST");
      Kernel kernel("QuantizedMatMul", TENON_DT_QUINT8);
      kernel.Attr("transpose_a", ta).Attr("transpose_b", tb).Threads(3);
      const Result r = kernel.Run({qa[0], qb[0], qa[1], qa[2], qb[1], qb[2]},
                                  {Tensor(TENON_DT_QINT32, {m, n}), Out<float>(), Out<float>()});
      ASSERT_EQ(r.code, TENON_OK) << r.message;
      const F got = Unpacked(r);
      const float bound = static_cast<float>(k) * (4.0f / 255 * 0.5f + 0.75f / 255 * 3) + 1e-5f;
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          float sum = 0;
          for (int l = 0; l < k; ++l)
            sum +=
                a[static_cast<size_t>(ta ? l * m + i : i * k + l)] * b[static_cast<size_t>(tb ? j * k + l : l * n + j)];
          ASSERT_NEAR(got[static_cast<size_t>(i * n + j)], sum, bound) << m << "x" << n << "x" << k << " " << turn;
        }
    }
  }
}

// The largest sums that there are, in more than one piece, and zeros that are no bytes: sums wrap.
TEST(Quantized, AProductIsExactToTheLastInteger) {
  const int64_t k = 1000;
  for (const auto& [low, high] : {std::pair{0.f, 1.f}, {-1.f, 0.f}, {5.f, 5.5f}}) {
    std::vector<uint8_t> a(static_cast<size_t>(k)), b(static_cast<size_t>(k));
    for (size_t i = 0; i < a.size(); ++i)
      a[i] = static_cast<uint8_t>(low < 0 ? i % 2 : 255 - i % 3),
      b[i] = static_cast<uint8_t>(low < 0 ? i % 3 : 255 - i % 2);
    Kernel kernel("QuantizedMatMul", TENON_DT_QUINT8);
    kernel.Attr("transpose_a", false).Attr("transpose_b", false);
    const Result r = kernel.Run({Make<uint8_t>({1, k}, a, TENON_DT_QUINT8), Make<uint8_t>({k, 1}, b, TENON_DT_QUINT8),
                                 Scalar(low), Scalar(high), Scalar(low), Scalar(high)},
                                {Tensor(TENON_DT_QINT32, {1, 1}), Out<float>(), Out<float>()});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    const int64_t zero = std::llround(-low * 255 / (high - low));
    int64_t sum = 0;
    for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - zero) * (b[i] - zero);
    int32_t got;
    std::memcpy(&got, r[0].bytes.data(), 4);
    EXPECT_EQ(got, static_cast<int32_t>(sum)) << low;
  }
}

TEST(Quantized, AConvolutionIsAProductOfItsPatches) {
  // 2 x 2 windows at stride 2 over 4 x 4 pixels are a product of [4, 2 * 2 * 3] with [2 * 2 * 3, 5].
  std::vector<uint8_t> pixels(4 * 4 * 3), weights(2 * 2 * 3 * 5);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<uint8_t>(i * 101 + 7);
  Kernel conv("QuantizedConv2D", TENON_DT_QUINT8);
  conv.Attr("strides", std::vector<int64_t>{1, 2, 2, 1})
      .Attr("dilations", std::vector<int64_t>{1, 1, 1, 1})
      .Attr("padding", std::string("VALID"))
      .Threads(3);
  const std::vector<Tensor> range = {Scalar(-1.f), Scalar(2.f), Scalar(-3.f), Scalar(0.5f)};
  const Result r =
      conv.Run({Make<uint8_t>({1, 4, 4, 3}, pixels, TENON_DT_QUINT8),
                Make<uint8_t>({2, 2, 3, 5}, weights, TENON_DT_QUINT8), range[0], range[1], range[2], range[3]},
               {Tensor(TENON_DT_QINT32, {1, 2, 2, 5}), Out<float>(), Out<float>()});
  ASSERT_EQ(r.code, TENON_OK) << r.message;
  std::vector<uint8_t> patches;
  for (size_t row = 0; row < 4; row += 2)
    for (size_t column = 0; column < 4; column += 2)
      for (size_t y = row; y < row + 2; ++y)
        for (size_t x = column; x < column + 2; ++x)
          for (size_t c = 0; c < 3; ++c) patches.push_back(pixels[(y * 4 + x) * 3 + c]);
  Kernel product("QuantizedMatMul", TENON_DT_QUINT8);
  product.Attr("transpose_a", false).Attr("transpose_b", false);
  const Result want =
      product.Run({Make<uint8_t>({4, 12}, patches, TENON_DT_QUINT8), Make<uint8_t>({12, 5}, weights, TENON_DT_QUINT8),
                   range[0], range[1], range[2], range[3]},
                  {Tensor(TENON_DT_QINT32, {4, 5}), Out<float>(), Out<float>()});
  ASSERT_EQ(want.code, TENON_OK) << want.message;
  EXPECT_EQ(r[0].bytes, want[0].bytes);
  EXPECT_EQ(One(r[1]), One(want[1]));
  EXPECT_EQ(One(r[2]), One(want[2]));
}

}  // namespace
}  // namespace tenon::cpu::quantized_test
