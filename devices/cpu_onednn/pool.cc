// SPDX-License-Identifier: Apache-2.0
// MaxPool, AvgPool and AvgPoolGrad through oneDNN; parts of the batch are shared.
//
// MaxPoolGrad is not here: oneDNN's needs the positions that its own forward pass kept, and the op does not carry them.
// To pool again for them would take about as long as the plain kernel.
#include <algorithm>

#include "program.h"
#include "tenon/extras/walk/window.h"

namespace tenon::cpu_onednn {
namespace {

using dnnl::memory;

// Elements read; below this the plain kernels are as fast: measured, see CHOICES.md.
constexpr double kSmallestPool = 20e3;

struct Pooling {
  Pooling(const sdk::WindowAttributes& a, sdk::Dims in, sdk::Dims out, ElementType of)
      : x(in, a.channels_first), y(out, a.channels_first), type(of), channels_first(a.channels_first) {
    RefuseWithoutBfloat16(of);
    if (x.batch != y.batch || x.channels != y.channels) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "pooling does not take shape ", in, " to ", out);
    }
    const sdk::WindowDim h = a.Geometry(0, x.height, a.sizes[0], y.height),
                         w = a.Geometry(1, x.width, a.sizes[1], y.width);
    const auto after_of = [](const sdk::WindowDim& d) {
      return std::max<int64_t>(0, (d.output - 1) * d.stride + d.size - d.input - d.before);
    };
    windows = {{h.stride, w.stride}, {h.size, w.size}, {h.before, w.before}, {after_of(h), after_of(w)}};
    // oneDNN wants every window to touch a cell.
    if (h.before >= h.size || w.before >= w.size || after_of(h) >= h.size || after_of(w) >= w.size) {
      sdk::Fail(TENON_UNIMPLEMENTED, "windows that lie in the padding alone");
    }
  }
  // Shares of the batch, and the pieces of each, between which a step can be given up.
  int64_t Parts(const sdk::PrepareContext& c) const {
    constexpr double kMostPieces = 1e6;
    return SharesAndPieces(c, LongestImage() * static_cast<double>(x.batch), kMostPieces);
  }
  memory::desc Desc(const sdk::Image& i, int64_t batch) const {
    const int64_t c = i.channels, plane = i.pixels();
    return channels_first ? Strided({batch, c, i.height, i.width}, {c * plane, plane, i.width, 1}, type)
                          : Strided({batch, c, i.height, i.width}, {c * plane, 1, i.width * c, c}, type);
  }
  // Rough nanoseconds of the windows of one image.
  double LongestImage() const {
    const auto cells = static_cast<double>(std::min(windows.sizes[0], x.height) * std::min(windows.sizes[1], x.width));
    return 0.1 * static_cast<double>(y.pixels() * y.channels) * cells;
  }
  int64_t Offset(const sdk::Image& i, int64_t n) const { return n * i.pixels() * i.channels * BytesOf(type); }
  sdk::Image x, y;
  ElementType type;
  bool channels_first;
  library::PoolWindows windows;
};

template <class Function>
void ForEachPart(int64_t total, int64_t shares, Function&& function) {
  shares = std::clamp<int64_t>(shares, 1, std::max<int64_t>(1, total));
  for (int64_t i = 0; i < shares; ++i) function(total * i / shares, total * (i + 1) / shares);
}

dnnl::pooling_forward::primitive_desc ForwardDesc(const Pooling& v, dnnl::algorithm algorithm, int64_t batch) {
  return Made([&] {
    return library::PoolForward(algorithm, v.Desc(v.x, batch), v.Desc(v.y, batch), v.windows, UserScratchpad());
  });
}

template <dnnl::algorithm kAlgorithm>
struct PoolKernel {
  explicit PoolKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan {
    Plan(const PoolKernel& kernel, sdk::PrepareContext& c) {
      const Pooling v(kernel.attributes, sdk::DimsOf(c.input(0)), sdk::DimsOf(c.output(0)), TypeOf(c.input(0)));
      // Where all of a window is -infinity, oneDNN gives that in bfloat16, and TensorFlow and the plain kernel the
      // lowest number: for sessions that allow bfloat16 alone.
      if (kAlgorithm == dnnl::algorithm::pooling_max && v.type == ElementType::bf16 &&
          c.args().precision != TENON_PRECISION_ALLOW_BFLOAT16)
        sdk::Fail(TENON_UNIMPLEMENTED, "oneDNN's largest of nothing but -infinity is another in bfloat16");
      RefuseBelow(static_cast<double>(v.x.count()), kSmallestPool);
      RefuseLong(v.LongestImage());
      ForEachPart(v.x.batch, v.Parts(c), [&](int64_t from, int64_t to) {
        const auto pd = ForwardDesc(v, kAlgorithm, to - from);
        Program& p = programs.emplace_back();
        p.Step(c, Made([&] { return dnnl::pooling_forward(pd); }), pd.scratchpad_desc(),
               {{DNNL_ARG_SRC, p.Input(0, v.Desc(v.x, to - from), v.Offset(v.x, from))},
                {DNNL_ARG_DST, p.Output(0, v.Desc(v.y, to - from), v.Offset(v.y, from))}});
      });
      cost = static_cast<double>(v.x.count()) * 0.2 / static_cast<double>(programs.size());
    }
    std::vector<Program> programs;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  sdk::WindowAttributes attributes;
};

// (orig_input_shape, grad).
struct AvgPoolGradKernel {
  explicit AvgPoolGradKernel(sdk::CreateContext& c) : attributes(c, "ksize") {}
  struct Plan {
    Plan(const AvgPoolGradKernel& kernel, sdk::PrepareContext& c) {
      const Pooling v(kernel.attributes, sdk::DimsOf(c.output(0)), sdk::DimsOf(c.input(1)), TypeOf(c.input(1)));
      RefuseBelow(static_cast<double>(v.x.count()), kSmallestPool);
      RefuseLong(v.LongestImage());
      ForEachPart(v.x.batch, v.Parts(c), [&](int64_t from, int64_t to) {
        constexpr auto kAlgorithm = dnnl::algorithm::pooling_avg_exclude_padding;
        const auto pd = Made([&] {
          return library::PoolBackward(kAlgorithm, v.Desc(v.x, to - from), v.Desc(v.y, to - from), v.windows,
                                       UserScratchpad(), ForwardDesc(v, kAlgorithm, to - from));
        });
        Program& p = programs.emplace_back();
        p.Step(c, Made([&] { return dnnl::pooling_backward(pd); }), pd.scratchpad_desc(),
               {{DNNL_ARG_DIFF_DST, p.Input(1, v.Desc(v.y, to - from), v.Offset(v.y, from))},
                {DNNL_ARG_DIFF_SRC, p.Output(0, v.Desc(v.x, to - from), v.Offset(v.x, from))}});
      });
      cost = static_cast<double>(v.x.count()) * 0.2 / static_cast<double>(programs.size());
    }
    std::vector<Program> programs;
    double cost;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { RunShares(c, plan.programs, plan.cost); }
  sdk::WindowAttributes attributes;
};

}  // namespace

TENON_ONEDNN_KERNEL(MaxPool) = OnednnKernel<PoolKernel<dnnl::algorithm::pooling_max>>("MaxPool");
TENON_ONEDNN_KERNEL(AvgPool) = OnednnKernel<PoolKernel<dnnl::algorithm::pooling_avg_exclude_padding>>("AvgPool");
TENON_ONEDNN_KERNEL(AvgPoolGrad) =
    OnednnKernel<AvgPoolGradKernel, FloatAlone>("AvgPoolGrad");  // in bfloat16 oneDNN rounds each addition

}  // namespace tenon::cpu_onednn
