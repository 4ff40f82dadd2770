// SPDX-License-Identifier: Apache-2.0
// Conv2D and its gradients through oneDNN. Shares are parts of the batch; forward also rows of one image.
//
// Images stay in the layout of the graph where oneDNN takes it (NHWC); filters are reordered in every run, unless they are
// constant in the plan. The gradient of the filter is one sum a share, added at the end in the order of the shares.
#include <algorithm>
#include <cmath>

#include "program.h"
#include "tenon/sdk/window.h"

namespace tenon::cpu_onednn {
namespace {

using dnnl::memory;

constexpr int64_t kFloat = sizeof(float);
// Below this the plain kernels are as fast: measured, see README.md.
constexpr double kSmallest = 400e3;
constexpr double kSmallestGradient = 50e3;

// Geometry of one convolution and the layouts of its tensors.
struct Convolution {
  Convolution(const sdk::WindowAttributes& a, sdk::Dims in, sdk::Dims filter, sdk::Dims out)
      : x(in, a.channels_first), y(out, a.channels_first), channels_first(a.channels_first) {
    if (filter.size() != 4 || filter[2] <= 0 || x.channels % filter[2] != 0 || filter[3] != y.channels || x.batch != y.batch) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", filter, " does not take ", in, " to ", out);
    }
    kernel_height = filter[0], kernel_width = filter[1], in_group = filter[2];
    groups = x.channels / in_group;
    if (groups == 0 || y.channels % groups != 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", filter, " has no whole number of groups");
    }
    height = a.Geometry(0, x.height, kernel_height, y.height);
    width = a.Geometry(1, x.width, kernel_width, y.width);
    work = static_cast<double>(y.count()) * static_cast<double>(in_group * kernel_height * kernel_width);
  }

  // Rows of one image are as dense as an image: oneDNN's fast primitives take no others.
  memory::desc ImageDesc(const sdk::Image& i, int64_t batch, int64_t rows) const {
    const int64_t c = i.channels, plane = i.height * i.width, image = c * (batch == 1 ? rows * i.width : plane);
    return channels_first ? Strided({batch, c, rows, i.width}, {c * plane, plane, i.width, 1})
                          : Strided({batch, c, rows, i.width}, {image, 1, i.width * c, c});
  }
  // What the primitive is asked for: NHWC as it is, NCHW as oneDNN likes.
  memory::desc Asked(const memory::desc& image) const { return channels_first ? Any(image.dims()) : image; }
  int64_t RowOffset(const sdk::Image& i, int64_t row) const {
    return row * i.width * (channels_first ? 1 : i.channels) * kFloat;
  }
  int64_t BatchOffset(const sdk::Image& i, int64_t n) const { return n * i.pixels() * i.channels * kFloat; }

  memory::dims FilterDims() const {
    const int64_t out_group = y.channels / groups;
    return groups == 1 ? memory::dims{y.channels, x.channels, kernel_height, kernel_width}
                       : memory::dims{groups, out_group, in_group, kernel_height, kernel_width};
  }
  memory::desc FilterDesc() const {  // [height, width, in, out]
    const int64_t o = y.channels, i = in_group * o, w = kernel_width * i;
    return groups == 1 ? Strided(FilterDims(), {1, o, w, i}) : Strided(FilterDims(), {o / groups, 1, o, w, i});
  }
  memory::dims Strides() const { return {height.stride, width.stride}; }
  memory::dims Dilations() const { return {height.dilation - 1, width.dilation - 1}; }
  static int64_t After(const sdk::WindowDim& w) {
    return std::max<int64_t>(0, (w.output - 1) * w.stride + (w.size - 1) * w.dilation + 1 - w.input - w.before);
  }

  using Forward = dnnl::convolution_forward;
  Forward::primitive_desc ForwardDesc(const memory::desc& in, const memory::desc& filter, const memory::desc& out,
                                      const memory::dims& before, const memory::dims& after) const {
    return Made([&] {
      return Forward::primitive_desc(
          Forward::desc(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, in, filter, out, Strides(),
                        Dilations(), before, after),
          UserScratchpad(), Engine());
    });
  }

  sdk::Image x, y;
  bool channels_first;
  int64_t kernel_height, kernel_width, in_group, groups;
  sdk::WindowDim height, width;
  double work;
};

// Parts of [0, total), at most `shares`.
std::vector<std::pair<int64_t, int64_t>> Parts(int64_t total, int64_t shares) {
  std::vector<std::pair<int64_t, int64_t>> parts;
  shares = std::clamp<int64_t>(shares, 1, std::max<int64_t>(1, total));
  for (int64_t i = 0; i < shares; ++i) parts.emplace_back(total * i / shares, total * (i + 1) / shares);
  return parts;
}

struct ForwardKernel {
  explicit ForwardKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const ForwardKernel& kernel, sdk::PrepareContext& c) {
      const Convolution v(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.output(0)));
      RefuseBelow(v.work, kSmallest);
      const int64_t shares = Shares(c);
      if (v.x.batch >= shares) {
        for (auto [from, to] : Parts(v.x.batch, shares)) Add(v, c, from, to, 0, v.y.height);
      } else {
        const int64_t rows = (shares + v.x.batch - 1) / v.x.batch;
        for (int64_t n = 0; n < v.x.batch; ++n)
          for (auto [from, to] : Parts(v.y.height, rows)) Add(v, c, n, n + 1, from, to);
      }
      cost = v.work / 110 / static_cast<double>(programs.size());
    }
    // Images [n0, n1), output rows [r0, r1): a convolution of its own over the rows that they reach.
    void Add(const Convolution& v, sdk::PrepareContext& c, int64_t n0, int64_t n1, int64_t r0, int64_t r1) {
      const int64_t reach = (v.height.size - 1) * v.height.dilation + 1;
      const int64_t first = r0 * v.height.stride - v.height.before;
      const int64_t last = (r1 - 1) * v.height.stride - v.height.before + reach;
      const bool whole = r0 == 0 && r1 == v.y.height;  // with rows, too, that no window reaches
      const int64_t begin = std::max<int64_t>(0, first), end = whole ? v.x.height : std::min(v.x.height, last);
      if (end <= begin) sdk::Fail(TENON_UNIMPLEMENTED, "a share of the image lies in the padding alone");
      const auto in = v.ImageDesc(v.x, n1 - n0, end - begin), out = v.ImageDesc(v.y, n1 - n0, r1 - r0);
      const auto pd = v.ForwardDesc(v.Asked(in), Any(v.FilterDims()), v.Asked(out), {begin - first, v.width.before},
                                    {std::max<int64_t>(0, last - end), Convolution::After(v.width)});
      RefuseSlow(pd);
      Program& p = programs.emplace_back();
      const float* constant = c.Constant<float>(1);
      const int filter = constant != nullptr ? p.Constant(v.FilterDesc(), constant, pd.weights_desc())
                                             : p.Converted(c, p.Input(1, v.FilterDesc()), pd.weights_desc());
      const int source = p.Converted(c, p.Input(0, in, v.BatchOffset(v.x, n0) + v.RowOffset(v.x, begin)), pd.src_desc());
      const int result = p.Output(0, out, v.BatchOffset(v.y, n0) + v.RowOffset(v.y, r0));
      const int target = p.Target(c, result, pd.dst_desc());
      p.Step(c, Made([&] { return dnnl::convolution_forward(pd); }), pd.scratchpad_desc(),
             {{DNNL_ARG_SRC, source}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DST, target}});
      p.Finish(target, result);
    }
    std::vector<Program> programs;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  sdk::WindowAttributes attributes;
};

// (input_sizes, filter, out_backprop).
struct BackpropInputKernel {
  explicit BackpropInputKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const BackpropInputKernel& kernel, sdk::PrepareContext& c) {
      const Convolution v(kernel.attributes, sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(1)), sdk::DimsOf(c.input(2)));
      RefuseBelow(v.work, kSmallestGradient);
      // Gradients of so few channels are oneDNN's slow case: 1.1 to 3.6 times the plain kernel.
      const bool strided = v.height.stride > 1 || v.width.stride > 1;
      if (v.x.channels == 1 || (v.x.channels < 4 && strided)) RefuseBelow(v.work, HUGE_VAL);
      for (auto [from, to] : Parts(v.x.batch, Shares(c))) {
        const auto dx = v.ImageDesc(v.x, to - from, v.x.height), dy = v.ImageDesc(v.y, to - from, v.y.height);
        const memory::dims before = {v.height.before, v.width.before};
        const memory::dims after = {Convolution::After(v.height), Convolution::After(v.width)};
        const auto hint = v.ForwardDesc(v.Asked(dx), Any(v.FilterDims()), v.Asked(dy), before, after);
        using Backward = dnnl::convolution_backward_data;
        const auto pd = Made([&] {
          return Backward::primitive_desc(
              Backward::desc(dnnl::algorithm::convolution_direct, v.Asked(dx), Any(v.FilterDims()), v.Asked(dy), v.Strides(),
                             v.Dilations(), before, after),
              UserScratchpad(), Engine(), hint);
        });
        RefuseSlow(pd);
        Program& p = programs.emplace_back();
        const float* constant = c.Constant<float>(1);
        const int filter = constant != nullptr ? p.Constant(v.FilterDesc(), constant, pd.weights_desc())
                                               : p.Converted(c, p.Input(1, v.FilterDesc()), pd.weights_desc());
        const int source = p.Converted(c, p.Input(2, dy, v.BatchOffset(v.y, from)), pd.diff_dst_desc());
        const int result = p.Output(0, dx, v.BatchOffset(v.x, from));
        const int target = p.Target(c, result, pd.diff_src_desc());
        p.Step(c, Made([&] { return Backward(pd); }), pd.scratchpad_desc(),
               {{DNNL_ARG_DIFF_DST, source}, {DNNL_ARG_WEIGHTS, filter}, {DNNL_ARG_DIFF_SRC, target}});
        p.Finish(target, result);
      }
      cost = v.work / 110 / static_cast<double>(programs.size());
    }
    std::vector<Program> programs;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  sdk::WindowAttributes attributes;
};

// (input, filter_sizes, out_backprop).
struct BackpropFilterKernel {
  explicit BackpropFilterKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const BackpropFilterKernel& kernel, sdk::PrepareContext& c) {
      const Convolution v(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(2)));
      RefuseBelow(v.work, kSmallestGradient);
      count = sdk::Count(c.output(0));
      const auto parts = Parts(v.x.batch, Shares(c));
      for (auto [from, to] : parts) {
        const auto x = v.ImageDesc(v.x, to - from, v.x.height), dy = v.ImageDesc(v.y, to - from, v.y.height);
        const memory::dims before = {v.height.before, v.width.before};
        const memory::dims after = {Convolution::After(v.height), Convolution::After(v.width)};
        const auto hint = v.ForwardDesc(v.Asked(x), Any(v.FilterDims()), v.Asked(dy), before, after);
        using Backward = dnnl::convolution_backward_weights;
        const auto pd = Made([&] {
          return Backward::primitive_desc(
              Backward::desc(dnnl::algorithm::convolution_direct, v.Asked(x), Any(v.FilterDims()), v.Asked(dy), v.Strides(),
                             v.Dilations(), before, after),
              UserScratchpad(), Engine(), hint);
        });
        RefuseSlow(pd);
        Program& p = programs.emplace_back();
        const int source = p.Converted(c, p.Input(0, x, v.BatchOffset(v.x, from)), pd.src_desc());
        const int gradient = p.Converted(c, p.Input(2, dy, v.BatchOffset(v.y, from)), pd.diff_dst_desc());
        if (programs.size() > 1) sums.push_back(c.Workspace(sdk::Multiply(count, kFloat)));
        const int result = programs.size() == 1 ? p.Output(0, v.FilterDesc()) : p.WorkspaceAt(sums.back(), v.FilterDesc());
        const int target = p.Target(c, result, pd.diff_weights_desc());
        p.Step(c, Made([&] { return Backward(pd); }), pd.scratchpad_desc(),
               {{DNNL_ARG_SRC, source}, {DNNL_ARG_DIFF_DST, gradient}, {DNNL_ARG_DIFF_WEIGHTS, target}});
        p.Finish(target, result);
      }
      cost = v.work / 110 / static_cast<double>(programs.size());
    }
    std::vector<Program> programs;
    std::vector<int64_t> sums;  // workspace of every share but the first
    int64_t count;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    RunShares(c, plan.programs, plan.cost);
    float* out = c.output<float>(0);
    for (int64_t at : plan.sums) {
      const float* sum = c.workspace<float>(at);
      c.ParallelFor(plan.count, 0.15, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) out[i] += sum[i];
      });
    }
  }
  sdk::WindowAttributes attributes;
};

}  // namespace

TENON_ONEDNN_KERNEL(Conv2D) = OnednnKernel<ForwardKernel>("Conv2D");
TENON_ONEDNN_KERNEL(Conv2DBackpropInput) = OnednnKernel<BackpropInputKernel>("Conv2DBackpropInput");
// The order of its sum depends on the number of shares.
TENON_ONEDNN_KERNEL(Conv2DBackpropFilter) = OnednnKernel<BackpropFilterKernel>("Conv2DBackpropFilter", 0);

}  // namespace tenon::cpu_onednn
