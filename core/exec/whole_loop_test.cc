// SPDX-License-Identifier: Apache-2.0
// Loops that a compiler takes as wholes: what it is offered, which loops are not, and that its results are the loop's.
// The compiler of the test reads scalars of tiny ops and computes them.
#include <map>

#include "core/base/log.h"
#include "core/exec/bindings.h"
#include "core/exec/device/step.h"
#include "core/exec/plan/make_plan.h"
#include "core/graph/graph.h"
#include "tenon/ext/draft/compile_loop.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::whole_loop_test {
namespace {

using graph::Edge;
using Edges = std::vector<Edge>;

// What compile() has made of a loop.
struct Interpreter {
  using Key = std::pair<int64_t, int32_t>;
  struct Node {
    std::string op;
    Key out;
    std::vector<Key> in;
  };
  std::vector<Key> inputs, current, next;  // the first inputs are initial values
  std::vector<size_t> results;             // variables
  std::vector<Node> nodes;
  size_t condition_nodes = 0;
  Key condition;

  void Run(tenon_frame* frame) const {
    std::map<Key, float> values;
    for (size_t i = current.size(); i < inputs.size(); ++i)
      values[inputs[i]] = frame->inputs[i]->dtype == TENON_DT_BOOL ? *static_cast<uint8_t*>(DataOf(*frame->inputs[i]))
                                                                   : *fakes::FloatsOf(frame->inputs[i]);
    for (size_t v = 0; v < current.size(); ++v) values[current[v]] = *fakes::FloatsOf(frame->inputs[v]);
    const auto compute = [&](size_t begin, size_t end) {
      for (size_t n = begin; n < end; ++n) {
        const float a = values.at(nodes[n].in[0]), b = values.at(nodes[n].in[1]);
        values[nodes[n].out] = nodes[n].op == "Plus" ? a + b : nodes[n].op == "Minus" ? a - b : a < b;
      }
    };
    for (compute(0, condition_nodes); values.at(condition) != 0; compute(0, condition_nodes)) {
      compute(condition_nodes, nodes.size());
      std::vector<float> turned;
      for (const Key& key : next) turned.push_back(values.at(key));
      for (size_t v = 0; v < current.size(); ++v) values[current[v]] = turned[v];
    }
    for (size_t k = 0; k < results.size(); ++k) *fakes::FloatsOf(frame->outputs[k]) = values.at(current[results[k]]);
  }
};

class WholeLoopTest : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  WholeLoopTest() {
    static const tenon_loop_compiler kTable = {
        TENON_HEAD(tenon_loop_compiler), TENON_SPAN("HOST"), 0, 0, &OnCompile, &OnDestroy, &OnRun};
    static const tenon_loop_compiler kOther = {
        TENON_HEAD(tenon_loop_compiler), TENON_SPAN("OTHER"), 1, 0, &OnCompile, &OnDestroy, &OnRun};
    env_.loop_compilers = [this] {
      return std::vector<LoopCompilerEntry>{
          {"loops", is_of_device_ ? &kTable : &kOther, reinterpret_cast<tenon_plugin_self*>(this)}};
    };
    for (Device& device : devices_) device.handle = reinterpret_cast<tenon_device*>(&device);
    fakes::g_mystery = [](float) { return Status::Ok(); };
  }

  static WholeLoopTest* Of(tenon_plugin_self* self) { return reinterpret_cast<WholeLoopTest*>(self); }
  static tenon_status* OnCompile(tenon_plugin_self* self, tenon_compile_args* args, const tenon_compile_loop* loop,
                                 tenon_executable** out_executable) {
    ++Of(self)->offered_;
    if (!Of(self)->compile_answer_.ok()) return Status(Of(self)->compile_answer_).release();
    auto made = std::make_unique<Interpreter>();
    const auto key = [](const tenon_output& output) { return Interpreter::Key(output.node, output.index); };
    for (uint64_t i = 0; i < args->input_count; ++i) made->inputs.push_back(key(args->inputs[i]));
    for (uint64_t v = 0; v < loop->variable_count; ++v) {
      const tenon_loop_variable& variable = loop->variables[v];
      EXPECT_EQ(key(variable.initial), made->inputs[v]);
      made->current.push_back(key(variable.current));
      made->next.push_back(key(variable.next));
      for (uint64_t k = 0; k < args->output_count; ++k)
        if (key(args->outputs[k]) == key(variable.result)) made->results.push_back(v);
    }
    EXPECT_EQ(made->results.size(), args->output_count) << "results are outputs, in the variables' order";
    for (uint64_t n = 0; n < args->node_count; ++n) {
      const tenon_node_services& services = *args->cursor->node_services;
      const tenon_node* node = args->cursor->node(args->cursor->graph, args->nodes[n]);
      Interpreter::Node& one = made->nodes.emplace_back();
      one.op = std::string(View(services.op(node)));
      one.out = {args->nodes[n], 0};
      tenon_output source;
      for (int32_t i = 0; i < services.input_count(node); ++i) {
        if (tenon_status* bad = loop->source(args->context, args->nodes[n], i, &source)) return bad;
        one.in.push_back(key(source));
      }
      Of(self)->out_of_range_ = Status(loop->source(args->context, args->nodes[n], 7, &source));
      Of(self)->nobody_ = Status(loop->source(args->context, 1000, 0, &source));
    }
    made->condition_nodes = loop->condition_node_count;
    made->condition = key(loop->condition);
    *out_executable = reinterpret_cast<tenon_executable*>(made.release());
    return nullptr;
  }
  static void OnDestroy(tenon_executable* executable) { delete reinterpret_cast<Interpreter*>(executable); }
  static tenon_status* OnRun(tenon_executable* executable, tenon_frame* frame) {
    reinterpret_cast<Interpreter*>(executable)->Run(frame);
    return nullptr;
  }

  // The fetches of a step, and how often a loop was offered for it.
  std::vector<float> Run(const Edges& feeds, const Edges& fetches, const std::vector<float>& values) {
    offered_ = 0;
    auto plan = MakePlan(graph.Clone(), feeds, fetches, {}, env_, &store_, {});
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    Bindings bindings(*plan);
    const fakes::Scalars scalars(values);
    Cancellation cancellation;
    Step step;
    step.env = &env_;
    step.cancellation = &cancellation;
    const auto run = bindings.NewRun();
    last_ = run->Go(&step, scalars.pointers());
    std::vector<float> out;
    for (size_t i = 0; last_.ok() && i < fetches.size(); ++i) out.push_back(*fakes::FloatsOf(&run->fetch(i)));
    run->Finish();
    run->ReturnInstances();
    return out;
  }
  // while (i < 4) i, a, b = i + 1, a + b, a - c, with c from outside.
  Loop Sums(Edge a, Edge b, Edge c) {
    const Edge one = Into(Value(1), "loop", true), four = Into(Value(4), "loop", true),
               invariant = Into(c, "loop", true);
    return While(
        "loop", {Value(0), a, b},
        [&](const Edges& v) {
          return Add("Below", {v[0], four});
        },
        [&](const Edges& v) {
          return Edges{Add("Plus", {v[0], one}), Add("Plus", {v[1], v[2]}), Add("Minus", {v[1], invariant})};
        });
  }

  const Edge x_ = Feed(TENON_DT_FLOAT, {}, "x"), y_ = Feed(TENON_DT_FLOAT, {}, "y");
  bool is_of_device_ = true;
  int offered_ = 0;
  Status compile_answer_, last_, out_of_range_, nobody_;
};

TEST_F(WholeLoopTest, ItsResultsAreThoseOfItsTurns) {
  const Loop loop = Sums(x_, y_, y_);
  const Edges fetches = {loop.exits[1], loop.exits[2], loop.exits[0]};
  const auto whole = Run({x_, y_}, fetches, {3, 5});
  EXPECT_EQ(offered_, 1);
  is_of_device_ = false;
  EXPECT_EQ(whole, Run({x_, y_}, fetches, {3, 5}));
  EXPECT_EQ(offered_, 0) << "the compiler is of another device type";
  EXPECT_EQ(whole.size(), 3u);
  EXPECT_NE(out_of_range_.message().find("has no input 7"), std::string::npos) << out_of_range_.ToString();
  EXPECT_NE(nobody_.message().find("there is no node 1000"), std::string::npos) << nobody_.ToString();
}

TEST_F(WholeLoopTest, VariablesThatChangePlacesDoSoAtOnce) {
  const Edge one = Into(Value(1), "loop", true), five = Into(Value(5), "loop", true);
  const Loop loop = While("loop", {Value(0), x_, y_}, [&](const Edges& v) { return Add("Below", {v[0], five}); },
                          [&](const Edges& v) { return Edges{Add("Plus", {v[0], one}), v[2], v[1]}; });
  EXPECT_EQ(Run({x_, y_}, {loop.exits[1], loop.exits[2]}, {3, 8}), (std::vector<float>{8, 3}));
  EXPECT_EQ(offered_, 1);
}

TEST_F(WholeLoopTest, ALoopInALoopIsTakenAndTheOneAroundIsNot) {
  const Edge one = Into(Value(1), "outer", true), three = Into(Value(3), "outer", true);
  const Loop outer = While(
      "outer", {Value(0), x_},
      [&](const Edges& v) {
        return Add("Below", {v[0], three});
      },
      [&](const Edges& v) {
        const Edge inner_one = Into(one, "inner", true), limit = Into(v[0], "inner", true);
        const Loop inner = While(
            "inner", {Add("Minus", {v[0], v[0]}), v[1]},
            [&](const Edges& w) {
              return Add("Below", {w[0], limit});
            },
            [&](const Edges& w) {
              return Edges{Add("Plus", {w[0], inner_one}), Add("Plus", {w[1], w[1]})};
            });
        return Edges{Add("Plus", {v[0], one}), inner.exits[1]};
      });
  EXPECT_EQ(Run({x_}, {outer.exits[1]}, {1}), (std::vector<float>{8})) << "doubled 0 + 1 + 2 times";
  EXPECT_EQ(offered_, 1);
}

TEST_F(WholeLoopTest, ALoopWithAConditionalIsNotOffered) {
  const Edge one = Into(Value(1), "loop", true), two = Into(Value(2), "loop", true),
             four = Into(Value(4), "loop", true);
  const Loop loop = While(
      "loop", {Value(0), x_},
      [&](const Edges& v) {
        return Add("Below", {v[0], four});
      },
      [&](const Edges& v) {
        const Edge choice = Add("Branch", {v[1], Add("Below", {v[0], two})});
        const Edge no{choice.node, 0}, yes{choice.node, 1};
        return Edges{Add("Plus", {v[0], one}), Add("Join", {Add("Minus", {no, one}), Add("Plus", {yes, yes})})};
      });
  EXPECT_EQ(Run({x_}, {loop.exits[1]}, {3}), (std::vector<float>{10})) << "doubled twice, then less by one twice";
  EXPECT_EQ(offered_, 0);
}

TEST_F(WholeLoopTest, WhatACompilerRefusesOrFailsAtRunsTurnByTurn) {
  const Loop loop = Sums(x_, y_, x_);
  const auto whole = Run({x_, y_}, {loop.exits[1]}, {3, 5});
  compile_answer_ = Unimplemented("not these");
  EXPECT_EQ(Run({x_, y_}, {loop.exits[1]}, {3, 5}), whole);
  EXPECT_EQ(offered_, 1);
  compile_answer_ = OutOfRange("it is too large");
  std::string said;
  SetLogFunction([](void* text, uint32_t, std::string_view line) { *static_cast<std::string*>(text) += line; }, &said);
  EXPECT_EQ(Run({x_, y_}, {loop.exits[1]}, {3, 5}), whole);
  SetLogFunction(nullptr, nullptr);
  EXPECT_EQ(offered_, 1);
  EXPECT_TRUE(last_.ok()) << last_.ToString();
  EXPECT_NE(said.find("it is too large"), std::string::npos) << said;
}

}  // namespace
}  // namespace tenon::exec::whole_loop_test
