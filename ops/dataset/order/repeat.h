// SPDX-License-Identifier: Apache-2.0
// Parts of a dataset by the numbers of its elements.
#ifndef TENON_OPS_DATASET_ORDER_REPEAT_H_
#define TENON_OPS_DATASET_ORDER_REPEAT_H_

#include "base/dataset.h"

namespace tenon::ops {

// Each shards-th element from element `index` on; a pass over it fails where one of the shards would be empty.
// INVALID_ARGUMENT, thrown: there is no such shard.
DatasetPtr NewShard(const Dataset::Node& node, DatasetPtr input, int64_t shards, int64_t index);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_ORDER_REPEAT_H_
