// SPDX-License-Identifier: Apache-2.0
// Covers R2.
#include "tenon/train/summaries.h"

#include <gtest/gtest.h>

#include <map>

#include "tenon/bytes/wire.h"
#include "tests/fakes/counting_model.h"

namespace tenon::train::summaries_test {
namespace {

// The number of the field that each value of a serialized Summary has, by its tag: 2 a number, 4 an image, 5 a
// histogram, 6 a sound.
std::map<std::string, int> KindsOf(std::string_view summary) {
  std::map<std::string, int> kinds;
  sdk::WireReader values(summary);
  while (values.Next()) {
    std::string tag;
    int kind = 0;
    sdk::WireReader value(values.bytes());
    while (value.Next()) {
      if (value.field() == 1) tag = std::string(value.bytes());
      else if (value.field() != 9) kind = static_cast<int>(value.field());  // 9: of a plugin's
    }
    kinds[tag] = kind;
  }
  EXPECT_TRUE(values.ok());
  return kinds;
}

TEST(Summaries, TellNumbersHistogramsImagesAndSounds) {
  Graph graph(SharedRuntime());
  const Output all = MergeSummaries(
      graph, {ScalarSummary(graph, "number", graph.Const(2.5)),
              HistogramSummary(graph, "spread", graph.Const(std::vector<float>{1, 2, 2}, {3})),
              ImageSummary(graph, "pictures", graph.Op("Fill", {graph.Const({2, 4, 4, 3}), graph.Const(0.5f)}), 2),
              AudioSummary(graph, "sounds", graph.Op("Fill", {graph.Const({1, 16}), graph.Const(0.25f)}), 8000)});
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  Session session = NewSession();
  ASSERT_TRUE(session.Extend(graph).ok());
  const auto values = session.Run({}, {all});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(
      KindsOf((*values)[0].string(0)),
      (std::map<std::string, int>{
          {"number", 2}, {"spread", 5}, {"pictures/image/0", 4}, {"pictures/image/1", 4}, {"sounds/audio/0", 6}}));
}

TEST(Summaries, OfVariablesAndTheirGradients) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const Variable& used = model.Weight("used", Shape{3}, Initializer::Constant(2));
  model.Weight("alone", Shape{2}, Initializer::Constant(1));
  model.State("slot", Shape{2}, 0);
  const Output loss = graph.Op("Sum", {graph.Op("Square", {used.value}), graph.Const(0)});
  const std::vector<Output> summaries = VariableSummaries(model, loss), without = VariableSummaries(model);
  const Operation init = model.InitializeAll();
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(without.size(), 2u);
  Session session = NewSession();
  ASSERT_TRUE(session.Extend(graph).ok());
  ASSERT_TRUE(session.RunTargets({init}).ok());
  const auto values = session.Run({}, {summaries.begin(), summaries.end()});
  ASSERT_TRUE(values.ok()) << values.status();
  std::map<std::string, int> kinds;
  for (const Tensor& value : *values) kinds.merge(KindsOf(value.string(0)));
  EXPECT_EQ(kinds, (std::map<std::string, int>{{"used", 5}, {"used/gradient", 5}, {"alone", 5}}));
}

}  // namespace
}  // namespace tenon::train::summaries_test
