// SPDX-License-Identifier: Apache-2.0
// Passes that plugins bring (tenon/ext/draft/graph_pass.h): a step's graph, once its nodes have devices, as they want
// it.
#ifndef TENON_CORE_OPTIMIZE_PLUGIN_PASSES_H_
#define TENON_CORE_OPTIMIZE_PLUGIN_PASSES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/status.h"

struct tenon_graph_pass;

namespace tenon {
class PluginInstance;
namespace graph {
class Graph;
struct Node;
}
}  // namespace tenon

namespace tenon::optimize {

struct Request;  // optimize.h

struct PluginPass {
  std::shared_ptr<PluginInstance> plugin;
  const tenon_graph_pass* table = nullptr;
  std::string name;
  std::set<std::string, std::less<>> ops;  // that it is about
  uint64_t properties = 0;                 // of further ops that it is about
  uint32_t precision = 0;                  // of the sessions that it is for; 0: all
  std::set<std::string, std::less<>> after;  // names of passes that run before it
};
// What passes are told of the session.
struct PassQuestion {
  uint32_t precision = 0;        // TENON_PRECISION_*
  bool compiles = false;         // whether compilers are asked for nodes
  std::string_view calibration;  // its text; empty: none
  std::string_view left_out;     // names of passes that are not run, with commas
  bool knows_all = true;         // whether a name that no pass has is an error
  // Whether a kernel on the device, a whole name, takes the node.
  std::function<bool(const graph::Node& node, std::string_view device)> has_kernel;
};
// What passes say of nodes, by the nodes' names.
using NodeNotes = std::map<std::string, std::string, std::less<>>;
// As a plugin gave it. INVALID_ARGUMENT says what is wrong with it.
Result<PluginPass> AdoptPass(const tenon_graph_pass* given, std::shared_ptr<PluginInstance> plugin);

// In the order in which they run: each after those that it names, the rest as they are given. INVALID_ARGUMENT names
// those that each want to be after another.
Result<std::vector<const PluginPass*>> InOrder(const std::vector<PluginPass>& passes);

// Runs those of the passes that have a node in the graph, and are for sessions of this precision. True: the graph is
// another now, and pruned; who gave its nodes devices looks at it again. NOT_FOUND: one that is to be left out is none
// of them. UNIMPLEMENTED: the precision is one that no kernel honours by itself, and no pass is for it.
Result<bool> RunPluginPasses(const std::vector<PluginPass>& passes, const PassQuestion& question, graph::Graph* graph,
                             Request* request, NodeNotes* notes);

}  // namespace tenon::optimize

#endif  // TENON_CORE_OPTIMIZE_PLUGIN_PASSES_H_
