// SPDX-License-Identifier: Apache-2.0
// Replays cases through real sessions. The form of a case stands in CASES.md.
//
// A case has a graph and a session of its own. Every failure is a text: nothing here fails a test or ends a program.
#ifndef TENON_TESTS_GOLDEN_REPLAY_H_
#define TENON_TESTS_GOLDEN_REPLAY_H_

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "tests/golden/compare.h"
#include "tests/golden/ran.h"

namespace tenon::golden {

// Which plugins compute.
enum class Kernels {
  kAll,          // those that a user's program finds
  kPlain,        // without oneDNN
  kOneDnnAlways,  // oneDNN wherever it has a primitive, at any size
  kGpu            // a GPU's wherever it has one (tests/device/gpu.h); else as kPlain
};
host::Result<host::Runtime> MakeRuntime(Kernels kernels);

// How a case's session is made.
struct Manner {
  bool optimize = true;
  std::string device = {};  // of its nodes
  bool resume = false;      // each run behind the first is another session's, to which the state of the graph's one
                            // iterator is carried; graphs that have none are left out
  int damage = 0;  // with resume: so many damaged states are given to it before each run; what they may do is fail
};

// Empty, or what of the case differs from TensorFlow. ran: not null, gets what ran.
std::string Replay(const host::Runtime& runtime, const Json& one, const Differences& differences, const Manner& manner,
                   Ran* ran = nullptr);

// What a case is, in a line: op, attributes, inputs.
std::string Describe(const Json& one);

struct Tally {
  size_t cases = 0, left_out = 0, refused = 0, gradients = 0;
  std::vector<std::string> failures;
};
// What is done with the case of that number, from 0 on.
struct Choice {
  std::function<bool(size_t)> leaves_out = {};                // none: nothing is
  std::function<std::string(size_t, const Ran&)> judge =
      {};  // shown what ran; its text, if it is not empty, is a failure
};
// Every line of `text`. The line at hand is kept where a signal handler can say it.
Tally ReplayAll(const host::Runtime& runtime, std::istream& text, const Differences& differences, const Manner& manner,
                const Choice& choice = {});
// Says on standard error which case was running when this process dies of a signal.
void SayCaseOnCrash();

}  // namespace tenon::golden

#endif  // TENON_TESTS_GOLDEN_REPLAY_H_
