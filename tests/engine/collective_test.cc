// SPDX-License-Identifier: Apache-2.0
// Collectives in whole steps: on the host, beside the kernels of simulated accelerators, and on emulated GPUs with and
// without a library of the vendor. All give the sums of the ranks' order; who cannot meet gets an error that names
// both. Covers H11.
#include <dlfcn.h>

#include <functional>
#include <latch>
#include <thread>

#include "tests/device/gpu.h"
#include "tests/engine/engine.h"

namespace tenon::engine::collective_test {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // a step takes milliseconds; one that hangs is told

struct Setting {
  std::string name;
  std::string type;  // of the devices
  int devices;
  RuntimeOptions options = {};
};

RuntimeOptions SimulatedOptions() {
  RuntimeOptions options;
  options.plugin_options = {{"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "precision", "exact"}};
  return options;
}
constexpr char kLibrary[] = TENON_TEST_BUILD_DIR "/tests/plugins/libtenon_emulated_nccl.so";

// Emulated ones; library: a path, or "off".
RuntimeOptions GpusOptions(int devices, const std::string& library) {
  RuntimeOptions options;
  options.plugins = {device_test::kEmulatedPlugin};
  options.plugin_options = {{"tenon.gpu_emulated", "devices", std::to_string(devices)},
                            {"tenon.gpu_emulated", "cache", "off"}};
  options.plugin_options.push_back({"tenon.gpu_emulated", "collectives", library});
  return options;
}
std::vector<Setting> Settings() {
  std::vector<Setting> settings = {{"Host", "CPU", 1}, {"BesideSimulatedTpus", "TPU", 2, SimulatedOptions()}};
  if (!device_test::WhyNoGpu().empty()) return settings;  // CollectiveOfGpus says so
  settings.push_back({"FourGpusByCopies", "GPU", 4, GpusOptions(4, "off")});
  settings.push_back({"FourGpusByALibrary", "GPU", 4, GpusOptions(4, kLibrary)});
  return settings;
}

class Collective : public testing::TestWithParam<Setting> {
 protected:
  Collective() : runtime_(*Runtime::Create(GetParam().options)) {}

  std::string DeviceOf(int member) const {
    return "/device:" + GetParam().type + ":" + std::to_string(member % GetParam().devices);
  }
  // Adds a member in the place of its number.
  Output Add(Graph& g, const char* op, int member, const std::vector<Output>& inputs, Attrs attrs, int64_t size,
             int64_t instance = 1) const {
    const auto on = g.Device(DeviceOf(member));
    if (!std::string_view(op).ends_with("V2") && std::string_view(op) != "NcclAllReduce") {
      attrs.insert(attrs.end(), {{"group_size", size}, {"group_key", int64_t{7}}, {"instance_key", instance}});
    }
    return g.Op(op, inputs, attrs, "member_" + std::to_string(member));
  }
  Output Reduce(Graph& g, int member, Output x, int64_t size, const char* merge = "Add", const char* final_op = "Id",
                int64_t instance = 1) const {
    return Add(g, "CollectiveReduce", member, {x},
               {{"merge_op", merge}, {"final_op", final_op}, {"subdiv_offsets", std::vector<int64_t>{}}}, size,
               instance);
  }
  Session Open(const Graph& g, SessionOptions options = {}) const {
    auto session = Session::Create(runtime_, g, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    return std::move(*session);
  }
  static Result<std::vector<Tensor>> RunIn(const Session& session, const std::vector<Feed>& feeds,
                                           const std::vector<Name>& fetches) {
    RunOptions run;
    run.timeout = kPatience;
    return session.Run(feeds, fetches, {}, run);
  }
  // Values of the fetches, or one failure.
  std::vector<std::vector<double>> Run(const Graph& g, const std::vector<Output>& fetches,
                                       SessionOptions options = {}) const {
    const Session session = Open(g, options);
    auto values = RunIn(session, {}, {fetches.begin(), fetches.end()});
    std::vector<std::vector<double>> out;
    if (!values.ok()) ADD_FAILURE() << values.status().message();
    if (values.ok()) {
      for (const Tensor& value : *values) out.push_back(DoublesOf(value));
    }
    return out;
  }
  void ExpectFails(const Graph& g, const std::vector<Output>& fetches, Code code, const std::vector<std::string>& words,
                   SessionOptions options = {}) const {
    const Session session = Open(g, options);
    ExpectStatus(RunIn(session, {}, {fetches.begin(), fetches.end()}).status(), code, words);
  }
  static void ExpectStatus(const Status& status, Code code, const std::vector<std::string>& words) {
    EXPECT_EQ(status.code(), code) << status.message();
    for (const std::string& word : words)
      EXPECT_NE(status.message().find(word), std::string::npos) << word << " is not in: " << status.message();
  }

  Runtime runtime_;
};

Attrs With(Attrs attrs, const Attr& more) {
  attrs.push_back(more);
  return attrs;
}

// Halves of small numbers, whose sums and products are exact.
std::vector<double> ValuesOf(int member) { return {1.0 + member, -2.0 * member, 0.5, 3.0 - member, 4.0}; }

TEST_P(Collective, ReducesInEveryWayAndType) {
  struct Way {
    const char* merge;
    std::function<double(double, double)> function;
  };
  const Way ways[] = {{"Add", [](double a, double b) { return a + b; }},
                      {"Mul", [](double a, double b) { return a * b; }},
                      {"Min", [](double a, double b) { return std::min(a, b); }},
                      {"Max", [](double a, double b) { return std::max(a, b); }}};
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kInt64, DType::kInt32}) {
    for (const Way& way : ways) {
      Graph g(runtime_);
      std::vector<Output> outputs;
      std::vector<double> expected;
      for (int member = 0; member < 3; ++member) {
        std::vector<double> values = ValuesOf(member);
        if (dtype == DType::kInt64 || dtype == DType::kInt32) values[2] = 5;
        for (size_t i = 0; i < values.size(); ++i) {
          if (member == 0) expected.push_back(values[i]);
          else expected[i] = way.function(expected[i], values[i]);
        }
        outputs.push_back(Reduce(g, member, g.Const(View(TensorOf(dtype, {5}, values))), 3, way.merge));
      }
      for (const auto& got : Run(g, outputs))
        EXPECT_EQ(got, expected) << way.merge << " of dtype " << static_cast<int>(dtype);
    }
  }
}

// Keys are inputs of the forms of version 2.
std::vector<Output> WithKeys(Graph& g, Output x, int32_t size) {
  return {x, g.Const(size), g.Const(int32_t{7}), g.Const(int32_t{1})};
}

TEST_P(Collective, ScattersAReductionByRank) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  for (int member = 0; member < 2; ++member)
    outputs.push_back(Add(
        g, "CollectiveReduceScatterV2", member,
        WithKeys(g, g.Const(View(TensorOf(DType::kFloat, {4, 2}, {1.0 * member, 1, 2, 3, 4, 5, 6, 7.0 + member}))), 2),
        {{"merge_op", "Add"}, {"final_op", "Div"}}, 2));
  EXPECT_EQ(Run(g, outputs), (std::vector<std::vector<double>>{{0.5, 1, 2, 3}, {4, 5, 6, 7.5}}));
}

TEST_P(Collective, ExchangesPartsByRank) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  for (int member = 0; member < 2; ++member) {
    const double first = 10.0 * member;
    outputs.push_back(Add(
        g, "CollectiveAllToAllV2", member,
        WithKeys(g, g.Const(View(TensorOf(DType::kFloat, {4}, {first, first + 1, first + 2, first + 3}))), 2), {}, 2));
  }
  EXPECT_EQ(Run(g, outputs), (std::vector<std::vector<double>>{{0, 1, 10, 11}, {2, 3, 12, 13}}));
}

TEST_P(Collective, RowsThatAreNoEqualPartsAndMembersOfTwoKindsAreRefused) {
  Graph g(runtime_);
  const Output alone =
      Add(g, "CollectiveAllToAllV2", 0, WithKeys(g, g.Const(View(TensorOf(DType::kFloat, {3}, {1, 2, 3}))), 2), {}, 2);
  ExpectFails(g, {alone}, Code::kInvalidArgument, {"are no equal parts for 2 members"});
  Graph h(runtime_);
  const auto value = [&] { return h.Const(View(TensorOf(DType::kFloat, {2}, {1, 2}))); };
  const Output whole =
      Add(h, "CollectiveReduceV2", 0, WithKeys(h, value(), 2), {{"merge_op", "Add"}, {"final_op", "Id"}}, 2);
  const Output part =
      Add(h, "CollectiveReduceScatterV2", 1, WithKeys(h, value(), 2), {{"merge_op", "Add"}, {"final_op", "Id"}}, 2);
  const Session session = Open(h);
  EXPECT_EQ(RunIn(session, {}, {whole, part}).status().code(), Code::kInvalidArgument);
}

TEST_P(Collective, ReducesByCommunicatorsAmongTheRanksOfARow) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  const Output rows = g.Const(View(TensorOf(DType::kInt32, {2, 2}, {0, 3, 1, 2})));
  for (int32_t member = 0; member < 4; ++member) {
    const auto on = g.Device(DeviceOf(member));
    const Output communicator =
        g.Op("CollectiveInitializeCommunicator", {g.Const(int32_t{7}), g.Const(member), g.Const(int32_t{4})});
    const Output x = g.Const(View(TensorOf(DType::kFloat, {2}, {1.0 * member, 2})));
    const Output sum = g.Op("CollectiveReduceV3", {x, communicator, rows}, {{"reduction", "Add"}});
    const auto after = g.ControlDependencies({Operation(sum)});
    outputs.push_back(sum);
    outputs.push_back(g.Op("CollectiveReduceV3", {sum, communicator, rows}, {{"reduction", "Mul"}}));
  }
  for (int turn = 0; turn < 2; ++turn)
    EXPECT_EQ(Run(g, outputs),
              (std::vector<std::vector<double>>{{3, 4}, {9, 16}, {3, 4}, {9, 16}, {3, 4}, {9, 16}, {3, 4}, {9, 16}}));
}

TEST_P(Collective, ARankOutsideOfItsGroupIsRefused) {
  Graph g(runtime_);
  const Output wrong =
      g.Op("CollectiveInitializeCommunicator", {g.Const(int32_t{7}), g.Const(int32_t{4}), g.Const(int32_t{4})});
  const Output x = g.Const(View(TensorOf(DType::kFloat, {1}, {1}))),
               rows = g.Const(View(TensorOf(DType::kInt32, {1, 2}, {1, 2})));
  ExpectFails(g, {g.Op("CollectiveReduceV3", {x, wrong, rows}, {{"reduction", "Add"}})}, Code::kInvalidArgument,
              {"rank 4 of a group of 4"});
  const Output right =
      g.Op("CollectiveInitializeCommunicator", {g.Const(int32_t{7}), g.Const(int32_t{0}), g.Const(int32_t{4})});
  ExpectFails(g, {g.Op("CollectiveReduceV3", {x, right, rows}, {{"reduction", "Add"}})}, Code::kInvalidArgument,
              {"rank 0 stands in no row of group_assignment"});
}

TEST_P(Collective, ReducesAndBroadcastsWithoutAGroup) {
  Graph g(runtime_);
  std::vector<Output> all;
  for (int member = 0; member < 3; ++member)
    all.push_back(g.Const(View(TensorOf(DType::kFloat, {2}, {1.0 + member, 4.0 - member}))));
  std::vector<Output> outputs;
  for (const char* reduction : {"sum", "prod", "min", "max"})
    outputs.push_back(g.Op("NcclReduce", {all}, {{"reduction", reduction}}));
  outputs.push_back(g.Op("NcclBroadcast", {all[0]}, {{"shape", Shape({2})}}));
  EXPECT_EQ(Run(g, outputs), (std::vector<std::vector<double>>{{6, 9}, {6, 24}, {1, 2}, {3, 4}, {1, 4}}));
}

TEST_P(Collective, DividesByTheNumberOfMembers) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  for (int member = 0; member < 4; ++member) {
    outputs.push_back(
        Reduce(g, member, g.Const(View(TensorOf(DType::kFloat, {2}, {1.0 * member, 8}))), 4, "Add", "Div"));
  }
  for (const auto& got : Run(g, outputs)) EXPECT_EQ(got, (std::vector<double>{1.5, 8}));
}

TEST_P(Collective, TakesItsKeysFromInputs) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  const Output group = g.Const(3), instance = g.Placeholder("instance", DType::kInt32, Shape());
  for (int member = 0; member < 2; ++member) {
    outputs.push_back(
        Add(g, "CollectiveReduceV2", member,
            {g.Const(View(TensorOf(DType::kFloat, {2}, {1.0 + member, 2}))), g.Const(2), group, instance},
            {{"T", DType::kFloat}, {"merge_op", "Add"}, {"final_op", "Id"}, {"Nordering_token", int64_t{0}}}, 2));
  }
  const Session session = Open(g);
  for (int32_t step = 0; step < 3; ++step) {
    auto values = RunIn(session, {{instance, *Tensor::Scalar(step)}}, {outputs[0], outputs[1]});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{3, 4}));
    EXPECT_EQ(DoublesOf((*values)[1]), (std::vector<double>{3, 4}));
  }
}

TEST_P(Collective, GathersByRankAndNotByTheOrderOfComing) {
  Graph g(runtime_);
  std::vector<Output> outputs(3);
  // The last is added first; its rank comes of its device and its name.
  for (int member = 2; member >= 0; --member) {
    const Output x = g.Const(View(TensorOf(DType::kInt32, {1, 2}, {10.0 * member, 10.0 * member + 1})));
    outputs[static_cast<size_t>(member)] = Add(g, "CollectiveGather", member, {x}, {{"shape", Shape{3, 2}}}, 3);
  }
  const std::vector<double> by_name = {0, 1, 10, 11, 20, 21}, by_device = {0, 1, 20, 21, 10, 11};
  for (const auto& got : Run(g, outputs)) EXPECT_EQ(got, GetParam().devices == 2 ? by_device : by_name);
}

TEST_P(Collective, GathersRowsOfANumberOfMembersThatIsAnInput) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  const Output size = g.Placeholder("size", DType::kInt32, Shape());
  for (int member = 0; member < 2; ++member) {
    outputs.push_back(Add(g, "CollectiveGatherV2", member,
                          {g.Const(View(TensorOf(DType::kFloat, {1}, {5.0 + member}))), size, g.Const(1), g.Const(1)},
                          {{"T", DType::kFloat}, {"Nordering_token", int64_t{0}}}, 2));
  }
  const Session session = Open(g);
  auto values = RunIn(session, {{size, *Tensor::Scalar(int32_t{2})}}, {outputs[0], outputs[1]});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(DoublesOf((*values)[1]), (std::vector<double>{5, 6}));
  ExpectStatus(RunIn(session, {{size, *Tensor::Scalar(int32_t{0})}}, {outputs[0]}).status(), Code::kInvalidArgument,
               {"group_size"});
}

TEST_P(Collective, BroadcastsToAll) {
  Graph g(runtime_);
  const Attrs shape = {{"shape", Shape{3}}};
  const Output sent =
      Add(g, "CollectiveBcastSend", 1, {g.Const(View(TensorOf(DType::kInt64, {3}, {7, 8, 9})))}, shape, 3);
  const Output first = Add(g, "CollectiveBcastRecv", 0, {}, With(shape, {"T", DType::kInt64}), 3);
  const Output third = Add(g, "CollectiveBcastRecv", 2, {}, With(shape, {"T", DType::kInt64}), 3);
  for (const auto& got : Run(g, {sent, first, third})) EXPECT_EQ(got, (std::vector<double>{7, 8, 9}));
}

TEST_P(Collective, BroadcastsToAShapeThatIsAnInput) {
  Graph g(runtime_);
  const Output sent =
      Add(g, "CollectiveBcastSendV2", 0,
          {g.Const(View(TensorOf(DType::kBool, {2}, {1, 0}))), g.Const(2), g.Const(1), g.Const(1)}, {}, 2);
  const Output got =
      Add(g, "CollectiveBcastRecvV2", 1, {g.Const(2), g.Const(1), g.Const(1), g.Const({2})}, {{"T", DType::kBool}}, 2);
  EXPECT_EQ(Run(g, {sent, got})[1], (std::vector<double>{1, 0}));
}

TEST_P(Collective, UnderstandsNcclAllReduce) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  for (int member = 0; member < 2; ++member) {
    outputs.push_back(Add(g, "NcclAllReduce", member, {g.Const(View(TensorOf(DType::kFloat, {2}, {1.0 + member, 4})))},
                          {{"reduction", "prod"}, {"num_devices", int64_t{2}}, {"shared_name", "c0"}}, 2));
  }
  for (const auto& got : Run(g, outputs)) EXPECT_EQ(got, (std::vector<double>{2, 16}));
}

TEST_P(Collective, OfOneMemberIsThatMember) {
  Graph g(runtime_);
  EXPECT_EQ(Run(g, {Reduce(g, 0, g.Const({3.0f, 4.0f}), 1, "Add", "Div")})[0], (std::vector<double>{3, 4}));
}

TEST_P(Collective, OfNothingIsNothing) {
  Graph g(runtime_);
  const Output empty = g.Const(View(TensorOf(DType::kFloat, {0, 3}, {})));
  for (const auto& got : Run(g, {Reduce(g, 0, empty, 2), Reduce(g, 1, empty, 2)})) EXPECT_TRUE(got.empty());
}

// One large enough for several threads, added by rank: the same bits whoever comes first.
TEST_P(Collective, GivesTheSameBitsInEverySchedule) {
  constexpr int64_t kCount = 50000;
  const auto value = [](int member, int64_t i) { return 1.0f / static_cast<float>((member + 2) * (i % 97 + 1)); };
  Graph g(runtime_);
  std::vector<Output> outputs;
  std::vector<float> expected(kCount, 0.0f);
  // In the order of the ranks: by device, then by name.
  std::vector<int> ranks = {0, 1, 2, 3};
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](int a, int b) { return a % GetParam().devices < b % GetParam().devices; });
  for (const int member : ranks) {
    for (int64_t i = 0; i < kCount; ++i)
      expected[static_cast<size_t>(i)] =
          member == ranks[0] ? value(member, i) : expected[static_cast<size_t>(i)] + value(member, i);
  }
  for (int member = 0; member < 4; ++member) {
    std::vector<float> values;
    for (int64_t i = 0; i < kCount; ++i) values.push_back(value(member, i));
    outputs.push_back(Reduce(g, member, g.Const(values, {kCount}), 4));
  }
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SessionOptions options;
    // A host that waits for one GPU's result submits nothing to the others meanwhile: there each part has a thread of
    // its own.
    options.debug.partition = GetParam().type == "GPU";
    options.executor = TENON_EXECUTOR_DYNAMIC;
    options.debug.schedule_seed = static_cast<uint32_t>(seed);
    const Session session = Open(g, options);
    auto values = RunIn(session, {}, {outputs.begin(), outputs.end()});
    ASSERT_TRUE(values.ok()) << values.status().message();
    for (const Tensor& got : *values) ASSERT_TRUE(Values<float>(got) == expected) << "schedule " << seed;
  }
}

TEST_P(Collective, OfStepsThatRunAtOnceDoNotMix) {
  Graph g(runtime_);
  const Output x = g.Placeholder("x", DType::kFloat, Shape());
  const Output a = Reduce(g, 0, x, 2), b = Reduce(g, 1, g.Op("Mul", {x, g.Const(10.0f)}), 2);
  const Session session = Open(g);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int step = 0; step < 25; ++step) {
        const float value = static_cast<float>(thread * 100 + step);
        auto values = RunIn(session, {{x, *Tensor::Scalar(value)}}, {a, b});
        ASSERT_TRUE(values.ok()) << values.status().message();
        EXPECT_EQ((*values)[0].scalar<float>(), 11 * value);
        EXPECT_EQ((*values)[1].scalar<float>(), 11 * value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Collective, MembersOfOtherShapesAreNamed) {
  Graph g(runtime_);
  const std::vector<Output> outputs = {Reduce(g, 0, g.Const({1.0f, 2.0f}), 2),
                                       Reduce(g, 1, g.Const({1.0f, 2.0f, 3.0f}), 2)};
  ExpectFails(g, outputs, Code::kInvalidArgument, {"member_0", "member_1", "[2]", "[3]", "group 7, instance 1"});
}

TEST_P(Collective, MembersOfOtherTypesKindsAndSizesAreNamed) {
  {
    Graph g(runtime_);
    const std::vector<Output> outputs = {Reduce(g, 0, g.Const({1.0f}), 2), Reduce(g, 1, g.Const({1}), 2)};
    ExpectFails(g, outputs, Code::kInvalidArgument, {"member_0", "member_1", "float", "int32"});
  }
  {
    Graph g(runtime_);
    const std::vector<Output> outputs = {Reduce(g, 0, g.Const({1.0f}), 2), Reduce(g, 1, g.Const({1.0f}), 3)};
    ExpectFails(g, outputs, Code::kInvalidArgument, {"member_0", "member_1", "group_size 2", "3"});
  }
  {
    Graph g(runtime_);
    const std::vector<Output> outputs = {Reduce(g, 0, g.Const({1.0f}), 2, "Add"),
                                         Reduce(g, 1, g.Const({1.0f}), 2, "Max")};
    ExpectFails(g, outputs, Code::kInvalidArgument, {"member_0", "member_1", "Add", "Max"});
  }
}

TEST_P(Collective, BroadcastsHaveOneSender) {
  const Attrs shape = {{"shape", Shape{1}}}, typed = With(shape, {"T", DType::kFloat});
  {
    Graph g(runtime_);
    const std::vector<Output> outputs = {Add(g, "CollectiveBcastSend", 0, {g.Const({1.0f})}, shape, 2),
                                         Add(g, "CollectiveBcastSend", 1, {g.Const({1.0f})}, shape, 2)};
    ExpectFails(g, outputs, Code::kInvalidArgument, {"member_0", "member_1", "one sender"});
  }
  {
    Graph g(runtime_);
    const std::vector<Output> outputs = {Add(g, "CollectiveBcastRecv", 0, {}, typed, 2),
                                         Add(g, "CollectiveBcastRecv", 1, {}, typed, 2)};
    ExpectFails(g, outputs, Code::kInvalidArgument, {"no sender"});
  }
}

TEST_P(Collective, WithoutAllMembersEndsWithTheDeadlineAndSaysWhoIsMissing) {
  Graph g(runtime_);
  const std::vector<Output> outputs = {Reduce(g, 0, g.Const({1.0f}), 2), Reduce(g, 1, g.Const({2.0f}), 2)};
  const Session session = Open(g);
  RunOptions run;
  run.timeout = std::chrono::milliseconds(100);
  // A step on GPUs says that it was out of time; who was missing stands in the log.
  const bool says = GetParam().type != "GPU";
  const auto words = [&](std::vector<std::string> all) { return says ? all : std::vector<std::string>{}; };
  ExpectStatus(session.Run({}, {outputs[0]}, {}, run).status(), Code::kDeadlineExceeded,
               words({"1 of 2 members came", "member_0", "1 are missing"}));
  // Afterwards the session goes on, and knows the group.
  auto values = RunIn(session, {}, {outputs[0], outputs[1]});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(DoublesOf((*values)[0]), std::vector<double>{3});
  ExpectStatus(session.Run({}, {outputs[0]}, {}, run).status(), Code::kDeadlineExceeded,
               words({"1 are missing: 'member_1'"}));
}

TEST_P(Collective, EndsWithAMemberThatFails) {
  Graph g(runtime_);
  const Output index = g.Placeholder("index", DType::kInt32, {1});
  const Output good = Reduce(g, 0, g.Const({1.0f}), 2);
  Output picked;
  {
    const auto on = g.Device(DeviceOf(1));
    picked = g.Op("GatherV2", {g.Const({1.0f, 2.0f}), index, g.Const(0)}, {}, "picked");
  }
  const Output bad = Reduce(g, 1, picked, 2);
  const Session session = Open(g);
  ExpectStatus(RunIn(session, {{index, TensorOf(DType::kInt32, {1}, {9})}}, {good, bad}).status(),
               Code::kInvalidArgument, {"picked"});
  auto values = RunIn(session, {{index, TensorOf(DType::kInt32, {1}, {1})}}, {good, bad});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(DoublesOf((*values)[0]), std::vector<double>{3});
}

TEST_P(Collective, EndsWithACancellation) {
  Graph g(runtime_);
  const std::vector<Output> outputs = {Reduce(g, 0, g.Const({1.0f}), 2), Reduce(g, 1, g.Const({2.0f}), 2)};
  const Session session = Open(g);
  auto cancellation = Cancellation::Create();
  ASSERT_TRUE(cancellation.ok());
  RunOptions run;
  run.timeout = kPatience;
  run.cancellation = &*cancellation;
  std::thread waiting([&] { EXPECT_EQ(session.Run({}, {outputs[0]}, {}, run).status().code(), Code::kCancelled); });
  cancellation->Cancel();
  waiting.join();
  EXPECT_TRUE(RunIn(session, {}, {outputs[0], outputs[1]}).ok());
}

// timeout_seconds is the member's own: the step has a minute.
TEST_P(Collective, EndsWhenItsOwnTimeIsOver) {
  const auto ending = [](float seconds) {
    return Attrs{{"merge_op", "Add"},
                 {"final_op", "Id"},
                 {"subdiv_offsets", std::vector<int64_t>{}},
                 {"timeout_seconds", seconds}};
  };
  const Attrs attrs = ending(0.2f);
  Graph late(runtime_);
  const Output queue = late.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "queue");
  const Output never =
      late.Op("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "never");
  const Output x = Add(late, "CollectiveReduce", 0, {late.Const({1.0f})}, attrs, 2);
  const Output y = Add(late, "CollectiveReduce", 1, {late.Op("Reshape", {never, late.Const({1})})}, ending(30),
                       2);  // whose time is not over first
  ExpectFails(late, {x, y}, Code::kDeadlineExceeded, {"member_0", "group 7, instance 1", "timeout_seconds"});
  Graph soon(runtime_);
  const Output a =
      Add(soon, "CollectiveReduce", 0, {soon.Const({1.0f})}, With(attrs, {"communication_hint", "ring"}), 2);
  const Output b = Add(soon, "CollectiveReduce", 1, {soon.Const({2.0f})}, attrs, 2);
  const Session session = Open(soon);
  for (int i = 0; i < 50; ++i) {
    auto values = RunIn(session, {}, {a, b});
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(DoublesOf((*values)[1]), std::vector<double>{3});
  }
}

// Whoever writes the nodes of a meeting between tasks himself gets no number by which nothing can be divided.
TEST_P(Collective, ADivisorThatNoIntegerHoldsIsRefused) {
  Graph g(runtime_);
  const auto merge = [&](int64_t divisor, const char* name) {
    return g.Op("Tenon>CollectiveMerge", {g.Const({6, 9}), g.Const({2, 3})},
                {{"N", int64_t{1}},
                 {"part", int64_t{0}},
                 {"parts", int64_t{1}},
                 {"position", int64_t{0}},
                 {"merge_op", "Add"},
                 {"divisor", divisor}},
                name);
  };
  EXPECT_EQ(Run(g, {merge(2, "two")}), (std::vector<std::vector<double>>{{4, 6}}));
  ExpectFails(g, {merge(int64_t{1} << 32, "none")}, Code::kInvalidArgument, {"none", "divisor 4294967296"});
}

// With a partition each device's part runs on a thread of its own.
TEST_P(Collective, MeetsAcrossTheThreadsOfParts) {
  Graph g(runtime_);
  std::vector<Output> outputs;
  for (int member = 0; member < 2; ++member)
    outputs.push_back(Reduce(g, member, g.Const({1.0f + static_cast<float>(member)}), 2));
  SessionOptions options;
  options.debug.partition = true;
  for (const auto& got : Run(g, outputs, options)) EXPECT_EQ(got, std::vector<double>{3});
  Graph bad(runtime_);
  ExpectFails(bad, {Reduce(bad, 0, bad.Const({1.0f, 2.0f}), 2), Reduce(bad, 1, bad.Const({1.0f}), 2)},
              Code::kInvalidArgument, {"member_0", "member_1"}, options);
}

// Turns of a loop each are a meeting of their own.
TEST_P(Collective, InALoopMeetsTurnByTurn) {
  Graph g(runtime_);
  const auto frame = [&](const char* op, std::vector<Output> inputs, Attrs attrs = {}) {
    return g.AddNode(op, inputs, attrs);
  };
  const Output begin = frame("Enter", {g.Const(1.0f)}, {{"frame_name", "loop"}}),
               count = frame("Enter", {g.Const(0)}, {{"frame_name", "loop"}});
  const Operation value = frame("Merge", {begin, begin}), turn = frame("Merge", {count, count});
  const Output limit = frame("Enter", {g.Const(5)}, {{"frame_name", "loop"}, {"is_constant", true}});
  const Output going = frame("LoopCond", {g.Op("Less", {turn.output(0), limit})});
  const Operation switch_value = frame("Switch", {value.output(0), going}),
                  switch_turn = frame("Switch", {turn.output(0), going});
  const Output a = Reduce(g, 0, switch_value.output(1), 2),
               b = Reduce(g, 1, g.Op("Neg", {g.Op("Neg", {switch_value.output(1)})}), 2, "Add");
  const Output half = g.Op(
      "Mul", {g.Op("AddV2", {a, b}), frame("Enter", {g.Const(0.5f)}, {{"frame_name", "loop"}, {"is_constant", true}})});
  const Output one = frame("Enter", {g.Const(1)}, {{"frame_name", "loop"}, {"is_constant", true}});
  g.SetInput(value, 1, frame("NextIteration", {half}));
  g.SetInput(turn, 1, frame("NextIteration", {g.Op("AddV2", {switch_turn.output(1), one})}));
  const Output result = frame("Exit", {switch_value.output(0)});
  EXPECT_EQ(Run(g, {result})[0], std::vector<double>{32});
}

// A group of two on devices that the test names, of one instance each.
struct Pair {
  Pair(const Runtime& runtime, const std::string& first, const std::string& second)
      : g(runtime), devices{first, second} {}
  Operation Node(int member, Output x, int64_t instance = 1, const std::vector<Operation>& after = {}) {
    const auto on = g.Device("/device:" + devices[member]);
    const auto order = g.ControlDependencies(after);
    return g.AddNode("CollectiveReduce", {x},
                     {{"merge_op", "Add"},
                      {"final_op", "Id"},
                      {"subdiv_offsets", std::vector<int64_t>{}},
                      {"group_size", int64_t{2}},
                      {"group_key", int64_t{1}},
                      {"instance_key", instance}},
                     "member_" + std::to_string(member) + "_of_" + std::to_string(instance));
  }
  Output Reduce(int member, Output x) { return Node(member, x).output(0); }
  Graph g;
  std::string devices[2];
};
Result<std::vector<Tensor>> RunPatiently(const Session& session, const std::vector<Name>& fetches) {
  RunOptions run;
  run.timeout = kPatience;
  return session.Run({}, fetches, {}, run);
}
Runtime MakeRuntime(const RuntimeOptions& options) {
  auto runtime = Runtime::Create(options);
  EXPECT_TRUE(runtime.ok()) << runtime.status().message();
  return std::move(*runtime);
}
void ExpectHas(const Status& status, Code code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.message();
  for (const std::string& word : words)
    EXPECT_NE(status.message().find(word), std::string::npos) << word << " is not in: " << status.message();
}

class CollectiveOfGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = device_test::WhyNoGpu(); !why.empty())
      GTEST_SKIP() << why << ", and Devices/Collective.*/FourGpusBy*";
  }
};

TEST_F(CollectiveOfGpus, HasOneMemberOnEach) {
  const Runtime runtime = MakeRuntime(GpusOptions(1, "off"));
  Pair pair(runtime, "GPU:0", "GPU:0");
  const Output a = pair.Reduce(0, pair.g.Const({1.0f})), b = pair.Reduce(1, pair.g.Const({1.0f}));
  auto session = Session::Create(runtime, pair.g);
  ExpectHas(RunPatiently(*session, {a, b}).status(), Code::kInvalidArgument, {"one GPU", "member_0", "member_1"});
}

TEST_F(CollectiveOfGpus, UsesTheLibraryThatIsNamed) {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto calls = reinterpret_cast<int64_t (*)()>(dlsym(library, "tenon_emulated_nccl_calls"));
  ASSERT_NE(calls, nullptr);
  for (const bool named : {true, false}) {
    const Runtime runtime = MakeRuntime(GpusOptions(2, named ? kLibrary : "off"));
    Pair pair(runtime, "GPU:0", "GPU:1");
    const Output a = pair.Reduce(0, pair.g.Const({1.0f})), b = pair.Reduce(1, pair.g.Const({2.0f}));
    auto session = Session::Create(runtime, pair.g);
    const int64_t before = calls();
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(RunPatiently(*session, {a, b}).ok());
    EXPECT_EQ(calls() - before, named ? 6 : 0);
  }
}

TEST_F(CollectiveOfGpus, SaysThatANamedLibraryIsMissing) {
  const Runtime runtime = MakeRuntime(GpusOptions(2, "/nowhere/libnccl.so.2"));
  Pair pair(runtime, "GPU:0", "GPU:1");
  const Output a = pair.Reduce(0, pair.g.Const({1.0f})), b = pair.Reduce(1, pair.g.Const({2.0f}));
  auto session = Session::Create(runtime, pair.g);
  ExpectHas(RunPatiently(*session, {a, b}).status(), Code::kUnimplemented, {"/nowhere/libnccl.so.2"});
}

TEST_F(CollectiveOfGpus, WithoutALibraryOfTheirVendorGoesByCopies) {
  const Runtime runtime = MakeRuntime(GpusOptions(2, "auto"));
  Pair pair(runtime, "GPU:0", "GPU:1");
  const Output a = pair.Reduce(0, pair.g.Const({1.0f})), b = pair.Reduce(1, pair.g.Const({2.0f}));
  auto session = Session::Create(runtime, pair.g);
  auto values = RunPatiently(*session, {a, b});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(DoublesOf((*values)[1]), std::vector<double>{3});
}

TEST_F(CollectiveOfGpus, DoesNotMeetMembersOfTheHost) {
  const Runtime runtime = MakeRuntime(GpusOptions(1, "off"));
  Pair pair(runtime, "GPU:0", "CPU:0");
  const Output a = pair.Reduce(0, pair.g.Const({1.0f})), b = pair.Reduce(1, pair.g.Const({1.0f}));
  auto session = Session::Create(runtime, pair.g);
  ExpectHas(RunPatiently(*session, {a, b}).status(), Code::kInvalidArgument, {"two plugins"});
}

// Each GPU would wait for the other: found when the second instance is complete.
TEST_F(CollectiveOfGpus, InDifferentOrdersIsAnError) {
  for (const char* library : {"off", kLibrary}) {
    const Runtime runtime = MakeRuntime(GpusOptions(2, library));
    Pair pair(runtime, "GPU:0", "GPU:1");
    const Output x = pair.g.Const({1.0f});
    const Operation first = pair.Node(0, x, 1), second = pair.Node(0, x, 2, {first});
    const Operation other_second = pair.Node(1, x, 2), other_first = pair.Node(1, x, 1, {other_second});
    auto session = Session::Create(runtime, pair.g);
    ExpectHas(RunPatiently(*session, {second.output(0), other_first.output(0)}).status(), Code::kFailedPrecondition,
              {"different orders", "instance 1", "instance 2"});
  }
}

// A GPU that is lost at any moment ends the steps that need it, and nothing waits for it for ever.
TEST_F(CollectiveOfGpus, EndsWithALostGpu) {
  for (const char* library : {"off", kLibrary}) {
    int lost = 0;
    for (int lose_after = 8; lose_after <= 100; lose_after += 4) {
      RuntimeOptions options = GpusOptions(2, library);
      options.plugin_options.push_back({"tenon.gpu_emulated", "lose_after", std::to_string(lose_after)});
      const Runtime runtime = MakeRuntime(options);
      Pair pair(runtime, "GPU:0", "GPU:1");
      const Output a = pair.Reduce(0, pair.g.Const({1.0f})), b = pair.Reduce(1, pair.g.Const({2.0f}));
      auto session = Session::Create(runtime, pair.g);
      if (!session.ok()) continue;  // lost as it was opened
      Status status;
      for (int step = 0; step < 6 && status.ok(); ++step) status = RunPatiently(*session, {a, b}).status();
      if (status.ok()) continue;
      ++lost;
      EXPECT_EQ(status.code(), Code::kUnavailable) << lose_after << ": " << status.message();
      EXPECT_NE(status.message().find("lose_after"), std::string::npos) << status.message();
    }
    EXPECT_GE(lost, 5) << "GPUs that were lost in a step";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Collective, testing::ValuesIn(Settings()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tenon::engine::collective_test
