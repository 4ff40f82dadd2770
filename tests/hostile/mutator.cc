// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/mutator.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>

#include "tests/engine/graph_mutator.h"
#include "tests/hostile/value_mutator.h"

namespace tenon::hostile {

using tensorflow::AttrValue;
using tensorflow::FunctionDef;
using tensorflow::GraphDef;
using tensorflow::NodeDef;

namespace {

using Nodes = google::protobuf::RepeatedPtrField<NodeDef>;

std::string Serialized(const GraphDef& graph) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    graph.SerializePartialToCodedStream(&out);
  }
  return bytes;
}

template <typename Map>
std::vector<std::string> KeysOf(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : map) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

// Where an edit takes place: the graph, or the body of a function.
class Edit {
 public:
  Edit(GraphDef& graph, const std::vector<std::string>& ops, Dice& dice) : graph_(graph), ops_(ops), dice_(dice) {
    for (const FunctionDef& function : graph.library().function()) functions_.push_back(function.signature().name());
    const size_t count = functions_.size();
    if (count > 0 && !dice.OneIn(2))
      function_ = graph.mutable_library()->mutable_function(static_cast<int>(dice.Under(count)));
    nodes_ = function_ != nullptr ? function_->mutable_node_def() : graph.mutable_node();
  }

  std::string Apply() {
    switch (dice_.Under(27)) {
      case 0: case 1: case 2: case 3: case 4: case 5: return ChangeAttr();
      case 6: case 7: case 8: case 9: return ChangeConstant();
      case 10: case 11: return Rewire();
      case 12: return AddOrDropInput();
      case 13: return SwapInputs();
      case 14: return ChangeOp();
      case 15: return CopyNode();
      case 16: return DropNode();
      case 17: return OtherName();
      case 18: return DropOrCopyAttr();
      case 19: case 20: return RetypeAll();
      case 21: return Reorder();
      case 22: return function_ != nullptr ? ChangeSignature() : ChangeVersions();
      case 24: return function_ != nullptr ? AskForGradient() : PassThroughConditionals();
      case 25: return AskForGradient();
      case 26: return RenameEverywhere();
      default: return function_ != nullptr ? ChangeLibrary() : Device();
    }
  }

 private:
  NodeDef* AnyNode() {
    return nodes_->empty() ? nullptr
                           : nodes_->Mutable(static_cast<int>(dice_.Under(static_cast<size_t>(nodes_->size()))));
  }
  NodeDef* AnyNodeWithInput() {
    for (int tries = 0; tries < 8; ++tries)
      if (NodeDef* node = AnyNode(); node != nullptr && node->input_size() > 0) return node;
    return nullptr;
  }
  int AnyInputOf(const NodeDef& node) { return static_cast<int>(dice_.Under(static_cast<size_t>(node.input_size()))); }
  static std::string Of(const NodeDef& node) { return node.op() + " '" + node.name() + "': "; }

  // Another edge's source, or a name made up.
  std::string AnySource() {
    const NodeDef* node = AnyNode();
    switch (dice_.Under(10)) {
      case 0: return dice_.OddText();
      case 1: return "^" + node->name();
      case 2: return node->name() + ":" + std::to_string(dice_.OddInt());
      case 3:
        if (function_ != nullptr && function_->signature().input_arg_size() > 0)
          return function_->signature()
              .input_arg(static_cast<int>(dice_.Under(static_cast<size_t>(function_->signature().input_arg_size()))))
              .name();
        [[fallthrough]];
      case 4: case 5: return node->name() + (function_ != nullptr ? ":output:0" : ":" + std::to_string(dice_.Under(3)));
      default: {
        const NodeDef* reader = AnyNodeWithInput();
        return reader == nullptr ? node->name() : reader->input(AnyInputOf(*reader));
      }
    }
  }

  std::string ChangeAttr() {
    NodeDef* node = AnyNode();
    if (node == nullptr || node->attr().empty()) return {};
    const std::string key = dice_.AnyOf(KeysOf(node->attr()));
    MutateAttr(dice_, functions_, &(*node->mutable_attr())[key]);
    return Of(*node) + "attribute " + key + " changed";
  }
  std::string ChangeConstant() {
    std::vector<NodeDef*> constants;
    for (NodeDef& node : *nodes_)
      if (const auto value = node.attr().find("value"); value != node.attr().end() && value->second.has_tensor())
        constants.push_back(&node);
    if (constants.empty()) return ChangeAttr();
    NodeDef* node = dice_.AnyOf(constants);
    auto& attrs = *node->mutable_attr();
    MutateTensor(dice_, attrs["value"].mutable_tensor());
    if (dice_.OneIn(2)) attrs["dtype"].set_type(attrs["value"].tensor().dtype());
    return Of(*node) + "its tensor changed";
  }
  std::string Rewire() {
    NodeDef* node = AnyNodeWithInput();
    if (node == nullptr) return ChangeConstant();
    const int at = AnyInputOf(*node);
    node->set_input(at, AnySource());
    return Of(*node) + "input " + std::to_string(at) + " is " + node->input(at).substr(0, 60);
  }
  std::string AddOrDropInput() {
    NodeDef* node = AnyNodeWithInput();
    if (node == nullptr) return {};
    if (dice_.OneIn(2)) node->add_input(AnySource());
    else node->mutable_input()->DeleteSubrange(AnyInputOf(*node), 1);
    return Of(*node) + "has " + std::to_string(node->input_size()) + " inputs";
  }
  std::string SwapInputs() {
    NodeDef* node = AnyNodeWithInput();
    NodeDef* other = dice_.OneIn(3) ? AnyNodeWithInput() : node;
    if (node == nullptr || other == nullptr) return {};
    const int a = AnyInputOf(*node), b = AnyInputOf(*other);
    const std::string input = node->input(a);
    node->set_input(a, other->input(b));
    other->set_input(b, input);
    return Of(*node) + "an input swapped with one of " + other->name();
  }
  std::string ChangeOp() {
    NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    const std::string was = Of(*node);
    if (dice_.OneIn(2)) node->set_op(AnyNode()->op());
    else node->set_op(dice_.AnyOf(ops_));
    return was + "is " + node->op();
  }
  std::string CopyNode() {
    const NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    const NodeDef copy = *node;
    NodeDef* added = nodes_->Add();
    *added = copy;
    if (!dice_.OneIn(3)) added->set_name(copy.name() + "_copy");
    return Of(copy) + "copied as " + added->name();
  }
  std::string DropNode() {
    if (nodes_->empty()) return {};
    const int at = static_cast<int>(dice_.Under(static_cast<size_t>(nodes_->size())));
    const std::string text = Of(nodes_->Get(at)) + "dropped";
    nodes_->DeleteSubrange(at, 1);
    return text;
  }
  std::string OtherName() {
    NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    const std::string was = Of(*node);
    node->set_name(dice_.OneIn(2) ? AnyNode()->name() : dice_.OddText());
    return was + "renamed to " + node->name().substr(0, 60);
  }
  std::string DropOrCopyAttr() {
    NodeDef *node = AnyNode(), *other = AnyNode();
    if (node == nullptr || other->attr().empty()) return {};
    const std::string key = dice_.AnyOf(KeysOf(other->attr()));
    if (dice_.OneIn(2)) {
      other->mutable_attr()->erase(key);
      return Of(*other) + "attribute " + key + " dropped";
    }
    const AttrValue value = other->attr().at(key);
    (*node->mutable_attr())[key] = value;
    return Of(*node) + "attribute " + key + " of " + other->name();
  }
  std::string Reorder() {
    for (int i = nodes_->size() - 1; i > 0; --i)
      nodes_->SwapElements(i, static_cast<int>(dice_.Under(static_cast<size_t>(i) + 1)));
    return "nodes in another order";
  }
  std::string Device() {
    static const std::string devices[] = {
        "/device:CPU:0", "/cpu:0",   "/device:GPU:0", "/job:worker/task:1", "/device:CPU:99999999999", "//",
        "CPU",           "/device:", "/job:a/job:b"};
    NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    node->set_device(dice_.AnyOf(devices));
    return Of(*node) + "on " + node->device();
  }
  std::string ChangeVersions() {
    auto* versions = graph_.mutable_versions();
    switch (dice_.Under(3)) {
      case 0: versions->set_producer(static_cast<int32_t>(dice_.OddInt())); break;
      case 1: versions->set_min_consumer(static_cast<int32_t>(dice_.OddInt())); break;
      default: versions->add_bad_consumers(static_cast<int32_t>(dice_.OddInt()));
    }
    return "other versions";
  }

  // What reads the node reads it behind conditionals in a row, each of which gives on what it got.
  std::string PassThroughConditionals() {
    NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    auto type = tensorflow::DT_FLOAT;
    for (const char* key : {"T", "dtype"})
      if (const auto it = node->attr().find(key); it != node->attr().end()) type = it->second.type();
    const std::string name = node->name(), prefix = name + "_if";
    const size_t count = 1 + dice_.Under(dice_.OneIn(4) ? 64 : 6);
    const auto add = [&](const std::string& as, const char* op, std::initializer_list<std::string> inputs) {
      NodeDef* added = nodes_->Add();
      added->set_name(as);
      added->set_op(op);
      for (const std::string& input : inputs) added->add_input(input);
      (*added->mutable_attr())["T"].set_type(type);
      return added;
    };
    NodeDef* predicate = nodes_->Add();
    predicate->set_name(prefix);
    predicate->set_op("Const");
    (*predicate->mutable_attr())["dtype"].set_type(tensorflow::DT_BOOL);
    auto* tensor = (*predicate->mutable_attr())["value"].mutable_tensor();
    tensor->set_dtype(tensorflow::DT_BOOL);
    tensor->mutable_tensor_shape();
    tensor->add_bool_val(dice_.OneIn(2));
    std::string last = name;
    for (size_t i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      add(prefix + "_switch" + n, "Switch", {last, prefix});
      (*add(prefix + "_merge" + n, "Merge", {prefix + "_switch" + n, prefix + "_switch" + n + ":1"})
            ->mutable_attr())["N"]
          .set_i(2);
      last = prefix + "_merge" + n;
    }
    for (NodeDef& reader : *nodes_)
      if (!reader.name().starts_with(prefix))
        for (std::string& input : *reader.mutable_input())
          if (input == name || input == name + ":0") input = last;
    return Of(*node) + "is read behind " + std::to_string(count) + " conditionals";
  }
  // A node becomes the gradient of a function, its own too.
  std::string AskForGradient() {
    NodeDef* node = AnyNode();
    if (node == nullptr || functions_.empty()) return {};
    const std::string was = Of(*node);
    auto type = tensorflow::DT_FLOAT;
    if (const auto it = node->attr().find("T"); it != node->attr().end()) type = it->second.type();
    node->set_op("SymbolicGradient");
    node->mutable_attr()->clear();
    if (node->input_size() > 0 && dice_.OneIn(2)) {
      const std::string again = node->input(0);
      node->add_input(again);
    }
    for (int i = 0; i < node->input_size(); ++i)
      if (!node->input(i).starts_with("^")) (*node->mutable_attr())["Tin"].mutable_list()->add_type(type);
    (*node->mutable_attr())["Tout"].mutable_list()->add_type(type);
    const std::string function =
        function_ != nullptr && dice_.OneIn(2) ? function_->signature().name() : dice_.AnyOf(functions_);
    (*node->mutable_attr())["f"].mutable_func()->set_name(function);
    return was + "is the gradient of " + function;
  }
  // A name that holds what separates names elsewhere, or that is long, wherever it stands.
  std::string RenameEverywhere() {
    static const std::string odd[] = {"a,b",
                                      "a;b",
                                      "a:0",
                                      "a\x01"
                                      "b",
                                      "^a",
                                      "a b",
                                      "",
                                      ",",
                                      "loc:@a",
                                      std::string(3000, 'n')};
    NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    const std::string was = node->name(), now = dice_.AnyOf(odd);
    node->set_name(now);
    for (NodeDef& reader : *nodes_)
      for (std::string& input : *reader.mutable_input()) {
        const std::string head = input.substr(0, input.find(':'));
        if (head == was) input = now + input.substr(head.size());
        else if (head == "^" + was) input = "^" + now + input.substr(head.size());
      }
    return "'" + was + "' renamed to '" + now.substr(0, 60) + "', wherever it is read";
  }

  // All that is of one type becomes of another: graphs that are sound in a type that they were not written for.
  std::string RetypeAll() {
    static constexpr int types[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 17, 18, 19, 22, 23};
    const NodeDef* node = AnyNode();
    if (node == nullptr) return {};
    int from = tensorflow::DT_FLOAT;
    for (const std::string& key : KeysOf(node->attr()))
      if (node->attr().at(key).value_case() == AttrValue::kType) from = node->attr().at(key).type();
    const int to = dice_.AnyOf(types);
    for (NodeDef& each : *graph_.mutable_node()) RetypeNode(each, from, to);
    for (FunctionDef& function : *graph_.mutable_library()->mutable_function()) {
      for (NodeDef& each : *function.mutable_node_def()) RetypeNode(each, from, to);
      for (auto* arguments :
           {function.mutable_signature()->mutable_input_arg(), function.mutable_signature()->mutable_output_arg()})
        for (auto& argument : *arguments)
          if (argument.type() == from) argument.set_type(static_cast<tensorflow::DataType>(to));
    }
    return "all of type " + std::to_string(from) + " is of type " + std::to_string(to);
  }
  void RetypeNode(NodeDef& node, int from, int to) {
    const auto type = static_cast<tensorflow::DataType>(to);
    for (const std::string& key : KeysOf(node.attr())) {
      AttrValue& attr = (*node.mutable_attr())[key];
      if (attr.value_case() == AttrValue::kType && attr.type() == from) attr.set_type(type);
      if (attr.has_tensor() && attr.tensor().dtype() == from) Retype(dice_, to, attr.mutable_tensor());
      if (!attr.has_list()) continue;
      for (int i = 0; i < attr.list().type_size(); ++i)
        if (attr.list().type(i) == from) attr.mutable_list()->set_type(i, type);
    }
  }

  std::string ChangeSignature() {
    auto* signature = function_->mutable_signature();
    auto* arguments = dice_.OneIn(2) ? signature->mutable_input_arg() : signature->mutable_output_arg();
    const std::string text = "function " + signature->name() + ": ";
    if (arguments->empty() || dice_.OneIn(5)) {
      auto* argument = arguments->Add();
      argument->set_name("more");
      argument->set_type(tensorflow::DT_FLOAT);
      return text + "one more argument";
    }
    const int at = static_cast<int>(dice_.Under(static_cast<size_t>(arguments->size())));
    switch (dice_.Under(4)) {
      case 0: arguments->DeleteSubrange(at, 1); return text + "an argument dropped";
      case 1:
        arguments->Mutable(at)->set_type(static_cast<tensorflow::DataType>(dice_.OddType()));
        return text + "an argument of another type";
      case 2: arguments->Mutable(at)->set_name(dice_.OddText()); return text + "an argument renamed";
      default: arguments->SwapElements(at, 0); return text + "arguments swapped";
    }
  }
  std::string ChangeLibrary() {
    auto* library = graph_.mutable_library();
    const std::string text = "function " + function_->signature().name() + ": ";
    switch (dice_.Under(6)) {
      case 0: function_->mutable_signature()->set_name(dice_.AnyOf(functions_)); return text + "renamed";
      case 1: {
        if (function_->ret().empty()) return {};
        (*function_->mutable_ret())[dice_.AnyOf(KeysOf(function_->ret()))] =
            AnyNode() == nullptr ? dice_.OddText() : AnySource();
        return text + "another result";
      }
      case 2:
        (*function_->mutable_control_ret())[dice_.OddText()] = AnyNode() == nullptr ? "" : AnyNode()->name();
        return text + "a control result";
      case 3: {
        auto* gradient = library->add_gradient();
        gradient->set_function_name(dice_.AnyOf(functions_));
        gradient->set_gradient_func(dice_.AnyOf(functions_));
        return "a gradient of " + gradient->function_name() + " by " + gradient->gradient_func();
      }
      case 4: {
        const FunctionDef copy = *function_;
        *library->add_function() = copy;
        return text + "there twice";
      }
      default: {  // calls itself or another
        NodeDef* node = AnyNode();
        if (node == nullptr) return {};
        node->set_op(dice_.AnyOf(functions_));
        return text + "node '" + node->name() + "' calls " + node->op();
      }
    }
  }

  GraphDef& graph_;
  const std::vector<std::string>& ops_;
  Dice& dice_;
  FunctionDef* function_ = nullptr;  // null: the graph
  Nodes* nodes_ = nullptr;
  std::vector<std::string> functions_;
};

void DamageBytes(Dice& dice, std::string* bytes) {
  for (size_t edits = 1 + dice.Under(3); edits > 0 && !bytes->empty(); --edits) {
    const size_t at = dice.Under(bytes->size());
    if (dice.OneIn(5)) bytes->resize(at);
    else (*bytes)[at] = static_cast<char>(dice.Bits());
  }
}

}  // namespace

Damage Mutator::Make(std::string_view good, Dice& dice) const {
  const google::protobuf::LogSilencer silence;  // of texts that are no UTF-8: on purpose
  Damage damage;
  if (dice.OneIn(16)) {  // field by field, whatever the messages mean
    engine::GraphMutator fields(engine::wire::Read(engine::Kind::kGraph, good), ops_);
    damage.bytes = fields.Make(dice.Bits(), &damage.nodes);
    damage.edits.push_back("fields of the wire format");
    return damage;
  }
  GraphDef graph;
  graph.ParsePartialFromArray(good.data(), static_cast<int>(good.size()));
  const size_t edits = dice.OneIn(2) ? 1 : 1 + dice.Under(4);
  for (size_t i = 0; i < edits; ++i)
    if (std::string text = Edit(graph, ops_, dice).Apply(); !text.empty()) damage.edits.push_back(std::move(text));
  for (const NodeDef& node : graph.node()) damage.nodes.push_back(node.name());
  damage.bytes = Serialized(graph);
  if (!dice.OneIn(16)) return damage;
  DamageBytes(dice, &damage.bytes);
  damage.edits.push_back("bytes");
  return damage;
}

}  // namespace tenon::hostile
