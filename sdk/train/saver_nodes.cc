// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/saver_nodes.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tenon/data/file.h"

namespace tenon::train {
namespace {

// Where shard `number` of `count` stands until it is merged; the op ShardedFilename gives the same for the part's prefix.
std::string PartPath(const std::string& parts_prefix, int32_t number, int32_t count) {
  char numbers[64];
  std::snprintf(numbers, sizeof(numbers), "-%05d-of-%05d", number, count);
  return parts_prefix + numbers;
}

}  // namespace

std::string TaskOfDevice(std::string_view device) {
  std::string task;
  while (!device.empty()) {
    device.remove_prefix(device.front() == '/' ? 1 : 0);
    const size_t end = std::min(device.find('/'), device.size());
    const std::string_view part = device.substr(0, end);
    device.remove_prefix(end);
    if (part.starts_with("job:") || part.starts_with("task:") || (part.starts_with("replica:") && part != "replica:0")) {
      task.append("/").append(part);
    }
  }
  return task;
}

std::vector<SaverNodes::Saved> SaverNodes::Choose(Model& model, const std::vector<SavedVariable>& variables) const {
  std::vector<Saved> chosen;
  for (const Variable& variable : model.variables()) {
    if (variables.empty()) chosen.push_back({&variable, variable.name});
  }
  for (const SavedVariable& wished : variables) {
    const auto found = std::find_if(model.variables().begin(), model.variables().end(),
                                    [&](const Variable& variable) { return variable.name == wished.variable; });
    if (found == model.variables().end()) {
      model.graph().Fail(Status(Code::kNotFound, "the model has no variable '" + wished.variable + "' to save or restore"));
      return {};
    }
    chosen.push_back({&*found, wished.name.empty() ? wished.variable : wished.name});
  }
  return chosen;
}

SaverNodes::SaverNodes(Model& model, const std::vector<SavedVariable>& variables, const std::string& step_variable, const std::vector<SavedValue>& beside) {
  Graph& graph = model.graph();
  auto scope = graph.Scope("save");
  std::vector<std::pair<std::string, Shard>> shards;  // by task, in the order of their first variables
  for (const Saved& saved : Choose(model, variables)) {
    const std::string task = TaskOfDevice(saved.variable->device);
    auto shard = std::find_if(shards.begin(), shards.end(), [&](const auto& other) { return other.first == task; });
    if (shard == shards.end()) shard = shards.emplace(shards.end(), task, Shard());
    shard->second.push_back(saved);
  }
  shards_ = shards.size();
  prefix_ = graph.Placeholder("prefix", DType::kString, Shape());
  if (shards_ > 1) {
    parts_prefix_ = graph.Placeholder("parts_prefix", DType::kString, Shape());
    parts_ = graph.Placeholder("parts", DType::kString, Shape{static_cast<int64_t>(shards_)});
  }
  for (size_t i = 0; i < shards_; ++i) {
    const auto on = graph.Device(shards[i].first);
    AddShard(graph, shards[i].second, static_cast<int32_t>(i), step_variable);
  }
  if (shards_ > 1) AddMerge(graph, shards[0].first);
  if (shards_ == 1 && !beside.empty()) AddBeside(graph, shards[0].second, beside);
  save_target_ = saves_.empty() ? std::string() : saves_.back().name();
  AddAssigns(graph, shards.empty() ? std::string() : shards[0].first);
}

void SaverNodes::AddShard(Graph& graph, const Shard& shard, int32_t number, const std::string& step_variable) {
  std::vector<std::string> names, slices(shard.size());
  std::vector<DType> dtypes;
  for (const Saved& saved : shard) {
    names.push_back(saved.name);
    dtypes.push_back(saved.variable->dtype);
  }
  const Output tensor_names = graph.StringConst(names, "tensor_names");
  const Output shape_and_slices = graph.StringConst(slices, "shape_and_slices");
  Output path = prefix_;
  if (shards_ > 1) {
    path = graph.Op("ShardedFilename", {parts_prefix_, graph.Const(number, "shard"), graph.Const(static_cast<int32_t>(shards_), "shards")},
                    {}, "part");
  }
  std::vector<Output> save_inputs = {path, tensor_names, shape_and_slices};
  for (const Saved& saved : shard) save_inputs.push_back(saved.variable->value);
  saves_.push_back(graph.AddNode("SaveV2", save_inputs, {{"dtypes", dtypes}}));
  const Operation restore = graph.AddNode("RestoreV2", {prefix_, tensor_names, shape_and_slices}, {{"dtypes", dtypes}});
  for (size_t i = 0; i < shard.size(); ++i) {
    const Variable& variable = *shard[i].variable;
    const Output value = restore.output(static_cast<int32_t>(i));
    restored_.emplace_back(&variable, value);
    if (variable.name == step_variable && variable.dtype == DType::kInt64) restored_step_ = value;
  }
  restores_.push_back(restore);
}

void SaverNodes::AddBeside(Graph& graph, const Shard& shard, const std::vector<SavedValue>& beside) {
  std::vector<std::string> names;
  std::vector<DType> dtypes;
  std::vector<Output> values;
  const auto add = [&](const std::string& name, const Output& value, DType dtype) {
    names.push_back(name);
    dtypes.push_back(dtype);
    values.push_back(value);
  };
  for (const Saved& saved : shard) add(saved.name, saved.variable->value, saved.variable->dtype);
  for (const SavedValue& one : beside) add(one.name, one.value, one.value.dtype());
  std::vector<Output> inputs = {prefix_, graph.StringConst(names, "all_names"), graph.StringConst(std::vector<std::string>(names.size()), "all_slices")};
  inputs.insert(inputs.end(), values.begin(), values.end());
  beside_target_ = graph.AddNode("SaveV2", inputs, {{"dtypes", dtypes}}, "with_beside").name();
}

// No variable changes before all tasks have read theirs.
void SaverNodes::AddAssigns(Graph& graph, const std::string& task) {
  Operation all_read;
  {
    const auto on = graph.Device(task);
    all_read = Group(graph, restores_, "all_read");
  }
  std::vector<Operation> assigns;
  {
    const auto after = graph.ControlDependencies({all_read});
    for (const auto& [variable, value] : restored_) {
      const auto on = graph.Device(variable->device);
      assigns.push_back(graph.AddNode(variable->reference ? "Assign" : "AssignVariableOp", {variable->handle, value}, {{variable->reference ? "T" : "dtype", variable->dtype}}));
    }
  }
  restore_target_ = Group(graph, assigns, "restore_all").name();
}

void SaverNodes::AddMerge(Graph& graph, const std::string& task) {
  const auto on = graph.Device(task);
  const auto after = graph.ControlDependencies(saves_);
  saves_.push_back(graph.AddNode("MergeV2Checkpoints", {parts_, prefix_}, {{"delete_old_dirs", true}}));
}

Status SaverNodes::Save(const Session& session, const std::string& prefix, const std::string& temporary) const {
  if (shards_ == 0) return Status(Code::kFailedPrecondition, "the model has no variables to save");
  TENON_TRY_ASSIGN(const Tensor prefix_value, Tensor::String(prefix));
  if (shards_ == 1) return session.RunTargets({save_target_}, {{prefix_, prefix_value}});
  const std::string parts_prefix = data::JoinPath(temporary, "part");
  std::vector<std::string> parts;
  for (size_t i = 0; i < shards_; ++i) parts.push_back(PartPath(parts_prefix, static_cast<int32_t>(i), static_cast<int32_t>(shards_)));
  TENON_TRY_ASSIGN(const Tensor parts_prefix_value, Tensor::String(parts_prefix));
  TENON_TRY_ASSIGN(const Tensor parts_value, Tensor::Strings(parts, Shape{static_cast<int64_t>(shards_)}));
  return session.RunTargets({save_target_}, {{prefix_, prefix_value}, {parts_prefix_, parts_prefix_value}, {parts_, parts_value}});
}

Status SaverNodes::SaveWithBeside(const Session& session, const std::string& prefix, std::vector<host::Feed> feeds) const {
  TENON_TRY_ASSIGN(const Tensor prefix_value, Tensor::String(prefix));
  feeds.push_back({prefix_, prefix_value});
  return session.RunTargets({beside_target_}, feeds);
}

Result<std::optional<int64_t>> SaverNodes::Restore(const Session& session, const std::string& prefix) const {
  TENON_TRY_ASSIGN(const Tensor prefix_value, Tensor::String(prefix));
  if (!restored_step_.valid()) {
    TENON_TRY(session.RunTargets({restore_target_}, {{prefix_, prefix_value}}));
    return std::optional<int64_t>();
  }
  TENON_TRY_ASSIGN(const std::vector<Tensor> values, session.Run({{prefix_, prefix_value}}, {restored_step_}, {restore_target_}));
  if (values[0].element_count() != 1) return Status(Code::kDataLoss, "the checkpoint's step is no single number");
  return std::optional<int64_t>(values[0].scalar<int64_t>(-1));
}

}  // namespace tenon::train
