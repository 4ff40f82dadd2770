// SPDX-License-Identifier: Apache-2.0
// Quantized numbers as narrower ones: sums of products are 32 bits wide and use a part of them.
#include "range.h"

namespace tenon::ops {
using namespace sdk;

static void RangeShape(ShapeContext& c) {
  WithScalars(c, 1, 3);
  c.SetOutput(0, Shape::Scalar());
  c.SetOutput(1, Shape::Scalar());
}

TENON_OP(kRequantizationRange) = DefineOp({
    .name = "RequantizationRange",
    .inputs = "input: Tinput, input_min: float, input_max: float",
    .outputs = "output_min: float, output_max: float",
    .attrs = "Tinput: quantizedtype",
    .constraints = "rank(input_min) == 0; rank(input_max) == 0",
    .doc = "The range that the numbers in input have: from the least, or 0, to the largest.",
    .shape = ShapeFunction<RangeShape>,
});

TENON_OP(kRequantize) = DefineOp({
    .name = "Requantize",
    .inputs =
        "input: Tinput, input_min: float, input_max: float, requested_output_min: float, requested_output_max: float",
    .outputs = "output: out_type, output_min: float, output_max: float",
    .attrs = "Tinput: quantizedtype; out_type: quantizedtype",
    .constraints =
        "rank(input_min) == 0; rank(input_max) == 0; rank(requested_output_min) == 0; rank(requested_output_max) == 0",
    .doc = "The numbers of input as those of the requested range, which begins at 0 or below; what lies outside of it "
           "goes to its ends.",
    .shape = ShapeFunction<SameShapeWithRange>,
});

TENON_OP(kQuantizeDownAndShrinkRange) = DefineOp({
    .name = "QuantizeDownAndShrinkRange",
    .inputs = "input: Tinput, input_min: float, input_max: float",
    .outputs = "output: out_type, output_min: float, output_max: float",
    .attrs = "Tinput: quantizedtype; out_type: quantizedtype",
    .constraints = "rank(input_min) == 0; rank(input_max) == 0",
    .doc = "RequantizationRange, and Requantize to that range.",
    .shape = ShapeFunction<SameShapeWithRange>,
});

}  // namespace tenon::ops
