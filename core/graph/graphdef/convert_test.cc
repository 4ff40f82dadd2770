// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graphdef/convert.h"
// Covers A9, E5.
#include <sys/mman.h>

#include "core/graph/function/function_def.h"
#include "core/graph/graph.h"
#include "core/graph/graphdef/graph.pb.h"
#include "core/graph/graphdef/tensor_proto.h"
#include "core/graph/merge.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::graph::convert_test {
namespace {

using fakes::GraphMaker;
using fakes::TensorOf;

std::string Bytes(const tensorflow::GraphDef& def) { return def.SerializeAsString(); }

tensorflow::NodeDef* AddNode(tensorflow::GraphDef* def, const char* name, const char* op,
                             std::initializer_list<const char*> inputs = {}) {
  auto* node = def->add_node();
  node->set_name(name);
  node->set_op(op);
  for (const char* input : inputs) node->add_input(input);
  return node;
}
void AddFeed(tensorflow::GraphDef* def, const char* name) {
  (*AddNode(def, name, "Feed")->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
}

TEST(GraphDef, BringsEveryKindOfAttributeThereAndBack) {
  const auto inner = std::make_shared<AttrMap>();
  inner->emplace("n", AttrValue::Ints({4, 5}));
  const std::string_view texts[] = {"a", std::string_view("\0b", 2)};
  const auto strings = Tensor::Strings(GlobalPool(), {2}, texts);
  const Tensor tensor = TensorOf<int64_t>(TENON_DT_INT64, {2, 1}, {-1, int64_t{1} << 60});
  const AttrMap attrs = {{"_s", AttrValue::String(std::string("\xff\0x", 3))},
                         {"_i", AttrValue::Int(INT64_MIN)},
                         {"_f", AttrValue::Float(-0.0f)},
                         {"_b", AttrValue::Bool(false)},
                         {"_t", AttrValue::Type(TENON_DT_FLOAT + TENON_DT_REF)},
                         {"_h", AttrValue::OfShape({2, -1})},
                         {"_u", AttrValue::OfShape(Shape::Unknown())},
                         {"_v", AttrValue::OfTensor(tensor)},
                         {"_vs", AttrValue::OfTensor(*strings)},
                         {"_ve", AttrValue::OfTensor(TensorOf<float>(TENON_DT_FLOAT, {0, 3}, {}))},
                         {"_g", AttrValue::Function({"f", inner})},
                         {"_ls", AttrValue::Strings({"", "x"})},
                         {"_li", AttrValue::Ints({0, -1})},
                         {"_lf", AttrValue::Floats({0.5f})},
                         {"_lb", AttrValue::Bools({1, 0})},
                         {"_lt", AttrValue::Types({TENON_DT_HALF})},
                         {"_lh", AttrValue::Shapes({Shape(), Shape::Unknown()})},
                         {"_lv", AttrValue::Tensors({tensor})},
                         {"_lg", AttrValue::Functions({{"f", inner}, {"g", nullptr}})},
                         {"_le", AttrValue::Ints({})}};
  GraphMaker g;
  g.Add("Nothing", {}, attrs, "n");
  const auto bytes = ExportGraphDef(g.graph);
  ASSERT_TRUE(bytes.ok());
  Graph back(&fakes::TinyOps());
  ASSERT_TRUE(ImportGraphDef(*bytes, &back).ok());
  for (const auto& [name, value] : attrs) {
    const AttrValue* found = back.node(NodeId(0)).FindAttr(name);
    ASSERT_NE(found, nullptr) << name;
    EXPECT_TRUE(found->Equals(value)) << name << ": " << found->ToString();
  }
  EXPECT_EQ(*ExportGraphDef(back), *bytes);
}

TEST(GraphDef, AnOpenInputIsNamedInsteadOfWritten) {
  GraphMaker g;
  const graph::Edge x = g.Value(1, "x");
  g.Add("Join", {x, {}}, {}, "join");
  const auto bytes = ExportGraphDef(g.graph);
  EXPECT_EQ(
      bytes.status().ToString(),
      "FAILED_PRECONDITION: node 'join' (Join): input 1 is open, and a GraphDef cannot say so; give it a value first");
}

TEST(GraphDef, BringsTensorsOfEveryPlainTypeThereAndBack) {
  for (DType dtype = 1; dtype < TENON_DT_REF; ++dtype) {
    if (!IsPlain(dtype)) continue;
    auto tensor = Tensor::Allocate(GlobalPool(), dtype, {3});
    ASSERT_TRUE(tensor.ok());
    for (uint64_t i = 0; i < tensor->byte_size(); ++i)
      tensor->as<uint8_t>()[i] = static_cast<uint8_t>(dtype == TENON_DT_BOOL ? i % 2 : i * 37 + 1);
    tensorflow::TensorProto proto;
    TensorToProto(*tensor, &proto);
    int64_t budget = 0;
    const auto back = TensorFromProto(proto, &budget);
    ASSERT_TRUE(back.ok()) << TypeName(dtype) << ": " << back.status().ToString();
    EXPECT_TRUE(AttrValue::OfTensor(*back).Equals(AttrValue::OfTensor(*tensor))) << TypeName(dtype);
  }
}

TEST(GraphDef, FillsConstantsFromShortLists) {
  tensorflow::TensorProto proto;
  proto.set_dtype(tensorflow::DT_FLOAT);
  proto.mutable_tensor_shape()->add_dim()->set_size(100);
  proto.add_float_val(1);
  proto.add_float_val(2);
  int64_t budget = 1000;
  const auto tensor = TensorFromProto(proto, &budget);
  ASSERT_TRUE(tensor.ok());
  std::vector<float> wanted(100, 2);
  wanted[0] = 1;
  EXPECT_EQ(std::vector<float>(tensor->as<float>(), tensor->as<float>() + 100), wanted);
  const auto held = static_cast<int64_t>(proto.ByteSizeLong());
  EXPECT_EQ(budget, 1000 - (400 - held)) << "what the file does not hold is charged";
  budget = 399 - held;
  EXPECT_EQ(TensorFromProto(proto, &budget).status().ToString(),
            StrCat("RESOURCE_EXHAUSTED: a constant of float[100] takes 400 bytes, of which the file holds ", held,
                   "; constants of one file may grow by 1 GiB at most: use Fill instead"));
}

TEST(GraphDef, BringsFunctionsWithLongNamesThereAndBack) {
  GraphMaker g;
  FunctionDef f;
  f.name = "__inference_" + std::string(3000, 'n') + "_17";
  f.inputs = {{"x", TENON_DT_INVALID, "T", "N", ""}, {"rest", TENON_DT_INVALID, "", "", "L"}};
  f.outputs = {{"y", TENON_DT_FLOAT, "", "", ""}};
  f.attrs = {{"T", TENON_ATTR_TYPE, AttrValue::Type(TENON_DT_FLOAT), {}, {}, {}},
             {"N", TENON_ATTR_INT, {}, {}, {}, {}},
             {"L", TENON_ATTR_TYPE | TENON_ATTR_LIST, {}, {}, {}, {}}};
  f.nodes = {{"sum", "Total", "/device:x", {"x", "^rest"}, {{"T", AttrValue::Placeholder("T")}}}};
  f.returns = {{"y", "sum:sum:0"}};
  f.control_returns = {{"sum", "sum"}};
  f.is_stateful = true;
  g.graph.library()[f.name] = std::make_shared<const FunctionDef>(f);
  const auto bytes = ExportGraphDef(g.graph);
  ASSERT_TRUE(bytes.ok());
  Graph back(&fakes::TinyOps());
  ASSERT_TRUE(ImportGraphDef(*bytes, &back).ok());
  ASSERT_TRUE(back.library().contains(f.name));
  const FunctionDef& found = *back.library().at(f.name);
  EXPECT_EQ(found.inputs[0].number_attr, "N");
  EXPECT_EQ(found.inputs[1].type_list_attr, "L");
  EXPECT_EQ(found.attrs[0].default_value->type(), DType{TENON_DT_FLOAT});
  EXPECT_EQ(found.attrs[2].kind, uint32_t{TENON_ATTR_TYPE | TENON_ATTR_LIST});
  EXPECT_EQ(found.nodes[0].inputs, f.nodes[0].inputs);
  EXPECT_EQ(found.nodes[0].device, "/device:x");
  EXPECT_EQ(found.nodes[0].attrs.at("T").placeholder(), "T");
  EXPECT_EQ(found.returns, f.returns);
  EXPECT_EQ(found.control_returns, f.control_returns);
  EXPECT_TRUE(found.is_stateful);
  EXPECT_EQ(*ExportGraphDef(back), *bytes);
}

// A member of a message: of one byte's number, with bytes of up to 16383.
std::string Member(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>((bytes.size() & 0x7f) | 0x80) +
         static_cast<char>(bytes.size() >> 7) + bytes;
}

// As it stood in the file: members that nobody here reads or knows, maps in any order.
TEST(GraphDef, WritesAFunctionThatItReadByteForByte) {
  tensorflow::FunctionDef f;
  f.mutable_signature()->set_name("f");
  f.mutable_signature()->set_description("says what it is");
  f.mutable_signature()->add_control_output("done");
  auto* node = f.add_node_def();
  node->set_name("n");
  node->set_op("Nothing");
  node->mutable_experimental_debug_info()->add_original_node_names("N");
  (*f.mutable_control_ret())["done"] = "n";
  (*(*f.mutable_arg_attr())[0].mutable_attr())["_output_shapes"].mutable_list()->add_shape();
  (*f.mutable_attr())["_noinline"].set_b(true);
  (*f.mutable_attr())["_nothing"];
  std::string known;
  f.SerializeToString(&known);
  const std::string map = Member(5, Member(1, "_z") + Member(2, std::string("\x28\x01", 2))) +
                          Member(5, Member(1, "_a") + Member(2, std::string("\x28\x01", 2)));
  const std::string bytes = known + map + "\xfa\x7f\x02hi";  // a member that does not exist yet
  Graph graph(&fakes::TinyOps());
  const Status status = ImportGraphDef(Member(2, Member(1, bytes)), &graph);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const FunctionDef& found = *graph.library().at("f");
  EXPECT_EQ(found.description, "says what it is");
  EXPECT_EQ(found.control_returns.at("done"), "n");
  EXPECT_TRUE(found.labels.at("_noinline").b());
  EXPECT_TRUE(found.labels.at("_z").b());
  EXPECT_FALSE(found.labels.contains("_nothing"));
  const auto written = ExportGraphDef(graph);
  ASSERT_TRUE(written.ok());
  EXPECT_NE(written->find(bytes), std::string::npos);
  EXPECT_TRUE(ImportGraphDef(Member(2, Member(1, known + map)), &graph).ok()) << "the same in all that is known here";
  EXPECT_EQ(*ExportGraphDef(graph), *written) << "the first one stays";
  EXPECT_EQ(ImportGraphDef(Member(2, Member(1, known)), &graph).code(), Code::kAlreadyExists)
      << "without two attributes";
}

// Which function is the gradient of which op in a saved model: nothing here asks, and who reads what is written may.
TEST(GraphDef, CarriesRegisteredGradients) {
  // An op's type before the function, and a member that nobody knows.
  const std::string first = Member(2, "CustomGradient-7") + Member(1, "f") + Member(9, "later"),
                    second = Member(1, "b") + Member(2, "A");
  const auto library = [](const std::vector<std::string>& gradients) {
    std::string bytes = Member(1, Member(1, Member(1, "f")));
    for (const std::string& gradient : gradients) bytes += Member(3, gradient);
    return Member(2, bytes);
  };
  const auto written = [](const Graph& graph) { return *ExportGraphDef(graph); };
  Graph graph(&fakes::TinyOps());
  ASSERT_TRUE(ImportGraphDef(library({first, second}), &graph).ok());
  const std::string bytes = written(graph);
  EXPECT_LT(bytes.find(first), bytes.find(second));
  EXPECT_NE(bytes.find(second), std::string::npos);
  ASSERT_TRUE(ImportGraphDef(library({second}), &graph).ok());
  EXPECT_EQ(written(graph), bytes) << "once";
  EXPECT_EQ(written(graph.Clone()), bytes);
  Graph other(&fakes::TinyOps());
  ASSERT_TRUE(ImportGraphDef(library({second}), &other).ok());
  ASSERT_TRUE(Merge(graph, &other).ok());
  EXPECT_LT(written(other).find(second), written(other).find(first));
  tensorflow::GraphDef broken;
  broken.mutable_library()->add_registered_gradients()->set_gradient_func("g");
  broken.add_node()->set_op("Nowhere");
  EXPECT_FALSE(ImportGraphDef(Bytes(broken), &graph).ok());
  EXPECT_EQ(written(graph), bytes) << "all or nothing";
}

TEST(GraphDef, BindsGradientsToFunctions) {
  const auto library = [](const std::vector<const char*>& functions, const char* of, const char* gradient) {
    tensorflow::GraphDef def;
    for (const char* name : functions) def.mutable_library()->add_function()->mutable_signature()->set_name(name);
    def.mutable_library()->add_gradient()->set_function_name(of);
    def.mutable_library()->mutable_gradient(0)->set_gradient_func(gradient);
    return Bytes(def);
  };
  Graph graph(&fakes::TinyOps());
  EXPECT_EQ(ImportGraphDef(library({"f"}, "f", "g"), &graph).ToString(),
            "NOT_FOUND: 'g' as the gradient of function 'f': the graph's library has no function 'g' (it has 1)");
  EXPECT_EQ(ImportGraphDef(library({"g"}, "f", "g"), &graph).code(), Code::kNotFound);
  EXPECT_TRUE(graph.library().empty());
  ASSERT_TRUE(ImportGraphDef(library({"f", "g", "h"}, "f", "g"), &graph).ok());
  EXPECT_EQ(graph.library().at("f")->gradient, "g");
  ASSERT_TRUE(ImportGraphDef(library({}, "g", "h"), &graph).ok());
  EXPECT_EQ(graph.library().at("g")->gradient, "h") << "of a function that was there";
  EXPECT_EQ(
      ImportGraphDef(library({"f"}, "f", "h"), &graph).ToString(),
      "ALREADY_EXISTS: 'h' as the gradient of function 'f': the gradient of function 'f' is 'g'; 'h' cannot be it too");
  Graph back(&fakes::TinyOps());
  ASSERT_TRUE(ImportGraphDef(*ExportGraphDef(graph), &back).ok());
  EXPECT_EQ(back.library().at("f")->gradient, "g");
  EXPECT_EQ(back.library().at("g")->gradient, "h");
}

TEST(GraphDef, BringsALoopThereAndBackInAnyOrder) {
  GraphMaker g;
  g.While(
      "loop", {g.Value(0)},
      [&](const auto& v) {
        return g.Add("Below", {v[0], v[0]});
      },
      [](const auto& v) { return v; });
  const auto bytes = ExportGraphDef(g.graph);
  ASSERT_TRUE(bytes.ok());
  tensorflow::GraphDef def, reversed;
  ASSERT_TRUE(def.ParseFromString(*bytes));
  *reversed.mutable_versions() = def.versions();
  for (int i = def.node_size(); i-- > 0;) *reversed.add_node() = def.node(i);
  Graph back(&fakes::TinyOps());
  const Status status = ImportGraphDef(Bytes(reversed), &back);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(back.size(), g.graph.size());
  const Node& merge = back.node(back.Find("loop/merge0"));
  EXPECT_EQ(back.node(merge.inputs[1].node).name, "loop/next0");
}

TEST(GraphDef, SaysWhatIsWrongAndAddsNothing) {
  struct Case {
    std::function<void(tensorflow::GraphDef*)> make;
    const char* text;
  };
  const Case cases[] = {
      {[](auto* def) { AddNode(def, "c", "Copy", {"lost"}); },
       "INVALID_ARGUMENT: node 'c' (Copy): input 'lost' names a node that does not exist"},
      {[](auto* def) { AddNode(def, "c", "Copy", {"a:x"}); },
       "INVALID_ARGUMENT: node 'c' (Copy): input 'a:x' is malformed"},
      {[](auto* def) { AddNode(def, "c", "Copy", {"a:3"}); },
       "INVALID_ARGUMENT: node 'c' (Copy): input 0 names an output that does not exist"},
      {[](auto* def) {
         AddNode(def, "c", "Copy", {"^a", "a"});
       },
       "INVALID_ARGUMENT: node 'c' (Copy): the data input 'a' stands after a control input"},
      {[](auto* def) { AddFeed(def, "a"); }, "INVALID_ARGUMENT: two nodes have the name 'a'"},
      {[](auto* def) { AddNode(def, "c", "Copy", {"d"}), AddNode(def, "d", "Copy", {"c"}); },
       "INVALID_ARGUMENT: the graph has a cycle that is no loop; nodes on or after it: 'c' (Copy), 'd' (Copy)"},
      {[](auto* def) { (*AddNode(def, "c", "Nothing")->mutable_attr())["_x"]; },
       "INVALID_ARGUMENT: node 'c' (Nothing): attribute '_x': an attribute has no value"},
      {[](auto* def) {
         (*AddNode(def, "c", "Nothing")->mutable_attr())["_x"].set_type(static_cast<tensorflow::DataType>(99));
       },
       "INVALID_ARGUMENT: node 'c' (Nothing): attribute '_x': there is no element type 99"},
      {[](auto* def) { (*AddNode(def, "c", "Nothing")->mutable_attr())[""].set_i(1); },
       "INVALID_ARGUMENT: node 'c' (Nothing): an attribute has no name"},
      {[](auto* def) { def->mutable_library()->add_function(); }, "INVALID_ARGUMENT: a function has no name"},
      {[](auto* def) { def->mutable_library()->add_function()->mutable_signature()->set_name("Plus"); },
       "ALREADY_EXISTS: the graph's library: 'Plus' is an op of package 'tiny'; give the function another name"},
      {[](auto* def) {
         auto* again = def->mutable_library()->add_function()->mutable_signature();
         again->set_name("f");
         again->add_input_arg()->set_name("x");
       },
       "ALREADY_EXISTS: there are two functions 'f', and they are not the same"},
      {[](auto* def) { (*AddNode(def, "c", "Nothing")->mutable_attr())["_class"].mutable_list()->add_s("loc:@lost"); },
       "INVALID_ARGUMENT: node 'c' (Nothing): it is to be colocated with the node 'lost', which does not exist"},
      {[](auto* def) { def->mutable_versions()->add_bad_consumers(1766); },
       "UNIMPLEMENTED: the graph says that consumers of version 1766, as this is, compute it wrongly"},
      {[](auto* def) { def->mutable_versions()->set_min_consumer(2000000); },
       "UNIMPLEMENTED: the graph, of version 0, needs a consumer of version 2000000; this is one of version 1766"},
  };
  for (const Case& c : cases) {
    tensorflow::GraphDef def;
    AddFeed(&def, "a");
    def.mutable_library()->add_function()->mutable_signature()->set_name("f");
    c.make(&def);
    Graph graph(&fakes::TinyOps());
    EXPECT_EQ(ImportGraphDef(Bytes(def), &graph).ToString(), c.text);
    EXPECT_EQ(graph.size(), 0);
    EXPECT_TRUE(graph.library().empty()) << c.text;
    EXPECT_EQ(graph.producer(), 0);
  }
  Graph graph(&fakes::TinyOps());
  EXPECT_EQ(ImportGraphDef("\xff\xff\xff", &graph).ToString(),
            "INVALID_ARGUMENT: the 3 bytes are no GraphDef: truncated, damaged, or another format (text?)");
}

TEST(GraphDef, RefusesDeprecatedOpsFromTheirVersionOn) {
  tenon_op_definition op = fakes::DefineOp("Old", "", "");
  op.deprecated_at = 10;
  op.deprecation = TENON_SPAN("use New");
  OpRegistry registry;
  ASSERT_TRUE(fakes::RegisterOps(&registry, {&op}).ok());
  const auto import = [&](int producer) {
    tensorflow::GraphDef def;
    AddNode(&def, "n", "Old");
    def.mutable_versions()->set_producer(producer);
    Graph graph(&registry);
    return ImportGraphDef(Bytes(def), &graph).ToString();
  };
  EXPECT_EQ(import(9), "OK");
  EXPECT_EQ(import(10), "INVALID_ARGUMENT: node 'n' (Old): the op is deprecated since version 10: use New");
}

TEST(GraphDef, AddsToAGraphThatHasNodes) {
  GraphMaker g;
  g.Feed(TENON_DT_FLOAT, {}, "x");
  tensorflow::GraphDef def;
  AddNode(&def, "y", "Copy", {"x"});
  ASSERT_TRUE(ImportGraphDef(Bytes(def), &g.graph).ok());
  EXPECT_EQ(g.graph.node(g.graph.Find("y")).inputs[0].node, g.graph.Find("x"));
  EXPECT_EQ(ImportGraphDef(Bytes(def), &g.graph).ToString(), "ALREADY_EXISTS: the graph already has a node 'y'");
}

TEST(GraphDef, LeavesOutWhatNobodyKnowsAndAllThatReadsIt) {
  tensorflow::GraphDef def;
  AddFeed(&def, "x");
  AddNode(&def, "reader", "Copy", {"odd"});
  AddNode(&def, "odd", "Frobnicate", {"x"});
  AddNode(&def, "after", "Copy", {"x", "^reader"});
  (*AddNode(&def, "newer", "Copy", {"x"})->mutable_attr())["grace"].set_b(true);
  AddNode(&def, "good", "Copy", {"x"});
  Graph graph(&fakes::TinyOps());
  EXPECT_EQ(ImportGraphDef(Bytes(def), &graph).code(), Code::kNotFound) << "unless it is said that they may be";
  EXPECT_EQ(graph.size(), 0);
  ASSERT_TRUE(ImportGraphDef(Bytes(def), &graph, Unknown::kLeaveOut).ok());
  EXPECT_EQ(graph.size(), 2);
  EXPECT_TRUE(graph.Find("good"));
  for (const char* name : {"odd", "reader", "after"})
    EXPECT_TRUE(graph.Get(name).status().ToString().starts_with(
        "NOT_FOUND: node 'odd': no loaded plugin has the op 'Frobnicate'"))
        << name;
  EXPECT_EQ(
      graph.ParseEdge("newer:0").status().ToString(),
      "INVALID_ARGUMENT: node 'newer' (Copy): the op has no attribute 'grace'; the graph may be of a newer version");
  EXPECT_FALSE(graph.Clone().Get("odd").status().message().find("Frobnicate") == std::string::npos);

  tensorflow::GraphDef more;
  AddNode(&more, "later", "Copy", {"reader"});
  AddNode(&more, "other", "Copy", {"good"});
  EXPECT_TRUE(ImportGraphDef(Bytes(more), &graph)
                  .ToString()
                  .starts_with("NOT_FOUND: node 'later' cannot be added: node 'odd': no loaded"));
  ASSERT_TRUE(ImportGraphDef(Bytes(more), &graph, Unknown::kLeaveOut).ok());
  EXPECT_TRUE(graph.Find("other"));
  EXPECT_TRUE(graph.IsMissing("later"));
  EXPECT_EQ(ImportGraphDef(Bytes(more), &graph, Unknown::kLeaveOut).code(), Code::kAlreadyExists);
}

TEST(GraphDef, LeavesOutAWholeLoopWhenPartOfItIsUnknown) {
  GraphMaker g;
  const auto loop = g.While("loop", {g.Value(0)}, [&](const auto& v) { return g.Add("Below", {v[0], v[0]}); },
                            [&](const auto& v) { return std::vector<Edge>{g.Add("Copy", {v[0]}, {}, "step")}; });
  g.Add("Copy", {loop.exits[0]}, {}, "end");
  tensorflow::GraphDef def;
  ASSERT_TRUE(def.ParseFromString(*ExportGraphDef(g.graph)));
  for (auto& node : *def.mutable_node())
    if (node.name() == "step") node.set_op("Frobnicate");
  Graph graph(&fakes::TinyOps());
  ASSERT_TRUE(ImportGraphDef(Bytes(def), &graph, Unknown::kLeaveOut).ok());
  for (const char* name : {"step", "loop/merge0", "loop/next0", "end"}) EXPECT_TRUE(graph.IsMissing(name)) << name;
}

// A function whose import failed must not live on as the op that was made of it.
TEST(GraphDef, ForgetsTheOpsOfFunctionsThatItDidNotAdd) {
  const auto library_call = [](const char* output_type_attr, bool good) {
    tensorflow::GraphDef def;
    auto* f = def.mutable_library()->add_function();
    f->mutable_signature()->set_name("F");
    auto* out = f->mutable_signature()->add_output_arg();
    out->set_name("y");
    out->set_type(std::string_view(output_type_attr) == "int" ? tensorflow::DT_INT32 : tensorflow::DT_FLOAT);
    AddNode(&def, "call", "F");
    if (!good) AddNode(&def, "bad", "Copy", {"call", "call"});
    return Bytes(def);
  };
  Graph graph(&fakes::TinyOps());
  EXPECT_FALSE(ImportGraphDef(library_call("int", false), &graph).ok());
  ASSERT_TRUE(ImportGraphDef(library_call("float", true), &graph).ok());
  EXPECT_EQ(graph.TypeOf({graph.Find("call"), 0}), DType{TENON_DT_FLOAT});
}

TEST(GraphDef, RefusesMoreThanProtobufsLimitBeforeItReads) {
  // Two gigabytes of address space that are never touched.
  const size_t size = (size_t{1} << 31) + 1;
  void* const memory = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Graph graph(&fakes::TinyOps());
  EXPECT_EQ(ImportGraphDef({static_cast<const char*>(memory), size}, &graph).ToString(),
            "RESOURCE_EXHAUSTED: a GraphDef of 2147483649 bytes; protobuf's limit is 2 GiB");
  munmap(memory, size);
}

}  // namespace
}  // namespace tenon::graph::convert_test
