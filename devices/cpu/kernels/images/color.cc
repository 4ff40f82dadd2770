// SPDX-License-Identifier: Apache-2.0
// RGBToHSV, HSVToRGB, AdjustHue and AdjustSaturation, pixel by pixel.
#include <algorithm>
#include <cmath>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

template <class W>
struct Hsv {
  W hue, saturation, value;
};
template <class W>
struct Rgb {
  W red, green, blue;
};

// The hue in [0, 1).
template <class W>
Hsv<W> ToHsv(const Rgb<W>& x) {
  const W value = std::max(std::max(x.red, x.green), x.blue),
          range = value - std::min(std::min(x.red, x.green), x.blue);
  const W saturation = value > 0 ? range / value : W(0), norm = W(1) / (W(6) * range);
  const W of_red = norm * (x.green - x.blue), of_green = norm * (x.blue - x.red) + W(2) / W(6),
          of_blue = norm * (x.red - x.green) + W(4) / W(6);
  W hue = x.red == value ? of_red : x.green == value ? of_green : of_blue;
  hue = range > 0 ? hue : W(0);
  return {hue < 0 ? hue + W(1) : hue, saturation, value};
}
template <class W>
Rgb<W> ToRgb(const Hsv<W>& x) {
  const W six = x.hue * W(6);
  const auto clamp = [](W v) { return std::min(std::max(v, W(0)), W(1)); };
  const W red = clamp(std::abs(six - W(3)) - W(1)), green = clamp(W(2) - std::abs(six - W(2))),
          blue = clamp(W(2) - std::abs(six - W(4)));
  const W rest = W(1) - x.saturation;
  return {(rest + x.saturation * red) * x.value, (rest + x.saturation * green) * x.value,
          (rest + x.saturation * blue) * x.value};
}

// function(Rgb) -> Rgb for each pixel, in float (in double of doubles).
template <class T, class Function>
void ForEachPixel(const sdk::RunContext& c, double cost, const Function& function) {
  using W = std::conditional_t<std::is_same_v<T, double>, double, float>;
  const T* x = c.input<T>(0);
  T* y = c.output<T>(0);
  c.ParallelFor(sdk::Count(c.output_view(0)) / 3, cost, [&](int64_t begin, int64_t end) {
#pragma GCC ivdep
    for (int64_t i = 3 * begin; i < 3 * end; i += 3) {
      const Rgb<W> pixel = function(Rgb<W>{static_cast<W>(x[i]), static_cast<W>(x[i + 1]), static_cast<W>(x[i + 2])});
      y[i] = T(pixel.red);
      y[i + 1] = T(pixel.green);
      y[i + 2] = T(pixel.blue);
    }
  });
}

struct ToHsvKernel {
  void Run(sdk::RunContext c) const {
    Reals::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel<T>(c, 4, []<class W>(const Rgb<W>& x) {
        const Hsv<W> hsv = ToHsv(x);
        return Rgb<W>{hsv.hue, hsv.saturation, hsv.value};
      });
    });
  }
};
struct ToRgbKernel {
  void Run(sdk::RunContext c) const {
    Reals::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel<T>(c, 4, []<class W>(const Rgb<W>& x) { return ToRgb(Hsv<W>{x.red, x.green, x.blue}); });
    });
  }
};

struct HueKernel {
  void Run(sdk::RunContext c) const {
    const float delta = c.input<float>(1)[0];
    Types<float, Half>::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel<T>(c, 6, [delta](const Rgb<float>& x) { return Turned(x, delta); });
    });
  }

 private:
  // By the largest and the smallest channel, which stay: so colours outside of [0, 1] keep their range.
  static Rgb<float> Turned(const Rgb<float>& x, float delta) {
    const float most = std::max(std::max(x.red, x.green), x.blue), least = std::min(std::min(x.red, x.green), x.blue),
                range = most - least;
    const float of_red = (x.green - x.blue) / range, of_green = 2 + (x.blue - x.red) / range,
                of_blue = 4 + (x.red - x.green) / range;
    const float hue = x.red == most     ? of_red
                      : x.green == most ? of_green
                                        : of_blue,
                moved = (range > 0 ? hue : 0.0f) + delta * 6;
    const float six = moved - 6 * std::floor(moved / 6);
    const auto channel = [&](float share) { return least + range * std::min(std::max(share, 0.0f), 1.0f); };
    return {channel(std::abs(six - 3) - 1), channel(2 - std::abs(six - 2)), channel(2 - std::abs(six - 4))};
  }
};

struct SaturationKernel {
  void Run(sdk::RunContext c) const {
    const float scale = c.input<float>(1)[0];
    Types<float, Half>::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      ForEachPixel<T>(c, 4, [scale](const Rgb<float>& x) { return Saturated(x, scale); });
    });
  }

 private:
  // The hue stays: each channel comes so much nearer to the largest, or goes away from it.
  static Rgb<float> Saturated(const Rgb<float>& x, float scale) {
    const float value = std::max(std::max(x.red, x.green), x.blue),
                range = value - std::min(std::min(x.red, x.green), x.blue);
    const float saturation = range / value, wanted = std::min(std::max(saturation * scale, 0.0f), 1.0f);
    const float ratio = value > 0 && range > 0 ? wanted / saturation : 0.0f;
    return {value - (value - x.red) * ratio, value - (value - x.green) * ratio, value - (value - x.blue) * ratio};
  }
};

constexpr sdk::Traits kReal = {.constraints = sdk::Constraints<Reals::Constraint<"T">>::list,
                               .in_place = kInPlaceFirst};
constexpr sdk::Traits kFloats = {.constraints = sdk::Constraints<Types<float, Half>::Constraint<"T">>::list,
                                 .in_place = kInPlaceFirst};

}  // namespace

TENON_CPU_KERNEL(RGBToHSV) = CpuKernel<ToHsvKernel>("RGBToHSV", kReal);
TENON_CPU_KERNEL(HSVToRGB) = CpuKernel<ToRgbKernel>("HSVToRGB", kReal);
TENON_CPU_KERNEL(AdjustHue) = CpuKernel<HueKernel>("AdjustHue", kFloats);
TENON_CPU_KERNEL(AdjustSaturation) = CpuKernel<SaturationKernel>("AdjustSaturation", kFloats);

}  // namespace tenon::cpu
