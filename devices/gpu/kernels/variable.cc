// SPDX-License-Identifier: Apache-2.0
// Variables in device memory: reads give no work to the queue, writes are one piece of work each. Also the optimizers'
// steps.
//
// An update is ended as soon as its work is submitted; when that fails later, the host marks the variable. Slots are
// updated together with their variable, and its scalars are read when the work runs. Old and new may be the same
// memory.
#include "code/variable.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/kernel.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::gpu {
namespace {

using sdk::Update;

// An update of all elements, which only its work writes.
class LateUpdate : public Update {
 public:
  LateUpdate(sdk::RunContext c, tenon_resource* handle, uint32_t flags, uint32_t dtype, sdk::Dims dims)
      : Update(c, handle, flags, dtype, dims) {
    NothingWritten();
  }
};

// What the kernels that write have in common; kReference: they give the variable on.
template <bool kReference>
struct WritingKernel {
  explicit WritingKernel(sdk::CreateContext& c) : lock(sdk::UpdateLock(c)), op(c.op()), node(c.name()) {}
  static void GiveOn(const sdk::RunContext& c) {
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }
  Shapes ShapesOf(sdk::PrepareContext& c) const {
    const tenon_prepare_args& a = c.args();
    return Shapes(a.inputs, a.input_count, a.outputs, a.output_count, 0, RequireOwn(a.device), a.precision, op, node);
  }
  const uint32_t lock;
  const std::string op, node;
};

template <bool kReference>
struct AssignKernel : WritingKernel<kReference> {
  static constexpr bool kAnyShapes = true;  // a reference's is its variable's, which may have none yet
  explicit AssignKernel(sdk::CreateContext& c)
      : WritingKernel<kReference>(c), validate_shape(c.Has("validate_shape") && c.Bool("validate_shape")) {}
  struct Plan {
    Plan(const AssignKernel&, sdk::PrepareContext& c) { RequireOwn(c.args().device); }
  };
  void Run(const Plan&, sdk::RunContext c) const {
    const View& value = c.input_view(1);
    if (validate_shape) sdk::CheckAssignedShape(c, c.resource(0), value);
    LateUpdate update(c, c.resource(0), this->lock | TENON_UPDATE_INITIALIZE, value.dtype, sdk::DimsOf(value));
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on.Copy(update.template new_data<char>(), sdk::Data<const char>(value), static_cast<int64_t>(value.byte_size));
    });
    update.Commit();
    this->GiveOn(c);
  }

 private:
  bool validate_shape;
};

// Integers of one size wrap alike, and a complex number is two.
struct SumOf {
  uint32_t dtype;
  int64_t elements;  // of one number
};
SumOf SumTypeOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_COMPLEX64: return {TENON_DT_FLOAT, 2};
    case TENON_DT_COMPLEX128: return {TENON_DT_DOUBLE, 2};
    default: return {UnsignedType(dtype), 1};
  }
}

template <bool kReference, bool kSubtract>
struct AssignAddKernel : WritingKernel<kReference> {
  static constexpr bool kAnyShapes = true;
  using WritingKernel<kReference>::WritingKernel;
  struct Plan {
    Plan(const AssignAddKernel& kernel, sdk::PrepareContext& c) {
      const Shapes s = kernel.ShapesOf(c);
      sum = SumTypeOf(s.dtype(1));
      code = s.Code(kSubtract ? "Deduct" : "Accumulate", sum.dtype);
    }
    SumOf sum;
    Function code;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const View& value = c.input_view(1);
    LateUpdate update(c, c.resource(0), this->lock, value.dtype, sdk::DimsOf(value));
    const int64_t count = sdk::Count(value) * plan.sum.elements;
    SubmitTo(*c.frame(), [&](Launcher& on) {
      on(plan.code, Flat(count),
         AccumulateParams{update.template old_data<void>(), sdk::Data<const void>(value),
                          update.template new_data<void>(), count});
    });
    update.Commit();
    this->GiveOn(c);
  }
};

// ---- Optimizers ----

// Where bad scalars are reported: of optimizers that refuse some.
template <class Optimizer>
class BadScalars {
 public:
  BadScalars() = default;
  explicit BadScalars(const Shapes& s) {
    if constexpr (requires { Optimizer::kBadScalars; }) {
      static_assert(std::size(Optimizer::kBadScalars) <= kMostBadScalars);
      for (size_t i = 0; i < std::size(Optimizer::kBadScalars); ++i)
        sites_[i] = s.Site(TENON_INVALID_ARGUMENT, Optimizer::kBadScalars[i]);
    }
  }
  void Set(const Launcher& on, ApplyParams<Optimizer>* params) const {
    for (size_t i = 0; i < sites_.size(); ++i) params->bad_scalars[i] = on.Site(sites_[i]);
  }

 private:
  std::array<uint64_t, kMostBadScalars> sites_ = {};
};
template <class Optimizer>
void SetScalar(const View& view, int i, ApplyParams<Optimizer>* params) {
  params->scalars[i] = sdk::Data<const void>(view);
  if (view.dtype == TENON_DT_INT64) params->counts |= 1u << i;
}

// The steps of several variables as one launch.
template <class Optimizer>
constexpr bool kMayJoin = false;
#define TENON_GPU_MAY_JOIN(Name) \
  template <>                    \
  constexpr bool kMayJoin<sdk::Name> = true;
TENON_GPU_JOINED_OPTIMIZERS(TENON_GPU_MAY_JOIN)

template <class Optimizer>
struct JoinedSteps {
  using One = ApplyParams<Optimizer>;
  using Several = ApplyManyParams<Optimizer>;
  static_assert(sizeof(Several) <= 4096 && alignof(Several) <= 16);
  static bool IsAlike(const Several& several, const One& one) {
    return std::memcmp(&several.optimizer, &one.optimizer, sizeof one.optimizer) == 0 && several.counts == one.counts &&
           std::equal(std::begin(one.scalars), std::end(one.scalars), several.scalars);
  }
  static void Add(Several& several, const One& one) {
    auto& item = several.item[several.items++];
    item.gradient = one.gradient;
    std::copy(std::begin(one.from), std::end(one.from), item.from);
    std::copy(std::begin(one.to), std::end(one.to), item.to);
    item.count = one.count;
    item.first_chunk = several.chunks;
    several.chunks += (one.count + kApplyChunk - 1) / kApplyChunk;
  }
  static void Begin(void* several, const void* one) {
    auto& all = *static_cast<Several*>(several);
    const auto& first = *static_cast<const One*>(one);
    std::memcpy(&all.optimizer, &first.optimizer, sizeof first.optimizer);
    all.counts = first.counts;
    std::copy(std::begin(first.scalars), std::end(first.scalars), all.scalars);
    Add(all, first);
  }
  static bool Join(void* several, const void* one) {
    auto& all = *static_cast<Several*>(several);
    if (all.items == Several::kMostItems || !IsAlike(all, *static_cast<const One*>(one))) return false;
    Add(all, *static_cast<const One*>(one));
    return true;
  }
  static Grid GridOf(const void* several, const CardFacts& facts) {
    const int64_t most = int64_t{facts.processors} * 16;
    return {{static_cast<uint32_t>(std::min(static_cast<const Several*>(several)->chunks, most)), 1, 1}, kApplyThreads};
  }
};

template <class Optimizer, bool kReference>
struct ApplyKernel : WritingKernel<kReference> {
  using Params = ApplyParams<Optimizer>;

  ApplyKernel(sdk::CreateContext& c, std::string_view code) : WritingKernel<kReference>(c), optimizer(c), code(code) {}
  struct Plan {
    Plan(const ApplyKernel& kernel, sdk::PrepareContext& c) {
      const Shapes s = kernel.ShapesOf(c);
      code = s.Code(kernel.code, s.dtype(Optimizer::kGradient));
      bad_scalars = BadScalars<Optimizer>(s);
      if constexpr (kMayJoin<Optimizer> && !kReference) {
        using Steps = JoinedSteps<Optimizer>;
        const std::string several = sdk::Concat("ApplyMany", kernel.code.substr(std::string_view("Apply").size()));
        joining = {s.Code(several, s.dtype(Optimizer::kGradient)), sizeof(typename Steps::Several), &Steps::Begin,
                   &Steps::Join, &Steps::GridOf};
      }
    }
    Function code;
    BadScalars<Optimizer> bad_scalars;
    Joining joining;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Params params = {optimizer,
                     sdk::Data<const void>(c.input_view(Optimizer::kGradient)),
                     sdk::Count(c.input_view(Optimizer::kGradient)),
                     {},
                     0,
                     {},
                     {},
                     {}};
    for (int i = 0; i < Params::kScalars; ++i) SetScalar(c.input_view(Optimizer::kScalars[i]), i, &params);
    Begin<0>(plan, c, &params);
    this->GiveOn(c);
  }

 private:
  // Begins the update of each variable within that of the one before; submits inside them all.
  template <int kIndex>
  void Begin(const Plan& plan, sdk::RunContext c, Params* params) const {
    const View& gradient = c.input_view(Optimizer::kGradient);
    LateUpdate update(c, c.resource(kIndex), this->lock, gradient.dtype, sdk::DimsOf(gradient));
    params->from[kIndex] = update.template old_data<void>();
    params->to[kIndex] = update.template new_data<void>();
    if constexpr (kIndex + 1 < Params::kVariables) {
      Begin<kIndex + 1>(plan, c, params);
    } else {
      SubmitTo(*c.frame(), [&](Launcher& on) {
        plan.bad_scalars.Set(on, params);
        // Without elements too: the scalars may be bad.
        constexpr bool kMayBeBad = requires { Optimizer::kBadScalars; };
        on.Joinable(plan.code, Flat(kMayBeBad ? std::max<int64_t>(params->count, 1) : params->count), *params,
                    plan.joining);
      });
    }
    update.Commit();
  }
  Optimizer optimizer;
  const std::string_view code;
};

// Some rows. In sparse ops the indices follow the gradient.
template <class Optimizer, bool kReference>
struct SparseApplyKernel : WritingKernel<kReference> {
  using Params = SparseApplyParams<Optimizer>;
  static constexpr int kIndices = Optimizer::kGradient + 1;

  SparseApplyKernel(sdk::CreateContext& c, std::string_view code)
      : WritingKernel<kReference>(c), optimizer(c), code(code) {}
  struct Plan {
    Plan(const SparseApplyKernel& kernel, sdk::PrepareContext& c) {
      const Shapes s = kernel.ShapesOf(c);
      code = s.Code(kernel.code, s.dtype(Optimizer::kGradient));
      most_blocks = int64_t{s.facts().processors} * 8;
      bad_row = s.Site(TENON_INVALID_ARGUMENT, "indices[{0}] = {1} is not in [0, {2})");
      bad_scalars = BadScalars<Optimizer>(s);
    }
    Function code;
    int64_t most_blocks;
    uint64_t bad_row;
    BadScalars<Optimizer> bad_scalars;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Params params = {{optimizer,
                      sdk::Data<const void>(c.input_view(Optimizer::kGradient)),
                      sdk::Count(c.input_view(kIndices)),
                      {},
                      0,
                      {},
                      {},
                      {}},
                     sdk::Data<const void>(c.input_view(kIndices)),
                     c.input_view(kIndices).dtype == TENON_DT_INT64,
                     0,
                     0,
                     {}};
    for (int i = 0; i < ApplyParams<Optimizer>::kScalars; ++i) {
      const int input = Optimizer::kScalars[i];
      SetScalar(c.input_view(input + (input > Optimizer::kGradient ? 1 : 0)), i, &params.dense);
    }
    Begin<0>(plan, c, &params, {});
    this->GiveOn(c);
  }

 private:
  template <int kIndex>
  void Begin(const Plan& plan, sdk::RunContext c, Params* params, sdk::Dims variable) const {
    Update update(c, c.resource(kIndex), this->lock, c.input_view(Optimizer::kGradient).dtype);
    const sdk::Dims dims = update.dims();
    if (kIndex == 0) {
      SetRows(c, dims, params);
      variable = dims;
    } else if (!std::equal(dims.begin(), dims.end(), variable.begin(), variable.end())) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the variable has the shape ", variable, ", its slot ", dims);
    }
    params->dense.from[kIndex] = params->dense.to[kIndex] = update.template new_data<void>();
    if constexpr (kIndex + 1 < Optimizer::kVariables) {
      Begin<kIndex + 1>(plan, c, params, variable);
    } else {
      SubmitTo(*c.frame(), [&](Launcher& on) { Launch(plan, on, params); });
    }
    update.Commit();
  }
  static void SetRows(const sdk::RunContext& c, sdk::Dims dims, Params* params) {
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "rows of a scalar variable cannot be updated");
    const View& gradient = c.input_view(Optimizer::kGradient);
    params->rows = dims[0];
    params->row = sdk::Count(dims.subspan(1));
    if (sdk::Count(gradient) != sdk::Multiply(params->dense.count, params->row)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a gradient of shape ", sdk::DimsOf(gradient), " does not fit ",
                params->dense.count, " rows of a variable of shape ", dims);
    }
  }
  // Without indices too: the scalars may be bad.
  static void Launch(const Plan& plan, Launcher& on, Params* params) {
    params->bad_row = on.Site(plan.bad_row);
    plan.bad_scalars.Set(on, &params->dense);
    const int64_t blocks = std::clamp<int64_t>(std::min(params->dense.count, params->rows), 1, plan.most_blocks);
    on(plan.code, Grid{{static_cast<uint32_t>(blocks), 1, 1}, kSparseThreads}, *params);
  }
  Optimizer optimizer;
  const std::string_view code;
};

// With the name of the device code.
template <class Kernel, sdk::FixedString kCode>
struct Coded : Kernel {
  explicit Coded(sdk::CreateContext& c) : Kernel(c, kCode.data) {}
};

// Of variables that are no references: what is read through a reference may come between.
constexpr uint32_t CaptureFlags(bool reference) { return reference ? 0u : TENON_KERNEL_CAPTURE_UPDATES; }
template <class Optimizer>
using TypesOf = std::conditional_t<requires { Optimizer::kWidest; }, Types<float, double>, Floats>;
template <class Optimizer>
constexpr sdk::Traits StepTraits(bool reference) {
  return {.constraints = sdk::Constraints<typename TypesOf<Optimizer>::template Constraint<"T">>::list,
          .flags = TENON_KERNEL_DETERMINISTIC | CaptureFlags(reference)};
}
template <class Optimizer>
constexpr sdk::Traits kSparseTraits = {.constraints =
                                           sdk::Constraints<typename TypesOf<Optimizer>::template Constraint<"T">,
                                                            sdk::Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kUpdateTraits = {.constraints = sdk::Constraints<sdk::UpdateTypes::Constraint<"T">>::list};
constexpr sdk::Traits kResourceUpdateTraits = {
    .constraints = sdk::Constraints<sdk::UpdateTypes::Constraint<"dtype">>::list,
    .flags = TENON_KERNEL_DETERMINISTIC | CaptureFlags(false)};
constexpr sdk::Traits kAssignTraits = {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list};
constexpr sdk::Traits kResourceAssignTraits = {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">>::list,
                                               .flags = TENON_KERNEL_DETERMINISTIC | CaptureFlags(false)};
constexpr sdk::Traits kRead = {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">>::list,
                               .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_PASSIVE,
                               .dynamic_outputs = 1};

}  // namespace

TENON_GPU_KERNEL(ReadVariableOp) = PlainKernel<sdk::ReadVariableKernel>("ReadVariableOp", kRead);
TENON_GPU_KERNEL(Assign) = PlainKernel<AssignKernel<true>>("Assign", kAssignTraits);
TENON_GPU_KERNEL(AssignVariableOp) = PlainKernel<AssignKernel<false>>("AssignVariableOp", kResourceAssignTraits);
TENON_GPU_KERNEL(AssignAdd) = PlainKernel<AssignAddKernel<true, false>>("AssignAdd", kUpdateTraits);
TENON_GPU_KERNEL(AssignSub) = PlainKernel<AssignAddKernel<true, true>>("AssignSub", kUpdateTraits);
TENON_GPU_KERNEL(AssignAddVariableOp) = PlainKernel<AssignAddKernel<false, false>>("AssignAddVariableOp",
                                                                                   kResourceUpdateTraits);
TENON_GPU_KERNEL(AssignSubVariableOp) = PlainKernel<AssignAddKernel<false, true>>("AssignSubVariableOp",
                                                                                  kResourceUpdateTraits);

// Name, optimizer, whether of a reference.
#define TENON_GPU_STEP_KERNEL(Name, Optimizer, reference)                                                  \
  TENON_GPU_KERNEL(Name) = PlainKernel<Coded<ApplyKernel<sdk::Optimizer, reference>, "Apply" #Optimizer>>( \
      #Name, StepTraits<sdk::Optimizer>(reference));
TENON_GPU_STEP_KERNEL(ApplyGradientDescent, GradientDescent, true)
TENON_GPU_STEP_KERNEL(ResourceApplyGradientDescent, GradientDescent, false)
TENON_GPU_STEP_KERNEL(ApplyMomentum, Momentum, true)
TENON_GPU_STEP_KERNEL(ResourceApplyMomentum, Momentum, false)
TENON_GPU_STEP_KERNEL(ResourceApplyKerasMomentum, KerasMomentum, false)
TENON_GPU_STEP_KERNEL(ApplyAdagrad, Adagrad, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAdagrad, Adagrad, false)
TENON_GPU_STEP_KERNEL(ResourceApplyAdagradV2, AdagradV2, false)
TENON_GPU_STEP_KERNEL(ApplyAdam, Adam, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAdam, Adam, false)
TENON_GPU_STEP_KERNEL(ApplyRMSProp, RmsProp, true)
TENON_GPU_STEP_KERNEL(ResourceApplyRMSProp, RmsProp, false)
TENON_GPU_STEP_KERNEL(ApplyFtrl, Ftrl, true)
TENON_GPU_STEP_KERNEL(ResourceApplyFtrl, Ftrl, false)
TENON_GPU_STEP_KERNEL(ApplyAdagradV2, AdagradV2, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAdamWithAmsgrad, AdamWithAmsgrad, false)
TENON_GPU_STEP_KERNEL(ApplyFtrlV2, FtrlV2, true)
TENON_GPU_STEP_KERNEL(ResourceApplyFtrlV2, FtrlV2, false)
TENON_GPU_STEP_KERNEL(ApplyAdaMax, AdaMax, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAdaMax, AdaMax, false)
TENON_GPU_STEP_KERNEL(ApplyAdadelta, Adadelta, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAdadelta, Adadelta, false)
TENON_GPU_STEP_KERNEL(ApplyCenteredRMSProp, CenteredRmsProp, true)
TENON_GPU_STEP_KERNEL(ResourceApplyCenteredRMSProp, CenteredRmsProp, false)
TENON_GPU_STEP_KERNEL(ApplyAddSign, AddSign, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAddSign, AddSign, false)
TENON_GPU_STEP_KERNEL(ApplyPowerSign, PowerSign, true)
TENON_GPU_STEP_KERNEL(ResourceApplyPowerSign, PowerSign, false)
TENON_GPU_STEP_KERNEL(ApplyProximalGradientDescent, ProximalGradientDescent, true)
TENON_GPU_STEP_KERNEL(ResourceApplyProximalGradientDescent, ProximalGradientDescent, false)
TENON_GPU_STEP_KERNEL(ApplyProximalAdagrad, ProximalAdagrad, true)
TENON_GPU_STEP_KERNEL(ResourceApplyProximalAdagrad, ProximalAdagrad, false)
TENON_GPU_STEP_KERNEL(ApplyAdagradDA, AdagradDualAveraging, true)
TENON_GPU_STEP_KERNEL(ResourceApplyAdagradDA, AdagradDualAveraging, false)

#define TENON_GPU_SPARSE_STEP_KERNEL(Name, Optimizer, reference)                                                       \
  TENON_GPU_KERNEL(Name) = PlainKernel<Coded<SparseApplyKernel<sdk::Optimizer, reference>, "SparseApply" #Optimizer>>( \
      #Name, kSparseTraits<sdk::Optimizer>);
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyMomentum, Momentum, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyMomentum, Momentum, false)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyKerasMomentum, KerasMomentum, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyAdagrad, Adagrad, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyAdagrad, Adagrad, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyRMSProp, RmsProp, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyRMSProp, RmsProp, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyFtrl, Ftrl, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyFtrl, Ftrl, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyAdagradV2, AdagradV2, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyAdagradV2, AdagradV2, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyFtrlV2, FtrlV2, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyFtrlV2, FtrlV2, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyAdadelta, Adadelta, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyAdadelta, Adadelta, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyCenteredRMSProp, CenteredRmsProp, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyCenteredRMSProp, CenteredRmsProp, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyProximalGradientDescent, ProximalGradientDescent, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyProximalGradientDescent, ProximalGradientDescent, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyProximalAdagrad, ProximalAdagrad, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyProximalAdagrad, ProximalAdagrad, false)
TENON_GPU_SPARSE_STEP_KERNEL(SparseApplyAdagradDA, AdagradDualAveraging, true)
TENON_GPU_SPARSE_STEP_KERNEL(ResourceSparseApplyAdagradDA, AdagradDualAveraging, false)

}  // namespace tenon::gpu
