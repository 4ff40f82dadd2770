// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#ifndef TENON_DATA_NUMBER_TEXT_H_
#define TENON_DATA_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

namespace tenon::data {

// "12 s", "3 min 5 s", "2 h 10 min".
std::string FormatDuration(double seconds);
// 1234567 -> "1,234,567".
std::string FormatCount(int64_t count);

}  // namespace tenon::data

#endif  // TENON_DATA_NUMBER_TEXT_H_
