// SPDX-License-Identifier: Apache-2.0
// The table of hostile cases, each refused in clear words by every set of kernels, whatever is known when a step is
// planned.
#include <gtest/gtest.h>

#include "tests/golden/replay.h"
#include "tests/hostile/cases.h"

namespace tenon::hostile {
namespace {

class HostileCases : public ::testing::TestWithParam<golden::Kernels> {};

TEST_P(HostileCases, AreRefusedInClearWords) {
  const auto runtime = golden::MakeRuntime(GetParam());
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  const std::vector<golden::Json> cases = ReadCases(TENON_TEST_SOURCE_DIR "/tests/hostile/cases.jsonl");
  EXPECT_GE(cases.size(), 200u);
  size_t line = 0;
  for (const golden::Json& one : cases) {
    SCOPED_TRACE("line " + std::to_string(++line) + ": " +
                 NameOf(one));  // a crash is told by the sanitizer; a debugger shows `line`
    for (const Answer& answer : AnswersOf(*runtime, one)) EXPECT_EQ(JudgeOf(one, answer), "") << answer.way;
  }
}
INSTANTIATE_TEST_SUITE_P(With, HostileCases,
                         ::testing::Values(golden::Kernels::kAll, golden::Kernels::kPlain,
                                           golden::Kernels::kOneDnnAlways),
                         [](const auto& test) {
                           return std::string(test.param == golden::Kernels::kAll     ? "AllKernels"
                                              : test.param == golden::Kernels::kPlain ? "PlainKernels"
                                                                                      : "OneDnnAlways");
                         });

TEST(Judge, TellsAcceptedRefusedAndUnclear) {
  const golden::Json one = {{"says", {"three"}}};
  EXPECT_EQ(JudgeOf(one, {"", host::Status(), {}}), "accepted");
  EXPECT_EQ(JudgeOf(one, {"", host::Status(host::Code::kInvalidArgument, "one, two, three"), {}}), "");
  EXPECT_NE(JudgeOf(one, {"", host::Status(host::Code::kInvalidArgument, "four"), {}}), "");
}

}  // namespace
}  // namespace tenon::hostile
