// SPDX-License-Identifier: Apache-2.0
// The pass over the steps of sessions of precision bfloat16.
#ifndef TENON_DEVICES_CPU_ONEDNN_BFLOAT16_H_
#define TENON_DEVICES_CPU_ONEDNN_BFLOAT16_H_

#include "tenon/plugin.h"
#include "tenon/ext/draft/graph_pass.h"

namespace tenon::cpu_onednn {
extern const tenon_graph_pass kBfloat16Pass;
}

#endif  // TENON_DEVICES_CPU_ONEDNN_BFLOAT16_H_
