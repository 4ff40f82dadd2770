// SPDX-License-Identifier: Apache-2.0
// The compiler: takes connected sets of nodes that have planned kernels, and runs each as one piece of work.
//
// claim (claim.cc) grows regions in topological order. A region's nodes are dead together or not at all, and regions
// and single nodes depend on each other without a circle, so that each may be run as a whole. Views and identities join
// as other names of a value. A node whose host arguments are not known from shapes and constants is refused, with the
// reason.
//
// compile (region.cc) plans every node with its kernel, so that the numbers are the kernels', and lays the values
// between them into the workspace. In the cycle model values that fit the on-chip buffer never leave it, what
// element-wise nodes do in a row is one pass, and the launch is paid once.
#ifndef TENON_DEVICES_TPU_SIM_COMPILER_H_
#define TENON_DEVICES_TPU_SIM_COMPILER_H_

#include <span>
#include <string_view>

#include "driver.h"
#include "tenon/sdk/device/compiler.h"

namespace tenon::tpu_sim {

// Ops whose output is their first input under another shape or name.
bool IsAlias(std::string_view op);

void ClaimRegions(const tenon_graph_cursor& cursor, std::span<const int64_t> nodes, const sdk::Claims& claims);

extern const tenon_compiler kCompiler;

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_COMPILER_H_
