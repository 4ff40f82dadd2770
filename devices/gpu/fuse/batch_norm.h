// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, what is added to it (a residual), and the rectifier behind, as one: nobody else reads what is
// between them.
#ifndef TENON_DEVICES_GPU_FUSE_BATCH_NORM_H_
#define TENON_DEVICES_GPU_FUSE_BATCH_NORM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "device.h"
#include "fuse/executable.h"
#include "tenon/extras/device/regions.h"

namespace tenon::gpu {

// The sum, the rectifier or both that the node, a FusedBatchNorm of any version, ends in; empty: it stands alone, or is
// something else. readers: of each node (ReadersOf); ours: nodes that may be taken.
std::vector<int64_t> EndOfBatchNorm(const sdk::RegionGraph& graph, const std::vector<int>& readers,
                                    const std::vector<bool>& ours, int64_t norm);

bool IsBatchNorm(const tenon_compile_args& args);
// UNIMPLEMENTED where y leaves the set before its end, and where what is added has another shape.
std::unique_ptr<Executable> MakeBatchNorm(const tenon_compile_args& args, Device& device);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_BATCH_NORM_H_
