// SPDX-License-Identifier: Apache-2.0
// Clusters of real processes, over each transport that is built: steps, tasks that are killed or frozen, and what goes
// on afterwards. Covers G9, I1 to I4, J1, J2.
#include <chrono>
#include <random>
#include <thread>

#include "tests/cluster/counting.h"
#include "tests/cluster/program.h"

namespace tenon::engine {
namespace {

class ProcessTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, ProcessTest, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProcessTest);

TEST_P(ProcessTest, RunStepsTogether) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  const Counting counting;
  auto session = counting.Connect(tasks);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"reset"}).ok());
  for (int i = 0; i < 200; ++i) {
    const Status status = Add(*session);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  auto value = session->Run({}, {"read"});
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ((*value)[0].scalar<int64_t>(), 200);
}

TEST_P(ProcessTest, LargeValuesCross) {
  const Processes tasks(GetParam(), {{"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{-1});
  Output y;
  {
    const auto on = g.Device("/job:worker/task:1");
    y = g.Op("Neg", {x}, {}, "y");
  }
  {
    const auto on = g.Device("/job:worker/task:0");
    y = g.Op("Neg", {y}, {}, "z");
  }
  SessionOptions options;
  options.master = tasks.address(0);
  auto session = Session::Create(TheRuntime(), g, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  for (const int64_t count : {1 << 22, 3, (1 << 22) + 1}) {
    std::vector<float> values(static_cast<size_t>(count));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000003);
    auto found = session->Run({{x, *Tensor::From(values, Shape{count})}}, {y});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(Values<float>((*found)[0]), values);
  }
}

TEST_P(ProcessTest, TheCommandsNameADeviceOfTheCluster) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  const std::string stem = "/tmp/tenon_test_device_" + std::to_string(getpid()), graph = stem + ".pb",
                    output = stem + ".out", errors = stem + ".err";
  Graph g(TheRuntime());
  g.Op("Neg", {g.Op("Fill", {g.Const(std::vector<int32_t>{2}, Shape{1}), g.Const(3.0f)})}, {}, "y");
  std::ofstream(graph) << *g.Export();
  const auto run = [&](const std::string& command, const std::string& device) {
    return Program(
               {command, graph, "--fetch=y", "--master=" + tasks.address(0), "--device=" + device, "--hard-placement"},
               errors, output)
        .Wait();
  };
  EXPECT_EQ(run("place", "/job:worker/task:1"), 0) << ReadFile(errors);
  EXPECT_NE(ReadFile(output).find("worker/replica:0/task:1/device:CPU:0"), std::string::npos) << ReadFile(output);
  EXPECT_EQ(run("run", "/job:worker/task:1/device:CPU:0"), 0) << ReadFile(errors);
  EXPECT_NE(run("run", "/job:worker/task:7"), 0);
  EXPECT_NE(ReadFile(errors).find("the cluster has no device '/job:worker/task:7'"), std::string::npos)
      << ReadFile(errors);
  for (const std::string& file : {graph, output, errors}) unlink(file.c_str());
}

// One process a task, each told its number by the launcher alone.
TEST(Launchers, MpirunStartsACluster) {
#ifndef TENON_TEST_HAS_shm
  GTEST_SKIP() << "SKIPPED LOUDLY: the transport shm is not built";
#else
  if (std::system("mpirun --version > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "SKIPPED LOUDLY: there is no mpirun here (package openmpi-bin)";
  const std::string own = "tenon_test_mpi_" + std::to_string(getpid());
  const std::string file = "/tmp/" + own + ".json";
  std::ofstream(file) << "{\"ps\": [\"shm://" << own << "_ps\"], \"worker\": [\"shm://" << own << "_w0\", \"shm://"
                      << own << "_w1\"]}";
  const pid_t launcher = fork();
  if (launcher == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("mpirun", "mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3", TENON_PROGRAM, "worker",
           "--cluster", file.c_str(), "--threads=1", nullptr);
    _exit(127);
  }
  const Counting counting;
  SessionOptions options;
  options.master = "shm://" + own + "_w0";
  options.connect_timeout = std::chrono::seconds(1);
  auto session = Session::Create(TheRuntime(), counting.graph, options);
  for (int i = 0; i < 200 && !session.ok(); ++i) {
    usleep(100000);
    session = Session::Create(TheRuntime(), counting.graph, options);
  }
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (session.ok()) {
    EXPECT_TRUE(session->Run({}, {}, {"reset"}).ok());
    const Status status = Add(*session);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  kill(launcher, SIGTERM);
  waitpid(launcher, nullptr, 0);
  unlink(file.c_str());
#endif
}

TEST_P(ProcessTest, ATaskThatIsKilledOrFrozenIsNamedAndANewSessionGoesOn) {
  Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}});
  ASSERT_TRUE(tasks.ok());
  const Counting counting;
  std::mt19937 random(20161102);
  const char* wished = std::getenv("TENON_KILLS");
  const int kills = wished == nullptr ? 4 : std::atoi(wished);
  SessionOptions options;
  options.silence_timeout = std::chrono::milliseconds(1500);
  for (int i = 0; i < kills; ++i) {
    auto session = counting.Connect(tasks, 1, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const size_t victim = random() % tasks.size();
    const bool freeze = i % 2 == 1;
    const int steps = static_cast<int>(random() % 50);
    ASSERT_TRUE(session->Run({}, {}, {"reset"}).ok());
    for (int step = 0; step < steps; ++step) ASSERT_TRUE(Add(*session).ok());
    std::chrono::steady_clock::time_point when;
    std::thread killer([&] {
      when = std::chrono::steady_clock::now();
      tasks.Signal(victim, freeze ? SIGSTOP : SIGKILL);
    });
    Status status;
    while (status.ok()) status = Add(*session);
    const auto took = std::chrono::steady_clock::now();
    killer.join();
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.message();
    EXPECT_NE(status.message().find(tasks.NameOf(victim)), std::string::npos) << status.message();
    RecordProperty(freeze ? "frozen_named_after_ms" : "killed_named_after_ms",
                   static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took - when).count()));
    std::printf("%s %s: named after %d ms\n", freeze ? "frozen" : "killed", tasks.NameOf(victim).c_str(),
                static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(took - when).count()));
    if (freeze) {
      tasks.Signal(victim, SIGCONT);
    } else {
      tasks.Kill(victim);
      ASSERT_TRUE(tasks.Start(victim));
    }
  }
  auto session = counting.Connect(tasks, 2);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"reset"}).ok());
  EXPECT_TRUE(Add(*session).ok());
}

}  // namespace
}  // namespace tenon::engine
