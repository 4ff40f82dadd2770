// SPDX-License-Identifier: Apache-2.0
// Recurrent cells as Keras and TensorFlow 1 write them, in a turn of a loop; operands of sums and products in any
// order.
//
//   LSTM  i, f, g, o = parts of x W + h U + b;  c' = sigmoid(f) c + sigmoid(i) tanh(g),  h' = sigmoid(o) tanh(c')
//   GRU   z, r = sigmoid of parts of x W + b + h U + d
//         h~ = tanh(part of x W + b + r (part of h U + d)), or with reset_after false tanh(part of x W + b + (r h) U')
//         h' = z h + (1 - z) h~
//
// TensorFlow 1 (BasicLSTMCell, LSTMCell, GRUCell) has one matrix for x and h, `joined`:
//   LSTM  i, g, f, o = parts of [x, h] W + b, with sigmoid(f + a number);  GRU  r, z = parts of sigmoid([x, h] W + b),
//   h~ = tanh([x, r h] V + d)
//
// x is an element of a list or of a tensor array, of a tensor's first dim, at the place that a counter says. Weights
// are the same in each turn (LoopGraph::IsInvariant). A cell may have no bias.
#ifndef TENON_PASSES_RECURRENT_CELL_H_
#define TENON_PASSES_RECURRENT_CELL_H_

#include <optional>
#include <vector>

#include "loop_graph.h"

namespace tenon::passes {

inline constexpr sdk::Output kNothing{-1, 0, 0};

struct RecurrentCell {
  enum class Kind { kLstm, kGru } kind = Kind::kLstm;
  struct State {
    int64_t merge = -1;
    sdk::Output becomes = kNothing;  // as the cell makes it
  };
  std::vector<State> states;  // h, and c of an LSTM
  int64_t t = -1;             // merge of the counter
  // Edges outside: x [time, batch, inputs]. Inside: the weights; kNothing: no bias.
  sdk::Output x = kNothing, kernel = kNothing, recurrent = kNothing, bias = kNothing, recurrent_bias = kNothing;
  bool reset_after = true;
  // Of TensorFlow 1's: `kernel` has the rows of x and below them those of h, there is no `recurrent`; what f gets
  // added; a GRU's V and d.
  bool joined = false;
  float forget = 0;
  sdk::Output candidate = kNothing, candidate_bias = kNothing;
  int64_t cells = sdk::kUnknown;  // of a state, as far as is known before the step; known where a bias is missing, or
                                  // parts are cut out

  int gates() const { return kind == Kind::kLstm ? 4 : 3; }
};

// The cell whose h, after a turn, this is. nullopt: none is recognised.
std::optional<RecurrentCell> FindCell(LoopGraph& loop, sdk::Output h);

}  // namespace tenon::passes

#endif  // TENON_PASSES_RECURRENT_CELL_H_
