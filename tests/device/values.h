// SPDX-License-Identifier: Apache-2.0
// Tensors for tests: numbers as any element type, and elements of any size that are compared byte for byte.
#ifndef TENON_TESTS_DEVICE_VALUES_H_
#define TENON_TESTS_DEVICE_VALUES_H_

#include <algorithm>
#include <complex>

#include "tests/device/kernel.h"

namespace tenon::device_test {

inline constexpr uint32_t kFloatTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16};
inline constexpr uint32_t kNumberTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32, TENON_DT_INT64};
// One for each size of elements.
inline constexpr uint32_t kSizes[] = {TENON_DT_UINT8, TENON_DT_HALF, TENON_DT_FLOAT, TENON_DT_INT64, TENON_DT_COMPLEX128};

// The same numbers as another type. Whole numbers are `scale` times as large; the imaginary part is three times the real one.
inline Value ValuesOf(uint32_t dtype, const Value& floats, float scale = 1) {
  const auto convert = [&]<class T>(T) {
    std::vector<T> values;
    for (float x : floats.As<float>()) {
      if constexpr (sdk::kIsComplex<T>) {
        values.push_back(T(x, 3 * x));
      } else {
        values.push_back(static_cast<T>(std::is_integral_v<T> ? x * scale : x));
      }
    }
    return Tensor<T>(floats.dims, values);
  };
  switch (dtype) {
    case TENON_DT_DOUBLE: return convert(double{});
    case TENON_DT_HALF: return convert(sdk::Half{});
    case TENON_DT_BFLOAT16: return convert(sdk::Bfloat16{});
    case TENON_DT_INT8: return convert(int8_t{});
    case TENON_DT_INT16: return convert(int16_t{});
    case TENON_DT_INT32: return convert(int32_t{});
    case TENON_DT_INT64: return convert(int64_t{});
    case TENON_DT_UINT8: return convert(uint8_t{});
    case TENON_DT_UINT16: return convert(uint16_t{});
    case TENON_DT_UINT32: return convert(uint32_t{});
    case TENON_DT_UINT64: return convert(uint64_t{});
    case TENON_DT_COMPLEX64: return convert(std::complex<float>{});
    case TENON_DT_COMPLEX128: return convert(std::complex<double>{});
    default: return floats;
  }
}
inline Value RandomOf(uint32_t dtype, Dimensions dims, uint32_t seed = 5) { return ValuesOf(dtype, RandomFloatsOf(std::move(dims), seed), 1000); }

// Of results that floats compute to within `close`: halves round them once more.
inline double ToleranceOf(uint32_t dtype, double close) {
  switch (dtype) {
    case TENON_DT_HALF: return 1e-3;
    case TENON_DT_BFLOAT16: return 8e-3;
    case TENON_DT_INT32: case TENON_DT_INT64: return 0;
    default: return close;
  }
}

// Every byte another one than its neighbours: elements of any size are told apart.
inline Value Numbered(uint32_t dtype, Dimensions dims, int first = 1) {
  Value value = {dtype, std::move(dims)};
  for (size_t i = 0; i < value.bytes.size(); ++i) value.bytes[i] = static_cast<char>((static_cast<size_t>(first) + i * 37 + i / 251) & 0x7f);
  return value;
}
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

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_VALUES_H_
