// SPDX-License-Identifier: Apache-2.0
// What the ops of one step have in common: their shape functions and traits.
#ifndef TENON_OPS_TRAINING_APPLY_H_
#define TENON_OPS_TRAINING_APPLY_H_

#include "tenon/sdk/op/op.h"

namespace tenon::ops {

// Inputs 0 .. kSlots-1 are variables, kGradient is the gradient, the others are scalars.
template <int kSlots, int kGradient>
void ApplyShape(sdk::ShapeContext& c) {
  using namespace sdk;
  const bool by_handle = c.input_type(0) == TENON_DT_RESOURCE;
  Shape shape = c.Input(kGradient);
  for (int i = 0; i < kSlots; ++i) {
    const ShapeContext::Handle handle = by_handle ? c.InputHandle(i) : ShapeContext::Handle{c.Input(i), c.Type("T")};
    if (c.ok() && handle.dtype != TENON_DT_INVALID && BaseType(handle.dtype) != c.Type("T")) {
      c.Invalid("variable ", i, " is of type ", TypeName(handle.dtype), ", the gradient of type ",
                TypeName(c.Type("T")));
    }
    shape = c.Merge(shape, handle.shape, "the shapes of the gradient, the variable and its slots");
  }
  for (int i = kSlots; i < c.input_count(); ++i) {
    if (i != kGradient) c.WithRank(i, 0);
  }
  if (by_handle) return;
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.Type("T"));
}

// The gradient has one row for each index, and stands before the indices; the inputs that are no variables are scalars.
template <int kSlots, int kGradient>
void SparseApplyShape(sdk::ShapeContext& c) {
  using namespace sdk;
  const bool by_handle = c.input_type(0) == TENON_DT_RESOURCE;
  const Shape indices = c.WithRank(kGradient + 1, 1), grad = c.Input(kGradient);
  Shape variable;
  for (int i = 0; i < kSlots; ++i) {
    variable =
        c.Merge(variable, by_handle ? c.InputHandle(i).shape : c.Input(i), "the shapes of the variable and its slots");
  }
  for (int i = kSlots; i < c.input_count(); ++i) {
    if (i != kGradient && i != kGradient + 1) c.WithRank(i, 0);
  }
  if (variable.rank() == 0) return c.Invalid("the variable is a scalar; it has no rows");
  if (variable.known_rank())
    c.Merge(Join(indices, variable.Slice(1)), grad, "the shapes of the named rows and of grad");
  if (by_handle) return;
  c.SetOutput(0, variable);
  c.SetOutputHandle(0, variable, c.Type("T"));
}

inline constexpr uint64_t kByReference = TENON_OP_WRITES_STATE;
inline constexpr uint64_t kByHandle = TENON_OP_WRITES_STATE | TENON_OP_STATEFUL;

}  // namespace tenon::ops

#endif  // TENON_OPS_TRAINING_APPLY_H_
