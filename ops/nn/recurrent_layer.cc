// SPDX-License-Identifier: Apache-2.0
// What loops of recurrent cells come to as one node: devices put it in the place of loops that they recognise.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

template <int kStates>
static void LayerShape(ShapeContext& c) {
  const Shape x = c.WithRank(0, 3), h = c.WithRank(1, 2);
  const int64_t length = c.Int("length");
  if (length >= 0 && x[0] >= 0 && length > x[0]) return c.Invalid("length is ", length, "; x has ", x[0], " steps");
  c.SetOutput(0, {length >= 0 ? length : x[0], x[1], h[1]});
  for (int state = 1; state <= kStates; ++state) c.SetOutput(state, h);
}

TENON_OP(kLstmLayer) = DefineOp({
    .name = "Tenon>LSTMLayer",
    .inputs = "x: T, h: T, c: T, kernel: T, recurrent_kernel: T, bias: T",
    .outputs = "sequence: T, last_h: T, last_c: T",
    .attrs = "length: int = -1; T: {float}",
    .constraints = "rank(x) == 3; rank(h) == 2; rank(c) == 2; rank(kernel) == 2; rank(recurrent_kernel) == 2; "
                   "rank(bias) == 1; length >= -1",
    .doc = "The first `length` steps (-1: all) of x [time, batch, inputs] through LSTM cells: gates i, f, g, o stand "
           "side by side in kernel [inputs, 4 cells], recurrent_kernel "
           "[cells, 4 cells] and bias; c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c). sequence: h "
           "after each step. It has no gradient of its own.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<LayerShape<2>>,
});

TENON_OP(kGruLayer) = DefineOp({
    .name = "Tenon>GRULayer",
    .inputs = "x: T, h: T, kernel: T, recurrent_kernel: T, bias: T, recurrent_bias: T",
    .outputs = "sequence: T, last_h: T",
    .attrs = "length: int = -1; reset_after: bool = true; T: {float}",
    .constraints = "rank(x) == 3; rank(h) == 2; rank(kernel) == 2; rank(recurrent_kernel) == 2; rank(bias) == 1; "
                   "rank(recurrent_bias) == 1; length >= -1",
    .doc = "The first `length` steps (-1: all) of x [time, batch, inputs] through GRU cells: z, r, g stand side by "
           "side in kernel [inputs, 3 cells], recurrent_kernel [cells, 3 cells] and both biases. "
           "z and r are the sigmoids of x kernel + bias + h recurrent_kernel + recurrent_bias; g is tanh(x kernel + "
           "bias + r (h recurrent_kernel + recurrent_bias)), or without reset_after "
           "tanh(x kernel + bias + (r h) recurrent_kernel + recurrent_bias); h = z h + (1 - z) g. sequence: h after "
           "each step. It has no gradient of its own.",
    .traits = TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<LayerShape<1>>,
});

}  // namespace tenon::ops
