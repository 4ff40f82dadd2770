// SPDX-License-Identifier: Apache-2.0
#include "core/graph/builder.h"

#include "core/graph/graph.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::builder_test {
namespace {

using fakes::GraphMaker;
using fakes::TensorOf;

TEST(Builder, NamesNodesBelowItsScopeAndMakesThemWait) {
  GraphMaker g;
  const Edge x = g.Feed(TENON_DT_FLOAT, {2}, "x"), before = g.Add("Nothing", {}, {}, "before");
  Builder builder(&g.graph);
  builder.set_scope("outer/inner");
  builder.set_controls({before.node});
  const NodeId first = *builder.Add("Plus", {x, x}), second = *builder.Add("Plus", {x, x}, {}, "sum", {x.node});
  EXPECT_EQ(g.graph.node(first).name, "outer/inner/Plus");
  EXPECT_EQ(g.graph.node(second).name, "outer/inner/sum");
  EXPECT_EQ(g.graph.node(second).controls, (std::vector<NodeId>{x.node, before.node}));
  EXPECT_EQ(g.graph.node(*builder.AddRole("add", {x, x})).name, "outer/inner/Plus_1");
  EXPECT_EQ(builder.Add("Plux", {x, x}).status().code(), Code::kNotFound);
  EXPECT_EQ(builder.AddRole("conjure", {x}).status().code(), Code::kNotFound);
}

TEST(Builder, InfersAsTheGraphGrows) {
  GraphMaker g;
  const Edge x = g.Feed(TENON_DT_FLOAT, {2}, "x");
  Builder builder(&g.graph);
  EXPECT_EQ(builder.Facts(x).shape, (Shape{2}));
  const Edge y{*builder.Add("Plus", {x, x}), 0};
  EXPECT_EQ(builder.Facts(y).shape, (Shape{2}));
  const Edge two = *builder.ScalarInt32(2);
  EXPECT_EQ(*builder.Facts(two).value.as<int32_t>(), 2);
}

TEST(Builder, TakesAFailingShapeFunctionForUnknownUntilAsked) {
  GraphMaker g;
  Builder builder(&g.graph);
  const Edge bad = *builder.Constant(TensorOf<int32_t>(TENON_DT_INT32, {1}, {-5}));
  const Edge filled{*builder.Add("Fill", {bad}, {}, "fill"), 0},
      good = *builder.Constant(TensorOf<int32_t>(TENON_DT_INT32, {1}, {5}));
  EXPECT_EQ(builder.Facts(filled).shape, Shape::Unknown());
  EXPECT_EQ(builder.Facts(good).shape, (Shape{1})) << "one that fails does not hide the others";
  EXPECT_EQ(builder.Check(filled.node).ToString(),
            "INVALID_ARGUMENT: node 'fill' (Fill): input 0 is a shape with the dim -5");
  EXPECT_TRUE(builder.Check(good.node).ok());
}

TEST(Builder, ChecksWhatComesThroughTheAbi) {
  GraphMaker g;
  const Edge x = g.Feed(TENON_DT_FLOAT, {2, 3}, "x");
  Builder builder(&g.graph);
  const tenon_graph_builder* c = builder.c();
  const auto add = [&](std::vector<tenon_output> inputs, uint64_t control_count = 0) {
    tenon_node_spec spec{};
    spec.struct_size = sizeof(spec);
    spec.op = TENON_SPAN("Plus");
    spec.inputs = inputs.data();
    spec.input_count = inputs.size();
    const int64_t control = 77;
    spec.control_inputs = &control;
    spec.control_input_count = control_count;
    int64_t node = -1;
    const Status status(c->add_node(c->context, &spec, &node));
    return status.ok() ? g.graph.node(NodeId(node)).name : status.ToString();
  };
  EXPECT_EQ(add({ToC(x), ToC(x)}), "Plus");
  EXPECT_EQ(add({ToC(x), {44, 0, 0}}),
            "INVALID_ARGUMENT: new node of op 'Plus', input 1: an edge names the node 44, the graph has 2");
  EXPECT_EQ(add({{-1, 0, 0}, ToC(x)}),
            "INVALID_ARGUMENT: new node of op 'Plus', input 0: an edge names the node -1, the graph has 2");
  EXPECT_EQ(add({ToC(x), {x.node.number(), 3, 0}}),
            "INVALID_ARGUMENT: new node of op 'Plus', input 1: an edge names output 3 of node 'x' (Feed), which has 1");
  EXPECT_EQ(add({ToC(x), ToC(x)}, 1), "INVALID_ARGUMENT: new node of op 'Plus': a control input does not exist");
  EXPECT_EQ(c->output_dtype(c->context, ToC(x)), uint32_t{TENON_DT_FLOAT});
  EXPECT_EQ(c->output_dtype(c->context, {44, 0, 0}), uint32_t{TENON_DT_INVALID});
  tenon_shape shape{};
  ASSERT_EQ(c->output_shape(c->context, ToC(x), &shape), nullptr);
  EXPECT_EQ(Shape(shape), (Shape{2, 3}));
  const Tensor value = TensorOf<float>(TENON_DT_FLOAT, {}, {4});
  const tenon_tensor_view view = value.view();
  tenon_output constant{};
  ASSERT_EQ(c->add_constant(c->context, &view, &constant), nullptr);
  tenon_tensor_view known{};
  ASSERT_EQ(c->output_value(c->context, constant, &known), nullptr);
  ASSERT_NE(known.dl.data, nullptr);
  EXPECT_EQ(*static_cast<const float*>(known.dl.data), 4.0f);
  ASSERT_EQ(c->output_value(c->context, ToC(x), &known), nullptr);
  EXPECT_EQ(known.dl.data, nullptr) << "a feed's value is not known";
}

}  // namespace
}  // namespace tenon::graph::builder_test
