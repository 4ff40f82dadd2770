// SPDX-License-Identifier: Apache-2.0
// Loops of recurrent cells that become one node (passes/recurrent): the same numbers as the loop's, and
// loops that differ in anything stay loops. Covers N8.
#include <cmath>

#include "tests/engine/chains.h"

namespace tenon::engine::recurrent_test {
namespace {

// How the step is planned: with the pass, or without.
enum class Kept { kOneNode, kLoops };

struct Sizes {
  int64_t time, batch, inputs, cells;
};

enum class Cell { kLstm, kGru, kGruResetBefore };

// What is asked of a loop besides.
struct Form {
  Cell cell = Cell::kLstm;
  bool is_turned = false;        // operands of sums and products in the other order
  bool counts_turns = true;      // a second counter, as Keras has it
  bool keeps_all = true;         // the list has all steps; else the last
  bool knows_sizes = true;       // before the step: time and batch
  bool goes_back = false;
  const char* activation = "Tanh";
  const char* gate = "Sigmoid";
  int forget = 1;                // the gate that is taken for the LSTM's forget gate
  bool keeps_new = false;        // a GRU's z and 1 - z change places
  float one = 1;                 // which a GRU's z is taken from
  bool is_masked = false;        // h stays where the mask says so
  bool has_effect = false;       // turns write a variable
  bool leaves_counter = false;
  bool reads_variables = false;  // weights
  bool has_bias = true;
  int32_t less = 0;              // turns fewer than there are elements
  int32_t starts_at = 0;         // the counter
  bool one_state = false;        // for all sequences
  bool two_matrices = false;     // a GRU's state is multiplied by parts of two
  bool waits = false;            // with reads_variables: for another value of the kernel
  bool shows_inside = false;     // a turn's h is fetched
  enum class Fed { kNothing, kInput, kKernel, kInside } fed = Fed::kNothing;  // what else has a value of the caller's
  int64_t reset_to = 2;          // where a GRU's r ends among the state's parts
  int32_t more_stacked = 0;      // columns that the stack is said to have, than it has
  int64_t more_columns = 0;      // of the recurrent kernel, than there should be
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
  using Outputs = std::vector<Output>;
  Layer(Runtime& runtime, const Sizes& s, const Form& of, uint64_t seed)
      : g(runtime), sizes(s), form(of), random(seed) {
    const double range = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, s.cells)));
    const int64_t gates = form.cell == Cell::kLstm ? 4 : 3, rows = form.one_state ? 1 : s.batch;
    x = Feed({s.time, s.batch, s.inputs}, 1, 2);
    Outputs initial = {Feed({rows, s.cells}, 1, 1)};
    if (form.cell == Cell::kLstm) initial.push_back(Feed({rows, s.cells}, 1, 1));
    Outputs weights = {Feed({s.inputs, gates * s.cells}, range),
                       Feed({s.cells, gates * s.cells + form.more_columns}, range), Feed({gates * s.cells}, range)};
    if (form.fed == Form::Fed::kKernel) {
      weights[0] = g.Op("Identity", {weights[0]});
      feeds.emplace_back(weights[0], Numbers(random, {s.inputs, gates * s.cells}, range));
    }
    if (form.cell == Cell::kGru) weights.push_back(Feed({gates * s.cells}, range));
    if (form.two_matrices) weights.push_back(Feed({s.cells, gates * s.cells}, range));
    if (form.reads_variables)
      for (Output& each : weights) each = Variable(each);
    if (form.has_effect) written = Variable(g.Const(0.0f));
    Loop(initial, weights);
  }

  Output Feed(const Shape& shape, double to, int unknown = 0) {
    std::vector<int64_t> known;
    for (int d = 0; d < shape.rank(); ++d)
      known.push_back(d < unknown && !form.knows_sizes ? -1 : shape[static_cast<size_t>(d)]);
    feeds.emplace_back(g.Placeholder("", DType::kFloat, Shape(known)), Numbers(random, shape, to));
    return feeds.back().first;
  }
  Output Variable(const Output& value) {
    const Output handle = g.Op("VarHandleOp", {},
                               {{"dtype", DType::kFloat},
                                {"shape", form.has_effect ? Shape({}) : ShapeOfFeed(value)},
                                {"shared_name", "variable" + std::to_string(writes.size())}});
    writes.push_back(g.AddNode("AssignVariableOp", {handle, value}));
    return handle;
  }
  Shape ShapeOfFeed(const Output& value) const {
    for (const auto& [name, tensor] : feeds)
      if (name.node() == value.node()) return tensor.shape();
    return Shape::Unknown();
  }
  Output Pair(const char* op, const Output& a, const Output& b) {
    return form.is_turned ? g.Op(op, {b, a}) : g.Op(op, {a, b});
  }
  Output Weight(const Output& edge) {
    return form.reads_variables ? g.Op("ReadVariableOp", {edge}, {{"dtype", DType::kFloat}}) : edge;
  }
  Output Biased(const Output& product, const Output& bias) {
    return form.has_bias ? g.Op("BiasAdd", {product, Weight(bias)}) : product;
  }
  Output Gate(const Output& sum) { return g.Op(form.gate, {sum}); }
  // [:, from:to] of cells; to 0: to the end.
  Output Columns(const Output& matrix, int64_t from, int64_t to) {
    const auto pair = [&](int64_t number) { return g.Const<int32_t>({0, static_cast<int32_t>(number * sizes.cells)}); };
    return g.Op("StridedSlice", {matrix, pair(from), pair(to), g.Const<int32_t>({1, 1})},
                {{"begin_mask", from == 0 ? 3 : 1}, {"end_mask", to == 0 ? 3 : 1}});
  }

  // States after a turn.
  Outputs Lstm(const Output& item, const Outputs& states, const Outputs& w) {
    const Output sum = Pair("AddV2", g.Op("MatMul", {item, Weight(w[0])}), g.Op("MatMul", {states[0], Weight(w[1])}));
    const Operation gates = g.AddNode("Split", {g.Const<int32_t>(1), Biased(sum, w[2])}, {{"num_split", 4}});
    const auto gate = [&](int number) { return Gate(gates.output(number)); };
    const Output new_c = Pair("AddV2", Pair("Mul", gate(form.forget), states[1]),
                              Pair("Mul", gate(form.forget == 1 ? 0 : 1), g.Op(form.activation, {gates.output(2)})));
    return {Pair("Mul", gate(3), g.Op("Tanh", {new_c})), new_c};
  }
  Outputs Gru(const Output& item, const Outputs& states, const Outputs& w) {
    const bool after = form.cell == Cell::kGru;
    const Output h = states[0];
    const Operation of_x = g.AddNode(
        "Split", {g.Const<int32_t>(-1), Biased(g.Op("MatMul", {item, Weight(w[0])}), w[2])}, {{"num_split", 3}});
    Output of_h = g.Op("MatMul", {h, after ? Weight(w[1]) : Columns(Weight(w[1]), 0, 2)});
    if (after && form.has_bias) of_h = Pair("AddV2", of_h, Weight(w[3]));
    const Output z = Gate(Pair("AddV2", of_x.output(0), Columns(of_h, 0, 1))),
                 r = Gate(Pair("AddV2", of_x.output(1), Columns(of_h, 1, form.reset_to)));
    const Output reset =
        after ? Pair("Mul", r, Columns(of_h, 2, 0))
              : g.Op("MatMul", {Pair("Mul", r, h), Columns(Weight(form.two_matrices ? w.back() : w[1]), 2, 0)});
    const Output candidate = g.Op(form.activation, {Pair("AddV2", of_x.output(2), reset)}),
                 rest = g.Op("Sub", {g.Const(form.one), z});
    return {
        Pair("AddV2", Pair("Mul", form.keeps_new ? rest : z, h), Pair("Mul", form.keeps_new ? z : rest, candidate))};
  }

  void Loop(const Outputs& initial, const Outputs& weights) {
    if (form.fed == Form::Fed::kInput) {
      x = g.Op("Identity", {x});
      feeds.emplace_back(x, Numbers(random, {sizes.time, sizes.batch, sizes.inputs}, 1));
    }
    if (form.goes_back) x = g.Op("ReverseV2", {x, g.Const<int32_t>({0})});
    const auto turns = static_cast<int32_t>(sizes.time) - form.less;
    const Output length =
        form.knows_sizes
            ? g.Const(turns)
            : g.Op("StridedSlice",
                   {g.Op("Shape", {x}), g.Const<int32_t>({0}), g.Const<int32_t>({1}), g.Const<int32_t>({1})},
                   {{"shrink_axis_mask", 1}});
    const auto rows = static_cast<int32_t>(form.knows_sizes ? sizes.batch : -1);
    const Output list = g.Op("TensorListFromTensor", {x, g.Const<int32_t>({rows, static_cast<int32_t>(sizes.inputs)})});
    const Output made = g.Op(
        "TensorListReserve",
        {g.Const<int32_t>({rows, static_cast<int32_t>(sizes.cells)}), form.keeps_all ? length : g.Const<int32_t>(1)},
        {{"element_dtype", DType::kFloat}});
    Outputs variables = {g.Const<int32_t>(0), g.Const<int32_t>(form.starts_at), made}, invariants = {length, list};
    variables.insert(variables.end(), initial.begin(), initial.end());
    invariants.insert(invariants.end(), weights.begin(), weights.end());
    if (form.has_effect) invariants.push_back(written);
    const size_t states = initial.size(), invariant = 3 + states;
    std::vector<Operation> first;
    if (form.waits)
      first.push_back(
          g.AddNode("AssignVariableOp",
                    {weights[0], g.Op("Mul", {g.Const(0.5f), feeds[form.cell == Cell::kLstm ? 3 : 2].first})}));
    const auto waits = g.ControlDependencies(first);
    Output inside;
    const Outputs out = While(
        g, variables, invariants,
        [&](const Outputs& v) {
          const Output limit = form.knows_sizes ? g.Const(turns) : v[invariant], more = g.Op("Less", {v[1], limit});
          return form.counts_turns ? Pair("LogicalAnd", g.Op("Less", {v[0], limit}), more) : more;
        },
        [&](const Outputs& v) {
          const Output item = g.Op("TensorListGetItem", {v[invariant + 1], v[1], g.Const<int32_t>({-1, -1})},
                                   {{"element_dtype", DType::kFloat}});
          if (form.fed == Form::Fed::kInside) feeds.emplace_back(item, Numbers(random, {sizes.batch, sizes.inputs}, 1));
          const Outputs before(v.begin() + 3, v.begin() + 3 + static_cast<ptrdiff_t>(states)),
              w(v.begin() + static_cast<ptrdiff_t>(invariant) + 2,
                v.begin() + static_cast<ptrdiff_t>(invariant + 2 + weights.size()));
          Outputs after = form.cell == Cell::kLstm ? Lstm(item, before, w) : Gru(item, before, w);
          if (form.is_masked)
            after[0] = g.Op("SelectV2", {g.Op("Less", {v[1], g.Const<int32_t>(2)}), after[0], before[0]});
          inside = after[0];
          Output turn = g.Op("AddV2", {v[0], g.Const<int32_t>(1)});
          if (form.has_effect) {
            const auto waits = g.ControlDependencies({g.AddNode("AssignAddVariableOp", {v.back(), g.Const(1.0f)})});
            turn = g.Op("Identity", {turn});
          }
          Outputs next = {turn, g.Op("AddV2", {v[1], g.Const<int32_t>(1)}),
                          g.Op("TensorListSetItem", {v[2], form.keeps_all ? v[1] : g.Const<int32_t>(0), after[0]})};
          next.insert(next.end(), after.begin(), after.end());
          return next;
        });
    const int64_t elements = !form.knows_sizes ? -1 : form.keeps_all ? turns : 1;
    fetches = {g.Op("TensorListStack",
                    {out[2], g.Const<int32_t>({-1, static_cast<int32_t>(sizes.cells) + form.more_stacked})},
                    {{"element_dtype", DType::kFloat}, {"num_elements", elements}})};
    fetches.insert(fetches.end(), out.begin() + 3, out.begin() + 3 + static_cast<ptrdiff_t>(states));
    if (form.shows_inside) fetches.push_back(inside);
    if (form.leaves_counter) fetches.push_back(out[1]);
    if (form.has_effect) {
      const auto waits = g.ControlDependencies({out[3]});
      fetches.push_back(g.Op("ReadVariableOp", {written}, {{"dtype", DType::kFloat}}));
    }
  }

  Graph g;
  Sizes sizes;
  Form form;
  Random random;
  Output x, written;
  std::vector<std::pair<Output, Tensor>> feeds;
  std::vector<Output> fetches;
  std::vector<Operation> writes;
};

struct Found {
  std::vector<Tensor> values;
  bool is_one_node = false;
  std::string failure;
};

Found RunLayer(const Layer& layer, Kept kept = Kept::kOneNode) {
  Found found;
  if (!layer.g.status().ok()) return found.failure = layer.g.status().message(), found;
  SessionOptions options;
  if (kept == Kept::kLoops) options.no_pass = "recurrent-loops";
  auto session = Session::Create(TheRuntime(), layer.g, options);
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
    if (auto wrote = session->Run(feeds, {}, {write}); !wrote.ok())
      return found.failure = wrote.status().message(), found;
  auto callable = session->Prepare(names, {layer.fetches.begin(), layer.fetches.end()});
  if (!callable.ok()) return found.failure = callable.status().message(), found;
  auto values = callable->Run(views);
  if (!values.ok()) return found.failure = values.status().message(), found;
  found.values = std::move(*values);
  const std::string how = *callable->Explain();
  found.is_one_node =
      how.find("Tenon>LSTMLayer") != std::string::npos || how.find("Tenon>GRULayer") != std::string::npos;
  return found;
}

// To a few places of numbers near one.
void ExpectNear(const Tensor& want, const Tensor& got) {
  ASSERT_TRUE(want.shape() == got.shape());
  const std::vector<double> a = DoublesOf(want), b = DoublesOf(got);
  for (size_t at = 0; at < a.size(); ++at) ASSERT_NEAR(a[at], b[at], 3e-6 * (1 + std::abs(a[at]))) << "element " << at;
}

// What both find.
void ExpectAlike(const Sizes& sizes, const Form& form, bool becomes_one, uint64_t seed) {
  const Found loop = RunLayer(Layer(TheRuntime(), sizes, form, seed), Kept::kLoops),
              found = RunLayer(Layer(TheRuntime(), sizes, form, seed));
  ASSERT_EQ(loop.failure, "");
  ASSERT_EQ(found.failure, "");
  EXPECT_FALSE(loop.is_one_node);
  EXPECT_EQ(found.is_one_node, becomes_one);
  ASSERT_EQ(loop.values.size(), found.values.size());
  for (size_t i = 0; i < loop.values.size(); ++i) {
    SCOPED_TRACE("value " + std::to_string(i));
    ExpectNear(loop.values[i], found.values[i]);
  }
}

constexpr Cell kCells[] = {Cell::kLstm, Cell::kGru, Cell::kGruResetBefore};

TEST(Recurrent, LoopsAsKerasWritesThemBecomeOneNode) {
  uint64_t seed = 1;
  for (const Cell cell : kCells)
    for (const Sizes& sizes :
         std::vector<Sizes>{{1, 1, 1, 1}, {5, 3, 7, 4}, {2, 1, 3, 33}, {12, 8, 64, 48}, {7, 5, 1, 16}, {3, 2, 130, 65}})
      for (const bool turned : {false, true})
        for (const bool all : {false, true})
          for (const bool variables : {false, true})
            ExpectAlike(sizes,
                        {.cell = cell,
                         .is_turned = turned,
                         .counts_turns = turned,
                         .keeps_all = all,
                         .reads_variables = variables},
                        true, seed++);
}

TEST(Recurrent, CellsNeedNoBias) {
  for (const Cell cell : kCells) ExpectAlike({5, 3, 7, 4}, {.cell = cell, .has_bias = false}, true, 11);
}

TEST(Recurrent, FewerTurnsThanElementsAreFewer) {
  for (const Cell cell : kCells) ExpectAlike({6, 4, 5, 8}, {.cell = cell, .less = 2}, true, 3);
}

TEST(Recurrent, CountersLeaveWithTheirLastNumber) {
  for (const bool known : {false, true})
    ExpectAlike({4, 3, 5, 6}, {.knows_sizes = known, .leaves_counter = true}, true, 7);
}

TEST(Recurrent, TimeMayBeKnownInTheStepAlone) {
  for (const Cell cell : kCells) {
    for (const Sizes& sizes : std::vector<Sizes>{{1, 1, 1, 2}, {5, 3, 7, 4}, {12, 8, 64, 48}})
      for (const bool back : {false, true})
        ExpectAlike(sizes, {.cell = cell, .knows_sizes = false, .goes_back = back}, true, 12);
    // What an element of a list is that nobody writes hangs on whether there is a turn.
    ExpectAlike({5, 3, 7, 4}, {.cell = cell, .keeps_all = false, .knows_sizes = false}, false, 13);
  }
}

TEST(Recurrent, LayersWaitForWhatTheirLoopsWaitFor) {
  for (const Cell cell : kCells)
    ExpectAlike({4, 3, 5, 6}, {.cell = cell, .reads_variables = true, .waits = true}, true, 21);
}

// The loop then runs beside, or the step is refused; what leaves it is the same.
TEST(Recurrent, WhatIsFetchedFromInsideChangesNothingOutside) {
  for (const Cell cell : kCells) {
    const Found want = RunLayer(Layer(TheRuntime(), {4, 3, 5, 6}, {.cell = cell}, 22), Kept::kLoops);
    const Found found =
        RunLayer(Layer(TheRuntime(), {4, 3, 5, 6}, {.cell = cell, .shows_inside = true}, 22));
    ASSERT_EQ(want.failure, "");
    if (found.failure.empty())
      for (size_t i = 0; i < want.values.size(); ++i) ExpectNear(want.values[i], found.values[i]);
  }
}

TEST(Recurrent, FeedsAreWhatIsComputedWith) {
  for (const Cell cell : kCells) {
    for (const Form::Fed fed : {Form::Fed::kInput, Form::Fed::kKernel})
      ExpectAlike({4, 3, 5, 6}, {.cell = cell, .fed = fed}, true, 23);
    const Form inside{.cell = cell, .fed = Form::Fed::kInside};
    const Found loop = RunLayer(Layer(TheRuntime(), {4, 3, 5, 6}, inside, 24), Kept::kLoops),
                found = RunLayer(Layer(TheRuntime(), {4, 3, 5, 6}, inside, 24));
    EXPECT_EQ(loop.failure, found.failure);
    EXPECT_FALSE(found.is_one_node);
    ASSERT_EQ(loop.values.size(), found.values.size());
    for (size_t i = 0; i < loop.values.size(); ++i) ExpectNear(loop.values[i], found.values[i]);
  }
}

TEST(Recurrent, WithoutStepsStatesStay) {
  for (const Cell cell : kCells) {
    const Layer layer(TheRuntime(), {0, 3, 5, 4}, {.cell = cell, .knows_sizes = false}, 14);
    const Found found = RunLayer(layer);
    ASSERT_EQ(found.failure, "");
    EXPECT_TRUE(found.is_one_node);
    EXPECT_TRUE(found.values[0].shape() == Shape({0, 3, 4}));
    for (size_t state = 1; state < found.values.size(); ++state)
      EXPECT_EQ(DoublesOf(found.values[state]), DoublesOf(layer.feeds[state].second));
  }
}

TEST(Recurrent, OtherLoopsStayLoops) {
  const Sizes sizes = {4, 3, 5, 6};
  for (const Cell cell : kCells) {
    ExpectAlike(sizes, {.cell = cell, .activation = "Sigmoid"}, false, 4);
    ExpectAlike(sizes, {.cell = cell, .gate = "Tanh"}, false, 5);
    ExpectAlike(sizes, {.cell = cell, .is_masked = true}, false, 15);
    ExpectAlike(sizes, {.cell = cell, .has_effect = true}, false, 8);
    ExpectAlike(sizes, {.cell = cell, .starts_at = 1}, false, 16);
    ExpectAlike(sizes, {.cell = cell, .one_state = true}, false, 17);  // which a sum broadcasts
  }
  ExpectAlike(sizes, {.forget = 0}, false, 6);
  ExpectAlike(sizes, {.cell = Cell::kGru, .keeps_new = true}, false, 18);
  ExpectAlike(sizes, {.cell = Cell::kGru, .one = 2}, false, 19);
  ExpectAlike(sizes, {.cell = Cell::kGruResetBefore, .two_matrices = true}, false, 20);
}

// What does not fit together, and more turns than there are elements.
TEST(Recurrent, WhatFailsInALoopFails) {
  const Sizes sizes = {4, 3, 5, 6};
  for (const Cell cell : kCells)
    for (const bool known : {false, true})
      for (const Form& form :
           {Form{.cell = cell, .knows_sizes = known, .more_columns = 6}, Form{.cell = cell, .less = -1},
            Form{.cell = cell, .more_stacked = 1}, Form{.cell = Cell::kGru, .reset_to = 3}})
        for (const Kept kept : {Kept::kLoops, Kept::kOneNode})
          EXPECT_NE(RunLayer(Layer(TheRuntime(), sizes, form, 9), kept).failure, "");
}

}  // namespace
}  // namespace tenon::engine::recurrent_test
