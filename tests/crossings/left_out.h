// SPDX-License-Identifier: Apache-2.0
// What the sample of `make test` and `crossings` without --all leave out, each with its reason. Empty is what it should
// be: an entry goes with the fault.
#ifndef TENON_TESTS_CROSSINGS_LEFT_OUT_H_
#define TENON_TESTS_CROSSINGS_LEFT_OUT_H_

#include <array>
#include <string_view>

namespace tenon::crossings {

struct LeftOut {
  std::string_view what;  // a feature or a manner, by name; or a piece of what a finding says
  std::string_view why;
};

inline constexpr std::array<LeftOut, 0> kLeftOut = {};  // nothing now

// Refusals by name where plain answers, each with the page that says so.
inline constexpr LeftOut kRefused[] = {
    {"is inside a loop",
     "an edge of a turn is neither fed nor fetched (tests/requirements.md, C3): which edges lie in loops is only known "
     "when functions are dataflow"},
    {"lies in a branch that was not taken", "as above, of branches"},
    {"the variants of datasets, queues and the like do not leave their process",
     "devices that a program names may part them (docs/placement.md)"},
    {"since an earlier step: name a device for it that has kernels for all that uses it",
     "state stays where it is (docs/placement.md)"},
    {"so a function that calls itself, in a branch too, has no end",
     "calls become nodes before a step (core/README.md)"},
};
inline bool IsRefused(std::string_view text) {
  for (const LeftOut& each : kRefused)
    if (text.find(each.what) != text.npos) return true;
  return false;
}

inline bool IsLeftOut(std::string_view what) {
  for (const LeftOut& each : kLeftOut)
    if (each.what == what) return true;
  return false;
}

// Whether a finding is what an entry speaks of.
inline bool IsKnown(std::string_view text) {
  for (const LeftOut& each : kLeftOut)
    if (text.find(each.what) != text.npos && each.what.find(' ') != each.what.npos) return true;
  return false;
}

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_LEFT_OUT_H_
