// SPDX-License-Identifier: Apache-2.0
// Variables under updates: concurrent ones, updates of rows, failed ones. Covers D1, D2, D3, D4, D5, D7.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <thread>

#include "tests/engine/engine.h"

namespace tenon::engine::variable_test {
namespace {

struct Counter {
  explicit Counter(int64_t rows) : graph(TheRuntime()) {
    const Shape shape{rows, 4};
    handle = graph.Op("VarHandleOp", {}, {{"dtype", DType::kDouble}, {"shape", shape}, {"shared_name", "v"}}, "v");
    zeros = *Tensor::Zeros(DType::kDouble, shape);
    init = graph.AddNode("AssignVariableOp", {handle, graph.Const(View(zeros))}, {}, "init");
    value = graph.Op("ReadVariableOp", {handle}, {{"dtype", DType::kDouble}}, "value");
  }
  Graph graph;
  Output handle, value;
  Tensor zeros;
  Operation init;
};

TEST(Variable, LosesNoUpdateOfConcurrentSteps) {
  Counter counter(3);
  Graph& g = counter.graph;
  g.AddNode("AssignAddVariableOp", {counter.handle, g.Op("OnesLike", {g.Const(View(counter.zeros))})}, {}, "add");
  g.AddNode("ResourceScatterAdd", {counter.handle, g.Const({0, 2}), g.Const(1.0)}, {}, "scatter");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  constexpr int kThreads = 4, kSteps = 500;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kSteps; ++i) {
        const auto status = session->Run({}, {}, {t % 2 == 0 ? "add" : "scatter"}).status();
        EXPECT_TRUE(status.ok()) << status.message();
      }
    });
  for (std::thread& thread : threads) thread.join();
  auto values = session->Run({}, {"value:0"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  const auto got = Values<double>((*values)[0]);
  constexpr double kEach = kThreads / 2 * kSteps;
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i / 4 == 1 ? kEach : 2 * kEach) << i;
}

// Updates without a lock, of steps that run at once: some may be lost, no value is torn, and with the lock none is
// lost.
TEST(Variable, UnlockedUpdatesRaceAndLockedOnesDoNot) {
  for (const bool locked : {false, true}) {
    Graph g(TheRuntime());
    const Output variable =
        g.Op("VariableV2", {}, {{"dtype", DType::kDouble}, {"shape", Shape{64}}, {"shared_name", std::string("racy")}},
             "racy");
    g.AddNode("Assign", {variable, g.Const(std::vector<double>(64, 0.0), {64})}, {}, "init");
    g.AddNode("AssignAdd", {variable, g.Const(std::vector<double>(64, 1.0), {64})}, {{"use_locking", locked}}, "add");
    g.Op("Identity", {variable}, {}, "value");
    ASSERT_TRUE(g.status().ok()) << g.status();
    auto session = Session::Create(TheRuntime(), g);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
    constexpr int kThreads = 4, kSteps = 500;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < kSteps; ++i) EXPECT_TRUE(session->Run({}, {}, {"add"}).ok());
      });
    for (std::thread& thread : threads) thread.join();
    auto values = session->Run({}, {"value:0"});
    ASSERT_TRUE(values.ok()) << values.status();
    for (const double value : Values<double>((*values)[0])) {
      EXPECT_EQ(value, static_cast<double>(static_cast<int64_t>(value)));
      EXPECT_LE(value, kThreads * kSteps);
      EXPECT_GE(value, locked ? kThreads * kSteps : kSteps) << "what one thread alone does is done";
    }
  }
}

// Two graphs in two sessions, which know one another by a container and a name.
TEST(Variable, OfAContainerIsSharedByGraphsThatHaveNothingElseInCommon) {
  const Attrs shared = {{"dtype", DType::kFloat},
                        {"shape", Shape{2}},
                        {"container", std::string("of_two")},
                        {"shared_name", std::string("meeting")}};
  Graph writer(TheRuntime()), reader(TheRuntime());
  writer.AddNode("AssignVariableOp", {writer.Op("VarHandleOp", {}, shared, "here"), writer.Const({3.0f, 4.0f})}, {},
                 "write");
  const Output read =
      reader.Op("ReadVariableOp", {reader.Op("VarHandleOp", {}, shared, "there")}, {{"dtype", DType::kFloat}}, "read");
  auto writes = Session::Create(TheRuntime(), writer), reads = Session::Create(TheRuntime(), reader);
  ASSERT_TRUE(writes.ok() && reads.ok());
  EXPECT_FALSE(reads->Run({}, {read}).ok()) << "nothing is there yet";
  ASSERT_TRUE(writes->Run({}, {}, {"write"}).ok());
  const auto values = reads->Run({}, {read});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{3, 4}));
}

// TensorFlow's process dies of an integer that is divided by 0.
TEST(Variable, RowsThatCannotBeDividedStayAsTheyWere) {
  Graph g(TheRuntime());
  const Output variable = g.Op(
      "VariableV2", {}, {{"dtype", DType::kInt32}, {"shape", Shape{3}}, {"shared_name", std::string("rows")}}, "rows");
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  g.AddNode("Assign", {variable, g.Const({kLeast, 7, -9})}, {}, "init");
  g.AddNode("ScatterDiv", {variable, g.Const({1, 0}), g.Placeholder("divisors", DType::kInt32, {2})}, {}, "divide");
  g.AddNode("ScatterNdAdd", {variable, g.Placeholder("places", DType::kInt32, {2, 1}), g.Const({7, 0})}, {}, "add");
  g.Op("Identity", {variable}, {}, "value");
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  const auto value = [&] { return Values<int32_t>((*session->Run({}, {"value:0"}))[0]); };
  const auto pair = [](int32_t a, int32_t b, const Shape& shape) {
    return View(*Tensor::From(std::vector<int32_t>{a, b}, shape));
  };
  const Status by_zero = session->Run({{"divisors", pair(7, 0, {2})}}, {}, {"divide"}).status(),
               outside = session->Run({{"places", pair(1, 3, {2, 1})}}, {}, {"add"}).status();
  EXPECT_NE(by_zero.message().find("Integer division by zero"), std::string::npos) << by_zero;
  EXPECT_NE(outside.message().find("does not index into shape"), std::string::npos) << outside;
  EXPECT_EQ(value(), (std::vector<int32_t>{kLeast, 7, -9}));
  ASSERT_TRUE(session->Run({{"divisors", pair(2, -1, {2})}}, {}, {"divide"}).ok());
  EXPECT_EQ(value(), (std::vector<int32_t>{kLeast, 3, -9})) << "the quotient that does not fit wraps";
}

// Pages of a value that are written, each found by its first write: they are read-only until then.
class WrittenPages {
 public:
  // Of the whole pages in these bytes.
  WrittenPages(const void* data, uint64_t bytes) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE)), at = reinterpret_cast<uintptr_t>(data);
    page_ = page;
    begin_ = (at + page - 1) / page * page;
    end_ = (at + bytes) / page * page;
    count_ = 0;
    struct sigaction action = {};
    action.sa_sigaction = Found;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before_);
    EXPECT_EQ(mprotect(reinterpret_cast<void*>(begin_), end_ - begin_, PROT_READ), 0);
  }
  ~WrittenPages() {
    mprotect(reinterpret_cast<void*>(begin_), end_ - begin_, PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before_, nullptr);
  }
  WrittenPages(const WrittenPages&) = delete;
  WrittenPages& operator=(const WrittenPages&) = delete;
  static int count() { return count_; }
  static uint64_t all() { return (end_ - begin_) / page_; }

 private:
  static void Found(int, siginfo_t* info, void*) {
    const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
    if (at < begin_ || at >= end_) std::abort();  // NOLINT: another fault
    ++count_;
    mprotect(reinterpret_cast<void*>(at / page_ * page_), page_, PROT_READ | PROT_WRITE);
  }
  static inline uintptr_t begin_, end_, page_;
  static inline std::atomic<int> count_;
  struct sigaction before_ = {};
};

TEST(Variable, TakesRowsInPlace) {
  constexpr int64_t kRows = 100000;
  constexpr uint64_t kBytes = kRows * 4 * sizeof(double);
  Counter counter(kRows);
  Graph& g = counter.graph;
  g.AddNode("ResourceScatterAdd", {counter.handle, g.Const({7, 50000}), g.Const(1.0)}, {}, "scatter");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  SessionOptions options;
  options.share_state = true;
  auto session = Session::Create(TheRuntime(), g, options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  options.watch = true;
  auto watching = Session::Create(TheRuntime(), g, options);
  ASSERT_TRUE(watching.ok()) << watching.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  const uint64_t before = session->Metrics()->bytes_in_use;
  ASSERT_GE(before, kBytes);
  ASSERT_TRUE(session->Run({}, {}, {"scatter"}).ok());
  // Where the value lies, as a kernel that reads it sees.
  const auto address = [&] {
    const char* data = nullptr;
    RunOptions looking;
    looking.watch = [&](const Watched& made) {
      if (made.node == "value") data = static_cast<const char*>(made.value.dl.data);
      return Status();
    };
    const auto values = watching->Run({}, {"value:0"}, {}, looking);
    EXPECT_TRUE(values.ok()) << values.status();
    return data;
  };
  const char* const at = address();
  ASSERT_NE(at, nullptr);
  {
    const WrittenPages pages(at, kBytes);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->Run({}, {}, {"scatter"}).ok());
    EXPECT_EQ(WrittenPages::count(), 2) << "of " << WrittenPages::all() << ": those of the two rows";
  }
  EXPECT_EQ(address(), at) << "the value lies elsewhere";
  EXPECT_LT(session->Metrics()->peak_bytes, before + kBytes / 2) << "a second copy of the variable was made";
  const auto values = session->Run({}, {"value:0"});
  const auto got = Values<double>((*values)[0]);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], i / 4 == 7 || i / 4 == 50000 ? 4.0 : 0.0) << i;
}

TEST(Variable, KeepsItsValueWhenAnUpdateIsRefused) {
  Counter counter(3);
  Graph& g = counter.graph;
  g.AddNode("ResourceScatterAdd", {counter.handle, g.Const({0, 9}), g.Const(1.0)}, {}, "scatter");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  const auto refused = session->Run({}, {}, {"scatter"}).status();
  EXPECT_EQ(refused.code(), Code::kInvalidArgument) << refused.message();
  EXPECT_NE(std::string(refused.message()).find("scatter"), std::string::npos) << refused.message();
  auto values = session->Run({}, {"value:0"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  for (double x : Values<double>((*values)[0])) EXPECT_EQ(x, 0.0);
}

TEST(Variable, ThatIsAReferenceTakesAValueWhoseShapeTheStepFinds) {
  Graph g(TheRuntime());
  const Output ref = g.Op("VariableV2", {}, {{"shape", Shape{2}}, {"dtype", DType::kFloat}}, "ref");
  const Output x = g.Placeholder("x", DType::kFloat, {-1});
  g.AddNode("Assign", {ref, g.AddNode("Unique", {x}).output(0)}, {}, "assign");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<float> fits = {3, 3, 5}, does_not = {3, 4, 5};
  ASSERT_TRUE(session->Run({{"x", View(fits, {3})}}, {}, {"assign"}).ok());
  const auto refused = session->Run({{"x", View(does_not, {3})}}, {}, {"assign"}).status();
  EXPECT_NE(std::string(refused.message()).find("[2] and [3]"), std::string::npos) << refused.message();
  auto values = session->Run({}, {"ref:0"});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{3, 5}));
}

// The handle goes through the loop's entry; what it refers to is known all the same.
TEST(Variable, GivesRowsInALoopWhoseShapesChange) {
  Counter counter(3);
  Graph& g = counter.graph;
  const Output ones = g.Const({1.0, 1.0, 1.0, 1.0}), rows = g.Op("Reshape", {ones, g.Const({1, 4})}, {}, "rows");
  g.AddNode("ResourceScatterAdd", {counter.handle, g.Const({2}), rows}, {}, "scatter");
  const Output grown = g.Placeholder("start", DType::kDouble, Shape{-1, 4});
  const std::vector<Output> out = While(
      g, {g.Const(0), grown}, {counter.handle},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(3)});
      },
      [&](const auto& v) {
        const Output next =
            g.Op("ResourceGather", {v[2], g.Op("Reshape", {v[0], g.Const({1})})}, {{"dtype", DType::kDouble}});
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("ConcatV2", {v[1], next, g.Const(0)})};
      });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
    ASSERT_TRUE(session->Run({}, {}, {"scatter"}).ok());
    auto values = session->Run({{"start:0", *Tensor::Zeros(DType::kDouble, Shape{0, 4})}}, {out[1]});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(Values<double>((*values)[0]), (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1}));
  }
}

// What enters an update of a reference is a cell; the variable's shape is its own.
TEST(Variable, TakesRowsByReferenceWhoseNumberIsFoundInTheStep) {
  Graph g(TheRuntime());
  const Output variable =
      g.Op("VariableV2", {}, {{"dtype", DType::kDouble}, {"shape", Shape{3, 2}}, {"shared_name", "r"}}, "r");
  const Tensor zeros = *Tensor::Zeros(DType::kDouble, Shape{3, 2});
  g.AddNode("Assign", {variable, g.Const(View(zeros))}, {}, "init");
  const Output rows = g.Op("Unique", {g.Placeholder("x", DType::kInt32, Shape{-1})});
  const Output ones = g.Op("Fill", {g.Op("ConcatV2", {g.Op("Shape", {rows}), g.Const({2}), g.Const(0)}), g.Const(1.0)});
  const Output after = g.Op("Identity", {g.Op("ScatterAdd", {variable, rows, ones})});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE(session->Run({}, {}, {"init"}).ok());
  auto values = session->Run({{"x:0", *Tensor::From(std::vector<int32_t>{2, 0, 2}, Shape{3})}}, {after});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<double>((*values)[0]), (std::vector<double>{1, 1, 0, 0, 1, 1}));
}

TEST(Variable, IsWrittenAndDifferentiatedThroughAnIdentityOfItsReference) {
  Graph g(TheRuntime());
  const Output ref = g.Op("VariableV2", {}, {{"shape", Shape{2}}, {"dtype", DType::kFloat}}, "ref");
  const Output same = g.Op("RefIdentity", {ref}, {}, "same");
  g.AddNode("Assign", {same, g.Const(std::vector<float>{3, 4}, {2})}, {}, "assign");
  const Output square = g.Op("Square", {same}, {}, "square");
  const std::vector<Gradient> gradients = g.Gradients({square}, {ref});
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  for (const auto executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    EXPECT_EQ(session->Run({}, {square}).status().code(), Code::kFailedPrecondition);
    ASSERT_TRUE(session->RunTargets({"assign"}).ok());
    const auto values = session->Run({}, {square, gradients[0].dense});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{9, 16}));
    EXPECT_EQ(Values<float>((*values)[1]), (std::vector<float>{6, 8}));
  }
}

// Ways to run a step, which must not show: both executors, as written or optimized, compiled or not, and in a part for
// each of three devices.
std::vector<std::pair<std::string, SessionOptions>> WaysToRun() {
  std::vector<std::pair<std::string, SessionOptions>> ways(6);
  ways[0].first = "as it comes";
  ways[1].first = "dynamic", ways[1].second.executor = TENON_EXECUTOR_DYNAMIC;
  ways[2].first = "not optimized", ways[2].second.optimize = false;
  ways[3].first = "not compiled", ways[3].second.compile = false;
  ways[4].first = "in any order", ways[4].second.executor = TENON_EXECUTOR_DYNAMIC,
  ways[4].second.debug.schedule_seed = 7;
  ways[5].first = "in parts", ways[5].second.debug.partition = true;
  return ways;
}

Runtime& RuntimeOfThreeDevices() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.tpu_sim", "devices", "2"}, {"tenon.tpu_sim", "precision", "exact"}};
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

// Runs `fetch` once after `init`, in every way, on the CPU alone and beside simulated TPUs.
template <typename Build>
void ExpectInEveryWay(const std::string& what, const std::vector<double>& want, const Build& build) {
  for (Runtime* runtime : {&TheRuntime(), &RuntimeOfThreeDevices()}) {
    Graph g(*runtime);
    const Output fetch = build(g);
    ASSERT_TRUE(g.status().ok()) << what << g.status().message();
    for (const auto& [way, options] : WaysToRun()) {
      auto session = Session::Create(*runtime, g, options);
      ASSERT_TRUE(session.ok()) << session.status().message();
      ASSERT_TRUE(session->RunTargets({"init"}).ok());
      const auto got = session->Run({}, {fetch});
      ASSERT_TRUE(got.ok()) << what << ", " << way << ": " << got.status().message();
      EXPECT_EQ(DoublesOf((*got)[0]), want) << what << ", " << way;
    }
  }
}

// A variable of zeros, what reads it before anything else happens, and what adds 1 to it or makes it 1.
struct Reference {
  Reference(Graph& g, DType dtype, Shape shape, const std::string& update) {
    int64_t count = 1;
    for (int64_t dim : shape.dims()) count *= dim;
    const auto filled = [&](double value) {
      return g.Const(View(TensorOf(dtype, shape, std::vector<double>(static_cast<size_t>(count), value))));
    };
    variable = g.Op("VariableV2", {}, {{"shape", shape}, {"dtype", dtype}}, "v");
    g.AddNode("Assign", {variable, filled(0)}, {}, "init");
    read = g.Op("Identity", {variable}, {}, "v/read");
    up = g.AddNode(update, {variable, filled(1)}, {}, "up");
  }
  Output variable, read;
  Operation up;
};

// As in TensorFlow, where a value that was read is the variable's memory. Of integers too, which are not written in
// place here.
TEST(Variable, ThatIsReadBeforeItIsWrittenShowsToWhatComesAfterThat) {
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kFloat, DType::kDouble}) {
    for (const std::string update : {"AssignAdd", "Assign"}) {
      const std::string what = std::string(DTypeName(dtype)) + ", " + update;
      ExpectInEveryWay(what, {2, 2, 2}, [&](Graph& g) {
        const Reference v(g, dtype, {3}, update);
        const auto after = g.ControlDependencies({v.up});
        return g.Op("Add", {g.Op("Cast", {v.read}, {{"DstT", DType::kDouble}}), g.Const(1.0)});
      });
      ExpectInEveryWay(what + ", passed on twice", {1}, [&](Graph& g) {
        const Reference v(g, dtype, {}, update);
        const Output again = g.Op("Identity", {g.Op("StopGradient", {v.read})});
        const auto after = g.ControlDependencies({v.up});
        return g.Op("Square", {again});
      });
      ExpectInEveryWay(what + ", used before as well", {10}, [&](Graph& g) {
        const Reference v(g, dtype, {}, "AssignAdd");
        const Output before = g.Op("Cast", {v.read}, {{"DstT", DType::kDouble}});
        const auto then = g.ControlDependencies({before});
        const Operation up = g.AddNode("AssignAdd", {v.variable, g.Const(View(TensorOf(dtype, {}, {9})))});
        const auto after = g.ControlDependencies({up, v.up});
        return g.Op("Add", {g.Op("Cast", {v.read}, {{"DstT", DType::kDouble}}), g.Op("Mul", {before, g.Const(0.0)})});
      });
    }
  }
}

TEST(Variable, ThatIsReadBeforeItIsWrittenShowsInBranches) {
  for (const DType dtype : {DType::kInt32, DType::kFloat}) {
    ExpectInEveryWay(DTypeName(dtype), {5}, [&](Graph& g) {
      const Reference v(g, dtype, {}, "AssignAdd");
      const Operation branch = g.AddNode("Switch", {v.read, g.Const(true)});
      Output used;
      {
        const auto after = g.ControlDependencies({v.up});
        used = g.Op("Add", {branch.output(1), g.Const(View(TensorOf(dtype, {}, {4})))});
      }
      return g.Op("Merge", {g.Op("Neg", {branch.output(0)}), used});
    });
  }
}

// A named container outlives its sessions; the memory is the device's, which the plugin brings.
// The value that enters the loop is read in each turn, after the turn's own update.
TEST(Variable, ThatIsReadBeforeALoopShowsWhatItsTurnsWrite) {
  for (const DType dtype : {DType::kInt32, DType::kInt64, DType::kFloat}) {
    ExpectInEveryWay(DTypeName(dtype), {1 + 2 + 3}, [&](Graph& g) {
      const Reference v(g, dtype, {}, "AssignAdd");
      const Output one = g.Const(View(TensorOf(dtype, {}, {1}))), none = g.Const(View(TensorOf(dtype, {}, {0})));
      const Output variable =
          g.Op("RefEnter", {v.variable}, {{"frame_name", "while"}, {"is_constant", true}, {"parallel_iterations", 10}});
      const auto turn = [&](const std::vector<Output>& values) {
        const auto in_turn = g.ControlDependencies({values[1]});
        const Operation up = g.AddNode("AssignAdd", {variable, values[3]});
        const auto after = g.ControlDependencies({up});
        return std::vector<Output>{g.Op("AddV2", {values[0], g.Const(1)}), g.Op("AddV2", {values[1], values[2]})};
      };
      return While(
          g, {g.Const(0), none}, {v.read, one},
          [&](const auto& values) {
            return g.Op("Less", {values[0], g.Const(3)});
          },
          turn)[1];
    });
  }
}

TEST(Variable, OfANamedContainerGoesBeforeItsDevice) {
  auto runtime = Runtime::Create();
  ASSERT_TRUE(runtime.ok());
  const Attrs named = {{"dtype", DType::kFloat}, {"shape", Shape{3}}, {"container", "kept"}, {"shared_name", "v"}};
  const auto run = [&](const char* op, bool has_value) {
    Graph g(*runtime);
    const Output handle = g.Op("VarHandleOp", {}, named);
    std::vector<Output> inputs = {handle};
    if (has_value) inputs.push_back(g.Const(std::vector<float>{1, 2, 3}, {3}));
    g.AddNode(op, inputs, {}, "change");
    auto session = Session::Create(*runtime, g);
    return session.ok() ? session->RunTargets({"change"}) : session.status();
  };
  ASSERT_TRUE(run("AssignVariableOp", true).ok());
  const Status refused = runtime->UnloadPlugin("tenon.cpu");
  EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
  EXPECT_NE(refused.message().find("1 kernels of sessions, open files or named variables"), std::string::npos)
      << refused.message();
  ASSERT_TRUE(run("DestroyResourceOp", false).ok());
  const Status unloaded = runtime->UnloadPlugin("tenon.cpu");
  EXPECT_TRUE(unloaded.ok()) << unloaded.message();

  runtime = Runtime::Create();
  ASSERT_TRUE(run("AssignVariableOp", true).ok());
  runtime = Status(Code::kCancelled, "released with the variable in it");
}

// The graph's error, and no kernel's, whichever way the handle comes to the reader.
TEST(Variable, IsReadAsWhatItIsAlone) {
  Graph g(TheRuntime());
  const Output handle =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2}}, {"shared_name", "typed"}});
  g.AddNode("AssignVariableOp", {handle, g.Const({1.0f, 2.0f})}, {}, "init");
  const Output other =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kInt32}, {"shape", Shape{2}}, {"shared_name", "typed"}});
  g.Op("ReadVariableOp", {other}, {{"dtype", DType::kInt32}}, "read");
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(session->RunTargets({"init"}).ok());
    const Status status = session->Run({}, {"read:0"}).status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status;
    EXPECT_NE(status.message().find("(VarHandleOp)"), std::string::npos) << status;
    EXPECT_NE(
        status.message().find("float variable 'typed' is asked for as a int32 variable; give one of them another name"),
        std::string::npos)
        << status;
  }
}

}  // namespace
}  // namespace tenon::engine::variable_test
