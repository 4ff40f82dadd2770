// SPDX-License-Identifier: Apache-2.0
// What the sample of `make test` and `crossings` without --all leave out, each with its reason. Empty is what it should be: an entry goes with the fault.
#ifndef TENON_TESTS_CROSSINGS_LEFT_OUT_H_
#define TENON_TESTS_CROSSINGS_LEFT_OUT_H_

#include <string_view>

namespace tenon::crossings {

struct LeftOut {
  std::string_view what;  // a feature or a manner, by name; or a piece of what a finding says
  std::string_view why;
};

inline constexpr LeftOut kLeftOut[] = {
    {"inside loops", "fetches inside a loop are answered with what lies there, by the straight executor"},
    {"inside loops, dynamic", "as above"},
    {"inner edges", "what a loop gives back as it got it cannot be fetched"},
    {"inner edges, dynamic", "as above"},
    {"inner edges, two tasks", "as above"},
    {"functions, inner edges", "as above"},
    {"functions, inner edges, dynamic", "as above"},
    {"inner edges fed", "a call of which one output is fed finds no kernel"},
    {"inner edges fed, dynamic", "as above"},
    {"functions, inner edges fed", "as above"},
    {"functions, inner edges fed, dynamic", "as above"},
    {"one task, inner edges fed", "feeding anything but a placeholder on a cluster ends the client"},
    {"two tasks, inner edges fed", "as above"},
    {"three tasks, inner edges fed", "as above"},
    {"two tasks, partial runs", "as above"},
    {"partial runs", "loops, branches, calls and lists over several calls"},
    {"partial runs, functions", "as above"},
    {"pieces", "a call that was made dataflow meets the graph that has it as a call"},
    {"two tasks", "lists and optionals do not cross between tasks"},
    {"two tasks, functions", "as above"},
    {"three tasks", "as above"},
    {"three tasks, functions", "as above"},
    {"gradients", "of variables that bodies read by their handles"},
    {"second_gradients", "through loops"},
    {"training", "by such gradients"},
    {"list_splits", "of constants are folded to one row"},
    {"has no output 0", "a loop whose body changes variables is refused by the code generator, and the step with it"},
    {"is used before it is made", "a condition in a branch that another condition decides, in straight code"},
    {"must be on one device with node", "a variable is where the first step put it, and a later step has no kernel there"},
    {"late_reads", "of whole numbers are the value before"},
};

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
