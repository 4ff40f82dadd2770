// SPDX-License-Identifier: Apache-2.0
// The Fourier transform of one line of complex numbers, of any length: Eigen's kissfft where 2, 3 and 5 alone divide it, else Bluestein's
// convolution with a chirp, which is a transform of a power of 2; both take n log n steps. In double whatever the tensors are.
#ifndef TENON_DEVICES_CPU_KERNELS_FOURIER_H_
#define TENON_DEVICES_CPU_KERNELS_FOURIER_H_

#include <unsupported/Eigen/FFT>

#include <bit>
#include <complex>
#include <cstdint>
#include <numbers>
#include <vector>

#include "kernels/types.h"

namespace tenon::cpu {

class Fourier {
 public:
  using Complex = std::complex<double>;

  Fourier() = default;
  // length >= 1; UNIMPLEMENTED where kissfft's indices would not hold it.
  Fourier(int64_t length, bool inverse) : length_(length) {
    if (length > kLongest) sdk::Fail(TENON_UNIMPLEMENTED, "a Fourier transform of ", length, " elements; the longest line is ", kLongest);
    if (length == 1) return;  // which kissfft takes for a factor
    if (IsSmooth(length)) {
      first_ = PlanOf(length, inverse);
      return;
    }
    padded_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * length - 1)));
    first_ = PlanOf(padded_, false);
    second_ = PlanOf(padded_, true);
    chirp_.resize(static_cast<size_t>(length));
    std::vector<Complex> mirrored(static_cast<size_t>(padded_));
    for (int64_t k = 0; k < length; ++k) {  // exp(-i pi k^2 / n): k^2 modulo 2 n, before it is rounded
      const double angle = std::numbers::pi * static_cast<double>(k * k % (2 * length)) / static_cast<double>(length);
      const auto at = static_cast<size_t>(k);
      chirp_[at] = Complex(std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle));
      mirrored[at] = std::conj(chirp_[at]);
      if (k > 0) mirrored[static_cast<size_t>(padded_ - k)] = mirrored[at];
    }
    filter_.resize(static_cast<size_t>(padded_));
    first_.work(0, filter_.data(), mirrored.data(), 1, 1);
    for (Complex& value : filter_) value /= static_cast<double>(padded_);
  }

  int64_t length() const { return length_; }
  // Complex numbers of memory that Run needs for itself.
  int64_t scratch() const { return 2 * padded_; }
  // from and to: length() elements, which do not overlap. For any number of threads.
  void Run(const Complex* from, Complex* to, Complex* scratch) const {
    if (length_ == 1) return void(to[0] = from[0]);
    if (padded_ == 0) return first_.work(0, to, from, 1, 1);
    Complex* spread = scratch;
    Complex* spectrum = scratch + padded_;
    for (int64_t k = 0; k < length_; ++k) spread[k] = from[k] * chirp_[static_cast<size_t>(k)];
    std::fill(spread + length_, spread + padded_, Complex());
    first_.work(0, spectrum, spread, 1, 1);
    for (int64_t k = 0; k < padded_; ++k) spectrum[k] *= filter_[static_cast<size_t>(k)];
    second_.work(0, spread, spectrum, 1, 1);
    for (int64_t k = 0; k < length_; ++k) to[k] = spread[k] * chirp_[static_cast<size_t>(k)];
  }

 private:
  using Plan = Eigen::internal::kiss_cpx_fft<double>;
  static constexpr int64_t kLongest = int64_t{1} << 27;

  static bool IsSmooth(int64_t n) {
    for (const int64_t factor : {2, 3, 5})
      while (n % factor == 0) n /= factor;
    return n == 1;
  }
  static Plan PlanOf(int64_t n, bool inverse) {
    Plan plan;
    plan.make_twiddles(static_cast<int>(n), inverse);
    plan.factorize(static_cast<int>(n));
    return plan;
  }

  int64_t length_ = 0, padded_ = 0;
  mutable Plan first_{}, second_{};  // work() only reads where no factor is larger than 5
  std::vector<Complex> chirp_, filter_;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_FOURIER_H_
