// SPDX-License-Identifier: Apache-2.0
// A convolution as oneDNN sees it, and its forward pass in shares, with what is done to the result before it is stored.
//
// Images stay in the layout of the graph where oneDNN takes it (NHWC); filters are reordered once where they are
// constant in the plan, for as long as they do not change where they are variables, and else in every run. Shares are
// parts of the batch, or rows of one image; all read one copy of the filter.
#ifndef TENON_DEVICES_CPU_ONEDNN_CONV_H_
#define TENON_DEVICES_CPU_ONEDNN_CONV_H_

#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "program.h"
#include "tenon/extras/walk/window.h"

namespace tenon::cpu_onednn {

inline constexpr int64_t kFloat = sizeof(float);
// Multiply-adds below which the plain kernels are as fast: measured, see CHOICES.md.
inline constexpr double kSmallestConvolution = 400e3;

// Geometry of one convolution and the layouts of its tensors.
struct Convolution {
  Convolution(const sdk::WindowAttributes& a, sdk::Dims in, sdk::Dims filter, sdk::Dims out,
              ElementType of = ElementType::f32)
      : x(in, a.channels_first), y(out, a.channels_first), type(of), result(of), channels_first(a.channels_first) {
    RefuseWithoutBfloat16(of);
    if (filter.size() != 4 || filter[2] <= 0 || x.channels % filter[2] != 0 || filter[3] != y.channels ||
        x.batch != y.batch) {
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

  // A product of matrices [m, k] and [k, n]: of windows of one over a row of m pixels.
  Convolution(int64_t m, int64_t k, int64_t n)
      : x(std::array<int64_t, 4>{1, 1, m, k}, false),
        y(std::array<int64_t, 4>{1, 1, m, n}, false),
        channels_first(false),
        kernel_height(1),
        kernel_width(1),
        in_group(k),
        groups(1) {
    height.input = height.output = 1;
    width.input = width.output = m;
    work = static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  }

  // Rows of one image are as dense as an image: oneDNN's fast primitives take no others.
  dnnl::memory::desc ImageDesc(const sdk::Image& i, int64_t batch, int64_t rows) const {
    const int64_t c = i.channels, plane = i.height * i.width, image = c * (batch == 1 ? rows * i.width : plane);
    return channels_first ? Strided({batch, c, rows, i.width}, {c * plane, plane, i.width, 1}, TypeOfImage(i))
                          : Strided({batch, c, rows, i.width}, {image, 1, i.width * c, c}, TypeOfImage(i));
  }
  ElementType TypeOfImage(const sdk::Image& i) const { return &i == &y ? result : type; }
  // What the primitive is asked for: NHWC as it is, NCHW as oneDNN likes.
  dnnl::memory::desc Asked(const dnnl::memory::desc& image) const {
    return channels_first ? Any(library::Dims(image), library::Type(image)) : image;
  }
  int64_t RowOffset(const sdk::Image& i, int64_t row) const {
    return row * i.width * (channels_first ? 1 : i.channels) * BytesOf(TypeOfImage(i));
  }
  int64_t BatchOffset(const sdk::Image& i, int64_t n) const {
    return n * i.pixels() * i.channels * BytesOf(TypeOfImage(i));
  }

  // Images of few channels are the plain kernel's, which does them without copies, where oneDNN takes longer
  // (CHOICES.md): of forward passes, gradients of the input and of the filter.
  void RefuseFewChannels() const { RefuseIf(x.channels < kFew && y.channels < kVector); }
  void RefuseFewChannelsOfInput() const { RefuseIf(x.channels < kFew && y.channels >= kVector); }
  void RefuseFewChannelsOfFilter() const {
    constexpr double kSmallest = 5e6;
    RefuseIf(x.channels == 1 && work >= kSmallest);
  }

  // Below it the plain kernels are as fast; in bfloat16 they never are.
  double SmallestWork(double in_float) const { return type == ElementType::bf16 ? 0 : in_float; }

  dnnl::memory::dims FilterDims() const {
    const int64_t out_group = y.channels / groups;
    return groups == 1 ? dnnl::memory::dims{y.channels, x.channels, kernel_height, kernel_width}
                       : dnnl::memory::dims{groups, out_group, in_group, kernel_height, kernel_width};
  }
  dnnl::memory::desc FilterDesc() const { return FilterDesc(type); }  // [height, width, in, out]
  dnnl::memory::desc FilterDesc(ElementType of) const {
    const int64_t o = y.channels, i = in_group * o, w = kernel_width * i;
    return {FilterDims(), of,
            groups == 1 ? dnnl::memory::dims{1, o, w, i} : dnnl::memory::dims{o / groups, 1, o, w, i}};
  }
  library::Windows Windows(const dnnl::memory::dims& before, const dnnl::memory::dims& after) const {
    return {{height.stride, width.stride}, {height.dilation - 1, width.dilation - 1}, before, after};
  }
  library::Windows Windows() const { return Windows({height.before, width.before}, {After(height), After(width)}); }
  static int64_t After(const sdk::WindowDim& w) {
    return std::max<int64_t>(0, (w.output - 1) * w.stride + (w.size - 1) * w.dilation + 1 - w.input - w.before);
  }

  using Forward = dnnl::convolution_forward;
  // bias: empty, or the channels of the result. `after`: what is done to it.
  Forward::primitive_desc ForwardDesc(const dnnl::memory::desc& in, const dnnl::memory::desc& filter,
                                      const dnnl::memory::desc& bias, const dnnl::memory::desc& out,
                                      const library::Windows& windows, const dnnl::post_ops& after = {}) const {
    return Made([&] {
      dnnl::primitive_attr attributes = UserScratchpad();
      attributes.set_post_ops(after);
      return library::ConvolutionForward(dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, in,
                                         filter, bias, out, windows, attributes);
    });
  }
  // By Winograd's transforms, in layouts of the library's choice. Empty where it has none: of other processors, sizes,
  // or what follows. The filter's layout for inference is a little faster, and takes four times as long to make.
  Forward::primitive_desc Winograd(const dnnl::memory::desc& in, const dnnl::memory::desc& bias,
                                   const dnnl::memory::desc& out, const library::Windows& windows,
                                   const dnnl::post_ops& after, bool constant) const {
    return MadeOrNone([&] {
      dnnl::primitive_attr attributes = UserScratchpad();
      attributes.set_post_ops(after);
      return library::ConvolutionForward(
          constant ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_winograd, Any(library::Dims(in)), Any(FilterDims()), bias,
          Any(library::Dims(out)), windows, attributes);
    });
  }
  // Whether each pixel of y is the product of one of x and the filter, and nothing else: windows of one in float32,
  // channels last.
  bool IsOfPixels() const {
    const auto one = [](const sdk::WindowDim& w) {
      return w.size == 1 && w.before == 0 && (w.output - 1) * w.stride < w.input;
    };
    const bool apart = y.width * width.stride <=
                       height.stride * x.width;  // rows of what is read would overlap, which oneDNN's layouts do not
    return one(height) && one(width) && apart && groups == 1 && !channels_first && type == ElementType::f32;
  }
  bool IsOfAllPixels() const {
    return IsOfPixels() && height.stride == 1 && width.stride == 1 && height.output == height.input &&
           width.output == width.input;
  }
  // Pixels one after the other: rows of a matrix.
  dnnl::memory::desc PixelRows(int64_t channels, int64_t images, int64_t rows) const {
    return Strided({images, channels, rows, y.width}, {rows * y.width * channels, 1, y.width * channels, channels});
  }
  // Those of one image x that count, for `rows` rows of y, where they lie.
  dnnl::memory::desc PixelsRead(int64_t rows) const {
    const int64_t c = x.channels, row = x.width * c;
    return Strided({1, c, rows, y.width}, {rows * height.stride * row, 1, height.stride * row, width.stride * c});
  }
  // Those of input `image`, of so many images and rows of y from the first ones named on, for a product of matrices.
  int Pixels(sdk::PrepareContext& c, Program* p, int image, std::pair<int64_t, int64_t> images,
             std::pair<int64_t, int64_t> rows) const {
    const int64_t count = rows.second - rows.first, at = RowOffset(x, rows.first * height.stride);
    const auto together = PixelRows(x.channels, images.second - images.first, count);
    if (IsOfAllPixels()) return p->Input(image, together, BatchOffset(x, images.first) + at);
    const int64_t to = c.Workspace(static_cast<int64_t>(together.get_size()));
    for (int64_t i = images.first; i < images.second; ++i)
      p->Finish(p->Input(image, PixelsRead(count), BatchOffset(x, i) + at),
                p->WorkspaceAt(to + (i - images.first) * count * y.width * x.channels * kFloat,
                               PixelRows(x.channels, 1, count)));
    return p->WorkspaceAt(to, together);
  }

  // Whether so many rows of so many images are worth Winograd's transforms and layouts (CHOICES.md); of a filter that
  // is not constant, its transform in each run, too.
  bool SuitsWinograd(int64_t images, int64_t rows, bool constant) const {
    if (!winograd.load(std::memory_order_relaxed)) return false;
    constexpr int64_t kChannels = 64;
    const int64_t pixels = constant ? 196 : 2 * std::max(x.channels, y.channels);
    const bool window = kernel_height == 3 && kernel_width == 3 && height.stride == 1 && width.stride == 1 &&
                        height.dilation == 1 && width.dilation == 1;
    return window && groups == 1 && !channels_first && type == ElementType::f32 && x.channels >= kChannels &&
           y.channels >= kChannels && images * rows * y.width >= pixels;
  }

  static constexpr int64_t kFew = 8, kVector = 16, kMostOut = 64,
                           kMostSide = 8;  // what is done without copies has no more results, and no larger windows
  void RefuseIf(bool few) const {
    const bool window = kernel_height * kernel_width > 1 && kernel_height <= kMostSide && kernel_width <= kMostSide;
    if (few && type == ElementType::f32 && !channels_first && groups == 1 && y.channels <= kMostOut && window &&
        !use_always.load(std::memory_order_relaxed))
      sdk::Fail(TENON_UNIMPLEMENTED, "so few channels; the plain kernel is faster");
  }

  sdk::Image x, y;
  ElementType type = ElementType::f32;    // of the image, and of the filter
  ElementType result = ElementType::f32;  // of what comes out: of bfloat16 the sums may be wanted as they are
  bool channels_first;
  int64_t kernel_height, kernel_width, in_group, groups;
  sdk::WindowDim height, width;
  double work;
};

// A depthwise filter is one of a group a channel.
inline std::array<int64_t, 4> DepthwiseFilter(sdk::Dims filter) {
  if (filter.size() != 4) sdk::Fail(TENON_UNIMPLEMENTED, "a filter of shape ", filter);
  return {filter[0], filter[1], 1, sdk::Multiply(filter[2], filter[3])};
}

// What is done to each element of a convolution's result: times scale, plus shift, plus an addend, then an activation.
struct Epilogue {
  // A value of each channel.
  struct Vector {
    enum class From { kNone, kInput, kWorkspace, kConstant } from = From::kNone;
    int64_t at = 0;             // the input's number, or where in the workspace
    std::vector<float> values;  // of a constant
    ElementType type = ElementType::f32;  // of an input
  };
  Vector scale, shift;
  std::vector<float> filter_scale;  // of a constant filter: each output channel's; empty: none
  int addend = -1;                  // the number of an input of the result's shape and type; -1: none
  struct Activation {
    dnnl::algorithm algorithm = dnnl::algorithm::undef;  // undef: none
    float alpha = 0, beta = 0;
  } activation;
  bool IsEmpty() const {
    return scale.from == Vector::From::kNone && shift.from == Vector::From::kNone && filter_scale.empty() &&
           addend < 0 && activation.algorithm == dnnl::algorithm::undef;
  }
};

// A variable's value in another layout, from step to step for as long as it does not change (ext/draft/lasting_view.h).
// Kernels that want the same value in the same layout share one. Any thread.
class KeptFilter {
 public:
  // given, wanted: how the value lies, and how it is to lie.
  KeptFilter(const dnnl::memory::desc& given, const dnnl::memory::desc& wanted) : given_(given), wanted_(wanted) {}
  KeptFilter(KeptFilter&& other) noexcept : given_(other.given_), wanted_(other.wanted_) {}  // before it is used
  KeptFilter(const KeptFilter&) = delete;
  ~KeptFilter() { LetGo(); }

  // The same value as before in the layout that make(memory) gave it, or, where it is worth a try, now gives it. NULL:
  // it is not to be kept, and `make` was not called.
  template <class Make>
  std::shared_ptr<char> Find(const tenon_tensor_view& view, const Make& make) {
    const std::lock_guard lock(mutex_);
    if (IsSame(view)) return made_;
    if (!IsWorthATry(view)) return nullptr;
    if (!TakeOfOthers(view)) {
      if (!HaveMemory()) return nullptr;
      make(made_.get());
    }
    Hold(view);
    return made_;
  }

 private:
  bool IsSame(const tenon_tensor_view& view);
  // What is held is let go.
  bool IsWorthATry(const tenon_tensor_view& view);
  // Another's that holds this value. Without memory of its own, as steps are not to ask for any.
  bool TakeOfOthers(const tenon_tensor_view& view);
  // Memory that nobody reads any more.
  bool HaveMemory();
  void Hold(const tenon_tensor_view& view);
  void LetGo();

  const dnnl::memory::desc given_, wanted_;
  std::mutex mutex_;
  // While a buffer is held, others read these, under their list's lock (conv.cc).
  tenon_buffer* buffer_ = nullptr;
  const void* data_ = nullptr;
  std::shared_ptr<char> made_;
  KeptFilter *next_ = nullptr, *before_ = nullptr;
  uint32_t found_ = 0;          // how often it was the same, since it was made
  uint32_t pause_ = 1,
           wait_ = 1;  // values that are passed over after one that changed soon, and how many of them are left
};

// A filter that is not constant, in a layout that shares want: one copy for all of them.
struct ReorderedFilter {
  dnnl::memory::desc wanted;
  int64_t at;                  // in the workspace
  std::vector<Program> parts;  // what fill it, before the shares
};
// That of input `filter`, which lies as `given`; made where there is none yet.
const ReorderedFilter& Reordered(std::vector<ReorderedFilter>* filters, sdk::PrepareContext& c, int filter,
                                 const dnnl::memory::desc& given, const dnnl::memory::desc& wanted);

class ForwardShares {
 public:
  // The image, the filter, and the result are inputs 0 and 1 and output 0 of the node, or as said. UNIMPLEMENTED: the
  // plain kernels are faster, or oneDNN has no fast primitive.
  ForwardShares(const Convolution& v, sdk::PrepareContext& c, const Epilogue& epilogue = {}, int image = 0,
                int filter = 1);
  void Run(sdk::RunContext c) const;

 private:
  void Add(const Convolution& v, sdk::PrepareContext& c, const Epilogue& epilogue, int image, int filter,
           std::pair<int64_t, int64_t> images, std::pair<int64_t, int64_t> rows);
  // Windows of one, as a product of matrices.
  void AddProduct(const Convolution& v, sdk::PrepareContext& c, int image, int filter,
                  std::pair<int64_t, int64_t> images, std::pair<int64_t, int64_t> rows);
  int Filter(const Convolution& v, sdk::PrepareContext& c, const Epilogue& epilogue, int filter,
             const dnnl::memory::desc& wanted, Program* program);

  std::vector<ReorderedFilter> filters_;
  std::vector<Program> programs_;
  mutable std::vector<KeptFilter> kept_;  // of the filters, one each
  int filter_ = 1;                        // which input it is
  double cost_;
};

}  // namespace tenon::cpu_onednn

#endif  // TENON_DEVICES_CPU_ONEDNN_CONV_H_
