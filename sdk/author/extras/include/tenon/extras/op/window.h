// SPDX-License-Identifier: Apache-2.0
// Windows that slide over images: the attributes of convolutions and poolings, read and checked, and the
// size of what comes out.
#ifndef TENON_SDK_OP_WINDOW_H_
#define TENON_SDK_OP_WINDOW_H_

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/op/op.h"

namespace tenon::sdk {

enum class Padding { kSame, kValid, kExplicit };

// Where the spatial dims and the channels stand: height and width in a tensor of rank 4, or depth, height and width in
// one of rank 5.
struct ImageLayout {
  int directions = 2, first = 1, channels = 3;
  int rank() const { return directions + 2; }
  // i: 0 height, 1 width; of volumes 0 depth, 1 height, 2 width.
  int Spatial(size_t i) const { return first + static_cast<int>(i); }
};
using PerDirection = std::array<int64_t, 3>;

struct Window {
  ImageLayout layout;
  Padding padding = Padding::kValid;
  // Of the spatial dims.
  PerDirection strides = {1, 1, 1};
  PerDirection dilations = {1, 1, 1};
  PerDirection pad_before = {0, 0, 0}, pad_after = {0, 0, 0};
};

inline ImageLayout LayoutOf(std::string_view data_format) {
  if (data_format == "NDHWC") return {3, 1, 4};
  if (data_format == "NCDHW") return {3, 2, 1};
  return data_format == "NCHW" ? ImageLayout{2, 2, 1} : ImageLayout{};
}

// Positive numbers in data_format order, with 1 for the batch, and for the channels if so asked. what: for the message.
inline PerDirection PerPixel(NodeContext& c, const ImageLayout& layout, std::string_view what,
                             const std::vector<int64_t>& values, bool channels_too = true) {
  PerDirection found = {1, 1, 1};
  if (!c.ok()) return found;
  if (values.size() != static_cast<size_t>(layout.rank())) {
    c.Invalid(what, " must have ", layout.rank(), " numbers; it is ", values);
    return found;
  }
  for (int64_t value : values) {
    if (value < 1) c.Invalid(what, " must be positive; it is ", values);
  }
  if (values[0] != 1 || (channels_too && values[static_cast<size_t>(layout.channels)] != 1)) {
    c.Fail(TENON_UNIMPLEMENTED, what, " must be 1 for the batch and the channels; it is ", values);
  }
  for (size_t i = 0; i < static_cast<size_t>(layout.directions); ++i)
    found[i] = values[static_cast<size_t>(layout.Spatial(i))];
  return found;
}
inline PerDirection PerPixel(NodeContext& c, const ImageLayout& layout, std::string_view attr) {
  return PerPixel(c, layout, "attribute '" + std::string(attr) + "'", c.Ints(attr));
}

inline Padding PaddingOf(NodeContext& c) {
  const std::string_view padding = c.String("padding");
  return padding == "SAME" ? Padding::kSame : padding == "VALID" ? Padding::kValid : Padding::kExplicit;
}

// Reads explicit_paddings.
inline void ReadPaddings(NodeContext& c, Window& window) {
  const std::vector<int64_t> pads = c.Ints("explicit_paddings");
  if (window.padding != Padding::kExplicit) {
    if (!pads.empty()) c.Invalid("attribute 'explicit_paddings' must be empty when padding is ", c.String("padding"));
    return;
  }
  if (pads.size() != 2 * static_cast<size_t>(window.layout.rank())) {
    return c.Invalid("attribute 'explicit_paddings' must have ", 2 * window.layout.rank(), " numbers; it is ", pads);
  }
  for (int64_t pad : pads) {
    if (pad < 0) c.Invalid("attribute 'explicit_paddings' must not be negative; it is ", pads);
  }
  const size_t channels = static_cast<size_t>(window.layout.channels);
  if (pads[0] != 0 || pads[1] != 0 || pads[2 * channels] != 0 || pads[2 * channels + 1] != 0) {
    c.Invalid("attribute 'explicit_paddings' must be 0 for the batch and the channels; it is ", pads);
  }
  for (size_t i = 0; i < static_cast<size_t>(window.layout.directions); ++i) {
    const auto dim = static_cast<size_t>(window.layout.Spatial(i));
    window.pad_before[i] = pads[2 * dim];
    window.pad_after[i] = pads[2 * dim + 1];
  }
}

// Reads strides, padding, explicit_paddings (where the op has it), of a convolution dilations, and data_format, without
// which images are NHWC.
inline Window ReadWindow(NodeContext& c, bool has_explicit, bool has_dilations, bool has_format = true) {
  Window window;
  if (has_format) window.layout = LayoutOf(c.String("data_format"));
  window.strides = PerPixel(c, window.layout, "strides");
  if (has_dilations) window.dilations = PerPixel(c, window.layout, "dilations");
  window.padding = PaddingOf(c);
  if (has_explicit && c.ok()) ReadPaddings(c, window);
  return window;
}

// How many windows of `size` fit along a spatial dim of `input` (i: ImageLayout::Spatial). Unknown when one is.
inline int64_t WindowedSize(ShapeContext& c, const Window& window, size_t i, int64_t input, int64_t size) {
  if (size == 0) {
    c.Invalid("a window of size 0");
    return kUnknown;
  }
  const int64_t stride = window.strides[i];
  if (window.padding == Padding::kSame) {
    if (input == 0 || stride == 1) return input;
    return input < 0 ? kUnknown : (input - 1) / stride + 1;
  }
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

// The shape of what windows of `size` make of an input, with so many channels.
inline Shape WindowedShape(ShapeContext& c, const Window& window, const Shape& input, const PerDirection& size,
                           int64_t channels) {
  Shape shape = Shape::OfRank(window.layout.rank());
  shape.Set(0, input[0]);
  for (size_t i = 0; i < static_cast<size_t>(window.layout.directions); ++i) {
    shape.Set(window.layout.Spatial(i), WindowedSize(c, window, i, input[window.layout.Spatial(i)], size[i]));
  }
  shape.Set(window.layout.channels, channels);
  return shape;
}
// The spatial dims of a filter, which come first.
inline PerDirection FilterSize(const Shape& filter, int directions) {
  return {filter[0], filter[1], directions == 3 ? filter[2] : 1};
}

// The named attributes as the node has them, for a new node.
inline std::vector<Attribute> SameAttributes(NodeContext& node, std::initializer_list<std::string_view> names) {
  std::vector<Attribute> attributes;
  for (std::string_view name : names) attributes.emplace_back(name, node.Raw(name));
  return attributes;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_OP_WINDOW_H_
