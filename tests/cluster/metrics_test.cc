// SPDX-License-Identifier: Apache-2.0
// What tasks say of themselves, scraped over HTTP from real processes: exact counts of steps, messages and bytes.
// Covers C9, H4, I4.
#include <filesystem>
#include <future>
#include <memory>

#include "tests/cluster/counting.h"
#include "tests/cluster/scrape.h"

namespace tenon::engine {
namespace {

const std::vector<std::string> kOptions = {"--threads=1", "--metrics=127.0.0.1:0"};

std::string Message(const std::string& way, const std::string& method, const std::string& peer) {
  return "tenon_worker_" + way + "_messages_total{method=\"" + method + "\",peer=\"" + peer + "\"}";
}
std::string Bytes(const std::string& way, const std::string& method, const std::string& peer) {
  return "tenon_worker_" + way + "_bytes_total{method=\"" + method + "\",peer=\"" + peer + "\"}";
}
std::string Steps(const std::string& outcome) { return "tenon_worker_steps_total{outcome=\"" + outcome + "\"}"; }

// What each sample grew by.
Samples Growth(const Samples& before, const Samples& after) {
  Samples growth;
  for (const auto& [name, value] : after) growth[name] = value - (before.contains(name) ? before.at(name) : 0);
  return growth;
}

class MetricsTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, MetricsTest, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MetricsTest);

TEST_P(MetricsTest, AStepIsOneRequestAndOneReplyAWorkerAndEachMessageIsCounted) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, kOptions);
  ASSERT_TRUE(tasks.ok());
  std::vector<Scraper> scrapers;
  for (size_t i = 0; i < tasks.size(); ++i) scrapers.emplace_back(tasks, i);
  const Counting counting;
  auto session = counting.Connect(tasks);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"reset"}).ok());
  ASSERT_TRUE(Add(*session).ok());
  std::vector<Samples> before, growth;
  for (const Scraper& scraper : scrapers) before.push_back(scraper.Scrape());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Add(*session).ok());
  for (size_t i = 0; i < tasks.size(); ++i) growth.push_back(Growth(before[i], scrapers[i].Scrape()));
  for (Samples& task : growth) {
    EXPECT_EQ(task[Steps("ok")], 100);
    EXPECT_EQ(task[Steps("failed")] + task[Steps("cancelled")], 0);
    EXPECT_EQ(task[Message("received", "run", "master")], 100);
    EXPECT_EQ(task[Message("sent", "run", "master")], 100);
    for (const char* once : {"hello", "open", "part", "close", "unknown"})
      EXPECT_EQ(task[Message("received", once, "master")], 0) << once;
    EXPECT_GT(task[Bytes("received", "run", "master")], 100);
  }
  // The ones go from worker 0, which is fed, to worker 1, and on to the parameter server, and no other way.
  const std::string ps = "/job:ps/replica:0/task:0", first = "/job:worker/replica:0/task:0",
                    second = "/job:worker/replica:0/task:1";
  EXPECT_EQ(growth[1][Message("sent", "value", second)], 100);
  EXPECT_EQ(growth[2][Message("received", "value", first)], 100);
  EXPECT_EQ(growth[2][Message("sent", "value", ps)], 100);
  EXPECT_EQ(growth[0][Message("received", "value", second)], 100);
  EXPECT_EQ(growth[0][Message("sent", "value", first)] + growth[0][Message("sent", "value", second)], 0);
  EXPECT_EQ(growth[1][Bytes("sent", "value", second)], growth[2][Bytes("received", "value", first)]);
  EXPECT_EQ(growth[2][Bytes("sent", "value", ps)], growth[0][Bytes("received", "value", second)]);
  EXPECT_GE(growth[2][Bytes("sent", "value", ps)], 100 * 8);
  EXPECT_LE(growth[2][Bytes("sent", "value", ps)], 100 * 200);
}

// On one task: a variable of a mebibyte, a read of one that has no value, and a loop that ends when it is told to.
struct Troubled {
  Graph graph{TheRuntime()};
  Troubled() {
    const auto on = graph.Device("/job:worker/task:0");
    const auto variable = [this](const std::string& name) {
      return graph.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{-1}}, {"shared_name", name}}, name);
    };
    graph.AddNode("AssignVariableOp", {variable("large"), graph.Placeholder("values", DType::kFloat, Shape{-1})}, {},
                  "assign");
    graph.Op("ReadVariableOp", {variable("empty")}, {{"dtype", DType::kFloat}}, "bad");
    const Output go = graph.Placeholder("go", DType::kBool, Shape{});
    const auto results = While(
        graph, {go}, {}, [this](const std::vector<Output>& values) { return graph.Op("Identity", {values[0]}); },
        [this](const std::vector<Output>& values) -> std::vector<Output> {
          return {graph.Op("LogicalOr", {values[0], values[0]})};
        });
    graph.Op("Identity", {results[0]}, {}, "ended");
  }
};

TEST_P(MetricsTest, SessionsMemoryErrorsAndOpenStepsAreShown) {
  const Processes tasks(GetParam(), {{"worker", 1}}, kOptions);
  ASSERT_TRUE(tasks.ok());
  const Scraper scraper(tasks, 0);
  const std::string memory = "tenon_worker_memory_bytes{device=\"/job:worker/replica:0/task:0/device:CPU:0\"}";
  Samples before = scraper.Scrape();
  EXPECT_EQ(before["tenon_worker_sessions"], 0);
  EXPECT_EQ(before[memory], 0);
  const Troubled troubled;
  {
    SessionOptions options;
    options.master = tasks.address(0);
    auto session = Session::Create(TheRuntime(), troubled.graph, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ(scraper.Scrape()["tenon_worker_sessions"], 1);
    ASSERT_TRUE(
        session->Run({{"values", *Tensor::From(std::vector<float>(1 << 18), Shape{1 << 18})}}, {}, {"assign"}).ok());
    EXPECT_FALSE(session->Run({}, {"bad"}).ok());
    Samples after = scraper.Scrape();
    EXPECT_EQ(after[Steps("failed")], 1);
    EXPECT_EQ(after["tenon_worker_errors_total{code=\"FAILED_PRECONDITION\"}"], 1);

    auto cancellation = Cancellation::Create();
    ASSERT_TRUE(cancellation.ok());
    RunOptions run;
    run.cancellation = &*cancellation;
    const uint8_t yes = 1;
    auto endless = std::async(std::launch::async, [&] {
      return session->Run({{"go", View(DType::kBool, Shape(), &yes, 1)}}, {"ended"}, {}, run).status();
    });
    const std::string running = "tenon_worker_steps{state=\"running\"}";
    Samples open = scraper.Scrape();
    while (open.contains(running) && open[running] == 0) open = scraper.Scrape();
    EXPECT_EQ(open[running], 1);
    cancellation->Cancel();
    EXPECT_EQ(endless.get().code(), Code::kCancelled);
    // The worker is told of that, and ends the step a moment later.
    while (open.contains(running) && open[running] == 1) open = scraper.Scrape();
    EXPECT_EQ(open[Steps("cancelled")], 1);
  }
  Samples after = scraper.Scrape();
  EXPECT_EQ(after["tenon_worker_sessions"], 0);
  EXPECT_EQ(after["tenon_worker_sessions_opened_total"], 1);
  EXPECT_GE(after[memory], 1 << 20) << "the variable outlives its session";
  EXPECT_LT(after[memory], (1 << 20) + 4096) << "with its record, and nothing else";
  EXPECT_GE(after["tenon_worker_memory_peak_bytes" + memory.substr(memory.find('{'))], 1 << 20);
}

// A variable of one task read by the other: the value, and `many` multiples of it.
TEST_P(MetricsTest, TasksDropThePartsOfWhatNobodyRunsAnyMore) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, kOptions);
  ASSERT_TRUE(tasks.ok());
  const Scraper ps(tasks, 0), worker(tasks, 1);
  constexpr int kMany = 50;
  Graph graph(TheRuntime());
  Output value, fed;
  {
    const auto on = graph.Device("/job:ps/task:0");
    fed = graph.Placeholder("fed", DType::kFloat, Shape{});
    value = graph.Op("Mul", {fed, graph.Const(2.0f)});
  }
  const auto on = graph.Device("/job:worker/task:0");
  for (int i = 0; i < kMany; ++i)
    graph.Op("AddV2", {value, graph.Const(static_cast<float>(i))}, {}, "multiple" + std::to_string(i));
  SessionOptions options;
  options.master = tasks.address(0);
  auto session = Session::Create(TheRuntime(), graph, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const auto parts_at_most = [](const Scraper& scraper, double most) {
    Samples now = scraper.Scrape();
    for (int tries = 0; tries < 1000 && now["tenon_worker_parts"] > most; ++tries)
      now = scraper.Scrape();  // a task is told a moment later
    return now["tenon_worker_parts"];
  };
  const auto kept = session->Prepare({"fed"}, {"multiple7"});
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  const auto run = [](const host::Callable& callable) {
    const float three = 3;
    auto values = callable.Run({View(std::span<const float>(&three, 1), Shape())});
    return values.ok() ? (*values)[0].scalar<float>() : -1;
  };
  {
    std::vector<host::Callable> all;
    for (int i = 0; i < kMany; ++i) {
      auto callable = session->Prepare({"fed"}, {"multiple" + std::to_string(i)});
      ASSERT_TRUE(callable.ok()) << callable.status().message();
      EXPECT_EQ(run(*callable), 6 + static_cast<float>(i));
      all.push_back(std::move(*callable));
    }
    for (const Scraper* scraper : {&ps, &worker}) EXPECT_EQ(scraper->Scrape()["tenon_worker_parts"], kMany + 1);
    auto partial = PartialRun::Setup(*session, {"fed"}, {"multiple1", "multiple2"});
    ASSERT_TRUE(partial.ok()) << partial.status().message();
    const float one = 1;
    const auto first = partial->Run({{"fed", View(std::span<const float>(&one, 1), Shape())}}, {"multiple1"});
    ASSERT_TRUE(first.ok()) << first.status().message();
    EXPECT_EQ((*first)[0].scalar<float>(), 3);
  }
  for (const Scraper* scraper : {&ps, &worker}) EXPECT_EQ(parts_at_most(*scraper, 1), 1);
  EXPECT_EQ(run(*kept), 13) << "what is still there runs on";
}

TEST_P(MetricsTest, HostileRequestsDisturbNeitherTheTaskNorItsMetrics) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, kOptions);
  ASSERT_TRUE(tasks.ok());
  const Scraper scraper(tasks, 0);
  const Counting counting;
  auto session = counting.Connect(tasks);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"reset"}).ok());
  const std::vector<std::string> requests = {"",
                                             "\r\n\r\n",
                                             "GET",
                                             "GET /metrics HTTP/9.9\r\n\r\n",
                                             "GET /../../etc/passwd HTTP/1.1\r\n\r\n",
                                             "POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\nx",
                                             "PUT /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                                             "GET /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
                                             std::string(1000, '\0'),
                                             "GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n",
                                             "GET /metrics HTTP/1.1\r\n" + std::string(50000, 'b') + ": c\r\n\r\n",
                                             std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8)};
  std::vector<std::unique_ptr<Telephone>> open;  // that say something and then nothing more
  for (int round = 0; round < 10; ++round)
    for (const std::string& request : requests) {
      const Telephone telephone(scraper.port());
      (void)telephone.Say(request);
      if (round == 0) open.push_back(std::make_unique<Telephone>(scraper.port()));
      if (round == 0) (void)open.back()->Say(request);
      ASSERT_TRUE(Add(*session).ok());
    }
  Samples after = scraper.Scrape();
  EXPECT_EQ(after[Steps("ok")], 10.0 * static_cast<double>(requests.size()) + 1);
  EXPECT_NE(scraper.Get().find("200 OK"), std::string::npos);
  auto value = session->Run({}, {"read"});
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ((*value)[0].scalar<int64_t>(), 10 * static_cast<int64_t>(requests.size()));
}

TEST_P(MetricsTest, TrainingSaysNowAndThenWhatEachTaskDoes) {
  const std::string folder = "/tmp/tenon_test_lines_" + std::to_string(getpid());
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 2}}, {"--threads=1", "--files=" + folder});
  ASSERT_TRUE(tasks.ok());
  const std::string command =
      TENON_PROGRAM " train digits --restart --threads=1 --steps=20 --folder=" + folder + " --cluster=" + tasks.file();
  std::FILE* said = popen(command.c_str(), "r");
  ASSERT_NE(said, nullptr);
  std::map<std::string, int> lines;
  for (char line[4096]; std::fgets(line, sizeof(line), said) != nullptr;)
    if (const std::string text(line); text.starts_with("  /job:") && text.find(" MB held  heard ") != std::string::npos)
      ++lines[text.substr(2, text.find("  ", 2) - 2)];
  EXPECT_EQ(pclose(said), 0);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(lines, (std::map<std::string, int>{
                       {"/job:ps/task:0", 11}, {"/job:worker/task:0", 11}, {"/job:worker/task:1", 11}}));
}

TEST(Metrics, ArePlaintextOffLoopbackOnlyWhenThatIsAskedForByName) {
  const Processes refused("shm", {{"worker", 1}}, {"--metrics=0.0.0.0:0"});
  EXPECT_FALSE(refused.ok());
  const Processes allowed("shm", {{"worker", 1}}, {"--metrics=0.0.0.0:0", "--metrics-plaintext"});
  ASSERT_TRUE(allowed.ok());
  EXPECT_TRUE(Scraper(allowed, 0).Scrape().contains("tenon_worker_uptime_seconds"));
}

}  // namespace
}  // namespace tenon::engine
