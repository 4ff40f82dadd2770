// SPDX-License-Identifier: Apache-2.0
// The package's pass over steps' graphs (pass.cc).
#ifndef TENON_OPS_AXES_PASS_H_
#define TENON_OPS_AXES_PASS_H_

#include "tenon/ext/draft/graph_pass.h"

namespace tenon::ops {

extern const tenon_graph_pass kAxesPass;

}  // namespace tenon::ops

#endif  // TENON_OPS_AXES_PASS_H_
