// SPDX-License-Identifier: Apache-2.0
#include "core/optimize/plugin_passes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/base/adopt.h"
#include "core/base/checked.h"
#include "core/base/plugin_instance.h"
#include "core/base/table_check.h"
#include "core/graph/builder.h"
#include "core/graph/cursor.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/graph/op_registry.h"
#include "core/optimize/optimize.h"
#include "tenon/ext/draft/graph_pass.h"
#include "tenon/session_options.h"

namespace tenon::optimize {

using graph::Edge;
using graph::Graph;
using graph::NodeId;

namespace {

constexpr uint64_t kMostOps = 4096;  // of one pass

// One call of a pass, as the plugin sees it.
class PassCall {
 public:
  PassCall(const PluginPass& pass, const PassQuestion& question, Graph* graph, Request* request, NodeNotes* notes)
      : pass_(pass),
        question_(question),
        graph_(graph),
        request_(request),
        notes_(notes),
        builder_(graph),
        cursor_(*graph, [this]() -> const graph::ShapeInference& { return builder_.Inferred(); }) {
    builder_.SetFed(request->feeds);
  }

  // False: it has no node here.
  Result<bool> Run() {
    for (const Edge& feed : request_->feeds) fed_.insert(feed.node);
    bool is_called = false;
    for (const NodeId id : graph_->ids()) {
      const graph::OpDef& op = *graph_->node(id).op;
      const bool is_named = pass_.ops.contains(op.name);
      if ((!is_named && (op.properties.flags & pass_.properties) == 0) || fed_.contains(id)) continue;
      is_called = is_called || is_named || pass_.ops.empty();
      nodes_.push_back(id.number());
    }
    if (!is_called) return false;
    const size_t before = graph_->size();
    const tenon_graph_pass_args args = {TENON_HEAD(tenon_graph_pass_args),
                                        builder_.c(),
                                        graph::NodeServices(),
                                        nodes_.data(),
                                        nodes_.size(),
                                        cursor_.c(),
                                        &Begin,
                                        &Replace,
                                        &AddTarget,
                                        this,
                                        question_.precision,
                                        question_.compiles ? 1u : 0u,
                                        Span(question_.calibration),
                                        &Explain,
                                        &AddLike,
                                        &RunsLike,
                                        &Runs};
    Status status = pass_.plugin->Call("graph_pass.run", nullptr, nullptr,
                                       [&](tenon_plugin_self* self) { return pass_.table->run(self, &args); });
    if (!status.ok()) return std::move(status).Annotate("the graph pass '", pass_.name, "'");
    PassBy();
    if (graph_->size() == before && replaced_.empty()) return false;
    // The next one sees no node that nobody needs any more, and what is new where it belongs: updates do not wait
    // between new nodes that stand at the end.
    TENON_ASSIGN_OR_RETURN(*graph_, Prune(*graph_, request_, [this](NodeId id) { return PlaceOf(id); }));
    return true;
  }

 private:
  static PassCall* Self(const tenon_graph_pass_args* args) { return static_cast<PassCall*>(args->host); }
  bool Has(int64_t id) const { return Within(id, graph_->size()); }
  static Status NoNode(int64_t id) { return InvalidArgument(StrCat("the graph has no node ", id)); }

  static tenon_status* Begin(const tenon_graph_pass_args* args, int64_t id, tenon_span device) {
    PassCall& call = *Self(args);
    if (id != -1 && !call.Has(id)) return NoNode(id).release();
    const graph::Node* const node = id == -1 ? nullptr : &call.graph_->node(NodeId(id));
    call.builder_.set_scope(node == nullptr ? std::string() : node->name);
    call.builder_.set_controls(node == nullptr ? std::vector<NodeId>() : node->controls);
    call.builder_.set_device(std::string(View(device)));
    call.begun_.emplace_back(call.graph_->size(), id);
    return nullptr;
  }
  static tenon_status* Replace(const tenon_graph_pass_args* args, int64_t id, const tenon_output* outputs,
                               uint64_t count) {
    return Self(args)->ReplaceNode(id, {outputs, count}).release();
  }
  static tenon_status* AddTarget(const tenon_graph_pass_args* args, int64_t id) {
    if (!Self(args)->Has(id)) return NoNode(id).release();
    Self(args)->request_->targets.push_back(NodeId(id));
    return nullptr;
  }

  static tenon_status* Explain(const tenon_graph_pass_args* args, int64_t id, tenon_span text) {
    PassCall& call = *Self(args);
    if (!call.Has(id)) return NoNode(id).release();
    call.notes_->insert_or_assign(call.graph_->node(NodeId(id)).name, std::string(View(text)));
    return nullptr;
  }

  static tenon_status* AddLike(const tenon_graph_pass_args* args, int64_t id, const tenon_output* inputs,
                               uint64_t input_count, const tenon_attr* attrs, uint64_t attr_count, int64_t* out_node) {
    PassCall& call = *Self(args);
    if (!call.Has(id)) return NoNode(id).release();
    const auto added = call.AddNodeLike(NodeId(id), {inputs, input_count}, {attrs, attr_count});
    if (!added.ok()) return Status(added.status()).release();
    *out_node = added->number();
    return nullptr;
  }
  Result<NodeId> AddNodeLike(NodeId like, std::span<const tenon_output> inputs, std::span<const tenon_attr> attrs) {
    std::vector<Edge> edges;
    for (const tenon_output& input : inputs) {
      TENON_ASSIGN_OR_RETURN(const Edge edge, graph::CheckedEdge(*graph_, input));
      edges.push_back(edge);
    }
    TENON_ASSIGN_OR_RETURN(graph::AttrMap given, graph::AttrsFromC(attrs));
    return builder_.AddLike(like, std::move(edges), std::move(given));
  }

  static int32_t Runs(const tenon_graph_pass_args* args, int64_t id) {
    const PassCall& call = *Self(args);
    return call.Has(id) && !call.fed_.contains(NodeId(id)) ? 1 : 0;
  }
  static int32_t RunsLike(const tenon_graph_pass_args* args, int64_t id, tenon_span device,
                          const uint32_t* input_dtypes, uint64_t input_count, const tenon_attr* attrs,
                          uint64_t attr_count, uint32_t* out_output_dtypes) {
    const PassCall& call = *Self(args);
    if (!call.Has(id)) return 0;
    const graph::Node& like = call.graph_->node(NodeId(id));
    const auto trial = call.TrialLike(like, {input_dtypes, input_dtypes + input_count}, {attrs, attr_count});
    if (!trial.ok() || trial->output_types.size() != like.output_types.size()) return 0;
    if (!trial->has(TENON_OP_IDENTITY) && !call.question_.has_kernel(*trial, View(device))) return 0;
    std::copy(trial->output_types.begin(), trial->output_types.end(), out_output_dtypes);
    return 1;
  }
  Result<graph::Node> TrialLike(const graph::Node& like, const std::vector<DType>& types,
                                std::span<const tenon_attr> attrs) const {
    TENON_ASSIGN_OR_RETURN(graph::AttrMap given, graph::AttrsFromC(attrs));
    TENON_ASSIGN_OR_RETURN(graph::NodeSpec spec, graph::LikeNode(like, types, std::move(given)));
    spec.name = like.name;
    return graph_->Trial(std::move(spec), types);
  }

  // The node becomes an identity of the values, for whoever fetches it.
  Status ReplaceNode(int64_t id, std::span<const tenon_output> outputs) {
    if (!Has(id)) return NoNode(id);
    const graph::Node& node = graph_->node(NodeId(id));
    if (outputs.size() != node.output_types.size())
      return InvalidArgument(StrCat(node.Describe(), " has ", node.output_types.size(), " outputs; ", outputs.size(),
                                    " were given for them"));
    graph::NodeSpec spec;
    for (size_t k = 0; k < outputs.size(); ++k) {
      const Edge edge = graph::FromC(outputs[k]);
      if (!Has(outputs[k].node) || !Within(edge.index, graph_->node(edge.node).output_types.size()) ||
          graph_->TypeOf(edge) != node.output_types[k])
        return InvalidArgument(StrCat("what was given for output ", k, " of ", node.Describe(), " is no ",
                                      TypeName(node.output_types[k])));
      if (edge.node == node.id) return InvalidArgument(StrCat(node.Describe(), " cannot stand in its own place"));
      spec.inputs.push_back(edge);
    }
    TENON_ASSIGN_OR_RETURN(spec.op, graph_->registry().FindRole(outputs.empty() ? "no_op" : "identity_n"));
    spec.controls = node.controls;
    spec.device = node.device;
    replaced_.insert(NodeId(id));
    return graph_->Replace(NodeId(id), std::move(spec)).status();
  }

  // Who reads a node that values stand for reads those: passes and compilers that come after find the nodes beside each
  // other, and a value that nobody reads is not computed.
  void PassBy() {
    const auto is_passed = [this](const Edge& edge) {
      if (!edge.node || !replaced_.contains(edge.node) || !graph_->node(edge.node).controls.empty()) return false;
      return std::find(request_->feeds.begin(), request_->feeds.end(), edge) == request_->feeds.end();
    };
    if (replaced_.empty()) return;
    for (const NodeId id : graph_->ids()) {
      for (Edge& edge : graph_->mutable_node(id).inputs) {
        // Values may be replaced in a circle, which is said where the graph is put in order.
        for (size_t hop = 0; hop < replaced_.size() && is_passed(edge); ++hop)
          edge = graph_->node(edge.node).inputs[static_cast<size_t>(edge.index)];
      }
    }
  }

  // Beside the node that a new one was made for.
  NodeId PlaceOf(NodeId id) const {
    const auto after =
        std::upper_bound(begun_.begin(), begun_.end(), id.number(),
                         [](int64_t number, const auto& each) { return number < static_cast<int64_t>(each.first); });
    return after == begun_.begin() || std::prev(after)->second < 0 ? id : NodeId(std::prev(after)->second);
  }

  const PluginPass& pass_;
  const PassQuestion& question_;
  Graph* const graph_;
  Request* const request_;
  NodeNotes* const notes_;
  graph::Builder builder_;
  const graph::Cursor cursor_;
  std::vector<int64_t> nodes_;
  std::set<NodeId> fed_, replaced_;
  std::vector<std::pair<size_t, int64_t>>
      begun_;  // nodes from the first one's number on are made for the second; -1: for none
};

}  // namespace

namespace {

std::vector<std::string_view> NamesIn(std::string_view text) {
  std::vector<std::string_view> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    names.push_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

}  // namespace

Result<PluginPass> AdoptPass(const tenon_graph_pass* given, std::shared_ptr<PluginInstance> plugin) {
  TENON_RETURN_IF_ERROR(CheckHead(given, TENON_SIZE_UP_TO(tenon_graph_pass, name), TENON_CAPABILITY_GRAPH_PASS));
  PluginPass pass;
  pass.table = Adopt(given);
  TENON_RETURN_IF_ERROR(CheckName(pass.table->name, "the name of a graph pass"));
  pass.name = View(pass.table->name);
  static constexpr TableFunction kNeeded[] = {TENON_TABLE_FUNCTION(tenon_graph_pass, run)};
  TENON_RETURN_IF_ERROR(
      CheckFunctions(pass.table, given->struct_size, kNeeded, StrCat("the graph pass '", pass.name, "'")));
  pass.properties = pass.table->properties;
  if ((pass.table->op_count == 0 && pass.properties == 0) || pass.table->op_count > kMostOps ||
      (pass.table->ops == nullptr && pass.table->op_count != 0))
    return InvalidArgument(StrCat("the graph pass '", pass.name, "' names ", pass.table->op_count, " ops; 1 to ",
                                  kMostOps, " are allowed, or none where it asks for properties"));
  if (const uint64_t unknown = pass.properties & ~graph::kKnownProperties; unknown != 0)
    return Unimplemented(StrCat("the graph pass '", pass.name, "' asks for the properties ", unknown,
                                ", which this host does not know"));
  for (uint64_t i = 0; i < pass.table->op_count; ++i) {
    TENON_RETURN_IF_ERROR(CheckName(pass.table->ops[i], StrCat("an op of the graph pass '", pass.name, "'")));
    pass.ops.emplace(View(pass.table->ops[i]));
  }
  TENON_RETURN_IF_ERROR(CheckText(pass.table->after, StrCat("what the graph pass '", pass.name, "' runs after")));
  for (const std::string_view name : NamesIn(View(pass.table->after))) pass.after.emplace(name);
  if (pass.after.contains(pass.name))
    return InvalidArgument(StrCat("the graph pass '", pass.name, "' wants to run after itself"));
  pass.precision = pass.table->precision;
  pass.plugin = std::move(plugin);
  return pass;
}

namespace {

Result<std::set<std::string_view>> LeftOut(const std::vector<PluginPass>& passes, const PassQuestion& question) {
  std::set<std::string_view> left_out;
  for (const std::string_view name : NamesIn(question.left_out)) {
    left_out.insert(name);
    const auto is_named = [name](const PluginPass& pass) { return pass.name == name; };
    if (!question.knows_all || std::any_of(passes.begin(), passes.end(), is_named)) continue;
    std::set<std::string_view> names;
    std::string known;
    for (const PluginPass& pass : passes)
      if (names.insert(pass.name).second) known += StrCat(known.empty() ? "" : ", ", pass.name);
    return NotFound(StrCat("the session option 'no_pass' names '", name,
                           "', and no package that is loaded has such a pass; there are: ",
                           known.empty() ? "none" : known));
  }
  return left_out;
}

}  // namespace

Result<std::vector<const PluginPass*>> InOrder(const std::vector<PluginPass>& passes) {
  std::vector<const PluginPass*> order, open;
  for (const PluginPass& pass : passes) open.push_back(&pass);
  const auto waits = [&](const PluginPass* pass) {
    return std::any_of(open.begin(), open.end(), [&](const auto* other) { return pass->after.contains(other->name); });
  };
  while (!open.empty()) {
    const auto next = std::find_if_not(open.begin(), open.end(), waits);
    if (next == open.end()) {
      std::string names;
      for (const PluginPass* pass : open)
        names += StrCat(names.empty() ? "" : ", ", "'", pass->name, "' of plugin '", pass->plugin->id(), "'");
      return InvalidArgument(StrCat("graph passes each want to run after another of them: ", names,
                                    "; leave one out by the session option 'no_pass'"));
    }
    order.push_back(*next);
    open.erase(next);
  }
  return order;
}

Result<bool> RunPluginPasses(const std::vector<PluginPass>& passes, const PassQuestion& question, Graph* graph,
                             Request* request, NodeNotes* notes) {
  TENON_ASSIGN_OR_RETURN(const std::set<std::string_view> left_out, LeftOut(passes, question));
  const auto runs = [&](const PluginPass& pass) { return !left_out.contains(pass.name); };
  const auto is_for_it = [&](const PluginPass& pass) { return pass.precision == question.precision && runs(pass); };
  if (question.precision >= TENON_PRECISION_INT8 && std::none_of(passes.begin(), passes.end(), is_for_it))
    return Unimplemented(StrCat("the session option 'precision' is ", question.precision,
                                ", and no plugin that is loaded has a pass over steps for it",
                                left_out.empty() ? "" : " that 'no_pass' leaves", "; for int8 (", TENON_PRECISION_INT8,
                                ") it is tenon.passes.int8"));
  std::vector<PluginPass> that_run;
  std::copy_if(passes.begin(), passes.end(), std::back_inserter(that_run), [&](const PluginPass& pass) {
    return runs(pass) && (pass.precision == 0 || is_for_it(pass));
  });
  TENON_ASSIGN_OR_RETURN(const std::vector<const PluginPass*> order, InOrder(that_run));
  bool changed = false;
  for (const PluginPass* pass : order) {
    TENON_ASSIGN_OR_RETURN(const bool by_this, PassCall(*pass, question, graph, request, notes).Run());
    changed = changed || by_this;
  }
  return changed;
}

}  // namespace tenon::optimize
