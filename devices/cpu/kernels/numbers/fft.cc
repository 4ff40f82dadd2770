// SPDX-License-Identifier: Apache-2.0
// Fourier transforms along the last one, two or three dims: line by line along each of them, in double.
#include "kernels/numbers/fourier.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/moves/transpose_tile.h"

namespace tenon::cpu {
namespace {

using Complex = Fourier::Complex;

enum class FourierKind { kForward, kInverse, kToComplex, kToReal };

// Where the elements of the lines along one dim of a tensor are.
struct Lines {
  Lines(sdk::Dims dims, size_t along) : stride(sdk::Count(dims.subspan(along + 1))), length(dims[along]) {}
  int64_t begin(int64_t line) const { return line / stride * stride * length + line % stride; }
  int64_t stride, length;
};

// The transformed part of `from` begins where `from` does, in each dim.
template <int kRank, FourierKind kKind>
struct FftKernel {
  static constexpr bool kOfReal = kKind == FourierKind::kToComplex || kKind == FourierKind::kToReal;
  static constexpr bool kBack = kKind == FourierKind::kInverse || kKind == FourierKind::kToReal;
  static constexpr size_t kLast = kRank - 1;
  static constexpr int64_t kBetween = 5'000'000;  // nanoseconds, of preparing a long line

  struct Plan {
    Plan(const FftKernel&, sdk::PrepareContext& c) {
      const sdk::Dims in = sdk::DimsOf(c.input(0)), out = sdk::DimsOf(c.output(0));
      if (in.size() < kRank || out.size() != in.size())
        sdk::Fail(TENON_INVALID_ARGUMENT, "an input of shape ", in, "; the transform needs ", kRank, " dims at least");
      outer = sdk::Count(in.first(in.size() - kRank));
      empty = sdk::Count(out) == 0;
      if (empty) return;
      // The spectrum has the dims of the complex side, cut to what is transformed; its last line may be half.
      int64_t memory = 0, left = kBetween;
      const auto poll = [&c, &left](int64_t nanoseconds) {
        left -= nanoseconds;
        if (left > 0) return;
        left = kBetween;
        const tenon_prepare_args& args = c.args();
        if (TENON_CALLABLE(args.services, is_cancelled) && args.services->is_cancelled(args.context) != 0)
          sdk::Fail(TENON_CANCELLED, "nobody waits for it any more");
      };
      for (size_t d = 0; d < kRank; ++d) {
        const size_t at = in.size() - kRank + d;
        int64_t length = out[at];
        bool or_less = false;
        if (kKind == FourierKind::kToComplex && d == kLast) {  // of two lengths the output has as many elements
          const int32_t* known = c.Constant<int32_t>(1);
          length = known != nullptr && known[d] / 2 + 1 == out[at] ? known[d] : 2 * out[at] - 1;
          or_less = known == nullptr && length > 1;
        }
        spectrum[d] = kKind == FourierKind::kToReal && d == kLast ? length / 2 + 1 : out[at];
        if (length < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "a Fourier transform of no elements");
        lines[d] = Fourier(length, kBack, poll);
        if (or_less) even = Fourier(length - 1, kBack, poll);
        memory = std::max({memory, lines[d].memory(), even.memory()});
        elements = sdk::Multiply(elements, spectrum[d]);
      }
      shares = c.threads();
      share = sdk::Multiply(memory, sizeof(Complex));
      whole = c.Workspace(kRank == 1 ? 0 : sdk::Multiply(sdk::Multiply(outer, elements), sizeof(Complex)));
      rest = c.Workspace(sdk::Multiply(shares, share));
    }
    std::array<Fourier, kRank> lines;
    Fourier even;  // the last line's other length, where a run says which
    std::array<int64_t, kRank> spectrum = {};
    int64_t outer = 1, elements = 1, shares = 1, share = 0, whole = 0, rest = 0;
    bool empty = false;
  };

  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.empty) return;
    double size = 1;
    for (const Fourier& line : plan.lines) size *= static_cast<double>(line.length());
    const bool wide = c.input_view(0).dtype == TENON_DT_DOUBLE || c.input_view(0).dtype == TENON_DT_COMPLEX128;
    wide ? Typed<double>(plan, c, 1 / size) : Typed<float>(plan, c, 1 / size);
  }

 private:
  template <class T>
  static void Typed(const Plan& plan, const sdk::RunContext& c, double scale) {
    using From = std::conditional_t<kKind == FourierKind::kToComplex, T, std::complex<T>>;
    using To = std::conditional_t<kKind == FourierKind::kToReal, T, std::complex<T>>;
    const From* from = c.input<From>(0);
    To* to = c.output<To>(0);
    const sdk::Dims in = sdk::DimsOf(c.input_view(0)).last(kRank), out = sdk::DimsOf(c.output_view(0)).last(kRank);
    const int64_t inputs = sdk::Count(in), outputs = sdk::Count(out);
    Complex* whole = c.workspace<Complex>(plan.whole);
    const sdk::Dims spectrum(plan.spectrum);
    const Fourier& last = Last(plan, c);

    const auto read = [&](int64_t line, Complex* values) {  // of the last dim, from the input
      const From* row = from + Row(in, spectrum, line, inputs);
      if constexpr (kKind == FourierKind::kToReal) {
        Unfold([&](int64_t k) { return Complex(row[k]); }, last.length(), values);
      } else {
        for (int64_t k = 0; k < last.length(); ++k) values[k] = Complex(row[k]);
      }
    };
    const auto write = [&](int64_t line, const Complex* values) {  // of the last dim, to the output
      To* row = to + Row(out, out, line, outputs);
      for (int64_t k = 0; k < out[kLast]; ++k) {
        const Complex value = kBack ? values[k] * scale : values[k];
        if constexpr (kKind == FourierKind::kToReal) row[k] = static_cast<T>(value.real());
        else row[k] = To(static_cast<T>(value.real()), static_cast<T>(value.imag()));
      }
    };
    const int64_t rows = plan.outer * (plan.elements / plan.spectrum[kLast]);
    if constexpr (kRank == 1) {
      Each(plan, c, last, rows, read, write);
    } else if constexpr (kKind == FourierKind::kToReal) {
      // The other dims first, of which there is half, and then the lines that become real.
      c.ParallelFor(rows, 2.0 * static_cast<double>(plan.spectrum[kLast]), [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          const From* row = from + Row(in, spectrum, line, inputs);
          for (int64_t k = 0; k < plan.spectrum[kLast]; ++k) whole[line * plan.spectrum[kLast] + k] = Complex(row[k]);
        }
      });
      Others(plan, c, whole);
      const auto half = [&](int64_t line, Complex* values) {
        const Complex* row = whole + line * plan.spectrum[kLast];
        Unfold([&](int64_t k) { return row[k]; }, last.length(), values);
      };
      Each(plan, c, last, rows, half, write);
    } else {
      const auto keep = [&](int64_t line, const Complex* values) {
        std::copy_n(values, plan.spectrum[kLast], whole + line * plan.spectrum[kLast]);
      };
      Each(plan, c, last, rows, read, keep);
      Others(plan, c, whole);
      c.ParallelFor(rows, 2.0 * static_cast<double>(plan.spectrum[kLast]), [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) write(line, whole + line * plan.spectrum[kLast]);
      });
    }
  }

  // Where line `line` of a spectrum's last dim begins in a tensor of `elements` whose dims are `dims`, at least as
  // large.
  static int64_t Row(sdk::Dims dims, sdk::Dims spectrum, int64_t line, int64_t elements) {
    int64_t at = 0, stride = dims[kLast];
    for (size_t d = kLast; d-- > 0;) {
      at += line % spectrum[d] * stride;
      line /= spectrum[d];
      stride *= dims[d];
    }
    return at + line * elements;
  }

  // A line out of its half spectrum. What is its own mirror image is real.
  template <class Half>
  static void Unfold(const Half& half, int64_t length, Complex* values) {
    values[0] = half(0).real();
    for (int64_t k = 1; 2 * k <= length; ++k) {
      values[k] = half(k);
      values[length - k] = std::conj(values[k]);
    }
    if (length % 2 == 0) values[length / 2] = half(length / 2).real();
  }

  // The transform of the last dim; its length may be one less than what the output's shape allows.
  static const Fourier& Last(const Plan& plan, const sdk::RunContext& c) {
    if constexpr (kKind == FourierKind::kToComplex) {
      const int64_t length = c.input<int32_t>(1)[kLast];
      if (length == plan.even.length()) return plan.even;
      if (length != plan.lines[kLast].length())
        sdk::Fail(TENON_INVALID_ARGUMENT, "fft_length ", length, " does not give the output's shape");
    }
    return plan.lines[kLast];
  }

  // All dims of the spectrum but the last, in place.
  static void Others(const Plan& plan, const sdk::RunContext& c, Complex* whole) {
    for (size_t d = 0; d < kLast; ++d) {
      const Lines lines(sdk::Dims(plan.spectrum), d);
      const auto read = [&](int64_t line, Complex* values) {
        const Complex* at = whole + lines.begin(line);
        for (int64_t k = 0; k < lines.length; ++k) values[k] = at[k * lines.stride];
      };
      const auto write = [&](int64_t line, const Complex* values) {
        Complex* at = whole + lines.begin(line);
        for (int64_t k = 0; k < lines.length; ++k) at[k * lines.stride] = values[k];
      };
      Each(plan, c, plan.lines[d], plan.outer * (plan.elements / lines.length), read, write);
    }
  }

  // The same for a few lines side by side: they are read one after the other, and turned by tiles.
  template <class Read, class Write>
  static void Several(const FourierLines& lines, int64_t length, int64_t line, int64_t count, Complex* memory,
                      const Read& read, const Write& write) {
    constexpr int64_t kLines = FourierLines::kLines;
    Complex *rows = memory, *other = memory + kLines * length;
    for (int64_t l = 0; l < count; ++l) read(line + l, rows + l * length);
    std::fill(rows + count * length, rows + kLines * length, Complex());
    auto *x = reinterpret_cast<double*>(other), *y = reinterpret_cast<double*>(rows);
    Turn(y, 2 * length, kLines, x);
    double* found = lines.Run(x, y);
    double* free = found == x ? y : x;
    Turn(found, kLines, 2 * length, free);
    for (int64_t l = 0; l < count; ++l) write(line + l, reinterpret_cast<const Complex*>(free) + l * length);
  }
  // to[column][row] = from[row][column]; one of the two is FourierLines::kLines.
  static void Turn(const double* from, int64_t columns, int64_t rows, double* to) {
    constexpr int64_t kTile = kTransposeTile<uint64_t>;
    const auto *source = reinterpret_cast<const uint64_t*>(from);
    auto* target = reinterpret_cast<uint64_t*>(to);
    int64_t whole = 0;
    if constexpr (kTile > 0) {
      if (rows % kTile == 0) {
        for (; whole + kTile <= columns; whole += kTile)
          for (int64_t row = 0; row < rows; row += kTile)
            TransposeTile<uint64_t>::Run(source + row * columns + whole, columns, target + whole * rows + row, rows);
      }
    }
    for (int64_t column = whole; column < columns; ++column)
      for (int64_t row = 0; row < rows; ++row) to[column * rows + row] = from[row * columns + column];
  }

  // write(line, transform of what read(line, memory) wrote) for each line; a share of the lines has memory of its own.
  template <class Read, class Write>
  static void Each(const Plan& plan, const sdk::RunContext& c, const Fourier& transform, int64_t count,
                   const Read& read, const Write& write) {
    const int64_t shares = std::min(plan.shares, count), length = transform.length();
    const double one = 10 + (transform.lines() != nullptr ? 1.0 : 4.0) *
                                static_cast<double>(std::max(length, transform.scratch())) *
                                std::log2(static_cast<double>(length) + 1);
    c.ParallelFor(shares, one * static_cast<double>(count) / static_cast<double>(shares),
                  [&](int64_t first, int64_t last) {
                    sdk::CancelPoll poll(c);
                    for (int64_t share = first; share < last; ++share) {
                      Complex* from = c.workspace<Complex>(plan.rest + share * plan.share);
                      if (const FourierLines* lines = transform.lines(); lines != nullptr && count > 1) {
                        for (int64_t line = share * count / shares, end = (share + 1) * count / shares; line < end;
                             line += FourierLines::kLines) {
                          Several(*lines, length, line, std::min(FourierLines::kLines, end - line), from, read, write);
                          poll(static_cast<int64_t>(2 * one));
                        }
                        continue;
                      }
                      Complex *to = from + length, *scratch = to + length;
                      for (int64_t line = share * count / shares; line < (share + 1) * count / shares; ++line) {
                        read(line, from);
                        transform.Run(from, to, scratch, poll);
                        write(line, to);
                        poll(static_cast<int64_t>(one));
                      }
                    }
                  });
  }
};

using Complexes = Types<std::complex<float>, std::complex<double>>;
using FourierReals = Types<float, double>;

template <int kRank, FourierKind kKind>
constexpr tenon_kernel_registration Transform(std::string_view op) {
  if constexpr (kKind == FourierKind::kForward || kKind == FourierKind::kInverse) {
    return CpuKernel<FftKernel<kRank, kKind>>(
        op, {.constraints = sdk::Constraints<Complexes::Constraint<"Tcomplex">>::list});
  } else {
    return CpuKernel<FftKernel<kRank, kKind>>(
        op,
        {.constraints = sdk::Constraints<FourierReals::Constraint<"Treal">, Complexes::Constraint<"Tcomplex">>::list});
  }
}

}  // namespace

TENON_CPU_KERNEL(FFT) = Transform<1, FourierKind::kForward>("FFT");
TENON_CPU_KERNEL(IFFT) = Transform<1, FourierKind::kInverse>("IFFT");
TENON_CPU_KERNEL(FFT2D) = Transform<2, FourierKind::kForward>("FFT2D");
TENON_CPU_KERNEL(IFFT2D) = Transform<2, FourierKind::kInverse>("IFFT2D");
TENON_CPU_KERNEL(FFT3D) = Transform<3, FourierKind::kForward>("FFT3D");
TENON_CPU_KERNEL(IFFT3D) = Transform<3, FourierKind::kInverse>("IFFT3D");
TENON_CPU_KERNEL(RFFT) = Transform<1, FourierKind::kToComplex>("RFFT");
TENON_CPU_KERNEL(IRFFT) = Transform<1, FourierKind::kToReal>("IRFFT");
TENON_CPU_KERNEL(RFFT2D) = Transform<2, FourierKind::kToComplex>("RFFT2D");
TENON_CPU_KERNEL(IRFFT2D) = Transform<2, FourierKind::kToReal>("IRFFT2D");
TENON_CPU_KERNEL(RFFT3D) = Transform<3, FourierKind::kToComplex>("RFFT3D");
TENON_CPU_KERNEL(IRFFT3D) = Transform<3, FourierKind::kToReal>("IRFFT3D");

}  // namespace tenon::cpu
