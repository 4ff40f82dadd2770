// SPDX-License-Identifier: Apache-2.0
#include "core/graph/shape_inference.h"
// Covers A3, N2.
#include "core/graph/graph.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::shape_inference_test {
namespace {

using fakes::GraphMaker;
using fakes::TensorOf;

TEST(Widen, MakesUnknownWhatDiffers) {
  EXPECT_EQ(Widen({2, 3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(Widen({2, 3}, {4, 3}), (Shape{-1, 3}));
  EXPECT_EQ(Widen({2, -1}, {2, 3}), (Shape{2, -1}));
  EXPECT_EQ(Widen({2}, {2, 3}), Shape::Unknown());
  EXPECT_EQ(Widen({2}, Shape::Unknown()), Shape::Unknown());
}

TEST(ShapeInference, FollowsShapesAndSmallValues) {
  GraphMaker g;
  const Edge x = g.Feed(TENON_DT_FLOAT, {-1, 3}), y = g.Add("Plus", {x, x});
  const Edge dims = g.ValueOf(TensorOf<int32_t>(TENON_DT_INT32, {2}, {4, 5})), filled = g.Add("Fill", {dims});
  const Edge unknown = g.Add("Fill", {g.Feed(TENON_DT_INT32, {2})}),
             lost = g.Add("Fill", {g.Feed(TENON_DT_INT32, Shape::Unknown())});
  ShapeInference inference(&g.graph);
  ASSERT_TRUE(inference.Run().ok());
  EXPECT_EQ(inference.facts(y).shape, (Shape{-1, 3}));
  EXPECT_TRUE(inference.facts(dims).value.has_value());
  EXPECT_EQ(inference.facts(filled).shape, (Shape{4, 5}));
  EXPECT_EQ(inference.facts(unknown).shape, (Shape{-1, -1}));
  EXPECT_EQ(inference.facts(lost).shape, Shape::Unknown());
  EXPECT_TRUE(inference.used_values(filled.node));
  EXPECT_FALSE(inference.used_values(y.node));
  EXPECT_EQ(inference.facts({NodeId(99), 0}).shape, Shape::Unknown());
}

TEST(ShapeInference, RefusesValuesThatAreNoShapes) {
  GraphMaker g;
  g.Add("Fill", {g.ValueOf(TensorOf<int32_t>(TENON_DT_INT32, {2}, {4, -5}))}, {}, "fill");
  ShapeInference inference(&g.graph);
  EXPECT_EQ(inference.Run().ToString(), "INVALID_ARGUMENT: node 'fill' (Fill): input 0 is a shape with the dim -5");
}

TEST(ShapeInference, DoesNotTrackLargeValues) {
  EXPECT_TRUE(FactsOf(TensorOf<float>(TENON_DT_FLOAT, {1024}, std::vector<float>(1024))).value.has_value());
  const OutputFacts large = FactsOf(TensorOf<float>(TENON_DT_FLOAT, {1025}, std::vector<float>(1025)));
  EXPECT_FALSE(large.value.has_value());
  EXPECT_EQ(large.shape, (Shape{1025}));
}

TEST(ShapeInference, TakesFixedFactsForWhatIsFed) {
  GraphMaker g;
  const Edge x = g.Feed(TENON_DT_FLOAT, Shape::Unknown()), y = g.Add("Copy", {x});
  ShapeInference inference(&g.graph);
  OutputFacts fed;
  fed.shape = {7};
  inference.Fix(x, fed);
  ASSERT_TRUE(inference.Run().ok());
  EXPECT_EQ(inference.facts(y).shape, (Shape{7}));
}

TEST(ShapeInference, ChecksConstraintsAsSoonAsTheyAreKnown) {
  tenon_op_definition op = fakes::DefineOp("Rows", "x: float, axis: int32", "y: float");
  op.constraints = TENON_SPAN("rank(x) >= 1; value(axis) < rank(x); dim(x, -1) != 5");
  OpRegistry registry;
  const tenon_op_definition feed = fakes::DefineOp("Feed", "", "x: T", "T: type", TENON_OP_FEED);
  ASSERT_TRUE(fakes::RegisterOps(&registry, {&op, &feed}).ok());
  const auto infer = [&](Shape shape, std::optional<int32_t> axis) {
    Graph graph(&registry);
    const NodeId x = *graph.Add({*registry.Find("Feed"), "x", {}, {}, {{"T", AttrValue::Type(TENON_DT_FLOAT)}}, {}});
    const NodeId a = *graph.Add({*registry.Find("Feed"), "a", {}, {}, {{"T", AttrValue::Type(TENON_DT_INT32)}}, {}});
    EXPECT_TRUE(graph.Add({*registry.Find("Rows"), "rows", {{x, 0}, {a, 0}}, {}, {}, {}}).ok());
    ShapeInference inference(&graph);
    OutputFacts facts;
    facts.shape = std::move(shape);
    inference.Fix({x, 0}, facts);
    if (axis) inference.Fix({a, 0}, FactsOf(TensorOf<int32_t>(TENON_DT_INT32, {}, {*axis})));
    return inference.Run().ToString();
  };
  EXPECT_EQ(infer({2, 3}, 1), "OK");
  EXPECT_EQ(infer({2, 3}, {}), "OK") << "what is not known is checked later";
  EXPECT_EQ(infer(Shape::Unknown(), 9), "OK");
  EXPECT_EQ(infer({}, {}), "INVALID_ARGUMENT: node 'rows' (Rows): must hold: rank(x) >= 1; found 0 >= 1");
  EXPECT_EQ(infer({2, 3}, 2), "INVALID_ARGUMENT: node 'rows' (Rows): must hold: value(axis) < rank(x); found 2 < 2");
  EXPECT_EQ(infer({2, 5}, 0), "INVALID_ARGUMENT: node 'rows' (Rows): must hold: dim(x, -1) != 5; found 5 != 5");
}

TEST(ShapeInference, MergesTheShapesOfBothSides) {
  GraphMaker g;
  const Edge two = g.Feed(TENON_DT_FLOAT, {2, 3}), four = g.Feed(TENON_DT_FLOAT, {4, 3});
  const Edge merged = g.Add("Join", {two, four});
  ShapeInference inference(&g.graph);
  ASSERT_TRUE(inference.Run().ok());
  EXPECT_EQ(inference.facts(merged).shape, (Shape{-1, 3}));
  EXPECT_EQ(inference.facts({merged.node, 1}).shape, Shape());
}

TEST(ShapeInference, RelaxesTheDimsThatALoopChanges) {
  GraphMaker g;
  const Edge limit = g.Value(3);
  const auto loop = g.While(
      "loop", {g.Feed(TENON_DT_FLOAT, {}), g.Feed(TENON_DT_FLOAT, {1, 3}), g.Feed(TENON_DT_FLOAT, {5})},
      [&](const auto& v) { return g.Add("Below", {v[0], g.Into(limit, "loop", true)}); },
      [&](const auto& v) { return std::vector{g.Add("Plus", {v[0], v[0]}), g.Add("Grow", {v[1]}), v[2]}; });
  ShapeInference inference(&g.graph);
  ASSERT_TRUE(inference.Run().ok());
  EXPECT_EQ(inference.facts(loop.exits[0]).shape, Shape());
  EXPECT_EQ(inference.facts(loop.exits[1]).shape, (Shape{-1, 3})) << "rows come with each turn";
  EXPECT_EQ(inference.facts(loop.exits[2]).shape, (Shape{5}));
}

TEST(ShapeInference, RelaxesALoopWithinALoop) {
  GraphMaker g;
  const Edge limit = g.Value(3);
  const auto outer = g.While(
      "outer", {g.Feed(TENON_DT_FLOAT, {}), g.Feed(TENON_DT_FLOAT, {1})},
      [&](const auto& v) { return g.Add("Below", {v[0], g.Into(limit, "outer", true)}); },
      [&](const auto& v) {
        const auto inner = g.While("inner", {v[0], v[1]}, [&](const auto& w) { return g.Add("Below", {w[0], w[0]}); },
                                   [&](const auto& w) { return std::vector{w[0], g.Add("Grow", {w[1]})}; });
        return std::vector{inner.exits[0], inner.exits[1]};
      });
  ShapeInference inference(&g.graph);
  ASSERT_TRUE(inference.Run().ok());
  EXPECT_EQ(inference.facts(outer.exits[0]).shape, Shape());
  EXPECT_EQ(inference.facts(outer.exits[1]).shape, (Shape{-1}));
}

TEST(ShapeInference, EvaluatesPureNodesOnKnownValues) {
  GraphMaker g;
  const Edge a = g.Value(1), sum = g.Add("Plus", {a, a}), drawn = g.Add("Draw"), unknown = g.Add("Plus", {sum, drawn});
  ShapeInference inference(&g.graph);
  std::vector<std::string> asked;
  inference.set_evaluator([&](const Node& node, const std::vector<Tensor>& inputs,
                              const auto&) -> Result<std::vector<Tensor>> {
    asked.push_back(node.op->name);
    return std::vector<Tensor>{TensorOf<float>(TENON_DT_FLOAT, {}, {*inputs[0].as<float>() + *inputs[1].as<float>()})};
  });
  ASSERT_TRUE(inference.Run().ok());
  EXPECT_EQ(asked, std::vector<std::string>{"Plus"});
  EXPECT_EQ(*inference.facts(sum).value.as<float>(), 2.0f);
  EXPECT_FALSE(inference.facts(unknown).value.has_value());
  EXPECT_EQ(inference.evaluated(), 1);
}

TEST(ShapeInference, TakesAFailingEvaluationForNotKnown) {
  GraphMaker g;
  const Edge a = g.Value(1), sum = g.Add("Plus", {a, a});
  ShapeInference inference(&g.graph);
  inference.set_evaluator(
      [](const auto&, const auto&, const auto&) -> Result<std::vector<Tensor>> { return Internal("no"); });
  EXPECT_TRUE(inference.Run().ok());
  EXPECT_FALSE(inference.facts(sum).value.has_value());
  EXPECT_EQ(inference.evaluated(), 0);
}

TEST(ShapeInference, RefusesAShapeFunctionThatAsksForWhatIsNotThere) {
  tenon_op_definition op = fakes::DefineOp("Curious", "", "y: float");
  op.shape = [](tenon_plugin_self*, const tenon_shape_services* s, tenon_shape_context* context) -> tenon_status* {
    tenon_tensor_view value;
    return s->input_value(context, 3, &value);
  };
  OpRegistry registry;
  ASSERT_TRUE(fakes::RegisterOps(&registry, {&op}).ok());
  Graph graph(&registry);
  ASSERT_TRUE(graph.Add({*registry.Find("Curious"), "c", {}, {}, {}, {}}).ok());
  EXPECT_EQ(
      ShapeInference(&graph).Run().ToString(),
      "INTERNAL: node 'c' (Curious): the shape function of node 'c' (Curious) asked for input 3, which does not exist");
}

}  // namespace
}  // namespace tenon::graph::shape_inference_test
