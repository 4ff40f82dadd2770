// SPDX-License-Identifier: Apache-2.0
// Status and Result: a failure is a value.
//
// A Status is one pointer; NULL is success. It is the C ABI's tenon_status, so that it crosses to plugins and back
// without a copy. Each layer adds what it knows with Annotate(): "node 'conv1' (Conv2D): no kernel for DT_HALF".
// Nothing that is done with a status throws: without memory for a text it is OutOfMemoryStatus(), or goes on without
// what was to be added. Texts that are made for it may throw where they are made; Status::Of and Annotate take the
// pieces instead.
#ifndef TENON_CORE_BASE_STATUS_H_
#define TENON_CORE_BASE_STATUS_H_

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tenon/abi.h"
#include "tenon/status.h"

struct tenon_status {
  uint32_t code;
  std::string message;
};

namespace tenon {

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

// "INVALID_ARGUMENT" and so on.
std::string_view CodeName(Code code);

// The status that is given when there is no memory to make another; never freed.
tenon_status* OutOfMemoryStatus();
void ReleaseStatus(tenon_status* status);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) noexcept;
  // The message is the pieces, joined.
  template <typename... Pieces>
  static Status Of(Code code, const Pieces&... pieces) noexcept;
  explicit Status(tenon_status* owned) : rep_(owned) {}
  static Status Ok() { return Status(); }
  Status(Status&& other) noexcept : rep_(std::exchange(other.rep_, nullptr)) {}
  Status& operator=(Status&& other) noexcept {
    std::swap(rep_, other.rep_);
    return *this;
  }
  Status(const Status& other) noexcept;
  Status& operator=(const Status& other) noexcept { return *this = Status(other); }
  ~Status() {
    if (rep_ != nullptr) ReleaseStatus(rep_);
  }

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ == nullptr ? Code::kOk : static_cast<Code>(rep_->code); }
  std::string_view message() const { return rep_ == nullptr ? std::string_view() : rep_->message; }
  // "INVALID_ARGUMENT: text", or "OK".
  std::string ToString() const;
  // Puts "context: " before the message, the context being the pieces, joined; nothing happens to success.
  template <typename... Pieces>
  Status Annotate(const Pieces&... context) && noexcept;
  // Gives the C object away; NULL for success.
  tenon_status* release() { return std::exchange(rep_, nullptr); }

 private:
  tenon_status* rep_ = nullptr;
};

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status FailedPrecondition(std::string message);
Status ResourceExhausted(std::string message);
Status Unimplemented(std::string message);
Status Internal(std::string message);
Status OutOfRange(std::string message);

// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {
    if (status_.ok()) status_ = Internal("a Result was made of success without a value");
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

inline std::string_view View(tenon_span span) { return {span.data, static_cast<size_t>(span.size)}; }
inline tenon_span Span(std::string_view text) { return {text.data(), text.size()}; }

// Joins pieces that are strings or numbers.
template <typename... Pieces>
std::string StrCat(const Pieces&... pieces);

namespace internal {
inline void Append(std::string& out, std::string_view text) { out.append(text); }
inline void Append(std::string& out, const char* text) { out.append(text); }
inline void Append(std::string& out, const std::string& text) { out.append(text); }
inline void Append(std::string& out, char c) { out.push_back(c); }
template <typename Number>
  requires std::is_arithmetic_v<Number>
void Append(std::string& out, Number number) {
  out.append(std::to_string(number));
}
}  // namespace internal

template <typename... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string out;
  (internal::Append(out, pieces), ...);
  return out;
}

// What the engine itself threw, in a catch block: it has no memory left, or an error of its own.
Status EngineThrew() noexcept;

// What a function that gives a Status, or nothing, gives, or what it throws.
template <typename Function>
Status Guarded(Function&& function) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      return Status::Ok();
    } else {
      return function();
    }
  } catch (...) {
    return EngineThrew();
  }
}

template <typename... Pieces>
Status Status::Of(Code code, const Pieces&... pieces) noexcept {
  try {
    return Status(code, StrCat(pieces...));
  } catch (const std::bad_alloc&) {
    return Status(OutOfMemoryStatus());
  }
}

template <typename... Pieces>
Status Status::Annotate(const Pieces&... context) && noexcept {
  if (ok() || rep_ == OutOfMemoryStatus()) return std::move(*this);
  try {
    rep_->message = StrCat(context..., ": ", rep_->message);
  } catch (const std::bad_alloc&) {  // it says less
  }
  return std::move(*this);
}

}  // namespace tenon

#define TENON_CONCAT_INNER(a, b) a##b
#define TENON_CONCAT(a, b) TENON_CONCAT_INNER(a, b)
#define TENON_RETURN_IF_ERROR(expression)                             \
  do {                                                                \
    if (::tenon::Status tenon_status_ = (expression); !tenon_status_.ok()) \
      return tenon_status_;                                           \
  } while (false)
#define TENON_ASSIGN_OR_RETURN(target, expression)                                   \
  auto TENON_CONCAT(tenon_result_, __LINE__) = (expression);                         \
  if (!TENON_CONCAT(tenon_result_, __LINE__).ok())                                   \
    return std::move(TENON_CONCAT(tenon_result_, __LINE__)).status();                \
  target = *std::move(TENON_CONCAT(tenon_result_, __LINE__))

#endif  // TENON_CORE_BASE_STATUS_H_
