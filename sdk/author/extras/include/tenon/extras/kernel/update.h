// SPDX-License-Identifier: Apache-2.0
// One update of a variable: begun in the constructor, ended by Commit() or, as failed, by the destructor.
//
// old_data and new_data may be the same memory: an element-wise update reads old[i] before it writes new[i]. It is
// shared by RunContext::UninterruptedFor: one that ended half-way would lose the variable's value. Failures of the host
// (a variable without a value, of another dtype or shape) are thrown as in kernel.h. One Update belongs to one run; who
// holds TENON_UPDATE_LOCK keeps other updates waiting.
#ifndef TENON_SDK_KERNEL_UPDATE_H_
#define TENON_SDK_KERNEL_UPDATE_H_

#include <algorithm>

#include "tenon/sdk/kernel/element.h"

namespace tenon::sdk {

using UpdateTypes = Numbers::AndComplex;

class Update {
 public:
  // The new value has these dims, and replaces the old one as a whole. flags: TENON_UPDATE_*. handle: of
  // RunContext::resource. extra_bytes: behind the elements, for strings.
  Update(RunContext context, tenon_resource* handle, uint32_t flags, uint32_t dtype, Dims dims,
         uint64_t extra_bytes = 0)
      : context_(context), handle_(handle), writing_(true) {
    Check(context.services().variable_begin_update(context.frame(), handle, flags, dtype, ToShape(dims),
                                                        extra_bytes, &old_, &new_));
  }
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;
  // Of the variable's own shape, some rows of it: what is not written keeps its value. Nothing is lost before
  // BeginWriting().
  Update(RunContext context, tenon_resource* handle, uint32_t flags, uint32_t dtype)
      : context_(context), handle_(handle) {
    Check(context.services().variable_begin_update(context.frame(), handle, flags | TENON_UPDATE_PRESERVE, dtype,
                                                        {nullptr, -1, 0}, 0, &old_, &new_));
  }
  ~Update() {
    if (handle_ != nullptr)
      context_.services().variable_end_update(context_.frame(), handle_,
                                              writing_ ? TENON_UPDATE_FAILED : TENON_UPDATE_UNTOUCHED);
  }
  // The new value is the variable's from now on; nothing of this is touched any more.
  void Commit() {
    context_.services().variable_end_update(context_.frame(), handle_, TENON_UPDATE_COMMIT);
    handle_ = nullptr;
  }
  // Checks that come before this do not cost the value when they fail.
  void BeginWriting() { writing_ = true; }
  // Work that is submitted later writes; until then a failure costs nothing.
  void NothingWritten() { writing_ = false; }
  Dims dims() const { return DimsOf(new_); }
  template <class T>
  const T* old_data() const {
    return Data<const T>(old_);
  }
  template <class T>
  T* new_data() const {
    return Data<T>(new_);
  }
  const tenon_tensor_view& old_view() const { return old_; }
  const tenon_tensor_view& new_view() const { return new_; }

 private:
  RunContext context_;
  tenon_resource* handle_;
  bool writing_ = false;
  tenon_tensor_view old_ = {};
  tenon_tensor_view new_ = {};
};

// ReadVariableOp on any device: the output is the variable's memory.
struct ReadVariableKernel {
  void Run(RunContext c) const {
    tenon_tensor_view value = {};
    Check(c.services().variable_read(c.frame(), c.resource(0), &value));
    Check(c.services().set_output(c.frame(), 0, &value));
  }
};

// What validate_shape of Assign asks: a variable with a value keeps its shape.
inline void CheckAssignedShape(RunContext c, tenon_resource* handle, const tenon_tensor_view& value) {
  if (c.services().variable_is_initialized(c.frame(), handle) == 0) return;
  tenon_tensor_view old = {};
  Check(c.services().variable_read(c.frame(), handle, &old));
  const Dims a = DimsOf(old), b = DimsOf(value);
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) {
    Fail(TENON_INVALID_ARGUMENT, "Assign requires shapes of both tensors to match. lhs shape= ", a, " rhs shape= ", b);
  }
}

// The flag that the node's attribute use_locking asks for.
inline uint32_t UpdateLock(CreateContext& c) {
  return c.Has("use_locking") && c.Bool("use_locking") ? TENON_UPDATE_LOCK : 0u;
}

// Integers wrap.
template <bool kSubtract, class T>
constexpr T AddOrSubtract(T x, T y) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(kSubtract ? static_cast<U>(x) - static_cast<U>(y) : static_cast<U>(x) + static_cast<U>(y));
  } else {
    const Wide<T> a = x, b = y;
    return static_cast<T>(kSubtract ? a - b : a + b);
  }
}

// The row that indices[position] names is in [0, rows); else INVALID_ARGUMENT names all three.
inline void CheckRow(int64_t row, int64_t position, int64_t rows) {
  if (row < 0 || row >= rows) [[unlikely]] {
    Fail(TENON_INVALID_ARGUMENT, "indices[", position, "] = ", row, " is not in [0, ", rows, ")");
  }
}


}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_UPDATE_H_
