// SPDX-License-Identifier: Apache-2.0
// The engine's threads compute no numbers below the smallest normal one, but 0; what is only moved stays what it is,
// and the caller's thread computes afterwards as before.
#include <cmath>

#include "tests/engine/engine.h"

namespace tenon::engine::denormals_test {
namespace {

constexpr float kTiny = 1e-40f;  // the smallest normal one is 1.2e-38

struct Step {
  explicit Step(int64_t count)
      : g(TheRuntime()), x(g.Placeholder("x", DType::kFloat, {count})), numbers(static_cast<size_t>(count), kTiny) {}
  std::vector<float> Run(const Output& y, const SessionOptions& options) {
    EXPECT_TRUE(g.status().ok()) << g.status();
    const std::vector<Tensor> values = RunOnce(g, {{x, View(numbers, x.shape())}}, {y}, options);
    return values.empty() ? std::vector<float>{} : Values<float>(values[0]);
  }
  Graph g;
  Output x;
  std::vector<float> numbers;
};

// Of every way to run a step.
std::vector<SessionOptions> Ways() {
  std::vector<SessionOptions> ways(4);
  ways[1].executor = TENON_EXECUTOR_DYNAMIC;
  ways[2].compile = false;
  ways[3].compile = false;
  ways[3].executor = TENON_EXECUTOR_DYNAMIC;
  return ways;
}

TEST(Denormals, AreZeroInWhatIsComputed) {
  // One that its own thread computes, and one that helpers share.
  for (const int64_t count : {7, 3 << 20}) {
    Step step(count);
    const Output doubled = step.g.Op("AddV2", {step.x, step.x});
    const Output product =
        step.g.Op("Mul", {step.g.Op("Mul", {step.g.Op("Sub", {doubled, step.g.Const(1e-30f)}), step.g.Const(1e-9f)}),
                          step.g.Const(1e20f)});
    for (const SessionOptions& options : Ways()) {
      for (const float value : step.Run(doubled, options)) ASSERT_EQ(value, 0) << count;
      for (const float value : step.Run(product, options)) ASSERT_EQ(value, 0) << count;
    }
  }
}

TEST(Denormals, AreZeroInWhatIsComputedWhenTheStepIsPlanned) {
  Step step(1);
  const Output folded =
      step.g.Op("Mul", {step.g.Op("Mul", {step.g.Const(1e-30f), step.g.Const(1e-9f)}), step.g.Const(1e20f)});
  for (const SessionOptions& options : Ways()) EXPECT_EQ(step.Run(folded, options), std::vector<float>{0});
}

TEST(Denormals, AreMovedAsTheyAre) {
  Step step(5);
  const Output moved = step.g.Op(
      "ReverseV2", {step.g.Op("Concat", {step.g.Const(0), step.x, step.g.Const(std::vector<float>{kTiny}, {1})}),
                    step.g.Const(std::vector<int32_t>{0}, {1})});
  for (const SessionOptions& options : Ways()) EXPECT_EQ(step.Run(moved, options), std::vector<float>(6, kTiny));
}

TEST(Denormals, OfFloat16AreNumbersOfFloat32) {
  Step step(3);
  const float least = 0x1p-24f;
  step.numbers = {least, 3 * least, -least};
  const Output half =
      step.g.Op("Cast", {step.g.Op("Cast", {step.x}, {{"DstT", DType::kHalf}})}, {{"DstT", DType::kFloat}});
  for (const SessionOptions& options : Ways()) EXPECT_EQ(step.Run(half, options), step.numbers);
}

// Of two numbers, either of them tiny: what `last` makes of an op's result, the same in every way to run it, but for
// the last bits of an exponential.
void ExpectAlike(const std::string& op, const std::string& last, DType dtype) {
  const std::vector<double> odd = {kTiny, -kTiny, 1.1e-38, -1.1e-38, 0, -0.0, 1,     -1,
                                   2.5,   -3,     50,      -50,      7, 1e30, -1e30, 2e-38};
  const double scale = dtype == DType::kDouble ? 1e-270 : 1;  // tiny for doubles too
  std::vector<double> first, second;
  for (double a : odd)
    for (double b : odd)
      first.push_back(std::fabs(a) < 1e-30 ? a * scale : a), second.push_back(std::fabs(b) < 1e-30 ? b * scale : b);
  const auto count = static_cast<int64_t>(first.size());
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", dtype, {count}), y = g.Placeholder("y", dtype, {count}), made = g.Op(op, {x, y});
  const Output result = last == "Neg" ? g.Op(last, {made}) : g.Op(last, {made, y});
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Tensor left = TensorOf(dtype, {count}, first), right = TensorOf(dtype, {count}, second);
  std::vector<double> want;
  for (const SessionOptions& options : Ways()) {
    const std::vector<Tensor> got = RunOnce(g, {{x, View(left)}, {y, View(right)}}, {result}, options);
    ASSERT_FALSE(got.empty());
    const std::vector<double> values = DoublesOf(got[0]);
    if (want.empty()) want = values;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(values[i] == want[i] || std::fabs(values[i] - want[i]) <= 1e-6 * std::fabs(want[i]) ||
                  (std::isnan(values[i]) && std::isnan(want[i])))
          << op << ", " << last << " of " << first[i] << " and " << second[i] << ": " << values[i] << " and " << want[i]
          << ", " << (options.compile ? "compiled" : "not compiled");
  }
}
TEST(Denormals, AreTheSameHoweverTheStepRuns) {
  for (const char* op : {"ReluGrad",       "Relu6Grad",
                         "SoftplusGrad",   "EluGrad",
                         "SeluGrad",       "SoftsignGrad",
                         "TanhGrad",       "SigmoidGrad",
                         "SqrtGrad",       "RsqrtGrad",
                         "ReciprocalGrad", "LeakyReluGrad",
                         "FloorMod",       "TruncateMod",
                         "FloorDiv",       "Mul",
                         "RealDiv",        "Sub",
                         "AddV2",          "Maximum",
                         "Minimum",        "SquaredDifference",
                         "Xdivy",          "DivNoNan",
                         "MulNoNan"})
    for (const char* last : {"Neg", "FloorMod", "Maximum", "Mul"})
      for (const DType dtype : {DType::kFloat, DType::kDouble}) ExpectAlike(op, last, dtype);
}

TEST(Denormals, AreNumbersForTheCallerAgain) {
  Step step(7);
  (void)step.Run(step.g.Op("AddV2", {step.x, step.x}), {});
  volatile float tiny = kTiny;
  volatile float twice = tiny + tiny;
  EXPECT_GT(twice, tiny);
}

}  // namespace
}  // namespace tenon::engine::denormals_test
