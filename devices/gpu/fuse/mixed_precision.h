// SPDX-License-Identifier: Apache-2.0
// The passes over the steps of sessions of precision bfloat16 and float16 (tenon/extras/device/mixed_precision_pass.h):
// what is kept in 16 bits on a GPU, and where casts stand.
//
// They come after the pass of attention (attention_pass.h): nodes that one kernel will stand for are in 16 bits
// together, softmax too, since that kernel rounds neither scores nor sums. The option `storage` (options.h) is `off`:
// nothing is kept in 16 bits, and the vendor's libraries alone round what they multiply. `always`: all that may be, and
// in float16 the steps too that train and do not look whether gradients overflow.
#ifndef TENON_DEVICES_GPU_FUSE_MIXED_PRECISION_H_
#define TENON_DEVICES_GPU_FUSE_MIXED_PRECISION_H_

#include "tenon/ext/draft/graph_pass.h"

namespace tenon::gpu {

extern const tenon_graph_pass kBfloat16Pass, kFloat16Pass;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_MIXED_PRECISION_H_
