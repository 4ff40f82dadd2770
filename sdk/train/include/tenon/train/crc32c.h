// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli), and the masked form that TensorFlow's files hold: ((c >> 15) | (c << 17)) + 0xa282ead8.
#ifndef TENON_TRAIN_CRC32C_H_
#define TENON_TRAIN_CRC32C_H_

#include <cstdint>
#include <string_view>

namespace tenon::train {

// The crc of `bytes` after what `crc` already covers (0: nothing).
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

inline uint32_t MaskedCrc32c(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

}  // namespace tenon::train

#endif  // TENON_TRAIN_CRC32C_H_
