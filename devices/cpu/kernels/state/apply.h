// SPDX-License-Identifier: Apache-2.0
// Optimizer steps: dense ones read old values and write new ones; sparse ones update rows in place.
//
// Slots are updated one variable after another; use_locking is passed on.
#ifndef TENON_DEVICES_CPU_KERNELS_STATE_APPLY_H_
#define TENON_DEVICES_CPU_KERNELS_STATE_APPLY_H_

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/optimizer.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {

template <class Optimizer>
using OptimizerTypes = std::conditional_t<requires { Optimizer::kWidest; }, Types<float, double>,
                                   std::conditional_t<requires { Optimizer::kReal; }, Reals, Reals::AndComplex>>;

// Ops on reference variables pass the variable on; those on handles are named Resource....
inline bool GivesReference(sdk::CreateContext& c) { return !c.op().starts_with("Resource"); }

// The optimizer's step with the values of its scalars. In sparse ops the indices follow the gradient.
template <class T, bool kSparse = false, class Optimizer>
typename Optimizer::template Step<Wide<T>> OptimizerStep(const Optimizer& optimizer, sdk::RunContext c) {
  constexpr size_t kCount = std::size(Optimizer::kScalars);
  Wide<T> scalars[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    const int input = Optimizer::kScalars[i] + (kSparse && Optimizer::kScalars[i] > Optimizer::kGradient ? 1 : 0);
    const bool counts = c.input_view(input).dtype == TENON_DT_INT64;
    scalars[i] = counts ? static_cast<Wide<T>>(static_cast<float>(*c.input<int64_t>(input)))
                        : static_cast<Wide<T>>(*c.input<T>(input));
  }
  const typename Optimizer::template Step<Wide<T>> step(optimizer, scalars);
  if constexpr (requires { step.BadScalar(); }) {
    if (const int bad = step.BadScalar(); bad >= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, Optimizer::kBadScalars[bad], ": ", static_cast<double>(scalars[bad]));
  }
  return step;
}

// Elements [begin, end) of the variable and of its slots: kN of them, which lie apart from each other. What is new may
// stand where the old values do.
template <class T, size_t kN, bool kUsual = false, class Step>
void StepOver(const Step& step, const T* g, T* const* olds, T* const* news, int64_t begin, int64_t end) {
  using A = Wide<T>;
  constexpr size_t kSecond = kN > 1 ? 1 : 0, kThird = kN > 2 ? 2 : 0, kFourth = kN > 3 ? 3 : 0;
  const T *old0 = olds[0], *old1 = olds[kSecond], *old2 = olds[kThird], *old3 = olds[kFourth];
  T *new0 = news[0], *new1 = news[kSecond], *new2 = news[kThird], *new3 = news[kFourth];
  Step local = step;
  if constexpr (kUsual) local.BeUsual();
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    A v[4] = {static_cast<A>(old0[i]), static_cast<A>(old1[i]), static_cast<A>(old2[i]), static_cast<A>(old3[i])};
    local(v, static_cast<A>(g[i]));
    if constexpr (kN > 1) new1[i] = static_cast<T>(v[1]);
    if constexpr (kN > 2) new2[i] = static_cast<T>(v[2]);
    if constexpr (kN > 3) new3[i] = static_cast<T>(v[3]);
    new0[i] = static_cast<T>(v[0]);
  }
}

template <class Optimizer>
struct ApplyKernel {
  explicit ApplyKernel(sdk::CreateContext& c)
      : optimizer(c), lock(sdk::UpdateLock(c)), gives_reference(GivesReference(c)) {}
  void Run(sdk::RunContext c) const {
    OptimizerTypes<Optimizer>::Dispatch(c.input_view(Optimizer::kGradient).dtype,
                                        [&]<class T>(Tag<T>) { Apply<T>(c); });
    if (gives_reference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  template <class T>
  void Apply(sdk::RunContext c) const {
    const tenon_tensor_view& gradient = c.input_view(Optimizer::kGradient);
    const sdk::Dims dims = sdk::DimsOf(gradient);
    const auto step = OptimizerStep<T>(optimizer, c);
    const T* g = sdk::Data<const T>(gradient);
    const int64_t count = sdk::Count(dims);
    Begin<T, Optimizer::kVariables>(c, gradient.dtype, dims, [&](const auto& olds, const auto& news) {
      const double cost = Optimizer::kVariables * 0.3;
      c.UninterruptedFor(count, cost, [&](int64_t begin, int64_t end) {
        if constexpr (requires { step.IsUsual(); }) {
          if (step.IsUsual()) return StepOver<T, Optimizer::kVariables, true>(step, g, olds.at, news.at, begin, end);
        }
        StepOver<T, Optimizer::kVariables>(step, g, olds.at, news.at, begin, end);
      });
    });
  }

  // Begins the update of each variable, the slots inside var's; commits all when function has returned. Where one
  // cannot begin, none has lost its value.
  template <class T, int kLeft, class Function>
  void Begin(sdk::RunContext c, uint32_t dtype, sdk::Dims dims, Function&& function) const {
    constexpr int kIndex = Optimizer::kVariables - kLeft;
    if constexpr (kIndex == 0) {
      sdk::Update update(c, c.resource(0), lock, dtype, dims);
      update.NothingWritten();
      Next<T, kLeft>(c, dtype, dims, update, Pointers<T>{}, Pointers<T>{}, function);
    }
  }
  template <class T>
  struct Pointers {
    T* at[Optimizer::kVariables] = {};
    sdk::Update* update[Optimizer::kVariables] = {};
  };
  template <class T, int kLeft, class Function>
  void Next(sdk::RunContext c, uint32_t dtype, sdk::Dims dims, sdk::Update& update, Pointers<T> olds, Pointers<T> news,
            Function& function) const {
    constexpr int kIndex = Optimizer::kVariables - kLeft;
    olds.update[kIndex] = &update;
    olds.at[kIndex] = const_cast<T*>(update.old_data<T>());
    news.at[kIndex] = update.new_data<T>();
    if constexpr (kLeft == 1) {
      for (sdk::Update* each : olds.update) each->BeginWriting();
      function(olds, news);
    } else {
      sdk::Update next(c, c.resource(kIndex + 1), lock, dtype, dims);
      next.NothingWritten();
      Next<T, kLeft - 1>(c, dtype, dims, next, olds, news, function);
    }
    update.Commit();
  }

  Optimizer optimizer;
  uint32_t lock;
  bool gives_reference;
};

// Rows indices[i] one after the other; a row that comes twice is updated twice.
template <class Optimizer>
struct SparseApplyKernel {
  explicit SparseApplyKernel(sdk::CreateContext& c)
      : optimizer(c), lock(sdk::UpdateLock(c)), gives_reference(GivesReference(c)) {}
  void Run(sdk::RunContext c) const {
    const uint32_t dtype = c.input_view(Optimizer::kGradient).dtype;
    OptimizerTypes<Optimizer>::Dispatch(dtype, [&]<class T>(Tag<T>) {
      sdk::Update var(c, c.resource(0), lock, dtype);
      WithSlots<T>(c, var, std::make_integer_sequence<int, Optimizer::kVariables - 1>());
    });
    if (gives_reference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  // Begins the updates of the slots, changes all rows, and commits all.
  template <class T, int... kSlots>
  void WithSlots(sdk::RunContext c, sdk::Update& var, std::integer_sequence<int, kSlots...>) const {
    std::array<std::optional<sdk::Update>, sizeof...(kSlots)> slots;
    (slots[kSlots].emplace(c, c.resource(kSlots + 1), lock, c.input_view(Optimizer::kGradient).dtype), ...);
    const std::array<sdk::Update*, Optimizer::kVariables> updates = {&var, &*slots[kSlots]...};
    const sdk::Dims dims = var.dims();
    for (const sdk::Update* update : updates) {
      if (!std::ranges::equal(dims, update->dims()))
        sdk::Fail(TENON_INVALID_ARGUMENT, "the variable has the shape ", dims, ", its slot ", update->dims());
    }
    Apply<T>(c, dims, updates);
    for (size_t i = updates.size(); i-- > 0;) updates[i]->Commit();
  }

  template <class T>
  void Apply(sdk::RunContext c, sdk::Dims dims, const std::array<sdk::Update*, Optimizer::kVariables>& updates) const {
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
    for (int64_t i = 0; i < count; ++i) sdk::CheckRow(IndexAt(index, indices.dtype, i), i, dims[0]);
    const auto step = OptimizerStep<T, true>(optimizer, c);
    for (sdk::Update* update : updates) update->BeginWriting();
    const T* g = sdk::Data<const T>(gradient);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = IndexAt(index, indices.dtype, i) * row;
      T* rows[kN];
      for (size_t k = 0; k < kN; ++k) rows[k] = updates[k]->template new_data<T>() + at;
      if constexpr (requires { step.IsUsual(); }) {
        if (step.IsUsual()) {
          StepOver<T, kN, true>(step, g + i * row, rows, rows, 0, row);
          continue;
        }
      }
      StepOver<T, kN>(step, g + i * row, rows, rows, 0, row);
    }
  }
  Optimizer optimizer;
  uint32_t lock;
  bool gives_reference;
};

template <class Optimizer>
inline constexpr sdk::Traits kUpdateTraits = {
    .constraints = sdk::Constraints<typename OptimizerTypes<Optimizer>::template Constraint<"T">>::list};
template <class Optimizer>
inline constexpr sdk::Traits kSparseTraits = {
    .constraints = sdk::Constraints<typename OptimizerTypes<Optimizer>::template Constraint<"T">,
                                    Indices::Constraint<"Tindices">>::list};

template <class Optimizer>
constexpr tenon_kernel_registration ApplyOptimizer(std::string_view op) {
  return CpuKernel<ApplyKernel<Optimizer>>(op, kUpdateTraits<Optimizer>);
}
template <class Optimizer>
constexpr tenon_kernel_registration ApplyOptimizerToRows(std::string_view op) {
  return CpuKernel<SparseApplyKernel<Optimizer>>(op, kSparseTraits<Optimizer>);
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_STATE_APPLY_H_
