// SPDX-License-Identifier: Apache-2.0
// Embedding: a table of rows, spread over shards that stand on several devices, looked up in one call.
//
// Row `id` is row id / n of shard id % n, which spreads frequent words that come first; such a table restores from
// checkpoints into as many shards alone. With Partition::kDiv the rows stand in their order, and checkpoints hold them
// as one tensor ("<name>"), which restores into any number of shards. A lookup parts the ids by their shard, gathers
// beside each shard, and puts the rows back in the ids' order; its gradient goes the same way back, as rows. So what
// travels is the rows that are asked for, and what an update touches too: Minimize changes these rows alone, for
// optimizers that leave a row without a gradient as it is (gradient descent, AdaGrad); others are an error.
//
//   Embedding words(model, "words", 1 << 20, 64, Initializer::TruncatedNormal(0.1f), {"/job:ps/task:0",
//       "/job:ps/task:1"});
//   Output vectors = words.Lookup(ids);  // ids.shape + [64]
#ifndef TENON_TRAIN_EMBEDDING_H_
#define TENON_TRAIN_EMBEDDING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/class_shards.h"
#include "tenon/train/model.h"

namespace tenon::train {

class Embedding {
 public:
  // One shard ("<name>/shard_0", ...) for each device; "" is anywhere. Fewer rows than devices, or none of either,
  // sticks to the graph as a failure.
  Embedding(Model& model, std::string_view name, int64_t rows, int64_t width, const Initializer& initializer,
            const std::vector<std::string>& devices = {""}, Partition partition = Partition::kMod);

  // ids: int32 or int64, of any shape. One that is no row fails the step.
  Output Lookup(Output ids) const;
  const std::vector<const Variable*>& shards() const { return shards_; }

 private:
  Model& model_;
  std::string name_;
  int64_t width_;
  const Partition partition_;
  std::vector<const Variable*> shards_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_EMBEDDING_H_
