// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels from one function object: unary (with an optional second operand of the same shape) and binary
// with broadcasting.
//
//   struct AddOp { template <class T> T operator()(T x, T y) const { return x + y; } };
//   TENON_CPU_KERNEL(Add) = CpuBinary<AddOp, Numbers>("Add");
//
// Rules. prepare() picks the function for dtype and shapes, so that run() is one indirect call: scalars have a function
// of their own. kBlocked ops (those that call math.h) run in whole blocks of kBlock elements, the last one padded in a
// local copy, so that the bits do not depend on where a range begins. Output may be input 0's or 1's memory: every
// element is read before it is written, at the same index.
#ifndef TENON_DEVICES_CPU_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
#define TENON_DEVICES_CPU_KERNELS_ELEMENTWISE_ELEMENTWISE_H_

#include <algorithm>
#include <atomic>
#include <type_traits>

#include "kernels/common/half.h"
#include "kernels/common/types.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/broadcast.h"

namespace tenon::cpu {

using sdk::Broadcast;

inline constexpr int64_t kBlock = 64;

template <class Op>
concept Blocked = requires { requires Op::kBlocked; };
template <class Op>
concept HasCost = requires { Op::kCost; };

// Rough nanoseconds of one element.
template <class Op>
constexpr double CostOf() {
  if constexpr (HasCost<Op>) {
    return Op::kCost;
  } else {
    return Blocked<Op> ? 0.8 : 0.15;
  }
}

// op(x) in the type that T computes in; results of other types stay. An op that rounds on its way has Rounded<T> for
// halves.
template <class Result, class T, class Op>
inline Result Apply(const Op& op, T x) {
  if constexpr (kIsHalf<T>) {
    return static_cast<Result>(op(static_cast<float>(x)));
  } else {
    return static_cast<Result>(op(x));
  }
}
template <class Result, class T, class Op>
inline Result Apply(const Op& op, T x, T y) {
  if constexpr (kIsHalf<T> && requires { op.template Rounded<T>(0.0f, 0.0f); }) {
    return op.template Rounded<T>(static_cast<float>(x), static_cast<float>(y));
  } else if constexpr (kIsHalf<T>) {
    return static_cast<Result>(op(static_cast<float>(x), static_cast<float>(y)));
  } else {
    return static_cast<Result>(op(x, y));
  }
}

// A row of halves goes through floats, a block at a time.
template <class Op, class T, class Result>
inline void UnaryHalves(const Op& op, const T* x, Result* out, int64_t n) {
  using Wider = decltype(op(0.0f));
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = std::min(kBlock, n - i), many = Blocked<Op> ? kBlock : m;
    float xs[kBlock];
    Wider results[kBlock];
    ToFloats(x + i, xs, m);
    for (int64_t k = m; k < many; ++k) xs[k] = xs[m - 1];
#pragma GCC ivdep
    for (int64_t k = 0; k < many; ++k) results[k] = op(xs[k]);
    if constexpr (std::is_same_v<Wider, float> && std::is_same_v<Result, T>) {
      FromFloats(results, out + i, m);
    } else {
      for (int64_t k = 0; k < m; ++k) out[i + k] = static_cast<Result>(results[k]);
    }
  }
}

// function(pointers..., out, n) with n == kBlock always for blocked ops; the rest is padded with its own last element.
template <class Op, class T, class Result>
inline void UnaryLoop(const Op& op, const T* x, Result* out, int64_t n) {
  if constexpr (kIsHalf<T>) {
    UnaryHalves(op, x, out, n);
  } else if constexpr (Blocked<Op>) {
    int64_t i = 0;
    for (; i + kBlock <= n; i += kBlock) {
#pragma GCC ivdep
      for (int64_t k = 0; k < kBlock; ++k) out[i + k] = Apply<Result, T>(op, x[i + k]);
    }
    if (i < n) {
      T padded[kBlock];
      Result results[kBlock];
      for (int64_t k = 0; k < kBlock; ++k) padded[k] = x[i + std::min(k, n - i - 1)];
#pragma GCC ivdep
      for (int64_t k = 0; k < kBlock; ++k) results[k] = Apply<Result, T>(op, padded[k]);
      for (int64_t k = 0; k < n - i; ++k) out[i + k] = results[k];
    }
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Apply<Result, T>(op, x[i]);
  }
}

// n elements of an operand, or one for all of them, and copies of the last to the end of a block; of halves as floats.
template <class T, class Wider>
inline void FillBlock(const T* x, int64_t stride, int64_t n, Wider* block) {
  if (stride == 0) {
    std::fill(block, block + kBlock, static_cast<Wider>(x[0]));
    return;
  }
  if constexpr (kIsHalf<T>) {
    ToFloats(x, block, n);
  } else {
    std::copy(x, x + n, block);
  }
  for (int64_t k = n; k < kBlock; ++k) block[k] = block[n - 1];
}

// Ops that have one take a whole block themselves: op.Block(x, y, out).
template <class Op, class T>
concept HasBlock = requires(const Op& op, T* block) { op.Block(block, block, block); };

template <class Op, class T, class Result>
inline void BinaryBlocks(const Op& op, const T* x, const T* y, Result* out, int64_t n, int64_t stride_x,
                         int64_t stride_y) {
  // A few halves at a time stay in registers all the way.
  if constexpr (kIsHalf<T> && !Blocked<Op> && !HasBlock<Op, float> && std::is_same_v<decltype(op(0.0f, 0.0f)), float> &&
                std::is_same_v<Result, T>) {
    constexpr int64_t kFew = 16;
    float xs[kFew];
    float ys[kFew];
    if (stride_x == 0) std::fill_n(xs, kFew, static_cast<float>(x[0]));
    if (stride_y == 0) std::fill_n(ys, kFew, static_cast<float>(y[0]));
    for (; n >= kFew; n -= kFew, x += stride_x * kFew, y += stride_y * kFew, out += kFew) {
      float results[kFew];
      if (stride_x != 0) ToFloats(x, xs, kFew);
      if (stride_y != 0) ToFloats(y, ys, kFew);
      for (int64_t k = 0; k < kFew; ++k) results[k] = op(xs[k], ys[k]);
      FromFloats(results, out, kFew);
    }
  }
  using Wider = Wide<T>;
  using Made = decltype(op(Wider(), Wider()));
  for (int64_t i = 0; i < n; i += kBlock) {
    Wider xs[kBlock];
    Wider ys[kBlock];
    Made results[kBlock];
    const int64_t m = std::min(kBlock, n - i);
    FillBlock(x + stride_x * i, stride_x, m, xs);
    FillBlock(y + stride_y * i, stride_y, m, ys);
    if constexpr (HasBlock<Op, Wider>) {
      op.Block(xs, ys, results);
    } else {
      const int64_t many = Blocked<Op> ? kBlock : m;
#pragma GCC ivdep
      for (int64_t k = 0; k < many; ++k) results[k] = op(xs[k], ys[k]);
    }
    if constexpr (kIsHalf<T> && std::is_same_v<Made, float> && std::is_same_v<Result, T>) {
      FromFloats(results, out + i, m);
    } else {
      for (int64_t k = 0; k < m; ++k) out[i + k] = static_cast<Result>(results[k]);
    }
  }
}

// Strides are 0 or 1.
template <class Op, class T, class Result>
inline void BinaryLoop(const Op& op, const T* x, const T* y, Result* out, int64_t n, int64_t stride_x,
                       int64_t stride_y) {
  if constexpr (requires { op.template Rounded<T>(0.0f, 0.0f); } && kIsHalf<T>) {
    for (int64_t i = 0; i < n; ++i) out[i] = Apply<Result, T>(op, x[stride_x * i], y[stride_y * i]);
  } else if constexpr (Blocked<Op> || HasBlock<Op, Wide<T>> || kIsHalf<T>) {
    BinaryBlocks(op, x, y, out, n, stride_x, stride_y);
  } else if (stride_x == 0) {
    const T x0 = x[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Apply<Result, T>(op, x0, y[i]);
  } else if (stride_y == 0) {
    const T y0 = y[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Apply<Result, T>(op, x[i], y0);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = Apply<Result, T>(op, x[i], y[i]);
  }
}

// One row of any op: what differs between ops and dtypes; the walk over rows is shared.
using UnaryRow = void (*)(const void* op, const void* x, void* out, int64_t n);
using BinaryRow = void (*)(const void* op, const void* x, const void* y, void* out, int64_t n, int64_t stride_x,
                           int64_t stride_y);

struct RowSizes {
  int64_t input;   // bytes of an element of x and y
  int64_t output;  // and of out
  double cost;
};
void RunUnary(sdk::RunContext c, UnaryRow row, const void* op, int64_t count, const RowSizes& sizes);
void RunBinary(sdk::RunContext c, BinaryRow row, const void* op, const Broadcast<2>& shape, const RowSizes& sizes);

// The op's result is of T, or of another type (bool, a part of a complex number), which it then stays.
template <class Op, class T>
using ResultOf =
    std::conditional_t<std::is_same_v<decltype(std::declval<const Op&>()(std::declval<Wide<T>>())), Wide<T>>, T,
                       decltype(std::declval<const Op&>()(std::declval<Wide<T>>()))>;
template <class Op, class T>
using BinaryResultOf = std::conditional_t<
    std::is_same_v<decltype(std::declval<const Op&>()(std::declval<Wide<T>>(), std::declval<Wide<T>>())), Wide<T>>, T,
    decltype(std::declval<const Op&>()(std::declval<Wide<T>>(), std::declval<Wide<T>>()))>;

// Integer ops with operands that have no answer say so: Op::Invalid(y) and Op::kInvalidText. Asked before the output,
// which may be y's memory, is written.
template <class Op, class T>
inline void CheckOperands(const T* y, int64_t n) {
  if constexpr (requires { Op::Invalid(T{}); } && std::is_integral_v<T>) {
    bool invalid = false;
    for (int64_t i = 0; i < n; ++i) invalid |= Op::Invalid(y[i]);
    if (invalid) sdk::Fail(TENON_INVALID_ARGUMENT, Op::kInvalidText);
  }
}

// out = op(x). Op may have a constructor from CreateContext for attributes.
template <class Op, class Set>
struct UnaryKernel {
  UnaryKernel() requires std::is_default_constructible_v<Op> = default;
  explicit UnaryKernel(sdk::CreateContext& c) requires std::is_constructible_v<Op, sdk::CreateContext&> : op(c) {}
  struct Plan {
    Plan(const UnaryKernel&, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {
      Set::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
        function = count == 1 ? &UnaryKernel::template One<T> : &UnaryKernel::template Many<T>;
      });
    }
    void (*function)(const UnaryKernel&, const Plan&, sdk::RunContext);
    int64_t count;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(*this, plan, c); }
  sdk::Tile TileOf(std::span<const uint32_t> inputs, uint32_t) const {
    sdk::Tile tile{nullptr, &op, CostOf<Op>()};
    if (inputs.size() == 1) Set::Dispatch(inputs[0], [&]<class T>(Tag<T>) { tile.function = &Piece<T>; });
    return tile;
  }
  template <class T>
  static void Piece(const void* op, const void* const* inputs, const int64_t*, void* out, int64_t n) {
    Row<T>(op, inputs[0], out, n);
  }

  template <class T>
  static void One(const UnaryKernel& kernel, const Plan&, sdk::RunContext c) {
    using Result = ResultOf<Op, T>;
    *c.output<Result>(0) = Apply<Result, T>(kernel.op, *c.input<T>(0));
  }
  template <class T>
  [[gnu::noinline]] static void Row(const void* op, const void* x, void* out, int64_t n) {
    using Result = ResultOf<Op, T>;
    const Op own = *static_cast<const Op*>(op);  // what it has is then no memory that out could be
    UnaryLoop<Op, T, Result>(own, static_cast<const T*>(x), static_cast<Result*>(out), n);
  }
  template <class T>
  static void Many(const UnaryKernel& kernel, const Plan& plan, sdk::RunContext c) {
    RunUnary(c, &Row<T>, &kernel.op, plan.count, {sizeof(T), sizeof(ResultOf<Op, T>), CostOf<Op>()});
  }
  [[no_unique_address]] Op op;
};

// out = op(x, y), broadcast like numpy.
template <class Op, class Set>
struct BinaryKernel {
  BinaryKernel() requires std::is_default_constructible_v<Op> = default;
  explicit BinaryKernel(sdk::CreateContext& c) requires std::is_constructible_v<Op, sdk::CreateContext&> : op(c) {}
  struct Plan {
    Plan(const BinaryKernel&, sdk::PrepareContext& c)
        : shape({sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1))}, sdk::DimsOf(c.output(0))),
          y_count(sdk::Count(c.input(1))) {
      if (shape.inner > 1 && shape.inner_stride[0] == 0 && shape.inner_stride[1] == 0) {
        sdk::Fail(TENON_INTERNAL, "output shape ", sdk::DimsOf(c.output(0)), " is larger than both inputs");
      }
      Set::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
        function = shape.total == 1 ? &BinaryKernel::template One<T> : &BinaryKernel::template Many<T>;
      });
    }
    Plan() = default;
    void (*function)(const BinaryKernel&, const Plan&, sdk::RunContext) = nullptr;
    Broadcast<2> shape;
    int64_t y_count = 0;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(*this, plan, c); }
  sdk::Tile TileOf(std::span<const uint32_t> inputs, uint32_t) const {
    sdk::Tile tile{nullptr, &op, CostOf<Op>()};
    if (inputs.size() != 2 || inputs[0] != inputs[1]) return tile;
    Set::Dispatch(inputs[0], [&]<class T>(Tag<T>) {
      if constexpr (!(requires { Op::Invalid(T{}); } && std::is_integral_v<T>))
        tile.function = &Piece<T>;  // those may fail
    });
    return tile;
  }
  template <class T>
  static void Piece(const void* op, const void* const* inputs, const int64_t* strides, void* out, int64_t n) {
    Row<T>(op, inputs[0], inputs[1], out, n, strides[0], strides[1]);
  }

  template <class T>
  static void One(const BinaryKernel& kernel, const Plan&, sdk::RunContext c) {
    using Result = BinaryResultOf<Op, T>;
    CheckOperands<Op>(c.input<T>(1), 1);
    *c.output<Result>(0) = Apply<Result, T>(kernel.op, *c.input<T>(0), *c.input<T>(1));
  }
  template <class T>
  [[gnu::noinline]] static void Row(const void* op, const void* x, const void* y, void* out, int64_t n,
                                    int64_t stride_x, int64_t stride_y) {
    using Result = BinaryResultOf<Op, T>;
    const Op own = *static_cast<const Op*>(op);
    BinaryLoop<Op, T, Result>(own, static_cast<const T*>(x), static_cast<const T*>(y), static_cast<Result*>(out), n,
                              stride_x, stride_y);
  }
  template <class T>
  static void Many(const BinaryKernel& kernel, const Plan& plan, sdk::RunContext c) {
    if (plan.shape.total != 0) CheckOperands<Op>(c.input<T>(1), plan.y_count);
    RunBinary(c, &Row<T>, &kernel.op, plan.shape, {sizeof(T), sizeof(BinaryResultOf<Op, T>), CostOf<Op>()});
  }
  [[no_unique_address]] Op op;
};

template <class Op, class Set, sdk::FixedString kAttr = "T">
constexpr tenon_kernel_registration CpuUnary(std::string_view op) {
  using Constraint = sdk::Constraints<typename Set::template Constraint<kAttr>>;
  return CpuKernel<UnaryKernel<Op, Set>>(op, {.constraints = Constraint::list, .in_place = kInPlaceFirst});
}
template <class Op, class Set, sdk::FixedString kAttr = "T">
constexpr tenon_kernel_registration CpuBinary(std::string_view op) {
  using Constraint = sdk::Constraints<typename Set::template Constraint<kAttr>>;
  return CpuKernel<BinaryKernel<Op, Set>>(op, {.constraints = Constraint::list, .in_place = kInPlaceEither});
}
// For results of another dtype: nothing in place.
template <class Op, class Set, sdk::FixedString kAttr = "T">
constexpr tenon_kernel_registration CpuConversion(std::string_view op) {
  using Constraint = sdk::Constraints<typename Set::template Constraint<kAttr>>;
  return CpuKernel<UnaryKernel<Op, Set>>(op, {.constraints = Constraint::list});
}
template <class Op, class Set, sdk::FixedString kAttr = "T">
constexpr tenon_kernel_registration CpuCompare(std::string_view op) {
  using Constraint = sdk::Constraints<typename Set::template Constraint<kAttr>>;
  return CpuKernel<BinaryKernel<Op, Set>>(op, {.constraints = Constraint::list});
}

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_ELEMENTWISE_ELEMENTWISE_H_
