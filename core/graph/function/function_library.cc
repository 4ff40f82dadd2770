// SPDX-License-Identifier: Apache-2.0
#include "core/graph/function/function_library.h"

#include <algorithm>
#include <set>

#include "core/graph/graphdef/function_proto.h"
#include "core/graph/graphdef/wire.h"
#include "core/graph/op_registry.h"
#include "tenon/bytes/near_miss.h"

namespace tenon::graph {
namespace {

void AddNames(const AttrMap& attrs, std::vector<std::string_view>* names) {
  for (const auto& [attr, value] : attrs) {
    if ((value.kind() & ~TENON_ATTR_LIST) != TENON_ATTR_FUNCTION) continue;
    for (size_t i = 0; i < value.size(); ++i) {
      names->push_back(value.function(i).name);
      if (value.function(i).attrs) AddNames(*value.function(i).attrs, names);
    }
  }
}

// "(float, int32)".
std::string TypesOf(const std::vector<FunctionDef::Arg>& args) {
  std::string text;
  for (const auto& arg : args)
    text += StrCat(text.empty() ? "" : ", ",
                   arg.type == TENON_DT_INVALID ? StrCat("$", arg.type_attr, arg.type_list_attr) : TypeName(arg.type));
  return StrCat("(", text, ")");
}

// Whether one argument may stand where the other is: what a caller binds is seen when it does.
bool MayBe(const FunctionDef::Arg& a, const FunctionDef::Arg& b) {
  return a.type == TENON_DT_INVALID || b.type == TENON_DT_INVALID || BaseType(a.type) == BaseType(b.type);
}
bool MayBe(const std::vector<FunctionDef::Arg>& a, const std::vector<FunctionDef::Arg>& b) {
  const auto is_list = [](const FunctionDef::Arg& arg) {
    return !arg.number_attr.empty() || !arg.type_list_attr.empty();
  };
  if (std::any_of(a.begin(), a.end(), is_list) || std::any_of(b.begin(), b.end(), is_list)) return true;
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const auto& x, const auto& y) { return MayBe(x, y); });
}

}  // namespace

Status CheckFunctionName(const OpRegistry& ops, std::string_view name) {
  const OpDef* const op = ops.FindOrNull(name);
  if (op == nullptr) return Status::Ok();
  return AlreadyExists(StrCat("'", name, "' is an op of package '", op->package, "'; give the function another name"));
}

Status AddFunction(FunctionLibrary* library, const std::shared_ptr<const FunctionDef>& function) {
  const auto [it, fresh] = library->emplace(function->name, function);
  if (fresh || it->second == function) return Status::Ok();
  const std::string &before = it->second->gradient, &now = function->gradient;
  if (!AreSameFunctions(*it->second, *function) || (!before.empty() && !now.empty() && before != now))
    return AlreadyExists(StrCat("there are two functions '", function->name, "', and they are not the same"));
  if (before.empty() && !now.empty()) it->second = function;
  return Status::Ok();
}

void AddRegisteredGradients(const std::vector<std::string>& gradients, FunctionLibrary* library) {
  std::set<std::string> known(library->registered_gradients.begin(), library->registered_gradients.end());
  for (const std::string& gradient : gradients)
    if (known.insert(gradient).second) library->registered_gradients.push_back(gradient);
}

namespace {

constexpr int kGradientFunction = 1, kRegisteredOpType = 2;  // members of RegisteredGradient

std::string LastMember(std::string_view message, int number) {
  const std::vector<std::string_view> members = MembersOf(message, number);
  return members.empty() ? std::string() : std::string(members.back());
}

}  // namespace

RegisteredGradient ReadRegisteredGradient(std::string_view message) {
  return {LastMember(message, kGradientFunction), LastMember(message, kRegisteredOpType)};
}

Status RegisterGradient(FunctionLibrary* library, std::string_view op_type, std::string_view function) {
  if (op_type.empty())
    return InvalidArgument(
        "a gradient must be registered for the name of an op, or one that nodes ask for by '_gradient_op_type'");
  TENON_RETURN_IF_ERROR(FindFunction(*library, function).status());
  for (const std::string& message : library->registered_gradients) {
    const RegisteredGradient registered = ReadRegisteredGradient(message);
    if (registered.op_type != op_type) continue;
    if (registered.function == function) return Status::Ok();
    return AlreadyExists(StrCat("the gradient of '", op_type, "' is the function '", registered.function,
                                "' in this graph, and cannot be '", function, "' too"));
  }
  std::string message;
  AddMember(kGradientFunction, function, &message);
  AddMember(kRegisteredOpType, op_type, &message);
  library->registered_gradients.push_back(std::move(message));
  return Status::Ok();
}

Status AddFunctions(const FunctionLibrary& from, FunctionLibrary* to) {
  FunctionLibrary sum = *to;
  for (const auto& [name, function] : from) TENON_RETURN_IF_ERROR(AddFunction(&sum, function));
  AddRegisteredGradients(from.registered_gradients, &sum);
  *to = std::move(sum);
  return Status::Ok();
}

Status CheckGradient(const FunctionDef& function, const FunctionDef& gradient) {
  std::vector<FunctionDef::Arg> wanted = function.inputs;
  wanted.insert(wanted.end(), function.outputs.begin(), function.outputs.end());
  if (MayBe(wanted, gradient.inputs) && MayBe(function.inputs, gradient.outputs)) return Status::Ok();
  return InvalidArgument(StrCat("'", gradient.name, "' takes ", TypesOf(gradient.inputs), " and gives ",
                                TypesOf(gradient.outputs), "; the gradient of '", function.name,
                                "' takes its inputs, then a gradient of each output, ", TypesOf(wanted),
                                ", and gives one of each input, ", TypesOf(function.inputs)));
}

Result<std::shared_ptr<const FunctionDef>> FindFunction(const FunctionLibrary& library, std::string_view name) {
  if (const auto it = library.find(name); it != library.end()) return it->second;
  sdk::NearMiss near(name);
  if (library.size() <= 5000)
    for (const auto& [known, function] : library) near.Try(known);
  return NotFound(
      StrCat("the graph's library has no function '", name, "'", near.Hint(), " (it has ", library.size(), ")"));
}

Status CopyFunction(const FunctionLibrary& from, std::string_view name, FunctionLibrary* to) {
  std::map<std::string_view, std::shared_ptr<const FunctionDef>> before;  // of `to`, to take back; null: was not there
  std::set<std::string_view> seen{name};
  std::vector<std::string_view> left{name};
  Status status = FindFunction(from, name).status();
  while (status.ok() && !left.empty()) {
    const auto found = from.find(left.back());
    left.pop_back();
    if (found == from.end()) continue;
    const auto there = to->find(found->first);
    if (there != to->end() && there->second == found->second) continue;
    before.emplace(found->first, there == to->end() ? nullptr : there->second);
    status = AddFunction(to, found->second);
    std::vector<std::string_view> called{found->second->gradient};
    for (const auto& node : found->second->nodes)
      for (const std::string_view each : CalledBy(node, from)) called.push_back(each);
    for (const std::string_view each : called)
      if (seen.insert(each).second) left.push_back(each);
  }
  if (status.ok()) return status;
  for (const auto& [function, was] : before) {
    if (was)
      to->insert_or_assign(std::string(function), was);
    else
      to->erase(to->find(function));
  }
  return std::move(status).Annotate(StrCat("copying function '", name, "'"));
}

Status CopyCalled(const Graph& graph, const FunctionLibrary& from, FunctionLibrary* to) {
  for (const NodeId id : graph.ids())
    for (const std::string_view name : CalledBy(graph.node(id).op->name, graph.node(id).attrs, from))
      if (from.contains(name) && !to->contains(name)) TENON_RETURN_IF_ERROR(CopyFunction(from, name, to));
  return Status::Ok();
}

Status SetGradient(FunctionLibrary* library, std::string_view function, std::string_view gradient) {
  TENON_ASSIGN_OR_RETURN(const auto of, FindFunction(*library, function));
  TENON_ASSIGN_OR_RETURN(const auto derivative, FindFunction(*library, gradient));
  if (of->gradient == gradient) return Status::Ok();
  if (!of->gradient.empty())
    return AlreadyExists(
        StrCat("the gradient of function '", function, "' is '", of->gradient, "'; '", gradient, "' cannot be it too"));
  TENON_RETURN_IF_ERROR(CheckGradient(*of, *derivative));
  auto made = std::make_shared<FunctionDef>(*of);
  made->gradient = gradient;
  (*library)[made->name] = std::move(made);
  return Status::Ok();
}

std::vector<std::string_view> CalledBy(std::string_view op, const AttrMap& attrs, const FunctionLibrary& library) {
  std::vector<std::string_view> names;
  if (library.contains(op)) names.push_back(op);
  AddNames(attrs, &names);
  return names;
}

}  // namespace tenon::graph
