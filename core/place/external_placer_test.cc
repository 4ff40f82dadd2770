// SPDX-License-Identifier: Apache-2.0
// Covers G11, Q3.
#include "core/place/external_placer.h"

#include "core/graph/graph.h"

#include "tests/fakes/place_request.h"
#include "tests/fakes/search_placer.h"

namespace tenon::place::external_placer_test {
namespace {

using fakes::PlaceMaker;
using graph::Edge;

tenon_placer PlacerOf(tenon_status* (*place)(tenon_plugin_self*, const tenon_place_args*)) {
  return {sizeof(tenon_placer), 0, place};
}

void Use(PlaceMaker* g, const tenon_placer* placer) {
  g->request.placer_name = "test.search";
  g->request.placer = [placer](const Problem& problem, const Sequence& sequence, const GroupDevices& start) {
    return AskPlacer(*placer, nullptr, problem, sequence, start);
  };
}

TEST(ExternalPlacer, IsShownTheWholeProblem) {
  PlaceMaker g;
  const Edge feed = g.Feed(TENON_DT_FLOAT, {10}, "feed"), a = g.Seconds({feed}, 2, 4000, "a"),
             b = g.Seconds({a}, 1, 4, "b");
  g.Pin(a, "/fast:*");
  g.graph.AddControl(a.node, b.node);
  g.request.feeds = {feed};
  g.request.fetches = {b};
  g.request.order = {};
  const tenon_placer placer = PlacerOf([](tenon_plugin_self*, const tenon_place_args* args) -> tenon_status* {
    EXPECT_EQ(args->node_count, 3u);
    EXPECT_EQ(View(args->node_services->name(args->nodes[1])), "a");
    EXPECT_EQ(args->device_count, 3u);
    EXPECT_EQ(View(args->devices[1].type), "FAST");
    EXPECT_EQ(args->host_device, 0);
    EXPECT_EQ(args->group_count, 3u);
    EXPECT_EQ(args->seconds[3], -1) << "a has no place on the host";
    EXPECT_DOUBLE_EQ(args->seconds[4], 0.2);
    EXPECT_DOUBLE_EQ(args->seconds[6], 1);
    EXPECT_EQ(args->memory_bytes[1], 4000);
    EXPECT_EQ(args->edge_count, 4u) << "fed, data, control, fetched";
    EXPECT_EQ(args->edges[0].from, -1);
    EXPECT_EQ(args->edges[0].bytes, 40);
    EXPECT_EQ(args->edges[1].from, 1);
    EXPECT_EQ(args->edges[1].to, 2);
    EXPECT_EQ(args->edges[2].index, -1);
    EXPECT_EQ(args->edges[3].to, -1);
    EXPECT_EQ(args->latency[1], 1e-3);
    double seconds = 0;
    const int32_t bad[] = {0, 0, 0};
    const Status status(args->evaluate(args, bad, &seconds));
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(
                  "node 'a' (Work) is put on /job:localhost/replica:0/task:0/device:HOST:0, where it cannot go"),
              std::string::npos);
    args->out_devices[1] = 2;
    return nullptr;
  });
  Use(&g, &placer);
  const Placement placement = g.Placed();
  EXPECT_EQ(placement.device_of_node[a.node], DeviceId(2));
}

TEST(ExternalPlacer, ABadAnswerIsRefusedAndNamesThePlacer) {
  const struct {
    tenon_status* (*place)(tenon_plugin_self*, const tenon_place_args*);
    const char* says;
  } cases[] = {
      {[](tenon_plugin_self*, const tenon_place_args* args) -> tenon_status* {
         args->out_devices[0] = 7;
         return nullptr;
       },
       "placer 'test.search': node 'a' (Work) is put on device 7; there are 3"},
      {[](tenon_plugin_self*, const tenon_place_args* args) -> tenon_status* {
         args->out_devices[0] = 0;
         return nullptr;
       },
       "placer 'test.search': node 'a' (Work) is put on /job:localhost/replica:0/task:0/device:HOST:0, where it cannot "
       "go"},
      {[](tenon_plugin_self*, const tenon_place_args*) -> tenon_status* { return NotFound("no idea").release(); },
       "placer 'test.search': no idea"},
      {nullptr, "placer 'test.search': the placer has no function 'place'"},
  };
  for (const auto& c : cases) {
    PlaceMaker g;
    g.Pin(g.Seconds({}, 1, 4, "a"), "/fast:*");
    const tenon_placer placer = PlacerOf(c.place);
    Use(&g, &placer);
    EXPECT_EQ(g.Error().message(), c.says);
  }
}

TEST(ExternalPlacer, AnAnswerThatDoesNotFitInMemoryIsRefused) {
  PlaceMaker g;
  g.devices[DeviceId(1)].memory_bytes = 10;
  g.Seconds({}, 1, 4000, "a");
  const tenon_placer placer = PlacerOf([](tenon_plugin_self*, const tenon_place_args* args) -> tenon_status* {
    args->out_devices[0] = 1;
    return nullptr;
  });
  Use(&g, &placer);
  EXPECT_EQ(g.Error().code(), Code::kResourceExhausted);
}

// ---- A black-box search against the engine's own choice ----

// Cells of a square grid, each waiting for the one above and the one to the left.
void MakeWaves(PlaceMaker* g) {
  constexpr int kSide = 14;
  std::vector<Edge> row;
  for (int i = 0; i < kSide; ++i) {
    std::vector<Edge> next;
    for (int k = 0; k < kSide; ++k) {
      fakes::GraphMaker::Edges inputs;
      if (i > 0) inputs.push_back(row[k]);
      if (k > 0) inputs.push_back(next.back());
      next.push_back(g->Seconds(inputs, 0.2 + 0.1 * ((i * 7 + k * 3) % 5), 20000 + 8000 * ((i + 2 * k) % 4)));
    }
    row = next;
  }
  g->request.fetches = {row.back()};
}

// Layers forward, then back, each using its own weights, which its update changes.
void MakeTraining(PlaceMaker* g) {
  constexpr size_t kLayers = 20;
  Edge at = g->Feed(TENON_DT_FLOAT, {5000}, "batch");
  g->request.feeds = {at};
  std::vector<Edge> cells, activations = {at};
  for (size_t i = 0; i < kLayers; ++i) {
    cells.push_back(g->Add("Cell"));
    activations.push_back(g->Seconds({activations.back(), cells.back()}, 0.3 + 0.2 * static_cast<double>(i % 3),
                                     20000 + 20000 * static_cast<int64_t>(i % 2)));
  }
  Edge gradient = activations.back();
  for (size_t i = kLayers; i-- > 0;) {
    const Edge of_weights = g->Seconds({gradient, activations[i]}, 0.4, 40000);
    g->Add("Write", {cells[i], of_weights});
    gradient = g->Seconds({gradient, cells[i]}, 0.4, 20000);
  }
  g->request.fetches = {activations.back()};
}

// Chains of uneven length that meet in pairs.
void MakeBranches(PlaceMaker* g) {
  std::mt19937 random(5);
  std::vector<Edge> ends;
  for (int i = 0; i < 16; ++i) {
    Edge at = g->Seconds({}, 0.1 + 0.1 * static_cast<double>(random() % 8), 40000);
    for (unsigned k = 0; k < 3 + random() % 8; ++k)
      at = g->Seconds({at}, 0.1 + 0.1 * static_cast<double>(random() % 8), 4000 << (random() % 5));
    ends.push_back(at);
  }
  while (ends.size() > 1) {
    std::vector<Edge> next;
    for (size_t i = 0; i + 1 < ends.size(); i += 2) next.push_back(g->Seconds({ends[i], ends[i + 1]}, 0.3, 40000));
    ends = next;
  }
  g->request.fetches = {ends[0]};
}

TEST(ExternalPlacer, ABlackBoxSearchIsNeverWorseAndBeatsGreedyOnThreeGraphs) {
  const tenon_placer placer = PlacerOf(&fakes::SearchPlace);
  const struct {
    const char* name;
    void (*make)(PlaceMaker*);
  } graphs[] = {{"waves", &MakeWaves}, {"training", &MakeTraining}, {"branches", &MakeBranches}};
  for (const auto& graph : graphs) {
    PlaceMaker g;
    g.devices = {fakes::MakeDevice("HOST", 0, 3, true), fakes::MakeDevice("FAST", 0, 4),
                 fakes::MakeDevice("FAST", 1, 4)};
    g.link = {0.01, 4e5};
    graph.make(&g);
    const fakes::MadeProblem made(g.Ask());
    double greedy = 0;
    ASSERT_TRUE(Choose(made.problem, made.sequence, &greedy).ok());
    const double own = g.Placed().seconds;
    Use(&g, &placer);
    const double searched = g.Placed().seconds;
    std::printf("%-9s %4zu nodes: greedy %.3f s, own search %.3f s, black box %.3f s\n", graph.name,
                made.problem.size(), greedy, own, searched);
    EXPECT_LE(searched, own * (1 + 1e-9)) << graph.name;
    EXPECT_LT(searched, greedy) << graph.name;
  }
}

}  // namespace
}  // namespace tenon::place::external_placer_test
