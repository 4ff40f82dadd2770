// SPDX-License-Identifier: Apache-2.0
// Reads Snappy's block format. Writing is not needed: tables are written uncompressed.
#ifndef TENON_OPS_IO_SNAPPY_H_
#define TENON_OPS_IO_SNAPPY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/bytes/wire.h"

namespace tenon::ops::io {

// False when the bytes are not a Snappy block; never more memory than 64 times their size.
template <class String>
bool SnappyUncompress(std::string_view in, String* out) {
  uint64_t size = 0;
  if (!sdk::TakeVarint(in, &size) || size > 64 * static_cast<uint64_t>(in.size())) return false;
  out->clear();
  out->reserve(size);
  // The next `bytes` bytes as a little-endian number.
  const auto take = [&in](size_t bytes, uint64_t* value) {
    if (in.size() < bytes) return false;
    *value = 0;
    for (size_t i = 0; i < bytes; ++i) *value |= static_cast<uint64_t>(static_cast<unsigned char>(in[i])) << (8 * i);
    in.remove_prefix(bytes);
    return true;
  };
  while (!in.empty()) {
    const auto tag = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    uint64_t length = 0, offset = 0;
    if ((tag & 3) == 0) {  // a literal
      length = tag >> 2;
      if (length >= 60 && !take(length - 59, &length)) return false;
      ++length;
      if (length > in.size() || length > size - out->size()) return false;
      out->append(in.substr(0, length));
      in.remove_prefix(length);
      continue;
    }
    if ((tag & 3) == 1) {  // a copy with an offset of 11 bits
      length = 4 + ((tag >> 2) & 7);
      if (!take(1, &offset)) return false;
      offset |= static_cast<uint64_t>(tag >> 5) << 8;
    } else {
      length = 1 + (tag >> 2);
      if (!take((tag & 3) == 2 ? 2 : 4, &offset)) return false;
    }
    if (offset == 0 || offset > out->size() || length > size - out->size()) return false;
    // The source may overlap the target: byte by byte.
    for (size_t from = out->size() - offset; length > 0; --length) out->push_back((*out)[from++]);
  }
  return out->size() == size;
}

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_SNAPPY_H_
