// SPDX-License-Identifier: Apache-2.0
// Sessions of precision bfloat16 on GPUs that keep in 16 bits all that may be (the option `storage`): loops, conditionals, their gradients and steps over two GPUs give what
// float32 gives but for roundings, and nothing is refused. Covers N4.
#include <cmath>

#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

// More than the root mean square of what one rounding to bfloat16 changes numbers by, of their size (0.42 * 2^-8; the most is 2^-8).
constexpr double kRounding = 0x1p-9;
constexpr int64_t kSide = 32;
constexpr size_t kCount = kSide * kSide;

Runtime& Gpus() {
  static Runtime* const runtime = [] {
    RuntimeOptions options = device_test::GpuOptions(2);
    options.plugin_options.push_back({device_test::GpuPlugin(), "storage", "always"});
    return new Runtime(device_test::MakeRuntime(options));
  }();
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
  Case() : g(Gpus()), x(g.Placeholder("x", DType::kFloat, {kSide, kSide})), w(g.Const(Numbers(1, 0.3f), {kSide, kSide})) {}
  Output Layer(const Output& in, const Output& weights) { return g.Op("Tanh", {g.Op("MatMul", {in, weights})}); }
  Graph g;
  Output x, w;
};

struct Outcome {
  std::vector<std::vector<float>> values;
  std::string explanation;
};
Outcome RunOn(const Graph& g, SessionOptions options, const std::vector<Feed>& feeds, const std::vector<Name>& fetches, const std::vector<Name>& before = {}) {
  Outcome out;
  options.compile = false;  // what is compiled is tests/perf/gpu's to compare
  if (options.device.empty()) options.device = device_test::kGpu;
  const auto session = Session::Create(Gpus(), g, options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return out;
  if (!before.empty()) {
    EXPECT_TRUE(session->RunTargets(before).ok());
  }
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) names.push_back(feed.name), views.push_back(feed.value);
  const auto callable = session->Prepare(names, fetches);
  EXPECT_TRUE(callable.ok()) << callable.status();
  if (!callable.ok()) return out;
  const auto values = callable->Run(views);
  EXPECT_TRUE(values.ok()) << values.status();
  if (!values.ok()) return out;
  for (const Tensor& value : *values) {
    EXPECT_EQ(value.dtype(), DType::kFloat) << "what is fetched keeps its type";
    out.values.push_back(Values<float>(value));
  }
  out.explanation = *callable->Explain();
  return out;
}

double Relative(const std::vector<float>& exact, const std::vector<float>& reduced) {
  EXPECT_EQ(exact.size(), reduced.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(exact.size(), reduced.size()); ++i) difference += std::pow(exact[i] - reduced[i], 2), size += std::pow(exact[i], 2);
  return std::sqrt(difference / size);
}

// Each fetch is off by so many independent roundings at the most, and by something.
Outcome ExpectRounded(const Case& of, const std::vector<Feed>& feeds, const std::vector<Name>& fetches, int roundings, SessionOptions options = {}, const std::vector<Name>& before = {}) {
  EXPECT_TRUE(of.g.status().ok()) << of.g.status();
  const Outcome exact = RunOn(of.g, options, feeds, fetches, before);
  options.precision = Precision::kAllowBfloat16;
  Outcome reduced = RunOn(of.g, options, feeds, fetches, before);
  EXPECT_EQ(exact.values.size(), fetches.size());
  for (size_t i = 0; i < std::min(exact.values.size(), reduced.values.size()); ++i) {
    EXPECT_LT(Relative(exact.values[i], reduced.values[i]), kRounding * std::sqrt(roundings)) << "fetch " << i;
    EXPECT_GT(Relative(exact.values[i], reduced.values[i]), 0) << "fetch " << i << ": nothing was rounded";
  }
  EXPECT_EQ(exact.explanation.find("in bfloat16"), std::string::npos);
  return reduced;
}

constexpr int kTurns = 4;
// Of a turn: the layer's input, the weights, the product and its function.
constexpr int kRoundingsOfLayer = 4;

Output LoopOf(Case& c, const Output& w) {
  Graph& g = c.g;
  return While(g, {g.Const<int32_t>(0), c.x}, {w}, [&](const auto& v) { return g.Op("Less", {v[0], g.Const<int32_t>(kTurns)}); },
               [&](const auto& v) { return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}), c.Layer(v[1], v[2])}; })[1];
}

TEST(GpuBfloat16, LoopsComputeInBfloat16) {
  Case c;
  const Output last = LoopOf(c, c.w);
  const std::vector<float> x = Numbers(2, 1);
  for (const bool dynamic : {false, true}) {
    SessionOptions options;
    if (dynamic) options.executor = TENON_EXECUTOR_DYNAMIC;
    const Outcome reduced = ExpectRounded(c, {{c.x, View(x, {kSide, kSide})}}, {last}, kTurns * kRoundingsOfLayer, options);
    EXPECT_NE(reduced.explanation.find("in bfloat16"), std::string::npos);
  }
}

TEST(GpuBfloat16, GradientsOfLoopsAreCloseToThoseOfFloats) {
  Case c;
  const auto gradients = c.g.Gradients({c.g.Op("Sum", {LoopOf(c, c.w), c.g.Const({0, 1})})}, {c.w, c.x});
  ASSERT_TRUE(c.g.status().ok()) << c.g.status();
  const std::vector<float> x = Numbers(2, 1);
  // Forth and back, and sums of the turns' gradients, which are of one size.
  ExpectRounded(c, {{c.x, View(x, {kSide, kSide})}}, {gradients[0].dense, gradients[1].dense}, 2 * kTurns * kRoundingsOfLayer);
}

TEST(GpuBfloat16, LoopsAndConditionalsOfFunctionsComputeInBfloat16) {
  Case c;
  Graph& g = c.g;
  using Values = std::vector<Output>;
  const Argument number = {DType::kInt32, {}, "i"}, matrix = {DType::kFloat, {kSide, kSide}, "x"}, weights = {DType::kFloat, {kSide, kSide}, "w"};
  const Function condition = Define(g, "condition", [](Graph& body, const Values& v) -> FunctionResults { return Values{body.Op("Less", {v[0], body.Const<int32_t>(kTurns)})}; }, {number, matrix, weights});
  const auto layer = [](Graph& body, const Values& v) -> FunctionResults {
    return Values{body.Op("AddV2", {v[0], body.Const<int32_t>(1)}), body.Op("Tanh", {body.Op("MatMul", {v[1], v[2]})}), v[2]};
  };
  const Output last = While(g, {g.Const<int32_t>(0), c.x, c.w}, condition, Define(g, "turn", layer, {number, matrix, weights}))[1];
  const auto branch = [&](const char* name, const char* op) {
    return Define(g, name, [=](Graph& body, const Values& v) -> FunctionResults { return Values{body.Op("MatMul", {body.Op(op, {body.Op("MatMul", {v[0], v[1]})}), v[1]})}; }, {matrix, weights});
  };
  const Output predicate = g.Placeholder("predicate", DType::kBool, {});
  const Output chosen = Cond(g, predicate, {c.x, c.w}, branch("with_relu", "Relu"), branch("with_tanh", "Tanh"))[0];
  const std::vector<float> x = Numbers(2, 1);
  for (const bool which : {false, true})
    ExpectRounded(c, {{c.x, View(x, {kSide, kSide})}, {predicate, *Tensor::Scalar(which)}}, {last, chosen}, kTurns * kRoundingsOfLayer);
}

TEST(GpuBfloat16, BranchesOfConditionalsComputeInBfloat16) {
  Case c;
  Graph& g = c.g;
  const Output predicate = g.Placeholder("predicate", DType::kBool, {});
  const auto chosen = Cond(g, predicate, {c.Layer(c.x, c.w), c.w}, [&](const auto& v) { return std::vector<Output>{c.Layer(v[0], v[1])}; },
                           [&](const auto& v) { return std::vector<Output>{g.Op("MatMul", {g.Op("Relu", {v[0]}), v[1]}, {{"transpose_b", true}})}; });
  const Output y = c.Layer(chosen[0], c.w);
  const std::vector<float> x = Numbers(2, 1);
  for (const bool which : {false, true}) {
    const Outcome reduced = ExpectRounded(c, {{c.x, View(x, {kSide, kSide})}, {predicate, *Tensor::Scalar(which)}}, {y}, 3 * kRoundingsOfLayer);
    EXPECT_NE(reduced.explanation.find("in bfloat16"), std::string::npos);
  }
}

// Two layers, each on a GPU of its own with its weights, trained by one step: weights are float32's, and what goes between the GPUs is of 16 bits.
TEST(GpuBfloat16, AStepOverTwoGpusIsCloseToItsFloats) {
  Case c;
  Graph& g = c.g;
  Output hidden = c.x;
  std::vector<Output> handles, read;
  std::vector<Name> initial;
  for (const char* device : {"/device:GPU:0", "/device:GPU:1"}) {
    const auto on = g.Device(device);
    const std::string name = "weights" + std::to_string(handles.size());
    handles.push_back(g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{kSide, kSide}}, {"shared_name", name}}, name));
    initial.emplace_back(g.AddNode("AssignVariableOp", {handles.back(), g.Const(Numbers(static_cast<uint32_t>(10 + handles.size()), 0.3f), {kSide, kSide})}));
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
  const Outcome reduced = ExpectRounded(c, {{c.x, View(x, {kSide, kSide})}}, fetches, 2 * kRoundingsOfLayer, {}, initial);
  EXPECT_NE(reduced.explanation.find("in bfloat16"), std::string::npos);
}

}  // namespace
}  // namespace tenon::engine
