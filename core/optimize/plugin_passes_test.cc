// SPDX-License-Identifier: Apache-2.0
#include "core/optimize/plugin_passes.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/table_check.h"
#include "core/graph/graph.h"
#include "core/optimize/optimize.h"
#include "tenon/ext/draft/graph_pass.h"
#include "tenon/kernel.h"
#include "tenon/session_options.h"
#include "tests/fakes/tiny_ops.h"

namespace tenon::optimize::plugin_passes_test {
namespace {

using fakes::GraphMaker;
using graph::AttrValue;
using graph::Edge;
using graph::NodeId;

constexpr std::string_view kDevice = "/job:localhost/replica:0/task:0/device:CPU:0";

// What a pass does is a function of the test here.
std::function<void(const tenon_graph_pass_args&)>& Body() {
  static std::function<void(const tenon_graph_pass_args&)> body;
  return body;
}

class Passes : public testing::Test {
 protected:
  // One call of a pass that is about Plus.
  void Call(const Request& asked, std::function<void(const tenon_graph_pass_args&)> body) {
    Body() = [&](const tenon_graph_pass_args& args) {
      called_ = true;
      body(args);
    };
    static constexpr tenon_span kOps[] = {TENON_SPAN("Plus")};
    static const tenon_graph_pass kTable = {
        TENON_HEAD(tenon_graph_pass), TENON_SPAN("test"), kOps, 1, &Run, 0, 0, 0, {}};
    auto pass = AdoptPass(&kTable, fakes::InstanceNamed("tiny"));
    ASSERT_TRUE(pass.ok()) << pass.status().ToString();
    const auto has_kernel = [this](const graph::Node& node, std::string_view device) {
      asked_ = {node.op->name, std::string(device)};
      return has_kernel_;
    };
    Request request = asked;
    NodeNotes notes;
    const auto changed = RunPluginPasses({*pass}, {0, false, {}, {}, true, has_kernel}, &g_.graph, &request, &notes);
    ASSERT_TRUE(changed.ok()) << changed.status().ToString();
    EXPECT_TRUE(called_);
  }
  static tenon_status* Run(tenon_plugin_self*, const tenon_graph_pass_args* args) {
    Body()(*args);
    return nullptr;
  }

  // Like node `like`; -1 with why not.
  int64_t Add(const tenon_graph_pass_args& args, int64_t like, const std::vector<Edge>& inputs,
              std::optional<tenon_attr> attr = {}) {
    std::vector<tenon_output> edges;
    for (const Edge& input : inputs) edges.push_back(graph::ToC(input));
    int64_t added = -1;
    const Status status(args.add_like(&args, like, edges.data(), edges.size(), attr ? &*attr : nullptr,
                                      attr ? 1 : 0, &added));
    why_ = status.message();
    EXPECT_EQ(status.ok(), added >= 0);
    return added;
  }
  // The types of its outputs; nothing: it does not run.
  std::optional<std::vector<uint32_t>> Types(const tenon_graph_pass_args& args, int64_t like,
                                             std::vector<uint32_t> inputs, std::optional<tenon_attr> attr = {}) {
    std::vector<uint32_t> outputs(4, TENON_DT_INVALID);
    if (args.runs_like(&args, like, Span(kDevice), inputs.data(), inputs.size(), attr ? &*attr : nullptr, attr ? 1 : 0,
                       outputs.data()) == 0)
      return std::nullopt;
    std::erase(outputs, uint32_t{TENON_DT_INVALID});
    return outputs;
  }
  const graph::Node& Node(int64_t id) const { return g_.graph.node(NodeId(id)); }
  Edge Double() { return g_.ValueOf(fakes::TensorOf<double>(TENON_DT_DOUBLE, {}, {2})); }

  GraphMaker g_;
  Edge x_ = g_.Feed(TENON_DT_FLOAT, {}, "x"), plus_ = g_.Add("Plus", {x_, g_.Value(1)}, {}, "plus");
  bool has_kernel_ = true, called_ = false;
  std::pair<std::string, std::string> asked_;
  std::string why_;
};

tenon_attr TypeAttr(std::string_view name, const uint32_t* type) {
  return {Span(name), {TENON_ATTR_TYPE, 0, 1, type}};
}

TEST_F(Passes, AddNodesThatAreLikeOthersButForTheirInputs) {
  const Edge two = Double();
  const Edge cast = g_.Add("Convert", {x_}, {{"DstT", AttrValue::Type(TENON_DT_INT32)}});
  const Edge lists =
      g_.Add("TwoLists", {x_, two, x_, two, two}, {{"A", AttrValue::Types({TENON_DT_FLOAT, TENON_DT_DOUBLE})}});
  Call({{}, {plus_, cast, lists}, {}}, [&](const tenon_graph_pass_args& args) {
    const int64_t plus = Add(args, plus_.node.number(), {two, two});
    ASSERT_GE(plus, 0) << why_;
    EXPECT_EQ(Node(plus).op->name, "Plus");
    EXPECT_EQ(Node(plus).output_types, std::vector<DType>{TENON_DT_DOUBLE});
    const int64_t same = Add(args, cast.node.number(), {two});
    ASSERT_GE(same, 0) << why_;
    EXPECT_EQ(Node(same).input_types, std::vector<DType>{TENON_DT_DOUBLE});
    EXPECT_EQ(Node(same).output_types, std::vector<DType>{TENON_DT_INT32});
    const uint32_t to = TENON_DT_INT64;
    const int64_t other = Add(args, cast.node.number(), {two}, TypeAttr("DstT", &to));
    ASSERT_GE(other, 0) << why_;
    EXPECT_EQ(Node(other).output_types, std::vector<DType>{TENON_DT_INT64});
    const int64_t turned = Add(args, lists.node.number(), {two, x_, x_, x_, two});
    ASSERT_GE(turned, 0) << why_;
    EXPECT_EQ(Node(turned).input_types,
              (std::vector<DType>{TENON_DT_DOUBLE, TENON_DT_FLOAT, TENON_DT_FLOAT, TENON_DT_FLOAT, TENON_DT_DOUBLE}));
  });
}

TEST_F(Passes, AddNodesOfTheSameVersionOfTheOp) {
  const Edge old = g_.Add("Plus", {x_, x_}, {{std::string(graph::kVersionAttr), AttrValue::Int(0)}});
  Call({{}, {plus_, old}, {}}, [&](const tenon_graph_pass_args& args) {
    const int64_t same = Add(args, old.node.number(), {x_, plus_});
    ASSERT_GE(same, 0) << why_;
    EXPECT_NE(Node(same).FindAttr(graph::kVersionAttr), nullptr);
  });
}

TEST_F(Passes, AreToldWhatIsWrongWithSuchANode) {
  const Edge two = Double();
  Call({{}, {plus_}, {}}, [&](const tenon_graph_pass_args& args) {
    const uint32_t type = TENON_DT_FLOAT;
    const int64_t plus = plus_.node.number();
    EXPECT_EQ(Add(args, 1000, {x_, x_}), -1);
    EXPECT_EQ(why_, "the graph has no node 1000");
    EXPECT_EQ(Add(args, plus, {x_}), -1);
    EXPECT_EQ(why_, "node 'plus' (Plus) has 2 inputs; what is like it cannot have 1");
    EXPECT_EQ(Add(args, plus, {x_, {x_.node, 7}}), -1);
    EXPECT_NE(why_.find("output 7"), std::string::npos) << why_;
    EXPECT_EQ(Add(args, plus, {x_, two}), -1);
    EXPECT_NE(why_.find("argument 'b'"), std::string::npos) << why_;
    EXPECT_EQ(Add(args, plus, {x_, x_}, TypeAttr("U", &type)), -1);
    EXPECT_NE(why_.find("the op has no attribute 'U'"), std::string::npos) << why_;
    EXPECT_EQ(Add(args, plus, {two, two}, TypeAttr("T", &type)), -1) << "given, and another than the inputs'";
  });
}

TEST_F(Passes, AskWhetherSuchANodeWouldRun) {
  const Edge rounded = g_.Add("Round", {x_}), copy = g_.Add("Copy", {x_});
  const Edge cast = g_.Add("Convert", {x_}, {{"DstT", AttrValue::Type(TENON_DT_INT32)}});
  Call({{}, {plus_, rounded, copy, cast}, {}}, [&](const tenon_graph_pass_args& args) {
    using Of = std::vector<uint32_t>;
    const int64_t plus = plus_.node.number();
    EXPECT_EQ(Types(args, plus, {TENON_DT_DOUBLE, TENON_DT_DOUBLE}), Of{TENON_DT_DOUBLE});
    EXPECT_EQ(asked_, std::pair(std::string("Plus"), std::string(kDevice)));
    EXPECT_EQ(Types(args, plus, {TENON_DT_DOUBLE, TENON_DT_FLOAT}), std::nullopt);
    EXPECT_EQ(Types(args, plus, {TENON_DT_DOUBLE}), std::nullopt);
    EXPECT_EQ(Types(args, plus, {TENON_DT_HALF, TENON_DT_HALF}), std::nullopt) << "its op does not take them";
    EXPECT_EQ(Types(args, rounded.node.number(), {TENON_DT_DOUBLE}), std::nullopt);
    EXPECT_EQ(Types(args, cast.node.number(), {TENON_DT_DOUBLE}), Of{TENON_DT_INT32});
    EXPECT_EQ(Types(args, 1000, {}), std::nullopt);
    EXPECT_EQ(Types(args, -1, {}), std::nullopt);
    has_kernel_ = false;
    EXPECT_EQ(Types(args, plus, {TENON_DT_DOUBLE, TENON_DT_DOUBLE}), std::nullopt);
    EXPECT_EQ(Types(args, copy.node.number(), {TENON_DT_DOUBLE}), Of{TENON_DT_DOUBLE}) << "which needs none";
  });
}

TEST_F(Passes, AreToldWhatIsFed) {
  const Edge sum = g_.Add("Plus", {plus_, x_});
  Call({{x_, plus_}, {sum}, {}}, [&](const tenon_graph_pass_args& args) {
    EXPECT_EQ(std::vector<int64_t>(args.nodes, args.nodes + args.node_count), std::vector<int64_t>{sum.node.number()});
    EXPECT_EQ(args.runs(&args, sum.node.number()), 1);
    EXPECT_EQ(args.runs(&args, plus_.node.number()), 0);
    EXPECT_EQ(args.runs(&args, x_.node.number()), 0);
    EXPECT_EQ(args.runs(&args, 1000), 0);
    EXPECT_EQ(args.runs(&args, -1), 0);
  });
}

TEST_F(Passes, RunAfterThoseThatTheyName) {
  static constexpr tenon_span kOps[] = {TENON_SPAN("Plus")};
  const auto pass = [](tenon_span name, tenon_span after) {
    const tenon_graph_pass table = {TENON_HEAD(tenon_graph_pass), name, kOps, 1, &Run, 0, 0, 0, after};
    auto adopted = AdoptPass(&table, fakes::InstanceNamed("tiny"));
    EXPECT_TRUE(adopted.ok()) << adopted.status().ToString();
    return *adopted;
  };
  const auto order = [](const std::vector<PluginPass>& passes) {
    std::string names;
    const auto ordered = InOrder(passes);
    if (!ordered.ok()) return Status(ordered.status()).ToString();
    for (const PluginPass* each : *ordered) names += each->name + " ";
    return names;
  };
  const auto a = pass(TENON_SPAN("a"), {nullptr, 0}), b = pass(TENON_SPAN("b"), TENON_SPAN("c,absent")),
             c = pass(TENON_SPAN("c"), TENON_SPAN("d")), d = pass(TENON_SPAN("d"), {nullptr, 0});
  EXPECT_EQ(order({a, b, c, d}), "a d c b ");
  EXPECT_EQ(order({b, d, a}), "b d a ") << "what is not there is waited for by none";
  EXPECT_EQ(order({c, b, c, d}), "d c c b ") << "of one name both go before";
  const auto e = pass(TENON_SPAN("d"), TENON_SPAN("b"));
  EXPECT_EQ(order({a, b, c, e}),
            "INVALID_ARGUMENT: graph passes each want to run after another of them: 'b' of plugin 'tiny', 'c' of "
            "plugin 'tiny', 'd' of plugin 'tiny'; leave one out by the session option 'no_pass'");
  const tenon_graph_pass own = {TENON_HEAD(tenon_graph_pass), TENON_SPAN("x"), kOps, 1, &Run, 0, 0, 0,
                                TENON_SPAN("y,x")};
  EXPECT_EQ(AdoptPass(&own, fakes::InstanceNamed("tiny")).status().code(), Code::kInvalidArgument);
}

TEST_F(Passes, AreLeftOutByName) {
  static constexpr tenon_span kOps[] = {TENON_SPAN("Plus")};
  static const tenon_graph_pass kTables[] = {
      {TENON_HEAD(tenon_graph_pass), TENON_SPAN("one"), kOps, 1, &Run, 0, 0, 0, {}},
      {TENON_HEAD(tenon_graph_pass), TENON_SPAN("two"), kOps, 1, &Run, 0, 0, 0, {}},
      {TENON_HEAD(tenon_graph_pass), TENON_SPAN("eight"), kOps, 1, &Run, TENON_PRECISION_INT8, 0, 0, {}}};
  std::vector<PluginPass> passes;
  for (const tenon_graph_pass& table : kTables) passes.push_back(*AdoptPass(&table, fakes::InstanceNamed("tiny")));
  int calls = 0;
  Body() = [&](const tenon_graph_pass_args&) { ++calls; };
  // How many are called, or why none is.
  const auto run = [&](std::string_view left_out, uint32_t precision = 0, bool knows_all = true) {
    calls = 0;
    Request request{{}, {plus_}, {}};
    NodeNotes notes;
    const auto changed =
        RunPluginPasses(passes, {precision, false, {}, left_out, knows_all, {}}, &g_.graph, &request, &notes);
    return changed.ok() ? std::to_string(calls) : std::string(changed.status().message());
  };
  EXPECT_EQ(run(""), "2");
  EXPECT_EQ(run("two"), "1");
  EXPECT_EQ(run("two,one"), "0");
  EXPECT_EQ(run("one,eight", TENON_PRECISION_STRICT), "1");
  EXPECT_EQ(run("", TENON_PRECISION_INT8), "3");
  EXPECT_EQ(run("eight", TENON_PRECISION_INT8),
            "the session option 'precision' is 4, and no plugin that is loaded has a pass over steps for it that "
            "'no_pass' leaves; for int8 (4) it is tenon.passes.int8");
  EXPECT_EQ(
      run("one,three"),
      "the session option 'no_pass' names 'three', and no package that is loaded has such a pass; there are: one, "
      "two, eight");
  EXPECT_EQ(run("one,three", 0, false), "1") << "of a worker, which need not have it";
}

}  // namespace
}  // namespace tenon::optimize::plugin_passes_test
