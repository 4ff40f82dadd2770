// SPDX-License-Identifier: Apache-2.0
// Each property has an op that keeps it and one that says it and lies, which is found.
#include "tenon/testing/property_trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace tenon::testing::property_trial_test {
namespace {

using Floats = std::vector<float>;
using Function = std::function<Floats(const Floats& x, const Floats& y)>;

const Dimensions kDims = {4, 3};
const Floats kX = {1.1f, -2.3f, 3.7f, 0.4f, 5.9f, -6.2f, 7.3f, 8.8f, -9.1f, 0.7f, 2.6f, -4.5f};
const Floats kY = {0.3f, 1.7f, -2.9f, 4.1f, -5.3f, 6.7f, 0.9f, -8.3f, 9.7f, 3.1f, -1.3f, 2.2f};

// Of two inputs, of whose shape the output is unless another is given.
PropertyTrial::Run Of(const Function& function, Dimensions dims = {-1, -1}) {
  return [=](const std::vector<Tensor>& in) -> std::optional<std::vector<Tensor>> {
    const Floats values = function(Values<float>(in[0]), Values<float>(in[1]));
    return std::vector<Tensor>{Make<float>(dims[0] < 0 ? in[0].dims : dims, values)};
  };
}
template <class Element>
Function Each(Element&& element) {
  return [=](const Floats& x, const Floats& y) {
    Floats z(x.size());
    for (size_t i = 0; i < z.size(); ++i) z[i] = element(x[i], y[i]);
    return z;
  };
}

struct Case {
  std::string properties;
  PropertyTrial::Run honest, liar;
  std::string wrong;  // how it is said
};

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = [] {
    const auto sum = Each([](float x, float y) { return x + y; });
    const auto shifted = [](const Floats& x, const Floats& y) {
      Floats z(x.size());
      for (size_t i = 0; i < z.size(); ++i) z[i] = x[i] + y[(i + 1) % y.size()];
      return z;
    };
    const auto turned = [](const Floats& x, const Floats&) { return Floats(x.rbegin(), x.rend()); };
    const auto same = [](const Floats& x, const Floats&) { return x; };
    const auto sums = [](const Floats& x, const Floats&) {
      Floats z(4);
      for (size_t i = 0; i < x.size(); ++i) z[i / 3] += x[i];
      return z;
    };
    const auto centred = [](const Floats& x, const Floats&) {
      float mean = 0;
      for (const float each : x) mean += each / static_cast<float>(x.size());
      Floats z = x;
      for (float& each : z) each -= mean;
      return z;
    };
    const auto positive = Each([](float x, float) { return std::fmax(0.f, x); });
    return std::vector<Case>{
        {"elementwise(x, y)", Of(sum), Of(shifted), "at element "},
        {"moves(x)", Of(turned), Of(Each([](float x, float) { return 2 * x; })), "is of no element"},
        {"view(x)", Of(same), Of(turned), "the output has other elements"},
        {"product(x, y)", Of(Each([](float x, float y) { return x * y; })), Of(sum), "of twice input 0"},
        {"normalizes(x)", Of(centred), Of(sums, {4}), "the output's shape is not that of input 0"},
        {"rows(x, y)", Of(sum), Of(centred), "output 0 at element "},
        {"elementwise(x), exact", Of(Each([](float x, float) { return -x; })),
         Of(Each([](float x, float) { return 1.1f * x; })), "the output has more bits than the inputs"},
        {"elementwise(x), keeps_nan", Of(Each([](float x, float) { return x + 1; })), Of(positive),
         "of nan in input 0"},
        {"elementwise(x), computes(mul(x, sigmoid(x)))",
         Of(Each([](float x, float) { return x / (1 + std::exp(-x)); })),
         Of(Each([](float x, float) { return x / (1 + std::exp(-1.02f * x)); })), "at element 0: "},
        {"elementwise(x, y), computes(add(x, mul(0.5, y)))", Of(Each([](float x, float y) { return x + 0.5f * y; })),
         Of(sum), "at element 0: "},
        {"elementwise(x), keeps_zero_sign", Of(Each([](float x, float) { return 2 * x; })),
         Of(Each([](float x, float) { return x + 0.f; })), "in input 0 it makes 0"},
    };
  }();
  return cases;
}

TEST(PropertyTrial, FindsWhoLiesAndLetsTheHonestPass) {
  for (const Case& one : Cases()) {
    const PropertyOp op = {"x: T, y: T", one.properties};
    const std::vector<Tensor> inputs = {Make<float>(kDims, kX), Make<float>(kDims, kY)};
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      std::set<std::string> tried;
      EXPECT_EQ(PropertyTrial(op, inputs, one.honest, {}, {}, seed).Try(&tried), "") << one.properties;
      EXPECT_EQ(tried.size(), PropertyTerms(one.properties).size()) << one.properties;
    }
    EXPECT_NE(PropertyTrial(op, inputs, one.liar).Try().find(one.wrong), std::string::npos)
        << one.properties << ": " << PropertyTrial(op, inputs, one.liar).Try();
  }
}

TEST(PropertyTrial, OfAnElementWiseOpLooksAtShapes) {
  const std::vector<Tensor> inputs = {Make<float>(kDims, kX), Make<float>(kDims, kY)};
  const auto flat = Of([](const Floats& x, const Floats&) { return x; }, {12});
  EXPECT_EQ(PropertyTrial({"x: T, y: T", "elementwise(x)"}, inputs, flat).Try(),
            "'elementwise': input 0 has another shape");
}

TEST(PropertyTrial, OfAReductionTakesItsAxesAndWhetherDimsAreKept) {
  const std::vector<Tensor> inputs = {Make<float>(kDims, kX), Make<int32_t>({1}, {-1})};
  const auto reduce = [](const Dimensions& dims, bool lies) {
    return [=](const std::vector<Tensor>& in) -> std::optional<std::vector<Tensor>> {
      const Floats x = Values<float>(in[0]);
      Floats z(4);
      for (size_t i = 0; i < x.size(); ++i) z[lies ? i % 4 : i / 3] += x[i];
      return std::vector<Tensor>{Make<float>(dims, z)};
    };
  };
  const auto keeps = [](const std::string& name) { return name == "keep" ? std::optional<int64_t>(1) : std::nullopt; };
  const PropertyOp plain = {"x: T, axes: int32", "reduces(x, axes, keep)"};
  const PropertyOp kept = {"x: T, axes: int32", "reduces(x, axes, keep)", keeps};
  std::set<std::string> tried;
  EXPECT_EQ(PropertyTrial(plain, inputs, reduce({4}, false)).Try(&tried), "");
  EXPECT_TRUE(tried.contains("reduces"));
  EXPECT_EQ(PropertyTrial(kept, inputs, reduce({4, 1}, false)).Try(), "");
  EXPECT_NE(PropertyTrial(plain, inputs, reduce({4}, true)).Try().find("at element "), std::string::npos);
  EXPECT_EQ(PropertyTrial(kept, inputs, reduce({4}, false)).Try(),
            "'reduces': the output's shape is not what is left of the input's");
}

TEST(PropertyTrial, In16BitsLosesNoMoreThanStoringDoes) {
  const std::vector<Tensor> inputs = {Make<float>(kDims, kX)};
  const auto run = [](const std::vector<Tensor>& in) -> std::optional<std::vector<Tensor>> {
    Floats x = Values<float>(in[0]);
    for (float& each : x) each = std::tanh(each);
    return std::vector<Tensor>{Make<float>(in[0].dims, x)};
  };
  const auto half = [](float factor) {
    return [=](const std::vector<Tensor>& in) -> std::optional<std::vector<Tensor>> {
      std::vector<sdk::Bfloat16> y;
      for (const sdk::Bfloat16 each : Values<sdk::Bfloat16>(in[0]))
        y.emplace_back(factor * std::tanh(static_cast<float>(each)));
      return std::vector<Tensor>{Make<sdk::Bfloat16>(in[0].dims, y)};
    };
  };
  const PropertyOp op = {"x: T", "elementwise, fits_half"};
  std::set<std::string> tried;
  EXPECT_EQ(PropertyTrial(op, inputs, run, {}, half(1)).Try(&tried), "");
  EXPECT_TRUE(tried.contains("fits_half"));
  EXPECT_NE(PropertyTrial(op, inputs, run, {}, half(1.05f)).Try().find("'fits_half': at element "), std::string::npos);
}

TEST(PropertyTrial, OfWhatCannotBeChangedSaysNothing) {
  const std::vector<Tensor> inputs = {Make<float>(kDims, kX), Make<float>(kDims, kY)};
  std::set<std::string> tried;
  const auto turned = Of([](const Floats& x, const Floats&) { return Floats(x.rbegin(), x.rend()); });
  EXPECT_EQ(PropertyTrial({"x: T, y: T", "moves(x)"}, inputs, turned, {0}).Try(&tried), "");
  EXPECT_TRUE(tried.empty());
  const auto refuses = [](const std::vector<Tensor>&) -> std::optional<std::vector<Tensor>> { return std::nullopt; };
  PropertyTrial none({"x: T, y: T", "moves(x)"}, inputs, refuses);
  EXPECT_FALSE(none.ok());
  EXPECT_EQ(none.Try(), "");
}

TEST(PropertyTrial, ReadsTermsWithTheirNames) {
  const auto terms = PropertyTerms("elementwise(t, e), exact,rows(x)");
  EXPECT_EQ(terms.at("elementwise"), (std::vector<std::string>{"t", "e"}));
  EXPECT_EQ(terms.at("rows"), std::vector<std::string>{"x"});
  EXPECT_TRUE(terms.at("exact").empty());
  EXPECT_EQ(terms.size(), 3u);
  const auto formula = PropertyTerms("elementwise, computes(add(x, neg(y))), exact");
  EXPECT_EQ(formula.at("computes"), std::vector<std::string>{"add(x,neg(y))"});
  EXPECT_EQ(formula.size(), 3u);
}

}  // namespace
}  // namespace tenon::testing::property_trial_test
