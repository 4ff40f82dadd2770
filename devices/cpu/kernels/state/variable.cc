// SPDX-License-Identifier: Apache-2.0
// Variables: reads and assignments, of resource variables and of reference variables.
//
// A reference output (Assign, ...) is the cell with the host's resource. Updates write new = f(old); old and new may be
// the same memory. Handles are made on the host (ops/state).
#include <cstring>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

using sdk::AddOrSubtract;
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
    if (!update.dims().empty())
      sdk::Fail(TENON_INVALID_ARGUMENT, "input is not a scalar: its shape is ", update.dims());
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

constexpr sdk::Traits kUpdate = {.constraints = sdk::Constraints<UpdateTypes::Constraint<"T">>::list};
constexpr sdk::Traits kResourceUpdate = {.constraints = sdk::Constraints<UpdateTypes::Constraint<"dtype">>::list};

}  // namespace

TENON_CPU_KERNEL(ReadVariableOp) = CpuKernel<sdk::ReadVariableKernel>("ReadVariableOp", {.dynamic_outputs = 1});
TENON_CPU_KERNEL(Assign) = CpuKernel<AssignKernel<true>>("Assign", {});
TENON_CPU_KERNEL(AssignVariableOp) = CpuKernel<AssignKernel<false>>("AssignVariableOp", {});
TENON_CPU_KERNEL(AssignAdd) = CpuKernel<AssignAddKernel<true, false>>("AssignAdd", kUpdate);
TENON_CPU_KERNEL(AssignSub) = CpuKernel<AssignAddKernel<true, true>>("AssignSub", kUpdate);
TENON_CPU_KERNEL(AssignAddVariableOp) = CpuKernel<AssignAddKernel<false, false>>("AssignAddVariableOp",
                                                                                 kResourceUpdate);
TENON_CPU_KERNEL(AssignSubVariableOp) = CpuKernel<AssignAddKernel<false, true>>("AssignSubVariableOp", kResourceUpdate);
TENON_CPU_KERNEL(CountUpTo) =
    CpuKernel<CountUpToKernel>("CountUpTo", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});
TENON_CPU_KERNEL(ResourceCountUpTo) =
    CpuKernel<CountUpToKernel>("ResourceCountUpTo", {.constraints = sdk::Constraints<Indices::Constraint<"T">>::list});

}  // namespace tenon::cpu
