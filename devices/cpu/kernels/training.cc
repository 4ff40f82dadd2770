// SPDX-License-Identifier: Apache-2.0
// Optimizer steps: dense ones read old values and write new ones; sparse ones update rows in place.
//
// The formulas are TensorFlow's (training_ops.cc). Slots are updated one variable after another; use_locking is passed on.
#include <algorithm>
#include <cmath>

#include "kernels/types.h"
#include "kernels/update.h"

namespace tenon::cpu {
namespace {

using Trainable = Types<float, double, Half, Bfloat16>;

template <class T>
Wide<T> ScalarInput(sdk::RunContext c, int32_t index) {
  return static_cast<Wide<T>>(*c.input<T>(index));
}

// The optimizer's class gives the number of variables, the gradient's input and new values of one element.
// Arrays hold var, then the slots.
struct GradientDescent {
  static constexpr int kVariables = 1;
  static constexpr int kGradient = 2;
  explicit GradientDescent(sdk::CreateContext&) {}
  template <class A>
  struct Step {
    template <class T>
    Step(const GradientDescent&, sdk::RunContext c, Tag<T>) : alpha(ScalarInput<T>(c, 1)) {}
    void operator()(A* v, A g) const { v[0] -= alpha * g; }
    A alpha;
  };
};

struct Momentum {
  static constexpr int kVariables = 2;
  static constexpr int kGradient = 3;
  explicit Momentum(sdk::CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    template <class T>
    Step(const Momentum& o, sdk::RunContext c, Tag<T>)
        : rate(ScalarInput<T>(c, 2)), momentum(ScalarInput<T>(c, 4)), nesterov(o.nesterov) {}
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
  explicit Adagrad(sdk::CreateContext& c) : update_slots(!c.Has("update_slots") || c.Bool("update_slots")) {}
  bool update_slots;
  template <class A>
  struct Step {
    template <class T>
    Step(const Adagrad& o, sdk::RunContext c, Tag<T>) : rate(ScalarInput<T>(c, 2)), update_slots(o.update_slots) {}
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
  explicit Adam(sdk::CreateContext& c) : nesterov(c.Has("use_nesterov") && c.Bool("use_nesterov")) {}
  bool nesterov;
  template <class A>
  struct Step {
    template <class T>
    Step(const Adam& o, sdk::RunContext c, Tag<T>)
        : beta1(ScalarInput<T>(c, 6)), beta2(ScalarInput<T>(c, 7)), epsilon(ScalarInput<T>(c, 8)), nesterov(o.nesterov) {
      const A beta1_power = ScalarInput<T>(c, 3), beta2_power = ScalarInput<T>(c, 4);
      alpha = ScalarInput<T>(c, 5) * std::sqrt(A(1) - beta2_power) / (A(1) - beta1_power);
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

template <class Optimizer, bool kReference>
struct ApplyKernel {
  explicit ApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    Trainable::Dispatch(c.input_view(Optimizer::kGradient).dtype, [&]<class T>(Tag<T> tag) { Apply(c, tag); });
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  template <class T>
  void Apply(sdk::RunContext c, Tag<T> tag) const {
    using A = Wide<T>;
    const tenon_tensor_view& gradient = c.input_view(Optimizer::kGradient);
    const sdk::Dims dims = sdk::DimsOf(gradient);
    const typename Optimizer::template Step<A> step(optimizer, c, tag);
    const T* g = sdk::Data<const T>(gradient);
    const int64_t count = sdk::Count(dims);
    Begin<T, Optimizer::kVariables>(c, gradient.dtype, dims, [&](const auto& olds, const auto& news) {
      const double cost = Optimizer::kVariables * 0.3;
      c.ParallelFor(count, cost, [&](int64_t begin, int64_t end) { Loop<T, A>(step, g, olds, news, begin, end); });
    });
  }

  // Begins the update of each variable, the slots inside var's; commits all when function has returned.
  template <class T, int kLeft, class Function>
  void Begin(sdk::RunContext c, uint32_t dtype, sdk::Dims dims, Function&& function) const {
    constexpr int kIndex = Optimizer::kVariables - kLeft;
    if constexpr (kIndex == 0) {
      Update update(c, c.resource(0), lock, dtype, dims);
      Next<T, kLeft>(c, dtype, dims, update, Pointers<T>{}, Pointers<T>{}, function);
    }
  }
  template <class T>
  struct Pointers {
    T* at[Optimizer::kVariables] = {};
  };
  template <class T, int kLeft, class Function>
  void Next(sdk::RunContext c, uint32_t dtype, sdk::Dims dims, Update& update, Pointers<T> olds, Pointers<T> news,
            Function& function) const {
    constexpr int kIndex = Optimizer::kVariables - kLeft;
    olds.at[kIndex] = const_cast<T*>(update.old_data<T>());
    news.at[kIndex] = update.new_data<T>();
    if constexpr (kLeft == 1) {
      function(olds, news);
    } else {
      Update next(c, c.resource(kIndex + 1), lock, dtype, dims);
      Next<T, kLeft - 1>(c, dtype, dims, next, olds, news, function);
    }
    update.Commit();
  }

  template <class T, class A, class Step>
  static void Loop(const Step& step, const T* g, const Pointers<T>& olds, const Pointers<T>& news, int64_t begin,
                   int64_t end) {
    constexpr int kN = Optimizer::kVariables;
    const T* old0 = olds.at[0];
    const T* old1 = olds.at[kN > 1 ? 1 : 0];
    const T* old2 = olds.at[kN > 2 ? 2 : 0];
    T* new0 = news.at[0];
    T* new1 = news.at[kN > 1 ? 1 : 0];
    T* new2 = news.at[kN > 2 ? 2 : 0];
    const Step local = step;
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) {
      A v[3] = {static_cast<A>(old0[i]), static_cast<A>(old1[i]), static_cast<A>(old2[i])};
      local(v, static_cast<A>(g[i]));
      if constexpr (kN > 1) new1[i] = static_cast<T>(v[1]);
      if constexpr (kN > 2) new2[i] = static_cast<T>(v[2]);
      new0[i] = static_cast<T>(v[0]);
    }
  }

  Optimizer optimizer;
  uint32_t lock;
};

// Rows indices[i] one after the other; a row that comes twice is updated twice.
template <class Optimizer>
struct SparseApplyKernel {
  static_assert(Optimizer::kVariables == 2);
  explicit SparseApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    Trainable::Dispatch(c.input_view(Optimizer::kGradient).dtype, [&]<class T>(Tag<T> tag) { Apply(c, tag); });
  }

 private:
  template <class T>
  void Apply(sdk::RunContext c, Tag<T> tag) const {
    using A = Wide<T>;
    const tenon_tensor_view& gradient = c.input_view(Optimizer::kGradient);
    const tenon_tensor_view& indices = c.input_view(Optimizer::kGradient + 1);
    Update var(c, c.resource(0), lock, gradient.dtype);
    Update slot(c, c.resource(1), lock, gradient.dtype);
    const sdk::Dims dims = var.dims();
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "rows of a scalar variable cannot be updated");
    if (!std::ranges::equal(dims, slot.dims()))
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable has the shape ", dims, ", its slot ", slot.dims());
    const int64_t row = sdk::Count(dims.subspan(1));
    const int64_t count = sdk::Count(indices);
    if (sdk::Count(gradient) != sdk::Multiply(count, row)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(gradient), " does not fit ", count,
                " rows of a variable of shape ", dims);
    }
    const void* index = sdk::Data<void>(indices);
    for (int64_t i = 0; i < count; ++i) CheckRow(IndexAt(index, indices.dtype, i), i, dims[0]);
    const typename Optimizer::template Step<A> step(optimizer, c, tag);
    var.BeginWriting();
    slot.BeginWriting();
    const T* g = sdk::Data<const T>(gradient);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = IndexAt(index, indices.dtype, i) * row;
      T* v0 = var.new_data<T>() + at;
      T* v1 = slot.new_data<T>() + at;
      for (int64_t j = 0; j < row; ++j) {
        A v[2] = {static_cast<A>(v0[j]), static_cast<A>(v1[j])};
        step(v, static_cast<A>(g[i * row + j]));
        v1[j] = static_cast<T>(v[1]);
        v0[j] = static_cast<T>(v[0]);
      }
    }
    slot.Commit();
    var.Commit();
  }
  Optimizer optimizer;
  uint32_t lock;
};

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<Trainable::Constraint<"T">>::list};
constexpr sdk::Traits kSparseTraits = {
    .constraints = sdk::Constraints<Trainable::Constraint<"T">, Indices::Constraint<"Tindices">>::list};

}  // namespace

TENON_CPU_KERNEL(ApplyGradientDescent) = CpuKernel<ApplyKernel<GradientDescent, true>>("ApplyGradientDescent", kTraits);
TENON_CPU_KERNEL(ResourceApplyGradientDescent) =
    CpuKernel<ApplyKernel<GradientDescent, false>>("ResourceApplyGradientDescent", kTraits);
TENON_CPU_KERNEL(ApplyMomentum) = CpuKernel<ApplyKernel<Momentum, true>>("ApplyMomentum", kTraits);
TENON_CPU_KERNEL(ResourceApplyMomentum) = CpuKernel<ApplyKernel<Momentum, false>>("ResourceApplyMomentum", kTraits);
TENON_CPU_KERNEL(ApplyAdagrad) = CpuKernel<ApplyKernel<Adagrad, true>>("ApplyAdagrad", kTraits);
TENON_CPU_KERNEL(ResourceApplyAdagrad) = CpuKernel<ApplyKernel<Adagrad, false>>("ResourceApplyAdagrad", kTraits);
TENON_CPU_KERNEL(ApplyAdam) = CpuKernel<ApplyKernel<Adam, true>>("ApplyAdam", kTraits);
TENON_CPU_KERNEL(ResourceApplyAdam) = CpuKernel<ApplyKernel<Adam, false>>("ResourceApplyAdam", kTraits);
TENON_CPU_KERNEL(ResourceSparseApplyAdagrad) =
    CpuKernel<SparseApplyKernel<Adagrad>>("ResourceSparseApplyAdagrad", kSparseTraits);

}  // namespace tenon::cpu
