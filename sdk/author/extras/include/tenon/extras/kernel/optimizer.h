// SPDX-License-Identifier: Apache-2.0
// Optimizers: how a step changes one element. The formulas are TensorFlow's (training_ops.cc).
//
// An optimizer's class says how many variables it has, which input is the gradient and which are its scalars; its Step,
// made from the values of the scalars, changes the elements v (var, then the slots) by the gradient g. All are of one
// type A, halves as float (Wide<T>). Inputs stand as in the ops Apply... and ResourceApply...: variables, then scalars
// and gradient as kScalars and kGradient say; one that counts steps is an int64. kReal: of real numbers alone; kWidest:
// of float and double alone, as TensorFlow's kernels are. The attributes are optional (CreateContext::Has), with
// TensorFlow's defaults. A Step is constant, and may be copied to a device.
#ifndef TENON_SDK_KERNEL_OPTIMIZER_H_
#define TENON_SDK_KERNEL_OPTIMIZER_H_

#include <cmath>
#include <iterator>
#include <type_traits>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// sum + a b and sum - a b, rounded once where the machine has an instruction for it: compilers fuse them there as they
// like, and so they are fused alike. Twice elsewhere, and of complex numbers.
template <class A>
constexpr A PlusProduct(A sum, A a, A b) {
#ifdef __FMA__
  if constexpr (std::is_floating_point_v<A>) return std::fma(a, b, sum);
#endif
  return a * b + sum;
}
template <class A>
constexpr A MinusProduct(A sum, A a, A b) {
#ifdef __FMA__
  if constexpr (std::is_floating_point_v<A>) return std::fma(-a, b, sum);
#endif
  return sum - a * b;
}
// a b - less.
template <class A>
constexpr A ProductMinus(A a, A b, A less) {
#ifdef __FMA__
  if constexpr (std::is_floating_point_v<A>) return std::fma(a, b, -less);
#endif
  return a * b - less;
}

// var -= alpha g. Inputs: var, alpha, gradient.
struct GradientDescent {
  static constexpr int kVariables = 1;
  static constexpr int kGradient = 2;
  static constexpr int kScalars[] = {1};
  explicit GradientDescent(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const GradientDescent&, const A* scalars) : alpha(scalars[0]) {}
    constexpr void operator()(A* v, A g) const { v[0] = MinusProduct(v[0], alpha, g); }
    A alpha;
  };
};

// accum = momentum accum + g; var -= rate accum, or as Nesterov's rate g + rate momentum accum. Inputs: var, accum,
// rate, gradient, momentum.
struct Momentum {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 3;
  static constexpr int kScalars[] = {2, 4};
  explicit Momentum(CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    constexpr Step(const Momentum& o, const A* scalars)
        : rate(scalars[0]), momentum(scalars[1]), nesterov(o.nesterov) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = PlusProduct(g, momentum, v[1]);
      v[0] = nesterov ? v[0] - PlusProduct(rate * momentum * v[1], rate, g) : MinusProduct(v[0], rate, v[1]);
    }
    A rate, momentum;
    bool nesterov;
  };
};

// accum += g^2; var -= rate g / sqrt(accum) (Duchi, Hazan and Singer, 2011). Inputs: var, accum, rate, gradient.
struct Adagrad {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 3;
  static constexpr int kScalars[] = {2};
  explicit Adagrad(CreateContext& c) : update_slots(!c.Has("update_slots") || c.Bool("update_slots")) {}
  bool update_slots;
  template <class A>
  struct Step {
    constexpr Step(const Adagrad& o, const A* scalars) : rate(scalars[0]), update_slots(o.update_slots) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = update_slots ? PlusProduct(v[1], g, g) : v[1] + A(0);
      v[0] -= rate * g / std::sqrt(v[1]);
    }
    A rate;
    bool update_slots;
  };
};

// With an epsilon, beside the square root: var -= rate g / (sqrt(accum) + epsilon). Inputs: var, accum, rate, epsilon,
// gradient.
struct AdagradV2 {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 4;
  static constexpr int kScalars[] = {2, 3};
  explicit AdagradV2(CreateContext& c) : update_slots(!c.Has("update_slots") || c.Bool("update_slots")) {}
  bool update_slots;
  template <class A>
  struct Step {
    constexpr Step(const AdagradV2& o, const A* scalars)
        : rate(scalars[0]), epsilon(scalars[1]), update_slots(o.update_slots) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = update_slots ? PlusProduct(v[1], g, g) : v[1] + A(0);
      v[0] -= rate * g / (std::sqrt(v[1]) + epsilon);
    }
    A rate, epsilon;
    bool update_slots;
  };
};

// The slot holds the step itself, rate and sign included: accum = momentum accum - rate g; var += accum, or as
// Nesterov's momentum accum - rate g. Inputs as Momentum's.
struct KerasMomentum {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 3;
  static constexpr int kScalars[] = {2, 4};
  explicit KerasMomentum(CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    constexpr Step(const KerasMomentum& o, const A* scalars)
        : rate(scalars[0]), momentum(scalars[1]), nesterov(o.nesterov) {}
    constexpr void operator()(A* v, A g) const {
      const A moved = rate * g;
      v[1] = ProductMinus(v[1], momentum, moved);
      v[0] += nesterov ? ProductMinus(v[1], momentum, moved) : v[1];
    }
    A rate, momentum;
    bool nesterov;
  };
};

// var, mean square, momentum: ms += (g^2 - ms) (1 - rho); mom = momentum mom + rate g / sqrt(ms + epsilon); var -= mom
// (Tieleman and Hinton, 2012). Inputs: the three, rate, rho, momentum, epsilon, gradient.
struct RmsProp {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 7;
  static constexpr int kScalars[] = {3, 4, 5, 6};
  explicit RmsProp(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const RmsProp&, const A* scalars)
        : rate(scalars[0]), rho(scalars[1]), momentum(scalars[2]), epsilon(scalars[3]) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = PlusProduct(v[1], ProductMinus(g, g, v[1]), A(1) - rho);
      v[2] = PlusProduct(g * rate / std::sqrt(v[1] + epsilon), v[2], momentum);
      v[0] -= v[2];
    }
    A rate, rho, momentum, epsilon;
  };
};

// var, sum of squares, linear. Of real numbers alone. FTRL-Proximal (McMahan and others, 2013, algorithm 1), with n the
// sum of squares and p = -power: linear += g + 2 shrinkage var - ((n + g^2)^p - n^p) / rate var; var = (clamp(linear,
// -l1, l1) - linear) / ((n + g^2)^p / rate + 2 l2). Inputs: the three, gradient, rate, l1, l2, power; in the second
// version a shrinkage before the power, which is 0 in the first.
struct FtrlScalars {
  static constexpr int kScalars[] = {4, 5, 6, 7};
  static constexpr const char* kBadScalars[] = {
      "lr is not a positive scalar", "l1 regularization strength is not a non-negative scalar",
      "l2 regularization strength is not a non-negative scalar", "lr_power is not a non-positive scalar"};
};
struct FtrlV2Scalars {
  static constexpr int kScalars[] = {4, 5, 6, 7, 8};
  static constexpr const char* kBadScalars[] = {
      "lr is not a positive scalar", "l1 regularization strength is not a non-negative scalar",
      "l2 regularization strength is not a non-negative scalar",
      "l2 shrinkage regularization strength is not a non-negative scalar", "lr_power is not a non-positive scalar"};
};
template <class Scalars>
struct FtrlProximal : Scalars {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 3;
  static constexpr bool kReal = true;
  static constexpr bool kShrinkage = std::size(Scalars::kScalars) == 5;
  explicit FtrlProximal(CreateContext& c)
      : multiply_linear_by_rate(c.Has("multiply_linear_by_lr") && c.Bool("multiply_linear_by_lr")),
        dense(c.op().find("Sparse") == std::string_view::npos) {}
  bool multiply_linear_by_rate;
  // TensorFlow's dense form takes scalars of any sign, and makes 0 of NaN, which is not larger than a limit; its sparse
  // form clips.
  bool dense;
  template <class A>
  struct Step {
    constexpr Step(const FtrlProximal& o, const A* scalars)
        : rate(scalars[0]),
          l1(scalars[1]),
          l2(scalars[2]),
          shrinkage(kShrinkage ? scalars[3] : A(0)),
          power(scalars[kShrinkage ? 4 : 3]),
          multiply_linear_by_rate(o.multiply_linear_by_rate),
          dense(o.dense) {}
    // Number of the first scalar that the sparse form refuses, with kBadScalars' text; -1: none.
    constexpr int BadScalar() const {
      if (dense) return -1;
      if (!(rate > A(0)) && !(multiply_linear_by_rate && rate == A(0))) return 0;
      if (!(l1 >= A(0))) return 1;
      if (!(l2 >= A(0))) return 2;
      if (!(shrinkage >= A(0))) return 3;
      return power <= A(0) ? -1 : kShrinkage ? 4 : 3;
    }
    constexpr void operator()(A* v, A g) const {
      const A sum = v[1] + g * g;
      const A grown = Power(sum), before = Power(v[1]);
      const A scale = multiply_linear_by_rate ? rate : A(1), inverse = multiply_linear_by_rate ? A(1) : rate;
      const A shrunk = kShrinkage ? g + A(2) * shrinkage * v[0] : g;
      v[2] += shrunk * scale - (grown - before) / inverse * v[0];
      const A limit = l1 * scale, quadratic = grown / inverse + A(2) * l2 * scale;
      const A above = v[2] > limit ? limit : v[2], bounded = v[2] < -limit && !(v[2] > limit) ? -limit : above;
      // The dense form goes by the sign alone, which matters where the limit is negative.
      const A clipped = !dense ? bounded : v[2] > A(0) ? limit : v[2] < A(0) ? -limit : A(0);
      const A moved = (clipped - v[2]) / quadratic;
      v[0] = dense && !(std::abs(v[2]) > limit) ? A(0) : moved;
      v[1] = sum;
    }
    constexpr A Power(A x) const { return power == A(-0.5) ? std::sqrt(x) : std::pow(x, -power); }
    // Whether each square root is one, which a device may then know before it begins.
    constexpr bool IsUsual() const { return power == A(-0.5); }
    constexpr void BeUsual() { power = A(-0.5); }
    A rate, l1, l2, shrinkage, power;
    bool multiply_linear_by_rate, dense;
  };
};
using Ftrl = FtrlProximal<FtrlScalars>;
using FtrlV2 = FtrlProximal<FtrlV2Scalars>;

// var, m, v: m += (g - m) (1 - beta1); v += (g^2 - v) (1 - beta2); var -= alpha m / (sqrt(v) + epsilon) with alpha =
// rate sqrt(1 - beta2^t) / (1 - beta1^t), which is Kingma and Ba's (2015) with epsilon beside the uncorrected root, as
// they propose at the end of section 2; as Nesterov's, beta1 m + (1 - beta1) g in place of m. The caller keeps the
// powers. Inputs: the three, beta1^t, beta2^t, rate, beta1, beta2, epsilon, gradient.
struct Adam {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 9;
  static constexpr int kScalars[] = {3, 4, 5, 6, 7, 8};
  explicit Adam(CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    constexpr Step(const Adam& o, const A* scalars)
        : beta1(scalars[3]), beta2(scalars[4]), epsilon(scalars[5]), nesterov(o.nesterov) {
      alpha = scalars[2] * std::sqrt(A(1) - scalars[1]) / (A(1) - scalars[0]);
    }
    constexpr void operator()(A* v, A g) const {
      v[1] = PlusProduct(v[1], g - v[1], A(1) - beta1);
      v[2] = PlusProduct(v[2], ProductMinus(g, g, v[2]), A(1) - beta2);
      const A numerator = nesterov ? PlusProduct(beta1 * v[1], g, A(1) - beta1) : v[1];
      v[0] -= alpha * numerator / (std::sqrt(v[2]) + epsilon);
    }
    A alpha, beta1, beta2, epsilon;
    bool nesterov;
  };
};

// Adam with the largest v so far, vhat = max(vhat, v), in place of v (Reddi, Kale and Kumar, 2018). Inputs: var, m, v,
// vhat, then Adam's.
struct AdamWithAmsgrad {
  static constexpr int kVariables = 4;
  static constexpr int kGradient = 10;
  static constexpr int kScalars[] = {4, 5, 6, 7, 8, 9};
  static constexpr bool kReal = true;
  explicit AdamWithAmsgrad(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const AdamWithAmsgrad&, const A* scalars)
        : alpha(scalars[2] * std::sqrt(A(1) - scalars[1]) / (A(1) - scalars[0])),
          beta1(scalars[3]),
          beta2(scalars[4]),
          epsilon(scalars[5]) {}
    constexpr void operator()(A* v, A g) const {
      v[1] += (g - v[1]) * (A(1) - beta1);
      v[2] += (g * g - v[2]) * (A(1) - beta2);
      v[3] = v[3] < v[2] ? v[2] : v[3];
      v[0] -= alpha * v[1] / (std::sqrt(v[3]) + epsilon);
    }
    A alpha, beta1, beta2, epsilon;
  };
};

// Adam by the largest gradient: m += (g - m) (1 - beta1); v = max(beta2 v, |g|); var -= rate / (1 - beta1^t) m / (v +
// epsilon) (Kingma and Ba, 2015, algorithm 2). Inputs: var, m, v, beta1^t, rate, beta1, beta2, epsilon, gradient.
struct AdaMax {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 8;
  static constexpr int kScalars[] = {3, 4, 5, 6, 7};
  static constexpr bool kReal = true;
  explicit AdaMax(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const AdaMax&, const A* scalars)
        : rate(scalars[1] / (A(1) - scalars[0])), beta1(scalars[2]), beta2(scalars[3]), epsilon(scalars[4]) {}
    constexpr void operator()(A* v, A g) const {
      v[1] += (g - v[1]) * (A(1) - beta1);
      const A decayed = beta2 * v[2], size = std::abs(g);
      v[2] = decayed < size ? size : decayed;
      v[0] -= rate * (v[1] / (v[2] + epsilon));
    }
    A rate, beta1, beta2, epsilon;
  };
};

// s = rho s + (1 - rho) g^2; d = sqrt(u + epsilon) / sqrt(s + epsilon) g; u = rho u + (1 - rho) d^2; var -= rate d
// (Zeiler, 2012). Inputs: var, s (accum), u (accum_update), rate, rho, epsilon, gradient.
struct Adadelta {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 6;
  static constexpr int kScalars[] = {3, 4, 5};
  explicit Adadelta(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const Adadelta&, const A* scalars) : rate(scalars[0]), rho(scalars[1]), epsilon(scalars[2]) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = v[1] * rho + g * g * (A(1) - rho);
      const A change = std::sqrt(v[2] + epsilon) / std::sqrt(v[1] + epsilon) * g;
      v[2] = v[2] * rho + change * change * (A(1) - rho);
      v[0] -= change * rate;
    }
    A rate, rho, epsilon;
  };
};

// RMSProp by the gradients' variance: mg += (g - mg) (1 - rho), and ms - mg^2 in place of ms (Graves, 2013). Inputs:
// var, mg, ms, mom, rate, rho, momentum, epsilon, gradient.
struct CenteredRmsProp {
  static constexpr int kVariables = 4;
  static constexpr int kGradient = 8;
  static constexpr int kScalars[] = {4, 5, 6, 7};
  explicit CenteredRmsProp(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const CenteredRmsProp&, const A* scalars)
        : rate(scalars[0]), rho(scalars[1]), momentum(scalars[2]), epsilon(scalars[3]) {}
    constexpr void operator()(A* v, A g) const {
      v[2] += (g * g - v[2]) * (A(1) - rho);
      v[1] += (g - v[1]) * (A(1) - rho);
      v[3] = v[3] * momentum + g * rate / std::sqrt(v[2] - v[1] * v[1] + epsilon);
      v[0] -= v[3];
    }
    A rate, rho, momentum, epsilon;
  };
};

// The sign of x; 0 and NaN of themselves.
template <class A>
constexpr A SignOf(A x) {
  return x > A(0) ? A(1) : x < A(0) ? A(-1) : x;
}

// m = beta m + (1 - beta) g; var -= rate (alpha + decay sign(g) sign(m)) g (Bello and others, 2017). Inputs: var, m,
// rate, alpha, decay, beta, gradient.
struct AddSign {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 6;
  static constexpr int kScalars[] = {2, 3, 4, 5};
  static constexpr bool kReal = true;
  explicit AddSign(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const AddSign&, const A* scalars)
        : rate(scalars[0]), alpha(scalars[1]), decay(scalars[2]), beta(scalars[3]) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = v[1] * beta + g * (A(1) - beta);
      v[0] -= rate * (alpha + decay * (SignOf(g) * SignOf(v[1]))) * g;
    }
    A rate, alpha, decay, beta;
  };
};

// The same with a power: var -= rate exp(base decay sign(g) sign(m)) g. Inputs: var, m, rate, base (a logarithm),
// decay, beta, gradient.
struct PowerSign {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 6;
  static constexpr int kScalars[] = {2, 3, 4, 5};
  static constexpr bool kReal = true;
  explicit PowerSign(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const PowerSign&, const A* scalars)
        : rate(scalars[0]),
          beta(scalars[3]),
          growing(std::exp(scalars[1] * scalars[2])),
          shrinking(std::exp(-(scalars[1] * scalars[2]))) {}
    constexpr void operator()(A* v, A g) const {
      v[1] = v[1] * beta + g * (A(1) - beta);
      const A same = SignOf(g) * SignOf(v[1]);
      const A by_signs = same > A(0) ? growing : shrinking;
      const A known = same == A(0) ? A(1) : by_signs;
      v[0] -= rate * (same != same ? same : known) * g;
    }
    A rate, beta;
    A growing, shrinking;  // what the rate is multiplied by where both signs are the same, and where they are not
  };
};

// What penalties leave of x: sign(x) max(|x| - l1, 0) / divisor; without l1 x / divisor.
template <class A>
constexpr A Shrunk(A x, A l1, bool has_l1, A divisor) {
  if (!has_l1) return x / divisor;
  const A left = std::abs(x) - l1;
  return SignOf(x) * (left < A(0) ? A(0) : left) / divisor;
}

// A step of gradient descent, then of the penalties: v = var - rate g; var = sign(v) max(|v| - rate l1, 0) / (1 + rate
// l2) (Duchi and Singer, 2009). Inputs: var, rate (alpha), l1, l2, gradient.
struct ProximalGradientDescent {
  static constexpr int kVariables = 1;
  static constexpr int kGradient = 4;
  static constexpr int kScalars[] = {1, 2, 3};
  static constexpr bool kWidest = true;
  explicit ProximalGradientDescent(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const ProximalGradientDescent&, const A* scalars)
        : rate(scalars[0]), l1(scalars[1]), l2(scalars[2]) {}
    constexpr void operator()(A* v, A g) const {
      v[0] = Shrunk(v[0] - g * rate, rate * l1, l1 > A(0), A(1) + l2 * rate);
    }
    A rate, l1, l2;
  };
};

// The same with Adagrad's rate: accum += g^2, and rate / sqrt(accum) in place of rate. Inputs: var, accum, rate, l1,
// l2, gradient.
struct ProximalAdagrad {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 5;
  static constexpr int kScalars[] = {2, 3, 4};
  static constexpr bool kWidest = true;
  static constexpr const char* kBadScalars[] = {"lr is not a positive scalar",
                                                "l1 regularization strength is not a non-negative scalar",
                                                "l2 regularization strength is not a non-negative scalar"};
  explicit ProximalAdagrad(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const ProximalAdagrad&, const A* scalars) : rate(scalars[0]), l1(scalars[1]), l2(scalars[2]) {}
    constexpr int BadScalar() const { return !(rate > A(0)) ? 0 : !(l1 >= A(0)) ? 1 : !(l2 >= A(0)) ? 2 : -1; }
    constexpr void operator()(A* v, A g) const {
      v[1] += g * g;
      const A own = rate / std::sqrt(v[1]);
      v[0] = Shrunk(v[0] - g * own, own * l1, l1 > A(0), A(1) + l2 * own);
    }
    A rate, l1, l2;
  };
};

// Dual averaging: sum += g, squares += g^2; var = -rate sign(sum) max(|sum| - t l1, 0) / (t l2 rate + sqrt(squares))
// with t the number of steps (Duchi, Hazan and Singer, 2011). Inputs: var, sum, squares, gradient, rate, l1, l2, t.
struct AdagradDualAveraging {
  static constexpr int kVariables = 3;
  static constexpr int kGradient = 3;
  static constexpr int kScalars[] = {4, 5, 6, 7};
  static constexpr bool kWidest = true;
  explicit AdagradDualAveraging(CreateContext&) {}
  template <class A>
  struct Step {
    constexpr Step(const AdagradDualAveraging&, const A* scalars)
        : rate(scalars[0]), l1(scalars[1]), l2(scalars[2]), steps(scalars[3]) {}
    constexpr void operator()(A* v, A g) const {
      v[1] += g;
      v[2] += g * g;
      v[0] = -rate * Shrunk(v[1], steps * l1, l1 > A(0), l2 * (steps * rate) + std::sqrt(v[2]));
    }
    A rate, l1, l2, steps;
  };
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_OPTIMIZER_H_
