// SPDX-License-Identifier: Apache-2.0
// Text, errors and element types for plugins in C++: the small words that the other sdk headers use.
//
// Idea: inside a plugin text is std::string_view and a failure is a tenon_status* of the host; this
// file converts. Rules: nothing here throws except for want of memory; the thunks of the other
// headers (Guard) turn that into a status, so that no exception crosses the ABI.
#ifndef TENON_SDK_SPAN_H_
#define TENON_SDK_SPAN_H_

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tenon/plugin.h"

namespace tenon::sdk {

// Both borrow the bytes, which need no NUL behind them.
constexpr tenon_span ToSpan(std::string_view text) { return {text.data(), text.size()}; }
constexpr std::string_view ToText(tenon_span span) {
  return span.size == 0 ? std::string_view() : std::string_view(span.data, span.size);
}

// ---- Texts out of parts: Concat("axis ", 3, " of ", shape) ----

inline void AppendPart(std::string& out, std::string_view part) { out += part; }
inline void AppendPart(std::string& out, const char* part) { out += part; }
inline void AppendPart(std::string& out, tenon_span part) { out += ToText(part); }
template <class Number>
requires std::is_arithmetic_v<Number>
void AppendPart(std::string& out, Number part) { out += std::to_string(part); }
template <class Number>
void AppendPart(std::string& out, const std::vector<Number>& part) {
  out += '[';
  for (size_t i = 0; i < part.size(); ++i) {
    if (i != 0) out += ',';
    AppendPart(out, part[i]);
  }
  out += ']';
}

template <class... Parts>
std::string Concat(const Parts&... parts) {
  std::string out;
  (AppendPart(out, parts), ...);
  return out;
}

// ---- Failures ----

// A status that says what its parts say, which who gets it releases or gives to the host. code: TENON_* of status.h.
// After load() only.
template <class... Parts>
[[nodiscard]] tenon_status* Failure(uint32_t code, const Parts&... parts) {
  const std::string text = Concat(parts...);
  return tenon_plugin_host->status_new(code, ToSpan(text));
}

// Runs function() and gives its tenon_status*; an exception becomes a status: want of memory RESOURCE_EXHAUSTED,
// another one INTERNAL with its text. A KernelError (kernel.h) has a status of its own, which CurrentFailure takes.
template <class Function>
[[nodiscard]] tenon_status* Guard(Function&& function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return tenon_plugin_error(TENON_RESOURCE_EXHAUSTED, "out of host memory in a plugin");
  } catch (const std::exception& problem) {
    return tenon_plugin_error(TENON_INTERNAL, problem.what());
  } catch (...) {
    return tenon_plugin_error(TENON_INTERNAL, "an exception of unknown type in a plugin");
  }
}

// Leaves the function with the status of `expression` when it failed.
#define TENON_SDK_RETURN_IF_ERROR(expression)                                     \
  do {                                                                            \
    if (tenon_status* tenon_sdk_status_ = (expression)) return tenon_sdk_status_; \
  } while (false)

// ---- Element types ----

// Without TENON_DT_REF.
constexpr uint32_t BaseType(uint32_t dtype) {
  return dtype >= TENON_DT_REF && dtype < 2 * TENON_DT_REF ? dtype - TENON_DT_REF : dtype;
}
constexpr bool IsComplex(uint32_t dtype) { return dtype == TENON_DT_COMPLEX64 || dtype == TENON_DT_COMPLEX128; }
constexpr bool IsReal(uint32_t dtype) {
  return dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || dtype == TENON_DT_HALF || dtype == TENON_DT_BFLOAT16;
}
// The types that IntegersOf reads.
constexpr bool IsInteger(uint32_t dtype) {
  return dtype == TENON_DT_INT8 || dtype == TENON_DT_INT16 || dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64 ||
         dtype == TENON_DT_UINT8 || dtype == TENON_DT_UINT16 || dtype == TENON_DT_UINT32;
}
// Whether gradients flow through tensors of the type.
constexpr bool IsDifferentiable(uint32_t dtype) { return IsReal(dtype) || IsComplex(dtype); }

// Bytes of one element; 0 for types without a fixed plain size (strings, resources, variants) and for packed ones.
constexpr uint64_t ElementSize(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_COMPLEX128: return 16;
    case TENON_DT_DOUBLE:
    case TENON_DT_INT64:
    case TENON_DT_UINT64:
    case TENON_DT_COMPLEX64: return 8;
    case TENON_DT_FLOAT:
    case TENON_DT_INT32:
    case TENON_DT_UINT32:
    case TENON_DT_QINT32: return 4;
    case TENON_DT_HALF:
    case TENON_DT_BFLOAT16:
    case TENON_DT_INT16:
    case TENON_DT_UINT16:
    case TENON_DT_QINT16:
    case TENON_DT_QUINT16: return 2;
    case TENON_DT_INT8:
    case TENON_DT_UINT8:
    case TENON_DT_QINT8:
    case TENON_DT_QUINT8:
    case TENON_DT_BOOL: return 1;
    case TENON_DT_FLOAT8_E8M0FNU: return 1;
    default:
      if ((dtype & TENON_DT_VENDOR_FLAG) != 0) return (dtype & ~TENON_DT_VENDOR_FLAG) >> 16;
      return dtype >= TENON_DT_FLOAT8_E5M2 && dtype <= TENON_DT_FLOAT4_E2M1FN ? 1 : 0;
  }
}

// Bits of one element of a packed type; 0 for others.
constexpr uint32_t PackedBits(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_PACKED_INT4:
    case TENON_DT_PACKED_UINT4:
    case TENON_DT_PACKED_FLOAT4_E2M1FN: return 4;
    case TENON_DT_PACKED_INT2:
    case TENON_DT_PACKED_UINT2: return 2;
    default: return 0;
  }
}

// The type's name as the signature language writes it.
constexpr std::string_view TypeName(uint32_t dtype) {
  constexpr std::string_view kNames[] = {"invalid",
                                         "float",
                                         "double",
                                         "int32",
                                         "uint8",
                                         "int16",
                                         "int8",
                                         "string",
                                         "complex64",
                                         "int64",
                                         "bool",
                                         "qint8",
                                         "quint8",
                                         "qint32",
                                         "bfloat16",
                                         "qint16",
                                         "quint16",
                                         "uint16",
                                         "complex128",
                                         "half",
                                         "resource",
                                         "variant",
                                         "uint32",
                                         "uint64",
                                         "float8_e5m2",
                                         "float8_e4m3fn",
                                         "float8_e4m3fnuz",
                                         "float8_e4m3b11fnuz",
                                         "float8_e5m2fnuz",
                                         "int4",
                                         "uint4",
                                         "int2",
                                         "uint2",
                                         "float4_e2m1fn"};
  constexpr std::string_view kOwnNames[] = {"packed_int4",  "packed_uint4",         "packed_int2",
                                            "packed_uint2", "packed_float4_e2m1fn", "float8_e8m0fnu"};
  if ((dtype & TENON_DT_VENDOR_FLAG) != 0) return "a vendor's type";
  const uint32_t base = BaseType(dtype), own = base - TENON_DT_PACKED_INT4;
  if (own < sizeof(kOwnNames) / sizeof(kOwnNames[0])) return kOwnNames[own];
  return base < sizeof(kNames) / sizeof(kNames[0]) ? kNames[base] : "unknown";
}

// ---- Views ----

// The first element of a view: where it lies. The host may read it when the view has TENON_VIEW_HOST_VISIBLE; whether
// it is of type T nobody asks.
template <class T = std::byte>
T* Data(const tenon_tensor_view& view) {
  return reinterpret_cast<T*>(static_cast<char*>(view.dl.data) + view.dl.byte_offset);
}

// The elements of a contiguous view of an integer type in host memory, in row-major order; nothing for other types,
// uint64 among them.
inline std::optional<std::vector<int64_t>> IntegersOf(const tenon_tensor_view& view) {
  uint64_t count = 1;
  for (int32_t i = 0; i < view.dl.ndim; ++i) count *= static_cast<uint64_t>(view.dl.shape[i]);
  std::vector<int64_t> out;
  const auto copy = [&]<class T>(T) {
    const T* data = Data<const T>(view);
    out.assign(data, data + count);
  };
  switch (view.dtype) {
    case TENON_DT_INT64: copy(int64_t{}); break;
    case TENON_DT_INT32: copy(int32_t{}); break;
    case TENON_DT_INT16: copy(int16_t{}); break;
    case TENON_DT_INT8: copy(int8_t{}); break;
    case TENON_DT_UINT8: copy(uint8_t{}); break;
    case TENON_DT_UINT16: copy(uint16_t{}); break;
    case TENON_DT_UINT32: copy(uint32_t{}); break;
    default: return std::nullopt;  // no whole numbers, or some that int64 does not hold
  }
  return out;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_SPAN_H_
