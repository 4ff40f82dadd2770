// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graphdef/function_proto.h"

#include "core/graph/graphdef/graph.pb.h"
#include "core/graph/graphdef/tensor_proto.h"
#include "core/graph/graphdef/wire.h"

namespace tenon::graph {
namespace {

FunctionDef::Arg ArgFromProto(const tensorflow::OpDef::ArgDef& proto) {
  FunctionDef::Arg arg;
  arg.name = proto.name();
  arg.type = static_cast<DType>(proto.type());
  arg.type_attr = proto.type_attr();
  arg.number_attr = proto.number_attr();
  arg.type_list_attr = proto.type_list_attr();
  return arg;
}

uint32_t KindFromName(std::string_view name) {
  const bool list = name.starts_with("list(") && name.ends_with(")");
  if (list) name = name.substr(5, name.size() - 6);
  for (uint32_t kind = TENON_ATTR_STRING; kind <= TENON_ATTR_FUNCTION; ++kind)
    if (AttrKindName(kind) == name) return kind | (list ? TENON_ATTR_LIST : 0u);
  return TENON_ATTR_NONE;
}

void ArgToProto(const FunctionDef::Arg& arg, tensorflow::OpDef::ArgDef* proto) {
  proto->set_name(arg.name);
  proto->set_type(static_cast<tensorflow::DataType>(arg.type));
  proto->set_type_attr(arg.type_attr);
  proto->set_number_attr(arg.number_attr);
  proto->set_type_list_attr(arg.type_list_attr);
}

// What is known of it here, whatever the file had.
void KnownToProto(const FunctionDef& function, tensorflow::FunctionDef* proto) {
  auto* signature = proto->mutable_signature();
  signature->set_name(function.name);
  signature->set_description(function.description);
  signature->set_is_stateful(function.is_stateful);
  for (const auto& arg : function.inputs) ArgToProto(arg, signature->add_input_arg());
  for (const auto& arg : function.outputs) ArgToProto(arg, signature->add_output_arg());
  for (const AttrDef& def : function.attrs) {
    auto* attr = signature->add_attr();
    attr->set_name(def.name);
    attr->set_type(AttrKindName(def.kind));
    if (def.default_value) AttrToProto(*def.default_value, attr->mutable_default_value());
  }
  for (const auto& body : function.nodes) {
    auto* node = proto->add_node_def();
    node->set_name(body.name);
    node->set_op(body.op);
    node->set_device(body.device);
    for (const std::string& input : body.inputs) node->add_input(input);
    for (const auto& [name, value] : body.attrs) AttrToProto(value, &(*node->mutable_attr())[name]);
  }
  for (const auto& [name, value] : function.returns) (*proto->mutable_ret())[name] = value;
  for (const auto& [name, node] : function.control_returns) {
    signature->add_control_output(name);
    (*proto->mutable_control_ret())[name] = node;
  }
  for (const auto& [name, value] : function.labels) AttrToProto(value, &(*proto->mutable_attr())[name]);
}

}  // namespace

Result<FunctionDef> FunctionFromProto(const tensorflow::FunctionDef& proto, int64_t* budget) {
  FunctionDef function;
  function.name = proto.signature().name();
  function.description = proto.signature().description();
  function.is_stateful = proto.signature().is_stateful();
  for (const auto& arg : proto.signature().input_arg()) function.inputs.push_back(ArgFromProto(arg));
  for (const auto& arg : proto.signature().output_arg()) function.outputs.push_back(ArgFromProto(arg));
  for (const auto& attr : proto.signature().attr()) {
    AttrDef def;
    def.name = attr.name();
    def.kind = KindFromName(attr.type());
    if (attr.has_default_value()) {
      TENON_ASSIGN_OR_RETURN(def.default_value, AttrFromProto(attr.default_value(), budget));
    }
    function.attrs.push_back(std::move(def));
  }
  for (const auto& node : proto.node_def()) {
    FunctionDef::BodyNode body{node.name(), node.op(), node.device(), {node.input().begin(), node.input().end()}, {}};
    for (const auto& [name, value] : node.attr()) {
      auto attr = AttrFromProto(value, budget);
      if (!attr.ok())
        return Status(attr.status()).Annotate(StrCat("function '", function.name, "', node '", node.name(), "'"));
      body.attrs.emplace(name, *std::move(attr));
    }
    function.nodes.push_back(std::move(body));
  }
  function.returns = {proto.ret().begin(), proto.ret().end()};
  function.control_returns = {proto.control_ret().begin(), proto.control_ret().end()};
  for (const auto& [name, value] : proto.attr())  // those that nobody here can read stay in the bytes
    if (auto label = AttrFromProto(value, budget); label.ok()) function.labels.emplace(name, *std::move(label));
  return function;
}

bool WriteFunction(const FunctionDef& function, std::string* out) {
  if (!function.file_bytes.empty()) return out->assign(function.file_bytes), true;
  tensorflow::FunctionDef proto;
  KnownToProto(function, &proto);
  return WriteInOrder(proto, out);
}

// What cannot be written is the same as nothing else.
bool AreSameFunctions(const FunctionDef& a, const FunctionDef& b) {
  const auto write = [](const FunctionDef& function, std::string* out) {
    tensorflow::FunctionDef proto;
    KnownToProto(function, &proto);
    return WriteInOrder(proto, out);
  };
  std::string bytes_of_a, bytes_of_b;
  return write(a, &bytes_of_a) && write(b, &bytes_of_b) && bytes_of_a == bytes_of_b;
}

}  // namespace tenon::graph
