// SPDX-License-Identifier: Apache-2.0
// The package's pass over steps: a loop of LSTM or GRU cells, as Keras writes it, becomes one node (Tenon>LSTMLayer,
// Tenon>GRULayer).
#ifndef TENON_DEVICES_CPU_RECURRENT_PASS_H_
#define TENON_DEVICES_CPU_RECURRENT_PASS_H_

#include "tenon/ext/draft/graph_pass.h"

namespace tenon::cpu {

extern const tenon_graph_pass kRecurrentPass;

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_RECURRENT_PASS_H_
