// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
// Covers R10.
#include <cmath>
#include <functional>
#include <limits>

#include "tenon/extras/walk/pool.h"
#include "testing/kernel.h"

namespace tenon::cpu::reduce_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

int64_t CountOf(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Small integers: every order of summation gives the same bits.
std::vector<float> Small(int64_t n) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>((i * 7 + i / 11) % 9 - 4));
  return v;
}

struct Case {
  std::vector<int64_t> dims;
  std::vector<int32_t> axes;
};

std::vector<int64_t> Reduced(const Case& c) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < c.dims.size(); ++d) {
    bool gone = false;
    for (int32_t a : c.axes) gone |= static_cast<size_t>(a < 0 ? a + static_cast<int32_t>(c.dims.size()) : a) == d;
    if (!gone) out.push_back(c.dims[d]);
  }
  return out;
}

std::vector<double> Naive(const Case& c, const std::vector<float>& x, double first,
                          const std::function<double(double, double)>& f) {
  const auto out_dims = Reduced(c);
  std::vector<double> out(static_cast<size_t>(CountOf(out_dims)), first);
  for (int64_t i = 0; i < CountOf(c.dims); ++i) {
    int64_t rest = i, to = 0, step = 1;
    for (size_t d = c.dims.size(); d-- > 0;) {
      const int64_t index = rest % c.dims[d];
      rest /= c.dims[d];
      bool gone = false;
      for (int32_t a : c.axes) gone |= static_cast<size_t>(a < 0 ? a + static_cast<int32_t>(c.dims.size()) : a) == d;
      if (gone) continue;
      to += index * step;
      step *= c.dims[d];
    }
    out[static_cast<size_t>(to)] = f(out[static_cast<size_t>(to)], static_cast<double>(x[static_cast<size_t>(i)]));
  }
  return out;
}

class ReduceTest : public ::testing::TestWithParam<Case> {};

TEST_P(ReduceTest, GivesTheNaiveAnswerWithAxesKnownEarlyOrLate) {
  const Case& c = GetParam();
  const auto x = Small(CountOf(c.dims));
  const struct {
    const char* op;
    double first;
    double (*f)(double, double);
  } ops[] = {{"Sum", 0, [](double a, double b) { return a + b; }},
             {"Max", -std::numeric_limits<double>::infinity(), [](double a, double b) { return std::max(a, b); }},
             {"Min", std::numeric_limits<double>::infinity(), [](double a, double b) { return std::min(a, b); }}};
  for (const auto& op : ops) {
    const auto want = Naive(c, x, op.first, op.f);
    for (bool early : {true, false}) {
      for (uint32_t threads : {1u, 4u}) {
        Kernel kernel(op.op);
        kernel.Threads(threads);
        if (early) kernel.Constant(1);
        const Result r = kernel.Run({Make<float>(c.dims, x), Vector<int32_t>(c.axes)}, {Out<float>(Reduced(c))});
        ASSERT_EQ(r.code, TENON_OK) << r.message;
        const auto got = Values<float>(r[0]);
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_EQ(static_cast<double>(got[i]), want[i]) << op.op << " at " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ReduceTest,
                         ::testing::Values(Case{{}, {}}, Case{{5}, {0}}, Case{{5}, {}}, Case{{3, 4}, {0}},
                                           Case{{3, 4}, {1}}, Case{{3, 4}, {0, 1}}, Case{{3, 4}, {-1}},
                                           Case{{2, 3, 4}, {1}}, Case{{2, 3, 4}, {0, 2}}, Case{{2, 3, 4, 5}, {0, 1, 2}},
                                           Case{{2, 3, 4, 5}, {1, 3}}, Case{{2, 3, 4, 5}, {0, 2}},
                                           Case{{1, 3, 1, 5}, {0, 2}}, Case{{200001}, {0}}, Case{{300, 1000}, {0}},
                                           Case{{1000, 300}, {1}}, Case{{0, 3}, {0}}, Case{{3, 0}, {1}},
                                           Case{{0, 3}, {1}},
                                           // Many rows of few columns.
                                           Case{{64, 28, 28, 6}, {0, 1, 2}}, Case{{9001, 3}, {0}},
                                           Case{{70001, 16}, {0}}, Case{{4097, 64}, {0}}, Case{{3000, 5, 13}, {0}}));

TEST(Reduce, TakesMeansInTheTypeOfTheInput) {
  const auto mean = Values<float>(
      Kernel("Mean").Run({Make<float>({2, 3}, {1, 2, 3, 4, 5, 9}), Vector<int32_t>({1})}, {Out<float>({2})})[0]);
  EXPECT_EQ(mean, (std::vector<float>{2, 6}));
  EXPECT_EQ(
      Values<int32_t>(Kernel("Mean").Run({Vector<int32_t>({1, 2, 4}), Scalar<int32_t>(0)}, {Out<int32_t>()})[0])[0], 2);
  EXPECT_TRUE(
      std::isnan(Values<float>(Kernel("Mean").Run({Vector<float>({}), Vector<int32_t>({0})}, {Out<float>()})[0])[0]));
  EXPECT_EQ(Kernel("Mean").Run({Vector<int32_t>({}), Vector<int32_t>({0})}, {Out<int32_t>()}).code,
            TENON_INVALID_ARGUMENT);
}

TEST(Reduce, SumsHalvesInFloat) {
  const std::vector<Half> ones(4096, Half(1));
  EXPECT_EQ(static_cast<float>(
                Values<Half>(Kernel("Sum").Run({Vector<Half>(ones), Vector<int32_t>({0})}, {Out<Half>()})[0])[0]),
            4096.f);
  const std::vector<Bfloat16> small(1000, Bfloat16(1));
  EXPECT_EQ(static_cast<float>(Values<Bfloat16>(
                Kernel("Sum").Run({Vector<Bfloat16>(small), Vector<int32_t>({0})}, {Out<Bfloat16>()})[0])[0]),
            1000.f);
}

TEST(Reduce, KeepsPrecisionOverAMillionElements) {
  const std::vector<float> x(1 << 20, 0.1f);
  const float sum = Values<float>(Kernel("Sum").Run({Vector<float>(x), Vector<int32_t>({0})}, {Out<float>()})[0])[0];
  EXPECT_NEAR(sum, 104857.6f, 0.1f);
}

TEST(Reduce, PassesANanThrough) {
  for (const char* op : {"Max", "Min", "Sum", "Prod"}) {
    for (auto [size, at] :
         {std::pair<size_t, size_t>{40, 0}, {40, 5}, {40, 37}, {700, 0}, {700, 63}, {700, 64}, {700, 699}}) {
      std::vector<float> x(size, 1.f);
      x[at] = kNan;
      EXPECT_TRUE(
          std::isnan(Values<float>(Kernel(op).Run({Vector<float>(x), Vector<int32_t>({0})}, {Out<float>()})[0])[0]))
          << op << at;
      EXPECT_TRUE(std::isnan(Values<float>(Kernel(op).Run(
          {Make<float>({static_cast<int64_t>(size), 1}, x), Vector<int64_t>({0})}, {Out<float>({1})})[0])[0]))
          << op;
    }
  }
}

TEST(Reduce, DecidesAllAndAny) {
  const Tensor x = Make<bool>({2, 2}, {true, false, true, true});
  EXPECT_EQ(Values<uint8_t>(Kernel("All").Run({x, Vector<int32_t>({1})}, {Out<bool>({2})})[0]),
            (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(Values<uint8_t>(Kernel("Any").Run({x, Vector<int32_t>({0, 1})}, {Out<bool>()})[0]),
            (std::vector<uint8_t>{1}));
  EXPECT_EQ(Values<uint8_t>(Kernel("All").Run({Make<bool>({0}, {}), Vector<int32_t>({0})}, {Out<bool>()})[0]),
            (std::vector<uint8_t>{1}));
}

TEST(Reduce, SeesEveryBoolOfALongRow) {
  for (size_t size : {3u, 64u, 130u, 1500u}) {
    for (size_t at : {size_t{0}, size / 2, size - 1}) {
      std::vector<bool> x(size, true);
      x[at] = false;
      EXPECT_EQ(Values<uint8_t>(Kernel("All").Run({Vector<bool>(x), Vector<int32_t>({0})}, {Out<bool>()})[0])[0], 0);
      x.flip();
      EXPECT_EQ(Values<uint8_t>(Kernel("Any").Run({Vector<bool>(x), Vector<int32_t>({0})}, {Out<bool>()})[0])[0], 1);
      x[at] = false;
      EXPECT_EQ(Values<uint8_t>(Kernel("Any").Run({Vector<bool>(x), Vector<int32_t>({0})}, {Out<bool>()})[0])[0], 0);
    }
  }
}

TEST(Reduce, NamesAnAxisThatIsOutside) {
  const Result r = Kernel("Sum").Run({Make<float>({2, 2}, {1, 2, 3, 4}), Vector<int32_t>({2})}, {Out<float>({2})});
  EXPECT_EQ(r.code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(r.message, "axis 2 of a reduction of shape [2,2] is outside [-2, 2)");
}

TEST(Arg, FindsTheFirstLargestAlongAnAxis) {
  const Tensor x = Make<float>({2, 3}, {1, 5, 5, 7, 0, 2});
  EXPECT_EQ(Values<int64_t>(Kernel("ArgMax").Run({x, Scalar<int32_t>(1)}, {Out<int64_t>({2})})[0]),
            (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(Values<int32_t>(Kernel("ArgMin").Run({x, Scalar<int32_t>(0)}, {Out<int32_t>({3})})[0]),
            (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(Kernel("ArgMax").Run({x, Scalar<int32_t>(5)}, {Out<int64_t>({2})}).code, TENON_INVALID_ARGUMENT);
}

TEST(Arg, FindsTheFirstLargestOfALongRowAndPassesOverNans) {
  for (int64_t n : {63, 64, 65, 127, 200}) {
    for (int64_t best : {int64_t{0}, int64_t{1}, n / 2, n - 2, n - 1}) {
      std::vector<float> x(static_cast<size_t>(n), 1.f);
      x[static_cast<size_t>(best)] = x.back() = 2.f;
      if (best != 2) x[2] = kNan;
      const auto arg = [&](const char* op) {
        return Values<int64_t>(Kernel(op).Run({Vector<float>(x), Scalar<int32_t>(0)}, {Out<int64_t>()})[0])[0];
      };
      EXPECT_EQ(arg("ArgMax"), best) << n;
      for (float& v : x) v = -v;
      EXPECT_EQ(arg("ArgMin"), best) << n;
    }
  }
}

// TensorFlow's rule, on long rows and short ones, along an inner dim and an outer one.
template <class T>
void ExpectNansPassedOver() {
  const T nan(kNan), lowest(sdk::Lowest<T>()), most(-sdk::Lowest<T>()), infinity(kInfinity), less(-kInfinity);
  struct Case {
    std::vector<T> first;
    int64_t max, min;
  };
  const std::vector<Case> cases = {
      {{nan, T(2), T(1)}, 1, 2},   {{T(1), nan, T(3)}, 2, 0},     {{T(3), T(2), nan}, 0, 1},
      {{nan, nan, nan}, 0, 0},     {{nan, less, nan}, 0, 1},      {{nan, infinity, nan}, 1, 0},
      {{less, lowest, nan}, 0, 0}, {{infinity, most, nan}, 0, 0}, {{nan, lowest, most}, 2, 1}};
  for (const Case& c : cases) {
    for (const size_t size : {size_t{3}, size_t{64}, size_t{65}, size_t{200}}) {
      std::vector<T> x(size, nan);
      std::copy(c.first.begin(), c.first.end(), x.begin());
      const auto n = static_cast<int64_t>(size);
      for (const auto& [op, want] : {std::pair{"ArgMax", c.max}, std::pair{"ArgMin", c.min}}) {
        EXPECT_EQ(Values<int64_t>(Kernel(op).Run({Vector<T>(x), Scalar<int32_t>(0)}, {Out<int64_t>()})[0])[0], want)
            << op << " of " << n;
        std::vector<T> twice;
        for (const T v : x) twice.insert(twice.end(), {v, v});
        EXPECT_EQ(Values<int64_t>(Kernel(op).Run({Make<T>({n, 2}, twice), Scalar<int32_t>(0)}, {Out<int64_t>({2})})[0]),
                  (std::vector<int64_t>{want, want}))
            << op << " of " << n;
      }
    }
  }
}
TEST(Arg, PassesOverNansWhereverTheyStand) {
  ExpectNansPassedOver<float>();
  ExpectNansPassedOver<double>();
  ExpectNansPassedOver<Half>();
  ExpectNansPassedOver<Bfloat16>();
}

TEST(AddN, AddsAnyNumberOfLongInputs) {
  for (size_t n = 1; n <= 9; ++n) {
    for (bool over : {false, true}) {
      Kernel kernel("AddN");
      if (over) kernel.InPlace(0);
      std::vector<float> want(77);
      std::vector<Tensor> inputs;
      for (size_t k = 0; k < n; ++k) {
        std::vector<float> x;
        for (size_t i = 0; i < want.size(); ++i) x.push_back(static_cast<float>(i * 10 + k)), want[i] += x.back();
        inputs.push_back(Vector<float>(x));
      }
      EXPECT_EQ(Values<float>(kernel.Run(inputs, {Out<float>({77})})[0]), want) << n;
    }
  }
}

TEST(AddN, AddsInOrderAndOverItsFirstInput) {
  const Tensor a = Vector<float>({1, 2}), b = Vector<float>({10, 20}), c = Vector<float>({100, 200});
  EXPECT_EQ(Values<float>(Kernel("AddN").Run({a, b, c}, {Out<float>({2})})[0]), (std::vector<float>{111, 222}));
  EXPECT_EQ(Values<float>(Kernel("AddN").InPlace(0).Run({a, b, c}, {Out<float>({2})})[0]),
            (std::vector<float>{111, 222}));
  EXPECT_EQ(Values<float>(Kernel("AddN").Run({a}, {Out<float>({2})})[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(Kernel("AddN").Run({a, Vector<float>({1})}, {Out<float>({2})}).code, TENON_INVALID_ARGUMENT);
}

TEST(Segment, SumsRowsAndChecksIds) {
  const Tensor x = Make<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto unsorted = [&](std::vector<int32_t> ids) {
    return Kernel("UnsortedSegmentSum").Run({x, Vector<int32_t>(ids), Scalar<int32_t>(3)}, {Out<float>({3, 2})});
  };
  EXPECT_EQ(Values<float>(unsorted({2, -1, 2})[0]), (std::vector<float>{0, 0, 0, 0, 6, 8}));
  EXPECT_EQ(unsorted({0, 3, 0}).code, TENON_INVALID_ARGUMENT);
  const Result sorted = Kernel("SegmentSum").Run({x, Vector<int64_t>({0, 0, 2})}, {Out<float>()});
  EXPECT_EQ(sorted[0].dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(Values<float>(sorted[0]), (std::vector<float>{4, 6, 0, 0, 5, 6}));
  EXPECT_EQ(Kernel("SegmentSum").Run({x, Vector<int32_t>({1, 0, 2})}, {Out<float>()}).code, TENON_INVALID_ARGUMENT);
}

TEST(Cast, ConvertsBetweenNumbers) {
  const auto cast = []<class From, class To>(Tag<From>, Tag<To>, std::vector<From> x) {
    const int64_t n = static_cast<int64_t>(x.size());
    return Values<To>(Kernel("Cast").Run({Vector<From>(x)}, {Out<To>({n})})[0]);
  };
  EXPECT_EQ(cast(Tag<float>(), Tag<int32_t>(), {1.9f, -1.9f}), (std::vector<int32_t>{1, -1}));
  EXPECT_EQ(cast(Tag<float>(), Tag<bool>(), {0.f, kNan, 2.f})[1], true);
  EXPECT_EQ(cast(Tag<int64_t>(), Tag<uint8_t>(), {300, -1}), (std::vector<uint8_t>{44, 255}));
  EXPECT_EQ(cast(Tag<bool>(), Tag<float>(), {true, false}), (std::vector<float>{1, 0}));
  EXPECT_EQ(cast(Tag<float>(), Tag<int32_t>(), {kNan, 1e20f}), (std::vector<int32_t>{INT32_MIN, INT32_MIN}));
  EXPECT_EQ(static_cast<float>(cast(Tag<double>(), Tag<Half>(), {0.5, 1.0})[0]), 0.5f);
}

TEST(Cast, ConvertsManyHalvesAsItConvertsOne) {
  const auto cast = []<class From, class To>(Tag<From>, Tag<To>, const std::vector<From>& x) {
    const int64_t n = static_cast<int64_t>(x.size());
    return Values<To>(Kernel("Cast").Threads(3).Run({Vector<From>(x)}, {Out<To>({n})})[0]);
  };
  std::vector<Half> halves;
  std::vector<float> floats;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    Half h;
    h.bits = static_cast<uint16_t>(bits);
    halves.push_back(h);
    floats.push_back(std::bit_cast<float>(bits << 16 | (bits * 40503 & 0xffff)));
  }
  const auto wide = cast(Tag<Half>(), Tag<float>(), halves);
  const auto narrow = cast(Tag<float>(), Tag<Half>(), floats);
  const auto integers = cast(Tag<Half>(), Tag<int32_t>(), halves);
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(static_cast<float>(halves[i])));
    ASSERT_EQ(narrow[i].bits, Half(floats[i]).bits) << floats[i];
    ASSERT_EQ(integers[i], Convert<int32_t>(halves[i]));
  }
}

TEST(CheckNumerics, SaysWhatItFound) {
  const auto check = [](std::vector<float> x) {
    Kernel kernel("CheckNumerics");
    kernel.Attr("message", std::string("loss"));
    return kernel.Run({Vector<float>(x)}, {Out<float>({static_cast<int64_t>(x.size())})});
  };
  EXPECT_EQ(Values<float>(check({1, 2})[0]), (std::vector<float>{1, 2}));
  EXPECT_EQ(check({1, kNan}).message, "loss : Tensor had NaN values");
  EXPECT_EQ(check({INFINITY, kNan}).message, "loss : Tensor had Inf and NaN values");
}

}  // namespace
}  // namespace tenon::cpu::reduce_test
