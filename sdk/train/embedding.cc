// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/embedding.h"

namespace tenon::train {

Embedding::Embedding(Model& model, std::string_view name, int64_t rows, int64_t width, const Initializer& initializer,
                     const std::vector<std::string>& devices)
    : model_(model), name_(name), width_(width) {
  const auto count = static_cast<int64_t>(devices.size());
  if (count == 0 || rows < count || width < 1) {
    model.graph().Fail(Status(Code::kInvalidArgument, "embedding '" + name_ + "' of " + std::to_string(rows) + " rows of " + std::to_string(width) +
                                                          " on " + std::to_string(count) + " devices; each needs a row at least"));
    return;
  }
  for (int64_t shard = 0; shard < count; ++shard) {
    const int64_t own = (rows - shard + count - 1) / count;
    shards_.push_back(&model.Rows(name_ + "/shard_" + std::to_string(shard), {own, width}, initializer, devices[static_cast<size_t>(shard)]));
  }
}

Output Embedding::Lookup(Output ids) const {
  Graph& graph = model_.graph();
  if (shards_.empty() || !graph.status().ok()) return Output();
  auto scope = graph.Scope(name_ + "/lookup");
  const DType dtype = ids.dtype();
  const Output shape = graph.Op("Shape", {ids});
  const Output rows = LookupVector(graph.Op("Reshape", {ids, graph.Const({-1})}), dtype);
  const Output all = graph.Op("ConcatV2", {shape, graph.Const({static_cast<int32_t>(width_)}), graph.Const(0)});
  return graph.Op("Reshape", {rows, all});
}

Output Embedding::LookupVector(Output ids, DType dtype) const {
  Graph& graph = model_.graph();
  const auto count = static_cast<int32_t>(shards_.size());
  const auto number = [&](int32_t value) { return graph.Op("Cast", {graph.Const(value)}, {{"DstT", dtype}}); };
  const Output shard = graph.Op("Cast", {graph.Op("FloorMod", {ids, number(count)})}, {{"DstT", DType::kInt32}});
  const Output row = graph.Op("FloorDiv", {ids, number(count)});
  const Output position = graph.Op("Range", {graph.Const(0), graph.Op("Size", {ids}), graph.Const(1)});
  const Operation rows = graph.AddNode("DynamicPartition", {row, shard}, {{"num_partitions", count}}, "rows");
  const Operation positions = graph.AddNode("DynamicPartition", {position, shard}, {{"num_partitions", count}}, "positions");
  std::vector<Output> parts;
  for (int32_t i = 0; i < count; ++i) parts.push_back(positions.output(i));
  for (int32_t i = 0; i < count; ++i) {
    const Variable& variable = *shards_[static_cast<size_t>(i)];
    const auto on = graph.Device(variable.device);
    parts.push_back(graph.Op("ResourceGather", {variable.handle, rows.output(i)}, {{"dtype", DType::kFloat}}, "gather"));
  }
  return graph.Op("DynamicStitch", parts, {{"N", count}}, "stitch");
}

}  // namespace tenon::train
