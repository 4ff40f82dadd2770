// SPDX-License-Identifier: Apache-2.0
// Status and Result: a failure is a value.
//
// A Status is a code (gRPC's) and a message that says what was tried, what was found and what would help. It is an
// ordinary value: copy it, keep it, compare its code. Result<T> is a T or the Status that says why there is none;
// asking a failed Result for its value is undefined, as for std::optional.
//
//   TENON_TRY(session.Extend(graph));                      // returns the status when it is an error
//   TENON_TRY_ASSIGN(Session session, Session::Create(runtime));
#ifndef TENON_HOST_STATUS_H_
#define TENON_HOST_STATUS_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/app.h"

namespace tenon::host {

enum class Code : uint32_t {
  kOk = TENON_OK,
  kCancelled = TENON_CANCELLED,
  kUnknown = TENON_UNKNOWN,
  kInvalidArgument = TENON_INVALID_ARGUMENT,
  kDeadlineExceeded = TENON_DEADLINE_EXCEEDED,
  kNotFound = TENON_NOT_FOUND,
  kAlreadyExists = TENON_ALREADY_EXISTS,
  kPermissionDenied = TENON_PERMISSION_DENIED,
  kResourceExhausted = TENON_RESOURCE_EXHAUSTED,
  kFailedPrecondition = TENON_FAILED_PRECONDITION,
  kAborted = TENON_ABORTED,
  kOutOfRange = TENON_OUT_OF_RANGE,
  kUnimplemented = TENON_UNIMPLEMENTED,
  kInternal = TENON_INTERNAL,
  kUnavailable = TENON_UNAVAILABLE,
  kDataLoss = TENON_DATA_LOSS,
  kUnauthenticated = TENON_UNAUTHENTICATED,
};

// Text of the C API as C++ sees it, and back. The bytes are borrowed.
inline std::string_view Text(tenon_span span) { return {span.data, static_cast<size_t>(span.size)}; }
inline tenon_span Span(std::string_view text) { return {text.data(), text.size()}; }

// "INVALID_ARGUMENT" and so on.
inline std::string_view CodeName(Code code) { return Text(tenon_status_code_name(static_cast<uint32_t>(code))); }

class [[nodiscard]] Status {
 public:
  Status() = default;  // success
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  // Takes a status of the C API over, and releases it; NULL is success.
  static Status Take(tenon_status* status) {
    if (status == nullptr) return Status();
    Status taken(static_cast<Code>(tenon_status_code(status)), std::string(Text(tenon_status_message(status))));
    tenon_status_release(status);
    return taken;
  }

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "INVALID_ARGUMENT: text", or "OK".
  std::string ToString() const { return ok() ? std::string("OK") : std::string(CodeName(code_)) + ": " + message_; }
  // The same with "context: " before the message; success stays success.
  Status Annotate(std::string_view context) const {
    return ok() ? *this : Status(code_, std::string(context) + ": " + message_);
  }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline std::ostream& operator<<(std::ostream& stream, const Status& status) { return stream << status.ToString(); }

// A value, or the reason why there is none. * and -> want ok(): they do not check. status() of a value is success.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {  // NOLINT
    if (status_.ok()) status_ = Status(Code::kInternal, "a Result was made of success without a value");
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tenon::host

// In a function that gives a Status or a Result: TENON_TRY(expression) returns the Status when it failed;
// TENON_TRY_ASSIGN(target, expression) takes a Result's value, or returns its status. It is several statements: no body
// of an `if` without braces.
#define TENON_TRY_CONCAT_INNER(a, b) a##b
#define TENON_TRY_CONCAT(a, b) TENON_TRY_CONCAT_INNER(a, b)
#define TENON_TRY(expression)                                                                                   \
  do {                                                                                                          \
    if (::tenon::host::Status tenon_try_status = (expression); !tenon_try_status.ok()) return tenon_try_status; \
  } while (false)
#define TENON_TRY_ASSIGN(target, expression) \
  TENON_TRY_ASSIGN_INNER(TENON_TRY_CONCAT(tenon_try_result_, __LINE__), target, expression)
#define TENON_TRY_ASSIGN_INNER(result, target, expression) \
  auto result = (expression);                              \
  if (!result.ok()) return result.status();                \
  target = *std::move(result)

#endif  // TENON_HOST_STATUS_H_
