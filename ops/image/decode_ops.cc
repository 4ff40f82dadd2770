// SPDX-License-Identifier: Apache-2.0
// DecodeJpeg, DecodePng, DecodeGif, DecodeBmp, DecodeImage, DecodeAndCropJpeg and ExtractJpegShape: pictures out of the
// bytes of their files.
#include "bmp.h"
#include "gif.h"
#include "jpeg.h"
#include "png_picture.h"
#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// What a node of one of these ops asks for.
struct DecodeKernel {
  explicit DecodeKernel(CreateContext& c)
      : op(c.op()),
        channels(c.Has("channels")       ? c.Int("channels")
                 : c.op() == "DecodeGif" ? 3
                                         : 0),
        dtype(c.output_type(0)),
        expand(c.Has("expand_animations") && c.Bool("expand_animations")) {
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4)
      c.Invalid("channels must be 0, 1, 3 or 4; it is ", channels);
    jpeg.channels = channels;
    if (op == "DecodeJpeg" || op == "DecodeAndCropJpeg") ReadJpegAttributes(c);
  }
  void ReadJpegAttributes(CreateContext& c) {
    jpeg.ratio = c.Int("ratio");
    jpeg.fancy_upscaling = c.Bool("fancy_upscaling");
    jpeg.try_recover_truncated = c.Bool("try_recover_truncated");
    const std::string_view method = c.String("dct_method");
    jpeg.accurate_dct = method == "INTEGER_ACCURATE";
    if (jpeg.ratio != 1 && jpeg.ratio != 2 && jpeg.ratio != 4 && jpeg.ratio != 8)
      c.Invalid("ratio must be 1, 2, 4 or 8; it is ", jpeg.ratio);
    if (!method.empty() && method != "INTEGER_FAST" && method != "INTEGER_ACCURATE")
      c.Invalid("dct_method must be '', 'INTEGER_FAST' or 'INTEGER_ACCURATE'; it is '", method, "'");
  }

  void Run(RunContext c) const {
    const std::string_view bytes = StringAt(c.input_view(0), 0);
    const Format format = FormatOf(bytes);
    Require(format, bytes);
    Samples out(c, dtype);
    const bool four_dims = op == "DecodeGif";
    switch (format) {
      case Format::kJpeg:
        if (channels == 4) Fail(TENON_INVALID_ARGUMENT, "channels is 4; a JPEG has 1 or 3");
        return DecodeJpeg(c, bytes, jpeg, WindowOf(c), four_dims, &out);
      case Format::kPng: return DecodePng(c, bytes, channels, dtype != TENON_DT_UINT8, four_dims, &out);
      case Format::kGif:
        if (channels != 0 && channels != 3)
          Fail(TENON_INVALID_ARGUMENT, "channels may be 0 or 3 for a GIF; it is ", channels);
        return DecodeGif(c, bytes,
                         four_dims || expand   ? Frames::kAll
                         : op == "DecodeImage" ? Frames::kFirst
                                               : Frames::kOnly,
                         &out);
      default: return DecodeBmp(c, bytes, channels, four_dims, &out);
    }
  }

 private:
  // Whether the op reads the format.
  void Require(Format format, std::string_view bytes) const {
    if (bytes.empty()) Fail(TENON_INVALID_ARGUMENT, "contents is empty: there is no picture");
    const bool known =
        format == Format::kJpeg || format == Format::kPng || format == Format::kGif || format == Format::kBmp;
    if (!known)
      Fail(TENON_INVALID_ARGUMENT, "contents is no JPEG, PNG, GIF or BMP: it begins with ", BeginningOf(bytes));
    const bool only_bmp = op == "DecodeBmp", only_jpeg = op == "DecodeAndCropJpeg";
    const bool read = only_jpeg  ? format == Format::kJpeg
                      : only_bmp ? format == Format::kBmp
                                 : format != Format::kBmp || op == "DecodeImage";
    if (read) return;
    Fail(TENON_INVALID_ARGUMENT, "contents is no ",
         only_bmp    ? "BMP"
         : only_jpeg ? "JPEG"
                     : "JPEG, PNG or GIF",
         ": it begins with ", BeginningOf(bytes), "; Decode",
         format == Format::kJpeg  ? "Jpeg"
         : format == Format::kPng ? "Png"
         : format == Format::kGif ? "Gif"
                                  : "Bmp",
         " and DecodeImage read that");
  }
  std::optional<Window> WindowOf(const RunContext& c) const {
    if (op != "DecodeAndCropJpeg") return std::nullopt;
    const auto* window = c.input<int32_t>(1);
    return Window{window[0], window[1], window[2], window[3]};
  }

  const std::string op;
  const int64_t channels;
  const uint32_t dtype;
  const bool expand;
  JpegOptions jpeg;
};

struct ExtractShape {
  void Run(RunContext c) const {
    const std::string_view bytes = StringAt(c.input_view(0), 0);
    if (FormatOf(bytes) != Format::kJpeg) Fail(TENON_INVALID_ARGUMENT, "contents is no JPEG: it ",
        bytes.empty() ? "is empty" : Concat("begins with ", BeginningOf(bytes)));
    const JpegSize size = JpegSizeOf(c, bytes);
    Indices::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      out[0] = static_cast<T>(size.height);
      out[1] = static_cast<T>(size.width);
      out[2] = static_cast<T>(size.channels);
    });
  }
};

// Height and width are in the file.
int64_t ChannelsOf(ShapeContext& c) {
  const int64_t channels = c.Int("channels");
  if (channels < 0) c.Invalid("channels must not be negative; it is ", channels);
  return channels == 0 ? kUnknown : channels;
}
void PictureShape(ShapeContext& c) { c.SetOutput(0, {kUnknown, kUnknown, ChannelsOf(c)}); }
void GifShape(ShapeContext& c) { c.SetOutput(0, {kUnknown, kUnknown, kUnknown, 3}); }
void DecodedShape(ShapeContext& c) {
  const int64_t channels = ChannelsOf(c);
  if (!c.Bool("expand_animations")) c.SetOutput(0, {kUnknown, kUnknown, channels});
}
void DecodedCropShape(ShapeContext& c) {
  const int64_t channels = ChannelsOf(c);
  const auto window = c.Integers(1);
  const bool known = window.has_value() && window->size() == 4;
  c.SetOutput(0, {known ? (*window)[2] : kUnknown, known ? (*window)[3] : kUnknown, channels});
}
void ThreeShape(ShapeContext& c) { c.SetOutput(0, {3}); }

constexpr Traits kDecodes = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
                             .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kDecodeJpegKernel) = Registration<DecodeKernel>("DecodeJpeg", kDecodes);
TENON_KERNEL(kDecodePngKernel) = Registration<DecodeKernel>("DecodePng", kDecodes);
TENON_KERNEL(kDecodeGifKernel) = Registration<DecodeKernel>("DecodeGif", kDecodes);
TENON_KERNEL(kDecodeBmpKernel) = Registration<DecodeKernel>("DecodeBmp", kDecodes);
TENON_KERNEL(kDecodeImageKernel) = Registration<DecodeKernel>("DecodeImage", kDecodes);
TENON_KERNEL(kDecodeAndCropJpegKernel) = Registration<DecodeKernel>("DecodeAndCropJpeg", kDecodes);
TENON_KERNEL(kExtractJpegShapeKernel) = Registration<ExtractShape>("ExtractJpegShape", {});

TENON_OP(kDecodeJpeg) = DefineOp({
    .name = "DecodeJpeg",
    .inputs = "contents: string",
    .outputs = "image: uint8",
    .attrs = "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "
             "acceptable_fraction: float = 1; dct_method: "
             "string = ''",
    .constraints = "rank(contents) == 0",
    .doc = "The picture of a JPEG, [height, width, channels], `ratio` times smaller. try_recover_truncated: what a "
           "file that was cut off lacks is grey, however "
           "much it is. Reads PNG "
           "and GIF of one frame too.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<PictureShape>,
});

TENON_OP(kDecodePng) = DefineOp({
    .name = "DecodePng",
    .inputs = "contents: string",
    .outputs = "image: dtype",
    .attrs = "channels: int = 0; dtype: {uint8, uint16} = uint8",
    .constraints = "rank(contents) == 0",
    .doc = "The picture of a PNG, [height, width, channels]. Reads JPEG and GIF of one frame too.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<PictureShape>,
});

TENON_OP(kDecodeGif) = DefineOp({
    .name = "DecodeGif",
    .inputs = "contents: string",
    .outputs = "image: uint8",
    .constraints = "rank(contents) == 0",
    .doc = "The frames of a GIF, [frames, height, width, 3]. Reads JPEG and PNG too, as one frame.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<GifShape>,
});

TENON_OP(kDecodeBmp) = DefineOp({
    .name = "DecodeBmp",
    .inputs = "contents: string",
    .outputs = "image: uint8",
    .attrs = "channels: int = 0",
    .constraints = "rank(contents) == 0",
    .doc = "The picture of a BMP, [height, width, channels].",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<PictureShape>,
});

TENON_OP(kDecodeImage) = DefineOp({
    .name = "DecodeImage",
    .inputs = "contents: string",
    .outputs = "image: dtype",
    .attrs = "channels: int = 0; dtype: {uint8, uint16, float} = uint8; expand_animations: bool = true",
    .constraints = "rank(contents) == 0",
    .doc = "The picture of a JPEG, PNG, GIF or BMP, [height, width, channels]; with expand_animations a GIF is "
           "[frames, height, width, 3].",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DecodedShape>,
});

TENON_OP(kDecodeAndCropJpeg) = DefineOp({
    .name = "DecodeAndCropJpeg",
    .inputs = "contents: string, crop_window: int32",
    .outputs = "image: uint8",
    .attrs = "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "
             "acceptable_fraction: float = 1; dct_method: "
             "string = ''",
    .constraints = "rank(contents) == 0; rank(crop_window) == 1; dim(crop_window, 0) == 4",
    .doc = "The part of a JPEG's picture that crop_window says: its top, left, height and width.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<DecodedCropShape>,
});

TENON_OP(kExtractJpegShape) = DefineOp({
    .name = "ExtractJpegShape",
    .inputs = "contents: string",
    .outputs = "image_shape: output_type",
    .attrs = "output_type: {int32, int64} = int32",
    .constraints = "rank(contents) == 0",
    .doc = "Height, width and channels of a JPEG, which is not decoded.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ThreeShape>,
});

}  // namespace tenon::ops
