// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/cli/compare/deviation.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "sdk/app/cli/describe.h"
#include "sdk/app/cli/print_tensor.h"

namespace tenon::cli {
namespace {

using host::DType;
using host::Tensor;

template <typename T>
T At(const Tensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value, tensor.bytes().data() + static_cast<size_t>(index) * sizeof(T), sizeof(T));
  return value;
}

// Infinities of one sign are equal, and so is what is no number in both.
double Difference(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double apart = std::abs(a - b);
  return std::isfinite(apart) ? apart : std::numeric_limits<double>::infinity();
}
double Difference(std::complex<double> a, std::complex<double> b) {
  return std::hypot(Difference(a.real(), b.real()), Difference(a.imag(), b.imag()));
}
double Magnitude(double value) { return std::isfinite(value) ? std::abs(value) : 0; }
double Magnitude(std::complex<double> value) { return std::hypot(Magnitude(value.real()), Magnitude(value.imag())); }

// at(tensor, index): an element as a double or a complex of them.
template <typename At>
void CompareNumbers(const Tensor& reference, const Tensor& other, double unit, At&& at, Deviation* out) {
  out->rounds = true;
  out->unit = unit;
  double largest = 0;
  for (int64_t i = 0; i < out->elements; ++i) {
    const auto wanted = at(reference, i), found = at(other, i);
    out->magnitude = std::max(out->magnitude, Magnitude(wanted));
    const double apart = Difference(wanted, found);
    if (apart == 0) continue;
    ++out->different;
    if (out->worst >= 0 && apart <= largest) continue;
    largest = apart;
    out->worst = i;
  }
  if (largest > 0)
    out->relative = out->magnitude == 0 ? std::numeric_limits<double>::infinity() : largest / out->magnitude;
}

void CompareExactly(const Tensor& reference, const Tensor& other, Deviation* out) {
  const uint64_t size = host::DTypeSize(reference.dtype());
  const auto equal = [&](int64_t i) {
    if (reference.dtype() == DType::kString)
      return reference.string(static_cast<uint64_t>(i)) == other.string(static_cast<uint64_t>(i));
    const uint64_t at = static_cast<uint64_t>(i) * size;
    return std::memcmp(reference.bytes().data() + at, other.bytes().data() + at, size) == 0;
  };
  for (int64_t i = 0; i < out->elements; ++i) {
    if (equal(i)) continue;
    if (++out->different == 1) out->worst = i;
  }
}

}  // namespace

Deviation Compare(const Tensor& reference, const Tensor& other) {
  Deviation out;
  const std::string wanted = TensorText(reference.dtype(), reference.shape()),
                    found = TensorText(other.dtype(), other.shape());
  if (wanted != found) {
    out.misfit = found + " instead of " + wanted;
    return out;
  }
  out.elements = reference.shape().element_count();
  const auto numbers = [&](double unit, auto at) { CompareNumbers(reference, other, unit, at, &out); };
  switch (reference.dtype()) {
    case DType::kFloat:
      numbers(std::ldexp(1, -24), [](const Tensor& t, int64_t i) -> double { return At<float>(t, i); });
      break;
    case DType::kDouble:
      numbers(std::ldexp(1, -53), [](const Tensor& t, int64_t i) { return At<double>(t, i); });
      break;
    case DType::kHalf:
      numbers(std::ldexp(1, -11), [](const Tensor& t, int64_t i) -> double { return HalfToFloat(At<uint16_t>(t, i)); });
      break;
    case DType::kBfloat16:
      numbers(std::ldexp(1, -8),
              [](const Tensor& t, int64_t i) -> double { return Bfloat16ToFloat(At<uint16_t>(t, i)); });
      break;
    case DType::kComplex64:
      numbers(std::ldexp(1, -24),
              [](const Tensor& t, int64_t i) { return std::complex<double>(At<std::complex<float>>(t, i)); });
      break;
    case DType::kComplex128:
      numbers(std::ldexp(1, -53), [](const Tensor& t, int64_t i) { return At<std::complex<double>>(t, i); });
      break;
    default: CompareExactly(reference, other, &out);
  }
  return out;
}

double PredictedDeviation(const Deviation& output, const std::vector<const Deviation*>& inputs, double policy_unit,
                          double slack) {
  double carried = 0, growth = 1;
  int64_t read = 0;
  for (const Deviation* input : inputs) {
    const double over_output = output.magnitude > 0 ? input->magnitude / output.magnitude : 1;
    const double grows = input->rounds ? std::max({1.0, input->magnitude, over_output}) : 1;
    carried += input->relative * grows;
    growth = std::max(growth, grows);
    read += input->elements;
  }
  const double terms =
      std::max(1.0, static_cast<double>(read) / static_cast<double>(std::max<int64_t>(1, output.elements)));
  const double predicted = slack * (carried + std::max(output.unit, policy_unit) * std::sqrt(terms) * growth);
  return std::min(predicted, 1.0);
}

}  // namespace tenon::cli
