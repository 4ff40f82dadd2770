// SPDX-License-Identifier: Apache-2.0
#include "core/partition/crossing_order.h"

#include "core/graph/graph.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::partition::crossing_order_test {
namespace {

using graph::Edge;
using graph::NodeId;

struct Case : fakes::GraphMaker {
  // The names in their order; those that begin with the same letter are of one part.
  std::string Order() {
    const auto order = graph.TopologicalOrder();
    EXPECT_TRUE(order.ok());
    std::string out;
    for (const NodeId id : CrossingOrder(
             graph, *order, [&](NodeId from, NodeId to) { return graph.node(from).name[0] != graph.node(to).name[0]; }))
      out += (out.empty() ? "" : " ") + graph.node(id).name;
    return out;
  }
};

TEST(CrossingOrder, OwnWorkComesBeforeWhatWaitsForOthers) {
  Case g;
  const Edge a = g.Feed(TENON_DT_FLOAT, {}, "a"), b = g.Feed(TENON_DT_FLOAT, {}, "b");
  const Edge sum = g.Add("Plus", {a, b}, {}, "a_sum");
  g.Add("Copy", {sum}, {}, "b_back");
  const Edge own = g.Add("Copy", {a}, {}, "a_own");
  g.Add("Copy", {own}, {}, "b_of_own");
  g.Add("Copy", {b}, {}, "b_own");
  // b and a_own set out at once; b_own waits for nobody; b_back waits for what waited.
  EXPECT_EQ(g.Order(), "b a a_own b_own a_sum b_of_own b_back");
}

TEST(CrossingOrder, OfOnePartIsAsItWas) {
  Case g;
  const Edge a = g.Feed(TENON_DT_FLOAT, {}, "a1");
  g.Add("Copy", {a}, {}, "a3");
  g.Add("Copy", {a}, {}, "a2");
  EXPECT_EQ(g.Order(), "a1 a3 a2");
}

}  // namespace
}  // namespace tenon::partition::crossing_order_test
