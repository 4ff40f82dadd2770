// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/host/read_options.h"

#include "tenon/session_options.h"

namespace tenon::host {
namespace {

static_assert(session::kDynamicExecutor == TENON_EXECUTOR_DYNAMIC);

// Options of app.h in the core's form, by kind.
Status Read(const char*, bool, uint64_t given, uint64_t* out) {
  *out = given;
  return Status::Ok();
}
Status Read(const char*, bool, uint32_t given, uint32_t* out) {
  *out = given;
  return Status::Ok();
}
Status Read(const char* name, bool otherwise, uint32_t given, bool* out) {
  if (given > TENON_OFF)
    return InvalidArgument(
        StrCat("the session option '", name, "' is ", given, "; it may be TENON_DEFAULT, TENON_ON or TENON_OFF"));
  *out = given == TENON_DEFAULT ? otherwise : given == TENON_ON;
  return Status::Ok();
}
Status Read(const char*, const char*, tenon_span given, std::string* out) {
  *out = View(given);
  return Status::Ok();
}

#define TENON_READ(name, kind, value, reach, flag, help, names) \
  TENON_RETURN_IF_ERROR(                                        \
      Read(#name, value, given.TENON_OPTION_MEMBER(kind, name), &out->TENON_OPTION_MEMBER(kind, name)));

Status ReadDebug(const tenon_debug_options& given, session::DebugOptions* out) {
  TENON_DEBUG_OPTIONS(TENON_READ)
  return Status::Ok();
}

}  // namespace

Status ReadSessionOptions(const tenon_session_options& given, session::SessionOptions* out) {
  TENON_SESSION_OPTIONS(TENON_READ)
  if (given.reserved != 0)
    return Unimplemented(
        StrCat("tenon_session_options.reserved is ", given.reserved, "; this version knows nothing but 0 there"));
  tenon_debug_options debug;
  TENON_RETURN_IF_ERROR(ReadOptions(given.debug, &debug, "options.debug"));
  return ReadDebug(debug, &out->debug);
}

}  // namespace tenon::host
