// SPDX-License-Identifier: Apache-2.0
// PNG pictures, through libpng.
#ifndef TENON_OPS_IMAGE_PNG_PICTURE_H_
#define TENON_OPS_IMAGE_PNG_PICTURE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "picture.h"

namespace tenon::ops {

// Throws failures of sdk::Fail: INVALID_ARGUMENT for what is no whole PNG. channels: 0 stands for the picture's own.
// words: samples of two bytes, where the picture has them.
void DecodePng(const sdk::RunContext& c, std::string_view bytes, int64_t channels, bool words, bool four_dims,
               Samples* out);

// pixels: rows from the top of 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA) samples of `bits`, 8 or 16, a pixel.
// compression: -1 (zlib's choice) to 9.
std::string EncodePng(const sdk::RunContext& c, const uint8_t* pixels, int64_t height, int64_t width, int64_t channels,
                      int bits, int compression);

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_PNG_PICTURE_H_
