// SPDX-License-Identifier: Apache-2.0
#include "code/image.h"

#include <cmath>

#include "code/each.h"
#include "code/move.h"
#include "tenon/extras/kernel/update.h"

namespace tenon::gpu {

// ---- Blocks ----

template <class T>
TENON_GPU_FUNCTION void ToBatch(const BlocksParams& p) {
  ForEach(static_cast<T*>(p.target), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner);
    Index place = Quotient(i, p.spatial);
    i -= place * static_cast<Index>(p.spatial.size);
    const int64_t image = TakeDim(&place, p.images);
    int64_t from = 0, stride = 1;
    bool inside = true;
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      const int64_t apart = TakeDim(&i, p.dims[d]), within = TakeDim(&place, p.blocks[d]);
      const int64_t at = apart * p.blocks[d].size + within - p.before[d];
      inside = inside && at >= 0 && at < p.sizes[d];
      from += at * stride;
      stride *= p.sizes[d];
    }
    return inside ? static_cast<const T*>(p.source)[(image * stride + from) * p.inner.size + column] : T{};
  });
}

template <class T>
TENON_GPU_FUNCTION void FromBatch(const BlocksParams& p) {
  ForEach(static_cast<T*>(p.target), p.total, [&]<class Index>(Index i, int64_t* to) {
    *to = static_cast<int64_t>(i);
    const int64_t column = TakeDim(&i, p.inner);
    const Index image = Quotient(i, p.spatial);
    i -= image * static_cast<Index>(p.spatial.size);
    int64_t from = 0, stride = 1, place = 0, places = 1;
    TENON_GPU_ROLLED for (int d = p.rank - 1; d >= 0; --d) {
      auto at = static_cast<Index>(TakeDim(&i, p.dims[d]) + p.before[d]);
      place += TakeDim(&at, p.blocks[d]) * places;
      places *= p.blocks[d].size;
      from += static_cast<int64_t>(at) * stride;
      stride *= p.sizes[d];
    }
    return static_cast<const T*>(
        p.source)[((place * p.images.size + static_cast<int64_t>(image)) * stride + from) * p.inner.size + column];
  });
}

template <class T>
TENON_GPU_FUNCTION void ReverseSequence(const ReverseParams& p) {
  ForEachIndex(p.total, [&]<class Index>(Index i) {
    const auto to = static_cast<int64_t>(i);
    Index step_above = Quotient(i, p.step_stride), batch_above = Quotient(i, p.batch_stride);
    const int64_t step = TakeDim(&step_above, p.steps), batch = TakeDim(&batch_above, p.batches);
    const int64_t length = IndexOf(p.lengths, batch);
    const bool is_good = length >= 0 && length <= p.steps.size;
    if (!is_good && step == 0) Report(p.site, batch, length, p.steps.size);
    const int64_t from = is_good && step < length ? to + (length - 1 - 2 * step) * p.step_stride.size : to;
    static_cast<T*>(p.target)[to] = static_cast<const T*>(p.source)[from];
  });
}

// ---- Sizes ----

// The original pixels around a resized one, and how near the second is.
struct Between {
  int64_t low, high;
  float weight;
};
TENON_GPU_FUNCTION Between PixelsAround(int64_t i, int64_t original, float scale, bool half_pixel_centers) {
  const float at = half_pixel_centers ? (static_cast<float>(i) + 0.5f) * scale - 0.5f : static_cast<float>(i) * scale;
  const float floor = std::floor(at);
  const auto low = static_cast<int64_t>(floor), high = static_cast<int64_t>(std::ceil(at));
  // Where rounding puts a pixel behind the last one, it is the last one.
  return {low < 0 ? 0 : low > original - 1 ? original - 1 : low, high > original - 1 ? original - 1 : high, at - floor};
}
TENON_GPU_FUNCTION int64_t NearestPixel(int64_t i, int64_t original, float scale, bool half_pixel_centers,
                                        bool align_corners) {
  const float at = (half_pixel_centers ? static_cast<float>(i) + 0.5f : static_cast<float>(i)) * scale;
  const auto pixel = static_cast<int64_t>(align_corners ? std::round(at) : std::floor(at));
  return pixel < 0 ? 0 : pixel > original - 1 ? original - 1 : pixel;
}

// Where element i of what is written stands.
struct Place {
  int64_t channel, x, y, image;
};
template <class Index>
TENON_GPU_FUNCTION Place PlaceBy(const ResizeParams& p, Index i) {
  const int64_t channel = TakeDim(&i, p.inner), x = TakeDim(&i, p.width), y = TakeDim(&i, p.height);
  return {channel, x, y, static_cast<int64_t>(i)};
}
TENON_GPU_FUNCTION Place PlaceOf(const ResizeParams& p, int64_t i) {
  return p.total <= INT32_MAX ? PlaceBy(p, static_cast<uint32_t>(i)) : PlaceBy(p, static_cast<uint64_t>(i));
}

template <class T>
TENON_GPU_FUNCTION void Bilinear(const ResizeParams& p) {
  const bool half = p.half_pixel_centers != 0;
  TENON_GPU_ROLLED for (int64_t i = Thread(); i < p.total; i += Threads()) {
    const Place at = PlaceOf(p, i);
    const Between column = PixelsAround(at.x, p.original_width, p.column_scale, half);
    const Between row = PixelsAround(at.y, p.original_height, p.row_scale, half);
    const T* const image =
        static_cast<const T*>(p.x) + at.image * p.original_height * p.original_width * p.inner.size + at.channel;
    const auto pixel = [&](int64_t y, int64_t x) {
      return static_cast<float>(static_cast<Wide<T>>(image[(y * p.original_width + x) * p.inner.size]));
    };
    const float a = pixel(row.low, column.low), b = pixel(row.low, column.high);
    const float d = pixel(row.high, column.low), e = pixel(row.high, column.high);
    const float top = a + (b - a) * column.weight, bottom = d + (e - d) * column.weight;
    static_cast<float*>(p.out)[i] = top + (bottom - top) * row.weight;
  }
}

template <class T>
TENON_GPU_FUNCTION void Nearest(const ResizeParams& p) {
  const bool half = p.half_pixel_centers != 0, corners = p.align_corners != 0;
  TENON_GPU_ROLLED for (int64_t i = Thread(); i < p.total; i += Threads()) {
    const Place at = PlaceOf(p, i);
    const int64_t x = NearestPixel(at.x, p.original_width, p.column_scale, half, corners);
    const int64_t y = NearestPixel(at.y, p.original_height, p.row_scale, half, corners);
    static_cast<T*>(p.out)[i] = static_cast<const T*>(
        p.x)[((at.image * p.original_height + y) * p.original_width + x) * p.inner.size + at.channel];
  }
}

// The first number below `end` of which `is_behind` holds, which holds of all after it.
template <class IsBehind>
TENON_GPU_FUNCTION int64_t FirstOf(int64_t end, const IsBehind& is_behind) {
  int64_t begin = 0;
  TENON_GPU_ROLLED while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (is_behind(middle)) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return begin;
}

// Each original pixel gathers from the resized ones that are made of it, in their order: pixels grow with their number,
// so that these are a range.
template <class T>
TENON_GPU_FUNCTION void BilinearGrad(const ResizeParams& p) {
  const bool half = p.half_pixel_centers != 0;
  TENON_GPU_ROLLED for (int64_t i = Thread(); i < p.total; i += Threads()) {
    const Place at = PlaceOf(p, i);
    const int64_t channel = at.channel, x = at.x, y = at.y, image = at.image;
    const auto row_at = [&](int64_t k) { return PixelsAround(k, p.original_height, p.row_scale, half); };
    const auto column_at = [&](int64_t k) { return PixelsAround(k, p.original_width, p.column_scale, half); };
    const int64_t top = FirstOf(p.resized_height, [&](int64_t k) { return row_at(k).high >= y; });
    const int64_t bottom = FirstOf(p.resized_height, [&](int64_t k) { return row_at(k).low > y; });
    const int64_t left = FirstOf(p.resized_width, [&](int64_t k) { return column_at(k).high >= x; });
    const int64_t right = FirstOf(p.resized_width, [&](int64_t k) { return column_at(k).low > x; });
    T sum = T(0.0f);
    const auto add = [&](float value) { sum = sdk::AddOrSubtract<false>(sum, T(value)); };
    TENON_GPU_ROLLED for (int64_t r = top; r < bottom; ++r) {
      const Between row = row_at(r);
      const float up = 1 - row.weight;
      TENON_GPU_ROLLED for (int64_t c = left; c < right; ++c) {
        const Between column = column_at(c);
        const float before = 1 - column.weight;
        const float dy = static_cast<const float*>(
            p.x)[((image * p.resized_height + r) * p.resized_width + c) * p.inner.size + channel];
        if (row.low == y && column.low == x) add(dy * up * before);
        if (row.low == y && column.high == x) add(dy * up * column.weight);
        if (row.high == y && column.low == x) add(dy * row.weight * before);
        if (row.high == y && column.high == x) add(dy * row.weight * column.weight);
      }
    }
    static_cast<T*>(p.out)[i] = sum;
  }
}

template <class T>
TENON_GPU_FUNCTION void NearestGrad(const ResizeParams& p) {
  const bool half = p.half_pixel_centers != 0, corners = p.align_corners != 0;
  TENON_GPU_ROLLED for (int64_t i = Thread(); i < p.total; i += Threads()) {
    const Place at = PlaceOf(p, i);
    const int64_t channel = at.channel, x = at.x, y = at.y, image = at.image;
    const auto row_at = [&](int64_t k) { return NearestPixel(k, p.original_height, p.row_scale, half, corners); };
    const auto column_at = [&](int64_t k) { return NearestPixel(k, p.original_width, p.column_scale, half, corners); };
    const int64_t top = FirstOf(p.resized_height, [&](int64_t k) { return row_at(k) >= y; });
    const int64_t bottom = FirstOf(p.resized_height, [&](int64_t k) { return row_at(k) > y; });
    const int64_t left = FirstOf(p.resized_width, [&](int64_t k) { return column_at(k) >= x; });
    const int64_t right = FirstOf(p.resized_width, [&](int64_t k) { return column_at(k) > x; });
    T sum = T(0);
    TENON_GPU_ROLLED for (int64_t r = top; r < bottom; ++r) {
      TENON_GPU_ROLLED for (int64_t c = left; c < right; ++c) {
        sum = sdk::AddOrSubtract<false>(
            sum, static_cast<const T*>(
                     p.x)[((image * p.resized_height + r) * p.resized_width + c) * p.inner.size + channel]);
      }
    }
    static_cast<T*>(p.out)[i] = sum;
  }
}

#define TENON_GPU_IMAGE_MOVES(bytes, Unit)                                         \
  TENON_GPU_KERNEL(ToBatch_##bytes, BlocksParams, ToBatch<Unit>)                   \
  TENON_GPU_KERNEL(FromBatch_##bytes, BlocksParams, FromBatch<Unit>)               \
  TENON_GPU_KERNEL(ReverseSequence_##bytes, ReverseParams, ReverseSequence<Unit>)  \
  TENON_GPU_KERNEL(Nearest_##bytes, ResizeParams, Nearest<Unit>)
TENON_GPU_IMAGE_MOVES(1, uint8_t)
TENON_GPU_IMAGE_MOVES(2, uint16_t)
TENON_GPU_IMAGE_MOVES(4, uint32_t)
TENON_GPU_IMAGE_MOVES(8, uint64_t)
TENON_GPU_IMAGE_MOVES(16, Aligned16)

#define TENON_GPU_RESIZES(suffix, T)                          \
  TENON_GPU_KERNEL(Bilinear_##suffix, ResizeParams, Bilinear<T>) \
  TENON_GPU_KERNEL(NearestGrad_##suffix, ResizeParams, NearestGrad<T>)
TENON_GPU_RESIZES(f32, float)
TENON_GPU_RESIZES(f64, double)
TENON_GPU_RESIZES(f16, Half)
TENON_GPU_RESIZES(bf16, Bfloat16)
TENON_GPU_RESIZES(i32, int32_t)
TENON_GPU_RESIZES(i64, int64_t)
TENON_GPU_RESIZES(u8, uint8_t)
TENON_GPU_KERNEL(BilinearGrad_f32, ResizeParams, BilinearGrad<float>)
TENON_GPU_KERNEL(BilinearGrad_f64, ResizeParams, BilinearGrad<double>)
TENON_GPU_KERNEL(BilinearGrad_f16, ResizeParams, BilinearGrad<Half>)
TENON_GPU_KERNEL(BilinearGrad_bf16, ResizeParams, BilinearGrad<Bfloat16>)

}  // namespace tenon::gpu
