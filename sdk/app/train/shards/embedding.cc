// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/embedding.h"

#include "sdk/app/train/shards/row_shards.h"

namespace tenon::train {

Embedding::Embedding(Model& model, std::string_view name, int64_t rows, int64_t width, const Initializer& initializer,
                     const std::vector<std::string>& devices, Partition partition)
    : model_(model), name_(name), width_(width), partition_(partition) {
  const auto count = static_cast<int64_t>(devices.size());
  if (count == 0 || rows < count || width < 1) {
    model.graph().Fail(Status(Code::kInvalidArgument, "embedding '" + name_ + "' of " + std::to_string(rows) +
                                                          " rows of " + std::to_string(width) + " on " +
                                                          std::to_string(count) +
                                                          " devices; each needs a row at least"));
    return;
  }
  for (int64_t shard = 0; shard < count; ++shard) {
    const int64_t own = RowsOfShard(partition, rows, count, shard);
    shards_.push_back(&model.Rows(name_ + "/shard_" + std::to_string(shard), {own, width}, initializer,
                                  devices[static_cast<size_t>(shard)]));
    model.SetPart(*shards_.back(), PartOfTable(partition, name_, rows, count, shard));
  }
}

Output Embedding::Lookup(Output ids) const {
  Graph& graph = model_.graph();
  if (shards_.empty() || !graph.status().ok()) return Output();
  auto scope = graph.Scope(name_ + "/lookup");
  const Output shape = graph.Op("Shape", {ids});
  const Output rows = LookUpRows(graph, shards_, partition_, graph.Op("Reshape", {ids, graph.Const({-1})}));
  const Output all = graph.Op("ConcatV2", {shape, graph.Const({static_cast<int32_t>(width_)}), graph.Const(0)});
  return graph.Op("Reshape", {rows, all});
}

}  // namespace tenon::train
