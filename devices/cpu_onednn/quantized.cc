// SPDX-License-Identifier: Apache-2.0
// QuantizedMatMul and QuantizedConv2D by oneDNN's product of unsigned and signed bytes, to the last integer what the
// plain kernels give, sums that wrap too.
//
// With b' = b - 128, which is signed, and whatever the zeros are (they need not be bytes):
//   sum (a - az)(b - bz) = sum a b' + (128 - bz) sum a - az sum (b - bz)
// where the sums go over what lies inside of the image: outside is a = 0. The last two are of rows and of columns.
#include "tenon/extras/kernel/quantization.h"

#include <array>
#include <cstring>

#include "program.h"

namespace tenon::cpu_onednn {
namespace {

constexpr double kQuantizedPerNanosecond = 200;  // multiply-adds on one core
constexpr double kSmallestQuantized = 2e4;       // below, the plain kernel is as fast
constexpr double kPiece = 2e6;          // nanoseconds of one call, between which the step can be given up

// A product of [m, k] and [k, n] in pieces of rows. Workspace: the signed bytes, their columns' sums for each tap and
// for all, and patches of each task.
class ByteProduct {
 public:
  ByteProduct(sdk::PrepareContext& c, int64_t rows, int64_t columns, int64_t inner, int64_t taps, int64_t patch)
      : m(rows), n(columns), k(inner), taps_(taps) {
    if (!HasByteProducts())
      sdk::Fail(TENON_UNIMPLEMENTED, "this CPU has no VNNI; the plain kernel sums without saturating");
    const double work = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    RefuseBelow(work, kSmallestQuantized);
    const double row = static_cast<double>(n) * static_cast<double>(k) / kQuantizedPerNanosecond;
    RefuseLong(row * 16);
    rows_ = std::clamp<int64_t>(static_cast<int64_t>(kPiece / (row + 1)), 16, 4096);
    rows_ = std::min(rows_, std::max<int64_t>(16, (m + c.threads() - 1) / std::max<int64_t>(1, c.threads())));
    pieces_ = (m + rows_ - 1) / rows_;
    tasks_ = std::max<int64_t>(1, std::min(c.threads(), pieces_));
    cost_ = work / kQuantizedPerNanosecond / static_cast<double>(tasks_);
    patch_ = sdk::Multiply(rows_, patch);
    b_at_ = c.Workspace(sdk::Multiply(k, n));
    sums_at_ = c.Workspace(sdk::Multiply(sdk::Multiply(taps + 1, n), 4));
    patch_at_ = c.Workspace(sdk::Multiply(tasks_, patch_));
  }

  // b: [k, n], or transposed [n, k], as bytes. patches(first, last, memory) gives rows [first, last) of a, `stride`
  // bytes apart, or, of a transposed one, columns; corner(row, taps' sums, out) takes off what the plain sum az * sum
  // (b - bz) has too much.
  template <class Patches, class Corner>
  void Run(sdk::RunContext c, const uint8_t* b, bool transposed_b, bool transposed_a, int64_t stride, uint32_t a_zero,
           uint32_t b_zero, const Patches& patches, const Corner& corner) const {
    auto* bytes = c.workspace<int8_t>(b_at_);
    auto* sums = c.workspace<uint32_t>(sums_at_);
    c.ParallelFor(k * n, 0.1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) bytes[i] = static_cast<int8_t>(b[i] ^ 0x80);
    });
    std::fill_n(sums, taps_ * n, -b_zero * static_cast<uint32_t>(k / taps_));
    for (int64_t tap = 0; tap < taps_; ++tap) {
      c.CheckCancelled();
      uint32_t* to = sums + tap * n;
      for (int64_t l = tap * (k / taps_); l < (tap + 1) * (k / taps_); ++l) {
        if (transposed_b) {
          for (int64_t j = 0; j < n; ++j) to[j] += b[j * k + l];
        } else {
          for (int64_t j = 0; j < n; ++j) to[j] += b[l * n + j];
        }
      }
    }
    uint32_t* all = sums + taps_ * n;  // az times the columns' sums
    std::fill_n(all, n, 0U);
    for (int64_t tap = 0; tap < taps_; ++tap)
      for (int64_t j = 0; j < n; ++j) all[j] += a_zero * sums[tap * n + j];
    c.ParallelFor(tasks_, cost_, [&](int64_t begin, int64_t end) {
      const SingleThread single;
      for (int64_t task = begin; task < end; ++task) {
        for (int64_t piece = pieces_ * task / tasks_; piece < pieces_ * (task + 1) / tasks_; ++piece) {
          c.CheckCancelled();
          const int64_t first = piece * rows_, last = std::min(m, first + rows_);
          const uint8_t* a = patches(first, last, c.workspace<uint8_t>(patch_at_ + task * patch_));
          auto* out = c.output<int32_t>(0) + first * n;
          const int32_t nothing = 0;
          const auto status =
              dnnl_gemm_u8s8s32(transposed_a ? 'T' : 'N', transposed_b ? 'T' : 'N', 'F', last - first, n, k, 1.0F, a,
                                stride, 0, bytes, transposed_b ? k : n, 0, 0.0F, out, n, &nothing);
          if (status != dnnl_success)
            sdk::Fail(TENON_INTERNAL, "oneDNN's product of bytes failed: status ", static_cast<int>(status));
          for (int64_t row = first; row < last; ++row, out += n) {
            uint32_t sum = 0;
            for (int64_t l = 0; l < k; ++l)
              sum += transposed_a ? a[l * stride + row - first] : a[(row - first) * stride + l];
            auto* to = reinterpret_cast<uint32_t*>(out);
            const uint32_t more = (128U - b_zero) * sum;
            for (int64_t j = 0; j < n; ++j) to[j] += more - all[j];
            corner(row, sums, to);
          }
        }
      }
    });
  }

  const int64_t m, n, k;

 private:
  int64_t taps_, rows_ = 1, pieces_ = 1, tasks_ = 1, patch_ = 0, b_at_ = 0, sums_at_ = 0, patch_at_ = 0;
  double cost_ = 0;
};

struct Zeros {
  Zeros(sdk::RunContext c, sdk::Bounds a, sdk::Bounds b)
      : of_a(static_cast<uint32_t>(sdk::Unbounded<uint8_t>(0, a.low, a.high))),
        of_b(static_cast<uint32_t>(sdk::Unbounded<uint8_t>(0, b.low, b.high))) {
    sdk::Bounds out(0, 0);
    sdk::ProductRange<uint8_t, uint8_t, int32_t>(a.low, a.high, b.low, b.high, &out.low, &out.high);
    out.Write(c, 1);
  }
  uint32_t of_a, of_b;
};

struct QuantizedMatMulKernel {
  explicit QuantizedMatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool("transpose_a")), transpose_b(c.Bool("transpose_b")) {}
  struct Plan : ByteProduct {
    Plan(const QuantizedMatMulKernel& kernel, sdk::PrepareContext& c) : ByteProduct(Make(kernel, c)) {}
    static ByteProduct Make(const QuantizedMatMulKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1));
      if (a.size() != 2 || b.size() != 2)
        sdk::Fail(TENON_INVALID_ARGUMENT, "matrices have 2 dims; the shapes are ", a, " and ", b);
      const int64_t m = a[kernel.transpose_a ? 1 : 0], k = a[kernel.transpose_a ? 0 : 1],
                    n = b[kernel.transpose_b ? 0 : 1];
      if (k != b[kernel.transpose_b ? 1 : 0])
        sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      return {c, m, n, k, 1, 0};
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const sdk::Bounds a(c, 2), b(c, 4);
    if (!(a.high > a.low))
      sdk::Fail(TENON_INVALID_ARGUMENT, "max_a must be larger than min_a; they are ", a.high, " and ", a.low);
    if (!(b.high > b.low))
      sdk::Fail(TENON_INVALID_ARGUMENT, "max_b must be larger than min_b; they are ", b.high, " and ", b.low);
    const Zeros zeros(c, a, b);
    const uint8_t* x = c.input<uint8_t>(0);
    const int64_t stride = transpose_a ? plan.m : plan.k;
    plan.ByteProduct::Run(
        c, c.input<uint8_t>(1), transpose_b, transpose_a, stride, zeros.of_a, zeros.of_b,
        [&](int64_t first, int64_t, uint8_t*) { return transpose_a ? x + first : x + first * stride; },
        [](int64_t, const uint32_t*, uint32_t*) {});
  }
  bool transpose_a, transpose_b;
};

struct Conv2DKernel {
  explicit Conv2DKernel(sdk::CreateContext& c) : attributes(c) {}
  struct Plan {
    Plan(const Conv2DKernel& kernel, sdk::PrepareContext& c)
        : shape(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0))),
          k(shape.filter.height * shape.filter.width * shape.filter.in),
          copied(k != shape.in.channels || shape.stride != 1 || shape.top != 0 || shape.left != 0),
          product(c, shape.out.batch * shape.out.pixels(), shape.out.channels, k,
                  shape.filter.height * shape.filter.width, copied ? k : 0) {}
    sdk::QuantizedConvolution shape;
    int64_t k;
    bool copied;
    ByteProduct product;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Zeros zeros(c, sdk::Bounds(c, 2), sdk::Bounds(c, 4));
    const sdk::QuantizedConvolution& s = plan.shape;
    const uint8_t* x = c.input<uint8_t>(0);
    const auto patches = [&](int64_t first, int64_t last, uint8_t* memory) {
      if (!plan.copied) return x + first * plan.k;
      for (int64_t row = first; row < last; ++row) Patch(s, row, x, memory + (row - first) * plan.k);
      return static_cast<const uint8_t*>(memory);
    };
    // Cells outside are 0 and not the number that stands for 0: nothing is taken off for them.
    const auto corner = [&](int64_t row, const uint32_t* sums, uint32_t* out) {
      const int64_t y = row / s.out.width % s.out.height * s.stride - s.top, at = row % s.out.width * s.stride - s.left;
      if (y >= 0 && y + s.filter.height <= s.in.height && at >= 0 && at + s.filter.width <= s.in.width) return;
      for (int64_t ky = 0; ky < s.filter.height; ++ky) {
        for (int64_t kx = 0; kx < s.filter.width; ++kx) {
          if (y + ky >= 0 && y + ky < s.in.height && at + kx >= 0 && at + kx < s.in.width) continue;
          const uint32_t* tap = sums + (ky * s.filter.width + kx) * plan.product.n;
          for (int64_t j = 0; j < plan.product.n; ++j) out[j] += zeros.of_a * tap[j];
        }
      }
    };
    plan.product.Run(c, c.input<uint8_t>(1), false, false, plan.k, zeros.of_a, zeros.of_b, patches, corner);
  }

 private:
  static void Patch(const sdk::QuantizedConvolution& s, int64_t row, const uint8_t* x, uint8_t* to) {
    const int64_t image = row / s.out.pixels(), y0 = row / s.out.width % s.out.height * s.stride - s.top,
                  x0 = row % s.out.width * s.stride - s.left;
    const int64_t before = std::clamp<int64_t>(-x0, 0, s.filter.width),
                  end = std::clamp<int64_t>(s.in.width - x0, before, s.filter.width);
    for (int64_t ky = 0; ky < s.filter.height; ++ky, to += s.filter.width * s.filter.in) {
      const int64_t y = y0 + ky;
      if (y < 0 || y >= s.in.height) {
        std::memset(to, 0, static_cast<size_t>(s.filter.width * s.filter.in));
        continue;
      }
      if (before > 0) std::memset(to, 0, static_cast<size_t>(before * s.filter.in));
      if (end > before)
        std::memcpy(to + before * s.filter.in,
                    x + ((image * s.in.height + y) * s.in.width + x0 + before) * s.in.channels,
                    static_cast<size_t>((end - before) * s.filter.in));
      if (end < s.filter.width)
        std::memset(to + end * s.filter.in, 0, static_cast<size_t>((s.filter.width - end) * s.filter.in));
    }
  }
  sdk::QuantizedConvolution::Attributes attributes;
};

template <sdk::FixedString kLeft, sdk::FixedString kRight, sdk::FixedString kOut, class Kernel>
constexpr tenon_kernel_registration ByteKernel(std::string_view op) {
  return sdk::Registration<Kernel>(
      op, {.device_type = "CPU",
           .constraints = sdk::Constraints<sdk::Allowed<kLeft, TENON_DT_QUINT8>, sdk::Allowed<kRight, TENON_DT_QUINT8>,
                                           sdk::Allowed<kOut, TENON_DT_QINT32>>::list,
           .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
           .priority = library::kPriority});
}

}  // namespace

TENON_ONEDNN_KERNEL(QuantizedMatMul) = ByteKernel<"T1", "T2", "Toutput", QuantizedMatMulKernel>("QuantizedMatMul");
TENON_ONEDNN_KERNEL(QuantizedConv2D) = ByteKernel<"Tinput", "Tfilter", "out_type", Conv2DKernel>("QuantizedConv2D");

}  // namespace tenon::cpu_onednn
