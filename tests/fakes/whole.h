// SPDX-License-Identifier: Apache-2.0
// A test of which `make test` runs a sample, and `make test-slow` the whole (WHOLE of tenon_add_test: TENON_WHOLE=1).
#ifndef TENON_TESTS_FAKES_WHOLE_H_
#define TENON_TESTS_FAKES_WHOLE_H_

#include <cstdlib>
#include <cstring>

namespace tenon::fakes {

inline bool IsWhole() {
  const char* const asked = std::getenv("TENON_WHOLE");
  return asked != nullptr && std::strcmp(asked, "1") == 0;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_WHOLE_H_
