// SPDX-License-Identifier: Apache-2.0
// A product of matrices, the bias that is added to it, and the rectifier behind, as one: nobody else reads what is
// between them.
#ifndef TENON_DEVICES_GPU_FUSE_PRODUCT_H_
#define TENON_DEVICES_GPU_FUSE_PRODUCT_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "device.h"
#include "fuse/executable.h"
#include "tenon/extras/device/regions.h"

namespace tenon::gpu {

// How many inputs read the node's values.
std::vector<int> ReadersOf(const sdk::RegionGraph& graph);

// The node that alone reads the value of `id`, as its first input, if it is one of `op` that may be taken; else -1.
int64_t OnlyReader(const sdk::RegionGraph& graph, const std::vector<int>& readers, const std::vector<bool>& ours,
                   int64_t id, std::string_view op);

// The bias and the rectifier, if there is one, that a MatMul ends in, or a product of two matrices of halves that gives
// its float32 sums; empty: it stands alone. ours: nodes that may be taken.
std::vector<int64_t> EndOfProduct(const tenon_graph_cursor& cursor, const sdk::RegionGraph& graph,
                                  const std::vector<int>& readers, const std::vector<bool>& ours, int64_t product);

bool IsProduct(const tenon_compile_args& args);
// UNIMPLEMENTED where more than the end's result leaves the set.
std::unique_ptr<Executable> MakeProduct(const tenon_compile_args& args, Device& device);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_PRODUCT_H_
