// SPDX-License-Identifier: Apache-2.0
// Short floats: float32 values on their way as bfloat16: the sign, the exponent and the first 7 bits of the mantissa.
//
// The other 16 bits are cut off, or rounded to the nearest (halves to even), and filled with zeros on arrival. A normal
// value changes by less than 1/128 of itself, or 1/256 when rounded; infinities stay, and what is no number stays none.
#ifndef TENON_CORE_EXEC_EXCHANGE_SHORT_FLOAT_H_
#define TENON_CORE_EXEC_EXCHANGE_SHORT_FLOAT_H_

#include <bit>
#include <cstdint>

#include "core/exec/exchange/rendezvous.h"
#include "core/exec/exchange/transfer_precision.h"

namespace tenon::exec {

inline uint16_t Shorten(float value, TransferPrecision precision) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_nan = (bits & 0x7FFF'FFFFu) > 0x7F80'0000u;
  // The bits that say so may be among those that go.
  if (is_nan) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  if (precision == TransferPrecision::kTruncated) return static_cast<uint16_t>(bits >> 16);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float Lengthen(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

// A float32 value as one of bfloat16, which has these bits, and back. Other messages, dead ones too, stay as they are.
Result<Message> Shorten(Message message, TransferPrecision precision, BufferPool* pool);
Result<Message> Lengthen(Message message, BufferPool* pool);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_EXCHANGE_SHORT_FLOAT_H_
