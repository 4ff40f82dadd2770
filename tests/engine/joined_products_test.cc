// SPDX-License-Identifier: Apache-2.0
// The gradient of a weight that every step of a sequence uses: one product over all steps
// (passes/known_axes/products.cc), with the numbers of the products one by one; and sums that stay as they are. Covers
// K1.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::joined_products_test {
namespace {

Tensor Numbers(const Shape& shape, int seed) {
  int64_t count = 1;
  for (const int64_t dim : shape.dims()) count *= dim;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 7919 + seed * 131) % 1009) / 500 - 1);
  return *Tensor::From(values, shape);
}

struct Answer {
  std::vector<double> values;
  int products = 0, sums = 0, pieces = 0;  // nodes that ran: MatMul, AddN, ConcatV2
};
Answer AnswerOf(const Graph& graph, const std::vector<std::pair<Output, Tensor>>& feeds, const Output& fetch,
                const std::vector<Name>& also = {}) {
  Answer answer;
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  auto session = Session::Create(TheRuntime(), graph, {});
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<Name> names, fetches{fetch};
  std::vector<View> views;
  for (const auto& [name, value] : feeds) {
    names.push_back(name);
    views.push_back(View(value));
  }
  fetches.insert(fetches.end(), also.begin(), also.end());
  auto callable = session->Prepare(names, fetches);
  EXPECT_TRUE(callable.ok()) << callable.status();
  if (!callable.ok()) return answer;
  auto values = callable->Run(views);
  EXPECT_TRUE(values.ok()) << values.status();
  if (!values.ok()) return answer;
  answer.values = DoublesOf((*values)[0]);
  const std::string how = *callable->Explain();
  const auto count = [&](const std::string& op) {
    int found = 0;
    for (size_t at = 0; (at = how.find("\"op\":\"" + op + "\"", at)) != std::string::npos; ++at) ++found;
    return found;
  };
  answer.products = count("MatMul");
  answer.sums = count("AddN");
  answer.pieces = count("ConcatV2");
  return answer;
}

// d(sum of the products of x[t] w and dy[t])/dw: a sum of x[t]^T dy[t].
struct Sum {
  explicit Sum(Runtime& runtime) : graph(runtime) {}
  Graph graph;
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> products;
  std::map<int, Output> before;  // of each sequence

  void Add(int64_t rows, int64_t m, int64_t n, bool is_known = true, DType type = DType::kFloat, int sequence = 0) {
    const auto fed = [&](int64_t columns) {
      const Output x =
          graph.Placeholder("x" + std::to_string(feeds.size()), DType::kFloat, {is_known ? rows : -1, columns});
      feeds.emplace_back(x, Numbers({rows, columns}, static_cast<int>(feeds.size())));
      return type == DType::kFloat ? x : graph.Op("Cast", {x}, {{"DstT", type}});
    };
    const Output a = fed(m);
    Output b = fed(n);
    // What comes back to a step has come through the one before, which adds nothing here.
    if (const auto found = before.find(sequence); found != before.end())
      b = graph.Op("AddV2", {b, graph.Op("Mul", {graph.Op("Sum", {found->second, graph.Const({0, 1})}),
                                                 graph.Op("ZerosLike", {graph.Op("Sum", {b, graph.Const({0, 1})})})})});
    before.insert_or_assign(sequence, b);
    products.push_back(graph.Op("MatMul", {a, b}, {{"transpose_a", true}}));
  }
  // Of the numbers that are fed.
  std::vector<double> Right(int64_t m, int64_t n) const {
    std::vector<double> right(static_cast<size_t>(m * n));
    for (size_t f = 0; f < feeds.size(); f += 2) {
      const auto a = DoublesOf(feeds[f].second), b = DoublesOf(feeds[f + 1].second);
      for (size_t r = 0; r < a.size() / static_cast<size_t>(m); ++r)
        for (size_t i = 0; i < static_cast<size_t>(m); ++i)
          for (size_t j = 0; j < static_cast<size_t>(n); ++j)
            right[i * static_cast<size_t>(n) + j] +=
                a[r * static_cast<size_t>(m) + i] * b[r * static_cast<size_t>(n) + j];
    }
    return right;
  }
};
void ExpectNear(const std::vector<double>& found, const std::vector<double>& right, double bound) {
  ASSERT_EQ(found.size(), right.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], right[i], bound) << i;
}

TEST(JoinedProducts, OfStepsAreOneProduct) {
  for (const bool is_known : {true, false}) {
    Sum sum(TheRuntime());
    for (const int64_t rows : {4, 4, 1, 7}) sum.Add(rows, 64, 80, is_known);
    const Answer answer = AnswerOf(sum.graph, sum.feeds, sum.graph.Op("AddN", {sum.products}));
    ExpectNear(answer.values, sum.Right(64, 80), 1e-4);
    EXPECT_EQ(answer.products, 1);
    EXPECT_EQ(answer.sums, 0);
    EXPECT_EQ(answer.pieces, 2);
  }
}

TEST(JoinedProducts, OfEveryRealType) {
  for (const DType type : {DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    Sum sum(TheRuntime());
    for (int i = 0; i < 3; ++i) sum.Add(4, 24, 40, true, type);
    const Answer answer = AnswerOf(
        sum.graph, sum.feeds, sum.graph.Op("Cast", {sum.graph.Op("AddN", {sum.products})}, {{"DstT", DType::kFloat}}));
    ExpectNear(answer.values, sum.Right(24, 40), type == DType::kDouble ? 1e-5 : 0.1);
    EXPECT_EQ(answer.products, 1);
  }
}

TEST(JoinedProducts, LeaveOtherTermsInTheSum) {
  Sum sum(TheRuntime());
  for (int i = 0; i < 3; ++i) sum.Add(4, 32, 32);
  const Output decay =
      sum.graph.Op("Square", {sum.graph.Op("Fill", {sum.graph.Const({32, 32}), sum.graph.Const(0.5f)})});
  const Answer answer =
      AnswerOf(sum.graph, sum.feeds,
               sum.graph.Op("AddN", {std::vector<Output>{sum.products[0], decay, sum.products[1], sum.products[2]}}));
  std::vector<double> right = sum.Right(32, 32);
  for (double& each : right) each += 0.25;
  ExpectNear(answer.values, right, 1e-4);
  EXPECT_EQ(answer.products, 1);
  EXPECT_EQ(answer.sums, 1);
}

TEST(JoinedProducts, StayApartWhereTheRowsAreMore) {
  Sum sum(TheRuntime());
  for (int i = 0; i < 3; ++i) sum.Add(100, 8, 8);
  const Answer answer = AnswerOf(sum.graph, sum.feeds, sum.graph.Op("AddN", {sum.products}));
  ExpectNear(answer.values, sum.Right(8, 8), 1e-3);
  EXPECT_EQ(answer.products, 3);
}

// The bytes of a step are the same wherever its replicas are.
TEST(JoinedProducts, OfReplicasStayApart) {
  Sum sum(TheRuntime());
  for (int i = 0; i < 3; ++i) sum.Add(4, 32, 32, true, DType::kFloat, i);
  const Answer answer = AnswerOf(sum.graph, sum.feeds, sum.graph.Op("AddN", {sum.products}));
  ExpectNear(answer.values, sum.Right(32, 32), 1e-4);
  EXPECT_EQ(answer.products, 3);
}

// Microbatches and replicas: each has one product over its own steps, wherever those stand in the sum.
TEST(JoinedProducts, OfSeveralSequencesAreOneProductEach) {
  for (const bool is_mixed : {false, true}) {
    Sum sum(TheRuntime());
    for (int i = 0; i < 12; ++i) sum.Add(4, 32, 32, true, DType::kFloat, is_mixed ? i % 3 : i / 4);
    sum.Add(4, 32, 32, true, DType::kFloat, 3);  // one step alone
    const Answer answer = AnswerOf(sum.graph, sum.feeds, sum.graph.Op("AddN", {sum.products}));
    ExpectNear(answer.values, sum.Right(32, 32), 1e-4);
    EXPECT_EQ(answer.products, 4);
    EXPECT_EQ(answer.sums, 1);
    EXPECT_EQ(answer.pieces, 6);
  }
}

// Two products of what one step brings: both belong to it.
TEST(JoinedProducts, OfOneGradientAreInItsChain) {
  Sum sum(TheRuntime());
  for (int i = 0; i < 3; ++i) sum.Add(4, 32, 32);
  const Output x = sum.graph.Placeholder("again", DType::kFloat, {4, 32});
  sum.products.push_back(sum.graph.Op("MatMul", {x, sum.before.at(0)}, {{"transpose_a", true}}));
  const Output total = sum.graph.Op("AddN", {sum.products});
  sum.feeds.emplace_back(x, Numbers({4, 32}, 9));
  sum.feeds.push_back(sum.feeds[5]);  // the number of what the last step brings, for Right
  const std::vector<double> right = sum.Right(32, 32);
  sum.feeds.pop_back();
  const Answer answer = AnswerOf(sum.graph, sum.feeds, total);
  ExpectNear(answer.values, right, 1e-4);
  EXPECT_EQ(answer.products, 1);
}

TEST(JoinedProducts, WhatSomebodyElseReadsStaysApart) {
  Sum sum(TheRuntime());
  for (int i = 0; i < 3; ++i) sum.Add(4, 32, 32);
  const Output other = sum.graph.Op("Neg", {sum.products[1]});
  const Answer answer = AnswerOf(sum.graph, sum.feeds, sum.graph.Op("AddN", {sum.products}), {other});
  ExpectNear(answer.values, sum.Right(32, 32), 1e-4);
  EXPECT_EQ(answer.products, 2);
  EXPECT_EQ(answer.sums, 1);
}

TEST(JoinedProducts, WhatIsFetchedOrFedIsRight) {
  Sum sum(TheRuntime());
  for (int i = 0; i < 3; ++i) sum.Add(4, 32, 32);
  const Output total = sum.graph.Op("AddN", {sum.products});
  ExpectNear(AnswerOf(sum.graph, sum.feeds, total, {sum.products[0]}).values, sum.Right(32, 32), 1e-4);
  auto feeds = sum.feeds;
  feeds.emplace_back(sum.products[0], *Tensor::Zeros(DType::kFloat, {32, 32}));
  Sum others(TheRuntime());
  others.feeds.assign(sum.feeds.begin() + 2, sum.feeds.end());
  ExpectNear(AnswerOf(sum.graph, feeds, total).values, others.Right(32, 32), 1e-4);
}

// In a turn of a loop they are what they were.
TEST(JoinedProducts, OfLoopsStayApart) {
  Graph g(TheRuntime());
  const Output a = g.Placeholder("a", DType::kFloat, {2, 32}), b = g.Placeholder("b", DType::kFloat, {2, 32});
  const std::vector<Output> found = host::While(
      g, {g.Const(0), g.Op("Fill", {g.Const({32, 32}), g.Const(0.f)})}, {a, b},
      [&](const std::vector<Output>& v) {
        return g.Op("Less", {v[0], g.Const(3)});
      },
      [&](const std::vector<Output>& v) {
        const auto product = [&](const Output& of, const Output& by) {
          return g.Op("MatMul", {of, by}, {{"transpose_a", true}});
        };
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}),
                                   g.Op("AddN", {std::vector<Output>{v[1], product(v[2], v[3]), product(v[3], v[2])}})};
      });
  const Tensor x = Numbers({2, 32}, 1), y = Numbers({2, 32}, 2);
  const Answer answer = AnswerOf(g, {{a, x}, {b, y}}, found[1]);
  const auto p = DoublesOf(x), q = DoublesOf(y);
  std::vector<double> right(32 * 32);
  for (size_t i = 0; i < 32; ++i)
    for (size_t j = 0; j < 32; ++j)
      for (size_t r = 0; r < 2; ++r)
        right[i * 32 + j] += 3 * (p[r * 32 + i] * q[r * 32 + j] + q[r * 32 + i] * p[r * 32 + j]);
  ExpectNear(answer.values, right, 1e-4);
}

// A recurrent network that is written out, by the gradients of its graph.
TEST(JoinedProducts, OfANetworksGradientHaveItsNumbers) {
  constexpr int64_t kSteps = 6, kBatch = 3, kCells = 48;
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {kSteps, kBatch, kCells}),
               w = g.Placeholder("w", DType::kFloat, {kCells, kCells});
  const Operation unpacked = g.AddNode("Unpack", {x}, {{"num", kSteps}, {"axis", 0}});
  Output h = g.Op("Fill", {g.Const({static_cast<int32_t>(kBatch), static_cast<int32_t>(kCells)}), g.Const(0.1f)});
  for (int32_t t = 0; t < kSteps; ++t) h = g.Op("Tanh", {g.Op("AddV2", {unpacked.output(t), g.Op("MatMul", {h, w})})});
  const Output loss = g.Op("Sum", {g.Op("Square", {h}), g.Const({0, 1})});
  const auto gradients = g.Gradients({loss}, {w});
  std::vector<float> numbers;
  for (const double each : DoublesOf(Numbers({kCells, kCells}, 2))) numbers.push_back(0.1f * static_cast<float>(each));
  const Tensor weights = *Tensor::From(numbers, Shape{kCells, kCells});
  const Tensor inputs = Numbers({kSteps, kBatch, kCells}, 1);
  const Answer answer = AnswerOf(g, {{x, inputs}, {w, weights}}, gradients[0].dense);
  EXPECT_EQ(answer.sums, 0);
  EXPECT_EQ(answer.products, kSteps + (kSteps - 1) + 1);
  // Differences, where the sum is largest.
  const auto loss_with = [&](size_t at, float by) {
    std::vector<float> values = numbers;
    values[at] += by;
    return AnswerOf(g, {{x, inputs}, {w, *Tensor::From(values, Shape{kCells, kCells})}}, loss).values[0];
  };
  for (const size_t at : {size_t{0}, size_t{777}, size_t{kCells * kCells - 1}}) {
    constexpr float kStep = 1e-2f;
    EXPECT_NEAR((loss_with(at, kStep) - loss_with(at, -kStep)) / (2 * kStep), answer.values[at],
                2e-2 * std::max(1.0, std::fabs(answer.values[at])));
  }
}

// Passes that say which ops they are about cost the others nothing.
TEST(Passes, AreOpenedForTheGraphsThatTheyAreAbout) {
  auto runtime = Runtime::Create({});
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  const auto is_open = [&](std::string_view id) {
    const auto reports = runtime->Reports();
    return std::any_of(reports.begin(), reports.end(), [&](const tenon_load_report& report) {
      return host::Text(report.id) == id && report.outcome == TENON_LOAD_LOADED;
    });
  };
  const auto sum_of = [&](const char* op, SessionOptions options = {}) {
    Graph g(*runtime);
    const Output x = g.Const<float>({1, 2}), sum = g.Op(op, {x, x});
    auto session = Session::Create(*runtime, g, options);
    EXPECT_TRUE(session.ok()) << session.status();
    auto values = session->Run({}, {sum});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? DoublesOf((*values)[0]) : std::vector<double>();
  };
  EXPECT_EQ(sum_of("AddV2"), (std::vector<double>{2, 4}));
  EXPECT_FALSE(is_open("tenon.passes.known_axes"));
  EXPECT_FALSE(is_open("tenon.passes.recurrent"));
  SessionOptions without;
  without.no_pass = "recurrent-loops";
  EXPECT_EQ(sum_of("AddV2", without), (std::vector<double>{2, 4})) << "the name is known, though nothing needs it";
  EXPECT_TRUE(is_open("tenon.passes.recurrent"));
}

TEST(Passes, ComeWithAnOpThatTheyAreAbout) {
  auto runtime = Runtime::Create({});
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  Graph g(*runtime);
  const Output x = g.Const<float>({1, 2}), sum = g.Op("AddN", {std::vector<Output>{x, x, x}});
  auto session = Session::Create(*runtime, g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Run({}, {sum}).ok());
  const auto reports = runtime->Reports();
  EXPECT_TRUE(std::any_of(reports.begin(), reports.end(), [](const tenon_load_report& report) {
    return host::Text(report.id) == "tenon.passes.known_axes" && report.outcome == TENON_LOAD_LOADED;
  }));
}

}  // namespace
}  // namespace tenon::engine::joined_products_test
