// SPDX-License-Identifier: Apache-2.0
// What stands between a C table and the C++ behind it (device.h, compiler.h): how a member's end becomes a status, and
// how structs that may grow come in and go out.
#ifndef TENON_SDK_ANSWER_H_
#define TENON_SDK_ANSWER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/outcome.h"

namespace tenon::sdk {

// How function() ended, as a status: it gives an Outcome, a tenon_status* or nothing.
template <class Function>
[[nodiscard]] tenon_status* StatusOf(Function&& function) {
  using Result = std::remove_cvref_t<std::invoke_result_t<Function>>;
  if constexpr (std::is_void_v<Result>) {
    function();
    return nullptr;
  } else if constexpr (std::is_same_v<Result, Outcome>) {
    return ToStatus(function());
  } else {
    return function();
  }
}

// The same; what is thrown becomes a status too, Fail() and Check() of kernel.h with their own.
template <class Function>
[[nodiscard]] tenon_status* Answer(Function&& function) noexcept {
  try {
    return StatusOf(function);
  } catch (...) {
    return CurrentFailure();
  }
}

// For functions that cannot say how they ended.
inline void LogFailure(tenon_status* failed) noexcept {
  if (failed == nullptr) return;
  tenon_plugin_host->log(TENON_LOG_ERROR, tenon_plugin_host->status_message(failed));
  tenon_plugin_host->status_release(failed);
}

[[nodiscard, gnu::cold]] inline tenon_status* IsNull(const char* what) {
  return Failure(TENON_INVALID_ARGUMENT, what, " is NULL");
}

constexpr size_t kStructHead = 2 * sizeof(uint32_t);  // struct_size and must_understand

// A struct of the caller that may grow: *given then has all that is known here. It is the caller's own, or, where that
// is shorter, *room with zeros behind. A bit of must_understand is one that nobody here knows. what: "a copy".
template <class Struct>
[[nodiscard]] tenon_status* TakeStruct(const char* what, const Struct** given, Struct* room) {
  const Struct* const from = *given;
  if (from == nullptr || from->struct_size < kStructHead) [[unlikely]] {
    return Failure(TENON_INVALID_ARGUMENT, what, " is missing or has no struct_size");
  }
  if (from->must_understand != 0) [[unlikely]] {
    return Failure(TENON_UNIMPLEMENTED, what, " with a feature that this plugin does not know");
  }
  if (from->struct_size < sizeof(Struct)) [[unlikely]] {
    *room = {};
    std::memcpy(room, from, from->struct_size);
    *given = room;
  }
  return nullptr;
}

// Fills a struct of the caller by fill(&all), as far as the caller knows it; a failure leaves it as it was.
template <class Struct, class Function>
[[nodiscard]] tenon_status* FillStruct(const char* what, Struct* out, Function&& fill) {
  if (out == nullptr || out->struct_size < kStructHead) {
    return Failure(TENON_INVALID_ARGUMENT, what, " is missing or has no struct_size");
  }
  Struct all = {};
  all.struct_size = sizeof all;
  TENON_SDK_RETURN_IF_ERROR(StatusOf([&] { return fill(&all); }));
  const size_t known = std::min<size_t>(out->struct_size, sizeof all);
  std::memcpy(reinterpret_cast<char*>(out) + kStructHead, reinterpret_cast<const char*>(&all) + kStructHead,
              known - kStructHead);
  return nullptr;
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_ANSWER_H_
