// SPDX-License-Identifier: Apache-2.0
// Texts of plugins and files, which are bytes of strangers: what is no UTF-8 is shown, and no error.
#ifndef TENON_PYTHON_TEXT_H_
#define TENON_PYTHON_TEXT_H_

#include <nanobind/nanobind.h>

#include <string_view>

#include "tenon/tenon.h"

namespace tenon::python {

inline nanobind::str ToStr(std::string_view text) {
  PyObject* decoded =
      PyUnicode_DecodeUTF8(text.data() == nullptr ? "" : text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw nanobind::python_error();
  return nanobind::steal<nanobind::str>(decoded);
}
inline nanobind::str ToStr(tenon_span span) { return ToStr(host::Text(span)); }

}  // namespace tenon::python

#endif  // TENON_PYTHON_TEXT_H_
