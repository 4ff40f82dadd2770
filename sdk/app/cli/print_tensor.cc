// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/print_tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <complex>
#include <vector>

namespace tenon::cli {
namespace {

using host::DType;
using host::Tensor;

constexpr int64_t kEdge = 3;  // elements shown at each end of a long dimension

std::string FormatString(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      quoted += {'\\', c};
    else if (c == '\n')
      quoted += "\\n";
    else if (c == '\t')
      quoted += "\\t";
    else if (byte < 0x20 || byte == 0x7f)
      quoted += fmt::format("\\x{:02x}", byte);
    else
      quoted += c;
  }
  return quoted + '"';
}

template <typename T>
T ElementText(const Tensor& tensor, uint64_t index) {
  T value;
  __builtin_memcpy(&value, tensor.bytes().data() + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
std::string FormatComplex(std::complex<T> value) {
  return fmt::format("{}{}{}j", value.real(), std::signbit(value.imag()) ? "" : "+", value.imag());
}

// Prints the dimensions from `axis` on of the part that begins at `offset`.
class Printer {
 public:
  Printer(const Tensor& tensor, bool shorten) : tensor_(tensor), dims_(tensor.shape().dims()), shorten_(shorten) {
    strides_.assign(dims_.size(), 1);
    for (size_t i = dims_.size(); i-- > 1;) strides_[i - 1] = strides_[i] * dims_[i];
  }

  std::string Print(size_t axis = 0, int64_t offset = 0) const {
    if (axis == dims_.size()) return FormatElement(tensor_, static_cast<uint64_t>(offset));
    const int64_t size = dims_[axis];
    const bool cut = shorten_ && size > 2 * kEdge;
    const bool last = axis + 1 == dims_.size();
    const std::string separator = last ? ", " : ",\n" + std::string(axis + 1, ' ');
    std::string text = "[";
    for (int64_t i = 0; i < size; ++i) {
      if (i > 0) text += separator;
      if (cut && i == kEdge) {
        text += "...";
        i = size - kEdge - 1;
        continue;
      }
      text += Print(axis + 1, offset + i * strides_[axis]);
    }
    return text + "]";
  }

 private:
  const Tensor& tensor_;
  std::vector<int64_t> dims_;
  std::vector<int64_t> strides_;
  bool shorten_;
};

}  // namespace

float Bfloat16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

float HalfToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t exponent = bits >> 10 & 0x1f;
  const uint32_t fraction = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

std::string FormatElement(const Tensor& tensor, uint64_t index) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return fmt::format("{}", ElementText<float>(tensor, index));
    case DType::kDouble:
      return fmt::format("{}", ElementText<double>(tensor, index));
    case DType::kHalf:
      return fmt::format("{}", HalfToFloat(ElementText<uint16_t>(tensor, index)));
    case DType::kBfloat16:
      return fmt::format("{}", Bfloat16ToFloat(ElementText<uint16_t>(tensor, index)));
    case DType::kInt8:
      return fmt::format("{}", static_cast<int>(ElementText<int8_t>(tensor, index)));
    case DType::kInt16:
      return fmt::format("{}", ElementText<int16_t>(tensor, index));
    case DType::kInt32:
      return fmt::format("{}", ElementText<int32_t>(tensor, index));
    case DType::kInt64:
      return fmt::format("{}", ElementText<int64_t>(tensor, index));
    case DType::kUint8:
      return fmt::format("{}", static_cast<unsigned>(ElementText<uint8_t>(tensor, index)));
    case DType::kUint16:
      return fmt::format("{}", ElementText<uint16_t>(tensor, index));
    case DType::kUint32:
      return fmt::format("{}", ElementText<uint32_t>(tensor, index));
    case DType::kUint64:
      return fmt::format("{}", ElementText<uint64_t>(tensor, index));
    case DType::kBool:
      return ElementText<uint8_t>(tensor, index) != 0 ? "True" : "False";
    case DType::kComplex64:
      return FormatComplex(ElementText<std::complex<float>>(tensor, index));
    case DType::kComplex128:
      return FormatComplex(ElementText<std::complex<double>>(tensor, index));
    case DType::kString:
      return FormatString(tensor.string(index));
    default:
      break;
  }
  // A type that has no number of its own here: its bytes.
  const uint64_t size = host::DTypeSize(tensor.dtype());
  std::string text = "0x";
  for (uint64_t i = size; i-- > 0;) text += fmt::format("{:02x}", tensor.bytes()[index * size + i]);
  return size == 0 ? "?" : text;
}

std::string FormatTensor(const Tensor& tensor, int64_t most) {
  return Printer(tensor, tensor.element_count() > most).Print();
}

}  // namespace tenon::cli
