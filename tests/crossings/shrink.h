// SPDX-License-Identifier: Apache-2.0
// Smaller programs that still fail.
#ifndef TENON_TESTS_CROSSINGS_SHRINK_H_
#define TENON_TESTS_CROSSINGS_SHRINK_H_

#include <functional>

#include "tests/crossings/program.h"

namespace tenon::crossings {

// The smallest that was found within so many tries: results, losses, steps, parts and arguments go, one after the
// other, as long as `fails` holds.
Program Shrink(const Program& program, const std::function<bool(const Program&)>& fails, int tries = 2000);

}  // namespace tenon::crossings

#endif  // TENON_TESTS_CROSSINGS_SHRINK_H_
