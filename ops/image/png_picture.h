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

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_PNG_PICTURE_H_
