// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tenon::log_test {
namespace {

TEST(Log, GivesTheApplicationWhatIsAtLeastTheLevel) {
  std::vector<std::string> lines;
  SetLogFunction(
      [](void* argument, uint32_t level, std::string_view text) {
        static_cast<std::vector<std::string>*>(argument)->push_back(std::to_string(level) + " " + std::string(text));
      },
      &lines);
  Log(TENON_LOG_INFO, "not at first: the level is warning");
  SetLogLevel(TENON_LOG_INFO);
  Log(TENON_LOG_DEBUG, "still not");
  Log(TENON_LOG_INFO, "one");
  Log(TENON_LOG_ERROR, "two");
  SetLogLevel(TENON_LOG_WARNING);
  SetLogFunction(nullptr, nullptr);
  const std::vector<std::string> wanted = {std::to_string(TENON_LOG_INFO) + " one",
                                           std::to_string(TENON_LOG_ERROR) + " two"};
  EXPECT_EQ(lines, wanted);
}

TEST(Log, WritesToStderrWhenThereIsNoFunction) {
  testing::internal::CaptureStderr();
  Log(TENON_LOG_WARNING, "mind this");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "tenon: warning: mind this\n");
}

TEST(Log, LinesNameWhoseWorkTheyAreAbout) {
  testing::internal::CaptureStderr();
  {
    const LogScope task({"/job:ps/task:0"});
    Log(TENON_LOG_ERROR, "a");
    {
      const LogScope step({"/job:ps/task:0", 0x1f, 7});
      Log(TENON_LOG_ERROR, "b");
      std::thread([] { Log(TENON_LOG_ERROR, "of another thread"); }).join();
    }
    Log(TENON_LOG_ERROR, "c");
  }
  Log(TENON_LOG_ERROR, "d");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "tenon: error: /job:ps/task:0: a\ntenon: error: /job:ps/task:0, session 1f, step 7: b\ntenon: error: of "
            "another thread\n"
            "tenon: error: /job:ps/task:0: c\ntenon: error: d\n");
}

}  // namespace
}  // namespace tenon::log_test
