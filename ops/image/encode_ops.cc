// SPDX-License-Identifier: Apache-2.0
// EncodeJpeg, EncodeJpegVariableQuality and EncodePng: the bytes of files out of pictures.
#include "jpeg.h"
#include "tenon/extras/image/encode_png.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

void CheckQuality(int64_t quality) {
  if (quality < 0 || quality > 100) Fail(TENON_INVALID_ARGUMENT, "quality must be in [0, 100]; it is ", quality);
}

void GiveJpeg(const RunContext& c, const JpegEncoding& encoding) {
  const Dims dims = DimsOf(c.input_view(0));
  if (dims[2] != 1 && dims[2] != 3)
    Fail(TENON_INVALID_ARGUMENT, "a JPEG has 1 or 3 channels; the shape of the picture is ", dims);
  SetStrings(c, 0, Dims(),
             std::vector<std::string>{EncodeJpeg(c, c.input<uint8_t>(0), dims[0], dims[1], dims[2], encoding)});
}

struct Jpeg {
  explicit Jpeg(CreateContext& c) : format(c.String("format")) {
    const int64_t quality = c.Int("quality");
    if (quality < 0 || quality > 100) c.Invalid("quality must be in [0, 100]; it is ", quality);
    encoding.quality = static_cast<int>(quality);
    encoding.progressive = c.Bool("progressive");
    encoding.optimize_size = c.Bool("optimize_size");
    encoding.chroma_downsampling = c.Bool("chroma_downsampling");
    encoding.density_unit = c.String("density_unit") == "cm" ? 2 : 1;
    // JFIF has 16 bits for each.
    encoding.x_density = static_cast<uint16_t>(c.Int("x_density"));
    encoding.y_density = static_cast<uint16_t>(c.Int("y_density"));
    encoding.xmp_metadata = c.String("xmp_metadata");
  }
  void Run(RunContext c) const {
    const Dims dims = DimsOf(c.input_view(0));
    const int64_t wanted = format == "grayscale" ? 1 : format == "rgb" ? 3 : dims[2];
    if (dims[2] != wanted)
      Fail(TENON_INVALID_ARGUMENT, "format is ", format, ", which has ", wanted, " channels; the shape of image is ",
           dims);
    GiveJpeg(c, encoding);
  }
  const std::string format;
  JpegEncoding encoding;
};

struct JpegOfQuality {
  void Run(RunContext c) const {
    const int32_t quality = c.input<int32_t>(1)[0];
    CheckQuality(quality);
    JpegEncoding encoding;
    encoding.quality = quality;
    GiveJpeg(c, encoding);
  }
};

struct Png {
  explicit Png(CreateContext& c) : compression(static_cast<int>(c.Int("compression"))) {
    if (c.Int("compression") < -1 || c.Int("compression") > 9)
      c.Invalid("compression must be in [-1, 9]; it is ", c.Int("compression"));
  }
  void Run(RunContext c) const {
    const tenon_tensor_view& images = c.input_view(0);
    const Dims dims = DimsOf(images), batch = dims.first(dims.size() - 3), image = dims.last(3);
    if (image[2] < 1 || image[2] > 4)
      Fail(TENON_INVALID_ARGUMENT, "a PNG has 1 to 4 channels; the shape of image is ", dims);
    const int64_t bytes = Multiply(Count(image), static_cast<int64_t>(ElementSize(images.dtype)));
    std::vector<std::string> files(static_cast<size_t>(Count(batch)));
    c.ParallelFor(Count(batch), 20.0 * static_cast<double>(bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int bits = images.dtype == TENON_DT_UINT16 ? 16 : 8;
        files[static_cast<size_t>(i)] =
            EncodePng(c, c.input<uint8_t>(0) + i * bytes, image[0], image[1], image[2], bits, compression);
      }
    });
    SetStrings(c, 0, batch, files);
  }
  const int compression;
};

void JpegShape(ShapeContext& c) {
  c.WithRank(0, 3);
  c.SetOutput(0, Shape::Scalar());
}
void PngShape(ShapeContext& c) {
  const Shape images = c.WithRankAtLeast(0, 3);
  if (!images.known_rank()) return;
  const std::vector<int64_t> dims = images.dims();
  c.SetOutput(0, Shape(std::vector<int64_t>(dims.begin(), dims.end() - 3)));
}

constexpr Traits kEncodes = {.flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
                             .dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kEncodeJpegKernel) = Registration<Jpeg>("EncodeJpeg", kEncodes);
TENON_KERNEL(kEncodeJpegVariableQualityKernel) = Registration<JpegOfQuality>("EncodeJpegVariableQuality", kEncodes);
TENON_KERNEL(kEncodePngKernel) = Registration<Png>("EncodePng", kEncodes);

TENON_OP(kEncodeJpeg) = DefineOp({
    .name = "EncodeJpeg",
    .inputs = "image: uint8",
    .outputs = "contents: string",
    .attrs = "format: {'', 'grayscale', 'rgb'} = ''; quality: int = 95; progressive: bool = false; optimize_size: bool "
             "= false; chroma_downsampling: bool = true; "
             "density_unit: {'in', 'cm'} = 'in'; x_density: int = 300; y_density: int = 300; xmp_metadata: string = ''",
    .constraints = "rank(image) == 3",
    .doc = "The picture [height, width, 1 (grey) or 3 (RGB)] as the bytes of a JPEG.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<JpegShape>,
});

TENON_OP(kEncodeJpegVariableQuality) = DefineOp({
    .name = "EncodeJpegVariableQuality",
    .inputs = "images: uint8, quality: int32",
    .outputs = "contents: string",
    .constraints = "rank(images) == 3; rank(quality) == 0",
    .doc = "The picture [height, width, 1 (grey) or 3 (RGB)] as the bytes of a JPEG of that quality, 0 to 100.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<JpegShape>,
});

TENON_OP(kEncodePng) = DefineOp({
    .name = "EncodePng",
    .inputs = "image: T",
    .outputs = "contents: string",
    .attrs = "compression: int = -1; T: {uint8, uint16} = uint8",
    .constraints = "rank(image) >= 3",
    .doc = "Each picture [height, width, 1 to 4 channels] of image as the bytes of a PNG.",
    .traits = TENON_OP_NO_GRADIENT | TENON_OP_EXPENSIVE,
    .shape = ShapeFunction<PngShape>,
});

}  // namespace tenon::ops
