// SPDX-License-Identifier: Apache-2.0
// Tenon>Int8Conv2D and Tenon>Int8MatMul (tenon/extras/kernel/int8.h) as convolutions of oneDNN, whose sums are of 8-bit
// integers: factor, shift, addend and activation are done to a result before it is stored. A product of matrices is a
// convolution over a row of pixels.
//
// Only where the machine multiplies bytes without saturating in between (VNNI): elsewhere oneDNN's sums would not be
// the sums. Constant weights become integers, and are packed, once; others in every run.
#include "tenon/extras/kernel/int8.h"

#include <array>
#include <cmath>

#include "conv.h"

namespace tenon::cpu_onednn {
namespace {

using dnnl::memory;
using Type = dnnl::memory::data_type;

constexpr double kInt8PerNanosecond = 300;  // multiply-adds on one core
constexpr double kSmallestInt8 = 5e3;       // below, the plain kernel is as fast

class Int8Shares {
 public:
  Int8Shares(const sdk::Int8Product& product, const Convolution& v, const sdk::WeightMatrix& weights,
             sdk::PrepareContext& c, bool by_pixels)
      : product_(product), weights_(weights), channels_(v.y.channels) {
    if (!HasByteProducts())
      sdk::Fail(TENON_UNIMPLEMENTED, "this CPU has no VNNI; the plain kernel sums without saturating");
    RefuseBelow(v.work, kSmallestInt8);
    const int64_t bytes = sdk::Multiply(channels_, kFloat);
    constant_ = c.Constant<float>(1) != nullptr;
    bool vectors_too = constant_;
    for (int32_t i = 0; i < product.vectors; ++i)
      vectors_too = vectors_too && c.Constant<float>(product.first_vector + i) != nullptr;
    if (constant_) {
      weights_.data = c.Constant<float>(1);
      integers_.resize(static_cast<size_t>(sdk::Multiply(weights_.rows, weights_.columns)));
      scale_.resize(static_cast<size_t>(channels_));
      sdk::QuantizeWeights(weights_, 0, channels_, integers_.data(), scale_.data());
    } else {
      integers_at_ = c.Workspace(sdk::Multiply(weights_.rows, weights_.columns));
      scale_at_ = c.Workspace(bytes);
    }
    if (vectors_too) {
      factor_.resize(static_cast<size_t>(channels_));
      shift_.resize(static_cast<size_t>(channels_));
      product.Fold(
          channels_, scale_.data(), [&](int32_t i) { return c.Constant<float>(product.first_vector + i); },
          factor_.data(), shift_.data());
    } else {
      factor_at_ = c.Workspace(bytes);
      shift_at_ = c.Workspace(bytes);
    }
    constexpr double kMostPieces = 1024;
    const int64_t shares = SharesAndPieces(c, v.work / kInt8PerNanosecond, kMostPieces);
    if (by_pixels) {
      for (const auto& [from, to] : Parts(v.x.width, shares)) AddPixels(v, c, from, to);
    } else if (v.x.batch >= shares) {
      for (const auto& [from, to] : Parts(v.x.batch, shares)) AddRows(v, c, from, to, 0, v.y.height);
    } else {
      const int64_t each = (shares + v.x.batch - 1) / v.x.batch;
      for (int64_t n = 0; n < v.x.batch; ++n)
        for (const auto& [from, to] : Parts(v.y.height, each)) AddRows(v, c, n, n + 1, from, to);
    }
    cost_ = v.work / kInt8PerNanosecond / static_cast<double>(programs_.size());
    if (constant_) integers_ = {};  // all are packed
  }

  void Run(sdk::RunContext c) const {
    const float* scale = scale_.data();
    if (!constant_) {
      sdk::WeightMatrix weights = weights_;
      weights.data = c.input<float>(1);
      auto* to = c.workspace<int8_t>(integers_at_);
      auto* scales = c.workspace<float>(scale_at_);
      constexpr int64_t kBlock = 64;
      c.ParallelFor((channels_ + kBlock - 1) / kBlock, static_cast<double>(kBlock * weights.rows) * 2 + 1,
                    [&](int64_t begin, int64_t end) {
                      sdk::QuantizeWeights(weights, begin * kBlock, std::min(channels_, end * kBlock), to, scales);
                    });
      scale = scales;
    }
    if (factor_.empty())
      product_.Fold(
          channels_, scale, [&](int32_t i) { return c.input<float>(product_.first_vector + i); },
          c.workspace<float>(factor_at_), c.workspace<float>(shift_at_));
    for (const Program& filter : filters_) filter.Run(c);
    RunShares(c, programs_, cost_);
  }

 private:
  static memory::desc ImageDesc(int64_t batch, int64_t rows, int64_t width, int64_t channels, Type type) {
    return {{batch, channels, rows, width}, type, memory::dims{rows * width * channels, 1, width * channels, channels}};
  }
  Type ResultType() const { return product_.bytes ? Type::u8 : Type::f32; }

  void AddPixels(const Convolution& v, sdk::PrepareContext& c, int64_t from, int64_t to) {
    Add(v, c, ImageDesc(1, 1, to - from, v.x.channels, Type::u8),
        ImageDesc(1, 1, to - from, v.y.channels, ResultType()), from * v.x.channels, from * v.y.channels, {0, 0},
        {0, 0});
  }
  void AddRows(const Convolution& v, sdk::PrepareContext& c, int64_t first_image, int64_t last_image, int64_t r0,
               int64_t r1) {
    const int64_t reach = (v.height.size - 1) * v.height.dilation + 1;
    const int64_t first = r0 * v.height.stride - v.height.before,
                  last = (r1 - 1) * v.height.stride - v.height.before + reach;
    const bool whole = r0 == 0 && r1 == v.y.height;  // with rows, too, that no window reaches
    const int64_t begin = std::max<int64_t>(0, first), end = whole ? v.x.height : std::min(v.x.height, last);
    if (end <= begin) sdk::Fail(TENON_UNIMPLEMENTED, "a share of the image lies in the padding alone");
    const int64_t count = last_image - first_image;
    const auto in = ImageDesc(count, end - begin, v.x.width, v.x.channels, Type::u8),
               out = ImageDesc(count, r1 - r0, v.y.width, v.y.channels, ResultType());
    Add(v, c, in, out, (first_image * v.x.height + begin) * v.x.width * v.x.channels,
        (first_image * v.y.height + r0) * v.y.width * v.y.channels, {begin - first, v.width.before},
        {std::max<int64_t>(0, last - end), Convolution::After(v.width)});
  }

  // in_at, out_at: elements.
  void Add(const Convolution& v, sdk::PrepareContext& c, const memory::desc& in, const memory::desc& out, int64_t in_at,
           int64_t out_at, const memory::dims& before, const memory::dims& after) {
    using dnnl::algorithm;
    const memory::desc by_channel({1, channels_, 1, 1}, Type::f32, memory::dims{channels_, 1, 1, 1});
    dnnl::primitive_attr attributes = UserScratchpad();
    if (product_.input_zero != 0) library::SetZeroPoint(attributes, DNNL_ARG_SRC, product_.input_zero);
    if (product_.output_zero != 0) library::SetZeroPoint(attributes, DNNL_ARG_DST, product_.output_zero);
    dnnl::post_ops operations;
    operations.append_binary(algorithm::binary_mul, by_channel);
    operations.append_binary(algorithm::binary_add, by_channel);
    if (product_.addend >= 0) operations.append_sum(product_.addend_factor(), product_.addend_zero, Type::u8);
    if (product_.activation == sdk::Int8Product::Activation::kRelu)
      library::AppendEltwise(operations, algorithm::eltwise_relu, 0, 0);
    if (product_.activation == sdk::Int8Product::Activation::kRelu6)
      library::AppendEltwise(operations, algorithm::eltwise_clip, 0, product_.most());
    attributes.set_post_ops(operations);
    const auto pd = Made([&] {
      return library::ConvolutionForward(dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, in,
                                         Any(v.FilterDims(), Type::s8), memory::desc(), out, v.Windows(before, after),
                                         attributes);
    });
    RefuseSlow(pd);
    Program& p = programs_.emplace_back();
    const int filter = Filter(v, c, pd.weights_desc(), &p);
    const int result = p.Output(0, out, out_at * (product_.bytes ? 1 : kFloat));
    if (product_.addend >= 0) p.CopyUnlessSame(p.Input(product_.addend, out, out_at), result);
    const auto vector = [&](const std::vector<float>& values, int64_t at) {
      return factor_.empty() ? p.WorkspaceAt(at, by_channel) : p.Constant(values, by_channel);
    };
    std::vector<std::pair<int, int>> arguments = {
        {DNNL_ARG_SRC, p.Input(0, in, in_at)},
        {DNNL_ARG_WEIGHTS, filter},
        {DNNL_ARG_DST, result},
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, vector(factor_, factor_at_)},
        {DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1, vector(shift_, shift_at_)}};
    const auto zero_point = [&](int argument, int32_t value) {
      if (library::kZeroPointsAreArguments && value != 0)
        arguments.emplace_back(DNNL_ARG_ATTR_ZERO_POINTS | argument,
                               p.Constant(std::vector<int32_t>{value}, Strided({1}, {1}, Type::s32)));
    };
    zero_point(DNNL_ARG_SRC, product_.input_zero);
    zero_point(DNNL_ARG_DST, product_.output_zero);
    p.Step(c, Made([&] { return dnnl::convolution_forward(pd); }), pd.scratchpad_desc(), std::move(arguments));
  }

  // The weights in the layout that a share wants: one copy for all shares that want it so.
  int Filter(const Convolution& v, sdk::PrepareContext& c, const memory::desc& wanted, Program* program) {
    const memory::desc from = v.FilterDesc(Type::s8);
    if (constant_) return program->Constant(PackedBytes(c.input(1), weights_.column_stride, integers_, from, wanted));
    auto made =
        std::find_if(reordered_.begin(), reordered_.end(), [&](const auto& each) { return each.first == wanted; });
    if (made == reordered_.end()) {
      reordered_.emplace_back(wanted, c.Workspace(static_cast<int64_t>(wanted.get_size())));
      made = std::prev(reordered_.end());
      Program& reorder = filters_.emplace_back();
      reorder.Finish(reorder.WorkspaceAt(integers_at_, from), reorder.WorkspaceAt(made->second, wanted));
    }
    return program->WorkspaceAt(made->second, wanted);
  }

  const sdk::Int8Product& product_;  // the kernel's, which outlives its plans
  sdk::WeightMatrix weights_;
  int64_t channels_;
  bool constant_ = false;
  std::vector<int8_t> integers_;
  std::vector<float> scale_, factor_, shift_;  // empty: in the workspace
  int64_t integers_at_ = 0, scale_at_ = 0, factor_at_ = 0, shift_at_ = 0;
  std::vector<Program> filters_;  // reorders of the weights, before the shares
  std::vector<Program> programs_;
  std::vector<std::pair<memory::desc, int64_t>> reordered_;
  double cost_ = 0;
};

struct ConvolutionKernel {
  explicit ConvolutionKernel(sdk::CreateContext& c) : product(c), window(c, ""), depthwise(c.Bool("depthwise")) {}
  struct Plan {
    Plan(const ConvolutionKernel& kernel, sdk::PrepareContext& c) : shares(Make(kernel, c)) {}
    static Int8Shares Make(const ConvolutionKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims w = sdk::DimsOf(c.input(1));
      if (w.size() != 4) sdk::Fail(TENON_UNIMPLEMENTED, "a filter of shape ", w);
      const std::array<int64_t, 4> grouped = {w[0], w[1], 1, sdk::Multiply(w[2], w[3])};
      const Convolution v(kernel.window, sdk::DimsOf(c.input(0)), kernel.depthwise ? sdk::Dims(grouped) : w,
                          sdk::DimsOf(c.output(0)));
      const int64_t rows = v.kernel_height * v.kernel_width * v.in_group;
      return {kernel.product, v, {nullptr, rows, v.y.channels, v.y.channels, 1}, c, false};
    }
    Int8Shares shares;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.shares.Run(c); }
  sdk::Int8Product product;
  sdk::WindowAttributes window;
  bool depthwise;
};

struct ProductKernel {
  explicit ProductKernel(sdk::CreateContext& c) : product(c), transposed(c.Bool("transpose_b")) {}
  struct Plan {
    Plan(const ProductKernel& kernel, sdk::PrepareContext& c) : shares(Make(kernel, c)) {}
    static Int8Shares Make(const ProductKernel& kernel, sdk::PrepareContext& c) {
      const sdk::Dims a = sdk::DimsOf(c.input(0)), b = sdk::DimsOf(c.input(1));
      if (a.size() != 2 || b.size() != 2) sdk::Fail(TENON_UNIMPLEMENTED, "matrices only");
      const int64_t k = a[1], n = b[kernel.transposed ? 0 : 1];
      if (k != b[kernel.transposed ? 1 : 0])
        sdk::Fail(TENON_INVALID_ARGUMENT, "the inner dims of ", a, " and ", b, " differ");
      const sdk::WeightMatrix weights =
          kernel.transposed ? sdk::WeightMatrix{nullptr, k, n, 1, k} : sdk::WeightMatrix{nullptr, k, n, n, 1};
      return {kernel.product, Convolution(a[0], k, n), weights, c, true};
    }
    Int8Shares shares;
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.shares.Run(c); }
  sdk::Int8Product product;
  bool transposed;
};

// Of bytes and floats alone: the op has no T.
template <class Kernel>
constexpr tenon_kernel_registration Int8Kernel(std::string_view op) {
  return sdk::Registration<Kernel>(op, {.device_type = "CPU",
                                        .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE,
                                        .priority = library::kPriority});
}

}  // namespace

TENON_ONEDNN_KERNEL(Int8Conv2D) = Int8Kernel<ConvolutionKernel>("Tenon>Int8Conv2D");
TENON_ONEDNN_KERNEL(Int8MatMul) = Int8Kernel<ProductKernel>("Tenon>Int8MatMul");

}  // namespace tenon::cpu_onednn
