// SPDX-License-Identifier: Apache-2.0
// Optimizer steps: dense ones read old values and write new ones; sparse ones update rows in place.
//
// Slots are updated one variable after another; use_locking is passed on.
#include <algorithm>
#include <iterator>

#include "kernels/types.h"
#include "tenon/sdk/optimizer.h"
#include "tenon/sdk/update.h"

namespace tenon::cpu {
namespace {

using sdk::Adagrad;
using sdk::Adam;
using sdk::CheckRow;
using sdk::GradientDescent;
using sdk::Momentum;
using sdk::Update;
using sdk::UpdateLock;

using Trainable = Reals::AndComplex;

// The optimizer's step with the values of its scalars.
template <class T, class Optimizer>
typename Optimizer::template Step<Wide<T>> StepOf(const Optimizer& optimizer, sdk::RunContext c) {
  constexpr size_t kCount = std::size(Optimizer::kScalars);
  Wide<T> scalars[kCount];
  for (size_t i = 0; i < kCount; ++i) scalars[i] = static_cast<Wide<T>>(*c.input<T>(Optimizer::kScalars[i]));
  return typename Optimizer::template Step<Wide<T>>(optimizer, scalars);
}

template <class Optimizer, bool kReference>
struct ApplyKernel {
  explicit ApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    Trainable::Dispatch(c.input_view(Optimizer::kGradient).dtype, [&]<class T>(Tag<T>) { Apply<T>(c); });
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  template <class T>
  void Apply(sdk::RunContext c) const {
    using A = Wide<T>;
    const tenon_tensor_view& gradient = c.input_view(Optimizer::kGradient);
    const sdk::Dims dims = sdk::DimsOf(gradient);
    const auto step = StepOf<T>(optimizer, c);
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
    Trainable::Dispatch(c.input_view(Optimizer::kGradient).dtype, [&]<class T>(Tag<T>) { Apply<T>(c); });
  }

 private:
  template <class T>
  void Apply(sdk::RunContext c) const {
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
    const auto step = StepOf<T>(optimizer, c);
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
