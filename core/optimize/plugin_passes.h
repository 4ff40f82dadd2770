// SPDX-License-Identifier: Apache-2.0
// Passes that plugins bring (tenon/ext/draft/graph_pass.h): a step's graph, once its nodes have devices, as they want it.
#ifndef TENON_CORE_OPTIMIZE_PLUGIN_PASSES_H_
#define TENON_CORE_OPTIMIZE_PLUGIN_PASSES_H_

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/base/status.h"

struct tenon_graph_pass;

namespace tenon {
class PluginInstance;
namespace graph {
class Graph;
}
}  // namespace tenon

namespace tenon::optimize {

struct Request;  // optimize.h

struct PluginPass {
  std::shared_ptr<PluginInstance> plugin;
  const tenon_graph_pass* table = nullptr;
  std::string name;
  std::set<std::string, std::less<>> ops;  // that it is about
};
// As a plugin gave it. INVALID_ARGUMENT says what is wrong with it.
Result<PluginPass> AdoptPass(const tenon_graph_pass* given, std::shared_ptr<PluginInstance> plugin);

// Runs those of the passes that have a node in the graph. True: the graph is another now, and pruned; who gave its nodes devices looks at it again.
Result<bool> RunPluginPasses(const std::vector<PluginPass>& passes, graph::Graph* graph, Request* request);

}  // namespace tenon::optimize

#endif  // TENON_CORE_OPTIMIZE_PLUGIN_PASSES_H_
