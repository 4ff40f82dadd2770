// SPDX-License-Identifier: Apache-2.0
// GraphDef bytes in and out. The only place of the core that knows protobuf.
#ifndef TENON_CORE_GRAPH_GRAPHDEF_CONVERT_H_
#define TENON_CORE_GRAPH_GRAPHDEF_CONVERT_H_

#include <string>
#include <string_view>

#include "core/base/status.h"
#include "core/graph/edge.h"

namespace tenon::graph {

// What to do with nodes whose op, or one of whose attributes, nobody here knows, and with all that read them.
enum class Unknown {
  kRefuse,    // the graph
  kLeaveOut,  // the nodes: asking the graph for one of them says why it is not there
};

// Whether all nodes should be there that others want to be placed with.
enum class Of {
  kWhole,
  kPart,  // what a step needs of a graph, on one device: they may not
};

// Adds all nodes and functions of a serialized GraphDef to the graph, or nothing. Nodes may stand in any order. Errors
// name the node, its op and what is wrong. Constants whose bytes do not stand in the file (one repeated value) are
// bounded: a few bytes of file cannot ask for more than 1 GiB.
Status ImportGraphDef(std::string_view bytes, Graph* graph, Unknown unknown = Unknown::kRefuse, Of of = Of::kWhole);

// The graph as GraphDef: nodes in topological order, so that any reader can add them one by one.
// A function that was read is written as it stood in the file, fields that are not known here too; and so is what the
// file registers as gradients of ops, which nothing here asks.
Result<std::string> ExportGraphDef(const Graph& graph);

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_GRAPHDEF_CONVERT_H_
