// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/train/shards/row_shards.h"

#include <algorithm>
#include <utility>

namespace tenon::train {
namespace {

int64_t RowsOf(const std::vector<const Variable*>& shards) {
  int64_t rows = 0;
  for (const Variable* shard : shards) rows += shard->shape.rank() > 0 ? shard->shape[0] : 0;
  return rows;
}

Output NumberNode(Graph& graph, int64_t value, DType dtype) {
  return dtype == DType::kInt64 ? graph.Const(value) : graph.Const(static_cast<int32_t>(value));
}

// Where an id stands.
struct Place {
  Output shard, row;
};
Place PlaceOf(Graph& graph, Partition partition, int64_t rows, int64_t count, const Output& ids) {
  const auto number = [&](int64_t value) { return NumberNode(graph, value, ids.dtype()); };
  if (partition == Partition::kMod)
    return {graph.Op("FloorMod", {ids, number(count)}), graph.Op("FloorDiv", {ids, number(count)})};
  const int64_t each = rows / count, more = rows % count;  // the first `more` shards have each + 1
  const Output in_large = graph.Op("FloorDiv", {ids, number(each + 1)}), rest = graph.Op("Sub", {ids, number(more)});
  const Output shard = graph.Op("Maximum", {in_large, graph.Op("FloorDiv", {rest, number(each)})});
  const Output is_large = graph.Op("Less", {shard, number(more)});
  return {shard, graph.Op("SelectV2", {is_large, graph.Op("FloorMod", {ids, number(each + 1)}),
                                       graph.Op("FloorMod", {rest, number(each)})})};
}

Output Gathered(Graph& graph, const Variable& shard, const Output& rows) {
  const auto on = graph.Device(shard.device);
  if (shard.rows) return graph.Op("ResourceGather", {shard.handle, rows}, {{"dtype", shard.dtype}}, "gather");
  return graph.Op("GatherV2", {shard.value, rows, graph.Const(0)}, {}, "gather");
}

}  // namespace

int64_t RowsOfShard(Partition partition, int64_t rows, int64_t count, int64_t shard) {
  return partition == Partition::kMod ? (rows - shard + count - 1) / count
                                      : rows / count + (shard < rows % count ? 1 : 0);
}

ShardIds IdsOfShard(Partition partition, int64_t rows, int64_t count, int64_t shard) {
  if (partition == Partition::kMod) return {shard, count};
  return {shard * (rows / count) + std::min(shard, rows % count), 1};
}

TablePart PartOfTable(Partition partition, std::string table, int64_t rows, int64_t count, int64_t shard) {
  const bool in_order = partition == Partition::kDiv;
  return {std::move(table), count, in_order ? rows : 0, in_order ? IdsOfShard(partition, rows, count, shard).first : 0};
}

Output LookUpRows(Graph& graph, const std::vector<const Variable*>& shards, Partition partition, const Output& ids) {
  const auto count = static_cast<int32_t>(shards.size());
  const Place place = PlaceOf(graph, partition, RowsOf(shards), count, ids);
  const Output shard = graph.Op("Cast", {place.shard}, {{"DstT", DType::kInt32}});
  const Output position = graph.Op("Range", {graph.Const(0), graph.Op("Size", {ids}), graph.Const(1)});
  const Operation rows = graph.AddNode("DynamicPartition", {place.row, shard}, {{"num_partitions", count}}, "rows");
  const Operation positions =
      graph.AddNode("DynamicPartition", {position, shard}, {{"num_partitions", count}}, "positions");
  std::vector<Output> parts;
  for (int32_t i = 0; i < count; ++i) parts.push_back(positions.output(i));
  for (int32_t i = 0; i < count; ++i) parts.push_back(Gathered(graph, *shards[static_cast<size_t>(i)], rows.output(i)));
  return graph.Op("DynamicStitch", parts, {{"N", count}}, "stitch");
}

bool CheckShards(Graph& graph, const ClassShards& shards, const std::string& what) {
  const auto refuse = [&](const std::string& why) {
    graph.Fail(Status(Code::kInvalidArgument, what + ": " + why));
    return false;
  };
  if (!graph.status().ok()) return false;
  const auto count = static_cast<int64_t>(shards.weights.size());
  if (count == 0 || shards.biases.size() != shards.weights.size())
    return refuse(std::to_string(count) + " shards of weights and " + std::to_string(shards.biases.size()) +
                  " of biases; each shard has both");
  const int64_t classes = shards.classes(), width = shards.width();
  for (int64_t i = 0; i < count; ++i) {
    const Variable &weights = *shards.weights[static_cast<size_t>(i)], &biases = *shards.biases[static_cast<size_t>(i)];
    const int64_t rows = RowsOfShard(shards.partition, classes, count, i);
    if (rows < 1 || weights.shape != Shape{rows, width} || biases.shape != Shape{rows})
      return refuse("shard " + std::to_string(i) + " of " + std::to_string(count) + " has weights " +
                    weights.shape.ToString() + " and biases " + biases.shape.ToString() + "; of " +
                    std::to_string(classes) + " classes it needs [" + std::to_string(rows) + "," +
                    std::to_string(width) + "] and [" + std::to_string(rows) + "]");
  }
  return true;
}

Output CheckedLabels(Graph& graph, const Output& labels, int64_t classes, const std::string& what) {
  if (labels.valid() && labels.dtype() != DType::kInt32 && labels.dtype() != DType::kInt64)
    graph.Fail(Status(Code::kInvalidArgument,
                      what + ": labels are " + host::DTypeName(labels.dtype()) + "; they are classes, int32 or int64"));
  const Output wide = graph.Op("Cast", {labels}, {{"DstT", DType::kInt64}});
  const Output fits = graph.Op("LogicalAnd", {graph.Op("GreaterEqual", {wide, graph.Const(int64_t{0})}),
                                              graph.Op("Less", {wide, graph.Const(classes)})});
  const Output all = graph.Op("All", {graph.Op("Reshape", {fits, graph.Const({-1})}), graph.Const({0})});
  const std::string text = what + ": a label is no class; there are the classes 0 to " + std::to_string(classes - 1) +
                           ", and the labels are";
  const auto after =
      graph.ControlDependencies({graph.AddNode("Assert", {all, graph.StringConst(text), wide}, {{"summarize", 16}})});
  return graph.Op("Identity", {wide}, {}, "labels");
}

}  // namespace tenon::train
