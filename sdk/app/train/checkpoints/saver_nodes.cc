// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/saver_nodes.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "tenon/data/file.h"

namespace tenon::train {
namespace {

// Where shard `number` of `count` stands until it is merged; the op ShardedFilename gives the same for the part's
// prefix.
std::string PartPath(const std::string& parts_prefix, int32_t number, int32_t count) {
  char numbers[64];
  std::snprintf(numbers, sizeof(numbers), "-%05d-of-%05d", number, count);
  return parts_prefix + numbers;
}

std::vector<const Variable*> PartsOf(const Model& model) {
  std::vector<const Variable*> parts;
  for (const Variable& variable : model.variables())
    if (!variable.part.table.empty()) parts.push_back(&variable);
  return parts;
}

// As SaveV2 and RestoreV2 say it: the whole's shape, and what of each dim. A slice that is all says what shape the
// tensor must have.
std::string SliceOf(const Shape& part, int64_t rows, int64_t first) {
  std::string sizes, spans;
  for (int i = 0; i < part.rank(); ++i) {
    sizes += std::to_string(i == 0 ? rows : part[i]) + " ";
    spans += i == 0 ? std::to_string(first) + "," + std::to_string(part[0]) : ":-";
  }
  return sizes + spans;
}

}  // namespace

std::string TaskOfDevice(std::string_view device) {
  std::string task;
  while (!device.empty()) {
    device.remove_prefix(device.front() == '/' ? 1 : 0);
    const size_t end = std::min(device.find('/'), device.size());
    const std::string_view part = device.substr(0, end);
    device.remove_prefix(end);
    if (part.starts_with("job:") || part.starts_with("task:") ||
        (part.starts_with("replica:") && part != "replica:0")) {
      task.append("/").append(part);
    }
  }
  return task;
}

std::vector<SaverNodes::Saved> SaverNodes::Choose(Model& model, const std::vector<SavedVariable>& variables) const {
  const std::vector<const Variable*> parts = PartsOf(model);
  const auto saved_as_itself = [&](const Variable& variable) {
    Saved saved{&variable, variable.name};
    for (const Variable* part : parts) {
      const bool is_own = variable.name == part->name || variable.name.starts_with(part->name + "/");
      if (!is_own || variable.shape.rank() == 0 || variable.shape[0] != part->shape[0]) continue;
      saved.part = part;
      if (saved.by_turns()) return saved;
      saved.name = part->part.table + variable.name.substr(part->name.size());
      saved.slice = SliceOf(variable.shape, part->part.rows, part->part.first);
      if (part->part.was_alone) saved.alone = variable.name;
    }
    return saved;
  };
  std::vector<Saved> chosen;
  for (const Variable& variable : model.variables())
    if (variables.empty()) chosen.push_back(saved_as_itself(variable));
  for (const SavedVariable& wished : variables) {
    const auto found = std::find_if(model.variables().begin(), model.variables().end(),
                                    [&](const Variable& variable) { return variable.name == wished.variable; });
    if (found == model.variables().end()) {
      model.graph().Fail(
          Status(Code::kNotFound, "the model has no variable '" + wished.variable + "' to save or restore"));
      return {};
    }
    chosen.push_back(wished.name.empty() ? saved_as_itself(*found) : Saved{&*found, wished.name});
  }
  return chosen;
}

SaverNodes::SaverNodes(Model& model, const std::vector<SavedVariable>& variables, const std::string& step_variable,
                       const std::vector<SavedValue>& beside) {
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
    AddShard(graph, shards[i].second, static_cast<int32_t>(i));
  }
  if (shards_ > 1) AddMerge(graph, shards[0].first);
  if (shards_ == 1 && !beside.empty()) AddBeside(graph, shards[0].second, beside);
  save_target_ = saves_.empty() ? std::string() : saves_.back().name();
  for (const auto& [task, shard] : shards)
    for (const Saved& saved : shard)
      if (saved.part != nullptr) parts_of_tables_.push_back(saved);
  restore_ = AddRestore(graph, shards, /*alone=*/false, step_variable);
  if (std::any_of(parts_of_tables_.begin(), parts_of_tables_.end(),
                  [](const Saved& saved) { return !saved.alone.empty(); }))
    restore_alone_ = AddRestore(graph, shards, /*alone=*/true, step_variable);
}

void SaverNodes::AddShard(Graph& graph, const Shard& shard, int32_t number) {
  std::vector<std::string> names, slices;
  std::vector<DType> dtypes;
  for (const Saved& saved : shard) {
    names.push_back(saved.name);
    slices.push_back(saved.slice);
    dtypes.push_back(saved.variable->dtype);
  }
  Output path = prefix_;
  if (shards_ > 1) {
    path = graph.Op("ShardedFilename",
                    {parts_prefix_, graph.Const(number, "shard"), graph.Const(static_cast<int32_t>(shards_), "shards")},
                    {}, "part");
  }
  std::vector<Output> save_inputs = {path, graph.StringConst(names, "tensor_names"),
                                     graph.StringConst(slices, "shape_and_slices")};
  for (const Saved& saved : shard) save_inputs.push_back(saved.variable->value);
  saves_.push_back(graph.AddNode("SaveV2", save_inputs, {{"dtypes", dtypes}}));
}

void SaverNodes::AddBeside(Graph& graph, const Shard& shard, const std::vector<SavedValue>& beside) {
  std::vector<std::string> names, slices;
  std::vector<DType> dtypes;
  std::vector<Output> values;
  const auto add = [&](const std::string& name, const std::string& slice, const Output& value, DType dtype) {
    names.push_back(name);
    slices.push_back(slice);
    dtypes.push_back(dtype);
    values.push_back(value);
  };
  for (const Saved& saved : shard) add(saved.name, saved.slice, saved.variable->value, saved.variable->dtype);
  for (const SavedValue& one : beside) add(one.name, "", one.value, one.value.dtype());
  std::vector<Output> inputs = {prefix_, graph.StringConst(names, "all_names"),
                                graph.StringConst(slices, "all_slices")};
  inputs.insert(inputs.end(), values.begin(), values.end());
  beside_target_ = graph.AddNode("SaveV2", inputs, {{"dtypes", dtypes}}, "with_beside").name();
}

// No variable changes before all tasks have read theirs.
SaverNodes::Restoring SaverNodes::AddRestore(Graph& graph, const std::vector<std::pair<std::string, Shard>>& shards,
                                             bool alone, const std::string& step_variable) const {
  Restoring made;
  std::vector<Operation> reads;
  std::vector<std::pair<const Variable*, Output>> restored;
  for (const auto& [task, shard] : shards) {
    const auto on = graph.Device(task);
    std::vector<std::string> names, slices;
    std::vector<DType> dtypes;
    for (const Saved& saved : shard) {
      const bool by_itself = saved.by_turns() || (alone && !saved.alone.empty());
      const Shape& shape = saved.variable->shape;
      names.push_back(by_itself && !saved.alone.empty() ? saved.alone : saved.name);
      slices.push_back(by_itself ? SliceOf(shape, shape[0], 0) : saved.slice);
      dtypes.push_back(saved.variable->dtype);
    }
    reads.push_back(graph.AddNode(
        "RestoreV2", {prefix_, graph.StringConst(names, "tensor_names"), graph.StringConst(slices, "shape_and_slices")},
        {{"dtypes", dtypes}}));
    for (size_t i = 0; i < shard.size(); ++i) {
      restored.emplace_back(shard[i].variable, reads.back().output(static_cast<int32_t>(i)));
      if (shard[i].variable->name == step_variable && shard[i].variable->dtype == DType::kInt64)
        made.step = restored.back().second;
    }
  }
  Operation all_read;
  {
    const auto on = graph.Device(shards.empty() ? std::string() : shards[0].first);
    all_read = Group(graph, reads, "all_read");
  }
  std::vector<Operation> assigns;
  {
    const auto after = graph.ControlDependencies({all_read});
    for (const auto& [variable, value] : restored) {
      const auto on = graph.Device(variable->device);
      assigns.push_back(graph.AddNode(variable->reference ? "Assign" : "AssignVariableOp", {variable->handle, value},
                                      {{variable->reference ? "T" : "dtype", variable->dtype}}));
    }
  }
  made.target = Group(graph, assigns, "restore_all").name();
  return made;
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
  for (size_t i = 0; i < shards_; ++i)
    parts.push_back(PartPath(parts_prefix, static_cast<int32_t>(i), static_cast<int32_t>(shards_)));
  TENON_TRY_ASSIGN(const Tensor parts_prefix_value, Tensor::String(parts_prefix));
  TENON_TRY_ASSIGN(const Tensor parts_value, Tensor::Strings(parts, Shape{static_cast<int64_t>(shards_)}));
  return session.RunTargets({save_target_},
                            {{prefix_, prefix_value}, {parts_prefix_, parts_prefix_value}, {parts_, parts_value}});
}

Status SaverNodes::SaveWithBeside(const Session& session, const std::string& prefix,
                                  std::vector<host::Feed> feeds) const {
  TENON_TRY_ASSIGN(const Tensor prefix_value, Tensor::String(prefix));
  feeds.push_back({prefix_, prefix_value});
  return session.RunTargets({beside_target_}, feeds);
}

Result<std::optional<int64_t>> SaverNodes::Restore(const Session& session, const std::string& prefix) const {
  Result<std::optional<int64_t>> restored = RestoreBy(session, prefix, restore_);
  if (restored.ok() || restored.status().code() != Code::kNotFound || restore_alone_.target.empty())
    return restored.ok() ? restored : Explained(restored.status());
  const Result<std::optional<int64_t>> alone = RestoreBy(session, prefix, restore_alone_);
  return alone.ok() ? alone : Explained(alone.status().code() == Code::kNotFound ? restored.status() : alone.status());
}

Status SaverNodes::Explained(const Status& why) const {
  if (why.code() != Code::kNotFound && why.code() != Code::kInvalidArgument) return why;
  for (const Saved& saved : parts_of_tables_) {
    const bool of_table = why.message().find("'" + saved.name + "'") != std::string::npos;
    const bool of_shard = !saved.alone.empty() && why.message().find("'" + saved.alone + "'") != std::string::npos;
    if (!of_table && !of_shard) continue;
    const std::string table =
        "; '" + saved.part->part.table + "' stands in " + std::to_string(saved.part->part.shards) + " shards";
    if (saved.by_turns())
      return Status(why.code(), why.message() + table +
                                    " whose rows go by turns (Partition::kMod), which are restored from as many such "
                                    "shards alone: make the model with as many as were saved. "
                                    "Rows in their order (Partition::kDiv) are restored into any number of shards");
    return Status(why.code(),
                  why.message() + table +
                      " whose rows stand in their order (Partition::kDiv): one tensor of all rows in a checkpoint. One "
                      "that holds each shard by itself, " +
                      (saved.part->part.was_alone
                           ? "as they were once written, is restored into as many shards: make the model with as many, "
                             "and save it anew"
                           : "or rows by turns (Partition::kMod), is restored into a model that is made so"));
  }
  return why;
}

Result<std::optional<int64_t>> SaverNodes::RestoreBy(const Session& session, const std::string& prefix,
                                                     const Restoring& restoring) const {
  TENON_TRY_ASSIGN(const Tensor prefix_value, Tensor::String(prefix));
  if (!restoring.step.valid()) {
    TENON_TRY(session.RunTargets({restoring.target}, {{prefix_, prefix_value}}));
    return std::optional<int64_t>();
  }
  TENON_TRY_ASSIGN(const std::vector<Tensor> values,
                   session.Run({{prefix_, prefix_value}}, {restoring.step}, {restoring.target}));
  if (values[0].element_count() != 1) return Status(Code::kDataLoss, "the checkpoint's step is no single number");
  return std::optional<int64_t>(values[0].scalar<int64_t>(-1));
}

}  // namespace tenon::train
