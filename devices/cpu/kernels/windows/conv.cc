// SPDX-License-Identifier: Apache-2.0
// Conv2D, Conv3D and their gradients, in float and double, as matrix products of patches (im2col) by Eigen.
//
// A patch is what one window sees: `patch` = depth * height * width * in_group elements, in the filter's order. Patches
// of a block of pixels are copied into the workspace as rows [pixels, patch], or, where channels are the slower index,
// as columns [patch, pixels]; 1 x 1 windows read the image where it is. Then
//   forward:             y      = patches filter
//   gradient of filter:  filter = patches^T y, summed over blocks in their order
//   gradient of input:   patches = y filter^T, which are added to where they came from, in the order of the pixels.
// Blocks, and what is shared among threads, do not change a sum (product.h). Filters are [height, width, in_group,
// out], those of Conv3D with the depth before; images have the depth 1.
#include <cstring>
#include <optional>

#include "kernels/products/product.h"
#include "kernels/windows/conv_direct.h"
#include "kernels/windows/window.h"

namespace tenon::cpu {
namespace {

using sdk::Filter;

using ConvTypes = Types<float, double>;

// Bytes of patches in one block: about half of a second-level cache.
constexpr int64_t kBlockBytes = int64_t{512} << 10;

struct Convolution {
  template <size_t kDirections>
  Convolution(const sdk::WindowAttributesOf<kDirections>& a, sdk::Dims in, sdk::Dims filter_dims, sdk::Dims out)
      : x(in, a.channels_first, kDirections + 2), y(out, a.channels_first, kDirections + 2),
        filter(filter_dims, x.channels, y.channels, kDirections + 2),
        rows(a.Geometry(kDirections - 2, x.height, filter.height, y.height)),
        columns(a.Geometry(kDirections - 1, x.width, filter.width, y.width)), channels_first(a.channels_first) {
    if constexpr (kDirections == 3) planes = a.Geometry(0, x.depth, filter.depth, y.depth);
    if (x.batch != y.batch) sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", x.batch, " and ", y.batch, " images");
    out_group = filter.out / filter.groups;
    patch = sdk::Multiply(filter.taps(), filter.in);
    const auto copies = [](const WindowDim& w) {
      return w.size != 1 || w.stride != 1 || w.before != 0 || w.input != w.output;
    };
    direct = !copies(planes) && !copies(rows) && !copies(columns);
    as_columns = channels_first || x.channels == 1;
  }
  // Of floats, as conv_direct.h has it.
  template <class T>
  std::optional<DirectShape> Direct() const {
    const bool image = filter.depth == 1 && x.depth == 1 && y.depth == 1 && planes.before == 0;
    if (!std::is_same_v<T, float> || channels_first || filter.groups != 1 || !image) return std::nullopt;
    return DirectShape{x, y, rows, columns};
  }
  // Pixels of a block: whole tiles.
  int64_t BlockPixels(int64_t element) const {
    const int64_t fits = kBlockBytes / std::max<int64_t>(1, patch * element);
    return std::clamp<int64_t>(fits / kColumnUnit, 2, 64) * kColumnUnit;
  }
  double Work() const { return static_cast<double>(y.count()) * static_cast<double>(patch); }

  // Where pixels [p, ...) of all images, and a group's channels, stand in x and y.
  int64_t InputAt(int64_t p, int64_t group) const {
    return channels_first ? (p / x.pixels() * x.channels + group * filter.in) * x.pixels() + p % x.pixels()
                          : p * x.channels + group * filter.in;
  }
  int64_t OutputAt(int64_t p, int64_t group) const {
    return channels_first ? (p / y.pixels() * y.channels + group * out_group) * y.pixels() + p % y.pixels()
                          : p * y.channels + group * out_group;
  }
  // Whether the gradient of the input is computed with patches as columns.
  bool transposed() const { return channels_first || (as_columns && !direct); }
  // Strides of patches (or of x, where it is read in place) and of y over (pixel, element) in a block of so many
  // pixels.
  std::array<int64_t, 2> PatchStrides(int64_t pixels) const {
    if (direct) return channels_first ? std::array<int64_t, 2>{1, x.pixels()} : std::array<int64_t, 2>{x.channels, 1};
    return as_columns ? std::array<int64_t, 2>{1, pixels} : std::array<int64_t, 2>{patch, 1};
  }
  std::array<int64_t, 2> OutputStrides() const {
    return channels_first ? std::array<int64_t, 2>{1, y.pixels()} : std::array<int64_t, 2>{y.channels, 1};
  }

  // function(cell, at, count, step) for runs of the patches of pixels [begin, end): elements at, at + 1, ... of the
  // block are x[cell], x[cell + step], ..., or padding where cell is -1.
  template <class Function>
  void Walk(int64_t begin, int64_t end, int64_t group, Function&& function) const {
    if (as_columns) return WalkColumns(begin, end, group, function);
    x.depth == 1 && filter.depth == 1 ? WalkRows<false>(begin, end, group, function)
                                      : WalkRows<true>(begin, end, group, function);
  }

  Image x, y;
  Filter filter;
  WindowDim planes{1, 1, 1, 1, 1, 0}, rows, columns;
  bool channels_first, direct, as_columns;
  int64_t out_group, patch;

 private:
  // kDeep: of volumes. Of images there is nothing to ask about planes.
  template <bool kDeep, class Function>
  void WalkRows(int64_t begin, int64_t end, int64_t group, Function&& function) const {
    // Cells of a window's row are neighbours, so that one run has them all.
    const bool joined = filter.groups == 1 && columns.dilation == 1;
    const int64_t cells = joined ? filter.width : 1, steps = joined ? 1 : filter.width;
    Pixel o = At(begin);
    int64_t at = 0;
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t kz = 0; kz < (kDeep ? filter.depth : 1); ++kz) {
        const int64_t iz = kDeep ? o.z * planes.stride + kz * planes.dilation - planes.before : 0;
        const bool within = !kDeep || (iz >= 0 && iz < x.depth);
        for (int64_t ky = 0; ky < filter.height; ++ky) {
          const int64_t iy = o.y * rows.stride + ky * rows.dilation - rows.before;
          const bool inside = within && iy >= 0 && iy < x.height;
          for (int64_t kx = 0; kx < steps; ++kx) {
            const int64_t ix = o.x * columns.stride + kx * columns.dilation - columns.before;
            const int64_t left = inside ? std::clamp<int64_t>(-ix, 0, cells) : cells;
            const int64_t right = std::clamp<int64_t>(x.width - ix, left, cells);
            if (left > 0) function(int64_t{-1}, at, left * filter.in, int64_t{1});
            if (right > left) {
              function((((kDeep ? o.n * x.depth + iz : o.n) * x.height + iy) * x.width + ix + left) * x.channels +
                           group * filter.in,
                       at + left * filter.in, (right - left) * filter.in, int64_t{1});
            }
            if (right < cells) function(int64_t{-1}, at + right * filter.in, (cells - right) * filter.in, int64_t{1});
            at += cells * filter.in;
          }
        }
      }
      if (++o.x == y.width) NextRow(o);
    }
  }

  template <class Function>
  void WalkColumns(int64_t begin, int64_t end, int64_t group, Function&& function) const {
    const int64_t channel_step = channels_first ? x.pixels() : 1, cell_step = channels_first ? 1 : x.channels;
    int64_t at = 0;
    for (int64_t tap = 0; tap < filter.taps(); ++tap) {
      const int64_t in_plane = tap % (filter.height * filter.width);
      const int64_t deep = tap / (filter.height * filter.width) * planes.dilation - planes.before;
      const int64_t down = in_plane / filter.width * rows.dilation - rows.before;
      const int64_t along = in_plane % filter.width * columns.dilation - columns.before;
      for (int64_t k = 0; k < filter.in; ++k) {
        const int64_t channel = (group * filter.in + k) * channel_step;
        Pixel o = At(begin);
        for (int64_t p = begin; p < end;) {
          const int64_t count = std::min(y.width - o.x, end - p);
          const int64_t iz = o.z * planes.stride + deep, iy = o.y * rows.stride + down,
                        ix = o.x * columns.stride + along;
          const bool inside = iz >= 0 && iz < x.depth && iy >= 0 && iy < x.height;
          const int64_t left =
              inside ? std::clamp<int64_t>((-ix + columns.stride - 1) / columns.stride, 0, count) : count;
          const int64_t right =
              ix >= x.width ? left : std::clamp<int64_t>((x.width - ix - 1) / columns.stride + 1, left, count);
          if (left > 0) function(int64_t{-1}, at, left, int64_t{1});
          if (right > left) {
            function(o.n * x.pixels() * x.channels + channel +
                         ((iz * x.height + iy) * x.width + ix + left * columns.stride) * cell_step,
                     at + left, right - left, columns.stride * cell_step);
          }
          if (right < count) function(int64_t{-1}, at + right, count - right, int64_t{1});
          at += count;
          p += count;
          NextRow(o);
        }
      }
    }
  }

  // Where pixel p of all of y is: image, plane, row and column.
  struct Pixel {
    int64_t n, z, y, x;
  };
  Pixel At(int64_t p) const {
    const int64_t plane = y.height * y.width;
    return {p / y.pixels(), p % y.pixels() / plane, p % plane / y.width, p % y.width};
  }
  void NextRow(Pixel& o) const {
    o.x = 0;
    if (++o.y < y.height) return;
    o.y = 0;
    if (++o.z < y.depth) return;
    o.z = 0;
    ++o.n;
  }
};

// Runs are short, so that a call of memcpy would cost more than the copy: pieces of fixed size, the last two may
// overlap.
template <class T>
void CopyRun(const T* from, T* to, int64_t count) {
  constexpr int64_t kLong = 8, kShort = 4;
  if (count >= kLong) {
    for (int64_t i = 0; i < count - kLong; i += kLong) std::memcpy(to + i, from + i, kLong * sizeof(T));
    std::memcpy(to + count - kLong, from + count - kLong, kLong * sizeof(T));
  } else if (count >= kShort) {
    std::memcpy(to, from, kShort * sizeof(T));
    std::memcpy(to + count - kShort, from + count - kShort, kShort * sizeof(T));
  } else {
    to[0] = from[0];
    if (count > 1) to[1] = from[1];
    if (count > 2) to[2] = from[2];
  }
}

template <class T>
void CopyPatches(const Convolution& v, int64_t begin, int64_t end, int64_t group, const T* x, T* patches) {
  v.Walk(begin, end, group, [&](int64_t cell, int64_t at, int64_t count, int64_t step) {
    T* to = patches + at;
    if (cell < 0) {
      for (int64_t i = 0; i < count; ++i) to[i] = T(0);
    } else if (step == 1) {
      CopyRun(x + cell, to, count);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = x[cell + i * step];
    }
  });
}
template <class T>
void AddPatches(const Convolution& v, int64_t begin, int64_t end, int64_t group, const T* patches, T* x) {
  v.Walk(begin, end, group, [&](int64_t cell, int64_t at, int64_t count, int64_t step) {
    if (cell < 0) return;
    const T* from = patches + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < count; ++i) x[cell + i * step] += from[i];
  });
}

// Blocks of pixels: of all images one after the other where they lie like that, else each within an image.
struct ConvBlocks {
  ConvBlocks() = default;
  ConvBlocks(const Convolution& v, int64_t size) : size(size) {
    whole = v.channels_first ? v.y.pixels() : v.y.batch * v.y.pixels();
    each = (whole + size - 1) / size;
    count = v.channels_first ? v.y.batch * each : each;
  }
  std::pair<int64_t, int64_t> At(int64_t i) const {
    const int64_t first = i / each * whole;
    return {first + i % each * size, first + std::min(whole, (i % each + 1) * size)};
  }
  int64_t size = 1, whole = 0, each = 0, count = 0;
};

// Product shapes of a block of so many pixels. Rows of the result are those of y, of the filter and of patches; where
// channels are the slower index, y and patches are computed transposed.
ProductShape ForwardShape(const Convolution& v, int64_t pixels) {
  const auto [pixel, element] = v.PatchStrides(pixels);
  if (v.channels_first) return {v.out_group, pixels, v.patch, 1, v.filter.out, element, pixel, v.y.pixels()};
  return {pixels, v.out_group, v.patch, pixel, element, v.filter.out, 1, v.y.channels};
}
ProductShape FilterShape(const Convolution& v, int64_t pixels) {
  const auto [pixel, element] = v.PatchStrides(pixels);
  const auto [y_pixel, y_channel] = v.OutputStrides();
  return {v.patch, v.out_group, pixels, element, pixel, y_pixel, y_channel, v.filter.out};
}
ProductShape InputShape(const Convolution& v, int64_t pixels) {
  const auto [pixel, element] = v.PatchStrides(pixels);
  const auto [y_pixel, y_channel] = v.OutputStrides();
  if (v.transposed()) return {v.patch, pixels, v.out_group, v.filter.out, 1, y_channel, y_pixel, element};
  return {pixels, v.patch, v.out_group, y_pixel, y_channel, 1, v.filter.out, pixel};
}

int64_t PatchBytes(const Convolution& v, int64_t pixels, int64_t element) {
  return v.direct ? 0 : (sdk::Multiply(sdk::Multiply(pixels, v.patch), element) + 63) / 64 * 64;
}

// The work of a kernel: the plan, and function(plan, context), which runs it.
struct Forward {
  using Plan = Forward;
  Forward(const Convolution& convolution, sdk::PrepareContext& c) : v(convolution) {
    ConvTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
      if (const auto shape = v.Direct<T>()) direct = DirectForward::Make(*shape, c);
      if (direct) {
        function = [](const Plan& p, sdk::RunContext run) {
          p.direct->Run(run, run.input<float>(0), run.input<float>(1), run.output<float>(0));
        };
        return;
      }
      cost = ProductCost<T>(v.Work()) + 0.2 * static_cast<double>(v.y.batch * v.y.pixels() * v.patch);
      // Enough blocks for all threads, where the work is worth it.
      const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(std::min(cost / 20e3, 1e6)), 1, c.threads());
      int64_t size = v.BlockPixels(sizeof(T));
      while (size > kColumnUnit && ConvBlocks(v, size).count < wanted)
        size = (size / 2 + kColumnUnit - 1) / kColumnUnit * kColumnUnit;
      blocks = ConvBlocks(v, size);
      tasks = std::max<int64_t>(1, std::min(wanted, blocks.count));
      const int64_t pixels = std::min(size, blocks.whole);
      product = PlanProduct<T>(ForwardShape(v, pixels));
      patch_bytes = PatchBytes(v, pixels, sizeof(T));
      c.Workspace(sdk::Multiply(product.bytes + patch_bytes, tasks));
      function = &Typed<T>;
    });
  }
  Convolution v;
  std::optional<DirectForward> direct;
  ConvBlocks blocks;
  ProductPlan product;
  int64_t tasks = 1, patch_bytes = 0;
  double cost = 0;
  void (*function)(const Plan&, sdk::RunContext) = nullptr;

 private:
  template <class T>
  static void Typed(const Plan& p, sdk::RunContext c) {
    c.ParallelFor(p.tasks, p.cost / static_cast<double>(p.tasks), [&](int64_t task, int64_t end) {
      for (; task < end; ++task) {
        char* memory = c.workspace<char>(task * (p.product.bytes + p.patch_bytes));
        for (int64_t i = p.blocks.count * task / p.tasks; i < p.blocks.count * (task + 1) / p.tasks; ++i) {
          Block<T>(p, c, i, reinterpret_cast<T*>(memory), memory + p.patch_bytes);
        }
      }
    });
  }
  template <class T>
  static void Block(const Plan& p, sdk::RunContext c, int64_t i, T* patches, void* memory) {
    c.CheckCancelled();
    const Convolution& v = p.v;
    const auto [begin, end] = p.blocks.At(i);
    ProductPlan product = p.product;
    product.shape = ForwardShape(v, end - begin);
    for (int64_t g = 0; g < v.filter.groups; ++g) {
      if (!v.direct) CopyPatches(v, begin, end, g, c.input<T>(0), patches);
      const T* left = v.direct ? c.input<T>(0) + v.InputAt(begin, g) : patches;
      const T* right = c.input<T>(1) + g * v.out_group;
      if (v.channels_first) std::swap(left, right);
      Multiply(product, left, right, c.output<T>(0) + v.OutputAt(begin, g), false, memory);
    }
  }
};

// (input_sizes, filter, out_backprop). Blocks whose patches overlap belong to one chunk, which one thread works on; a
// single chunk shares its products instead.
struct BackpropInput {
  using Plan = BackpropInput;
  BackpropInput(const Convolution& convolution, sdk::PrepareContext& c) : v(convolution) {
    ConvTypes::Dispatch(c.input(2).dtype, [&]<class T>(Tag<T>) {
      if (const auto shape = v.Direct<T>()) direct = DirectInputGradient::Make(*shape, c);
      if (direct) {
        function = [](const Plan& p, sdk::RunContext run) {
          p.direct->Run(run, run.input<float>(2), run.input<float>(1), run.output<float>(0));
        };
        return;
      }
      size = v.BlockPixels(sizeof(T));
      images = v.channels_first
                   ? 1
                   : std::clamp<int64_t>(size / std::max<int64_t>(1, v.y.pixels()), 1, std::max<int64_t>(1, v.y.batch));
      size = std::min(size, images * v.y.pixels());
      chunks = (v.y.batch + images - 1) / images;
      cost = ProductCost<T>(v.Work()) + 0.4 * static_cast<double>(v.y.batch * v.y.pixels() * v.patch);
      patch_bytes = PatchBytes(v, size, sizeof(T));
      if (chunks > 1) {
        tasks = std::min(c.threads(), chunks);
        product = PlanProduct<T>(InputShape(v, size));
        c.Workspace(sdk::Multiply(product.bytes + patch_bytes, tasks));
      } else {
        c.Workspace(patch_bytes);
        shared = SharedProduct::Make<T>(c, InputShape(v, size));
      }
      function = &Typed<T>;
    });
  }
  Convolution v;
  std::optional<DirectInputGradient> direct;
  int64_t size = 1, images = 1, chunks = 1, tasks = 1, patch_bytes = 0;
  ProductPlan product;
  SharedProduct shared;
  double cost = 0;
  void (*function)(const Plan&, sdk::RunContext) = nullptr;

 private:
  template <class T>
  static void Typed(const Plan& p, sdk::RunContext c) {
    if (p.chunks <= 1) {
      Chunk<T>(p, c, 0, c.workspace<T>(), [&](const ProductShape& shape, const T* a, const T* b, T* out) {
        p.shared.Run(c, shape, a, b, out, false);
      });
      return;
    }
    c.ParallelFor(p.tasks, p.cost / static_cast<double>(p.tasks), [&](int64_t task, int64_t end) {
      for (; task < end; ++task) {
        char* memory = c.workspace<char>(task * (p.product.bytes + p.patch_bytes));
        for (int64_t i = p.chunks * task / p.tasks; i < p.chunks * (task + 1) / p.tasks; ++i) {
          Chunk<T>(p, c, i, reinterpret_cast<T*>(memory),
                   [&](const ProductShape& shape, const T* a, const T* b, T* out) {
                     ProductPlan product = p.product;
                     product.shape = shape;
                     Multiply(product, a, b, out, false, memory + p.patch_bytes);
                   });
        }
      }
    });
  }
  template <class T, class Product>
  static void Chunk(const Plan& p, sdk::RunContext c, int64_t chunk, T* patches, Product&& multiply) {
    const Convolution& v = p.v;
    T* dx = c.output<T>(0);
    const int64_t n = chunk * p.images, images = std::min(p.images, v.y.batch - n);
    const int64_t image = v.x.pixels() * v.x.channels, to = (n + images) * v.y.pixels();
    if (images <= 0) return;
    if (!v.direct) std::fill_n(dx + n * image, images * image, T(0));
    for (int64_t begin = n * v.y.pixels(); begin < to; begin += p.size) {
      c.CheckCancelled();
      const int64_t end = std::min(to, begin + p.size);
      const ProductShape shape = InputShape(v, end - begin);
      for (int64_t g = 0; g < v.filter.groups; ++g) {
        T* out = v.direct ? dx + v.InputAt(begin, g) : patches;
        const T* left = c.input<T>(2) + v.OutputAt(begin, g);
        const T* right = c.input<T>(1) + g * v.out_group;
        if (v.transposed()) std::swap(left, right);
        multiply(shape, left, right, out);
        if (!v.direct) AddPatches(v, begin, end, g, patches, dx);
      }
    }
  }
};

// (input, filter_sizes, out_backprop). Blocks one after the other; each shares its copies and its product.
struct BackpropFilter {
  using Plan = BackpropFilter;
  BackpropFilter(const Convolution& convolution, sdk::PrepareContext& c) : v(convolution) {
    ConvTypes::Dispatch(c.input(0).dtype, [&]<class T>(Tag<T>) {
      if (const auto shape = v.Direct<T>()) direct = DirectFilterGradient::Make(*shape, c);
      if (direct) {
        function = [](const Plan& p, sdk::RunContext run) {
          p.direct->Run(run, run.input<float>(0), run.input<float>(2), run.output<float>(0));
        };
        return;
      }
      blocks = ConvBlocks(v, v.BlockPixels(sizeof(T)));
      const int64_t pixels = std::min(blocks.size, blocks.whole);
      c.Workspace(PatchBytes(v, pixels, sizeof(T)));
      product = SharedProduct::Make<T>(c, FilterShape(v, pixels));
      function = &Typed<T>;
    });
  }
  Convolution v;
  std::optional<DirectFilterGradient> direct;
  ConvBlocks blocks;
  SharedProduct product;
  void (*function)(const Plan&, sdk::RunContext) = nullptr;

 private:
  template <class T>
  static void Typed(const Plan& p, sdk::RunContext c) {
    const Convolution& v = p.v;
    T* out = c.output<T>(0);
    T* patches = c.workspace<T>();
    if (p.blocks.count == 0) std::fill_n(out, v.filter.count(), T(0));
    for (int64_t i = 0; i < p.blocks.count; ++i) {
      c.CheckCancelled();
      const auto [begin, end] = p.blocks.At(i);
      const ProductShape shape = FilterShape(v, end - begin);
      for (int64_t g = 0; g < v.filter.groups; ++g) {
        if (!v.direct) Copy(v, c, begin, end, g, patches);
        p.product.Run(c, shape, v.direct ? c.input<T>(0) + v.InputAt(begin, g) : patches,
                      c.input<T>(2) + v.OutputAt(begin, g), out + g * v.out_group, i > 0);
      }
    }
  }
  template <class T>
  static void Copy(const Convolution& v, sdk::RunContext c, int64_t begin, int64_t end, int64_t g, T* patches) {
    const T* x = c.input<T>(0);
    if (v.as_columns) return CopyPatches(v, begin, end, g, x, patches);
    c.ParallelFor(end - begin, static_cast<double>(v.patch) * 0.2, [&](int64_t from, int64_t to) {
      CopyPatches(v, begin + from, begin + to, g, x, patches + from * v.patch);
    });
  }
};

// Input, filter and result are these inputs of the node; -1 is its output.
template <class Work, class Attributes, int32_t kInput, int32_t kFilter, int32_t kResult>
struct ConvKernel {
  explicit ConvKernel(sdk::CreateContext& c) : attributes(c, "") {}
  struct Plan : Work {
    Plan(const ConvKernel& kernel, sdk::PrepareContext& c)
        : Work(Convolution(kernel.attributes, DimsOf(c, kInput), DimsOf(c, kFilter), DimsOf(c, kResult)), c) {}
  };
  void Run(const Plan& plan, sdk::RunContext c) const { plan.function(plan, c); }

 private:
  static sdk::Dims DimsOf(sdk::PrepareContext& c, int32_t input) {
    return sdk::DimsOf(input < 0 ? c.output(0) : c.input(input));
  }
  Attributes attributes;
};
template <class Attributes>
using ForwardKernel = ConvKernel<Forward, Attributes, 0, 1, -1>;
template <class Attributes>
using BackpropInputKernel = ConvKernel<BackpropInput, Attributes, -1, 1, 2>;
template <class Attributes>
using BackpropFilterKernel = ConvKernel<BackpropFilter, Attributes, 0, -1, 2>;

constexpr sdk::Traits kConvTraits = {.constraints = sdk::Constraints<ConvTypes::Constraint<"T">>::list,
                                 .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_EXPENSIVE};

}  // namespace

TENON_CPU_KERNEL(Conv2D) = CpuKernel<ForwardKernel<WindowAttributes>>("Conv2D", kConvTraits);
TENON_CPU_KERNEL(Conv2DBackpropInput) = CpuKernel<BackpropInputKernel<WindowAttributes>>("Conv2DBackpropInput",
                                                                                         kConvTraits);
TENON_CPU_KERNEL(Conv2DBackpropFilter) = CpuKernel<BackpropFilterKernel<WindowAttributes>>("Conv2DBackpropFilter",
                                                                                           kConvTraits);
TENON_CPU_KERNEL(Conv3D) = CpuKernel<ForwardKernel<VolumeAttributes>>("Conv3D", kConvTraits);
TENON_CPU_KERNEL(Conv3DBackpropInputV2) = CpuKernel<BackpropInputKernel<VolumeAttributes>>("Conv3DBackpropInputV2",
                                                                                           kConvTraits);
TENON_CPU_KERNEL(Conv3DBackpropFilterV2) = CpuKernel<BackpropFilterKernel<VolumeAttributes>>("Conv3DBackpropFilterV2",
                                                                                             kConvTraits);

}  // namespace tenon::cpu
