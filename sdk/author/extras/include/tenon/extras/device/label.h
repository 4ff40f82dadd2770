// SPDX-License-Identifier: Apache-2.0
// Names of work where there is little room for them, as in a span of a profile.
#ifndef TENON_SDK_DEVICE_LABEL_H_
#define TENON_SDK_DEVICE_LABEL_H_

#include <cstddef>
#include <string_view>

namespace tenon::sdk {

// The end of a label that is too long: nodes of one function or layer have their beginnings in common. Whole characters
// of UTF-8.
constexpr std::string_view EndOfLabel(std::string_view label, size_t room) {
  if (label.size() <= room) return label;
  label.remove_prefix(label.size() - room);
  while (!label.empty() && (label.front() & 0xc0) == 0x80) label.remove_prefix(1);
  return label;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_DEVICE_LABEL_H_
