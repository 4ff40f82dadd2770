// SPDX-License-Identifier: Apache-2.0
// What networks are trained with, through C: learning rates, clipping, loops over elements, recurrent networks, losses
// over classes and L-BFGS, against what TensorFlow gives for the C++ ones; and what a caller gets wrong. Covers L9, O2,
// P6, P9, P10.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "sdk/app/model_c/c_test.h"
#include "tenon/host/function.h"
#include "tenon/train.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::networks_c_test {
namespace {

using host::Span, host::Text;
using model_c::Said, model_c::Sized;

const tenon_output kNowhere = {99999, 0, 0};

// A graph, and variables in it, as C has them.
class Networks : public testing::Test {
 protected:
  Networks() : graph_(SharedRuntime()) {
    EXPECT_EQ(Said(tenon_variables_create(graph_.get(), nullptr, &variables_)), "OK");
  }
  ~Networks() override {
    tenon_lbfgs_release(lbfgs_);
    tenon_class_shards_release(shards_);
    tenon_rnn_cell_release(cell_);
    tenon_variables_release(variables_);
  }

  Output Edge(tenon_output output) const { return Output(graph_.get(), output.node, output.index); }
  std::vector<Output> Edges(const std::vector<tenon_output>& outputs) const {
    std::vector<Output> edges;
    for (const tenon_output& output : outputs) edges.push_back(Edge(output));
    return edges;
  }
  static std::vector<tenon_output> Lowered(const std::vector<Output>& outputs) {
    std::vector<tenon_output> lowered;
    for (const Output& output : outputs) lowered.push_back(output.c_output());
    return lowered;
  }
  tenon_variable_info Info(uint64_t index) const {
    auto info = Sized<tenon_variable_info>();
    EXPECT_EQ(Said(tenon_variables_get(variables_, index, &info)), "OK");
    return info;
  }
  Output Assign(const tenon_variable_info& info, const std::vector<float>& values) {
    const Operation node =
        graph_.AddNode("AssignVariableOp", {Edge(info.handle), graph_.Const(values, Shape::From(info.shape))},
                       {{"dtype", DType::kFloat}});
    first_.emplace_back(node);
    return Output(node);
  }
  Session Begin() {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    return SessionOf(graph_, first_);
  }
  // The values of edges in a new session.
  std::vector<std::vector<float>> Values(const std::vector<Output>& edges) {
    const auto values = Begin().Run({}, std::vector<Name>(edges.begin(), edges.end()));
    EXPECT_TRUE(values.ok()) << values.status();
    std::vector<std::vector<float>> found;
    if (values.ok())
      for (const Tensor& value : *values) found.push_back(Floats(value));
    return found;
  }

  Graph graph_;
  tenon_variables* variables_ = nullptr;
  tenon_rnn_cell* cell_ = nullptr;
  tenon_class_shards* shards_ = nullptr;
  tenon_lbfgs* lbfgs_ = nullptr;
  std::vector<Name> first_;  // what gives variables their values
};

// ---- Learning rates ----

tenon_rate_spec RateOf(uint32_t kind, int64_t steps) {
  auto spec = Sized<tenon_rate_spec>();
  spec.kind = kind;
  spec.rate = 0.5f;
  spec.steps = steps;
  return spec;
}
tenon_rate_spec Decay(uint32_t kind, bool staircase) {
  tenon_rate_spec spec = RateOf(kind, 10);
  spec.decay_rate = 0.7f;
  spec.staircase = staircase ? 1 : 0;
  return spec;
}
const int64_t kBoundaries[] = {7, 20};
const float kPieces[] = {0.5f, 0.25f, 0.125f};

std::map<std::string, tenon_rate_spec> Rates() {
  std::map<std::string, tenon_rate_spec> rates{{"exponential", Decay(TENON_RATE_EXPONENTIAL, false)},
                                               {"exponential_staircase", Decay(TENON_RATE_EXPONENTIAL, true)},
                                               {"natural_exp", Decay(TENON_RATE_NATURAL_EXP, false)},
                                               {"natural_exp_staircase", Decay(TENON_RATE_NATURAL_EXP, true)},
                                               {"inverse_time", Decay(TENON_RATE_INVERSE_TIME, false)},
                                               {"inverse_time_staircase", Decay(TENON_RATE_INVERSE_TIME, true)},
                                               {"piecewise", RateOf(TENON_RATE_PIECEWISE, 0)},
                                               {"polynomial", RateOf(TENON_RATE_POLYNOMIAL, 20)},
                                               {"polynomial_power", RateOf(TENON_RATE_POLYNOMIAL, 20)},
                                               {"polynomial_cycle", RateOf(TENON_RATE_POLYNOMIAL, 10)},
                                               {"cosine", RateOf(TENON_RATE_COSINE, 20)},
                                               {"cosine_alpha", RateOf(TENON_RATE_COSINE, 20)},
                                               {"cosine_restarts", RateOf(TENON_RATE_COSINE_RESTARTS, 7)},
                                               {"cosine_restarts_even", RateOf(TENON_RATE_COSINE_RESTARTS, 7)},
                                               {"warm_up_cosine", RateOf(TENON_RATE_COSINE, 20)}};
  rates["piecewise"].boundaries = kBoundaries;
  rates["piecewise"].values = kPieces;
  rates["piecewise"].boundary_count = 2;
  rates["polynomial"].end = 0.0001f;
  rates["polynomial_power"].end = rates["polynomial_cycle"].end = 0.01f;
  rates["polynomial_power"].power = 2;
  rates["polynomial_cycle"].power = 0.5f;
  rates["polynomial_cycle"].cycle = 1;
  rates["cosine_alpha"].alpha = rates["cosine_restarts"].alpha = 0.1f;
  rates["cosine_restarts"].m_mul = 0.8f;
  rates["cosine_restarts_even"].t_mul = 1;
  rates["cosine_restarts_even"].m_mul = 0.5f;
  rates["warm_up_cosine"].warm_up_steps = 5;
  rates["warm_up_cosine"].warm_up_from = 0.1f;
  return rates;
}

TEST_F(Networks, LearningRatesAreTensorFlows) {
  const nlohmann::json& golden = TrainingGolden("learning_rates");
  const auto rates = Rates();
  ASSERT_EQ(golden["rates"].size(), rates.size());
  const Output step = graph_.Placeholder("step", DType::kInt64, Shape());
  std::vector<Name> fetches;
  for (const auto& [name, spec] : rates) {
    tenon_output rate;
    ASSERT_EQ(Said(tenon_learning_rate(graph_.get(), &spec, step.c_output(), &rate)), "OK") << name;
    fetches.emplace_back(Edge(rate));
  }
  const Session session = Begin();
  for (size_t i = 0; i < golden["steps"].size(); ++i) {
    const auto values = session.Run({{step, *Tensor::Scalar(golden["steps"][i].get<int64_t>())}}, fetches);
    ASSERT_TRUE(values.ok()) << values.status();
    size_t k = 0;
    for (const auto& [name, spec] : rates)
      EXPECT_NEAR((*values)[k++].scalar<float>(), GoldenNumber(golden["rates"][name][i]), 1e-6f)
          << name << " at step " << golden["steps"][i];
  }
}

TEST_F(Networks, LearningRatesThatMakeNoSenseAreRefused) {
  const tenon_output step = graph_.Const(int64_t{0}).c_output();
  tenon_output rate = kNowhere;
  const auto say = [&](const tenon_rate_spec& spec, tenon_output at) {
    return Said(tenon_learning_rate(graph_.get(), &spec, at, &rate));
  };
  EXPECT_NE(say(RateOf(TENON_RATE_COSINE, 0), step).find("CosineDecay over 0 steps"), std::string::npos);
  tenon_rate_spec wrong = RateOf(TENON_RATE_PIECEWISE, 0);
  EXPECT_EQ(say(wrong, step), "INVALID_ARGUMENT: 'values' is NULL");
  wrong.values = kPieces;
  wrong.boundary_count = 2;
  EXPECT_EQ(say(wrong, step), "INVALID_ARGUMENT: 'spec.boundaries' is NULL, with a count of 2");
  const int64_t falling[] = {20, 7};
  wrong.boundaries = falling;
  EXPECT_NE(say(wrong, step).find("boundaries rise"), std::string::npos);
  wrong = RateOf(TENON_RATE_CONSTANT, 0);
  wrong.warm_up_steps = -1;
  EXPECT_NE(say(wrong, step).find("WarmUp over -1 steps"), std::string::npos);
  EXPECT_EQ(say(RateOf(9, 0), step), "INVALID_ARGUMENT: 'kind' is 9; give one of TENON_RATE_*");
  EXPECT_EQ(say(RateOf(TENON_RATE_CONSTANT, 0), kNowhere),
            "INVALID_ARGUMENT: 'step' is output 0 of node 99999, which the graph does not have");
  EXPECT_EQ(Said(tenon_learning_rate(graph_.get(), nullptr, step, &rate)), "INVALID_ARGUMENT: 'spec' is NULL");
  EXPECT_EQ(Said(tenon_learning_rate(nullptr, &wrong, step, &rate)), "INVALID_ARGUMENT: 'graph' is NULL");
  EXPECT_EQ(rate.node, kNowhere.node) << "a call that failed wrote";
  EXPECT_EQ(say(RateOf(TENON_RATE_CONSTANT, 0), step), "OK") << "what failed before spoiled the graph";
}

// ---- Clipping ----

TEST_F(Networks, ClippingIsTensorFlows) {
  for (const auto& golden : TrainingGolden("clipping")) {
    std::vector<tenon_output> gradients;
    for (const auto& gradient : golden["gradients"]) gradients.push_back(GoldenConst(graph_, gradient).c_output());
    gradients.insert(gradients.begin() + 1, tenon_output{-1, 0, 0});  // of a variable that the loss does not depend on
    std::vector<tenon_output> by_value(3), by_norm = gradients, by_global_norm(3);
    tenon_output before, norm;
    ASSERT_EQ(Said(tenon_clip_by_value(graph_.get(), gradients.data(), 3, -0.5f, 1.5f, by_value.data())), "OK");
    ASSERT_EQ(Said(tenon_clip_by_norm(graph_.get(), by_norm.data(), 3, 1.5f, by_norm.data())), "OK") << "in place";
    ASSERT_EQ(Said(tenon_clip_by_global_norm(graph_.get(), gradients.data(), 3, 1.5f, by_global_norm.data(), &before)),
              "OK");
    ASSERT_EQ(Said(tenon_global_norm(graph_.get(), gradients.data(), 3, &norm)), "OK");
    std::vector<Output> edges;
    for (const auto* clipped : {&by_value, &by_norm, &by_global_norm}) {
      EXPECT_EQ((*clipped)[1].node, -1);
      edges.push_back(Edge((*clipped)[0]));
      edges.push_back(Edge((*clipped)[2]));
    }
    edges.push_back(Edge(before));
    edges.push_back(Edge(norm));
    const auto found = Values(edges);
    ASSERT_EQ(found.size(), 8u);
    for (size_t i = 0; i < 2; ++i) {
      ExpectNear(found[i], GoldenValues(golden["by_value"][i]), "by value");
      ExpectNear(found[2 + i], GoldenValues(golden["by_norm"][i]), "by norm");
      ExpectNear(found[4 + i], GoldenValues(golden["by_global_norm"][i]), "by global norm");
      ExpectNear(found[6 + i], {GoldenNumber(golden["global_norm"])}, "global norm");
    }
  }
}

TEST_F(Networks, ClippingAtNothingIsRefused) {
  tenon_output one = graph_.Const({1.f, 2.f}).c_output(), out = kNowhere;
  EXPECT_TRUE(Said(tenon_clip_by_norm(graph_.get(), &one, 1, 0, &out)).starts_with("INVALID_ARGUMENT"));
  EXPECT_TRUE(Said(tenon_clip_by_value(graph_.get(), &one, 1, 2, 1, &out)).starts_with("INVALID_ARGUMENT"));
  EXPECT_EQ(Said(tenon_clip_by_norm(graph_.get(), nullptr, 1, 1, &out)),
            "INVALID_ARGUMENT: 'gradients' is NULL, with a count of 1");
  EXPECT_EQ(Said(tenon_clip_by_norm(graph_.get(), &one, 1, 1, nullptr)),
            "INVALID_ARGUMENT: 'out_gradients' is NULL, with a count of 1");
  EXPECT_EQ(Said(tenon_clip_by_norm(graph_.get(), &kNowhere, 1, 1, &out)),
            "INVALID_ARGUMENT: 'gradients[0]' is output 0 of node 99999, which the graph does not have");
  const tenon_output none = {-1, 0, 0};
  EXPECT_TRUE(Said(tenon_global_norm(graph_.get(), &none, 1, &out)).starts_with("INVALID_ARGUMENT"));
  EXPECT_EQ(out.node, kNowhere.node);
  EXPECT_EQ(Said(tenon_clip_by_norm(graph_.get(), &one, 1, 1, &out)), "OK");
}

// ---- Loops over elements ----

class Elements : public Networks {
 protected:
  // (sum, x) -> sum + x; and with a product besides.
  void SetUp() override {
    host::Define(graph_, "add",
                 [](Graph& body, const std::vector<Output>& v) {
                   return body.Op("AddV2", {v[0], v[1]});
                 },
                 {DType::kFloat, DType::kFloat});
    host::Define(graph_, "add_and_multiply", [](Graph& body, const std::vector<Output>& v) -> host::FunctionResults {
      return std::vector<Output>{body.Op("AddV2", {v[0], v[1]}), body.Op("Mul", {body.Op("Mul", {v[0], v[1]}), v[2]})};
    }, {DType::kFloat, DType::kFloat, DType::kFloat});
    host::Define(graph_, "twice",
                 [](Graph& body, const std::vector<Output>& v) {
                   return body.Op("AddV2", {v[0], v[0]});
                 },
                 {{DType::kFloat, Shape()}});
    x_ = graph_.Const({1.f, 2.f, 3.f, 4.f});
    c_x_ = x_.c_output();
    zero_ = graph_.Const(0.f).c_output();
    factor_ = graph_.Const(10.f).c_output();
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  }
  tenon_elements_spec Spec(const char* function) const {
    auto spec = Sized<tenon_elements_spec>();
    spec.function = Span(function);
    spec.xs = &c_x_;
    spec.x_count = 1;
    return spec;
  }
  tenon_elements_spec WithState(const char* function) const {
    tenon_elements_spec spec = Spec(function);
    spec.states = &zero_;
    spec.state_count = 1;
    return spec;
  }

  Output x_;
  tenon_output c_x_, zero_, factor_;
};

TEST_F(Elements, AreFoldedScannedAndMapped) {
  tenon_elements_spec spec = WithState("add");
  tenon_output sum, sums, last_sums, first, state, products, doubled, few;
  ASSERT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, &sum, 1)), "OK");
  ASSERT_EQ(Said(tenon_scan_elements(graph_.get(), &spec, &sums, 1)), "OK");
  spec.reverse = 1;
  spec.name = TENON_SPAN("backwards");
  ASSERT_EQ(Said(tenon_scan_elements(graph_.get(), &spec, &last_sums, 1)), "OK");
  EXPECT_TRUE(Text(tenon_graph_node_name(graph_.get(), last_sums.node)).starts_with("backwards/"));
  spec = Spec("add");
  ASSERT_EQ(Said(tenon_scan_elements(graph_.get(), &spec, &first, 1)), "OK") << "begins with the first element";
  spec = WithState("add_and_multiply");
  spec.invariants = &factor_;
  spec.invariant_count = 1;
  ASSERT_EQ(Said(tenon_map_elements(graph_.get(), &spec, &state, 1, &products, 1)), "OK");
  spec = Spec("twice");
  ASSERT_EQ(Said(tenon_map_elements(graph_.get(), &spec, nullptr, 0, &doubled, 1)), "OK");
  const tenon_output turns = graph_.Const(int32_t{2}).c_output();
  spec.turns = &turns;
  ASSERT_EQ(Said(tenon_map_elements(graph_.get(), &spec, nullptr, 0, &few, 1)), "OK");
  const Output d = graph_.Gradients({Edge(sum)}, {x_})[0].dense;
  const auto found = Values(Edges({sum, sums, last_sums, first, state, products, doubled, few, d.c_output()}));
  using Numbers = std::vector<float>;
  const std::vector<Numbers> wanted{{10},         {1, 3, 6, 10}, {10, 9, 7, 4}, {1, 3, 6, 10}, {10}, {0, 20, 90, 240},
                                    {2, 4, 6, 8}, {2, 4, 0, 0},  {1, 1, 1, 1}};
  EXPECT_EQ(found, wanted);
}

TEST_F(Elements, MayBeGoneOverInAFunction) {
  tenon_app_graph* body = nullptr;
  ASSERT_EQ(Said(tenon_graph_create_body(graph_.get(), &body)), "OK");
  {
    Graph inside = Graph::Borrow(body);
    const Output x = inside.Placeholder("x", DType::kFloat, {-1}), zero = inside.Const(0.f);
    const tenon_output xs = x.c_output(), states = zero.c_output();
    tenon_elements_spec spec = WithState("add");
    spec.xs = &xs;
    spec.states = &states;
    tenon_output sum;
    ASSERT_EQ(Said(tenon_fold_elements(body, &spec, &sum, 1)), "OK");
    const tenon_named_output input{TENON_SPAN("x"), xs}, output{TENON_SPAN("sum"), sum};
    auto function = Sized<tenon_function_spec>();
    function.name = TENON_SPAN("sum_of");
    function.body = body;
    function.inputs = &input;
    function.outputs = &output;
    function.input_count = function.output_count = 1;
    ASSERT_EQ(Said(tenon_graph_add_function(graph_.get(), &function)), "OK");
  }
  tenon_graph_release(body);
  EXPECT_EQ(Values({graph_.Call({"sum_of"}, {x_})}), (std::vector<std::vector<float>>{{10}}));
}

TEST_F(Elements, ThatCannotBeGoneOverAreRefused) {
  tenon_output out = kNowhere;
  tenon_elements_spec spec = WithState("ad");
  EXPECT_TRUE(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)).starts_with("NOT_FOUND")) << "and may mean 'add'";
  spec = WithState("add");
  spec.x_count = 0;
  EXPECT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)),
            "INVALID_ARGUMENT: Fold of 'add': there is nothing to go over");
  spec = WithState("add");
  spec.xs = &zero_;
  EXPECT_NE(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)).find("x 0 is a scalar"), std::string::npos);
  spec.xs = &kNowhere;
  EXPECT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)),
            "INVALID_ARGUMENT: 'xs[0]' is output 0 of node 99999, which the graph does not have");
  spec = WithState("twice");
  EXPECT_NE(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)).find("it takes 1 values"), std::string::npos);
  spec = WithState("add");
  EXPECT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, &out, 0)),
            "INVALID_ARGUMENT: there is room for 0 in 'out_states', which has 1");
  EXPECT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, nullptr, 1)),
            "INVALID_ARGUMENT: 'out_states' is NULL, with a count of 1");
  spec.parallel_iterations = -1;
  EXPECT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)), "INVALID_ARGUMENT: 'parallel_iterations' is -1");
  spec = Spec("twice");
  tenon_output two[2];
  EXPECT_EQ(Said(tenon_map_elements(graph_.get(), &spec, nullptr, 0, two, 2)),
            "INVALID_ARGUMENT: there is room for 2 in 'out_results', which has 1");
  EXPECT_EQ(out.node, kNowhere.node);
  spec = WithState("add");
  EXPECT_EQ(Said(tenon_fold_elements(graph_.get(), &spec, &out, 1)), "OK");
}

// ---- Recurrent networks ----

class Recurrent : public Networks {
 protected:
  static tenon_rnn_cell_spec CellOf(const std::string& name) {
    auto spec = Sized<tenon_rnn_cell_spec>();
    spec.name = TENON_SPAN("cell");
    spec.inputs = 2;
    spec.units = 3;
    spec.kind = name == "tanh" ? TENON_CELL_BASIC : name.starts_with("lstm") ? TENON_CELL_LSTM : TENON_CELL_GRU;
    spec.forget_bias = name == "lstm_forget_bias" ? 1 : 0;
    spec.reset_before = name == "gru_reset_before" ? 1 : 0;
    return spec;
  }
  std::string Make(const tenon_rnn_cell_spec& spec) {
    tenon_rnn_cell_release(cell_);
    cell_ = nullptr;
    return Said(tenon_rnn_cell_create(variables_, &spec, &cell_));
  }
  // x K + h R + b, as TENON_CELL_BASIC has it.
  void DefineBasicStep(const char* name) {
    host::Define(
        graph_, name,
        [](Graph& body, const std::vector<Output>& v) -> host::FunctionResults {
          const Output next = body.Op(
              "Tanh",
              {body.Op("BiasAdd",
                       {body.Op("AddV2", {body.Op("MatMul", {v[0], v[2]}), body.Op("MatMul", {v[1], v[3]})}), v[4]})});
          return std::vector<Output>{next, next};
        },
        {{DType::kFloat, {-1, 2}},
         {DType::kFloat, {-1, 3}},
         {DType::kFloat, {2, 3}},
         {DType::kFloat, {3, 3}},
         {DType::kFloat, {3}}});
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  }
};

TEST_F(Recurrent, NetworksAreKerasAndTensorFlows) {
  const nlohmann::json& all = TrainingGolden("recurrent");
  for (const auto& [name, golden] : all["cells"].items())
    for (const auto& run : golden["runs"]) {
      Graph graph(SharedRuntime());
      std::swap(graph, graph_);  // the old one goes after the variables of it
      first_.clear();
      tenon_rnn_cell_release(cell_);
      cell_ = nullptr;
      tenon_variables_release(variables_);
      ASSERT_EQ(Said(tenon_variables_create(graph_.get(), nullptr, &variables_)), "OK");
      ASSERT_EQ(Make(CellOf(name)), "OK");
      auto info = Sized<tenon_rnn_cell_info>();
      ASSERT_EQ(Said(tenon_rnn_cell_get_info(cell_, &info)), "OK");
      ASSERT_EQ(info.weight_count, golden["weights"].size());
      ASSERT_EQ(info.state_count, golden["first"].size());
      EXPECT_EQ(info.state_sizes[0], 3);
      EXPECT_EQ(info.inputs, 2);
      for (uint64_t i = 0; i < info.weight_count; ++i) Assign(Info(i), GoldenValues(golden["weights"][i]));
      const Output x = GoldenConst(graph_, all["x"]);
      std::vector<Output> parameters{x};
      for (const auto& state : golden["first"]) parameters.push_back(GoldenConst(graph_, state));
      const std::vector<tenon_output> states = Lowered({parameters.begin() + 1, parameters.end()});
      auto options = Sized<tenon_rnn_options>();
      options.initial_states = states.data();
      options.state_count = states.size();
      tenon_output lengths;
      if (!run["lengths"].is_null()) {
        lengths = graph_.Const(run["lengths"].get<std::vector<int32_t>>(), {3}).c_output();
        options.sequence_length = &lengths;
      }
      tenon_output outputs;
      std::vector<tenon_output> last(states.size());
      ASSERT_EQ(Said(tenon_dynamic_rnn(cell_, x.c_output(), &options, &outputs, last.data(), last.size())), "OK")
          << name;
      for (uint64_t i = 0; i < info.weight_count; ++i) parameters.push_back(Edge(info.weights[i]));
      const auto sum = [&](const Output& value) {
        return graph_.Op("Sum", {graph_.Op("Reshape", {value, graph_.Const({-1})}), graph_.Const({0})});
      };
      Output loss = sum(graph_.Op("Mul", {Edge(outputs), GoldenConst(graph_, all["loss_weight"])}));
      for (const tenon_output& state : last) loss = graph_.Op("AddV2", {loss, sum(graph_.Op("Square", {Edge(state)}))});
      std::vector<Output> fetches{Edge(outputs)};
      for (const tenon_output& state : last) fetches.push_back(Edge(state));
      for (const host::Gradient& gradient : graph_.Gradients({loss}, parameters)) fetches.push_back(gradient.dense);
      const auto found = Values(fetches);
      ASSERT_EQ(found.size(), 1 + last.size() + run["gradients"].size());
      size_t at = 0;
      ExpectNear(found[at++], GoldenValues(run["outputs"]), name + " outputs");
      for (const auto& state : run["last"]) ExpectNear(found[at++], GoldenValues(state), name + " state");
      for (const auto& gradient : run["gradients"])
        ExpectNear(found[at++], GoldenValues(gradient), name + " gradient", 5e-6f);
      // The graph of this turn goes with it.
      tenon_rnn_cell_release(cell_);
      cell_ = nullptr;
    }
}

TEST_F(Recurrent, ACellOfAFunctionIsOneAsWell) {
  const nlohmann::json& all = TrainingGolden("recurrent");
  const nlohmann::json &golden = all["cells"]["tanh"], &run = golden["runs"][1];
  DefineBasicStep("my_step");
  std::vector<tenon_output> weights;
  for (const auto& weight : golden["weights"]) weights.push_back(GoldenConst(graph_, weight).c_output());
  auto spec = Sized<tenon_rnn_cell_spec>();
  spec.name = TENON_SPAN("mine");
  spec.kind = TENON_CELL_FUNCTION;
  spec.inputs = 2;
  spec.function = TENON_SPAN("my_step");
  const int64_t sizes[] = {3};
  spec.state_sizes = sizes;
  spec.state_count = 1;
  spec.weights = weights.data();
  spec.weight_count = weights.size();
  ASSERT_EQ(Make(spec), "OK");
  EXPECT_EQ(tenon_variables_count(variables_), 0u);
  const tenon_output x = GoldenConst(graph_, all["x"]).c_output(),
                     first = GoldenConst(graph_, golden["first"][0]).c_output();
  const tenon_output lengths = graph_.Const(run["lengths"].get<std::vector<int32_t>>(), {3}).c_output();
  auto options = Sized<tenon_rnn_options>();
  options.initial_states = &first;
  options.state_count = 1;
  options.sequence_length = &lengths;
  tenon_output outputs, last;
  ASSERT_EQ(Said(tenon_dynamic_rnn(cell_, x, &options, &outputs, &last, 1)), "OK");
  const auto found = Values(Edges({outputs, last}));
  ExpectNear(found[0], GoldenValues(run["outputs"]), "outputs");
  ExpectNear(found[1], GoldenValues(run["last"][0]), "state");
  // One that does not fit the function.
  spec.weight_count = 2;
  EXPECT_EQ(Make(spec),
            "INVALID_ARGUMENT: recurrent cell 'mine': function 'my_step' takes 5 values and gives 2; a step takes x, "
            "the states and the weights, 4, and gives the output "
            "and the states, 2");
  spec.function = TENON_SPAN("my_stop");
  EXPECT_TRUE(Make(spec).starts_with("NOT_FOUND"));
  spec.state_count = 0;
  EXPECT_EQ(Make(spec), "INVALID_ARGUMENT: recurrent cell 'mine': 2 inputs and 0 states; each must be 1 at least");
}

// Two steps by hand are what the loop does, beside the weights and in a function.
TEST_F(Recurrent, StepsAreThoseOfTheLoop) {
  ASSERT_EQ(Make(CellOf("gru")), "OK");
  auto info = Sized<tenon_rnn_cell_info>();
  ASSERT_EQ(Said(tenon_rnn_cell_get_info(cell_, &info)), "OK");
  int64_t init = -1;
  ASSERT_EQ(Said(tenon_variables_initializer(variables_, &init)), "OK");
  first_.emplace_back(Operation(graph_.get(), init));
  const Output sequence = graph_.Const(std::vector<float>{1, 2, 3, 4}, {1, 2, 2});
  const tenon_output x[] = {graph_.Const(std::vector<float>{1, 2}, {1, 2}).c_output(),
                            graph_.Const(std::vector<float>{3, 4}, {1, 2}).c_output()};
  tenon_output state, output, all, last;
  ASSERT_EQ(Said(tenon_rnn_cell_zero_state(cell_, graph_.Const(int32_t{1}).c_output(), &state, 1)), "OK");
  for (const tenon_output& each : x)
    ASSERT_EQ(Said(tenon_rnn_cell_step(cell_, graph_.get(), each, &state, 1, nullptr, 0, &output, &state)), "OK");
  ASSERT_EQ(Said(tenon_dynamic_rnn(cell_, sequence.c_output(), nullptr, &all, &last, 1)), "OK");
  const std::vector<Output> weights = Edges({info.weights, info.weights + info.weight_count});
  std::vector<host::Argument> arguments{{DType::kFloat, {-1, 2}}, {DType::kFloat, {-1, 3}}};
  for (const Output& weight : weights) arguments.emplace_back(weight.dtype(), weight.shape());
  host::Define(graph_, "one_step", [&](Graph& body, const std::vector<Output>& v) -> host::FunctionResults {
    const std::vector<tenon_output> inside = Lowered(v);
    tenon_output given = {-1, 0, 0}, next = {-1, 0, 0};
    EXPECT_TRUE(Said(tenon_rnn_cell_step(cell_, body.get(), inside[0], &inside[1], 1, nullptr, 0, &given, &next))
                    .starts_with("INVALID_ARGUMENT: 'weights' is NULL"));
    EXPECT_EQ(Said(tenon_rnn_cell_step(cell_, body.get(), inside[0], &inside[1], 1, &inside[2], info.weight_count,
                                       &given, &next)),
              "OK");
    return Output(body.get(), next.node, next.index);
  }, arguments);
  Output zero = graph_.Const(std::vector<float>{0, 0, 0}, {1, 3});
  for (const tenon_output& each : x) {
    std::vector<Output> inputs{Edge(each), zero};
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    zero = graph_.Call({"one_step"}, inputs);
  }
  const auto found = Values({Edge(state), Edge(output), Edge(last), zero});
  ASSERT_EQ(found.size(), 4u);
  EXPECT_NE(found[0], std::vector<float>(3));
  for (size_t i = 1; i < 4; ++i) ExpectNear(found[i], found[0], "step " + std::to_string(i));
}

TEST_F(Recurrent, WhatDoesNotFitIsRefused) {
  tenon_rnn_cell_spec spec = CellOf("lstm");
  spec.units = 0;
  EXPECT_TRUE(Make(spec).starts_with("INVALID_ARGUMENT"));
  spec = CellOf("lstm");
  spec.name = {nullptr, 0};
  EXPECT_EQ(Make(spec), "INVALID_ARGUMENT: 'name' is empty");
  spec = CellOf("lstm");
  spec.kind = 9;
  EXPECT_EQ(Make(spec), "INVALID_ARGUMENT: 'kind' is 9; give one of TENON_CELL_*");
  EXPECT_EQ(cell_, nullptr);
  ASSERT_EQ(Make(CellOf("lstm")), "OK");
  tenon_output outputs = kNowhere, states[2];
  const tenon_output flat = graph_.Const({1.f, 2.f}).c_output(),
                     x = graph_.Const(std::vector<float>(12), {1, 4, 3}).c_output();
  EXPECT_NE(
      Said(tenon_dynamic_rnn(cell_, flat, nullptr, &outputs, states, 2)).find("sequences are [batch, time, features]"),
      std::string::npos);
  EXPECT_NE(Said(tenon_dynamic_rnn(cell_, x, nullptr, &outputs, states, 2))
                .find("inputs have 3 features and the cell takes 2"),
            std::string::npos);
  EXPECT_EQ(Said(tenon_dynamic_rnn(cell_, x, nullptr, &outputs, states, 1)),
            "INVALID_ARGUMENT: the cell has 2 states; 1 are said");
  EXPECT_EQ(Said(tenon_dynamic_rnn(nullptr, x, nullptr, &outputs, states, 2)), "INVALID_ARGUMENT: 'cell' is NULL");
  EXPECT_EQ(Said(tenon_dynamic_rnn(cell_, kNowhere, nullptr, &outputs, states, 2)),
            "INVALID_ARGUMENT: 'inputs' is output 0 of node 99999, which the graph does not have");
  EXPECT_EQ(outputs.node, kNowhere.node);
  // A sequence longer than there are steps fails the step.
  const tenon_output lengths = graph_.Const({5}).c_output();
  const tenon_output fits = graph_.Const(std::vector<float>(8), {1, 4, 2}).c_output();
  auto options = Sized<tenon_rnn_options>();
  options.sequence_length = &lengths;
  ASSERT_EQ(Said(tenon_dynamic_rnn(cell_, fits, &options, &outputs, states, 2)), "OK");
  int64_t init = -1;
  ASSERT_EQ(Said(tenon_variables_initializer(variables_, &init)), "OK");
  first_.emplace_back(Operation(graph_.get(), init));
  const auto values = Begin().Run({}, {Edge(outputs)});
  EXPECT_EQ(values.status().code(), Code::kInvalidArgument);
  EXPECT_NE(values.status().message().find("sequence lengths must be 0 to the number of steps"), std::string::npos)
      << values.status();
}

// ---- Losses over classes ----

class Classes : public Networks {
 protected:
  static constexpr int64_t kClasses = 9, kWidth = 4;
  const nlohmann::json& golden_ = TrainingGolden("sampled");

  tenon_class_shards_spec Spec() {
    auto spec = Sized<tenon_class_shards_spec>();
    spec.name = TENON_SPAN("classes");
    spec.classes = kClasses;
    spec.width = kWidth;
    spec.devices = anywhere_;
    spec.device_count = 2;
    return spec;
  }
  // Two shards with the golden's weights.
  void Make(uint32_t partition) {
    tenon_class_shards_spec spec = Spec();
    spec.partition = partition;
    ASSERT_EQ(Said(tenon_class_shards_create(variables_, &spec, &shards_)), "OK");
    ASSERT_EQ(tenon_class_shards_count(shards_), 2u);
    const std::vector<float> weights = GoldenValues(golden_["weights"]), biases = GoldenValues(golden_["biases"]);
    for (uint64_t shard = 0; shard < 2; ++shard) {
      auto own = Sized<tenon_variable_info>(), of = Sized<tenon_variable_info>();
      ASSERT_EQ(Said(tenon_class_shards_get(shards_, shard, &own, &of)), "OK");
      std::vector<float> w, b;
      for (int64_t row = 0; row < own.shape.dims[0]; ++row) {
        const auto c = static_cast<size_t>(partition == TENON_PARTITION_MOD ? 2 * row + static_cast<int64_t>(shard)
                                                                            : static_cast<int64_t>(shard) * 5 + row);
        for (size_t k = 0; k < kWidth; ++k) w.push_back(weights[c * kWidth + k]);
        b.push_back(biases[c]);
      }
      Assign(own, w);
      Assign(of, b);
    }
    inputs_ = GoldenConst(graph_, golden_["inputs"]).c_output();
  }
  tenon_output Labels(const nlohmann::json& labels) {
    std::vector<int64_t> all;
    for (const auto& row : labels)
      for (const auto& label : row) all.push_back(label.get<int64_t>());
    return graph_.Const(all, {static_cast<int64_t>(labels.size()), static_cast<int64_t>(labels[0].size())}).c_output();
  }

  const tenon_span anywhere_[2] = {{nullptr, 0}, {nullptr, 0}};
  tenon_output inputs_ = kNowhere;
};

TEST_F(Classes, SampledLossesAreTensorFlows) {
  for (const uint32_t partition : {TENON_PARTITION_DIV, TENON_PARTITION_MOD})
    for (const auto& golden : golden_["cases"]) {
      Graph graph(SharedRuntime());
      std::swap(graph, graph_);
      first_.clear();
      tenon_class_shards_release(shards_);
      shards_ = nullptr;
      tenon_variables_release(variables_);
      ASSERT_EQ(Said(tenon_variables_create(graph_.get(), nullptr, &variables_)), "OK");
      Make(partition);
      const auto sampled = golden["sampled"].get<std::vector<int64_t>>();
      const tenon_candidates candidates{graph_.Const(sampled, {static_cast<int64_t>(sampled.size())}).c_output(),
                                        GoldenConst(graph_, golden["true_expected"]).c_output(),
                                        GoldenConst(graph_, golden["sampled_expected"]).c_output()};
      std::vector<Output> fetches;
      const std::vector<std::string> names{"softmax", "nce", "nce_without_hits"};
      for (const std::string& name : names) {
        auto options = Sized<tenon_sampled_loss_options>();
        options.kind = name == "softmax" ? TENON_SAMPLED_SOFTMAX : TENON_SAMPLED_NCE;
        if (name == "nce_without_hits") options.remove_accidental_hits = TENON_ON;
        options.candidates = &candidates;
        tenon_output loss;
        ASSERT_EQ(Said(tenon_class_shards_sampled_loss(shards_, inputs_, Labels(golden["labels"]), &options, &loss)),
                  "OK")
            << name;
        fetches.push_back(Edge(loss));
        fetches.push_back(graph_.Gradients({Edge(loss)}, {Edge(inputs_)})[0].dense);
      }
      const auto found = Values(fetches);
      ASSERT_EQ(found.size(), 6u);
      for (size_t i = 0; i < names.size(); ++i) {
        ExpectNear(found[2 * i], GoldenValues(golden[names[i]]["loss"]), names[i] + " loss");
        ExpectNear(found[2 * i + 1], GoldenValues(golden[names[i]]["gradients"][2]),
                   names[i] + " gradient of the inputs", 5e-6f);
      }
      tenon_class_shards_release(shards_);
      shards_ = nullptr;
    }
}

TEST_F(Classes, TheShardedSoftmaxIsTheWholeOne) {
  Make(TENON_PARTITION_MOD);
  const std::vector<float> x = GoldenValues(golden_["inputs"]), weights = GoldenValues(golden_["weights"]),
                           biases = GoldenValues(golden_["biases"]);
  const size_t batch = x.size() / kWidth;
  std::vector<int64_t> labels;
  std::vector<float> wanted;
  for (size_t i = 0; i < batch; ++i) {
    labels.push_back(static_cast<int64_t>((4 * i + 1) % kClasses));
    double sum = 0, own = 0;
    for (size_t c = 0; c < kClasses; ++c) {
      double logit = biases[c];
      for (size_t k = 0; k < kWidth; ++k) logit += double{x[i * kWidth + k]} * weights[c * kWidth + k];
      sum += std::exp(logit);
      if (static_cast<int64_t>(c) == labels[i]) own = logit;
    }
    wanted.push_back(static_cast<float>(std::log(sum) - own));
  }
  tenon_output loss, wrong;
  ASSERT_EQ(Said(tenon_class_shards_softmax_loss(
                shards_, inputs_, graph_.Const(labels, {static_cast<int64_t>(batch)}).c_output(), &loss)),
            "OK");
  ExpectNear(Values({Edge(loss)})[0], wanted, "loss", 5e-6f);
  labels[0] = kClasses;
  const Output fed = graph_.Placeholder("labels", DType::kInt64, {-1});
  ASSERT_EQ(Said(tenon_class_shards_softmax_loss(shards_, inputs_, fed.c_output(), &wrong)), "OK");
  const auto values = Begin().Run({{fed, View(labels, {static_cast<int64_t>(batch)})}}, {Edge(wrong)});
  EXPECT_EQ(values.status().code(), Code::kInvalidArgument);
  EXPECT_NE(values.status().message().find("a label is no class"), std::string::npos) << values.status();
}

TEST_F(Classes, CandidatesAreDrawn) {
  const tenon_output labels = graph_.Const(std::vector<int64_t>{0, 5}, {2, 1}).c_output();
  tenon_candidates drawn;
  ASSERT_EQ(Said(tenon_log_uniform_candidates(graph_.get(), labels, 9, 9, 3, &drawn)), "OK");
  const auto values = Begin().Run({}, {Edge(drawn.sampled), Edge(drawn.true_expected), Edge(drawn.sampled_expected)});
  ASSERT_TRUE(values.ok()) << values.status();
  std::vector<int64_t> all((*values)[0].data<int64_t>().begin(), (*values)[0].data<int64_t>().end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ((*values)[1].shape().ToString(), "[2,1]");
  EXPECT_EQ((*values)[2].shape().ToString(), "[9]");
  const tenon_candidates before = drawn;
  EXPECT_TRUE(
      Said(tenon_log_uniform_candidates(graph_.get(), labels, 0, 9, 3, &drawn)).starts_with("INVALID_ARGUMENT"));
  EXPECT_EQ(drawn.sampled.node, before.sampled.node);
}

TEST_F(Classes, WhatDoesNotFitIsRefused) {
  tenon_class_shards_spec spec = Spec();
  spec.classes = 1;
  EXPECT_NE(Said(tenon_class_shards_create(variables_, &spec, &shards_)).find("each needs a class at least"),
            std::string::npos);
  spec = Spec();
  spec.partition = 2;
  EXPECT_EQ(Said(tenon_class_shards_create(variables_, &spec, &shards_)),
            "INVALID_ARGUMENT: 'partition' is 2; give one of TENON_PARTITION_*");
  spec = Spec();
  spec.devices = nullptr;
  EXPECT_TRUE(Said(tenon_class_shards_create(variables_, &spec, &shards_))
                  .starts_with("INVALID_ARGUMENT: 'spec.devices' is NULL, with a count of "));
  spec.device_count = 0;
  ASSERT_EQ(Said(tenon_class_shards_create(variables_, &spec, &shards_)), "OK") << "one shard anywhere";
  EXPECT_EQ(tenon_class_shards_count(shards_), 1u);
  EXPECT_EQ(tenon_class_shards_count(nullptr), 0u);
  auto weights = Sized<tenon_variable_info>(), biases = Sized<tenon_variable_info>();
  EXPECT_EQ(Said(tenon_class_shards_get(shards_, 1, &weights, &biases)),
            "INVALID_ARGUMENT: there is no shard 1; there are 1");
  ASSERT_EQ(Said(tenon_class_shards_get(shards_, 0, &weights, &biases)), "OK");
  EXPECT_EQ(Text(weights.name), "classes/shard_0/weights");
  EXPECT_EQ(weights.trainable, 1u);
  tenon_output loss = kNowhere;
  const tenon_output narrow = graph_.Const(std::vector<float>(6), {2, 3}).c_output(),
                     labels = graph_.Const(std::vector<int64_t>{0, 1}, {2}).c_output();
  EXPECT_TRUE(Said(tenon_class_shards_softmax_loss(shards_, narrow, labels, &loss)).starts_with("INVALID_ARGUMENT"));
  auto options = Sized<tenon_sampled_loss_options>();
  options.kind = 7;
  EXPECT_EQ(Said(tenon_class_shards_sampled_loss(shards_, narrow, labels, &options, &loss)),
            "INVALID_ARGUMENT: 'kind' is 7; give one of TENON_SAMPLED_*");
  options.kind = TENON_SAMPLED_NCE;
  options.remove_accidental_hits = 3;
  EXPECT_TRUE(Said(tenon_class_shards_sampled_loss(shards_, narrow, labels, &options, &loss))
                  .starts_with("INVALID_ARGUMENT: 'remove_accidental_hits' is 3"));
  const tenon_candidates none{kNowhere, kNowhere, kNowhere};
  options.remove_accidental_hits = TENON_OFF;
  options.candidates = &none;
  EXPECT_TRUE(Said(tenon_class_shards_sampled_loss(shards_, narrow, labels, &options, &loss))
                  .starts_with("INVALID_ARGUMENT: 'sampled' is output 0 of node 99999"));
  EXPECT_EQ(Said(tenon_class_shards_softmax_loss(nullptr, narrow, labels, &loss)),
            "INVALID_ARGUMENT: 'shards' is NULL");
  EXPECT_EQ(loss.node, kNowhere.node);
}

// ---- L-BFGS ----

// ((1 - a)^2 + 100 (b - a^2)^2) times the fed number, from (-1.2, 1); its minimum is at ones.
class Valley : public Networks {
 protected:
  void SetUp() override {
    const int64_t dims[] = {2};
    auto spec = Sized<tenon_variable_spec>();
    spec.name = TENON_SPAN("x");
    spec.shape = {dims, 1, 0};
    auto info = Sized<tenon_variable_info>();
    ASSERT_EQ(Said(tenon_variables_add(variables_, &spec, &info)), "OK");
    Assign(info, {-1.2f, 1});
    x_ = Edge(info.value);
    const auto part = [&](int32_t i) { return graph_.Op("Slice", {x_, graph_.Const({i}), graph_.Const({1})}); };
    const Output valley = graph_.Op(
        "Mul", {graph_.Const(100.f), graph_.Op("SquaredDifference", {part(1), graph_.Op("Square", {part(0)})})});
    const Output each = graph_.Op("AddV2", {valley, graph_.Op("SquaredDifference", {part(0), graph_.Const(1.f)})});
    loss_ = graph_
                .Op("Mul",
                    {graph_.Op("Sum", {each, graph_.Const({0})}), graph_.Placeholder("scale", DType::kFloat, Shape())})
                .c_output();
  }
  std::string Run(const Session& session, float scale, const tenon_run_options* options = nullptr,
                  void (*told)(void*, const tenon_lbfgs_result*) = nullptr, void* argument = nullptr) {
    const Tensor value = *Tensor::Scalar(scale);
    const tenon_span name = TENON_SPAN("scale");
    const tenon_tensor_view* const view = value.view();
    result_ = Sized<tenon_lbfgs_result>();
    return Said(tenon_lbfgs_run(lbfgs_, session.get(), options, &name, &view, 1, told, argument, &result_));
  }
  std::vector<float> At(const Session& session) { return Floats((*session.Run({}, {x_}))[0]); }

  Output x_;
  tenon_output loss_ = kNowhere;
  tenon_lbfgs_result result_;
};

TEST_F(Valley, IsDescendedByLbfgs) {
  auto options = Sized<tenon_lbfgs_options>();
  options.gradient_tolerance = 2e-4;
  options.max_iterations = 300;
  ASSERT_EQ(Said(tenon_lbfgs_create(variables_, loss_, &options, &lbfgs_)), "OK");
  const Session session = Begin();
  std::vector<tenon_lbfgs_result> seen;
  ASSERT_EQ(Run(
                session, 2, nullptr,
                [](void* list, const tenon_lbfgs_result* so_far) {
                  static_cast<std::vector<tenon_lbfgs_result>*>(list)->push_back(*so_far);
                },
                &seen),
            "OK");
  EXPECT_EQ(result_.end, TENON_LBFGS_GRADIENT);
  EXPECT_LE(result_.gradient_norm, 2e-4);
  EXPECT_NEAR(result_.loss, 0, 1e-5);
  ExpectNear(At(session), {1, 1}, "x", 2e-3f);
  ASSERT_EQ(static_cast<int64_t>(seen.size()), result_.iterations);
  for (size_t i = 1; i < seen.size(); ++i) {
    EXPECT_LE(seen[i].loss, seen[i - 1].loss);
    EXPECT_EQ(seen[i].iterations, static_cast<int64_t>(i + 1));
  }
}

TEST_F(Valley, IsLeftWhereARunEnds) {
  auto options = Sized<tenon_lbfgs_options>();
  options.max_iterations = 3;
  ASSERT_EQ(Said(tenon_lbfgs_create(variables_, loss_, &options, &lbfgs_)), "OK");
  const Session session = Begin();
  ASSERT_EQ(Run(session, 1), "OK");
  EXPECT_EQ(result_.end, TENON_LBFGS_ITERATIONS);
  EXPECT_EQ(result_.iterations, 3);
  // Its own callback ends a run by the cancellation; and the variables are at the last accepted point.
  struct Stop {
    tenon_cancellation* cancellation = nullptr;
    double loss = 0;
  } stop;
  ASSERT_EQ(Said(tenon_cancellation_create(&stop.cancellation)), "OK");
  auto run = Sized<tenon_run_options>();
  run.cancellation = stop.cancellation;
  const std::string said = Run(session, 1, &run, [](void* argument, const tenon_lbfgs_result* so_far) {
    auto* const given = static_cast<Stop*>(argument);
    given->loss = so_far->loss;
    tenon_cancellation_cancel(given->cancellation);
  }, &stop);
  EXPECT_TRUE(said.starts_with("CANCELLED")) << said;
  tenon_cancellation_release(stop.cancellation);
  const std::vector<float> x = At(session);
  const double a = x[0], b = x[1];
  EXPECT_NEAR((1 - a) * (1 - a) + 100 * (b - a * a) * (b - a * a), stop.loss, 1e-4 * (1 + stop.loss));
  // A loss that is no number is refused, and nothing moves.
  EXPECT_TRUE(Run(session, NAN).starts_with("INVALID_ARGUMENT: L-BFGS"));
  EXPECT_EQ(At(session), x);
  ASSERT_EQ(Run(session, 1), "OK") << "and the next run goes on";
}

TEST_F(Valley, WhatMakesNoSenseIsRefused) {
  auto options = Sized<tenon_lbfgs_options>();
  options.curvature = 2;
  EXPECT_NE(Said(tenon_lbfgs_create(variables_, loss_, &options, &lbfgs_)).find("Wolfe"), std::string::npos);
  EXPECT_EQ(Said(tenon_lbfgs_create(variables_, kNowhere, nullptr, &lbfgs_)),
            "INVALID_ARGUMENT: 'loss' is output 0 of node 99999, which the graph does not have");
  EXPECT_NE(Said(tenon_lbfgs_create(variables_, graph_.Const(1.f).c_output(), nullptr, &lbfgs_)), "OK")
      << "a loss of no variable";
  EXPECT_EQ(lbfgs_, nullptr);
  ASSERT_EQ(Said(tenon_lbfgs_create(variables_, loss_, nullptr, &lbfgs_)), "OK");
  const Session session = Begin();
  tenon_text* trace = nullptr;
  auto run = Sized<tenon_run_options>();
  run.out_trace = &trace;
  EXPECT_TRUE(Run(session, 1, &run).starts_with("INVALID_ARGUMENT: 'out_trace' is not NULL"));
  EXPECT_EQ(Said(tenon_lbfgs_run(lbfgs_, session.get(), nullptr, nullptr, nullptr, 1, nullptr, nullptr, &result_)),
            "INVALID_ARGUMENT: 'feed_names' is NULL, with a count of 1");
  EXPECT_EQ(Said(tenon_lbfgs_run(lbfgs_, session.get(), nullptr, nullptr, nullptr, 0, nullptr, nullptr, nullptr)),
            "INVALID_ARGUMENT: 'out_result' is NULL");
  const std::string unfed =
      Said(tenon_lbfgs_run(lbfgs_, session.get(), nullptr, nullptr, nullptr, 0, nullptr, nullptr, &result_));
  EXPECT_TRUE(unfed.starts_with("INVALID_ARGUMENT") && unfed.find("scale") != std::string::npos) << unfed;
}

// ---- Loss scaling ----

TEST_F(Networks, ADynamicLossScaleGrowsAfterSoManyGoodSteps) {
  auto spec = Sized<tenon_variable_spec>();
  spec.name = TENON_SPAN("w");
  spec.initial = 2;
  auto info = Sized<tenon_variable_info>();
  ASSERT_EQ(Said(tenon_variables_add(variables_, &spec, &info)), "OK");
  auto options = Sized<tenon_optimizer_options>();
  options.name = TENON_SPAN("sgd");
  options.given = TENON_OPTIMIZER_LOSS_SCALE;
  options.loss_scale = 8;
  options.dynamic_loss_scale = 1;
  options.loss_scale_growth = 2;
  int64_t update = -1, init = -1;
  const Output loss = graph_.Op("Square", {Edge(info.value)});
  ASSERT_EQ(
      Said(tenon_variables_minimize(variables_, loss.c_output(), graph_.Const(0.25f).c_output(), &options, &update)),
      "OK");
  ASSERT_EQ(Said(tenon_variables_initializer(variables_, &init)), "OK");
  Output scale;
  for (uint64_t i = 0; i < tenon_variables_count(variables_); ++i)
    if (Text(Info(i).name) == "loss_scale") scale = Edge(Info(i).value);
  ASSERT_TRUE(scale.valid());
  first_.emplace_back(Operation(graph_.get(), init));
  const Session session = Begin();
  std::vector<float> scales, values;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(session.RunTargets({Operation(graph_.get(), update)}).ok());
    const auto now = session.Run({}, {scale, Edge(info.value)});
    scales.push_back((*now)[0].scalar<float>());
    values.push_back((*now)[1].scalar<float>());
  }
  EXPECT_EQ(scales, (std::vector<float>{8, 16, 16, 32}));
  EXPECT_EQ(values, (std::vector<float>{1, 0.5f, 0.25f, 0.125f}));
}

}  // namespace
}  // namespace tenon::train::networks_c_test
