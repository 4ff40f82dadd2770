// SPDX-License-Identifier: Apache-2.0
// KernelRefusal: why a kernel does not run a node.
#ifndef TENON_CORE_EXEC_KERNEL_KERNEL_REFUSAL_H_
#define TENON_CORE_EXEC_KERNEL_KERNEL_REFUSAL_H_

#include <string>
#include <vector>

#include "core/base/status.h"

namespace tenon::graph {
struct Node;
}

namespace tenon::exec {

// A kernel that did not take a node.
struct KernelRefusal {
  std::string plugin;
  std::string reason;
};

// NOT_FOUND with what each said.
Status NobodyTakes(const graph::Node& node, const std::vector<KernelRefusal>& refusals);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_KERNEL_KERNEL_REFUSAL_H_
