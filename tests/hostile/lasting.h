// SPDX-License-Identifier: Apache-2.0
// Ops that can be made to last: each at a size at which it takes ten seconds of a core, or several.
#ifndef TENON_TESTS_HOSTILE_LASTING_H_
#define TENON_TESTS_HOSTILE_LASTING_H_

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::hostile {

// A tensor that is fed, and how its elements come.
struct Fed {
  host::DType dtype;
  std::vector<int64_t> dims;
  std::function<double(int64_t index)> element;  // of numbers; of complex ones both parts
  std::string text = {};                         // of strings: what all are
  int64_t period = INT64_MAX;  // after which the elements come again: to make them takes longer than the test
};

struct Lasting {
  std::string op, size;  // for the reader
  host::Attrs attributes;
  std::vector<Fed> inputs;
};
const std::vector<Lasting>& AllLasting();

// One step that is given `deadline`: what it says, and how long it and the process's threads took, its inputs aside.
struct Ended {
  host::Status status;
  std::chrono::nanoseconds took, cpu;
};
Ended RunLasting(const host::Runtime& runtime, const Lasting& lasting, std::chrono::nanoseconds deadline);

}  // namespace tenon::hostile
#endif  // TENON_TESTS_HOSTILE_LASTING_H_
