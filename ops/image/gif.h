// SPDX-License-Identifier: Apache-2.0
// GIF pictures, through giflib.
#ifndef TENON_OPS_IMAGE_GIF_H_
#define TENON_OPS_IMAGE_GIF_H_

#include <string_view>

#include "picture.h"

namespace tenon::ops {

// What becomes of the frames: all in [frames, height, width, 3], the first in [height, width, 3], or the only one in
// that.
enum class Frames { kAll, kFirst, kOnly };

// Throws failures of sdk::Fail: INVALID_ARGUMENT for what has no whole frame. Frames are as large as the largest of
// them, whatever the file says of its screen. A frame begins as the one before was, however the file wants that to be
// disposed of, the first one black. What comes after damage is left out.
void DecodeGif(const sdk::RunContext& c, std::string_view bytes, Frames frames, Samples* out);

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_GIF_H_
