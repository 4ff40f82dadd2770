// SPDX-License-Identifier: Apache-2.0
// What the ops of summaries mean: serialized Summary messages of TensorBoard.
#include "tenon/sdk/op.h"

namespace tenon::ops {
using namespace sdk;

extern const tenon_op_definition kScalarSummary = DefineOp({
    .name = "ScalarSummary",
    .inputs = "tags: string, values: T",
    .outputs = "summary: string",
    .attrs = "T: realnumbertype",
    .doc = "A summary of one number for each tag.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

extern const tenon_op_definition kHistogramSummary = DefineOp({
    .name = "HistogramSummary",
    .inputs = "tag: string, values: T",
    .outputs = "summary: string",
    .attrs = "T: realnumbertype = float",
    .constraints = "rank(tag) == 0",
    .doc = "A summary of how values, which are finite, are spread.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

extern const tenon_op_definition kMergeSummary = DefineOp({
    .name = "MergeSummary",
    .inputs = "inputs: N * string",
    .outputs = "summary: string",
    .attrs = "N: int >= 1",
    .doc = "The values of all summaries in one; each tag stands in one of them.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
