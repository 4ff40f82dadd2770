// SPDX-License-Identifier: Apache-2.0
// JPEG pictures, through libjpeg-turbo.
#ifndef TENON_OPS_IMAGE_JPEG_H_
#define TENON_OPS_IMAGE_JPEG_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "picture.h"

namespace tenon::ops {

struct JpegOptions {
  int64_t channels = 0;  // 0: the picture's own
  int64_t ratio = 1;     // 1, 2, 4, 8: the picture becomes so many times smaller
  bool fancy_upscaling = true;
  bool try_recover_truncated = false;
  bool accurate_dct = false;
};
// Of the picture as it is decoded.
struct Window {
  int64_t top, left, height, width;
};
struct JpegSize {
  int64_t height, width, channels;
};

// Throws failures of sdk::Fail: INVALID_ARGUMENT for what is no whole JPEG. window: the part that becomes the output.
// four_dims: [1, height, width, channels].
void DecodeJpeg(const sdk::RunContext& c, std::string_view bytes, const JpegOptions& options,
                const std::optional<Window>& window, bool four_dims, Samples* out);
JpegSize JpegSizeOf(const sdk::RunContext& c, std::string_view bytes);

struct JpegEncoding {
  int quality = 95;
  bool progressive = false, optimize_size = false, chroma_downsampling = true;
  int density_unit = 1;  // 1 inch, 2 cm
  int x_density = 300, y_density = 300;
  std::string xmp_metadata = {};
};
// pixels: rows from the top of 1 (grey) or 3 (RGB) bytes a pixel.
std::string EncodeJpeg(const sdk::RunContext& c, const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
                       const JpegEncoding& encoding);

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_JPEG_H_
