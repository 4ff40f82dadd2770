// SPDX-License-Identifier: Apache-2.0
// One thread for an element of the result: gradients are gathered from the windows that an element is in, in the order
// in which the CPU's kernels add them.
#include "code/pool.h"

#include "code/grid.h"
#include "tenon/extras/walk/pool.h"

namespace tenon::gpu {

struct PoolPlace {
  int64_t plane, lane;
  int32_t y, x;
};
template <class Index>
TENON_GPU_FUNCTION PoolPlace PlaceOf(Index i, Index lanes, Index height, Index width) {
  const Index pixel = i / lanes, row = pixel / width, plane = row / height;
  return {static_cast<int64_t>(plane), static_cast<int64_t>(i - pixel * lanes),
          static_cast<int32_t>(row - plane * height), static_cast<int32_t>(pixel - row * width)};
}
// 32 bits divide faster.
TENON_GPU_FUNCTION PoolPlace PlaceOf(const PoolParams& p, int64_t i, int32_t height, int32_t width) {
  if (p.count <= INT32_MAX) {
    return PlaceOf<uint32_t>(static_cast<uint32_t>(i), static_cast<uint32_t>(p.lanes), static_cast<uint32_t>(height),
                             static_cast<uint32_t>(width));
  }
  return PlaceOf<uint64_t>(static_cast<uint64_t>(i), static_cast<uint64_t>(p.lanes), static_cast<uint64_t>(height),
                           static_cast<uint64_t>(width));
}

struct PoolRange {
  int32_t begin, end;
  TENON_GPU_FUNCTION int32_t length() const { return end > begin ? end - begin : 0; }
};
// Cells of window `index` that lie inside.
TENON_GPU_FUNCTION PoolRange CellsOf(const PoolDim& w, int32_t index) {
  const int32_t from = index * w.stride - w.before, to = from + w.size;
  return {from > 0 ? from : 0, to < w.input ? to : w.input};
}
// Windows that a cell is in.
TENON_GPU_FUNCTION PoolRange WindowsOf(const PoolDim& w, int32_t cell) {
  const int32_t at = cell + w.before, end = at / w.stride + 1;
  return {at < w.size ? 0 : (at - w.size) / w.stride + 1, end < w.output ? end : w.output};
}

// function(pixel of the plane, element) for the cells of the window of a result, in row-major order, while it gives
// true.
template <class Function>
TENON_GPU_FUNCTION void ForEachCell(const PoolParams& p, const PoolPlace& at, const Function& function) {
  const PoolRange ys = CellsOf(p.y, at.y), xs = CellsOf(p.x, at.x);
  const int64_t plane = at.plane * p.y.input * p.x.input;
  for (int32_t y = ys.begin; y < ys.end; ++y) {
    for (int32_t x = xs.begin; x < xs.end; ++x) {
      const int64_t pixel = static_cast<int64_t>(y) * p.x.input + x;
      if (!function(pixel, (plane + pixel) * p.lanes + at.lane)) return;
    }
  }
}
// function(oy, ox, element of the results) for the windows that an element of the image is in.
template <class Function>
TENON_GPU_FUNCTION void ForEachWindow(const PoolParams& p, const PoolPlace& at, const Function& function) {
  const PoolRange ys = WindowsOf(p.y, at.y), xs = WindowsOf(p.x, at.x);
  const int64_t plane = at.plane * p.y.output * p.x.output;
  for (int32_t oy = ys.begin; oy < ys.end; ++oy) {
    for (int32_t ox = xs.begin; ox < xs.end; ++ox) {
      function(oy, ox, (plane + static_cast<int64_t>(oy) * p.x.output + ox) * p.lanes + at.lane);
    }
  }
}

template <class T>
TENON_GPU_FUNCTION void MaxPool(const PoolParams& p) {
  const T* in = static_cast<const T*>(p.in);
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    Wide<T> most = sdk::Lowest<T>();
    ForEachCell(p, PlaceOf(p, i, p.y.output, p.x.output), [&](int64_t, int64_t at) {
      const Wide<T> value = in[at];
      most = value > most ? value : most;
      return true;
    });
    static_cast<T*>(p.to)[i] = static_cast<T>(most);
  }
}

// The pixel and the element of the first cell that is the maximum `i` of the results.
template <class T>
TENON_GPU_FUNCTION void FindMaximum(const PoolParams& p, int64_t i, int64_t* out_pixel, int64_t* out_element) {
  const T* in = static_cast<const T*>(p.in);
  const Wide<T> most = static_cast<const T*>(p.out)[i];
  *out_pixel = -1;
  ForEachCell(p, PlaceOf(p, i, p.y.output, p.x.output), [&](int64_t pixel, int64_t at) {
    const Wide<T> value = in[at];
    if ((value > sdk::Lowest<T>() ? value : sdk::Lowest<T>()) != most) return true;
    *out_pixel = pixel;
    *out_element = at;
    return false;
  });
}
template <class T>
TENON_GPU_FUNCTION void MaxPoolPlaces(const PoolParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    int64_t pixel, element;
    FindMaximum<T>(p, i, &pixel, &element);
    p.places[i] = static_cast<int32_t>(pixel);
  }
}
template <class T>
TENON_GPU_FUNCTION void MaxPoolGradGrad(const PoolParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    int64_t pixel, element;
    FindMaximum<T>(p, i, &pixel, &element);
    static_cast<T*>(p.to)[i] = pixel < 0 ? T(0) : static_cast<const T*>(p.d)[element];
  }
}

// Rounded after each window.
template <class T>
TENON_GPU_FUNCTION void MaxPoolGrad(const PoolParams& p) {
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const PoolPlace at = PlaceOf(p, i, p.y.input, p.x.input);
    const int64_t pixel = static_cast<int64_t>(at.y) * p.x.input + at.x;
    T sum = T(0);
    ForEachWindow(p, at, [&](int32_t, int32_t, int64_t from) {
      if (p.places[from] != pixel) return;
      sum = static_cast<T>(
          sdk::AddOp()(static_cast<Wide<T>>(sum), static_cast<Wide<T>>(static_cast<const T*>(p.d)[from])));
    });
    static_cast<T*>(p.to)[i] = sum;
  }
}

template <class T>
TENON_GPU_FUNCTION void AvgPool(const PoolParams& p) {
  using A = Wide<T>;
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    const PoolPlace place = PlaceOf(p, i, p.y.output, p.x.output);
    const auto cells =
        static_cast<A>(static_cast<int64_t>(CellsOf(p.y, place.y).length()) * CellsOf(p.x, place.x).length());
    A sum = 0;
    ForEachCell(p, place, [&](int64_t, int64_t at) {
      sum += static_cast<A>(static_cast<const T*>(p.in)[at]);
      return true;
    });
    static_cast<T*>(p.to)[i] = static_cast<T>(sum / cells);
  }
}
// Rounded after each window.
template <class T>
TENON_GPU_FUNCTION void AvgPoolGrad(const PoolParams& p) {
  using A = Wide<T>;
  for (int64_t i = Thread(); i < p.count; i += Threads()) {
    T sum = T(0);
    ForEachWindow(p, PlaceOf(p, i, p.y.input, p.x.input), [&](int32_t oy, int32_t ox, int64_t from) {
      const auto cells = static_cast<A>(static_cast<int64_t>(CellsOf(p.y, oy).length()) * CellsOf(p.x, ox).length());
      sum = static_cast<T>(static_cast<A>(sum) + static_cast<A>(static_cast<const T*>(p.d)[from]) / cells);
    });
    static_cast<T*>(p.to)[i] = sum;
  }
}

#define TENON_GPU_MAX_POOL(suffix, T)                                              \
  TENON_GPU_KERNEL(MaxPool_##suffix, PoolParams, MaxPool<T>)                       \
  TENON_GPU_KERNEL(MaxPoolPlaces_##suffix, PoolParams, MaxPoolPlaces<T>)           \
  TENON_GPU_KERNEL(MaxPoolGrad_##suffix, PoolParams, MaxPoolGrad<T>)               \
  TENON_GPU_KERNEL(MaxPoolGradGrad_##suffix, PoolParams, MaxPoolGradGrad<T>)
#define TENON_GPU_AVG_POOL(suffix, T)                                              \
  TENON_GPU_KERNEL(AvgPool_##suffix, PoolParams, AvgPool<T>)                       \
  TENON_GPU_KERNEL(AvgPoolGrad_##suffix, PoolParams, AvgPoolGrad<T>)
TENON_GPU_MAX_POOL(f32, float)
TENON_GPU_MAX_POOL(f64, double)
TENON_GPU_MAX_POOL(f16, Half)
TENON_GPU_MAX_POOL(bf16, Bfloat16)
TENON_GPU_MAX_POOL(i32, int32_t)
TENON_GPU_MAX_POOL(i64, int64_t)
TENON_GPU_AVG_POOL(f32, float)
TENON_GPU_AVG_POOL(f64, double)
TENON_GPU_AVG_POOL(f16, Half)
TENON_GPU_AVG_POOL(bf16, Bfloat16)

}  // namespace tenon::gpu
