// SPDX-License-Identifier: Apache-2.0
// What tests of the C functions share.
#ifndef TENON_SDK_MODEL_C_C_TEST_H_
#define TENON_SDK_MODEL_C_C_TEST_H_

#include <string>

#include "tenon/tenon.h"

namespace tenon::model_c {

// What C gave, with its code.
inline std::string Said(tenon_status* status) { return host::Status::Take(status).ToString(); }

// A struct of C's that says how large it is, and is zero else.
template <typename T>
T Sized() {
  T value = {};
  value.struct_size = sizeof(T);
  return value;
}

}  // namespace tenon::model_c

#endif  // TENON_SDK_MODEL_C_C_TEST_H_
