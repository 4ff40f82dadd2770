// SPDX-License-Identifier: Apache-2.0
// Damaged and hostile GraphDefs: truncated, mutated by structure and by byte. Each is refused with a clear status, or
// runs within its limits; never a crash, a hang, a leak or an unbounded allocation. Covers A14.
//
// TENON_MUTATION="graph:number" runs one mutation alone: what a crash or a hang prints.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tenon/train/digits.h"
#include "tests/engine/graph_mutator.h"
#include "tests/engine/random_program_run.h"
#include "tests/fakes/whole.h"

namespace tenon::engine::hostile_graph_test {
namespace {

// A good graph, what it is fed and what can be asked of it.
struct Base {
  std::string name;
  int mutations = 0;
  std::string bytes;
  std::vector<Feed> feeds;
  std::vector<std::string> fetches, targets;
};

std::string Exported(const Graph& graph) {
  auto def = graph.Export();
  EXPECT_TRUE(def.ok()) << def.status();
  return def.ok() ? *def : std::string();
}

// A bit of everything: constants, a product, a convolution, shapes, a loop.
Base SampleGraph() {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, {2, 3});
  const Output w = g.Const(std::vector<float>(12, 0.5f), {3, 4}, "w");
  const Output y = g.Op("MatMul", {x, w}, {}, "y");
  const Output z = g.Op("Reshape", {y, g.Const({4, 2}, "shape")}, {}, "z");
  g.Op("Conv2D", {g.Op("Reshape", {x, g.Const({1, 2, 3, 1})}), g.Const(std::vector<float>(4, 1.0f), {2, 2, 1, 1})},
       {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}}, "conv");
  g.Op("ConcatV2", {z, z, g.Const(0, "axis")}, {}, "concat");
  g.Op("StridedSlice", {z, g.Const({0, 0}), g.Const({2, 2}), g.Const({1, 1})}, {}, "slice");
  While(g, {g.Const(0), z}, {}, [&](const auto& v) { return g.Op("Less", {v[0], g.Const(3)}); },
        [&](const auto& v) { return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Tanh", {v[1]})}; });
  return {"sample",
          16000,
          Exported(g),
          {{x, *Tensor::Zeros(DType::kFloat, {2, 3})}},
          {"concat", "conv", "slice", "while/Exit_1"},
          {}};
}

// Loops in conditionals in loops.
Base ControlGraph(uint32_t seed) {
  const Region program = ProgramMaker(seed, {6, 2, false}).Make();
  Graph g(TheRuntime());
  std::vector<Output> parameters;
  Base base{"control flow " + std::to_string(seed), 4000, {}, {}, {}, {}};
  for (const Plain& plain : RandomParameters(program, seed)) {
    const Shape shape = ShapeOf(plain.type.form);
    parameters.push_back(g.Placeholder("x" + std::to_string(parameters.size()), plain.type.dtype, shape));
    base.feeds.push_back({parameters.back(), TensorOf(plain.type.dtype, shape, plain.elements)});
  }
  const std::vector<Output> values = ProgramBuilder(g).Build(program, parameters);
  for (int result : program.results) base.fetches.push_back(values[static_cast<size_t>(result)].name());
  base.bytes = Exported(g);
  return base;
}

// The gradient of a loop: stacks, and a loop that runs backwards.
Base LoopGradientGraph() {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kDouble, {});
  const std::vector<Output> out = While(
      g, {g.Const(0), x}, {x},
      [&](const auto& v) {
        return g.Op("Less", {v[0], g.Const(3)});
      },
      [&](const auto& v) {
        return std::vector<Output>{g.Op("AddV2", {v[0], g.Const(1)}), g.Op("Mul", {v[1], v[2]})};
      });
  const Output dx = g.Gradients({out[1]}, {x})[0].dense;
  return {"loop gradient", 6000, Exported(g), {{x, *Tensor::Scalar(1.5)}}, {dx.name(), out[1].name()}, {}};
}

Base VariableGraph() {
  Graph g(TheRuntime());
  const Attrs of_float = {{"dtype", DType::kFloat}};
  const Output v =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{4, 2}}, {"shared_name", "v"}}, "v");
  const Output m =
      g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{4, 2}}, {"shared_name", "m"}}, "m");
  const Output x = g.Placeholder("x", DType::kFloat, {4, 2});
  const Operation init = g.AddNode("AssignVariableOp", {v, x}, of_float, "init");
  const Operation init_m = g.AddNode("AssignVariableOp", {m, g.Op("ZerosLike", {x})}, of_float, "init_m");
  const auto order = g.ControlDependencies({init, init_m});
  const Output rows = g.Op("ResourceGather", {v, g.Const({3, 0})}, of_float, "rows");
  const Operation scatter = g.AddNode("ResourceScatterAdd", {v, g.Const({1, 1}), rows}, of_float, "scatter");
  const Operation momentum =
      g.AddNode("ResourceApplyMomentum", {v, m, g.Const(0.1f), x, g.Const(0.9f)}, {{"T", DType::kFloat}}, "momentum");
  const auto later = g.ControlDependencies({scatter, momentum});
  g.Op("ReadVariableOp", {v}, of_float, "read");
  const Output ref = g.Op("VariableV2", {}, {{"shape", Shape{2}}, {"dtype", DType::kFloat}}, "ref");
  const Output assigned = g.Op("Assign", {ref, g.Const({1.0f, 2.0f})}, {}, "assigned");
  g.Op("AssignAdd", {assigned, g.Const({1.0f, 1.0f})}, {}, "counted");
  return {"variables", 8000, Exported(g), {{x, *Tensor::Zeros(DType::kFloat, {4, 2})}}, {"read", "rows", "counted"},
          {"momentum"}};
}

Base StringGraph() {
  Graph g(TheRuntime());
  const Output a = g.StringConst(std::vector<std::string>{"one", "two", ""}, "a");
  const Output b = g.Op("StringJoin", {a, g.StringConst(".")}, {{"separator", "-"}}, "joined");
  g.Op("ShardedFilename", {g.StringConst("file"), g.Const(1), g.Const(3)}, {}, "sharded");
  g.Op("GatherV2", {b, g.Const({2, 0}), g.Const(0)}, {}, "gathered");
  g.Op("ConcatV2", {g.Op("Add", {a, b}), b, g.Const(0)}, {}, "both");
  g.Op("Equal", {a, b}, {}, "equal");
  g.Op("Unique", {g.Op("Tile", {a, g.Const({3})})}, {}, "unique");
  return {"strings", 6000, Exported(g), {}, {"sharded", "gathered", "both", "equal", "unique"}, {}};
}

// ---- Functions: the face makes none, so they are written field by field ----

Field Part(uint32_t number, Kind kind, std::vector<Field> fields) {
  return {number, 2, 0, {}, {{kind, std::move(fields)}}};
}
Field AttrField(const std::string& name, std::vector<Field> value) {
  return Part(5, Kind::kAttrEntry, {wire::Text(1, name), Part(2, Kind::kAttr, std::move(value))});
}
constexpr uint64_t kFloat = 1;
std::vector<Field> Floats(size_t count) {
  return {Part(1, Kind::kList, std::vector<Field>(count, wire::Number(6, kFloat)))};
}
// float -> float, by a call of `function` on `input`.
std::vector<Field> CallFields(const std::string& name, const std::string& function, const std::string& input) {
  return {wire::Text(1, name), wire::Text(2, "PartitionedCall"), wire::Text(3, input), AttrField("Tin", Floats(1)),
          AttrField("Tout", Floats(1)), AttrField("f", {Part(10, Kind::kCall, {wire::Text(1, function)})})};
}
std::vector<Field> AddFields(const std::string& name, const std::string& a, const std::string& b) {
  return {wire::Text(1, name), wire::Text(2, "AddV2"), wire::Text(3, a), wire::Text(3, b),
          AttrField("T", {wire::Number(6, kFloat)})};
}
// y = function(x): the nodes, and the value that is y.
Field FunctionField(const std::string& name, const std::vector<std::vector<Field>>& nodes, const std::string& result) {
  std::vector<Field> fields = {
      Part(1, Kind::kSignature,
           {wire::Text(1, name), Part(2, Kind::kArgument, {wire::Text(1, "x"), wire::Number(3, kFloat)}),
            Part(3, Kind::kArgument, {wire::Text(1, "y"), wire::Number(3, kFloat)})})};
  for (const auto& node : nodes) fields.push_back(Part(3, Kind::kNode, node));
  fields.push_back(Part(4, Kind::kTextEntry, {wire::Text(1, "y"), wire::Text(2, result)}));
  return Part(1, Kind::kFunction, std::move(fields));
}
// A graph that calls `function` on the placeholder x.
std::string CallingGraph(const std::string& function, std::vector<Field> functions) {
  Message graph{Kind::kGraph, {}};
  graph.fields.push_back(
      Part(1, Kind::kNode,
           {wire::Text(1, "x"), wire::Text(2, "Placeholder"), AttrField("dtype", {wire::Number(6, kFloat)}),
            AttrField("shape", {Part(7, Kind::kShape, {})})}));
  graph.fields.push_back(Part(1, Kind::kNode, CallFields("called", function, "x")));
  graph.fields.push_back(Part(2, Kind::kLibrary, std::move(functions)));
  return wire::Write(graph);
}

Base FunctionGraph() {
  const Field twice = FunctionField("twice", {AddFields("sum", "x", "x")}, "sum:z:0");
  const Field more = FunctionField("more",
                                   {CallFields("a", "twice", "x"), CallFields("b", "twice", "a:output:0"),
                                    AddFields("sum", "a:output:0", "b:output:0")},
                                   "sum:z:0");
  return {"functions", 8000, CallingGraph("more", {twice, more}), {{"x", *Tensor::Scalar(1.0f)}}, {"called"}, {}};
}

// The network that `tenon train digits` teaches, with its gradients and updates.
Base DigitsGraph() {
  const auto data = train::DigitData::Load(TENON_TEST_SOURCE_DIR "/sdk/app/train/data/digits.npy");
  EXPECT_TRUE(data.ok()) << data.status();
  Graph g(TheRuntime());
  train::DigitNetwork network(g, *data, {});
  const Operation init = network.model().InitializeAll();
  return {"digits", 1000, Exported(g), {{train::DigitNetwork::kImages, *Tensor::Zeros(DType::kUint8, {2, 8, 8})}},
          {train::DigitNetwork::kAnswers}, {init.name()}};
}

// ---- Trying them ----

// What is being tried, for the eyes of whoever finds a crash.
char g_trying[160];
extern "C" void TellAndDie(int signal) {
  const ssize_t written = write(STDERR_FILENO, g_trying, strlen(g_trying));
  static_cast<void>(written);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// Imports, and runs what can be run, within limits. The answer does not matter; that there is one does. True: it ran.
bool Try(const Base& base, const std::string& bytes, const std::vector<std::string>& more) {
  SessionOptions options;
  options.memory_limit = 64 << 20;
  auto session = Session::Create(TheRuntime(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return false;
  const Status imported = session->Extend(bytes);
  if (!imported.ok()) {
    EXPECT_FALSE(imported.message().empty());
    return false;
  }
  RunOptions run;
  run.timeout = std::chrono::milliseconds(200);
  const auto attempt = [&](const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                           const std::vector<Name>& targets) {
    auto values = session->Run(feeds, fetches, targets, run);
    EXPECT_TRUE(values.ok() || !values.status().message().empty());
    return values.ok();
  };
  bool ran = false;
  for (const std::string& target : base.targets) ran |= attempt(base.feeds, {}, {target});
  for (const std::string& fetch : base.fetches) ran |= attempt(base.feeds, {fetch}, {});
  for (size_t i = 0; i < std::min<size_t>(more.size(), 3); ++i)
    ran |= attempt(i == 0 ? std::vector<Feed>() : base.feeds, {}, {more[i]});
  return ran;
}

// All ops but those that touch files: nothing here may write where it should not.
std::vector<std::string> HarmlessOps() {
  std::vector<std::string> ops;
  for (const tenon_op_info& info : TheRuntime().Ops()) {
    const std::string op(Text(info.name));
    if (op != "SaveV2" && op != "RestoreV2" && op != "MergeV2Checkpoints") ops.push_back(op);
  }
  ops.push_back("NoSuchOp");
  return ops;
}

uint64_t PeakMegabytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) / 1024;
}

void Mutate(const Base& base) {
  GraphMutator mutator(wire::Read(Kind::kGraph, base.bytes), HarmlessOps());
  ASSERT_TRUE(Try(base, base.bytes, {})) << base.name << " does not run undamaged";
  const std::string only = getenv("TENON_MUTATION") == nullptr ? "" : getenv("TENON_MUTATION");
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGINT}) std::signal(signal, TellAndDie);
  const int mutations = fakes::IsWhole() || !only.empty() ? base.mutations : base.mutations / 4;
  int ran = 0, count = 0;
  std::chrono::steady_clock::duration longest{0};
  std::string slowest;
  for (int i = 0; i < mutations; ++i) {
    const std::string name = base.name + ":" + std::to_string(i);
    if (!only.empty() && only != name) continue;
    std::snprintf(g_trying, sizeof(g_trying), "\nTENON_MUTATION=\"%s\"\n", name.c_str());
    std::vector<std::string> nodes;
    const std::string bytes = mutator.Make(static_cast<uint32_t>(i), &nodes);
    const auto begin = std::chrono::steady_clock::now();
    ran += Try(base, bytes, nodes);
    const auto took = std::chrono::steady_clock::now() - begin;
    if (took > longest) slowest = name;
    longest = std::max(longest, took);
    ++count;
    if (testing::Test::HasFailure()) FAIL() << name;
  }
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM, SIGINT}) std::signal(signal, SIG_DFL);
  std::printf("%s: %d mutations, %d ran all the same; the longest took %lld ms (%s); peak memory %llu MB\n",
              base.name.c_str(), count, ran,
              static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(longest).count()),
              slowest.c_str(), static_cast<unsigned long long>(PeakMegabytes()));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(PeakMegabytes(), 1024u) << "a session of 64 MB made the program grow";
#endif
  // The damage must neither all be refused nor all be harmless, or it tests little.
  if (only.empty()) {
    EXPECT_GT(ran, mutations / 50) << base.name;
    EXPECT_LT(ran, mutations * 49 / 50) << base.name;
  }
}

TEST(HostileGraph, IsRefusedOrRunsWhenTruncatedAnywhere) {
  const Base base = SampleGraph();
  for (size_t size = 0; size < base.bytes.size(); size += 7) Try(base, base.bytes.substr(0, size), {});
}

TEST(HostileGraph, IsRefusedOrRunsWhenMutated) { Mutate(SampleGraph()); }
TEST(HostileGraph, OfLoopsAndConditionalsIsRefusedOrRunsWhenMutated) {
  for (uint32_t seed : {4u, 7u}) Mutate(ControlGraph(seed));
}
TEST(HostileGraph, OfALoopsGradientIsRefusedOrRunsWhenMutated) { Mutate(LoopGradientGraph()); }
TEST(HostileGraph, OfVariablesIsRefusedOrRunsWhenMutated) { Mutate(VariableGraph()); }
TEST(HostileGraph, OfStringsIsRefusedOrRunsWhenMutated) { Mutate(StringGraph()); }
TEST(HostileGraph, OfFunctionsIsRefusedOrRunsWhenMutated) { Mutate(FunctionGraph()); }
TEST(HostileGraph, OfANetworkIsRefusedOrRunsWhenMutated) { Mutate(DigitsGraph()); }

TEST(HostileGraph, IsRefusedWhenAFunctionCallsItself) {
  const Base alone{"", 0, {}, {{"x", *Tensor::Scalar(1.0f)}}, {"called"}, {}};
  EXPECT_FALSE(Try(alone, CallingGraph("f", {FunctionField("f", {CallFields("a", "f", "x")}, "a:output:0")}), {}));
  EXPECT_FALSE(Try(alone, CallingGraph("f", {FunctionField("f", {CallFields("a", "g", "x")}, "a:output:0"),
                                             FunctionField("g", {CallFields("a", "f", "x")}, "a:output:0")}), {}));
}

TEST(HostileGraph, IsRefusedWhenItsFunctionsDoubleFortyTimes) {
  std::vector<Field> functions = {FunctionField("f0", {AddFields("sum", "x", "x")}, "sum:z:0")};
  for (int i = 1; i <= 40; ++i) {
    const std::string before = "f" + std::to_string(i - 1);
    functions.push_back(FunctionField(
        "f" + std::to_string(i), {CallFields("a", before, "x"), CallFields("b", before, "a:output:0")}, "b:output:0"));
  }
  const Base alone{"", 0, {}, {{"x", *Tensor::Scalar(1.0f)}}, {"called"}, {}};
  EXPECT_FALSE(Try(alone, CallingGraph("f40", functions), {}));
}

// while (i < 3) { i = i + 1; x = the invariant itself }, with no turn to wait for: each turn of x begins the next.
TEST(HostileGraph, EndsWhenAnInvariantGoesRoundByItself) {
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    Graph g(TheRuntime());
    const auto enter = [&](const Output& value, bool constant) {
      return g.Op("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", constant}});
    };
    const Output zero = enter(g.Const(0), false), one = enter(g.Const(1), true), limit = enter(g.Const(3), true);
    const Output invariant = enter(g.Const(7.0), true), start = enter(g.Const(1.0), false);
    const Output i = g.Op("Merge", {zero, zero}), x = g.Op("Merge", {start, start});
    const Output more = g.Op("LoopCond", {g.Op("Less", {i, limit})});
    const Operation i_gate = g.AddNode("Switch", {i, more}), x_gate = g.AddNode("Switch", {x, more});
    g.SetInput(Operation(i), 1, g.Op("NextIteration", {g.Op("AddV2", {i_gate.output(1), one})}));
    g.SetInput(Operation(x), 1, g.Op("NextIteration", {invariant}));
    const Output last = g.Op("Exit", {x_gate.output(0)});
    SessionOptions options;
    options.executor = executor;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status();
    RunOptions run;
    run.timeout = std::chrono::milliseconds(200);
    auto values = session->Run({}, {last}, {}, run);
    if (values.ok()) {
      EXPECT_EQ(Values<double>((*values)[0])[0], 7.0);
    } else {
      EXPECT_EQ(values.status().code(), Code::kDeadlineExceeded) << values.status();
    }
  }
}

TEST(HostileGraph, NamesTheNodeOfAMissingOpAndOfACycle) {
  Graph g(TheRuntime());
  auto session = Session::Create(TheRuntime(), SessionOptions());
  ASSERT_TRUE(session.ok());
  // node { name: "a" op: "MatMull" }
  ASSERT_TRUE(session->Extend(std::string("\x0a\x0c\x0a\x01" "a\x12\x07" "MatMull", 14)).ok()) << "nobody may want it";
  const Status missing = session->RunTargets({"a"});
  EXPECT_EQ(missing.code(), Code::kNotFound);
  EXPECT_NE(missing.message().find("did you mean 'MatMul'"), std::string::npos) << missing.message();
  EXPECT_NE(missing.message().find("node 'a'"), std::string::npos) << missing.message();
  // Two nodes that wait for each other.
  const Status cycle =
      session->Extend(std::string("\x0a\x0d\x0a\x01"
                                  "p\x12\x04NoOp\x1a\x02^q"
                                  "\x0a\x0d\x0a\x01"
                                  "q\x12\x04NoOp\x1a\x02^p",
                                  30));
  EXPECT_NE(cycle.message().find("cycle"), std::string::npos) << cycle.message();
}

// What shows the same memory as another type is of that type, by both executors: once it was copied by the size of the
// one into memory for the other.
TEST(HostileGraph, AViewOfAnotherTypeIsOfThatType) {
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
  g.Op("Bitcast", {x}, {{"type", DType::kUint64}}, "wide");
  g.Op("Bitcast", {x}, {{"type", DType::kUint8}}, "narrow");
  g.Op("Bitcast", {x}, {{"type", DType::kInt32}}, "same");
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.executor = executor;
    const auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    const auto found = session->Run({{"x", *Tensor::From(std::vector<float>(128, 1.0f), Shape{4, 4, 4, 2})}},
                                    {"wide", "narrow", "same"});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ((*found)[0].dtype(), DType::kUint64);
    EXPECT_EQ((*found)[0].shape(), (Shape{4, 4, 4}));
    EXPECT_EQ((*found)[0].data<uint64_t>()[63], 0x3f8000003f800000u);
    EXPECT_EQ((*found)[1].dtype(), DType::kUint8);
    EXPECT_EQ((*found)[1].shape(), (Shape{4, 4, 4, 2, 4}));
    EXPECT_EQ((*found)[1].data<uint8_t>()[511], 0x3f);
    EXPECT_EQ((*found)[2].dtype(), DType::kInt32);
    EXPECT_EQ((*found)[2].data<int32_t>()[127], 0x3f800000);
    EXPECT_FALSE(session->Run({{"x", *Tensor::From(std::vector<float>(3, 1.0f), Shape{3})}}, {"wide"}).ok());
  }
}

}  // namespace
}  // namespace tenon::engine::hostile_graph_test
