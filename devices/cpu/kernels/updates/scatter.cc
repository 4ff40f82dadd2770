// SPDX-License-Identifier: Apache-2.0
// Updates of rows of variables: ScatterAdd and its like, of reference and of resource variables.
#include <algorithm>
#include <type_traits>

#include "kernels/common/types.h"
#include "kernels/state/string_update.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

using sdk::AddOrSubtract;
using sdk::CheckRow;
using sdk::Numbers;
using sdk::Update;
using sdk::UpdateLock;
using sdk::UpdateTypes;

// Rows of a variable: ScatterAdd and its like. Rows that come twice are updated twice.
enum class Change { kAdd, kSubtract, kPut, kMultiply, kDivide, kSmaller, kLarger };
template <bool kReference, Change kChange>
struct ScatterKernel {
  explicit ScatterKernel(sdk::CreateContext& c) : lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    tenon_resource* handle = c.resource(0);
    const tenon_tensor_view& indices = c.input_view(1);
    const tenon_tensor_view& updates = c.input_view(2);
    Update update(c, handle, lock, updates.dtype);
    const sdk::Dims dims = update.dims();
    const int64_t count = sdk::Count(indices);
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "rows of a scalar variable cannot be updated");
    const int64_t row = sdk::Count(dims.subspan(1));
    const int64_t given = sdk::Count(updates);
    const bool one_for_all = updates.dl.ndim == 0;
    if (!one_for_all && given != sdk::Multiply(count, row)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "updates of shape ", sdk::DimsOf(updates), " do not fit ", count,
                " rows of a variable of shape ", dims);
    }
    const void* index = sdk::Data<void>(indices);
    for (int64_t i = 0; i < count; ++i) CheckRow(IndexAt(index, indices.dtype, i), i, dims[0]);
    Dispatch(updates.dtype, [&]<class T>(Tag<T>) {
      T* rows = update.new_data<T>();
      const T* delta = sdk::Data<const T>(updates);
      // Of handles TensorFlow refuses any; of references its process dies of whole numbers.
      if constexpr (kChange == Change::kDivide && (!kReference || std::is_integral_v<T>)) {
        if (count > 0 && std::any_of(delta, delta + given, [](T divisor) { return divisor == T{}; }))
          sdk::Fail(TENON_INVALID_ARGUMENT,
                    std::is_integral_v<T> ? sdk::ByZero::kInvalidText : "updates must not contain 0");
      }
      update.BeginWriting();
      for (int64_t i = 0; i < count; ++i) {
        T* to = rows + IndexAt(index, indices.dtype, i) * row;
        const T* from = one_for_all ? delta : delta + i * row;
        for (int64_t j = 0; j < row; ++j) to[j] = Changed(to[j], from[one_for_all ? 0 : j]);
      }
    });
    update.Commit();
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }

 private:
  // What is put is only moved.
  template <class Function>
  static void Dispatch(uint32_t dtype, Function&& function) {
    if constexpr (kChange == Change::kPut) {
      sdk::DispatchSize(dtype, function);
    } else if constexpr (kChange == Change::kSmaller || kChange == Change::kLarger) {
      Numbers::Dispatch(dtype, function);
    } else {
      UpdateTypes::Dispatch(dtype, function);
    }
  }
  // Halves as floats.
  template <class Op, class T>
  static T Calculated(T x, T y) {
    if constexpr (std::is_arithmetic_v<T> || sdk::kIsComplex<T>) return Op()(x, y);
    else return static_cast<T>(Op()(static_cast<float>(x), static_cast<float>(y)));
  }
  template <class T>
  static T Changed(T old_value, T update) {
    if constexpr (kChange == Change::kPut) {
      return update;
    } else if constexpr (kChange == Change::kMultiply) {
      return Calculated<sdk::MulOp>(old_value, update);
    } else if constexpr (kChange == Change::kDivide) {
      return Calculated<sdk::DivOp>(old_value, update);
    } else if constexpr (kChange == Change::kSmaller) {
      return update < old_value ? update : old_value;
    } else if constexpr (kChange == Change::kLarger) {
      return old_value < update ? update : old_value;
    } else {
      return AddOrSubtract<kChange == Change::kSubtract>(old_value, update);
    }
  }
  uint32_t lock;
};

// Rows of a variable of strings.
template <bool kReference>
struct ScatterStringsKernel {
  explicit ScatterStringsKernel(sdk::CreateContext& c) : lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    UpdateStrings(c, c.resource(0), lock, &Put);
    if (kReference) *c.output<tenon_resource*>(0) = c.resource(0);
  }

 private:
  static void Put(const sdk::RunContext& c, const tenon_tensor_view& value, Texts& texts) {
    const tenon_tensor_view& indices = c.input_view(1);
    const tenon_tensor_view& updates = c.input_view(2);
    const sdk::Dims dims = sdk::DimsOf(value);
    if (dims.empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "rows of a scalar variable cannot be updated");
    const int64_t count = sdk::Count(indices), row = sdk::Count(dims.subspan(1));
    const bool one_for_all = updates.dl.ndim == 0;
    if (!one_for_all && sdk::Count(updates) != sdk::Multiply(count, row)) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "updates of shape ", sdk::DimsOf(updates), " do not fit ", count,
                " rows of a variable of shape ", dims);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = IndexAt(sdk::Data<void>(indices), indices.dtype, i);
      CheckRow(to, i, dims[0]);
      for (int64_t j = 0; j < row; ++j)
        texts[static_cast<size_t>(to * row + j)] = sdk::StringAt(updates, one_for_all ? 0 : i * row + j);
    }
  }
  uint32_t lock;
};

constexpr sdk::Traits kScatter = {
    .constraints = sdk::Constraints<UpdateTypes::Constraint<"T">, Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kOrderedScatter = {
    .constraints = sdk::Constraints<Numbers::Constraint<"T">, Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kOrderedResourceScatter = {
    .constraints = sdk::Constraints<Numbers::Constraint<"dtype">, Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kResourceScatter = {
    .constraints = sdk::Constraints<UpdateTypes::Constraint<"dtype">, Indices::Constraint<"Tindices">>::list};

}  // namespace

TENON_CPU_KERNEL(ScatterAdd) = CpuKernel<ScatterKernel<true, Change::kAdd>>("ScatterAdd", kScatter);
TENON_CPU_KERNEL(ScatterSub) = CpuKernel<ScatterKernel<true, Change::kSubtract>>("ScatterSub", kScatter);
TENON_CPU_KERNEL(ResourceScatterAdd) = CpuKernel<ScatterKernel<false, Change::kAdd>>("ResourceScatterAdd",
                                                                                     kResourceScatter);
TENON_CPU_KERNEL(ResourceScatterSub) = CpuKernel<ScatterKernel<false, Change::kSubtract>>("ResourceScatterSub",
                                                                                          kResourceScatter);
TENON_CPU_KERNEL(ScatterMul) = CpuKernel<ScatterKernel<true, Change::kMultiply>>("ScatterMul", kScatter);
TENON_CPU_KERNEL(ScatterDiv) = CpuKernel<ScatterKernel<true, Change::kDivide>>("ScatterDiv", kScatter);
TENON_CPU_KERNEL(ScatterMin) = CpuKernel<ScatterKernel<true, Change::kSmaller>>("ScatterMin", kOrderedScatter);
TENON_CPU_KERNEL(ScatterMax) = CpuKernel<ScatterKernel<true, Change::kLarger>>("ScatterMax", kOrderedScatter);
TENON_CPU_KERNEL(ResourceScatterMul) = CpuKernel<ScatterKernel<false, Change::kMultiply>>("ResourceScatterMul",
                                                                                          kResourceScatter);
TENON_CPU_KERNEL(ResourceScatterDiv) = CpuKernel<ScatterKernel<false, Change::kDivide>>("ResourceScatterDiv",
                                                                                        kResourceScatter);
TENON_CPU_KERNEL(ResourceScatterMin) = CpuKernel<ScatterKernel<false, Change::kSmaller>>("ResourceScatterMin",
                                                                                         kOrderedResourceScatter);
TENON_CPU_KERNEL(ResourceScatterMax) = CpuKernel<ScatterKernel<false, Change::kLarger>>("ResourceScatterMax",
                                                                                        kOrderedResourceScatter);
TENON_CPU_KERNEL(ScatterUpdate) = CpuKernel<ScatterKernel<true, Change::kPut>>(
    "ScatterUpdate",
    {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(ScatterUpdateString) = CpuKernel<ScatterStringsKernel<true>>(
    "ScatterUpdate",
    {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(ResourceScatterUpdateString) = CpuKernel<ScatterStringsKernel<false>>(
    "ResourceScatterUpdate",
    {.constraints = sdk::Constraints<sdk::Allowed<"dtype", TENON_DT_STRING>, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(ResourceScatterUpdate) = CpuKernel<ScatterKernel<false, Change::kPut>>(
    "ResourceScatterUpdate",
    {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">, Indices::Constraint<"Tindices">>::list});

}  // namespace tenon::cpu
