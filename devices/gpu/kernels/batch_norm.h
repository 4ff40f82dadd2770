// SPDX-License-Identifier: Apache-2.0
// Batch normalisation's forward half, by itself and with what a compiler puts behind it.
#ifndef TENON_DEVICES_GPU_KERNELS_BATCH_NORM_H_
#define TENON_DEVICES_GPU_KERNELS_BATCH_NORM_H_

#include <optional>
#include <string>
#include <string_view>

#include "code/batch_norm.h"
#include "kernels/reduction.h"

namespace tenon::gpu {

// A node's attributes.
struct BatchNormSettings {
  float epsilon = 0;
  std::string format;
  bool training = false;
  float factor = 1;  // of what is now, in averages
};
// What y goes through before it is stored.
struct BatchNormEnd {
  bool adds = false;
  bool rectifies = false;
};

// x as [.., channels, pixels]; of channels last, a pixel is one element.
struct BatchNormChannels {
  BatchNormChannels(sdk::Dims dims, std::string_view format) {
    if (dims.size() != format.size()) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "x of shape ", dims, " does not have the rank of data_format ", format);
    }
    at = format.starts_with("NC") ? 1 : dims.size() - 1;
    channels = dims[at];
    pixels = sdk::Count(dims.subspan(at + 1));
    total = sdk::Count(dims);
  }
  int64_t vector_bytes() const { return channels * static_cast<int64_t>(sizeof(float)); }
  size_t at;
  int64_t channels, pixels, total;
};

// (x, scale, offset, mean, variance) to (y, batch_mean, batch_variance, saved mean, saved variance, ..). In training x
// is read twice: for statistics, and to be normalised.
class BatchNormPlan {
 public:
  BatchNormPlan(const BatchNormSettings& settings, Shapes& s, const BatchNormEnd& end = {});
  // at: inputs and outputs. added: of y's shape, if the end adds.
  void Launch(Launcher& on, char* const* at, const void* added = nullptr) const;

 private:
  BatchStatisticsParams Statistics(char* const* at, char* const* out, float* by) const;
  // Whether a channel is a row, short enough for one group of threads, and y is stored as it is.
  bool IsOfRows(const Shapes& s) const;
  const BatchNormSettings settings_;
  const BatchNormEnd end_;
  const BatchNormChannels shape_;
  const int32_t inputs_;
  const int64_t reserve_;
  int64_t factors_ = 0;
  std::optional<Reduction> statistics_, variance_;
  uint32_t lanes_ = 0;  // of rows; then all is one launch
  Grid grid_;
  Function given_ = nullptr, normalise_ = nullptr;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_BATCH_NORM_H_
