// SPDX-License-Identifier: Apache-2.0
// Attention (attention_pattern.h) as one launch: nobody else reads scores or probabilities, which are never written.
#ifndef TENON_DEVICES_GPU_FUSE_ATTENTION_H_
#define TENON_DEVICES_GPU_FUSE_ATTENTION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "device.h"
#include "fuse/executable.h"
#include "tenon/extras/device/regions.h"

namespace tenon::gpu {

// Of each node those that read it, as often as they do.
using ReaderLists = std::vector<std::vector<int64_t>>;
ReaderLists ListReaders(const sdk::RegionGraph& graph);

// All nodes of the attention that the node, a Softmax, is part of; empty: it is none, or its heads' size is not known
// or not one that kernels have. ours: nodes that may be taken.
std::vector<int64_t> NodesOfAttention(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph,
                                      const ReaderLists& readers, const std::vector<bool>& ours, int64_t softmax);

// Also of its gradients (attention_gradient.h).
bool IsAttention(const tenon_compile_args& args);
// UNIMPLEMENTED where more than the end's result leaves the set, and for shapes that the kernels do not have.
std::unique_ptr<Executable> MakeAttention(const tenon_compile_args& args, Device& device);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ATTENTION_H_
