// SPDX-License-Identifier: Apache-2.0
// The gradients of attention (attention_gradient_pattern.h) as two launches (code/attention_gradient.h): P, its
// gradient and dS are never written.
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_GRADIENT_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_GRADIENT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "device.h"
#include "fuse/attention.h"
#include "fuse/executable.h"
#include "tenon/extras/device/regions.h"

namespace tenon::gpu {

// All nodes of the gradients that the node, a Softmax, is part of, as NodesOfAttention; empty also where the forward
// pass reads it.
std::vector<int64_t> NodesOfAttentionGradient(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph,
                                              const ReaderLists& readers, const std::vector<bool>& ours,
                                              int64_t softmax);

// Of a set with a product.
bool IsAttentionGradient(const tenon_compile_args& args);
// UNIMPLEMENTED where more than the gradients leaves the set, and for shapes that the kernels do not have.
std::unique_ptr<Executable> MakeAttentionGradient(const tenon_compile_args& args, Device& device);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_GRADIENT_H_
