// SPDX-License-Identifier: Apache-2.0
// ResizeBicubic and its gradient, and ResizeArea. ResizeBilinear and ResizeNearestNeighbor are in the package nn.
#include "tenon/sdk/op/op.h"

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

void OriginalShape(ShapeContext& c) {
  const Shape grads = c.WithRank(0, 4), image = c.WithRank(1, 4);
  const int64_t batch = c.Merge(grads[0], image[0], "the batches"),
                channels = c.Merge(grads[3], image[3], "the channels");
  c.SetOutput(0, {batch, image[1], image[2], channels});
}

void BicubicGradient(GradientContext& g) {
  const uint32_t type = g.type(g.input(0));
  if (type != TENON_DT_FLOAT && type != TENON_DT_DOUBLE) return;
  g.SetDx(0, g.Op("ResizeBicubicGrad", {g.dy(0), g.input(0)},
                  {{"align_corners", g.Raw("align_corners")}, {"half_pixel_centers", g.Raw("half_pixel_centers")}}));
}

}  // namespace

TENON_OP(kResizeBicubic) = DefineOp({
    .name = "ResizeBicubic",
    .inputs = "images: T, size: int32",
    .outputs = "resized_images: float",
    .attrs = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}; align_corners: bool = "
             "false; half_pixel_centers: bool = false",
    .constraints = "rank(images) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 1",
    .doc = "Images of another height and width, between pixels as a cubic curve through the sixteen nearest says.",
    .shape = ShapeFunction<ResizeShape>,
    .gradient = GradientFunction<BicubicGradient>,
});

TENON_OP(kResizeBicubicGrad) = DefineOp({
    .name = "ResizeBicubicGrad",
    .inputs = "grads: float, original_image: T",
    .outputs = "output: T",
    .attrs = "T: {float, double}; align_corners: bool = false; half_pixel_centers: bool = false",
    .constraints = "rank(grads) == 4; rank(original_image) == 4",
    .doc = "The gradient of ResizeBicubic with respect to its images.",
    .shape = ShapeFunction<OriginalShape>,
});

TENON_OP(kResizeArea) = DefineOp({
    .name = "ResizeArea",
    .inputs = "images: T, size: int32",
    .outputs = "resized_images: float",
    .attrs =
        "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}; align_corners: bool = false",
    .constraints = "rank(images) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 1",
    .doc = "Images of another height and width, each pixel the mean of the area that it covers.",
    .shape = ShapeFunction<ResizeShape>,
});

}  // namespace tenon::ops
