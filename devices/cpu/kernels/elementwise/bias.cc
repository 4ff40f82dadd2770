// SPDX-License-Identifier: Apache-2.0
// BiasAdd, BiasAddGrad, L2Loss, InTopKV2.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/common/fold.h"
#include "kernels/common/types.h"
#include "kernels/reductions/narrow_rows.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

using sdk::AddOrSubtract;

using BiasTypes = Numbers::AndComplex;

// value as [outer, channels, inner]: inner is 1 for NHWC.
struct BiasShape {
  BiasShape(sdk::Dims value, bool channels_first) {
    if (value.size() < 2)
      sdk::Fail(TENON_INVALID_ARGUMENT, "a value of shape ", value, "; BiasAdd needs rank 2 or more");
    const size_t at = channels_first ? 1 : value.size() - 1;
    outer = sdk::Count(value.first(at));
    channels = value[at];
    inner = sdk::Count(value.subspan(at + 1));
  }
  int64_t outer, channels, inner;
};

bool ChannelsFirst(sdk::CreateContext& c) { return c.Has("data_format") && c.String("data_format") == "NCHW"; }

struct BiasAddKernel {
  explicit BiasAddKernel(sdk::CreateContext& c) : channels_first(ChannelsFirst(c)) {}
  struct Plan {
    Plan(const BiasAddKernel& kernel, sdk::PrepareContext& c) : shape(sdk::DimsOf(c.input(0)), kernel.channels_first) {
      if (sdk::Count(c.input(1)) != shape.channels) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a bias of shape ", sdk::DimsOf(c.input(1)), " does not fit the ",
                  shape.channels, " channels of ", sdk::DimsOf(c.input(0)));
      }
      BiasTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) { function = &Add<T>; });
    }
    BiasShape shape;
    void (*function)(const BiasShape&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan.shape, c); }

  template <class T>
  static void Add(const BiasShape& s, sdk::RunContext c) {
    const T* x = c.input<T>(0);
    const T* bias = c.input<T>(1);
    T* out = c.output<T>(0);
    if (s.inner == 1) {
      c.ParallelFor(s.outer, static_cast<double>(s.channels) * 0.15 + 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* from = x + r * s.channels;
          T* to = out + r * s.channels;
          Row(from, bias, to, s.channels);
        }
      });
      return;
    }
    c.ParallelFor(s.outer * s.channels, static_cast<double>(s.inner) * 0.15 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T b = bias[r % s.channels];
        const T* from = x + r * s.inner;
        T* to = out + r * s.inner;
#pragma GCC ivdep
        for (int64_t j = 0; j < s.inner; ++j) to[j] = AddOrSubtract<false>(from[j], b);
      }
    });
  }
  template <class T>
  static void Row(const T* x, const T* bias, T* out, int64_t n) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j) out[j] = AddOrSubtract<false>(x[j], bias[j]);
  }
  // Channels that come last are broadcast.
  sdk::Tile TileOf(std::span<const uint32_t> inputs, uint32_t) const {
    sdk::Tile tile;
    if (!channels_first) BiasTypes::Dispatch(inputs[0], [&]<class T>(Tag<T>) { tile.function = &Piece<T>; });
    return tile;
  }
  template <class T>
  static void Piece(const void*, const void* const* inputs, const int64_t* strides, void* out, int64_t n) {
    const T* x = static_cast<const T*>(inputs[0]);
    const T* bias = static_cast<const T*>(inputs[1]);
    if (strides[0] == 1 && strides[1] == 1) return Row(x, bias, static_cast<T*>(out), n);
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = AddOrSubtract<false>(x[i * strides[0]], bias[i * strides[1]]);
  }
  bool channels_first;
};

// Sums over everything but the channels; blocks of rows are added in double.
struct BiasAddGradKernel {
  struct Add {
    template <class A>
    static A First() { return A(0); }
    template <class A>
    static A Step(A a, A b) { return AddOrSubtract<false>(a, b); }
  };
  template <class T>
  using Sum = std::conditional_t<std::is_same_v<Wide<T>, float>, double, Wide<T>>;

  explicit BiasAddGradKernel(sdk::CreateContext& c) : channels_first(ChannelsFirst(c)) {}
  struct Plan {
    Plan(const BiasAddGradKernel& kernel, sdk::PrepareContext& c)
        : shape(sdk::DimsOf(c.input(0)), kernel.channels_first), rows(shape.outer, shape.channels) {
      BiasTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
        const bool narrow = shape.inner == 1 && rows.Pays();
        function = shape.inner != 1 ? &Planes<T> : narrow ? &Narrow<T> : &Columns<T>;
        if (narrow) workspace = c.Workspace(sdk::Multiply(rows.WorkspaceCount(), sizeof(Sum<T>)));
      });
    }
    BiasShape shape;
    NarrowRows rows;
    int64_t workspace = 0;
    void (*function)(const Plan&, sdk::RunContext);
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

  template <class T>
  static T Rounded(Sum<T> total) { return static_cast<T>(static_cast<Wide<T>>(total)); }

  template <class T>
  static void Columns(const Plan& plan, sdk::RunContext c) {
    const BiasShape& s = plan.shape;
    const T* x = c.input<T>(0);
    T* out = c.output<T>(0);
    if (s.outer == 1) {  // -0 stays what it is: nothing is added to it
      std::copy_n(x, s.channels, out);
      return;
    }
    c.ParallelFor(s.channels, static_cast<double>(s.outer) * 0.1 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += kWideRow) {
        const int64_t n = std::min(kWideRow, end - first);
        Sum<T> total[kWideRow] = {};
        ReduceRows<Add, Wide<T>>(x + first, s.channels, s.outer, n, total);
        for (int64_t j = 0; j < n; ++j) out[first + j] = Rounded<T>(total[j]);
      }
    });
  }

  template <class T>
  static void Narrow(const Plan& plan, sdk::RunContext c) {
    Sum<T> total[kWideRow] = {};
    plan.rows.Reduce<Add, Wide<T>>(c, c.input<T>(0), c.workspace<Sum<T>>(plan.workspace), total);
    for (int64_t j = 0; j < plan.shape.channels; ++j) c.output<T>(0)[j] = Rounded<T>(total[j]);
  }

  template <class T>
  static void Planes(const Plan& plan, sdk::RunContext c) {
    using A = Wide<T>;
    const BiasShape& s = plan.shape;
    const T* x = c.input<T>(0);
    T* out = c.output<T>(0);
    c.ParallelFor(s.channels, static_cast<double>(s.outer * s.inner) * 0.1 + 1, [&](int64_t begin, int64_t end) {
      for (int64_t channel = begin; channel < end; ++channel) {
        Sum<T> total = 0;
        for (int64_t o = 0; o < s.outer; ++o) {
          const T* row = x + (o * s.channels + channel) * s.inner;
          A lanes[16] = {};
          int64_t j = 0;
          for (; j + 16 <= s.inner; j += 16) {
            for (int l = 0; l < 16; ++l) lanes[l] = AddOrSubtract<false>(lanes[l], static_cast<A>(row[j + l]));
          }
          for (int l = 0; j < s.inner; ++j, ++l) lanes[l] = AddOrSubtract<false>(lanes[l], static_cast<A>(row[j]));
          for (A lane : lanes) total = AddOrSubtract<false>(total, static_cast<Sum<T>>(lane));
        }
        out[channel] = Rounded<T>(total);
      }
    });
  }
  bool channels_first;
};

using Losses = Types<float, double, Half, Bfloat16>;
// sum(x^2) / 2, in fixed blocks and shares, which are added up in double.
struct L2LossKernel {
  static constexpr int64_t kBlock = 2048, kShare = 32 * kBlock;
  struct Plan {
    Plan(const L2LossKernel&, sdk::PrepareContext& c)
        : count(sdk::Count(c.input(0))), shares((count + kShare - 1) / kShare) {
      c.Workspace(sdk::Multiply(shares + 1, sizeof(double)));
    }
    int64_t count, shares;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Losses::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      double* sums = c.workspace<double>();
      c.ParallelFor(plan.shares, static_cast<double>(std::min(plan.count, kShare)) * 0.06,
                    [&](int64_t begin, int64_t end) {
                      for (int64_t s = begin; s < end; ++s)
                        sums[s] = Share(c.input<T>(0) + s * kShare, std::min(kShare, plan.count - s * kShare));
                    });
      double total = 0;
      for (int64_t s = 0; s < plan.shares; ++s) total += sums[s];
      *c.output<T>(0) = static_cast<T>(static_cast<Wide<T>>(total / 2));
    });
  }

 private:
  template <class T>
  static double Share(const T* x, int64_t n) {
    double total = 0;
    for (int64_t i = 0; i < n; i += kBlock) total += static_cast<double>(Squares(x + i, std::min(kBlock, n - i)));
    return total;
  }
  template <class T>
  static Wide<T> Squares(const T* x, int64_t n) {
    constexpr int64_t kLanes = 64;
    Wide<T> lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int64_t l = 0; l < kLanes; ++l) lanes[l] += static_cast<Wide<T>>(x[i + l]) * static_cast<Wide<T>>(x[i + l]);
    }
    for (int64_t l = 0; i < n; ++i, ++l) lanes[l] += static_cast<Wide<T>>(x[i]) * static_cast<Wide<T>>(x[i]);
    return Fold(lanes, [](Wide<T> a, Wide<T> b) { return a + b; });
  }
};

// Whether the target's prediction is among the k largest; ties count as in, what is not finite as out.
struct InTopKKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims.size() != 2 || sdk::Count(c.input_view(1)) != dims[0] || sdk::Count(c.input_view(2)) != 1) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "predictions of shape ", dims, ", targets of shape ",
                sdk::DimsOf(c.input_view(1)));
    }
    const float* predictions = c.input<float>(0);
    const tenon_tensor_view& targets = c.input_view(1);
    const tenon_tensor_view& k_view = c.input_view(2);
    const int64_t k = IndexAt(sdk::Data<void>(k_view), k_view.dtype, 0);
    bool* out = c.output<bool>(0);
    for (int64_t i = 0; i < dims[0]; ++i) {
      const int64_t target = IndexAt(sdk::Data<void>(targets), targets.dtype, i);
      const float* row = predictions + i * dims[1];
      bool valid = target >= 0 && target < dims[1] && std::isfinite(row[target]);
      const float wanted = valid ? row[target] : 0;
      int32_t larger = 0;
      uint32_t odd = 0;  // of the sign and the exponent: all ones of infinity as of NaN
      constexpr int64_t kPiece = 128;
      for (int64_t first = 0; valid && first < dims[1] && larger < k;
           first += kPiece) {  // k that are larger are enough
        for (int64_t j = first; j < std::min(dims[1], first + kPiece); ++j) {
          odd = std::max(odd, std::bit_cast<uint32_t>(row[j]) & 0x7fffffffu);
          larger += row[j] > wanted ? 1 : 0;
        }
      }
      valid = valid && odd < 0x7f800000u;
      out[i] = valid && larger < k;
    }
  }
};

}  // namespace

TENON_CPU_KERNEL(BiasAdd) = CpuKernel<BiasAddKernel>(
    "BiasAdd", {.constraints = sdk::Constraints<BiasTypes::Constraint<"T">>::list, .in_place = kInPlaceFirst});
TENON_CPU_KERNEL(BiasAddGrad) =
    CpuKernel<BiasAddGradKernel>("BiasAddGrad", {.constraints = sdk::Constraints<BiasTypes::Constraint<"T">>::list});
TENON_CPU_KERNEL(L2Loss) =
    CpuKernel<L2LossKernel>("L2Loss", {.constraints = sdk::Constraints<Losses::Constraint<"T">>::list});
TENON_CPU_KERNEL(InTopKV2) = CpuKernel<InTopKKernel>("InTopKV2", {});

}  // namespace tenon::cpu
