// SPDX-License-Identifier: Apache-2.0
#include "core/base/status.h"

#include <array>
#include <exception>
#include <new>

namespace tenon {

std::string_view CodeName(Code code) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "OK",          "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",   "NOT_FOUND",
      "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
      "UNIMPLEMENTED", "INTERNAL",     "UNAVAILABLE",       "DATA_LOSS",          "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

tenon_status* OutOfMemoryStatus() {
  // It is asked for first when there is no memory: it has its own, and its text is short enough to lie in it.
  alignas(tenon_status) static unsigned char memory[sizeof(tenon_status)];
  static tenon_status* const status = new (memory) tenon_status{TENON_RESOURCE_EXHAUSTED, "out of memory"};
  return status;
}

void ReleaseStatus(tenon_status* status) {
  if (status != nullptr && status != OutOfMemoryStatus()) delete status;
}

Status::Status(Code code, std::string message) noexcept {
  if (code == Code::kOk) return;
  rep_ = new (std::nothrow) tenon_status{static_cast<uint32_t>(code), std::move(message)};
  if (rep_ == nullptr) rep_ = OutOfMemoryStatus();
}

Status::Status(const Status& other) noexcept {
  if (!other.ok()) *this = Of(other.code(), other.message());
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return StrCat(CodeName(code()), ": ", message());
}

Status InvalidArgument(std::string message) { return Status(Code::kInvalidArgument, std::move(message)); }
Status NotFound(std::string message) { return Status(Code::kNotFound, std::move(message)); }
Status AlreadyExists(std::string message) { return Status(Code::kAlreadyExists, std::move(message)); }
Status FailedPrecondition(std::string message) { return Status(Code::kFailedPrecondition, std::move(message)); }
Status ResourceExhausted(std::string message) { return Status(Code::kResourceExhausted, std::move(message)); }
Status Unimplemented(std::string message) { return Status(Code::kUnimplemented, std::move(message)); }
Status Internal(std::string message) { return Status(Code::kInternal, std::move(message)); }
Status OutOfRange(std::string message) { return Status(Code::kOutOfRange, std::move(message)); }

Status EngineThrew() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return Status(OutOfMemoryStatus());
  } catch (const std::exception& error) {
    return Status::Of(Code::kInternal, error.what());
  } catch (...) {
    return Status::Of(Code::kInternal, "something that is no std::exception was thrown");
  }
}

}  // namespace tenon
