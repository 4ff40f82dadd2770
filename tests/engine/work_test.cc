// SPDX-License-Identifier: Apache-2.0
// Kernels of a stranger that call functions, wait for sockets and work in the background, with no thread of their own
// (tests/fakes/work_plugin.cc).
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "tests/engine/engine.h"
#include "tests/fakes/work_control.h"

namespace tenon::engine::work_test {
namespace {

Runtime& WorkRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugins = {TENON_TEST_WORK_PLUGIN};
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}
const tenon_test_work& Control() {
  WorkRuntime();
  static const tenon_test_work* const control = fakes::WorkControl(TENON_TEST_WORK_PLUGIN);
  EXPECT_NE(control, nullptr);
  return *control;
}

Result<std::vector<Tensor>> RunGraph(const Graph& graph, const std::vector<Feed>& feeds,
                                     const std::vector<Name>& fetches, SessionOptions options = {},
                                     RunOptions run = {}) {
  auto session = Session::Create(WorkRuntime(), graph, options);
  if (!session.ok()) return session.status();
  return session->Run(feeds, fetches, {}, run);
}

Output Text(Graph& graph, const std::string& text) { return graph.StringConst(text); }

// x * x + 1, of one value.
Function SquareAndOne(Graph& graph, const std::string& name = "square_and_one") {
  return Define(graph, name,
                [](Graph& body, const std::vector<Output>& x) {
                  return body.Op("AddV2", {body.Op("Square", {x[0]}), body.Const(1.0f)});
                },
                {DType::kFloat});
}

TEST(Functions, AKernelMapsOneOverElementsInBothExecutors) {
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    Graph graph(WorkRuntime());
    const Output x = graph.Placeholder("x", DType::kFloat, Shape::Unknown());
    const Output y = graph.Op("TestMap", {x}, {{"f", SquareAndOne(graph)}});
    ASSERT_TRUE(graph.status().ok()) << graph.status().message();
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(WorkRuntime(), graph, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    for (int step = 0; step < 3; ++step) {
      auto values = session->Run({{x, TensorOf(DType::kFloat, {3, 2}, {1, 2, 3, 4, 5, 6})}}, {y});
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ(DoublesOf((*values)[0]), (std::vector<double>{2, 5, 10, 17, 26, 37}));
    }
  }
}

TEST(Functions, StateIsTheSessionsAndRandomOpsGoOn) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, {4});
  const Function noise =
      Define(graph, "noise",
             [](Graph& body, const std::vector<Output>& v) {
               return body.Op("AddV2",
                              {v[0], body.Op("RandomUniform", {body.Op("Shape", {v[0]})},
                                             {{"dtype", DType::kFloat}, {"seed", int64_t{7}}, {"seed2", int64_t{9}}})});
             },
             {DType::kFloat});
  const Output y = graph.Op("TestNest", {x}, {{"f", noise}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(WorkRuntime(), graph);
  ASSERT_TRUE(session.ok());
  const Tensor zeros = TensorOf(DType::kFloat, {4}, {0, 0, 0, 0});
  const auto first = session->Run({{x, zeros}}, {y}), second = session->Run({{x, zeros}}, {y});
  ASSERT_TRUE(first.ok() && second.ok()) << first.status().message() << second.status().message();
  EXPECT_NE(DoublesOf((*first)[0]), DoublesOf((*second)[0])) << "the generator began anew";
}

TEST(Functions, ThreadsOfStepsCallOneFunctionAtOnce) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, {64});
  const Output y = graph.Op("TestMap", {x}, {{"f", SquareAndOne(graph)}});
  auto session = Session::Create(WorkRuntime(), graph);
  ASSERT_TRUE(session.ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int step = 0; step < 50; ++step) {
        auto values = session->Run({{x, TensorOf(DType::kFloat, {64}, std::vector<double>(64, t))}}, {y});
        ASSERT_TRUE(values.ok()) << values.status().message();
        EXPECT_EQ(DoublesOf((*values)[0]), std::vector<double>(64, t * t + 1));
      }
    });
  for (auto& thread : threads) thread.join();
}

// Of f(x), whose results are to go into memory of that shape: how many did, and their values.
struct PlacedResults {
  int placed = -1;
  std::vector<std::vector<double>> values;
};
Result<PlacedResults> Place(Graph& graph, const Function& f, int64_t count, const std::vector<double>& x,
                            const Shape& dims, int64_t past = 0, const std::string& fault = "",
                            uint32_t executor = TENON_EXECUTOR_AUTO) {
  const Output feed = graph.Placeholder("", DType::kFloat, Shape::Unknown());
  const Operation y =
      graph.Op("TestPlaced", {feed}, {{"f", f}, {"N", count}, {"dims", dims}, {"past", past}, {"fault", fault}});
  if (!graph.status().ok()) return graph.status();
  SessionOptions options;
  options.executor = executor;
  std::vector<Name> fetches;
  for (int i = 0; i <= count; ++i) fetches.push_back(y.output(i));
  auto fetched =
      RunGraph(graph, {{feed, TensorOf(DType::kFloat, {static_cast<int64_t>(x.size())}, x)}}, fetches, options);
  if (!fetched.ok()) return fetched.status();
  PlacedResults results;
  for (int64_t i = 0; i < count; ++i) results.values.push_back(DoublesOf((*fetched)[static_cast<size_t>(i)]));
  results.placed = static_cast<int>(DoublesOf(fetched->back())[0]);
  return results;
}

TEST(Functions, ResultsLieWhereTheCallerWantsThem) {
  std::vector<double> x(4096), wanted;
  for (size_t i = 0; i < x.size(); ++i) wanted.push_back((x[i] = static_cast<double>(i % 64)) * x[i] + 1);
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    for (const int64_t past : {0, 4, 60}) {
      for (const size_t size : {x.size(), size_t{3}, size_t{1}}) {
        Graph graph(WorkRuntime());
        const std::vector<double> some(x.begin(), x.begin() + static_cast<int64_t>(size));
        const auto placed =
            Place(graph, SquareAndOne(graph), 1, some, {static_cast<int64_t>(size)}, past, "", executor);
        ASSERT_TRUE(placed.ok()) << placed.status().message();
        EXPECT_EQ(placed->placed, 1) << past << " " << size;
        EXPECT_EQ(placed->values[0], std::vector<double>(wanted.begin(), wanted.begin() + static_cast<int64_t>(size)));
      }
    }
  }
}

TEST(Functions, ResultsThatDoNotFitTheirPlaceComeInBuffers) {
  const std::vector<double> x(2048, 3);
  for (const Shape& dims : {Shape{2047}, Shape{2048, 1}, Shape{}, Shape{0}}) {
    Graph graph(WorkRuntime());
    const auto placed = Place(graph, SquareAndOne(graph), 1, x, dims);
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    EXPECT_EQ(placed->placed, 0) << "of rank " << dims.rank();
    EXPECT_EQ(placed->values[0], std::vector<double>(2048, 10));
  }
  Graph graph(WorkRuntime());
  const auto without = Place(graph, SquareAndOne(graph), 1, x, {2048}, 0, "none");
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ(without->placed, 0);
}

// One value twice, the argument itself, a constant, a view of what is made: whatever a body's results are, each lies in
// a place of its own.
TEST(Functions, EachResultLiesInAPlaceOfItsOwn) {
  const std::vector<double> x(2048, 3);
  Graph graph(WorkRuntime());
  const Function f = Define(graph, "many", [](Graph& body, const std::vector<Output>& v) {
    const Output square = body.Op("Square", {v[0]});
    const Output constant = body.Op("Fill", {body.Const<int32_t>({2048}), body.Const(7.0f)});
    const Output negative = body.Op("Neg", {square});  // in place of the square, if it may
    const Output viewed = body.Op("Reshape", {negative, body.Const<int32_t>({2048})});
    return std::vector<Output>{square, square, v[0], constant, viewed, negative};
  }, {DType::kFloat});
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    const auto placed = Place(graph, f, 6, x, {2048}, 0, "", executor);
    ASSERT_TRUE(placed.ok()) << placed.status().message();
    EXPECT_EQ(placed->placed, 6);
    const double wanted[] = {9, 9, 3, 7, -9, -9};
    for (size_t i = 0; i < 6; ++i) EXPECT_EQ(placed->values[i], std::vector<double>(2048, wanted[i])) << i;
  }
}

TEST(Functions, APlaceThatIsNoMemoryForAResultNamesThePlugin) {
  for (const char* fault : {"rank", "string", "bytes", "memory"}) {
    Graph graph(WorkRuntime());
    const auto placed = Place(graph, SquareAndOne(graph), 1, {1, 2}, {2}, 0, fault);
    ASSERT_FALSE(placed.ok()) << fault;
    EXPECT_EQ(placed.status().code(), Code::kInternal);
    EXPECT_NE(placed.status().message().find("'tenon.test.work' 0.1.0 called call_into with a place for result 0"),
              std::string::npos)
        << placed.status().message();
  }
}

TEST(Functions, AFailureInsideNamesTheFunctionAndItsNode) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape::Unknown());
  const Function wrong = Define(graph, "wrong", [](Graph& body, const std::vector<Output>& v) {
    return body.Op("Reshape", {v[0], body.Const<int32_t>({7})}, {}, "seven");
  }, {DType::kFloat});
  const Output y = graph.Op("TestNest", {x}, {{"f", wrong}}, "outer");
  const auto values = RunGraph(graph, {{x, TensorOf(DType::kFloat, {2}, {1, 2})}}, {y});
  ASSERT_FALSE(values.ok());
  for (const char* part : {"'outer'", "function 'wrong'", "seven"})
    EXPECT_NE(values.status().message().find(part), std::string::npos) << values.status().message();
}

TEST(Functions, ACallOfTheWrongTypesIsRefused) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape::Unknown());
  const Function two = Define(graph, "two",
                              [](Graph& body, const std::vector<Output>& v) {
                                return body.Op("AddV2", {v[0], v[1]});
                              },
                              {DType::kFloat, DType::kFloat});
  const Function whole =
      Define(graph, "whole", [](Graph& body, const std::vector<Output>& v) { return body.Op("Square", {v[0]}); },
             {DType::kInt32});
  const Tensor value = TensorOf(DType::kFloat, {2}, {1, 2});
  const auto counted = RunGraph(graph, {{x, value}}, {graph.Op("TestNest", {x}, {{"f", two}})});
  ASSERT_FALSE(counted.ok());
  EXPECT_NE(counted.status().message().find("function 'two' has 2 arguments, the call 1"), std::string::npos)
      << counted.status().message();
  const auto typed = RunGraph(graph, {{x, value}}, {graph.Op("TestNest", {x}, {{"f", whole}})});
  ASSERT_FALSE(typed.ok());
  EXPECT_NE(typed.status().message().find("must be int32, found float"), std::string::npos) << typed.status().message();
}

// Kernels that call kernels: each level is a step in a step.
TEST(Functions, CallsThatLieTooDeepInOneAnotherAreRefused) {
  Graph graph(WorkRuntime());
  Function inner = SquareAndOne(graph, "level_0");
  for (int level = 1; level <= 40; ++level)
    inner = Define(graph, "level_" + std::to_string(level),
                   [&](Graph& body, const std::vector<Output>& v) {
                     return body.Op("TestNest", {v[0]}, {{"f", inner}});
                   },
                   {DType::kFloat});
  const Output x = graph.Placeholder("x", DType::kFloat, {1});
  const Output deep = graph.Op("TestNest", {x}, {{"f", inner}}),
               shallow = graph.Op("TestNest", {x}, {{"f", Function{"level_20"}}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  const Tensor one = TensorOf(DType::kFloat, {1}, {1});
  const auto refused = RunGraph(graph, {{x, one}}, {deep});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), Code::kResourceExhausted) << refused.status().message();
  const auto fine = RunGraph(graph, {{x, one}}, {shallow});
  ASSERT_TRUE(fine.ok()) << fine.status().message();
  EXPECT_EQ(DoublesOf((*fine)[0]), (std::vector<double>{2}));
}

TEST(Functions, AMissingOneIsNamed) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, {1});
  const Output y = graph.Op("TestNest", {x}, {{"f", Function{"nowhere"}}});
  if (graph.status().ok()) {
    const auto values = RunGraph(graph, {{x, TensorOf(DType::kFloat, {1}, {1})}}, {y});
    ASSERT_FALSE(values.ok());
    EXPECT_NE(values.status().message().find("no function 'nowhere'"), std::string::npos) << values.status().message();
  } else {
    EXPECT_NE(graph.status().message().find("nowhere"), std::string::npos) << graph.status().message();
  }
}

TEST(Functions, TheStepsDeadlineEndsACall) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, {1});
  const Function waits = Define(
      graph, "waits",
      [](Graph& body, const std::vector<Output>& v) {
        const Output queue = body.Op(
            "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}, {"shared_name", "empty"}});
        const Operation take =
            body.AddNode("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}});
        return body.Op("AddV2", {v[0], take.output(0)});
      },
      {DType::kFloat});
  const Output y = graph.Op("TestNest", {x}, {{"f", waits}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().message();
  RunOptions run;
  run.timeout = std::chrono::milliseconds(50);
  const auto values = RunGraph(graph, {{x, TensorOf(DType::kFloat, {1}, {1})}}, {y}, {}, run);
  ASSERT_FALSE(values.ok());
  EXPECT_EQ(values.status().code(), Code::kDeadlineExceeded) << values.status().message();
}

// ---- A socket ----

// Listens at a Unix socket; answers each request, one after the other, with it in upper case.
class Server {
 public:
  explicit Server(int exchanges) : path_(testing::TempDir() + "tenon_work_" + std::to_string(getpid())) {
    unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(socket_, 8), 0);
    thread_ = std::thread([this, exchanges] {
      for (int i = 0; i < exchanges; ++i) Answer();
    });
  }
  ~Server() {
    thread_.join();
    close(socket_);
    unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  void Answer() const {
    const int peer = accept(socket_, nullptr, nullptr);
    std::string text;
    char bytes[256];
    for (ssize_t got = 0; (got = read(peer, bytes, sizeof(bytes))) > 0;) text.append(bytes, static_cast<size_t>(got));
    for (char& c : text) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(write(peer, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(peer);
  }
  const std::string path_;
  int socket_ = -1;
  std::thread thread_;
};

TEST(Descriptors, AnOpOfTheNetworkNeedsNoThread) {
  const Server server(3);
  Graph graph(WorkRuntime());
  std::vector<Name> fetches;
  for (const char* request : {"first", "second", "third"})
    fetches.push_back(graph.Op("TestAsk", {Text(graph, server.path()), Text(graph, request)}));
  const auto values = RunGraph(graph, {}, fetches);
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ((*values)[0].string(0), "FIRST");
  EXPECT_EQ((*values)[1].string(0), "SECOND");
  EXPECT_EQ((*values)[2].string(0), "THIRD");
}

TEST(Descriptors, NobodyThereAndTooLateAreErrors) {
  Graph graph(WorkRuntime());
  const auto nobody = RunGraph(graph, {}, {graph.Op("TestAsk", {Text(graph, "/nowhere"), Text(graph, "x")})});
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.status().code(), Code::kUnavailable);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  // A socket that listens and never answers.
  const std::string path = testing::TempDir() + "tenon_silent_" + std::to_string(getpid());
  unlink(path.c_str());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, path.size());
  const int silent = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(silent, 8), 0);
  const Output ask = graph.Op("TestAsk", {Text(graph, path), Text(graph, "x")}, {{"timeout_ms", int64_t{20}}});
  const auto late = RunGraph(graph, {}, {ask});
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.status().code(), Code::kDeadlineExceeded) << late.status().message();
  // The step's own deadline ends the wait too.
  RunOptions run;
  run.timeout = std::chrono::milliseconds(20);
  const Output patient = graph.Op("TestAsk", {Text(graph, path), Text(graph, "x")});
  const auto given_up = RunGraph(graph, {}, {patient}, {}, run);
  ASSERT_FALSE(given_up.ok());
  EXPECT_EQ(given_up.status().code(), Code::kDeadlineExceeded) << given_up.status().message();
  for (const int end : {silent, ends[0], ends[1]}) close(end);
  unlink(path.c_str());
}

TEST(Descriptors, WhatAKernelLeavesBehindIsDropped) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, {1});
  testing::internal::CaptureStderr();
  const auto values =
      RunGraph(graph, {{x, TensorOf(DType::kFloat, {1}, {3})}}, {graph.Op("TestLeaves", {x}, {}, "leaves")});
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_NE(log.find("plugin 'tenon.test.work' 0.1.0: node 'leaves' was done while 1 things that it had scheduled"),
            std::string::npos)
      << log;
}

// ---- In the background ----

class Sources : public testing::Test {
 protected:
  // f(i) = i * i + 1.
  Output Make(int64_t ahead = 3, const std::string& container = "") {
    const Function f = Define(graph_, "f", [](Graph& body, const std::vector<Output>& i) {
      const Output x = body.Op("Cast", {i[0]}, {{"DstT", DType::kFloat}});
      return body.Op("AddV2", {body.Op("Square", {x}), body.Const(1.0f)});
    }, {DType::kInt64});
    const Output source =
        graph_.Op("TestSource", {}, {{"f", f}, {"ahead", ahead}, {"container", container}, {"shared_name", "numbers"}});
    return graph_.Op("TestNext", {source});
  }
  Graph graph_{WorkRuntime()};
};

TEST_F(Sources, WorkBetweenStepsAndEndWithTheirSession) {
  const Output next = Make();
  ASSERT_TRUE(graph_.status().ok()) << graph_.status().message();
  const int64_t before = Control().calls_ahead(), live = Control().live_sources();  // others, in named containers
  {
    auto session = Session::Create(WorkRuntime(), graph_);
    ASSERT_TRUE(session.ok());
    for (int i = 0; i < 20; ++i) {
      auto values = session->Run({}, {next});
      ASSERT_TRUE(values.ok()) << values.status().message();
      EXPECT_EQ(DoublesOf((*values)[0])[0], i * i + 1);
    }
    // It goes on between steps, and no farther than it may.
    while (Control().calls_ahead() < before + 23) std::this_thread::yield();
    EXPECT_EQ(Control().live_sources(), live + 1);
  }
  EXPECT_EQ(Control().live_sources(), live);
  EXPECT_LE(Control().calls_ahead(), before + 24);
}

TEST_F(Sources, ThreadsTakeEachValueOnce) {
  const Output next = Make(8);
  auto session = Session::Create(WorkRuntime(), graph_);
  ASSERT_TRUE(session.ok());
  std::mutex mutex;
  std::vector<double> taken;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        auto values = session->Run({}, {next});
        ASSERT_TRUE(values.ok()) << values.status().message();
        std::lock_guard lock(mutex);
        taken.push_back(DoublesOf((*values)[0])[0]);
      }
    });
  for (auto& thread : threads) thread.join();
  std::sort(taken.begin(), taken.end());
  ASSERT_EQ(taken.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(taken[i], i * i + 1);
}

TEST_F(Sources, OneInASharedContainerIsServedByWhoAsksNext) {
  static int times = 0;  // the container outlives the sessions, and the test when it is repeated
  const std::string container = "shared_by_sessions_" + std::to_string(times++);
  const Output next = Make(2, container);
  std::vector<double> taken;
  for (int round = 0; round < 3; ++round) {
    auto session = Session::Create(WorkRuntime(), graph_);
    ASSERT_TRUE(session.ok());
    for (int i = 0; i < 3; ++i) {
      auto values = session->Run({}, {next});
      if (round == 0) {
        ASSERT_TRUE(values.ok()) << values.status().message();
        taken.push_back(DoublesOf((*values)[0])[0]);
      }
    }
  }
  EXPECT_EQ(taken, (std::vector<double>{1, 2, 5}));
}

TEST_F(Sources, ASessionThatClosesEndsAStepThatWaitsForOne) {
  const Function waits = Define(
      graph_, "waits",
      [](Graph& body, const std::vector<Output>&) {
        const Output queue = body.Op(
            "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}, {"shared_name", "empty"}});
        return body.AddNode("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}})
            .output(0);
      },
      {DType::kInt64});
  const Output next = graph_.Op("TestNext", {graph_.Op("TestSource", {}, {{"f", waits}})});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status().message();
  const int64_t live = Control().live_sources();
  std::optional<Session> session = *Session::Create(WorkRuntime(), graph_);
  auto callable = session->Prepare({}, {next});
  ASSERT_TRUE(callable.ok()) << callable.status().message();
  Status ended;
  std::thread step([&] { ended = callable->Run(std::vector<View>()).status(); });
  while (Control().live_sources() == live) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  session.reset();
  step.join();
  EXPECT_EQ(ended.code(), Code::kCancelled) << ended.message();
}

// ---- Tuning ----

int32_t Tries(Session& session, const Output& x, const Output& tries, int64_t size) {
  auto values =
      session.Run({{x, TensorOf(DType::kFloat, {size}, std::vector<double>(static_cast<size_t>(size), 1))}}, {tries});
  EXPECT_TRUE(values.ok()) << values.status().message();
  return values.ok() ? Values<int32_t>((*values)[0])[0] : -1;
}

TEST(Tuning, WhatOneKernelFoundOutAnotherKnows) {
  Graph graph(WorkRuntime());
  const Output x = graph.Placeholder("x", DType::kFloat, Shape::Unknown());
  const Output a = graph.Op("TestTuned", {x}), b = graph.Op("TestTuned", {x}, {}, "b");
  auto session = Session::Create(WorkRuntime(), graph), later = Session::Create(WorkRuntime(), graph);
  ASSERT_TRUE(session.ok() && later.ok());
  EXPECT_EQ(Tries(*session, x, a, 3), 1);
  EXPECT_EQ(Tries(*session, x, a, 4), 1);
  EXPECT_EQ(Tries(*later, x, b, 3), 1);
}

TEST(Tuning, AFolderCarriesItFromRuntimeToRuntime) {
  const std::string folder = testing::TempDir() + "tenon_tuning_folder_" + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  const auto tries = [&](const std::string& in) {
    RuntimeOptions options;
    options.plugins = {TENON_TEST_WORK_PLUGIN};
    options.tuning_folder = in;
    auto runtime = Runtime::Create(options);
    EXPECT_TRUE(runtime.ok()) << runtime.status().message();
    Graph graph(*runtime);
    const Output x = graph.Placeholder("x", DType::kFloat, {3});
    const Output found = graph.Op("TestTuned", {x});
    auto session = Session::Create(*runtime, graph);
    EXPECT_TRUE(session.ok());
    return Tries(*session, x, found, 3);
  };
  const int32_t first = tries(folder);
  EXPECT_EQ(tries(folder), first);
  EXPECT_EQ(tries(""), first + 1) << "who has no folder finds out for itself";
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  RuntimeOptions open_to_all;
  open_to_all.tuning_folder = folder;
  EXPECT_EQ(Runtime::Create(open_to_all).status().code(), Code::kFailedPrecondition);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tenon::engine::work_test
