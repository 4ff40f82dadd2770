// SPDX-License-Identifier: Apache-2.0
// BMP pictures without compression, of 8 bits (grey), 24 and 32.
#ifndef TENON_OPS_IMAGE_BMP_H_
#define TENON_OPS_IMAGE_BMP_H_

#include <cstdint>
#include <string_view>

#include "picture.h"

namespace tenon::ops {

// Throws failures of sdk::Fail: INVALID_ARGUMENT where the sizes in the header do not give the bytes that there are.
// channels: 0 (the picture's own), 3 or 4.
void DecodeBmp(const sdk::RunContext& c, std::string_view bytes, int64_t channels, bool four_dims, Samples* out);

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_BMP_H_
