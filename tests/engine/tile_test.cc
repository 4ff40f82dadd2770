// SPDX-License-Identifier: Apache-2.0
// Chains of element-wise nodes in one pass over memory: the bits are those of the nodes one by one, whatever the types,
// shapes and order are, in loops and branches too. TENON_CHAINS=100000 tries so many random graphs. Covers N8.
#include "tests/engine/chains.h"

namespace tenon::engine::tile_test {
namespace {

// Nothing is compiled to code, which rounds in ways of its own.
Runtime& TilesRuntime() { return *RuntimeOf("none"); }

// The same bits, in one pass and node by node; how many nodes were taken together.
int Compare(const Graph& graph, const std::vector<std::pair<Output, Tensor>>& feeds, const std::vector<Output>& fetches,
            const std::string& what = "") {
  EXPECT_TRUE(graph.status().ok()) << what << graph.status().message();
  const Answer one_by_one = RunIt(TilesRuntime(), graph, feeds, fetches, false),
               tiled = RunIt(TilesRuntime(), graph, feeds, fetches, true);
  EXPECT_EQ(one_by_one.failure, tiled.failure) << what;
  EXPECT_EQ(one_by_one.how.count("tiled"), 0u) << what;
  EXPECT_EQ(one_by_one.values.size(), tiled.values.size()) << what;
  for (size_t i = 0; i < std::min(one_by_one.values.size(), tiled.values.size()); ++i)
    EXPECT_EQ(DifferenceOf(one_by_one.values[i], tiled.values[i]), "")
        << what << "fetch " << i << ", '" << fetches[i].name() << "'";
  const auto found = tiled.how.find("tiled");
  return found == tiled.how.end() ? 0 : found->second;
}

TEST(Tiles, RandomGraphsHaveTheBitsOfTheirNodesOneByOne) {
  const char* const asked = std::getenv("TENON_CHAINS");
  const int count = asked == nullptr ? 400 : std::atoi(asked);
  int taken = 0;
  const char* const begin = std::getenv("TENON_CHAINS_FROM");
  for (int seed = begin == nullptr ? 1 : std::atoi(begin); seed <= count && !::testing::Test::HasFailure(); ++seed) {
    RandomChain chain(TilesRuntime(), static_cast<uint64_t>(seed), {});
    taken += Compare(chain.graph(), chain.feeds(), chain.Fetches(), "seed " + std::to_string(seed) + ": ");
  }
  if (begin == nullptr) {
    EXPECT_GT(taken, count) << "so few nodes were taken together that nothing was tried";
  }
}

TEST(Tiles, AChainIsOnePass) {
  Graph g(TilesRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
  Output y = g.Op("AddV2", {g.Op("Mul", {x, g.Const(2.0f)}), g.Const(1.0f)});
  for (int i = 0; i < 3; ++i) y = g.Op("Tanh", {g.Op("Mul", {y, x})});
  EXPECT_EQ(Compare(g, {{x, Ramp({5, 4001})}}, {y}), 8);
}

// Of [rows, columns]: a bias of each column, a factor of each row, a scalar; and of more dims, some of which are 1.
TEST(Tiles, WhatIsBroadcastIsLaidOut) {
  for (const auto& dims : std::vector<std::pair<Shape, std::vector<Shape>>>{
           {{100, 48}, {{48}, {100, 1}, {1, 48}, {1}, {}}},
           {{3, 5, 7, 11}, {{11}, {7, 1}, {5, 1, 11}, {3, 1, 1, 1}, {3, 5, 1, 11}, {1, 1, 1, 11}}},
           {{2, 5000}, {{5000}, {2, 1}}},
           {{9000, 1}, {{9000, 1}, {1, 1}}}}) {
    Graph g(TilesRuntime());
    const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
    std::vector<std::pair<Output, Tensor>> feeds = {{x, Ramp(dims.first)}};
    Output y = g.Op("Neg", {x});
    for (const Shape& shape : dims.second) {
      feeds.emplace_back(g.Placeholder("", DType::kFloat, Shape::Unknown()), Ramp(shape));
      y = g.Op("Tanh", {g.Op("AddV2", {y, feeds.back().first})});
    }
    EXPECT_EQ(Compare(g, feeds, {y}), 1 + 2 * static_cast<int>(dims.second.size())) << "of rank " << dims.first.rank();
  }
}

TEST(Tiles, ValuesThatAreReadOutsideAreThere) {
  Graph g(TilesRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {300, 40});
  const Output a = g.Op("Exp", {x}), b = g.Op("Mul", {a, x}), c = g.Op("Sub", {b, a});
  const Output sum = g.Op("Sum", {b, g.Const<int32_t>({0})});
  EXPECT_EQ(Compare(g, {{x, Ramp({300, 40})}}, {c, a, sum}), 3);
}

// A node between two of a group reads one and feeds the other: they cannot be one pass.
TEST(Tiles, WhatStandsBetweenKeepsThemApart) {
  Graph g(TilesRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output a = g.Op("Tanh", {x}), b = g.Op("Mul", {a, a});
  const Output mean = g.Op("Mean", {b, g.Const<int32_t>({1})}, {{"keep_dims", true}});
  const Output y = g.Op("Sub", {b, mean}), z = g.Op("Square", {y});
  EXPECT_EQ(Compare(g, {{x, Ramp({64, 64})}}, {z}), 4);
}

// One node feeds a loop, another reads what the loop gives of something else: no value goes from the one to the other,
// but the loop runs between them.
TEST(Tiles, ALoopRunsBetweenWhatItReadsAndWhatReadsIt) {
  Graph g(TilesRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output a = g.Op("Tanh", {x});
  const auto loop = While(
      g, {g.Const<int32_t>(0), a, x}, {},
      [&](const std::vector<Output>& v) {
        return g.Op("Less", {v[0], g.Const<int32_t>(3)});
      },
      [&](const std::vector<Output>& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const<int32_t>(1)}), g.Op("Sin", {g.Op("Neg", {v[1]})}),
                                   g.Op("Cos", {g.Op("Neg", {v[2]})})};
      });
  const Output y = g.Op("Mul", {g.Op("Square", {a}), loop[2]}), z = g.Op("AddV2", {y, loop[1]});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {z, loop[1]}), 4);
}

// The product's memory is the chain's to write in, unless a view of it is read later.
TEST(Tiles, MemoryIsTakenOverOnlyWhereNobodyReadsItAfterwards) {
  Graph g(TilesRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {64, 64});
  const Output product = g.Op("MatMul", {x, x});
  const Output same = g.Op("Reshape", {product, g.Const<int32_t>({64, 64})});
  const Output a = g.Op("Neg", {product}), b = g.Op("Tanh", {a}), c = g.Op("AddV2", {b, same}),
               d = g.Op("Mul", {c, product});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {d, a}), 4);
  const Output second = g.Op("MatMul", {x, x});
  EXPECT_GE(Compare(g, {{x, Ramp({64, 64})}}, {g.Op("Exp", {g.Op("Neg", {second})}), g.Op("MatMul", {second, x})}), 2);
}

// A divisor that is zero is an error as ever: integer division is no pass's.
TEST(Tiles, FailuresAreThoseOfTheNodes) {
  Graph g(TilesRuntime());
  const Output x = g.Placeholder("x", DType::kInt32, {3});
  const Output y = g.Op("Neg", {g.Op("FloorDiv", {g.Op("Square", {x}), g.Op("Neg", {x})}, {}, "quotient")});
  Compare(g, {{x, TensorOf(DType::kInt32, {3}, {1, 0, 2})}}, {y});
  const Answer answer = RunIt(TilesRuntime(), g, {{x, TensorOf(DType::kInt32, {3}, {1, 0, 2})}}, {y}, true);
  EXPECT_NE(answer.failure.find("quotient"), std::string::npos) << answer.failure;
  // Shapes that do not go together are known when the feeds are.
  Graph h(TilesRuntime());
  const Output u = h.Placeholder("u", DType::kFloat, Shape::Unknown()),
               v = h.Placeholder("v", DType::kFloat, Shape::Unknown());
  const Output w = h.Op("Tanh", {h.Op("AddV2", {h.Op("Neg", {u}), v}, {}, "sum")});
  Compare(h, {{u, Ramp({4, 3})}, {v, Ramp({4})}}, {w});
}

TEST(Tiles, LoopsAndBranches) { ExpectAlikeInLoopsAndBranches(TilesRuntime(), {"Tanh", "Exp", "Sigmoid"}, "tiled"); }

}  // namespace
}  // namespace tenon::engine::tile_test
