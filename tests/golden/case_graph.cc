// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/case_graph.h"

#include <algorithm>
#include <map>
#include <utility>

namespace tenon::golden {

using host::Attrs;
using host::Graph;
using host::Operation;
using host::Output;
using host::Result;
using host::Shape;
using host::Status;
using host::Tensor;
using host::View;

Result<std::vector<Tensor>> TensorsFrom(const Json& list) {
  std::vector<Tensor> tensors;
  for (const Json& one : list) {
    if (one.is_null() || one.is_string()) {
      tensors.emplace_back();
      continue;
    }
    TENON_TRY_ASSIGN(Tensor tensor, TensorFrom(one));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

namespace {

class Maker {
 public:
  Maker(CaseGraph& made, const Json& one, InputsAs how) : made_(made), graph_(made.graph), one_(one), how_(how) {}

  Status Make() {
    const Json none = Json::array();
    for (const Json& node : one_.contains("before") ? one_["before"] : none) {
      TENON_TRY_ASSIGN(const auto values, TensorsFrom(node["in"]));
      TENON_TRY_ASSIGN(const Operation added, Add(node, values, node["name"].get<std::string>()));
      named_.insert_or_assign(node["name"].get<std::string>(), added);
    }
    TENON_TRY_ASSIGN(made_.values, TensorsFrom(one_["in"]));
    main_ = true;
    TENON_TRY_ASSIGN(made_.node, Add(one_, made_.values, "node"));
    return Status();
  }

 private:
  Result<Operation> Add(const Json& node, const std::vector<Tensor>& values, const std::string& name) {
    std::vector<Output> inputs;
    std::vector<Operation> waits;
    for (size_t i = 0; i < values.size(); ++i) {
      const Json& text = node["in"][i];
      if (!text.is_string()) inputs.push_back(Input(i, values[i], name));
      else if (text.get<std::string>().starts_with("^")) waits.push_back(named_[text.get<std::string>().substr(1)]);
      else inputs.push_back(Named(text.get<std::string>()));
    }
    Attrs attrs;
    for (const auto& [key, value] : node["attrs"].items()) {
      TENON_TRY_ASSIGN(host::Attr attr, AttrFrom(key, value));
      attrs.push_back(std::move(attr));
    }
    const auto order = graph_.ControlDependencies(waits);
    return graph_.AddNode(node["op"].get<std::string>(), inputs, attrs, name);
  }
  // "name" or "name:1", of what stands before.
  Output Named(const std::string& text) {
    const size_t colon = text.find(':');
    const auto found = named_.find(text.substr(0, colon));
    if (found == named_.end()) return Output();
    return found->second.output(colon == std::string::npos ? 0 : std::stoi(text.substr(colon + 1)));
  }

  bool Lists(const char* key, size_t number) const {
    const auto found = one_.find(key);
    return found != one_.end() && std::find(found->begin(), found->end(), number) != found->end();
  }
  Output Input(size_t i, const Tensor& value, const std::string& owner) {
    const std::string name = main_ ? "input" + std::to_string(i) : owner + "_input" + std::to_string(i);
    const auto variables = one_.find("vars");
    if (main_ && variables != one_.end() && variables->contains(std::to_string(i)))
      return Variable(i, value, (*variables)[std::to_string(i)] == "resource");
    if (how_ == InputsAs::kConstants || (how_ == InputsAs::kWritten && main_ && Lists("const", i)) ||
        Lists("always_const", i))
      return graph_.Const(View(value), name);
    made_.feeds.push_back({name, value});
    const bool blind = how_ == InputsAs::kBlindFeeds || (how_ == InputsAs::kWritten && one_.value("blind", false));
    return graph_.Placeholder(name, value.dtype(), blind ? Shape::Unknown() : value.shape());
  }
  Output Variable(size_t i, const Tensor& value, bool resource) {
    const std::string name = "variable" + std::to_string(i);
    const Output initial = graph_.Const(View(value));
    const Attrs attrs = {{"dtype", value.dtype()}, {"shape", value.shape()}, {"shared_name", name}};
    const Output variable = graph_.Op(resource ? "VarHandleOp" : "VariableV2", {}, attrs, name);
    const Operation assign = graph_.AddNode(resource ? "AssignVariableOp" : "Assign", {variable, initial});
    if (!Lists("unset", i)) made_.initializers.push_back(assign);
    made_.readers.push_back(resource ? graph_.Op("ReadVariableOp", {variable}, {{"dtype", value.dtype()}})
                                     : graph_.Op("Identity", {variable}));
    return variable;
  }

  CaseGraph& made_;
  Graph& graph_;
  const Json& one_;
  const InputsAs how_;
  bool main_ = false;
  std::map<std::string, Operation> named_;
};

}  // namespace

Result<CaseGraph> MakeCaseGraph(const host::Runtime& runtime, const Json& one, InputsAs how) {
  CaseGraph made(runtime);
  TENON_TRY(Maker(made, one, how).Make());
  return made;
}

}  // namespace tenon::golden
