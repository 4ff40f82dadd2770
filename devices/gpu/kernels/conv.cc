// SPDX-License-Identifier: Apache-2.0
// Conv2D and its gradients: by the vendor's library where it takes them, else as products of patches (code/product.h)
// that are never copied: the product's code reads them out of the image. A group is one of a batch of products. Of
// halves, the gradient of a filter may be the sums as they are, of float32; a library that has them in no way but
// rounded gives those.
//
//   forward:             y[window, filter]  = sum over cells of patch(x)[window, cell] * filter[cell, filter]
//   gradient of input:   x[pixel, channel]  = sum over (tap, filter) of patch(y)[pixel, (tap, filter)] * filter[tap,
//   channel, filter] gradient of filter:  filter[cell, filter] = sum over windows of patch(x)[window, cell] * y[window,
//   filter]
#include "code/select.h"
#include "kernels/move.h"
#include "kernels/product.h"
#include "kernels/turned_filter.h"
#include "tenon/extras/walk/window.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

// The shapes and steps of a convolution.
class ConvolutionProblem {
 public:
  ConvolutionProblem(const sdk::WindowAttributes& a, Dims in, Dims filter_dims, Dims out, uint32_t dtype,
                     bool keeps_sums = false)
      : dtype_(dtype),
        keeps_sums_(keeps_sums),
        x_(in, a.channels_first),
        y_(out, a.channels_first),
        filter_(filter_dims, x_.channels, y_.channels),
        rows_(a.Geometry(0, x_.height, filter_.height, y_.height)),
        columns_(a.Geometry(1, x_.width, filter_.width, y_.width)),
        channels_first_(a.channels_first),
        group_filters_(filter_.out / filter_.groups) {
    if (x_.batch != y_.batch) sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", x_.batch, " and ", y_.batch, " images");
    sdk::Multiply(filter_.height * filter_.width, sdk::Multiply(filter_.in, filter_.out));
    for (const sdk::WindowDim& w : {rows_, columns_}) {
      // Coordinates are of 32 bits.
      const int64_t reach = sdk::Multiply(w.size, w.dilation) + sdk::Multiply(w.output, w.stride) + w.input + w.before;
      if (reach > INT32_MAX / 2) sdk::Fail(TENON_UNIMPLEMENTED, "a convolution that reaches over ", reach, " cells");
    }
  }

  ProductProblem Forward() const {
    ProductProblem p = Problem(y_.batch * y_.pixels(), group_filters_, Taps() * filter_.in);
    if (IsDirect()) {
      p.left.line = PixelSteps(x_);
      p.left.depth.step = ChannelStep(x_);
    } else {
      p.left_kind = ProductProblem::Left::kPatches;
      p.patches = PatchesOfImage();
    }
    p.right.line.step = 1;
    p.right.depth.step = filter_.out;
    p.out_row = PixelSteps(y_);
    p.out_column_step = ChannelStep(y_);
    Batches(&p, filter_.in * ChannelStep(x_), group_filters_, group_filters_ * ChannelStep(y_));
    return p;
  }
  ProductProblem GradientOfInput() const {
    ProductProblem p = Problem(x_.batch * x_.pixels(), filter_.in, Taps() * group_filters_);
    if (IsDirect()) {
      p.left.line = PixelSteps(y_);
      p.left.depth.step = ChannelStep(y_);
    } else {
      p.left_kind = ProductProblem::Left::kPatches;
      p.patches = PatchesOfResult();
    }
    p.right.line.step = filter_.out;
    p.right.depth = {1, group_filters_, filter_.in * filter_.out};
    p.out_row = PixelSteps(x_);
    p.out_column_step = ChannelStep(x_);
    Batches(&p, group_filters_ * ChannelStep(y_), group_filters_, filter_.in * ChannelStep(x_));
    return p;
  }
  ProductProblem GradientOfFilter() const {
    ProductProblem p = Problem(Taps() * filter_.in, group_filters_, y_.batch * y_.pixels());
    if (IsDirect()) {
      p.left.line.step = ChannelStep(x_);
      p.left.depth = PixelSteps(x_);
    } else {
      p.left_kind = ProductProblem::Left::kTurnedPatches;
      p.patches = PatchesOfImage();
    }
    p.right.line.step = ChannelStep(y_);
    p.right.depth = PixelSteps(y_);
    p.out_row.step = filter_.out;
    Batches(&p, filter_.in * ChannelStep(x_), group_filters_ * ChannelStep(y_), group_filters_);
    return p;
  }
  // As a vendor's library knows it.
  Convolution Problem(Convolution::Result result, uint32_t precision) const {
    const auto direction = [](const sdk::WindowDim& w) {
      return Convolution::Direction{w.input, w.output, w.size, w.stride, w.dilation, w.before};
    };
    return {.result = result,
            .dtype = dtype_,
            .sums = keeps_sums_,
            .precision = precision,
            .channels_first = channels_first_,
            .batch = x_.batch,
            .channels = x_.channels,
            .filters = filter_.out,
            .groups = filter_.groups,
            .rows = direction(rows_),
            .columns = direction(columns_)};
  }
  bool is_empty() const { return x_.count() == 0 || y_.count() == 0 || filter_.count() == 0; }
  FilterLayout LayoutOfFilter() const {
    return {Taps(), filter_.in, filter_.out, static_cast<int64_t>(sdk::ElementSize(dtype_)), channels_first_};
  }
  // Between our filter, [height, width, channels, filters], and the library's.
  Walk FilterWalk(bool from_library) const {
    Walk walk;
    const int64_t taps = Taps(), in = filter_.in, out = filter_.out;
    const auto add = [&](int64_t dim, int64_t ours, int64_t librarys) {
      from_library ? walk.Add(dim, librarys, ours) : walk.Add(dim, ours, librarys);
    };
    add(taps, in * out, channels_first_ ? 1 : in);
    add(in, out, channels_first_ ? taps : 1);
    add(out, 1, taps * in);
    return walk;
  }

 private:
  int64_t Taps() const { return filter_.height * filter_.width; }
  // Whether windows are single pixels, which are read as a matrix.
  bool IsDirect() const {
    return Taps() == 1 && rows_.stride == 1 && columns_.stride == 1 && rows_.before == 0 && columns_.before == 0 &&
           x_.height == y_.height && x_.width == y_.width;
  }
  int64_t ChannelStep(const sdk::Image& image) const { return channels_first_ ? image.pixels() : 1; }
  // From pixel to pixel of all images.
  Steps PixelSteps(const sdk::Image& image) const {
    if (channels_first_) return {1, image.pixels(), image.channels * image.pixels()};
    return {image.channels, 0, 0};
  }
  ProductProblem Problem(int64_t rows, int64_t columns, int64_t depth) const {
    ProductProblem p;
    p.dtype = dtype_;
    p.keeps_sums = keeps_sums_;
    p.rows = rows;
    p.columns = columns;
    p.depth = depth;
    return p;
  }
  void Batches(ProductProblem* p, int64_t left, int64_t right, int64_t out) const {
    p->batches.count = p->batches.inner = filter_.groups;
    if (filter_.groups == 1) return;
    p->batches.left_step = left;
    p->batches.right_step = right;
    p->batches.out_step = out;
  }
  // Patches that are read out of `image`; windows stand in the plane of `windows`.
  PatchView Patches(const sdk::Image& image, const sdk::Image& windows) const {
    PatchView v = {};
    v.height = static_cast<int32_t>(image.height);
    v.width = static_cast<int32_t>(image.width);
    v.image_step = image.channels * image.pixels();
    v.column_step = channels_first_ ? 1 : image.channels;
    v.row_step = image.width * v.column_step;
    v.channel_step = ChannelStep(image);
    v.plane = windows.pixels();
    v.plane_width = windows.width;
    v.window_width = filter_.width;
    return v;
  }
  PatchView PatchesOfImage() const {
    PatchView v = Patches(x_, y_);
    v.channels = filter_.in;
    const auto set = [](const sdk::WindowDim& w, int32_t* scale, int32_t* shift, int32_t* tap, int32_t* divide) {
      *scale = static_cast<int32_t>(w.stride);
      *shift = static_cast<int32_t>(-w.before);
      *tap = static_cast<int32_t>(w.dilation);
      *divide = 1;
    };
    set(rows_, &v.y_scale, &v.y_shift, &v.y_tap, &v.y_divide);
    set(columns_, &v.x_scale, &v.x_shift, &v.x_tap, &v.x_divide);
    return v;
  }
  // The windows that saw a pixel: (pixel + before - tap * dilation) / stride where that is whole.
  PatchView PatchesOfResult() const {
    PatchView v = Patches(y_, x_);
    v.channels = group_filters_;
    const auto set = [](const sdk::WindowDim& w, int32_t* scale, int32_t* shift, int32_t* tap, int32_t* divide) {
      *scale = 1;
      *shift = static_cast<int32_t>(w.before);
      *tap = static_cast<int32_t>(-w.dilation);
      *divide = static_cast<int32_t>(w.stride);
    };
    set(rows_, &v.y_scale, &v.y_shift, &v.y_tap, &v.y_divide);
    set(columns_, &v.x_scale, &v.x_shift, &v.x_tap, &v.x_divide);
    return v;
  }

  uint32_t dtype_;
  bool keeps_sums_;
  sdk::Image x_, y_;
  sdk::Filter filter_;
  sdk::WindowDim rows_, columns_;
  bool channels_first_;
  int64_t group_filters_;
};

// By the vendor's library where it takes it, as a product of matrices or as a convolution; else by our own code.
class ConvolutionPlan {
 public:
  using Result = Convolution::Result;
  ConvolutionPlan(const ConvolutionProblem& problem, Result result, Shapes& s)
      : result_(result), product_(ProductOf(problem, result), s) {
    if (product_.is_librarys() || problem.is_empty()) return;
    Convolution asked = problem.Problem(result, s.precision());
    library_ = s.device().FindWork(asked);
    if (library_ == nullptr && asked.sums) {
      asked.sums = false;
      library_ = s.device().FindWork(asked);
      if (library_ != nullptr) widen_ = s.Code(sdk::Concat("Cast_", Suffix(asked.dtype), "_f32"));
    }
    if (library_ == nullptr) return;
    const auto element = static_cast<int64_t>(sdk::ElementSize(s.output(0).dtype));
    const Walk walk = problem.FilterWalk(result == Result::kGradientOfFilter);
    turn_ = Moving(walk, element, s);
    filter_at_ = s.Workspace(walk.total() * element);
    library_at_ = s.Workspace(library_->workspace_bytes());
    if (widen_ != nullptr) narrow_at_ = s.Workspace(walk.total() * static_cast<int64_t>(sdk::ElementSize(asked.dtype)));
    if (result != Result::kGradientOfFilter)
      keeper_ = std::make_unique<FilterKeeper>(problem.LayoutOfFilter(), s.input(kFilter).dl.data != nullptr);
  }
  std::shared_ptr<Kept> Keep(const tenon_frame& frame) const {
    return keeper_ == nullptr ? nullptr : keeper_->Find(frame, *frame.inputs[kFilter]);
  }
  // left and right as in LibraryOperands.
  void Launch(Launcher& on, const char* left, const char* right, char* out) const {
    if (library_ == nullptr || !LaunchLibrary(on, left, right, out)) product_.Launch(on, left, right, out);
  }

 private:
  static ProductProblem ProductOf(const ConvolutionProblem& problem, Result result) {
    switch (result) {
      case Result::kForward: return problem.Forward();
      case Result::kGradientOfInput: return problem.GradientOfInput();
      default: return problem.GradientOfFilter();
    }
  }
  bool LaunchLibrary(Launcher& on, const char* left, const char* right, char* out) const {
    char* const filter = on.Workspace<char>(filter_at_);
    void* const workspace = on.Workspace<void>(library_at_);
    if (result_ == Result::kGradientOfFilter) {
      char* const found = widen_ == nullptr ? filter : on.Workspace<char>(narrow_at_);
      if (!on.Launch(*library_, {left, right, found, nullptr, workspace})) return false;
      if (widen_ != nullptr) on(widen_, Flat(turn_.total(), kMoveItems), CastParams{found, filter, turn_.total()});
      turn_.Launch(on, filter, out);
      return true;
    }
    auto* const kept = static_cast<TurnedFilter*>(on.kept());
    char* const turned = kept == nullptr ? filter : kept->memory();
    if (!on.Takes(*library_, {left, turned, out, nullptr, workspace})) return false;
    const auto turn = [&](Launcher& where, char* to) { turn_.Launch(where, right, to); };
    kept == nullptr ? turn(on, turned) : kept->Make(on, turn);
    return on.Launch(*library_, {left, turned, out, nullptr, workspace});
  }

  static constexpr int32_t kFilter = 1;  // the input, of the two that have one
  const Result result_;
  ProductPlan product_;
  std::unique_ptr<LibraryWork> library_;
  Moving turn_;
  std::unique_ptr<FilterKeeper> keeper_;  // where the library reads a filter
  Function widen_ = nullptr;  // of a filter that the library rounds, to float32
  int64_t filter_at_ = 0, library_at_ = 0, narrow_at_ = 0;
};

struct ConvolutionKernel {
  explicit ConvolutionKernel(sdk::CreateContext& c) : attributes(c, "") {}
  sdk::WindowAttributes attributes;
};

struct Conv2DKernel : ConvolutionKernel {
  using ConvolutionKernel::ConvolutionKernel;
  struct Plan {
    Plan(const Conv2DKernel& kernel, Shapes& s)
        : convolution({kernel.attributes, s.in(0), s.in(1), s.out(0), s.dtype(0)}, Convolution::Result::kForward, s) {}
    void Launch(Launcher& on, char* const* at) const { convolution.Launch(on, at[0], at[1], at[2]); }
    std::shared_ptr<Kept> Keep(const tenon_frame& frame) const { return convolution.Keep(frame); }
    ConvolutionPlan convolution;
  };
};

// (input_sizes, filter, out_backprop).
struct BackpropInputKernel : ConvolutionKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("input_sizes"), 0}};
  using ConvolutionKernel::ConvolutionKernel;
  struct Plan {
    Plan(const BackpropInputKernel& kernel, Shapes& s)
        : convolution({kernel.attributes, s.out(0), s.in(1), s.in(2), s.dtype(2)},
                      Convolution::Result::kGradientOfInput, s) {}
    void Launch(Launcher& on, char* const* at) const { convolution.Launch(on, at[2], at[1], at[3]); }
    std::shared_ptr<Kept> Keep(const tenon_frame& frame) const { return convolution.Keep(frame); }
    ConvolutionPlan convolution;
  };
};

// (input, filter_sizes, out_backprop).
struct BackpropFilterKernel : ConvolutionKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("filter_sizes"), 1}};
  using ConvolutionKernel::ConvolutionKernel;
  struct Plan {
    Plan(const BackpropFilterKernel& kernel, Shapes& s)
        : convolution({kernel.attributes, s.in(0), s.out(0), s.in(2), s.dtype(0), s.output(0).dtype != s.dtype(0)},
                      Convolution::Result::kGradientOfFilter, s) {}
    void Launch(Launcher& on, char* const* at) const { convolution.Launch(on, at[0], at[2], at[3]); }
    ConvolutionPlan convolution;
  };
};

using ConvTypes = Floats::And<int32_t>;
constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<ConvTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_GPU_KERNEL(Conv2D) = Kernel<Conv2DKernel>("Conv2D", kTraits);
TENON_GPU_KERNEL(Conv2DBackpropInput) = Kernel<BackpropInputKernel>("Conv2DBackpropInput", kTraits);
TENON_GPU_KERNEL(Conv2DBackpropFilter) = Kernel<BackpropFilterKernel>("Conv2DBackpropFilter", kTraits);
TENON_GPU_KERNEL(Conv2DBackpropFilterSums) = Kernel<BackpropFilterKernel>(
    "Tenon>Conv2DBackpropFilterSums",
    {.constraints = sdk::Constraints<Types<sdk::Half, sdk::Bfloat16>::Constraint<"T">>::list, .flags = kTraits.flags});

}  // namespace tenon::gpu
