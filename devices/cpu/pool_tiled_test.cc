// SPDX-License-Identifier: Apache-2.0
// Pools of windows side by side, and gradients of such that overlap, against what the definition gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "testing/kernel.h"

namespace tenon::cpu::pool_tiled_test {
namespace {

using I = std::vector<int64_t>;

struct Case {
  int64_t batch, height, width, channels, down, along;
  I in() const { return {batch, height, width, channels}; }
  I out() const { return {batch, height / down, width / along, channels}; }
  std::vector<float> Run(const char* op, uint32_t threads, const std::vector<Tensor>& inputs, const I& to) const {
    Kernel kernel(op, TENON_DT_FLOAT);
    kernel.Attr("ksize", I{1, down, along, 1})
        .Attr("strides", I{1, down, along, 1})
        .Attr("padding", std::string("VALID"))
        .Attr("data_format", std::string("NHWC"));
    const Result result = kernel.Threads(threads).Run(inputs, {Out<float>(to)});
    EXPECT_EQ(result.code, TENON_OK) << result.message;
    return result.code == TENON_OK ? Values<float>(result[0]) : std::vector<float>();
  }
  // function(place of the result, places of its window's cells in their order).
  template <class Function>
  void ForEachWindow(Function&& function) const {
    size_t at = 0;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t oy = 0; oy < height / down; ++oy)
        for (int64_t ox = 0; ox < width / along; ++ox)
          for (int64_t k = 0; k < channels; ++k, ++at) {
            std::vector<size_t> cells;
            for (int64_t y = oy * down; y < (oy + 1) * down; ++y)
              for (int64_t x = ox * along; x < (ox + 1) * along; ++x)
                cells.push_back(static_cast<size_t>(((n * height + y) * width + x) * channels + k));
            function(at, cells);
          }
  }
};

// Few numbers, so that many are equal; some are odd.
std::vector<float> Numbers(size_t count, std::mt19937& random) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(count);
  for (float& v : values) {
    const auto which = random() % 64;
    v = which == 0   ? std::nanf("")
        : which == 1 ? -kInfinity
        : which == 2 ? kInfinity
                     : static_cast<float>(random() % 7) - 3;
  }
  return values;
}

TEST(TiledPool, TakesTheLargestAndGivesTheGradientToTheFirstOfThem) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  std::mt19937 random(3);
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 200; ++i) {
    Case c{number(1, 4), 0, 0, number(0, 3) == 0 ? number(17, 70) : number(1, 16), number(1, 4), number(1, 4)};
    c.height = c.down * number(1, 5) + number(0, c.down - 1),
    c.width = c.along * number(1, 20) + number(0, c.along - 1);
    const auto count = [](const I& d) { return static_cast<size_t>(d[0] * d[1] * d[2] * d[3]); };
    const std::vector<float> x = Numbers(count(c.in()), random), dy = Numbers(count(c.out()), random);
    std::vector<float> y(dy.size(), kLowest), dx(x.size());
    c.ForEachWindow([&](size_t at, const std::vector<size_t>& cells) {
      for (size_t cell : cells) y[at] = x[cell] > y[at] ? x[cell] : y[at];
      const auto first = std::find_if(cells.begin(), cells.end(),
                                      [&](size_t cell) { return (x[cell] > kLowest ? x[cell] : kLowest) == y[at]; });
      dx[*first] = dy[at];
    });
    const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    for (uint32_t threads : {1u, 3u}) {
      ASSERT_EQ(c.Run("MaxPool", threads, {Make<float>(c.in(), x)}, c.out()), y) << i;
      const auto got = c.Run("MaxPoolGrad", threads,
                             {Make<float>(c.in(), x), Make<float>(c.out(), y), Make<float>(c.out(), dy)}, c.in());
      for (size_t k = 0; k < dx.size(); ++k)
        ASSERT_TRUE(same(got[k], dx[k])) << i << " at " << k << ": " << got[k] << ", " << dx[k];
    }
  }
}

// Of channels that fill registers, and of others. Cells of several windows add their gradients up in the order of
// these.
TEST(OverlappingPool, GivesTheGradientToTheFirstOfTheLargest) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  std::mt19937 random(5);
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 120; ++i) {
    const int64_t batch = number(1, 3), size = number(2, 9), channels = i % 3 == 0 ? number(1, 40) : 16 * number(1, 3),
                  window = number(1, 4), stride = number(1, 3);
    const bool same = i % 2 == 0 || size < window;
    const int64_t to = same ? (size + stride - 1) / stride : (size - window) / stride + 1;
    const int64_t before = same ? std::max<int64_t>(0, (to - 1) * stride + window - size) / 2 : 0;
    const I in = {batch, size, size, channels}, out = {batch, to, to, channels};
    const std::vector<float> x = Numbers(static_cast<size_t>(batch * size * size * channels), random),
                             dy = Numbers(static_cast<size_t>(batch * to * to * channels), random);
    std::vector<float> y(dy.size(), kLowest), dx(x.size());
    size_t at = 0;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t oy = 0; oy < to; ++oy)
        for (int64_t ox = 0; ox < to; ++ox)
          for (int64_t k = 0; k < channels; ++k, ++at) {
            std::vector<size_t> cells;
            for (int64_t v = std::max<int64_t>(0, oy * stride - before);
                 v < std::min(size, oy * stride - before + window); ++v)
              for (int64_t u = std::max<int64_t>(0, ox * stride - before);
                   u < std::min(size, ox * stride - before + window); ++u)
                cells.push_back(static_cast<size_t>(((n * size + v) * size + u) * channels + k));
            for (size_t cell : cells) y[at] = x[cell] > y[at] ? x[cell] : y[at];
            const auto first = std::find_if(cells.begin(), cells.end(), [&](size_t cell) {
              return (x[cell] > kLowest ? x[cell] : kLowest) == y[at];
            });
            if (first != cells.end()) dx[*first] += dy[at];
          }
    Kernel kernel("MaxPoolGrad", TENON_DT_FLOAT);
    kernel.Attr("ksize", I{1, window, window, 1})
        .Attr("strides", I{1, stride, stride, 1})
        .Attr("padding", std::string(same ? "SAME" : "VALID"))
        .Attr("data_format", std::string("NHWC"));
    const Result result =
        kernel.Threads(2).Run({Make<float>(in, x), Make<float>(out, y), Make<float>(out, dy)}, {Out<float>(in)});
    ASSERT_EQ(result.code, TENON_OK) << result.message;
    const auto got = Values<float>(result[0]);
    for (size_t k = 0; k < dx.size(); ++k)
      ASSERT_TRUE(got[k] == dx[k] || (std::isnan(got[k]) && std::isnan(dx[k])))
          << i << " at " << k << ": " << got[k] << ", " << dx[k];
  }
}

TEST(Bias, SumsManyRowsOfFewChannels) {
  for (int64_t channels : {1, 3, 6, 16, 32, 33}) {
    for (int64_t rows : {2, 700, 50176, 3 * 8192 + 5}) {
      std::vector<float> x(static_cast<size_t>(rows * channels));
      for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 37 % 101) / 7 - 6;
      std::vector<double> want(static_cast<size_t>(channels));
      for (size_t i = 0; i < x.size(); ++i) want[i % want.size()] += static_cast<double>(x[i]);
      std::vector<float> first;
      for (uint32_t threads : {1u, 2u, 5u}) {
        Kernel kernel("BiasAddGrad");
        kernel.Attr("data_format", std::string("NHWC")).Threads(threads);
        const auto got =
            Values<float>(kernel.Run({Make<float>({1, rows, 1, channels}, x)}, {Out<float>({channels})})[0]);
        for (size_t k = 0; k < want.size(); ++k)
          ASSERT_NEAR(got[k], want[k], 1e-6 * static_cast<double>(rows) * 8)
              << channels << " channels, " << rows << " rows";
        if (first.empty()) first = got;
        EXPECT_EQ(got, first);
      }
    }
  }
}

}  // namespace
}  // namespace tenon::cpu::pool_tiled_test
