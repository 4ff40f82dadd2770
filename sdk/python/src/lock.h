// SPDX-License-Identifier: Apache-2.0
// The interpreter's lock, given up and taken.
//
// Until 3.13 Python ends a thread that asks for the lock while the interpreter goes away: pthread_exit, whose unwinding no destructor of C++ survives. Such a
// thread, a daemon in the middle of a step, stays where it is instead, as later versions have it; the process ends around it.
#ifndef TENON_PYTHON_LOCK_H_
#define TENON_PYTHON_LOCK_H_

#include <Python.h>
#include <unistd.h>

namespace tenon::python {

template <typename Ask>
auto TakeLockOrStay(const Ask& ask) {
  try {
    return ask();
  } catch (...) {  // the unwinding; it may not go on from here
    for (;;) pause();
  }
}

class WithoutLock {
 public:
  WithoutLock() : state_(PyEval_SaveThread()) {}
  WithoutLock(const WithoutLock&) = delete;
  WithoutLock& operator=(const WithoutLock&) = delete;
  ~WithoutLock() {
    TakeLockOrStay([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

class WithLock {
 public:
  WithLock() : state_(TakeLockOrStay([] { return PyGILState_Ensure(); })) {}
  WithLock(const WithLock&) = delete;
  WithLock& operator=(const WithLock&) = delete;
  ~WithLock() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace tenon::python

#endif  // TENON_PYTHON_LOCK_H_
