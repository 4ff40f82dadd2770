// SPDX-License-Identifier: Apache-2.0
// The weights of a recurrent cell as the layers' ops want them (Tenon>LSTMLayer, Tenon>GRULayer), added to the step's
// graph before the loop: Keras's as they are, zeros where there is no bias; TensorFlow 1's cut into the rows of x and
// those of h, gates in Keras's order, and what f gets added added to its bias.
#ifndef TENON_PASSES_RECURRENT_WEIGHTS_H_
#define TENON_PASSES_RECURRENT_WEIGHTS_H_

#include <vector>

#include "cell.h"

namespace tenon::passes {

// W, U, b, and of a GRU the bias of the state's product. Of a joined cell, how many rows its matrix has, and how many
// cells, must be known.
std::vector<sdk::Output> LayerWeights(LoopGraph& loop, const RecurrentCell& cell);

}  // namespace tenon::passes

#endif  // TENON_PASSES_RECURRENT_WEIGHTS_H_
