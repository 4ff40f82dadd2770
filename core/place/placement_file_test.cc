// SPDX-License-Identifier: Apache-2.0
// Covers G10.
#include "core/place/placement_file.h"

#include "tests/fakes/place_request.h"

namespace tenon::place::placement_file_test {
namespace {

using fakes::PlaceMaker;

PlacementFile Parse(std::string_view text) {
  auto file = PlacementFile::Parse(text, "f");
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return file.ok() ? *std::move(file) : PlacementFile();
}

TEST(PlacementFile, GivesTheExactNameElseTheLastPatternThatFits) {
  const PlacementFile file =
      Parse("# all\n*\t/host:0\nlayer1/*   /device:FAST:0   # fast\n\nlayer?/sum /fast:1\r\nlayer1/x /host:*\n");
  const auto of = [&](const std::string& node) { return file.Find(node) == nullptr ? "" : *file.Find(node); };
  EXPECT_EQ(of("other"), "/host:0");
  EXPECT_EQ(of("layer1/y"), "/device:FAST:0");
  EXPECT_EQ(of("layer1/sum"), "/fast:1");
  EXPECT_EQ(of("layer1/x"), "/host:*");
  EXPECT_EQ(Parse("a /host:0").Find("b"), nullptr);
}

TEST(PlacementFile, PatternsAreStarsAndQuestionMarks) {
  for (const char* pattern : {"abc", "*", "a*", "*c", "a?c", "**b**", "?*?", "a*b*c", "abc*"})
    EXPECT_TRUE(MatchesPattern(pattern, "abc")) << pattern;
  for (const char* pattern : {"", "ab", "abcd", "?", "b*", "*b", "a?", "????", "A*"})
    EXPECT_FALSE(MatchesPattern(pattern, "abc")) << pattern;
  EXPECT_TRUE(MatchesPattern("*a*a*a*b", std::string(40, 'a') + "b"));
  EXPECT_FALSE(MatchesPattern("*a*a*a*c", std::string(40, 'a') + "b")) << "and no time beyond measure for it";
}

TEST(PlacementFile, ABadLineIsNamed) {
  const struct {
    const char *text, *says;
  } cases[] = {
      {"a /host:0\nb\n", "f:2: 'b' has no device"},
      {"a /host:x", "f:1: '/host:x' is no device name"},
      {"a /host:0\na /host:1", "f:2: node 'a' stands already in line 1"},
      {"a /host:0 /host:1", "f:1: '/host:0 /host:1' is no device name"},
  };
  for (const auto& c : cases) {
    const auto file = PlacementFile::Parse(c.text, "f");
    ASSERT_FALSE(file.ok()) << c.text;
    EXPECT_TRUE(file.status().message().starts_with(c.says)) << file.status().message();
  }
}

TEST(PlacementFile, ARuleForNoNodeIsAnErrorWithANearMiss) {
  PlaceMaker g;
  g.Value(1, "weights");
  EXPECT_TRUE(Parse("weights /host:0\nw* /host:0").Check(g.graph).ok());
  const Status name = Parse("\nweihgts /host:0").Check(g.graph);
  EXPECT_EQ(name.code(), Code::kNotFound);
  EXPECT_TRUE(name.message().starts_with("f:2: ")) << name.message();
  EXPECT_NE(name.message().find("'weights'"), std::string::npos) << name.message();
  EXPECT_EQ(Parse("v* /host:0").Check(g.graph).message(), "f:1: no node's name is like 'v*'");
}

TEST(PlacementFile, GoesBeforeTheNodesOwnNames) {
  PlaceMaker g;
  const graph::Edge a = g.Seconds({}, 1, 4, "layer/a"), b = g.Seconds({}, 1, 4, "b");
  g.Pin(a, "/host:0");
  g.Pin(b, "/host:0");
  const PlacementFile file = Parse("layer/* /device:FAST:1");
  g.request.file = &file;
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[a.node], DeviceId(2));
  EXPECT_EQ(placement.device_of_node[b.node], DeviceId(0));
}

TEST(PlacementFile, WhatIsWrittenPlacesTheSameWay) {
  PlaceMaker g;
  graph::Edge at = g.Seconds({}, 1, 4000, "a");
  for (int i = 0; i < 6; ++i) at = g.Seconds({at, g.Seconds({}, 0.5, 400)}, 1, 4000);
  const Placement first = g.Placed();
  IdVector<DeviceId, std::string> names;
  for (const DeviceInfo& device : g.devices) names.push_back(device.name);
  const PlacementFile file = Parse(PlacementFile::Write(g.graph, first.device_of_node, names));
  ASSERT_TRUE(file.Check(g.graph).ok());
  g.request.file = &file;
  EXPECT_EQ(g.Placed().device_of_node, first.device_of_node);
}

}  // namespace
}  // namespace tenon::place::placement_file_test
