// SPDX-License-Identifier: Apache-2.0
// Covers G1, G2, Q3.
#include "core/place/cost_model.h"

#include <cmath>
#include <random>

#include "core/graph/graph.h"

#include "tests/fakes/place_request.h"
#include "tests/fakes/temporary_folder.h"

namespace tenon::place::cost_model_test {
namespace {

using fakes::PlaceMaker;
using graph::Edge;

TEST(CostModel, CountsBytesWhereAnOpSaysNothing) {
  PlaceMaker g;
  const Edge a = g.Feed(TENON_DT_FLOAT, {10, 20}), b = g.Add("Plus", {a, a});
  graph::ShapeInference shapes(&g.graph);
  ASSERT_TRUE(shapes.Run().ok());
  bool guessed = false;
  const auto cost = StaticCost(g.graph.node(b.node), shapes, &guessed);
  ASSERT_TRUE(cost.ok());
  EXPECT_EQ(cost->bytes_read, 1600);
  EXPECT_EQ(cost->bytes_written, 800);
  EXPECT_EQ(cost->flops, 0);
  EXPECT_FALSE(guessed);
}

TEST(CostModel, AsksTheOpsOwnFunction) {
  PlaceMaker g;
  const Edge a = g.Work({}, 12345, {2});
  graph::ShapeInference shapes(&g.graph);
  ASSERT_TRUE(shapes.Run().ok());
  bool guessed = false;
  EXPECT_EQ(StaticCost(g.graph.node(a.node), shapes, &guessed)->flops, 12345);
}

TEST(CostModel, ADeviceIsAsSlowAsItsNarrowestPart) {
  const DeviceInfo device{"", "", 0, 100, 10, 0.5, 0, false};
  EXPECT_DOUBLE_EQ(SecondsOn({1000, 10, 10}, device), 10.5);
  EXPECT_DOUBLE_EQ(SecondsOn({1000, 100, 100}, device), 20.5);
  EXPECT_DOUBLE_EQ(SecondsOn({kGuessedFlops, 0, 0}, DeviceInfo()), 1) << "a device that does not say";
}

TEST(CostModel, AViewCostsNothing) {
  PlaceMaker g;
  const Edge a = g.Seconds({}, 1), b = g.Seconds({a}, 1);
  g.request.is_view = [b](const graph::Node& node, DeviceId) { return node.id == b.node; };
  EXPECT_NEAR(g.Placed().seconds, 0.1, 1e-9);
}

TEST(CostModel, GuessesUnknownShapesAndSaysSo) {
  bool guessed = false;
  EXPECT_EQ(GuessShape({2, 3}, &guessed), (Shape{2, 3}));
  EXPECT_FALSE(guessed);
  EXPECT_EQ(GuessShape({-1, 3}, &guessed), (Shape{kGuessedDim, 3}));
  EXPECT_TRUE(guessed);
  EXPECT_EQ(GuessShape(Shape::Unknown(), &guessed), Shape{kGuessedElements});
  PlaceMaker g;
  g.Add("Stop", {g.Feed(TENON_DT_FLOAT, {-1, 4})});
  ASSERT_FALSE(g.Placed().notes.empty());
  EXPECT_NE(g.Placed().notes.back().find("unknown dims count as 32"), std::string::npos);
}

TEST(CostModel, KeepsTheMeanByNodeOpDeviceAndShapes) {
  CostModel costs;
  costs.Record("n", "Op", "FAST", {Shape{2, 3}}, 1);
  costs.Record("n", "Op", "FAST", {Shape{2, 3}}, 2);
  costs.Record("n", "Op", "FAST", {Shape{4, 3}}, 9);
  EXPECT_EQ(costs.size(), 2u);
  ASSERT_NE(costs.Find("n", "Op", "FAST", {Shape{2, 3}}), nullptr);
  EXPECT_EQ(costs.Find("n", "Op", "FAST", {Shape{2, 3}})->seconds, 1.5);
  EXPECT_EQ(costs.Find("n", "Op", "FAST", {Shape{-1, 3}})->seconds, 1.5) << "of what fits, the one measured most";
  EXPECT_EQ(costs.Find("n", "Op", "FAST", {Shape{5, 3}}), nullptr);
  EXPECT_EQ(costs.Find("n", "Op", "HOST", {Shape{2, 3}}), nullptr);
  EXPECT_EQ(costs.Find("m", "Op", "FAST", {Shape{2, 3}}), nullptr);
  EXPECT_EQ(costs.Find("n", "Other", "FAST", {Shape{2, 3}}), nullptr);
}

TEST(CostModel, IsReadAgainAsItWasWritten) {
  CostModel costs;
  costs.Record("a/b", "Op", "FAST", {Shape{2, 3}, Shape{}}, 1.0 / 3);
  costs.Record("a/b", "Op", "FAST", {Shape{0}}, 1e-9);
  costs.Record("c", "Source", "HOST", {}, 0);
  costs.Record("d", "Op", "HOST", {Shape{2, -1}, Shape::Unknown()}, 2);
  const std::string path = fakes::TemporaryFolder("costs") + "/costs";
  ASSERT_TRUE(costs.Save(path).ok());
  const auto read = CostModel::Load(path);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->Write(), costs.Write());
  EXPECT_EQ(read->Find("a/b", "Op", "FAST", {Shape{2, 3}, Shape{}})->seconds, 1.0 / 3) << "every bit of it";
  EXPECT_EQ(CostModel::Load(path + ".not").status().code(), Code::kNotFound);
  EXPECT_FALSE(costs.Save(path + "/below").ok());
}

TEST(CostModel, ABadFileSaysWhichLineAndWhy) {
  const std::string head = "tenon-costs 1\n";
  const struct {
    std::string text, says;
  } cases[] = {
      {"", "f:1: not a file of measured costs"},
      {"tenon-costs 3\n", "f:1: not a file of measured costs"},
      {head + "1\t2\tn\n", "f:2: six fields parted by tabs are expected, found 3"},
      {head + "\nx\t1\tn\tOp\tHOST\t", "f:3: 'x' is no number of seconds"},
      {head + "-1\t1\tn\tOp\tHOST\t", "f:2: '-1' is no number of seconds"},
      {head + "nan\t1\tn\tOp\tHOST\t", "f:2: 'nan' is no number of seconds"},
      {head + "1\t0\tn\tOp\tHOST\t", "f:2: '0' is no number of runs"},
      {head + "1\t1\tn\tOp\tHOST\t[2,-1]", "f:2: '[2,-1]' is no list of shapes"},
      {head + "1\t1\tn\tOp\tHOST\t[2];", "f:2: '[2];' is no list of shapes"},
  };
  for (const auto& c : cases) {
    const auto read = CostModel::Parse(c.text, "f");
    ASSERT_FALSE(read.ok()) << c.text;
    EXPECT_TRUE(read.status().message().starts_with(c.says)) << read.status().message();
  }
}

// Costs that were measured go before the static ones, and the placement that follows is no slower by them.
TEST(CostModel, MeasuredCostsMakeThePlacementNoSlower) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    PlaceMaker g;
    std::vector<Edge> nodes;
    CostModel costs;
    std::uniform_real_distribution<> factor(-2, 2);
    for (int i = 0; i < 10; ++i) {
      fakes::GraphMaker::Edges inputs;
      if (i > 0) inputs = {nodes[random() % nodes.size()]};
      nodes.push_back(g.Seconds(inputs, 1, 4, StrCat("n", i)));
      for (const char* type : {"HOST", "FAST"})
        costs.Record(StrCat("n", i), "Work", type, std::vector<Shape>(inputs.size(), Shape{1}),
                     std::exp2(factor(random)) * (type[0] == 'H' ? 1 : 0.1));
    }
    const Placement by_static = g.Placed();
    g.request.costs = &costs;
    const Placement by_measured = g.Placed();
    // What the first would take by the measured costs: every node bound to where it was.
    for (const graph::NodeId id : g.graph.ids())
      g.graph.mutable_node(id).device = g.devices[by_static.device_of_node[id]].name;
    EXPECT_LE(by_measured.seconds, g.Placed().seconds * (1 + 1e-9)) << round;
  }
}

TEST(CostModel, LinksAreMeasuredByTheirBestAndKept) {
  constexpr Link kGuess = {1e-3, 1e6};
  CostModel costs;
  EXPECT_EQ(costs.FindLink("a", "b", kGuess).bytes_per_second, 1e6);
  for (const double seconds : {3e-4, 1e-4, 2e-4}) costs.RecordLink("a", "b", 4, seconds);
  EXPECT_EQ(costs.FindLink("a", "b", kGuess).latency_seconds, 1e-4);
  EXPECT_EQ(costs.FindLink("a", "b", kGuess).bytes_per_second, 1e6) << "not measured";
  for (const double seconds : {2.0, 1.0}) costs.RecordLink("a", "b", 1e8, seconds);
  costs.RecordLink("a", "b", 10000, 1e-9);  // neither small nor large
  costs.RecordLink("a", "b", 1e9, 0);
  const std::string text = costs.Write();
  EXPECT_EQ(text, "tenon-costs 2\nlink\t5\ta\tb\t1e-04\t1e+08\n");
  const auto read = CostModel::Parse(text, "costs");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->Write(), text);
  EXPECT_EQ(read->FindLink("b", "a", kGuess).bytes_per_second, 1e8) << "the other way";
  for (const char* bad : {"link\t0\ta\tb\t1\t1", "link\t1\ta\tb\t-1\t1", "link\t1\ta\tb\t1\t0",
                          "link\t1\ta\tb\t1\tmany", "link\t1\ta\tb\tinf\t1"})
    EXPECT_FALSE(CostModel::Parse(std::string("tenon-costs 2\n") + bad + "\n", "costs").ok()) << bad;
  EXPECT_FALSE(CostModel::Parse("tenon-costs 1\nlink\t1\ta\tb\t1\t1\n", "costs").ok()) << "of an older form";
}

}  // namespace
}  // namespace tenon::place::cost_model_test
