// SPDX-License-Identifier: Apache-2.0
// The Fourier transform of lines of complex numbers, of any length. Of one line: Eigen's kissfft where 2, 3 and 5 alone
// divide it, else Bluestein's convolution with a chirp, which is a transform of a power of 2; both take n log n steps.
// In double whatever the tensors are.
#ifndef TENON_DEVICES_CPU_KERNELS_NUMBERS_FOURIER_H_
#define TENON_DEVICES_CPU_KERNELS_NUMBERS_FOURIER_H_

#include <unsupported/Eigen/FFT>

#include <bit>
#include <complex>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

#include "kernels/common/types.h"
#include "kernels/common/vector.h"

namespace tenon::cpu {

// Transforms of kLines lines at once, which lie side by side: element k of line l at [k][real, imaginary][l]. Of
// lengths that 2, 3 and 5 alone divide. Stockham's order: each pass takes a factor off, from one buffer to the other,
// and the result comes out sorted.
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
    int64_t factor, rest, stride,
        turns;  // rest: what the length still is, over the factor; stride: what it was before over it
  };
  Complex Turn(int64_t part, int64_t whole) const {
    const double angle = 2 * std::numbers::pi * static_cast<double>(part) / static_cast<double>(whole);
    return {std::cos(angle), inverse_ ? std::sin(angle) : -std::sin(angle)};
  }
  [[gnu::always_inline]] static Numbers Load(const double* at) { return {Row::Load(at), Row::Load(at + kLines)}; }
  [[gnu::always_inline]] static Numbers Turned(const Numbers& a, Complex by) {
    return {a.real * by.real() - a.imaginary * by.imag(), a.real * by.imag() + a.imaginary * by.real()};
  }
  [[gnu::always_inline]] static Numbers Sum(const Numbers& a, const Numbers& b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
  }
  [[gnu::always_inline]] static Numbers Difference(const Numbers& a, const Numbers& b) {
    return {a.real - b.real, a.imaginary - b.imaginary};
  }
  // A transform of kFactor elements.
  template <int kFactor>
  [[gnu::always_inline]] void Small(const Numbers* a, const Complex* roots, Numbers* b) const {
    if constexpr (kFactor == 2) {
      b[0] = Sum(a[0], a[1]);
      b[1] = Difference(a[0], a[1]);
    } else if constexpr (kFactor == 4) {
      const Numbers even = Sum(a[0], a[2]), odd = Sum(a[1], a[3]), apart = Difference(a[0], a[2]),
                    other = Difference(a[1], a[3]);
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
  // length >= 1; UNIMPLEMENTED where kissfft's indices would not hold it. poll(nanoseconds) is asked now and then, and
  // may throw.
  template <class Poll>
  Fourier(int64_t length, bool inverse, Poll&& poll) : length_(length) {
    if (length > kLongest)
      sdk::Fail(TENON_UNIMPLEMENTED, "a Fourier transform of ", length, " elements; the longest line is ", kLongest);
    if (length == 1) return;  // which kissfft takes for a factor
    if (IsSmooth(length)) {
      first_ = PlanOf(length, inverse, poll);
      if (length <= kLongestOfSeveral) lines_ = FourierLines(length, inverse);
      return;
    }
    padded_ = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * length - 1)));
    first_ = PlanOf(padded_, false, poll);
    second_ = PlanOf(padded_, true, poll);
    chirp_.resize(static_cast<size_t>(length));
    std::vector<Complex> mirrored(static_cast<size_t>(padded_));
    for (int64_t k = 0; k < length; ++k, poll(kTurn)) {  // exp(-i pi k^2 / n): k^2 modulo 2 n, before it is rounded
      const double angle = std::numbers::pi * static_cast<double>(k * k % (2 * length)) / static_cast<double>(length);
      const auto at = static_cast<size_t>(k);
      chirp_[at] = Complex(std::cos(angle), inverse ? std::sin(angle) : -std::sin(angle));
      mirrored[at] = std::conj(chirp_[at]);
      if (k > 0) mirrored[static_cast<size_t>(padded_ - k)] = mirrored[at];
    }
    filter_.resize(static_cast<size_t>(padded_));
    Work(first_, 0, mirrored.data(), 1, filter_.data(), poll);
    for (Complex& value : filter_) value /= static_cast<double>(padded_);
  }

  int64_t length() const { return length_; }
  // Several lines at once; nullptr: not of this length, or so long that they would take too much memory.
  const FourierLines* lines() const {
    return length_ > 1 && length_ <= kLongestOfSeveral && padded_ == 0 ? &lines_ : nullptr;
  }
  // Complex numbers of memory for lines that are transformed and what they become, one or several.
  int64_t memory() const {
    return lines() != nullptr ? 2 * FourierLines::kLines * length_ : sdk::Add(2 * length_, scratch());
  }
  // Complex numbers of memory that Run needs for itself.
  int64_t scratch() const { return 2 * padded_; }
  // from and to: length() elements, which do not overlap. For any number of threads.
  template <class Poll>
  void Run(const Complex* from, Complex* to, Complex* scratch, Poll& poll) const {
    if (length_ == 1) return void(to[0] = from[0]);
    if (padded_ == 0) return Work(first_, 0, from, 1, to, poll);
    Complex* spread = scratch;
    Complex* spectrum = scratch + padded_;
    for (int64_t k = 0; k < length_; ++k) spread[k] = from[k] * chirp_[static_cast<size_t>(k)];
    std::fill(spread + length_, spread + padded_, Complex());
    poll(padded_);
    Work(first_, 0, spread, 1, spectrum, poll);
    for (int64_t k = 0; k < padded_; ++k) spectrum[k] *= filter_[static_cast<size_t>(k)];
    poll(padded_);
    Work(second_, 0, spectrum, 1, spread, poll);
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
  // What make_twiddles makes, of an eighth of the circle each.
  template <class Poll>
  static Plan PlanOf(int64_t n, bool inverse, Poll& poll) {
    Plan plan;
    plan.m_inverse = inverse;
    plan.m_twiddles.resize(static_cast<size_t>(n));
    const double part = 0.25 * std::numbers::pi / static_cast<double>(n), flip = inverse ? 1 : -1;
    const auto turn = [&](int64_t i) -> Complex {
      const auto angle = [part](int64_t parts) { return static_cast<double>(parts) * part; };
      if (8 * i < n) return {std::cos(angle(8 * i)), std::sin(angle(8 * i)) * flip};
      if (4 * i < n) return {std::sin(angle(2 * n - 8 * i)), std::cos(angle(2 * n - 8 * i)) * flip};
      if (8 * i < 3 * n) return {-std::sin(angle(8 * i - 2 * n)), std::cos(angle(8 * i - 2 * n)) * flip};
      return {-std::cos(angle(4 * n - 8 * i)), std::sin(angle(4 * n - 8 * i)) * flip};
    };
    plan.m_twiddles[0] = 1;
    if (n % 2 == 0) plan.m_twiddles[static_cast<size_t>(n / 2)] = -1;
    for (int64_t i = 1; 2 * i < n; ++i, poll(kTurn)) {
      plan.m_twiddles[static_cast<size_t>(i)] = turn(i);
      plan.m_twiddles[static_cast<size_t>(n - i)] = std::conj(turn(i));
    }
    plan.factorize(static_cast<int>(n));
    return plan;
  }
  // plan.work(), which calls itself, as far as it lasts.
  template <class Poll>
  static void Work(Plan& plan, size_t stage, const Complex* from, size_t stride, Complex* to, Poll& poll) {
    const int factor = plan.m_stageRadix[stage], rest = plan.m_stageRemainder[stage];
    const int64_t count = int64_t{factor} * rest;
    poll(4 * count);
    if (rest == 1 || count <= kShort) return plan.work(static_cast<int>(stage), to, from, stride, 1);
    for (int part = 0; part < factor; ++part)
      Work(plan, stage + 1, from + static_cast<size_t>(part) * stride, stride * static_cast<size_t>(factor),
           to + int64_t{part} * rest, poll);
    switch (factor) {
      case 2: plan.bfly2(to, stride, rest); break;
      case 3: plan.bfly3(to, stride, rest); break;
      case 4: plan.bfly4(to, stride, rest); break;
      default: plan.bfly5(to, stride, rest);
    }
    poll(4 * count);
  }
  static constexpr int64_t kTurn = 40, kShort = 1 << 17;

  int64_t length_ = 0, padded_ = 0;
  FourierLines lines_;
  mutable Plan first_{}, second_{};  // work() only reads where no factor is larger than 5
  std::vector<Complex> chirp_, filter_;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_NUMBERS_FOURIER_H_
