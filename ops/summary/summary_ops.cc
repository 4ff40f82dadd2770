// SPDX-License-Identifier: Apache-2.0
// What the ops of summaries mean: serialized Summary messages of TensorBoard.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

TENON_OP(kScalarSummary) = DefineOp({
    .name = "ScalarSummary",
    .inputs = "tags: string, values: T",
    .outputs = "summary: string",
    .attrs = "T: realnumbertype",
    .doc = "A summary of one number for each tag.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kHistogramSummary) = DefineOp({
    .name = "HistogramSummary",
    .inputs = "tag: string, values: T",
    .outputs = "summary: string",
    .attrs = "T: realnumbertype = float",
    .constraints = "rank(tag) == 0",
    .doc = "A summary of how values, which are finite, are spread.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kImageSummary) = DefineOp({
    .name = "ImageSummary",
    .inputs = "tag: string, tensor: T",
    .outputs = "summary: string",
    .attrs =
        "max_images: int >= 1 = 3; T: {uint8, float, half, double} = float; bad_color: tensor = uint8 [255, 0, 0, 255]",
    .constraints = "rank(tag) == 0; rank(tensor) == 4",
    .doc = "A summary of the first max_images images of tensor [batch, height, width, 1 (grey), 3 (RGB) or 4 (RGBA)], "
           "as PNG. Numbers that are no "
           "uint8 are scaled, so that the largest is 255, or with negative ones so that 0 is 128; a pixel that is not "
           "finite gets bad_color.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kTensorSummary) = DefineOp({
    .name = "TensorSummary",
    .inputs = "tensor: T",
    .outputs = "summary: string",
    .attrs = "T: type; description: string = ''; labels: list(string) = []; display_name: string = ''",
    .doc = "A summary of a tensor under the node's name. description, labels and display_name are for people.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kTensorSummaryV2) = DefineOp({
    .name = "TensorSummaryV2",
    .inputs = "tag: string, tensor: T, serialized_summary_metadata: string",
    .outputs = "summary: string",
    .attrs = "T: type",
    .constraints = "rank(tag) == 0; rank(serialized_summary_metadata) == 0",
    .doc = "A summary of a tensor under a tag, with a SummaryMetadata message that says which plugin of TensorBoard "
           "shows it.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

TENON_OP(kMergeSummary) = DefineOp({
    .name = "MergeSummary",
    .inputs = "inputs: N * string",
    .outputs = "summary: string",
    .attrs = "N: int >= 1",
    .doc = "The values of all summaries in one; each tag stands in one of them.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
