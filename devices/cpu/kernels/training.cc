// SPDX-License-Identifier: Apache-2.0
// Optimizer steps: dense ones read old values and write new ones; sparse ones update rows in place.
//
// Slots are updated one variable after another; use_locking is passed on.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "kernels/types.h"
#include "tenon/sdk/kernel/optimizer.h"
#include "tenon/sdk/kernel/update.h"

namespace tenon::cpu {
namespace {

using sdk::Adagrad;
using sdk::AdagradV2;
using sdk::Adam;
using sdk::CheckRow;
using sdk::Ftrl;
using sdk::GradientDescent;
using sdk::KerasMomentum;
using sdk::Momentum;
using sdk::RmsProp;
using sdk::Update;
using sdk::UpdateLock;

using Trainable = Reals::AndComplex;

template <class Optimizer>
using TypesOf = std::conditional_t<requires { Optimizer::kReal; }, Reals, Trainable>;

// The optimizer's step with the values of its scalars. In sparse ops the indices follow the gradient.
template <class T, bool kSparse = false, class Optimizer>
typename Optimizer::template Step<Wide<T>> StepOf(const Optimizer& optimizer, sdk::RunContext c) {
  constexpr size_t kCount = std::size(Optimizer::kScalars);
  Wide<T> scalars[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    const int input = Optimizer::kScalars[i];
    scalars[i] = static_cast<Wide<T>>(*c.input<T>(input + (kSparse && input > Optimizer::kGradient ? 1 : 0)));
  }
  const typename Optimizer::template Step<Wide<T>> step(optimizer, scalars);
  if constexpr (requires { step.BadScalar(); }) {
    if (const int bad = step.BadScalar(); bad >= 0) sdk::Fail(TENON_INVALID_ARGUMENT, Optimizer::kBadScalars[bad], ": ", static_cast<double>(scalars[bad]));
  }
  return step;
}

template <class Optimizer, bool kReference>
struct ApplyKernel {
  explicit ApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    TypesOf<Optimizer>::Dispatch(c.input_view(Optimizer::kGradient).dtype, [&]<class T>(Tag<T>) { Apply<T>(c); });
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
      c.UninterruptedFor(count, cost, [&](int64_t begin, int64_t end) { Loop<T, A>(step, g, olds, news, begin, end); });
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
template <class Optimizer, bool kReference>
struct SparseApplyKernel {
  explicit SparseApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    const uint32_t dtype = c.input_view(Optimizer::kGradient).dtype;
    TypesOf<Optimizer>::Dispatch(dtype, [&]<class T>(Tag<T>) {
      Update var(c, c.resource(0), lock, dtype);
      WithSlots<T>(c, var, std::make_integer_sequence<int, Optimizer::kVariables - 1>());
    });
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  // Begins the updates of the slots, changes all rows, and commits all.
  template <class T, int... kSlots>
  void WithSlots(sdk::RunContext c, Update& var, std::integer_sequence<int, kSlots...>) const {
    const uint32_t dtype = c.input_view(Optimizer::kGradient).dtype;
    std::array<std::optional<Update>, sizeof...(kSlots)> slots;
    (slots[kSlots].emplace(c, c.resource(kSlots + 1), lock, dtype), ...);
    const std::array<Update*, Optimizer::kVariables> updates = {&var, &*slots[kSlots]...};
    const sdk::Dims dims = var.dims();
    for (const Update* update : updates) {
      if (!std::ranges::equal(dims, update->dims()))
        sdk::Fail(TENON_INVALID_ARGUMENT, "the variable has the shape ", dims, ", its slot ", update->dims());
    }
    Apply<T>(c, dims, updates);
    for (size_t i = updates.size(); i-- > 0;) updates[i]->Commit();
  }

  template <class T>
  void Apply(sdk::RunContext c, sdk::Dims dims, const std::array<Update*, Optimizer::kVariables>& updates) const {
    using A = Wide<T>;
    constexpr size_t kN = Optimizer::kVariables;
    const tenon_tensor_view& gradient = c.input_view(Optimizer::kGradient);
    const tenon_tensor_view& indices = c.input_view(Optimizer::kGradient + 1);
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "rows of a scalar variable cannot be updated");
    const int64_t row = sdk::Count(dims.subspan(1));
    const int64_t count = sdk::Count(indices);
    if (sdk::Count(gradient) != sdk::Multiply(count, row)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(gradient), " does not fit ", count,
                " rows of a variable of shape ", dims);
    }
    const void* index = sdk::Data<void>(indices);
    for (int64_t i = 0; i < count; ++i) CheckRow(IndexAt(index, indices.dtype, i), i, dims[0]);
    const auto step = StepOf<T, true>(optimizer, c);
    for (Update* update : updates) update->BeginWriting();
    const T* g = sdk::Data<const T>(gradient);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = IndexAt(index, indices.dtype, i) * row;
      for (int64_t j = 0; j < row; ++j) {
        A v[kN];
        for (size_t k = 0; k < kN; ++k) v[k] = static_cast<A>(updates[k]->template new_data<T>()[at + j]);
        step(v, static_cast<A>(g[i * row + j]));
        for (size_t k = 0; k < kN; ++k) updates[k]->template new_data<T>()[at + j] = static_cast<T>(v[k]);
      }
    }
  }
  Optimizer optimizer;
  uint32_t lock;
};

constexpr sdk::Traits kRealTraits = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list};
constexpr sdk::Traits kSparseRealTraits = {
    .constraints = sdk::Constraints<Reals::Constraint<"T">, Indices::Constraint<"Tindices">>::list};
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
    CpuKernel<SparseApplyKernel<Adagrad, false>>("ResourceSparseApplyAdagrad", kSparseTraits);
TENON_CPU_KERNEL(SparseApplyAdagrad) = CpuKernel<SparseApplyKernel<Adagrad, true>>("SparseApplyAdagrad", kSparseTraits);
TENON_CPU_KERNEL(ResourceApplyAdagradV2) = CpuKernel<ApplyKernel<AdagradV2, false>>("ResourceApplyAdagradV2", kTraits);
TENON_CPU_KERNEL(ResourceSparseApplyMomentum) =
    CpuKernel<SparseApplyKernel<Momentum, false>>("ResourceSparseApplyMomentum", kSparseTraits);
TENON_CPU_KERNEL(ResourceApplyKerasMomentum) = CpuKernel<ApplyKernel<KerasMomentum, false>>("ResourceApplyKerasMomentum", kTraits);
TENON_CPU_KERNEL(ResourceSparseApplyKerasMomentum) =
    CpuKernel<SparseApplyKernel<KerasMomentum, false>>("ResourceSparseApplyKerasMomentum", kSparseTraits);
TENON_CPU_KERNEL(ApplyRMSProp) = CpuKernel<ApplyKernel<RmsProp, true>>("ApplyRMSProp", kTraits);
TENON_CPU_KERNEL(ResourceApplyRMSProp) = CpuKernel<ApplyKernel<RmsProp, false>>("ResourceApplyRMSProp", kTraits);
TENON_CPU_KERNEL(SparseApplyMomentum) = CpuKernel<SparseApplyKernel<Momentum, true>>("SparseApplyMomentum", kSparseTraits);
TENON_CPU_KERNEL(SparseApplyRMSProp) = CpuKernel<SparseApplyKernel<RmsProp, true>>("SparseApplyRMSProp", kSparseTraits);
TENON_CPU_KERNEL(ResourceSparseApplyRMSProp) =
    CpuKernel<SparseApplyKernel<RmsProp, false>>("ResourceSparseApplyRMSProp", kSparseTraits);
TENON_CPU_KERNEL(ApplyFtrl) = CpuKernel<ApplyKernel<Ftrl, true>>("ApplyFtrl", kRealTraits);
TENON_CPU_KERNEL(ResourceApplyFtrl) = CpuKernel<ApplyKernel<Ftrl, false>>("ResourceApplyFtrl", kRealTraits);
TENON_CPU_KERNEL(SparseApplyFtrl) = CpuKernel<SparseApplyKernel<Ftrl, true>>("SparseApplyFtrl", kSparseRealTraits);
TENON_CPU_KERNEL(ResourceSparseApplyFtrl) = CpuKernel<SparseApplyKernel<Ftrl, false>>("ResourceSparseApplyFtrl", kSparseRealTraits);

}  // namespace tenon::cpu
