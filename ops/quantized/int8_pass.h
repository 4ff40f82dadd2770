// SPDX-License-Identifier: Apache-2.0
// The package's pass over the steps of sessions of precision int8.
#ifndef TENON_OPS_QUANTIZED_INT8_PASS_H_
#define TENON_OPS_QUANTIZED_INT8_PASS_H_

#include "tenon/ext/draft/graph_pass.h"

namespace tenon::ops {

extern const tenon_graph_pass kInt8Pass;

}  // namespace tenon::ops

#endif  // TENON_OPS_QUANTIZED_INT8_PASS_H_
