// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <algorithm>
#include <queue>

#include "core/base/checked.h"
#include "core/graph/function/function_def.h"
#include "core/graph/node_name.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::graph {
namespace {

Status CheckAttr(const AttrDef& def, const AttrValue& value) {
  if (!value.placeholder().empty())
    return InvalidArgument(StrCat("attribute '", def.name, "' is the placeholder '", value.placeholder(),
                                  "', which only a function's body may have"));
  const bool list = (def.kind & TENON_ATTR_LIST) != 0;
  const bool fits = value.kind() == def.kind || (list && (value.kind() & TENON_ATTR_LIST) && value.size() == 0);
  if (!fits)
    return InvalidArgument(StrCat("attribute '", def.name, "' must be ", AttrKindName(def.kind), ", found ",
                                  AttrKindName(value.kind())));
  if (def.minimum) {
    const int64_t found = list ? static_cast<int64_t>(value.size()) : value.i();
    if (found < *def.minimum)
      return InvalidArgument(StrCat("attribute '", def.name, "' must be at least ", *def.minimum,
                                    list ? " long, found " : ", found ", found));
  }
  // What a kernel made as values would be read as references to variables.
  if ((def.kind & ~TENON_ATTR_LIST) == TENON_ATTR_TYPE)
    for (size_t i = 0; i < value.size(); ++i)
      if (IsRef(value.type(i)))
        return InvalidArgument(StrCat("attribute '", def.name, "' is ", TypeName(value.type(i)),
                                      "; whether an argument is a reference, the op's definition says"));
  if ((def.kind & ~TENON_ATTR_LIST) == TENON_ATTR_TYPE && !def.allowed_types.empty())
    for (size_t i = 0; i < value.size(); ++i)
      if (std::find(def.allowed_types.begin(), def.allowed_types.end(), BaseType(value.type(i))) ==
          def.allowed_types.end()) {
        std::string allowed;
        for (DType type : def.allowed_types) allowed += (allowed.empty() ? "" : ", ") + TypeName(type);
        return InvalidArgument(
            StrCat("attribute '", def.name, "' is ", TypeName(value.type(i)), "; allowed: ", allowed));
      }
  if ((def.kind & ~TENON_ATTR_LIST) == TENON_ATTR_STRING && !def.allowed_strings.empty())
    for (size_t i = 0; i < value.size(); ++i)
      if (std::find(def.allowed_strings.begin(), def.allowed_strings.end(), value.s(i)) == def.allowed_strings.end())
        return InvalidArgument(StrCat("attribute '", def.name, "' is '", value.s(i), "'; allowed: ",
                                      AttrValue::Strings(def.allowed_strings).ToString()));
  return Status::Ok();
}

// Of an input or output: its type, its edges, and what shape inference and a plan note of it.
constexpr uint64_t kArgumentBytes = 384;

uint64_t BytesOf(const AttrMap& attrs) {
  constexpr uint64_t kAttr = 160, kElement = 32;
  uint64_t bytes = 0;
  for (const auto& [name, value] : attrs) {
    bytes += kAttr + name.size() + ((value.kind() & TENON_ATTR_LIST) != 0 ? value.size() * kElement : 0);
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_STRING && value.placeholder().empty())
      for (size_t i = 0; i < value.size(); ++i) bytes += value.s(i).size();
    if ((value.kind() & ~TENON_ATTR_LIST) == TENON_ATTR_FUNCTION && value.placeholder().empty())
      for (size_t i = 0; i < value.size(); ++i) bytes += value.function(i).name.size();
  }
  return bytes;
}

// Sets a missing attribute from what the inputs show; one that is set must agree.
Status Deduce(AttrMap& attrs, const std::string& name, const AttrValue& found, std::string_view argument) {
  const auto [it, added] = attrs.emplace(name, found);
  if (added || it->second.Equals(found)) return Status::Ok();
  return InvalidArgument(StrCat("argument '", argument, "' makes attribute '", name, "' ", found.ToString(),
                                ", but it is ", it->second.ToString()));
}

struct Binder {
  const OpDef& op;
  AttrMap& attrs;
  const std::vector<DType>& types;  // of the inputs; INVALID for open ones

  // How many inputs argument `index` takes, knowing how many are left for it and later ones.
  Result<int32_t> Count(size_t index, int32_t left) const {
    const ArgDef& arg = op.inputs[index];
    if (arg.number_attr.empty() && arg.type_list_attr.empty()) return 1;
    const std::string& name = arg.number_attr.empty() ? arg.type_list_attr : arg.number_attr;
    if (const auto it = attrs.find(name); it != attrs.end()) return Said(arg, name, it->second, left);
    int32_t later = 0;
    for (size_t i = index + 1; i < op.inputs.size(); ++i) {
      const ArgDef& other = op.inputs[i];
      if (other.number_attr.empty() && other.type_list_attr.empty()) {
        ++later;
        continue;
      }
      // A graph without its default attributes leaves it out where it is the default.
      const AttrDef* const def = op.FindAttr(name);
      if (def != nullptr && def->default_value) return Said(arg, name, *def->default_value, left);
      return InvalidArgument(StrCat("attribute '", name, "' cannot be told from the inputs; give it"));
    }
    return left - later;
  }
  static Result<int32_t> Said(const ArgDef& arg, const std::string& name, const AttrValue& value, int32_t left) {
    if (arg.number_attr.empty()) return static_cast<int32_t>(value.size());
    if (value.kind() != TENON_ATTR_INT || value.i() < 0 || value.i() > left)
      return InvalidArgument(StrCat("attribute '", name, "' says ", value.ToString(), " inputs, there are ", left));
    return static_cast<int32_t>(value.i());
  }

  Status BindTypes(const ArgDef& arg, int32_t begin, int32_t count) {
    if (!arg.number_attr.empty())
      TENON_RETURN_IF_ERROR(Deduce(attrs, arg.number_attr, AttrValue::Int(count), arg.name));
    std::vector<DType> list;
    for (int32_t i = begin; i < begin + count; ++i) {
      const DType type = types[i];
      if (arg.is_ref && type != TENON_DT_INVALID && !IsRef(type))
        return InvalidArgument(
            StrCat("argument '", arg.name, "' takes a reference, found a ", TypeName(type), " value"));
      list.push_back(BaseType(type));
      if (type == TENON_DT_INVALID || !arg.type_list_attr.empty()) continue;
      if (!arg.type_attr.empty()) {
        TENON_RETURN_IF_ERROR(Deduce(attrs, arg.type_attr, AttrValue::Type(BaseType(type)), arg.name));
      } else if (BaseType(type) != arg.type) {
        return InvalidArgument(
            StrCat("argument '", arg.name, "' must be ", TypeName(arg.type), ", found ", TypeName(type)));
      }
    }
    if (!arg.type_list_attr.empty() && std::find(list.begin(), list.end(), DType{TENON_DT_INVALID}) == list.end())
      return Deduce(attrs, arg.type_list_attr, AttrValue::Types(list), arg.name);
    return Status::Ok();
  }
};

// The tensors that an argument expands to, once all attributes are known.
Result<std::vector<DType>> Expand(const ArgDef& arg, const AttrMap& attrs) {
  const auto find = [&attrs](const std::string& name) { return attrs.find(name)->second; };
  std::vector<DType> out;
  if (!arg.type_list_attr.empty()) {
    const AttrValue& value = find(arg.type_list_attr);
    for (size_t i = 0; i < value.size(); ++i) out.push_back(value.type(i));
  } else {
    const DType type = arg.type_attr.empty() ? arg.type : find(arg.type_attr).type();
    const int64_t count = arg.number_attr.empty() ? 1 : find(arg.number_attr).i();
    if (count < 0 || count > (1 << 24))
      return InvalidArgument(StrCat("argument '", arg.name, "' has ", count, " tensors"));
    MemoryCharge asked;  // a number of a few bytes: is there room for what it asks for?
    if (Status status = asked.Add(static_cast<uint64_t>(count) * kArgumentBytes); !status.ok())
      return std::move(status).Annotate(StrCat("argument '", arg.name, "' has ", count, " tensors"));
    out.assign(count, type);
  }
  if (arg.is_ref)
    for (DType& type : out) type += TENON_DT_REF;
  return out;
}

Status ExpandAll(const std::vector<ArgDef>& args, const AttrMap& attrs, std::vector<DType>& types,
                 std::vector<ArgRange>& ranges) {
  for (const ArgDef& arg : args) {
    TENON_ASSIGN_OR_RETURN(std::vector<DType> expanded, Expand(arg, attrs));
    ranges.push_back({static_cast<int32_t>(types.size()), static_cast<int32_t>(expanded.size())});
    types.insert(types.end(), expanded.begin(), expanded.end());
  }
  return Status::Ok();
}

Status FillAttrs(const OpDef& op, AttrMap& attrs) {
  for (const AttrDef& def : op.attrs) {
    auto it = attrs.find(def.name);
    if (it == attrs.end()) {
      if (!def.default_value)
        return InvalidArgument(
            StrCat("attribute '", def.name, "' (", AttrKindName(def.kind), ") is missing and has no default"));
      it = attrs.emplace(def.name, *def.default_value).first;
    }
    TENON_RETURN_IF_ERROR(CheckAttr(def, it->second));
  }
  for (const auto& [name, value] : attrs)
    if (name[0] != '_' && op.FindAttr(name) == nullptr)
      return InvalidArgument(StrCat("the op has no attribute '", name, "'"));
  return Status::Ok();
}

Status CheckAttrConstraints(const Node& node) {
  ConstraintFacts facts;
  facts.attr = [&node](const std::string& name) -> std::optional<int64_t> {
    const AttrValue* value = node.FindAttr(name);
    if (value == nullptr || value->kind() != TENON_ATTR_INT) return std::nullopt;
    return value->i();
  };
  for (const Constraint& constraint : node.op->constraints) TENON_RETURN_IF_ERROR(Check(constraint, facts));
  return Status::Ok();
}

Status Complete(Node& node, const std::vector<DType>& found) {
  Binder binder{*node.op, node.attrs, found};
  int32_t at = 0;
  const auto total = static_cast<int32_t>(found.size());
  for (size_t i = 0; i < node.op->inputs.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const int32_t count, binder.Count(i, total - at));
    if (count < 0 || at + count > total)
      return InvalidArgument(
          StrCat("argument '", node.op->inputs[i].name, "' has no input: ", total, " inputs were given"));
    TENON_RETURN_IF_ERROR(binder.BindTypes(node.op->inputs[i], at, count));
    at += count;
  }
  if (at != total) return InvalidArgument(StrCat("the op takes ", at, " inputs here, ", total, " were given"));
  TENON_RETURN_IF_ERROR(FillAttrs(*node.op, node.attrs));
  TENON_RETURN_IF_ERROR(ExpandAll(node.op->inputs, node.attrs, node.input_types, node.input_ranges));
  TENON_RETURN_IF_ERROR(ExpandAll(node.op->outputs, node.attrs, node.output_types, node.output_ranges));
  if (node.input_types.size() != found.size())
    return InvalidArgument(
        StrCat("the attributes ask for ", node.input_types.size(), " inputs, ", total, " were given"));
  // A constant is taken from its attribute: nothing later would see that its elements are of another type.
  const AttrValue* value = node.has(TENON_OP_CONSTANT) ? node.FindAttr("value") : nullptr;
  if (value != nullptr && value->kind() == TENON_ATTR_TENSOR && !node.output_types.empty() &&
      value->tensor().dtype() != node.output_types[0])
    return InvalidArgument(StrCat("attribute 'value' is of type ", TypeName(value->tensor().dtype()),
                                  ", but the output is ", TypeName(node.output_types[0])));
  return CheckAttrConstraints(node);
}

}  // namespace

std::string_view StateName(const Node& node) {
  const AttrValue* const given = node.FindAttr(kStateNameAttr);
  return given != nullptr && given->kind() == TENON_ATTR_STRING ? given->s() : std::string_view(node.name);
}

std::string Node::Describe() const { return StrCat("node '", name, "' (", op->name, ")"); }

Status CheckVersion(const OpDef& op, const AttrValue& version) {
  if (version.kind() != TENON_ATTR_INT) return InvalidArgument(StrCat("attribute '", kVersionAttr, "' is no int"));
  if (version.i() <= op.version) return Status::Ok();
  return Unimplemented(StrCat("it is of version ", version.i(), " of the op; package '", op.package, "' has version ",
                              op.version, ": load a newer one, or make the graph with this one"));
}

// A node says of which version of its op it is, if that has any.
static Status SettleVersion(const OpDef& op, AttrMap* attrs) {
  const auto given = attrs->find(kVersionAttr);
  if (given != attrs->end()) return CheckVersion(op, given->second);
  if (op.version > 0) attrs->emplace(kVersionAttr, AttrValue::Int(op.version));
  return Status::Ok();
}

Graph Graph::Clone() const {
  Graph copy(registry_);
  for (const auto& node : nodes_) copy.nodes_.push_back(std::make_unique<Node>(*node));
  copy.names_ = names_;
  copy.name_counters_ = name_counters_;
  copy.library_ = library_;
  copy.function_ops_ = function_ops_;
  copy.former_ops_ = former_ops_;
  copy.producer_ = producer_;
  copy.missing_ = missing_;
  return copy;
}

NodeId Graph::Find(std::string_view name) const {
  const auto it = names_.find(std::string(name));
  return it == names_.end() ? NodeId() : it->second;
}

Result<NodeId> Graph::Get(std::string_view name) const {
  if (const NodeId id = Find(name); id) return id;
  if (const auto it = missing_.find(name); it != missing_.end()) return it->second;
  sdk::NearMiss near(name);
  if (nodes_.size() <= 5000)
    for (const auto& node : nodes_) near.Try(node->name);
  return NotFound(StrCat("the graph has no node '", name, "'", near.Hint()));
}

Result<Edge> Graph::ParseEdge(std::string_view name) const {
  std::string_view node_name;
  Edge edge;
  if (!SplitTensorName(name, &node_name, &edge.index))
    return InvalidArgument(StrCat("'", name, "' is no tensor's name; write node or node:k"));
  TENON_ASSIGN_OR_RETURN(edge.node, Get(node_name));
  const size_t outputs = node(edge.node).output_types.size();
  if (!Within(edge.index, outputs))
    return InvalidArgument(StrCat("'", name, "': ", node(edge.node).Describe(), " has ", outputs, " outputs"));
  return edge;
}

Result<const OpDef*> Graph::FunctionOp(std::string_view function) {
  const auto it = library_.find(function);
  if (it == library_.end()) return NotFound(StrCat("the graph's library has no function '", function, "'"));
  const auto made = function_ops_.find(function);
  if (made != function_ops_.end() && made->second.function == it->second) return made->second.op.get();
  auto op = std::make_shared<OpDef>();
  op->name = function;
  op->traits = TENON_OP_CALL | (it->second->is_stateful ? TENON_OP_STATEFUL : 0u);
  op->package = "function library";
  op->attrs = it->second->attrs;
  const auto convert = [](const std::vector<FunctionDef::Arg>& args) {
    std::vector<ArgDef> out;
    for (const auto& arg : args)
      out.push_back({arg.name, arg.type, arg.type_attr, arg.type_list_attr, arg.number_attr, false});
    return out;
  };
  op->inputs = convert(it->second->inputs);
  op->outputs = convert(it->second->outputs);
  for (const auto& args : {op->inputs, op->outputs})
    for (const ArgDef& arg : args)
      for (const std::string& attr : {arg.type_attr, arg.number_attr, arg.type_list_attr})
        if (!attr.empty() && op->FindAttr(attr) == nullptr)
          return InvalidArgument(
              StrCat("function '", function, "': argument '", arg.name, "' names the missing attribute '", attr, "'"));
  if (made != function_ops_.end()) former_ops_.push_back(std::move(made->second));
  FunctionEntry& entry = function_ops_[std::string(function)];
  entry = {it->second, std::move(op)};
  return entry.op.get();
}

std::string Graph::EdgeName(Edge edge) const { return StrCat(node(edge.node).name, ":", edge.index); }

std::string Graph::UniqueName(std::string_view wish) const {
  std::string name(wish);
  if (!Find(name)) return name;
  int& counter = name_counters_[name];
  std::string candidate;
  do {
    candidate = StrCat(wish, "_", ++counter);
  } while (Find(candidate));
  return candidate;
}

// What follows from the attributes and the inputs' types.
static Status Settle(Node* node, const std::vector<DType>& input_types) {
  node->traits = node->op->traits;
  Status status = Complete(*node, input_types);
  if (status.ok()) status = SettleVersion(*node->op, &node->attrs);
  return status.ok() ? Status::Ok() : std::move(status).Annotate(node->Describe());
}

Result<Node> Graph::Trial(NodeSpec spec, const std::vector<DType>& input_types) const {
  Node node;
  node.op = spec.op;
  node.name = std::move(spec.name);
  node.attrs = std::move(spec.attrs);
  node.device = std::move(spec.device);
  TENON_RETURN_IF_ERROR(Settle(&node, input_types));
  return node;
}

// All but id, op and name.
Status Graph::Fill(NodeSpec spec, Node* node) const {
  node->attrs = std::move(spec.attrs);
  node->inputs = std::move(spec.inputs);
  node->controls = std::move(spec.controls);
  node->device = std::move(spec.device);
  std::vector<DType> types;
  for (const Edge& edge : node->inputs) {
    const size_t outputs = !edge.node ? SIZE_MAX : Has(edge.node) ? this->node(edge.node).output_types.size() : 0;
    if (!Within(edge.index, outputs))
      return InvalidArgument(
          StrCat(node->Describe(), ": input ", types.size(), " names an output that does not exist"));
    types.push_back(!edge.node ? TENON_DT_INVALID : TypeOf(edge));
  }
  for (NodeId control : node->controls)
    if (!Has(control))
      return InvalidArgument(StrCat(node->Describe(), ": a control input names a node that does not exist"));
  return Settle(node, types);
}

Result<std::unique_ptr<Node>> Graph::Replace(NodeId id, NodeSpec spec) {
  auto node = std::make_unique<Node>();
  node->id = id;
  node->op = spec.op;
  node->name = this->node(id).name;
  TENON_RETURN_IF_ERROR(Fill(std::move(spec), node.get()));
  const std::vector<DType>& wanted = this->node(id).output_types;
  if (node->output_types != wanted) {
    const auto list = [](const std::vector<DType>& types) {
      std::string text;
      for (DType type : types) text += StrCat(text.empty() ? "" : ", ", TypeName(type));
      return text;
    };
    return InvalidArgument(StrCat(this->node(id).Describe(), " gives (", list(wanted),
                                  "), what would stand for it gives (", list(node->output_types), ")"));
  }
  TENON_RETURN_IF_ERROR(charge_.Add(BytesOf(*node)));
  charge_.Remove(BytesOf(this->node(id)));
  std::swap(nodes_[id], node);
  return node;
}

uint64_t Graph::BytesOf(const Node& node) {
  constexpr uint64_t kNode = 512;  // in maps and lists by node
  return sizeof(Node) + kNode + 2 * node.name.size() + node.device.size() +
         (node.inputs.size() + node.output_types.size()) * kArgumentBytes + node.controls.size() * 16 +
         graph::BytesOf(node.attrs);
}

Result<NodeId> Graph::Add(NodeSpec spec) {
  auto node = std::make_unique<Node>();
  node->id = next_id();
  node->op = spec.op;
  node->name = spec.name.empty() ? UniqueName(spec.op->name) : std::move(spec.name);
  if (!IsValidNodeName(node->name))
    return InvalidArgument(StrCat("'", node->name, "' cannot be a node's name"));
  if (Find(node->name)) return AlreadyExists(StrCat("the graph already has a node '", node->name, "'"));
  TENON_RETURN_IF_ERROR(CheckAllowance());
  TENON_RETURN_IF_ERROR(Fill(std::move(spec), node.get()));
  if (Status status = charge_.Add(BytesOf(*node)); !status.ok())
    return std::move(status).Annotate(StrCat("a graph of ", size(), " nodes"));
  names_.emplace(node->name, node->id);
  return nodes_.push_back(std::move(node));
}

Status Graph::SetInput(NodeId id, int32_t index, Edge edge) {
  Node& target = mutable_node(id);
  const DType want = target.input_types[index];
  const DType found = TypeOf(edge);
  if (BaseType(want) != BaseType(found) || (IsRef(want) && !IsRef(found)))
    return InvalidArgument(StrCat(target.Describe(), ": input ", index, " must be ", TypeName(want), ", ",
                                  EdgeName(edge), " is ", TypeName(found)));
  target.inputs[index] = edge;
  return Status::Ok();
}

void Graph::AddControl(NodeId from, NodeId to) {
  std::vector<NodeId>& controls = mutable_node(to).controls;
  if (std::find(controls.begin(), controls.end(), from) == controls.end()) controls.push_back(from);
}

void Graph::Truncate(size_t size) {
  while (this->size() > size) {
    charge_.Remove(BytesOf(*nodes_.back()));
    names_.erase(nodes_.back()->name);
    nodes_.pop_back();
  }
}

Result<std::vector<NodeId>> Graph::TopologicalOrder(const std::function<bool(NodeId)>& keep,
                                                    const std::function<NodeId(NodeId)>& place) const {
  NodeMap<int32_t> pending(size());
  NodeMap<std::vector<NodeId>> users(size());
  size_t kept = 0;
  using Placed = std::pair<NodeId, NodeId>;
  std::priority_queue<Placed, std::vector<Placed>, std::greater<>> ready;
  const auto push = [&](NodeId id) { ready.emplace(place ? place(id) : id, id); };
  for (const NodeId id : ids()) {
    if (keep && !keep(id)) continue;
    ++kept;
    const auto depend = [&](NodeId from) {
      if (!from || (keep && !keep(from))) return;
      ++pending[id];
      users[from].push_back(id);
    };
    for (const Edge& edge : node(id).inputs)
      if (!edge.node || !IsBackEdge(node(edge.node), node(id))) depend(edge.node);
    for (NodeId control : node(id).controls) depend(control);
    if (pending[id] == 0) push(id);
  }
  std::vector<NodeId> order;
  order.reserve(kept);
  while (!ready.empty()) {
    const NodeId id = ready.top().second;
    ready.pop();
    order.push_back(id);
    for (NodeId user : users[id])
      if (--pending[user] == 0) push(user);
  }
  if (order.size() == kept) return order;
  std::string names;
  int shown = 0;
  for (const NodeId id : ids())
    if (shown < 5 && (!keep || keep(id)) && pending[id] > 0) {
      names += StrCat(shown == 0 ? "" : ", ", "'", node(id).name, "'");
      ++shown;
    }
  return InvalidArgument(StrCat("the graph has a cycle that is no loop; nodes on or after it: ", names));
}

}  // namespace tenon::graph
