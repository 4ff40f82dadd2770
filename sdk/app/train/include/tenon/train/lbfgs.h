// SPDX-License-Identifier: Apache-2.0
// L-BFGS: a quasi-Newton method for losses of whole data sets, where each step sees the same examples.
//
// The direction is -H g, where g is the gradient and H approximates the inverse of the Hessian by the last few pairs s
// (a step) and y (what it changed of the gradient): Nocedal and Wright, Numerical Optimization, 2nd ed., algorithms 7.4
// (the two loops) and 7.5, H's scale by their formula 7.20. The step along it satisfies the strong Wolfe conditions
// (algorithms 3.5 and 3.6); a pair with y . s <= 0, which has no such H, is left out.
//
//   Lbfgs lbfgs(model, loss);                                   // adds the gradients to the graph
//   ... a session of the graph, in which the variables have first values
//   TENON_TRY_ASSIGN(const LbfgsResult result, lbfgs.Run(session, {{"x", examples}}));
//
// The vectors are computed with on the host, in double; loss and gradients come from the session. A trial point is fed
// where the variables are read, so that the variables change by accepted steps alone, once an iteration: whatever ends
// a run, they are at the last accepted point. The loss must be a function of the variables alone, without dropout or
// batches drawn anew, and read them by Variable::value.
#ifndef TENON_TRAIN_LBFGS_H_
#define TENON_TRAIN_LBFGS_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"

namespace tenon::train {

struct LbfgsResult {
  enum class End {
    kGradient,    // the gradient's norm is small enough
    kIterations,  // there were as many as are allowed
    kNoStep,      // no step along the direction, nor along the gradient, makes the loss lower: it is as low as its type
                  // can tell, or the gradient is wrong
  };
  End end = End::kIterations;
  int64_t iterations = 0;   // accepted steps
  int64_t evaluations = 0;  // of loss and gradient
  int64_t left_out = 0;     // pairs without a positive y . s
  double loss = 0, gradient_norm = 0;  // at the variables' values
};
std::string_view LbfgsEndName(LbfgsResult::End end);  // "gradient", "iterations", "no step"

struct LbfgsOptions {
  int64_t history = 10;               // pairs that are kept: twice as many numbers as variables have each
  int64_t max_iterations = 100;
  double gradient_tolerance = 1e-5;   // of the Euclidean norm of the whole gradient
  int64_t max_evaluations = 20;       // of one line search
  double sufficient_decrease = 1e-4;  // c1 and c2 of the Wolfe conditions: 0 < c1 < c2 < 1
  double curvature = 0.9;
  std::function<void(const LbfgsResult&)> after_iteration = {};  // with how far it is; may be empty
};

class Lbfgs {
 public:
  // Of all trainable variables that the loss, a float scalar, depends on. What Minimize refuses of them, and options
  // that make no sense, stick to the graph. The model outlives this.
  Lbfgs(Model& model, Output loss, LbfgsOptions options = {});

  // From the variables' values in the session. feeds: what the loss needs besides. run: of each step. Errors:
  // INVALID_ARGUMENT that names the iteration where loss or gradient is no number (a loss of infinity is one, of a step
  // that is too long and made shorter; not so at the first point); what a step of the session failed with. May be
  // called again, and then begins without history.
  Result<LbfgsResult> Run(const Session& session, const std::vector<host::Feed>& feeds = {},
                          const host::RunOptions& run = {}) const;

 private:
  friend class LbfgsRun;

  Graph& graph_;
  const LbfgsOptions options_;
  Output loss_;
  std::vector<const Variable*> variables_;
  std::vector<Output> gradients_, next_values_;  // of each variable; next_values_: placeholders
  Operation assign_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_LBFGS_H_
