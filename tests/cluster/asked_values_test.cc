// SPDX-License-Identifier: Apache-2.0
// Large values between tasks are asked for when they are soon needed, and stay with their sender until then (option
// receive_window). Covers A5, E2, H9, N3.
#include <chrono>
#include <thread>

#include "tests/cluster/scrape.h"
#include "tests/engine/engine.h"

namespace tenon::engine::asked_values_test {
namespace {

constexpr int kWeights = 40;
constexpr int32_t kSide = 256;                         // floats: a weight is a quarter of a mebibyte
constexpr double kMi = 1 << 20;
constexpr int64_t kRows = 4;
constexpr char kPs[] = "/job:ps/replica:0/task:0", kWorker[] = "/job:worker/replica:0/task:0";

// A parameter server makes forty weights, and a worker reads them in a chain; or only where `taken` says so, or after a
// loop that ends when `go` does.
struct Chain {
  enum class Reads { kAlways, kInABranch, kAfterALoop };
  Graph graph{TheRuntime()};
  explicit Chain(Reads reads) {
    std::vector<Output> weights;
    {
      const auto on = graph.Device("/job:ps/task:0");
      const Output scale = graph.Placeholder("scale", DType::kFloat, Shape{});
      for (int i = 0; i < kWeights; ++i)
        weights.push_back(graph.Op(
            "Fill", {graph.Const({kSide, kSide}),
                     graph.Op("Mul", {scale, graph.Const(*Tensor::Scalar(1.0f + static_cast<float>(i) / 64))})}));
    }
    const auto on = graph.Device("/job:worker/task:0");
    Output x = graph.Placeholder("x", DType::kFloat, Shape{kRows, kSide});
    const auto chain = [this](Output value, const std::vector<Output>& by) {
      for (const Output& weight : by) value = graph.Op("Relu", {graph.Op("MatMul", {value, weight})});
      return value;
    };
    if (reads == Reads::kInABranch) {
      x = Cond(
          graph, graph.Placeholder("taken", DType::kBool, Shape{}), {x},
          [&](const std::vector<Output>& all) -> std::vector<Output> {
            return {chain(all[0], weights)};
          },  // without a Switch of theirs
          [&](const std::vector<Output>& all) -> std::vector<Output> { return {graph.Op("Neg", {all[0]})}; })[0];
    } else {
      if (reads == Reads::kAfterALoop) {
        const Output go = graph.Placeholder("go", DType::kBool, Shape{});
        const auto ended = While(
            graph, {go}, {}, [this](const std::vector<Output>& values) { return graph.Op("Identity", {values[0]}); },
            [this](const std::vector<Output>& values) -> std::vector<Output> {
              return {graph.Op("LogicalOr", {values[0], values[0]})};
            });
        x = graph.Op("AddV2", {x, graph.Op("Cast", {ended[0]}, {{"DstT", DType::kFloat}})});
      }
      x = chain(x, weights);
    }
    graph.Op("Sum", {x, graph.Const({0, 1})}, {}, "y");
  }
  Result<Session> Connect(const Processes& tasks, SessionOptions options = {}) const {
    options.master = tasks.address(0);
    return Session::Create(TheRuntime(), graph, options);
  }
};

Result<float> Step(const Session& session, std::vector<Feed> more = {},
                   std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  RunOptions options;
  options.timeout = timeout;
  more.push_back({"x", *Tensor::From(std::vector<float>(kRows * kSide, 1.0f), Shape{kRows, kSide})});
  more.push_back({"scale", *Tensor::Scalar(1.0f / 512)});
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, session.Run(more, {"y"}, {}, options));
  return values[0].scalar<float>();
}

std::string Messages(const std::string& way, const std::string& peer) {
  return "tenon_worker_" + way + "_messages_total{method=\"value\",peer=\"" + peer + "\"}";
}
std::string Peak(const std::string& task) {
  return "tenon_worker_memory_peak_bytes{device=\"" + task + "/device:CPU:0\"}";
}
constexpr char kRunning[] = "tenon_worker_steps{state=\"running\"}",
               kExpected[] = "tenon_worker_steps{state=\"expected\"}";

class AskedValues : public testing::TestWithParam<const char*> {
 public:
  const std::vector<std::string> options_ = {"--threads=1", "--metrics=127.0.0.1:0"};
  // Both tasks have ended all steps, soon.
  static void ExpectIdle(const Scraper& task) {
    Samples now = task.Scrape();
    for (int i = 0; i < 200 && (now[kRunning] > 0 || now[kExpected] > 0); ++i, now = task.Scrape())
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(now[kRunning], 0);
    EXPECT_EQ(now[kExpected], 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, AskedValues, testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AskedValues);

TEST_P(AskedValues, DoNotPileUpAtTheirReceiver) {
  const Chain chain(Chain::Reads::kAlways);
  struct Way {
    uint64_t window;
    uint32_t executor;
    bool early;
    double most, wishes;
  };
  constexpr int kSteps = 5;
  float expected = 0;
  // The most that is asked for, and what the step itself has: a weight that is read, and small ones.
  for (const Way& way : {Way{UINT64_MAX, TENON_EXECUTOR_AUTO, false, 1e9, 0}, Way{0, TENON_EXECUTOR_AUTO, true, 1e9, 0},
                         Way{0, TENON_EXECUTOR_AUTO, false, 9.5 * kMi, kWeights},
                         Way{1 << 20, TENON_EXECUTOR_AUTO, false, 2.5 * kMi, kWeights},
                         Way{1 << 20, TENON_EXECUTOR_DYNAMIC, false, 2.5 * kMi, kWeights}}) {
    const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, options_);
    ASSERT_TRUE(tasks.ok());
    const Scraper ps(tasks, 0), worker(tasks, 1);
    SessionOptions options;
    options.receive_window = way.window;
    options.executor = way.executor;
    options.debug.early_transfers = way.early;
    auto session = chain.Connect(tasks, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (int step = 0; step < kSteps; ++step) {
      auto sum = Step(*session);
      ASSERT_TRUE(sum.ok()) << sum.status().message();
      if (expected == 0) expected = *sum;
      EXPECT_EQ(*sum, expected);
    }
    Samples of_ps = ps.Scrape(), of_worker = worker.Scrape();
    EXPECT_EQ(of_ps[Messages("sent", kWorker)], kSteps * kWeights);
    EXPECT_EQ(of_worker[Messages("sent", kPs)], kSteps * way.wishes);
    EXPECT_EQ(of_ps[Messages("received", kWorker)], kSteps * way.wishes);
    EXPECT_LT(of_worker[Peak(kWorker)], way.most) << way.window;
    std::printf("%s, window %llu, executor %u%s: the worker's memory %.2f MiB at most\n", GetParam(),
                static_cast<unsigned long long>(way.window), way.executor, way.early ? ", early" : "",
                of_worker[Peak(kWorker)] / kMi);
  }
}

TEST_P(AskedValues, OfABranchAreThereWhicheverIsTaken) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, options_);
  ASSERT_TRUE(tasks.ok());
  const Scraper ps(tasks, 0);
  const Chain chain(Chain::Reads::kInABranch);
  SessionOptions options;
  options.receive_window = 1 << 20;
  auto session = chain.Connect(tasks, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  float taken = 0;
  for (const bool take : {true, false, true, false, false}) {
    auto sum = Step(*session, {{"taken", *Tensor::Scalar(take)}});
    ASSERT_TRUE(sum.ok()) << sum.status().message();
    if (take && taken == 0) taken = *sum;
    EXPECT_EQ(*sum, take ? taken : -static_cast<float>(kRows * kSide));
  }
  ExpectIdle(ps);
}

// The parameter server has made everything and keeps it; what will be asked for is asked for never.
TEST_P(AskedValues, OfAStepThatIsGivenUpAreDropped) {
  const Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, options_);
  ASSERT_TRUE(tasks.ok());
  const Scraper ps(tasks, 0), worker(tasks, 1);
  const Chain chain(Chain::Reads::kAfterALoop);
  auto session = chain.Connect(tasks);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const Feed stop{"go", *Tensor::Scalar(false)}, go{"go", *Tensor::Scalar(true)};
  const auto once = Step(*session, {stop});
  ASSERT_TRUE(once.ok()) << once.status().message();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Step(*session, {go}, std::chrono::milliseconds(300)).status().code(), Code::kDeadlineExceeded);
    const auto again = Step(*session, {stop});
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, *once);
  }
  ExpectIdle(ps);
  ExpectIdle(worker);
}

TEST_P(AskedValues, OfATaskThatIsLostAreDropped) {
  for (const size_t victim : {0, 1}) {
    Processes tasks(GetParam(), {{"ps", 1}, {"worker", 1}}, options_);
    ASSERT_TRUE(tasks.ok());
    const Scraper other(tasks, 1 - victim);
    const Chain chain(Chain::Reads::kAfterALoop);
    auto session = chain.Connect(tasks);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(Step(*session, {{"go", *Tensor::Scalar(false)}}).ok());
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      tasks.Signal(victim, SIGKILL);
    });
    EXPECT_EQ(Step(*session, {{"go", *Tensor::Scalar(true)}}).status().code(), Code::kUnavailable);
    killer.join();
    ExpectIdle(other);
    tasks.Kill(victim);
    ASSERT_TRUE(tasks.Start(victim));
    auto anew = chain.Connect(tasks);
    ASSERT_TRUE(anew.ok()) << anew.status().message();
    const auto sum = Step(*anew, {{"go", *Tensor::Scalar(false)}});
    EXPECT_TRUE(sum.ok()) << sum.status().message();
  }
}

TEST(AskedValuesOption, IsForClusters) {
  const Chain chain(Chain::Reads::kAlways);
  SessionOptions options;
  options.receive_window = 1 << 20;
  const auto session = Session::Create(TheRuntime(), chain.graph, options);
  ASSERT_FALSE(session.ok());
  EXPECT_NE(session.status().message().find("'receive_window' is for sessions whose steps run on a cluster"),
            std::string::npos)
      << session.status().message();
}

}  // namespace
}  // namespace tenon::engine::asked_values_test
