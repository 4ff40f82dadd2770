// SPDX-License-Identifier: Apache-2.0
// Which nodes of a graph are taken together.
#ifndef TENON_DEVICES_CPU_CODEGEN_REGION_CLAIMING_H_
#define TENON_DEVICES_CPU_CODEGEN_REGION_CLAIMING_H_

#include <cstdint>
#include <span>

#include "code/program.h"
#include "tenon/sdk/device/compiler.h"

namespace tenon::cpu_codegen {

// Elements that are worth it, where the graph says how many there are.
struct LeastElements {
  int64_t all;      // of any region
  int64_t columns;  // of one whose first dims are reduced: what stays in the caches between two nodes is summed as fast
                    // by the kernel
};

// Claims regions of element-wise nodes of one shape, with reductions of its last dims and what is made of their
// results, and reductions of its first dims, of which one reads another. Time and memory grow with the graph.
void ClaimRegions(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, Level level, LeastElements least,
                  const sdk::Claims& claims);

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REGION_CLAIMING_H_
