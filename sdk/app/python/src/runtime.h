// SPDX-License-Identifier: Apache-2.0
// Python's runtime: whatever needs one shares it, so that it outlives them in whatever order Python lets go of things.
#ifndef TENON_PYTHON_RUNTIME_H_
#define TENON_PYTHON_RUNTIME_H_

#include <memory>

#include "errors.h"
#include "lock.h"

namespace tenon::python {

struct RuntimeBox {
  std::shared_ptr<const host::Runtime> runtime;
};

// Gives what may take its time to end an end without the interpreter's lock, wherever the last reference to it goes.
template <typename T>
std::shared_ptr<T> ReleasedWithoutLock(T value) {
  return std::shared_ptr<T>(new T(std::move(value)), [](T* last) {
    if (Py_IsInitialized() == 0 || !HasLock()) {
      delete last;
      return;
    }
    const WithoutLock unlocked;
    delete last;
  });
}

}  // namespace tenon::python

#endif  // TENON_PYTHON_RUNTIME_H_
