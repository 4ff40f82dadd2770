// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/cluster/task_lines.h"

#include <gtest/gtest.h>

namespace tenon::cli::task_lines_test {
namespace {

tenon_task_state Said(uint64_t silent_ns, uint64_t steps, uint64_t received, uint64_t sent) {
  tenon_task_state state = {};
  state.name = TENON_SPAN("/job:ps/replica:0/task:0");
  state.silent_ns = silent_ns;
  state.steps = steps;
  state.bytes_received = received;
  state.bytes_sent = sent;
  state.bytes_in_use = 8'100'000;
  return state;
}

TEST(TaskLines, TellWhatATaskDidSinceItWasHeardOfBefore) {
  TaskLines lines;
  EXPECT_EQ(lines.Make({Said(0, 100, 0, 0)}, 10)[0],
            "  /job:ps/task:0  100 steps so far  8.1 MB held  heard 0.0 s ago");
  EXPECT_EQ(lines.Make({Said(300'000'000, 160, 750'000, 6'000'000)}, 10.8)[0],
            "  /job:ps/task:0  120 steps/s  in 1.5 MB/s  out 12.0 MB/s  8.1 MB held  heard 0.3 s ago");
  EXPECT_EQ(lines.Make({Said(400'000'000, 160, 750'000, 6'000'000)}, 10.9)[0],
            "  /job:ps/task:0  120 steps/s  in 1.5 MB/s  out 12.0 MB/s  8.1 MB held  heard 0.4 s ago")
      << "nothing new was heard";
}

TEST(TaskLines, ATaskThatWasStartedAgainCountsFromZero) {
  TaskLines lines;
  lines.Make({Said(0, 100, 10, 10)}, 10);
  EXPECT_EQ(lines.Make({Said(0, 3, 1, 1)}, 20)[0], "  /job:ps/task:0  3 steps so far  8.1 MB held  heard 0.0 s ago");
}

}  // namespace
}  // namespace tenon::cli::task_lines_test
