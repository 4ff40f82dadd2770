// SPDX-License-Identifier: Apache-2.0
// CropAndResize and its gradients with respect to images and boxes, NHWC.
#include <algorithm>
#include <cmath>

#include "kernels/common/types.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::cpu {
namespace {

using Gradients = Types<float, double, Half>;

// Images, and crops of them.
struct CropSizes {
  CropSizes(sdk::Dims images, sdk::Dims crops) {
    if (images.size() != 4 || crops.size() != 4 || images[3] != crops[3])
      sdk::Fail(TENON_INVALID_ARGUMENT, "images of shape ", images, " have no crops of shape ", crops);
    if (images[1] <= 0 || images[2] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "image dimensions must be positive; they are ", images);
    if (crops[1] <= 0 || crops[2] <= 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "crop dimensions must be positive; they are ", crops);
    batch = images[0], height = images[1], width = images[2], channels = images[3], boxes = crops[0],
    crop_height = crops[1], crop_width = crops[2];
  }
  int64_t batch, height, width, channels, boxes, crop_height, crop_width;
};

// A product that is rounded before it is added to: an edge that is met exactly must not be missed by what a fused
// addition keeps.
float Rounded(float x) {
#if defined(__aarch64__)
  asm("" : "+w"(x));
#elif defined(__x86_64__)
  asm("" : "+x"(x));
#endif
  return x;
}

// Where the pixels of a crop are along one axis of its image.
struct CropAxis {
  CropAxis(float from, float to, int64_t size, int64_t count)
      : last(static_cast<float>(size - 1)),
        step(count > 1 ? Rounded((to - from) * last) / static_cast<float>(count - 1) : 0),
        begin(count > 1 ? Rounded(from * last) : 0.5f * (from + to) * last),
        ratio(count > 1 ? last / static_cast<float>(count - 1) : 0) {}
  float At(int64_t i) const { return begin + Rounded(static_cast<float>(i) * step); }
  bool Inside(float at) const { return at >= 0 && at <= last; }
  float last, step, begin, ratio;
};

// One box of a frame: its image, and its axes.
struct Box {
  Box(const CropSizes& s, const float* boxes, const int32_t* images, int64_t i)
      : image(images[i]),
        rows(boxes[4 * i], boxes[4 * i + 2], s.height, s.crop_height),
        columns(boxes[4 * i + 1], boxes[4 * i + 3], s.width, s.crop_width) {}
  int64_t image;
  CropAxis rows, columns;
};
// finite: the numbers of boxes too. A gradient leaves out what is no number.
void CheckBoxes(const CropSizes& s, const float* boxes, const int32_t* images, bool finite) {
  for (int64_t i = 0; i < s.boxes; ++i) {
    if (images[i] < 0 || images[i] >= s.batch)
      sdk::Fail(TENON_OUT_OF_RANGE, "box_ind[", i, "] is ", images[i], ", which is not in [0, ", s.batch, ")");
    for (int64_t k = 4 * i; k < 4 * i + 4; ++k) {
      if (finite && !std::isfinite(boxes[k]))
        sdk::Fail(TENON_INVALID_ARGUMENT, "box ", i, " has a number that is not finite");
    }
  }
}

// A pixel between two, and how near the second is.
struct CropBetween {
  explicit CropBetween(float at)
      : low(static_cast<int64_t>(std::floor(at))),
        high(static_cast<int64_t>(std::ceil(at))),
        weight(at - static_cast<float>(low)) {}
  int64_t low, high;
  float weight;
};

struct CropKernel {
  explicit CropKernel(sdk::CreateContext& c)
      : nearest(c.String("method") == "nearest"), outside(c.Float("extrapolation_value")) {}
  void Run(sdk::RunContext c) const {
    const CropSizes s(sdk::DimsOf(c.input_view(0)), sdk::DimsOf(c.output_view(0)));
    const auto* boxes = c.input<float>(1);
    const auto* images = c.input<int32_t>(2);
    CheckBoxes(s, boxes, images, true);
    Pictures::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(s.boxes * s.crop_height, 3.0 * static_cast<double>(s.crop_width * (s.channels + 2)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t i = begin; i < end; ++i) {
                        const Box box(s, boxes, images, i / s.crop_height);
                        Row(s, box, c.input<T>(0) + box.image * s.height * s.width * s.channels, i % s.crop_height,
                            c.output<float>(0) + i * s.crop_width * s.channels);
                      }
                    });
    });
  }

 private:
  template <class T>
  void Row(const CropSizes& s, const Box& box, const T* image, int64_t y, float* out) const {
    const float at = box.rows.At(y);
    if (!box.rows.Inside(at)) {
      std::fill_n(out, s.crop_width * s.channels, outside);
      return;
    }
    const CropBetween row(nearest ? std::round(at) : at);
    const T *top = image + row.low * s.width * s.channels, *bottom = image + row.high * s.width * s.channels;
    for (int64_t x = 0; x < s.crop_width; ++x, out += s.channels) {
      const float across = box.columns.At(x);
      if (!box.columns.Inside(across)) {
        std::fill_n(out, s.channels, outside);
      } else if (nearest) {
        const T* pixel = top + static_cast<int64_t>(std::round(across)) * s.channels;
        for (int64_t k = 0; k < s.channels; ++k) out[k] = static_cast<float>(pixel[k]);
      } else {
        Mix(top, bottom, CropBetween(across), row.weight, s.channels, out);
      }
    }
  }
  template <class T>
  static void Mix(const T* top, const T* bottom, const CropBetween& column, float down, int64_t channels, float* out) {
    const T *a = top + column.low * channels, *b = top + column.high * channels, *d = bottom + column.low * channels,
            *e = bottom + column.high * channels;
#pragma GCC ivdep
    for (int64_t k = 0; k < channels; ++k) {
      const float above =
          static_cast<float>(a[k]) + (static_cast<float>(b[k]) - static_cast<float>(a[k])) * column.weight;
      const float below =
          static_cast<float>(d[k]) + (static_cast<float>(e[k]) - static_cast<float>(d[k])) * column.weight;
      out[k] = above + (below - above) * down;
    }
  }

  const bool nearest;
  const float outside;
};

// Boxes may lie over each other: they are added in order, each thread for its share of the channels.
struct GradImageKernel {
  explicit GradImageKernel(sdk::CreateContext& c) : nearest(c.String("method") == "nearest") {}
  void Run(sdk::RunContext c) const {
    const CropSizes s(sdk::DimsOf(c.output_view(0)), sdk::DimsOf(c.input_view(0)));
    const auto* boxes = c.input<float>(1);
    const auto* images = c.input<int32_t>(2);
    CheckBoxes(s, boxes, images, false);
    Gradients::Dispatch(c.output_view(0).dtype, [&]<class T>(Tag<T>) {
      T* out = c.output<T>(0);
      std::fill_n(out, sdk::Count(c.output_view(0)), T(0.0f));
      c.ParallelFor(s.channels, 10.0 * static_cast<double>(s.boxes * s.crop_height * s.crop_width),
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t i = 0; i < s.boxes; ++i)
                        Add(s, Box(s, boxes, images, i), i, c.input<float>(0), begin, end, poll, out);
                    });
    });
  }

 private:
  template <class T>
  void Add(const CropSizes& s, const Box& box, int64_t i, const float* grads, int64_t begin, int64_t end,
           sdk::CancelPoll& poll, T* out) const {
    for (int64_t y = 0; y < s.crop_height; ++y) {
      poll(10 * s.crop_width * (end - begin) + 1);
      const float at = box.rows.At(y);
      if (!box.rows.Inside(at)) continue;
      const CropBetween row(nearest ? std::round(at) : at);
      for (int64_t x = 0; x < s.crop_width; ++x) {
        const float across = box.columns.At(x);
        if (!box.columns.Inside(across)) continue;
        const CropBetween column(nearest ? std::round(across) : across);
        const float* dy = grads + ((i * s.crop_height + y) * s.crop_width + x) * s.channels;
        const auto pixel = [&](int64_t down, int64_t right) {
          return out + ((box.image * s.height + down) * s.width + right) * s.channels;
        };
        T *a = pixel(row.low, column.low), *b = pixel(row.low, column.high), *d = pixel(row.high, column.low),
          *e = pixel(row.high, column.high);
        for (int64_t k = begin; k < end; ++k) {
          const float above = (1 - row.weight) * dy[k], below = row.weight * dy[k];
          AddTo(a[k], (1 - column.weight) * above);
          if (nearest) continue;
          AddTo(b[k], column.weight * above);
          AddTo(d[k], (1 - column.weight) * below);
          AddTo(e[k], column.weight * below);
        }
      }
    }
  }
  template <class T>
  static void AddTo(T& sum, float value) {
    sum = sdk::AddOrSubtract<false>(sum, T(value));
  }
  const bool nearest;
};

struct GradBoxesKernel {
  void Run(sdk::RunContext c) const {
    const CropSizes s(sdk::DimsOf(c.input_view(1)), sdk::DimsOf(c.input_view(0)));
    const auto* boxes = c.input<float>(2);
    const auto* images = c.input<int32_t>(3);
    CheckBoxes(s, boxes, images, false);
    Pictures::Dispatch(c.input_view(1).dtype, [&]<class T>(Tag<T>) {
      c.ParallelFor(s.boxes, 10.0 * static_cast<double>(s.crop_height * s.crop_width * (s.channels + 1)),
                    [&](int64_t begin, int64_t end) {
                      sdk::CancelPoll poll(c);
                      for (int64_t i = begin; i < end; ++i) {
                        const Box box(s, boxes, images, i);
                        One(s, box, c.input<float>(0) + i * s.crop_height * s.crop_width * s.channels,
                            c.input<T>(1) + box.image * s.height * s.width * s.channels, poll,
                            c.output<float>(0) + 4 * i);
                      }
                    });
    });
  }

 private:
  template <class T>
  static void One(const CropSizes& s, const Box& box, const float* dy, const T* image, sdk::CancelPoll& poll,
                  float* out) {
    std::fill_n(out, 4, 0.0f);
    for (int64_t y = 0; y < s.crop_height; ++y) {
      poll(10 * s.crop_width * s.channels + 1);
      const float at = box.rows.At(y);
      if (!box.rows.Inside(at)) continue;
      const CropBetween row(at);
      for (int64_t x = 0; x < s.crop_width; ++x) {
        const float across = box.columns.At(x);
        if (!box.columns.Inside(across)) continue;
        const CropBetween column(across);
        const auto pixel = [&](int64_t down, int64_t right) { return image + (down * s.width + right) * s.channels; };
        const T *a = pixel(row.low, column.low), *b = pixel(row.low, column.high), *d = pixel(row.high, column.low),
                *e = pixel(row.high, column.high);
        const float* gradient = dy + (y * s.crop_width + x) * s.channels;
        float down = 0, right = 0;
        for (int64_t k = 0; k < s.channels; ++k) {
          const float top_left = static_cast<float>(a[k]), top_right = static_cast<float>(b[k]),
                      bottom_left = static_cast<float>(d[k]), bottom_right = static_cast<float>(e[k]);
          down += gradient[k] *
                  ((1 - column.weight) * (bottom_left - top_left) + column.weight * (bottom_right - top_right));
          right +=
              gradient[k] * ((1 - row.weight) * (top_right - top_left) + row.weight * (bottom_right - bottom_left));
        }
        Share(box.rows, s.crop_height, y, down, out);
        Share(box.columns, s.crop_width, x, right, out + 1);
      }
    }
  }
  // What moves pixel i of an axis moves both ends of it.
  static void Share(const CropAxis& axis, int64_t count, int64_t i, float gradient, float* ends) {
    const float second = count > 1 ? static_cast<float>(i) * axis.ratio : 0.5f * axis.last;
    ends[0] += gradient * (axis.last - second);
    ends[2] += gradient * second;
  }
};

}  // namespace

TENON_CPU_KERNEL(CropAndResize) =
    CpuKernel<CropKernel>("CropAndResize", {.constraints = sdk::Constraints<Pictures::Constraint<"T">>::list});
TENON_CPU_KERNEL(CropAndResizeGradImage) = CpuKernel<GradImageKernel>(
    "CropAndResizeGradImage", {.constraints = sdk::Constraints<Gradients::Constraint<"T">>::list});
TENON_CPU_KERNEL(CropAndResizeGradBoxes) = CpuKernel<GradBoxesKernel>(
    "CropAndResizeGradBoxes", {.constraints = sdk::Constraints<Pictures::Constraint<"T">>::list});

}  // namespace tenon::cpu
