// SPDX-License-Identifier: Apache-2.0
// Repeat: one element many times.
#ifndef TENON_SDK_REPEAT_H_
#define TENON_SDK_REPEAT_H_

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tenon::sdk {

// `count` elements of `size` bytes each, from 1 on, all of them what `element` is; they do not overlap it. Twice as
// much is copied each time.
inline void Repeat(char* to, const char* element, size_t size, size_t count) {
  std::memcpy(to, element, size);
  for (size_t done = size, all = count * size; done < all;) {
    const size_t more = std::min(done, all - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_REPEAT_H_
