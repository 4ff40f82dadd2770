// SPDX-License-Identifier: Apache-2.0
// Recurrent networks: cells, and a loop of one over sequences of different lengths.
//
// A cell is a value: its weights, the sizes of its states, and a function that makes the nodes of one step. The three
// below have Keras's formulas and Keras's weights ("<name>/kernel" [inputs, n units], "<name>/recurrent_kernel" [units,
// n units], "<name>/bias"), so that those of a Keras model fit as they are. With x the inputs [batch, inputs], h the
// state, K, R and b the weights, and * by elements:
//   BasicRnnCell   h' = tanh(x K + h R + b) (keras.layers.SimpleRNNCell; n = 1)
//   LstmCell       i, f, g, o = x K + h R + b; c' = c * s(f + forget_bias) + s(i) * tanh(g); h' = s(o) * tanh(c')
//                  s is the sigmoid, states are h and c. (keras.layers.LSTMCell; n = 4: Hochreiter and Schmidhuber
//                  1997, Gers et al. 2000) tf.compat.v1.nn.rnn_cell.BasicLSTMCell is the same with its one kernel's
//                  rows parted after the inputs, its columns in the order i, g, f, o and its states c, h.
//   GruCell        z, r, g = x K + b[0] + (h R + b[1]), where r multiplies g's second half before the sum;
//                  h' = z * h + (1 - z) * tanh(g) with s of z and r. (keras.layers.GRUCell; n = 3, bias [2, 3 units]:
//                  Cho et al. 2014, as cuDNN has it)
//                  reset_after false: g = x K + (r * h) R + b, bias [3 units], which is Cho's first form.
// A cell's output is its h. A cell of another kind is a RnnCell whose step somebody else wrote, in C++ or as a function
// of the graph.
//
//   const RnnCell cell = LstmCell(model, "lstm", 8, 64);
//   const Rnn rnn = DynamicRnn(graph, cell, inputs, {.sequence_length = lengths});   // inputs [batch, time, 8]
//   Output logits = model.Dense("classes", rnn.state[0], 64, 2, Initializer::He(64));
#ifndef TENON_TRAIN_RECURRENT_H_
#define TENON_TRAIN_RECURRENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"

namespace tenon::train {

struct RnnStep {
  Output output;              // [batch, size]
  std::vector<Output> state;  // the next one, of the sizes that the cell says
};

struct RnnCell {
  std::string name;
  int64_t inputs = 0;                // features of x
  std::vector<int64_t> state_sizes;  // a state is [batch, size]
  std::vector<Output> weights;       // of the graph; the step gets them as values of its own graph
  // Makes the nodes of one step in the graph, which may be a function's body. It uses what it is given alone.
  std::function<RnnStep(Graph& graph, const Output& x, const std::vector<Output>& state,
                        const std::vector<Output>& weights)>
      step;

  // One step beside the weights.
  RnnStep Step(Graph& graph, const Output& x, const std::vector<Output>& state) const {
    return step(graph, x, state, weights);
  }
};

struct RnnCellOptions {
  // Of both kernels; none: a truncated normal of deviation sqrt(2 / (inputs + units)) (Glorot and Bengio 2010), inputs
  // being units for the recurrent one. Biases begin at 0.
  std::optional<Initializer> initializer = std::nullopt;
  // Of LstmCell: added to the forget gate's part, so that a new network remembers. Keras has it in the bias instead:
  // for weights that Keras trained, 0.
  float forget_bias = 1;
  bool reset_after = true;  // of GruCell
};

// inputs and units: 1 at least, else INVALID_ARGUMENT sticks to the graph. A name asked for again has the same weights.
RnnCell BasicRnnCell(Model& model, std::string_view name, int64_t inputs, int64_t units,
                     const RnnCellOptions& options = {});
RnnCell LstmCell(Model& model, std::string_view name, int64_t inputs, int64_t units,
                 const RnnCellOptions& options = {});
RnnCell GruCell(Model& model, std::string_view name, int64_t inputs, int64_t units, const RnnCellOptions& options = {});

// A cell whose step is a call of a function of the graph: it takes x, the states and the weights, and gives the output
// and the next states. Sticks to the graph: INVALID_ARGUMENT where it takes or gives another number of values, or
// inputs, states or a state's size are below 1; NOT_FOUND where there is no such function.
RnnCell FunctionCell(Graph& graph, std::string_view name, const host::Function& function, int64_t inputs,
                     std::vector<int64_t> state_sizes, std::vector<Output> weights = {});

// States of zeros: [batch, size] each. batch: an int32 scalar.
std::vector<Output> ZeroState(Graph& graph, const RnnCell& cell, const Output& batch);

struct RnnOptions {
  bool time_major = false;  // inputs and outputs are [time, batch, ...]; false: [batch, time, ...]
  // [batch], int32 or int64: how many steps of each sequence there are, 0 to time; others fail the step with
  // INVALID_ARGUMENT. Not valid: all.
  Output sequence_length = {};
  std::vector<Output> initial_state = {};  // one for each of the cell's; empty: zeros
  // From each sequence's last step to its first, as the other half of a bidirectional network; outputs stand at their
  // steps all the same.
  bool reverse = false;
  int64_t parallel_iterations = 10;  // as host::LoopOptions has it
  std::string name = "rnn";
};

struct Rnn {
  Output outputs;             // as the inputs, with the cell's output size last; zeros from a sequence's length on
  std::vector<Output> state;  // after each sequence's last step; the initial one where it has none
};

// The cell over the sequences, as tf.compat.v1.nn.dynamic_rnn: a loop that ends with the longest of them, however long
// `time` is. Gradients go to inputs, initial state and weights. INVALID_ARGUMENT, which sticks to the graph, where
// inputs have not three dimensions, or the cell's features or states do not fit. Where time is 0 and the batch is not
// known when the graph is made, the step fails with INVALID_ARGUMENT.
Rnn DynamicRnn(Graph& graph, const RnnCell& cell, const Output& inputs, const RnnOptions& options = {});

}  // namespace tenon::train

#endif  // TENON_TRAIN_RECURRENT_H_
