// SPDX-License-Identifier: Apache-2.0
// The Fourier transform of lines of complex numbers, of any length. Of one line: Eigen's kissfft where 2, 3 and 5 alone divide it, else Bluestein's
// convolution with a chirp, which is a transform of a power of 2; both take n log n steps. In double whatever the tensors are.
#ifndef TENON_DEVICES_CPU_KERNELS_FOURIER_H_
#define TENON_DEVICES_CPU_KERNELS_FOURIER_H_

#include <unsupported/Eigen/FFT>

#include <bit>
#include <complex>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "kernels/types.h"
#include "kernels/vector.h"

namespace tenon::cpu {

// Transforms of kLines lines at once, which lie side by side: element k of line l at [k][real, imaginary][l]. Of lengths that 2, 3 and 5 alone divide.
// Stockham's order: each pass takes a factor off, from one buffer to the other, and the result comes out sorted.
class FourierLines {
 public:
  using Complex = std::complex<double>;
  static constexpr int64_t kLines = 8;

  FourierLines() = default;
  FourierLines(int64_t length, bool inverse) : inverse_(inverse) {
    for (int64_t left = length; left > 1;) {
      const int64_t factor = left % 4 == 0 ? 4 : left % 2 == 0 ? 2 : left % 3 == 0 ? 3 : 5;
      passes_.push_back({factor, left / factor, length / left, static_cast<int64_t>(turns_.size())});
      for (int64_t q = 0; q < left / factor; ++q)
        for (int64_t t = 1; t < factor; ++t) turns_.push_back(Turn(q * t, left));
      left /= factor;
    }
  }
  // x holds the lines; both have room for 16 length numbers. Gives back which of the two holds the result.
  double* Run(double* x, double* y) const {
    for (const Pass& pass : passes_) {
      switch (pass.factor) {
        case 2: Do<2>(pass, x, y); break;
        case 3: Do<3>(pass, x, y); break;
        case 4: Do<4>(pass, x, y); break;
        default: Do<5>(pass, x, y);
      }
      std::swap(x, y);
    }
    return x;
  }

 private:
  using Row = VectorOf<double, kLines>;
  using Vector = Row::Type;
  struct Numbers {
    Vector real, imaginary;
  };
  struct Pass {
    int64_t factor, rest, stride, turns;  // rest: what the length still is, over the factor; stride: what it was before over it
  };
  Complex Turn(int64_t part, int64_t whole) const {
    const double angle = 2 * std::numbers::pi * static_cast<double>(part) / static_cast<double>(whole);
    return {std::cos(angle), inverse_ ? std::sin(angle) : -std::sin(angle)};
  }
  [[gnu::always_inline]] static Numbers Load(const double* at) { return {Row::Load(at), Row::Load(at + kLines)}; }
  [[gnu::always_inline]] static Numbers Turned(const Numbers& a, Complex by) {
    return {a.real * by.real() - a.imaginary * by.imag(), a.real * by.imag() + a.imaginary * by.real()};
  }
  [[gnu::always_inline]] static Numbers Sum(const Numbers& a, const Numbers& b) { return {a.real + b.real, a.imaginary + b.imaginary}; }
  [[gnu::always_inline]] static Numbers Difference(const Numbers& a, const Numbers& b) { return {a.real - b.real, a.imaginary - b.imaginary}; }
  // A transform of kFactor elements.
  template <int kFactor>
  [[gnu::always_inline]] void Small(const Numbers* a, const Complex* roots, Numbers* b) const {
    if constexpr (kFactor == 2) {
      b[0] = Sum(a[0], a[1]);
      b[1] = Difference(a[0], a[1]);
    } else if constexpr (kFactor == 4) {
      const Numbers even = Sum(a[0], a[2]), odd = Sum(a[1], a[3]), apart = Difference(a[0], a[2]), other = Difference(a[1], a[3]);
      const Numbers turned = inverse_ ? Numbers{-other.imaginary, other.real} : Numbers{other.imaginary, -other.real};
      b[0] = Sum(even, odd);
      b[1] = Sum(apart, turned);
      b[2] = Difference(even, odd);
      b[3] = Difference(apart, turned);
    } else {
      for (int t = 0; t < kFactor; ++t) {
        b[t] = a[0];
        for (int r = 1; r < kFactor; ++r) b[t] = Sum(b[t], Turned(a[r], roots[r * t % kFactor]));
      }
    }
  }
  template <int kFactor>
  void Do(const Pass& pass, const double* x, double* y) const {
    Complex roots[kFactor];
    for (int r = 0; r < kFactor; ++r) roots[r] = Turn(r, kFactor);
    for (int64_t q = 0; q < pass.rest; ++q) {
      const Complex* turns = turns_.data() + pass.turns + q * (kFactor - 1);
      for (int64_t j = 0; j < pass.stride; ++j) {
        Numbers a[kFactor], b[kFactor];
        for (int r = 0; r < kFactor; ++r) a[r] = Load(x + 2 * kLines * (j + pass.stride * (q + pass.rest * r)));
        Small<kFactor>(a, roots, b);
        for (int t = 0; t < kFactor; ++t) {
          const Numbers out = t == 0 ? b[0] : Turned(b[t], turns[t - 1]);
          double* to = y + 2 * kLines * (j + pass.stride * (kFactor * q + t));
          Row::Store(to, out.real);
          Row::Store(to + kLines, out.imaginary);
        }
      }
    }
  }
  bool inverse_ = false;
  std::vector<Pass> passes_;
  std::vector<Complex> turns_;
};

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
      if (length <= kLongestOfSeveral) lines_ = FourierLines(length, inverse);
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
  // Several lines at once; nullptr: not of this length, or so long that they would take too much memory.
  const FourierLines* lines() const { return length_ > 1 && length_ <= kLongestOfSeveral && padded_ == 0 ? &lines_ : nullptr; }
  // Complex numbers of memory for lines that are transformed and what they become, one or several.
  int64_t memory() const { return lines() != nullptr ? 2 * FourierLines::kLines * length_ : sdk::Add(2 * length_, scratch()); }
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
  static constexpr int64_t kLongest = int64_t{1} << 27, kLongestOfSeveral = 1 << 16;

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
  FourierLines lines_;
  mutable Plan first_{}, second_{};  // work() only reads where no factor is larger than 5
  std::vector<Complex> chirp_, filter_;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_FOURIER_H_
