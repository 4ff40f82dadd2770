// SPDX-License-Identifier: Apache-2.0
// One run of a node by itself, outside of a plan's memory.
#ifndef TENON_CORE_EXEC_KERNEL_RUN_NODE_H_
#define TENON_CORE_EXEC_KERNEL_RUN_NODE_H_

#include <span>
#include <vector>

#include "core/exec/device/step.h"
#include "core/exec/kernel/node_runner.h"

namespace tenon::exec {

// Memory for one run of a node outside a plan's arena, and the run itself: allocates the outputs of known shape from
// the pool, gives a workspace, runs the kernel, checks that dynamic outputs were set. Input views' buffers are not
// released. `views` outputs hold buffers that the caller releases.
Status RunNode(Step* step, const Place& place, const PreparedNode& prepared, const graph::Node& node,
               std::span<const tenon_tensor_view* const> inputs, std::span<tenon_tensor_view* const> outputs);

// Evaluates a pure node on host values; for folding.
Result<std::vector<Tensor>> EvaluateNode(const graph::Node& node, const std::vector<Tensor>& inputs,
                                         const Environment& env);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_RUN_NODE_H_
