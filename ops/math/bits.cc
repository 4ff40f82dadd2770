// SPDX-License-Identifier: Apache-2.0
// The bits of integers.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

consteval tenon_op_definition OfBits(OpDefinition op, tenon_shape_function shape = ShapeFunction<BroadcastShape>) {
  op.inputs = op.inputs.empty() ? "x: T, y: T" : op.inputs;
  op.outputs = op.outputs.empty() ? "z: T" : op.outputs;
  op.attrs = "T: {int8, int16, int32, int64, uint8, uint16, uint32, uint64}";
  op.traits |= TENON_OP_NO_GRADIENT;
  op.shape = shape;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kBitwiseAnd) = OfBits({.name = "BitwiseAnd",
                                .doc = "The bits that x and y both have.",
                                .properties = "elementwise, broadcasts, exact, computes(bitwise_and(x, y))",
                                .traits = TENON_OP_COMMUTATIVE});
TENON_OP(kBitwiseOr) = OfBits({.name = "BitwiseOr",
                               .doc = "The bits that x, y or both have.",
                               .properties = "elementwise, broadcasts, exact, computes(bitwise_or(x, y))",
                               .traits = TENON_OP_COMMUTATIVE});
TENON_OP(kBitwiseXor) = OfBits({.name = "BitwiseXor",
                                .doc = "The bits in which x and y differ.",
                                .properties = "elementwise, broadcasts, exact, computes(bitwise_xor(x, y))",
                                .traits = TENON_OP_COMMUTATIVE});
TENON_OP(kLeftShift) = OfBits({
    .name = "LeftShift",
    .doc =
        "x with its bits y places higher; y below 0 counts as 0, and from the number of bits on as one less than that.",
    .properties = "elementwise, broadcasts, exact, computes(left_shift(x, y))",
});
TENON_OP(kRightShift) = OfBits({
    .name = "RightShift",
    .doc = "x with its bits y places lower, keeping its sign; y below 0 counts as 0, and from the number of bits on as "
           "one less than that.",
    .properties = "elementwise, broadcasts, exact, computes(right_shift(x, y))",
});
TENON_OP(kInvert) = OfBits({
    .name = "Invert",
    .inputs = "x: T",
    .outputs = "y: T",
    .doc = "Every bit the other way.",
    .properties = "elementwise, exact, computes(bitwise_not(x))",
}, ShapeFunction<SameShape>);
TENON_OP(kPopulationCount) = OfBits({
    .name = "PopulationCount",
    .inputs = "x: T",
    .outputs = "y: uint8",
    .doc = "How many bits are 1.",
    .properties = "elementwise, exact",
}, ShapeFunction<SameShape>);

}  // namespace tenon::ops
