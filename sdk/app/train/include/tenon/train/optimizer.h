// SPDX-License-Identifier: Apache-2.0
// Optimizers as graphs: gradients, and nodes that change the variables.
//
// Each is written twice: with one fused op a variable (ResourceApplyAdam, ...), and with primitive ops (Mul, Sub,
// AssignSubVariableOp, ...), so that an optimizer needs no special op to exist, and each way checks the other.
//   GradientDescent  var -= lr g
//   Momentum         a = momentum a + g; var -= lr a                        (nesterov: var -= lr (g + momentum a))
//   Adam             m += (1-b1)(g-m); v += (1-b2)(g^2-v); var -= lr sqrt(1-b2^t)/(1-b1^t) m / (sqrt(v) + epsilon)
//                    (Kingma and Ba 2015, with epsilon where TensorFlow has it)
//   Adagrad          a += g^2; var -= lr g / sqrt(a)                        (Duchi et al. 2011; a begins at 0.1)
//   RMSProp          s += (1-rho)(g^2-s); m = rms_momentum m + lr g / sqrt(s + epsilon); var -= m
//                    (Tieleman and Hinton 2012; s begins at 1)
//                    (centered: c += (1-rho)(g-c), and s - c^2 under the root: Graves 2013)
//   Adadelta         s += (1-rho)(g^2-s); d = g sqrt(u + epsilon) / sqrt(s + epsilon); u += (1-rho)(d^2-u); var -= lr d
//                    (Zeiler 2012: lr 1)
// The first values of slots and the places of epsilon are TensorFlow's (tf.compat.v1.train). Centered RMSProp and
// Adadelta are of primitive ops always. Of variables that are changed by rows (Embedding), a row's averages and
// momentum move in the steps that have a gradient for it alone, as TensorFlow's do; but Adam's, as there, fall in every
// step, which moves every row and takes as long as the table is large. Slots are variables of the model
// ("<variable>/Adam"), so a checkpoint holds them.
#ifndef TENON_TRAIN_OPTIMIZER_H_
#define TENON_TRAIN_OPTIMIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/clipping.h"
#include "tenon/train/loss_scaling.h"
#include "tenon/train/model.h"

namespace tenon::train {

struct OptimizerOptions {
  enum class Kind { kGradientDescent, kMomentum, kAdam, kAdagrad, kRmsProp, kAdadelta };
  Kind kind = Kind::kAdam;
  float momentum = 0.9f;
  bool nesterov = false;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float initial_accumulator = 0.1f;
  // how much of an average stays in a step; none: 0.9 for RMSProp, 0.95 for Adadelta
  std::optional<float> rho = std::nullopt;
  float rms_momentum = 0;  // of RMSProp
  bool centered = false;   // RMSProp by the gradients' variance
  bool fused = true;  // one op a variable; false: primitive ops
  LossScaling loss_scaling;  // of Minimize alone; the others refuse it
  Clipping clipping;         // of what is applied
  // So many steps' gradients are applied at once, their mean by the last of the steps, which is one step with all their
  // examples where each loss is a mean over as many. The learning rate is that of the last. Sums and count are
  // variables, so that a run goes on between two updates where it was killed. Of Minimize alone, without loss scaling
  // and without rows; refused elsewhere.
  int64_t accumulate = 1;

  float decay() const { return rho ? *rho : kind == Kind::kAdadelta ? 0.95f : 0.9f; }
};

// "sgd", "momentum", "adam", "adagrad", "rmsprop", "adadelta".
Result<OptimizerOptions::Kind> OptimizerKindFromName(std::string_view name);

// Adds the gradients of `loss` with respect to the model's trainable variables and the nodes that apply them. The node
// given back has run when all variables have changed. learning_rate: a float scalar. It is an error when the loss
// depends on no trainable variable.
Operation Minimize(Model& model, Output loss, Output learning_rate, const OptimizerOptions& options = {});

// The two halves of it. The gradients of the loss with respect to the trainable variables, in their order, each as a
// whole; an Output that is not valid where the loss does not depend on one. Variables that are changed by rows are an
// error.
std::vector<Output> DenseGradients(Model& model, Output loss);
// A gradient of one variable: as a whole, or, where it is changed by rows, values for the rows (of which some may come
// twice).
struct VariableGradient {
  Output value;  // not valid: the loss does not depend on the variable
  Output rows;   // int32 or int64 [rows of value]; not valid: it is whole
};
// Those of all trainable variables, in their order.
std::vector<VariableGradient> VariableGradients(Model& model, Output loss);
Operation ApplyGradients(Model& model, const std::vector<VariableGradient>& gradients, Output learning_rate,
                         const OptimizerOptions& options = {});
Operation ApplyGradients(Model& model, const std::vector<Output>& gradients, Output learning_rate,
                         const OptimizerOptions& options = {});

// One of several copies of a network, each of which sees its share of a batch.
struct Replica {
  Output loss;         // the mean over its share
  std::string device;  // where it stands, its gradients too; "": anywhere
};
// Synchronous training: the mean of the replicas' gradients, added in their order, is applied once. With equal shares
// it is the gradient of the whole batch.
Operation Minimize(Model& model, const std::vector<Replica>& replicas, Output learning_rate,
                   const OptimizerOptions& options = {});

// The same with mirrors: replica k's loss depends on the variables of Model::BeginReplica(k, device). The mean of the
// gradients goes to all replicas by a collective for each variable, and each applies it to its own; so all keep the
// same bits where their devices are alike. Before the first step, and after restoring: Model::CopyToMirrors() (Trainer
// does it). Devices may be of several tasks (of a cluster: no parameter server is needed); on GPUs each has its own.
Operation MinimizeMirrored(Model& model, const std::vector<Replica>& replicas, Output learning_rate,
                           const OptimizerOptions& options = {});

}  // namespace tenon::train

#endif  // TENON_TRAIN_OPTIMIZER_H_
