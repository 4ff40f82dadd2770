// SPDX-License-Identifier: Apache-2.0
// ExtractGlimpse and ExtractGlimpseV2: a window of each image, which may reach outside of it.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void GlimpseShape(ShapeContext& c) {
  const Shape images = c.WithRank(0, 4), offsets = c.WithRank(2, 2);
  c.Merge(c.WithRank(1, 1)[0], 2, "the numbers of size and 2");
  c.Merge(offsets[1], 2, "the numbers of an offset and 2");
  const int64_t batch = c.Merge(images[0], offsets[0], "the batches");
  const auto size = c.Integers(1);
  if (!c.ok()) return;
  const bool known = size.has_value() && size->size() == 2;
  c.SetOutput(0, {batch, known ? (*size)[0] : kUnknown, known ? (*size)[1] : kUnknown, images[3]});
}

#define TENON_GLIMPSE                                                                                                \
  .inputs = "input: float, size: int32, offsets: float", .outputs = "glimpse: float",                                \
  .attrs = "centered: bool = true; normalized: bool = true; uniform_noise: bool = true; noise: string = 'uniform'",  \
  .constraints =                                                                                                     \
      "rank(input) == 4; rank(size) == 1; dim(size, 0) == 2; value(size) >= 0; rank(offsets) == 2; dim(offsets, 1) " \
      "== 2; dim(offsets, 0) == dim(input, 0)"

}  // namespace

TENON_OP(kExtractGlimpse) = DefineOp({
    .name = "ExtractGlimpse",
    TENON_GLIMPSE,
    .doc = "The window of that size whose middle is at offsets: in pixels, or normalized, of which 1 is the image; "
           "from the image's middle on where they are "
           "centered (then 2 is the "
           "image). Outside of the image is noise: uniform, gaussian or zero.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<GlimpseShape>,
});

TENON_OP(kExtractGlimpseV2) = DefineOp({
    .name = "ExtractGlimpseV2",
    TENON_GLIMPSE,
    .doc =
        "ExtractGlimpse, but for offsets that are not both normalized and centered: they say where the window begins.",
    .shape = ShapeFunction<GlimpseShape>,
});

}  // namespace tenon::ops
