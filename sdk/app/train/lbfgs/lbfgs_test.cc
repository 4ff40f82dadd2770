// SPDX-License-Identifier: Apache-2.0
// L-BFGS on functions whose minima are known, at each of its ends, and where the loss is no number; its line search
// alone. Covers P6.
#include "tenon/train/lbfgs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sdk/app/train/lbfgs/line_search.h"
#include "tenon/train/embedding.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::lbfgs_test {
namespace {

using End = LbfgsResult::End;

// A loss over one variable "x" that begins somewhere.
struct Problem {
  explicit Problem(const std::vector<float>& first)
      : graph(SharedRuntime()), model(graph), size(static_cast<int64_t>(first.size())) {
    x = &model.Weight("x", {size}, Initializer::Constant(0));
    given = AssignNode(graph, *x, first);
  }
  Output Op(const char* op, const std::vector<Output>& inputs) { return graph.Op(op, inputs); }
  Output SumOf(const Output& v) { return graph.Op("Sum", {v, graph.Const({0})}); }
  Output Part(const Output& v, int32_t begin, int64_t count) {
    return graph.Op("Slice", {v, graph.Const({begin}), graph.Const({static_cast<int32_t>(count)})});
  }
  Session Begin() { return SessionOf(graph, {given}); }
  std::vector<float> At(const Session& session) { return Floats((*session.Run({}, {x->value}))[0]); }

  Graph graph;
  Model model;
  int64_t size;
  const Variable* x;
  Operation given;
};

// sum 100 (x[i+1] - x[i]^2)^2 + (1 - x[i])^2; its minimum is at ones.
struct Rosenbrock : Problem {
  explicit Rosenbrock(const std::vector<float>& first) : Problem(first) {
    const Output head = Part(x->value, 0, size - 1), tail = Part(x->value, 1, size - 1);
    const Output valley = Op("Mul", {graph.Const(100.0f), Op("SquaredDifference", {tail, Op("Square", {head})})});
    loss = SumOf(Op("AddV2", {valley, Op("SquaredDifference", {head, graph.Const(1.0f)})}));
  }
  Output loss;
};

TEST(Lbfgs, FindsRosenbrocksMinimum) {
  std::vector<float> twenty(20, 0.0f);
  for (size_t i = 0; i < 20; i += 2) twenty[i] = -0.5f;
  for (const std::vector<float>& first : {std::vector<float>{-1.2f, 1}, twenty}) {
    Rosenbrock problem(first);
    LbfgsOptions options;
    options.gradient_tolerance = 2e-4;
    options.max_iterations = 300;
    std::vector<double> losses;
    options.after_iteration = [&](const LbfgsResult& now) { losses.push_back(now.loss); };
    const Lbfgs lbfgs(problem.model, problem.loss, options);
    const Session session = problem.Begin();
    const auto result = lbfgs.Run(session);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(LbfgsEndName(result->end), "gradient");
    EXPECT_LE(result->gradient_norm, 2e-4);
    EXPECT_LT(result->iterations, 150) << "a gradient descent needs thousands";
    EXPECT_LT(result->evaluations, 2 * result->iterations + 20);
    for (const float each : problem.At(session)) EXPECT_NEAR(each, 1, 2e-3f);
    ASSERT_EQ(static_cast<int64_t>(losses.size()), result->iterations);
    for (size_t i = 1; i < losses.size(); ++i) EXPECT_LT(losses[i], losses[i - 1]);
    EXPECT_EQ(losses.back(), result->loss);
  }
}

// |A x - b|^2 of fed A and b, over two variables; the solution by the normal equations is what b was made of.
TEST(Lbfgs, SolvesLeastSquares) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const Variable& kernel = model.Weight("kernel", {4, 2}, Initializer::Constant(0.1f));
  const Variable& bias = model.Weight("bias", {2}, Initializer::Constant(0));
  model.Weight("unused", {3}, Initializer::Constant(7));
  const Output a = graph.Placeholder("a", DType::kFloat, {-1, 4}), b = graph.Placeholder("b", DType::kFloat, {-1, 2});
  const Output fitted = graph.Op("BiasAdd", {graph.Op("MatMul", {a, kernel.value}), bias.value});
  const Output loss = graph.Op("Mean", {graph.Op("SquaredDifference", {fitted, b}), graph.Const({0, 1})});
  const Lbfgs lbfgs(model, loss);
  const Session session = SessionOf(graph, {model.InitializeAll()});
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  const std::vector<float> wanted_kernel{1, -2, 0.5f, 3, -1, 0.25f, 2, 0}, wanted_bias{4, -5};
  std::vector<float> as(40 * 4), bs;
  for (float& each : as) each = normal(random);
  for (size_t row = 0; row < 40; ++row)
    for (size_t k = 0; k < 2; ++k) {
      float y = wanted_bias[k];
      for (size_t i = 0; i < 4; ++i) y += as[row * 4 + i] * wanted_kernel[i * 2 + k];
      bs.push_back(y);
    }
  const auto result = lbfgs.Run(session, {{a, View(as, {40, 4})}, {b, View(bs, {40, 2})}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->end, End::kGradient);
  const auto values = session.Run({}, {kernel.value, bias.value, "unused/Read"});
  ExpectNear(Floats((*values)[0]), wanted_kernel, "kernel", 1e-4f);
  ExpectNear(Floats((*values)[1]), wanted_bias, "bias", 1e-4f);
  EXPECT_EQ(Floats((*values)[2]), std::vector<float>(3, 7));
}

// The mean logistic loss and 0.01 |w|^2: at the end its gradient, computed here in double, is none.
TEST(Lbfgs, FitsALogisticRegression) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  constexpr size_t kCount = 200, kWidth = 3;
  std::vector<float> xs(kCount * kWidth), ys(kCount);
  for (float& each : xs) each = normal(random);
  for (size_t i = 0; i < kCount; ++i)
    ys[i] = xs[i * kWidth] - 2 * xs[i * kWidth + 1] + normal(random) > 0 ? 1.0f : -1.0f;
  Problem problem(std::vector<float>(kWidth, 0.0f));
  Graph& graph = problem.graph;
  const Output column = graph.Op("ExpandDims", {problem.x->value, graph.Const(1)});
  const Output margins =
      graph.Op("Mul", {graph.Op("MatMul", {graph.Const(xs, {kCount, kWidth}), column}), graph.Const(ys, {kCount, 1})});
  const Output mean = graph.Op("Mean", {graph.Op("Softplus", {graph.Op("Neg", {margins})}), graph.Const({0, 1})});
  const Output loss = graph.Op(
      "AddV2", {mean, graph.Op("Mul", {graph.Const(0.01f), problem.SumOf(graph.Op("Square", {problem.x->value}))})});
  LbfgsOptions options;
  options.gradient_tolerance = 1e-4;
  const Lbfgs lbfgs(problem.model, loss, options);
  const Session session = problem.Begin();
  const auto result = lbfgs.Run(session);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NE(result->end, End::kIterations);
  EXPECT_LT(result->iterations, 25);
  const std::vector<float> w = problem.At(session);
  std::vector<double> gradient(kWidth);
  for (size_t k = 0; k < kWidth; ++k) gradient[k] = 0.02 * w[k];
  for (size_t i = 0; i < kCount; ++i) {
    double margin = 0;
    for (size_t k = 0; k < kWidth; ++k) margin += ys[i] * xs[i * kWidth + k] * w[k];
    for (size_t k = 0; k < kWidth; ++k) gradient[k] -= ys[i] * xs[i * kWidth + k] / (1 + std::exp(margin)) / kCount;
  }
  for (const double each : gradient) EXPECT_NEAR(each, 0, 3e-4);
}

// ---- The ends ----

TEST(Lbfgs, EndsAfterItsIterationsAndGoesOn) {
  Rosenbrock problem({-1.2f, 1});
  LbfgsOptions options;
  options.max_iterations = 3;
  const Lbfgs lbfgs(problem.model, problem.loss, options);
  const Session session = problem.Begin();
  const auto first = lbfgs.Run(session);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(LbfgsEndName(first->end), "iterations");
  EXPECT_EQ(first->iterations, 3);
  EXPECT_EQ((*session.Run({}, {problem.loss}))[0].scalar<float>(), static_cast<float>(first->loss))
      << "the variables are where the result says";
  const auto second = lbfgs.Run(session);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_LT(second->loss, first->loss);
}

TEST(Lbfgs, EndsAtOnceAtTheMinimumAndWithoutIterations) {
  Rosenbrock problem({1, 1});
  const Lbfgs lbfgs(problem.model, problem.loss);
  const auto result = lbfgs.Run(problem.Begin());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->end, End::kGradient);
  EXPECT_EQ(result->iterations, 0);
  EXPECT_EQ(result->evaluations, 1);
  Rosenbrock other({0, 1});
  LbfgsOptions none;
  none.max_iterations = 0;
  EXPECT_EQ(Lbfgs(other.model, other.loss, none).Run(other.Begin())->end, End::kIterations);
}

// A function whose gradient points up: nothing along it is lower.
TEST(Lbfgs, EndsWhereNoStepImproves) {
  Problem problem({2, 3});
  Graph& graph = problem.graph;
  host::FunctionOptions options;
  options.gradient = "upside_down";
  host::Define(graph, "upside_down",
               [](Graph& body, const std::vector<Output>& v) {
                 return body.Op("Neg", {body.Op("Mul", {v[0], v[1]})});
               },
               {DType::kFloat, DType::kFloat});
  const host::Function square = host::Define(
      graph, "half_square",
      [](Graph& body, const std::vector<Output>& v) {
        return body.Op("Mul", {body.Op("Square", {v[0]}), body.Const(0.5f)});
      },
      {DType::kFloat}, options);
  const Lbfgs lbfgs(problem.model, problem.SumOf(graph.Call(square, {problem.x->value})));
  const Session session = problem.Begin();
  const auto result = lbfgs.Run(session);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(LbfgsEndName(result->end), "no step");
  EXPECT_EQ(result->iterations, 0);
  EXPECT_LE(result->evaluations, 21);
  EXPECT_EQ(problem.At(session), (std::vector<float>{2, 3}));
}

// (x + 3)^2 falls until x is negative, where sqrt(x) is no number.
TEST(Lbfgs, NamesTheIterationOfALossThatIsNoNumber) {
  Problem problem({4});
  Graph& graph = problem.graph;
  const Output square = graph.Op("SquaredDifference", {problem.x->value, graph.Const(-3.0f)});
  const Output nothing = graph.Op("Mul", {graph.Op("Sqrt", {problem.x->value}), graph.Const(0.0f)});
  const Output loss = problem.SumOf(graph.Op("AddV2", {square, nothing}));
  std::vector<double> losses;
  LbfgsOptions options;
  options.after_iteration = [&](const LbfgsResult& now) { losses.push_back(now.loss); };
  const Lbfgs lbfgs(problem.model, loss, options);
  const Session session = problem.Begin();
  const auto result = lbfgs.Run(session);
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << result.status();
  ASSERT_FALSE(losses.empty());
  const std::string count = std::to_string(losses.size()), next = std::to_string(losses.size() + 1);
  EXPECT_NE(result.status().message().find("L-BFGS, iteration " + next +
                                           " (the variables have the values of iteration " + count),
            std::string::npos)
      << result.status();
  EXPECT_NE(result.status().message().find("nan"), std::string::npos) << result.status();
  EXPECT_LT(losses.back(), 49);
  EXPECT_EQ((*session.Run({}, {loss}))[0].scalar<float>(), static_cast<float>(losses.back())) << "the last good point";
}

TEST(Lbfgs, NamesALossThatBeginsWrong) {
  Problem none({-1}), endless({1e30f});
  const auto no_number = Lbfgs(none.model, none.SumOf(none.Op("Sqrt", {none.x->value}))).Run(none.Begin());
  EXPECT_EQ(no_number.status().code(), Code::kInvalidArgument);
  EXPECT_NE(no_number.status().message().find("nan"), std::string::npos) << no_number.status();
  const auto infinite =
      Lbfgs(endless.model, endless.SumOf(endless.Op("Square", {endless.x->value}))).Run(endless.Begin());
  EXPECT_NE(infinite.status().message().find("infinity at the variables' first values"), std::string::npos)
      << infinite.status();
}

// e^(600 x) - x, where a step of 4 from -3 is infinity.
TEST(Lbfgs, ShortensStepsToInfinity) {
  Problem problem({-3});
  const Output exponential = problem.Op("Exp", {problem.Op("Mul", {problem.graph.Const(600.0f), problem.x->value})});
  const Lbfgs lbfgs(problem.model, problem.SumOf(problem.Op("Sub", {exponential, problem.x->value})));
  const Session session = problem.Begin();
  const auto result = lbfgs.Run(session);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(problem.At(session)[0], -std::log(600.0f) / 600, 1e-4f);
}

TEST(Lbfgs, StopsWhenItIsCancelled) {
  Rosenbrock problem({-1.2f, 1});
  auto cancellation = host::Cancellation::Create();
  LbfgsOptions options;
  options.after_iteration = [&](const LbfgsResult& now) {
    if (now.iterations == 2) cancellation->Cancel();
  };
  const Lbfgs lbfgs(problem.model, problem.loss, options);
  const Session session = problem.Begin();
  const auto result = lbfgs.Run(session, {}, {.cancellation = &*cancellation});
  EXPECT_EQ(result.status().code(), Code::kCancelled) << result.status();
  EXPECT_NE(result.status().message().find("iteration 3"), std::string::npos) << result.status();
}

TEST(Lbfgs, RefusesWhatMakesNoSense) {
  const auto refused = [](const LbfgsOptions& options) {
    Rosenbrock problem({0, 0});
    const Lbfgs lbfgs(problem.model, problem.loss, options);
    EXPECT_EQ(problem.graph.status().code(), Code::kInvalidArgument);
    EXPECT_FALSE(lbfgs.Run(NewSession()).ok());
    return problem.graph.status().message();
  };
  LbfgsOptions options;
  options.history = 0;
  EXPECT_NE(refused(options).find("0 pairs"), std::string::npos);
  options = {};
  options.curvature = 1e-5;
  EXPECT_NE(refused(options).find("Wolfe conditions"), std::string::npos);
  options = {};
  options.gradient_tolerance = NAN;
  EXPECT_NE(refused(options).find("tolerance"), std::string::npos);
  Problem problem({1});
  const Lbfgs without(problem.model, problem.graph.Const(1.0f));
  EXPECT_NE(problem.graph.status().message().find("depends on no trainable variable"), std::string::npos)
      << problem.graph.status();
  Graph graph(SharedRuntime());
  Model model(graph);
  const Embedding table(model, "table", 3, 2, Initializer::Constant(1));
  const Lbfgs of_rows(model, graph.Op("Sum", {table.Lookup(graph.Const({1})), graph.Const({0, 1})}));
  EXPECT_EQ(graph.status().code(), Code::kUnimplemented);
  Rosenbrock unset({0, 0});
  const Lbfgs lbfgs(unset.model, unset.loss);
  EXPECT_NE(lbfgs.Run(SessionOf(unset.graph, {})).status().message().find("L-BFGS"), std::string::npos)
      << "variables without a first value";
}

// ---- The line search ----

LineSearch SearchOf(const std::function<double(double)>& f, const std::function<double(double)>& slope,
                    int* evaluations) {
  LineSearch search;
  search.evaluate = [=](double step) -> Result<LinePoint> {
    ++*evaluations;
    return LinePoint{step, f(step), slope(step)};
  };
  return search;
}

TEST(LineSearch, FindsStepsOfBothConditions) {
  // A wiggle in a bowl, from steps that are far too short and far too long; and a pole to infinity beyond 2.
  const auto f = [](double a) { return a >= 2 ? INFINITY : (a - 1) * (a - 1) + 0.05 * std::sin(20 * a); };
  const auto slope = [](double a) { return 2 * (a - 1) + std::cos(20 * a); };
  for (const double first : {1e-6, 1e-3, 0.3, 1.0, 1.9, 5.0, 1e4}) {
    int evaluations = 0;
    LineSearch search = SearchOf(f, slope, &evaluations);
    search.c2 = 0.1;
    search.max_evaluations = 60;
    const auto found = search.Find({0, f(0), slope(0)}, first);
    ASSERT_TRUE(found.ok() && *found) << first;
    EXPECT_LE((*found)->value, f(0) + 1e-4 * (*found)->step * slope(0));
    EXPECT_LE(std::abs((*found)->slope), 0.1 * std::abs(slope(0)));
    EXPECT_LE(evaluations, 60);
  }
}

TEST(LineSearch, EndsWhereThereIsNone) {
  int evaluations = 0;
  const LineSearch rising = SearchOf([](double a) { return a; }, [](double) { return 1.0; }, &evaluations);
  const auto none = rising.Find({0, 0, -1}, 1);  // a slope that lies
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(*none);
  EXPECT_LE(evaluations, 20);
  // Falls without end: the longest step that was tried.
  const LineSearch falling = SearchOf([](double a) { return -a; }, [](double) { return -1.0; }, &evaluations);
  const auto far = falling.Find({0, 0, -1}, 1);
  ASSERT_TRUE(far.ok() && *far);
  EXPECT_EQ((*far)->step, std::exp2(19));
}

}  // namespace
}  // namespace tenon::train::lbfgs_test
