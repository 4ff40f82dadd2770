// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/ran.h"

#include <algorithm>

#include "tenon/data/graph_def.h"
#include "tests/golden/tensor_json.h"

namespace tenon::golden {

using host::Callable;
using host::Feed;
using host::Graph;
using host::Name;
using host::Operation;
using host::Result;
using host::RunOptions;
using host::Runtime;
using host::Session;
using host::SessionOptions;
using host::Tensor;

namespace {

bool IsValue(const std::string& op) { return op == "Const" || op == "Placeholder"; }

// What one step tells.
void AddStep(const std::string& explained, std::set<std::string>* nodes, std::string* told, Ran* ran) {
  const Json step = Json::parse(explained);
  std::set<std::string> running;
  for (const Json& node : step) {
    const auto runs = node["runs"].get<std::string>(), op = node["op"].get<std::string>(),
               name = node["name"].get<std::string>();
    const auto plugin = node["kernel_plugin"].get<std::string>();
    const bool folded = runs == "folded or forwarded";
    nodes->insert(name);
    ran->ops.insert(op);
    if (!plugin.empty()) ran->plugins.insert(plugin);
    if (!plugin.empty() && !folded) running.insert(name);
    if (node.contains("refused"))
      for (const Json& refusal : node["refused"]) ran->plugins.insert(refusal["plugin"].get<std::string>());
    ran->compiled |= runs == "compiled";
    ran->optimized |= node.contains("note") || (folded && !IsValue(op));
  }
  *told += explained;
  for (const Json& node : step)
    for (const Json& input : node["inputs"]) {
      const auto edge = input.get<std::string>();
      ran->chained |=
          running.contains(node["name"].get<std::string>()) && running.contains(edge.substr(0, edge.find(':')));
    }
}

}  // namespace

Result<CaseSession> CaseSession::Create(const Runtime& runtime, const Graph& graph, const SessionOptions& options,
                                        bool watched) {
  TENON_TRY_ASSIGN(Session session, Session::Create(runtime, graph, options));
  return CaseSession(std::move(session), watched);
}

Result<Callable*> CaseSession::Prepared(const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                                        const std::vector<Name>& targets, const RunOptions& options) {
  std::vector<Name> feed_names;
  for (const Feed& feed : feeds) feed_names.push_back(feed.name);
  std::string key;
  for (const std::vector<Name>* names : {&std::as_const(feed_names), &fetches, &targets}) {
    for (const Name& name : *names) key += name.text() + '\n';
    key += '\n';
  }
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    auto callable = session_.Prepare(feed_names, fetches, targets, {}, {}, options);
    refused_ |= !callable.ok();
    if (!callable.ok()) return callable.status();
    found = prepared_.emplace(std::move(key), *std::move(callable)).first;
  }
  return &found->second;
}

Result<std::vector<Tensor>> CaseSession::Run(const std::vector<Feed>& feeds, const std::vector<Name>& fetches,
                                             const std::vector<Name>& targets, const RunOptions& options) {
  if (!watched_) return session_.Run(feeds, fetches, targets, options);
  TENON_TRY_ASSIGN(const Callable* const callable, Prepared(feeds, fetches, targets, options));
  std::vector<host::View> values;
  for (const Feed& feed : feeds) values.push_back(feed.value);
  auto got = callable->Run(values, options);
  failed_ |= !got.ok();
  return got;
}

Ran CaseSession::Tell(const Graph& graph) const {
  Ran ran;
  std::set<std::string> told, stand;
  std::string all;
  for (const auto& [key, callable] : prepared_) {
    all += key;
    AddStep(*callable.Explain(), &told, &all, &ran);
  }
  ran.told = std::hash<std::string>{}(all);
  const tenon_session_metrics metrics = *session_.Metrics();
  ran.refused = refused_;
  ran.several = metrics.bindings_built > prepared_.size();
  ran.optimized |= failed_ || metrics.nodes_merged + metrics.nodes_folded != 0;
  for (int64_t i = 0, count = tenon_graph_node_count(graph.get()); i < count; ++i) {
    const Operation node(graph.get(), i);
    ran.ops.insert(node.op());
    stand.insert(node.name());
    if (!told.contains(node.name())) continue;
    // A node whose value is needed was merged or folded, or it is there; one that others wait for may have been passed.
    const std::vector<Operation> awaited = node.control_inputs();
    ran.optimized |= std::ranges::any_of(awaited, [&](const Operation& other) { return !told.contains(other.name()); });
  }
  ran.optimized |= !std::ranges::includes(stand, told);
  return ran;
}

bool AddFunctionOps(const std::string& graph_def, std::set<std::string>* ops) {
  const Result<data::GraphView> graph = data::ParseGraphDef(graph_def);
  if (!graph.ok()) return false;  // the case says what Tenon makes of it
  const Result<std::vector<data::FunctionView>> functions = data::ParseFunctions(*graph);
  if (!functions.ok()) return true;
  for (const data::FunctionView& function : *functions)
    for (const data::NodeView& node : function.nodes) ops->emplace(node.op);
  return !functions->empty();
}

}  // namespace tenon::golden
