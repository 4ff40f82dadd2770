// SPDX-License-Identifier: Apache-2.0
#include "code/batch_norm.h"

#include <cmath>

#include "code/reduction.h"
#include "code/row.h"
#include "tenon/extras/kernel/elementwise.h"

namespace tenon::gpu {

struct AddedUp {
  using Part = float;
  using Total = double;
  static TENON_GPU_FUNCTION Total First() { return 0; }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return x + y; }
};
template <class A>
struct Moments {
  A sum, moment;
  template <class B>
  TENON_GPU_FUNCTION explicit operator Moments<B>() const {
    return {static_cast<B>(sum), static_cast<B>(moment)};
  }
};
template <class A>
TENON_GPU_FUNCTION Moments<A> ShuffleXor(Moments<A> moments, uint32_t mask) {
  return {ShuffleXor(moments.sum, mask), ShuffleXor(moments.moment, mask)};
}

template <class A>
TENON_GPU_FUNCTION Moments<A> Add(Moments<A> x, Moments<A> y) { return {x.sum + y.sum, x.moment + y.moment}; }

TENON_GPU_FUNCTION void Average(const BatchStatisticsParams& p, int which, int64_t channel, float now) {
  p.average[which][channel] = p.keep == 0.0f ? now : p.keep * p.given[which][channel] + p.take * now;
}
TENON_GPU_FUNCTION void StoreVariance(const BatchStatisticsParams& p, int64_t o, float variance) {
  p.variance[o] = variance;
  p.factors[o] = p.scale[o] / std::sqrt(variance + p.epsilon);
  Average(p, 1, o, variance * p.correction);
}

// Where distances begin, given an element: there, if a distance from it is finite wherever the others are.
template <class T>
TENON_GPU_FUNCTION float StartAt(T element) {
  const auto first = static_cast<float>(element);
  return first > -0x1p100f && first < 0x1p100f ? first : 0.0f;
}

// Mean and variance in one walk: sums of distances from the channel's first element, and of their squares. Where that
// element lies so far from the mean that rounded squares do not tell the variance, and where something is not finite,
// it is left to be looked at again.
template <class T>
struct StatisticsOfBatch {
  using Element = T;
  using Part = Moments<float>;
  using Total = Moments<double>;
  static constexpr double kFarthest = 16;  // mean square around the first element, in variances
  TENON_GPU_FUNCTION explicit StatisticsOfBatch(const BatchStatisticsParams& given) : p(given) {}
  static TENON_GPU_FUNCTION Total First() { return {0, 0}; }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return Add(x, y); }
  TENON_GPU_FUNCTION StatisticsOfBatch At(int64_t o) const {
    StatisticsOfBatch at(p);
    at.from = StartAt(elements()[Offset(p.shape.kept, o)]);
    return at;
  }
  TENON_GPU_FUNCTION Part Of(T element) const {
    const float distance = static_cast<float>(element) - from;
    return {distance, distance * distance};
  }
  TENON_GPU_FUNCTION const T* elements() const { return static_cast<const T*>(p.x); }
  TENON_GPU_FUNCTION Part Load(int64_t at, int64_t, int64_t) const { return Of(elements()[at]); }
  TENON_GPU_FUNCTION void Store(int64_t o, Total total) const {
    const auto count = static_cast<double>(p.shape.inputs_of_result);
    const double distance = total.sum / count, square = total.moment / count, variance = square - distance * distance;
    const auto mean = static_cast<float>(static_cast<double>(At(o).from) + distance);
    p.mean[o] = mean;
    Average(p, 0, o, mean);
    if (variance * kFarthest >= square) {
      StoreVariance(p, o, static_cast<float>(variance));
    } else {
      p.variance[o] = kNotKnown;
    }
  }
  static constexpr float kNotKnown = -1;
  const BatchStatisticsParams& p;
  float from = 0;
};

// Of channels whose variance is not known yet. The mean is subtracted before squares are taken.
template <class T>
struct VarianceOfBatch : AddedUp {
  TENON_GPU_FUNCTION explicit VarianceOfBatch(const BatchStatisticsParams& given) : p(given) {}
  TENON_GPU_FUNCTION bool Skips(int64_t o) const { return p.variance[o] != StatisticsOfBatch<T>::kNotKnown; }
  TENON_GPU_FUNCTION float Load(int64_t at, int64_t o, int64_t) const {
    const float distance = static_cast<float>(static_cast<const T*>(p.x)[at]) - p.mean[o];
    return distance * distance;
  }
  TENON_GPU_FUNCTION void Store(int64_t o, double total) const {
    StoreVariance(p, o, static_cast<float>(total / static_cast<double>(p.shape.inputs_of_result)));
  }
  const BatchStatisticsParams& p;
};

template <class T>
struct MomentsOfBatch {
  using Part = Moments<float>;
  using Total = Moments<double>;
  TENON_GPU_FUNCTION explicit MomentsOfBatch(const BatchMomentsParams& given) : p(given) {}
  static TENON_GPU_FUNCTION Total First() { return {0, 0}; }
  template <class A>
  static TENON_GPU_FUNCTION A Merge(A x, A y) { return Add(x, y); }
  TENON_GPU_FUNCTION Part Load(int64_t at, int64_t o, int64_t) const {
    const auto dy = static_cast<float>(static_cast<const T*>(p.dy)[at]);
    return {dy, dy * (static_cast<float>(static_cast<const T*>(p.x)[at]) - p.mean[o])};
  }
  TENON_GPU_FUNCTION void Store(int64_t o, Total total) const {
    const int64_t channels = p.shape.outputs, count = p.shape.inputs_of_result > 0 ? p.shape.inputs_of_result : 1;
    const double r2 = 1.0 / (static_cast<double>(p.variance[o]) + static_cast<double>(p.epsilon)), r = std::sqrt(r2);
    p.d_scale[o] = p.shape.inputs_of_result == 0 ? 0.0f : static_cast<float>(total.moment * r);
    p.d_offset[o] = static_cast<float>(total.sum);
    p.vectors[o] = static_cast<float>(static_cast<double>(p.scale[o]) * r);
    p.vectors[channels + o] = static_cast<float>(total.sum / static_cast<double>(count));
    p.vectors[2 * channels + o] = static_cast<float>(total.moment / static_cast<double>(count) * r2);
  }
  const BatchMomentsParams& p;
};

TENON_GPU_FUNCTION void BatchGiven(const BatchGivenParams& p) {
  for (int64_t k = Thread(); k < p.channels; k += Threads()) {
    for (int i = 0; i < 2; ++i) {
      p.means[i][k] = p.mean[k];
      p.variances[i][k] = p.variance[k];
    }
    p.factors[k] = p.scale[k] / std::sqrt(p.variance[k] + p.epsilon);
  }
}

// out[i] = function(in[0][i], .., vectors[0][channel of i], ..), by packs. Channels last, and so many that a pack
// begins at every kCount-th, vectors are read by packs too.
template <class T, int kInputs, int kVectors, class Function>
TENON_GPU_FUNCTION void MapElements(int64_t total, int64_t pixels, int64_t channels, const T* const (&in)[kInputs],
                                    const float* const (&vectors)[kVectors], T* out, const Function& function) {
  constexpr int kCount = Pack<T>::kCount;
  bool even = IsEven(out, nullptr), vectors_even = pixels == 1 && channels % kCount == 0;
  for (int n = 0; n < kInputs; ++n) even = even && IsEven(in[n], nullptr);
  for (int n = 0; n < kVectors; ++n) vectors_even = vectors_even && IsEven(vectors[n], nullptr);
  for (int64_t first = Thread() * kCount; first < total; first += Threads() * kCount) {
    int64_t pixel, channel;
    if (total <= INT32_MAX) {  // 32 bits divide faster
      const auto i = static_cast<uint32_t>(first), row = i / static_cast<uint32_t>(pixels);
      pixel = i - row * static_cast<uint32_t>(pixels);
      channel = row % static_cast<uint32_t>(channels);
    } else {
      pixel = first % pixels;
      channel = first / pixels % channels;
    }
    float by[kVectors][kCount];
    if (vectors_even) {
      constexpr int kFloats = Pack<float>::kCount;
      for (int n = 0; n < kVectors; ++n) {
        for (int k = 0; k < kCount; k += kFloats) {
          const Pack<float> part = *reinterpret_cast<const Pack<float>*>(vectors[n] + channel + k);
          for (int e = 0; e < kFloats; ++e) by[n][k + e] = part.at[e];
        }
      }
    } else {
      for (int k = 0; k < kCount; ++k) {
        for (int n = 0; n < kVectors; ++n) by[n][k] = vectors[n][channel];
        if (++pixel == pixels) {
          pixel = 0;
          channel = channel + 1 == channels ? 0 : channel + 1;
        }
      }
    }
    const bool whole = even && total - first >= kCount;
    Pack<T> from[kInputs], to;
    for (int n = 0; n < kInputs; ++n) {
      if (whole) {
        from[n] = *reinterpret_cast<const Pack<T>*>(in[n] + first);
      } else {
        for (int k = 0; k < kCount; ++k) from[n].at[k] = first + k < total ? in[n][first + k] : T(0.0f);
      }
    }
    for (int k = 0; k < kCount; ++k) {
      float values[kInputs], at_channel[kVectors];
      for (int n = 0; n < kInputs; ++n) values[n] = static_cast<float>(from[n].at[k]);
      for (int n = 0; n < kVectors; ++n) at_channel[n] = by[n][k];
      to.at[k] = static_cast<T>(function(values, at_channel));
    }
    if (whole) {
      *reinterpret_cast<Pack<T>*>(out + first) = to;
    } else {
      for (int k = 0; k < kCount && first + k < total; ++k) out[first + k] = to.at[k];
    }
  }
}

// What follows is rounded after each step, as it is by kernels of its own.
template <class T>
TENON_GPU_FUNCTION void BatchNorm(const BatchNormParams& p) {
  const T* const in[] = {static_cast<const T*>(p.x), static_cast<const T*>(p.added)};
  const float* const vectors[] = {p.mean, p.factors, p.offset};
  const auto normal = [](float x, const float* by) {
    return static_cast<float>(static_cast<T>((x - by[0]) * by[1] + by[2]));
  };
  const auto end = [&p](float y) { return p.rectifies != 0 ? sdk::ReluOp()(y) : y; };
  if (p.added != nullptr) {
    MapElements(p.total, p.pixels, p.channels, in, vectors, static_cast<T*>(p.y), [&](const float* x, const float* by) {
      return end(static_cast<float>(static_cast<T>(normal(x[0], by) + x[1])));
    });
  } else {
    const T* const alone[] = {in[0]};
    MapElements(p.total, p.pixels, p.channels, alone, vectors, static_cast<T*>(p.y),
                [&](const float* x, const float* by) { return end(normal(x[0], by)); });
  }
}

// x is read once, where a row stays in registers.
template <class T>
TENON_GPU_FUNCTION void BatchNormRows(const BatchNormRowsParams& p) {
  const BatchStatisticsParams& s = p.statistics;
  WithHeld(static_cast<const T*>(p.y), p.pixels, p.lanes, [&](auto held) {
    constexpr int kHeld = decltype(held)::value;
    ForEachItem(p.channels, p.lanes, [&](int64_t item, uint32_t lane, bool valid) {
      const int64_t o = valid ? item : 0;
      T* y = static_cast<T*>(p.y) + o * p.pixels;
      const RowShare<T, kHeld> share(RowPacks<T>(y, valid ? p.pixels : 0), static_cast<const T*>(s.x) + o * p.pixels, 1,
                                     lane, p.lanes, static_cast<T>(0.0f));
      const auto mean_of = [&](const auto& function) {
        double part = 0;
        share.ForEach([&](int64_t first, const Pack<T>& pack) {
          float few = 0;
          TENON_GPU_UNROLL_ALL
          for (int k = 0; k < Pack<T>::kCount; ++k)
            few += share.packs.Has(first + k) ? function(static_cast<float>(pack.at[k])) : 0.0f;
          part += static_cast<double>(few);
        });
        return GroupReduce(part, 0.0, p.lanes, [](double a, double b) { return a + b; }) /
               static_cast<double>(p.pixels);
      };
      const float from = valid ? StartAt(static_cast<const T*>(s.x)[o * p.pixels]) : 0.0f;
      const auto mean = static_cast<float>(static_cast<double>(from) + mean_of([from](float x) { return x - from; }));
      const auto variance = static_cast<float>(mean_of([mean](float x) { return (x - mean) * (x - mean); }));
      const float by[] = {mean, s.scale[o] / std::sqrt(variance + s.epsilon), p.offset[o]};
      if (valid && lane == 0) {
        s.mean[o] = mean;
        s.variance[o] = variance;
        Average(s, 0, o, mean);
        Average(s, 1, o, variance * s.correction);
      }
      share.ForEach([&](int64_t first, const Pack<T>& pack) {
        Pack<T> to;
        TENON_GPU_UNROLL_ALL
        for (int k = 0; k < Pack<T>::kCount; ++k)
          to.at[k] = static_cast<T>((static_cast<float>(pack.at[k]) - by[0]) * by[1] + by[2]);
        share.packs.Store(y, first, to);
      });
    });
  });
}

template <class T>
TENON_GPU_FUNCTION void BatchNormGrad(const BatchNormGradParams& p) {
  const T* const in[] = {static_cast<const T*>(p.dy), static_cast<const T*>(p.x)};
  const float* const vectors[] = {p.vectors, p.vectors + p.channels, p.vectors + 2 * p.channels, p.mean};
  if (p.training != 0) {
    MapElements(p.total, p.pixels, p.channels, in, vectors, static_cast<T*>(p.dx),
                [](const float* x, const float* by) { return by[0] * (x[0] - by[1] - (x[1] - by[3]) * by[2]); });
  } else {  // a constant variance has no part in it, were x NaN
    const T* const alone[] = {in[0]};
    const float* const factors[] = {vectors[0]};
    MapElements(p.total, p.pixels, p.channels, alone, factors, static_cast<T*>(p.dx),
                [](const float* dy, const float* by) { return by[0] * dy[0]; });
  }
}

#define TENON_GPU_BATCH_NORM(suffix, T)                                                        \
  TENON_GPU_REDUCTION(BatchNormStatistics, suffix, BatchStatisticsParams, StatisticsOfBatch<T>) \
  TENON_GPU_REDUCTION(BatchNormVariance, suffix, BatchStatisticsParams, VarianceOfBatch<T>)    \
  TENON_GPU_REDUCTION(BatchNormMoments, suffix, BatchMomentsParams, MomentsOfBatch<T>)         \
  TENON_GPU_KERNEL(BatchNorm_##suffix, BatchNormParams, BatchNorm<T>)                          \
  TENON_GPU_BLOCK_KERNEL(BatchNormRows_##suffix, BatchNormRowsParams, BatchNormRows<T>)        \
  TENON_GPU_KERNEL(BatchNormGrad_##suffix, BatchNormGradParams, BatchNormGrad<T>)
TENON_GPU_BATCH_NORM(f32, float)
TENON_GPU_BATCH_NORM(f16, Half)
TENON_GPU_BATCH_NORM(bf16, Bfloat16)
TENON_GPU_KERNEL(BatchNormGiven_f32, BatchGivenParams, BatchGiven)

}  // namespace tenon::gpu
