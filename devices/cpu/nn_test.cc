// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "testing/kernel.h"

namespace tenon::cpu::nn_test {
namespace {

using F = std::vector<float>;
using I = std::vector<int64_t>;

template <class T>
std::vector<T> Small(int64_t n, int64_t seed) {
  std::vector<T> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<T>((i * 7 + i / 5 + seed * 3) % 11 - 5));
  return v;
}

struct ConvCase {
  int64_t batch, height, width, in, kh, kw, out, stride, dilation, groups;
  std::string padding;
  bool channels_first;
};

struct Geometry {
  int64_t oh, ow, top, left;
};
Geometry GeometryOf(const ConvCase& c) {
  const int64_t rh = (c.kh - 1) * c.dilation + 1, rw = (c.kw - 1) * c.dilation + 1;
  if (c.padding == "SAME") {
    const int64_t oh = (c.height + c.stride - 1) / c.stride, ow = (c.width + c.stride - 1) / c.stride;
    return {oh, ow, std::max<int64_t>(0, (oh - 1) * c.stride + rh - c.height) / 2,
            std::max<int64_t>(0, (ow - 1) * c.stride + rw - c.width) / 2};
  }
  const int64_t pad = c.padding == "EXPLICIT" ? 1 : 0;  // 1 before, 2 after
  const int64_t more = c.padding == "EXPLICIT" ? 3 : 0;
  return {(c.height + more - rh) / c.stride + 1, (c.width + more - rw) / c.stride + 1, pad, pad};
}

int64_t At(const ConvCase& c, int64_t n, int64_t y, int64_t x, int64_t k, int64_t h, int64_t w, int64_t channels) {
  return c.channels_first ? ((n * channels + k) * h + y) * w + x : ((n * h + y) * w + x) * channels + k;
}

// Calls f(input index, filter index, output index) for every product of the convolution.
template <class Function>
void ForEachProduct(const ConvCase& c, Function&& f) {
  const Geometry g = GeometryOf(c);
  const int64_t in_group = c.in / c.groups, out_group = c.out / c.groups;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t oy = 0; oy < g.oh; ++oy)
      for (int64_t ox = 0; ox < g.ow; ++ox)
        for (int64_t ky = 0; ky < c.kh; ++ky)
          for (int64_t kx = 0; kx < c.kw; ++kx) {
            const int64_t y = oy * c.stride + ky * c.dilation - g.top, x = ox * c.stride + kx * c.dilation - g.left;
            if (y < 0 || y >= c.height || x < 0 || x >= c.width) continue;
            for (int64_t o = 0; o < c.out; ++o)
              for (int64_t i = 0; i < in_group; ++i)
                f(static_cast<size_t>(At(c, n, y, x, o / out_group * in_group + i, c.height, c.width, c.in)),
                  static_cast<size_t>(((ky * c.kw + kx) * in_group + i) * c.out + o),
                  static_cast<size_t>(At(c, n, oy, ox, o, g.oh, g.ow, c.out)));
          }
}

class ConvTest : public ::testing::TestWithParam<ConvCase> {
 protected:
  Kernel Configured(const char* op, uint32_t threads) const {
    const ConvCase& c = GetParam();
    const auto four = [&](int64_t v) { return c.channels_first ? I{1, 1, v, v} : I{1, v, v, 1}; };
    Kernel kernel(op);
    kernel.Attr("strides", four(c.stride)).Attr("dilations", four(c.dilation)).Attr("padding", c.padding);
    kernel.Attr("data_format", std::string(c.channels_first ? "NCHW" : "NHWC")).Threads(threads);
    kernel.Attr("explicit_paddings", c.padding != "EXPLICIT" ? I{}
                                     : c.channels_first      ? I{0, 0, 0, 0, 1, 2, 1, 2}
                                                             : I{0, 0, 1, 2, 1, 2, 0, 0});
    return kernel;
  }
  template <class T>
  void Check() const {
    const ConvCase& c = GetParam();
    const Geometry g = GeometryOf(c);
    const I x_dims = c.channels_first ? I{c.batch, c.in, c.height, c.width} : I{c.batch, c.height, c.width, c.in};
    const I y_dims = c.channels_first ? I{c.batch, c.out, g.oh, g.ow} : I{c.batch, g.oh, g.ow, c.out};
    const I w_dims = {c.kh, c.kw, c.in / c.groups, c.out};
    const auto x = Small<T>(c.batch * c.height * c.width * c.in, 1),
               w = Small<T>(c.kh * c.kw * c.in / c.groups * c.out, 2);
    const auto dy = Small<T>(c.batch * g.oh * g.ow * c.out, 3);
    std::vector<T> y(dy.size()), dx(x.size()), dw(w.size());
    ForEachProduct(c, [&](size_t i, size_t f, size_t o) {
      y[o] += x[i] * w[f];
      dx[i] += dy[o] * w[f];
      dw[f] += x[i] * dy[o];
    });
    const auto vec = [](const I& d) { return Vector<int32_t>(std::vector<int32_t>(d.begin(), d.end())); };
    for (uint32_t threads : {1u, 2u, 3u}) {
      const Result forward =
          Configured("Conv2D", threads).Run({Make<T>(x_dims, x), Make<T>(w_dims, w)}, {Out<T>(y_dims)});
      ASSERT_EQ(forward.code, TENON_OK) << forward.message;
      EXPECT_EQ(Values<T>(forward[0]), y);
      const Result input = Configured("Conv2DBackpropInput", threads)
                               .Run({vec(x_dims), Make<T>(w_dims, w), Make<T>(y_dims, dy)}, {Out<T>(x_dims)});
      ASSERT_EQ(input.code, TENON_OK) << input.message;
      EXPECT_EQ(Values<T>(input[0]), dx);
      const Result filter = Configured("Conv2DBackpropFilter", threads)
                                .Run({Make<T>(x_dims, x), vec(w_dims), Make<T>(y_dims, dy)}, {Out<T>(w_dims)});
      ASSERT_EQ(filter.code, TENON_OK) << filter.message;
      EXPECT_EQ(Values<T>(filter[0]), dw);
    }
  }
};

// Thirds, so that another order of summation gives other bits.
TEST_P(ConvTest, GivesTheSameBitsHoweverItIsShared) {
  const ConvCase& c = GetParam();
  const Geometry g = GeometryOf(c);
  const I x_dims = c.channels_first ? I{c.batch, c.in, c.height, c.width} : I{c.batch, c.height, c.width, c.in};
  const I y_dims = c.channels_first ? I{c.batch, c.out, g.oh, g.ow} : I{c.batch, g.oh, g.ow, c.out};
  const I w_dims = {c.kh, c.kw, c.in / c.groups, c.out};
  const auto thirds = [](I dims, int64_t seed) {
    int64_t n = 1;
    for (int64_t d : dims) n *= d;
    auto v = Small<float>(n, seed);
    for (float& value : v) value /= 3;
    return Make<float>(dims, v);
  };
  const Tensor x = thirds(x_dims, 1), w = thirds(w_dims, 2), dy = thirds(y_dims, 3),
               sizes = Vector<int32_t>({0, 0, 0, 0});
  const auto all = [&](uint32_t threads) {
    return std::vector{
        Values<float>(Configured("Conv2D", threads).Run({x, w}, {Out<float>(y_dims)})[0]),
        Values<float>(Configured("Conv2DBackpropInput", threads).Run({sizes, w, dy}, {Out<float>(x_dims)})[0]),
        Values<float>(Configured("Conv2DBackpropFilter", threads).Run({x, sizes, dy}, {Out<float>(w_dims)})[0])};
  };
  const auto one = all(1);
  for (uint32_t threads : {2u, 3u, 7u}) EXPECT_EQ(one, all(threads)) << threads;
}

TEST_P(ConvTest, AndItsGradientsGiveTheNaiveAnswer) { Check<float>(); }
TEST_P(ConvTest, WorksInDouble) { Check<double>(); }

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConvTest,
    ::testing::Values(
        ConvCase{2, 8, 8, 1, 3, 3, 16, 1, 1, 1, "SAME", false}, ConvCase{3, 8, 8, 16, 3, 3, 32, 1, 1, 1, "SAME", false},
        ConvCase{2, 8, 8, 16, 3, 3, 32, 1, 1, 1, "SAME", true}, ConvCase{1, 5, 7, 3, 1, 1, 4, 1, 1, 1, "VALID", false},
        ConvCase{2, 7, 6, 3, 3, 2, 5, 2, 1, 1, "SAME", false}, ConvCase{2, 7, 6, 3, 3, 2, 5, 2, 1, 1, "VALID", true},
        ConvCase{2, 9, 9, 2, 3, 3, 3, 1, 2, 1, "SAME", false}, ConvCase{1, 9, 8, 2, 3, 3, 3, 2, 2, 1, "VALID", false},
        ConvCase{2, 6, 6, 4, 3, 3, 6, 1, 1, 2, "SAME", false}, ConvCase{1, 6, 6, 4, 3, 3, 8, 2, 1, 4, "SAME", true},
        ConvCase{2, 5, 5, 2, 3, 3, 3, 2, 1, 1, "EXPLICIT", false},
        ConvCase{2, 5, 5, 2, 2, 2, 3, 1, 1, 1, "EXPLICIT", true}, ConvCase{1, 4, 4, 3, 1, 1, 5, 2, 1, 1, "SAME", false},
        ConvCase{0, 4, 4, 3, 3, 3, 5, 1, 1, 1, "SAME", false},
        ConvCase{2, 12, 12, 24, 5, 5, 40, 1, 1, 1, "SAME", false},
        ConvCase{1, 3, 3, 2, 3, 3, 130, 1, 1, 1, "VALID", false},
        // Several blocks, chunks and shares.
        ConvCase{3, 12, 12, 24, 5, 5, 40, 1, 1, 1, "SAME", true},
        ConvCase{1, 17, 17, 24, 3, 3, 64, 1, 1, 1, "SAME", false},
        ConvCase{1, 17, 17, 24, 3, 3, 64, 1, 1, 1, "SAME", true},
        ConvCase{2, 51, 51, 8, 3, 3, 8, 1, 1, 1, "SAME", false}, ConvCase{2, 51, 51, 8, 3, 3, 8, 1, 1, 1, "SAME", true},
        ConvCase{7, 27, 27, 1, 3, 3, 16, 1, 1, 1, "SAME", false},
        ConvCase{5, 15, 15, 16, 1, 1, 32, 1, 1, 1, "SAME", false},
        ConvCase{5, 15, 15, 16, 1, 1, 32, 1, 1, 2, "SAME", true}, ConvCase{2, 6, 6, 4, 1, 1, 6, 1, 1, 2, "SAME", false},
        ConvCase{2, 6, 6, 1, 1, 1, 6, 1, 1, 1, "SAME", false}, ConvCase{2, 1, 1, 3, 3, 3, 5, 1, 1, 1, "SAME", true},
        ConvCase{2, 1, 1, 1, 3, 3, 5, 1, 1, 1, "SAME", false}, ConvCase{1, 2, 9, 3, 3, 5, 5, 3, 1, 1, "SAME", true},
        ConvCase{1, 2, 9, 1, 3, 5, 5, 3, 1, 1, "SAME", false}));

TEST(Conv, RefusesShapesAndAttributesThatDoNotFit) {
  const auto run = [](I strides, std::string padding, I filter, I out) {
    Kernel kernel("Conv2D");
    kernel.Attr("strides", strides).Attr("padding", padding).Attr("data_format", std::string("NHWC"));
    int64_t n = 1;
    for (int64_t d : filter) n *= d;
    return kernel.Run({Make<float>({1, 4, 4, 2}, F(32)), Make<float>(filter, F(static_cast<size_t>(n)))},
                      {Out<float>(out)});
  };
  EXPECT_EQ(run({1, 1, 1, 1}, "SAME", {3, 3, 2, 1}, {1, 4, 4, 1}).code, TENON_OK);
  EXPECT_EQ(run({1, 1, 1, 1}, "SAME", {3, 3, 3, 1}, {1, 4, 4, 1}).message,
            "a filter of shape [3,3,3,1] does not fit images of 2 channels");
  EXPECT_EQ(run({1, 1, 1, 1}, "VALID", {3, 3, 2, 1}, {1, 4, 4, 1}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(run({2, 1, 1, 1}, "SAME", {3, 3, 2, 1}, {1, 4, 4, 1}).code, TENON_UNIMPLEMENTED);
  EXPECT_EQ(run({1, 0, 1, 1}, "SAME", {3, 3, 2, 1}, {1, 4, 4, 1}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(run({1, 1, 1}, "SAME", {3, 3, 2, 1}, {1, 4, 4, 1}).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(run({1, 1, 1, 1}, "ROUND", {3, 3, 2, 1}, {1, 4, 4, 1}).code, TENON_INVALID_ARGUMENT);
}

Kernel Pool(const char* op, int64_t size, int64_t stride, const std::string& padding, bool channels_first) {
  const auto four = [&](int64_t v) { return channels_first ? I{1, 1, v, v} : I{1, v, v, 1}; };
  Kernel kernel(op);
  kernel.Attr("ksize", four(size)).Attr("strides", four(stride)).Attr("padding", padding);
  kernel.Attr("data_format", std::string(channels_first ? "NCHW" : "NHWC"));
  return kernel;
}

TEST(Pool, TakesMaximaAndAveragesWithoutThePadding) {
  // 3 x 3, stride 2, SAME: windows of 2 x 2, cut at the border.
  const F x = {-1, -2, -3, -4, -5, -6, -7, -8, -9};
  for (bool first : {false, true}) {
    const I in = first ? I{1, 1, 3, 3} : I{1, 3, 3, 1}, out = first ? I{1, 1, 2, 2} : I{1, 2, 2, 1};
    EXPECT_EQ(Values<float>(Pool("MaxPool", 2, 2, "SAME", first).Run({Make<float>(in, x)}, {Out<float>(out)})[0]),
              (F{-1, -3, -7, -9}));
    EXPECT_EQ(Values<float>(Pool("AvgPool", 2, 2, "SAME", first).Run({Make<float>(in, x)}, {Out<float>(out)})[0]),
              (F{-3, -4.5f, -7.5f, -9}));
    const Tensor dy = Make<float>(out, {1, 2, 3, 4});
    EXPECT_EQ(
        Values<float>(Pool("MaxPoolGrad", 2, 2, "SAME", first)
                          .Run({Make<float>(in, x), Make<float>(out, {-1, -3, -7, -9}), dy}, {Out<float>(in)})[0]),
        (F{1, 0, 2, 0, 0, 0, 3, 0, 4}));
    const std::vector<int32_t> in32(in.begin(), in.end());
    EXPECT_EQ(
        Values<float>(Pool("AvgPoolGrad", 2, 2, "SAME", first).Run({Vector<int32_t>(in32), dy}, {Out<float>(in)})[0]),
        (F{0.25f, 0.25f, 1, 0.25f, 0.25f, 1, 1.5f, 1.5f, 4}));
  }
}

TEST(Pool, SendsAGradientToTheFirstOfEqualMaxima) {
  EXPECT_EQ(Values<float>(Pool("MaxPoolGrad", 2, 2, "VALID", false)
                              .Run({Make<float>({1, 2, 2, 1}, {5, 5, 5, 5}), Make<float>({1, 1, 1, 1}, {5}),
                                    Make<float>({1, 1, 1, 1}, {7})},
                                   {Out<float>({1, 2, 2, 1})})[0]),
            (F{7, 0, 0, 0}));
}

TEST(Pool, WorksOnManyChannelsAndOverlappingWindows) {
  const int64_t c = 70;
  const auto x = Small<float>(2 * 5 * 5 * c, 4);
  const auto got = Values<float>(
      Pool("MaxPool", 3, 1, "VALID", false).Run({Make<float>({2, 5, 5, c}, x)}, {Out<float>({2, 3, 3, c})})[0]);
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t y = 0; y < 3; ++y)
      for (int64_t z = 0; z < 3; ++z)
        for (int64_t k = 0; k < c; ++k) {
          float max = -1e30f;
          for (int64_t a = 0; a < 3; ++a)
            for (int64_t b = 0; b < 3; ++b)
              max = std::max(max, x[static_cast<size_t>(((n * 5 + y + a) * 5 + z + b) * c + k)]);
          ASSERT_EQ(got[static_cast<size_t>(((n * 3 + y) * 3 + z) * c + k)], max);
        }
}

TEST(Softmax, SumsToOneAndSurvivesLargeLogits) {
  for (int64_t n : {1, 3, 10, 16, 17, 100}) {
    F x;
    for (int64_t i = 0; i < 2 * n; ++i) x.push_back(1000.f + static_cast<float>(i * 5 % 7));
    const auto p = Values<float>(Kernel("Softmax").Run({Make<float>({2, n}, x)}, {Out<float>({2, n})})[0]);
    const auto l = Values<float>(Kernel("LogSoftmax").Run({Make<float>({2, n}, x)}, {Out<float>({2, n})})[0]);
    for (int64_t r = 0; r < 2; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[static_cast<size_t>(r * n + i)]) - 1000.0);
      for (int64_t i = 0; i < n; ++i) {
        const double want = std::exp(static_cast<double>(x[static_cast<size_t>(r * n + i)]) - 1000.0) / sum;
        EXPECT_NEAR(p[static_cast<size_t>(r * n + i)], want, 1e-6);
        EXPECT_NEAR(l[static_cast<size_t>(r * n + i)], std::log(want), 2e-5);
      }
    }
  }
}

TEST(Softmax, GivesZeroToMinusInfinityAndNanToARowWithANan) {
  const float inf = std::numeric_limits<float>::infinity();
  const auto p =
      Values<float>(Kernel("Softmax").Run({Make<float>({2, 2}, {-inf, 0, std::nanf(""), 0})}, {Out<float>({2, 2})})[0]);
  EXPECT_EQ(p[0], 0);
  EXPECT_EQ(p[1], 1);
  EXPECT_TRUE(std::isnan(p[2]) && std::isnan(p[3]));
}

TEST(CrossEntropy, GivesLossAndGradient) {
  const Tensor logits = Make<float>({2, 3}, {1, 2, 3, 0, 0, 0});
  const Result sparse = Kernel("SparseSoftmaxCrossEntropyWithLogits")
                            .Run({logits, Vector<int32_t>({2, 0})}, {Out<float>({2}), Out<float>({2, 3})});
  const Result dense =
      Kernel("SoftmaxCrossEntropyWithLogits")
          .Run({logits, Make<float>({2, 3}, {0, 0, 1, 1, 0, 0})}, {Out<float>({2}), Out<float>({2, 3})});
  ASSERT_EQ(sparse.code, TENON_OK) << sparse.message;
  ASSERT_EQ(dense.code, TENON_OK) << dense.message;
  const double z = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  const double loss[2] = {std::log(z) - 3, std::log(3.0)};
  const double back[6] = {std::exp(1.0) / z, std::exp(2.0) / z, std::exp(3.0) / z - 1, 1.0 / 3 - 1, 1.0 / 3, 1.0 / 3};
  for (const Result* r : {&sparse, &dense}) {
    for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(Values<float>((*r)[0])[i], loss[i], 1e-6);
    for (size_t i = 0; i < 6; ++i) EXPECT_NEAR(Values<float>((*r)[1])[i], back[i], 1e-6);
  }
  const Result bad = Kernel("SparseSoftmaxCrossEntropyWithLogits")
                         .Run({logits, Vector<int64_t>({2, 3})}, {Out<float>({2}), Out<float>({2, 3})});
  EXPECT_EQ(bad.code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(bad.message, "Received a label value of 3 which is outside the valid range of [0, 3); it is label 1");
}

TEST(CrossEntropy, BroadcastsLabels) {
  const Result r =
      Kernel("SoftmaxCrossEntropyWithLogits")
          .Run({Make<float>({2, 2}, {0, 0, 0, 0}), Make<float>({1, 2}, {1, 0})}, {Out<float>({2}), Out<float>({2, 2})});
  EXPECT_NEAR(Values<float>(r[0])[1], std::log(2.0), 1e-6);
  EXPECT_NEAR(Values<float>(r[1])[2], -0.5, 1e-6);
}

TEST(Bias, AddsAndSumsOverEverythingButTheChannels) {
  const Tensor x = Make<float>({1, 2, 1, 3}, {1, 2, 3, 4, 5, 6});
  const auto add = [&](const char* format, F bias) {
    Kernel kernel("BiasAdd");
    kernel.Attr("data_format", std::string(format));
    return Values<float>(kernel.Run({x, Vector<float>(bias)}, {Out<float>({1, 2, 1, 3})})[0]);
  };
  EXPECT_EQ(add("NHWC", {10, 20, 30}), (F{11, 22, 33, 14, 25, 36}));
  EXPECT_EQ(add("NCHW", {10, 20}), (F{11, 12, 13, 24, 25, 26}));
  const auto grad = [&](const char* format, int64_t n) {
    Kernel kernel("BiasAddGrad");
    kernel.Attr("data_format", std::string(format));
    return Values<float>(kernel.Run({x}, {Out<float>({n})})[0]);
  };
  EXPECT_EQ(grad("NHWC", 3), (F{5, 7, 9}));
  EXPECT_EQ(grad("NCHW", 2), (F{6, 15}));
  Kernel kernel("BiasAdd");
  kernel.Attr("data_format", std::string("NHWC"));
  EXPECT_EQ(kernel.Run({x, Vector<float>({1, 2})}, {Out<float>({1, 2, 1, 3})}).code, TENON_INVALID_ARGUMENT);
}

TEST(Loss, SumsManySquaresWithTheSameBitsWhateverTheThreads) {
  F x(200003);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 13) - 6;
  double want = 0;
  for (float v : x) want += v * v / 2.;
  const auto loss = [&](uint32_t threads) {
    return Values<float>(Kernel("L2Loss").Threads(threads).Run({Vector<float>(x)}, {Out<float>()})[0])[0];
  };
  EXPECT_EQ(loss(1), static_cast<float>(want));
  for (float& v : x) v *= 0.1f;
  EXPECT_EQ(loss(1), loss(4));
}

TEST(Loss, HalvesTheSquaresAndRanksPredictions) {
  EXPECT_EQ(Values<float>(Kernel("L2Loss").Run({Vector<float>({1, 2, 3})}, {Out<float>()})[0])[0], 7);
  const Tensor p = Make<float>({3, 3}, {0.1f, 0.7f, 0.2f, 0.5f, 0.5f, 0.0f, 0.2f, INFINITY, 0.1f});
  EXPECT_EQ(
      Values<uint8_t>(Kernel("InTopKV2").Run({p, Vector<int32_t>({2, 1, 0}), Scalar<int32_t>(1)}, {Out<bool>({3})})[0]),
      (std::vector<uint8_t>{0, 1, 0}));
  EXPECT_EQ(Values<uint8_t>(
                Kernel("InTopKV2").Run({p, Vector<int64_t>({2, 5, -1}), Scalar<int64_t>(2)}, {Out<bool>({3})})[0]),
            (std::vector<uint8_t>{1, 0, 0}));
}

TEST(Depthwise, FollowsItsFormulaAndSoDoItsGradients) {
  for (auto [size, window, stride, channels, multiplier] : std::vector<std::array<int64_t, 5>>{{9, 3, 1, 37, 1},
                                                                                               {9, 3, 2, 16, 1},
                                                                                               {8, 3, 2, 5, 1},
                                                                                               {40, 3, 1, 2, 1},
                                                                                               {7, 3, 1, 3, 2},
                                                                                               {6, 2, 1, 4, 1},
                                                                                               {5, 5, 1, 4, 1},
                                                                                               {2, 3, 1, 4, 1}}) {
    for (const char* padding : {"SAME", "VALID"}) {
      const bool same = padding[0] == 'S';
      if (!same && size < window) continue;
      const int64_t to = same ? (size + stride - 1) / stride : (size - window) / stride + 1,
                    out_channels = channels * multiplier;
      const int64_t before = same ? std::max<int64_t>(0, (to - 1) * stride + window - size) / 2 : 0;
      const I x_dims = {2, size, size, channels}, f_dims = {window, window, channels, multiplier},
              y_dims = {2, to, to, out_channels};
      const auto numbers = [](const I& dims, int64_t salt) {
        F v(static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]));
        for (size_t i = 0; i < v.size(); ++i)
          v[i] = static_cast<float>((static_cast<int64_t>(i) * 7 + salt) % 11 - 5) / 4;
        return v;
      };
      const F x = numbers(x_dims, 0), f = numbers(f_dims, 3), dy = numbers(y_dims, 5);
      F y(dy.size()), dx(x.size()), df(f.size());
      for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) {
        const int64_t k = i % out_channels, ox = i / out_channels % to, oy = i / out_channels / to % to,
                      n = i / out_channels / to / to;
        for (int64_t tap = 0; tap < window * window; ++tap) {
          const int64_t iy = oy * stride - before + tap / window, ix = ox * stride - before + tap % window;
          if (iy < 0 || ix < 0 || iy >= size || ix >= size) continue;
          const auto from = static_cast<size_t>(((n * size + iy) * size + ix) * channels + k / multiplier),
                     by = static_cast<size_t>(tap * out_channels + k), at = static_cast<size_t>(i);
          y[at] += x[from] * f[by], dx[from] += dy[at] * f[by], df[by] += dy[at] * x[from];
        }
      }
      const auto run = [&](const char* op, std::vector<Tensor> inputs, const I& dims) {
        Kernel kernel(op);
        kernel.Attr("strides", I{1, stride, stride, 1})
            .Attr("padding", std::string(padding))
            .Attr("data_format", std::string("NHWC"))
            .Attr("dilations", I{1, 1, 1, 1});
        return Values<float>(kernel.Threads(2).Run(std::move(inputs), {Out<float>(dims)})[0]);
      };
      const auto ints = [](const I& dims) { return Vector<int32_t>(std::vector<int32_t>(dims.begin(), dims.end())); };
      EXPECT_EQ(run("DepthwiseConv2dNative", {Make<float>(x_dims, x), Make<float>(f_dims, f)}, y_dims), y)
          << size << " " << window << padding;
      EXPECT_EQ(run("DepthwiseConv2dNativeBackpropInput",
                    {ints(x_dims), Make<float>(f_dims, f), Make<float>(y_dims, dy)}, x_dims),
                dx)
          << size << " " << window << padding;
      EXPECT_EQ(run("DepthwiseConv2dNativeBackpropFilter",
                    {Make<float>(x_dims, x), ints(f_dims), Make<float>(y_dims, dy)}, f_dims),
                df)
          << size << " " << window << padding;
    }
  }
}

TEST(Lrn, FollowsItsFormulaForAnyWindowAndNumberOfChannels) {
  for (int64_t channels : {1, 3, 64, 130}) {
    for (int64_t radius : {0, 2, 5, 70}) {
      for (float beta : {0.5f, 1.f, 0.75f}) {
        std::vector<float> x, dy, y;
        for (int64_t i = 0; i < 2 * channels; ++i)
          x.push_back(static_cast<float>(i * 7 % 11 - 5) / 4), dy.push_back(static_cast<float>(i * 5 % 7 - 3) / 2);
        const auto configure = [&](Kernel& k) {
          k.Attr("depth_radius", radius).Attr("bias", 1.5f).Attr("alpha", 0.3f).Attr("beta", beta);
        };
        const auto near = [&](int64_t k, int64_t i) {
          return k / channels == i / channels && std::abs(k - i) <= radius;
        };
        const auto norm = [&](int64_t k) {
          double sum = 0;
          for (int64_t i = 0; i < 2 * channels; ++i) sum += near(k, i) ? std::pow(x[static_cast<size_t>(i)], 2.) : 0.;
          return 1.5 + 0.3f * sum;
        };
        Kernel forward("LRN"), backward("LRNGrad");
        configure(forward), configure(backward);
        const std::vector<int64_t> dims = {1, 2, 1, channels};
        y = Values<float>(forward.Threads(2).Run({Make<float>(dims, x)}, {Out<float>(dims)})[0]);
        const auto dx = Values<float>(backward.Threads(2).Run(
            {Make<float>(dims, dy), Make<float>(dims, x), Make<float>(dims, y)}, {Out<float>(dims)})[0]);
        for (int64_t k = 0; k < 2 * channels; ++k) {
          const auto at = static_cast<size_t>(k);
          ASSERT_NEAR(y[at], x[at] * std::pow(norm(k), -beta), 1e-5) << channels << " " << radius;
          double want = dy[at] * std::pow(norm(k), -beta);
          for (int64_t i = 0; i < 2 * channels; ++i) {
            const auto j = static_cast<size_t>(i);
            if (near(k, i)) want -= 2 * 0.3f * beta * x[at] * y[j] * dy[j] / norm(i);
          }
          ASSERT_NEAR(dx[at], want, 1e-4) << channels << " " << radius;
        }
      }
    }
  }
}

std::vector<int32_t> PlacesOfTopK(const std::vector<float>& x, int64_t k, bool sorted) {
  Kernel kernel("TopKV2");
  kernel.Attr("sorted", sorted);
  const Result r =
      kernel.Run({Vector<float>(x), Scalar<int32_t>(static_cast<int32_t>(k))}, {Out<float>({k}), Out<int32_t>({k})});
  EXPECT_EQ(r.code, TENON_OK) << r.message;
  return Values<int32_t>(r[1]);
}

TEST(TopK, GivesTheLargestInOrderTheFirstOfEqualOnes) {
  for (int64_t n : {5, 64, 200, 333}) {
    for (int64_t k : {int64_t{1}, int64_t{4}, std::min<int64_t>(n, 32), std::min<int64_t>(n, 40), n}) {
      std::vector<float> x;
      for (int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i * 37 % 101));
      std::vector<int32_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int32_t a, int32_t b) { return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)]; });
      order.resize(static_cast<size_t>(k));
      EXPECT_EQ(PlacesOfTopK(x, k, true), order) << n << " " << k;
    }
  }
}

// What TensorFlow answers to these.
TEST(TopK, AsksOfRowsWithNanWhatTensorFlowAsks) {
  const float n = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> first = {n, 2, 1, 3}, middle = {1, n, 3, 2}, last = {3, 2, 1, n},
                           many = {1, 2, n, n, 3, 4, n};
  using Places = std::vector<int32_t>;
  EXPECT_EQ(PlacesOfTopK(first, 1, true), (Places{3}));
  EXPECT_EQ(PlacesOfTopK(first, 2, true), (Places{0, 3}));
  EXPECT_EQ(PlacesOfTopK(first, 4, true), (Places{0, 3, 1, 2}));
  EXPECT_EQ(PlacesOfTopK(middle, 2, true), (Places{1, 2}));
  EXPECT_EQ(PlacesOfTopK(middle, 3, false), (Places{0, 1, 2}));
  EXPECT_EQ(PlacesOfTopK(middle, 4, true), (Places{2, 0, 1, 3}));
  EXPECT_EQ(PlacesOfTopK(last, 2, true), (Places{0, 1}));
  EXPECT_EQ(PlacesOfTopK(last, 4, true), (Places{0, 1, 2, 3}));
  EXPECT_EQ(PlacesOfTopK(many, 2, true), (Places{5, 4}));
  EXPECT_EQ(PlacesOfTopK(many, 4, true), (Places{5, 4, 1, 3}));
  EXPECT_EQ(PlacesOfTopK(many, 5, false), (Places{1, 4, 5, 3, 2}));
  EXPECT_EQ(PlacesOfTopK(many, 7, true), (Places{5, 4, 1, 0, 2, 3, 6}));
  EXPECT_EQ(PlacesOfTopK({n, n}, 1, true), (Places{0}));
}

// Of a long row too, whatever is asked for, each place is one of the row's and none comes twice, also where no order
// can be.
TEST(TopK, StaysWithinARowOfNans) {
  for (int64_t n : {17, 64, 65, 333, 4096}) {
    for (int every : {1, 2, 3, 50}) {
      for (int64_t k : {int64_t{1}, int64_t{2}, n / 2, n - 1, n}) {
        for (bool sorted : {false, true}) {
          std::vector<float> x;
          for (int64_t i = 0; i < n; ++i)
            x.push_back(i % every == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(i));
          std::vector<int32_t> places = PlacesOfTopK(x, k, sorted);
          std::sort(places.begin(), places.end());
          ASSERT_EQ(static_cast<int64_t>(places.size()), k);
          EXPECT_GE(places.front(), 0);
          EXPECT_LT(places.back(), n);
          EXPECT_EQ(std::adjacent_find(places.begin(), places.end()), places.end()) << n << " " << every << " " << k;
        }
      }
    }
  }
}

// Against the sum over all paths. Of doubles every digit counts; TensorFlow has some eight of them right, as it takes
// exponentials of floats.
TEST(Ctc, LossOfDoublesIsRightToTheirLastDigits) {
  constexpr int64_t kTime = 4, kClasses = 3;
  std::vector<double> logits;
  for (int64_t i = 0; i < kTime * kClasses; ++i) logits.push_back(std::sin(static_cast<double>(3 * i + 1)) * 4);
  long double sum = 0;
  for (int path = 0; path < 81; ++path) {
    std::vector<int> seen;
    long double probability = 1;
    for (int64_t t = 0, rest = path, last = -1; t < kTime; ++t, rest /= kClasses) {
      const int64_t k = rest % kClasses;
      long double all = 0;
      for (int64_t c = 0; c < kClasses; ++c)
        all += std::exp(static_cast<long double>(logits[static_cast<size_t>(t * kClasses + c)]));
      probability *= std::exp(static_cast<long double>(logits[static_cast<size_t>(t * kClasses + k)])) / all;
      if (k != 2 && k != last) seen.push_back(static_cast<int>(k));
      last = k;
    }
    if (seen == std::vector<int>{0, 1}) sum += probability;
  }
  Kernel kernel("CTCLoss");
  kernel.Attr("preprocess_collapse_repeated", false)
      .Attr("ctc_merge_repeated", true)
      .Attr("ignore_longer_outputs_than_inputs", false);
  const Result r = kernel.Run({Make<double>({kTime, 1, kClasses}, logits), Make<int64_t>({2, 2}, {0, 0, 0, 1}),
                               Vector<int32_t>({0, 1}), Vector<int32_t>({kTime})},
                              {Out<double>({1}), Out<double>({kTime, 1, kClasses})});
  ASSERT_EQ(r.code, TENON_OK) << r.message;
  EXPECT_NEAR(Values<double>(r[0])[0], static_cast<double>(-std::log(sum)), 1e-13);
}

}  // namespace
}  // namespace tenon::cpu::nn_test
