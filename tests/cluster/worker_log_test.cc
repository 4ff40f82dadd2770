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
    const Output v =
        g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{}}, {"shared_name", "none"}}, "v");
    g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  }
  const Session session = cluster.Client(g);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session.Run({}, {"read"}).ok());
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(std::regex_match(
      text,
      std::regex("tenon: warning: /job:worker/replica:0/task:1, session [0-9a-f]+, step 1: node 'read' [^\n]*\n")))
      << text;
}

TEST(WorkerLog, ASessionSaysWhatItWasAskedFor) {
  const LocalCluster cluster("loopback://options", {{"worker", 1}}, {}, TENON_LOG_INFO + 1);
  Graph g(TheRuntime());
  g.Op("Neg", {g.Const(2.0f)}, {}, "y");
  SessionOptions options;
  options.memory_limit = 1 << 20;
  options.seed = 7;
  options.executor = TENON_EXECUTOR_DYNAMIC;
  options.precision = Precision::kAllowTf32;
  options.optimize = options.compile = options.capture = false;
  options.debug.schedule_seed = 5;
  options.debug.one_queue = options.debug.early_transfers = true;
  testing::internal::CaptureStderr();
  {
    const Session session = cluster.Client(g, options);
    const auto values = session.Run({}, {"y"});
    EXPECT_TRUE(values.ok()) << values.status();
  }
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find(": opened, with seed = 7, memory_limit = 1048576, executor = 1, precision = 1, optimize = 0, "
                      "compile = 0, capture = 0, "
                      "debug.schedule_seed = 5, debug.one_queue = 1, debug.early_transfers = 1\n"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tenon::engine
