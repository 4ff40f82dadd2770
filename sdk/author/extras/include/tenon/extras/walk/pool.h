// SPDX-License-Identifier: Apache-2.0
// Pooling: the geometry of a node, and the work on one plane of it.
//
// A plane is an image (NHWC), where channels are the inner loop, or one channel of one (NCHW). Padding never wins a
// maximum and does not count in an average. The gradient of a maximum goes to the first one in row-major order (of
// volumes see NearMaxGradPlane). NaN is passed over; of NaN and -infinity alone the maximum is the lowest finite
// number, as in TensorFlow and oneDNN, of volumes -infinity. What windows take is told to poll(nanoseconds), for large
// ones last: a CancelPoll (kernel.h), or NeverEnds.
#ifndef TENON_SDK_WALK_POOL_H_
#define TENON_SDK_WALK_POOL_H_

#include <algorithm>
#include <cstring>
#include <limits>

#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/kernel/elementwise.h"
#include "tenon/extras/walk/window.h"

namespace tenon::sdk {

// The lowest finite number.
template <class T>
constexpr Wide<T> Lowest() {
  if constexpr (std::is_same_v<T, Half>) {
    return -65504.0f;
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return -0x1.fep127f;
  } else {
    return std::numeric_limits<T>::lowest();
  }
}

// input, output: of rank 4, by the node's data_format, or volumes of rank 5. INVALID_ARGUMENT when one does not give
// the other.
struct PoolPlan {
  template <size_t kDirections>
  PoolPlan(const WindowAttributesOf<kDirections>& a, Dims input, Dims output)
      : in(input, a.channels_first, kDirections + 2),
        out(output, a.channels_first, kDirections + 2),
        channels_first(a.channels_first) {
    if (in.batch != out.batch || in.channels != out.channels) {
      Fail(TENON_INVALID_ARGUMENT, "pooling does not take shape ", input, " to ", output);
    }
    if constexpr (kDirections == 3) z = a.Geometry(0, in.depth, a.sizes[0], out.depth), volumes = true;
    y = a.Geometry(kDirections - 2, in.height, a.sizes[kDirections - 2], out.height);
    x = a.Geometry(kDirections - 1, in.width, a.sizes[kDirections - 1], out.width);
  }
  // A plane is what one share works on: an image (NHWC) or one channel of one (NCHW).
  int64_t planes() const { return channels_first ? in.batch * in.channels : in.batch; }
  int64_t lanes() const { return channels_first ? 1 : in.channels; }
  // Rough nanoseconds of a plane, for ParallelFor.
  double PlaneCost() const {
    return static_cast<double>(out.pixels() * lanes()) * static_cast<double>(z.size * y.size * x.size) * 0.15 + 10;
  }
  // Rough nanoseconds of so many lanes of a row of one window.
  int64_t RowCost(int64_t lanes) const { return std::min(x.size, x.input) * (lanes / 8 + 1); }
  int64_t Rows() const { return std::min(z.size, z.input) * std::min(y.size, y.input); }
  // Below every number of a window: of volumes of floats -infinity.
  template <class T>
  Wide<T> Least() const {
    if constexpr (std::numeric_limits<Wide<T>>::has_infinity) {
      if (volumes) return -std::numeric_limits<Wide<T>>::infinity();
    }
    return Lowest<T>();
  }
  Image in, out;
  WindowDim z{1, 1, 1, 1, 1, 0}, y, x;
  bool channels_first, volumes = false;
};

// Of work that goes on to its end.
struct NeverEnds {
  void operator()(int64_t) const {}
};

// Tells `poll` of windows, and of large ones row by row: of a window's row in nanoseconds.
template <class Poll>
class WindowPoll {
 public:
  WindowPoll(Poll& poll, int64_t row, int64_t rows)
      : poll_(poll), row_(row), window_(row * rows), large_(window_ > kLarge) {}
  void Window() {
    if (!large_) poll_(window_);
  }
  bool large() const { return large_; }
  void Row() {
    if (large_) [[unlikely]] poll_(row_);
  }

 private:
  static constexpr int64_t kLarge = 1'000'000;
  Poll& poll_;
  const int64_t row_, window_;
  const bool large_;
};
template <class Poll>
WindowPoll(Poll&&, int64_t, int64_t) -> WindowPoll<std::remove_reference_t<Poll>>;

// Cells of the window at `index` that lie inside: [begin, end).
struct Cells {
  Cells(const WindowDim& w, int64_t index) {
    const int64_t from = index * w.stride - w.before;
    begin = std::max<int64_t>(0, from);
    end = std::min(w.input, from + w.size);
  }
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
  int64_t begin, end;
};

// For what is not written out for speed as the functions below are: the cells of a window, function(number of the row
// in the plane) for each row of it.
struct WindowCells {
  template <class Function>
  void ForEachRow(const PoolPlan& p, Function&& function) const {
    for (int64_t z = zs.begin; z < zs.end; ++z) {
      for (int64_t y = ys.begin; y < ys.end; ++y) function(z * p.in.height + y);
    }
  }
  Cells zs, ys, xs;
};
// function(number of the result in the plane, its cells) for each window of a plane.
template <class Function>
void ForEachWindow(const PoolPlan& p, Function&& function) {
  int64_t at = 0;
  for (int64_t oz = 0; oz < p.out.depth; ++oz) {
    const Cells zs(p.z, oz);
    for (int64_t oy = 0; oy < p.out.height; ++oy) {
      const Cells ys(p.y, oy);
      for (int64_t ox = 0; ox < p.out.width; ++ox) function(at++, WindowCells{zs, ys, Cells(p.x, ox)});
    }
  }
}

// What has vectors of the compiler's, in as many registers as the processor needs for one: so many channels' results
// stay there over a window.
template <class T>
inline constexpr int64_t kPooledAtOnce =
    std::is_arithmetic_v<T> && !std::is_same_v<T, bool> ? 64 / static_cast<int64_t>(sizeof(T)) : 0;
template <class T>
struct Pooled {
  typedef T Vector __attribute__((vector_size(64)));
  // step(total, vector) of each cell of a window, row by row, each from `first` on, and then of the rows; from: the
  // first of those channels in the plane.
  template <class Step>
  static void Over(const PoolPlan& p, const Cells& zs, const Cells& ys, const Cells& xs, int64_t lanes, const T* from,
                   T first, Vector& total, const Step& step) {
    total = Vector{} + first;
    for (int64_t z = zs.begin; z < zs.end; ++z) {
      for (int64_t y = ys.begin; y < ys.end; ++y) {
        const T* cell = from + ((z * p.in.height + y) * p.in.width + xs.begin) * lanes;
        Vector row = Vector{} + first;
        for (int64_t x = xs.begin; x < xs.end; ++x, cell += lanes) {
          Vector one;
          std::memcpy(&one, cell, sizeof(one));
          step(row, one);
        }
        step(total, row);
      }
    }
  }
};

// in, out, here and below: of one plane, [height, width, lanes], or [depth, height, width, lanes]. Every element of out
// is written.
template <class T, class Poll>
void MaxPlane(const PoolPlan& p, const T* in, T* out, Poll&& poll) {
  const int64_t lanes = p.lanes();
  const T least = static_cast<T>(p.Least<T>());
  WindowPoll windows(poll, p.RowCost(lanes), p.Rows());
  for (int64_t oz = 0; oz < p.out.depth; ++oz) {
    const Cells zs(p.z, oz);
    for (int64_t oy = 0; oy < p.out.height; ++oy) {
      const Cells ys(p.y, oy);
      for (int64_t ox = 0; ox < p.out.width; ++ox) {
        windows.Window();
        const Cells xs(p.x, ox);
        T* to = out + ((oz * p.out.height + oy) * p.out.width + ox) * lanes;
        int64_t done = 0;
        if constexpr (kPooledAtOnce<T> != 0) {
          for (; !windows.large() && done + kPooledAtOnce<T> <= lanes; done += kPooledAtOnce<T>) {
            typename Pooled<T>::Vector most;
            Pooled<T>::Over(p, zs, ys, xs, lanes, in + done, least, most,
                            [](auto& largest, const auto& one) { largest = one > largest ? one : largest; });
            std::memcpy(to + done, &most, sizeof(most));
          }
          if (done == lanes) continue;
        }
        std::fill_n(to + done, lanes - done, least);
        for (int64_t z = zs.begin; z < zs.end; ++z) {
          for (int64_t y = ys.begin; y < ys.end; windows.Row(), ++y) {
            for (int64_t x = xs.begin; x < xs.end; ++x) {
              const T* from = in + ((z * p.in.height + y) * p.in.width + x) * lanes;
#pragma GCC ivdep
              for (int64_t k = done; k < lanes; ++k) {
                to[k] = static_cast<Wide<T>>(from[k]) > static_cast<Wide<T>>(to[k]) ? from[k] : to[k];
              }
            }
          }
        }
      }
    }
  }
}

// The mean of the cells that lie inside, summed in Wide<T>; a window without any gives NaN.
template <class T, class Poll>
void AveragePlane(const PoolPlan& p, const T* in, T* out, Poll&& poll) {
  using A = Wide<T>;
  constexpr int64_t kLanes = 64;
  const int64_t lanes = p.lanes();
  WindowPoll windows(poll, p.RowCost(std::min(lanes, kLanes)), p.Rows() * ((lanes + kLanes - 1) / kLanes));
  for (int64_t oz = 0; oz < p.out.depth; ++oz) {
    const Cells zs(p.z, oz);
    for (int64_t oy = 0; oy < p.out.height; ++oy) {
      const Cells ys(p.y, oy);
      for (int64_t ox = 0; ox < p.out.width; ++ox) {
        windows.Window();
        const Cells xs(p.x, ox);
        T* to = out + ((oz * p.out.height + oy) * p.out.width + ox) * lanes;
        const A cells = static_cast<A>(zs.size() * ys.size() * xs.size());
        int64_t done = 0;
        if constexpr (kPooledAtOnce<T> != 0) {
          for (; !windows.large() && done + kPooledAtOnce<T> <= lanes; done += kPooledAtOnce<T>) {
            typename Pooled<T>::Vector sum;
            Pooled<T>::Over(p, zs, ys, xs, lanes, in + done, T(0), sum,
                            [](auto& some, const auto& one) { some += one; });
            sum /= cells;
            std::memcpy(to + done, &sum, sizeof(sum));
          }
        }
        for (int64_t k0 = done; k0 < lanes; k0 += kLanes) {
          const int64_t n = std::min(kLanes, lanes - k0);
          A sum[kLanes] = {};
          for (int64_t z = zs.begin; z < zs.end; ++z) {
            for (int64_t y = ys.begin; y < ys.end; windows.Row(), ++y) {
              for (int64_t x = xs.begin; x < xs.end; ++x) {
                const T* from = in + ((z * p.in.height + y) * p.in.width + x) * lanes + k0;
                for (int64_t k = 0; k < n; ++k) sum[k] += static_cast<A>(from[k]);
              }
            }
          }
          for (int64_t k = 0; k < n; ++k) to[k0 + k] = static_cast<T>(sum[k] / cells);
        }
      }
    }
  }
}

// Calls function(where in the input, where in the output, hit) for each cell of each window; hit is 1 at the first cell
// that equals the maximum, else 0. Channels side by side.
template <class T, class Poll, class Function>
void ForEachMax(const PoolPlan& p, const T* in, const T* out, Poll&& poll, Function&& function) {
  using Flag = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;  // as wide as what it selects
  constexpr int64_t kLanes = 64;
  const int64_t lanes = p.lanes();
  const Wide<T> least = p.Least<T>();
  WindowPoll windows(poll, p.RowCost(std::min(lanes, kLanes)), p.Rows() * ((lanes + kLanes - 1) / kLanes));
  for (int64_t oz = 0; oz < p.out.depth; ++oz) {
    const Cells zs(p.z, oz);
    for (int64_t oy = 0; oy < p.out.height; ++oy) {
      const Cells ys(p.y, oy);
      for (int64_t ox = 0; ox < p.out.width; ++ox) {
        windows.Window();
        const Cells xs(p.x, ox);
        for (int64_t k0 = 0; k0 < lanes; k0 += kLanes) {
          const int64_t at = ((oz * p.out.height + oy) * p.out.width + ox) * lanes + k0,
                        n = std::min(kLanes, lanes - k0);
          Flag wanting[kLanes];
          std::fill_n(wanting, n, Flag{1});
          for (int64_t z = zs.begin; z < zs.end; ++z) {
            for (int64_t y = ys.begin; y < ys.end; windows.Row(), ++y) {
              for (int64_t x = xs.begin; x < xs.end; ++x) {
                const int64_t from = ((z * p.in.height + y) * p.in.width + x) * lanes + k0;
#pragma GCC ivdep
                for (int64_t k = 0; k < n; ++k) {
                  const Wide<T> value = static_cast<Wide<T>>(in[from + k]);
                  const Flag equal = (value > least ? value : least) == static_cast<Wide<T>>(out[at + k]) ? 1 : 0;
                  const Flag hit = equal & wanting[k];
                  function(from + k, at + k, hit);
                  wanting[k] ^= hit;
                }
              }
            }
          }
        }
      }
    }
  }
}

// Of one window, so many channels at once: what ForEachMax does, without its detour over flags in memory. in, dx: of
// the first of those channels in the plane; most: of the maximum.
template <class T, class Vector>
void GiveToFirst(const PoolPlan& p, const Cells& zs, const Cells& ys, const Cells& xs, const T* in, Vector most,
                 Vector gradient, T* dx) {
  using Truths = decltype(most == most);
  const int64_t lanes = p.lanes();
  const Vector least = Vector{} + static_cast<T>(p.Least<T>());
  Truths wanting = Truths{} - 1;
  for (int64_t z = zs.begin; z < zs.end; ++z) {
    for (int64_t y = ys.begin; y < ys.end; ++y) {
      for (int64_t x = xs.begin; x < xs.end; ++x) {
        const int64_t at = ((z * p.in.height + y) * p.in.width + x) * lanes;
        Vector value, sum;
        std::memcpy(&value, in + at, sizeof(value));
        std::memcpy(&sum, dx + at, sizeof(sum));
        const Truths hit = ((value > least ? value : least) == most) & wanting;
        wanting &= ~hit;
        sum += hit != 0 ? gradient : Vector{};
        std::memcpy(dx + at, &sum, sizeof(sum));
      }
    }
  }
}

// dx is zero before. in, out: what went into the maximum, and what came out.
template <class T, class Poll>
void MaxGradPlane(const PoolPlan& p, const T* in, const T* out, const T* dy, T* dx, Poll&& poll) {
  const int64_t lanes = p.lanes();
  if constexpr (std::is_floating_point_v<T>) {
    WindowPoll windows(poll, p.RowCost(lanes), p.Rows());
    if (!windows.large() && lanes % kPooledAtOnce<T> == 0) {
      return ForEachWindow(p, [&](int64_t result, const WindowCells& w) {
        windows.Window();
        for (int64_t k = 0; k < lanes; k += kPooledAtOnce<T>) {
          typename Pooled<T>::Vector most, gradient;
          std::memcpy(&most, out + result * lanes + k, sizeof(most));
          std::memcpy(&gradient, dy + result * lanes + k, sizeof(gradient));
          GiveToFirst(p, w.zs, w.ys, w.xs, in + k, most, gradient, dx + k);
        }
      });
    }
  }
  ForEachMax(p, in, out, poll, [=](int64_t from, int64_t at, auto hit) {
    const Wide<T> part = hit != 0 ? static_cast<Wide<T>>(dy[at]) : Wide<T>(0);
    dx[from] = static_cast<T>(AddOp()(static_cast<Wide<T>>(dx[from]), part));
  });
}

// As TensorFlow's CPU has it of volumes: every cell gets the window's gradient that is within 1e-5 of its maximum; one
// of infinity none. dx is zero before.
template <class T, class Poll>
void NearMaxGradPlane(const PoolPlan& p, const T* in, const T* out, const T* dy, T* dx, Poll&& poll) {
  const int64_t lanes = p.lanes();
  WindowPoll windows(poll, p.RowCost(lanes), p.Rows());
  ForEachWindow(p, [&](int64_t result, const WindowCells& w) {
    windows.Window();
    const int64_t at = result * lanes;
    w.ForEachRow(p, [&](int64_t row) {
      for (int64_t x = w.xs.begin; x < w.xs.end; ++x) {
        const int64_t from = (row * p.in.width + x) * lanes;
        for (int64_t k = 0; k < lanes; ++k) {
          const auto away = static_cast<double>(static_cast<Wide<T>>(in[from + k])) -
                            static_cast<double>(static_cast<Wide<T>>(out[at + k]));
          const Wide<T> part = away > -1e-5 && away < 1e-5 ? static_cast<Wide<T>>(dy[at + k]) : Wide<T>(0);
          dx[from + k] = static_cast<T>(AddOp()(static_cast<Wide<T>>(dx[from + k]), part));
        }
      }
      windows.Row();
    });
  });
}

// Each cell of a window gets dy / cells. dx is zero before.
template <class T, class Poll>
void AverageGradPlane(const PoolPlan& p, const T* dy, T* dx, Poll&& poll) {
  using A = Wide<T>;
  const int64_t lanes = p.lanes();
  WindowPoll windows(poll, p.RowCost(lanes), p.Rows());
  for (int64_t oz = 0; oz < p.out.depth; ++oz) {
    const Cells zs(p.z, oz);
    for (int64_t oy = 0; oy < p.out.height; ++oy) {
      const Cells ys(p.y, oy);
      for (int64_t ox = 0; ox < p.out.width; ++ox) {
        windows.Window();
        const Cells xs(p.x, ox);
        const T* from = dy + ((oz * p.out.height + oy) * p.out.width + ox) * lanes;
        const A cells = static_cast<A>(zs.size() * ys.size() * xs.size());
        for (int64_t z = zs.begin; z < zs.end; ++z) {
          for (int64_t y = ys.begin; y < ys.end; windows.Row(), ++y) {
            for (int64_t x = xs.begin; x < xs.end; ++x) {
              T* to = dx + ((z * p.in.height + y) * p.in.width + x) * lanes;
#pragma GCC ivdep
              for (int64_t k = 0; k < lanes; ++k) {
                to[k] = static_cast<T>(static_cast<A>(to[k]) + static_cast<A>(from[k]) / cells);
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_POOL_H_
