// SPDX-License-Identifier: Apache-2.0
// Convolutions of few channels against sums of doubles, over random shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/windows/conv_direct.h"
#include "testing/kernel.h"

namespace tenon::cpu::conv_direct_test {
namespace {

using I = std::vector<int64_t>;
using F = std::vector<float>;

struct Side {
  int64_t input, size, stride, dilation, before, after;  // padding as it comes out
  int64_t reach() const { return (size - 1) * dilation + 1; }
  int64_t output() const {
    return input + before + after < reach() ? 0 : (input + before + after - reach()) / stride + 1;
  }
};

struct Case {
  int64_t batch, in, out;
  Side rows, columns;
  std::string padding;

  I image() const { return {batch, rows.input, columns.input, in}; }
  I filter() const { return {rows.size, columns.size, in, out}; }
  I result() const { return {batch, rows.output(), columns.output(), out}; }
  DirectShape shape() const {
    const auto dim = [](const Side& s) {
      return WindowDim{s.input, s.output(), s.size, s.stride, s.dilation, s.before};
    };
    return {Image(image(), false), Image(result(), false), dim(rows), dim(columns)};
  }
  std::string text() const {
    std::string text =
        padding + " batch " + std::to_string(batch) + ", " + std::to_string(in) + " to " + std::to_string(out);
    for (const Side& s : {rows, columns})
      for (int64_t v : {s.input, s.size, s.stride, s.dilation, s.before, s.after}) text += " " + std::to_string(v);
    return text;
  }
  Kernel Of(const char* op, uint32_t threads = 1) const {
    Kernel kernel(op);
    kernel.Attr("strides", I{1, rows.stride, columns.stride, 1})
        .Attr("dilations", I{1, rows.dilation, columns.dilation, 1})
        .Attr("padding", padding);
    kernel.Attr("data_format", std::string("NHWC")).Threads(threads);
    kernel.Attr("explicit_paddings",
                padding != "EXPLICIT" ? I{} : I{0, 0, rows.before, rows.after, columns.before, columns.after, 0, 0});
    return kernel;
  }
  // function(place in the image, the filter, the result) of every product.
  template <class Function>
  void ForEachProduct(Function&& function) const {
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t oy = 0; oy < rows.output(); ++oy)
        for (int64_t ox = 0; ox < columns.output(); ++ox)
          for (int64_t ky = 0; ky < rows.size; ++ky)
            for (int64_t kx = 0; kx < columns.size; ++kx) {
              const int64_t y = oy * rows.stride + ky * rows.dilation - rows.before,
                            x = ox * columns.stride + kx * columns.dilation - columns.before;
              if (y < 0 || y >= rows.input || x < 0 || x >= columns.input) continue;
              for (int64_t i = 0; i < in; ++i)
                for (int64_t o = 0; o < out; ++o)
                  function(static_cast<size_t>(((n * rows.input + y) * columns.input + x) * in + i),
                           static_cast<size_t>(((ky * columns.size + kx) * in + i) * out + o),
                           static_cast<size_t>(((n * rows.output() + oy) * columns.output() + ox) * out + o));
            }
  }
};

size_t CountOf(const I& dims) {
  size_t count = 1;
  for (int64_t d : dims) count *= static_cast<size_t>(d);
  return count;
}

F Numbers(const I& dims, std::mt19937& random) {
  F values(CountOf(dims));
  for (float& v : values) v = std::uniform_real_distribution<float>(-1, 1)(random);
  return values;
}

// Sums of doubles, and of what is added without signs.
struct Sums {
  explicit Sums(size_t count) : sum(count), size(count) {}
  void Add(size_t at, float a, float b) {
    const double product = static_cast<double>(a) * static_cast<double>(b);
    sum[at] += product, size[at] += std::fabs(product);
  }
  void Expect(const Result& got, const std::string& what) const {
    ASSERT_EQ(got.code, TENON_OK) << what << ": " << got.message;
    const F values = Values<float>(got[0]);
    ASSERT_EQ(values.size(), sum.size()) << what;
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], sum[i], 2e-6 * size[i]) << what << " at " << i;
  }
  std::vector<double> sum, size;
};

void ExpectRightSums(const Case& c, std::mt19937& random) {
  const F x = Numbers(c.image(), random), f = Numbers(c.filter(), random), dy = Numbers(c.result(), random);
  Sums y(dy.size()), dx(x.size()), df(f.size());
  c.ForEachProduct([&](size_t i, size_t w, size_t o) {
    y.Add(o, x[i], f[w]);
    dx.Add(i, dy[o], f[w]);
    df.Add(w, x[i], dy[o]);
  });
  const Tensor image = Make<float>(c.image(), x), filter = Make<float>(c.filter(), f),
               result = Make<float>(c.result(), dy), sizes = Vector<int32_t>({0, 0, 0, 0});
  std::vector<F> first;
  for (uint32_t threads : {1u, 2u, 5u}) {
    const std::vector<Result> got = {
        c.Of("Conv2D", threads).Run({image, filter}, {Out<float>(c.result())}),
        c.Of("Conv2DBackpropInput", threads).Run({sizes, filter, result}, {Out<float>(c.image())}),
        c.Of("Conv2DBackpropFilter", threads).Run({image, sizes, result}, {Out<float>(c.filter())})};
    ASSERT_NO_FATAL_FAILURE(y.Expect(got[0], c.text()));
    ASSERT_NO_FATAL_FAILURE(dx.Expect(got[1], c.text()));
    ASSERT_NO_FATAL_FAILURE(df.Expect(got[2], c.text()));
    std::vector<F> values;
    for (const Result& one : got) values.push_back(Values<float>(one[0]));
    if (first.empty()) first = values;
    EXPECT_EQ(values, first) << c.text() << ", " << threads << " threads";
  }
}

Case RandomCase(std::mt19937& random) {
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const int64_t kind = number(0, 2);
  const auto side = [&] {
    Side s{number(1, 20), number(1, 6), number(1, 3), number(0, 3) == 0 ? number(2, 3) : 1, 0, 0};
    if (kind == 0) {
      const int64_t to = (s.input + s.stride - 1) / s.stride,
                    pad = std::max<int64_t>(0, (to - 1) * s.stride + s.reach() - s.input);
      s.before = pad / 2, s.after = pad - pad / 2;
    } else if (kind == 2) {
      s.before = number(0, 8), s.after = number(0, 4);
    }
    return s;
  };
  constexpr const char* kPaddings[] = {"SAME", "VALID", "EXPLICIT"};
  const int64_t in = number(0, 3) == 0 ? number(17, 32) : number(1, 16),
                out = number(0, 2) == 0 ? number(17, 64) : number(1, 16);
  return {number(0, 6) == 0 ? 0 : number(1, 9), in, out, side(), side(), kPaddings[kind]};
}

TEST(DirectConvolution, AndItsGradientsAreTheSumsOfDoublesWhateverTheShapeAndTheThreads) {
  std::mt19937 random(7);
  int taken = 0;
  for (int i = 0; i < 300; ++i) {
    const Case c = RandomCase(random);
    taken += DirectWindows::Take(c.shape()) ? 1 : 0;
    ASSERT_NO_FATAL_FAILURE(ExpectRightSums(c, random));
  }
  EXPECT_GT(taken, 150);  // the others are empty, or have windows of one
}

TEST(DirectConvolution, DoesLargeImagesInBands) {
  std::mt19937 random(8);
  const Side tall{101, 3, 1, 1, 1, 1}, wide{131, 5, 2, 1, 2, 2};
  for (const Case& c : {Case{2, 16, 8, tall, wide, "SAME"},
                        {1, 3, 40, wide, tall, "SAME"},
                        {33, 2, 3, {9, 3, 1, 1, 0, 0}, {9, 3, 1, 1, 0, 0}, "VALID"}}) {
    ASSERT_TRUE(DirectWindows::Take(c.shape()));
    ASSERT_NO_FATAL_FAILURE(ExpectRightSums(c, random));
  }
}

// Pixels are done in groups: what one of them does not see must not reach it.
void ExpectInfinitiesOnlyWhereTheyAreSeen(const Case& c, std::mt19937& random) {
  const F x = Numbers(c.image(), random), f = Numbers(c.filter(), random), dy = Numbers(c.result(), random);
  F odd = x, odd_dy = dy;
  const size_t pixel = (4 * 11 + 5) * 3 + 1, gradient = (3 * 9 + 4) * static_cast<size_t>(c.out);
  odd[pixel] = std::numeric_limits<float>::infinity();
  odd_dy[gradient] = std::numeric_limits<float>::quiet_NaN();
  std::vector<bool> sees(dy.size()), seen(x.size());
  c.ForEachProduct([&](size_t i, size_t, size_t o) {
    if (i == pixel) sees[o] = true;
    if (o == gradient) seen[i] = true;
  });
  const auto filter = Make<float>(c.filter(), f);
  const auto forward = [&](const F& values) {
    return Values<float>(c.Of("Conv2D").Run({Make<float>(c.image(), values), filter}, {Out<float>(c.result())})[0]);
  };
  const auto backward = [&](const F& values) {
    return Values<float>(
        c.Of("Conv2DBackpropInput")
            .Run({Vector<int32_t>({0, 0, 0, 0}), filter, Make<float>(c.result(), values)}, {Out<float>(c.image())})[0]);
  };
  const F y = forward(x), odd_y = forward(odd), dx = backward(dy), odd_dx = backward(odd_dy);
  for (size_t i = 0; i < y.size(); ++i) EXPECT_TRUE(sees[i] ? std::isinf(odd_y[i]) : odd_y[i] == y[i]) << i;
  for (size_t i = 0; i < dx.size(); ++i) EXPECT_TRUE(seen[i] ? std::isnan(odd_dx[i]) : odd_dx[i] == dx[i]) << i;
}

TEST(DirectConvolution, KeepsInfinitiesWithTheWindowsThatSeeThem) {
  std::mt19937 random(9);
  for (int64_t out : {1, 2, 5}) {
    const Case c{2, 3, out, {9, 3, 1, 1, 0, 0}, {11, 3, 1, 1, 0, 0}, "VALID"};
    if (out < 3) {  // whatever the registers' width
      ASSERT_GT(DirectWindows(c.shape(), DirectWindows::Groups::kAny).group, 1);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectInfinitiesOnlyWhereTheyAreSeen(c, random));
  }
}

TEST(DirectConvolution, HasNoPartOfWhatNoWindowSeesInTheFiltersGradient) {
  std::mt19937 random(10);
  const Case c{1, 1, 3, {8, 3, 1, 1, 0, 0}, {12, 3, 2, 1, 0, 0}, "VALID"};  // the last column is left over
  F x = Numbers(c.image(), random);
  const F dy = Numbers(c.result(), random);
  const auto gradient = [&] {
    return Values<float>(
        c.Of("Conv2DBackpropFilter")
            .Run({Make<float>(c.image(), x), Vector<int32_t>({0, 0, 0, 0}), Make<float>(c.result(), dy)},
                 {Out<float>(c.filter())})[0]);
  };
  const F want = gradient();
  for (size_t row = 0; row < 8; ++row) x[row * 12 + 11] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(gradient(), want);
}

TEST(DirectConvolution, LeavesShapesWithoutBoundToOthers) {
  const auto takes = [](Side rows, Side columns, int64_t in, int64_t out) {
    return DirectWindows::Take(Case{1, in, out, rows, columns, "EXPLICIT"}.shape());
  };
  const Side plain{8, 3, 1, 1, 0, 0};
  EXPECT_TRUE(takes(plain, plain, 32, 64));
  EXPECT_FALSE(takes(plain, plain, 33, 64));
  EXPECT_FALSE(takes(plain, plain, 32, 65));
  EXPECT_FALSE(takes(plain, {8, 3, int64_t{1} << 40, 1, 0, 0}, 1, 1));
  EXPECT_FALSE(takes(plain, {8, 3, 1, int64_t{1} << 40, int64_t{1} << 42, 0}, 1, 1));
  EXPECT_FALSE(takes(plain, {8, 3, int64_t{1} << 16, 1, 1 << 16, 1 << 22}, 32,
                     1));  // few cells of which a row would have millions between them
}

}  // namespace
}  // namespace tenon::cpu::conv_direct_test
