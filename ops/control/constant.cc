// SPDX-License-Identifier: Apache-2.0
// Const: a value that the graph itself holds.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

static void ConstShape(ShapeContext& c) {
  const tenon_attr_value value = c.Raw("value");
  if (!c.ok()) return;
  if (value.kind != TENON_ATTR_TENSOR || value.count != 1) {
    return c.Invalid("attribute 'value' must be one tensor");
  }
  const auto* view = static_cast<const tenon_tensor_view*>(value.data);
  if (view->dtype != c.Type("dtype")) {
    return c.Invalid("attribute 'value' is of type ", TypeName(view->dtype), ", but 'dtype' says ",
                     TypeName(c.Type("dtype")));
  }
  c.SetOutput(0, Shape(tenon_shape{view->dl.shape, view->dl.ndim, 0}));
}

TENON_OP(kConst) = DefineOp({
    .name = "Const",
    .outputs = "output: dtype",
    .attrs = "value: tensor; dtype: type",
    .roles = "constant",
    .doc = "A constant tensor.",
    .traits = TENON_OP_CONSTANT | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ConstShape>,
});

}  // namespace tenon::ops
