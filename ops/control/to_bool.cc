// SPDX-License-Identifier: Apache-2.0
// ToBool: what conditions and loops that are given no bool ask.
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct ToBool {
  explicit ToBool(CreateContext&) {}
  void Run(RunContext c) const {
    const tenon_tensor_view& input = c.input_view(0);
    if (!DimsOf(input).empty()) {
      *c.output<bool>(0) = Count(input) > 0;
    } else if (input.dtype == TENON_DT_STRING) {
      *c.output<bool>(0) = !StringAt(input, 0).empty();
    } else if (input.dtype == TENON_DT_BOOL) {
      *c.output<bool>(0) = *Data<const bool>(input);
    } else {
      double value = 0;
      if (!DecodeElement(Data<const char>(input), input.dtype, &value))
        sdk::Fail(TENON_UNIMPLEMENTED, "a scalar of ", TypeName(input.dtype), " is neither true nor false");
      *c.output<bool>(0) = value != 0;
    }
  }
};

}  // namespace

TENON_KERNEL(kToBoolKernel) = Registration<ToBool>("ToBool", {});

static void ToBoolShape(ShapeContext& c) { c.SetOutput(0, Shape::Scalar()); }

TENON_OP(kToBool) = DefineOp({
    .name = "ToBool",
    .inputs = "input: T",
    .outputs = "output: bool",
    .attrs = "T: type",
    .roles = "to_bool",
    .doc = "Of a scalar: whether it is not 0, or not an empty string; of others: whether they have elements.",
    .shape = ShapeFunction<ToBoolShape>,
});

}  // namespace tenon::ops
