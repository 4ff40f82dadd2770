// SPDX-License-Identifier: Apache-2.0
// Steps meet what happens to the tasks that they use, and nothing else: a task that froze or died fails those that run
// there, a step that was given up keeps those waiting that share state with it, and a session may use a part of a
// cluster. Covers C11, I1, J1, J2.
#include <thread>

#include "tests/cluster/local_cluster.h"
#include "tests/cluster/processes.h"

namespace tenon::engine {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);  // a step takes milliseconds; one that hangs is told

Output On(Graph& g, const std::string& device, const char* op, const std::vector<Output>& inputs,
          const std::string& name, const Attrs& attrs = {}) {
  const auto on = g.Device(device);
  return g.Op(op, inputs, attrs, name);
}
Status RunOne(const Session& session, const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
              std::chrono::nanoseconds timeout = kPatience, const std::vector<Name>& targets = {}) {
  RunOptions run;
  run.timeout = timeout;
  return session.Run(feeds, fetches, targets, run).status();
}
bool Says(const Status& status, const std::string& text) { return status.message().find(text) != std::string::npos; }

class LostTask : public testing::TestWithParam<const char*> {
 protected:
  Session Client(const Processes& tasks, Graph& g, SessionOptions options = {}) {
    options.master = tasks.address(0);
    auto session = Session::Create(TheRuntime(), g, options);
    EXPECT_TRUE(session.ok()) << session.status();
    if (!session.ok()) std::abort();  // NOLINT: nothing can be tested without one
    return std::move(*session);
  }
  const Tensor one_ = *Tensor::From(std::vector<float>{1}, Shape{1});
};
INSTANTIATE_TEST_SUITE_P(Over, LostTask, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LostTask);

// ---- A step that was given up ----

TEST_P(LostTask, AGivenUpStepHoldsUpThoseThatShareItsStateAlone) {
  const Processes tasks(GetParam(), {{"worker", 2}},
                        {"--threads=1", std::string("--plugin=") + TENON_TEST_ENDLESS_PLUGIN});
  ASSERT_TRUE(tasks.ok());
  const std::string near = "/job:worker/task:0", far = "/job:worker/task:1";
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1});
  const auto variable = [&](const std::string& task, const std::string& name) {
    return On(g, task, "VarHandleOp", {}, name, {{"dtype", DType::kFloat}, {"shape", Shape{1}}});
  };
  const Output mine = variable(far, "mine"), other = variable(far, "other");
  const auto assign = [&](const Output& to, const Output& value, const std::string& name) {
    const auto on = g.Device(far);
    return g.AddNode("AssignVariableOp", {to, value}, {{"dtype", DType::kFloat}}, name);
  };
  const Operation init = assign(mine, g.Const({1.0f}), "init"),
                  init_other = assign(other, g.Const({2.0f}), "init_other");
  const Output endless = On(g, far, "Relu", {x}, "endless");
  const Operation writes = assign(mine, endless, "writes");
  const Output read_mine = On(g, far, "ReadVariableOp", {mine}, "read_mine", {{"dtype", DType::kFloat}}),
               read_other = On(g, far, "ReadVariableOp", {other}, "read_other", {{"dtype", DType::kFloat}});
  const Output quick = On(g, near, "Neg", {x}, "quick"), quick_there = On(g, far, "Neg", {x}, "quick_there");
  const Output draws =
      On(g, far, "RandomUniform", {g.Const(std::vector<int32_t>{1}, Shape{1})}, "draws", {{"dtype", DType::kFloat}});
  const Session session = Client(tasks, g);
  ASSERT_TRUE(session.RunTargets({init, init_other}).ok());
  // Without state: it runs on there for ever, and nobody need mind.
  const Status without = RunOne(session, {{x, one_}}, {endless}, std::chrono::milliseconds(300));
  ASSERT_EQ(without.code(), Code::kDeadlineExceeded) << without;
  for (const auto& [fetch, feeds] : std::vector<std::pair<Output, std::vector<Feed>>>{
           {quick, {{x, one_}}}, {quick_there, {{x, one_}}}, {read_mine, {}}, {read_other, {}}, {draws, {}}}) {
    const Status status = RunOne(session, feeds, {fetch});
    EXPECT_TRUE(status.ok()) << fetch.name() << ": " << status;
  }
  // With state: whoever uses that waits, for as long as it has patience itself; all others go on beside it.
  const Status with = RunOne(session, {{x, one_}}, {}, std::chrono::milliseconds(300), {writes});
  ASSERT_EQ(with.code(), Code::kDeadlineExceeded) << with;
  std::thread patient([&] {
    const Status status = RunOne(session, {}, {read_mine}, std::chrono::seconds(1));
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status;
  });
  const Status waits = RunOne(session, {}, {read_mine}, std::chrono::milliseconds(300));
  EXPECT_EQ(waits.code(), Code::kDeadlineExceeded) << waits;
  EXPECT_TRUE(Says(waits, tasks.NameOf(1))) << waits;
  EXPECT_TRUE(Says(waits, "whether step ")) << waits;
  EXPECT_TRUE(Says(waits, "which was given up, is over")) << waits;
  for (int i = 0; i < 3; ++i)
    for (const auto& [fetch, feeds] : std::vector<std::pair<Output, std::vector<Feed>>>{
             {quick, {{x, one_}}}, {quick_there, {{x, one_}}}, {read_other, {}}, {draws, {}}}) {
      const Status status = RunOne(session, feeds, {fetch});
      EXPECT_TRUE(status.ok()) << fetch.name() << ": " << status;
    }
  patient.join();
  tasks.Signal(1, SIGKILL);  // which would not end with its session
}

// ---- A task that says nothing any more ----

// Through the parameter server to a worker, and back.
struct Towers {
  explicit Towers(Graph& g) {
    x = g.Placeholder("x", DType::kFloat, Shape{1});
    const Output v = On(g, "/job:ps/task:0", "VarHandleOp", {}, "v",
                        {{"dtype", DType::kFloat}, {"shape", Shape{1}}, {"shared_name", "towers"}});
    const auto on = g.Device("/job:ps/task:0");
    init = g.AddNode("AssignVariableOp", {v, g.Const({3.0f})}, {{"dtype", DType::kFloat}}, "init");
    for (int k = 0; k < 2; ++k) {
      const std::string number = std::to_string(k);
      const Output value = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read" + number);
      towers.push_back(On(g, "/job:worker/task:" + number, "Mul", {value, x}, "tower" + number));
    }
  }
  Output x;
  Operation init;
  std::vector<Output> towers;
};

// Longer than a transport waits of itself (gRPC: 3 s), and not as long as the session does. A step that lasts meanwhile
// ends well.
TEST_P(LostTask, IsNotOneThatIsSilentForLessThanTheSessionsPatience) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  Graph g(TheRuntime());
  const Towers t(g);
  SessionOptions options;
  options.silence_timeout = std::chrono::seconds(60);
  const Session session = Client(tasks, g, options);
  ASSERT_TRUE(session.RunTargets({t.init}).ok());
  for (const Output& tower : t.towers) ASSERT_TRUE(RunOne(session, {{t.x, one_}}, {tower}).ok());
  tasks.Signal(2, SIGSTOP);
  Status meanwhile;
  std::thread step([&] { meanwhile = RunOne(session, {{t.x, one_}}, {t.towers[1]}); });
  std::this_thread::sleep_for(GetParam() == std::string("grpc") ? std::chrono::seconds(4) : std::chrono::seconds(1));
  tasks.Signal(2, SIGCONT);
  step.join();
  EXPECT_TRUE(meanwhile.ok()) << meanwhile;
  for (const Output& tower : t.towers) {
    const Status after = RunOne(session, {{t.x, one_}}, {tower});
    EXPECT_TRUE(after.ok()) << after;
  }
}

TEST_P(LostTask, FreezesAndDiesAndTheOthersGoOn) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
    ASSERT_TRUE(tasks.ok());
    Graph g(TheRuntime());
    const Towers t(g);
    SessionOptions options;
    options.silence_timeout = std::chrono::milliseconds(1500);
    const Session session = Client(tasks, g, options);
    ASSERT_TRUE(session.RunTargets({t.init}).ok());
    for (const Output& tower : t.towers) ASSERT_TRUE(RunOne(session, {{t.x, one_}}, {tower}).ok());
    tasks.Signal(2, signal);
    Status others;
    std::atomic<bool> stop{false};
    int ran = 0;
    std::thread goes_on([&] {  // also while it is found out
      do {
        others = RunOne(session, {{t.x, one_}}, {t.towers[0]});
        ++ran;
      } while (!stop && others.ok());
    });
    const Status lost = RunOne(session, {{t.x, one_}}, {t.towers[1]});
    stop = true;
    goes_on.join();
    EXPECT_EQ(lost.code(), Code::kUnavailable) << lost;
    EXPECT_TRUE(Says(lost, tasks.NameOf(2))) << lost;
    EXPECT_TRUE(signal == SIGKILL || Says(lost, "it has not answered for 1500 ms")) << lost;
    EXPECT_TRUE(others.ok()) << others;
    EXPECT_TRUE(signal == SIGKILL || ran > 1) << "a step of others waited until it was found out";
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(RunOne(session, {{t.x, one_}}, {t.towers[0]}).ok());
      EXPECT_EQ(RunOne(session, {{t.x, one_}}, {t.towers[1]}).code(), Code::kUnavailable) << "its state may be gone";
    }
    if (signal == SIGSTOP) tasks.Signal(2, SIGCONT);
  }
}

TEST_P(LostTask, ASessionUsesTheTasksThatItsFiltersLeave) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  tasks.Signal(2, SIGSTOP);
  Graph g(TheRuntime());
  const Towers t(g);
  SessionOptions all;
  all.master = tasks.address(0);
  all.connect_timeout = std::chrono::milliseconds(500);
  const Status cannot = Session::Create(TheRuntime(), g, all).status();
  EXPECT_TRUE(Says(cannot, tasks.NameOf(2))) << cannot;
  for (const char* filters :
       {"/job:ps,/job:worker/task:0", "/job:ps/replica:0/task:0/device:CPU:0,/job:worker/replica:0/task:0",
        "/job:chief,/job:ps,/job:worker/task:0/cpu:*"}) {
    SessionOptions options;
    options.device_filters = filters;
    const Session session = Client(tasks, g, options);
    ASSERT_EQ(session.Tasks()->size(), 2u);
    ASSERT_TRUE(session.RunTargets({t.init}).ok());
    const Status status = RunOne(session, {{t.x, one_}}, {t.towers[0]});
    EXPECT_TRUE(status.ok()) << status;
    const Status filtered = RunOne(session, {{t.x, one_}}, {t.towers[1]});
    EXPECT_EQ(filtered.code(), Code::kNotFound) << filtered;
    EXPECT_TRUE(Says(filtered, "/job:worker/task:1")) << filtered;
  }
  for (const auto& [filters, word] :
       std::map<std::string, std::string>{{"/job:nobody", "leaves no task of the cluster"},
                                          {"/job:ps/task:x", "is no device name"},
                                          {"/job:ps/device:GPU:0", "has no device"}}) {
    SessionOptions options = all;
    options.device_filters = filters;
    const Status status = Session::Create(TheRuntime(), g, options).status();
    EXPECT_TRUE(Says(status, word) && Says(status, "device_filters")) << status;
  }
  SessionOptions local;
  local.device_filters = "/job:ps";
  EXPECT_TRUE(Says(Session::Create(TheRuntime(), g, local).status(),
                   "'device_filters' is for sessions whose steps run on a cluster"));
  tasks.Signal(2, SIGCONT);
}

// The first of the given tasks need not be there.
TEST_P(LostTask, AnyOfTheGivenTasksTellsOfTheCluster) {
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  tasks.Kill(2);
  Graph g(TheRuntime());
  const Towers t(g);
  SessionOptions options;
  options.master = tasks.address(2) + "," + tasks.address(1);
  options.device_filters = "/job:ps,/job:worker/task:0";
  options.connect_timeout = std::chrono::seconds(6);
  const auto session = Session::Create(TheRuntime(), g, options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->RunTargets({t.init}).ok());
  EXPECT_TRUE(RunOne(*session, {{t.x, one_}}, {t.towers[0]}).ok());
}

}  // namespace
}  // namespace tenon::engine
