// SPDX-License-Identifier: Apache-2.0
// What a master is made of, without tasks that answer: the table of its tasks, its steps under way, and what is left of
// those that it gave up.
#include "net/cluster/master.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "net/cluster/cluster_greeting.h"

namespace tenon::cluster::master_test {
namespace {

constexpr uint64_t kHour = uint64_t{3600} * 1'000'000'000;

Task TaskAt(const std::string& name, const std::string& address) {
  Task task;
  task.set_name(name);
  task.set_address(address);
  return task;
}

struct Table {
  Table() : tasks(7, kHour, kHour, [](size_t, uint64_t, const PingReply&) {}) {
    tasks.Add(TaskAt("/job:w/task:0", "grpc://a:1"));
    tasks.Add(TaskAt("/job:w/task:1", "b:2"));
  }
  TaskTable tasks;
};

TEST(TaskTable, FindsTasksByNameAndByAddress) {
  const Table table;
  EXPECT_EQ(table.tasks.Named("/job:w/task:1"), 1u);
  EXPECT_EQ(table.tasks.Named("/job:w/task:2"), table.tasks.size());
  EXPECT_EQ(table.tasks.At("a:1"), 0u) << "gRPC needs not be said";
  EXPECT_EQ(table.tasks.At(""), table.tasks.size());
}

TEST(TaskTable, ATaskIsLostOnceAndForEver) {
  Table table;
  EXPECT_TRUE(table.tasks.lost(1).ok());
  table.tasks.Lose(1, Status(Code::kUnavailable, "it is gone"));
  table.tasks.Lose(1, Status(Code::kUnavailable, "again"));
  table.tasks.Heard(1);
  EXPECT_EQ(table.tasks.lost(1).message(),
            "task /job:w/task:1 at b:2: it is gone; its state may be gone, so begin a new session");
  EXPECT_TRUE(table.tasks.gone(1)->cancelled());
  EXPECT_TRUE(table.tasks.lost(0).ok());
  table.tasks.Stop();
  table.tasks.Lose(0, Status(Code::kUnavailable, "late"));
  EXPECT_TRUE(table.tasks.lost(0).ok());
}

struct NotedRun : OpenRun {
  explicit NotedRun(std::vector<size_t> at) : tasks(std::move(at)) {}
  bool Uses(size_t task) const override { return std::find(tasks.begin(), tasks.end(), task) != tasks.end(); }
  void GiveUp(Status why) override { said += std::string(why.message()); }
  const std::vector<size_t> tasks;
  std::string said;
};

TEST(OpenRuns, GiveUpWhatALossConcerns) {
  OpenRuns runs;
  NotedRun both({0, 1}), one({1}), ended({0, 1});
  const uint64_t first = runs.NewNumber();
  runs.Add(first, &both);
  runs.Add(runs.NewNumber(), &one);
  const uint64_t last = runs.NewNumber();
  runs.Add(last, &ended);
  runs.Remove(last);
  runs.GiveUpBetween(0, 1, Status(Code::kUnavailable, "between "));
  runs.GiveUpStep(first, Status(Code::kUnavailable, "step "));
  runs.GiveUpStep(last, Status(Code::kUnavailable, "late "));
  runs.GiveUpAll(Status(Code::kUnavailable, "all"));
  EXPECT_EQ(both.said, "between step all");
  EXPECT_EQ(one.said, "all");
  EXPECT_EQ(ended.said, "");
}

TEST(UnsettledParts, DoNotHoldUpWhatSharesNothingWithThem) {
  Table table;
  UnsettledParts unsettled(7, &table.tasks);
  EXPECT_TRUE(unsettled.Settle(StepState::Everything(), nullptr).ok());
  unsettled.Add({{0, 3, 5, std::make_shared<const StepState>()}});
  EXPECT_TRUE(unsettled.Settle(StepState(), nullptr).ok());
}

TEST(ClusterGreeting, ShowsCredentialsWhereTheyWereGivenAlone) {
  const std::vector<std::string> given{"grpc://a:1", "grpc:///run/x/one"};
  const auto may = [&](const std::string& address) {
    return ClusterGreeting::CheckGiven(given, TaskAt("/job:w/task:1", address)).ok();
  };
  EXPECT_TRUE(may("a:1"));
  EXPECT_TRUE(may("grpc:///run/x/two"));
  EXPECT_FALSE(may("grpc:///run/x/../two"));
  EXPECT_FALSE(may("b:1"));
}

TEST(Master, NeedsAnAddress) {
  EXPECT_EQ(Master::Connect(nullptr, {}).status().message(), "the cluster's address is empty");
}

}  // namespace
}  // namespace tenon::cluster::master_test
