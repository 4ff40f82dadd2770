// SPDX-License-Identifier: Apache-2.0
#include "tests/golden/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

namespace tenon::golden {

using host::DType;
using host::Tensor;

namespace {

// How a floating type reads, and its precision.
struct Format {
  double (*read)(const uint8_t* at);
  size_t size;         // of a real element; a complex one is two
  double epsilon;      // between 1 and the next number
  double smallest;     // normal number
  double share = 1;    // of the tolerance's units
};

template <typename T>
T Raw(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}
double ReadHalf(const uint8_t* at) {
  const uint16_t bits = Raw<uint16_t>(at);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31 ? (fraction != 0 ? std::nan("") : std::numeric_limits<double>::infinity())
                           : exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 != 0 ? -magnitude : magnitude;
}
double ReadBfloat16(const uint8_t* at) { return std::bit_cast<float>(static_cast<uint32_t>(Raw<uint16_t>(at)) << 16); }
double ReadFloat(const uint8_t* at) { return Raw<float>(at); }
double ReadDouble(const uint8_t* at) { return Raw<double>(at); }

const Format* FormatOf(DType dtype) {
  static const Format half = {ReadHalf, 2, 0x1p-10, 0x1p-14, 0.25},
                      bfloat16 = {ReadBfloat16, 2, 0x1p-7, 0x1p-126, 0.25}, single = {ReadFloat, 4, 0x1p-23, 0x1p-126},
                      full = {ReadDouble, 8, 0x1p-52, 0x1p-1022};
  switch (dtype) {
    case DType::kHalf: return &half;
    case DType::kBfloat16: return &bfloat16;
    case DType::kFloat:
    case DType::kComplex64: return &single;
    case DType::kDouble:
    case DType::kComplex128: return &full;
    default: return nullptr;
  }
}
bool IsComplex(DType dtype) { return dtype == DType::kComplex64 || dtype == DType::kComplex128; }

std::string Text(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}
template <typename T>
std::string IntText(const uint8_t* at) {
  return std::to_string(Raw<T>(at));
}
std::string ElementText(const Tensor& tensor, size_t i) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kString) return '"' + std::string(tensor.string(i)) + '"';
  const uint8_t* at = tensor.bytes().data() + i * host::DTypeSize(dtype);
  if (const Format* format = FormatOf(dtype)) {
    return Text(format->read(at)) + (IsComplex(dtype) ? "+" + Text(format->read(at + format->size)) + "i" : "");
  }
  switch (dtype) {
    case DType::kInt8: return IntText<int8_t>(at);
    case DType::kInt16: return IntText<int16_t>(at);
    case DType::kInt32: return IntText<int32_t>(at);
    case DType::kInt64: return IntText<int64_t>(at);
    case DType::kUint16: return IntText<uint16_t>(at);
    case DType::kUint32: return IntText<uint32_t>(at);
    case DType::kUint64: return IntText<uint64_t>(at);
    default: return IntText<uint8_t>(at);
  }
}

// What is compared of two elements: how far apart they are, in parts of what is allowed; more than 1 is too far.
class FloatDistance {
 public:
  FloatDistance(const Tensor& want, const Tolerance& tolerance)
      : format_(*FormatOf(want.dtype())), parts_(IsComplex(want.dtype()) ? 2 : 1), tolerance_(tolerance) {
    const auto bytes = want.bytes();
    for (size_t at = 0; at < bytes.size(); at += format_.size) {
      const double size = std::abs(format_.read(bytes.data() + at));
      if (std::isfinite(size)) largest_ = std::max(largest_, size);
    }
  }
  double operator()(const uint8_t* want, const uint8_t* got) const {
    // The precision of a complex number is that of its larger part.
    double size = 0, worst = 0;
    bool odd_want = false, odd_got = false;
    for (size_t part = 0; part < parts_; ++part) {
      const double x = format_.read(want + part * format_.size), y = format_.read(got + part * format_.size);
      size = std::max(size, std::abs(x));
      odd_want |= !std::isfinite(x);
      odd_got |= !std::isfinite(y);
    }
    // How infinities and NaN go through complex arithmetic is nobody's rule: only finite numbers are compared.
    if (parts_ == 2 && (odd_want || odd_got)) return odd_want ? 0 : kFar;
    for (size_t part = 0; part < parts_; ++part) {
      const double x = format_.read(want + part * format_.size), y = format_.read(got + part * format_.size);
      worst = std::max(worst, Part(x, y, size));
    }
    return worst;
  }

 private:
  static constexpr double kFar = std::numeric_limits<double>::infinity();
  double Part(double want, double got, double size) const {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) == std::isnan(got) ? 0 : kFar;
    if (want == got) {
      const bool differ = want == 0 && std::signbit(want) != std::signbit(got);
      return differ && tolerance_.signed_zero && parts_ == 1 ? kFar : 0;
    }
    const double apart = std::abs(want - got);
    if (apart <= std::max(format_.smallest, tolerance_.nothing)) return 0;
    if (std::isinf(want) && tolerance_.overflows && format_.size == 2 && std::signbit(want) == std::signbit(got) &&
        std::abs(got) > 0x1p14)
      return 0;
    if (!std::isfinite(apart)) return kFar;
    const bool of_one = tolerance_.of_one || (tolerance_.complex_of_one && parts_ == 2);
    const double scale = of_one ? std::max(largest_, 1.0) : tolerance_.of_largest ? largest_ : size;
    // Formulas of complex functions cancel in ways of their own.
    const double units = std::max(1.0, tolerance_.units * format_.share) * (parts_ == 2 ? 8 : 1);
    return apart / std::max(scale * format_.epsilon * units, format_.smallest);
  }

  const Format& format_;
  const size_t parts_;
  const Tolerance tolerance_;
  double largest_ = 0;
};

using Distance = std::function<double(size_t)>;

Distance DistanceOf(const Tensor& want, const Tensor& got, const Tolerance& tolerance) {
  const size_t size = host::DTypeSize(want.dtype());
  const uint8_t *x = want.bytes().data(), *y = got.bytes().data();
  if (want.dtype() == DType::kString) return [&](size_t i) { return want.string(i) == got.string(i) ? 0.0 : 2.0; };
  if (FormatOf(want.dtype()) == nullptr)
    return [=](size_t i) { return std::memcmp(x + i * size, y + i * size, size) == 0 ? 0.0 : 2.0; };
  return [=, distance = FloatDistance(want, tolerance)](size_t i) { return distance(x + i * size, y + i * size); };
}

}  // namespace

std::string Compare(const Tensor& want, const Tensor& got, const Tolerance& tolerance) {
  if (want.dtype() != got.dtype())
    return "dtype " + host::DTypeName(got.dtype()) + " instead of " + host::DTypeName(want.dtype());
  if (!(want.shape() == got.shape()))
    return "shape " + got.shape().ToString() + " instead of " + want.shape().ToString();
  const auto count = static_cast<size_t>(want.element_count());
  const Distance distance = DistanceOf(want, got, tolerance);
  size_t wrong = 0, worst = 0;
  double farthest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double apart = distance(i);
    if (!(apart > 1)) continue;
    ++wrong;
    if (apart > farthest) {
      farthest = apart;
      worst = i;
    }
  }
  if (wrong == 0) return "";
  return std::to_string(wrong) + " of " + std::to_string(count) + " elements of " + host::DTypeName(want.dtype()) +
         want.shape().ToString() + " differ; worst is [" + std::to_string(worst) + "]: " + ElementText(got, worst) +
         " instead of " + ElementText(want, worst) + ", " + Text(farthest) + " times what is allowed";
}

Differences Differences::Read(const std::string& path) {
  Differences differences;
  std::ifstream file(path);
  differences.json_ = Json::parse(file);
  return differences;
}

Tolerance Differences::Of(const char* table, const std::string& op) const {
  const Json& entries = json_[table];
  Tolerance tolerance;
  for (const std::string& name : {std::string("*"), op}) {
    const auto found = entries.find(name);
    if (found == entries.end()) continue;
    tolerance.units = found->value("units", tolerance.units);
    tolerance.of_largest = found->value("of_largest", tolerance.of_largest);
    tolerance.of_one = found->value("of_one", tolerance.of_one);
    tolerance.complex_of_one = found->value("complex_of_one", tolerance.complex_of_one);
    tolerance.overflows = found->value("overflows", tolerance.overflows);
    tolerance.signed_zero = found->value("signed_zero", tolerance.signed_zero);
    tolerance.nothing = found->value("nothing", tolerance.nothing);
  }
  return tolerance;
}

bool Differences::Says(const char* table, const std::string& op, const std::string& error) const {
  for (const Json& entry : json_[table]) {
    const Json& ops = entry["ops"];
    const bool named = std::find(ops.begin(), ops.end(), op) != ops.end();
    if (named && error.find(entry["error"].get<std::string>()) != std::string::npos) return true;
  }
  return false;
}

}  // namespace tenon::golden
