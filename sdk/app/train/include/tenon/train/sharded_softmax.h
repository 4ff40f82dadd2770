// SPDX-License-Identifier: Apache-2.0
// The softmax over classes that are parted into shards on several devices, without bringing their weights or logits
// together.
//
// Each shard computes the logits of its classes beside its weights. Of each example travel the inputs to the shards,
// and a shard's largest logit, its sum of exponentials and its label's logit (0 where the label is another's) back:
//   m = max over shards of max(logits);  loss = m + log(sum over shards of sum(e^(logits - m))) - logit[label]
// which is the cross entropy of the whole softmax and no more likely to overflow. The gradients of weights, biases and
// logits are computed beside the weights too; of them travels each shard's part of the inputs' gradient.
#ifndef TENON_TRAIN_SHARDED_SOFTMAX_H_
#define TENON_TRAIN_SHARDED_SOFTMAX_H_

#include "tenon/train/base.h"
#include "tenon/train/class_shards.h"

namespace tenon::train {

// The loss of each example, [batch]. inputs: [batch, width]; labels: [batch], int32 or int64. INVALID_ARGUMENT sticks
// to the graph where the shards do not fit one another or the inputs do not fit them; a label that is no class fails
// the step with it.
Output ShardedSoftmaxLoss(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels);

}  // namespace tenon::train

#endif  // TENON_TRAIN_SHARDED_SOFTMAX_H_
