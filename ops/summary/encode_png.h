// SPDX-License-Identifier: Apache-2.0
// PNG images, through libpng.
#ifndef TENON_OPS_SUMMARY_ENCODE_PNG_H_
#define TENON_OPS_SUMMARY_ENCODE_PNG_H_

#include <cstdint>
#include <string>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

// pixels: rows from the top, `channels` bytes each: 1 grey, 3 RGB, 4 RGBA. Throws a failure of sdk::Fail, CANCELLED
// once the step of `c` was given up.
std::string EncodePng(const sdk::RunContext& c, const uint8_t* pixels, int64_t width, int64_t height, int channels);

}  // namespace tenon::ops

#endif  // TENON_OPS_SUMMARY_ENCODE_PNG_H_
