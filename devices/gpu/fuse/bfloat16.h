// SPDX-License-Identifier: Apache-2.0
// The pass over the steps of sessions of precision bfloat16 (tenon/sdk/device/bfloat16_pass.h): what is kept in 16 bits on a GPU, and where casts stand.
//
// It comes after the pass of attention (attention_pass.h): nodes that one kernel will stand for are in bfloat16 together, softmax too, since that kernel rounds neither
// scores nor sums. The option `storage` (options.h) is `off`: nothing is kept in 16 bits, and the vendor's libraries alone round what they multiply.
#ifndef TENON_DEVICES_GPU_FUSE_BFLOAT16_H_
#define TENON_DEVICES_GPU_FUSE_BFLOAT16_H_

#include "tenon/ext/draft/graph_pass.h"

namespace tenon::gpu {

extern const tenon_graph_pass kBfloat16Pass;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_BFLOAT16_H_
