// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/run/repeat.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tenon::cli::repeat_test {
namespace {

using host::Code;
using host::Status;

TEST(Repeat, RunsEachStepAndKnowsTheLast) {
  Repeat repeat(5);
  std::string lasts;
  EXPECT_TRUE(repeat
                  .Run([&](bool is_last) {
                    lasts += is_last ? '1' : '0';
                    return Status();
                  })
                  .ok());
  EXPECT_EQ(lasts, "00001");
  EXPECT_EQ(repeat.done(), 5u);
  EXPECT_FALSE(repeat.interrupted());
  EXPECT_NE(repeat.Text().find(", 5 steps"), std::string::npos) << repeat.Text();
}

TEST(Repeat, EndsAfterTheStepThatWasInterrupted) {
  Repeat repeat(uint64_t{1} << 40);  // for whose times there is no memory
  int steps = 0;
  EXPECT_TRUE(repeat
                  .Run([&](bool) {
                    if (++steps == 3) raise(SIGINT);
                    return Status();
                  })
                  .ok());
  EXPECT_EQ(steps, 3);
  EXPECT_TRUE(repeat.interrupted());
  EXPECT_NE(repeat.Text().find(", 3 steps"), std::string::npos) << repeat.Text();
}

TEST(Repeat, LeavesInterruptsAsTheyWere) {
  struct sigaction before = {}, after = {};
  sigaction(SIGINT, nullptr, &before);
  EXPECT_TRUE(Repeat(2).Run([](bool) { return Status(); }).ok());
  sigaction(SIGINT, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(Repeat, SaysInWhichStepItFailed) {
  const auto fails = [](bool) { return Status(Code::kInternal, "no"); };
  EXPECT_EQ(Repeat(3).Run(fails).message(), "step 1: no");
  EXPECT_EQ(Repeat(1).Run(fails).message(), "no") << "there is but one";
}

}  // namespace
}  // namespace tenon::cli::repeat_test
