// SPDX-License-Identifier: Apache-2.0
// Sliding windows: the attributes and geometry that kernels of convolution and pooling share.
//
// All is kept as height and width, whatever the data_format; channels_first says where the channels stand.
#ifndef TENON_SDK_WALK_WINDOW_H_
#define TENON_SDK_WALK_WINDOW_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// One direction: input and output size, window, stride, dilation and padding before.
struct WindowDim {
  int64_t input = 0, output = 0, size = 1, stride = 1, dilation = 1, before = 0;
};

// The node's data_format (NHWC or NCHW), padding, strides, dilations and explicit_paddings, those of height and width. What is wrong with them
// sticks in the context (INVALID_ARGUMENT); strides along batch and channels are UNIMPLEMENTED.
struct WindowAttributes {
  // `window` is the attribute with the window's size, or empty where a filter has it.
  WindowAttributes(CreateContext& c, const char* window) {
    const std::string_view format = c.String("data_format");
    channels_first = format == "NCHW";
    if (!channels_first && format != "NHWC") c.Invalid("data_format '", format, "'; the CPU has NHWC and NCHW");
    padding = std::string(c.String("padding"));
    if (padding != "SAME" && padding != "VALID" && padding != "EXPLICIT") c.Invalid("padding '", padding, "'");
    strides = Spatial(c, "strides");
    if (c.Has("dilations")) dilations = Spatial(c, "dilations");
    if (window[0] != '\0') sizes = Spatial(c, window);
    if (!c.Has("explicit_paddings")) return;
    const std::vector<int64_t> explicit_paddings = c.Ints("explicit_paddings");
    if (padding != "EXPLICIT") {
      if (!explicit_paddings.empty()) c.Invalid("explicit_paddings with padding ", padding);
      return;
    }
    if (explicit_paddings.size() != 8) {
      c.Invalid("explicit_paddings has ", explicit_paddings.size(), " values; 8 are needed");
      return;
    }
    for (size_t d = 0; d < 4; ++d) {
      const int64_t before = explicit_paddings[2 * d], after = explicit_paddings[2 * d + 1];
      const size_t first = channels_first ? 2 : 1;
      const bool spatial = d >= first && d < first + 2;
      if (before < 0 || after < 0 || (!spatial && (before != 0 || after != 0))) {
        c.Invalid("explicit_paddings must be non-negative, and zero for batch and channels");
      }
      if (spatial) pads[d - first] = {before, after};
      if (spatial && window[0] != '\0' && std::max(before, after) >= sizes[d - first]) {
        c.Invalid("explicit_paddings of ", before, " and ", after, " are not smaller than the window of ", sizes[d - first]);
      }
    }
  }

  // Geometry of direction d (0 height, 1 width); checks the output's size. With reach = (size - 1) dilation + 1, as TensorFlow has it
  // (GetWindowedOutputSize): SAME gives ceil(input / stride) cells, of the padding the smaller half before; VALID and EXPLICIT give
  // floor((input + padding - reach) / stride) + 1. INVALID_ARGUMENT when `output` is not that.
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
  std::array<int64_t, 2> strides = {1, 1}, dilations = {1, 1}, sizes = {1, 1};
  std::array<std::array<int64_t, 2>, 2> pads = {};

 private:
  std::array<int64_t, 2> Spatial(CreateContext& c, const char* attr) const {
    const std::vector<int64_t> list = c.Ints(attr);
    if (list.size() != 4) {
      c.Invalid(attr, " has ", list.size(), " values; 4 are needed");
      return {1, 1};
    }
    const size_t first = channels_first ? 2 : 1;
    for (int64_t v : list) {
      if (v <= 0 || v > INT32_MAX) c.Invalid(attr, " has the value ", v);
    }
    if (list[0] != 1 || list[channels_first ? 1 : 3] != 1) {
      c.Fail(TENON_UNIMPLEMENTED, attr, " must be 1 for batch and channels");
    }
    return {std::max<int64_t>(1, list[first]), std::max<int64_t>(1, list[first + 1])};
  }
};

// Batch, height, width and channels of an image tensor.
struct Image {
  Image(Dims dims, bool channels_first) {
    if (dims.size() != 4) Fail(TENON_INVALID_ARGUMENT, "an image batch needs 4 dims; the shape is ", dims);
    batch = dims[0];
    height = dims[channels_first ? 2 : 1];
    width = dims[channels_first ? 3 : 2];
    channels = dims[channels_first ? 1 : 3];
  }
  int64_t pixels() const { return height * width; }
  int64_t count() const { return batch * pixels() * channels; }
  int64_t batch, height, width, channels;
};

// A convolution's filter, [height, width, channels of a group, filters], beside the channels of images and results.
struct Filter {
  explicit Filter(Dims dims, int64_t image_channels, int64_t out_channels) {
    if (dims.size() != 4) Fail(TENON_INVALID_ARGUMENT, "a filter needs 4 dims; the shape is ", dims);
    height = dims[0], width = dims[1], in = dims[2], out = dims[3];
    if (in <= 0 || image_channels <= 0 || height <= 0 || width <= 0 || image_channels % in != 0 || out % std::max<int64_t>(1, image_channels / in) != 0) {
      Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", dims, " does not fit images of ", image_channels, " channels");
    }
    if (out != out_channels) {
      Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", dims, " does not fit results of ", out_channels, " channels");
    }
    groups = std::max<int64_t>(1, image_channels / in);
  }
  int64_t count() const { return height * width * in * out; }
  int64_t height, width, in, out, groups;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_WINDOW_H_
