// SPDX-License-Identifier: Apache-2.0
// Cast, of several tensors too, AddN, CheckNumerics, ArgMax, ArgMin.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/fold.h"
#include "kernels/common/half.h"
#include "kernels/common/types.h"
#include "kernels/elementwise/cast_types.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/pool.h"

namespace tenon::cpu {
namespace {

using sdk::AddOrSubtract;

struct CastKernel {
  explicit CastKernel(sdk::CreateContext& c) : truncate(c.Has("Truncate") && c.Bool("Truncate")) {}
  struct Plan {
    Plan(const CastKernel& kernel, sdk::PrepareContext& c) : count(sdk::Count(c.input(0))) {
      CastTypes::Dispatch(PlainOf(c.input(0).dtype), [&]<class From>(Tag<From>) {
        CastTypes::Dispatch(PlainOf(c.output(0).dtype), [&]<class To>(Tag<To>) {
          // Truths are bytes that are 0 or 1; of bytes the compiler makes vectors.
          function =
              &Rows<std::conditional_t<std::is_same_v<From, bool> && !std::is_same_v<To, bool>, uint8_t, From>, To>;
          if constexpr (kIsHalf<To> && std::is_floating_point_v<From>) {
            if (kernel.truncate) function = &TruncatedRows<From, To>;
          }
        });
      });
    }
    void (*function)(sdk::RunContext, int64_t count);
    int64_t count;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(c, plan.count); }

  template <class From, class To>
  static void Rows(sdk::RunContext c, int64_t count) {
    const From* x = c.input<From>(0);
    To* out = c.output<To>(0);
    if (count == 1) {
      *out = Convert<To>(*x);
      return;
    }
    c.ParallelFor(count, kCost, [&](int64_t begin, int64_t end) { Row(x + begin, out + begin, end - begin); });
  }
  template <class From, class To>
  [[gnu::noinline]] static void Row(const From* x, To* out, int64_t n) {
    if constexpr (std::is_same_v<From, Half> != std::is_same_v<To, Half>) {
      ThroughFloats(x, out, n);
    } else {
      for (int64_t i = 0; i < n; ++i) out[i] = Convert<To>(x[i]);
    }
  }
  sdk::Tile TileOf(std::span<const uint32_t> inputs, uint32_t output) const {
    sdk::Tile tile{nullptr, nullptr, kCost};
    if (truncate) return tile;
    CastTypes::Dispatch(PlainOf(inputs[0]), [&]<class From>(Tag<From>) {
      CastTypes::Dispatch(PlainOf(output), [&]<class To>(Tag<To>) { tile.function = &Piece<From, To>; });
    });
    return tile;
  }
  template <class From, class To>
  static void Piece(const void*, const void* const* inputs, const int64_t*, void* out, int64_t n) {
    Row(static_cast<const From*>(inputs[0]), static_cast<To*>(out), n);
  }
  // A block at a time, for the processor's conversion of several halves.
  template <class From, class To>
  static void ThroughFloats(const From* x, To* out, int64_t n) {
    constexpr int64_t kBlock = 256;
    float values[kBlock];
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      if constexpr (std::is_same_v<From, float>) {
        FromFloats(x + i, out + i, m);
      } else if constexpr (std::is_same_v<To, float>) {
        ToFloats(x + i, out + i, m);
      } else if constexpr (std::is_same_v<To, Half>) {
        for (int64_t k = 0; k < m; ++k) values[k] = Convert<float>(x[i + k]);
        FromFloats(values, out + i, m);
      } else {
        ToFloats(x + i, values, m);
        for (int64_t k = 0; k < m; ++k) out[i + k] = Convert<To>(values[k]);
      }
    }
  }
  template <class From, class To>
  static void TruncatedRows(sdk::RunContext c, int64_t count) {
    const From* x = c.input<From>(0);
    To* out = c.output<To>(0);
    for (int64_t i = 0; i < count; ++i) out[i] = sdk::ConvertCut<To>(x[i]);
  }
  static constexpr double kCost = 0.3;
  bool truncate;
};

struct CastNKernel {
  struct Plan {
    Plan(const CastNKernel&, sdk::PrepareContext& c) : is_half(c.output(0).dtype == TENON_DT_HALF) {
      for (int32_t i = 0; i < c.input_count(); ++i) counts.push_back(sdk::Count(c.input(i)));
    }
    bool is_half;
    std::vector<int64_t> counts;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.is_half ? All<Half>(plan, c) : All<Bfloat16>(plan, c); }

  template <class To>
  static void All(const Plan& plan, sdk::RunContext c) {
    for (int32_t k = 0; k < c.input_count(); ++k) {
      const float* x = c.input<float>(k);
      To* out = c.output<To>(k);
      c.ParallelFor(plan.counts[static_cast<size_t>(k)], CastKernel::kCost,
                    [&](int64_t begin, int64_t end) { CastKernel::Row(x + begin, out + begin, end - begin); });
    }
  }
};

using Addable = Numbers::AndComplex;

// In the order of the inputs; the output may be the first one's memory.
struct AddNKernel {
  struct Plan {
    Plan(const AddNKernel&, sdk::PrepareContext& c) : count(sdk::Count(c.output(0))) {
      for (int32_t i = 0; i < c.input_count(); ++i) {
        if (sdk::Count(c.input(i)) != count) {
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of AddN has shape ", sdk::DimsOf(c.input(i)),
                    "; the sum's is ", sdk::DimsOf(c.output(0)));
        }
      }
      Addable::Dispatch(c.output(0).dtype, [&]<class T>(Tag<T>) { function = &Add<T>; });
    }
    int64_t count;
    void (*function)(const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  // Several inputs in one pass: the output is read and written less often.
  template <class T>
  static void Add(const Plan& plan, sdk::RunContext c) {
    T* out = c.output<T>(0);
    const int32_t n = c.input_count();
    const auto sum = [](T x, T y) { return AddOrSubtract<false>(x, y); };
    c.ParallelFor(plan.count, 0.1 * n, [&](int64_t begin, int64_t end) {
      const T* x = c.input<T>(0);
      if (n == 1 && x != out) std::copy(x + begin, x + end, out + begin);
      for (int32_t k = 1; k < n; x = out) {
        const auto input = [&](int32_t at) { return c.input<T>(at); };
        if (n - k >= 3) {
          AddOver(begin, end, out, [sum, x, y = input(k), z = input(k + 1), w = input(k + 2)](int64_t i) {
            return sum(sum(sum(x[i], y[i]), z[i]), w[i]);
          });
          k += 3;
        } else if (n - k == 2) {
          AddOver(begin, end, out,
                  [sum, x, y = input(k), z = input(k + 1)](int64_t i) { return sum(sum(x[i], y[i]), z[i]); });
          k += 2;
        } else {
          AddOver(begin, end, out, [sum, x, y = input(k)](int64_t i) { return sum(x[i], y[i]); });
          k += 1;
        }
      }
    });
  }
  sdk::Tile TileOf(std::span<const uint32_t> inputs, uint32_t output) const {
    sdk::Tile tile{nullptr, nullptr, 0.1 * static_cast<double>(inputs.size())};
    Addable::Dispatch(output, [&]<class T>(Tag<T>) {
      if (inputs.size() == 2) tile.function = &Piece<T, 2>;
      if (inputs.size() == 3) tile.function = &Piece<T, 3>;
      if (inputs.size() == 4) tile.function = &Piece<T, 4>;
    });
    return tile;
  }
  // All inputs have the output's shape.
  template <class T, int kCount>
  static void Piece(const void*, const void* const* inputs, const int64_t*, void* out, int64_t n) {
    const auto input = [inputs](int at) { return static_cast<const T*>(inputs[at]); };
    const auto sum = [](T x, T y) { return AddOrSubtract<false>(x, y); };
    if constexpr (kCount == 2) {
      AddOver(0, n, static_cast<T*>(out), [=, x = input(0), y = input(1)](int64_t i) { return sum(x[i], y[i]); });
    } else if constexpr (kCount == 3) {
      AddOver(0, n, static_cast<T*>(out),
              [=, x = input(0), y = input(1), z = input(2)](int64_t i) { return sum(sum(x[i], y[i]), z[i]); });
    } else {
      AddOver(0, n, static_cast<T*>(out), [=, x = input(0), y = input(1), z = input(2), w = input(3)](int64_t i) {
        return sum(sum(sum(x[i], y[i]), z[i]), w[i]);
      });
    }
  }
  template <class T, class Function>
  static void AddOver(int64_t begin, int64_t end, T* out, const Function& function) {
#pragma GCC ivdep
    for (int64_t i = begin; i < end; ++i) out[i] = function(i);
  }
};

using CheckTypes = Types<float, double, Half, Bfloat16>;
struct CheckNumericsKernel {
  explicit CheckNumericsKernel(sdk::CreateContext& c) : message(c.String("message")) {}
  void Run(sdk::RunContext c) const {
    CheckTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      T* out = c.output<T>(0);
      const int64_t n = sdk::Count(c.input_view(0));
      int infinite = 0, nan = 0;
      for (int64_t i = 0; i < n; ++i) {
        const Wide<T> v = x[i];
        nan |= v != v;
        infinite |= v == v && !(v - v == 0);
      }
      if (nan | infinite) {
        sdk::Fail(TENON_INVALID_ARGUMENT, message, " : Tensor had ",
                  nan && infinite ? "Inf and NaN" : nan ? "NaN" : "Inf", " values");
      }
      if (out != x && n != 0) std::memcpy(out, x, static_cast<size_t>(n) * sizeof(T));
    });
  }
  std::string message;
};

using Comparable = Numbers::And<bool>;

// The first of equal elements. As in TensorFlow it is what is better than the worst finite number: a NaN is passed
// over, and where nothing is better it is the first element.
template <bool kMax>
struct ArgKernel {
  void Run(sdk::RunContext c) const {
    const tenon_tensor_view& axis_view = c.input_view(1);
    const sdk::Dims in = sdk::DimsOf(c.input_view(0));
    const int64_t rank = static_cast<int64_t>(in.size());
    const int64_t given = IndexAt(sdk::Data<void>(axis_view), axis_view.dtype, 0);
    const int64_t axis = given < 0 ? given + rank : given;
    if (axis < 0 || axis >= rank) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "Expected dimension in the range [", -rank, ", ", rank, "), but got ", given);
    }
    const int64_t size = in[static_cast<size_t>(axis)];
    const int64_t outer = sdk::Count(in.first(static_cast<size_t>(axis)));
    const int64_t inner = sdk::Count(in.subspan(static_cast<size_t>(axis) + 1));
    if (sdk::Count(c.output_view(0)) != outer * inner) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "dimension ", given, " of shape ", in, " does not give the output's shape ",
                sdk::DimsOf(c.output_view(0)));
    }
    if (size == 0 && outer * inner != 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "Reduction axis ", given, " is empty in shape ", in);
    }
    const tenon_tensor_view& out = c.output_view(0);
    Comparable::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      const T* x = c.input<T>(0);
      c.ParallelFor(outer * inner, static_cast<double>(size) * (inner == 1 ? 0.1 : 0.7),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const T* from = x + i / inner * size * inner + i % inner;
                        Put(out, i, inner == 1 ? BestOf(from, size) : Best(from, size, inner));
                      }
                    });
    });
  }
  template <class V>
  static bool Better(V x, V y) {
    return kMax ? x > y : x < y;
  }
  template <class T>
  static Wide<T> Worst() {
    if constexpr (kMax) return sdk::Lowest<T>();
    else if constexpr (kIsReal<T>) return -sdk::Lowest<T>();
    else return std::numeric_limits<T>::max();
  }
  template <class T>
  static int64_t Best(const T* x, int64_t n, int64_t stride) {
    int64_t best = 0;
    Wide<T> value = Worst<T>();
    for (int64_t k = 0; k < n; ++k) {
      if (const Wide<T> v = x[k * stride]; Better(v, value)) value = v, best = k;
    }
    return best;
  }
  // Its value first, then where it stands: both several elements at a time.
  template <class T>
  static int64_t BestOf(const T* x, int64_t n) {
    using A = Wide<T>;
    constexpr int64_t kLanes = 64;
    if (n < kLanes) return Best(x, n, 1);
    A lanes[kLanes];
    std::fill_n(lanes, kLanes, Worst<T>());
    const auto add = [&](const T* from) {
      for (int64_t l = 0; l < kLanes; ++l)
        lanes[l] = Better(static_cast<A>(from[l]), lanes[l]) ? static_cast<A>(from[l]) : lanes[l];
    };
    for (int64_t i = 0; i + kLanes <= n; i += kLanes) add(x + i);
    add(x + n - kLanes);  // the rest, some of it again
    const A value = Fold(lanes, [](A u, A v) { return Better(v, u) ? v : u; });
    if (!Better(value, Worst<T>())) return 0;
    int64_t at = 0;
    for (; at + kLanes <= n; at += kLanes) {
      int equal = 0;
      for (int64_t l = 0; l < kLanes; ++l) equal |= static_cast<A>(x[at + l]) == value;
      if (equal != 0) break;
    }
    while (at < n && static_cast<A>(x[at]) != value) ++at;
    return at < n ? at : 0;  // another step may have written meanwhile
  }
  static void Put(const tenon_tensor_view& out, int64_t i, int64_t value) {
    switch (out.dtype) {
      case TENON_DT_INT64: sdk::Data<int64_t>(out)[i] = value; break;
      case TENON_DT_INT32: sdk::Data<int32_t>(out)[i] = static_cast<int32_t>(value); break;
      case TENON_DT_INT16: sdk::Data<int16_t>(out)[i] = static_cast<int16_t>(value); break;
      case TENON_DT_UINT16: sdk::Data<uint16_t>(out)[i] = static_cast<uint16_t>(value); break;
      default: sdk::Fail(TENON_UNIMPLEMENTED, "output_type ", sdk::TypeName(out.dtype));
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(Cast) = CpuKernel<CastKernel>(
    "Cast", {.constraints = sdk::Constraints<CastConstraint<"SrcT">, CastConstraint<"DstT">>::list});
TENON_CPU_KERNEL(CastN) = CpuKernel<CastNKernel>(
    "Tenon>CastN", {.constraints = sdk::Constraints<Types<Half, Bfloat16>::Constraint<"DstT">>::list,
                    .flags = TENON_KERNEL_DETERMINISTIC});
TENON_CPU_KERNEL(AddN) = CpuKernel<AddNKernel>(
    "AddN", {.constraints = sdk::Constraints<Addable::Constraint<"T">>::list, .in_place = kInPlaceFirst});
TENON_CPU_KERNEL(CheckNumerics) = CpuKernel<CheckNumericsKernel>(
    "CheckNumerics", {.constraints = sdk::Constraints<CheckTypes::Constraint<"T">>::list, .in_place = kInPlaceFirst});
TENON_CPU_KERNEL(ArgMax) =
    CpuKernel<ArgKernel<true>>("ArgMax", {.constraints = sdk::Constraints<Comparable::Constraint<"T">>::list});
TENON_CPU_KERNEL(ArgMin) =
    CpuKernel<ArgKernel<false>>("ArgMin", {.constraints = sdk::Constraints<Comparable::Constraint<"T">>::list});

}  // namespace tenon::cpu
