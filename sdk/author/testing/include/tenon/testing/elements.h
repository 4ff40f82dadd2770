// SPDX-License-Identifier: Apache-2.0
// Elements of tensors of any type, as trials of ops look at them.
#ifndef TENON_TESTING_ELEMENTS_H_
#define TENON_TESTING_ELEMENTS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "tenon/sdk/kernel/half.h"
#include "tenon/sdk/span.h"
#include "tenon/testing/tensor.h"

namespace tenon::testing {

struct Elements {
  using Dims = Dimensions;

  static bool IsPlain(const Tensor& tensor) {
    return tensor.dtype != TENON_DT_INVALID && tensor.dtype != TENON_DT_STRING && tensor.dtype != TENON_DT_VARIANT &&
           tensor.dtype != TENON_DT_RESOURCE && sdk::PackedBits(tensor.dtype) == 0 && !tensor.bytes.empty();
  }
  static size_t SizeOf(const Tensor& tensor) { return static_cast<size_t>(CellSize(tensor.dtype)); }
  // Of no place of the tensor's there are none.
  static std::string BytesAt(const Tensor& tensor, int64_t place) {
    if (place < 0 || place >= tensor.count()) return "";
    return {tensor.bytes.data() + static_cast<size_t>(place) * SizeOf(tensor), SizeOf(tensor)};
  }

  // The element as a real number; nothing where it is none (whole numbers that a double does not hold, complex ones).
  static std::optional<double> NumberAt(const Tensor& tensor, int64_t place) {
    const auto as = [&]<class T>(T value) {
      std::memcpy(&value, BytesAt(tensor, place).data(), sizeof(value));
      return static_cast<double>(static_cast<float>(value));
    };
    if (place < 0 || place >= tensor.count()) return std::nullopt;
    switch (tensor.dtype) {
      case TENON_DT_FLOAT: return as(float{});
      case TENON_DT_HALF: return as(sdk::Half{});
      case TENON_DT_BFLOAT16: return as(sdk::Bfloat16{});
      case TENON_DT_DOUBLE: {
        double value = 0;
        std::memcpy(&value, BytesAt(tensor, place).data(), sizeof(value));
        return value;
      }
      default: return std::nullopt;
    }
  }
  static double UnitOf(uint32_t dtype) {
    switch (dtype) {
      case TENON_DT_DOUBLE: return 0x1p-52;
      case TENON_DT_HALF: return 0x1p-10;
      case TENON_DT_BFLOAT16: return 0x1p-7;
      default: return 0x1p-23;
    }
  }
  static std::string TextOf(const Tensor& tensor, int64_t place) {
    if (const auto number = NumberAt(tensor, place)) return sdk::Concat(*number);
    std::string text;
    for (const char byte : BytesAt(tensor, place))
      text += "0123456789abcdef"[byte >> 4 & 15], text += "0123456789abcdef"[byte & 15];
    return text;
  }
  // Whether they are one but for as many units of the last place, of the element or of the largest one of the tensor.
  static bool Alike(const Tensor& want, const Tensor& got, int64_t place, double units, bool of_largest = false) {
    if (want.dtype != got.dtype) return false;
    if (BytesAt(want, place) == BytesAt(got, place)) return true;
    const bool is_complex = want.dtype == TENON_DT_COMPLEX64 || want.dtype == TENON_DT_COMPLEX128;
    if (is_complex) {
      const uint32_t part = want.dtype == TENON_DT_COMPLEX64 ? TENON_DT_FLOAT : TENON_DT_DOUBLE;
      const Dims twice = {2 * want.count()};
      const Tensor a(part, twice, want.bytes), b(part, twice, got.bytes);
      return Alike(a, b, 2 * place, units, true) && Alike(a, b, 2 * place + 1, units, true);
    }
    const auto a = NumberAt(want, place), b = NumberAt(got, place);
    if (!a || !b) return false;
    if (std::isnan(*a) || std::isnan(*b)) return std::isnan(*a) == std::isnan(*b);
    if (*a == *b) return true;
    double size = std::abs(*a);
    for (int64_t i = 0; of_largest && i < want.count(); ++i)
      if (const auto each = NumberAt(want, i); each && std::isfinite(*each)) size = std::max(size, std::abs(*each));
    constexpr double kLeast = 0x1p-126;  // what is smaller may be flushed
    return std::abs(*a - *b) <= units * UnitOf(want.dtype) * std::max(size, kLeast);
  }
  static std::string Difference(const Tensor& want, const Tensor& got, int64_t place) {
    return sdk::Concat("at element ", place, ": ", TextOf(got, place), " was ", TextOf(want, place));
  }

  static bool IsWhole(uint32_t dtype) {
    return dtype == TENON_DT_INT8 || dtype == TENON_DT_INT16 || dtype == TENON_DT_INT32 || dtype == TENON_DT_INT64;
  }
  // Numbers of any type; nothing of one that a double does not hold.
  static std::optional<double> ExactAt(const Tensor& tensor, int64_t place) {
    if (tensor.dtype != TENON_DT_BOOL && !IsWhole(tensor.dtype)) return NumberAt(tensor, place);
    const std::string bytes = BytesAt(tensor, place);
    int64_t value = 0;
    if (bytes.empty() || bytes.size() > sizeof value) return std::nullopt;
    std::memcpy(&value, bytes.data(), bytes.size());
    const size_t unused = 8 * (sizeof(value) - bytes.size());
    value = static_cast<int64_t>(static_cast<uint64_t>(value) << unused) >> unused;
    if (std::abs(static_cast<double>(value)) > 0x1p53) return std::nullopt;
    return static_cast<double>(value);
  }

  // The place of an output's element in an input that broadcasts to it.
  static int64_t PlaceIn(const Dims& input, const Dims& output, int64_t place) {
    int64_t at = 0, step = 1;
    for (size_t d = 0; d < output.size(); ++d) {
      const int64_t size = output[output.size() - 1 - d], index = place % size;
      place /= size;
      if (d >= input.size()) continue;
      const int64_t own = input[input.size() - 1 - d];
      at += (own == 1 ? 0 : index) * step;
      step *= own;
    }
    return at;
  }
};

}  // namespace tenon::testing

#endif  // TENON_TESTING_ELEMENTS_H_
