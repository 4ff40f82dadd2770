// SPDX-License-Identifier: Apache-2.0
// Variables in device memory: reads submit nothing, writes are one piece of work each. Also the optimizers' steps.
//
// An update is ended as soon as its work is submitted; when that fails later, the host marks the variable. Slots are
// updated together with their variable, and its scalars are read when the work runs. old and new may be the same
// memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "kernels/kernel.h"
#include "tenon/extras/kernel/optimizer.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Update;

// An update of all elements, which only its work writes.
class LateUpdate : public Update {
 public:
  LateUpdate(sdk::RunContext c, tenon_resource* handle, uint32_t flags, uint32_t dtype, sdk::Dims dims)
      : Update(c, handle, flags, dtype, dims), context_(c) {
    NothingWritten();
  }
  const char* old_address() const { return Address(context_, old_view(), "old value", 0); }
  char* new_address() const { return Address(context_, new_view(), "new value", 0); }

 private:
  sdk::RunContext context_;
};

const Machine& MachineOf(const sdk::RunContext& c) { return Device::Of(c.frame()->device)->options().machine; }

// What it takes to write a value of this size into a variable; and to add it to one.
Cycles AssignCycles(const Machine& machine, const View& value) {
  return VectorCycles(machine, 0, static_cast<int64_t>(value.byte_size), static_cast<int64_t>(value.byte_size));
}
Cycles AddCycles(const Machine& machine, const View& value) {
  return VectorCycles(machine, sdk::Count(value), 2 * static_cast<int64_t>(value.byte_size),
                      static_cast<int64_t>(value.byte_size));
}
// A step of an optimizer that changes so many variables of the gradient's size.
Cycles StepCycles(const Machine& machine, const View& gradient, size_t variables) {
  const auto count = static_cast<int64_t>(variables), bytes = static_cast<int64_t>(gradient.byte_size);
  return VectorCycles(machine, 6 * count * sdk::Count(gradient), (count + 1) * bytes, count * bytes);
}

// Reads submit nothing.
struct ReadKernel : sdk::ReadVariableKernel {
  static double Cost(sdk::KernelQuery&) { return kNoSeconds; }
};

// What the kernels that write have in common; kReference: they give the variable on.
template <bool kReference>
struct WritingKernel {
  explicit WritingKernel(sdk::CreateContext& c) : op(OpName(c.op())), lock(sdk::UpdateLock(c)) {}
  static void GiveOn(const sdk::RunContext& c) {
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }
  const char* op;
  uint32_t lock;
};

template <bool kReference>
struct AssignKernel : WritingKernel<kReference> {
  explicit AssignKernel(sdk::CreateContext& c)
      : WritingKernel<kReference>(c), validate_shape(c.Has("validate_shape") && c.Bool("validate_shape")) {}
  static double Cost(sdk::KernelQuery& question) {
    return SecondsOf(question,
                     [&question](const Machine& machine) { return AssignCycles(machine, question.input(1)); });
  }
  void Run(sdk::RunContext c) const {
    const View& value = c.input_view(1);
    if (validate_shape) sdk::CheckAssignedShape(c, c.resource(0), value);
    LateUpdate update(c, c.resource(0), this->lock | TENON_UPDATE_INITIALIZE, value.dtype, sdk::DimsOf(value));
    const char* from = Address(c, value, "input", 1);
    Submit(c, this->op, AssignCycles(MachineOf(c), value),
           [from, to = update.new_address(), bytes = value.byte_size] {
             if (bytes > 0) std::memmove(to, from, bytes);
           });
    update.Commit();
    this->GiveOn(c);
  }

 private:
  bool validate_shape;
};

template <bool kReference, bool kSubtract>
struct AssignAddKernel : WritingKernel<kReference> {
  using WritingKernel<kReference>::WritingKernel;
  static double Cost(sdk::KernelQuery& question) {
    return SecondsOf(question, [&question](const Machine& machine) { return AddCycles(machine, question.input(1)); });
  }
  void Run(sdk::RunContext c) const {
    const View& value = c.input_view(1);
    LateUpdate update(c, c.resource(0), this->lock, value.dtype, sdk::DimsOf(value));
    const int64_t count = sdk::Count(value);
    const char* delta = Address(c, value, "input", 1);
    Numbers::Dispatch(value.dtype, [&]<class T>(Tag<T>) {
      Submit(c, this->op, AddCycles(MachineOf(c), value),
             [from = update.old_address(), delta, to = update.new_address(), count] {
               const T* x = reinterpret_cast<const T*>(from);
               const T* y = reinterpret_cast<const T*>(delta);
               T* out = reinterpret_cast<T*>(to);
               for (int64_t i = 0; i < count; ++i) out[i] = sdk::AddOrSubtract<kSubtract>(x[i], y[i]);
             });
    });
    update.Commit();
    this->GiveOn(c);
  }
};

// ---- Optimizers ----

template <class Optimizer, bool kReference>
struct ApplyKernel : WritingKernel<kReference> {
  static constexpr size_t kVariables = Optimizer::kVariables;
  static constexpr size_t kScalars = std::size(Optimizer::kScalars);

  explicit ApplyKernel(sdk::CreateContext& c) : WritingKernel<kReference>(c), optimizer(c) {}
  static double Cost(sdk::KernelQuery& question) {
    return SecondsOf(question, [&question](const Machine& machine) {
      return StepCycles(machine, question.input(Optimizer::kGradient), kVariables);
    });
  }
  void Run(sdk::RunContext c) const {
    Job job = {};
    job.gradient = Address(c, c.input_view(Optimizer::kGradient), "input", Optimizer::kGradient);
    job.count = sdk::Count(c.input_view(Optimizer::kGradient));
    for (size_t i = 0; i < kScalars; ++i) {
      job.scalars[i] = Address(c, c.input_view(Optimizer::kScalars[i]), "input", Optimizer::kScalars[i]);
    }
    Begin<0>(c, job);
    this->GiveOn(c);
  }

 private:
  struct Job {
    const char* gradient;
    int64_t count;
    std::array<const char*, kScalars> scalars;
    std::array<const char*, kVariables> from;
    std::array<char*, kVariables> to;
  };

  // Begins the update of each variable within that of the one before; submits inside them all.
  template <size_t kIndex>
  void Begin(sdk::RunContext c, Job& job) const {
    const View& gradient = c.input_view(Optimizer::kGradient);
    LateUpdate update(c, c.resource(kIndex), this->lock, gradient.dtype, sdk::DimsOf(gradient));
    job.from[kIndex] = update.old_address();
    job.to[kIndex] = update.new_address();
    if constexpr (kIndex + 1 < kVariables) {
      Begin<kIndex + 1>(c, job);
    } else {
      SubmitStep(c, job, gradient);
    }
    update.Commit();
  }
  void SubmitStep(sdk::RunContext c, const Job& job, const View& gradient) const {
    const Cycles cost = StepCycles(MachineOf(c), gradient, kVariables);
    Reals::Dispatch(gradient.dtype, [&]<class T>(Tag<T>) {
      Submit(c, this->op, cost, [job, optimizer = optimizer] { Step<T>(optimizer, job); });
    });
  }
  template <class T>
  static void Step(const Optimizer& optimizer, const Job& job) {
    using A = Wide<T>;
    A scalars[kScalars];
    for (size_t i = 0; i < kScalars; ++i) scalars[i] = static_cast<A>(*reinterpret_cast<const T*>(job.scalars[i]));
    const typename Optimizer::template Step<A> step(optimizer, scalars);
    const T* gradient = reinterpret_cast<const T*>(job.gradient);
    for (int64_t i = 0; i < job.count; ++i) {
      A v[kVariables];
      for (size_t k = 0; k < kVariables; ++k) v[k] = static_cast<A>(reinterpret_cast<const T*>(job.from[k])[i]);
      step(v, static_cast<A>(gradient[i]));
      for (size_t k = 0; k < kVariables; ++k) reinterpret_cast<T*>(job.to[k])[i] = static_cast<T>(v[k]);
    }
  }
  Optimizer optimizer;
};

template <class Optimizer, bool kReference>
constexpr tenon_kernel_registration Apply(std::string_view op) {
  return PlainKernel<ApplyKernel<Optimizer, kReference>>(
      op, {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list});
}
constexpr sdk::Traits kUpdateTraits = {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list};
constexpr sdk::Traits kResourceUpdateTraits = {.constraints = sdk::Constraints<Numbers::Constraint<"dtype">>::list};
constexpr sdk::Traits kAssignTraits = {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list};
constexpr sdk::Traits kResourceAssignTraits = {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">>::list};
constexpr sdk::Traits kRead = {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">>::list,
                               .dynamic_outputs = 1};

}  // namespace

TENON_TPU_PLAIN_KERNEL(ReadVariableOp) = PlainKernel<ReadKernel>("ReadVariableOp", kRead);
TENON_TPU_PLAIN_KERNEL(Assign) = PlainKernel<AssignKernel<true>>("Assign", kAssignTraits);
TENON_TPU_PLAIN_KERNEL(AssignVariableOp) = PlainKernel<AssignKernel<false>>("AssignVariableOp", kResourceAssignTraits);
TENON_TPU_PLAIN_KERNEL(AssignAdd) = PlainKernel<AssignAddKernel<true, false>>("AssignAdd", kUpdateTraits);
TENON_TPU_PLAIN_KERNEL(AssignSub) = PlainKernel<AssignAddKernel<true, true>>("AssignSub", kUpdateTraits);
TENON_TPU_PLAIN_KERNEL(AssignAddVariableOp) = PlainKernel<AssignAddKernel<false, false>>("AssignAddVariableOp",
                                                                                         kResourceUpdateTraits);
TENON_TPU_PLAIN_KERNEL(AssignSubVariableOp) = PlainKernel<AssignAddKernel<false, true>>("AssignSubVariableOp",
                                                                                        kResourceUpdateTraits);

TENON_TPU_PLAIN_KERNEL(ApplyGradientDescent) = Apply<sdk::GradientDescent, true>("ApplyGradientDescent");
TENON_TPU_PLAIN_KERNEL(ResourceApplyGradientDescent) =
    Apply<sdk::GradientDescent, false>("ResourceApplyGradientDescent");
TENON_TPU_PLAIN_KERNEL(ApplyMomentum) = Apply<sdk::Momentum, true>("ApplyMomentum");
TENON_TPU_PLAIN_KERNEL(ResourceApplyMomentum) = Apply<sdk::Momentum, false>("ResourceApplyMomentum");
TENON_TPU_PLAIN_KERNEL(ApplyAdagrad) = Apply<sdk::Adagrad, true>("ApplyAdagrad");
TENON_TPU_PLAIN_KERNEL(ResourceApplyAdagrad) = Apply<sdk::Adagrad, false>("ResourceApplyAdagrad");
TENON_TPU_PLAIN_KERNEL(ApplyAdam) = Apply<sdk::Adam, true>("ApplyAdam");
TENON_TPU_PLAIN_KERNEL(ResourceApplyAdam) = Apply<sdk::Adam, false>("ResourceApplyAdam");

}  // namespace tenon::tpu_sim
