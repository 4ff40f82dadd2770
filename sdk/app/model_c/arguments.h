// SPDX-License-Identifier: Apache-2.0
// What crosses from C: arguments that are checked, structs that grow, statuses and texts that are given.
#ifndef TENON_SDK_MODEL_C_ARGUMENTS_H_
#define TENON_SDK_MODEL_C_ARGUMENTS_H_

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sdk/app/model_c/rules.h"
#include "tenon/host/arguments.h"
#include "tenon/tenon.h"

namespace tenon::model_c {

using arguments::List, host::Code, host::Result, host::Shape, host::Span, host::Status, host::Tensor, host::Text,
    host::View;

// Runs what a C function does; what it throws becomes a status.
template <typename Function>
tenon_status* Guard(Function function) noexcept {
  const auto give = [](Code code, std::string_view message) {
    return tenon_status_create(static_cast<uint32_t>(code), Span(message));
  };
  try {
    const Status status = function();
    return status.ok() ? nullptr : give(status.code(), status.message());
  } catch (const std::bad_alloc&) {
    return give(Code::kResourceExhausted, "there is no memory for it");
  } catch (const std::exception& error) {
    return give(Code::kInternal, error.what());
  } catch (...) {
    return give(Code::kInternal, "something was thrown");
  }
}

inline Status ToStatus(const arguments::Fault& fault) {
  return fault ? Status(static_cast<Code>(fault.code()), fault.text()) : Status();
}
// In a function that gives a Status: INVALID_ARGUMENT names the first argument that cannot be.
#define TENON_CHECK(...) TENON_TRY(::tenon::model_c::ToStatus(TENON_FAULT_AMONG(__VA_ARGS__)))

inline Status IsNull(const char* name) { return ToStatus(arguments::Fault(name, "is NULL")); }
// Of a list whose name is not this function's word for it.
template <typename T>
Status GivenList(const T* list, uint64_t count, const std::string& name) {
  return ToStatus(arguments::FaultOf(List(list, count)).Within(name));
}
inline Status CheckIndex(uint64_t index, uint64_t count, const char* what) {
  if (index < count) return Status();
  return Status(Code::kInvalidArgument, std::string("there is no ") + what + " " + std::to_string(index) +
                                            "; there are " + std::to_string(count));
}

// A struct as this library knows it: the smaller size into a zeroed one. Needed: NULL is an error, else it is the
// defaults.
template <typename T>
Status ReadStruct(const T* given, bool needed, const char* name, T* out) {
  *out = T{};
  if (given == nullptr) return needed ? IsNull(name) : Status();
  return ToStatus(arguments::ReadSized(*given, out).Within(name));
}
// Fills a caller's struct as far as the caller knows it.
template <typename T>
Status WriteStruct(const T& value, T* out) {
  const size_t size = out->struct_size == 0 ? sizeof(T) : std::min<size_t>(out->struct_size, sizeof(T));
  std::memcpy(static_cast<void*>(out), &value, size);
  out->struct_size = static_cast<uint32_t>(size);
  return Status();
}

inline std::string Copy(tenon_span span) { return std::string(Text(span)); }
inline std::vector<std::string> Copies(const tenon_span* spans, uint64_t count) {
  std::vector<std::string> copies;
  for (uint64_t i = 0; i < count; ++i) copies.push_back(Copy(spans[i]));
  return copies;
}

inline Status GiveText(std::string_view text, tenon_text** out_text) {
  *out_text = tenon_text_create(Span(text));
  return *out_text != nullptr ? Status() : Status(Code::kResourceExhausted, "there is no memory for a text");
}
// To C, which releases them.
inline void GiveTensors(const std::vector<Tensor>& tensors, tenon_tensor** out_tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    tenon_tensor_retain(tensors[i].get());
    out_tensors[i] = tensors[i].get();
  }
}

using NamedViews = std::vector<std::pair<std::string, View>>;
// what: "input", of the parameters `input_names` and `inputs`.
inline Result<NamedViews> ReadViews(const tenon_span* names, const tenon_tensor_view* const* values, uint64_t count,
                                    const std::string& what) {
  TENON_TRY(GivenList(names, count, what + "_names"));
  TENON_TRY(GivenList(values, count, what + "s"));
  NamedViews views;
  for (uint64_t i = 0; i < count; ++i) views.emplace_back(Copy(names[i]), View(*values[i]));
  return views;
}

// A run's options in C++; the trace goes home in the end.
class RunOptions {
 public:
  Status Read(const tenon_run_options* given) {
    TENON_TRY(ReadStruct(given, false, "options", &c_options_));
    options_.timeout = std::chrono::nanoseconds(std::min<uint64_t>(c_options_.timeout_ns, INT64_MAX));
    if (c_options_.cancellation != nullptr)
      options_.cancellation = &cancellation_.emplace(host::Cancellation::Borrow(c_options_.cancellation));
    if (c_options_.out_trace != nullptr) options_.trace = &trace_;
    if (c_options_.watch != nullptr)
      options_.watch = [this](const host::Watched& made) {
        const tenon_watched c_made{sizeof(tenon_watched),   0,           host::Span(made.node), host::Span(made.op),
                                   host::Span(made.device), &made.value, made.output,           0};
        return Status::Take(c_options_.watch(c_options_.watch_argument, &c_made));
      };
    return Status();
  }
  const host::RunOptions& get() const { return options_; }
  Status Finish() { return c_options_.out_trace == nullptr ? Status() : GiveText(trace_, c_options_.out_trace); }

 private:
  tenon_run_options c_options_ = {};
  host::RunOptions options_;
  std::optional<host::Cancellation> cancellation_;
  std::string trace_;
};

}  // namespace tenon::model_c

#endif  // TENON_SDK_MODEL_C_ARGUMENTS_H_
