// SPDX-License-Identifier: Apache-2.0
// What workers log names the task, and the session and the step that it is about.
#include <regex>

#include "tests/cluster/local_cluster.h"

namespace tenon::engine {
namespace {

TEST(WorkerLog, AFailedStepIsALineWithItsTaskItsSessionAndItsNumber) {
  const LocalCluster cluster("loopback://logs", {{"worker", 2}});
  Graph g(TheRuntime());
  {
    const auto on = g.Device("/job:worker/task:1");
    const Output v = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "none"}}, "v");
    g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  }
  const Session session = cluster.Client(g);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session.Run({}, {"read"}).ok());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(text, std::regex("tenon: warning: /job:worker/replica:0/task:1, session [0-9a-f]+, step 1: node 'read' [^\n]*\n"))) << text;
}

}  // namespace
}  // namespace tenon::engine
