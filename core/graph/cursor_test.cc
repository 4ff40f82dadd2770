// SPDX-License-Identifier: Apache-2.0
#include "core/graph/cursor.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::cursor_test {
namespace {

tenon_shape NoShape(const Edge&) { return {nullptr, -1, 0}; }

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

}  // namespace
}  // namespace tenon::graph::cursor_test
