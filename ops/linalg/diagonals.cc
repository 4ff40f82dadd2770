// SPDX-License-Identifier: Apache-2.0
// Diagonals: of matrices (MatrixDiag, MatrixDiagPart, MatrixSetDiag, each in three versions) and of tensors (Diag,
// DiagPart).
//
// A band of several diagonals is a matrix itself, a row each, from the highest to the lowest; shorter ones stand left
// or right in their row, as align says of those above the main one and those below it. The first versions have the main
// diagonal alone, the second ones align LEFT_LEFT.
#include <algorithm>
#include <cstring>

#include "matrix.h"
#include "nodes.h"

namespace tenon::ops {
using namespace sdk;
using namespace linalg;

namespace {

// ---- Bands ----

struct DiagonalBand {
  int64_t lower = 0, upper = 0;  // 0 is the main diagonal, 1 the next one above it
  int64_t count() const { return upper - lower + 1; }
  // Of diagonal d, and of the longest one.
  static int64_t Length(int64_t d, int64_t rows, int64_t columns) {
    return std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0));
  }
  // Calls invalid(parts...) where a matrix has no such diagonals; an empty one has the main one.
  template <class Invalid>
  void CheckInside(int64_t rows, int64_t columns, const Invalid& invalid) const {
    for (const int64_t d : {lower, upper})
      if (d != 0 && (d <= -rows || d >= columns))
        invalid("diagonal ", d, " is out of bound: It must be between ", -rows, " and ", columns, ", of ", rows,
                " rows and ", columns, " columns");
  }
  int64_t Longest(int64_t rows, int64_t columns) const {
    return std::min(rows + std::min<int64_t>(upper, 0), columns - std::max<int64_t>(lower, 0));
  }
};

// Calls invalid(parts...) where the numbers are no band.
template <class Invalid>
DiagonalBand BandOf(const std::vector<int64_t>& k, const Invalid& invalid) {
  if (k.empty() || k.size() > 2) {
    invalid("diag_index must have only one or two elements, received ", k.size(), " elements");
    return {};
  }
  if (k.front() > k.back())
    invalid("lower_diag_index must not be larger than upper_diag_index: ", k.front(), " > ", k.back());
  return {k.front(), k.back()};
}

// Whether the shorter diagonals above and below stand left in their rows.
struct Alignment {
  bool above_left = true, below_left = true;
  static Alignment Of(CreateContext& c) {
    if (!c.Has("align")) return {};
    const std::string_view text = c.String("align");
    return {text.starts_with("LEFT"), text.ends_with("LEFT")};
  }
  int64_t Offset(int64_t d, int64_t length, int64_t longest) const {
    return (d >= 0 && above_left) || (d <= 0 && below_left) ? 0 : longest - length;
  }
};

// ---- Kernels ----

struct Diagonals {
  explicit Diagonals(CreateContext& c) : align(Alignment::Of(c)) {}
  // input: that of k, if the op has so many.
  static DiagonalBand Band(const RunContext& c, int32_t input) {
    if (input >= c.input_count()) return {};
    const auto invalid = [](const auto&... parts) { Fail(TENON_INVALID_ARGUMENT, parts...); };
    if (c.input_view(input).dl.ndim > 1)
      invalid("diag_index must be a scalar or vector, received shape: ", DimsOf(c.input_view(input)));
    return BandOf(*IntegersOf(c.input_view(input)), invalid);
  }
  template <class T>
  static T Padding(const RunContext& c, int32_t input) {
    return input < c.input_count() ? *c.input<T>(input) : T{};
  }
  // That `packed` has this band's diagonals of each matrix.
  static void CheckPacked(const tenon_tensor_view& packed, const DiagonalBand& band, const Stack& stack) {
    band.CheckInside(stack.rows, stack.columns, [](const auto&... parts) { Fail(TENON_INVALID_ARGUMENT, parts...); });
    std::vector<int64_t> expected(stack.batch.begin(), stack.batch.end());
    if (band.count() > 1) expected.push_back(band.count());
    expected.push_back(std::max<int64_t>(0, band.Longest(stack.rows, stack.columns)));
    const Dims dims = DimsOf(packed);
    if (!std::equal(dims.begin(), dims.end(), expected.begin(), expected.end()))
      Fail(TENON_INVALID_ARGUMENT, "diagonals of shape ", dims, " where the matrices' have ", expected);
  }
  Alignment align;
};

struct MatrixDiag : Diagonals {
  using Diagonals::Diagonals;
  void Run(RunContext c) const {
    const Stack stack = Stack::Of(c.output_view(0));
    const DiagonalBand band = Band(c, 1);
    // Of given rows and columns the diagonals may be shorter than their row.
    const int64_t longest = DimsOf(c.input_view(0)).back();
    if (Count(c.input_view(0)) != Multiply(stack.count, Multiply(band.count(), longest)) ||
        longest > std::max<int64_t>(band.Longest(stack.rows, stack.columns), 0))
      Fail(TENON_INVALID_ARGUMENT, "diagonals of shape ", DimsOf(c.input_view(0)), " do not fill matrices of ",
           stack.rows, " rows and ", stack.columns, " columns from ", band.lower, " to ", band.upper);
    if (stack.size() == 0) return;
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const T padding = Padding<T>(c, 4);
      const T* const from = c.input<T>(0);
      c.ParallelFor(
          stack.count * stack.rows, 5 + 0.3 * static_cast<double>(stack.columns), [&](int64_t begin, int64_t end) {
            for (int64_t at = begin; at < end; ++at) {
              T* const to = c.output<T>(0) + at * stack.columns;
              std::fill_n(to, stack.columns, padding);
              const int64_t row = at % stack.rows, matrix = at / stack.rows;
              for (int64_t d = std::max(band.lower, -row); d <= std::min(band.upper, stack.columns - 1 - row); ++d) {
                const int64_t length = DiagonalBand::Length(d, stack.rows, stack.columns);
                const int64_t place = std::min(row, row + d) + align.Offset(d, length, longest);
                if (place < longest) to[row + d] = from[(matrix * band.count() + band.upper - d) * longest + place];
              }
            }
          });
    });
  }
};

struct MatrixDiagPart : Diagonals {
  using Diagonals::Diagonals;
  void Run(RunContext c) const {
    const Stack stack = Stack::Of(c.input_view(0));
    const DiagonalBand band = Band(c, 1);
    CheckPacked(c.output_view(0), band, stack);
    const int64_t longest = band.Longest(stack.rows, stack.columns);
    if (longest == 0) return;
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      const T padding = Padding<T>(c, 2);
      c.ParallelFor(stack.count * band.count(), 5 + 0.5 * static_cast<double>(longest),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t at = begin; at < end; ++at) {
                        const int64_t d = band.upper - at % band.count();
                        const T* const from =
                            c.input<T>(0) + at / band.count() * stack.size() + (d >= 0 ? d : -d * stack.columns);
                        T* const to = c.output<T>(0) + at * longest;
                        const int64_t length = std::max<int64_t>(0, DiagonalBand::Length(d, stack.rows, stack.columns)),
                                      offset = align.Offset(d, length, longest);
                        std::fill_n(to, longest, padding);
                        for (int64_t i = 0; i < length; ++i) to[offset + i] = from[i * (stack.columns + 1)];
                      }
                    });
    });
  }
};

struct MatrixSetDiag : Diagonals {
  using Diagonals::Diagonals;
  void Run(RunContext c) const {
    const Stack stack = Stack::Of(c.input_view(0));
    const DiagonalBand band = Band(c, 2);
    CheckPacked(c.input_view(1), band, stack);
    const int64_t longest = band.Longest(stack.rows, stack.columns);
    if (c.output_view(0).byte_size == 0) return;
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(stack.count, 5 + 0.3 * static_cast<double>(stack.size()), [&](int64_t begin, int64_t end) {
        for (int64_t matrix = begin; matrix < end; ++matrix) {
          const T* const from = c.input<T>(0) + matrix * stack.size();
          T* const to = c.output<T>(0) + matrix * stack.size();
          if (to != from) std::copy_n(from, stack.size(), to);
          for (int64_t d = band.lower; d <= band.upper; ++d) {
            const int64_t length = std::max<int64_t>(0, DiagonalBand::Length(d, stack.rows, stack.columns));
            const T* const given =
                c.input<T>(1) + (matrix * band.count() + band.upper - d) * longest + align.Offset(d, length, longest);
            T* const first = to + (d >= 0 ? d : -d * stack.columns);
            for (int64_t i = 0; i < length; ++i) first[i * (stack.columns + 1)] = given[i];
          }
        }
      });
    });
  }
};

// A tensor of twice the rank is a matrix whose rows and columns are counted through.
struct DiagKernel {
  void Run(RunContext c) const {
    const int64_t n = Count(c.input_view(0));
    if (n == 0) return;
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(n, 5 + 0.1 * static_cast<double>(n) * sizeof(T), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          std::fill_n(c.output<T>(0) + i * n, n, T{});
          c.output<T>(0)[i * (n + 1)] = c.input<T>(0)[i];
        }
      });
    });
  }
};
struct DiagPartKernel {
  void Run(RunContext c) const {
    const int64_t n = Count(c.output_view(0));
    DispatchSize(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(n, 4, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) c.output<T>(0)[i] = c.input<T>(0)[i * (n + 1)];
      });
    });
  }
};

// ---- Shapes ----

// The band in input `index`, if the op has so many; nothing while it is not known.
std::optional<DiagonalBand> BandOf(ShapeContext& c, int index) {
  if (index >= c.input_count()) return DiagonalBand{};
  if (c.Input(index).rank() > 1) c.Invalid("diag_index must be a scalar or vector, received shape: ", c.Input(index));
  const auto k = c.Integers(index);
  if (!k.has_value()) return std::nullopt;
  return BandOf(*k, [&](const auto&... parts) { c.Invalid(parts...); });
}

void MatrixDiagShape(ShapeContext& c) {
  const Shape diagonal = c.WithRankAtLeast(0, 1);
  const auto band = BandOf(c, 1);
  for (int i = 2; i < c.input_count(); ++i) c.WithRank(i, 0);
  if (!c.ok() || !diagonal.known_rank() || !band.has_value()) return;
  const bool one = band->count() == 1;
  if (!one) {
    c.WithRankAtLeast(0, 2);
    if (c.ok() && diagonal[-2] >= 0 && diagonal[-2] != band->count())
      c.Invalid(
          "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index "
          "range: ",
          diagonal[-2], " from ", band->lower, " to ", band->upper);
  }
  const Shape batch = diagonal.Slice(0, one ? -1 : -2);
  const int64_t longest = diagonal[-1];
  const bool given = c.input_count() > 2;
  const auto rows = given ? c.Integer(2) : std::optional<int64_t>(-1),
             columns = given ? c.Integer(3) : std::optional<int64_t>(-1);
  if (!c.ok()) return;
  if (longest < 0 || !rows.has_value() || !columns.has_value())
    return c.SetOutput(0, Join(batch, Shape{rows.value_or(kUnknown), columns.value_or(kUnknown)}));
  const int64_t least_rows = c.Add(longest, -std::min<int64_t>(band->upper, 0)),
                least_columns = c.Add(longest, std::max<int64_t>(band->lower, 0));
  int64_t height = *rows, width = *columns;
  if (height != -1 && height < least_rows)
    return c.Invalid("The number of rows is too small: ", height, "; the diagonals need ", least_rows);
  if (width != -1 && width < least_columns)
    return c.Invalid("The number of columns is too small: ", width, "; the diagonals need ", least_columns);
  if (height == -1 && width == -1) {
    height = width = std::max(least_rows, least_columns);
  } else if (height == -1) {
    height = least_rows;
  } else if (width == -1) {
    width = least_columns;
  }
  if (height != least_rows && width != least_columns)
    return c.Invalid(
        "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal: ", height,
        " and ", width, ", where one must be ", least_rows, " or ", least_columns);
  c.SetOutput(0, Join(batch, Shape{height, width}));
}

// The shape of the band's diagonals in matrices of `input`'s shape; nothing while it is not known.
std::optional<Shape> PackedShape(ShapeContext& c, const Shape& input, const std::optional<DiagonalBand>& band) {
  if (!c.ok() || !input.known_rank() || !band.has_value()) return std::nullopt;
  const int64_t rows = input[-2], columns = input[-1];
  Shape packed = input.Slice(0, -2);
  if (band->count() > 1) packed.Append(band->count());
  if (rows < 0 || columns < 0) {
    packed.Append(kUnknown);
    return packed;
  }
  band->CheckInside(rows, columns, [&](const auto&... parts) { c.Invalid(parts...); });
  packed.Append(std::max<int64_t>(0, band->Longest(rows, columns)));
  return packed;
}
void MatrixDiagPartShape(ShapeContext& c) {
  const Shape input = c.WithRankAtLeast(0, 2);
  const auto band = BandOf(c, 1);
  if (c.input_count() > 2) c.WithRank(2, 0);
  if (const auto packed = PackedShape(c, input, band)) c.SetOutput(0, *packed);
}
void MatrixSetDiagShape(ShapeContext& c) {
  Shape input = c.WithRankAtLeast(0, 2);
  const auto band = BandOf(c, 2);
  const Shape diagonal = c.WithRankAtLeast(1, band.has_value() && band->count() > 1 ? 2 : 1);
  if (input.known_rank() && diagonal.known_rank() && diagonal.rank() != input.rank() &&
      diagonal.rank() != input.rank() - 1)
    return c.Invalid("diagonals of shape ", diagonal, " are not those of matrices of shape ", input);
  if (c.ok() && band.has_value() && diagonal.known_rank() && !input.known_rank())
    return c.SetOutput(0, Join(diagonal.Slice(0, band->count() == 1 ? -1 : -2), Shape{kUnknown, kUnknown}));
  const auto packed = PackedShape(c, input, band);
  if (packed.has_value()) {
    const Shape merged = c.Merge(*packed, diagonal, "the shapes of the matrices' diagonals and of diagonal");
    for (int i = 0; c.ok() && i + 2 < input.rank(); ++i) input.Set(i, merged[i]);
  }
  c.SetOutput(0, input);
}

void DiagShape(ShapeContext& c) {
  const Shape diagonal = c.WithRankAtLeast(0, 1);
  c.SetOutput(0, Join(diagonal, diagonal));
}
void DiagPartShape(ShapeContext& c) {
  const Shape input = c.Input(0);
  if (!input.known_rank()) return;
  if (input.rank() == 0 || input.rank() % 2 != 0)
    return c.Invalid("Input must have even and non-zero rank; its shape is ", input);
  c.SetOutput(0, c.Merge(input.Slice(0, input.rank() / 2), input.Slice(input.rank() / 2),
                         "the first and the second half of the dims"));
}

// ---- Gradients: what a kernel moved goes back ----

// The op of the same version, with k and padding if there are any.
Output SameVersion(GradientContext& g, std::string_view op, std::vector<Output> inputs, int k, bool padded) {
  if (k >= g.input_count()) return g.Op(op, inputs);
  inputs.push_back(g.input(k));
  if (padded) inputs.push_back(g.Scalar(0, g.dy(0)));
  const bool second = g.op().ends_with("V2");
  std::vector<Attribute> align = {{"align", second ? std::string_view("LEFT_LEFT") : g.String("align")}};
  return g.Op(std::string(op) + "V3", inputs, align);
}
void MatrixDiagGradient(GradientContext& g) { g.SetDx(0, SameVersion(g, "MatrixDiagPart", {g.dy(0)}, 1, true)); }
void MatrixDiagPartGradient(GradientContext& g) {
  g.SetDx(0, SameVersion(g, "MatrixSetDiag", {g.ZerosLike(g.input(0)), g.dy(0)}, 1, false));
}
void MatrixSetDiagGradient(GradientContext& g) {
  g.SetDx(0, SameVersion(g, "MatrixSetDiag", {g.dy(0), g.ZerosLike(g.input(1))}, 2, false));
  g.SetDx(1, SameVersion(g, "MatrixDiagPart", {g.dy(0)}, 2, true));
}
void DiagGradient(GradientContext& g) { g.SetDx(0, g.Op("DiagPart", {g.dy(0)})); }
void DiagPartGradient(GradientContext& g) { g.SetDx(0, g.Op("Diag", {g.dy(0)})); }

constexpr Traits kPlain = {.constraints = Constraints<PlainConstraint<"T">>::list};
constexpr Traits kPlainInPlace = {.constraints = Constraints<PlainConstraint<"T">>::list, .in_place = kInPlaceFirst};
constexpr std::string_view kNumbers = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}";
constexpr std::string_view kAlign =
    "T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'";

// A version of an op: the second has more inputs than the first, the third an attribute more than that.
struct Form {
  std::string_view name, inputs, constraints, attrs = "T: type";
};
consteval tenon_op_definition MatrixDiagOp(const Form& form) {
  return DefineOp(
      {.name = form.name,
       .inputs = form.inputs,
       .outputs = "output: T",
       .attrs = form.attrs,
       .constraints = form.constraints,
       .doc = "Matrices with these diagonals (k: which, one or the lowest and the highest), and the padding elsewhere.",
       .shape = ShapeFunction<MatrixDiagShape>,
       .gradient = GradientFunction<MatrixDiagGradient>});
}
consteval tenon_op_definition MatrixDiagPartOp(const Form& form) {
  return DefineOp(
      {.name = form.name,
       .inputs = form.inputs,
       .outputs = "diagonal: T",
       .attrs = form.attrs,
       .constraints = form.constraints,
       .doc = "Diagonals of matrices (k: which, one or the lowest and the highest); shorter ones are padded.",
       .shape = ShapeFunction<MatrixDiagPartShape>,
       .gradient = GradientFunction<MatrixDiagPartGradient>});
}
consteval tenon_op_definition MatrixSetDiagOp(const Form& form) {
  return DefineOp(
      {.name = form.name,
       .inputs = form.inputs,
       .outputs = "output: T",
       .attrs = form.attrs,
       .constraints = form.constraints,
       .doc = "Matrices with these diagonals (k: which, one or the lowest and the highest) instead of their own.",
       .shape = ShapeFunction<MatrixSetDiagShape>,
       .gradient = GradientFunction<MatrixSetDiagGradient>});
}

constexpr std::string_view kDiagInputs = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T";
constexpr std::string_view kDiagChecks =
    "rank(diagonal) >= 1; rank(k) <= 1; rank(num_rows) == 0; rank(num_cols) == 0; rank(padding_value) == 0";
constexpr std::string_view kPartInputs = "input: T, k: int32, padding_value: T",
                           kPartChecks = "rank(input) >= 2; rank(k) <= 1; rank(padding_value) == 0";
constexpr std::string_view kSetInputs = "input: T, diagonal: T, k: int32",
                           kSetChecks = "rank(input) >= 2; rank(diagonal) >= 1; rank(k) <= 1";

}  // namespace

TENON_KERNEL(kMatrixDiagKernel) = Registration<MatrixDiag>("MatrixDiag", kPlain);
TENON_KERNEL(kMatrixDiagV2Kernel) = Registration<MatrixDiag>("MatrixDiagV2", kPlain);
TENON_KERNEL(kMatrixDiagV3Kernel) = Registration<MatrixDiag>("MatrixDiagV3", kPlain);
TENON_KERNEL(kMatrixDiagPartKernel) = Registration<MatrixDiagPart>("MatrixDiagPart", kPlain);
TENON_KERNEL(kMatrixDiagPartV2Kernel) = Registration<MatrixDiagPart>("MatrixDiagPartV2", kPlain);
TENON_KERNEL(kMatrixDiagPartV3Kernel) = Registration<MatrixDiagPart>("MatrixDiagPartV3", kPlain);
TENON_KERNEL(kMatrixSetDiagKernel) = Registration<MatrixSetDiag>("MatrixSetDiag", kPlainInPlace);
TENON_KERNEL(kMatrixSetDiagV2Kernel) = Registration<MatrixSetDiag>("MatrixSetDiagV2", kPlainInPlace);
TENON_KERNEL(kMatrixSetDiagV3Kernel) = Registration<MatrixSetDiag>("MatrixSetDiagV3", kPlainInPlace);
TENON_KERNEL(kDiagKernel) = Registration<DiagKernel>("Diag", kPlain);
TENON_KERNEL(kDiagPartKernel) = Registration<DiagPartKernel>("DiagPart", kPlain);

TENON_OP(kMatrixDiag) = MatrixDiagOp({.name = "MatrixDiag",
                                      .inputs = "diagonal: T",
                                      .constraints = "rank(diagonal) >= 1"});
TENON_OP(kMatrixDiagV2) = MatrixDiagOp({.name = "MatrixDiagV2", .inputs = kDiagInputs, .constraints = kDiagChecks});
TENON_OP(kMatrixDiagV3) =
    MatrixDiagOp({.name = "MatrixDiagV3", .inputs = kDiagInputs, .constraints = kDiagChecks, .attrs = kAlign});
TENON_OP(kMatrixDiagPart) = MatrixDiagPartOp({.name = "MatrixDiagPart",
                                              .inputs = "input: T",
                                              .constraints = "rank(input) >= 2"});
TENON_OP(kMatrixDiagPartV2) = MatrixDiagPartOp({.name = "MatrixDiagPartV2",
                                                .inputs = kPartInputs,
                                                .constraints = kPartChecks});
TENON_OP(kMatrixDiagPartV3) =
    MatrixDiagPartOp({.name = "MatrixDiagPartV3", .inputs = kPartInputs, .constraints = kPartChecks, .attrs = kAlign});
TENON_OP(kMatrixSetDiag) = MatrixSetDiagOp({.name = "MatrixSetDiag",
                                            .inputs = "input: T, diagonal: T",
                                            .constraints = "rank(input) >= 2; rank(diagonal) == rank(input) - 1"});
TENON_OP(kMatrixSetDiagV2) = MatrixSetDiagOp({.name = "MatrixSetDiagV2",
                                              .inputs = kSetInputs,
                                              .constraints = kSetChecks});
TENON_OP(kMatrixSetDiagV3) =
    MatrixSetDiagOp({.name = "MatrixSetDiagV3", .inputs = kSetInputs, .constraints = kSetChecks, .attrs = kAlign});

TENON_OP(kDiag) = DefineOp({
    .name = "Diag",
    .inputs = "diagonal: T",
    .outputs = "output: T",
    .attrs = kNumbers,
    .constraints = "rank(diagonal) >= 1",
    .doc = "A tensor of twice the rank, 0 but where both halves of an index are the same.",
    .shape = ShapeFunction<DiagShape>,
    .gradient = GradientFunction<DiagGradient>,
});
TENON_OP(kDiagPart) = DefineOp({
    .name = "DiagPart",
    .inputs = "input: T",
    .outputs = "diagonal: T",
    .attrs = kNumbers,
    .constraints = "rank(input) >= 2",
    .doc = "Of a tensor, the elements at which both halves of an index are the same.",
    .shape = ShapeFunction<DiagPartShape>,
    .gradient = GradientFunction<DiagPartGradient>,
});

}  // namespace tenon::ops
