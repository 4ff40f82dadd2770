// SPDX-License-Identifier: Apache-2.0
// Layers and cells of long short-term memory in one op: BlockLSTM over all steps, LSTMBlockCell of one, and their
// gradient ops.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

#define TENON_LSTM_INPUTS "cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T"
#define TENON_LSTM_STATES "i: T, cs: T, f: T, o: T, ci: T, co: T"
#define TENON_LSTM_RANKS \
  "rank(cs_prev) == 2; rank(h_prev) == 2; rank(w) == 2; rank(wci) == 1; rank(wcf) == 1; rank(wco) == 1; rank(b) == 1"

// A quarter of b: the number of cells.
static int64_t Cells(ShapeContext& c, int b) {
  const int64_t gates = c.WithRank(b, 1)[0];
  if (gates >= 0 && gates % 4 != 0) c.Invalid("b has ", gates, " elements, which do not divide into 4 gates");
  return gates < 0 ? kUnknown : gates / 4;
}

// ---- All steps ----

static void BlockShape(ShapeContext& c) {
  const Shape x = c.WithRank(1, 3);
  const int64_t cells = Cells(c, 8);
  for (int i = 0; i < 7; ++i) c.SetOutput(i, {x[0], x[1], cells});
}
static void BlockGradShape(ShapeContext& c) {
  for (int i = 0; i < 8; ++i) c.SetOutput(i, c.Input(i + 1));
}

// Only cs and h are taken to lead anywhere, as in TensorFlow.
static void BlockGradient(GradientContext& g) {
  std::vector<Output> inputs;
  for (int i = 0; i < 9; ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < 7; ++i) inputs.push_back(g.output(i));
  inputs.push_back(g.dy(1));
  inputs.push_back(g.dy(6));
  const int64_t node = g.Node(g.op() == "BlockLSTM" ? "BlockLSTMGrad" : "BlockLSTMGradV2", inputs,
                              {{"use_peephole", g.Bool("use_peephole")}});
  for (int32_t i = 0; i < 8; ++i) g.SetDx(i + 1, {node, i, 0});
}

TENON_OP(kBlockLSTM) = DefineOp({
    .name = "BlockLSTM",
    .inputs = "seq_len_max: int64, x: T, " TENON_LSTM_INPUTS,
    .outputs = TENON_LSTM_STATES ", h: T",
    .attrs = "forget_bias: float = 1; cell_clip: float = 3; use_peephole: bool = false; T: {half, float}",
    .constraints = "rank(seq_len_max) == 0; rank(x) == 3; " TENON_LSTM_RANKS,
    .doc = "The first seq_len_max steps of x [time, batch, inputs] through LSTM cells whose gates stand in w and b in "
           "the order i, ci, f, o; zeros behind.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BlockShape>,
    .gradient = GradientFunction<BlockGradient>,
});

TENON_OP(kBlockLSTMV2) = DefineOp({
    .name = "BlockLSTMV2",
    .inputs = "seq_len_max: int64, x: T, " TENON_LSTM_INPUTS,
    .outputs = TENON_LSTM_STATES ", h: T",
    .attrs = "cell_clip: float = 0; use_peephole: bool = false; T: {half, float}",
    .constraints = "rank(seq_len_max) == 0; rank(x) == 3; " TENON_LSTM_RANKS,
    .doc = "BlockLSTM without forget_bias, with gates in the order i, f, ci, o.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BlockShape>,
    .gradient = GradientFunction<BlockGradient>,
});

static constexpr std::string_view kBlockGradInputs =
    "seq_len_max: int64, x: T, " TENON_LSTM_INPUTS ", " TENON_LSTM_STATES ", h: T, cs_grad: T, h_grad: T";
static constexpr std::string_view kBlockGradOutputs =
    "x_grad: T, cs_prev_grad: T, h_prev_grad: T, w_grad: T, wci_grad: T, wcf_grad: T, wco_grad: T, b_grad: T";
static constexpr std::string_view kBlockGradRanks =
    "rank(seq_len_max) == 0; rank(x) == 3; " TENON_LSTM_RANKS
    "; rank(i) == 3; rank(cs) == 3; rank(f) == 3; rank(o) == 3; rank(ci) == 3; rank(co) == 3; "
    "rank(h) == 3; rank(cs_grad) == 3; rank(h_grad) == 3";

TENON_OP(kBlockLSTMGrad) = DefineOp({
    .name = "BlockLSTMGrad",
    .inputs = kBlockGradInputs,
    .outputs = kBlockGradOutputs,
    .attrs = "use_peephole: bool; T: {half, float}",
    .constraints = kBlockGradRanks,
    .doc = "The gradient of BlockLSTM, of its inputs from x on.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BlockGradShape>,
});

TENON_OP(kBlockLSTMGradV2) = DefineOp({
    .name = "BlockLSTMGradV2",
    .inputs = kBlockGradInputs,
    .outputs = kBlockGradOutputs,
    .attrs = "use_peephole: bool; T: {half, float}",
    .constraints = kBlockGradRanks,
    .doc = "The gradient of BlockLSTMV2, of its inputs from x on.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<BlockGradShape>,
});

// ---- One step ----

static void CellShape(ShapeContext& c) {
  const Shape x = c.WithRank(0, 2), cs = c.WithRank(1, 2);
  const Shape state = {c.Merge(x[0], cs[0], "the batches of x and cs_prev"), cs[1]};
  for (int i = 0; i < 7; ++i) c.SetOutput(i, state);
}

static void DecomposeCell(DecomposeContext& d) {
  std::vector<Output> inputs = {d.Number(1, TENON_DT_INT64), d.ExpandDims(d.input(0), 0)};
  for (int i = 1; i < 8; ++i) inputs.push_back(d.input(i));
  std::vector<Attribute> attributes;
  for (const char* name : {"forget_bias", "cell_clip", "use_peephole"}) attributes.emplace_back(name, d.Raw(name));
  const int64_t block = d.Node("BlockLSTM", inputs, attributes);
  for (int32_t i = 0; i < 7; ++i) d.SetOutput(i, d.ReshapeLike({block, i, 0}, d.input(1)));
}

TENON_OP(kLSTMBlockCell) = DefineOp({
    .name = "LSTMBlockCell",
    .inputs = "x: T, " TENON_LSTM_INPUTS,
    .outputs = TENON_LSTM_STATES ", h: T",
    .attrs = "forget_bias: float = 1; cell_clip: float = 3; use_peephole: bool = false; T: {half, float}",
    .constraints = "rank(x) == 2; " TENON_LSTM_RANKS,
    .doc = "One step of BlockLSTM, of x [batch, inputs].",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<CellShape>,
    .decompose = DecomposeFunction<DecomposeCell>,
});

#define TENON_LSTM_STATE(name) \
  "; rank(" name ") == 2; dim(" name ", 0) == dim(cs_prev, 0); dim(" name ", 1) == dim(cs_prev, 1)"

static void CellGradShape(ShapeContext& c) {
  const Shape x = c.WithRank(0, 2), cs = c.WithRank(1, 2);
  const int64_t batch = c.Merge(x[0], cs[0], "the batches of x and cs_prev");
  c.SetOutput(0, {batch, cs[1]});
  c.SetOutput(1, {batch, c.Multiply(cs[1], 4)});
  for (int i = 2; i < 5; ++i) c.SetOutput(i, {cs[1]});
}

static void DecomposeCellGrad(DecomposeContext& d) {
  // Where shapes are not known yet, each is asked to be the state's: what does not fit must not broadcast.
  const auto state = [&](int index) { return d.ReshapeLike(d.input(index), d.input(1)); };
  const Output cs_prev = d.input(1), i = state(8), cs = state(9), f = state(10), o = state(11), ci = state(12),
               co = state(13);
  const Output cs_grad = state(14), h_grad = state(15);
  const auto through_sigmoid = [&](Output y, Output dy) { return d.Op("SigmoidGrad", {y, dy}); };
  const bool peeps = d.Bool("use_peephole");
  const Output d_o = through_sigmoid(o, d.Mul(h_grad, co));
  Output whole = d.Add(d.Op("TanhGrad", {co, d.Mul(h_grad, o)}), cs_grad);
  if (peeps) whole = d.Add(whole, d.Mul(d_o, d.input(6)));
  const Output d_ci = d.Op("TanhGrad", {ci, d.Mul(whole, i)}), d_f = through_sigmoid(f, d.Mul(whole, cs_prev)),
               d_i = through_sigmoid(i, d.Mul(whole, ci));
  Output before = d.Mul(whole, f);
  if (peeps) before = d.Add(before, d.Add(d.Mul(d_i, d.input(4)), d.Mul(d_f, d.input(5))));
  d.SetOutput(0, before);
  d.SetOutput(1, d.Concat({d_i, d_ci, d_f, d_o}, 1));
  const auto of_peephole = [&](int weight, Output gate, Output state) {
    return peeps ? d.Sum(d.Mul(gate, state), d.Vector({0})) : d.ZerosLike(d.input(weight));
  };
  d.SetOutput(2, of_peephole(4, d_i, cs_prev));
  d.SetOutput(3, of_peephole(5, d_f, cs_prev));
  d.SetOutput(4, of_peephole(6, d_o, cs));
}

TENON_OP(kLSTMBlockCellGrad) = DefineOp({
    .name = "LSTMBlockCellGrad",
    .inputs = "x: T, " TENON_LSTM_INPUTS ", " TENON_LSTM_STATES ", cs_grad: T, h_grad: T",
    .outputs = "cs_prev_grad: T, dicfo: T, wci_grad: T, wcf_grad: T, wco_grad: T",
    .attrs = "use_peephole: bool; T: {half, float}",
    .constraints = "rank(x) == 2; " TENON_LSTM_RANKS TENON_LSTM_STATE("i") TENON_LSTM_STATE("cs") TENON_LSTM_STATE("f")
        TENON_LSTM_STATE("o") TENON_LSTM_STATE("ci") TENON_LSTM_STATE("co") TENON_LSTM_STATE("cs_grad")
            TENON_LSTM_STATE("h_grad") "; dim(wci, 0) == dim(cs_prev, 1); dim(wcf, 0) == dim(cs_prev, 1); dim(wco, 0) "
                                       "== dim(cs_prev, 1)",
    .doc = "The gradient of LSTMBlockCell, as far as its gates: dicfo is that of the gates before their activations, "
           "in the order i, ci, f, o.",
    .shape = ShapeFunction<CellGradShape>,
    .decompose = DecomposeFunction<DecomposeCellGrad>,
});

// ---- GRU ----

static void GruShape(ShapeContext& c) {
  const Shape x = c.WithRank(0, 2), h = c.WithRank(1, 2);
  const Shape state = {c.Merge(x[0], h[0], "the batches of x and h_prev"), h[1]};
  for (int i = 0; i < 4; ++i) c.SetOutput(i, state);
}

static void DecomposeGru(DecomposeContext& d) {
  const Output x = d.input(0), h = d.input(1);
  const Output gates =
      d.Op("Sigmoid", {d.Op("BiasAdd", {d.Op("MatMul", {d.Concat({x, h}, 1), d.input(2)}), d.input(4)})});
  const int64_t split = d.Node("Split", {d.Number(1), gates}, {{"num_split", 2}});
  const Output r{split, 0, 0}, u{split, 1, 0};
  const Output c =
      d.Op("Tanh", {d.Op("BiasAdd", {d.Op("MatMul", {d.Concat({x, d.Mul(r, h)}, 1), d.input(3)}), d.input(5)})});
  d.SetOutput(0, r);
  d.SetOutput(1, u);
  d.SetOutput(2, c);
  d.SetOutput(3, d.Add(d.Mul(u, h), d.Mul(d.Sub(d.Scalar(1, u), u), c)));
}

#define TENON_GRU_SHAPES                                                                                               \
  "rank(x) == 2; rank(h_prev) == 2; rank(w_ru) == 2; rank(w_c) == 2; rank(b_ru) == 1; rank(b_c) == 1; dim(h_prev, 0) " \
  "== dim(x, 0); "                                                                                                     \
  "dim(w_ru, 0) == dim(x, 1) + dim(h_prev, 1); dim(w_ru, 1) == dim(h_prev, 1) + dim(h_prev, 1); dim(w_c, 0) == "       \
  "dim(x, 1) + dim(h_prev, 1); "                                                                                       \
  "dim(w_c, 1) == dim(h_prev, 1); dim(b_ru, 0) == dim(h_prev, 1) + dim(h_prev, 1); dim(b_c, 0) == dim(h_prev, 1)"
#define TENON_GRU_STATE(name) \
  "; rank(" name ") == 2; dim(" name ", 0) == dim(h_prev, 0); dim(" name ", 1) == dim(h_prev, 1)"

TENON_OP(kGRUBlockCell) = DefineOp({
    .name = "GRUBlockCell",
    .inputs = "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T",
    .outputs = "r: T, u: T, c: T, h: T",
    .attrs = "T: {float}",
    .constraints = TENON_GRU_SHAPES,
    .doc = "One step of a gated recurrent unit (Cho and others, 2014): r and u are the sigmoids of [x, h_prev] w_ru + "
           "b_ru, c is the tangent of "
           "[x, r h_prev] w_c + b_c, and h = u h_prev + (1 - u) c.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<GruShape>,
    .decompose = DecomposeFunction<DecomposeGru>,
});

static void GruGradShape(ShapeContext& c) {
  const Shape x = c.WithRank(0, 2), h = c.WithRank(1, 2);
  const int64_t batch = c.Merge(x[0], h[0], "the batches of x and h_prev");
  c.SetOutput(0, {batch, x[1]});
  c.SetOutput(1, {batch, h[1]});
  c.SetOutput(2, {batch, h[1]});
  c.SetOutput(3, {batch, c.Multiply(h[1], 2)});
}

static void DecomposeGruGrad(DecomposeContext& d) {
  const auto state = [&](int index) { return d.ReshapeLike(d.input(index), d.input(1)); };  // as of LSTMBlockCellGrad
  const Output x = d.input(0), h = d.input(1), r = state(6), u = state(7), c = state(8), dh = state(9);
  const Output d_c = d.Op("TanhGrad", {c, d.Mul(dh, d.Sub(d.Scalar(1, u), u))});
  const Output d_u = d.Op("SigmoidGrad", {u, d.Mul(dh, d.Sub(h, c))});
  // Back through a product: the parts of x and of the state.
  const Output columns = d.Concat({d.VectorSlice(d.ShapeOf(x), 1), d.VectorSlice(d.ShapeOf(h), 1)});
  const auto back = [&](Output gates, Output weights) {
    const Output product = d.Op("MatMul", {gates, weights}, {{"transpose_b", true}});
    return d.Node("SplitV", {product, columns, d.Number(1)}, {{"num_split", 2}});
  };
  const int64_t of_c = back(d_c, d.input(3));
  const Output d_hr{of_c, 1, 0};
  const Output d_r = d.Op("SigmoidGrad", {r, d.Mul(d_hr, h)});
  const Output d_ru = d.Concat({d_r, d_u}, 1);
  const int64_t of_ru = back(d_ru, d.input(2));
  d.SetOutput(0, d.Add({of_ru, 0, 0}, {of_c, 0, 0}));
  d.SetOutput(1, d.Add(d.Add({of_ru, 1, 0}, d.Mul(d_hr, r)), d.Mul(dh, u)));
  d.SetOutput(2, d_c);
  d.SetOutput(3, d_ru);
}

TENON_OP(kGRUBlockCellGrad) = DefineOp({
    .name = "GRUBlockCellGrad",
    .inputs = "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T, r: T, u: T, c: T, d_h: T",
    .outputs = "d_x: T, d_h_prev: T, d_c_bar: T, d_r_bar_u_bar: T",
    .attrs = "T: {float}",
    .constraints = TENON_GRU_SHAPES TENON_GRU_STATE("r") TENON_GRU_STATE("u") TENON_GRU_STATE("c")
        TENON_GRU_STATE("d_h"),
    .doc = "The gradient of GRUBlockCell: of x, of h_prev, and of what c and the two gates are made of before their "
           "activations.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<GruGradShape>,
    .decompose = DecomposeFunction<DecomposeGruGrad>,
});

}  // namespace tenon::ops
