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

using sdk::CheckRow;
using sdk::Update;
using sdk::UpdateLock;

using Widest = Types<float, double>;

template <class Optimizer>
using TypesOf = std::conditional_t<requires { Optimizer::kWidest; }, Widest,
                                   std::conditional_t<requires { Optimizer::kReal; }, Reals, Reals::AndComplex>>;

// Ops on reference variables pass the variable on; those on handles are named Resource....
bool GivesReference(sdk::CreateContext& c) { return !c.op().starts_with("Resource"); }

// The optimizer's step with the values of its scalars. In sparse ops the indices follow the gradient.
template <class T, bool kSparse = false, class Optimizer>
typename Optimizer::template Step<Wide<T>> StepOf(const Optimizer& optimizer, sdk::RunContext c) {
  constexpr size_t kCount = std::size(Optimizer::kScalars);
  Wide<T> scalars[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    const int input = Optimizer::kScalars[i] + (kSparse && Optimizer::kScalars[i] > Optimizer::kGradient ? 1 : 0);
    const bool counts = c.input_view(input).dtype == TENON_DT_INT64;
    scalars[i] = counts ? static_cast<Wide<T>>(static_cast<float>(*c.input<int64_t>(input))) : static_cast<Wide<T>>(*c.input<T>(input));
  }
  const typename Optimizer::template Step<Wide<T>> step(optimizer, scalars);
  if constexpr (requires { step.BadScalar(); }) {
    if (const int bad = step.BadScalar(); bad >= 0) sdk::Fail(TENON_INVALID_ARGUMENT, Optimizer::kBadScalars[bad], ": ", static_cast<double>(scalars[bad]));
  }
  return step;
}

template <class Optimizer>
struct ApplyKernel {
  explicit ApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)), gives_reference(GivesReference(c)) {}
  void Run(sdk::RunContext c) const {
    TypesOf<Optimizer>::Dispatch(c.input_view(Optimizer::kGradient).dtype, [&]<class T>(Tag<T>) { Apply<T>(c); });
    if (gives_reference) *c.output<tenon_resource*>(0) = c.resource(0);
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
      c.UninterruptedFor(count, cost, [&](int64_t begin, int64_t end) {
        if constexpr (requires { step.IsUsual(); }) {
          if (step.IsUsual()) return Loop<T, A, true>(step, g, olds, news, begin, end);
        }
        Loop<T, A>(step, g, olds, news, begin, end);
      });
    });
  }

  // Begins the update of each variable, the slots inside var's; commits all when function has returned. Where one cannot begin, none has lost its value.
  template <class T, int kLeft, class Function>
  void Begin(sdk::RunContext c, uint32_t dtype, sdk::Dims dims, Function&& function) const {
    constexpr int kIndex = Optimizer::kVariables - kLeft;
    if constexpr (kIndex == 0) {
      Update update(c, c.resource(0), lock, dtype, dims);
      update.NothingWritten();
      Next<T, kLeft>(c, dtype, dims, update, Pointers<T>{}, Pointers<T>{}, function);
    }
  }
  template <class T>
  struct Pointers {
    T* at[Optimizer::kVariables] = {};
    Update* update[Optimizer::kVariables] = {};
  };
  template <class T, int kLeft, class Function>
  void Next(sdk::RunContext c, uint32_t dtype, sdk::Dims dims, Update& update, Pointers<T> olds, Pointers<T> news,
            Function& function) const {
    constexpr int kIndex = Optimizer::kVariables - kLeft;
    olds.update[kIndex] = &update;
    olds.at[kIndex] = const_cast<T*>(update.old_data<T>());
    news.at[kIndex] = update.new_data<T>();
    if constexpr (kLeft == 1) {
      for (Update* each : olds.update) each->BeginWriting();
      function(olds, news);
    } else {
      Update next(c, c.resource(kIndex + 1), lock, dtype, dims);
      next.NothingWritten();
      Next<T, kLeft - 1>(c, dtype, dims, next, olds, news, function);
    }
    update.Commit();
  }

  template <class T, class A, bool kUsual = false, class Step>
  static void Loop(const Step& step, const T* g, const Pointers<T>& olds, const Pointers<T>& news, int64_t begin,
                   int64_t end) {
    constexpr int kN = Optimizer::kVariables;
    const T* old0 = olds.at[0];
    const T* old1 = olds.at[kN > 1 ? 1 : 0];
    const T* old2 = olds.at[kN > 2 ? 2 : 0];
    const T* old3 = olds.at[kN > 3 ? 3 : 0];
    T* new0 = news.at[0];
    T* new1 = news.at[kN > 1 ? 1 : 0];
    T* new2 = news.at[kN > 2 ? 2 : 0];
    T* new3 = news.at[kN > 3 ? 3 : 0];
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

  Optimizer optimizer;
  uint32_t lock;
  bool gives_reference;
};

// Rows indices[i] one after the other; a row that comes twice is updated twice.
template <class Optimizer>
struct SparseApplyKernel {
  explicit SparseApplyKernel(sdk::CreateContext& c) : optimizer(c), lock(UpdateLock(c)), gives_reference(GivesReference(c)) {}
  void Run(sdk::RunContext c) const {
    const uint32_t dtype = c.input_view(Optimizer::kGradient).dtype;
    TypesOf<Optimizer>::Dispatch(dtype, [&]<class T>(Tag<T>) {
      Update var(c, c.resource(0), lock, dtype);
      WithSlots<T>(c, var, std::make_integer_sequence<int, Optimizer::kVariables - 1>());
    });
    if (gives_reference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  // Begins the updates of the slots, changes all rows, and commits all.
  template <class T, int... kSlots>
  void WithSlots(sdk::RunContext c, Update& var, std::integer_sequence<int, kSlots...>) const {
    std::array<std::optional<Update>, sizeof...(kSlots)> slots;
    (slots[kSlots].emplace(c, c.resource(kSlots + 1), lock, c.input_view(Optimizer::kGradient).dtype), ...);
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
      T* rows[4];
      for (size_t k = 0; k < 4; ++k) rows[k] = updates[k < kN ? k : 0]->template new_data<T>() + at;
      if constexpr (requires { step.IsUsual(); }) {
        if (step.IsUsual()) {
          Row<T, A, kN, true>(step, g + i * row, rows, row);
          continue;
        }
      }
      Row<T, A, kN>(step, g + i * row, rows, row);
    }
  }
  // A row of the variable and of its slots, which lie apart from each other.
  template <class T, class A, size_t kN, bool kUsual = false, class Step>
  static void Row(const Step& step, const T* g, T* const* rows, int64_t count) {
    Step local = step;
    if constexpr (kUsual) local.BeUsual();
    T *row0 = rows[0], *row1 = rows[1], *row2 = rows[2], *row3 = rows[3];
#pragma GCC ivdep
    for (int64_t j = 0; j < count; ++j) {
      A v[4] = {static_cast<A>(row0[j]), static_cast<A>(row1[j]), static_cast<A>(row2[j]), static_cast<A>(row3[j])};
      local(v, static_cast<A>(g[j]));
      if constexpr (kN > 1) row1[j] = static_cast<T>(v[1]);
      if constexpr (kN > 2) row2[j] = static_cast<T>(v[2]);
      if constexpr (kN > 3) row3[j] = static_cast<T>(v[3]);
      row0[j] = static_cast<T>(v[0]);
    }
  }
  Optimizer optimizer;
  uint32_t lock;
  bool gives_reference;
};

template <class Optimizer>
inline constexpr sdk::Traits kUpdateTraits = {.constraints = sdk::Constraints<typename TypesOf<Optimizer>::template Constraint<"T">>::list};
template <class Optimizer>
inline constexpr sdk::Traits kSparseTraits = {
    .constraints = sdk::Constraints<typename TypesOf<Optimizer>::template Constraint<"T">, Indices::Constraint<"Tindices">>::list};

template <class Optimizer>
constexpr tenon_kernel_registration Dense(std::string_view op) {
  return CpuKernel<ApplyKernel<Optimizer>>(op, kUpdateTraits<Optimizer>);
}
template <class Optimizer>
constexpr tenon_kernel_registration Sparse(std::string_view op) {
  return CpuKernel<SparseApplyKernel<Optimizer>>(op, kSparseTraits<Optimizer>);
}

}  // namespace

TENON_CPU_KERNEL(ApplyGradientDescent) = Dense<sdk::GradientDescent>("ApplyGradientDescent");
TENON_CPU_KERNEL(ResourceApplyGradientDescent) = Dense<sdk::GradientDescent>("ResourceApplyGradientDescent");
TENON_CPU_KERNEL(ApplyMomentum) = Dense<sdk::Momentum>("ApplyMomentum");
TENON_CPU_KERNEL(ResourceApplyMomentum) = Dense<sdk::Momentum>("ResourceApplyMomentum");
TENON_CPU_KERNEL(SparseApplyMomentum) = Sparse<sdk::Momentum>("SparseApplyMomentum");
TENON_CPU_KERNEL(ResourceSparseApplyMomentum) = Sparse<sdk::Momentum>("ResourceSparseApplyMomentum");
TENON_CPU_KERNEL(ResourceApplyKerasMomentum) = Dense<sdk::KerasMomentum>("ResourceApplyKerasMomentum");
TENON_CPU_KERNEL(ResourceSparseApplyKerasMomentum) = Sparse<sdk::KerasMomentum>("ResourceSparseApplyKerasMomentum");
TENON_CPU_KERNEL(ApplyAdagrad) = Dense<sdk::Adagrad>("ApplyAdagrad");
TENON_CPU_KERNEL(ResourceApplyAdagrad) = Dense<sdk::Adagrad>("ResourceApplyAdagrad");
TENON_CPU_KERNEL(SparseApplyAdagrad) = Sparse<sdk::Adagrad>("SparseApplyAdagrad");
TENON_CPU_KERNEL(ResourceSparseApplyAdagrad) = Sparse<sdk::Adagrad>("ResourceSparseApplyAdagrad");
TENON_CPU_KERNEL(ApplyAdagradV2) = Dense<sdk::AdagradV2>("ApplyAdagradV2");
TENON_CPU_KERNEL(ResourceApplyAdagradV2) = Dense<sdk::AdagradV2>("ResourceApplyAdagradV2");
TENON_CPU_KERNEL(SparseApplyAdagradV2) = Sparse<sdk::AdagradV2>("SparseApplyAdagradV2");
TENON_CPU_KERNEL(ResourceSparseApplyAdagradV2) = Sparse<sdk::AdagradV2>("ResourceSparseApplyAdagradV2");
TENON_CPU_KERNEL(ApplyAdadelta) = Dense<sdk::Adadelta>("ApplyAdadelta");
TENON_CPU_KERNEL(ResourceApplyAdadelta) = Dense<sdk::Adadelta>("ResourceApplyAdadelta");
TENON_CPU_KERNEL(SparseApplyAdadelta) = Sparse<sdk::Adadelta>("SparseApplyAdadelta");
TENON_CPU_KERNEL(ResourceSparseApplyAdadelta) = Sparse<sdk::Adadelta>("ResourceSparseApplyAdadelta");
TENON_CPU_KERNEL(ApplyAdam) = Dense<sdk::Adam>("ApplyAdam");
TENON_CPU_KERNEL(ResourceApplyAdam) = Dense<sdk::Adam>("ResourceApplyAdam");
TENON_CPU_KERNEL(ResourceApplyAdamWithAmsgrad) = Dense<sdk::AdamWithAmsgrad>("ResourceApplyAdamWithAmsgrad");
TENON_CPU_KERNEL(ApplyAdaMax) = Dense<sdk::AdaMax>("ApplyAdaMax");
TENON_CPU_KERNEL(ResourceApplyAdaMax) = Dense<sdk::AdaMax>("ResourceApplyAdaMax");
TENON_CPU_KERNEL(ApplyRMSProp) = Dense<sdk::RmsProp>("ApplyRMSProp");
TENON_CPU_KERNEL(ResourceApplyRMSProp) = Dense<sdk::RmsProp>("ResourceApplyRMSProp");
TENON_CPU_KERNEL(SparseApplyRMSProp) = Sparse<sdk::RmsProp>("SparseApplyRMSProp");
TENON_CPU_KERNEL(ResourceSparseApplyRMSProp) = Sparse<sdk::RmsProp>("ResourceSparseApplyRMSProp");
TENON_CPU_KERNEL(ApplyCenteredRMSProp) = Dense<sdk::CenteredRmsProp>("ApplyCenteredRMSProp");
TENON_CPU_KERNEL(ResourceApplyCenteredRMSProp) = Dense<sdk::CenteredRmsProp>("ResourceApplyCenteredRMSProp");
TENON_CPU_KERNEL(SparseApplyCenteredRMSProp) = Sparse<sdk::CenteredRmsProp>("SparseApplyCenteredRMSProp");
TENON_CPU_KERNEL(ResourceSparseApplyCenteredRMSProp) = Sparse<sdk::CenteredRmsProp>("ResourceSparseApplyCenteredRMSProp");
TENON_CPU_KERNEL(ApplyAddSign) = Dense<sdk::AddSign>("ApplyAddSign");
TENON_CPU_KERNEL(ResourceApplyAddSign) = Dense<sdk::AddSign>("ResourceApplyAddSign");
TENON_CPU_KERNEL(ApplyPowerSign) = Dense<sdk::PowerSign>("ApplyPowerSign");
TENON_CPU_KERNEL(ResourceApplyPowerSign) = Dense<sdk::PowerSign>("ResourceApplyPowerSign");
TENON_CPU_KERNEL(ApplyFtrl) = Dense<sdk::Ftrl>("ApplyFtrl");
TENON_CPU_KERNEL(ResourceApplyFtrl) = Dense<sdk::Ftrl>("ResourceApplyFtrl");
TENON_CPU_KERNEL(SparseApplyFtrl) = Sparse<sdk::Ftrl>("SparseApplyFtrl");
TENON_CPU_KERNEL(ResourceSparseApplyFtrl) = Sparse<sdk::Ftrl>("ResourceSparseApplyFtrl");
TENON_CPU_KERNEL(ApplyFtrlV2) = Dense<sdk::FtrlV2>("ApplyFtrlV2");
TENON_CPU_KERNEL(ResourceApplyFtrlV2) = Dense<sdk::FtrlV2>("ResourceApplyFtrlV2");
TENON_CPU_KERNEL(SparseApplyFtrlV2) = Sparse<sdk::FtrlV2>("SparseApplyFtrlV2");
TENON_CPU_KERNEL(ResourceSparseApplyFtrlV2) = Sparse<sdk::FtrlV2>("ResourceSparseApplyFtrlV2");
TENON_CPU_KERNEL(ApplyProximalGradientDescent) = Dense<sdk::ProximalGradientDescent>("ApplyProximalGradientDescent");
TENON_CPU_KERNEL(ResourceApplyProximalGradientDescent) = Dense<sdk::ProximalGradientDescent>("ResourceApplyProximalGradientDescent");
TENON_CPU_KERNEL(SparseApplyProximalGradientDescent) = Sparse<sdk::ProximalGradientDescent>("SparseApplyProximalGradientDescent");
TENON_CPU_KERNEL(ResourceSparseApplyProximalGradientDescent) = Sparse<sdk::ProximalGradientDescent>("ResourceSparseApplyProximalGradientDescent");
TENON_CPU_KERNEL(ApplyProximalAdagrad) = Dense<sdk::ProximalAdagrad>("ApplyProximalAdagrad");
TENON_CPU_KERNEL(ResourceApplyProximalAdagrad) = Dense<sdk::ProximalAdagrad>("ResourceApplyProximalAdagrad");
TENON_CPU_KERNEL(SparseApplyProximalAdagrad) = Sparse<sdk::ProximalAdagrad>("SparseApplyProximalAdagrad");
TENON_CPU_KERNEL(ResourceSparseApplyProximalAdagrad) = Sparse<sdk::ProximalAdagrad>("ResourceSparseApplyProximalAdagrad");
TENON_CPU_KERNEL(ApplyAdagradDA) = Dense<sdk::AdagradDualAveraging>("ApplyAdagradDA");
TENON_CPU_KERNEL(ResourceApplyAdagradDA) = Dense<sdk::AdagradDualAveraging>("ResourceApplyAdagradDA");
TENON_CPU_KERNEL(SparseApplyAdagradDA) = Sparse<sdk::AdagradDualAveraging>("SparseApplyAdagradDA");
TENON_CPU_KERNEL(ResourceSparseApplyAdagradDA) = Sparse<sdk::AdagradDualAveraging>("ResourceSparseApplyAdagradDA");

}  // namespace tenon::cpu
