// SPDX-License-Identifier: Apache-2.0
// Learning rates that change with the step, as nodes of the graph.
//
//   const LearningRate rate = WarmUp(500, CosineDecay(0.1f, 10000));
//   Minimize(model, loss, rate(graph, model.Counter("global_step").value));
//
// A LearningRate makes the nodes that give the rate, a float scalar, of a step, a scalar integer (int32 or int64); the
// same one may be asked for several graphs and steps. Trainer counts "global_step", so a resumed run goes on with the
// rate that it had. With t the step and T a number of steps, the formulas are TensorFlow's (tf.compat.v1.train):
//   ExponentialDecay    r d^(t/T)                     (staircase: floor(t/T))
//   NaturalExpDecay     r e^(-d t/T)                  (staircase: floor(t/T))
//   InverseTimeDecay    r / (1 + d t/T)               (staircase: floor(t/T))
//   PiecewiseConstant   values[i], where i boundaries are below t: boundaries[0] itself has values[0] still
//   PolynomialDecay     (r - end) (1 - min(t, T)/T)^power + end
//                       (cycle: T grows to the multiple of it that t has not passed)
//   CosineDecay         r ((1 - alpha) (1 + cos(pi min(t, T)/T))/2 + alpha)  (Loshchilov and Hutter 2017)
//   CosineRestarts      the same over periods of T, T t_mul, T t_mul^2, ... steps, that begin at r, r m_mul, r m_mul^2,
//                       ...
//   WarmUp              from + (target - from) t/T up to step T, then `then` of step t - T, whose first value is the
//                       target  (Goyal et al. 2017)
// Steps are computed with as floats, as there: beyond 2^24 neighbours may be the same. What makes no sense (no step to
// decay in, boundaries that do not rise) is INVALID_ARGUMENT, which sticks to the graph that the nodes are for.
#ifndef TENON_TRAIN_LEARNING_RATE_H_
#define TENON_TRAIN_LEARNING_RATE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

using LearningRate = std::function<Output(Graph& graph, Output step)>;

LearningRate ConstantRate(float rate);
LearningRate ExponentialDecay(float rate, int64_t decay_steps, float decay_rate, bool staircase = false);
LearningRate NaturalExpDecay(float rate, int64_t decay_steps, float decay_rate, bool staircase = false);
LearningRate InverseTimeDecay(float rate, int64_t decay_steps, float decay_rate, bool staircase = false);
// One value more than boundaries.
LearningRate PiecewiseConstant(std::vector<int64_t> boundaries, std::vector<float> values);
LearningRate PolynomialDecay(float rate, int64_t decay_steps, float end = 0.0001f, float power = 1, bool cycle = false);
LearningRate CosineDecay(float rate, int64_t decay_steps, float alpha = 0);
LearningRate CosineRestarts(float rate, int64_t first_steps, float t_mul = 2, float m_mul = 1, float alpha = 0);
LearningRate WarmUp(int64_t steps, LearningRate then, float from = 0);

}  // namespace tenon::train

#endif  // TENON_TRAIN_LEARNING_RATE_H_
