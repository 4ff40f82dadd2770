// SPDX-License-Identifier: Apache-2.0
// Options that an application gives, as this library has them.
#ifndef TENON_SDK_HOST_READ_OPTIONS_H_
#define TENON_SDK_HOST_READ_OPTIONS_H_

#include <algorithm>
#include <cstring>

#include "core/base/status.h"
#include "core/session/session_options.h"
#include "tenon/app.h"

namespace tenon::host {

// Options as this library knows them: the smaller size into a zeroed local; unknown must_understand bits are refused.
template <typename T>
Status ReadOptions(const T* given, T* out) {
  *out = T{};
  if (given == nullptr) return Status::Ok();
  if (given->must_understand != 0)
    return Unimplemented(StrCat("the options need a feature that this library does not have (must_understand ",
                                given->must_understand, ")"));
  std::memcpy(static_cast<void*>(out), given, std::min<size_t>(given->struct_size, sizeof(T)));
  return Status::Ok();
}

// The options of app.h in the core's form. INVALID_ARGUMENT names a switch that is none.
Status ReadSessionOptions(const tenon_session_options& given, session::SessionOptions* out);

}  // namespace tenon::host

#endif  // TENON_SDK_HOST_READ_OPTIONS_H_
