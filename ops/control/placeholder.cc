// SPDX-License-Identifier: Apache-2.0
// Placeholders: values that the caller feeds.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void PlaceholderShape(ShapeContext& c) { c.SetOutput(0, c.ShapeAttr("shape")); }

TENON_OP(kPlaceholder) = DefineOp({
    .name = "Placeholder",
    .outputs = "output: dtype",
    .attrs = "dtype: type; shape: shape = unknown",
    .doc = "A value that must be fed.",
    .traits = TENON_OP_FEED,
    .shape = ShapeFunction<PlaceholderShape>,
});

// What is fed may be any shape that fits the attribute, so the input's own shape must not be promised.
static void PlaceholderWithDefaultShape(ShapeContext& c) {
  const Shape declared = c.ShapeAttr("shape");
  c.Merge(c.Input(0), declared, "the default's shape and the declared shape");
  c.SetOutput(0, declared);
}

TENON_OP(kPlaceholderWithDefault) = DefineOp({
    .name = "PlaceholderWithDefault",
    .inputs = "input: dtype",
    .outputs = "output: dtype",
    .attrs = "dtype: type; shape: shape",
    .doc = "The input, unless another value is fed.",
    .traits = TENON_OP_IDENTITY | TENON_OP_NO_FOLD,
    .shape = ShapeFunction<PlaceholderWithDefaultShape>,
    .gradient = GradientFunction<PassOnGradient>,
});

}  // namespace tenon::ops
