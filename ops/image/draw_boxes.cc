// SPDX-License-Identifier: Apache-2.0
// DrawBoundingBoxes and DrawBoundingBoxesV2.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void DrawShape(ShapeContext& c) {
  const Shape images = c.WithRank(0, 4), boxes = c.WithRank(1, 3);
  c.Merge(images[0], boxes[0], "the batches");
  c.Merge(boxes[2], 4, "the numbers of a box and 4");
  const int64_t channels = images[3];
  if (channels >= 0 && channels != 1 && channels != 3 && channels != 4)
    c.Invalid("Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA); the shape of images is ", images);
  c.SetOutput(0, images);
}

}  // namespace

TENON_OP(kDrawBoundingBoxes) = DefineOp({
    .name = "DrawBoundingBoxes",
    .inputs = "images: T, boxes: float",
    .outputs = "output: T",
    .attrs = "T: {float, half} = float",
    .constraints = "rank(images) == 4; rank(boxes) == 3; dim(boxes, 2) == 4; dim(images, 0) == dim(boxes, 0)",
    .doc = "The images with their boxes (y1, x1, y2, x2 in [0, 1]) drawn on them, in ten colours in turn; grey images "
           "get white ones.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<DrawShape>,
});

TENON_OP(kDrawBoundingBoxesV2) = DefineOp({
    .name = "DrawBoundingBoxesV2",
    .inputs = "images: T, boxes: float, colors: float",
    .outputs = "output: T",
    .attrs = "T: {float, half} = float",
    .constraints =
        "rank(images) == 4; rank(boxes) == 3; dim(boxes, 2) == 4; dim(images, 0) == dim(boxes, 0); rank(colors) == 2",
    .doc = "DrawBoundingBoxes in these colours, in turn; without any in its own.",
    .shape = ShapeFunction<DrawShape>,
});

}  // namespace tenon::ops
