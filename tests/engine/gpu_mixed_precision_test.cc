// SPDX-License-Identifier: Apache-2.0
// Sessions of precision bfloat16 and float16 on GPUs that keep in 16 bits all that may be (the option `storage`):
// loops, conditionals, their gradients and steps over two GPUs give what float32 gives but for roundings, and nothing
// is refused. What float16 does not hold stays in float32. Covers N4.
#include <cmath>

#include "tenon/train/model.h"
#include "tenon/train/optimizer.h"
#include "tests/device/gpu.h"
#include "tests/engine/reduced_precision.h"

namespace tenon::engine::gpu_mixed_precision_test {
namespace {

struct Policy {
  const char* name;
  Precision precision;
  double rounding;  // more than the root mean square of what one rounding changes numbers by, of their size (0.42 *
                    // 2^-8 of bfloat16, whose most is 2^-8)
  std::string note() const { return std::string("in ") + name; }
};
constexpr Policy kBfloat16 = {"bfloat16", Precision::kAllowBfloat16, 0x1p-9},
                 kFloat16 = {"float16", Precision::kAllowFloat16, 0x1p-12};

constexpr int64_t kSide = 32;
constexpr size_t kCount = kSide * kSide;

Runtime MakeGpus(const char* storage) {
  RuntimeOptions options = device_test::GpuOptions(2);
  options.plugin_options.push_back({device_test::GpuPlugin(), "storage", storage});
  return device_test::MakeRuntime(options);
}
Runtime& Gpus() {
  static Runtime* const runtime = new Runtime(MakeGpus("always"));
  return *runtime;
}

std::vector<float> Numbers(uint32_t seed, float size) {
  std::vector<float> values(kCount);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = (static_cast<float>(seed >> 8) * 0x1p-23f - 1) * size;
  }
  return values;
}

// The graph's inputs are x, of kSide by kSide, and whatever else is fed.
struct Case {
  Case()
      : g(Gpus()), x(g.Placeholder("x", DType::kFloat, {kSide, kSide})), w(g.Const(Numbers(1, 0.3f), {kSide, kSide})) {}
  Output Layer(const Output& in, const Output& weights) { return g.Op("Tanh", {g.Op("MatMul", {in, weights})}); }
  Graph g;
  Output x, w;
};

Outcome RunOn(const Graph& g, SessionOptions options, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
              const std::vector<Name>& before = {}) {
  options.compile = false;  // what is compiled is tests/perf/gpu's to compare
  if (options.device.empty()) options.device = device_test::kGpu;
  const auto session = Session::Create(Gpus(), g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  if (!before.empty()) {
    EXPECT_TRUE(session->RunTargets(before).ok());
  }
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) names.push_back(feed.name), views.push_back(feed.value);
  return RunPrepared(*session, names, views, fetches);
}

// Each fetch is off by so many independent roundings at the most, and by something.
Outcome ExpectRounded(const Policy& policy, const Case& of, const std::vector<Feed>& feeds,
                      const std::vector<Name>& fetches, int roundings, SessionOptions options = {},
                      const std::vector<Name>& before = {}) {
  EXPECT_TRUE(of.g.status().ok()) << of.g.status();
  const Outcome exact = RunOn(of.g, options, feeds, fetches, before);
  options.precision = policy.precision;
  Outcome reduced = RunOn(of.g, options, feeds, fetches, before);
  EXPECT_EQ(exact.values.size(), fetches.size());
  for (size_t i = 0; i < std::min(exact.values.size(), reduced.values.size()); ++i) {
    EXPECT_LT(Relative(exact.values[i], reduced.values[i]), policy.rounding * std::sqrt(roundings)) << "fetch " << i;
    EXPECT_GT(Relative(exact.values[i], reduced.values[i]), 0) << "fetch " << i << ": nothing was rounded";
  }
  EXPECT_EQ(exact.explanation.find(policy.note()), std::string::npos);
  return reduced;
}

class GpuMixedPrecision : public testing::TestWithParam<Policy> {};
INSTANTIATE_TEST_SUITE_P(Types, GpuMixedPrecision, testing::Values(kBfloat16, kFloat16),
                         [](const auto& info) { return std::string(info.param.name); });

constexpr int kTurns = 4;
// Of a turn: the layer's input, the weights, the product and its function.
constexpr int kRoundingsOfLayer = 4;

Output LoopOf(Case& c, const Output& w) {
  Graph& g = c.g;
  return While(
      g, {g.Const<int32_t>(0), c.x}, {w},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const<int32_t>(kTurns)});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}), c.Layer(v[1], v[2])};
      })[1];
}

TEST_P(GpuMixedPrecision, LoopsComputeIn16Bits) {
  Case c;
  const Output last = LoopOf(c, c.w);
  const std::vector<float> x = Numbers(2, 1);
  for (const bool dynamic : {false, true}) {
    SessionOptions options;
    if (dynamic) options.executor = TENON_EXECUTOR_DYNAMIC;
    const Outcome reduced =
        ExpectRounded(GetParam(), c, {{c.x, View(x, {kSide, kSide})}}, {last}, kTurns * kRoundingsOfLayer, options);
    EXPECT_NE(reduced.explanation.find(GetParam().note()), std::string::npos);
  }
}

TEST_P(GpuMixedPrecision, GradientsOfLoopsAreCloseToThoseOfFloats) {
  Case c;
  const auto gradients = c.g.Gradients({c.g.Op("Sum", {LoopOf(c, c.w), c.g.Const({0, 1})})}, {c.w, c.x});
  ASSERT_TRUE(c.g.status().ok()) << c.g.status();
  const std::vector<float> x = Numbers(2, 1);
  // Forth and back, and sums of the turns' gradients, which are of one size.
  ExpectRounded(GetParam(), c, {{c.x, View(x, {kSide, kSide})}}, {gradients[0].dense, gradients[1].dense},
                2 * kTurns * kRoundingsOfLayer);
}

TEST_P(GpuMixedPrecision, LoopsAndConditionalsOfFunctionsComputeIn16Bits) {
  Case c;
  Graph& g = c.g;
  using Values = std::vector<Output>;
  const Argument number = {DType::kInt32, {}, "i"}, matrix = {DType::kFloat, {kSide, kSide}, "x"},
                 weights = {DType::kFloat, {kSide, kSide}, "w"};
  const Function condition = Define(g, "condition",
                                    [](Graph& body, const Values& v) -> FunctionResults {
                                      return Values{body.Op("Less", {v[0], body.Const<int32_t>(kTurns)})};
                                    },
                                    {number, matrix, weights});
  const auto layer = [](Graph& body, const Values& v) -> FunctionResults {
    return Values{body.Op("AddV2", {v[0], body.Const<int32_t>(1)}), body.Op("Tanh", {body.Op("MatMul", {v[1], v[2]})}),
                  v[2]};
  };
  const Output last =
      While(g, {g.Const<int32_t>(0), c.x, c.w}, condition, Define(g, "turn", layer, {number, matrix, weights}))[1];
  const auto branch = [&](const char* name, const char* op) {
    return Define(g, name,
                  [=](Graph& body, const Values& v) -> FunctionResults {
                    return Values{body.Op("MatMul", {body.Op(op, {body.Op("MatMul", {v[0], v[1]})}), v[1]})};
                  },
                  {matrix, weights});
  };
  const Output predicate = g.Placeholder("predicate", DType::kBool, {});
  const Output chosen = Cond(g, predicate, {c.x, c.w}, branch("with_relu", "Relu"), branch("with_tanh", "Tanh"))[0];
  const std::vector<float> x = Numbers(2, 1);
  for (const bool which : {false, true})
    ExpectRounded(GetParam(), c, {{c.x, View(x, {kSide, kSide})}, {predicate, *Tensor::Scalar(which)}}, {last, chosen},
                  kTurns * kRoundingsOfLayer);
}

TEST_P(GpuMixedPrecision, BranchesOfConditionalsComputeIn16Bits) {
  Case c;
  Graph& g = c.g;
  const Output predicate = g.Placeholder("predicate", DType::kBool, {});
  const auto chosen = Cond(
      g, predicate, {c.Layer(c.x, c.w), c.w}, [&](const auto& v) { return std::vector<Output>{c.Layer(v[0], v[1])}; },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("MatMul", {g.Op("Relu", {v[0]}), v[1]}, {{"transpose_b", true}})};
      });
  const Output y = c.Layer(chosen[0], c.w);
  const std::vector<float> x = Numbers(2, 1);
  for (const bool which : {false, true}) {
    const Outcome reduced =
        ExpectRounded(GetParam(), c, {{c.x, View(x, {kSide, kSide})}, {predicate, *Tensor::Scalar(which)}}, {y},
                      3 * kRoundingsOfLayer);
    EXPECT_NE(reduced.explanation.find(GetParam().note()), std::string::npos);
  }
}

// Two layers, each on a GPU of its own with its weights, trained by one step: weights are float32's, and what goes
// between the GPUs is of 16 bits.
TEST_P(GpuMixedPrecision, AStepOverTwoGpusIsCloseToItsFloats) {
  Case c;
  Graph& g = c.g;
  Output hidden = c.x;
  std::vector<Output> handles, read;
  std::vector<Name> initial;
  for (const char* device : {"/device:GPU:0", "/device:GPU:1"}) {
    const auto on = g.Device(device);
    const std::string name = "weights" + std::to_string(handles.size());
    handles.push_back(g.Op("VarHandleOp", {},
                           {{"dtype", DType::kFloat}, {"shape", Shape{kSide, kSide}}, {"shared_name", name}}, name));
    initial.emplace_back(g.AddNode(
        "AssignVariableOp",
        {handles.back(), g.Const(Numbers(static_cast<uint32_t>(10 + handles.size()), 0.3f), {kSide, kSide})}));
    read.push_back(g.Op("ReadVariableOp", {handles.back()}, {{"dtype", DType::kFloat}}, name + "_read"));
    hidden = c.Layer(hidden, read.back());
  }
  const auto gradients = g.Gradients({g.Op("Sum", {hidden, g.Const({0, 1})})}, read);
  ASSERT_TRUE(g.status().ok()) << g.status();
  std::vector<Operation> steps;
  for (size_t i = 0; i < handles.size(); ++i) {
    const auto on = g.Device("/device:GPU:" + std::to_string(i));
    steps.push_back(g.AddNode("ResourceApplyGradientDescent", {handles[i], g.Const(1.0f), gradients[i].dense}));
  }
  std::vector<Name> fetches = {hidden};
  {
    const auto after = g.ControlDependencies(steps);
    for (size_t i = 0; i < handles.size(); ++i) {
      const auto on = g.Device("/device:GPU:" + std::to_string(i));
      fetches.emplace_back(g.Op("ReadVariableOp", {handles[i]}, {{"dtype", DType::kFloat}}));
    }
  }
  const std::vector<float> x = Numbers(2, 1);
  const Outcome reduced =
      ExpectRounded(GetParam(), c, {{c.x, View(x, {kSide, kSide})}}, fetches, 2 * kRoundingsOfLayer, {}, initial);
  EXPECT_NE(reduced.explanation.find(GetParam().note()), std::string::npos);
}

// More variables than one launch casts, with and without whole packs, of one chunk and of several.
TEST_P(GpuMixedPrecision, CastsOfVariablesThatAreOneLaunchAreThoseOneByOne) {
  constexpr int64_t kRows = 4, kVariables = 140;
  Graph g(Gpus());
  std::vector<Name> begin, fetches;
  std::vector<Feed> feeds;
  const std::vector<float> numbers = Numbers(7, 1);  // of all of which what is fed is the beginning
  for (int64_t i = 0; i < kVariables; ++i) {
    const int64_t depth = i == 60 ? 130 : 1 + i % 9, width = i == 60 ? 64 : 1 + i % 7;
    const std::string name = "w" + std::to_string(i);
    const Output handle = g.Op("VarHandleOp", {},
                               {{"dtype", DType::kFloat}, {"shape", Shape{depth, width}}, {"shared_name", name}}, name);
    std::vector<float> values(static_cast<size_t>(depth * width));
    for (size_t k = 0; k < values.size(); ++k) values[k] = numbers[(k * 7 + static_cast<size_t>(i)) % kCount];
    begin.emplace_back(g.AddNode("AssignVariableOp", {handle, g.Const(values, {depth, width})}));
    const Output x = g.Placeholder("x" + std::to_string(i), DType::kFloat, {kRows, depth});
    feeds.push_back({x, View(std::span(numbers).first(static_cast<size_t>(kRows * depth)), {kRows, depth})});
    fetches.emplace_back(g.Op("MatMul", {x, g.Op("ReadVariableOp", {handle}, {{"dtype", DType::kFloat}})}));
  }
  ASSERT_TRUE(g.status().ok()) << g.status();
  SessionOptions options;
  options.device = device_test::kGpu;
  options.precision = GetParam().precision;
  options.compile = false;
  const auto session = Session::Create(Gpus(), g, options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->RunTargets(begin).ok());
  std::vector<std::vector<float>> first;
  for (int step = 0; step < 8; ++step) {  // the first one as its nodes come, later ones captured
    const auto values = session->Run(feeds, fetches);
    ASSERT_TRUE(values.ok()) << values.status();
    for (size_t i = 0; i < values->size(); ++i) {
      if (step == 0) first.push_back(Values<float>((*values)[i]));
      ASSERT_EQ(Values<float>((*values)[i]), first[i]) << "step " << step << ", variable " << i;
    }
  }
  EXPECT_GT(session->Metrics()->captured_launches, 0u);
  // As constants they are cast before the step.
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) names.push_back(feed.name), views.push_back(feed.value);
  constexpr char kCasts[] = "Tenon>CastN";
  EXPECT_NE(RunPrepared(*session, names, views, fetches).explanation.find(kCasts), std::string::npos);
  ASSERT_TRUE(session->Freeze().ok());
  const Outcome frozen = RunPrepared(*session, names, views, fetches);
  EXPECT_EQ(frozen.values, first);
  EXPECT_EQ(frozen.explanation.find(kCasts), std::string::npos);
}

// ---- What float16 does not hold ----

// Rounded somewhere, and no more than the type rounds.
void ExpectHeld(const Case& c, const std::vector<Feed>& feeds, const Output& y) {
  const Outcome reduced = ExpectRounded(kFloat16, c, feeds, {y}, 3 * kRoundingsOfLayer);
  EXPECT_NE(reduced.explanation.find("it reads numbers that float16 does not hold"), std::string::npos)
      << reduced.explanation;
  EXPECT_NE(reduced.explanation.find("in float16"), std::string::npos);
}

TEST(GpuFloat16, MasksByLargeNumbersStayNumbers) {
  Case c;
  Graph& g = c.g;
  const Output mask = g.Placeholder("mask", DType::kFloat, {kSide, kSide});
  const Output masked = g.Op("AddV2", {g.Op("MatMul", {c.Layer(c.x, c.w), c.w}), g.Op("Mul", {mask, g.Const(-1e9f)})});
  // An infinite number times 0 would be none.
  const Output kept = g.Op("Mul", {masked, g.Op("Sub", {g.Const(1.0f), mask})});
  const Output y = c.Layer(g.Op("MatMul", {kept, c.w}), c.w);
  std::vector<float> x = Numbers(2, 1), masks(kCount);
  for (size_t i = 0; i < kCount; i += 3) masks[i] = 1;
  ExpectHeld(c, {{c.x, View(x, {kSide, kSide})}, {mask, View(masks, {kSide, kSide})}}, y);
}

TEST(GpuFloat16, WhatIsMadeSmallAndLargeAgainIsNotLost) {
  Case c;
  Graph& g = c.g;
  for (const char* op : {"Mul", "RealDiv"}) {
    const Output small = g.Op(op, {c.Layer(c.x, c.w), g.Const(op == std::string("Mul") ? 1e-8f : 1e8f)});
    const Output again = g.Op("Mul", {g.Op("Mul", {g.Op("Neg", {small}), g.Const(1e4f)}), g.Const(1e4f)});
    const std::vector<float> x = Numbers(2, 1);
    ExpectHeld(c, {{c.x, View(x, {kSide, kSide})}}, c.Layer(g.Op("MatMul", {again, c.w}), c.w));
  }
}

TEST(GpuFloat16, BehindAProductOfBothItGoesOn) {
  Case c;
  Graph& g = c.g;
  const Output product =
      g.Op("MatMul", {g.Op("Mul", {c.x, g.Const(1e6f)}), g.Op("Mul", {g.Op("Neg", {c.x}), g.Const(1e-6f)})});
  const std::vector<float> x = Numbers(2, 1);
  ExpectHeld(c, {{c.x, View(x, {kSide, kSide})}}, c.Layer(g.Op("Relu", {product}), c.w));
}

TEST(GpuFloat16, NumbersThatAreSmallBesideOthersAreRounded) {
  Case c;
  std::vector<float> weights = Numbers(1, 0.3f);
  for (size_t i = 0; i < kCount; i += 2) weights[i] *= 1e-9f;
  const Output y = c.Layer(c.Layer(c.x, c.g.Const(weights, {kSide, kSide})), c.w);
  const std::vector<float> x = Numbers(2, 1);
  const Outcome reduced = ExpectRounded(kFloat16, c, {{c.x, View(x, {kSide, kSide})}}, {y}, 2 * kRoundingsOfLayer);
  EXPECT_EQ(reduced.explanation.find("stays in float32"), std::string::npos) << reduced.explanation;
}

// Planned and not run: by what a card gains, with products that are large enough.
std::string PlanOfTraining(Runtime& runtime, train::LossScaling::Kind scaling) {
  constexpr int64_t kLarge = 2048;
  Graph g(runtime);
  train::Model model(g, 3);
  const Output w = model.Weight("w", {kLarge, kLarge}, train::Initializer::TruncatedNormal(0.1f)).value;
  const Output x = g.Placeholder("x", DType::kFloat, {kLarge, kLarge});
  const Output loss =
      g.Op("Mean", {g.Op("Square", {g.Op("MatMul", {g.Op("Tanh", {g.Op("MatMul", {x, w})}), w})}), g.Const({0, 1})});
  train::OptimizerOptions optimizer;
  optimizer.loss_scaling.kind = scaling;
  const Operation update = train::Minimize(model, loss, g.Const(0.1f), optimizer);
  EXPECT_TRUE(g.status().ok()) << g.status();
  SessionOptions options;
  options.device = device_test::kGpu;
  options.precision = Precision::kAllowFloat16;
  const auto session = Session::Create(runtime, g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return "";
  const auto callable = session->Prepare({x}, {loss}, {update});
  EXPECT_TRUE(callable.ok()) << callable.status();
  return callable.ok() ? *callable->Explain() : "";
}

TEST(GpuFloat16, AStepThatTrainsIsInIt) {
  constexpr const char* kSays = "does not ask whether gradients are finite";
  Runtime by_gain = MakeGpus("auto");
  const std::string unscaled = PlanOfTraining(by_gain, train::LossScaling::Kind::kNone);
  EXPECT_NE(unscaled.find(kSays), std::string::npos) << unscaled;
  EXPECT_EQ(unscaled.find("in float16\""), std::string::npos);
  const std::string scaled = PlanOfTraining(by_gain, train::LossScaling::Kind::kDynamic);
  EXPECT_EQ(scaled.find(kSays), std::string::npos);
  EXPECT_NE(scaled.find("in float16\""), std::string::npos) << scaled;
  const std::string asked_for = PlanOfTraining(Gpus(), train::LossScaling::Kind::kNone);
  EXPECT_NE(asked_for.find("in float16\""), std::string::npos) << asked_for;
}

}  // namespace
}  // namespace tenon::engine::gpu_mixed_precision_test
