// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "testing/kernel.h"

namespace tenon::cpu::elementwise_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> Ramp(int64_t n, float from = -2.f, float step = 0.37f) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(from + step * static_cast<float>(i % 97));
  return v;
}

// x and y of any shapes that broadcast to out, by indices.
template <class T>
std::vector<T> NaiveBroadcast(const Tensor& x, const Tensor& y, const std::vector<int64_t>& out,
                              const std::function<T(T, T)>& f) {
  const std::vector<T> xs = Values<T>(x), ys = Values<T>(y);
  const auto at = [&](const Tensor& t, const std::vector<T>& values, int64_t flat) {
    int64_t offset = 0, stride = 1;
    for (size_t back = 1; back <= out.size(); ++back) {
      const int64_t index = flat % out[out.size() - back];
      flat /= out[out.size() - back];
      if (back > t.dims.size()) continue;
      const int64_t dim = t.dims[t.dims.size() - back];
      offset += (dim == 1 ? 0 : index) * stride;
      stride *= dim;
    }
    return values[static_cast<size_t>(offset)];
  };
  int64_t n = 1;
  for (int64_t d : out) n *= d;
  std::vector<T> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(f(at(x, xs, i), at(y, ys, i)));
  return result;
}

struct BroadcastCase {
  std::vector<int64_t> x, y, out;
};

class BroadcastTest : public ::testing::TestWithParam<BroadcastCase> {};

TEST_P(BroadcastTest, GivesTheNaiveAnswer) {
  const auto& p = GetParam();
  const auto size = [](const std::vector<int64_t>& d) {
    int64_t n = 1;
    for (int64_t v : d) n *= v;
    return n;
  };
  const Tensor x = Make<float>(p.x, Ramp(size(p.x)));
  const Tensor y = Make<float>(p.y, Ramp(size(p.y), 1.f, 0.5f));
  const Result r = Kernel("Sub").Run({x, y}, {Out<float>(p.out)});
  ASSERT_EQ(r.code, TENON_OK) << r.message;
  EXPECT_EQ(Values<float>(r[0]), NaiveBroadcast<float>(x, y, p.out, [](float a, float b) { return a - b; }));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BroadcastTest,
    ::testing::Values(BroadcastCase{{}, {}, {}}, BroadcastCase{{5}, {}, {5}}, BroadcastCase{{}, {7}, {7}},
                      BroadcastCase{{3, 5}, {5}, {3, 5}}, BroadcastCase{{3, 5}, {3, 1}, {3, 5}},
                      BroadcastCase{{3, 1}, {1, 4}, {3, 4}}, BroadcastCase{{2, 1, 3}, {1, 5, 1}, {2, 5, 3}},
                      BroadcastCase{{2, 3, 4, 5}, {3, 1, 5}, {2, 3, 4, 5}}, BroadcastCase{{0, 3}, {1, 3}, {0, 3}},
                      BroadcastCase{{0}, {1}, {0}}, BroadcastCase{{1, 1}, {1}, {1, 1}},
                      BroadcastCase{{300, 200}, {200}, {300, 200}}, BroadcastCase{{1000, 1}, {1, 77}, {1000, 77}},
                      BroadcastCase{{7000, 3}, {3}, {7000, 3}}, BroadcastCase{{3}, {20000, 3}, {20000, 3}},
                      BroadcastCase{{50, 70, 7}, {7}, {50, 70, 7}}, BroadcastCase{{999, 63}, {63}, {999, 63}},
                      BroadcastCase{{100001}, {100001}, {100001}}));

TEST(Binary, ComputesEveryNumberType) {
  const auto check = []<class T>(Tag<T>) {
    const Result r =
        Kernel("AddV2").Run({Make<T>({3}, {T(1), T(2), T(3)}), Make<T>({3}, {T(4), T(5), T(6)})}, {Out<T>({3})});
    ASSERT_EQ(r.code, TENON_OK) << r.message;
    std::vector<double> got;
    for (T v : Values<T>(r[0])) got.push_back(static_cast<double>(static_cast<Wide<T>>(v)));
    EXPECT_EQ(got, (std::vector<double>{5, 7, 9}));
  };
  check(Tag<float>()), check(Tag<double>()), check(Tag<int32_t>()), check(Tag<int64_t>()), check(Tag<Half>());
  check(Tag<Bfloat16>()), check(Tag<uint8_t>()), check(Tag<int8_t>()), check(Tag<int16_t>());
}

TEST(Binary, WritesOverEitherInput) {
  const std::vector<float> x = Ramp(1000), y = Ramp(1000, 3.f);
  for (int input : {0, 1}) {
    const Result r =
        Kernel("Mul").InPlace(input).Run({Make<float>({1000}, x), Make<float>({1000}, y)}, {Out<float>({1000})});
    const auto got = Values<float>(r[0]);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], x[i] * y[i]);
  }
}

TEST(Binary, RoundsIntegerDivisionAsTensorFlowDoes) {
  const Tensor x = Vector<int32_t>({7, -7, 7, -7, INT32_MIN, 6});
  const Tensor y = Vector<int32_t>({2, 2, -2, -2, -1, 3});
  const auto run = [&](const char* op) { return Values<int32_t>(Kernel(op).Run({x, y}, {Out<int32_t>({6})})[0]); };
  EXPECT_EQ(run("Div"), (std::vector<int32_t>{3, -3, -3, 3, INT32_MIN, 2}));
  EXPECT_EQ(run("FloorDiv"), (std::vector<int32_t>{3, -4, -4, 3, INT32_MIN, 2}));
  EXPECT_EQ(run("FloorMod"), (std::vector<int32_t>{1, 1, -1, -1, 0, 0}));
}

TEST(Binary, SaysThatAnIntegerDivisionByZeroHasNoAnswer) {
  for (const char* op : {"Div", "FloorDiv", "FloorMod"}) {
    const Result r = Kernel(op).Run({Vector<int64_t>({1, 2}), Vector<int64_t>({1, 0})}, {Out<int64_t>({2})});
    EXPECT_EQ(r.code, TENON_INVALID_ARGUMENT) << op;
    EXPECT_EQ(r.message, "Integer division by zero");
  }
  EXPECT_EQ(Kernel("Pow").Run({Scalar<int32_t>(2), Scalar<int32_t>(-1)}, {Out<int32_t>()}).code,
            TENON_INVALID_ARGUMENT);
}

TEST(Binary, DividesRealNumbersByZero) {
  const Tensor x = Vector<float>({1, -1, 0}), y = Vector<float>({0, 0, 0});
  const auto quotient = Values<float>(Kernel("RealDiv").Run({x, y}, {Out<float>({3})})[0]);
  EXPECT_EQ(quotient[0], kInf);
  EXPECT_EQ(quotient[1], -kInf);
  EXPECT_TRUE(std::isnan(quotient[2]));
  EXPECT_EQ(Values<float>(Kernel("DivNoNan").Run({x, y}, {Out<float>({3})})[0]), (std::vector<float>{0, 0, 0}));
}

TEST(Binary, PassesANanThroughMaximumAndMinimum) {
  for (const char* op : {"Maximum", "Minimum"}) {
    const auto r =
        Values<float>(Kernel(op).Run({Vector<float>({kNan, 1}), Vector<float>({1, kNan})}, {Out<float>({2})})[0]);
    EXPECT_TRUE(std::isnan(r[0]) && std::isnan(r[1])) << op;
  }
}

TEST(Binary, RaisesIntegersAndRealsToPowers) {
  EXPECT_EQ(Values<int32_t>(
                Kernel("Pow").Run({Vector<int32_t>({2, -3, 0}), Vector<int32_t>({10, 3, 0})}, {Out<int32_t>({3})})[0]),
            (std::vector<int32_t>{1024, -27, 1}));
  const auto r =
      Values<float>(Kernel("Pow").Run({Make<float>({100}, Ramp(100, 0.5f)), Scalar(2.5f)}, {Out<float>({100})})[0]);
  const auto x = Ramp(100, 0.5f);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(r[i], std::pow(x[i], 2.5f), 1e-5f * std::pow(x[i], 2.5f));
}

TEST(Compare, GivesBools) {
  const Tensor x = Vector<float>({1, 2, 3, kNan}), y = Vector<float>({2, 2, 2, kNan});
  const auto run = [&](const char* op) {
    std::vector<int> out;
    for (uint8_t b : Values<uint8_t>(Kernel(op).Run({x, y}, {Out<bool>({4})})[0])) out.push_back(b);
    return out;
  };
  EXPECT_EQ(run("Less"), (std::vector<int>{1, 0, 0, 0}));
  EXPECT_EQ(run("LessEqual"), (std::vector<int>{1, 1, 0, 0}));
  EXPECT_EQ(run("Greater"), (std::vector<int>{0, 0, 1, 0}));
  EXPECT_EQ(run("GreaterEqual"), (std::vector<int>{0, 1, 1, 0}));
  EXPECT_EQ(run("Equal"), (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(run("NotEqual"), (std::vector<int>{1, 0, 1, 1}));
}

TEST(Compare, AnswersWithAScalarForIncompatibleShapes) {
  const Tensor x = Vector<float>({1, 2, 3}), y = Vector<float>({1, 2});
  EXPECT_EQ(Values<uint8_t>(Kernel("Equal").Run({x, y}, {Out<bool>()})[0]), (std::vector<uint8_t>{0}));
  EXPECT_EQ(Values<uint8_t>(Kernel("NotEqual").Run({x, y}, {Out<bool>()})[0]), (std::vector<uint8_t>{1}));
}

struct UnaryCase {
  const char* op;
  double (*reference)(double);
  float from, step;
};

class UnaryTest : public ::testing::TestWithParam<UnaryCase> {};

TEST_P(UnaryTest, IsCloseToTheReference) {
  const auto& p = GetParam();
  for (int64_t n : {1, 2, 63, 64, 65, 1000, 20011}) {
    std::vector<float> x = Ramp(n, p.from, p.step);
    const auto f = Values<float>(Kernel(p.op).Run({Make<float>({n}, x)}, {Out<float>({n})})[0]);
    const auto d = Values<double>(
        Kernel(p.op).Run({Make<double>({n}, std::vector<double>(x.begin(), x.end()))}, {Out<double>({n})})[0]);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = p.reference(static_cast<double>(x[i]));
      EXPECT_NEAR(f[i], want, 1e-6 + 2e-6 * std::fabs(want)) << p.op << " " << x[i];
      EXPECT_NEAR(d[i], want, 1e-14 + 1e-14 * std::fabs(want)) << p.op << " " << x[i];
    }
  }
}

double Softplus(double x) { return x > 30 ? x : std::log1p(std::exp(x)); }

INSTANTIATE_TEST_SUITE_P(
    Ops, UnaryTest,
    ::testing::Values(UnaryCase{"Neg", [](double x) { return -x; }, -9, 0.3f},
                      UnaryCase{"Abs", [](double x) { return std::fabs(x); }, -9, 0.3f},
                      UnaryCase{"Square", [](double x) { return x * x; }, -9, 0.3f},
                      UnaryCase{"Sqrt", [](double x) { return std::sqrt(x); }, 0, 0.3f},
                      UnaryCase{"Rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.1f, 0.3f},
                      UnaryCase{"Reciprocal", [](double x) { return 1 / x; }, 0.1f, 0.3f},
                      UnaryCase{"Sign", [](double x) { return x > 0   ? 1.
                                                              : x < 0 ? -1.
                                                                      : 0.; }, -3, 0.5f},
                      UnaryCase{"Floor", [](double x) { return std::floor(x); }, -9, 0.3f},
                      UnaryCase{"Ceil", [](double x) { return std::ceil(x); }, -9, 0.3f},
                      UnaryCase{"Round", [](double x) { return std::nearbyint(x); }, -9, 0.25f},
                      UnaryCase{"Exp", [](double x) { return std::exp(x); }, -30, 0.5f},
                      UnaryCase{"Expm1", [](double x) { return std::expm1(x); }, -5, 0.1f},
                      UnaryCase{"Log", [](double x) { return std::log(x); }, 0.01f, 3},
                      UnaryCase{"Log1p", [](double x) { return std::log1p(x); }, -0.9f, 0.4f},
                      UnaryCase{"Sin", [](double x) { return std::sin(x); }, -20, 0.4f},
                      UnaryCase{"Cos", [](double x) { return std::cos(x); }, -20, 0.4f},
                      UnaryCase{"Tanh", [](double x) { return std::tanh(x); }, -12, 0.25f},
                      UnaryCase{"Erf", [](double x) { return std::erf(x); }, -4, 0.1f},
                      UnaryCase{"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -20, 0.4f},
                      UnaryCase{"Relu", [](double x) { return x > 0 ? x : 0.; }, -3, 0.1f},
                      UnaryCase{"Relu6", [](double x) { return x > 6   ? 6.
                                                               : x > 0 ? x
                                                                       : 0.; }, -3, 0.2f},
                      UnaryCase{"Elu", [](double x) { return x > 0 ? x : std::expm1(x); }, -9, 0.2f},
                      UnaryCase{"Softplus", Softplus, -20, 0.5f}),
    [](const auto& info) { return std::string(info.param.op); });

TEST(Unary, HandlesTheEdgesOfTheNumbers) {
  const auto run = [](const char* op, std::vector<float> x) {
    // Long enough for the vector variant.
    while (x.size() < 64) x.push_back(x.back());
    return Values<float>(Kernel(op).Run({Vector<float>(x)}, {Out<float>({64})})[0]);
  };
  auto e = run("Exp", {-kInf, kInf, kNan, -200, 200, 0});
  EXPECT_EQ(e[0], 0) << "exp(-inf)";
  EXPECT_EQ(e[1], kInf);
  EXPECT_TRUE(std::isnan(e[2]));
  EXPECT_EQ(e[3], 0);
  EXPECT_EQ(e[4], kInf);
  EXPECT_EQ(e[5], 1);
  auto l = run("Log", {0, kInf, -1, kNan, 1});
  EXPECT_EQ(l[0], -kInf);
  EXPECT_EQ(l[1], kInf);
  EXPECT_TRUE(std::isnan(l[2]) && std::isnan(l[3]));
  EXPECT_EQ(l[4], 0);
  auto t = run("Tanh", {-kInf, kInf, kNan, 1e-20f});
  EXPECT_EQ(t[0], -1);
  EXPECT_EQ(t[1], 1);
  EXPECT_TRUE(std::isnan(t[2]));
  EXPECT_EQ(t[3], 1e-20f);
  auto s = run("Sigmoid", {-kInf, kInf, kNan, -200});
  EXPECT_EQ(s[0], 0);
  EXPECT_EQ(s[1], 1);
  EXPECT_TRUE(std::isnan(s[2]));
  EXPECT_EQ(s[3], 0);
  for (const char* op : {"Relu", "Relu6", "Elu", "Softplus"}) EXPECT_TRUE(std::isnan(run(op, {kNan})[0])) << op;
  auto finite =
      Values<uint8_t>(Kernel("IsFinite").Run({Vector<float>({kNan, kInf, -kInf, 1e38f})}, {Out<bool>({4})})[0]);
  EXPECT_EQ(finite, (std::vector<uint8_t>{0, 0, 0, 1}));
}

TEST(Unary, GivesTheSameBitsWhereverARangeBegins) {
  const auto x = Ramp(50000, -8.f, 0.17f);
  for (const char* op : {"Exp", "Tanh", "Sigmoid", "Log1p", "Erf"}) {
    const auto a = Values<float>(Kernel(op).Threads(1).Run({Vector<float>(x)}, {Out<float>({50000})})[0]);
    const auto b = Values<float>(Kernel(op).Threads(4).Run({Vector<float>(x)}, {Out<float>({50000})})[0]);
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * 4), 0) << op;
  }
}

TEST(Gradient, OfActivationsFollowsTheirRules) {
  const Tensor dy = Vector<float>({10, 20, 30, 40});
  const auto run = [&](const char* op, std::vector<float> y, bool dy_first) {
    Tensor t = Vector<float>(y);
    Kernel k(op);
    k.Attr("alpha", 0.5f);
    return Values<float>((dy_first ? k.Run({dy, t}, {Out<float>({4})}) : k.Run({t, dy}, {Out<float>({4})}))[0]);
  };
  EXPECT_EQ(run("ReluGrad", {-1, 0, 1, 2}, true), (std::vector<float>{0, 0, 30, 40}));
  EXPECT_EQ(run("Relu6Grad", {0, 3, 6, 7}, true), (std::vector<float>{0, 20, 0, 0}));
  EXPECT_EQ(run("EluGrad", {-0.5f, 0, 1, 2}, true), (std::vector<float>{5, 20, 30, 40}));
  EXPECT_EQ(run("LeakyReluGrad", {-1, 0, 1, 2}, true), (std::vector<float>{5, 10, 30, 40}));
  EXPECT_EQ(run("TanhGrad", {0, 0.5f, 1, -1}, false), (std::vector<float>{10, 15, 0, 0}));
  EXPECT_EQ(run("SigmoidGrad", {0, 0.5f, 1, 0.25f}, false), (std::vector<float>{0, 5, 0, 7.5f}));
  EXPECT_EQ(run("SqrtGrad", {1, 2, 3, 4}, false), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(run("RsqrtGrad", {1, 2, 0, 1}, false), (std::vector<float>{-5, -80, 0, -20}));
  EXPECT_EQ(run("ReciprocalGrad", {1, 2, 0, 1}, false), (std::vector<float>{-10, -80, 0, -40}));
}

TEST(Half, ConvertsWithRoundingToEven) {
  EXPECT_EQ(Half(1.0f).bits, 0x3c00);
  EXPECT_EQ(static_cast<float>(Half(65504.f)), 65504.f);
  EXPECT_EQ(static_cast<float>(Half(1e6f)), kInf);
  EXPECT_EQ(static_cast<float>(Half(6e-8f)), 0x1p-24f);
  EXPECT_EQ(Bfloat16(1.00390625f).bits, 0x3f80) << "half-way, to even";
  EXPECT_TRUE(std::isnan(static_cast<float>(Bfloat16(kNan))));
}

}  // namespace
}  // namespace tenon::cpu::elementwise_test
