// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/model.h"

#include <cmath>

namespace tenon::train {

Initializer Initializer::He(int64_t fan_in) {
  return TruncatedNormal(std::sqrt(2.0f / static_cast<float>(fan_in > 0 ? fan_in : 1)));
}

const Variable* Model::Find(std::string_view name) const {
  const std::string own = Scoped(name);
  for (const Variable& variable : variables_) {
    if (variable.name == own && !variable.adopted) return &variable;
  }
  return nullptr;
}

Output Model::InitialValue(const Shape& shape, const Initializer& initializer) {
  Output dims = graph_.Const(shape.dims(), Shape{shape.rank()}, "initial/shape");
  if (initializer.kind == Initializer::Kind::kConstant) {
    return graph_.Op("Fill", {dims, graph_.Const(initializer.value, "initial/value")}, {}, "initial/fill");
  }
  Output normal = graph_.Op(
      "TruncatedNormal", {dims},
      {{"dtype", DType::kFloat}, {"seed", static_cast<int64_t>(seed_ & 0x7fffffff) + 1}, {"seed2", ++random_count_}},
      "initial/normal");
  return graph_.Op("Mul", {normal, graph_.Const(initializer.value, "initial/deviation")}, {}, "initial/scaled");
}

const Variable& Model::Make(std::string_view name, DType dtype, const Shape& shape, bool trainable, Output initial,
                            std::string_view device) {
  Variable variable{Scoped(name), dtype, shape, trainable, {}, {}, {}, std::string(device)};
  if (device.empty() && !replica_device_.empty()) variable.device = replica_device_;
  else if (device.empty() && !variable_devices_.empty())
    variable.device = variable_devices_[variables_.size() % variable_devices_.size()];
  const auto on = graph_.Device(variable.device);
  variable.handle =
      graph_.Op("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}, {"shared_name", variable.name}}, name);
  variable.initial =
      graph_.AddNode("AssignVariableOp", {variable.handle, initial}, {{"dtype", dtype}}, std::string(name) + "/Assign");
  variable.value = graph_.Op("ReadVariableOp", {variable.handle}, {{"dtype", dtype}}, std::string(name) + "/Read");
  static const Variable none;
  return graph_.status().ok() ? variables_.emplace_back(std::move(variable)) : none;  // half a variable is none
}

const Variable& Model::Adopt(const Operation& node, DType dtype, const Shape& shape, bool trainable,
                             std::string_view device) {
  Variable variable{node.name(), dtype, shape, trainable, node, node, {}, std::string(device)};
  variable.adopted = true;
  variable.reference = node.op() != "VarHandleOp";
  if (!variable.reference) {
    const auto on = graph_.Device(variable.device);
    variable.value = graph_.Op("ReadVariableOp", {variable.handle}, {{"dtype", dtype}}, variable.name + "/Read");
  }
  return variables_.emplace_back(std::move(variable));
}

void Model::BeginReplica(int64_t replica, std::string_view device) {
  replica_ = replica;
  replica_device_ = device;
}
void Model::EndReplicas() { BeginReplica(0, ""); }

const Variable& Model::Mirror(std::string_view name, const Shape& shape) {
  const std::string prefix = "replica_" + std::to_string(replica_) + "/";
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());  // a slot of a mirror
  const std::string own = prefix + std::string(name);
  for (const MirrorOf& mirror : mirrors_) {
    if (mirror.variable.name == own) return mirror.variable;
  }
  static const Variable none;
  const Variable* const original = Find(name);
  const bool fits = original != nullptr && original->shape == shape && !original->rows;
  if (!fits) {
    graph_.Fail(Status(Code::kInvalidArgument,
                       "replica " + std::to_string(replica_) + " asks for a variable '" + std::string(name) + "' " +
                           shape.ToString() + ", which replica 0 has not; make the same ones for replica 0 first"));
    return none;
  }
  Variable variable = *original;
  variable.name = own;
  variable.device = replica_device_;
  variable.initial = Operation();
  const auto on = graph_.Device(variable.device);
  variable.handle =
      graph_.Op("VarHandleOp", {}, {{"dtype", variable.dtype}, {"shape", shape}, {"shared_name", own}}, own);
  variable.value = graph_.Op("ReadVariableOp", {variable.handle}, {{"dtype", variable.dtype}}, own + "/Read");
  return mirrors_.emplace_back(MirrorOf{std::move(variable), original, replica_}).variable;
}

void Model::SetPart(const Variable& variable, TablePart part) {
  part.table = Scoped(part.table);
  for (Variable& own : variables_)
    if (&own == &variable) own.part = std::move(part);
}

Operation Model::CopyToMirrors() {
  std::vector<Operation> all;
  for (const MirrorOf& mirror : mirrors_) {
    const auto on = graph_.Device(mirror.variable.device);
    all.push_back(graph_.AddNode("AssignVariableOp", {mirror.variable.handle, mirror.original->value},
                                 {{"dtype", mirror.variable.dtype}}, mirror.variable.name + "/Assign"));
  }
  return all.empty() ? Operation() : Group(graph_, all, "copy_to_mirrors");
}

const Variable& Model::Weight(std::string_view name, const Shape& shape, const Initializer& initializer,
                              std::string_view device) {
  if (replica_ > 0) return Mirror(name, shape);
  if (const Variable* known = Find(name)) {
    if (known->shape != shape) {
      graph_.Fail(Status(Code::kInvalidArgument, "variable '" + std::string(name) + "' has shape " +
                                                     known->shape.ToString() + " and is asked for with " +
                                                     shape.ToString()));
    }
    return *known;
  }
  return Make(name, DType::kFloat, shape, true, InitialValue(shape, initializer), device);
}

const Variable& Model::State(std::string_view name, const Shape& shape, float initial, std::string_view device) {
  if (replica_ > 0) return Mirror(name, shape);
  if (const Variable* known = Find(name)) return *known;
  return Make(name, DType::kFloat, shape, false, InitialValue(shape, Initializer::Constant(initial)), device);
}

const Variable& Model::Rows(std::string_view name, const Shape& shape, const Initializer& initializer,
                            std::string_view device) {
  if (const Variable* known = Find(name)) return *known;
  if (replica_ > 0) return Mirror(name, shape);
  const Variable& made = Make(name, DType::kFloat, shape, true, InitialValue(shape, initializer), device);
  if (!graph_.status().ok()) return made;
  variables_.back().rows = true;
  return variables_.back();
}

const Variable& Model::Counter(std::string_view name) {
  if (const Variable* known = Find(name)) return *known;
  return Make(name, DType::kInt64, Shape(), false, graph_.Const(int64_t{0}, "initial/zero"));
}

std::vector<const Variable*> Model::trainable(int64_t replica) const {
  std::vector<const Variable*> found;
  for (const MirrorOf& mirror : mirrors_) {
    if (mirror.replica == replica && mirror.variable.trainable) found.push_back(&mirror.variable);
  }
  if (replica > 0) return found;
  for (const Variable& variable : variables_) {
    if (variable.trainable) found.push_back(&variable);
  }
  return found;
}

int64_t Model::parameter_count() const {
  int64_t count = 0;
  for (const Variable* variable : trainable()) count += variable->shape.element_count();
  return count;
}

Operation Model::InitializeAll() {
  std::vector<Operation> all;
  for (const Variable& variable : variables_) {
    if (variable.initial.valid()) all.push_back(variable.initial);
  }
  return Group(graph_, all, "init");
}

Output Model::Dense(std::string_view name, Output x, int64_t inputs, int64_t units, const Initializer& initializer) {
  const std::string scope(name);
  const Variable& kernel = Weight(scope + "/kernel", {inputs, units}, initializer);
  const Variable& bias = Weight(scope + "/bias", {units}, Initializer::Constant(0));
  Output product = graph_.Op("MatMul", {x, kernel.value}, {}, scope + "/MatMul");
  return graph_.Op("BiasAdd", {product, bias.value}, {}, scope + "/BiasAdd");
}

Output Model::Conv2D(std::string_view name, Output x, int64_t size, int64_t inputs, int64_t filters,
                     const Initializer& initializer) {
  const std::string scope(name);
  const Variable& kernel = Weight(scope + "/kernel", {size, size, inputs, filters}, initializer);
  const Variable& bias = Weight(scope + "/bias", {filters}, Initializer::Constant(0));
  Output product =
      graph_.Op("Conv2D", {x, kernel.value}, {{"strides", {1, 1, 1, 1}}, {"padding", "SAME"}}, scope + "/Conv2D");
  return graph_.Op("BiasAdd", {product, bias.value}, {}, scope + "/BiasAdd");
}

Output Model::MaxPool(Output x, int64_t size) {
  return graph_.Op("MaxPool", {x},
                   {{"ksize", {1, size, size, 1}}, {"strides", {1, size, size, 1}}, {"padding", "VALID"}});
}

Operation Group(Graph& graph, const std::vector<Operation>& operations, std::string_view name) {
  auto after = graph.ControlDependencies(operations);
  return graph.AddNode("NoOp", {}, {}, name);
}

Output SparseSoftmaxLoss(Graph& graph, Output logits, Output labels) {
  auto scope = graph.Scope("loss");
  Operation entropy = graph.AddNode("SparseSoftmaxCrossEntropyWithLogits", {logits, labels});
  return graph.Op("Mean", {entropy.output(0), graph.Const({0}, "axis")});
}

Output Accuracy(Graph& graph, Output logits, Output labels) {
  auto scope = graph.Scope("accuracy");
  Output best = graph.Op("ArgMax", {logits, graph.Const(1, "axis")}, {{"output_type", DType::kInt64}});
  Output right = graph.Op("Equal", {best, graph.Op("Cast", {labels}, {{"DstT", DType::kInt64}})});
  return graph.Op("Mean", {graph.Op("Cast", {right}, {{"DstT", DType::kFloat}}), graph.Const({0}, "axes")});
}

}  // namespace tenon::train
