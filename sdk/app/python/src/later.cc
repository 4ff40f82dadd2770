// SPDX-License-Identifier: Apache-2.0
#include "later.h"

#include <mutex>
#include <vector>

#include "lock.h"

namespace tenon::python {
namespace {

std::mutex mutex;
std::vector<PyObject*>& GivenBack() {
  static auto* const all = new std::vector<PyObject*>;
  return *all;
}

int LetGoOfAll(void*) {
  LetGo();
  return 0;
}

}  // namespace

void LetGo() {
  std::vector<PyObject*> all;
  {
    const std::lock_guard lock(mutex);
    all.swap(GivenBack());
  }
  for (PyObject* const object : all) Py_DECREF(object);
}

void LetGoLater(nanobind::object kept) noexcept {
  PyObject* const object = kept.release().ptr();
  if (object == nullptr || Py_IsInitialized() == 0) return;  // it is gone with its interpreter
  if (HasLock()) return Py_DECREF(object);
  {
    const std::lock_guard lock(mutex);
    GivenBack().push_back(object);
  }
  Py_AddPendingCall(&LetGoOfAll, nullptr);  // where there are too many already, one of them does it
}

}  // namespace tenon::python
