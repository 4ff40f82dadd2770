// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/number_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>

namespace tenon::data {

std::string FormatDuration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "a long time";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string FormatCount(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<ptrdiff_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

}  // namespace tenon::data
