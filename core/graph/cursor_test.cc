// SPDX-License-Identifier: Apache-2.0
#include "core/graph/cursor.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::cursor_test {
namespace {

const ShapeInference& NoShape() {
  static const ShapeInference nothing(nullptr);
  return nothing;
}

std::string_view OpAt(const Cursor& cursor, int64_t id) {
  const tenon_node* const node = cursor.c()->node(cursor.c()->graph, id);
  return node == nullptr ? std::string_view("none") : View(cursor.c()->node_services->op(node));
}
int64_t SourceOf(const Cursor& cursor, int64_t id, int32_t index) {
  tenon_output source{77, 0, 0};
  const Status status(cursor.c()->input(cursor.c()->graph, id, index, &source));
  return status.ok() ? source.node : -7;
}

class Cursors : public ::testing::Test {
 protected:
  fakes::GraphMaker make_;
  Edge a_ = make_.Value(1, "a"), b_ = make_.Value(2, "b");
  Edge sum_ = make_.Add("Plus", {b_, a_}, {}, "sum", {a_.node});
};

TEST_F(Cursors, InAnOrderHaveItsNumbers) {
  const Cursor cursor(make_.graph, {b_.node, a_.node, sum_.node}, NoShape);
  EXPECT_EQ(cursor.c()->node_count(cursor.c()->graph), 3);
  EXPECT_EQ(OpAt(cursor, 2), "Plus");
  EXPECT_EQ(SourceOf(cursor, 2, 0), 0);
  EXPECT_EQ(SourceOf(cursor, 2, 1), 1);
}

TEST_F(Cursors, WithoutAnOrderHaveTheGraphsNumbersAndGrowWithIt) {
  const Cursor cursor(make_.graph, NoShape);
  const auto number = [](const Edge& edge) { return edge.node.number(); };
  EXPECT_EQ(cursor.c()->node_count(cursor.c()->graph), 3);
  EXPECT_EQ(SourceOf(cursor, number(sum_), 0), number(b_));
  EXPECT_EQ(cursor.c()->control_input_count(cursor.c()->graph, number(sum_)), 1);
  const Edge more = make_.Add("Plus", {sum_, a_});
  EXPECT_EQ(cursor.c()->node_count(cursor.c()->graph), 4);
  EXPECT_EQ(OpAt(cursor, number(more)), "Plus");
  EXPECT_EQ(SourceOf(cursor, number(more), 0), number(sum_));
}

TEST_F(Cursors, SayWhatIsNotThere) {
  const Cursor cursor(make_.graph, NoShape);
  EXPECT_EQ(OpAt(cursor, 3), "none");
  EXPECT_EQ(OpAt(cursor, -1), "none");
  EXPECT_EQ(SourceOf(cursor, 3, 0), -7);
  tenon_output source;
  const Status status(cursor.c()->input(cursor.c()->graph, sum_.node.number(), 2, &source));
  EXPECT_NE(status.message().find("has no input 2; it has 2"), std::string::npos) << status.ToString();
  int64_t waits = -1;
  const Status of_waits(cursor.c()->control_input(cursor.c()->graph, sum_.node.number(), 1, &waits));
  EXPECT_NE(of_waits.message().find("waits for 1 nodes; 1 was asked for"), std::string::npos) << of_waits.ToString();
}

TEST_F(Cursors, AnswerForShapesWithNamesAndWithout) {
  const Edge x = make_.Feed(TENON_DT_FLOAT, {-1, 3}), same = make_.Add("Copy", {x});
  const Edge size = make_.ValueOf(fakes::TensorOf<int32_t>(TENON_DT_INT32, {}, {7}));
  ShapeInference inference(&make_.graph);
  ASSERT_TRUE(inference.Run().ok());
  const Cursor cursor(make_.graph, [&]() -> const ShapeInference& { return inference; });
  const tenon_graph_cursor& c = *cursor.c();
  tenon_shape plain{}, named{}, of_same{}, elements{};
  ASSERT_EQ(c.output_shape(c.graph, {x.node.number(), 0, 0}, &plain), nullptr);
  ASSERT_EQ(c.named_shape(c.graph, {x.node.number(), 0, 0}, &named), nullptr);
  ASSERT_EQ(c.named_shape(c.graph, {same.node.number(), 0, 0}, &of_same), nullptr);
  EXPECT_EQ(Shape(plain), (Shape{-1, 3}));
  ASSERT_EQ(named.rank, 2);
  EXPECT_LE(named.dims[0], TENON_DIM_NAMES);
  EXPECT_EQ(named.dims[1], 3);
  EXPECT_EQ(Shape(named), Shape(of_same));
  ASSERT_EQ(c.output_elements(c.graph, {size.node.number(), 0, 0}, &elements), nullptr);
  EXPECT_EQ(Shape(elements), (Shape{7}));
  ASSERT_EQ(c.output_elements(c.graph, {x.node.number(), 0, 0}, &elements), nullptr);
  EXPECT_EQ(elements.rank, -1);
  const Status status(c.named_shape(c.graph, {x.node.number(), 1, 0}, &named));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace tenon::graph::cursor_test
