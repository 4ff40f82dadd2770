// SPDX-License-Identifier: Apache-2.0
// Rows that are spread over shards: how many each has, and looking them up by id.
#ifndef TENON_SDK_TRAIN_SHARDS_ROW_SHARDS_H_
#define TENON_SDK_TRAIN_SHARDS_ROW_SHARDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/train/class_shards.h"
#include "tenon/train/model.h"

namespace tenon::train {

// Of shard `shard` of `count`, when there are so many rows in all.
int64_t RowsOfShard(Partition partition, int64_t rows, int64_t count, int64_t shard);
// The first id of the shard and the distance to its next.
struct ShardIds {
  int64_t first, step;
};
ShardIds IdsOfShard(Partition partition, int64_t rows, int64_t count, int64_t shard);

// What shard `shard` of the table is, for checkpoints.
TablePart PartOfTable(Partition partition, std::string table, int64_t rows, int64_t count, int64_t shard);

// The rows of the ids, a vector of int32 or int64, in their order: each gathered beside its shard, put together where
// the caller's nodes stand. Gradients are rows: of the handle for shards that are changed by rows, of the value for
// others. An id that is no row fails the step.
Output LookUpRows(Graph& graph, const std::vector<const Variable*>& shards, Partition partition, const Output& ids);

// Whether the shards are all there and have the sizes that the partition says; else what is wrong sticks to the graph,
// with `what` before it.
bool CheckShards(Graph& graph, const ClassShards& shards, const std::string& what);
// Labels as int64, of the same shape; one that is no class fails the step with INVALID_ARGUMENT.
Output CheckedLabels(Graph& graph, const Output& labels, int64_t classes, const std::string& what);

}  // namespace tenon::train

#endif  // TENON_SDK_TRAIN_SHARDS_ROW_SHARDS_H_
