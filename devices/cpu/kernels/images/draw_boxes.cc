// SPDX-License-Identifier: Apache-2.0
// DrawBoundingBoxes and DrawBoundingBoxesV2: lines of one pixel.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/common/types.h"

namespace tenon::cpu {
namespace {

using Color = std::array<float, 4>;

// TensorFlow's ten.
constexpr Color kColors[] = {{1, 1, 0, 1},     {0, 0, 1, 1},   {1, 0, 0, 1},   {0, 1, 0, 1}, {0.5, 0, 0.5, 1},
                             {0.5, 0.5, 0, 1}, {0.5, 0, 0, 1}, {0, 0, 0.5, 1}, {0, 1, 1, 1}, {1, 0, 1, 1}};

// An image and a box in it, in pixels.
template <class T>
struct Canvas {
  void Set(int64_t y, int64_t x, const Color& color) const {
    for (int64_t k = 0; k < channels; ++k) pixels[(y * width + x) * channels + k] = T(color[static_cast<size_t>(k)]);
  }
  // The line from first to last, as far as it is in [0, size).
  template <class Function>
  static void Along(int64_t first, int64_t last, int64_t size, const Function& function) {
    for (int64_t i = std::max<int64_t>(first, 0); i <= std::min(last, size - 1); ++i) function(i);
  }
  void Draw(int64_t top, int64_t left, int64_t bottom, int64_t right, const Color& color) const {
    for (const int64_t y : {top, bottom}) {
      if (y >= 0 && y < height) Along(left, right, width, [&](int64_t x) { Set(y, x, color); });
    }
    for (const int64_t x : {left, right}) {
      if (x >= 0 && x < width) Along(top, bottom, height, [&](int64_t y) { Set(y, x, color); });
    }
  }
  T* pixels;
  int64_t height, width, channels;
};

struct DrawKernel {
  void Run(sdk::RunContext c) const {
    const sdk::Dims dims = sdk::DimsOf(c.input_view(0));
    if (dims[3] != 1 && dims[3] != 3 && dims[3] != 4) sdk::Fail(TENON_INVALID_ARGUMENT,
        "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA); the shape of images is ", dims);
    const std::vector<Color> colors = ColorsOf(c, dims[3]);
    Types<float, Half>::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      if (out != c.input<T>(0))
        std::memcpy(static_cast<void*>(out), static_cast<const void*>(c.input<T>(0)),
                    static_cast<size_t>(sdk::Count(dims)) * sizeof(T));
      const int64_t boxes = sdk::DimsOf(c.input_view(1))[1];
      c.ParallelFor(dims[0], static_cast<double>(boxes) * static_cast<double>(dims[1] + dims[2]) * 4,
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t n = begin; n < end; ++n) {
                        const Canvas<T> canvas = {out + n * dims[1] * dims[2] * dims[3], dims[1], dims[2], dims[3]};
                        for (int64_t i = 0; i < boxes; ++i) {
                          poll(4 * (dims[1] + dims[2]));
                          DrawBox(canvas, c.input<float>(1) + (n * boxes + i) * 4,
                                  colors[static_cast<size_t>(i) % colors.size()]);
                        }
                      }
                    });
    });
  }

 private:
  static std::vector<Color> ColorsOf(const sdk::RunContext& c, int64_t channels) {
    std::vector<Color> colors;
    if (c.input_count() > 2) {
      const sdk::Dims dims = sdk::DimsOf(c.input_view(2));
      if (dims[1] < channels)
        sdk::Fail(TENON_INVALID_ARGUMENT, "colors must have equal or more channels than the image provided, which has ",
                  channels, "; their shape is ", dims);
      for (int64_t i = 0; i < dims[0]; ++i) {
        Color color = {0, 0, 0, 0};
        std::copy_n(c.input<float>(2) + i * dims[1], std::min<int64_t>(dims[1], 4), color.begin());
        colors.push_back(color);
      }
    }
    if (!colors.empty()) return colors;
    if (channels == 1) return {{1, 1, 1, 1}};
    colors.assign(std::begin(kColors), std::end(kColors));
    return colors;
  }
  template <class T>
  static void DrawBox(const Canvas<T>& canvas, const float* box, const Color& color) {
    int64_t at[4];
    for (size_t i = 0; i < 4; ++i) {
      const float pixel = box[i] * static_cast<float>((i % 2 == 0 ? canvas.height : canvas.width) - 1);
      if (!(std::abs(pixel) < 0x1p62f)) return;  // nowhere
      at[i] = static_cast<int64_t>(pixel);
    }
    if (at[0] > at[2] || at[1] > at[3]) return;
    if (at[0] >= canvas.height || at[2] < 0 || at[1] >= canvas.width || at[3] < 0) return;
    canvas.Draw(at[0], at[1], at[2], at[3], color);
  }
};

constexpr sdk::Traits kDrawsBoxes = {.constraints = sdk::Constraints<Types<float, Half>::Constraint<"T">>::list,
                                     .in_place = kInPlaceFirst};

}  // namespace

TENON_CPU_KERNEL(DrawBoundingBoxes) = CpuKernel<DrawKernel>("DrawBoundingBoxes", kDrawsBoxes);
TENON_CPU_KERNEL(DrawBoundingBoxesV2) = CpuKernel<DrawKernel>("DrawBoundingBoxesV2", kDrawsBoxes);

}  // namespace tenon::cpu
