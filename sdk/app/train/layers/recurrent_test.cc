// SPDX-License-Identifier: Apache-2.0
// Recurrent cells and loops against Keras's and TensorFlow's, against differences, and on a task that needs memory.
// Covers L10.
#include "tenon/train/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tenon/train/optimizer.h"
#include "tests/fakes/training_golden.h"

namespace tenon::train::recurrent_test {
namespace {

using Maker = RnnCell (*)(Model&, std::string_view, int64_t, int64_t, const RnnCellOptions&);

Maker MakerOf(const std::string& name) {
  return name == "tanh" ? BasicRnnCell : name.starts_with("lstm") ? LstmCell : GruCell;
}
RnnCellOptions OptionsOf(const std::string& name) {
  RnnCellOptions options;
  options.forget_bias = name == "lstm_forget_bias" ? 1 : 0;
  options.reset_after = name != "gru_reset_before";
  return options;
}

Output SumOf(Graph& graph, const Output& x) {
  return graph.Op("Sum", {graph.Op("Reshape", {x, graph.Const({-1})}), graph.Const({0})});
}
Output SwapBatchAndTime(Graph& graph, const Output& x) { return graph.Op("Transpose", {x, graph.Const({1, 0, 2})}); }

// A cell with the golden's weights in a graph, and the loop over its inputs.
struct GoldenRnn {
  GoldenRnn(const std::string& name, const nlohmann::json& golden, const nlohmann::json& lengths, bool time_major,
            bool known_shapes = true)
      : graph(SharedRuntime()), model(graph) {
    const nlohmann::json& all = TrainingGolden("recurrent");
    const RnnCell cell = MakerOf(name)(model, "cell", 2, 3, OptionsOf(name));
    x = known_shapes ? GoldenConst(graph, all["x"]) : graph.Placeholder("x", DType::kFloat, {-1, -1, 2});
    RnnOptions options;
    for (const auto& state : golden["first"]) options.initial_state.push_back(GoldenConst(graph, state));
    if (!lengths.is_null()) options.sequence_length = graph.Const(lengths.get<std::vector<int32_t>>(), {3});
    options.time_major = time_major;
    rnn = DynamicRnn(graph, cell, time_major ? SwapBatchAndTime(graph, x) : x, options);
    if (time_major) rnn.outputs = SwapBatchAndTime(graph, rnn.outputs);
    loss = SumOf(graph, graph.Op("Mul", {rnn.outputs, GoldenConst(graph, all["loss_weight"])}));
    for (const Output& state : rnn.state) loss = graph.Op("AddV2", {loss, SumOf(graph, graph.Op("Square", {state}))});
    parameters = {x};
    parameters.insert(parameters.end(), options.initial_state.begin(), options.initial_state.end());
    for (size_t i = 0; i < model.trainable().size(); ++i) {
      parameters.push_back(model.trainable()[i]->value);
      given.push_back(AssignNode(graph, *model.trainable()[i], GoldenValues(golden["weights"][i])));
    }
  }
  Graph graph;
  Model model;
  Output x, loss;
  Rnn rnn;
  std::vector<Output> parameters;  // inputs, first states, weights
  std::vector<Name> given;
};

TEST(Recurrent, IsKerasAndTensorFlows) {
  for (const auto& [name, golden] : TrainingGolden("recurrent")["cells"].items())
    for (const auto& run : golden["runs"])
      for (const bool time_major : {false, true}) {
        GoldenRnn made(name, golden, run["lengths"], time_major);
        std::vector<Name> fetches{made.rnn.outputs};
        fetches.insert(fetches.end(), made.rnn.state.begin(), made.rnn.state.end());
        for (const host::Gradient& d : made.graph.Gradients({made.loss}, made.parameters))
          fetches.emplace_back(d.dense);
        const auto values = SessionOf(made.graph, made.given).Run({}, fetches);
        ASSERT_TRUE(values.ok()) << name << ": " << values.status();
        ExpectNear(Floats((*values)[0]), GoldenValues(run["outputs"]), name + " outputs");
        size_t at = 1;
        for (const auto& state : run["last"]) ExpectNear(Floats((*values)[at++]), GoldenValues(state), name + " state");
        for (const auto& gradient : run["gradients"])
          ExpectNear(Floats((*values)[at++]), GoldenValues(gradient), name + " gradient", 5e-6f);
        EXPECT_EQ(at, values->size());
      }
}

TEST(Recurrent, IsTheSameAsDataflow) {
  const nlohmann::json& golden = TrainingGolden("recurrent")["cells"]["lstm"];
  const nlohmann::json& run = golden["runs"][1];
  GoldenRnn made("lstm", golden, run["lengths"], false);
  const Output d = made.graph.Gradients({made.loss}, {made.x})[0].dense;
  for (const bool optimize : {false, true}) {
    host::SessionOptions options;
    options.optimize = optimize;
    options.executor = TENON_EXECUTOR_DYNAMIC;
    Session session = NewSession(options);
    ASSERT_TRUE(session.Extend(made.graph).ok() && session.RunTargets(made.given).ok());
    const auto values = session.Run({}, {made.rnn.outputs, d});
    ASSERT_TRUE(values.ok()) << values.status();
    ExpectNear(Floats((*values)[0]), GoldenValues(run["outputs"]), "outputs");
    ExpectNear(Floats((*values)[1]), GoldenValues(run["gradients"][0]), "dx", 5e-6f);
  }
}

// The same where neither batch nor time are known before the step.
TEST(Recurrent, NeedsNoShapeBeforeTheStep) {
  const nlohmann::json& golden = TrainingGolden("recurrent")["cells"]["lstm"];
  const nlohmann::json& run = golden["runs"][1];
  GoldenRnn made("lstm", golden, run["lengths"], false, false);
  const Output d = made.graph.Gradients({made.loss}, {made.x})[0].dense;
  const auto values = SessionOf(made.graph, made.given)
                          .Run({{made.x, View(GoldenTensor(TrainingGolden("recurrent")["x"]))}}, {made.rnn.outputs, d});
  ASSERT_TRUE(values.ok()) << values.status();
  ExpectNear(Floats((*values)[0]), GoldenValues(run["outputs"]), "outputs");
  ExpectNear(Floats((*values)[1]), GoldenValues(run["gradients"][0]), "dx", 5e-6f);
}

// Along a random direction, in each cell's loss.
TEST(Recurrent, GradientsAreDifferences) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const auto& [name, golden] : TrainingGolden("recurrent")["cells"].items()) {
    GoldenRnn made(name, golden, golden["runs"][1]["lengths"], false, false);
    const Output d = made.graph.Gradients({made.loss}, {made.x})[0].dense;
    const Session session = SessionOf(made.graph, made.given);
    const std::vector<float> x = GoldenValues(TrainingGolden("recurrent")["x"]);
    std::vector<float> direction(x.size());
    for (float& each : direction) each = normal(random);
    const auto at = [&](float step, const Output& fetch) {
      std::vector<float> moved = x;
      for (size_t i = 0; i < x.size(); ++i) moved[i] += step * direction[i];
      const auto values = session.Run({{made.x, View(moved, {3, 5, 2})}}, {fetch});
      EXPECT_TRUE(values.ok()) << values.status();
      return values.ok() ? Floats((*values)[0]) : std::vector<float>(x.size());
    };
    const std::vector<float> gradient = at(0, d);
    float along = 0;
    for (size_t i = 0; i < x.size(); ++i) along += gradient[i] * direction[i];
    EXPECT_NEAR(along, (at(0.01f, made.loss)[0] - at(-0.01f, made.loss)[0]) / 0.02f, 2e-3f * (1 + std::abs(along)))
        << name;
  }
}

// ---- The loop ----

// A cell whose state counts its steps in a variable; x is added up.
struct Counting {
  explicit Counting(Model& model) : turns(model.State("turns", Shape(), 0)) {
    cell = {.name = "counting",
            .inputs = 1,
            .state_sizes = {1},
            .weights = {turns.handle},
            .step = [](Graph& graph, const Output& x, const std::vector<Output>& state,
                       const std::vector<Output>& weights) -> RnnStep {
              const Operation counted =
                  graph.AddNode("AssignAddVariableOp", {weights[0], graph.Const(1.0f)}, {{"dtype", DType::kFloat}});
              const auto after = graph.ControlDependencies({counted});
              const Output next = graph.Op("AddV2", {state[0], x});
              return {next, {next}};
            }};
  }
  const Variable& turns;
  RnnCell cell;
};

TEST(DynamicRnn, EndsWithTheLongestSequence) {
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{2, 3, 0}, {0, 0, 0}, {7, 1, 1}}) {
    Graph graph(SharedRuntime());
    Model model(graph);
    const Counting counting(model);
    RnnOptions options;
    options.sequence_length = graph.Const(lengths, {3});
    const std::vector<float> ones(21, 1);
    const Rnn rnn = DynamicRnn(graph, counting.cell, graph.Const(ones, {3, 7, 1}), options);
    const Session session = SessionOf(graph, {model.InitializeAll()});
    const auto values = session.Run({}, {rnn.outputs, rnn.state[0]});
    ASSERT_TRUE(values.ok()) << values.status();
    const std::vector<float> outputs = Floats((*values)[0]), last = Floats((*values)[1]);
    EXPECT_EQ((*values)[0].shape(), (Shape{3, 7, 1}));
    for (size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(last[b], static_cast<float>(lengths[b]));
      for (int64_t t = 0; t < 7; ++t)
        EXPECT_EQ(outputs[b * 7 + static_cast<size_t>(t)], t < lengths[b] ? static_cast<float>(t + 1) : 0.0f);
    }
    const auto turns = session.Run({}, {counting.turns.value});
    EXPECT_EQ((*turns)[0].scalar<float>(),
              static_cast<float>(std::max<int64_t>(1, *std::max_element(lengths.begin(), lengths.end()))));
  }
}

TEST(DynamicRnn, GoesOverNoStep) {
  for (const int64_t known_batch : {2, -1})
    for (const bool masked : {false, true}) {
      Graph graph(SharedRuntime());
      Model model(graph);
      const Output x = graph.Placeholder("x", DType::kFloat, {known_batch, -1, 2});
      RnnOptions options;
      if (masked) options.sequence_length = graph.Const({0, 0});
      const Rnn rnn = DynamicRnn(graph, LstmCell(model, "cell", 2, 3), x, options);
      const Session session = SessionOf(graph, {model.InitializeAll()});
      const std::vector<float> none;
      const auto state = session.Run({{x, View(none, {2, 0, 2})}}, {rnn.state[1]});
      ASSERT_TRUE(state.ok()) << state.status();
      EXPECT_EQ(Floats((*state)[0]), std::vector<float>(6, 0));
      const auto outputs = session.Run({{x, View(none, {2, 0, 2})}}, {rnn.outputs});
      if (known_batch < 0 && !masked) {  // as many lengths as there are say the batch too
        EXPECT_EQ(outputs.status().code(), Code::kInvalidArgument) << outputs.status();
        continue;
      }
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      EXPECT_EQ((*outputs)[0].shape(), (Shape{2, 0, 3}));
    }
}

TEST(DynamicRnn, GoesBackwardsFromEachSequencesEnd) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const Counting counting(model);
  RnnOptions options;
  options.sequence_length = graph.Const({1, 3});
  options.reverse = true;
  const Rnn rnn = DynamicRnn(graph, counting.cell,
                             graph.Const(std::vector<float>{1, 10, 100, 1000, 2, 20, 200, 2000}, {2, 4, 1}), options);
  const auto values = SessionOf(graph, {model.InitializeAll()}).Run({}, {rnn.outputs, rnn.state[0]});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(Floats((*values)[0]), (std::vector<float>{1, 0, 0, 0, 222, 220, 200, 0}));
  EXPECT_EQ(Floats((*values)[1]), (std::vector<float>{1, 222}));
}

TEST(DynamicRnn, StandsInACellsGraphTwice) {
  Graph graph(SharedRuntime());
  Model model(graph);
  const RnnCell cell = GruCell(model, "in/a/scope", 2, 3);
  const Output x = graph.Const(std::vector<float>{1, 2, 3, 4}, {1, 2, 2});
  const Rnn once = DynamicRnn(graph, cell, x), again = DynamicRnn(graph, cell, x);
  const RnnStep first =
      cell.Step(graph, graph.Const(std::vector<float>{1, 2}, {1, 2}), ZeroState(graph, cell, graph.Const(1)));
  const RnnStep second = cell.Step(graph, graph.Const(std::vector<float>{3, 4}, {1, 2}), first.state);
  EXPECT_EQ(model.variables().size(), 3u);
  const auto values = SessionOf(graph, {model.InitializeAll()}).Run({}, {once.state[0], again.state[0], second.output});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(Floats((*values)[0]), Floats((*values)[1]));
  ExpectNear(Floats((*values)[0]), Floats((*values)[2]), "by hand");
}

// ---- What is wrong ----

Status Refused(const std::function<void(Graph&, Model&)>& build) {
  Graph graph(SharedRuntime());
  Model model(graph);
  build(graph, model);
  return graph.status();
}
void ExpectText(const Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(text), std::string::npos) << status;
}

TEST(DynamicRnn, RefusesWhatDoesNotFit) {
  const auto placeholder = [](Graph& graph, const Shape& shape) {
    return graph.Placeholder("x", DType::kFloat, shape);
  };
  ExpectText(Refused([&](Graph&, Model& m) { LstmCell(m, "cell", 2, 0); }),
             "recurrent cell 'cell' of 2 inputs and 0 units");
  ExpectText(Refused([&](Graph& g, Model& m) {
               DynamicRnn(g, LstmCell(m, "cell", 2, 3), placeholder(g, {-1, 2}));
             }),
             "inputs are [?,2]; sequences are [batch, time, features]");
  ExpectText(Refused([&](Graph& g, Model& m) {
               DynamicRnn(g, LstmCell(m, "cell", 2, 3), placeholder(g, {-1, -1, 4}));
             }),
             "inputs have 4 features and the cell takes 2");
  ExpectText(Refused([&](Graph& g, Model& m) {
               RnnOptions options;
               options.initial_state = {g.Const(std::vector<float>(3), {1, 3})};
               DynamicRnn(g, LstmCell(m, "cell", 2, 3), placeholder(g, {1, -1, 2}), options);
             }),
             "1 initial states for 2");
  ExpectText(Refused([&](Graph& g, Model& m) {
               RnnOptions options;
               options.sequence_length = g.Const({1.0f});
               DynamicRnn(g, LstmCell(m, "cell", 2, 3), placeholder(g, {1, -1, 2}), options);
             }),
             "sequence lengths are float");
  ExpectText(Refused([&](Graph& g, Model& m) {
               RnnOptions options;
               options.initial_state = {g.Const(std::vector<float>(4), {1, 4})};
               DynamicRnn(g, BasicRnnCell(m, "cell", 2, 3), placeholder(g, {1, -1, 2}), options);
             }),
             "initial state 0 is [1,4]; the cell's is [batch, 3]");
  ExpectText(Refused([&](Graph& g, Model&) {
               DynamicRnn(g, RnnCell(), placeholder(g, {1, -1, 2}));
             }),
             "the cell has no step");
}

TEST(DynamicRnn, RefusesLengthsThatAreNone) {
  Graph graph(SharedRuntime());
  Model model(graph);
  RnnOptions options;
  options.sequence_length = graph.Placeholder("lengths", DType::kInt64);
  const Rnn rnn =
      DynamicRnn(graph, BasicRnnCell(model, "cell", 1, 2), graph.Const(std::vector<float>(6), {2, 3, 1}), options);
  const Session session = SessionOf(graph, {model.InitializeAll()});
  const auto with = [&](const std::vector<int64_t>& lengths) {
    return session.Run({{"lengths", View(lengths, {static_cast<int64_t>(lengths.size())})}}, {rnn.outputs}).status();
  };
  EXPECT_TRUE(with({0, 3}).ok()) << with({0, 3});
  ExpectText(with({1, 4}), "sequence lengths must be 0 to the number of steps");
  ExpectText(with({-1, 3}), "sequence lengths must be 0 to the number of steps");
  ExpectText(with({int64_t{1} << 40, 3}), "sequence lengths must be 0 to the number of steps");
  ExpectText(with({1, 2, 3}), "sequence lengths must be one for each of the batch");
}

// ---- Training ----

// Was the first bit set? Sequences are 6 to 12 bits long.
TEST(Recurrent, LearnsToRememberTheFirstBit) {
  for (const Maker maker : {LstmCell, GruCell}) {
    Graph graph(SharedRuntime());
    Model model(graph, 7);
    constexpr int64_t kBatch = 32, kTime = 12;
    const Output x = graph.Placeholder("x", DType::kFloat, {kBatch, kTime, 1}),
                 labels = graph.Placeholder("labels", DType::kInt64, {kBatch});
    RnnOptions options;
    options.sequence_length = graph.Placeholder("lengths", DType::kInt32, {kBatch});
    const Rnn rnn = DynamicRnn(graph, maker(model, "cell", 1, 8, {}), x, options);
    const Output logits = model.Dense("classes", rnn.state[0], 8, 2, Initializer::He(8));
    const Output loss = SparseSoftmaxLoss(graph, logits, labels), accuracy = Accuracy(graph, logits, labels);
    OptimizerOptions adam;
    adam.clipping = {Clipping::Kind::kGlobalNorm, 1};
    const Operation update = Minimize(model, loss, graph.Const(0.03f), adam);
    const Session session = SessionOf(graph, {model.InitializeAll()});
    std::mt19937 random(5);
    float right = 0;
    for (int step = 0; step < 200; ++step) {
      std::vector<float> bits(kBatch * kTime);
      std::vector<int64_t> first(kBatch);
      std::vector<int32_t> lengths(kBatch);
      for (float& bit : bits) bit = random() % 2 == 0 ? -1.0f : 1.0f;
      for (size_t b = 0; b < kBatch; ++b)
        first[b] = bits[b * kTime] > 0, lengths[b] = 6 + static_cast<int32_t>(random() % 7);
      const auto values = session.Run(
          {{x, View(bits, {kBatch, kTime, 1})}, {labels, View(first, {kBatch})}, {"lengths", View(lengths, {kBatch})}},
          {accuracy}, {update});
      ASSERT_TRUE(values.ok()) << values.status();
      if (step >= 190) right += (*values)[0].scalar<float>() / 10;
    }
    EXPECT_GT(right, 0.98f);
  }
}

}  // namespace
}  // namespace tenon::train::recurrent_test
