// SPDX-License-Identifier: Apache-2.0
// Names of nodes and of their outputs, as graphs in files and callers write them.
#ifndef TENON_CORE_GRAPH_NODE_NAME_H_
#define TENON_CORE_GRAPH_NODE_NAME_H_

#include <cstdint>
#include <string_view>

namespace tenon::graph {

// "node", 0 of "node", "node:0"; false for "^node" and malformed names.
bool SplitTensorName(std::string_view text, std::string_view* node, int32_t* index);
// Whether a name may be a node's.
bool IsValidNodeName(std::string_view name);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_NODE_NAME_H_
