// SPDX-License-Identifier: Apache-2.0
// Sliding windows: the attributes and geometry that kernels of convolution and pooling share.
//
// All is kept as height and width, or as depth, height and width, whatever the data_format; channels_first says where
// the channels stand.
#ifndef TENON_SDK_WALK_WINDOW_H_
#define TENON_SDK_WALK_WINDOW_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// One direction: input and output size, window, stride, dilation and padding before.
struct WindowDim {
  int64_t input = 0, output = 0, size = 1, stride = 1, dilation = 1, before = 0;
};

// The node's data_format (NHWC or NCHW; NDHWC or NCDHW of three directions), padding, strides, dilations and
// explicit_paddings, those of the spatial directions. What is wrong with them sticks in the context (INVALID_ARGUMENT);
// strides along batch and channels are UNIMPLEMENTED. An op that has sizes and strides as inputs gives them with Slide.
template <size_t kDirections>
struct WindowAttributesOf {
  static constexpr size_t kRank = kDirections + 2;

  // `window` is the attribute with the window's size, or empty where a filter has it.
  WindowAttributesOf(CreateContext& c, const char* window, const char* dilation = "dilations") {
    strides.fill(1), dilations.fill(1), sizes.fill(1);
    constexpr std::string_view kLast = kDirections == 2 ? "NHWC" : "NDHWC",
                               kFirst = kDirections == 2 ? "NCHW" : "NCDHW";
    const std::string_view format = c.Has("data_format") ? c.String("data_format") : kLast;
    channels_first = format == kFirst;
    if (!channels_first && format != kLast)
      c.Invalid("data_format '", format, "'; the CPU has ", kLast, " and ", kFirst);
    padding = std::string(c.String("padding"));
    if (padding != "SAME" && padding != "VALID" && padding != "EXPLICIT") c.Invalid("padding '", padding, "'");
    if (c.Has("strides")) strides = Spatial(c, "strides");
    if (c.Has(dilation)) dilations = Spatial(c, dilation);
    if (window[0] != '\0') sizes = Spatial(c, window);
    if (!c.Has("explicit_paddings")) return;
    const std::vector<int64_t> explicit_paddings = c.Ints("explicit_paddings");
    if (padding != "EXPLICIT") {
      if (!explicit_paddings.empty()) c.Invalid("explicit_paddings with padding ", padding);
      return;
    }
    if (explicit_paddings.size() != 2 * kRank) {
      c.Invalid("explicit_paddings has ", explicit_paddings.size(), " values; ", 2 * kRank, " are needed");
      return;
    }
    for (size_t d = 0; d < kRank; ++d) {
      const int64_t before = explicit_paddings[2 * d], after = explicit_paddings[2 * d + 1];
      const size_t first = channels_first ? 2 : 1;
      const bool spatial = d >= first && d < first + kDirections;
      if (before < 0 || after < 0 || (!spatial && (before != 0 || after != 0))) {
        c.Invalid("explicit_paddings must be non-negative, and zero for batch and channels");
      }
      if (spatial) pads[d - first] = {before, after};
      if (spatial && window[0] != '\0' && std::max(before, after) >= sizes[d - first]) {
        c.Invalid("explicit_paddings of ", before, " and ", after, " are not smaller than the window of ",
                  sizes[d - first]);
      }
    }
  }

  // The same window with sizes and strides that inputs say, a number for each dim; fails as the attributes do.
  WindowAttributesOf Slide(std::span<const int32_t> ksize, std::span<const int32_t> steps) const {
    WindowAttributesOf window = *this;
    const auto spatial = [&](const char* what, std::span<const int32_t> list) {
      if (list.size() != kRank)
        Fail(TENON_INVALID_ARGUMENT, what, " has ", list.size(), " values; ", kRank, " are needed");
      for (const int32_t v : list) {
        if (v <= 0) Fail(TENON_INVALID_ARGUMENT, what, " has the value ", v, "; it must be positive");
      }
      if (list[0] != 1 || list[channels_first ? 1 : kRank - 1] != 1) {
        Fail(TENON_UNIMPLEMENTED, what, " must be 1 for batch and channels");
      }
      std::array<int64_t, kDirections> values = {};
      for (size_t d = 0; d < kDirections; ++d) values[d] = list[d + (channels_first ? 2 : 1)];
      return values;
    };
    window.sizes = spatial("ksize", ksize);
    window.strides = spatial("strides", steps);
    return window;
  }

  // Geometry of direction d (of height and width, 0 and 1; of depth, height and width, 0, 1 and 2); checks the output's
  // size. With reach = (size - 1) dilation + 1, as TensorFlow has it (GetWindowedOutputSize): SAME gives ceil(input /
  // stride) cells, of the padding the smaller half before; VALID and EXPLICIT give floor((input + padding - reach) /
  // stride) + 1. INVALID_ARGUMENT when `output` is not that.
  WindowDim Geometry(size_t d, int64_t input, int64_t size, int64_t output) const {
    WindowDim w{input, output, size, strides[d], dilations[d], 0};
    if (size <= 0 || input < 0) Fail(TENON_INVALID_ARGUMENT, "a window of size ", size, " on ", input, " cells");
    const int64_t reach = Multiply(size - 1, w.dilation) + 1;
    int64_t expected;
    if (padding == "SAME") {
      expected = (input + w.stride - 1) / w.stride;
      w.before = std::max<int64_t>(0, Multiply(expected - 1, w.stride) + reach - input) / 2;
    } else {
      w.before = pads[d][0];
      const int64_t padded = input + pads[d][0] + pads[d][1];
      expected = padded < reach ? 0 : (padded - reach) / w.stride + 1;
    }
    if (expected != output) {
      Fail(TENON_INVALID_ARGUMENT, "a window of ", size, " with stride ", w.stride, " over ", input, " cells gives ",
                expected, " cells; the tensor has ", output);
    }
    return w;
  }

  bool channels_first = false;
  std::string padding;
  std::array<int64_t, kDirections> strides, dilations, sizes;
  std::array<std::array<int64_t, 2>, kDirections> pads = {};

 private:
  std::array<int64_t, kDirections> Spatial(CreateContext& c, const char* attr) const {
    std::array<int64_t, kDirections> values;
    values.fill(1);
    const std::vector<int64_t> list = c.Ints(attr);
    if (list.size() != kRank) {
      c.Invalid(attr, " has ", list.size(), " values; ", kRank, " are needed");
      return values;
    }
    for (int64_t v : list) {
      if (v <= 0 || v > INT32_MAX) c.Invalid(attr, " has the value ", v);
    }
    if (list[0] != 1 || list[channels_first ? 1 : kRank - 1] != 1) {
      c.Fail(TENON_UNIMPLEMENTED, attr, " must be 1 for batch and channels");
    }
    for (size_t d = 0; d < kDirections; ++d) values[d] = std::max<int64_t>(1, list[d + (channels_first ? 2 : 1)]);
    return values;
  }
};

using WindowAttributes = WindowAttributesOf<2>;
using VolumeAttributes = WindowAttributesOf<3>;

// Batch, depth, height, width and channels of a tensor of images, which have the depth 1, or of volumes (rank 5).
struct Image {
  Image(Dims dims, bool channels_first, size_t rank = 4) {
    if (dims.size() != rank) Fail(TENON_INVALID_ARGUMENT, "an image batch needs ", rank, " dims; the shape is ", dims);
    const size_t first = channels_first ? 2 : 1;
    batch = dims[0];
    if (rank == 5) depth = dims[first];
    height = dims[first + rank - 4];
    width = dims[first + rank - 3];
    channels = dims[channels_first ? 1 : rank - 1];
  }
  int64_t pixels() const { return depth * height * width; }
  int64_t count() const { return batch * pixels() * channels; }
  int64_t batch, depth = 1, height, width, channels;
};

// A convolution's filter, [height, width, channels of a group, filters], of volumes with the depth before, beside the
// channels of images and results.
struct Filter {
  explicit Filter(Dims dims, int64_t image_channels, int64_t out_channels, size_t rank = 4) {
    if (dims.size() != rank) Fail(TENON_INVALID_ARGUMENT, "a filter needs ", rank, " dims; the shape is ", dims);
    if (rank == 5) depth = dims[0];
    height = dims[rank - 4], width = dims[rank - 3], in = dims[rank - 2], out = dims[rank - 1];
    if (in <= 0 || image_channels <= 0 || depth <= 0 || height <= 0 || width <= 0 || image_channels % in != 0 ||
        out % std::max<int64_t>(1, image_channels / in) != 0) {
      Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", dims, " does not fit images of ", image_channels, " channels");
    }
    if (out != out_channels) {
      Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", dims, " does not fit results of ", out_channels, " channels");
    }
    groups = std::max<int64_t>(1, image_channels / in);
  }
  int64_t taps() const { return depth * height * width; }
  int64_t count() const { return taps() * in * out; }
  int64_t depth = 1, height, width, in, out, groups;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_WINDOW_H_
