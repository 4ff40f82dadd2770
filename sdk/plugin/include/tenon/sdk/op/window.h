// SPDX-License-Identifier: Apache-2.0
// Windows that slide over images: the attributes of convolutions and poolings, read and checked, and the
// size of what comes out.
#ifndef TENON_SDK_OP_WINDOW_H_
#define TENON_SDK_OP_WINDOW_H_

#include <array>
#include <string_view>
#include <vector>

#include "tenon/sdk/op/op.h"

namespace tenon::sdk {

enum class Padding { kSame, kValid, kExplicit };

// Where height, width and channels stand in a tensor of rank 4.
struct ImageLayout {
  int height = 1, width = 2, channels = 3;
  static constexpr int kBatch = 0;
};

struct Window {
  ImageLayout layout;
  Padding padding = Padding::kValid;
  // Of height and width.
  std::array<int64_t, 2> strides = {1, 1};
  std::array<int64_t, 2> dilations = {1, 1};
  std::array<int64_t, 2> pad_before = {0, 0}, pad_after = {0, 0};
};

inline ImageLayout LayoutOf(std::string_view data_format) {
  return data_format == "NCHW" ? ImageLayout{2, 3, 1} : ImageLayout{};
}

// Four positive numbers in data_format order, with 1 for the batch, and for the channels if so asked.
inline std::array<int64_t, 2> PerPixel(NodeContext& c, const ImageLayout& layout, std::string_view attr,
                                       bool channels_too = true) {
  const std::vector<int64_t> values = c.Ints(attr);
  if (!c.ok()) return {1, 1};
  if (values.size() != 4) {
    c.Invalid("attribute '", attr, "' must have 4 numbers; it is ", values);
    return {1, 1};
  }
  for (int64_t value : values) {
    if (value < 1) c.Invalid("attribute '", attr, "' must be positive; it is ", values);
  }
  if (values[0] != 1 || (channels_too && values[static_cast<size_t>(layout.channels)] != 1)) {
    c.Fail(TENON_UNIMPLEMENTED, "attribute '", attr, "' must be 1 for the batch and the channels; it is ", values);
  }
  return {values[static_cast<size_t>(layout.height)], values[static_cast<size_t>(layout.width)]};
}

// Reads strides, padding, explicit_paddings (where the op has it), of a convolution dilations, and data_format, without which images are NHWC.
inline Window ReadWindow(NodeContext& c, bool has_explicit, bool has_dilations, bool has_format = true) {
  Window window;
  if (has_format) window.layout = LayoutOf(c.String("data_format"));
  window.strides = PerPixel(c, window.layout, "strides");
  if (has_dilations) window.dilations = PerPixel(c, window.layout, "dilations");
  const std::string_view padding = c.String("padding");
  window.padding = padding == "SAME" ? Padding::kSame : padding == "VALID" ? Padding::kValid : Padding::kExplicit;
  if (!has_explicit || !c.ok()) return window;
  const std::vector<int64_t> pads = c.Ints("explicit_paddings");
  if (window.padding != Padding::kExplicit) {
    if (!pads.empty()) c.Invalid("attribute 'explicit_paddings' must be empty when padding is ", padding);
    return window;
  }
  if (pads.size() != 8) {
    c.Invalid("attribute 'explicit_paddings' must have 8 numbers; it is ", pads);
    return window;
  }
  for (int64_t pad : pads) {
    if (pad < 0) c.Invalid("attribute 'explicit_paddings' must not be negative; it is ", pads);
  }
  const size_t channels = static_cast<size_t>(window.layout.channels);
  if (pads[0] != 0 || pads[1] != 0 || pads[2 * channels] != 0 || pads[2 * channels + 1] != 0) {
    c.Invalid("attribute 'explicit_paddings' must be 0 for the batch and the channels; it is ", pads);
  }
  for (size_t i = 0; i < 2; ++i) {
    const size_t dim = static_cast<size_t>(i == 0 ? window.layout.height : window.layout.width);
    window.pad_before[i] = pads[2 * dim];
    window.pad_after[i] = pads[2 * dim + 1];
  }
  return window;
}

// How many windows of `size` fit along a dim of `input` (i: 0 height, 1 width). Unknown when one is.
inline int64_t WindowedSize(ShapeContext& c, const Window& window, size_t i, int64_t input, int64_t size) {
  if (size == 0) {
    c.Invalid("a window of size 0");
    return kUnknown;
  }
  const int64_t stride = window.strides[i];
  if (window.padding == Padding::kSame) return input <= 0 ? input : (input - 1) / stride + 1;
  if (input < 0 || size < 0) return kUnknown;
  const int64_t covered = c.Add(c.Multiply(size - 1, window.dilations[i]), 1);
  const int64_t padded = c.Add(c.Add(input, window.pad_before[i]), window.pad_after[i]);
  if (covered < 0 || padded < 0) return kUnknown;
  if (covered > padded) {
    c.Invalid("a window that covers ", covered, " does not fit into ", padded);
    return kUnknown;
  }
  return (padded - covered) / stride + 1;
}

// A shape of rank 4 in the layout.
inline Shape ImageShape(const ImageLayout& layout, int64_t batch, int64_t height, int64_t width,
                             int64_t channels) {
  Shape shape = Shape::OfRank(4);
  shape.Set(ImageLayout::kBatch, batch);
  shape.Set(layout.height, height);
  shape.Set(layout.width, width);
  shape.Set(layout.channels, channels);
  return shape;
}

// The named attributes as the node has them, for a new node.
inline std::vector<Attribute> SameAttributes(NodeContext& node, std::initializer_list<std::string_view> names) {
  std::vector<Attribute> attributes;
  for (std::string_view name : names) attributes.emplace_back(name, node.Raw(name));
  return attributes;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_WINDOW_H_
