// SPDX-License-Identifier: Apache-2.0
#include "core/place/explain.h"

#include "core/graph/graph.h"

#include "tests/fakes/place_request.h"

namespace tenon::place::explain_test {
namespace {

using fakes::PlaceMaker;

size_t CountOf(std::string_view what, const std::string& text) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(Explain, SaysWhereEachNodeIsAndWhatElseWasPossible) {
  PlaceMaker g;
  const graph::Edge a = g.Seconds({}, 1, 4000, "a");
  g.Pin(a, "/host:0");
  g.Seconds({a}, 2, 4, "b");
  g.request.explain = true;
  const Placement placement = g.Placed();
  const std::string json = ToJson(g.request, placement);
  EXPECT_NE(json.find("{\"name\":\"a\",\"op\":\"Work\",\"device\":\"/job:localhost/replica:0/task:0/"
                      "device:HOST:0\",\"reason\":\"device name\""),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("{\"name\":\"b\",\"op\":\"Work\",\"device\":\"/job:localhost/replica:0/task:0/"
                      "device:FAST:0\",\"reason\":\"shortest step\",\"why\":\"the step "
                      "is shortest so, as far as was searched; the node would be done after 3.00 s on "),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("{\"device\":\"/job:localhost/replica:0/task:0/device:HOST:0\",\"finish\":3}"), std::string::npos)
      << json;
  EXPECT_NE(json.find("{\"value\":\"a:0\",\"from\":\"/job:localhost/replica:0/task:0/device:HOST:0\",\"to\":\"/"
                      "job:localhost/replica:0/task:0/device:FAST:0\",\"bytes\":4000"),
            std::string::npos)
      << json;
  EXPECT_NE(json.find("\"transfers\":1,"), std::string::npos);
  EXPECT_EQ(json.find("\"costs\""), std::string::npos) << "nothing was measured";
}

TEST(Explain, SaysWhatCompilersRefuse) {
  PlaceMaker g;
  g.Seconds({}, 1, 4, "a");
  g.request.explain = true;
  const Placement placement = g.Placed();
  EXPECT_EQ(ToJson(g.request, placement).find("refusals"), std::string::npos);
  const std::string json = ToJson(g.request, placement, {}, {{"a", "some.plugin", "it is \"small\""}});
  EXPECT_NE(
      json.find("\"refusals\":[\n{\"node\":\"a\",\"plugin\":\"some.plugin\",\"reason\":\"it is \\\"small\\\"\"}]"),
      std::string::npos)
      << json;
}

TEST(Explain, TheTimeLineFitsTogether) {
  PlaceMaker g;
  graph::Edge at = g.Seconds({}, 1, 4000);
  g.Pin(at, "/host:0");
  for (int i = 0; i < 4; ++i) at = g.Seconds({at}, 1, 4000);
  g.request.fetches = {at};
  g.request.explain = true;
  const Placement placement = g.Placed();
  ASSERT_EQ(placement.node_spans.size(), 5u);
  ASSERT_EQ(placement.transfer_spans.size(), 2u);
  EXPECT_EQ(placement.transfer_spans[0].start, placement.node_spans[0].finish);
  EXPECT_EQ(placement.node_spans[1].start, placement.transfer_spans[0].finish);
  EXPECT_EQ(placement.transfer_spans[1].finish, placement.seconds) << "the fetched value comes to the host last";
}

TEST(Explain, DrawsABarForEachNodeAndALineForEachTransfer) {
  PlaceMaker g;
  const graph::Edge a = g.Seconds({}, 1, 4000, "first>"), b = g.Seconds({a}, 2, 4, "b");
  g.Pin(a, "/host:0");
  g.Add("Copy", {b});
  g.request.explain = true;
  const std::string svg = ToSvg(g.request, g.Placed());
  EXPECT_TRUE(svg.starts_with("<svg ")) << svg;
  EXPECT_EQ(CountOf("<g><rect", svg), 2u);
  EXPECT_EQ(CountOf("<line class=\"t\"", svg), 1u);
  EXPECT_NE(svg.find("1 nodes are too short to be seen"), std::string::npos);
  EXPECT_EQ(CountOf("first&gt;", svg), 3u) << "the bar's title, its name, and the line's title" << svg;
}

TEST(Explain, ShowsTheErrorOfStaticCosts) {
  PlaceMaker g;
  g.Seconds({}, 1, 4, "a");
  g.Seconds({}, 1, 4, "b");
  g.request.explain = true;
  CostModel costs;
  costs.Record("a", "Work", "FAST", {}, 0.4);
  costs.Record("a", "Work", "HOST", {}, 4);
  g.request.costs = &costs;
  const Placement placement = g.Placed();
  graph::ShapeInference shapes(&g.graph);
  ASSERT_TRUE(shapes.Run().ok());
  const auto errors = CompareCosts(g.request, placement.device_of_node, shapes, costs);
  ASSERT_TRUE(errors.ok());
  EXPECT_NEAR(errors->at("Work").ratio, 4, 1e-6) << "a tenth of a second was guessed";
  EXPECT_NE(ToJson(g.request, placement, *errors)
                .find("{\"op\":\"Work\",\"nodes\":1,\"static_seconds\":0.1,\"measured_seconds\":0.4,\"ratio\":4"),
            std::string::npos)
      << ToJson(g.request, placement, *errors);
}

}  // namespace
}  // namespace tenon::place::explain_test
