// SPDX-License-Identifier: Apache-2.0
// Conv2D and its gradients, in float and double, as matrix products without a copy of patches.
//
// Forward: an image is copied once into a frame of zeros (not at all when no window reaches outside), and a patch is then
// a few contiguous runs of it, which MultiplyTile walks as segments. The gradient of the input is the same convolution of
// the output's gradient, spread by the strides, with the filter turned round. The gradient of the filter is a product
// whose sum runs over output pixels: segments are rows of pixels. Filters are [height, width, in / groups, out].
#include <cstring>

#include "kernels/gemm.h"
#include "kernels/window.h"

namespace tenon::cpu {
namespace {

using ConvTypes = Types<float, double>;

// A batch of images on its way into frames of zeros: pixel (y, x) goes to (y * spread + offset).
struct Framing {
  int64_t height, width, channels;           // of the source
  int64_t frame_height, frame_width;
  std::array<int64_t, 2> spread, offset;
  bool channels_first;
  int64_t frame_count() const { return sdk::Multiply(sdk::Multiply(frame_height, frame_width), channels); }
  bool plain() const {
    return !channels_first && frame_height == height && frame_width == width && spread[0] == 1 && spread[1] == 1 &&
           offset[0] == 0 && offset[1] == 0;
  }

  template <class T>
  void Place(const T* source, T* frame) const {
    for (int64_t y = 0; y < height; ++y) {
      const int64_t to_y = y * spread[0] + offset[0];
      if (to_y < 0 || to_y >= frame_height) continue;
      T* row = frame + to_y * frame_width * channels;
      if (!channels_first && spread[1] == 1) {
        const int64_t skip = std::max<int64_t>(0, -offset[1]);
        const int64_t end = std::min(width, frame_width - offset[1]);
        if (end > skip) {
          std::copy_n(source + (y * width + skip) * channels, (end - skip) * channels, row + (skip + offset[1]) * channels);
        }
        continue;
      }
      for (int64_t x = 0; x < width; ++x) {
        const int64_t to_x = x * spread[1] + offset[1];
        if (to_x < 0 || to_x >= frame_width) continue;
        const T* from = channels_first ? source + y * width + x : source + (y * width + x) * channels;
        const int64_t step = channels_first ? height * width : 1;
        for (int64_t c = 0; c < channels; ++c) row[to_x * channels + c] = from[c * step];
      }
    }
  }
};

// A convolution of framed images: what Conv2D and its input gradient share.
struct ConvPlan {
  Framing framing;
  int64_t batch = 0, out_height = 0, out_width = 0, out_channels = 0;
  int64_t step_y = 1, step_x = 1;      // windows' distance in the frame
  int64_t groups = 1, in_group = 0, out_group = 0;
  std::vector<int64_t> offsets;        // of a window's contiguous runs
  int64_t run_length = 0;
  int64_t b_stride = 0, b_group = 0;   // filter: distance of rows, and of groups
  int64_t column_block = 0;
  int64_t tasks = 1;
  int64_t frames_at = 0, planes_at = 0;  // workspace: one each per task
  int64_t frame_bytes = 0, plane_bytes = 0;
  bool out_channels_first = false;

  int64_t pixels() const { return out_height * out_width; }

  // Runs of a window in the frame; call with framing set.
  void SetWindow(int64_t height, int64_t width, int64_t dilation_y, int64_t dilation_x) {
    const int64_t row = framing.frame_width * framing.channels;
    const bool joined = groups == 1 && dilation_x == 1;
    run_length = joined ? width * framing.channels : in_group;
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < (joined ? 1 : width); ++x) {
        offsets.push_back(y * dilation_y * row + x * dilation_x * framing.channels);
      }
    }
  }
  void Reserve(sdk::PrepareContext& c, int64_t element) {
    tasks = std::max<int64_t>(1, std::min(c.threads(), batch));
    frame_bytes = framing.plain() ? 0 : (sdk::Multiply(framing.frame_count(), element) + 63) / 64 * 64;
    plane_bytes = out_channels_first ? (sdk::Multiply(pixels() * out_channels, element) + 63) / 64 * 64 : 0;
    frames_at = c.Workspace(sdk::Multiply(frame_bytes, tasks));
    planes_at = c.Workspace(sdk::Multiply(plane_bytes, tasks));
    const int64_t depth = std::max<int64_t>(1, run_length * static_cast<int64_t>(offsets.size()));
    const int64_t fits = (int64_t{256} << 10) / (depth * element);
    column_block = std::max<int64_t>(64, fits / 64 * 64);
  }
  double PixelCost() const {
    return GemmCost(static_cast<double>(run_length * static_cast<int64_t>(offsets.size())) *
                    static_cast<double>(out_channels));
  }
};

// Output pixels [begin, end) of one framed image.
template <class T>
void ConvPixels(const ConvPlan& p, const T* frame, const T* filter, T* out, int64_t begin, int64_t end) {
  const Segments walk{p.offsets.data(), static_cast<int64_t>(p.offsets.size()), p.run_length, 1};
  const int64_t row = p.framing.frame_width * p.framing.channels * p.step_y;
  const int64_t column = p.framing.channels * p.step_x;
  for (int64_t g = 0; g < p.groups; ++g) {
    for (int64_t j = 0; j < p.out_group; j += p.column_block) {
      const int64_t columns = std::min(p.column_block, p.out_group - j);
      int64_t y = begin / p.out_width, x = begin % p.out_width;
      for (int64_t i = begin; i < end; i += kTileRows) {
        const int count = static_cast<int>(std::min<int64_t>(kTileRows, end - i));
        const T* rows[kTileRows];
        for (int r = 0; r < count; ++r) {
          rows[r] = frame + y * row + x * column + g * p.in_group;
          if (++x == p.out_width) x = 0, ++y;
        }
        MultiplyTile<T>(rows, count, walk, filter + g * p.b_group + j, p.b_stride,
                        out + i * p.out_channels + g * p.out_group + j, p.out_channels, columns, false);
      }
    }
  }
}

template <class T>
void Convolve(sdk::RunContext c, const ConvPlan& p, const T* source, const T* filter, T* out) {
  const int64_t in_count = p.framing.height * p.framing.width * p.framing.channels;
  const int64_t out_count = p.pixels() * p.out_channels;
  if (p.batch == 0 || out_count == 0) return;
  const bool plain = p.framing.plain();
  const auto frame_of = [&](int64_t task) { return c.workspace<T>(p.frames_at + task * p.frame_bytes); };
  const auto plane_of = [&](int64_t task) { return c.workspace<T>(p.planes_at + task * p.plane_bytes); };
  const auto image = [&](int64_t n, int64_t task, auto&& pixels) {
    const T* frame = source + n * in_count;
    if (!plain) {
      p.framing.Place(frame, frame_of(task));
      frame = frame_of(task);
    }
    T* to = p.out_channels_first ? plane_of(task) : out + n * out_count;
    pixels(frame, to);
    if (p.out_channels_first) TransposePlane(to, p.pixels(), p.out_channels, out + n * out_count);
  };
  const auto clear = [&](int64_t task) {
    if (!plain) std::memset(frame_of(task), 0, static_cast<size_t>(p.frame_bytes));
  };
  if (p.batch >= p.tasks && p.tasks > 1) {
    c.ParallelFor(p.tasks, p.PixelCost() * static_cast<double>(p.pixels() * p.batch / p.tasks), [&](int64_t from, int64_t to) {
      for (int64_t task = from; task < to; ++task) {
        clear(task);
        for (int64_t n = p.batch * task / p.tasks; n < p.batch * (task + 1) / p.tasks; ++n) {
          image(n, task, [&](const T* frame, T* result) { ConvPixels(p, frame, filter, result, 0, p.pixels()); });
        }
      }
    });
    return;
  }
  clear(0);
  for (int64_t n = 0; n < p.batch; ++n) {
    image(n, 0, [&](const T* frame, T* result) {
      const int64_t tiles = (p.pixels() + kTileRows - 1) / kTileRows;
      c.ParallelFor(tiles, p.PixelCost() * kTileRows, [&](int64_t begin, int64_t end) {
        ConvPixels(p, frame, filter, result, begin * kTileRows, std::min(p.pixels(), end * kTileRows));
      });
    });
  }
}

struct Filter {
  explicit Filter(sdk::Dims dims, int64_t image_channels, int64_t out_channels) {
    if (dims.size() != 4) sdk::Fail(TENON_INVALID_ARGUMENT, "a filter needs 4 dims; the shape is ", dims);
    height = dims[0], width = dims[1], in = dims[2], out = dims[3];
    if (in <= 0 || height <= 0 || width <= 0 || image_channels % in != 0 || out % std::max<int64_t>(1, image_channels / in) != 0) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", dims, " does not fit images of ", image_channels, " channels");
    }
    if (out != out_channels) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a filter of shape ", dims, " does not fit results of ", out_channels, " channels");
    }
    groups = std::max<int64_t>(1, image_channels / in);
  }
  int64_t count() const { return height * width * in * out; }
  int64_t height, width, in, out, groups;
};

struct Conv2DKernel {
  explicit Conv2DKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : ConvPlan {
    Plan(const Conv2DKernel& kernel, sdk::PrepareContext& c) {
      const WindowAttributes& a = kernel.attributes;
      const Image in(sdk::DimsOf(c.input(0)), a.channels_first), result(sdk::DimsOf(c.output(0)), a.channels_first);
      const Filter filter(sdk::DimsOf(c.input(1)), in.channels, result.channels);
      const WindowDim y = a.Geometry(0, in.height, filter.height, result.height);
      const WindowDim x = a.Geometry(1, in.width, filter.width, result.width);
      batch = in.batch;
      out_height = result.height, out_width = result.width, out_channels = result.channels;
      out_channels_first = a.channels_first;
      step_y = y.stride, step_x = x.stride;
      groups = filter.groups, in_group = filter.in, out_group = filter.out / filter.groups;
      framing = {in.height, in.width, in.channels, Frame(y), Frame(x), {1, 1}, {y.before, x.before}, a.channels_first};
      SetWindow(filter.height, filter.width, y.dilation, x.dilation);
      b_stride = filter.out, b_group = out_group;
      Reserve(c, static_cast<int64_t>(sdk::ElementSize(c.input(0).dtype)));
    }
    // Cells that the windows reach, at least the image itself where it stays in place.
    static int64_t Frame(const WindowDim& w) {
      const int64_t reach = std::max<int64_t>(0, w.output - 1) * w.stride + (w.size - 1) * w.dilation + 1;
      return w.before == 0 && reach <= w.input ? w.input : reach;
    }
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    ConvTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) {
      Convolve<T>(c, plan, c.input<T>(0), c.input<T>(1), c.output<T>(0));
    });
  }
  WindowAttributes attributes;
};

// (input_sizes, filter, out_backprop).
struct BackpropInputKernel {
  explicit BackpropInputKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : ConvPlan {
    Plan(const BackpropInputKernel& kernel, sdk::PrepareContext& c) {
      const WindowAttributes& a = kernel.attributes;
      const Image dy(sdk::DimsOf(c.input(2)), a.channels_first), dx(sdk::DimsOf(c.output(0)), a.channels_first);
      const Filter filter(sdk::DimsOf(c.input(1)), dx.channels, dy.channels);
      const WindowDim y = a.Geometry(0, dx.height, filter.height, dy.height);
      const WindowDim x = a.Geometry(1, dx.width, filter.width, dy.width);
      if (dy.batch != dx.batch) sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", dy.batch, " and ", dx.batch, " images");
      batch = dx.batch;
      out_height = dx.height, out_width = dx.width, out_channels = dx.channels;
      out_channels_first = a.channels_first;
      groups = filter.groups, in_group = filter.out / filter.groups, out_group = filter.in;
      height = filter.height, width = filter.width;
      const int64_t more_y = (filter.height - 1) * y.dilation, more_x = (filter.width - 1) * x.dilation;
      framing = {dy.height, dy.width, dy.channels, dx.height + more_y, dx.width + more_x, {y.stride, x.stride},
                 {more_y - y.before, more_x - x.before}, a.channels_first};
      SetWindow(filter.height, filter.width, y.dilation, x.dilation);
      b_stride = filter.in, b_group = filter.height * filter.width * in_group * filter.in;
      const auto element = static_cast<int64_t>(sdk::ElementSize(c.input(2).dtype));
      turned_at = c.Workspace(sdk::Multiply(filter.count(), element));
      Reserve(c, element);
    }
    int64_t height, width, turned_at;
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    ConvTypes::Dispatch(c.input_view(2).dtype, [&]<class T>(Tag<T>) {
      T* turned = c.workspace<T>(plan.turned_at);
      Turn(plan, c.input<T>(1), turned);
      Convolve<T>(c, plan, c.input<T>(2), turned, c.output<T>(0));
    });
  }

 private:
  // [y, x, in, group, out] to [group, height-1-y, width-1-x, out, in].
  template <class T>
  static void Turn(const Plan& p, const T* filter, T* turned) {
    const int64_t in = p.out_group, out = p.in_group, taps = p.height * p.width;
    for (int64_t g = 0; g < p.groups; ++g) {
      for (int64_t t = 0; t < taps; ++t) {
        const T* from = filter + t * in * out * p.groups + g * out;
        T* to = turned + (g * taps + taps - 1 - t) * in * out;
        for (int64_t i = 0; i < in; ++i) {
          for (int64_t o = 0; o < out; ++o) to[o * in + i] = from[i * out * p.groups + o];
        }
      }
    }
  }
  WindowAttributes attributes;
};

// (input, filter_sizes, out_backprop).
struct BackpropFilterKernel {
  explicit BackpropFilterKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan {
    Plan(const BackpropFilterKernel& kernel, sdk::PrepareContext& c) {
      const WindowAttributes& a = kernel.attributes;
      const Image in(sdk::DimsOf(c.input(0)), a.channels_first), dy(sdk::DimsOf(c.input(2)), a.channels_first);
      const Filter filter(sdk::DimsOf(c.output(0)), in.channels, dy.channels);
      const WindowDim y = a.Geometry(0, in.height, filter.height, dy.height);
      const WindowDim x = a.Geometry(1, in.width, filter.width, dy.width);
      if (in.batch != dy.batch) sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", in.batch, " and ", dy.batch, " images");
      batch = in.batch, groups = filter.groups, in_group = filter.in, out_channels = filter.out;
      out_height = dy.height, out_width = dy.width, channels_first = a.channels_first;
      framing = {in.height, in.width, in.channels, Conv2DKernel::Plan::Frame(y), Conv2DKernel::Plan::Frame(x),
                 {1, 1}, {y.before, x.before}, a.channels_first};
      const int64_t row = framing.frame_width * framing.channels;
      for (int64_t i = 0; i < filter.height; ++i) {
        for (int64_t j = 0; j < filter.width; ++j) taps.push_back(i * y.dilation * row + j * x.dilation * framing.channels);
      }
      step = x.stride * framing.channels;
      // As many images at once as stay in the second-level cache.
      const auto element = static_cast<int64_t>(sdk::ElementSize(c.input(0).dtype));
      const int64_t one = sdk::Multiply(framing.frame_count() + dy.pixels() * dy.channels, element);
      chunk = std::clamp<int64_t>((int64_t{512} << 10) / std::max<int64_t>(1, one), 1, std::max<int64_t>(1, batch));
      for (int64_t n = 0; n < chunk; ++n) {
        for (int64_t i = 0; i < dy.height; ++i) offsets.push_back(n * framing.frame_count() + i * y.stride * row);
      }
      if (!framing.plain()) frames_at = c.Workspace(sdk::Multiply(chunk * framing.frame_count(), element));
      if (channels_first) planes_at = c.Workspace(sdk::Multiply(chunk * dy.pixels() * dy.channels, element));
    }
    Framing framing;
    int64_t batch, groups, in_group, out_channels, out_height, out_width, step, chunk, frames_at = 0, planes_at = 0;
    bool channels_first;
    std::vector<int64_t> taps;     // of the filter, in the frame
    std::vector<int64_t> offsets;  // of rows of windows, in the chunk's frames
  };
  void Run(const Plan& plan, sdk::RunContext c) const {
    ConvTypes::Dispatch(c.input_view(0).dtype, [&]<class T>(Tag<T>) { RunTyped<T>(plan, c); });
  }

 private:
  template <class T>
  static void RunTyped(const Plan& p, sdk::RunContext c) {
    const int64_t rows_total = static_cast<int64_t>(p.taps.size()) * p.in_group;
    T* out = c.output<T>(0);
    const int64_t pixels = p.out_height * p.out_width;
    if (p.batch == 0 || pixels == 0 || p.framing.channels == 0) {
      std::fill_n(out, rows_total * p.out_channels, T(0));
      return;
    }
    const bool plain = p.framing.plain();
    const int64_t in_count = p.framing.height * p.framing.width * p.framing.channels;
    const int64_t dy_count = pixels * p.out_channels;
    const int64_t frame_count = p.framing.frame_count();
    T* frames = plain ? nullptr : c.workspace<T>(p.frames_at);
    T* planes = p.channels_first ? c.workspace<T>(p.planes_at) : nullptr;
    if (!plain) std::memset(frames, 0, static_cast<size_t>(p.chunk * frame_count) * sizeof(T));
    for (int64_t n0 = 0; n0 < p.batch; n0 += p.chunk) {
      const int64_t images = std::min(p.chunk, p.batch - n0);
      const T* x = c.input<T>(0) + n0 * in_count;
      const T* dy = c.input<T>(2) + n0 * dy_count;
      if (!plain || planes != nullptr) {
        c.ParallelFor(images, static_cast<double>(in_count + dy_count) * 0.1, [&](int64_t begin, int64_t end) {
          for (int64_t n = begin; n < end; ++n) {
            if (!plain) p.framing.Place(x + n * in_count, frames + n * frame_count);
            if (planes != nullptr) TransposePlane(dy + n * dy_count, p.out_channels, pixels, planes + n * dy_count);
          }
        });
      }
      if (!plain) x = frames;
      if (planes != nullptr) dy = planes;
      Accumulate(p, c, x, dy, out, images, n0 > 0);
    }
  }

  template <class T>
  static void Accumulate(const Plan& p, sdk::RunContext c, const T* x, const T* dy, T* out, int64_t images, bool more) {
    const int64_t rows_total = static_cast<int64_t>(p.taps.size()) * p.in_group;
    const int64_t out_group = p.out_channels / p.groups;
    const int64_t tiles = (rows_total + kTileRows - 1) / kTileRows;
    const Segments walk{p.offsets.data(), images * p.out_height, p.out_width, p.step};
    const double cost = GemmCost(static_cast<double>(images * p.out_height * p.out_width * kTileRows) *
                                 static_cast<double>(out_group));
    c.ParallelFor(tiles * p.groups, cost, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) {
        const int64_t g = tile / tiles, first = tile % tiles * kTileRows;
        const int count = static_cast<int>(std::min<int64_t>(kTileRows, rows_total - first));
        const T* rows[kTileRows];
        for (int r = 0; r < count; ++r) {
          const int64_t row = first + r;
          rows[r] = x + p.taps[static_cast<size_t>(row / p.in_group)] + g * p.in_group + row % p.in_group;
        }
        MultiplyTile<T>(rows, count, walk, dy + g * out_group, p.out_channels,
                        out + first * p.out_channels + g * out_group, p.out_channels, out_group, more);
      }
    });
  }
  WindowAttributes attributes;
};

constexpr sdk::Traits kTraits = {.constraints = sdk::Constraints<ConvTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(Conv2D) = CpuKernel<Conv2DKernel>("Conv2D", kTraits);
TENON_CPU_KERNEL(Conv2DBackpropInput) = CpuKernel<BackpropInputKernel>("Conv2DBackpropInput", kTraits);
TENON_CPU_KERNEL(Conv2DBackpropFilter) = CpuKernel<BackpropFilterKernel>("Conv2DBackpropFilter", kTraits);

}  // namespace tenon::cpu
