// SPDX-License-Identifier: Apache-2.0
// Loops of LSTM cells that become one node (devices/cpu/recurrent_pass.cc): the same numbers as the loop's, and loops that differ in anything stay loops. Covers N8.
#include <cmath>

#include "tests/engine/chains.h"

namespace tenon::engine {
namespace {

// Without the pass.
Runtime& LoopRuntime() {
  static Runtime* const runtime = [] {
    RuntimeOptions options;
    options.plugin_options = {{"tenon.cpu", "recurrent", "false"}};
    auto made = Runtime::Create(options);
    if (!made.ok()) ADD_FAILURE() << made.status().message();
    return new Runtime(std::move(*made));
  }();
  return *runtime;
}

struct Sizes {
  int64_t time, batch, inputs, cells;
};

// What is asked of a loop besides.
struct Form {
  bool is_turned = false;        // operands of sums and products in the other order
  bool counts_turns = true;      // a second counter, as Keras has it
  bool keeps_all = true;         // the list has all steps; else the last
  const char* activation = "Tanh";
  const char* gate = "Sigmoid";
  int forget = 1;                // the gate that is taken for the forget gate
  bool has_effect = false;       // turns write a variable
  bool leaves_counter = false;
  bool reads_variables = false;  // weights
  int32_t less = 0;              // turns fewer than there are elements
};

Tensor Numbers(Random& random, const Shape& shape, double range) {
  int64_t count = 1;
  for (int d = 0; d < shape.rank(); ++d) count *= shape[static_cast<size_t>(d)];
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back((static_cast<double>(random() % 2001) / 1000 - 1) * range);
  return TensorOf(DType::kFloat, shape, numbers);
}

// A layer as Keras writes it.
struct Layer {
  Layer(Runtime& runtime, const Sizes& s, const Form& form, uint64_t seed) : g(runtime) {
    Random random(seed);
    const double range = 1 / std::sqrt(static_cast<double>(s.cells));
    const auto feed = [&](const Shape& shape, double to) {
      feeds.emplace_back(g.Placeholder("", DType::kFloat, shape), Numbers(random, shape, to));
      return feeds.back().first;
    };
    const Output x = feed({s.time, s.batch, s.inputs}, 1), h = feed({s.batch, s.cells}, 1), c = feed({s.batch, s.cells}, 1);
    std::vector<Output> weights = {feed({s.inputs, 4 * s.cells}, range), feed({s.cells, 4 * s.cells}, range), feed({4 * s.cells}, range)};
    if (form.reads_variables) {
      for (Output& each : weights) {
        const Output handle = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape::Unknown()}, {"shared_name", "weights" + std::to_string(feeds.size() + writes.size())}});
        writes.push_back(g.AddNode("AssignVariableOp", {handle, each}));
        each = handle;
      }
    }
    Output written;
    if (form.has_effect) {
      written = g.Op("VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", Shape({})}, {"shared_name", "written"}});
      writes.push_back(g.AddNode("AssignVariableOp", {written, g.Const(0.0f)}));
    }
    const auto length = static_cast<int32_t>(s.time) - form.less;
    const Output list = g.Op("TensorListFromTensor", {x, g.Const<int32_t>({static_cast<int32_t>(s.batch), static_cast<int32_t>(s.inputs)})});
    const Output made = g.Op("TensorListReserve", {g.Const<int32_t>({static_cast<int32_t>(s.batch), static_cast<int32_t>(s.cells)}), g.Const(form.keeps_all ? static_cast<int32_t>(s.time) - form.less : 1)},
                             {{"element_dtype", DType::kFloat}});
    const auto pair = [&](const char* op, const Output& a, const Output& b) { return form.is_turned ? g.Op(op, {b, a}) : g.Op(op, {a, b}); };
    std::vector<Output> invariants = {list, weights[0], weights[1], weights[2]};
    if (form.has_effect) invariants.push_back(written);
    const std::vector<Output> out = While(
        g, {g.Const<int32_t>(0), g.Const<int32_t>(0), made, h, c}, invariants,
        [&](const std::vector<Output>& v) {
          const Output more = g.Op("Less", {v[1], g.Const(length)});
          return form.counts_turns ? pair("LogicalAnd", g.Op("Less", {v[0], g.Const(length)}), more) : more;
        },
        [&](const std::vector<Output>& v) {
          const auto weight = [&](const Output& edge) { return form.reads_variables ? g.Op("ReadVariableOp", {edge}, {{"dtype", DType::kFloat}}) : edge; };
          const Output item = g.Op("TensorListGetItem", {v[5], v[1], g.Const<int32_t>({-1, -1})}, {{"element_dtype", DType::kFloat}});
          const Output sum = pair("AddV2", g.Op("MatMul", {item, weight(v[6])}), g.Op("MatMul", {v[3], weight(v[7])}));
          const Operation gates = g.AddNode("Split", {g.Const<int32_t>(1), g.Op("BiasAdd", {sum, weight(v[8])})}, {{"num_split", 4}});
          const auto gate = [&](int number) { return g.Op(form.gate, {gates.output(number)}); };
          const Output new_c = pair("AddV2", pair("Mul", gate(form.forget), v[4]), pair("Mul", gate(form.forget == 1 ? 0 : 1), g.Op(form.activation, {gates.output(2)})));
          const Output new_h = pair("Mul", gate(3), g.Op("Tanh", {new_c}));
          Output turn = g.Op("AddV2", {v[0], g.Const<int32_t>(1)});
          if (form.has_effect) {
            const auto after = g.ControlDependencies({g.AddNode("AssignAddVariableOp", {v[9], g.Const(1.0f)})});
            turn = g.Op("Identity", {turn});
          }
          return std::vector<Output>{turn, g.Op("AddV2", {v[1], g.Const<int32_t>(1)}), g.Op("TensorListSetItem", {v[2], form.keeps_all ? v[1] : g.Const<int32_t>(0), new_h}), new_h, new_c};
        });
    fetches = {g.Op("TensorListStack", {out[2], g.Const<int32_t>({-1, -1})}, {{"element_dtype", DType::kFloat}, {"num_elements", form.keeps_all ? static_cast<int64_t>(length) : int64_t{1}}}), out[3], out[4]};
    if (form.leaves_counter) fetches.push_back(out[1]);
    if (form.has_effect) {
      const auto after = g.ControlDependencies({out[3]});
      fetches.push_back(g.Op("ReadVariableOp", {written}, {{"dtype", DType::kFloat}}));
    }
  }

  Graph g;
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> fetches;
  std::vector<Operation> writes;
};

struct Found {
  std::vector<Tensor> values;
  bool is_one_node = false;
  std::string failure;
};

Found RunLayer(Runtime& runtime, const Layer& layer) {
  Found found;
  if (!layer.g.status().ok()) return found.failure = layer.g.status().message(), found;
  auto session = Session::Create(runtime, layer.g);
  if (!session.ok()) return found.failure = session.status().message(), found;
  std::vector<Feed> feeds;
  std::vector<Name> names;
  std::vector<View> views;
  for (const auto& [name, value] : layer.feeds) {
    feeds.emplace_back(name, value);
    names.emplace_back(name);
    views.emplace_back(value);
  }
  for (const Operation& write : layer.writes)
    if (auto wrote = session->Run(feeds, {}, {write}); !wrote.ok()) return found.failure = wrote.status().message(), found;
  auto callable = session->Prepare(names, {layer.fetches.begin(), layer.fetches.end()});
  if (!callable.ok()) return found.failure = callable.status().message(), found;
  auto values = callable->Run(views);
  if (!values.ok()) return found.failure = values.status().message(), found;
  found.values = std::move(*values);
  found.is_one_node = callable->Explain()->find("Tenon>LSTMLayer") != std::string::npos;
  return found;
}

// What both find, to a few places of numbers near one.
void ExpectAlike(const Sizes& sizes, const Form& form, bool becomes_one, uint64_t seed) {
  const Found loop = RunLayer(LoopRuntime(), Layer(LoopRuntime(), sizes, form, seed)), found = RunLayer(TheRuntime(), Layer(TheRuntime(), sizes, form, seed));
  ASSERT_EQ(loop.failure, "");
  ASSERT_EQ(found.failure, "");
  EXPECT_FALSE(loop.is_one_node);
  EXPECT_EQ(found.is_one_node, becomes_one);
  ASSERT_EQ(loop.values.size(), found.values.size());
  for (size_t i = 0; i < loop.values.size(); ++i) {
    ASSERT_TRUE(loop.values[i].shape() == found.values[i].shape()) << i;
    const std::vector<double> a = DoublesOf(loop.values[i]), b = DoublesOf(found.values[i]);
    for (size_t at = 0; at < a.size(); ++at) ASSERT_NEAR(a[at], b[at], 3e-6 * (1 + std::abs(a[at]))) << "value " << i << ", element " << at;
  }
}

TEST(Recurrent, LoopsAsKerasWritesThemBecomeOneNode) {
  uint64_t seed = 1;
  for (const Sizes& sizes : std::vector<Sizes>{{1, 1, 1, 1}, {5, 3, 7, 4}, {2, 1, 3, 33}, {12, 8, 64, 48}, {7, 5, 1, 16}, {3, 2, 130, 65}})
    for (const bool turned : {false, true})
      for (const bool all : {false, true})
        for (const bool variables : {false, true})
          ExpectAlike(sizes, {.is_turned = turned, .counts_turns = turned, .keeps_all = all, .reads_variables = variables}, true, seed++);
}

TEST(Recurrent, FewerTurnsThanElementsAreFewer) { ExpectAlike({6, 4, 5, 8}, {.less = 2}, true, 3); }

TEST(Recurrent, CountersLeaveWithTheirLastNumber) { ExpectAlike({4, 3, 5, 6}, {.leaves_counter = true}, true, 7); }

TEST(Recurrent, OtherLoopsStayLoops) {
  const Sizes sizes = {4, 3, 5, 6};
  ExpectAlike(sizes, {.activation = "Sigmoid"}, false, 4);
  ExpectAlike(sizes, {.gate = "Tanh"}, false, 5);
  ExpectAlike(sizes, {.forget = 0}, false, 6);
  ExpectAlike(sizes, {.has_effect = true}, false, 8);
}

// Of more turns than there are elements.
TEST(Recurrent, WhatFailsInALoopFails) {
  const Sizes sizes = {4, 3, 5, 6};
  for (Runtime* runtime : {&LoopRuntime(), &TheRuntime()}) EXPECT_NE(RunLayer(*runtime, Layer(*runtime, sizes, {.less = -1}, 9)).failure, "");
}

}  // namespace
}  // namespace tenon::engine
