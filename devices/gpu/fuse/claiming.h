// SPDX-License-Identifier: Apache-2.0
// Which sets of a graph's nodes the compiler of chains takes, and why it leaves the others.
#ifndef TENON_DEVICES_GPU_FUSE_CLAIMING_H_
#define TENON_DEVICES_GPU_FUSE_CLAIMING_H_

#include <span>

#include "tenon/sdk/device/compiler.h"

namespace tenon::gpu {

// nodes: those that may be taken.
void ClaimNodes(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, const sdk::Claims& claims);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_CLAIMING_H_
