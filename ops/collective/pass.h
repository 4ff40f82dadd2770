// SPDX-License-Identifier: Apache-2.0
// The package's pass over steps' graphs (pass.cc).
#ifndef TENON_OPS_COLLECTIVE_PASS_H_
#define TENON_OPS_COLLECTIVE_PASS_H_

#include "tenon/sdk/op/graph_pass.h"

namespace tenon::ops {

extern const tenon_graph_pass kCollectivePass;

}  // namespace tenon::ops

#endif  // TENON_OPS_COLLECTIVE_PASS_H_
