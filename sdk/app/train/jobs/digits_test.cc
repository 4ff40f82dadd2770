// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/digits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "tenon/train/progress.h"

namespace tenon::train::digits_test {
namespace {

constexpr const char* kData = TENON_TEST_SOURCE_DIR "/sdk/app/train/data/digits.npy";

TEST(DigitData, HoldsOutAFifth) {
  Result<DigitData> data = DigitData::Load(kData);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(359, data->held_out.size());
  EXPECT_EQ(1438, data->training.size());
}

TEST(DigitData, SplitsTheSameWayEachTime) {
  Result<DigitData> one = DigitData::Load(kData), two = DigitData::Load(kData);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->held_out.images, two->held_out.images);
  // Every digit occurs among those held out; the shuffle is no slice of the file.
  EXPECT_EQ(10u, std::set<uint8_t>(one->held_out.labels.begin(), one->held_out.labels.end()).size());
}

TEST(DigitData, RefusesAnotherArray) {
  Result<DigitData> data = DigitData::Load("/nowhere/digits.npy");
  EXPECT_EQ(Code::kNotFound, data.status().code());
}

TEST(BatchSampler, GoesOverEverythingOnceAPass) {
  BatchSampler sampler(10, 5, 7);
  std::vector<int64_t> seen = sampler.Indices(0), more = sampler.Indices(1);
  seen.insert(seen.end(), more.begin(), more.end());
  std::sort(seen.begin(), seen.end());
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(i, seen[static_cast<size_t>(i)]);
}

TEST(BatchSampler, DependsOnSeedAndStepAlone) {
  BatchSampler forward(100, 32, 1), backward(100, 32, 1), other(100, 32, 2);
  std::vector<std::vector<int64_t>> order;
  for (int64_t step = 0; step < 12; ++step) order.push_back(forward.Indices(step));
  for (int64_t step = 11; step >= 0; --step) EXPECT_EQ(order[static_cast<size_t>(step)], backward.Indices(step));
  EXPECT_NE(order[0], other.Indices(0));
}

TEST(BatchSampler, TakesABatchLargerThanTheData) { EXPECT_EQ(25u, BatchSampler(10, 25, 1).Indices(3).size()); }

TEST(Progress, SaysWhatASecondPersonWouldAsk) {
  StepReport report;
  report.step = 300;
  report.steps = 1200;
  report.loss = 0.12345f;
  report.metrics = {0.96875f};
  report.examples_per_second = 23456.7;
  report.seconds_left = 75;
  Progress progress(stdout, {"accuracy"}, false);
  EXPECT_EQ("step 300/1200  loss 0.1235  accuracy 0.9688  23,457 examples/s  1 min 15 s left", progress.Line(report));
}

std::string TakeText(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
  std::fclose(file);
  return text;
}

TEST(Progress, RowsStandBelowTheBarWhichMessagesPushDown) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(nullptr, file);
  StepReport report;
  report.step = report.steps = 1;
  Progress progress(file, {}, true);
  progress.rows = [] { return std::vector<std::string>{"one", "two"}; };
  const std::string bar = "\r\x1b[K[########################] " + progress.Line(report);
  const std::string rows = "\n\x1b[K\x1b[?7lone\x1b[?7h\n\x1b[K\x1b[?7ltwo\x1b[?7h\x1b[2A";
  progress.Show(report);
  progress.Say("saved");
  progress.Show(report);
  progress.Finish();
  EXPECT_EQ(bar + rows + "\r\x1b[Jsaved\n" + bar + rows + "\n\n\n", TakeText(file));
}

TEST(Progress, WritesALineATenthWithoutATerminal) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(nullptr, file);
  Progress progress(file, {}, false);
  StepReport report;
  report.steps = 1000;
  for (report.step = 1; report.step <= 1000; ++report.step) progress.Show(report);
  progress.Finish();
  const std::string text = TakeText(file);
  EXPECT_EQ(11, std::count(text.begin(), text.end(), '\n'));
}

}  // namespace
}  // namespace tenon::train::digits_test
