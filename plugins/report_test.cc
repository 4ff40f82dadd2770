// SPDX-License-Identifier: Apache-2.0
#include "plugins/report.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon::plugins::report_test {
namespace {

TEST(Report, EveryReasonHasItsOwnNameAndCode) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Reason::kNotLoaded); ++i) {
    const Reason reason = static_cast<Reason>(i);
    EXPECT_TRUE(names.insert(ReasonName(reason)).second) << i << " " << ReasonName(reason);
    const Status status = ToStatus(Reject("/x.so", reason, "t", "h"));
    EXPECT_EQ(status.ok(), reason == Reason::kOk) << ReasonName(reason);
  }
}

TEST(Report, AStatusNamesThePackageThePathTheFindingAndTheHint) {
  LoadReport report = Reject("/a/x.so", Reason::kMissingSymbol, "undefined symbol: f", "link it", "f");
  EXPECT_EQ(ToStatus(report).ToString(),
            "FAILED_PRECONDITION: plugin '/a/x.so' rejected: undefined symbol: f; link it");
  report.id = "com.example";
  EXPECT_EQ(ToStatus(report).message(), "plugin 'com.example' (/a/x.so) rejected: undefined symbol: f; link it");
}

TEST(Report, OutcomesHaveNames) {
  EXPECT_EQ(OutcomeName(Outcome::kNotChosen), "not chosen");
  EXPECT_EQ(OutcomeName(Outcome::kAlreadyLoaded), "already loaded");
}

}  // namespace
}  // namespace tenon::plugins::report_test
