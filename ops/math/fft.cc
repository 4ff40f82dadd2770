// SPDX-License-Identifier: Apache-2.0
// Discrete Fourier transforms along the last one, two or three dims, of complex numbers and of real ones. A spectrum of
// real numbers is its own mirror image, so that its last dim has n / 2 + 1 of n elements. Inverse transforms are
// divided by the number of elements.
#include "parts.h"

namespace tenon::ops {
using namespace sdk;

namespace {

template <int kRank>
void FourierShape(ShapeContext& c) {
  c.SetOutput(0, c.WithRankAtLeast(0, kRank));
}

// The transforms' lengths are fft_length; what the input has beyond them is left out, and it may not have less.
template <int kRank, bool kToReal>
void RealShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, kRank);
  if (c.Merge(c.WithRank(1, 1)[0], kRank, "the elements of fft_length and the dims that are transformed"); !c.ok())
    return;
  CheckParts(c, kToReal ? c.output_type(0) : c.input_type(0), kToReal ? c.input_type(0) : c.output_type(0));
  if (!input.known_rank()) return;
  Shape out = input;
  const auto lengths = c.Integers(1);
  for (int i = 0; i < kRank; ++i) {
    const int at = input.rank() - kRank + i;
    if (!lengths.has_value()) {
      out.Set(at, kUnknown);
      continue;
    }
    const int64_t length = (*lengths)[static_cast<size_t>(i)], half = length / 2 + 1;
    const bool last = i == kRank - 1;
    if (length < 1) return c.Invalid("fft_length is ", *lengths, "; a transform has one element at least");
    const int64_t needed = kToReal && last ? half : length;
    if (input[at] >= 0 && input[at] < needed) {
      return c.Invalid("dim ", at, " of the input of shape ", input, " must have ", needed,
                       " elements at least for fft_length ", *lengths);
    }
    out.Set(at, !kToReal && last ? half : length);
  }
  c.SetOutput(0, out);
}

// ---- Gradients: the transform the other way, without its division or with one more ----

// How many elements a transform of x's last dims has, as x's type.
Output Size(GradientContext& g, Output x, int rank, Output like) {
  const Shape shape = g.shape(x);
  if (shape.known_rank() && shape.rank() >= rank) {
    int64_t size = 1;
    bool known = true;
    for (int i = 1; i <= rank; ++i) known = known && shape[-i] >= 0 && MultiplyFits(size, shape[-i], &size);
    if (known) return g.Scalar(static_cast<double>(size), like);
  }
  const Output dims = g.VectorSlice(g.ShapeOf(x, TENON_DT_INT64), -rank);
  return g.Cast(g.Op("Prod", {dims, g.Number(0)}), g.type(like));
}

constexpr char kFft[] = "FFT", kIfft[] = "IFFT", kFft2[] = "FFT2D", kIfft2[] = "IFFT2D", kFft3[] = "FFT3D",
               kIfft3[] = "IFFT3D";
constexpr char kRfft[] = "RFFT", kIrfft[] = "IRFFT", kRfft2[] = "RFFT2D", kIrfft2[] = "IRFFT2D";

template <const char* kBack, int kRank>
void ForwardGradient(GradientContext& g) {
  const Output dx = g.Op(kBack, {g.dy(0)});
  g.SetDx(0, g.Mul(dx, Size(g, dx, kRank, dx)));
}
template <const char* kBack, int kRank>
void InverseGradient(GradientContext& g) {
  const Output dx = g.Op(kBack, {g.dy(0)});
  g.SetDx(0, g.Div(dx, Size(g, dx, kRank, dx)));
}

// For each element of a half spectrum's last dim `inside`, but 1 for those that are their own mirror image: the first,
// and of an even length the last.
Output Weights(GradientContext& g, Output spectrum, double inside) {
  const Output at =
      g.Op("Range", {g.Number(0), g.Reshape(g.VectorSlice(g.ShapeOf(spectrum), -1), g.Vector({})), g.Number(1)});
  const Output length = g.VectorSlice(g.input(1), -1);
  const Output own =
      g.Op("LogicalOr", {g.Op("Equal", {at, g.Number(0)}), g.Op("Equal", {g.Mul(at, g.Number(2)), length})});
  return g.Select(own, g.Scalar(1, spectrum), g.Scalar(inside, spectrum));
}

// Zeros for what the transform left out.
Output Filled(GradientContext& g, Output dx) {
  const Output x = g.input(0);
  const Shape known = g.shape(x);
  if (known.fully_known() && known == g.shape(dx)) return dx;
  const Output missing = g.Sub(g.ShapeOf(x), g.ShapeOf(dx));
  return g.Op("Pad", {dx, g.Op("Pack", {g.ZerosLike(missing), missing}, {{"axis", 1}})});
}

template <const char* kBack, int kRank>
void ToComplexGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  const Output dx =
      g.Op(kBack, {g.Mul(dy, Weights(g, dy, 0.5)), g.input(1)}, {Attribute::Type("Treal", RealOf(g.type(dy)))});
  g.SetDx(0, Filled(g, g.Mul(dx, Size(g, dx, kRank, dx))));
}
template <const char* kBack, int kRank>
void ToRealGradient(GradientContext& g) {
  const Output dy = g.dy(0);
  const Output dx = g.Op(kBack, {dy, g.input(1)}, {Attribute::Type("Tcomplex", ComplexOf(g.type(dy)))});
  g.SetDx(0, Filled(g, g.Mul(dx, g.Div(Weights(g, dx, 2), Size(g, dy, kRank, dx)))));
}

consteval tenon_op_definition OfComplex(OpDefinition op) {
  op.inputs = "input: Tcomplex";
  op.outputs = "output: Tcomplex";
  op.attrs = "Tcomplex: {complex64, complex128} = complex64";
  op.traits = TENON_OP_EXPENSIVE;
  return DefineOp(op);
}
consteval tenon_op_definition ToComplex(OpDefinition op) {
  op.inputs = "input: Treal, fft_length: int32";
  op.outputs = "output: Tcomplex";
  op.attrs = "Treal: {float, double} = float; Tcomplex: {complex64, complex128} = complex64";
  op.traits = TENON_OP_EXPENSIVE;
  return DefineOp(op);
}
consteval tenon_op_definition ToReal(OpDefinition op) {
  op.inputs = "input: Tcomplex, fft_length: int32";
  op.outputs = "output: Treal";
  op.attrs = "Treal: {float, double} = float; Tcomplex: {complex64, complex128} = complex64";
  op.traits = TENON_OP_EXPENSIVE;
  return DefineOp(op);
}

}  // namespace

TENON_OP(kFFT) = OfComplex({
    .name = "FFT",
    .doc = "The Fourier transform along the last dim.",
    .shape = ShapeFunction<FourierShape<1>>,
    .gradient = GradientFunction<ForwardGradient<kIfft, 1>>,
});
TENON_OP(kIFFT) = OfComplex({
    .name = "IFFT",
    .doc = "The inverse of FFT.",
    .shape = ShapeFunction<FourierShape<1>>,
    .gradient = GradientFunction<InverseGradient<kFft, 1>>,
});
TENON_OP(kFFT2D) = OfComplex({
    .name = "FFT2D",
    .doc = "The Fourier transform along the last two dims.",
    .shape = ShapeFunction<FourierShape<2>>,
    .gradient = GradientFunction<ForwardGradient<kIfft2, 2>>,
});
TENON_OP(kIFFT2D) = OfComplex({
    .name = "IFFT2D",
    .doc = "The inverse of FFT2D.",
    .shape = ShapeFunction<FourierShape<2>>,
    .gradient = GradientFunction<InverseGradient<kFft2, 2>>,
});
TENON_OP(kFFT3D) = OfComplex({
    .name = "FFT3D",
    .doc = "The Fourier transform along the last three dims.",
    .shape = ShapeFunction<FourierShape<3>>,
    .gradient = GradientFunction<ForwardGradient<kIfft3, 3>>,
});
TENON_OP(kIFFT3D) = OfComplex({
    .name = "IFFT3D",
    .doc = "The inverse of FFT3D.",
    .shape = ShapeFunction<FourierShape<3>>,
    .gradient = GradientFunction<InverseGradient<kFft3, 3>>,
});

TENON_OP(kRFFT) = ToComplex({
    .name = "RFFT",
    .doc = "The first half of the Fourier transform of the first fft_length real numbers along the last dim.",
    .shape = ShapeFunction<RealShape<1, false>>,
    .gradient = GradientFunction<ToComplexGradient<kIrfft, 1>>,
});
TENON_OP(kIRFFT) = ToReal({
    .name = "IRFFT",
    .doc = "The inverse of RFFT.",
    .shape = ShapeFunction<RealShape<1, true>>,
    .gradient = GradientFunction<ToRealGradient<kRfft, 1>>,
});
TENON_OP(kRFFT2D) = ToComplex({
    .name = "RFFT2D",
    .doc = "RFFT along the last dim, then the Fourier transform along the one before.",
    .shape = ShapeFunction<RealShape<2, false>>,
    .gradient = GradientFunction<ToComplexGradient<kIrfft2, 2>>,
});
TENON_OP(kIRFFT2D) = ToReal({
    .name = "IRFFT2D",
    .doc = "The inverse of RFFT2D.",
    .shape = ShapeFunction<RealShape<2, true>>,
    .gradient = GradientFunction<ToRealGradient<kRfft2, 2>>,
});
// TensorFlow has no gradients of these two.
TENON_OP(kRFFT3D) = ToComplex({
    .name = "RFFT3D",
    .doc = "RFFT along the last dim, then the Fourier transform along the two before.",
    .shape = ShapeFunction<RealShape<3, false>>,
});
TENON_OP(kIRFFT3D) = ToReal({
    .name = "IRFFT3D",
    .doc = "The inverse of RFFT3D.",
    .shape = ShapeFunction<RealShape<3, true>>,
});

}  // namespace tenon::ops
