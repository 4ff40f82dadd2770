// SPDX-License-Identifier: Apache-2.0
// Names of unknown dims in shape inference: what carries them, and what gets names of its own.
#include "core/graph/shape_inference.h"
// Covers A3, N2.
#include "core/base/table_check.h"
#include "core/graph/graph.h"
#include "core/tensor/allowance.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::named_dims_test {
namespace {

using fakes::DefineOp;
using fakes::ShapeOfAttr;
using fakes::ShapeOfFirst;
using fakes::ShapeOfValue;

using Services = const tenon_shape_services;

tenon_status* SizesShape(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  const tenon_shape input = s->input_shape(context, 0);
  const int64_t rank = input.rank;
  if (tenon_status* status = s->set_output_shape(context, 0, {&rank, 1, 0})) return status;
  return s->set_output_elements(context, 0, input);
}
// Twice as many rows, as the services compute it and as nobody may.
tenon_status* Doubled(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  Shape shape(s->input_shape(context, 0));
  shape.dims()[0] = s->dim_product(context, shape.dim(0), 2);
  return s->set_output_shape(context, 0, shape.c());
}
tenon_status* RowsAndRows(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  Shape shape(s->input_shape(context, 0));
  const tenon_shape other = s->input_shape(context, 1);
  shape.dims()[0] = s->dim_sum(context, shape.dim(0), other.dims[0]);
  return s->set_output_shape(context, 0, shape.c());
}
tenon_status* DoubledAsNumber(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  Shape shape(s->input_shape(context, 0));
  shape.dims()[0] *= 2;
  return s->set_output_shape(context, 0, shape.c());
}
tenon_status* KeptShape(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  if (tenon_status* status = s->set_output_shape(context, 0, {nullptr, 0, 0})) return status;
  return s->set_output_handle(context, 0, s->input_shape(context, 0), TENON_DT_FLOAT);
}
tenon_status* ReadShape(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  tenon_shape shape;
  uint32_t type = 0;
  if (tenon_status* status = s->input_handle(context, 0, &shape, &type)) return status;
  return s->set_output_shape(context, 0, shape);
}

tenon_op_definition With(tenon_op_definition op, tenon_shape_function shape) {
  op.shape = shape;
  return op;
}

tenon_op_definition Saying(std::string_view properties, tenon_op_definition op) {
  op.properties = Span(properties);
  return op;
}
tenon_status* UnknownMatrix(tenon_plugin_self*, Services* s, tenon_shape_context* context) {
  const int64_t dims[] = {-1, -1};
  return s->set_output_shape(context, 0, {dims, 2, 0});
}

class NamedDims : public ::testing::Test {
 protected:
  NamedDims() {
    static const tenon_op_definition ops[] = {
        With(DefineOp("Feed", "", "x: T", "T: type; shape: shape", TENON_OP_FEED), ShapeOfAttr),
        With(DefineOp("Copy", "x: T", "y: T", "T: type"), ShapeOfFirst),
        With(DefineOp("Sizes", "x: T", "y: int32", "T: type"), SizesShape),
        With(DefineOp("Fill", "dims: int32", "y: float"), ShapeOfValue),
        With(DefineOp("Doubled", "x: float", "y: float"), Doubled),
        With(DefineOp("RowsAndRows", "x: float, y: float", "z: float"), RowsAndRows),
        With(DefineOp("DoubledAsNumber", "x: float", "y: float"), DoubledAsNumber),
        With(DefineOp("Keep", "x: float", "handle: resource"), KeptShape),
        With(DefineOp("Read", "handle: resource", "y: float"), ReadShape),
        With(DefineOp("Variable", "", "ref: Ref(float)", "shape: shape"), ShapeOfAttr),
        DefineOp("Same", "x: T", "y: T", "T: type", TENON_OP_IDENTITY, "identity"),
        DefineOp("Choose", "x: T, which: bool", "no: T, yes: T", "T: type", TENON_OP_SWITCH),
        DefineOp("Join", "inputs: N * T", "output: T, index: int32", "N: int >= 1; T: type", TENON_OP_MERGE),
        DefineOp("Value", "", "x: dtype", "dtype: type; value: tensor", TENON_OP_CONSTANT, "constant")};
    static const tenon_op_definition blind = With(DefineOp("Blind", "x: T", "y: T", "T: type"), ShapeOfFirst);
    static const tenon_op_definition one_by_one =
        Saying("elementwise(x)", With(DefineOp("OneByOne", "x: float, how: float", "y: float"), ShapeOfFirst));
    static const tenon_op_definition both =
        Saying("elementwise, broadcasts", With(DefineOp("Both", "x: float, y: float", "z: float"), UnknownMatrix));
    static const tenon_op_definition* const kBlind[] = {&blind, &one_by_one, &both};
    std::vector<const tenon_op_definition*> list;
    for (const tenon_op_definition& op : ops) list.push_back(&op);
    std::map<std::string, std::string> refused;
    EXPECT_TRUE(registry_.Register({TENON_HEAD(tenon_op_package), list.data(), list.size(), TENON_OPS_NAMED_DIMS},
                                   fakes::InstanceNamed("named"), &refused).ok());
    EXPECT_TRUE(registry_.Register({TENON_HEAD(tenon_op_package), kBlind, 3, 0}, fakes::InstanceNamed("blind"),
                                   &refused).ok());
  }
  Edge Add(std::string_view op, std::vector<Edge> inputs, AttrMap attrs = {}) {
    NodeSpec spec{*registry_.Find(op), graph_.UniqueName(op), std::move(inputs), {}, std::move(attrs), {}};
    auto node = graph_.Add(std::move(spec));
    EXPECT_TRUE(node.ok()) << Status(node.status()).ToString();
    return {*node, 0};
  }
  Edge Feed(Shape shape, DType type = TENON_DT_FLOAT) {
    return Add("Feed", {}, {{"T", AttrValue::Type(type)}, {"shape", AttrValue::OfShape(std::move(shape))}});
  }
  ShapeInference Infer(const std::vector<Edge>& fed = {}) {
    ShapeInference inference(&graph_);
    inference.SetFed(fed);
    EXPECT_TRUE(inference.Run().ok());
    return inference;
  }

  OpRegistry registry_;
  Graph graph_{&registry_};
};

TEST_F(NamedDims, AreCopiedByWhoKnowsThem) {
  const Edge x = Feed({-1, 3, -1}), y = Feed({-1, 3, -1}), copy = Add("Copy", {Add("Same", {x})}),
             blind = Add("Blind", {x});
  const ShapeInference known = Infer();
  const Shape& named = known.named_shape(x);
  EXPECT_EQ(known.facts(x).shape, (Shape{-1, 3, -1})) << "who does not ask for names sees none";
  EXPECT_EQ(known.facts(copy).shape, (Shape{-1, 3, -1}));
  EXPECT_LE(named.dim(0), TENON_DIM_NAMES);
  EXPECT_NE(named.dim(0), named.dim(2));
  EXPECT_EQ(known.named_shape(copy), named);
  for (const Edge& other : {y, blind}) {
    EXPECT_EQ(known.named_shape(other).dim(1), 3);
    for (const int d : {0, 2}) {
      EXPECT_LE(known.named_shape(other).dim(d), TENON_DIM_NAMES);
      EXPECT_NE(known.named_shape(other).dim(d), named.dim(d));
    }
  }
}

TEST_F(NamedDims, GoThroughWhatSaysThatItIsElementWise) {
  const Edge x = Feed({-1, 3}), y = Feed({-1, 3}), row = Feed({-1}), one = Add("OneByOne", {x, y}),
             both = Add("Both", {one, x}), rows = Add("Both", {x, row}), other = Add("Both", {x, y}),
             number = Add("Both", {x, Feed({1, 1})});
  const ShapeInference known = Infer();
  EXPECT_EQ(known.named_shape(one), known.named_shape(x));
  EXPECT_EQ(known.named_shape(both).dim(0), known.named_shape(x).dim(0));
  EXPECT_EQ(known.named_shape(rows).dim(0), known.named_shape(x).dim(0));
  EXPECT_EQ(known.named_shape(number).dim(0), known.named_shape(x).dim(0));
  EXPECT_NE(known.named_shape(other).dim(0), known.named_shape(x).dim(0)) << "it may be y's";
  EXPECT_NE(known.named_shape(other).dim(0), known.named_shape(y).dim(0));
}

TEST_F(NamedDims, GoThroughSizesThatTheGraphComputes) {
  const Edge x = Feed({-1, 3}), sizes = Add("Sizes", {x}), filled = Add("Fill", {Add("Same", {sizes})}),
             blind = Add("Fill", {Add("Blind", {sizes})});
  const ShapeInference known = Infer();
  EXPECT_EQ(known.elements(sizes), known.named_shape(x));
  EXPECT_EQ(known.facts(filled).shape, (Shape{-1, 3})) << "which was not known without them";
  EXPECT_EQ(known.named_shape(filled), known.named_shape(x));
  EXPECT_EQ(known.facts(blind).shape, (Shape{-1, -1}));
  EXPECT_FALSE(known.elements(x).known_rank());
}

TEST_F(NamedDims, AreComputedWithByTheServices) {
  const Edge x = Feed({-1, 3}), twice = Add("Doubled", {x}), sum = Add("RowsAndRows", {x, x}),
             more = Add("RowsAndRows", {x, Feed({4, 3})}), number = Add("Doubled", {Feed({4, 3})});
  const ShapeInference known = Infer();
  EXPECT_EQ(known.named_shape(twice), known.named_shape(sum));
  EXPECT_NE(known.named_shape(twice).dim(0), known.named_shape(x).dim(0));
  EXPECT_NE(known.named_shape(more).dim(0), known.named_shape(twice).dim(0));
  EXPECT_EQ(known.named_shape(number), (Shape{8, 3}));
}

TEST_F(NamedDims, ThatAreTakenForNumbersAreRefusedByName) {
  const Edge x = Feed({-1, 3}), wrong = Add("DoubledAsNumber", {x}), after = Add("Copy", {wrong});
  ShapeInference known(&graph_);
  const Status status = known.Run();
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_NE(status.message().find("named"), std::string::npos) << status.ToString();
  EXPECT_NE(status.message().find("its shape() called set_output_shape for output 0 with the dim -"),
            std::string::npos) << status.ToString();
  EXPECT_EQ(known.facts(after).shape, Shape::Unknown());
}

TEST_F(NamedDims, OfWhatIsFedAreItsOwn) {
  const Edge x = Feed({-1, 3}), copy = Add("Copy", {x}), after = Add("Copy", {copy}), sizes = Add("Sizes", {x}),
             filled = Add("Fill", {sizes});
  const ShapeInference known = Infer({copy, sizes});
  EXPECT_NE(known.named_shape(copy).dim(0), known.named_shape(x).dim(0));
  EXPECT_EQ(known.named_shape(after), known.named_shape(copy));
  EXPECT_FALSE(known.elements(sizes).known_rank());
  EXPECT_EQ(known.facts(filled).shape, (Shape{-1, -1}));
}

TEST_F(NamedDims, AValueThatIsFedIsNotKnown) {
  const auto two = fakes::TensorOf<int32_t>(TENON_DT_INT32, {2}, {4, 5});
  const Edge dims = Add("Value", {}, {{"dtype", AttrValue::Type(TENON_DT_INT32)}, {"value", AttrValue::OfTensor(two)}}),
             filled = Add("Fill", {dims});
  EXPECT_EQ(Infer().facts(filled).shape, (Shape{4, 5}));
  EXPECT_EQ(Infer().elements(dims), (Shape{4, 5}));
  EXPECT_EQ(Infer({dims}).facts(filled).shape, (Shape{-1, -1}));
}

TEST_F(NamedDims, OfBranchesStayWhereBothSidesHaveThem) {
  const Edge x = Feed({-1, 3}), y = Feed({-1, 3}), which = Feed({}, TENON_DT_BOOL), choice = Add("Choose", {x, which});
  const Edge yes{choice.node, 1}, same = Add("Join", {choice, Add("Copy", {yes})}), other = Add("Join", {x, y});
  const ShapeInference known = Infer();
  EXPECT_EQ(known.named_shape(same), known.named_shape(x));
  EXPECT_LE(known.named_shape(other).dim(0), TENON_DIM_NAMES);
  EXPECT_NE(known.named_shape(other).dim(0), known.named_shape(x).dim(0));
  EXPECT_NE(known.named_shape(other).dim(0), known.named_shape(y).dim(0));
  EXPECT_EQ(known.named_shape({same.node, 1}), Shape());
}

TEST_F(NamedDims, AreNotCarriedByWhatMayChange) {
  const Edge x = Feed({-1, 3}), kept = Add("Keep", {x}), first = Add("Read", {kept}), second = Add("Read", {kept});
  const Edge variable = Add("Variable", {}, {{"shape", AttrValue::OfShape({-1, 3})}});
  const ShapeInference known = Infer();
  EXPECT_NE(known.named_shape(first).dim(0), known.named_shape(second).dim(0));
  EXPECT_NE(known.named_shape(first).dim(0), known.named_shape(x).dim(0));
  EXPECT_EQ(known.facts(kept).handle_shape, (Shape{-1, 3}));
  EXPECT_EQ(known.named_shape(variable), (Shape{-1, 3})) << "two readers may see two sizes";
}

TEST_F(NamedDims, AreChargedToTheLimit) {
  const Edge x = Feed(Shape(std::vector<int64_t>(TENON_MAX_RANK, -1)));
  Edge last = x;
  for (int i = 0; i < 100; ++i) last = Add("Copy", {last});
  BufferPool* const pool = BufferPool::Create(HostAllocator(), 100'000);
  {
    const Allowance allowance(nullptr, pool);
    ShapeInference known(&graph_);
    EXPECT_EQ(known.Run().code(), Code::kResourceExhausted);
    EXPECT_EQ(known.facts(x).shape.rank(), TENON_MAX_RANK);
    EXPECT_EQ(known.facts(last).shape, Shape::Unknown());
    EXPECT_LE(pool->bytes_in_use(), 100'000u);
    EXPECT_GT(pool->bytes_in_use(), 90'000u);
  }
  EXPECT_EQ(pool->bytes_in_use(), 0u);
  pool->Close();
}

TEST(NamedDimsOfLoops, ComeAnewWithEachTurn) {
  fakes::GraphMaker g;
  const Edge limit = g.Value(3), start = g.Feed(TENON_DT_FLOAT, {-1, 3});
  Edge inside;
  const auto loop = g.While(
      "loop", {g.Feed(TENON_DT_FLOAT, {}), start},
      [&](const auto& v) { return g.Add("Below", {v[0], g.Into(limit, "loop", true)}); },
      [&](const auto& v) {
        inside = v[1];
        return std::vector{g.Add("Plus", {v[0], v[0]}), g.Add("Grow", {v[1]})};
      });
  ShapeInference known(&g.graph);
  ASSERT_TRUE(known.Run().ok());
  EXPECT_EQ(known.facts(inside).shape, (Shape{-1, 3}));
  EXPECT_LE(known.named_shape(inside).dim(0), TENON_DIM_NAMES);
  EXPECT_NE(known.named_shape(inside).dim(0), known.named_shape(start).dim(0));
  EXPECT_LE(known.named_shape(loop.exits[1]).dim(0), TENON_DIM_NAMES);
  EXPECT_NE(known.named_shape(loop.exits[1]).dim(0), known.named_shape(start).dim(0));
}

TEST(Registry, KnowsTheFlagsOfPackages) {
  OpRegistry registry;
  std::map<std::string, std::string> refused;
  const tenon_op_definition op = DefineOp("One", "", "x: float");
  const tenon_op_definition* const list[] = {&op};
  const Status status =
      registry.Register({TENON_HEAD(tenon_op_package), list, 1, 6}, fakes::InstanceNamed("later"), &refused);
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_NE(status.message().find("the flags 6"), std::string::npos) << status.ToString();
  // A package that is older than its flags says none, whatever stands behind it.
  tenon_op_package older = {TENON_SIZE_UP_TO(tenon_op_package, count), 0, list, 1, 6};
  ASSERT_TRUE(registry.Register(older, fakes::InstanceNamed("older"), &refused).ok());
  EXPECT_FALSE((*registry.Find("One"))->knows_dim_names);
}

}  // namespace
}  // namespace tenon::graph::named_dims_test
