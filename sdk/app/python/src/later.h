// SPDX-License-Identifier: Apache-2.0
// Objects of Python that threads of the engine give back.
//
// Such a thread may hold locks of the engine, for which a thread with the interpreter's lock may be waiting. So it does
// not wait for that lock: the main thread lets go of the object when it comes to it, or whoever calls LetGo() first.
#ifndef TENON_PYTHON_LATER_H_
#define TENON_PYTHON_LATER_H_

#include <nanobind/nanobind.h>

namespace tenon::python {

// At once where this thread has the interpreter's lock; never where there is no interpreter any more.
void LetGoLater(nanobind::object kept) noexcept;
// With the interpreter's lock.
void LetGo();

}  // namespace tenon::python

#endif  // TENON_PYTHON_LATER_H_
