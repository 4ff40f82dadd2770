// SPDX-License-Identifier: Apache-2.0
// ResizeBilinear and ResizeNearestNeighbor, and their gradients.
//
// align_corners: the corners' pixels meet; half_pixel_centers: pixels are where their middles are. Not both.
#include "window.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void ResizeShape(ShapeContext& c) {
  const Shape images = c.WithRank(0, 4);
  const Shape size = c.WithRank(1, 1);
  c.Merge(size[0], 2, "the numbers of size and 2");
  const auto wanted = c.Integers(1);
  if (!c.ok()) return;
  const bool known = wanted.has_value() && wanted->size() == 2;
  c.SetOutput(0, {images[0], known ? (*wanted)[0] : kUnknown, known ? (*wanted)[1] : kUnknown, images[3]});
}

void BilinearGradShape(ShapeContext& c) {
  const Shape grads = c.WithRank(0, 4), image = c.WithRank(1, 4);
  const int64_t batch = c.Merge(grads[0], image[0], "the batches"),
                channels = c.Merge(grads[3], image[3], "the channels");
  c.SetOutput(0, {batch, image[1], image[2], channels});
}

void BilinearGradient(GradientContext& g) {
  const std::vector<Attribute> sampling = SameAttributes(g, {"align_corners", "half_pixel_centers"});
  if (IsReal(g.type(g.input(0)))) g.SetDx(0, g.Op("ResizeBilinearGrad", {g.dy(0), g.input(0)}, sampling));
}

void NearestGradient(GradientContext& g) {
  const Shape image = g.shape(g.input(0));
  const bool known = image[1] >= 0 && image[2] >= 0;
  const Output size = known ? g.Vector({image[1], image[2]}) : g.VectorSlice(g.ShapeOf(g.input(0)), 1, 3);
  g.SetDx(0, g.Op("ResizeNearestNeighborGrad", {g.dy(0), size},
                  SameAttributes(g, {"align_corners", "half_pixel_centers"})));
}

}  // namespace

TENON_OP(kResizeBilinear) = DefineOp({
    .name = "ResizeBilinear",
    .inputs = "images: T, size: int32",
    .outputs = "resized_images: float",
    .attrs =
        "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}; align_corners: bool = false; "
        "half_pixel_centers: bool = false",
    .constraints = "rank(images) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 1",
    .doc = "Images of another height and width, between pixels as the four nearest say.",
    .shape = ShapeFunction<ResizeShape>,
    .gradient = GradientFunction<BilinearGradient>,
});

TENON_OP(kResizeBilinearGrad) = DefineOp({
    .name = "ResizeBilinearGrad",
    .inputs = "grads: float, original_image: T",
    .outputs = "output: T",
    .attrs = "T: {float, bfloat16, half, double}; align_corners: bool = false; half_pixel_centers: bool = false",
    .constraints = "rank(grads) == 4; rank(original_image) == 4",
    .doc = "The gradient of ResizeBilinear with respect to its images.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<BilinearGradShape>,
});

TENON_OP(kResizeNearestNeighbor) = DefineOp({
    .name = "ResizeNearestNeighbor",
    .inputs = "images: T, size: int32",
    .outputs = "resized_images: T",
    .attrs =
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}; align_corners: bool = false; "
        "half_pixel_centers: bool = false",
    .constraints = "rank(images) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 1",
    .doc = "Images of another height and width, each pixel that of the nearest.",
    .shape = ShapeFunction<ResizeShape>,
    .gradient = GradientFunction<NearestGradient>,
});

TENON_OP(kResizeNearestNeighborGrad) = DefineOp({
    .name = "ResizeNearestNeighborGrad",
    .inputs = "grads: T, size: int32",
    .outputs = "output: T",
    .attrs = "T: {uint8, int8, int32, half, float, double, bfloat16}; align_corners: bool = false; half_pixel_centers: "
             "bool = false",
    .constraints = "rank(grads) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 1",
    .doc = "The gradient of ResizeNearestNeighbor with respect to its images, which had that size.",
    .shape = ShapeFunction<ResizeShape>,
});

}  // namespace tenon::ops
