// SPDX-License-Identifier: Apache-2.0
// Sums of gradients over axes that a graph of unknown batch asks for in the step: where the sizes that are fed do not
// matter they are known before, and where they do, every size gives what its own graph gives. Covers K1, K6.
#include <string>
#include <vector>

#include "tests/engine/engine.h"

namespace tenon::engine::known_axes_test {
namespace {

struct Result {
  std::vector<std::vector<float>> values;
  std::vector<std::vector<int64_t>> shapes;
  int asked = 0;  // nodes that ask for axes
};
Result ResultOf(const Graph& graph, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                const Runtime& runtime = TheRuntime()) {
  Result result;
  auto session = Session::Create(runtime, graph, {});
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<Name> names;
  std::vector<View> views;
  for (const Feed& feed : feeds) {
    names.push_back(feed.name);
    views.push_back(feed.value);
  }
  auto callable = session->Prepare(names, fetches);
  EXPECT_TRUE(callable.ok()) << callable.status();
  auto values = callable->Run(views);
  EXPECT_TRUE(values.ok()) << values.status();
  if (!values.ok()) return result;
  for (const Tensor& each : *values) {
    result.values.push_back(Values<float>(each));
    result.shapes.push_back(each.shape().dims());
  }
  const std::string how = *callable->Explain();
  for (size_t at = 0; (at = how.find("\"op\":\"BroadcastGradientArgs\"", at)) != std::string::npos; ++at)
    ++result.asked;
  return result;
}
Tensor Counted(std::vector<int64_t> dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 7) - 2);
  return *Tensor::From(values, Shape(dims));
}

// f(graph, x, y) of x and y, whose dims are unknown where `said` is -1: its gradients are those of the graph that knows
// them.
template <class Function>
int AskedFor(std::vector<std::vector<int64_t>> said, std::vector<std::vector<int64_t>> fed, Function&& f,
             const Runtime& runtime = TheRuntime()) {
  Result results[2];
  for (int known = 0; known < 2; ++known) {
    Graph g(runtime);
    std::vector<Output> inputs;
    std::vector<Feed> feeds;
    for (size_t i = 0; i < said.size(); ++i) {
      inputs.push_back(g.Placeholder("x" + std::to_string(i), DType::kFloat, Shape(known != 0 ? fed[i] : said[i])));
      feeds.push_back({inputs.back(), Counted(fed[i])});
    }
    const Output y = f(g, inputs);
    std::vector<Name> fetches = {y};
    for (const Gradient& gradient : g.Gradients({g.Op("Square", {y})}, inputs)) fetches.push_back(gradient.dense);
    results[known] = ResultOf(g, feeds, fetches, runtime);
  }
  EXPECT_EQ(results[0].values, results[1].values);
  EXPECT_EQ(results[0].shapes, results[1].shapes);
  EXPECT_EQ(results[1].asked, 0);
  return results[0].asked;
}

Output Axis(Graph& g, int32_t axis) { return g.Const(std::vector<int32_t>{axis}, Shape{1}); }

TEST(KnownAxes, OfANormalisationOfRowsAreNotAskedFor) {
  for (const int64_t rows : {5, 1}) {
    EXPECT_EQ(
        AskedFor(
            {{-1, 6}}, {{rows, 6}},
            [](Graph& g, const std::vector<Output>& x) {
              const Output distance = g.Op("Sub", {x[0], g.Op("Mean", {x[0], Axis(g, -1)}, {{"keep_dims", true}})});
              const Output variance = g.Op("Mean", {g.Op("Square", {distance}), Axis(g, -1)}, {{"keep_dims", true}});
              return g.Op("Mul", {distance, g.Op("Rsqrt", {g.Op("AddV2", {variance, g.Const(0.5f)})})});
            }),
        0);
  }
}

TEST(KnownAxes, OfProductsOfBatchesAreNotAskedFor) {
  for (const int64_t batch : {3, 1}) {
    EXPECT_EQ(AskedFor({{-1, 4, 6}}, {{batch, 4, 6}},
                       [](Graph& g, const std::vector<Output>& x) {
                         return g.Op("BatchMatMulV2", {x[0], g.Op("Tanh", {x[0]})}, {{"adj_y", true}});
                       }),
              0);
  }
}

// A package from outside says what its op does, and is taken as those of the tree are.
TEST(KnownAxes, PassThroughAStrangersOpThatSaysItIsElementWise) {
  auto runtime = Runtime::Create({});
  ASSERT_TRUE(runtime.ok()) << runtime.status();
  ASSERT_TRUE(runtime->LoadPlugin(TENON_TEST_CUBE_PLUGIN).ok());
  const auto cubes = [](Graph& g, const std::vector<Output>& x) { return g.Op("Mul", {x[0], g.Op("Cube", {x[0]})}); };
  for (const int64_t rows : {5, 1}) EXPECT_EQ(AskedFor({{-1, 6}}, {{rows, 6}}, cubes, *runtime), 0) << rows;
}

// Where shapes do not fit, such a comparison gives one truth value, and the sum over what it has no dim of is none.
TEST(KnownAxes, OfComparisonsThatTakeAnyShapesAreThoseOfTheStep) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1}), z = g.Placeholder("z", DType::kFloat, Shape{});
  const Output three = g.Const(std::vector<float>{-2, 5, 0}, Shape{3});
  const Output differ = g.Op("NotEqual", {x, three}, {{"incompatible_shape_error", false}});
  const Output y = g.Op("Mul", {z, g.Op("Cast", {differ}, {{"DstT", DType::kFloat}})});
  const std::vector<Gradient> gradients = g.Gradients({y}, {z});
  const auto of = [&](int64_t size) {
    return ResultOf(g, {{x, Counted({size})}, {z, Counted({})}}, {y, gradients[0].dense});
  };
  EXPECT_EQ(of(3).values, (std::vector<std::vector<float>>{{-0.f, -2, -0.f}, {1}}));
  EXPECT_EQ(of(2).values, (std::vector<std::vector<float>>{{-2}, {1}}));
}

// Two inputs may be of one batch or not.
TEST(KnownAxes, OfTwoInputsAreWhatTheyAreFed) {
  const auto product = [](Graph& g, const std::vector<Output>& x) { return g.Op("Mul", {x[0], x[1]}); };
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{3, 3}, {1, 3}, {3, 1}, {1, 1}})
    EXPECT_GT(AskedFor({{-1, 2}, {-1, 2}}, {{a, 2}, {b, 2}}, product), 0) << a << " " << b;
  // Reshaped, they are no more of one size than before.
  const auto shaped = [](Graph& g, const std::vector<Output>& x) {
    const Output flat = g.Const(std::vector<int32_t>{-1}, Shape{1});
    return g.Op("Mul", {g.Op("Reshape", {x[0], flat}), g.Op("Reshape", {x[1], flat})});
  };
  for (const auto& [a, b] : {std::pair<int64_t, int64_t>{6, 6}, {1, 6}, {6, 1}})
    EXPECT_GT(AskedFor({{-1}, {-1}}, {{a}, {b}}, shaped), 0) << a << " " << b;
}

// A row of a matrix of sizes is another size than the element of that number.
TEST(KnownAxes, OfSizesInAMatrixAreAskedFor) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1, -1, -1, -1});
  const Output matrix = g.Op("Reshape", {g.Op("Shape", {x}), g.Const(std::vector<int32_t>{2, 2}, Shape{2})});
  const Output row = g.Op("GatherV2", {matrix, g.Const(int32_t{1}), g.Const(int32_t{0})});
  const Output sums = g.Op("Sum", {x, g.Const(std::vector<int32_t>{0, 2, 3}, Shape{3})});
  const Operation axes = g.AddNode("BroadcastGradientArgs", {row, row});
  const Output y = g.Op("Reshape", {g.Op("Sum", {sums, axes.output(0)}), row});
  const Result result = ResultOf(g, {{x, Counted({5, 6, 2, 3})}}, {y});
  ASSERT_EQ(result.shapes.size(), 1u);
  EXPECT_EQ(result.shapes[0], (std::vector<int64_t>{2, 3}));
}

// A branch that is not taken gives no gradient, whatever is known of its sizes.
TEST(KnownAxes, OfBranchesStay) {
  for (const bool taken : {false, true}) {
    Graph g(TheRuntime());
    const Output x = g.Placeholder("x", DType::kFloat, Shape{-1, 3}),
                 choice = g.Placeholder("choice", DType::kBool, Shape{});
    const Operation sides = g.AddNode("Switch", {x, choice});
    const Output other = sides.output(1);
    const Output centred = g.Op("Sub", {other, g.Op("Mean", {other, Axis(g, 1)}, {{"keep_dims", true}})});
    const Output y = g.Op("Merge", {sides.output(0), g.Op("Mul", {centred, centred})}, {{"N", 2}});
    const std::vector<Gradient> gradients = g.Gradients({y}, {x});
    const std::vector<Feed> feeds = {{x, Counted({2, 3})},
                                     {choice, TensorOf(DType::kBool, Shape{}, {taken ? 1.0 : 0.0})}};
    const Result result = ResultOf(g, feeds, {y, gradients[0].dense});
    ASSERT_EQ(result.values.size(), 2u);
    EXPECT_EQ(result.values[1], taken ? (std::vector<float>{-2, 0, 2, -2, 0, 2}) : std::vector<float>(6, 1));
  }
}

}  // namespace
}  // namespace tenon::engine::known_axes_test
