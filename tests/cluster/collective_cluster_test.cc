// SPDX-License-Identifier: Apache-2.0
// Collectives whose members stand in several tasks: the sums of one process, by every way, over what each task holds;
// who cannot meet, who does not come and who is lost is named. Covers H11.
#include <algorithm>
#include <random>
#include <thread>

#include "tests/cluster/local_cluster.h"

namespace tenon::engine {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // a step takes milliseconds; one that hangs is told

struct Setting {
  int tasks, members;
  std::string hint;
};

std::string NameOf(const testing::TestParamInfo<Setting>& info) {
  return std::to_string(info.param.members) + "In" + std::to_string(info.param.tasks) + info.param.hint;
}

// Members of one group, member k on task k % tasks.
class Members {
 public:
  Members(Graph& g, int tasks, int64_t size) : g_(g), tasks_(tasks), size_(size) {}
  std::string Device(int member) const { return "/job:worker/task:" + std::to_string(member % tasks_); }
  Output Add(const char* op, int member, const std::vector<Output>& inputs, Attrs attrs, int64_t instance = 1) const {
    const auto on = g_.Device(Device(member));
    const bool keys = !std::string_view(op).ends_with("V2") && std::string_view(op) != "NcclAllReduce";
    if (keys) attrs.insert(attrs.end(), {{"group_size", size_}, {"group_key", int64_t{7}}, {"instance_key", instance}});
    return g_.Op(op, inputs, attrs, "member_" + std::to_string(member));
  }
  Output Reduce(int member, Output x, const std::string& hint = "auto", const char* merge = "Add",
                const char* final_op = "Id", int64_t instance = 1, float timeout = 0) const {
    return Add("CollectiveReduce", member, {x},
               {{"merge_op", merge},
                {"final_op", final_op},
                {"subdiv_offsets", std::vector<int64_t>{}},
                {"communication_hint", hint},
                {"timeout_seconds", timeout}},
               instance);
  }
  // Of version 2, its keys constants.
  Output OfKeys(const char* op, int member, std::vector<Output> inputs, Attrs attrs, int64_t instance = 1) const {
    const auto at = inputs.begin() + (std::string_view(op).starts_with("CollectiveBcastRecv") ? 0 : 1);
    inputs.insert(at, {g_.Const(static_cast<int32_t>(size_)), g_.Const(7), g_.Const(static_cast<int32_t>(instance))});
    const auto on = g_.Device(Device(member));
    return g_.Op(op, inputs, attrs, "member_" + std::to_string(member));
  }

 private:
  Graph& g_;
  const int tasks_;
  const int64_t size_;
};

Result<std::vector<Tensor>> RunIn(const Session& session, const std::vector<Output>& fetches,
                                  const std::vector<Feed>& feeds = {}) {
  RunOptions run;
  run.timeout = kPatience;
  return session.Run(feeds, {fetches.begin(), fetches.end()}, {}, run);
}
void ExpectStatus(const Status& status, Code code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words)
    EXPECT_NE(status.message().find(word), std::string::npos) << word << " is not in: " << status.message();
}
Tensor Random(int seed, int64_t count) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(std::uniform_real_distribution<float>(-1, 1)(random));
  return *Tensor::From(values, Shape{count});
}
std::string BytesOf(const Tensor& tensor) {
  const tenon_tensor_view& view = *tenon_tensor_get_view(tensor.get());
  return {static_cast<const char*>(view.dl.data), view.byte_size};
}

class BetweenTasks : public testing::TestWithParam<Setting> {
 protected:
  BetweenTasks() : cluster_("loopback://collective_" + NameOf({GetParam(), 0}), {{"worker", GetParam().tasks}}) {}
  int members() const { return GetParam().members; }
  int tasks() const { return GetParam().tasks; }
  LocalCluster cluster_;
};

// Whole numbers, so every order gives the same.
TEST_P(BetweenTasks, ReducesWhatAnySizeAndTypeIs) {
  for (const int64_t count : {0, 1, 5, 64, 1000, 40000}) {
    for (const DType type : {DType::kFloat, DType::kInt64}) {
      for (const char* merge : {"Add", "Max", "Mul"}) {
        Graph g(TheRuntime());
        const Members group(g, tasks(), members());
        std::vector<Output> out;
        std::vector<double> expected(static_cast<size_t>(count), std::string_view(merge) == "Mul"   ? 1.0
                                                                 : std::string_view(merge) == "Max" ? -1e9
                                                                                                    : 0.0);
        for (int k = 0; k < members(); ++k) {
          std::vector<double> own;
          for (int64_t i = 0; i < count; ++i) own.push_back(static_cast<double>((i * 7 + k * 3) % 5 - 1));
          for (size_t i = 0; i < own.size(); ++i)
            expected[i] = std::string_view(merge) == "Mul"   ? expected[i] * own[i]
                          : std::string_view(merge) == "Max" ? std::max(expected[i], own[i])
                                                             : expected[i] + own[i];
          out.push_back(group.Reduce(k, g.Const(TensorOf(type, Shape{count}, own)), GetParam().hint, merge));
        }
        const Session session = cluster_.Client(g);
        auto values = RunIn(session, out);
        ASSERT_TRUE(values.ok()) << values.status();
        for (const Tensor& value : *values) ASSERT_EQ(DoublesOf(value), expected) << count << " " << merge;
      }
    }
  }
}

TEST_P(BetweenTasks, GivesAllMembersTheSameBitsEveryTime) {
  Graph g(TheRuntime());
  const Members group(g, tasks(), members());
  std::vector<Output> out;
  std::vector<Feed> feeds;
  for (int k = 0; k < members(); ++k) {
    const Output x = g.Placeholder("x" + std::to_string(k), DType::kFloat,
                                   Shape::Unknown());  // a way that needs no shape beforehand
    feeds.push_back({x, Random(k, 5003)});
    out.push_back(group.Reduce(k, x, GetParam().hint, "Add", "Div"));
  }
  const Session session = cluster_.Client(g);
  std::string first;
  for (int i = 0; i < 5; ++i) {
    auto values = RunIn(session, out, feeds);
    ASSERT_TRUE(values.ok()) << values.status();
    for (const Tensor& value : *values) {
      if (first.empty()) first = BytesOf(value);
      EXPECT_EQ(value.shape(), Shape{5003});
      EXPECT_TRUE(BytesOf(value) == first);
    }
  }
}

TEST_P(BetweenTasks, MeetsInALoopTurnByTurn) {
  Graph g(TheRuntime());
  const Members group(g, tasks(), members());
  const auto frame = [&](const char* op, std::vector<Output> inputs, Attrs attrs = {}) {
    return g.AddNode(op, inputs, attrs);
  };
  const Output begin = frame("Enter", {g.Const({1.0f, 2.0f})}, {{"frame_name", "loop"}}),
               count = frame("Enter", {g.Const(0)}, {{"frame_name", "loop"}});
  const Operation value = frame("Merge", {begin, begin}), turn = frame("Merge", {count, count});
  const Output limit = frame("Enter", {g.Const(4)}, {{"frame_name", "loop"}, {"is_constant", true}});
  const Output going = frame("LoopCond", {g.Op("Less", {turn.output(0), limit})});
  const Operation switch_value = frame("Switch", {value.output(0), going}),
                  switch_turn = frame("Switch", {turn.output(0), going});
  std::vector<Output> reduced;
  for (int k = 0; k < members(); ++k)
    reduced.push_back(
        group.Reduce(k, g.Op("Neg", {g.Op("Neg", {switch_value.output(1)})}), GetParam().hint, "Add", "Id", 1, 50.0f));
  const Output one = frame("Enter", {g.Const(1)}, {{"frame_name", "loop"}, {"is_constant", true}});
  Output greatest = reduced.front();
  for (const Output& each : reduced) greatest = g.Op("Maximum", {greatest, each});
  g.SetInput(value, 1, frame("NextIteration", {greatest}));
  g.SetInput(turn, 1, frame("NextIteration", {g.Op("AddV2", {switch_turn.output(1), one})}));
  const Output result = frame("Exit", {switch_value.output(0)});
  const Session session = cluster_.Client(g);
  for (int i = 0; i < 3; ++i) {
    auto values = RunIn(session, {result});
    ASSERT_TRUE(values.ok()) << values.status();
    const double factor = std::pow(members(), 4);
    EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{factor, 2 * factor}));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, BetweenTasks,
                         testing::Values(Setting{2, 2, "auto"}, Setting{2, 2, "ring"}, Setting{3, 3, "direct"},
                                         Setting{3, 3, "ring"}, Setting{5, 5, "tree"}, Setting{2, 5, "auto"},
                                         Setting{3, 6, "ring"}, Setting{4, 4, "nccl"}, Setting{9, 9, "auto"}),
                         NameOf);

TEST(CollectiveCluster, DirectlyReducedBitsAreThoseOfOneProcess) {
  const LocalCluster cluster("loopback://collective_bits", {{"worker", 4}});
  std::vector<std::string> bits;
  for (const int tasks : {4, 1}) {
    Graph g(TheRuntime());
    const Members group(g, tasks, 4);
    std::vector<Output> out;
    for (int k = 0; k < 4; ++k) out.push_back(group.Reduce(k, g.Const(Random(k, 20011)), "auto", "Add", "Div"));
    const Session session = cluster.Client(g);
    auto values = RunIn(session, out);
    ASSERT_TRUE(values.ok()) << values.status();
    for (const Tensor& value : *values) bits.push_back(BytesOf(value));
  }
  for (const std::string& each : bits) EXPECT_TRUE(each == bits[0]);
}

TEST(CollectiveCluster, GathersBroadcastsScattersAndExchanges) {
  const LocalCluster cluster("loopback://collective_kinds", {{"worker", 3}});
  Graph g(TheRuntime());
  const Members group(g, 3, 3);
  std::vector<Output> rows, out;
  for (int k = 0; k < 3; ++k)
    rows.push_back(g.Const(TensorOf(DType::kFloat, Shape{3, 1}, {k * 10.0, k * 10.0 + 1, k * 10.0 + 2})));
  for (int k = 0; k < 3; ++k)
    out.push_back(group.Add("CollectiveGather", k, {rows[static_cast<size_t>(k)]}, {{"shape", Shape{9, 1}}}, 1));
  for (int k = 0; k < 3; ++k)
    out.push_back(group.OfKeys("CollectiveGatherV2", k, {rows[static_cast<size_t>(k)]}, {}, 2));
  out.push_back(group.Add("CollectiveBcastSend", 0, {rows[1]}, {{"shape", Shape{3, 1}}}, 3));
  for (int k = 1; k < 3; ++k)
    out.push_back(group.Add("CollectiveBcastRecv", k, {}, {{"T", DType::kFloat}, {"shape", Shape{3, 1}}}, 3));
  for (int k = 0; k < 3; ++k)
    out.push_back(group.OfKeys("CollectiveReduceScatterV2", k, {rows[static_cast<size_t>(k)]},
                               {{"merge_op", "Add"}, {"final_op", "Id"}}, 4));
  for (int k = 0; k < 3; ++k)
    out.push_back(group.OfKeys("CollectiveAllToAllV2", k, {rows[static_cast<size_t>(k)]}, {}, 5));
  for (int k = 0; k < 3; ++k)
    out.push_back(group.OfKeys("CollectiveReduceV2", k, {rows[static_cast<size_t>(k)]},
                               {{"merge_op", "Min"}, {"final_op", "Id"}}, 6));
  for (int k = 0; k < 3; ++k)
    out.push_back(group.Add("NcclAllReduce", k, {rows[static_cast<size_t>(k)]},
                            {{"reduction", "prod"}, {"num_devices", int64_t{3}}, {"shared_name", "n"}}));
  const Session session = cluster.Client(g);
  auto values = RunIn(session, out);
  ASSERT_TRUE(values.ok()) << values.status();
  auto expect = [&, at = size_t{0}](const std::vector<std::vector<double>>& each) mutable {
    for (const auto& expected : each) {
      EXPECT_EQ(DoublesOf((*values)[at]), expected) << out[at].name();
      ++at;
    }
  };
  const std::vector<double> all = {0, 1, 2, 10, 11, 12, 20, 21, 22};
  expect({all, all, all});
  expect({all, all, all});
  expect({{10, 11, 12}, {10, 11, 12}, {10, 11, 12}});
  expect({{30}, {33}, {36}});
  expect({{0, 10, 20}, {1, 11, 21}, {2, 12, 22}});
  expect({{0, 1, 2}, {0, 1, 2}, {0, 1, 2}});
  expect({{0, 11 * 21, 2 * 12 * 22}, {0, 11 * 21, 2 * 12 * 22}, {0, 11 * 21, 2 * 12 * 22}});
}

TEST(CollectiveCluster, WhoCannotMeetIsNamed) {
  const LocalCluster cluster("loopback://collective_errors", {{"worker", 2}});
  const auto fails = [&](const std::function<std::vector<Output>(Graph&, const Members&)>& build, int64_t size,
                         Code code, const std::vector<std::string>& words, std::vector<Feed> feeds = {}) {
    Graph g(TheRuntime());
    const auto out = build(g, Members(g, 2, size));
    ASSERT_TRUE(g.status().ok()) << g.status();
    ExpectStatus(RunIn(cluster.Client(g), out, feeds).status(), code, words);
  };
  fails(
      [](Graph& g, const Members& group) {
        return std::vector{group.Reduce(0, g.Const({1.0f})), group.Reduce(1, g.Const({1.0f}))};
      },
      3, Code::kInvalidArgument,
      {"group 7, instance 1", "group_size is 3", "2 members", "member_0", "member_1", "task:1"});
  fails(
      [](Graph& g, const Members& group) {
        return std::vector{group.Reduce(0, g.Const({1.0f})), group.Reduce(1, g.Const({1.0f, 2.0f}))};
      },
      2, Code::kInvalidArgument, {"shape", "member_0", "member_1"});
  fails(
      [](Graph& g, const Members& group) {
        return std::vector{group.Reduce(0, g.Const({1.0f})), group.Reduce(1, g.Const({1.0f}), "auto", "Max")};
      },
      2, Code::kInvalidArgument, {"merge", "member_0", "member_1"});
  fails(
      [](Graph&, const Members& group) {
        return std::vector{group.Add("CollectiveBcastRecv", 0, {}, {{"T", DType::kFloat}, {"shape", Shape{1}}}),
                           group.Add("CollectiveBcastRecv", 1, {}, {{"T", DType::kFloat}, {"shape", Shape{1}}})};
      },
      2, Code::kInvalidArgument, {"0 senders"});
  const Tensor key = *Tensor::From(std::vector<int32_t>{1}, Shape{});
  fails([](Graph& g, const Members& group) {
    const Output fed = g.Placeholder("key", DType::kInt32, Shape{});
    std::vector<Output> out;
    for (int k = 0; k < 2; ++k) {
      const auto on = g.Device(group.Device(k));
      out.push_back(g.Op("CollectiveReduceV2", {g.Const({1.0f}), g.Const(2), g.Const(7), fed},
                         {{"merge_op", "Add"}, {"final_op", "Id"}}, "keyed_" + std::to_string(k)));
    }
    return out;
  }, 2, Code::kUnimplemented, {"keyed_1", "constants"}, {{"key", key}});
  // Their parts would be a million.
  fails([](Graph& g, const Members& group) {
    const Output x = g.Const({1.0f});
    std::vector<Output> out;
    for (int k = 0; k < 1025; ++k) out.push_back(group.Reduce(k, x));
    return out;
  }, 1025, Code::kResourceExhausted, {"1025 members in 2 tasks", "1024"});
  // Shapes that only the step knows.
  fails(
      [](Graph& g, const Members& group) {
        return std::vector{group.Reduce(0, g.Placeholder("a", DType::kFloat, Shape::Unknown())),
                           group.Reduce(1, g.Placeholder("b", DType::kFloat, Shape::Unknown()))};
      },
      2, Code::kInvalidArgument, {"shape"}, {{"a", Random(0, 10)}, {"b", Random(0, 1000)}});
}

TEST(CollectiveCluster, AMemberThatDoesNotComeEndsTheStepInTime) {
  const LocalCluster cluster("loopback://collective_late", {{"worker", 2}});
  Graph g(TheRuntime());
  const Members group(g, 2, 2);
  const Output never = [&] {
    const auto on = g.Device(group.Device(1));
    const Output queue = g.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "queue");
    return g.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "never");
  }();
  const std::vector<Output> out = {group.Reduce(0, g.Const(1.0f), "auto", "Add", "Id", 1, 0.3f),
                                   group.Reduce(1, never, "auto", "Add", "Id", 1, 0.3f)};
  const Session session = cluster.Client(g);
  for (int i = 0; i < 3; ++i)
    ExpectStatus(RunIn(session, out).status(), Code::kDeadlineExceeded,
                 {"member_0", "group 7, instance 1", "timeout_seconds", "task:0"});
}

// Whoever comes in time ends in time: also when all have come at once, step after step, by every executor and way, with
// what is read by whom.
TEST(CollectiveCluster, MembersThatAllComeEndWithinTheirTimeout) {
  const LocalCluster cluster("loopback://collective_in_time", {{"worker", 3}});
  for (const int tasks : {1, 2, 3}) {
    for (const char* hint : {"auto", "ring", "tree"}) {
      for (const int64_t size : {4, 20000}) {
        for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
          Graph g(TheRuntime());
          const Members group(g, tasks, 3);
          std::vector<Output> out, keyed;
          std::vector<Feed> feeds;
          for (int k = 0; k < 3; ++k) {
            const Output x = g.Placeholder("x" + std::to_string(k), DType::kFloat, Shape{size});
            feeds.push_back({x, *Tensor::From(std::vector<float>(static_cast<size_t>(size), static_cast<float>(k + 1)),
                                              Shape{size})});
            const Output reduced =
                group.Reduce(k, k == 2 ? x : g.Op("Neg", {g.Op("Neg", {x})}), hint, "Add", "Div", 1, 50.0f);
            out.push_back(k == 1 ? g.Op("Identity", {reduced}) : reduced);
            out.push_back(group.OfKeys("CollectiveReduceV2", k, {g.Const(static_cast<float>(k + 1))},
                                       {{"merge_op", "Add"}, {"final_op", "Id"}, {"timeout_seconds", 50.0f}}, 2));
          }
          SessionOptions options;
          options.executor = executor;
          const Session session = cluster.Client(g, options);
          for (int step = 0; step < 4; ++step) {
            RunOptions run;
            run.timeout = std::chrono::seconds(25);  // before the collectives' own time is over
            const auto values = session.Run(feeds, {out.begin(), out.end()}, {}, run);
            ASSERT_TRUE(values.ok()) << values.status() << " " << tasks << " tasks, " << hint << ", " << size
                                     << " elements";
            for (size_t i = 0; i < values->size(); ++i)
              EXPECT_EQ(DoublesOf((*values)[i]),
                        std::vector<double>(i % 2 == 0 ? static_cast<size_t>(size) : 1, i % 2 == 0 ? 2.0 : 6.0));
          }
        }
      }
    }
  }
}

TEST(CollectiveCluster, ALostMemberIsNamedAndNobodyWaits) {
  LocalCluster cluster("loopback://collective_lost", {{"worker", 3}});
  Graph g(TheRuntime());
  const Members group(g, 3, 3);
  const auto held = [&](int task) {
    const auto on = g.Device(group.Device(task));
    const Output queue = g.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "queue");
    return g.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "never");
  };
  const std::vector<Output> out = {group.Reduce(0, g.Const(1.0f)), group.Reduce(1, g.Const(2.0f)),
                                   group.Reduce(2, held(2))};
  const Session session = cluster.Client(g);
  std::thread loss([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cluster.Stop(2);
  });
  ExpectStatus(RunIn(session, out).status(), Code::kUnavailable, {"task:2"});
  loss.join();
}

}  // namespace
}  // namespace tenon::engine
