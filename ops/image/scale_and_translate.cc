// SPDX-License-Identifier: Apache-2.0
// ScaleAndTranslate and its gradient: images resampled by a kernel of one's choice.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void ScaleShape(ShapeContext& c) {
  const Shape images = c.WithRank(0, 4);
  for (int i = 1; i < 4; ++i) c.Merge(c.WithRank(i, 1)[0], 2, "the numbers of size, scale and translation and 2");
  const auto size = c.Integers(1);
  if (!c.ok()) return;
  const bool known = size.has_value() && size->size() == 2;
  c.SetOutput(0, {images[0], known ? (*size)[0] : kUnknown, known ? (*size)[1] : kUnknown, images[3]});
}

void ScaleGradShape(ShapeContext& c) {
  const Shape grads = c.WithRank(0, 4), image = c.WithRank(1, 4);
  for (int i = 2; i < 4; ++i) c.Merge(c.WithRank(i, 1)[0], 2, "the numbers of scale and translation and 2");
  const int64_t batch = c.Merge(grads[0], image[0], "the batches"),
                channels = c.Merge(grads[3], image[3], "the channels");
  c.SetOutput(0, {batch, image[1], image[2], channels});
}

void ScaleGradient(GradientContext& g) {
  if (g.type(g.input(0)) != TENON_DT_FLOAT) return;
  g.SetDx(0, g.Op("ScaleAndTranslateGrad", {g.dy(0), g.input(0), g.input(2), g.input(3)},
      {{"kernel_type", g.Raw("kernel_type")}, {"antialias", g.Raw("antialias")}}));
}

}  // namespace

TENON_OP(kScaleAndTranslate) = DefineOp({
    .name = "ScaleAndTranslate",
    .inputs = "images: T, size: int32, scale: float, translation: float",
    .outputs = "resized_images: float",
    .attrs = "T: {int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}; kernel_type: string = "
             "'lanczos3'; antialias: bool = true",
    .constraints = "rank(images) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 1; rank(scale) == 1; "
                   "dim(scale, 0) == 2; rank(translation) == 1; "
                   "dim(translation, 0) == 2",
    .doc = "Images of the given size, of which pixel (y, x) * scale + translation is what (y, x) was. kernel_type: "
           "lanczos1, lanczos3, lanczos5, gaussian, box, "
           "triangle, keyscubic or "
           "mitchellcubic. antialias: what becomes smaller is smoothed first.",
    .shape = ShapeFunction<ScaleShape>,
    .gradient = GradientFunction<ScaleGradient>,
});

TENON_OP(kScaleAndTranslateGrad) = DefineOp({
    .name = "ScaleAndTranslateGrad",
    .inputs = "grads: T, original_image: T, scale: float, translation: float",
    .outputs = "output: T",
    .attrs = "T: {float}; kernel_type: string = 'lanczos3'; antialias: bool = true",
    .constraints = "rank(grads) == 4; rank(original_image) == 4; rank(scale) == 1; dim(scale, 0) == 2; "
                   "rank(translation) == 1; dim(translation, 0) == 2",
    .doc = "The gradient of ScaleAndTranslate with respect to its images.",
    .shape = ShapeFunction<ScaleGradShape>,
});

}  // namespace tenon::ops
