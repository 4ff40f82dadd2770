// SPDX-License-Identifier: Apache-2.0
#include "tenon/model/file_guard.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "tenon/bytes/wire.h"

namespace tenon::model {
namespace {

using data::FunctionView;
using data::NodeView;

// What the engine knows of an op, as far as it matters here.
struct OpFacts {
  uint64_t traits = 0;
  std::vector<std::string> paths;   // names of inputs
  std::vector<std::string> inputs;  // names; up to the first that stands for several
};

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view()
                                         : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (!Trimmed(text.substr(0, end)).empty()) pieces.push_back(Trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

// Whether an attribute of a type, "dtypes: list(type) >= 1", makes an argument of that type several inputs.
bool IsListAttr(std::string_view attrs, std::string_view name) {
  for (std::string_view attr : Split(attrs, ';')) {
    const size_t colon = attr.find(':');
    if (colon != std::string_view::npos && Trimmed(attr.substr(0, colon)) == name)
      return Trimmed(attr.substr(colon + 1)).starts_with("list");
  }
  return false;
}

// Whether an attribute is a tensor of empty strings.
bool HoldsNoText(std::string_view attr) {
  constexpr uint32_t kTensor = 8, kType = 1, kContent = 4, kStrings = 8;  // of AttrValue and TensorProto
  sdk::WireReader value(attr);
  bool strings = false;
  while (value.Next()) {
    if (value.field() != kTensor) continue;
    sdk::WireReader tensor(value.delimited());
    while (tensor.Next()) {
      if (tensor.field() == kType) strings = tensor.varint() == static_cast<uint64_t>(DType::kString);
      const bool text = tensor.field() == kContent || tensor.field() == kStrings;
      if (text && tensor.delimited().find_first_not_of('\0') != std::string_view::npos)
        return false;  // content: lengths before the bytes
    }
    if (!tensor.ok()) return false;
  }
  return value.ok() && strings;
}

OpFacts FactsOf(const tenon_op_info& info) {
  OpFacts facts;
  facts.traits = info.traits;
  for (std::string_view path : Split(host::Text(info.paths), ',')) facts.paths.emplace_back(path);
  for (std::string_view argument : Split(host::Text(info.inputs), ',')) {
    const size_t colon = std::min(argument.find(':'), argument.size() - 1);
    const std::string_view type = Trimmed(argument.substr(colon + 1));
    if (type.find('*') != std::string_view::npos || IsListAttr(host::Text(info.attrs), type)) break;
    facts.inputs.emplace_back(Trimmed(argument.substr(0, colon)));
  }
  return facts;
}

// The graph, or a function with the arguments that are trusted: those that every call trusts that was seen so far.
struct Scope {
  const FunctionView* function = nullptr;
  std::vector<bool> trusted;
};

class Guard {
 public:
  Guard(const Runtime& runtime, const GraphIndex& graph, const std::vector<std::string>& trusted_feeds)
      : runtime_(runtime), graph_(graph) {
    for (const std::string& feed : trusted_feeds) trusted_feeds_.emplace(ShortName(feed));
  }

  Status Run(const std::vector<const NodeView*>& nodes) {
    const Scope whole;
    reached_ = nodes;
    for (const NodeView* node : nodes) TENON_TRY(Check(whole, *node));
    while (!left_.empty()) {
      const Scope scope = std::move(left_.back());
      left_.pop_back();
      EnterScope(scope);
      for (const NodeView& node : scope.function->nodes) TENON_TRY(Check(scope, node));
    }
    return Status();
  }

 private:
  // All that a body has, since it may have effects that no result reads.
  void EnterScope(const Scope& scope) {
    body_.clear();
    for (const NodeView& node : scope.function->nodes) body_.emplace(node.name, &node);
    arguments_.clear();
    for (size_t i = 0; i < scope.function->arguments.size(); ++i) arguments_.emplace(scope.function->arguments[i], i);
  }

  Status Check(const Scope& scope, const NodeView& node) {
    const OpFacts& facts = Facts(node.op);
    if ((facts.traits & TENON_OP_IO) != 0) TENON_TRY(CheckPaths(scope, node, facts));
    for (const FunctionView* function : graph_.FunctionsOf(node)) Visit(scope, node, facts, *function);
    return Status();
  }

  Status CheckPaths(const Scope& scope, const NodeView& node, const OpFacts& facts) {
    if (facts.paths.empty()) return Refuse(scope, node, "would touch files, the network or the clock by itself");
    for (const std::string& path : facts.paths) {
      const auto at = std::find(facts.inputs.begin(), facts.inputs.end(), path) - facts.inputs.begin();
      const auto index = static_cast<size_t>(at);
      if (index < node.inputs.size() && MayHaveNoFile(node.op) && IsEmptyConstant(scope, node.inputs[index])) continue;
      if (index >= facts.inputs.size() || index >= node.inputs.size() || !IsTrusted(scope, node.inputs[index])) {
        return Refuse(scope, node, "would touch a file whose path ('" + path + "') the graph chose");
      }
    }
    return Status();
  }

  // Ops for which an empty path is none.
  static bool MayHaveNoFile(std::string_view op) { return op == "CacheDataset" || op == "CacheDatasetV2"; }
  bool IsEmptyConstant(const Scope& scope, std::string_view input) const {
    const NodeView* node = nullptr;
    if (scope.function == nullptr) {
      node = graph_.FindNode(data::NodeOfInput(input));
    } else if (const auto found = body_.find(input.substr(0, input.find(':'))); found != body_.end()) {
      node = found->second;
    }
    if (node == nullptr || node->op != "Const") return false;
    const auto value =
        std::find_if(node->attrs.begin(), node->attrs.end(), [](const auto& attr) { return attr.first == "value"; });
    return value != node->attrs.end() && HoldsNoText(value->second);
  }

  static Status Refuse(const Scope& scope, const NodeView& node, const std::string& what) {
    const std::string where =
        scope.function == nullptr ? "" : " in function '" + std::string(scope.function->name) + "'";
    return Status(Code::kPermissionDenied,
                  "node '" + std::string(node.name) + "' (" + std::string(node.op) + ")" + where + " " + what +
                      "; a model may touch nothing but its own folder, and that while it is loaded");
  }

  // Which of a function's arguments are trusted when this node calls it.
  void Visit(const Scope& scope, const NodeView& node, const OpFacts& facts, const FunctionView& function) {
    Scope inner{&function, std::vector<bool>(function.arguments.size(), false)};
    const bool call = function.name == node.op || (facts.traits & TENON_OP_CALL) != 0;
    const bool branch = (facts.traits & TENON_OP_BRANCH) != 0;
    if ((call || branch) && !function.has_list_arguments) {
      const size_t first = call ? 0 : 1;  // a branch's first input chooses
      for (size_t i = 0; i < inner.trusted.size() && first + i < node.inputs.size(); ++i) {
        inner.trusted[i] = IsTrusted(scope, node.inputs[first + i]);
      }
    }
    const auto [seen, first_call] = trusted_arguments_.emplace(&function, inner.trusted);
    for (size_t i = 0; i < inner.trusted.size(); ++i) inner.trusted[i] = inner.trusted[i] && seen->second[i];
    if (!first_call && inner.trusted == seen->second) return;
    seen->second = inner.trusted;
    left_.push_back(std::move(inner));
  }

  bool IsTrusted(const Scope& scope, std::string_view input, bool through_variables = true) {
    // Each step goes to another node, so there are no more of them than nodes, unless they go in a circle.
    const size_t most = scope.function == nullptr ? graph_.graph().nodes.size() : scope.function->nodes.size();
    for (size_t step = 0; step <= most; ++step) {
      if (input.starts_with('^')) return false;
      const NodeView* node = nullptr;
      if (scope.function == nullptr) {
        if (trusted_feeds_.contains(ShortName(input))) return true;
        node = graph_.FindNode(data::NodeOfInput(input));
      } else {
        const std::string_view name = input.substr(0, input.find(':'));
        if (const auto argument = arguments_.find(name); argument != arguments_.end())
          return scope.trusted[argument->second];
        const auto found = body_.find(name);
        node = found == body_.end() ? nullptr : found->second;
      }
      if (node == nullptr || DataInputs(*node) != 1) return false;
      if ((Facts(node->op).traits & TENON_OP_IDENTITY) == 0)
        return through_variables && scope.function == nullptr && ReadsTrusted(*node);
      input = node->inputs[0];
    }
    return false;
  }

  static ptrdiff_t DataInputs(const NodeView& node) {
    return std::count_if(node.inputs.begin(), node.inputs.end(),
                         [](std::string_view each) { return !each.starts_with('^'); });
  }

  // What a handle stands for: two nodes of one op with one of these have one variable.
  static std::string_view VariableName(const NodeView& handle) {
    const std::string_view shared = handle.StringAttr("shared_name");
    return shared.empty() ? handle.name : shared;
  }

  // A read of a variable that waits for its writer, where all that write it here write what is trusted, and nobody else
  // can get at it: so the path of an asset reaches the op that reads the asset in some of TensorFlow's models.
  bool ReadsTrusted(const NodeView& read) {
    const NodeView* handle = graph_.FindNode(data::NodeOfInput(read.inputs[0]));
    constexpr uint64_t kHandle = TENON_OP_STATEFUL, kNoRead = TENON_OP_WRITES_STATE | TENON_OP_CALL | TENON_OP_IO;
    if (handle == nullptr || !handle->inputs.empty() || (Facts(handle->op).traits & kHandle) == 0) return false;
    if (Facts(read.op).inputs.size() != 1 || (Facts(read.op).traits & kNoRead) != 0 || HasTwin(*handle)) return false;
    bool waits = false;
    for (const NodeView* node : reached_) {
      const bool takes = std::any_of(node->inputs.begin(), node->inputs.end(), [&](std::string_view each) {
        return !each.starts_with('^') && data::NodeOfInput(each) == handle->name;
      });
      if (!takes || node->op == read.op) continue;
      if ((Facts(node->op).traits & TENON_OP_WRITES_STATE) == 0 || !graph_.FunctionsOf(*node).empty()) return false;
      for (std::string_view input : node->inputs) {
        if (input.starts_with('^') || data::NodeOfInput(input) == handle->name) continue;
        if (!IsTrusted(Scope(), input, false)) return false;
      }
      waits = waits || std::any_of(read.inputs.begin(), read.inputs.end(), [&](std::string_view each) {
                return each.starts_with('^') && each.substr(1) == node->name;
              });
    }
    return waits;
  }

  // Whether another node of the graph, or of a function, has the same variable.
  bool HasTwin(const NodeView& handle) const {
    const auto twin = [&](const NodeView& node) {
      return &node != &handle && node.op == handle.op && VariableName(node) == VariableName(handle);
    };
    const auto has = [&](const std::vector<NodeView>& nodes) { return std::any_of(nodes.begin(), nodes.end(), twin); };
    return has(graph_.graph().nodes) || std::any_of(graph_.functions().begin(), graph_.functions().end(),
                                                    [&](const FunctionView& f) { return has(f.nodes); });
  }

  const OpFacts& Facts(std::string_view op) {
    const auto found = facts_.find(op);
    if (found != facts_.end()) return found->second;
    OpFacts facts;
    if (graph_.FindFunction(op) == nullptr) {
      if (const Result<tenon_op_info> info = runtime_.FindOp(op); info.ok()) facts = FactsOf(*info);
    }
    return facts_.emplace(op, std::move(facts)).first->second;
  }

  const Runtime& runtime_;
  const GraphIndex& graph_;
  std::set<std::string, std::less<>> trusted_feeds_;
  std::map<std::string, OpFacts, std::less<>> facts_;
  std::map<const FunctionView*, std::vector<bool>> trusted_arguments_;
  std::vector<const NodeView*> reached_;  // of the graph itself
  std::vector<Scope> left_;
  std::map<std::string_view, const NodeView*> body_;   // of the scope that is being checked
  std::map<std::string_view, size_t> arguments_;
};

}  // namespace

Status CheckFiles(const Runtime& runtime, const GraphIndex& graph, const std::vector<std::string>& feeds,
                  const std::vector<std::string>& trusted_feeds, const std::vector<std::string>& targets) {
  TENON_TRY_ASSIGN(const std::vector<const NodeView*> nodes, graph.Reach(feeds, targets));
  return Guard(runtime, graph, trusted_feeds).Run(nodes);
}

}  // namespace tenon::model
