// SPDX-License-Identifier: Apache-2.0
// Variables: reads and assignments, of resource variables and of reference variables.
//
// A reference output (Assign, ...) is the cell with the host's resource. Updates write new = f(old); old and new may be the
// same memory. Handles are made on the host (ops/state).
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "tenon/sdk/kernel/elementwise.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "kernels/string_update.h"
#include "tenon/sdk/kernel/update.h"

namespace tenon::cpu {
namespace {

using sdk::AddOrSubtract;
using sdk::CheckRow;
using sdk::Numbers;
using sdk::Update;
using sdk::UpdateLock;
using sdk::UpdateTypes;

// Strings: cells and bytes behind them. The value is copied cell by cell, so that only its own bytes are kept.
uint64_t StringBytes(const tenon_tensor_view& value) {
  const auto* cells = sdk::Data<tenon_string_cell>(value);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < value.byte_size / sizeof(tenon_string_cell); ++i) bytes += cells[i].size;
  return bytes;
}
void CopyStrings(const tenon_tensor_view& from, const tenon_tensor_view& to) {
  const auto* source = sdk::Data<tenon_string_cell>(from);
  auto* target = sdk::Data<tenon_string_cell>(to);
  const uint64_t count = from.byte_size / sizeof(tenon_string_cell);
  uint64_t at = count * sizeof(tenon_string_cell);
  for (uint64_t i = 0; i < count; ++i) {
    if (source[i].size != 0) {
      std::memcpy(reinterpret_cast<char*>(target) + at, reinterpret_cast<const char*>(source) + source[i].offset,
                  source[i].size);
    }
    target[i] = {at, source[i].size};
    at += source[i].size;
  }
}

template <bool kReference>
struct AssignKernel {
  explicit AssignKernel(sdk::CreateContext& c)
      : validate_shape(c.Has("validate_shape") && c.Bool("validate_shape")), lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    const tenon_tensor_view& value = c.input_view(1);
    tenon_resource* handle = c.resource(0);
    const bool strings = value.dtype == TENON_DT_STRING;
    if (!strings && sdk::ElementSize(value.dtype) == 0 && sdk::PackedBits(value.dtype) == 0) {
      sdk::Fail(TENON_UNIMPLEMENTED, "a variable of dtype ", sdk::TypeName(value.dtype));
    }
    if (validate_shape) sdk::CheckAssignedShape(c, handle, value);
    Update update(c, handle, lock | TENON_UPDATE_INITIALIZE, value.dtype, sdk::DimsOf(value),
                  strings ? StringBytes(value) : 0);
    if (strings) {
      CopyStrings(value, update.new_view());
    } else if (value.byte_size != 0) {
      const char* from = sdk::Data<char>(value);
      char* to = update.new_data<char>();
      c.UninterruptedFor(static_cast<int64_t>(value.byte_size), 0.03, [&](int64_t begin, int64_t end) {
        std::memmove(to + begin, from + begin, static_cast<size_t>(end - begin));
      });
    }
    update.Commit();
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }

 private:
  bool validate_shape;
  uint32_t lock;
};

template <bool kReference, bool kSubtract>
struct AssignAddKernel {
  explicit AssignAddKernel(sdk::CreateContext& c) : lock(UpdateLock(c)) {}
  void Run(sdk::RunContext c) const {
    tenon_resource* handle = c.resource(0);
    const tenon_tensor_view& value = c.input_view(1);
    UpdateTypes::Dispatch(value.dtype, [&]<class T>(Tag<T>) {
      Update update(c, handle, lock, value.dtype, sdk::DimsOf(value));
      const T* old_value = update.old_data<T>();
      T* new_value = update.new_data<T>();
      const T* delta = sdk::Data<const T>(value);
      c.UninterruptedFor(sdk::Count(value), 0.15, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) new_value[i] = AddOrSubtract<kSubtract>(old_value[i], delta[i]);
      });
      update.Commit();
    });
    if (kReference) *c.output<tenon_resource*>(0) = handle;
  }
  uint32_t lock;
};

// The counter's value; it is one more then. OUT_OF_RANGE at the limit, where it stays.
struct CountUpToKernel {
  explicit CountUpToKernel(sdk::CreateContext& c) : limit(c.Int("limit")) {}
  void Run(sdk::RunContext c) const {
    const uint32_t dtype = c.output_view(0).dtype;
    Update update(c, c.resource(0), TENON_UPDATE_LOCK, dtype);
    if (!update.dims().empty()) sdk::Fail(TENON_INVALID_ARGUMENT, "input is not a scalar: its shape is ", update.dims());
    Indices::Dispatch(dtype, [&]<class T>(Tag<T>) {
      const T value = *update.old_data<T>();
      if (value >= limit) sdk::Fail(TENON_OUT_OF_RANGE, "Reached limit of ", limit);
      update.BeginWriting();
      *update.new_data<T>() = static_cast<T>(value + 1);
      *c.output<T>(0) = value;
    });
    update.Commit();
  }
  int64_t limit;
};

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
          sdk::Fail(TENON_INVALID_ARGUMENT, std::is_integral_v<T> ? sdk::ByZero::kInvalidText : "updates must not contain 0");
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
      sdk::Fail(TENON_INVALID_ARGUMENT, "updates of shape ", sdk::DimsOf(updates), " do not fit ", count, " rows of a variable of shape ", dims);
    }
    for (int64_t i = 0; i < count; ++i) {
      const int64_t to = IndexAt(sdk::Data<void>(indices), indices.dtype, i);
      CheckRow(to, i, dims[0]);
      for (int64_t j = 0; j < row; ++j) texts[static_cast<size_t>(to * row + j)] = sdk::StringAt(updates, one_for_all ? 0 : i * row + j);
    }
  }
  uint32_t lock;
};

constexpr sdk::Traits kUpdate = {.constraints = sdk::Constraints<UpdateTypes::Constraint<"T">>::list};
constexpr sdk::Traits kResourceUpdate = {.constraints = sdk::Constraints<UpdateTypes::Constraint<"dtype">>::list};
constexpr sdk::Traits kScatter = {
    .constraints = sdk::Constraints<UpdateTypes::Constraint<"T">, Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kOrderedScatter = {
    .constraints = sdk::Constraints<Numbers::Constraint<"T">, Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kOrderedResourceScatter = {
    .constraints = sdk::Constraints<Numbers::Constraint<"dtype">, Indices::Constraint<"Tindices">>::list};
constexpr sdk::Traits kResourceScatter = {
    .constraints = sdk::Constraints<UpdateTypes::Constraint<"dtype">, Indices::Constraint<"Tindices">>::list};

}  // namespace

TENON_CPU_KERNEL(ReadVariableOp) = CpuKernel<sdk::ReadVariableKernel>("ReadVariableOp", {.dynamic_outputs = 1});
TENON_CPU_KERNEL(Assign) = CpuKernel<AssignKernel<true>>("Assign", {});
TENON_CPU_KERNEL(AssignVariableOp) = CpuKernel<AssignKernel<false>>("AssignVariableOp", {});
TENON_CPU_KERNEL(AssignAdd) = CpuKernel<AssignAddKernel<true, false>>("AssignAdd", kUpdate);
TENON_CPU_KERNEL(AssignSub) = CpuKernel<AssignAddKernel<true, true>>("AssignSub", kUpdate);
TENON_CPU_KERNEL(AssignAddVariableOp) = CpuKernel<AssignAddKernel<false, false>>("AssignAddVariableOp", kResourceUpdate);
TENON_CPU_KERNEL(AssignSubVariableOp) = CpuKernel<AssignAddKernel<false, true>>("AssignSubVariableOp", kResourceUpdate);
TENON_CPU_KERNEL(CountUpTo) = CpuKernel<CountUpToKernel>("CountUpTo", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});
TENON_CPU_KERNEL(ResourceCountUpTo) = CpuKernel<CountUpToKernel>("ResourceCountUpTo", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});
TENON_CPU_KERNEL(ScatterAdd) = CpuKernel<ScatterKernel<true, Change::kAdd>>("ScatterAdd", kScatter);
TENON_CPU_KERNEL(ScatterSub) = CpuKernel<ScatterKernel<true, Change::kSubtract>>("ScatterSub", kScatter);
TENON_CPU_KERNEL(ResourceScatterAdd) = CpuKernel<ScatterKernel<false, Change::kAdd>>("ResourceScatterAdd", kResourceScatter);
TENON_CPU_KERNEL(ResourceScatterSub) = CpuKernel<ScatterKernel<false, Change::kSubtract>>("ResourceScatterSub", kResourceScatter);
TENON_CPU_KERNEL(ScatterMul) = CpuKernel<ScatterKernel<true, Change::kMultiply>>("ScatterMul", kScatter);
TENON_CPU_KERNEL(ScatterDiv) = CpuKernel<ScatterKernel<true, Change::kDivide>>("ScatterDiv", kScatter);
TENON_CPU_KERNEL(ScatterMin) = CpuKernel<ScatterKernel<true, Change::kSmaller>>("ScatterMin", kOrderedScatter);
TENON_CPU_KERNEL(ScatterMax) = CpuKernel<ScatterKernel<true, Change::kLarger>>("ScatterMax", kOrderedScatter);
TENON_CPU_KERNEL(ResourceScatterMul) = CpuKernel<ScatterKernel<false, Change::kMultiply>>("ResourceScatterMul", kResourceScatter);
TENON_CPU_KERNEL(ResourceScatterDiv) = CpuKernel<ScatterKernel<false, Change::kDivide>>("ResourceScatterDiv", kResourceScatter);
TENON_CPU_KERNEL(ResourceScatterMin) = CpuKernel<ScatterKernel<false, Change::kSmaller>>("ResourceScatterMin", kOrderedResourceScatter);
TENON_CPU_KERNEL(ResourceScatterMax) = CpuKernel<ScatterKernel<false, Change::kLarger>>("ResourceScatterMax", kOrderedResourceScatter);
TENON_CPU_KERNEL(ScatterUpdate) = CpuKernel<ScatterKernel<true, Change::kPut>>(
    "ScatterUpdate", {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(ScatterUpdateString) = CpuKernel<ScatterStringsKernel<true>>(
    "ScatterUpdate", {.constraints = sdk::Constraints<sdk::Allowed<"T", TENON_DT_STRING>, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(ResourceScatterUpdateString) = CpuKernel<ScatterStringsKernel<false>>(
    "ResourceScatterUpdate", {.constraints = sdk::Constraints<sdk::Allowed<"dtype", TENON_DT_STRING>, Indices::Constraint<"Tindices">>::list});
TENON_CPU_KERNEL(ResourceScatterUpdate) = CpuKernel<ScatterKernel<false, Change::kPut>>(
    "ResourceScatterUpdate", {.constraints = sdk::Constraints<sdk::PlainConstraint<"dtype">, Indices::Constraint<"Tindices">>::list});

}  // namespace tenon::cpu
