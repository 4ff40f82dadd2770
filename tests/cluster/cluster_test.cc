// SPDX-License-Identifier: Apache-2.0
// Steps over several tasks: values, state, control flow, failures that are named. Covers D5, E5, G2, H1, H12, I1 to I4,
// J1, L7, R3.
#include <thread>

#include "tests/cluster/local_cluster.h"
#include "tests/fakes/trace_events.h"

namespace tenon::engine {
namespace {

Output On(Graph& g, const std::string& device, const char* op, const std::vector<Output>& inputs, const char* name) {
  const auto on = g.Device(device);
  return g.Op(op, inputs, {}, name);
}

TEST(Cluster, RunsAStepOverItsTasks) {
  const LocalCluster cluster("loopback://runs", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{3});
  const Output a = On(g, "/job:worker/task:0", "AddV2", {x, x}, "a");
  const Output b = On(g, "/job:worker/task:1", "Mul", {a, x}, "b");
  const Output c = On(g, "/job:worker/task:0", "Sub", {b, a}, "c");
  const Session session = cluster.Client(g);
  for (int i = 0; i < 20;
       ++i) {  // task 0 waits for what comes of its own value, also when it knows that its part is quick
    auto values = session.Run({{x, *Tensor::From(std::vector<float>{1, 2, 3}, Shape{3})}}, {c, b, a});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{0, 4, 12}));
    EXPECT_EQ(Values<float>((*values)[1]), (std::vector<float>{2, 8, 18}));
    EXPECT_EQ(Values<float>((*values)[2]), (std::vector<float>{2, 4, 6}));
  }
  const std::string how = *session.Prepare({x}, {c})->Explain();
  EXPECT_NE(how.find("/job:worker/replica:0/task:1/device:CPU:0"), std::string::npos) << how;
}

TEST(Cluster, ValuesOfEveryPlainTypeCrossBitForBit) {
  const LocalCluster cluster("loopback://types", {{"worker", 2}});
  constexpr DType kTypes[] = {DType::kFloat, DType::kDouble, DType::kInt8,     DType::kInt16,     DType::kInt32,
                              DType::kInt64, DType::kUint8,  DType::kUint16,   DType::kUint32,    DType::kUint64,
                              DType::kBool,  DType::kHalf,   DType::kBfloat16, DType::kComplex64, DType::kComplex128};
  Graph g(TheRuntime());
  std::vector<Feed> feeds;
  std::vector<Name> back;
  std::vector<std::string> bytes;
  for (const DType type : kTypes) {
    const std::string name = "x" + std::to_string(static_cast<int>(type));
    const Output x = g.Placeholder(name, type, Shape{5});
    const Output there = On(g, "/job:worker/task:0", "Identity", {x}, (name + "_there").c_str());
    back.emplace_back(On(g, "/job:worker/task:1", "Identity", {there}, (name + "_back").c_str()));
    // Patterns that no arithmetic would leave alone: NaN with a message, denormals, all bits.
    const uint64_t size = tenon_tensor_get_view(Tensor::Zeros(type, Shape{5})->get())->byte_size;
    std::string& pattern = bytes.emplace_back();
    for (uint64_t i = 0; i < size; ++i)
      pattern += static_cast<char>(type == DType::kBool ? i % 2 : (i * 37 + 129) % 256);
    feeds.push_back({name, View(*Tensor::FromBytes(type, Shape{5}, pattern.data(), pattern.size()))});
  }
  const Session session = cluster.Client(g);
  const auto values = session.Run(feeds, back);
  ASSERT_TRUE(values.ok()) << values.status();
  for (size_t i = 0; i < back.size(); ++i) {
    const tenon_tensor_view& view = *tenon_tensor_get_view((*values)[i].get());
    EXPECT_EQ(std::string(static_cast<const char*>(view.dl.data), view.byte_size), bytes[i]) << back[i].text();
  }
}

TEST(Cluster, StringsDeadValuesAndManyShapesCross) {
  const LocalCluster cluster("loopback://strings", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output text = g.Placeholder("text", DType::kString, Shape::Unknown());
  const Output taken = g.Placeholder("taken", DType::kBool, Shape{});
  const Operation sides = [&] {
    const auto on = g.Device("/job:worker/task:0");
    return g.AddNode("Switch", {text, taken}, {}, "sides");
  }();
  const Output no = On(g, "/job:worker/task:1", "Identity", {sides.output(0)}, "no");
  const Output yes = On(g, "/job:worker/task:1", "Identity", {sides.output(1)}, "yes");
  const Output merged = On(g, "/job:worker/task:0", "Merge", {no, yes}, "merged");
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const Session session = cluster.Client(g);
  for (const int count : {1, 3, 0, 2}) {
    std::vector<std::string> strings;
    for (int i = 0; i < count; ++i)
      strings.push_back(std::string(static_cast<size_t>(i * 40), static_cast<char>('a' + i)));
    auto given = Tensor::Strings(strings, Shape{count});
    ASSERT_TRUE(given.ok());
    auto values = session.Run({{text, *given}, {taken, *Tensor::FromBytes(DType::kBool, Shape(), "\1", 1)}},
                              {merged, Output(merged.graph(), merged.node(), 1)});
    ASSERT_TRUE(values.ok()) << values.status().message();
    ASSERT_EQ((*values)[0].element_count(), count);
    for (int i = 0; i < count; ++i)
      EXPECT_EQ((*values)[0].string(static_cast<uint64_t>(i)), strings[static_cast<size_t>(i)]);
    EXPECT_EQ((*values)[1].scalar<int32_t>(), 1);
  }
}

TEST(Cluster, StateLivesInItsTaskAndOutlivesClients) {
  const LocalCluster cluster("loopback://state", {{"ps", 1}, {"worker", 2}});
  Graph g(TheRuntime());
  const Output v = [&] {
    const auto on = g.Device("/job:ps/task:0");
    return g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2}}, {"shared_name", "v"}}, "v");
  }();
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2});
  g.AddNode("AssignVariableOp", {v, x}, {}, "assign");
  g.AddNode("AssignAddVariableOp", {v, x}, {}, "add");
  const Output read = g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}, "read");
  const Output used = On(g, "/job:worker/task:1", "Neg", {read}, "used");
  const Tensor one = *Tensor::From(std::vector<float>{1, 2}, Shape{2});
  {
    const Session first = cluster.Client(g);
    EXPECT_EQ(first.Run({}, {read}).status().code(), Code::kFailedPrecondition) << "not assigned yet";
    ASSERT_TRUE(first.Run({{x, one}}, {}, {"assign"}).ok());
  }
  const Session second = cluster.Client(g), third = cluster.Client(g);
  ASSERT_TRUE(second.Run({{x, one}}, {}, {"add"}).ok());
  ASSERT_TRUE(third.Run({{x, one}}, {}, {"add"}).ok());
  auto values = third.Run({}, {used});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), (std::vector<float>{-3, -6}));
  SessionOptions alone;
  alone.isolate = true;
  const Session own = cluster.Client(g, alone);
  EXPECT_EQ(own.Run({}, {read}).status().code(), Code::kFailedPrecondition) << "a container of its own";
}

// Covers G2.
TEST(Cluster, CostsAndLinksOfTracedStepsServeTheNextSession) {
  const LocalCluster cluster("loopback://costs", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{256, 512});
  // A link is measured in a step in which the second task waits for the value. Which task is first is the machine's to
  // say: most often it is the second, in a step or other it always is.
  const Output made = On(g, "/job:worker/task:0", "MatMul",
                         {On(g, "/job:worker/task:0", "Tanh", {x}, "tanh"),
                          g.Const(TensorOf(DType::kFloat, Shape{512, 512}, std::vector<double>(512 * 512, 0.01)))},
                         "product");
  const Output used = On(g, "/job:worker/task:1", "Neg", {made}, "used");
  SessionOptions options;
  options.record_costs = true;
  Session session = cluster.Client(g, options);
  std::string costs;
  for (int i = 0; i < 1000 && !costs.starts_with("tenon-costs 2\n"); ++i) {
    std::string trace;
    RunOptions run;
    run.trace = &trace;
    auto values = session.Run({{x, *Tensor::Zeros(DType::kFloat, Shape{256, 512})}}, {used}, {}, run);
    ASSERT_TRUE(values.ok()) << values.status();
    costs = *session.Costs();
  }
  EXPECT_TRUE(costs.starts_with("tenon-costs 2\n")) << costs;
  EXPECT_NE(costs.find("\tproduct\tMatMul\tCPU\t[256,512];[512,512]\n"), std::string::npos) << costs;
  EXPECT_NE(costs.find("\tused\tNeg\tCPU\t[256,512]\n"), std::string::npos) << costs;
  EXPECT_NE(costs.find("\t/job:worker/replica:0/task:0\t/job:worker/replica:0/task:1\t?\t"), std::string::npos)
      << costs;
  // A network that is as slow as that keeps two readers of a value together.
  SessionOptions next;
  next.costs = "tenon-costs 2\nlink\t1\t/job:worker/replica:0/task:0\t/job:worker/replica:0/task:1\t3\t1000\n";
  Graph free(TheRuntime());
  const Output y =
      On(free, "/job:worker/task:1", "Tanh", {free.Placeholder("y", DType::kFloat, Shape{64, 64})}, "begin");
  Output sum = y;
  for (int i = 0; i < 4; ++i)
    sum = free.Op("AddV2", {sum, free.Op("Neg", {y}, {}, "neg" + std::to_string(i))}, {}, "sum" + std::to_string(i));
  const auto placed = cluster.Client(free, next).Place({"y"}, {sum.name()});
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->file.find("neg0\t/job:worker/replica:0/task:0"), std::string::npos) << placed->file;
}

// Covers D6.
TEST(Cluster, ContainersOfAllTasksAreEmptied) {
  const LocalCluster cluster("loopback://emptied", {{"ps", 2}, {"worker", 1}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape());
  std::vector<Name> assign, read;
  for (const auto& [task, container] :
       {std::pair("/job:ps/task:0", ""), {"/job:ps/task:1", ""}, {"/job:ps/task:1", "kept"}}) {
    const auto on = g.Device(task);
    const Output v =
        g.Op("VarHandleOp", {},
             {{"dtype", DType::kFloat}, {"shape", Shape()}, {"shared_name", "v"}, {"container", container}});
    assign.emplace_back(g.AddNode("AssignVariableOp", {v, x}));
    read.emplace_back(g.Op("ReadVariableOp", {v}, {{"dtype", DType::kFloat}}));
  }
  ASSERT_TRUE(g.status().ok()) << g.status();
  const Session session = cluster.Client(g), other = cluster.Client(g);
  SessionOptions alone;
  alone.isolate = true;
  const Session own = cluster.Client(g, alone);
  const auto fill = [&](const Session& of) {
    const Status filled = of.Run({{x, *Tensor::Scalar(1.0f)}}, {}, assign).status();
    EXPECT_TRUE(filled.ok()) << filled;
  };
  const auto has = [&](const Session& of, size_t which) { return of.Run({}, {read[which]}).ok(); };
  fill(session);
  fill(own);
  EXPECT_EQ(*session.ResetContainers(), 2u);
  for (const size_t which : {0, 1}) {
    EXPECT_FALSE(has(session, which));
    EXPECT_FALSE(has(other, which));
    EXPECT_TRUE(has(own, which)) << "it has its own";
  }
  EXPECT_TRUE(has(session, 2));
  EXPECT_EQ(*own.ResetContainers({"kept", ""}), 3u);
  EXPECT_FALSE(has(session, 2)) << "it is the tasks'";
  fill(session);
  for (const size_t which : {0, 1, 2}) EXPECT_TRUE(has(other, which));
}

// Covers R10.
TEST(Cluster, TheFirstValueThatIsNoNumberIsNamedWithItsTask) {
  const LocalCluster cluster("loopback://numerics", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape());
  const Output bad = On(g, "/job:worker/task:1", "Log", {x}, "bad"),
               later = On(g, "/job:worker/task:0", "Exp", {bad}, "later");
  SessionOptions options;
  options.check_numerics = true;
  const Session session = cluster.Client(g, options);
  EXPECT_TRUE(session.Run({{x, *Tensor::Scalar(2.0f)}}, {later}).ok());
  const Status status = session.Run({{x, *Tensor::Scalar(-2.0f)}}, {later}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("/task:1"), std::string::npos) << status;
  EXPECT_NE(status.message().find("node 'bad' (Log) made 1 NaN"), std::string::npos) << status;
}

TEST(Cluster, LoopsOverTasks) {
  const LocalCluster cluster("loopback://loops", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output n = g.Placeholder("n", DType::kInt32, Shape{});
  const Output zero = g.Const(*Tensor::Scalar(int32_t{0})), one = g.Const(*Tensor::Scalar(int32_t{1}));
  const auto results = While(
      g, {zero, one}, {n, one}, [&](const std::vector<Output>& values) { return g.Op("Less", {values[0], values[2]}); },
      [&](const std::vector<Output>& values) -> std::vector<Output> {
        const Output next = g.Op("AddV2", {values[0], values[3]});
        const auto on = g.Device("/job:worker/task:1");
        return {next, g.Op("AddV2", {values[1], values[1]})};
      });
  ASSERT_TRUE(g.status().ok()) << g.status().message();
  const Session session = cluster.Client(g);
  for (const int32_t turns : {5, 0, 12}) {
    auto values = session.Run({{n, *Tensor::Scalar(turns)}}, {results[1]});
    ASSERT_TRUE(values.ok()) << values.status().message();
    EXPECT_EQ((*values)[0].scalar<int32_t>(), 1 << turns);
  }
}

TEST(Cluster, AFailureNamesItsTaskAndNodeAndTheNextStepRuns) {
  const LocalCluster cluster("loopback://fails", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kInt32, Shape{2});
  const Output index = g.Placeholder("index", DType::kInt32, Shape{1});
  const Output axis = g.Const(*Tensor::Scalar(int32_t{0}));
  const Output picked = On(g, "/job:worker/task:1", "GatherV2", {x, index, axis}, "picked");
  const Output end = On(g, "/job:worker/task:0", "Neg", {picked}, "end");
  const Session session = cluster.Client(g);
  const Tensor values = *Tensor::From(std::vector<int32_t>{7, 8}, Shape{2});
  const Status bad =
      session.Run({{x, values}, {index, *Tensor::From(std::vector<int32_t>{5}, Shape{1})}}, {end}).status();
  EXPECT_FALSE(bad.ok());
  EXPECT_NE(bad.message().find("task /job:worker/replica:0/task:1 at loopback://fails_worker_1"), std::string::npos)
      << bad.message();
  EXPECT_NE(bad.message().find("'picked' (GatherV2)"), std::string::npos) << bad.message();
  auto good = session.Run({{x, values}, {index, *Tensor::From(std::vector<int32_t>{1}, Shape{1})}}, {end});
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(Values<int32_t>((*good)[0]), std::vector<int32_t>{-8});
}

TEST(Cluster, AStepThatWaitsEndsByItsDeadline) {
  const LocalCluster cluster("loopback://deadline", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output go = g.Placeholder("go", DType::kBool, Shape{});
  // Never ends: the condition stays what it is.
  const auto results = While(
      g, {go}, {}, [&](const std::vector<Output>& values) { return g.Op("Identity", {values[0]}); },
      [&](const std::vector<Output>& values) -> std::vector<Output> {
        const auto on = g.Device("/job:worker/task:1");
        return {g.Op("Identity", {g.Op("LogicalOr", {values[0], values[0]})})};
      });
  const Session session = cluster.Client(g);
  RunOptions options;
  options.timeout = std::chrono::milliseconds(200);
  const uint8_t yes = 1, no = 0;
  const Status late = session.Run({{go, View(DType::kBool, Shape(), &yes, 1)}}, {results[0]}, {}, options).status();
  EXPECT_EQ(late.code(), Code::kDeadlineExceeded) << late.message();
  auto values = session.Run({{go, View(DType::kBool, Shape(), &no, 1)}}, {results[0]});
  ASSERT_TRUE(values.ok()) << values.status().message();
}

TEST(Cluster, ATraceHasTheRowsOfAllTasksOnOneClock) {
  const LocalCluster cluster("loopback://trace", {{"worker", 2}});
  constexpr char kFirst[] = "/job:worker/replica:0/task:0", kSecond[] = "/job:worker/replica:0/task:1";
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{2});
  const Output a = On(g, "/job:worker/task:0", "Neg", {x}, "first_node");
  const Output b = On(g, "/job:worker/task:1", "Square", {a}, "second_node");
  const Session session = cluster.Client(g);
  std::string trace;
  RunOptions options;
  options.trace = &trace;
  auto values = session.Run({{x, *Tensor::From(std::vector<float>{1, 2}, Shape{2})}}, {b}, {}, options);
  ASSERT_TRUE(values.ok()) << values.status().message();
  const std::vector<fakes::TraceSpan> spans = fakes::TraceSpans(trace);
  const auto only = [&](const std::string& process, const std::string& category) {
    std::vector<fakes::TraceSpan> found;
    for (const fakes::TraceSpan& span : spans)
      if (span.process == process && span.category == category) found.push_back(span);
    EXPECT_EQ(found.size(), 1u) << category << " on " << process << " in " << trace;
    return found.size() == 1 ? found[0] : fakes::TraceSpan();
  };
  const fakes::TraceSpan step = only("host", "cluster"), first = only(kFirst, "Neg"), second = only(kSecond, "Square");
  EXPECT_TRUE(step.name.starts_with("step ")) << step.name;
  EXPECT_EQ(first.name, "first_node");
  EXPECT_EQ(second.name, "second_node");
  // The tasks share this process's clock, so what must be before what is so to the nanosecond.
  EXPECT_LE(step.begin, first.begin);
  EXPECT_LE(first.end, second.begin);
  EXPECT_LE(second.end, step.end);
  for (const fakes::TraceSpan& span : spans) {
    EXPECT_GE(span.begin, step.begin) << span.name;
    EXPECT_LE(span.end, step.end) << span.name;
    EXPECT_TRUE(span.process == "host" || span.process == kFirst || span.process == kSecond) << span.process;
  }
  // The one value that crosses has its bytes at both ends, and came after it went.
  const fakes::TraceSpan sent = only(kFirst, "_Send"), received = only(kSecond, "_Recv");
  for (const fakes::TraceSpan& span : {sent, received})
    EXPECT_NE(span.detail.find("8 bytes"), std::string::npos) << span.detail;
  EXPECT_LE(first.end, sent.begin);
  EXPECT_LE(sent.begin, received.end);
  EXPECT_LE(received.end, second.begin);
}

TEST(Cluster, ManyStepsAtOnce) {
  const LocalCluster cluster("loopback://many", {{"worker", 3}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape::Unknown());
  Output at = x;
  for (int i = 0; i < 9; ++i)
    at = On(g, "/job:worker/task:" + std::to_string(i % 3), "AddV2", {at, x}, ("n" + std::to_string(i)).c_str());
  const Session session = cluster.Client(g);
  std::vector<std::thread> clients;
  for (int t = 0; t < 6; ++t)
    clients.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        const auto size = static_cast<size_t>(1 + (t * 31 + i * 7) % 50);
        auto values = session.Run(
            {{x, *Tensor::From(std::vector<float>(size, static_cast<float>(i)), Shape{static_cast<int64_t>(size)})}},
            {at});
        ASSERT_TRUE(values.ok()) << values.status().message();
        EXPECT_EQ(Values<float>((*values)[0]), std::vector<float>(size, static_cast<float>(10 * i)));
      }
    });
  for (std::thread& client : clients) client.join();
}

TEST(Cluster, ALostTaskIsNamedAndANewSessionGoesOn) {
  LocalCluster cluster("loopback://lost", {{"worker", 2}});
  Graph g(TheRuntime());
  const Output x = g.Placeholder("x", DType::kFloat, Shape{1});
  const Output a = On(g, "/job:worker/task:1", "Neg", {x}, "a");
  const Output b = On(g, "/job:worker/task:0", "Neg", {a}, "b");
  const Tensor one = *Tensor::From(std::vector<float>{1}, Shape{1});
  {
    const Session session = cluster.Client(g);
    ASSERT_TRUE(session.Run({{x, one}}, {b}).ok());
    cluster.Stop(1);
    RunOptions options;
    options.timeout = std::chrono::seconds(20);
    const Status gone = session.Run({{x, one}}, {b}, {}, options).status();
    EXPECT_EQ(gone.code(), Code::kUnavailable) << gone.message();
    EXPECT_NE(gone.message().find("task /job:worker/replica:0/task:1 at loopback://lost_worker_1"), std::string::npos)
        << gone.message();
    cluster.Start(1);
    EXPECT_FALSE(session.Run({{x, one}}, {b}, {}, options).ok()) << "its state may be gone";
  }
  const Session session = cluster.Client(g);
  auto values = session.Run({{x, one}}, {b});
  ASSERT_TRUE(values.ok()) << values.status().message();
  EXPECT_EQ(Values<float>((*values)[0]), std::vector<float>{1});
}

// Others may write to the variables of a task.
TEST(Cluster, IsNotFrozen) {
  const LocalCluster cluster("loopback://not_frozen", {{"worker", 1}});
  Graph g(TheRuntime());
  g.Const(1.0f, "one");
  const Session session = cluster.Client(g);
  const Status frozen = session.Freeze();
  EXPECT_EQ(frozen.code(), Code::kUnimplemented) << frozen;
  EXPECT_TRUE(session.Run({}, {"one"}).ok());
}

TEST(Cluster, WhatIsNotThereIsSaid) {
  Graph g(TheRuntime());
  SessionOptions options;
  options.connect_timeout = std::chrono::milliseconds(500);
  options.master = "loopback://nobody";
  const Status nobody = Session::Create(TheRuntime(), g, options).status();
  EXPECT_NE(nobody.message().find("loopback://nobody"), std::string::npos) << nobody.message();
  options.master = "carrier-pigeon://roof";
  const Status pigeon = Session::Create(TheRuntime(), g, options).status();
  EXPECT_EQ(pigeon.code(), Code::kNotFound) << pigeon.message();
  EXPECT_NE(pigeon.message().find("carrier-pigeon"), std::string::npos) << pigeon.message();
}

}  // namespace
}  // namespace tenon::engine
