// SPDX-License-Identifier: Apache-2.0
// ExtractImagePatches: windows of images, each as one pixel of many channels.
#include <array>

#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

struct Windows {
  explicit Windows(NodeContext& c)
      : same(c.String("padding") == "SAME"),
        sizes(Read(c, "ksizes")),
        strides(Read(c, "strides")),
        rates(Read(c, "rates")) {}
  // Of height and width.
  static std::array<int64_t, 2> Read(NodeContext& c, std::string_view attr) {
    const std::vector<int64_t> values = c.Ints(attr);
    if (!c.ok()) return {1, 1};
    if (values.size() != 4 || values[0] != 1 || values[3] != 1) {
      c.Fail(TENON_UNIMPLEMENTED, "attribute '", attr, "' must be [1, rows, columns, 1]; it is ", values);
      return {1, 1};
    }
    constexpr int64_t kMost = int64_t{1} << 31;
    if (values[1] < 1 || values[2] < 1 || values[1] >= kMost || values[2] >= kMost)
      c.Fail(TENON_OUT_OF_RANGE, "attribute '", attr, "' must be positive; it is ", values);
    return {values[1], values[2]};
  }
  bool same;
  std::array<int64_t, 2> sizes, strides, rates;
};

void PatchesShape(ShapeContext& c) {
  const Shape images = c.WithRank(0, 4);
  const Windows w(c);
  if (!c.ok()) return;
  int64_t out[2];
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<size_t>(i);
    const int64_t size = images[1 + i], reach = (w.sizes[k] - 1) * w.rates[k] + 1;
    out[i] = size < 0 ? kUnknown
             : w.same ? (size + w.strides[k] - 1) / w.strides[k]
                      : (size - reach + w.strides[k]) / w.strides[k];
    // The quotient is rounded towards 0: up to a stride too little gives no window, and is no error.
    if (size >= 0 && out[i] < 0) c.Invalid("windows that reach over ", reach, " pixels do not fit into ", size);
  }
  c.SetOutput(0, {images[0], out[0], out[1], c.Multiply(c.Multiply(w.sizes[0], w.sizes[1]), images[3])});
}

// Each element of a window goes back to its pixel: the gradient of a convolution whose filters have one 1 each, of a
// picture for each channel.
Output PutBack(GradientContext& g, const Windows& w, Output dy) {
  const int64_t elements = w.sizes[0] * w.sizes[1];
  const Output shape = g.ShapeOf(g.input(0)), out = g.ShapeOf(dy);
  const auto part = [&](Output of, int64_t i) { return g.VectorSlice(of, i, i + 1); };
  const Output pictures = g.Mul(part(shape, 0), part(shape, 3));
  // [batch, rows, columns, elements, channels] to [batch * channels, rows, columns, elements].
  const Output apart =
      g.Reshape(dy, g.Concat({part(out, 0), part(out, 1), part(out, 2), g.Vector({elements}), part(shape, 3)}));
  const Output moved = g.Op("Transpose", {apart, g.Vector({0, 4, 1, 2, 3})});
  const Output gradients = g.Reshape(moved, g.Concat({pictures, part(out, 1), part(out, 2), g.Vector({elements})}));
  const Output places = g.Op("Range", {g.Number(0), g.Number(elements), g.Number(1)});
  const Output ones = g.Op("OneHot", {places, g.Number(elements), g.Scalar(1, dy), g.Scalar(0, dy)});
  const Output filters = g.Reshape(ones, g.Vector({w.sizes[0], w.sizes[1], 1, elements}));
  const Output sizes = g.Concat({pictures, part(shape, 1), part(shape, 2), g.Vector({1})});
  const Output dx = g.Op("Conv2DBackpropInput", {sizes, filters, gradients},
      {{"strides", g.Raw("strides")}, {"padding", g.Raw("padding")}, {"dilations", g.Raw("rates")}});
  const Output separate = g.Reshape(dx, g.Concat({part(shape, 0), part(shape, 3), part(shape, 1), part(shape, 2)}));
  return g.Op("Transpose", {separate, g.Vector({0, 2, 3, 1})});
}

void PatchesGradient(GradientContext& g) {
  const Windows w(g);
  const Output images = g.input(0), dy = g.dy(0);
  if (IsComplex(g.type(dy))) return g.Fail(TENON_UNIMPLEMENTED,
      "ExtractImagePatches of complex numbers has no gradient here; of their real and imaginary parts it has");
  const bool none = g.shape(dy).fully_known() && g.shape(dy).elements() == 0;
  g.SetDx(0, none ? g.ZerosLike(images) : PutBack(g, w, dy));
}

}  // namespace

TENON_OP(kExtractImagePatches) = DefineOp({
    .name = "ExtractImagePatches",
    .inputs = "images: T",
    .outputs = "patches: T",
    .attrs = "ksizes: list(int) >= 4; strides: list(int) >= 4; rates: list(int) >= 4; T: {bfloat16, half, float, "
             "double, int8, int16, int32, int64, uint8, "
             "uint16, uint32, uint64, "
             "complex64, complex128, bool}; padding: {'SAME', 'VALID'}",
    .constraints = "rank(images) == 4",
    .doc = "The windows of ksizes, strides apart and of pixels rates apart: each is a pixel of [batch, rows, columns, "
           "ksizes[1] * ksizes[2] * channels].",
    .shape = ShapeFunction<PatchesShape>,
    .gradient = GradientFunction<PatchesGradient>,
});

}  // namespace tenon::ops
