// SPDX-License-Identifier: Apache-2.0
// Real numbers into quantized ones, back, and both at once.
#include <string>

#include "kernels/quantized/quantization.h"

namespace tenon::cpu {
namespace {

enum class Mode { kMinCombined, kMinFirst, kScaled };

Mode ModeOf(sdk::CreateContext& c) {
  const std::string_view mode = c.String("mode");
  return mode == "MIN_FIRST" ? Mode::kMinFirst : mode == "SCALED" ? Mode::kScaled : Mode::kMinCombined;
}

// Of the bounds, inputs `first` and first + 1, one for each slice.
void CheckBounds(sdk::PrepareContext& c, const Slices& slices, int32_t first = 1) {
  for (int32_t i = first; i < first + 2; ++i) {
    if (sdk::Count(c.input(i)) != slices.count)
      sdk::Fail(TENON_INVALID_ARGUMENT, i == first ? "the minimum" : "the maximum",
                " must have as many elements as input on the axis; there are ", sdk::Count(c.input(i)), ", expected ",
                slices.count);
  }
}

// ---- QuantizeV2 ----

struct QuantizeKernel {
  explicit QuantizeKernel(sdk::CreateContext& c)
      : mode(ModeOf(c)),
        axis(c.Int("axis")),
        narrow(c.Bool("narrow_range")),
        least_range(c.Float("ensure_minimum_range")),
        to_even(c.String("round_mode") == "HALF_TO_EVEN") {
    if (axis < -1) c.Invalid("axis should be at least -1, got ", axis);
    if (to_even && mode != Mode::kScaled)
      c.Invalid("Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '", c.String("mode"), "'");
  }
  struct Plan {
    Plan(const QuantizeKernel& kernel, sdk::PrepareContext& c) : slices(sdk::DimsOf(c.input(0)), kernel.axis) {
      CheckBounds(c, slices);
      if (kernel.mode == Mode::kMinFirst && slices.count != 1)
        sdk::Fail(TENON_UNIMPLEMENTED, "MIN_FIRST mode is not implemented for Quantize with axis != -1");
    }
    Slices slices;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const float* low = c.input<float>(1);
    const float* high = c.input<float>(2);
    for (int64_t i = 0; i < plan.slices.count; ++i) {
      if (high[i] < low[i])
        sdk::Fail(TENON_INVALID_ARGUMENT, "input_max_range must be larger than input_min_range; they are ", high[i],
                  " and ", low[i]);
    }
    DispatchQuantized(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      for (int64_t i = 0; i < plan.slices.count; ++i) {
        const Bounds bounds = Scaled<T>(Widened(low[i], high[i]));
        c.output<float>(1)[i] = bounds.low;
        c.output<float>(2)[i] = bounds.high;
      }
      c.ParallelFor(plan.slices.total(), 1, [&](int64_t begin, int64_t end) {
        plan.slices.ForEach(begin, end, [&](int64_t slice, int64_t from, int64_t to) {
          Stretch(Widened(low[slice], high[slice]), c.input<float>(0), c.output<T>(0), from, to);
        });
      });
    });
  }

 private:
  // The bounds with 0 between them, and a little apart.
  Bounds Widened(float low, float high) const {
    const float least = std::max(1.0F, std::max(std::abs(low), std::abs(high))) * least_range;
    const float from = std::min(0.0F, low);
    return {from, std::max(0.0F, std::max(high, from + least))};
  }
  template <class T>
  int64_t First() const {
    return kLowest<T> + (narrow ? 1 : 0);
  }
  // What numbers are multiplied with in SCALED mode, where 0 is 0.
  template <class T>
  float Scale(const Bounds& bounds) const {
    const auto first = static_cast<float>(First<T>()), last = static_cast<float>(kHighest<T>);
    const float by_low = first * bounds.low > 0 ? first / bounds.low : std::numeric_limits<float>::max();
    const float by_high = last * bounds.high > 0 ? last / bounds.high : std::numeric_limits<float>::max();
    return std::min(by_low, by_high);
  }
  // What the bounds are in SCALED mode.
  template <class T>
  Bounds Scaled(const Bounds& bounds) const {
    if (mode != Mode::kScaled) return bounds;
    const float scale = Scale<T>(bounds);
    return {static_cast<float>(First<T>()) / scale, static_cast<float>(kHighest<T>) / scale};
  }

  template <class T>
  void Stretch(const Bounds& bounds, const float* x, T* out, int64_t begin, int64_t end) const {
    const auto write = [=](auto quantized) {  // by value: bytes that are written could be anything else
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) out[i] = Integer<T>(quantized(x[i]));
    };
    if (mode == Mode::kMinFirst) {
      const ToQuantized<T> quantize(bounds.low, bounds.high);
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) out[i] = quantize(x[i]);
    } else if (mode == Mode::kScaled) {
      const float scale = Scale<T>(bounds);
      const Bounds inside = Scaled<T>(bounds);
      if (to_even) {
        write([=](float value) { return std::nearbyint(Within(value, inside) * scale); });
      } else {
        write([=](float value) { return Round(Within(value, inside) * scale); });
      }
    } else {
      const auto scale = static_cast<float>(kIntervals<T> / static_cast<double>(bounds.high - bounds.low));
      if constexpr (std::is_signed_v<T>) {
        const auto half = static_cast<float>((kIntervals<T> + 1) / 2);
        write([=](float value) { return Round((Within(value, bounds) - bounds.low) * scale - half); });
      } else {
        write([=](float value) { return (Within(value, bounds) - bounds.low) * scale + 0.5F; });
      }
    }
  }
  static float Within(float x, const Bounds& bounds) {
    const float below = bounds.high < x ? bounds.high : x;
    return below < bounds.low ? bounds.low : below;
  }

  Mode mode;
  int64_t axis;
  bool narrow;
  float least_range;
  bool to_even;
};

// ---- Dequantize ----

struct DequantizeKernel {
  explicit DequantizeKernel(sdk::CreateContext& c)
      : mode(ModeOf(c)), axis(c.Int("axis")), narrow(c.Bool("narrow_range")) {
    if (c.output_type(0) == TENON_DT_BFLOAT16 && mode != Mode::kMinCombined)
      c.Invalid("When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '", c.String("mode"), "'");
  }
  struct Plan {
    Plan(const DequantizeKernel& kernel, sdk::PrepareContext& c) : slices(sdk::DimsOf(c.input(0)), kernel.axis) {
      CheckBounds(c, slices);
      if (kernel.mode == Mode::kMinFirst && slices.count != 1)
        sdk::Fail(TENON_UNIMPLEMENTED, "MIN_FIRST mode is not implemented for Dequantize with axis != -1");
    }
    Slices slices;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const bool narrow_output = c.output_view(0).dtype == TENON_DT_BFLOAT16;
    DispatchQuantized(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      if (narrow_output) {
        Typed<T, Bfloat16>(plan, c);
      } else {
        Typed<T, float>(plan, c);
      }
    });
  }

 private:
  template <class T, class Real>
  void Typed(const Plan& plan, sdk::RunContext c) const {
    const float* low = c.input<float>(1);
    const float* high = c.input<float>(2);
    c.ParallelFor(plan.slices.total(), 0.5, [&](int64_t begin, int64_t end) {
      plan.slices.ForEach(begin, end, [&](int64_t slice, int64_t from, int64_t to) {
        Stretch(low[slice], high[slice], c.input<T>(0), c.output<Real>(0), from, to);
      });
    });
  }
  template <class T, class Real>
  void Stretch(float low, float high, const T* x, Real* out, int64_t begin, int64_t end) const {
    const auto write = [&](auto&& real) {
      for (int64_t i = begin; i < end; ++i) out[i] = static_cast<Real>(real(x[i]));
    };
    if (mode == Mode::kMinFirst) {
      write(ToReal<T>(low, high));
    } else if (mode == Mode::kScaled) {
      const auto first = static_cast<float>(kLowest<T> + (narrow ? 1 : 0)), last = static_cast<float>(kHighest<T>);
      const float scale = std::is_signed_v<T> ? std::max(low / first, high / last) : high / last;
      write([&](T value) { return static_cast<float>(value) * scale; });
    } else {
      const float half = std::is_signed_v<T> ? static_cast<float>((kIntervals<T> + 1) / 2) : 0.0F;
      const float scale = (high - low) / (static_cast<float>(kHighest<T>) - static_cast<float>(kLowest<T>));
      write([&](T value) { return (static_cast<float>(value) + half) * scale + low; });
    }
  }

  Mode mode;
  int64_t axis;
  bool narrow;
};

// ---- QuantizeAndDequantizeV2, V3, V4 ----

// The third version takes the number of bits as its fourth input.
struct RoundTripKernel {
  explicit RoundTripKernel(sdk::CreateContext& c)
      : axis(c.Int("axis")),
        bits(c.Has("num_bits") ? c.Int("num_bits") : 0),
        is_signed(c.Bool("signed_input")),
        range_given(c.Bool("range_given")),
        narrow(c.Bool("narrow_range")),
        half_up(c.Has("round_mode") && c.String("round_mode") == "HALF_UP"),
        bits_are_input(!c.Has("num_bits")) {
    if (!bits_are_input && !BitsFit(bits))
      c.Invalid("num_bits is out of range: ", bits, " with signed_input ", is_signed);
  }
  struct Plan {
    Plan(const RoundTripKernel& kernel, sdk::PrepareContext& c) : slices(sdk::DimsOf(c.input(0)), kernel.axis) {
      if (kernel.range_given) CheckBounds(c, slices);
      c.Workspace(sdk::Multiply(slices.count, sizeof(Grid<double>)));
    }
    Slices slices;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    const int64_t used = bits_are_input ? *c.input<int32_t>(3) : bits;
    if (!BitsFit(used))
      sdk::Fail(TENON_INVALID_ARGUMENT, "num_bits is out of range: ", used, " with signed_input ", is_signed);
    Types<float, double>::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { Typed<T>(plan.slices, used, c); });
  }

 private:
  // The integers times `unit` are what numbers in [low, high] become; scale is 1 / unit, rounded in its own way.
  template <class T>
  struct Grid {
    T low, high, scale, unit;
  };

  bool BitsFit(int64_t count) const { return count > 0 && count < (is_signed ? 62 : 63); }

  template <class T>
  void Typed(const Slices& slices, int64_t used, sdk::RunContext c) const {
    const T* x = c.input<T>(0);
    T* out = c.output<T>(0);
    Grid<T>* grids = c.workspace<Grid<T>>();
    if (range_given) {
      for (int64_t i = 0; i < slices.count; ++i) {
        grids[i].low = c.input<T>(1)[i];
        grids[i].high = c.input<T>(2)[i];
      }
      if (axis == -1 && !(grids[0].low <= grids[0].high))
        sdk::Fail(TENON_INVALID_ARGUMENT, "Invalid range: input_min ", static_cast<double>(grids[0].low),
                  " > input_max ", static_cast<double>(grids[0].high));
    } else {
      FindRanges(slices, x, grids, c);
    }
    for (int64_t i = 0; i < slices.count; ++i) Fit(used, &grids[i]);
    c.ParallelFor(slices.total(), 1, [&](int64_t begin, int64_t end) {
      slices.ForEach(begin, end, [&](int64_t slice, int64_t from, int64_t to) {
        const Grid<T> grid = grids[slice];
        for (int64_t i = from; i < to; ++i) {
          T value = x[i];
          if (range_given) {
            value = grid.high < value ? grid.high : value;
            value = value < grid.low ? grid.low : value;
          }
          const T scaled = value * grid.scale;
          out[i] = (half_up ? std::floor(scaled + T(0.5)) : std::nearbyint(scaled)) * grid.unit;
        }
      });
    });
  }
  template <class T>
  static void FindRanges(const Slices& slices, const T* x, Grid<T>* grids, sdk::RunContext c) {
    for (int64_t i = 0; i < slices.count; ++i)
      grids[i] = {std::numeric_limits<T>::infinity(), -std::numeric_limits<T>::infinity(), T(0), T(0)};
    sdk::CancelPoll poll(c);
    constexpr int64_t kPiece = 1 << 16;
    for (int64_t at = 0; at < slices.total(); at += kPiece) {
      slices.ForEach(at, std::min(slices.total(), at + kPiece), [&](int64_t slice, int64_t from, int64_t to) {
        constexpr int64_t kLanes = 64;  // apart from each other, so that they are vectors
        T low[kLanes], high[kLanes];
        std::fill_n(low, kLanes, grids[slice].low);
        std::fill_n(high, kLanes, grids[slice].high);
        int64_t i = from;
        for (; i + kLanes <= to; i += kLanes) {
          for (int64_t l = 0; l < kLanes; ++l) low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
          for (int64_t l = 0; l < kLanes; ++l) high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
        }
        for (int64_t l = 0; i < to; ++i, ++l) {
          low[l] = x[i] < low[l] ? x[i] : low[l];
          high[l] = x[i] > high[l] ? x[i] : high[l];
        }
        grids[slice].low = *std::min_element(low, low + kLanes);
        grids[slice].high = *std::max_element(high, high + kLanes);
      });
      poll(kPiece);
    }
  }
  // The largest scale with which neither bound leaves the integers; the other bound is where they end.
  template <class T>
  void Fit(int64_t used, Grid<T>* grid) const {
    const int64_t first = is_signed ? -(int64_t{1} << (used - 1)) + (narrow ? 1 : 0) : 0;
    const int64_t last = is_signed ? (int64_t{1} << (used - 1)) - 1 : (int64_t{1} << used) - 1;
    const T least = static_cast<T>(first), most = static_cast<T>(last);
    const T by_low = least * grid->low > 0 ? least / grid->low : std::numeric_limits<T>::max();
    const T by_high = most * grid->high > 0 ? most / grid->high : std::numeric_limits<T>::max();
    if (by_low < by_high) {
      grid->scale = by_low;
      grid->unit = grid->low / least;
      grid->high = most * grid->unit;
    } else {
      grid->scale = by_high;
      grid->unit = grid->high / most;
      grid->low = least * grid->unit;
    }
  }

  int64_t axis, bits;
  bool is_signed, range_given, narrow, half_up, bits_are_input;
};

// (gradients, input, input_min, input_max): gradients where input lies within its bounds; the bounds have none.
struct WithinBoundsKernel {
  explicit WithinBoundsKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan {
    Plan(const WithinBoundsKernel& kernel, sdk::PrepareContext& c) : slices(sdk::DimsOf(c.input(1)), kernel.axis) {
      if (!std::ranges::equal(sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1))))
        sdk::Fail(TENON_INVALID_ARGUMENT, "gradient and input must be the same size; the shapes are ",
                  sdk::DimsOf(c.input(0)), " and ", sdk::DimsOf(c.input(1)));
      CheckBounds(c, slices, 2);
    }
    Slices slices;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    Types<float, double>::Dispatch(c.input_view(1).dtype, [&]<class T>(Tag<T>) {
      const T* dy = c.input<T>(0);
      const T* x = c.input<T>(1);
      const T* low = c.input<T>(2);
      const T* high = c.input<T>(3);
      T* dx = c.output<T>(0);
      c.ParallelFor(plan.slices.total(), 0.5, [&](int64_t begin, int64_t end) {
        plan.slices.ForEach(begin, end, [&](int64_t slice, int64_t from, int64_t to) {
          const T least = low[slice], most = high[slice];
#pragma GCC ivdep
          for (int64_t i = from; i < to; ++i) dx[i] = dy[i] * ((x[i] >= least) & (x[i] <= most) ? T(1) : T(0));
        });
      });
      std::fill_n(c.output<T>(1), plan.slices.count, T(0));
      std::fill_n(c.output<T>(2), plan.slices.count, T(0));
    });
  }
  int64_t axis;
};

constexpr sdk::Traits kQuantizeTraits = {.constraints = sdk::Constraints<QuantizedConstraint<"T">>::list};
constexpr sdk::Traits kDequantizeTraits = {
    .constraints =
        sdk::Constraints<QuantizedConstraint<"T">, sdk::Allowed<"dtype", TENON_DT_FLOAT, TENON_DT_BFLOAT16>>::list};
constexpr sdk::Traits kRoundTripTraits = {.constraints = sdk::Constraints<Types<float, double>::Constraint<"T">>::list,
                                          .in_place = kInPlaceFirst};

}  // namespace

TENON_CPU_KERNEL(QuantizeV2) = CpuKernel<QuantizeKernel>("QuantizeV2", kQuantizeTraits);
TENON_CPU_KERNEL(Dequantize) = CpuKernel<DequantizeKernel>("Dequantize", kDequantizeTraits);
TENON_CPU_KERNEL(QuantizeAndDequantizeV2) = CpuKernel<RoundTripKernel>("QuantizeAndDequantizeV2", kRoundTripTraits);
TENON_CPU_KERNEL(QuantizeAndDequantizeV3) = CpuKernel<RoundTripKernel>("QuantizeAndDequantizeV3", kRoundTripTraits);
TENON_CPU_KERNEL(QuantizeAndDequantizeV4Grad) = CpuKernel<WithinBoundsKernel>("QuantizeAndDequantizeV4Grad",
                                                                              kRoundTripTraits);
TENON_CPU_KERNEL(QuantizeAndDequantizeV4) = CpuKernel<RoundTripKernel>("QuantizeAndDequantizeV4", kRoundTripTraits);

}  // namespace tenon::cpu
