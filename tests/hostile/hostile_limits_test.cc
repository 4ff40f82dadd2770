// SPDX-License-Identifier: Apache-2.0
// What a small graph may ask for before a step runs, and what another step may change while one runs.
//
// Graphs that ask for memory are tried with a limit of 64 MB, and the process's own peak is looked at: the limit and 64
// MB more.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "core/graph/graphdef/graph.pb.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

using tensorflow::AttrValue;
using tensorflow::DataType;
using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

constexpr uint64_t kLimit = 64 << 20, kSlack = 64 << 20;

// ---- Building ----

NodeDef* AddNode(GraphDef* graph, const std::string& name, const std::string& op,
                 const std::vector<std::string>& inputs) {
  NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  return node;
}
AttrValue& Attr(NodeDef* node, const std::string& name) { return (*node->mutable_attr())[name]; }

void AddFloat(GraphDef* graph, const std::string& name, float value) {
  NodeDef* node = AddNode(graph, name, "Const", {});
  Attr(node, "dtype").set_type(tensorflow::DT_FLOAT);
  auto* tensor = Attr(node, "value").mutable_tensor();
  tensor->set_dtype(tensorflow::DT_FLOAT);
  tensor->mutable_tensor_shape();
  tensor->add_float_val(value);
}
void AddInt(GraphDef* graph, const std::string& name, int32_t value) {
  NodeDef* node = AddNode(graph, name, "Const", {});
  Attr(node, "dtype").set_type(tensorflow::DT_INT32);
  auto* tensor = Attr(node, "value").mutable_tensor();
  tensor->set_dtype(tensorflow::DT_INT32);
  tensor->mutable_tensor_shape();
  tensor->add_int_val(value);
}
// A function x -> y of floats with one node, or none: it gives x.
FunctionDef* AddFunction(GraphDef* graph, const std::string& name) {
  FunctionDef* function = graph->mutable_library()->add_function();
  function->mutable_signature()->set_name(name);
  auto* x = function->mutable_signature()->add_input_arg();
  x->set_name("x");
  x->set_type(tensorflow::DT_FLOAT);
  auto* y = function->mutable_signature()->add_output_arg();
  y->set_name("y");
  y->set_type(tensorflow::DT_FLOAT);
  return function;
}
NodeDef* AddBodyNode(FunctionDef* function, const std::string& name, const std::string& op,
                     const std::vector<std::string>& inputs) {
  NodeDef* node = function->add_node_def();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  return node;
}
void AskForGradient(NodeDef* node, const std::string& function) {
  for (int i = 0; i < 2; ++i) Attr(node, "Tin").mutable_list()->add_type(tensorflow::DT_FLOAT);
  Attr(node, "Tout").mutable_list()->add_type(tensorflow::DT_FLOAT);
  Attr(node, "f").mutable_func()->set_name(function);
}

// ---- Running ----

Result<std::vector<Tensor>> Fetched(const GraphDef& graph, const std::string& fetch, uint64_t limit = 0,
                                    std::chrono::nanoseconds timeout = std::chrono::seconds(60)) {
  SessionOptions options;
  options.memory_limit = limit;
  TENON_TRY_ASSIGN(Session session, Session::Create(TheRuntime(), options));
  TENON_TRY(session.Extend(graph.SerializeAsString()));
  return session.Run({}, {fetch}, {}, {.timeout = timeout});
}

// Of this process, in bytes, since the last call of ForgetPeak.
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << "5"; }
uint64_t Peak(const char* what = "VmHWM:") {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == what) {
      uint64_t kilobytes = 0;
      status >> kilobytes;
      return kilobytes << 10;
    }
  return 0;
}
constexpr bool kWatched =  // a sanitizer's memory is not ours
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    true;
#else
    false;
#endif

void ExpectBounded(const GraphDef& graph, const std::string& fetch, const std::string& says) {
  const std::string bytes = graph.SerializeAsString();
  (void)TheRuntime();
  ForgetPeak();
  const uint64_t before = Peak("VmRSS:");
  SessionOptions options;
  options.memory_limit = kLimit;
  const Status status = [&]() -> Status {
    TENON_TRY_ASSIGN(Session session, Session::Create(TheRuntime(), options));
    TENON_TRY(session.Extend(bytes));
    return session.Run({}, {fetch}, {}, {.timeout = std::chrono::seconds(60)}).status();
  }();
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status;
  EXPECT_NE(std::string(status.message()).find(says), std::string::npos) << status;
  if (!kWatched) {
    EXPECT_LE(Peak(), before + kLimit + kSlack) << "the graph has " << bytes.size() << " bytes";
  }
}

// ---- Memory ----

GraphDef RepeatedString(int64_t count) {
  GraphDef graph;
  NodeDef* node = AddNode(&graph, "c", "Const", {});
  Attr(node, "dtype").set_type(tensorflow::DT_STRING);
  auto* tensor = Attr(node, "value").mutable_tensor();
  tensor->set_dtype(tensorflow::DT_STRING);
  tensor->mutable_tensor_shape()->add_dim()->set_size(count);
  tensor->add_string_val(std::string(10000, 'x'));
  return graph;
}

TEST(HostileLimits, AStringThatAConstantRepeatsIsCharged) {
  ExpectBounded(RepeatedString(50000), "c", "node 'c' (Const)");
  EXPECT_EQ(Fetched(RepeatedString(200000), "c").status().code(), Code::kResourceExhausted)
      << "2 GB, without a limit of the session's own";
}

void AddInts(GraphDef* graph, const std::string& name, const std::vector<int64_t>& dims,
             const std::vector<int32_t>& values) {
  NodeDef* node = AddNode(graph, name, "Const", {});
  Attr(node, "dtype").set_type(tensorflow::DT_INT32);
  auto* tensor = Attr(node, "value").mutable_tensor();
  tensor->set_dtype(tensorflow::DT_INT32);
  auto* shape = tensor->mutable_tensor_shape();
  for (const int64_t dim : dims) shape->add_dim()->set_size(dim);
  for (const int32_t value : values) tensor->add_int_val(value);
}
void AddText(GraphDef* graph, const std::string& name, const std::vector<int64_t>& dims, const std::string& text) {
  NodeDef* node = AddNode(graph, name, "Const", {});
  Attr(node, "dtype").set_type(tensorflow::DT_STRING);
  auto* tensor = Attr(node, "value").mutable_tensor();
  tensor->set_dtype(tensorflow::DT_STRING);
  auto* shape = tensor->mutable_tensor_shape();
  for (const int64_t dim : dims) shape->add_dim()->set_size(dim);
  tensor->add_string_val(text);
}

TEST(HostileLimits, TextsThatAScatterMakesAreCharged) {
  GraphDef wide;
  AddInts(&wide, "at", {1, 1}, {0});
  AddText(&wide, "text", {1}, "x");
  AddInts(&wide, "shape", {1}, {3 << 20});  // whose cells alone would fit
  NodeDef* node = AddNode(&wide, "y", "ScatterNd", {"at", "text", "shape"});
  Attr(node, "T").set_type(tensorflow::DT_STRING);
  Attr(node, "Tindices").set_type(tensorflow::DT_INT32);
  ExpectBounded(wide, "y", "node 'y' (ScatterNd)");
}

// One text of 1 MB becomes the value of each of 1,000 rows.
TEST(HostileLimits, TextsThatAnUpdateRepeatsAreCharged) {
  constexpr int kRows = 1000;
  GraphDef graph;
  NodeDef* variable = AddNode(&graph, "v", "VarHandleOp", {});
  Attr(variable, "dtype").set_type(tensorflow::DT_STRING);
  Attr(variable, "shape").mutable_shape()->add_dim()->set_size(kRows);
  AddText(&graph, "begin", {kRows}, "x");
  Attr(AddNode(&graph, "assign", "AssignVariableOp", {"v", "begin"}), "dtype").set_type(tensorflow::DT_STRING);
  std::vector<int32_t> rows;
  for (int i = 0; i < kRows; ++i) rows.push_back(i);
  AddInts(&graph, "rows", {kRows}, rows);
  AddText(&graph, "text", {}, std::string(1 << 20, 'x'));
  NodeDef* update = AddNode(&graph, "update", "ResourceScatterUpdate", {"v", "rows", "text", "^assign"});
  Attr(update, "dtype").set_type(tensorflow::DT_STRING);
  Attr(update, "Tindices").set_type(tensorflow::DT_INT32);
  Attr(AddNode(&graph, "y", "ReadVariableOp", {"v", "^update"}), "dtype").set_type(tensorflow::DT_STRING);
  ExpectBounded(graph, "y", "node 'update' (ResourceScatterUpdate)");
}

TEST(HostileLimits, NamesThatCallsRepeatAreCharged) {
  GraphDef graph;
  AddFloat(&graph, "one", 1);
  FunctionDef* function = AddFunction(&graph, "f");
  for (int i = 0; i < 500; ++i) {
    const std::string before = i == 0 ? "x" : "n" + std::to_string(i - 1) + ":y:0";
    Attr(AddBodyNode(function, "n" + std::to_string(i), "Neg", {before}), "T").set_type(tensorflow::DT_FLOAT);
  }
  (*function->mutable_ret())["y"] = "n499:y:0";
  const std::string name(1 << 20, 'a');
  AddNode(&graph, name, "f", {"one"});
  ExpectBounded(graph, name, "memory limit");
}

TEST(HostileLimits, OutputsThatAnAttributeCountsAreCharged) {
  for (const int64_t count : {int64_t{1} << 20, int64_t{1} << 24}) {
    GraphDef graph;
    AddFloat(&graph, "one", 1);
    NodeDef* node = AddNode(&graph, "u", "Unpack", {"one"});
    Attr(node, "T").set_type(tensorflow::DT_FLOAT);
    Attr(node, "num").set_i(count);
    Attr(node, "axis").set_i(0);
    ExpectBounded(graph, "u:7", "argument 'output' has " + std::to_string(count) + " tensors");
  }
}

TEST(HostileLimits, EmptyMessagesAreCharged) {
  // A node of no bytes: two bytes of the file, and some two hundred of memory.
  const std::string bytes = [] {
    std::string out;
    for (int i = 0; i < 4 << 20; ++i) out.append("\x0a\x00", 2);
    return out;
  }();
  (void)TheRuntime();
  ForgetPeak();
  const uint64_t before = Peak("VmRSS:");
  SessionOptions options;
  options.memory_limit = kLimit;
  auto session = Session::Create(TheRuntime(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  const Status status = session->Extend(bytes);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status;
  if (!kWatched) {
    EXPECT_LE(Peak(), before + kLimit + kSlack);
  }
  EXPECT_LT(session->Metrics()->bytes_in_use, 1u << 20) << "what was refused is not charged any more";
}

// x^2's derivative's derivative's ...: each order doubles the nodes.
GraphDef Derivatives(int order) {
  GraphDef graph;
  AddFloat(&graph, "one", 1);
  FunctionDef* function = AddFunction(&graph, "f0");
  Attr(AddBodyNode(function, "exp", "Exp", {"x"}), "T").set_type(tensorflow::DT_FLOAT);
  Attr(AddBodyNode(function, "mul", "Mul", {"exp:y:0", "x"}), "T").set_type(tensorflow::DT_FLOAT);
  (*function->mutable_ret())["y"] = "mul:z:0";
  for (int i = 1; i <= order; ++i) {
    FunctionDef* next = AddFunction(&graph, "f" + std::to_string(i));
    AskForGradient(AddBodyNode(next, "g", "SymbolicGradient", {"x", "x"}), "f" + std::to_string(i - 1));
    (*next->mutable_ret())["y"] = "g:output:0";
  }
  AddNode(&graph, "call", "f" + std::to_string(order), {"one"});
  return graph;
}

TEST(HostileLimits, ADerivativeOfADerivativeIsCharged) {
  EXPECT_TRUE(Fetched(Derivatives(3), "call", 256 << 20).ok());
  ExpectBounded(Derivatives(14), "call", "memory limit");
}

TEST(HostileLimits, EntriesOfATableAreCharged) {
  GraphDef graph;
  AddInt(&graph, "zero", 0);
  AddInt(&graph, "one", 1);
  AddInt(&graph, "count", 1 << 20);
  Attr(AddNode(&graph, "keys", "Range", {"zero", "count", "one"}), "Tidx").set_type(tensorflow::DT_INT32);
  NodeDef* table = AddNode(&graph, "table", "MutableHashTableV2", {});
  NodeDef* insert = AddNode(&graph, "insert", "LookupTableInsertV2", {"table", "keys", "keys"});
  for (const char* attr : {"key_dtype", "value_dtype"}) Attr(table, attr).set_type(tensorflow::DT_INT32);
  for (const char* attr : {"Tin", "Tout"}) Attr(insert, attr).set_type(tensorflow::DT_INT32);
  AddNode(&graph, "size", "LookupTableSizeV2", {"table", "^insert"});
  ExpectBounded(graph, "size", "node 'insert'");
  EXPECT_TRUE(Fetched(graph, "size", 256 << 20).ok());
}

TEST(HostileLimits, PlansThatAreNotUsedMakeRoomForOthers) {
  GraphDef graph;
  AddFloat(&graph, "n0", 1);
  for (int i = 1; i < 2000; ++i)
    Attr(AddNode(&graph, "n" + std::to_string(i), "Neg", {"n" + std::to_string(i - 1)}), "T")
        .set_type(tensorflow::DT_FLOAT);
  SessionOptions options;
  options.memory_limit = 24 << 20;
  auto session = Session::Create(TheRuntime(), options);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Extend(graph.SerializeAsString()).ok());
  for (int i = 1900; i < 1940; ++i) {
    const auto values = session->Run({}, {"n" + std::to_string(i)});
    ASSERT_TRUE(values.ok()) << i << ": " << values.status();
  }
}

// ---- Depth ----

TEST(HostileLimits, AFunctionWhoseBodyIsItsOwnGradientIsRefused) {
  GraphDef graph;
  AddFloat(&graph, "one", 1);
  FunctionDef* function = AddFunction(&graph, "f");
  AskForGradient(AddBodyNode(function, "g", "SymbolicGradient", {"x", "x"}), "f");
  (*function->mutable_ret())["y"] = "g:output:0";
  AddNode(&graph, "call", "f", {"one"});
  const auto values = Fetched(graph, "call");
  EXPECT_EQ(values.status().code(), Code::kResourceExhausted) << values.status();
  EXPECT_NE(std::string(values.status().message()).find("its own gradient"), std::string::npos) << values.status();
}

TEST(HostileLimits, ACaseOfTenThousandBranchesTakesTheOneThatIsAskedFor) {
  constexpr int kBranches = 10000;
  for (const int32_t index : {0, 4999, kBranches, -1}) {
    GraphDef graph;
    AddInt(&graph, "index", index);
    AddFloat(&graph, "one", 1);
    Attr(AddBodyNode(AddFunction(&graph, "same"), "n", "Identity", {"x"}), "T").set_type(tensorflow::DT_FLOAT);
    (*graph.mutable_library()->mutable_function(0)->mutable_ret())["y"] = "n:output:0";
    for (const int i : {0, 1, 4999, 5000, kBranches - 1}) {
      FunctionDef* function = AddFunction(&graph, "times" + std::to_string(i));
      NodeDef* constant = AddBodyNode(function, "c", "Const", {});
      Attr(constant, "dtype").set_type(tensorflow::DT_FLOAT);
      auto* tensor = Attr(constant, "value").mutable_tensor();
      tensor->set_dtype(tensorflow::DT_FLOAT);
      tensor->mutable_tensor_shape();
      tensor->add_float_val(static_cast<float>(i + 7));
      Attr(AddBodyNode(function, "m", "Mul", {"x", "c:output:0"}), "T").set_type(tensorflow::DT_FLOAT);
      (*function->mutable_ret())["y"] = "m:z:0";
    }
    NodeDef* node = AddNode(&graph, "case", "Case", {"index", "one"});
    Attr(node, "Tin").mutable_list()->add_type(tensorflow::DT_FLOAT);
    Attr(node, "Tout").mutable_list()->add_type(tensorflow::DT_FLOAT);
    for (int i = 0; i < kBranches; ++i) {
      const bool own = i < 2 || i == 4999 || i == 5000 || i == kBranches - 1;
      Attr(node, "branches").mutable_list()->add_func()->set_name(own ? "times" + std::to_string(i) : "same");
    }
    const auto values = Fetched(graph, "case");
    ASSERT_TRUE(values.ok()) << values.status();
    const int32_t taken = index < 0 || index >= kBranches ? kBranches - 1 : index;
    EXPECT_EQ((*values)[0].scalar<float>(), static_cast<float>(taken + 7)) << index;
  }
}

// Conditionals in a row, each of whose branches gives on what it got.
GraphDef ConditionalsInARow(int count) {
  GraphDef graph;
  AddFloat(&graph, "v0", 5);
  NodeDef* predicate = AddNode(&graph, "p", "Placeholder", {});
  Attr(predicate, "dtype").set_type(tensorflow::DT_BOOL);
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    Attr(AddNode(&graph, "s" + n, "Switch", {"v" + n, "p"}), "T").set_type(tensorflow::DT_FLOAT);
    for (const char* side : {":0", ":1"})
      Attr(AddNode(&graph, (side[1] == '0' ? "no" : "yes") + n, "Identity", {"s" + n + side}), "T")
          .set_type(tensorflow::DT_FLOAT);
    NodeDef* merge = AddNode(&graph, "v" + std::to_string(i + 1), "Merge", {"no" + n, "yes" + n});
    Attr(merge, "T").set_type(tensorflow::DT_FLOAT);
    Attr(merge, "N").set_i(2);
  }
  return graph;
}

TEST(HostileLimits, ConditionalsThatGiveOnTheirInputAreNotFollowedOncePerWay) {
  for (const int count : {3, 64, 5000}) {
    auto session = Session::Create(TheRuntime(), SessionOptions());
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->Extend(ConditionalsInARow(count).SerializeAsString()).ok());
    for (const bool taken : {false, true}) {
      const auto values = session->Run({Feed{"p", *Tensor::Scalar(taken)}}, {"v" + std::to_string(count)}, {},
                                       {.timeout = std::chrono::seconds(120)});
      ASSERT_TRUE(values.ok()) << count << ": " << values.status();
      EXPECT_EQ((*values)[0].scalar<float>(), 5);
    }
  }
}

// ---- Names ----

TEST(HostileLimits, NamesWithSeparatorsAreNotTakenForOthers) {
  Graph g(TheRuntime());
  for (const char* name : {"a", "b"}) {
    const auto scalar = g.Const(1.0f);
    g.AddNode("Identity", {scalar}, {}, name);
  }
  g.AddNode("Placeholder", {}, {{"dtype", DType::kFloat}}, "p");
  g.AddNode("Placeholder", {}, {{"dtype", DType::kFloat}}, "q");
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Run({}, {"a", "b"}).ok());
  for (const char* name : {"a,b", "1:a1:b", "a,b,", "a;b"}) {
    const auto values = session->Run({}, {name});
    EXPECT_FALSE(values.ok()) << name;
  }
  ASSERT_TRUE(session->Run({Feed{"p", *Tensor::Scalar(1.0f)}, Feed{"q", *Tensor::Scalar(2.0f)}}, {"p", "q"}).ok());
  EXPECT_FALSE(session->Run({Feed{"p,q", *Tensor::Scalar(1.0f)}}, {"p", "q"}).ok());
}

// ---- What another step writes ----

struct Racing {
  const char* about;
  std::function<void(Graph& g, const Output& indices, const Output& number)> add;  // adds the node "user"
};

// An index vector that is good, and then is not, and good again, while steps use it.
TEST(HostileState, IndicesThatAnotherStepWritesAreUsedAsTheyWereChecked) {
  constexpr int64_t kCount = 60000, kRows = 64;
  constexpr int32_t kBad = 1 << 30;
  const std::vector<Racing> users = {
      {"Gather",
       [](Graph& g, const Output& i, const Output&) {
         g.AddNode("Gather", {g.Const(std::vector<float>(kRows), {kRows}), i}, {}, "user");
       }},
      {"GatherV2 of an Identity",
       [](Graph& g, const Output& i, const Output&) {
         g.AddNode("GatherV2", {g.Const(std::vector<float>(kRows), {kRows}), g.Op("Identity", {i}), g.Const(0)}, {},
                   "user");
       }},
      {"GatherNd",
       [](Graph& g, const Output& i, const Output&) {
         const Output rows = g.Op("Reshape", {i, g.Const(std::vector<int32_t>{kCount, 1}, {2})});
         g.AddNode("GatherNd", {g.Const(std::vector<float>(kRows), {kRows}), rows}, {}, "user");
       }},
      {"UnsortedSegmentSum",
       [](Graph& g, const Output& i, const Output&) {
         g.AddNode("UnsortedSegmentSum",
                   {g.Const(std::vector<float>(kCount), {kCount}), i, g.Const(static_cast<int32_t>(kRows))}, {},
                   "user");
       }},
      {"ScatterNd",
       [](Graph& g, const Output& i, const Output&) {
         const Output rows = g.Op("Reshape", {i, g.Const(std::vector<int32_t>{kCount, 1}, {2})});
         g.AddNode("ScatterNd",
                   {rows, g.Const(std::vector<float>(kCount), {kCount}), g.Const(std::vector<int32_t>{kRows}, {1})}, {},
                   "user");
       }},
      {"ScatterAdd",
       [](Graph& g, const Output& i, const Output&) {
         const Output table = g.Op("VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", Shape{kRows}}}, "table");
         g.AddNode("Assign", {table, g.Const(std::vector<float>(kRows), {kRows})}, {}, "table_init");
         g.AddNode("ScatterAdd", {table, i, g.Const(std::vector<float>(kCount), {kCount})}, {}, "user");
       }},
      {"DynamicPartition",
       [](Graph& g, const Output& i, const Output&) {
         g.AddNode("DynamicPartition", {g.Const(std::vector<float>(kCount), {kCount}), i},
                   {{"num_partitions", int64_t{kRows}}}, "user");
       }},
      {"Slice",
       [](Graph& g, const Output&, const Output& n) {
         const Output begin = g.Op("Reshape", {n, g.Const(std::vector<int32_t>{1}, {1})});
         g.AddNode("Slice", {g.Const(std::vector<float>(kRows), {kRows}), begin, g.Const(std::vector<int32_t>{1}, {1})},
                   {}, "user");
       }},
      {"Fill",
       [](Graph& g, const Output&, const Output& n) {
         g.AddNode("Fill", {g.Op("Reshape", {n, g.Const(std::vector<int32_t>{1}, {1})}), g.Const(1.0f)}, {}, "user");
       }},
  };
  for (const Racing& user : users) {
    SCOPED_TRACE(user.about);
    Graph g(TheRuntime());
    const Output indices = g.Op("VariableV2", {}, {{"dtype", DType::kInt32}, {"shape", Shape{kCount}}}, "indices");
    const Output number = g.Op("VariableV2", {}, {{"dtype", DType::kInt32}, {"shape", Shape{}}}, "number");
    const Output value = g.Op("Placeholder", {}, {{"dtype", DType::kInt32}}, "value");
    g.AddNode("Assign", {indices, g.Op("Fill", {g.Const(std::vector<int32_t>{kCount}, {1}), value})}, {},
              "set_indices");
    g.AddNode("Assign", {number, value}, {}, "set_number");
    user.add(g, indices, number);
    ASSERT_TRUE(g.status().ok()) << g.status();
    SessionOptions options;
    options.memory_limit = 256 << 20;
    auto session = Session::Create(TheRuntime(), g, options);
    ASSERT_TRUE(session.ok()) << session.status();
    const bool table = std::string(user.about) == "ScatterAdd";
    ASSERT_TRUE(session->Run({Feed{"value", *Tensor::Scalar(3)}}, {}, {"set_indices", "set_number"}).ok());
    if (table) {
      ASSERT_TRUE(session->Run({}, {}, {"table_init"}).ok());
    }
    std::atomic<bool> done{false};
    std::thread writer([&] {
      for (int i = 0; !done.load(); ++i)
        (void)session->Run({Feed{"value", *Tensor::Scalar(i % 2 == 0 ? kBad : 3)}}, {}, {"set_indices", "set_number"});
    });
    int good = 0, bad = 0;
    for (int i = 0; i < 150; ++i) {
      const auto values = session->Run({}, {"user"});
      if (values.ok()) ++good;
      else ++bad;
      if (values.ok()) continue;
      const Code code = values.status().code();
      EXPECT_TRUE(code == Code::kInvalidArgument || code == Code::kResourceExhausted || code == Code::kInternal)
          << values.status();
    }
    done.store(true);
    writer.join();
    RecordProperty(user.about, std::to_string(good) + " good, " + std::to_string(bad) + " refused");
  }
}

// Texts: the cells of a value say where its bytes are.
TEST(HostileState, TextsThatAnotherStepWritesAreWhole) {
  Graph g(TheRuntime());
  const Output texts = g.Op("VariableV2", {}, {{"dtype", DType::kString}, {"shape", Shape{2000}}}, "texts");
  for (const char letter : {'a', 'b'}) {
    std::vector<std::string> values;
    for (int i = 0; i < 2000; ++i)
      values.push_back(std::string(static_cast<size_t>(letter == 'a' ? i % 7 : 6 - i % 7), letter));
    auto value = Tensor::Strings(values, Shape{2000});
    ASSERT_TRUE(value.ok()) << value.status();
    g.AddNode("Assign", {texts, g.Const(View(*value))}, {}, std::string("set_") + letter);
  }
  g.AddNode("StringJoin", {texts, texts}, {{"N", int64_t{2}}}, "user");
  ASSERT_TRUE(g.status().ok()) << g.status();
  auto session = Session::Create(TheRuntime(), g);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Run({}, {}, {"set_a"}).ok());
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; !done.load(); ++i) EXPECT_TRUE(session->Run({}, {}, {i % 2 == 0 ? "set_b" : "set_a"}).ok());
  });
  for (int i = 0; i < 300; ++i) {
    const auto values = session->Run({}, {"user"});
    EXPECT_TRUE(values.ok()) << values.status();
  }
  done.store(true);
  writer.join();
}

// Places are counted first and written then: there may be more of them the second time.
TEST(HostileState, NumbersThatAnotherStepWritesOverflowNoOutput) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "reference variables of numbers are written under their readers, as TensorFlow's are: it would "
                  "report just that";
#endif
  constexpr int64_t kCount = 50000;
  for (const char* op : {"Where", "TopKV2"}) {
    Graph g(TheRuntime());
    const Output numbers = g.Op("VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", Shape{kCount}}}, "numbers");
    const Output value = g.Op("Placeholder", {}, {{"dtype", DType::kFloat}}, "value");
    g.AddNode("Assign", {numbers, g.Op("Fill", {g.Const(std::vector<int32_t>{kCount}, {1}), value})}, {}, "set");
    if (std::string(op) == "Where") g.AddNode("Where", {numbers}, {}, "user");
    else g.AddNode("TopKV2", {numbers, g.Const(5000)}, {}, "user");
    ASSERT_TRUE(g.status().ok()) << g.status();
    auto session = Session::Create(TheRuntime(), g);
    ASSERT_TRUE(session.ok()) << session.status();
    ASSERT_TRUE(session->Run({Feed{"value", *Tensor::Scalar(1.0f)}}, {}, {"set"}).ok());
    std::atomic<bool> done{false};
    std::thread writer([&] {
      for (int i = 0; !done.load(); ++i)
        EXPECT_TRUE(session->Run({Feed{"value", *Tensor::Scalar(static_cast<float>(i % 3))}}, {}, {"set"}).ok());
    });
    for (int i = 0; i < 200; ++i) {
      const auto values = session->Run({}, {"user"});
      EXPECT_TRUE(values.ok()) << values.status();
    }
    done.store(true);
    writer.join();
  }
}

}  // namespace
}  // namespace tenon::engine
