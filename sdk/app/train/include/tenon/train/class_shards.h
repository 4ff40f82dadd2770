// SPDX-License-Identifier: Apache-2.0
// The weights and biases of a layer over many classes, parted by class into shards that stand on several devices.
//
// Losses over them: SampledSoftmaxLoss and NceLoss (sampled_loss.h), which touch a few classes a step, and
// ShardedSoftmaxLoss (sharded_softmax.h), which computes with all, each beside its weights. The same weights may serve
// several.
#ifndef TENON_TRAIN_CLASS_SHARDS_H_
#define TENON_TRAIN_CLASS_SHARDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"

namespace tenon::train {

// Which class stands where, of n classes in k shards; as tf.nn.embedding_lookup's partition_strategy.
enum class Partition {
  // Class c is row c / k of shard c % k. Such rows are no slice of one tensor: checkpoints hold each shard by itself,
  // and restore into as many shards alone.
  kMod,
  // The classes stand in their order, the first n % k shards with one more than the others. Checkpoints hold all shards
  // as one tensor ("<name>/weights"), in slices as TensorFlow's partitioned variables do, so that they restore into any
  // number of shards.
  kDiv,
};

struct ClassShards {
  std::vector<const Variable*> weights;  // [classes of the shard, width] each
  std::vector<const Variable*> biases;   // [classes of the shard] each, one for each of the weights
  Partition partition = Partition::kDiv;

  int64_t classes() const;
  int64_t width() const;
};

struct ClassShardsOptions {
  std::vector<std::string> devices = {""};  // a shard for each; "" is anywhere
  Partition partition = Partition::kDiv;
  // Training changes the rows alone that a step gathered (Model::Rows), by optimizers that can: for sampled losses over
  // so many classes that a dense gradient is too large.
  bool by_rows = false;
};

// "<name>/shard_<i>/weights" and ".../biases", which begin at 0. Fewer classes than devices, or none of either, is
// INVALID_ARGUMENT, which sticks to the graph.
ClassShards MakeClassShards(Model& model, std::string_view name, int64_t classes, int64_t width,
                            const Initializer& initializer, const ClassShardsOptions& options = {});

}  // namespace tenon::train

#endif  // TENON_TRAIN_CLASS_SHARDS_H_
