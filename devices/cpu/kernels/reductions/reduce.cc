// SPDX-License-Identifier: Apache-2.0
// Sum, Mean, Prod, Max, Min, All, Any over any axes.
//
// Two forms. Innermost dim reduced: every output sums contiguous rows. Innermost dim kept: every output row is a sum of
// rows; many rows of few columns are taken side by side (narrow_rows.h). A sum is taken in blocks of kBlockLength
// elements in a fixed order, and the blocks' sums are added in the accumulator's type, so that the bits do not depend
// on threads. Eigen's sums begin with what lies before the first aligned element, so that their bits would depend on
// the address.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/common/fold.h"
#include "kernels/common/types.h"
#include "kernels/reductions/narrow_rows.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/reduce_shape.h"

namespace tenon::cpu {
namespace {

using sdk::kMaxDims;
using sdk::ReduceShape;

constexpr int64_t kBlockLength = 1024;
// A reduction's neutral element and step. Accumulators are Accumulator<Op, T>; float sums of blocks are added in
// double.
struct Arithmetic {};
struct SumOp : Arithmetic {
  template <class A>
  static A First() { return A(0); }
  template <class A>
  static A Step(A x, A y) { return sdk::AddOp()(x, y); }
};
struct MeanOp : SumOp {};
struct ProdOp : Arithmetic {
  template <class A>
  static A First() { return A(1); }
  template <class A>
  static A Step(A x, A y) { return sdk::MulOp()(x, y); }
};
// NaN wins, on either side.
struct MaxOp {
  template <class A>
  static A First() {
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  template <class A>
  static A Step(A x, A y) {
    if constexpr (std::is_floating_point_v<A>) {
      const A larger = x > y ? x : y;  // y when either is NaN
      return x != x ? x : larger;
    } else {
      return x > y ? x : y;
    }
  }
};
struct MinOp {
  template <class A>
  static A First() {
    if constexpr (std::is_floating_point_v<A>) return std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::max();
  }
  template <class A>
  static A Step(A x, A y) {
    if constexpr (std::is_floating_point_v<A>) {
      const A smaller = x < y ? x : y;
      return x != x ? x : smaller;
    } else {
      return x < y ? x : y;
    }
  }
};
struct AllOp {
  template <class A>
  static A First() { return true; }
  template <class A>
  static A Step(A x, A y) { return x & y; }
};
struct AnyOp {
  template <class A>
  static A First() { return false; }
  template <class A>
  static A Step(A x, A y) { return x | y; }
};

// Accumulators in flight: several vectors in long rows. The compiler makes vectors of comparisons only where it does
// not unroll the lanes, so that they take many from the start; sums of few are done sooner.
constexpr int kFewLanes = 16;
constexpr int kManyLanes = 64;
template <class Op>
constexpr int64_t kLong = std::is_same_v<Op, ProdOp> ? 128 : std::is_base_of_v<Arithmetic, Op> ? 512 : kManyLanes;

// A mean of integers is of a sum that does not wrap.
template <class Op, class T>
using Accumulator =
    std::conditional_t<std::is_same_v<Op, MeanOp> && std::is_integral_v<T> && (sizeof(T) < 8), int64_t, Wide<T>>;

// As what numbers are reduced: sums and products of whole numbers have the same bits with and without a sign.
template <class Op, class T>
constexpr bool kWraps = std::is_integral_v<T> && (std::is_same_v<Op, SumOp> || std::is_same_v<Op, ProdOp>);
template <class Op, class T>
using Reduced = typename std::conditional_t<kWraps<Op, T>, std::make_unsigned<T>, std::type_identity<T>>::type;
// A mean is the division of a sum, but for that of integers.
template <class Op, class T>
using Reducing =
    std::conditional_t<std::is_same_v<Op, MeanOp> && std::is_same_v<Accumulator<Op, T>, Wide<T>>, SumOp, Op>;

// What whole blocks are added in.
template <class Op, class A>
using Total = std::conditional_t<std::is_base_of_v<SumOp, Op> && std::is_same_v<A, float>, double, A>;

template <class Op, class T, int kLanes>
Accumulator<Op, T> ReduceLanes(const T* x, int64_t n) {
  using A = Accumulator<Op, T>;
  A lanes[kLanes];
  for (int l = 0; l < kLanes; ++l) lanes[l] = Op::template First<A>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int l = 0; l < kLanes; ++l) lanes[l] = Op::template Step<A>(lanes[l], static_cast<A>(x[i + l]));
  }
  for (int l = 0; i < n; ++i, ++l) lanes[l] = Op::template Step<A>(lanes[l], static_cast<A>(x[i]));
  return Fold(lanes, [](A x, A y) { return Op::template Step<A>(x, y); });
}

template <class Op, class T>
Accumulator<Op, T> ReduceBlock(const T* x, int64_t n) {
  return n < kLong<Op> ? ReduceLanes<Op, T, kFewLanes>(x, n) : ReduceLanes<Op, T, kManyLanes>(x, n);
}

// n contiguous elements into total.
template <class Op, class T>
void ReduceRow(const T* x, int64_t n, Total<Op, Accumulator<Op, T>>* total) {
  if constexpr (std::is_same_v<T, bool>) {  // decided by the first that is unlike First()
    constexpr bool kAny = std::is_same_v<Op, AnyOp>;
    if (!n || *total == kAny) return;
    *total = kAny == (std::memchr(x, kAny, static_cast<size_t>(n)) != nullptr);
    return;
  }
  using S = Total<Op, Accumulator<Op, T>>;
  for (int64_t i = 0; i < n; i += kBlockLength) {
    *total = Op::template Step<S>(*total, static_cast<S>(ReduceBlock<Op, T>(x + i, std::min(kBlockLength, n - i))));
  }
}

// Element strides of the dims of a shape.
std::array<int64_t, kMaxDims> StridesOf(const ReduceShape& shape) {
  std::array<int64_t, kMaxDims> strides = {};
  int64_t step = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = step;
    step *= shape.dims[static_cast<size_t>(d)];
  }
  return strides;
}

// Walks the reduced (or kept) dims, `last` of them left out at the end: function(offset) for each combination.
class Walk {
 public:
  Walk(const ReduceShape& shape, bool reduced, bool without_last) {
    const auto strides = StridesOf(shape);
    for (int d = 0; d < shape.rank; ++d) {
      const auto i = static_cast<size_t>(d);
      if (shape.reduced[i] != reduced || (without_last && d == shape.rank - 1)) continue;
      dims_[static_cast<size_t>(rank_)] = shape.dims[i];
      strides_[static_cast<size_t>(rank_)] = strides[i];
      count_ *= shape.dims[i];
      ++rank_;
    }
  }
  int64_t count() const { return count_; }
  int64_t Offset(int64_t index) const {
    int64_t offset = 0;
    for (int d = rank_ - 1; d >= 0; --d) {
      offset += index % dims_[static_cast<size_t>(d)] * strides_[static_cast<size_t>(d)];
      index /= dims_[static_cast<size_t>(d)];
    }
    return offset;
  }

 private:
  int rank_ = 0;
  int64_t count_ = 1;
  std::array<int64_t, kMaxDims> dims_ = {};
  std::array<int64_t, kMaxDims> strides_ = {};
};

template <class T, class S>
T Finish(S total, int64_t divisor) {
  if (divisor == 0) return static_cast<T>(static_cast<Wide<T>>(total));
  if constexpr (std::is_same_v<T, bool>) {
    return total;
  } else if constexpr (kIsComplex<T>) {
    return total / static_cast<typename T::value_type>(divisor);
  } else {
    return static_cast<T>(static_cast<Wide<T>>(total / static_cast<S>(divisor)));
  }
}

// Outputs [begin, end): every one sums contiguous rows.
template <class Op, class T>
void ReduceInner(const ReduceShape& shape, const T* x, T* out, int64_t divisor, int64_t begin, int64_t end) {
  using S = Total<Op, Accumulator<Op, T>>;
  const int64_t row = shape.dims[static_cast<size_t>(shape.rank - 1)];
  const Walk kept(shape, false, false);
  const Walk reduced(shape, true, true);
  for (int64_t o = begin; o < end; ++o) {
    const T* from = x + kept.Offset(o);
    S total = Op::template First<S>();
    for (int64_t r = 0; r < reduced.count(); ++r) ReduceRow<Op, T>(from + reduced.Offset(r), row, &total);
    out[o] = Finish<T, S>(total, divisor);
  }
}

// Columns [begin, end) of every output row; one row is a sum of rows.
template <class Op, class T>
void ReduceOuter(const ReduceShape& shape, const T* x, T* out, int64_t divisor, int64_t begin, int64_t end) {
  using A = Accumulator<Op, T>;
  using S = Total<Op, A>;
  constexpr int64_t kColumns = 128;
  constexpr int64_t kBlockRows = 64;
  const int64_t row = shape.dims[static_cast<size_t>(shape.rank - 1)];
  const Walk kept(shape, false, true);
  const Walk reduced(shape, true, false);
  for (int64_t o = 0; o < kept.count(); ++o) {
    const T* from = x + kept.Offset(o);
    for (int64_t j0 = begin; j0 < end; j0 += kColumns) {
      const int64_t n = std::min(kColumns, end - j0);
      S total[kColumns];
      std::fill_n(total, n, Op::template First<S>());
      for (int64_t r0 = 0; r0 < reduced.count(); r0 += kBlockRows) {
        A block[kColumns];
        std::fill_n(block, n, Op::template First<A>());
        const int64_t r1 = std::min(reduced.count(), r0 + kBlockRows);
        for (int64_t r = r0; r < r1; ++r) {
          const T* line = from + reduced.Offset(r) + j0;
          for (int64_t j = 0; j < n; ++j) block[j] = Op::template Step<A>(block[j], static_cast<A>(line[j]));
        }
        for (int64_t j = 0; j < n; ++j) total[j] = Op::template Step<S>(total[j], static_cast<S>(block[j]));
      }
      for (int64_t j = 0; j < n; ++j) out[o * row + j0 + j] = Finish<T, S>(total[j], divisor);
    }
  }
}

// One output from many contiguous elements: blocks' sums in the workspace, then their sum.
constexpr int64_t kShareLength = 64 * kBlockLength;

template <class Op, class T>
void ReduceAll(sdk::RunContext c, const T* x, int64_t n, T* out, int64_t divisor) {
  using S = Total<Op, Accumulator<Op, T>>;
  const int64_t shares = (n + kShareLength - 1) / kShareLength;
  S* sums = c.workspace<S>();
  c.ParallelFor(shares, static_cast<double>(kShareLength) * 0.1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      sums[i] = Op::template First<S>();
      ReduceRow<Op, T>(x + i * kShareLength, std::min(kShareLength, n - i * kShareLength), &sums[i]);
    }
  });
  S total = Op::template First<S>();
  for (int64_t i = 0; i < shares; ++i) total = Op::template Step<S>(total, sums[i]);
  *out = Finish<T, S>(total, divisor);
}

// One row of few columns of many such rows.
template <class Op, class T>
void ReduceNarrow(sdk::RunContext c, const NarrowRows& rows, int64_t columns, const T* x, T* out, int64_t divisor) {
  using A = Accumulator<Op, T>;
  using S = Total<Op, A>;
  S total[kWideRow];
  std::fill_n(total, columns, Op::template First<S>());
  rows.Reduce<Op, A, S>(c, x, c.workspace<S>(), total);
  for (int64_t j = 0; j < columns; ++j) out[j] = Finish<T, S>(total[j], divisor);
}

struct ReducePlan {
  ReduceShape shape;
  bool constant = false;  // the axes were known
  int64_t axis_count = 0;
  int64_t output_count = 0;
  void (*function)(const ReducePlan&, const ReduceShape&, sdk::RunContext) = nullptr;
};

template <class Given, class T>
void ReduceTyped(const ReducePlan&, const ReduceShape& shape, sdk::RunContext c) {
  using Op = Reducing<Given, T>;
  constexpr bool kMean = std::is_same_v<Given, MeanOp>;
  const T* x = c.input<T>(0);
  T* out = c.output<T>(0);
  const int64_t divisor = kMean ? shape.inputs : 0;
  if (shape.outputs == 0) return;
  if (shape.inputs == 0) {
    if constexpr (kMean && std::is_integral_v<T>) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "Integer division by zero: the mean of no elements");
    } else if constexpr (kMean && !kIsComplex<T>) {  // of complex numbers 0, as in TensorFlow
      std::fill_n(out, shape.outputs, static_cast<T>(std::numeric_limits<double>::quiet_NaN()));
    } else {
      std::fill_n(out, shape.outputs, static_cast<T>(Op::template First<Wide<T>>()));
    }
    return;
  }
  const double cost = static_cast<double>(shape.inputs) * 0.1 + 3;
  if (shape.inputs == 1) {  // each element is its own sum, a -0 too
    if (out != x) std::memcpy(out, x, static_cast<size_t>(shape.outputs) * sizeof(T));
  } else if (shape.rank == 1 && shape.reduced[0] && shape.inputs <= kShareLength) {
    using S = Total<Op, Accumulator<Op, T>>;
    S total = Op::template First<S>();
    ReduceRow<Op, T>(x, shape.inputs, &total);
    *out = Finish<T, S>(total, divisor);
  } else if (!shape.reduced[static_cast<size_t>(shape.rank - 1)]) {
    const int64_t row = shape.dims[static_cast<size_t>(shape.rank - 1)];
    const NarrowRows narrow(shape.inputs, row);
    if (shape.rank == 2 && narrow.Pays()) return ReduceNarrow<Op, T>(c, narrow, row, x, out, divisor);
    const double column = cost * static_cast<double>(shape.outputs / row);
    c.ParallelFor(row, column, [&](int64_t begin, int64_t end) {
      ReduceOuter<Op, T>(shape, x, out, divisor, begin, end);
    });
  } else if (shape.rank == 1 && shape.inputs > kShareLength) {
    ReduceAll<Op, T>(c, x, shape.inputs, out, divisor);
  } else {
    c.ParallelFor(shape.outputs, cost, [&](int64_t begin, int64_t end) {
      ReduceInner<Op, T>(shape, x, out, divisor, begin, end);
    });
  }
}

template <class Op, class Set>
struct ReduceKernel {
  struct Plan : ReducePlan {
    Plan(const ReduceKernel&, sdk::PrepareContext& c) {
      this->axis_count = sdk::Count(c.input(1));
      this->output_count = sdk::Count(c.output(0));
      const int64_t count = sdk::Count(c.input(0));
      if (const void* axes = c.Constant<void>(1)) {
        this->shape = ReduceShape(sdk::DimsOf(c.input(0)), axes, c.input(1).dtype, this->axis_count);
        this->constant = true;
      }
      constexpr int64_t kMostBytes = 16;  // of what is added
      c.Workspace(sdk::Multiply(std::max(count / kShareLength + 1, NarrowRows::MostWorkspaceCount(count)), kMostBytes));
      Set::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { this->function = &ReduceTyped<Op, Reduced<Op, T>>; });
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    if (plan.constant) {
      plan.function(plan, plan.shape, c);
      return;
    }
    const tenon_tensor_view& axes = c.input_view(1);
    const ReduceShape shape(sdk::DimsOf(c.input_view(0)), sdk::Data<void>(axes), axes.dtype, plan.axis_count);
    if (shape.outputs != plan.output_count) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "the axes leave ", shape.outputs, " elements; the output has ",
                plan.output_count);
    }
    plan.function(plan, shape, c);
  }
};

template <class Op, class Set>
constexpr tenon_kernel_registration CpuReduce(std::string_view op) {
  return CpuKernel<ReduceKernel<Op, Set>>(
      op, {.constraints = sdk::Constraints<typename Set::template Constraint<"T">, Indices::Constraint<"Tidx">>::list});
}
template <class Op>
constexpr tenon_kernel_registration CpuLogicReduce(std::string_view op) {
  return CpuKernel<ReduceKernel<Op, Types<bool>>>(op,
                                                  {.constraints = sdk::Constraints<Indices::Constraint<"Tidx">>::list});
}

}  // namespace

TENON_CPU_KERNEL(Sum) = CpuReduce<SumOp, Numbers::AndComplex>("Sum");
TENON_CPU_KERNEL(Mean) = CpuReduce<MeanOp, Numbers::AndComplex>("Mean");
TENON_CPU_KERNEL(Prod) = CpuReduce<ProdOp, Numbers::AndComplex>("Prod");
TENON_CPU_KERNEL(Max) = CpuReduce<MaxOp, Numbers>("Max");
TENON_CPU_KERNEL(Min) = CpuReduce<MinOp, Numbers>("Min");
TENON_CPU_KERNEL(All) = CpuLogicReduce<AllOp>("All");
TENON_CPU_KERNEL(Any) = CpuLogicReduce<AnyOp>("Any");

}  // namespace tenon::cpu
