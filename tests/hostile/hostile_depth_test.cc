// SPDX-License-Identifier: Apache-2.0
// Graphs that are deep, long or wide, and messages within messages: what goes along them must not do so on the stack.
// Covers K2.
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

NodeDef* AddNode(GraphDef* graph, const std::string& name, const std::string& op,
                 const std::vector<std::string>& inputs) {
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
  for (int i = 0; i < length; ++i)
    AddNode(&graph, "n" + std::to_string(i), op, {i == 0 ? "one" : "n" + std::to_string(i - 1)});
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
  if (values.ok()) {
    EXPECT_EQ((*values)[0].scalar<float>(), 1);
  }
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
    IsRefusedOrReadByAll(
        Wrapped(1, name + Wrapped(5, Wrapped(1, "a") + Wrapped(2, Wrapped(8, Nested({3, 15}, depth))))));
    IsRefusedOrReadByAll(Wrapped(1, name + Wrapped(7, Nested({2}, depth))));
  }
}

TEST(HostileDepth, LengthsBeyondTheMessageAreRefused) {
  using std::string_literals::operator""s;
  for (const std::string& length :
       {"\x7f"s, "\xff\xff\xff\xff\x07"s, "\xff\xff\xff\xff\x0f"s, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"s,
        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s, "\x80"s})
    for (const std::string& tag : {"\x0a"s, "\x12"s, "\x22"s}) {
      IsRefusedOrReadByAll(tag + length);
      IsRefusedOrReadByAll(tag + length + "abc");
      IsRefusedOrReadByAll(Wrapped(1, tag + length));
      IsRefusedOrReadByAll(Wrapped(2, Wrapped(1, tag + length)));
    }
}

TEST(HostileDepth, GroupsAndUnknownWireTypesAreRefused) {
  for (const char* bytes : {"\x0b", "\x0c", "\x0e", "\x0f", "\x0b\x0b\x0b\x0b", "\xfb\xff\xff\xff\x0f"})
    IsRefusedOrReadByAll(bytes);
  IsRefusedOrReadByAll(std::string(100000, '\x0b'));
}

// ---- Datasets that functions give ----

using Attrs = std::vector<std::pair<std::string, tensorflow::AttrValue>>;

tensorflow::AttrValue OfFunction(const std::string& name) {
  tensorflow::AttrValue value;
  value.mutable_func()->set_name(name);
  return value;
}
tensorflow::AttrValue OfFunctions(const std::string& name, int count) {
  tensorflow::AttrValue value;
  for (int i = 0; i < count; ++i) value.mutable_list()->add_func()->set_name(name);
  return value;
}
tensorflow::AttrValue OfTypes(const std::vector<tensorflow::DataType>& types) {
  tensorflow::AttrValue value;
  value.mutable_list();
  for (const tensorflow::DataType type : types) value.mutable_list()->add_type(type);
  return value;
}
tensorflow::AttrValue OfNumbers(const std::vector<int64_t>& numbers) {
  tensorflow::AttrValue value;
  value.mutable_list();
  for (const int64_t number : numbers) value.mutable_list()->add_i(number);
  return value;
}
tensorflow::AttrValue OfOneShape() {
  tensorflow::AttrValue value;
  value.mutable_list()->add_shape()->set_unknown_rank(true);
  return value;
}
const Attrs& OfElements() {
  static const Attrs attrs = {{"output_types", OfTypes({tensorflow::DT_INT64})}, {"output_shapes", OfOneShape()}};
  return attrs;
}
void Fill(NodeDef* node, const std::string& name, const std::string& op, const std::vector<std::string>& inputs,
          const Attrs& attrs) {
  node->set_name(name);
  node->set_op(op);
  for (const std::string& input : inputs) node->add_input(input);
  for (const auto& [key, value] : attrs) (*node->mutable_attr())[key] = value;
}
void FillConst(NodeDef* node, const std::string& name, tensorflow::DataType type, int64_t number) {
  tensorflow::AttrValue is, value;
  is.set_type(type);
  value.mutable_tensor()->set_dtype(type);
  value.mutable_tensor()->mutable_tensor_shape();
  if (type == tensorflow::DT_INT64) value.mutable_tensor()->add_int64_val(number);
  else if (type == tensorflow::DT_INT32) value.mutable_tensor()->add_int_val(static_cast<int32_t>(number));
  else value.mutable_tensor()->add_bool_val(number != 0);
  Fill(node, name, "Const", {}, {{"dtype", is}, {"value", value}});
}
// A function "f" of numbers, which gives variants or numbers; `takes` besides: names of variants.
tensorflow::FunctionDef* AddF(GraphDef* graph, const std::string& name,
                              const std::vector<std::pair<std::string, tensorflow::DataType>>& takes,
                              tensorflow::DataType gives) {
  auto* function = graph->mutable_library()->add_function();
  auto* signature = function->mutable_signature();
  signature->set_name(name);
  signature->set_is_stateful(true);
  for (const auto& [argument, type] : takes) {
    auto* input = signature->add_input_arg();
    input->set_name(argument);
    input->set_type(type);
  }
  auto* output = signature->add_output_arg();
  output->set_name("y");
  output->set_type(gives);
  return function;
}

// What says a step that takes an element of a dataset whose function gives that dataset again. add: its node "m" in the
// function "f", which has "x", a dataset "t" of that, "one", "yes", and what more `takes` says.
Status OfItself(const std::string& caller, const std::vector<std::pair<std::string, tensorflow::DataType>>& takes,
                const std::function<void(tensorflow::FunctionDef*)>& add) {
  GraphDef graph;
  FillConst(graph.add_node(), "x", tensorflow::DT_INT64, 1);
  Fill(graph.add_node(), "t", "TensorDataset", {"x"},
       {{"Toutput_types", OfTypes({tensorflow::DT_INT64})}, {"output_shapes", OfOneShape()}});
  auto* f = AddF(&graph, "f", takes, tensorflow::DT_VARIANT);
  FillConst(f->add_node_def(), "one", tensorflow::DT_INT64, 1);
  FillConst(f->add_node_def(), "yes", tensorflow::DT_BOOL, 1);
  if (caller == "x")
    Fill(f->add_node_def(), "t", "TensorDataset", {"x"},
         {{"Toutput_types", OfTypes({tensorflow::DT_INT64})}, {"output_shapes", OfOneShape()}});
  add(f);
  (*f->mutable_ret())["y"] = "m:handle:0";
  auto* key = AddF(&graph, "key", {{"a", tensorflow::DT_INT64}}, tensorflow::DT_INT64);
  (*key->mutable_ret())["y"] = "a";
  tensorflow::AttrValue called = OfFunction("f");
  std::vector<std::string> inputs;
  std::vector<tensorflow::DataType> types;
  for (const auto& [argument, type] : takes) {
    inputs.push_back(type == tensorflow::DT_INT64 ? "x" : "t");
    types.push_back(type);
  }
  Fill(graph.add_node(), "d", "PartitionedCall", inputs,
       {{"f", called}, {"Tin", OfTypes(types)}, {"Tout", OfTypes({tensorflow::DT_VARIANT})}});
  Fill(graph.add_node(), "o", "DatasetToSingleElement", {"d"}, OfElements());
  auto session = Session::Create(TheRuntime(), SessionOptions());  // without a limit, which would end it too
  if (!session.ok()) return session.status();
  if (Status imported = session->Extend(graph.SerializeAsString()); !imported.ok()) return imported;
  return session->Run({}, {"o"}, {}, {.timeout = std::chrono::seconds(120)}).status();
}
Attrs WithF(const Attrs& more = {}) {
  Attrs attrs = OfElements();
  attrs.emplace_back("f", OfFunction("f"));
  attrs.emplace_back("Targuments", OfTypes({}));
  attrs.insert(attrs.end(), more.begin(), more.end());
  return attrs;
}

TEST(HostileDepth, ADatasetWhoseFunctionGivesItAgainIsRefused) {
  const std::vector<std::pair<std::string, tensorflow::DataType>> number = {{"x", tensorflow::DT_INT64}};
  const std::vector<std::pair<std::string, std::vector<std::string>>> forms = {
      {"FlatMapDataset", {}},
      {"InterleaveDataset", {"one:output:0", "one:output:0"}},
      {"ParallelInterleaveDataset", {"one:output:0", "one:output:0", "yes:output:0", "one:output:0", "one:output:0"}},
      {"LegacyParallelInterleaveDatasetV2", {"one:output:0", "one:output:0", "one:output:0", "one:output:0"}},
      {"ParallelInterleaveDatasetV3", {"one:output:0", "one:output:0", "one:output:0"}},
      {"ParallelInterleaveDatasetV4", {"one:output:0", "one:output:0", "one:output:0", "one:output:0", "one:output:0"}},
  };
  for (const auto& [op, more] : forms) {
    const Status status = OfItself("x", number, [&](tensorflow::FunctionDef* f) {
      std::vector<std::string> inputs = {"t:handle:0"};
      inputs.insert(inputs.end(), more.begin(), more.end());
      Fill(f->add_node_def(), "m", op, inputs, WithF());
    });
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << op << ": " << status;
    EXPECT_NE(std::string(status.message()).find("deeper than 1000 datasets"), std::string::npos)
        << op << ": " << status;
  }
}

TEST(HostileDepth, AGroupThatIsMadeOfItsOwnKindIsRefused) {
  const Status status =
      OfItself("w", {{"a", tensorflow::DT_INT64}, {"w", tensorflow::DT_VARIANT}}, [](tensorflow::FunctionDef* f) {
        Attrs attrs = OfElements();
        for (const char* of : {"key", "reduce", "window_size"})
          attrs.emplace_back("T" + std::string(of) + "_func_other_arguments", OfTypes({}));
        attrs.emplace_back("key_func", OfFunction("key"));
        attrs.emplace_back("reduce_func", OfFunction("f"));
        attrs.emplace_back("window_size_func", OfFunction("key"));
        Fill(f->add_node_def(), "m", "GroupByWindowDataset", {"w"}, attrs);
      });
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status;
  EXPECT_NE(std::string(status.message()).find("deeper than 1000 datasets"), std::string::npos) << status;
}

TEST(HostileDepth, ABranchThatIsMadeOfItselfIsRefused) {
  const Status status = OfItself("w", {{"w", tensorflow::DT_VARIANT}}, [](tensorflow::FunctionDef* f) {
    tensorflow::AttrValue each;
    each.set_i(1);
    Attrs attrs = OfElements();
    attrs.insert(attrs.end(), {{"branches", OfFunctions("f", 2)},
                               {"other_arguments_lengths", OfNumbers({0, 0})},
                               {"num_elements_per_branch", each},
                               {"Targuments", OfTypes({})}});
    Fill(f->add_node_def(), "m", "ChooseFastestBranchDataset", {"w", "one:output:0", "one:output:0"}, attrs);
  });
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status;
  EXPECT_NE(std::string(status.message()).find("deeper than 1000 datasets"), std::string::npos) << status;
}

// In each turn of a loop the function of the dataset of the last one gives the next: the functions have one another, in
// a row.
TEST(HostileDepth, ARowOfFunctionsThatHaveOneAnotherEnds) {
  constexpr int kTurns = 20000;
  GraphDef graph;
  FillConst(graph.add_node(), "zero", tensorflow::DT_INT32, 0);
  FillConst(graph.add_node(), "x", tensorflow::DT_INT64, 1);
  tensorflow::AttrValue shapes = OfOneShape();
  shapes.mutable_list()->add_shape()->set_unknown_rank(true);
  auto* f = AddF(&graph, "f", {{"x", tensorflow::DT_INT64}}, tensorflow::DT_VARIANT);
  Fill(f->add_node_def(), "t", "TensorDataset", {"x"},
       {{"Toutput_types", OfTypes({tensorflow::DT_INT64})}, {"output_shapes", OfOneShape()}});
  Fill(f->add_node_def(), "m", "MapDataset", {"t:handle:0"},
       {{"f", OfFunction("f")},
        {"Targuments", OfTypes({})},
        {"output_types", OfTypes({tensorflow::DT_VARIANT})},
        {"output_shapes", OfOneShape()}});
  (*f->mutable_ret())["y"] = "m:handle:0";
  Fill(graph.add_node(), "d", "PartitionedCall", {"x"},
       {{"f", OfFunction("f")}, {"Tin", OfTypes({tensorflow::DT_INT64})}, {"Tout", OfTypes({tensorflow::DT_VARIANT})}});
  Fill(graph.add_node(), "loop", "While", {"zero", "d"},
       {{"T", OfTypes({tensorflow::DT_INT32, tensorflow::DT_VARIANT})},
        {"cond", OfFunction("on")},
        {"body", OfFunction("turn")},
        {"output_shapes", shapes}});
  tensorflow::AttrValue number;
  number.set_type(tensorflow::DT_INT32);
  Fill(graph.add_node(), "turns", "Identity", {"loop"}, {{"T", number}});
  const std::vector<std::pair<std::string, tensorflow::DataType>> state = {{"i", tensorflow::DT_INT32},
                                                                           {"d", tensorflow::DT_VARIANT}};
  auto* on = AddF(&graph, "on", state, tensorflow::DT_BOOL);
  FillConst(on->add_node_def(), "most", tensorflow::DT_INT32, kTurns);
  Fill(on->add_node_def(), "less", "Less", {"i", "most:output:0"}, {{"T", number}});
  (*on->mutable_ret())["y"] = "less:z:0";
  auto* turn = AddF(&graph, "turn", state, tensorflow::DT_INT32);
  auto* still = turn->mutable_signature()->add_output_arg();
  still->set_name("still");
  still->set_type(tensorflow::DT_VARIANT);
  FillConst(turn->add_node_def(), "one", tensorflow::DT_INT32, 1);
  Fill(turn->add_node_def(), "sum", "AddV2", {"i", "one:output:0"}, {{"T", number}});
  Fill(turn->add_node_def(), "next", "DatasetToSingleElement", {"d"},
       {{"output_types", OfTypes({tensorflow::DT_VARIANT})}, {"output_shapes", OfOneShape()}});
  (*turn->mutable_ret())["y"] = "sum:z:0";
  (*turn->mutable_ret())["still"] = "next:components:0";
  auto session = Session::Create(TheRuntime(), SessionOptions());
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(session->Extend(graph.SerializeAsString()).ok());
  const auto values = session->Run({}, {"turns"}, {}, {.timeout = std::chrono::seconds(120)});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].scalar<int32_t>(), kTurns);
}

}  // namespace
}  // namespace tenon::engine
