// SPDX-License-Identifier: Apache-2.0
// Graphs that are deep, long or wide, and messages within messages: what goes along them must not do so on the stack. Covers K2.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "core/graph/graphdef/graph.pb.h"
#include "tenon/model/graph_index.h"
#include "tests/engine/engine.h"

namespace tenon::engine {
namespace {

using tensorflow::GraphDef;
using tensorflow::NodeDef;

NodeDef* AddNode(GraphDef* graph, const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
  NodeDef* node = graph->add_node();
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  (*node->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  return node;
}
void AddOne(GraphDef* graph) {
  NodeDef* node = graph->add_node();
  node->set_name("one");
  node->set_op("Const");
  auto& attrs = *node->mutable_attr();
  attrs["dtype"].set_type(tensorflow::DT_FLOAT);
  attrs["value"].mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  attrs["value"].mutable_tensor()->mutable_tensor_shape();
  attrs["value"].mutable_tensor()->add_float_val(1);
}
GraphDef Chain(const std::string& op, int length) {
  GraphDef graph;
  AddOne(&graph);
  for (int i = 0; i < length; ++i) AddNode(&graph, "n" + std::to_string(i), op, {i == 0 ? "one" : "n" + std::to_string(i - 1)});
  return graph;
}

// What a session says when it runs `fetch`, optimized or not, by either executor: the same each time.
Result<std::vector<Tensor>> Fetched(const std::string& bytes, const std::string& fetch) {
  Result<std::vector<Tensor>> answer = Status(Code::kInternal, "not run");
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) {
    SessionOptions options;
    options.memory_limit = 256 << 20;
    options.executor = executor;
    options.optimize = executor == TENON_EXECUTOR_AUTO;
    auto session = Session::Create(TheRuntime(), options);
    if (!session.ok()) return session.status();
    Status imported = session->Extend(bytes);
    if (!imported.ok()) return imported;
    answer = session->Run({}, {fetch}, {}, {.timeout = std::chrono::seconds(60)});
    if (!answer.ok()) return answer;
  }
  return answer;
}
float FetchedNumber(const GraphDef& graph, const std::string& fetch) {
  const auto values = Fetched(graph.SerializeAsString(), fetch);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0].scalar<float>() : 0;
}

TEST(HostileDepth, ARowOfFiftyThousandNodesRuns) { EXPECT_EQ(FetchedNumber(Chain("Neg", 50000), "n49999"), 1); }

TEST(HostileDepth, ARowOfTwentyThousandNodesHasAGradient) {
  auto graph = Graph::Import(TheRuntime(), Chain("Neg", 20000).SerializeAsString());
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto gradients = graph->Gradients({*graph->Find("n19999")}, {*graph->Find("one")});
  ASSERT_TRUE(graph->status().ok()) << graph->status();
  EXPECT_EQ(RunOnce(*graph, {}, {gradients[0].dense})[0].scalar<float>(), 1);
}

TEST(HostileDepth, ANodeOfTwentyThousandInputsRuns) {
  GraphDef graph;
  AddOne(&graph);
  NodeDef* sum = AddNode(&graph, "sum", "AddN", std::vector<std::string>(20000, "one"));
  (*sum->mutable_attr())["N"].set_i(20000);
  EXPECT_EQ(FetchedNumber(graph, "sum"), 20000);
}

TEST(HostileDepth, ANodeThatWaitsForTwentyThousandRuns) {
  GraphDef graph = Chain("Neg", 20000);
  std::vector<std::string> inputs = {"one"};
  for (int i = 0; i < 20000; ++i) inputs.push_back("^n" + std::to_string(i));
  AddNode(&graph, "last", "Neg", inputs);
  EXPECT_EQ(FetchedNumber(graph, "last"), -1);
}

// Enter in Enter in Enter, and out again.
TEST(HostileDepth, AThousandFramesWithinEachOtherRunOrAreRefused) {
  GraphDef graph;
  AddOne(&graph);
  constexpr int kFrames = 1000;
  std::string before = "one";
  for (int i = 0; i < kFrames; ++i) {
    NodeDef* enter = AddNode(&graph, "in" + std::to_string(i), "Enter", {before});
    (*enter->mutable_attr())["frame_name"].set_s("f" + std::to_string(i));
    before = enter->name();
  }
  for (int i = 0; i < kFrames; ++i) before = AddNode(&graph, "out" + std::to_string(i), "Exit", {before})->name();
  const auto values = Fetched(graph.SerializeAsString(), before);
  if (values.ok()) EXPECT_EQ((*values)[0].scalar<float>(), 1);
  else EXPECT_FALSE(values.status().message().empty());
}

// ---- Messages ----

std::string Wrapped(uint32_t field, const std::string& inner) {
  std::string out;
  const auto put = [&](uint64_t number) {
    for (; number >= 0x80; number >>= 7) out.push_back(static_cast<char>(number | 0x80));
    out.push_back(static_cast<char>(number));
  };
  put(uint64_t{field} << 3 | 2);
  put(inner.size());
  return out + inner;
}
std::string Nested(const std::vector<uint32_t>& fields, int depth) {
  std::string inner;
  for (int i = 0; i < depth; ++i)
    for (const uint32_t field : fields) inner = Wrapped(field, inner);
  return inner;
}
void IsRefusedOrReadByAll(const std::string& bytes) {
  const auto values = Fetched(bytes, "x");
  EXPECT_FALSE(values.ok());
  EXPECT_FALSE(values.status().message().empty());
  const auto graph = Graph::Import(TheRuntime(), bytes);
  EXPECT_TRUE(graph.ok() || !graph.status().message().empty());
  const auto index = model::GraphIndex::Build(bytes);
  EXPECT_TRUE(index.ok() || !index.status().message().empty());
}

TEST(HostileDepth, MessagesWithinMessagesAreRefusedHoweverDeep) {
  for (const int depth : {10, 40, 120, 3000}) {
    // Of a node's attribute `a`: lists of functions' attributes; tensors of variants of tensors. And types of types.
    const std::string name = Wrapped(1, "x") + Wrapped(2, "NoOp");
    IsRefusedOrReadByAll(Wrapped(1, name + Wrapped(5, Wrapped(1, "a") + Wrapped(2, Nested({2, 2, 9, 1}, depth)))));
    IsRefusedOrReadByAll(Wrapped(1, name + Wrapped(5, Wrapped(1, "a") + Wrapped(2, Wrapped(8, Nested({3, 15}, depth))))));
    IsRefusedOrReadByAll(Wrapped(1, name + Wrapped(7, Nested({2}, depth))));
  }
}

TEST(HostileDepth, LengthsBeyondTheMessageAreRefused) {
  using std::string_literals::operator""s;
  for (const std::string& length : {"\x7f"s, "\xff\xff\xff\xff\x07"s, "\xff\xff\xff\xff\x0f"s, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"s,
                                    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, "\x80"s})
    for (const std::string& tag : {"\x0a"s, "\x12"s, "\x22"s}) {
      IsRefusedOrReadByAll(tag + length);
      IsRefusedOrReadByAll(tag + length + "abc");
      IsRefusedOrReadByAll(Wrapped(1, tag + length));
      IsRefusedOrReadByAll(Wrapped(2, Wrapped(1, tag + length)));
    }
}

TEST(HostileDepth, GroupsAndUnknownWireTypesAreRefused) {
  for (const char* bytes : {"\x0b", "\x0c", "\x0e", "\x0f", "\x0b\x0b\x0b\x0b", "\xfb\xff\xff\xff\x0f"}) IsRefusedOrReadByAll(bytes);
  IsRefusedOrReadByAll(std::string(100000, '\x0b'));
}

}  // namespace
}  // namespace tenon::engine
