// SPDX-License-Identifier: Apache-2.0
// CropAndResize and its gradients: boxes of images, each resized to one size.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// boxes [n, 4] and box_ind [n]; n.
int64_t BoxesOf(ShapeContext& c, int boxes, int indices) {
  const Shape shape = c.WithRank(boxes, 2), which = c.WithRank(indices, 1);
  c.Merge(shape[1], 4, "the numbers of a box and 4");
  return c.Merge(shape[0], which[0], "the numbers of boxes and of box_ind");
}

void CropShape(ShapeContext& c) {
  const Shape image = c.WithRank(0, 4);
  const int64_t boxes = BoxesOf(c, 1, 2);
  c.Merge(c.WithRank(3, 1)[0], 2, "the numbers of crop_size and 2");
  const auto size = c.Integers(3);
  if (!c.ok()) return;
  const bool known = size.has_value() && size->size() == 2;
  c.SetOutput(0, {boxes, known ? (*size)[0] : kUnknown, known ? (*size)[1] : kUnknown, image[3]});
}

void ImageShape(ShapeContext& c) {
  c.WithRank(0, 4);
  BoxesOf(c, 1, 2);
  const auto size = c.Integers(3);
  c.Merge(c.WithRank(3, 1)[0], 4, "the numbers of image_size and 4");
  c.SetOutput(0, size.has_value() && size->size() == 4 ? Shape(*size) : Shape::OfRank(4));
}

void GradBoxesShape(ShapeContext& c) {
  c.WithRank(0, 4);
  c.WithRank(1, 4);
  BoxesOf(c, 2, 3);
  c.SetOutput(0, c.Input(2));
}

void CropGradient(GradientContext& g) {
  const uint32_t type = g.type(g.input(0));
  if (type == TENON_DT_FLOAT || type == TENON_DT_HALF || type == TENON_DT_DOUBLE) {
    g.SetDx(0, g.Op("CropAndResizeGradImage", {g.dy(0), g.input(1), g.input(2), g.ShapeOf(g.input(0))},
                    {Attribute::Type("T", type), {"method", g.Raw("method")}}));
  }
  // Of the nearest pixels the boxes' gradient is that of the bilinear ones, as TensorFlow has it.
  g.SetDx(1, g.Op("CropAndResizeGradBoxes", {g.dy(0), g.input(0), g.input(1), g.input(2)}));
}

}  // namespace

TENON_OP(kCropAndResize) = DefineOp({
    .name = "CropAndResize",
    .inputs = "image: T, boxes: float, box_ind: int32, crop_size: int32",
    .outputs = "crops: float",
    .attrs = "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: {'bilinear', 'nearest'} = "
             "'bilinear'; extrapolation_value: float = 0",
    .constraints = "rank(image) == 4; rank(boxes) == 2; dim(boxes, 1) == 4; rank(box_ind) == 1; dim(boxes, 0) == "
                   "dim(box_ind, 0); rank(crop_size) == 1; "
                   "dim(crop_size, 0) == 2; value(crop_size) >= 1; element(box_ind) < dim(image, 0)",
    .doc = "The part of image box_ind[i] that box i says (y1, x1, y2, x2, where 1 is the last pixel), as large as "
           "crop_size. Pixels outside of the image are "
           "extrapolation_value.",
    .shape = ShapeFunction<CropShape>,
    .gradient = GradientFunction<CropGradient>,
});

TENON_OP(kCropAndResizeGradImage) = DefineOp({
    .name = "CropAndResizeGradImage",
    .inputs = "grads: float, boxes: float, box_ind: int32, image_size: int32",
    .outputs = "output: T",
    .attrs = "T: {float, half, double}; method: {'bilinear', 'nearest'} = 'bilinear'",
    .constraints = "rank(grads) == 4; rank(boxes) == 2; dim(boxes, 1) == 4; rank(box_ind) == 1; dim(boxes, 0) == "
                   "dim(box_ind, 0); dim(grads, 0) == dim(boxes, 0); "
                   "rank(image_size) == 1; dim(image_size, 0) == 4",
    .doc = "The gradient of CropAndResize with respect to its image, which had that size.",
    .shape = ShapeFunction<ImageShape>,
});

TENON_OP(kCropAndResizeGradBoxes) = DefineOp({
    .name = "CropAndResizeGradBoxes",
    .inputs = "grads: float, image: T, boxes: float, box_ind: int32",
    .outputs = "output: float",
    .attrs = "T: {uint8, uint16, int8, int16, int32, int64, half, float, double}; method: {'bilinear'} = 'bilinear'",
    .constraints = "rank(grads) == 4; rank(image) == 4; rank(boxes) == 2; dim(boxes, 1) == 4; rank(box_ind) == 1; "
                   "dim(boxes, 0) == dim(box_ind, 0); "
                   "dim(grads, 0) == dim(boxes, 0)",
    .doc = "The gradient of CropAndResize with respect to its boxes.",
    .shape = ShapeFunction<GradBoxesShape>,
});

}  // namespace tenon::ops
