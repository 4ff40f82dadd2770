// SPDX-License-Identifier: Apache-2.0
// Options that an application gives, as this library has them.
#ifndef TENON_SDK_HOST_READ_OPTIONS_H_
#define TENON_SDK_HOST_READ_OPTIONS_H_

#include "core/session/session_options.h"
#include "sdk/app/host/check.h"
#include "tenon/app.h"

namespace tenon::host {

// The options of app.h in the core's form. INVALID_ARGUMENT names a switch that is none.
Status ReadSessionOptions(const tenon_session_options& given, session::SessionOptions* out);

}  // namespace tenon::host

#endif  // TENON_SDK_HOST_READ_OPTIONS_H_
