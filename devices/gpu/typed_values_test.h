// SPDX-License-Identifier: Apache-2.0
// Test values of every type that GPU kernels compute with.
#ifndef TENON_DEVICES_GPU_TYPED_VALUES_TEST_H_
#define TENON_DEVICES_GPU_TYPED_VALUES_TEST_H_

#include "tests/device/kernel.h"

namespace tenon::device_test {

inline constexpr uint32_t kFloatTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16};
inline constexpr uint32_t kNumberTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16, TENON_DT_INT32, TENON_DT_INT64};

// The same numbers as another type; whole numbers are `scale` times as large.
inline Value ValuesOf(uint32_t dtype, const Value& floats, float scale = 1) {
  const auto convert = [&]<class T>(T) {
    std::vector<T> values;
    for (float x : floats.As<float>()) values.push_back(static_cast<T>(std::is_integral_v<T> ? x * scale : x));
    return Tensor<T>(floats.dims, values);
  };
  switch (dtype) {
    case TENON_DT_DOUBLE: return convert(double{});
    case TENON_DT_HALF: return convert(sdk::Half{});
    case TENON_DT_BFLOAT16: return convert(sdk::Bfloat16{});
    case TENON_DT_INT32: return convert(int32_t{});
    case TENON_DT_INT64: return convert(int64_t{});
    default: return floats;
  }
}
// Of results that floats compute to within `close`: halves round them once more.
inline double ToleranceOf(uint32_t dtype, double close) {
  switch (dtype) {
    case TENON_DT_HALF: return 1e-3;
    case TENON_DT_BFLOAT16: return 8e-3;
    case TENON_DT_INT32: case TENON_DT_INT64: return 0;
    default: return close;
  }
}

}  // namespace tenon::device_test

#endif  // TENON_DEVICES_GPU_TYPED_VALUES_TEST_H_
