// SPDX-License-Identifier: Apache-2.0
// Losses over a sample of the classes, for so many classes that all of them are too much: sampled softmax and NCE.
//
// A step looks up the weights of its labels and of S sampled classes alone. With x the input, w and b the weights and
// biases, the logit of class c is x . w[c] + b[c] - log(Q(c)), where Q(c) says how often c is to be expected in the
// sample.
//   SampledSoftmaxLoss  the cross entropy of a softmax over the labels and the sample  (Jean et al. 2015;
//                       tf.nn.sampled_softmax_loss)
//   NceLoss             the sum of the logistic losses of labels, as 1 in all, and of the sample, as 0  (Gutmann and
//                       Hyvarinen 2010; tf.nn.nce_loss)
// Both are for training; evaluation wants all classes (ShardedSoftmaxLoss). Classes that are sampled log-uniformly want
// to be numbered by falling frequency.
#ifndef TENON_TRAIN_SAMPLED_LOSS_H_
#define TENON_TRAIN_SAMPLED_LOSS_H_

#include <cstdint>
#include <optional>

#include "tenon/train/base.h"
#include "tenon/train/class_shards.h"

namespace tenon::train {

// Sampled classes, and how often each label and each of them is to be expected.
struct Candidates {
  Output sampled;           // [S], int64
  Output true_expected;     // of the labels' shape [batch, labels], float
  Output sampled_expected;  // [S], float
};

// S different classes of [0, classes), class c with the probability (log(c + 2) - log(c + 1)) / log(classes + 1):
// Zipf's law. labels: [batch, labels], int64. seed 0: from the session's.
Candidates LogUniformCandidates(Graph& graph, const Output& labels, int64_t sampled, int64_t classes, int64_t seed = 0);

struct SampledLossOptions {
  int64_t sampled = 64;                                // S, where no candidates are given
  std::optional<Candidates> candidates = std::nullopt; // none: log-uniform ones
  // Whether samples that are one of an example's own labels are left out for it; none: as TensorFlow has it, of the
  // softmax yes, of NCE no.
  std::optional<bool> remove_accidental_hits = std::nullopt;
  int64_t seed = 0;
};

// The loss of each example, [batch]. inputs: [batch, width]; labels: [batch], or [batch, labels] where each of an
// example's labels has an equal share, int32 or int64. INVALID_ARGUMENT sticks to the graph where the shards do not fit
// one another, the inputs do not fit them, or the number of labels or sampled classes is none; a label that is no class
// fails the step with it.
Output SampledSoftmaxLoss(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels,
                          const SampledLossOptions& options = {});
Output NceLoss(Graph& graph, const ClassShards& classes, const Output& inputs, const Output& labels,
               const SampledLossOptions& options = {});

}  // namespace tenon::train

#endif  // TENON_TRAIN_SAMPLED_LOSS_H_
