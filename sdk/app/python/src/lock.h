// SPDX-License-Identifier: Apache-2.0
// The interpreter's lock, given up and taken.
//
// Until 3.13 Python ends a thread that asks for the lock while the interpreter goes away: pthread_exit, whose unwinding
// no destructor of C++ survives. Such a thread, a daemon in the middle of a step, stays where it is instead, as later
// versions have it; the process ends around it.
#ifndef TENON_PYTHON_LOCK_H_
#define TENON_PYTHON_LOCK_H_

#include <Python.h>
#include <dlfcn.h>
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

// Whether this thread has the lock. Python's own answer is not of its stable ABI: it is looked for by its name, and
// without it a thread that has a state of Python counts as one that has the lock.
inline bool HasLock() {
#ifdef Py_LIMITED_API
  static const auto check = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return check != nullptr ? check() != 0 : PyGILState_GetThisThreadState() != nullptr;
#else
  return PyGILState_Check() != 0;
#endif
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
