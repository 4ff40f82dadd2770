// SPDX-License-Identifier: Apache-2.0
// Arithmetic of quantized tensors: products and sums of 8-bit integers in 32 bits, and those as 8 bits again.
#include <cstring>

#include "kernels/products/product.h"
#include "kernels/quantized/quantization.h"
#include "kernels/windows/window.h"

namespace tenon::cpu {
namespace {

// ---- 32 bits to 8 ----

// In a fixed-point number with 16 bits behind the point, as TensorFlow has it; sums wrap where ranges are absurd.
struct ToByte {
  ToByte(Bounds input, Bounds output) {
    const float from = input.high - input.low, to = output.high - output.low;
    if (to == 0) return;
    constexpr double kOne = 65536;
    constexpr int64_t kFar = int64_t{1} << 62;
    const auto fixed = [](double value) { return static_cast<uint64_t>(Bounded(value, -kFar, kFar)); };
    const auto middle = static_cast<float>(static_cast<double>(input.low + input.high) / 2.0);
    const auto inverse = static_cast<float>(255.0 / static_cast<double>(to));
    scale = fixed(255.0 * kOne * static_cast<double>(from) / static_cast<double>(to));
    offset = fixed(static_cast<double>(middle * inverse * 65536.0F)) -
             fixed(kOne * (static_cast<double>(output.low) * 255.0) / static_cast<double>(to));
  }
  uint8_t operator()(int32_t x) const {
    const int64_t scaled = static_cast<int64_t>(static_cast<uint64_t>(int64_t{x}) * scale) >> 32;
    const int64_t rounded = static_cast<int64_t>(static_cast<uint64_t>(scaled) + offset + 32768) >> 16;
    return static_cast<uint8_t>(std::clamp<int64_t>(rounded, 0, 255));
  }
  uint64_t scale = 0, offset = 0;
};

void Narrow(sdk::RunContext c, Bounds input, Bounds output) {
  const int32_t* x = c.input<int32_t>(0);
  const int64_t count = sdk::Count(c.input_view(0));
  const auto write = [&](auto* out, const auto& convert) {
    c.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
      const auto own = convert;
      const int32_t* from = x;
      auto* to = out;
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) to[i] = own(from[i]);
    });
  };
  if (c.output_view(0).dtype == TENON_DT_QUINT8) {
    write(c.output<uint8_t>(0), ToByte(input, output));
  } else {
    const ToReal<int32_t> real(input.low, input.high);
    const ToQuantized<int8_t> quantize(output.low, output.high);
    write(c.output<int8_t>(0), [=](int32_t value) { return quantize(real(value)); });
  }
}

// From the least number, or 0, to the largest.
Bounds UsedRange(sdk::RunContext c, Bounds bounds) {
  const int32_t* x = c.input<int32_t>(0);
  const int64_t count = sdk::Count(c.input_view(0));
  auto least = std::numeric_limits<int32_t>::max(), most = std::numeric_limits<int32_t>::lowest();
  sdk::CancelPoll poll(c);
  constexpr int64_t kPiece = 1 << 16;
  for (int64_t at = 0; at < count; at += kPiece) {
    for (int64_t i = at; i < std::min(count, at + kPiece); ++i) {
      least = std::min(least, x[i]);
      most = std::max(most, x[i]);
    }
    poll(kPiece / 4);
  }
  return {std::min(0.0F, RealOf(least, bounds.low, bounds.high)), RealOf(most, bounds.low, bounds.high)};
}

struct QuantizedRangeKernel {
  void Run(sdk::RunContext c) const { UsedRange(c, Bounds(c, 1)).Write(c, 0); }
};

struct ShrinkKernel {
  void Run(sdk::RunContext c) const {
    const Bounds input(c, 1), output = UsedRange(c, input);
    Narrow(c, input, output);
    output.Write(c, 1);
  }
};

struct RequantizeKernel {
  void Run(sdk::RunContext c) const {
    const Bounds output(c, 3);
    if (!(output.low <= 0))
      sdk::Fail(TENON_INVALID_ARGUMENT, "requested_output_min must be <= 0, but got ", output.low);
    if (!(output.high >= output.low))
      sdk::Fail(TENON_INVALID_ARGUMENT, "requested_output_max must be >= requested_output_min, but got ", output.high,
                " and ", output.low);
    Narrow(c, Bounds(c, 1), output);
    output.Write(c, 1);
  }
};

// ---- Element by element ----

struct ReluKernel {
  explicit ReluKernel(sdk::CreateContext& c) {
    if (c.input_type(0) != c.output_type(0))
      c.Fail(TENON_UNIMPLEMENTED, "out_type is ", sdk::TypeName(c.output_type(0)), "; it must be Tinput, ",
             sdk::TypeName(c.input_type(0)));
  }
  void Run(sdk::RunContext c) const {
    const Bounds bounds(c, 1);
    DispatchQuantized(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T zero = Quantized<T>(0, bounds.low, bounds.high);
      const T* x = c.input<T>(0);
      T* out = c.output<T>(0);
      c.ParallelFor(sdk::Count(c.input_view(0)), 0.1, [&](int64_t begin, int64_t end) {
        const T* from = x;  // on the stack: what stands in the lambda could be bytes that are written
        T* to = out;
        const T least = zero;
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) to[i] = from[i] < least ? least : from[i];
      });
    });
    bounds.Write(c, 1);
  }
};

struct QuantizedBiasAddKernel {
  explicit QuantizedBiasAddKernel(sdk::CreateContext& c) {
    if (c.input_type(0) != c.input_type(1))
      c.Fail(TENON_UNIMPLEMENTED, "T1 and T2 must be one type; they are ", sdk::TypeName(c.input_type(0)), " and ",
             sdk::TypeName(c.input_type(1)));
  }
  void Run(sdk::RunContext c) const {
    const Bounds input(c, 2), bias(c, 4);
    const float most = std::max(input.high, std::max(-input.low, std::max(bias.high, -bias.low))) * 131072.0F;
    const Bounds total(-most, most);
    DispatchQuantized(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const auto zero = static_cast<uint32_t>(Quantized<int32_t>(0, total.low, total.high));
      const ToReal<T> real_input(input.low, input.high), real_bias(bias.low, bias.high);
      const ToQuantized<int32_t> quantize(total.low, total.high);
      const T* x = c.input<T>(0);
      const T* b = c.input<T>(1);
      int32_t* out = c.output<int32_t>(0);
      const int64_t length = sdk::Count(c.input_view(1));
      c.ParallelFor(length == 0 ? 0 : sdk::Count(c.input_view(0)) / length, static_cast<double>(length) * 4,
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t row = begin; row < end; ++row, poll(4 * length)) {
                        for (int64_t i = 0; i < length; ++i) {
                          const auto sum = static_cast<uint32_t>(quantize(real_input(x[row * length + i]))) +
                                           static_cast<uint32_t>(quantize(real_bias(b[i]))) + zero;
                          out[row * length + i] = static_cast<int32_t>(sum);
                        }
                      }
                    });
    });
    total.Write(c, 1);
  }
};

// ---- Products ----

// Products are of floats, which sums of 256 products of 9-bit numbers are without rounding.
struct QuantizedMatMulKernel {
  explicit QuantizedMatMulKernel(sdk::CreateContext& c)
      : transpose_a(c.Bool("transpose_a")), transpose_b(c.Bool("transpose_b")) {}
  struct Plan {
    Plan(const QuantizedMatMulKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1));
      if (a.size() != 2 || b.size() != 2)
        sdk::Fail(TENON_INVALID_ARGUMENT, "matrices have 2 dims; the shapes are ", a, " and ", b);
      const bool ta = kernel.transpose_a, tb = kernel.transpose_b;
      shape = {.m = a[ta ? 1 : 0],
               .n = b[tb ? 0 : 1],
               .k = a[ta ? 0 : 1],
               .a_row = ta ? 1 : a[1],
               .a_column = ta ? a[1] : 1,
               .b_row = tb ? 1 : b[1],
               .b_column = tb ? b[1] : 1,
               .c_row = b[tb ? 0 : 1]};
      if (shape.k != b[tb ? 1 : 0]) sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      ProductShape piece = shape;
      piece.k = std::min(shape.k, kPiece);
      product = SharedProduct::Make<float>(c, piece);
      a_at = c.Workspace(sdk::Multiply(sdk::Count(a), 4));
      b_at = c.Workspace(sdk::Multiply(sdk::Count(b), 4));
      piece_at = c.Workspace(sdk::Multiply(sdk::Multiply(shape.m, shape.n), 4));
    }
    ProductShape shape;
    SharedProduct product;
    int64_t a_at, b_at, piece_at;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const Bounds a(c, 2), b(c, 4);
    if (!(a.high > a.low))
      sdk::Fail(TENON_INVALID_ARGUMENT, "max_a must be larger than min_a; they are ", a.high, " and ", a.low);
    if (!(b.high > b.low))
      sdk::Fail(TENON_INVALID_ARGUMENT, "max_b must be larger than min_b; they are ", b.high, " and ", b.low);
    const int64_t a_zero = Unbounded<uint8_t>(0, a.low, a.high), b_zero = Unbounded<uint8_t>(0, b.low, b.high);
    const auto is_byte = [](int64_t zero) { return zero >= 0 && zero <= 255; };
    if (is_byte(a_zero) && is_byte(b_zero)) {
      InPieces(plan, c, static_cast<float>(a_zero), static_cast<float>(b_zero));
    } else {
      Wrapping(plan.shape, c, static_cast<uint32_t>(a_zero), static_cast<uint32_t>(b_zero));
    }
    Bounds out(0, 0);
    ProductRange<uint8_t, uint8_t, int32_t>(a.low, a.high, b.low, b.high, &out.low, &out.high);
    out.Write(c, 1);
  }

 private:
  static constexpr int64_t kPiece = 256;

  static void InPieces(const Plan& plan, sdk::RunContext c, float a_zero, float b_zero) {
    float* left = c.workspace<float>(plan.a_at);
    float* right = c.workspace<float>(plan.b_at);
    float* product = c.workspace<float>(plan.piece_at);
    Shift(c, 0, a_zero, left);
    Shift(c, 1, b_zero, right);
    int32_t* out = c.output<int32_t>(0);
    const int64_t count = plan.shape.m * plan.shape.n;
    for (int64_t at = 0; at == 0 || at < plan.shape.k; at += kPiece) {
      ProductShape piece = plan.shape;
      piece.k = std::min(kPiece, plan.shape.k - at);
      plan.product.Run(c, piece, left + at * piece.a_column, right + at * piece.b_row, product, false);
      c.ParallelFor(count, 0.5, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          out[i] = static_cast<int32_t>((at == 0 ? 0U : static_cast<uint32_t>(out[i])) +
                                        static_cast<uint32_t>(static_cast<int32_t>(product[i])));
      });
    }
  }
  // Input `index` less the integer that 0 is.
  static void Shift(sdk::RunContext c, int32_t index, float zero, float* out) {
    const uint8_t* x = c.input<uint8_t>(index);
    c.ParallelFor(sdk::Count(c.input_view(index)), 0.3, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<float>(x[i]) - zero;
    });
  }
  // Of ranges without 0, by its definition.
  static void Wrapping(const ProductShape& s, sdk::RunContext c, uint32_t a_zero, uint32_t b_zero) {
    const uint8_t* a = c.input<uint8_t>(0);
    const uint8_t* b = c.input<uint8_t>(1);
    uint32_t* out = c.output<uint32_t>(0);
    c.ParallelFor(s.m, static_cast<double>(s.n) * static_cast<double>(s.k) + 1, [&](int64_t begin, int64_t end) {
      sdk::CancelPoll poll(c);
      for (int64_t row = begin; row < end; ++row) {
        uint32_t* sums = out + row * s.n;
        std::fill_n(sums, s.n, 0U);
        for (int64_t l = 0; l < s.k; poll(s.n), ++l) {
          const uint32_t value = a[row * s.a_row + l * s.a_column] - a_zero;
          for (int64_t j = 0; j < s.n; ++j) sums[j] += value * (b[l * s.b_row + j * s.b_column] - b_zero);
        }
      }
    });
  }
  bool transpose_a, transpose_b;
};

// By its definition.
struct Conv2DKernel {
  explicit Conv2DKernel(sdk::CreateContext& c) : attributes(c) {}
  struct Plan : sdk::QuantizedConvolution {
    Plan(const Conv2DKernel& kernel, sdk::PrepareContext& c)
        : QuantizedConvolution(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)),
                               sdk::DimsOf(c.output(0))) {}
  };
  void Run(const Plan& p, sdk::RunContext c) const {
    const Bounds input(c, 2), filter(c, 4);
    const auto input_zero = static_cast<uint32_t>(Unbounded<uint8_t>(0, input.low, input.high)),
               filter_zero = static_cast<uint32_t>(Unbounded<uint8_t>(0, filter.low, filter.high));
    const double cost = static_cast<double>(p.filter.count()) * 0.3 + 1;
    c.ParallelFor(p.out.batch * p.out.pixels(), cost, [&](int64_t begin, int64_t end) {
      sdk::CancelPoll poll(c);
      for (int64_t pixel = begin; pixel < end; ++pixel)
        Pixel(p, pixel, c.input<uint8_t>(0), c.input<uint8_t>(1), input_zero, filter_zero, c.output<uint32_t>(0), poll);
    });
    Bounds out(0, 0);
    ProductRange<uint8_t, uint8_t, int32_t>(input.low, input.high, filter.low, filter.high, &out.low, &out.high);
    out.Write(c, 1);
  }

 private:
  static void Pixel(const Plan& p, int64_t pixel, const uint8_t* x, const uint8_t* filter, uint32_t input_zero,
                    uint32_t filter_zero, uint32_t* out, sdk::CancelPoll& poll) {
    const int64_t image = pixel / p.out.pixels(), row = pixel / p.out.width % p.out.height,
                  column = pixel % p.out.width;
    uint32_t* sums = out + pixel * p.out.channels;
    std::fill_n(sums, p.out.channels, 0U);
    for (int64_t ky = 0; ky < p.filter.height; ++ky) {
      const int64_t y = row * p.stride + ky - p.top;
      if (y < 0 || y >= p.in.height) continue;
      for (int64_t kx = 0; kx < p.filter.width; ++kx) {
        const int64_t at = column * p.stride + kx - p.left;
        if (at < 0 || at >= p.in.width) continue;
        const uint8_t* from = x + ((image * p.in.height + y) * p.in.width + at) * p.in.channels;
        const uint8_t* weights = filter + (ky * p.filter.width + kx) * p.filter.in * p.filter.out;
        for (int64_t channel = 0; channel < p.in.channels; ++channel, weights += p.filter.out) {
          const uint32_t value = from[channel] - input_zero;
          for (int64_t o = 0; o < p.filter.out; ++o) sums[o] += value * (weights[o] - filter_zero);
        }
      }
      poll(p.filter.width * p.filter.in * (p.filter.out / 4 + 1));
    }
  }
  sdk::QuantizedConvolution::Attributes attributes;
};

// ---- Side by side ----

struct QuantizedConcatKernel {
  explicit QuantizedConcatKernel(sdk::CreateContext& c) : count(static_cast<int32_t>(c.Int("N"))) {}
  void Run(sdk::RunContext c) const {
    Bounds all(std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest());
    for (int32_t i = 0; i < count; ++i) {
      all.low = std::min(all.low, *c.input<float>(1 + count + i));
      all.high = std::max(all.high, *c.input<float>(1 + 2 * count + i));
    }
    if (c.output_view(0).dtype == TENON_DT_QINT32) {
      const float most = std::max(std::abs(all.low), std::abs(all.high));
      all = {-most, most};
    }
    const sdk::Dims dims = sdk::DimsOf(c.output_view(0));
    int64_t axis = *c.input<int32_t>(0);
    const auto rank = static_cast<int64_t>(dims.size());
    if (axis < -rank || axis >= rank)
      sdk::Fail(TENON_INVALID_ARGUMENT, "concat_dim ", axis, " of tensors of rank ", rank);
    axis += axis < 0 ? rank : 0;
    DispatchQuantized(c.output_view(0).dtype,
                      [&]<class T>(Tag<T>) { Typed<T>(c, Slices(dims, axis), static_cast<size_t>(axis), all); });
    all.Write(c, 1);
  }

 private:
  template <class T>
  void Typed(sdk::RunContext c, const Slices& out, size_t axis, Bounds all) const {
    int64_t at = 0;
    for (int32_t i = 0; i < count; ++i) {
      const Bounds own(*c.input<float>(1 + count + i), *c.input<float>(1 + 2 * count + i));
      const bool same = own.low == all.low && own.high == all.high;
      const ToReal<T> real(own.low, own.high);
      const ToQuantized<T> quantize(all.low, all.high);
      const int64_t places = sdk::DimsOf(c.input_view(1 + i))[axis], length = places * out.after;
      const T* from = c.input<T>(1 + i);
      T* to = c.output<T>(0) + at * out.after;
      c.ParallelFor(out.before, static_cast<double>(length) * (same ? 0.1 : 2) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* x = from + row * length;
          T* y = to + row * out.count * out.after;
          if (same && length > 0) std::memcpy(y, x, static_cast<size_t>(length) * sizeof(T));
          if (same) continue;
          sdk::CancelPoll poll(c);
          constexpr int64_t kPiece = 1 << 14;
          const ToReal<T> as_real = real;
          const ToQuantized<T> as_integer = quantize;
          for (int64_t first = 0; first < length; poll(kPiece / 4), first += kPiece) {
            const int64_t last = std::min(length, first + kPiece);
#pragma GCC ivdep
            for (int64_t k = first; k < last; ++k) y[k] = as_integer(as_real(x[k]));
          }
        }
      });
      at += places;
    }
  }
  int32_t count;
};

using Int32Input = sdk::Allowed<"Tinput", TENON_DT_QINT32>;
constexpr sdk::Traits kRangeTraits = {.constraints = sdk::Constraints<Int32Input>::list};
constexpr sdk::Traits kShrinkTraits = {
    .constraints = sdk::Constraints<Int32Input, sdk::Allowed<"out_type", TENON_DT_QUINT8>>::list};
constexpr sdk::Traits kRequantizeTraits = {
    .constraints = sdk::Constraints<Int32Input, sdk::Allowed<"out_type", TENON_DT_QUINT8, TENON_DT_QINT8>>::list};
constexpr sdk::Traits kReluTraits = {
    .constraints = sdk::Constraints<sdk::Allowed<"Tinput", TENON_DT_QUINT8, TENON_DT_QINT32>>::list,
    .in_place = kInPlaceFirst};
constexpr sdk::Traits kBiasAddTraits = {.constraints =
                                            sdk::Constraints<sdk::Allowed<"T1", TENON_DT_QINT8, TENON_DT_QUINT8>,
                                                             sdk::Allowed<"out_type", TENON_DT_QINT32>>::list};
constexpr sdk::Traits kQuantizedProduct = {
    .constraints = sdk::Constraints<sdk::Allowed<"T1", TENON_DT_QUINT8>, sdk::Allowed<"T2", TENON_DT_QUINT8>,
                                    sdk::Allowed<"Toutput", TENON_DT_QINT32>>::list,
    .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};
constexpr sdk::Traits kConv2DTraits = {
    .constraints = sdk::Constraints<sdk::Allowed<"Tinput", TENON_DT_QUINT8>, sdk::Allowed<"Tfilter", TENON_DT_QUINT8>,
                                    sdk::Allowed<"out_type", TENON_DT_QINT32>>::list,
    .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};
constexpr sdk::Traits kConcatTraits = {.constraints =
                                           sdk::Constraints<sdk::Allowed<"T", TENON_DT_QUINT8, TENON_DT_QINT32>>::list};

}  // namespace

TENON_CPU_KERNEL(RequantizationRange) = CpuKernel<QuantizedRangeKernel>("RequantizationRange", kRangeTraits);
TENON_CPU_KERNEL(QuantizeDownAndShrinkRange) = CpuKernel<ShrinkKernel>("QuantizeDownAndShrinkRange", kShrinkTraits);
TENON_CPU_KERNEL(Requantize) = CpuKernel<RequantizeKernel>("Requantize", kRequantizeTraits);
TENON_CPU_KERNEL(QuantizedRelu) = CpuKernel<ReluKernel>("QuantizedRelu", kReluTraits);
TENON_CPU_KERNEL(QuantizedBiasAdd) = CpuKernel<QuantizedBiasAddKernel>("QuantizedBiasAdd", kBiasAddTraits);
TENON_CPU_KERNEL(QuantizedMatMul) = CpuKernel<QuantizedMatMulKernel>("QuantizedMatMul", kQuantizedProduct);
TENON_CPU_KERNEL(QuantizedConv2D) = CpuKernel<Conv2DKernel>("QuantizedConv2D", kConv2DTraits);
TENON_CPU_KERNEL(QuantizedConcat) = CpuKernel<QuantizedConcatKernel>("QuantizedConcat", kConcatTraits);

}  // namespace tenon::cpu
