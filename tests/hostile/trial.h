// SPDX-License-Identifier: Apache-2.0
// One trial: a damaged graph is imported, pruned, differentiated and run, within a memory limit and a deadline.
//
// What it answers does not matter; that it answers does, and that every refusal says why. What would touch files is not
// run: the guard of the model library says so, which is thereby tried on damaged graphs too.
#ifndef TENON_TESTS_HOSTILE_TRIAL_H_
#define TENON_TESTS_HOSTILE_TRIAL_H_

#include <string>
#include <vector>

#include "tests/hostile/mutator.h"
#include "tests/hostile/subjects.h"

namespace tenon::hostile {

struct Outcome {
  bool ran = false;                // a step of it gave values
  std::vector<std::string> log;    // each answer, for the reader
  std::string fault;               // a refusal without a reason
};

// Without edits the subject is tried as it is, and nothing that it is fed is changed.
Outcome Try(const host::Runtime& runtime, const Subject& subject, const Damage& damage, Dice& dice);

}  // namespace tenon::hostile

#endif  // TENON_TESTS_HOSTILE_TRIAL_H_
