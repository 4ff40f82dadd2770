// SPDX-License-Identifier: Apache-2.0
// Attributes of nodes between Tenon and Python: numbers, texts, types, shapes, tensors, functions by name, and lists of
// these.
#ifndef TENON_PYTHON_ATTR_H_
#define TENON_PYTHON_ATTR_H_

#include <string>
#include <string_view>

#include "errors.h"

namespace tenon::python {

// kind: of the op's definition, "int" or "list(int)".
host::Attr ToAttr(const std::string& name, std::string_view kind, nb::handle value);
// A copy. None where there is no value.
nb::object FromAttr(const tenon_attr_value& value);

}  // namespace tenon::python

#endif  // TENON_PYTHON_ATTR_H_
