// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 as places in a text, counted as TensorFlow does: a byte that follows no character begins one.
#ifndef TENON_OPS_STRING_UTF8_H_
#define TENON_OPS_STRING_UTF8_H_

#include <cstdint>
#include <string_view>

namespace tenon::ops::string {

inline bool FollowsInCharacter(char byte) { return static_cast<signed char>(byte) < -0x40; }

// Moves *at behind `count` characters of the text, as far as there are; whether there were so many.
inline bool StepForward(std::string_view text, int64_t count, size_t* at) {
  int64_t seen = 0;
  for (; seen < count && *at < text.size(); ++seen) {
    ++*at;
    while (*at < text.size() && FollowsInCharacter(text[*at])) ++*at;
  }
  return seen == count;
}
// The same before them.
inline bool StepBack(std::string_view text, int64_t count, size_t* at) {
  int64_t seen = 0;
  for (; seen < count && *at > 0; ++seen) {
    --*at;
    while (*at > 0 && FollowsInCharacter(text[*at])) --*at;
  }
  return seen == count;
}

}  // namespace tenon::ops::string
#endif  // TENON_OPS_STRING_UTF8_H_
