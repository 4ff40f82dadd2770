// SPDX-License-Identifier: Apache-2.0
// The exceptions behind failed steps.
//
// What a function of Python's raises inside a step travels through the engine as a status, which is a code and words;
// the step's error has the exception itself as its __cause__. Between the two it waits here, found again by its words:
// they name the exception's place, so that others of the same words are as good. It waits no longer than the calls that
// were under way when it came, so that no frame lives on for an error that nobody gets.
#ifndef TENON_PYTHON_CAUSE_H_
#define TENON_PYTHON_CAUSE_H_

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon::python {

namespace nb = nanobind;

// All with the interpreter's lock.

// words: what the status says of it. node: that raised it; "": none.
void KeepCause(nb::object exception, std::string words, std::string node);
// The one that a failure's message speaks of, or an invalid object. Nobody else gets it, and what else came of this
// thread's last call goes.
nb::object TakeCause(std::string_view message);

// A call that may fail by such an exception. Where it failed, the thread's next TakeCause() ends it; else its
// destructor.
class CallInFlight {
 public:
  CallInFlight();
  CallInFlight(const CallInFlight&) = delete;
  CallInFlight& operator=(const CallInFlight&) = delete;
  ~CallInFlight();
  void Failed() { failed_ = true; }

 private:
  const uint64_t number_;
  bool failed_ = false;
};

// In the child of a fork no other thread's calls end.
void ForgetOtherCalls();

}  // namespace tenon::python

#endif  // TENON_PYTHON_CAUSE_H_
