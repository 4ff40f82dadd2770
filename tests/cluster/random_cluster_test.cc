// SPDX-License-Identifier: Apache-2.0
// Random graphs, their nodes on random tasks, give what they mean: straight and dynamic, with loops and conditionals
// over tasks. Covers H1, L7, L8.
#include <cstdlib>

#include "tests/cluster/local_cluster.h"
#include "tests/engine/random_graph.h"

namespace tenon::engine {
namespace {

// Of each kind; TENON_RANDOM_PLACEMENTS=3000 tries more.
uint32_t Graphs() {
  const char* wished = std::getenv("TENON_RANDOM_PLACEMENTS");
  return wished == nullptr ? 150 : static_cast<uint32_t>(std::atoi(wished));
}

std::string AnyTask(uint32_t draw) {
  static const char* const tasks[] = {"/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"};
  return tasks[draw % 3];
}

void Check(const std::string& name, int depth) {
  const LocalCluster cluster("loopback://" + name, {{"ps", 1}, {"worker", 2}});
  std::vector<Way> ways = {{"straight"}, {"unoptimized"}, {"dynamic"}};
  for (Way& way : ways) {
    way.options.master = cluster.address(1);
    way.options.optimize = way.name != "unoptimized";
    if (way.name == "dynamic") way.options.executor = TENON_EXECUTOR_DYNAMIC;
  }
  int wrong = 0;
  for (uint32_t seed = 0; seed < Graphs() && wrong < 5; ++seed) {
    ProgramOptions options;
    options.steps = 5 + static_cast<int>(seed % (depth == 0 ? 40 : 13));
    options.depth = depth == 0 ? 0 : 1 + static_cast<int>(seed % 3);
    const std::string why = RandomGraph(TheRuntime(), seed, options, AnyTask).Check(ways);
    if (!why.empty()) ADD_FAILURE() << why;
    wrong += !why.empty();
  }
}

TEST(RandomCluster, WithoutControlFlowGivesTheSameValues) { Check("random_plain", 0); }
TEST(RandomCluster, OfLoopsAndConditionalsGivesTheSameValues) { Check("random_flow", 1); }

}  // namespace
}  // namespace tenon::engine
