// SPDX-License-Identifier: Apache-2.0
// What crosses from C: arguments that are checked, structs that grow, statuses and texts that are given.
#ifndef TENON_SDK_MODEL_C_ARGUMENTS_H_
#define TENON_SDK_MODEL_C_ARGUMENTS_H_

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::model_c {

using host::Code, host::Result, host::Shape, host::Span, host::Status, host::Tensor, host::Text, host::View;

// Runs what a C function does; what it throws becomes a status.
template <typename Function>
tenon_status* Guard(Function function) noexcept {
  const auto give = [](Code code, std::string_view message) { return tenon_status_create(static_cast<uint32_t>(code), Span(message)); };
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

struct Argument {
  const void* pointer;
  const char* name;
};
// INVALID_ARGUMENT names the first that is NULL.
inline Status Given(std::initializer_list<Argument> arguments) {
  for (const Argument& argument : arguments)
    if (argument.pointer == nullptr) return Status(Code::kInvalidArgument, std::string("'") + argument.name + "' is NULL");
  return Status();
}
// Of a list: NULL where it has elements.
inline Status GivenList(const void* list, uint64_t count, const char* name) {
  return count == 0 ? Status() : Given({{list, name}});
}
inline Status CheckIndex(uint64_t index, uint64_t count, const char* what) {
  if (index < count) return Status();
  return Status(Code::kInvalidArgument, std::string("there is no ") + what + " " + std::to_string(index) + "; there are " + std::to_string(count));
}

// A struct as this library knows it: the smaller size into a zeroed one. Needed: NULL is an error, else it is the defaults.
template <typename T>
Status ReadStruct(const T* given, bool needed, const char* name, T* out) {
  *out = T{};
  if (given == nullptr) return needed ? Given({{given, name}}) : Status();
  constexpr size_t kHead = 2 * sizeof(uint32_t);
  if (given->struct_size < kHead)
    return Status(Code::kInvalidArgument, std::string("'") + name + "' says that it has " + std::to_string(given->struct_size) +
                                              " bytes; set its struct_size to its sizeof");
  if (given->must_understand != 0)
    return Status(Code::kUnimplemented, std::string("'") + name + "' needs a feature that this library does not have (must_understand " +
                                            std::to_string(given->must_understand) + ")");
  std::memcpy(static_cast<void*>(out), given, std::min<size_t>(given->struct_size, sizeof(T)));
  return Status();
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
inline Result<NamedViews> ReadViews(const tenon_span* names, const tenon_tensor_view* const* values, uint64_t count, const std::string& what) {
  constexpr int32_t kMostDims = 254;
  TENON_TRY(GivenList(names, count, (what + "_names").c_str()));
  TENON_TRY(GivenList(values, count, (what + "s").c_str()));
  NamedViews views;
  for (uint64_t i = 0; i < count; ++i) {
    Status given = Given({{values[i], (what + "s[i]").c_str()}});
    // A copy is made of the shape, before libtenon checks the view.
    if (given.ok() && (values[i]->dl.ndim < 0 || values[i]->dl.ndim > kMostDims)) given = Status(Code::kInvalidArgument, "its view has " + std::to_string(values[i]->dl.ndim) + " dimensions");
    if (given.ok() && values[i]->dl.ndim > 0) given = Given({{values[i]->dl.shape, "dl.shape"}});
    TENON_TRY(given.Annotate(what + " '" + Copy(names[i]) + "'"));
    views.emplace_back(Copy(names[i]), View(*values[i]));
  }
  return views;
}

// A run's options in C++; the trace goes home in the end.
class RunOptions {
 public:
  Status Read(const tenon_run_options* given) {
    TENON_TRY(ReadStruct(given, false, "options", &c_options_));
    options_.timeout = std::chrono::nanoseconds(std::min<uint64_t>(c_options_.timeout_ns, INT64_MAX));
    if (c_options_.cancellation != nullptr) options_.cancellation = &cancellation_.emplace(host::Cancellation::Borrow(c_options_.cancellation));
    if (c_options_.out_trace != nullptr) options_.trace = &trace_;
    if (c_options_.watch != nullptr)
      options_.watch = [this](const host::Watched& made) {
        const tenon_watched c_made{sizeof(tenon_watched), 0, host::Span(made.node), host::Span(made.op), host::Span(made.device), &made.value, made.output, 0};
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
