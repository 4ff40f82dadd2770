// SPDX-License-Identifier: Apache-2.0
// Tensors to try kernels with: random numbers as any element type, and elements of any size that are told apart byte
// for byte. All depends on the seed alone.
#ifndef TENON_TESTING_SAMPLES_H_
#define TENON_TESTING_SAMPLES_H_

#include <complex>
#include <random>
#include <vector>

#include "tenon/testing/tensor.h"

namespace tenon::testing {

inline constexpr uint32_t kFloatTypes[] = {TENON_DT_FLOAT, TENON_DT_DOUBLE, TENON_DT_HALF, TENON_DT_BFLOAT16};
inline constexpr uint32_t kNumberTypes[] = {TENON_DT_FLOAT,    TENON_DT_DOUBLE, TENON_DT_HALF,
                                            TENON_DT_BFLOAT16, TENON_DT_INT32,  TENON_DT_INT64};
// One for each size of elements.
inline constexpr uint32_t kSizes[] = {TENON_DT_UINT8, TENON_DT_HALF, TENON_DT_FLOAT, TENON_DT_INT64,
                                      TENON_DT_COMPLEX128};

inline Tensor Floats(Dimensions dims, const std::vector<float>& values) { return Make<float>(std::move(dims), values); }
inline Tensor Ints(const std::vector<int32_t>& values) { return Vector<int32_t>(values); }
inline Tensor Int(int32_t value) { return Scalar(value); }
inline Tensor Bools(Dimensions dims, const std::vector<int>& values) {
  return Make<uint8_t>(std::move(dims), std::vector<uint8_t>(values.begin(), values.end()), TENON_DT_BOOL);
}

inline Tensor RandomFloatsOf(Dimensions dims, uint32_t seed = 5, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<size_t>(CountOf(dims)));
  for (float& value : values) value = uniform(random);
  return Floats(std::move(dims), values);
}

// The same numbers as another type. Whole numbers are `scale` times as large; the imaginary part is three times the
// real one.
inline Tensor ValuesOf(uint32_t dtype, const Tensor& floats, float scale = 1) {
  const auto convert = [&]<class T>(T) {
    std::vector<T> values;
    for (float x : Values<float>(floats)) {
      if constexpr (sdk::kIsComplex<T>) {
        values.push_back(T(x, 3 * x));
      } else {
        values.push_back(static_cast<T>(std::is_integral_v<T> ? x * scale : x));
      }
    }
    return Make<T>(floats.dims, values);
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
inline Tensor RandomOf(uint32_t dtype, Dimensions dims, uint32_t seed = 5) {
  return ValuesOf(dtype, RandomFloatsOf(std::move(dims), seed), 1000);
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

// Every byte another one than its neighbours: elements of any size are told apart.
inline Tensor Numbered(uint32_t dtype, Dimensions dims, int first = 1) {
  Tensor value(dtype, std::move(dims));
  for (size_t i = 0; i < value.bytes.size(); ++i)
    value.bytes[i] = static_cast<char>((static_cast<size_t>(first) + i * 37 + i / 251) & 0x7f);
  return value;
}
}  // namespace tenon::testing

#endif  // TENON_TESTING_SAMPLES_H_
