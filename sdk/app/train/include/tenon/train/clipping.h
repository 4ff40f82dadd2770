// SPDX-License-Identifier: Apache-2.0
// Clipping: gradients that are made smaller where they are too large.
//
// The formulas are TensorFlow's (tf.clip_by_value, tf.clip_by_norm, tf.clip_by_global_norm):
//   by value        g = max(min(g, high), low), each element
//   by norm         g = g limit / max(norm(g), limit), each gradient, where norm(g) = sqrt(sum(g^2))
//   by global norm  g = g limit min(1 / n, 1 / limit), all gradients, where n = sqrt(sum of all norm(g)^2) (Pascanu et
//                   al. 2012). Where n is infinite or no number, all elements become NaN: such a step is wrong as a
//                   whole, and must not look as if it were not.
//
// Gradients are dense (DenseGradients), of any float type; an Output that is not valid, as of a variable that the loss
// does not depend on, stays so. Failures stick to the graph: INVALID_ARGUMENT for a limit that is no positive finite
// number, or for low > high. As an option of Minimize (OptimizerOptions::clipping) it clips what is applied: the mean
// over replicas and accumulated steps, without the loss's scale.
#ifndef TENON_TRAIN_CLIPPING_H_
#define TENON_TRAIN_CLIPPING_H_

#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

struct Clipping {
  enum class Kind { kNone, kValue, kNorm, kGlobalNorm };
  Kind kind = Kind::kNone;
  float limit = 1;  // the largest norm, or of kValue the largest absolute value
};

std::vector<Output> ClipByValue(Graph& graph, const std::vector<Output>& gradients, float low, float high);
std::vector<Output> ClipByNorm(Graph& graph, const std::vector<Output>& gradients, float limit);

struct GloballyClipped {
  std::vector<Output> gradients;
  Output norm;  // of all gradients together before they were clipped: a scalar of the first one's type
};
GloballyClipped ClipByGlobalNorm(Graph& graph, const std::vector<Output>& gradients, float limit);

// As the options say.
std::vector<Output> Clip(Graph& graph, const std::vector<Output>& gradients, const Clipping& clipping);

// sqrt(sum of the squares of all elements of all gradients); INVALID_ARGUMENT where none is valid.
Output GlobalNorm(Graph& graph, const std::vector<Output>& gradients);

}  // namespace tenon::train

#endif  // TENON_TRAIN_CLIPPING_H_
