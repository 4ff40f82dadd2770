// SPDX-License-Identifier: Apache-2.0
// Loss scaling: gradients of a network that computes in float16 are kept from vanishing below its smallest number.
//
// The loss is multiplied by a scale before it is differentiated, and the gradients are divided by it before they are
// applied. A fixed scale does that alone. A dynamic one begins high: a step with a gradient that is infinite or no
// number changes no variable and halves the scale; so many good steps in a row double it (Micikevicius et al. 2018).
// Scales are powers of two, so that nothing is rounded that does not overflow or vanish. A dynamic scale is a variable
// of the model ("loss_scale"), so a checkpoint holds it.
//
// Networks that compute in float16 are those written so, and those of sessions of that precision on GPUs: there a step
// with a dynamic scale keeps gradients in float16, by the option `storage` one with a fixed scale too
// (docs/precision.md). bfloat16 needs none: its exponent is float32's. Whether a step counts is decided on the
// host, which waits for it once a step.
#ifndef TENON_TRAIN_LOSS_SCALING_H_
#define TENON_TRAIN_LOSS_SCALING_H_

#include <cstdint>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"

namespace tenon::train {

struct LossScaling {
  enum class Kind { kNone, kFixed, kDynamic };
  Kind kind = Kind::kNone;
  float scale = 32768;      // fixed, or the first; a power of two
  int64_t growth = 2000;    // good steps after which a dynamic scale doubles
};

// Builds the nodes of it; for Minimize, which makes one for a graph.
class LossScaler {
 public:
  // INVALID_ARGUMENT, which sticks to the graph, for a scale that is no power of two, or a growth that is not positive.
  LossScaler(Model& model, const LossScaling& options);

  bool is_dynamic() const { return options_.kind == LossScaling::Kind::kDynamic; }
  Output Scaled(Output loss);
  // share: what the gradient is multiplied with besides. Remembers it: Gate() asks about all.
  Output Unscaled(Output gradient, float share);

  // Of a dynamic scale, after all Unscaled(): the gradient where the step counts; elsewhere it is dead, and what it
  // would change stays.
  Output Gate(Output gradient);
  // A node that has run when the step was applied or left out, and the scale set for the next.
  Operation Finish(const std::vector<Operation>& applied);

 private:
  Output Finite();

  Graph& graph_;
  const LossScaling options_;
  const Variable* scale_ = nullptr;       // of a dynamic one
  const Variable* good_steps_ = nullptr;
  std::vector<Output> gradients_;
  Output finite_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_LOSS_SCALING_H_
