// SPDX-License-Identifier: Apache-2.0
// What the sample of `make test` and `crossings` without --all leave out, each with its reason. Empty is what it should be: an entry goes with the fault.
#ifndef TENON_TESTS_CROSSINGS_LEFT_OUT_H_
#define TENON_TESTS_CROSSINGS_LEFT_OUT_H_

#include <string_view>

namespace tenon::crossings {

struct LeftOut {
  std::string_view what;  // a feature or a manner, by name
  std::string_view why;
};

inline constexpr LeftOut kLeftOut[] = {
    {"", ""},
};

inline bool IsLeftOut(std::string_view what) {
  for (const LeftOut& each : kLeftOut)
    if (each.what == what) return true;
  return false;
}

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_LEFT_OUT_H_
