// SPDX-License-Identifier: Apache-2.0
// Recurrent cells as Keras writes them, in a turn of a loop; operands of sums and products in any order.
//
//   LSTM  i, f, g, o = parts of x W + h U + b;  c' = sigmoid(f) c + sigmoid(i) tanh(g),  h' = sigmoid(o) tanh(c')
//   GRU   z, r = sigmoid of parts of x W + b + h U + d
//         h~ = tanh(part of x W + b + r (part of h U + d)), or with reset_after false tanh(part of x W + b + (r h) U')
//         h' = z h + (1 - z) h~
//
// x is an element of a list, of a tensor's first dim, at the place that a counter says. Weights are the same in each turn (LoopGraph::IsInvariant). A cell may
// have no bias.
#ifndef TENON_DEVICES_CPU_RECURRENT_CELL_H_
#define TENON_DEVICES_CPU_RECURRENT_CELL_H_

#include <optional>
#include <vector>

#include "loop_graph.h"

namespace tenon::cpu {

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
  int64_t cells = sdk::kUnknown;  // of a state, as far as is known before the step; known where a bias is missing, or parts are cut out

  int gates() const { return kind == Kind::kLstm ? 4 : 3; }
};

// The cell whose h, after a turn, this is. nullopt: none is recognised.
std::optional<RecurrentCell> FindCell(LoopGraph& loop, sdk::Output h);

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_RECURRENT_CELL_H_
