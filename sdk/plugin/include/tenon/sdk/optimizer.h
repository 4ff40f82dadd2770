// SPDX-License-Identifier: Apache-2.0
// Optimizers: how a step changes one element. The formulas are TensorFlow's (training_ops.cc).
//
// An optimizer's class says how many variables it has, which input is the gradient and which are its scalars; its Step,
// made from the values of the scalars, changes the elements v (var, then the slots) by the gradient g.
#ifndef TENON_SDK_OPTIMIZER_H_
#define TENON_SDK_OPTIMIZER_H_

#include <cmath>

#include "tenon/sdk/kernel.h"

namespace tenon::sdk {

struct GradientDescent {
  static constexpr int kVariables = 1;
  static constexpr int kGradient = 2;
  static constexpr int kScalars[] = {1};
  explicit GradientDescent(CreateContext&) {}
  template <class A>
  struct Step {
    Step(const GradientDescent&, const A* scalars) : alpha(scalars[0]) {}
    void operator()(A* v, A g) const { v[0] -= alpha * g; }
    A alpha;
  };
};

struct Momentum {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 3;
  static constexpr int kScalars[] = {2, 4};
  explicit Momentum(CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    Step(const Momentum& o, const A* scalars) : rate(scalars[0]), momentum(scalars[1]), nesterov(o.nesterov) {}
    void operator()(A* v, A g) const {
      v[1] = momentum * v[1] + g;
      v[0] -= nesterov ? rate * g + rate * momentum * v[1] : rate * v[1];
    }
    A rate, momentum;
    bool nesterov;
  };
};

struct Adagrad {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 3;
  static constexpr int kScalars[] = {2};
  explicit Adagrad(CreateContext& c) : update_slots(!c.Has("update_slots") || c.Bool("update_slots")) {}
  bool update_slots;
  template <class A>
  struct Step {
    Step(const Adagrad& o, const A* scalars) : rate(scalars[0]), update_slots(o.update_slots) {}
    void operator()(A* v, A g) const {
      v[1] += update_slots ? g * g : A(0);
      v[0] -= rate * g / std::sqrt(v[1]);
    }
    A rate;
    bool update_slots;
  };
};

struct Adam {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 9;
  static constexpr int kScalars[] = {3, 4, 5, 6, 7, 8};
  explicit Adam(CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    Step(const Adam& o, const A* scalars)
        : beta1(scalars[3]), beta2(scalars[4]), epsilon(scalars[5]), nesterov(o.nesterov) {
      alpha = scalars[2] * std::sqrt(A(1) - scalars[1]) / (A(1) - scalars[0]);
    }
    void operator()(A* v, A g) const {
      v[1] += (g - v[1]) * (A(1) - beta1);
      v[2] += (g * g - v[2]) * (A(1) - beta2);
      const A numerator = nesterov ? g * (A(1) - beta1) + beta1 * v[1] : v[1];
      v[0] -= alpha * numerator / (std::sqrt(v[2]) + epsilon);
    }
    A alpha, beta1, beta2, epsilon;
    bool nesterov;
  };
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_OPTIMIZER_H_
