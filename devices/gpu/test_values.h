// SPDX-License-Identifier: Apache-2.0
// Tensors for tests: numbers as any element type, and elements of any size that are compared byte for byte.
#ifndef TENON_DEVICES_GPU_TEST_VALUES_H_
#define TENON_DEVICES_GPU_TEST_VALUES_H_

#include <algorithm>

#include "tests/device/kernel.h"

namespace tenon::device_test {

// Every byte another one than its neighbours: elements of any size are told apart.
inline Value Numbered(uint32_t dtype, Dimensions dims, int first = 1) {
  Value value = {dtype, std::move(dims)};
  for (size_t i = 0; i < value.bytes.size(); ++i) value.bytes[i] = static_cast<char>((static_cast<size_t>(first) + i * 37 + i / 251) & 0x7f);
  return value;
}
template <class T>
Value Rounded(const Value& floats, double scale) {
  std::vector<T> values;
  for (double x : floats.Numbers()) values.push_back(static_cast<T>(static_cast<float>(x * scale)));
  return Tensor<T>(floats.dims, values);
}
// The same numbers as another dtype; whole ones are `scale` times as large.
inline Value Converted(uint32_t dtype, const Value& floats, double scale) {
  switch (dtype) {
    case TENON_DT_DOUBLE: return Rounded<double>(floats, 1);
    case TENON_DT_HALF: return Rounded<sdk::Half>(floats, 1);
    case TENON_DT_BFLOAT16: return Rounded<sdk::Bfloat16>(floats, 1);
    case TENON_DT_INT32: return Rounded<int32_t>(floats, scale);
    case TENON_DT_INT64: return Rounded<int64_t>(floats, scale);
    default: return floats;
  }
}
inline Value RandomOf(uint32_t dtype, Dimensions dims, uint32_t seed = 5) { return Converted(dtype, RandomFloatsOf(std::move(dims), seed), 1000); }
// The same bytes, whatever they mean.
inline std::string Same(Bench& bench, const Case& given) {
  std::vector<Value> got, want;
  std::string text = bench.OnCpu(given, &want);
  if (!text.empty()) return given.op + " on the CPU: " + text;
  text = bench.OnDevice(given, &got);
  if (!text.empty()) return given.op + " on the device: " + text;
  for (size_t i = 0; i < want.size(); ++i) {
    const auto at = std::mismatch(want[i].bytes.begin(), want[i].bytes.end(), got[i].bytes.begin(), got[i].bytes.end());
    if (got[i].dims != want[i].dims || at.first != want[i].bytes.end() || at.second != got[i].bytes.end()) {
      return given.op + ": output " + std::to_string(i) + " differs at byte " + std::to_string(at.first - want[i].bytes.begin());
    }
  }
  return "";
}

// One dtype for each size of elements; and those that kernels add.
inline constexpr uint32_t kSizes[] = {TENON_DT_UINT8, TENON_DT_HALF, TENON_DT_FLOAT, TENON_DT_INT64, TENON_DT_COMPLEX128};
inline constexpr uint32_t kAdded[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32, TENON_DT_INT64};

template <class T>
Value Converted(const Value& floats) {
  std::vector<T> values;
  for (float x : floats.As<float>()) {
    if constexpr (sdk::kIsComplex<T>) {
      values.push_back(T(x, 3 * x));
    } else {
      values.push_back(static_cast<T>(std::is_integral_v<T> ? x * 100 : x));
    }
  }
  return Tensor<T>(floats.dims, values);
}
// Integers are hundredths; the imaginary part is three times the real one.
inline Value As(uint32_t dtype, const Value& floats) {
  switch (dtype) {
    case TENON_DT_DOUBLE: return Converted<double>(floats);
    case TENON_DT_HALF: return Converted<sdk::Half>(floats);
    case TENON_DT_BFLOAT16: return Converted<sdk::Bfloat16>(floats);
    case TENON_DT_INT8: return Converted<int8_t>(floats);
    case TENON_DT_INT16: return Converted<int16_t>(floats);
    case TENON_DT_INT32: return Converted<int32_t>(floats);
    case TENON_DT_INT64: return Converted<int64_t>(floats);
    case TENON_DT_UINT8: return Converted<uint8_t>(floats);
    case TENON_DT_UINT16: return Converted<uint16_t>(floats);
    case TENON_DT_UINT32: return Converted<uint32_t>(floats);
    case TENON_DT_UINT64: return Converted<uint64_t>(floats);
    case TENON_DT_COMPLEX64: return Converted<std::complex<float>>(floats);
    case TENON_DT_COMPLEX128: return Converted<std::complex<double>>(floats);
    default: return floats;
  }
}

}  // namespace tenon::device_test

#endif  // TENON_DEVICES_GPU_TEST_VALUES_H_
