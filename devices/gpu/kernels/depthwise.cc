// SPDX-License-Identifier: Apache-2.0
// DepthwiseConv2dNative and its gradients: each channel with its own filters, NHWC.
#include "code/depthwise.h"

#include <algorithm>

#include "code/product.h"
#include "kernels/kernel.h"
#include "tenon/extras/walk/window.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

struct Attributes {
  explicit Attributes(sdk::CreateContext& c) : window(c, "") {
    if (window.channels_first) c.Fail(TENON_UNIMPLEMENTED, "depthwise convolution of NCHW");
    if (window.strides[0] != window.strides[1])
      c.Invalid("strides of height and width must be equal; they are ", window.strides[0], " and ", window.strides[1]);
    if (window.dilations[0] != 1 || window.dilations[1] != 1)
      c.Fail(TENON_UNIMPLEMENTED, "depthwise convolution with dilations");
  }
  sdk::WindowAttributes window;
};

DepthwiseParams ParamsOf(const sdk::WindowAttributes& a, Dims in, Dims filter, Dims out) {
  const sdk::Image x(in, false), y(out, false);
  if (filter.size() != 4 || filter[2] != x.channels || y.channels != sdk::Multiply(x.channels, filter[3]) ||
      x.batch != y.batch) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", filter, " does not go with images of shape ", in,
              " and results of shape ", out);
  }
  const sdk::WindowDim rows = a.Geometry(0, x.height, filter[0], y.height),
                       columns = a.Geometry(1, x.width, filter[1], y.width);
  if (std::max({sdk::Multiply(rows.size, columns.size), rows.before, columns.before}) > INT32_MAX) {
    sdk::Fail(TENON_UNIMPLEMENTED, "depthwise convolution with a filter of shape ", filter);
  }
  DepthwiseParams p = {};
  p.batch = x.batch;
  p.height = x.height;
  p.width = x.width;
  p.channels = x.channels;
  p.result_height = y.height;
  p.result_width = y.width;
  p.filters = y.channels;
  p.multiplier = filter[3];
  p.window_height = static_cast<int32_t>(rows.size);
  p.window_width = static_cast<int32_t>(columns.size);
  p.stride = static_cast<int32_t>(rows.stride);
  p.top = static_cast<int32_t>(rows.before);
  p.left = static_cast<int32_t>(columns.before);
  return p;
}

// A thread for each element of the output.
struct ElementPlan {
  ElementPlan(const DepthwiseParams& params, std::string_view code, Shapes& s)
      : params(params), count(sdk::Count(s.out(0))), code(s.Code(code, s.output(0).dtype)) {}
  void Launch(Launcher& on, const void* image, const void* filter, const void* result, void* out) const {
    DepthwiseParams p = params;
    p.image = image;
    p.filter = filter;
    p.result = result;
    p.out = out;
    on(code, Flat(count), p);
  }
  DepthwiseParams params;
  int64_t count;
  Function code;
};

struct ForwardKernel : Attributes {
  using Attributes::Attributes;
  struct Plan : ElementPlan {
    Plan(const ForwardKernel& kernel, Shapes& s)
        : ElementPlan(ParamsOf(kernel.window, s.in(0), s.in(1), s.out(0)), "DepthwiseForward", s) {}
    void Launch(Launcher& on, char* const* at) const { ElementPlan::Launch(on, at[0], at[1], nullptr, at[2]); }
  };
};

// (input_sizes, filter, out_backprop).
struct BackpropInputKernel : Attributes {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("input_sizes"), 0}};
  using Attributes::Attributes;
  struct Plan : ElementPlan {
    Plan(const BackpropInputKernel& kernel, Shapes& s)
        : ElementPlan(ParamsOf(kernel.window, s.out(0), s.in(1), s.in(2)), "DepthwiseInput", s) {}
    void Launch(Launcher& on, char* const* at) const { ElementPlan::Launch(on, nullptr, at[1], at[2], at[3]); }
  };
};

// (input, filter_sizes, out_backprop). Parts of the pixels in blocks of their own; their sums are added in order.
struct BackpropFilterKernel : Attributes {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("filter_sizes"), 1}};
  using Attributes::Attributes;
  struct Plan {
    Plan(const BackpropFilterKernel& kernel, Shapes& s)
        : params(ParamsOf(kernel.window, s.in(0), s.out(0), s.in(2))),
          code(s.Code("DepthwiseFilter", s.dtype(0))),
          sum(s.Code("ProductSum", s.dtype(0))) {
      constexpr int64_t kLeastPart = 64, kMostParts = 1024;
      const int64_t taps = int64_t{params.window_height} * params.window_width;
      blocks = sdk::Multiply(taps, (params.filters + kDepthwiseLanes - 1) / kDepthwiseLanes);
      if (blocks > INT32_MAX) sdk::Fail(TENON_UNIMPLEMENTED, "the gradient of a depthwise filter of shape ", s.out(0));
      const int64_t pixels = params.batch * params.result_height * params.result_width;
      const int64_t wanted =
          std::min({4 * s.facts().processors / std::max<int64_t>(1, blocks) + 1, pixels / kLeastPart, kMostParts});
      parts.parts_count = std::max<int64_t>(1, wanted);
      params.part_pixels = (pixels + parts.parts_count - 1) / parts.parts_count;
      parts.rows = taps;
      parts.columns = params.filters;
      parts.out_row.step = params.filters;
      parts.out_column_step = 1;
      const int64_t bytes = s.dtype(0) == TENON_DT_DOUBLE ? 8 : 4;
      parts_at = s.Workspace(sdk::Multiply(sdk::Multiply(taps, params.filters), parts.parts_count * bytes));
    }
    void Launch(Launcher& on, char* const* at) const {
      if (blocks == 0) return;
      DepthwiseParams p = params;
      p.image = at[0];
      p.result = at[2];
      p.out = on.Workspace<void>(parts_at);
      on(code,
         Grid{{static_cast<uint32_t>(blocks), static_cast<uint32_t>(parts.parts_count), 1},
              kDepthwiseLanes * kDepthwiseRows},
         p);
      ProductParams q = parts;
      q.parts = p.out;
      q.out = at[3];
      on(sum, Flat(q.rows * q.columns), q);
    }
    DepthwiseParams params;
    ProductParams parts = {};  // of which the sum uses shapes and steps
    int64_t blocks = 0, parts_at = 0;
    Function code, sum;
  };
};

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<Floats::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_GPU_KERNEL(DepthwiseConv2dNative) = Kernel<ForwardKernel>("DepthwiseConv2dNative", kTraits);
TENON_GPU_KERNEL(DepthwiseConv2dNativeBackpropInput) = Kernel<BackpropInputKernel>("DepthwiseConv2dNativeBackpropInput",
                                                                                   kTraits);
TENON_GPU_KERNEL(DepthwiseConv2dNativeBackpropFilter) =
    Kernel<BackpropFilterKernel>("DepthwiseConv2dNativeBackpropFilter", kTraits);

}  // namespace tenon::gpu
