// SPDX-License-Identifier: Apache-2.0
// SpaceToBatchND, BatchToSpaceND, ReverseSequence; ResizeBilinear, ResizeNearestNeighbor and their gradients, NHWC.
#include "code/image.h"

#include <vector>

#include "kernels/move.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

int64_t BytesOf(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }

// ---- Blocks ----

template <bool kToBatch>
struct BatchHostInputs {
  static constexpr HostInput list[] = {{TENON_SPAN("block_shape"), 1}, {TENON_SPAN("paddings"), 2}};
};
template <>
struct BatchHostInputs<false> {
  static constexpr HostInput list[] = {{TENON_SPAN("block_shape"), 1}, {TENON_SPAN("crops"), 2}};
};

template <bool kToBatch>
struct BatchKernel {
  static constexpr auto& kHostInputs = BatchHostInputs<kToBatch>::list;
  struct Plan {
    Plan(const BatchKernel&, Shapes& s) {
      const int64_t count = sdk::Count(s.in(1));
      const Dims image = kToBatch ? s.in(0) : s.out(0), apart = kToBatch ? s.out(0) : s.in(0);
      const Dims from = s.in(0), to = s.out(0);
      if (static_cast<int64_t>(image.size()) <= count) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a tensor of shape ", image, " has no ", count, " dims after the batch");
      }
      int64_t places = 1;
      for (int64_t i = 0; i < count; ++i) places = sdk::Multiply(places, Block(s, i));
      if (sdk::Multiply(image[0], places) != apart[0]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "batches of ", image[0], " and ", apart[0], " do not go with ", places,
                  " places");
      }
      for (int64_t i = 0; i < count; ++i)
        Add(s, i, image[static_cast<size_t>(i + 1)], apart[static_cast<size_t>(i + 1)]);
      const auto spatial = static_cast<size_t>(count);
      params.images = DimOf(image[0]);
      params.spatial = DimOf(sdk::Count(to.subspan(1, spatial)));
      images = to[0];
      pixel = sdk::Multiply(sdk::Count(to.subspan(spatial + 1)), BytesOf(s.output(0).dtype));
      if (sdk::Multiply(sdk::Count(from.subspan(spatial + 1)), BytesOf(s.output(0).dtype)) != pixel) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the shapes ", from, " and ", to, " differ behind the blocks");
      }
      code = UnitCode(kToBatch ? "ToBatch" : "FromBatch", UnitCode::Dividing(pixel), s);
    }
    static int64_t Block(const Shapes& s, int64_t i) {
      const int64_t block = s.Integer(1, i);
      if (block < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "block_shape[", i, "] = ", block, " is not positive");
      return block;
    }
    // A dim of the image and of the batches.
    void Add(const Shapes& s, int64_t i, int64_t image, int64_t apart) {
      const int64_t block = Block(s, i), before = s.Integer(2, 2 * i), after = s.Integer(2, 2 * i + 1);
      if (before < 0 || after < 0 || image + before + after != apart * block) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "dims ", image, " and ", apart, " do not go with blocks of ", block, " and ",
                  before, " and ", after, " at the ends");
      }
      if (params.rank == kMostBlockDims)
        sdk::Fail(TENON_UNIMPLEMENTED, "GPUs have blocks of up to ", kMostBlockDims, " dims");
      const int32_t at = params.rank++;
      params.dims[at] = DimOf(kToBatch ? apart : image);
      params.blocks[at] = DimOf(block);
      params.before[at] = before;
      params.sizes[at] = kToBatch ? image : apart;
    }
    void Launch(Launcher& on, char* const* at) const {
      const int64_t unit = code.For(at[0], at[3]);
      BlocksParams p = params;
      p.source = at[0];
      p.target = at[3];
      p.inner = DimOf(pixel / unit);
      p.total = images * p.spatial.size * p.inner.size;
      on(code[unit], Flat(p.total, kMoveItems), p);
    }
    BlocksParams params = {};
    int64_t images, pixel;  // that are written; bytes
    UnitCode code;
  };
};

struct ReverseSequenceKernel {
  explicit ReverseSequenceKernel(sdk::CreateContext& c) : sequence(c.Int("seq_dim")), batch(c.Int("batch_dim")) {}
  struct Plan {
    Plan(const ReverseSequenceKernel& kernel, Shapes& s)
        : dims(s.in(0).begin(), s.in(0).end()),
          site(s.Site(TENON_INVALID_ARGUMENT, "seq_lengths[{0}] = {1} is not in [0, {2}]")) {
      const auto rank = static_cast<int64_t>(dims.size());
      if (kernel.sequence < 0 || kernel.sequence >= rank || kernel.batch < 0 || kernel.batch >= rank ||
          kernel.sequence == kernel.batch) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "batch_dim ", kernel.batch, " and seq_dim ", kernel.sequence,
                  " must be two dims of shape ", Dims(dims));
      }
      sequence = static_cast<size_t>(kernel.sequence);
      batch = static_cast<size_t>(kernel.batch);
      if (sdk::Count(s.in(1)) != dims[batch]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Length of seq_lengths != input.dims(", kernel.batch, "), (",
                  sdk::Count(s.in(1)), " vs. ", dims[batch], ")");
      }
      kind = KindOf(s.dtype(1));
      bytes = sdk::Multiply(sdk::Count(s.in(0)), BytesOf(s.dtype(0)));
      element = BytesOf(s.dtype(0));
      const int64_t inner = sdk::Multiply(After(std::max(sequence, batch)), element);
      code = UnitCode("ReverseSequence", UnitCode::Dividing(inner), s);
    }
    // Elements behind a dim.
    int64_t After(size_t dim) const { return sdk::Count(Dims(dims).subspan(dim + 1)); }
    void Launch(Launcher& on, char* const* at) const {
      const int64_t unit = code.For(at[0], at[2]);
      const auto units = [&](size_t dim) { return DimOf(After(dim) * element / unit); };
      const ReverseParams p = {at[0],           at[2],
                               {at[1], kind},   bytes / unit,
                               units(sequence), DimOf(dims[sequence]),
                               units(batch),    DimOf(dims[batch]),
                               on.Site(site)};
      on(code[unit], Flat(p.total), p);
    }
    std::vector<int64_t> dims;
    size_t sequence = 0, batch = 0;
    IndexKind kind;
    int64_t bytes, element;
    UnitCode code;
    uint64_t site;
  };
  int64_t sequence, batch;
};

// ---- Sizes ----

struct Sampling {
  explicit Sampling(sdk::CreateContext& c)
      : align_corners(c.Bool("align_corners")), half_pixel_centers(c.Bool("half_pixel_centers")) {
    if (align_corners && half_pixel_centers) c.Invalid("If half_pixel_centers is True, align_corners must be False.");
  }
  // Original pixels a resized one.
  float Scale(int64_t original, int64_t resized) const {
    return align_corners && resized > 1 ? static_cast<float>(original - 1) / static_cast<float>(resized - 1)
                                        : static_cast<float>(original) / static_cast<float>(resized);
  }
  bool align_corners, half_pixel_centers;
};

// kGradient: what is read is the gradient of resized images.
template <bool kGradient>
ResizeParams ParamsOf(const Sampling& sampling, const Shapes& s, bool needs_pixels) {
  const Dims a = s.in(0), b = s.out(0);
  if (a.size() != 4 || b.size() != 4 || a[0] != b[0] || a[3] != b[3]) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "images of shape ", a, " cannot become ", b);
  }
  if (!kGradient && a[3] <= 0)
    sdk::Fail(TENON_INVALID_ARGUMENT, "image must have at least one channel; it has the shape ", a);
  if (needs_pixels && (a[1] <= 0 || a[2] <= 0)) {
    sdk::Fail(TENON_INVALID_ARGUMENT, "input image must be of non-zero size; it has the shape ", a);
  }
  if (b[1] <= 0 || b[2] <= 0) sdk::Fail(TENON_INVALID_ARGUMENT, "output dimensions must be positive; they are ", b);
  const Dims original = kGradient ? b : a, resized = kGradient ? a : b;
  ResizeParams p = {};
  p.total = sdk::Count(b);
  p.inner = DimOf(b[3]);
  p.width = DimOf(b[2]);
  p.height = DimOf(b[1]);
  p.original_height = original[1];
  p.original_width = original[2];
  p.resized_height = resized[1];
  p.resized_width = resized[2];
  p.row_scale = sampling.Scale(original[1], resized[1]);
  p.column_scale = sampling.Scale(original[2], resized[2]);
  p.half_pixel_centers = sampling.half_pixel_centers ? 1 : 0;
  p.align_corners = sampling.align_corners ? 1 : 0;
  return p;
}

constexpr HostInput kSize[] = {{TENON_SPAN("size"), 1}};

template <sdk::FixedString kCode, bool kGradient, bool kNeedsPixels, bool kTypeIsTheOutputs = false>
struct ResizePlan {
  ResizePlan(const Sampling& sampling, Shapes& s)
      : params(ParamsOf<kGradient>(sampling, s, kNeedsPixels)),
        code(s.Code(kCode.data, kTypeIsTheOutputs ? s.output(0).dtype : s.dtype(0))) {}
  void Launch(Launcher& on, char* const* at) const {
    ResizeParams p = params;
    p.x = at[0];
    p.out = at[2];
    on(code, Flat(p.total), p);
  }
  ResizeParams params;
  Function code;
};

struct BilinearKernel : Sampling {
  static constexpr auto& kHostInputs = kSize;
  using Sampling::Sampling;
  using Plan = ResizePlan<"Bilinear", false, true>;
};
// Input 1 is the original image, of which the shape alone counts.
struct BilinearGradKernel : Sampling {
  using Sampling::Sampling;
  using Plan = ResizePlan<"BilinearGrad", true, true, true>;
};
struct NearestGradKernel : Sampling {
  static constexpr auto& kHostInputs = kSize;
  using Sampling::Sampling;
  using Plan = ResizePlan<"NearestGrad", true, false>;
};
struct NearestKernel : Sampling {
  static constexpr auto& kHostInputs = kSize;
  using Sampling::Sampling;
  struct Plan {
    Plan(const NearestKernel& kernel, Shapes& s)
        : params(ParamsOf<false>(kernel, s, true)), pixel(sdk::Multiply(params.inner.size, BytesOf(s.dtype(0)))) {
      code = UnitCode("Nearest", UnitCode::Dividing(pixel), s);
    }
    void Launch(Launcher& on, char* const* at) const {
      const int64_t unit = code.For(at[0], at[2]);
      ResizeParams p = params;
      p.x = at[0];
      p.out = at[2];
      p.total = p.total / p.inner.size * (pixel / unit);
      p.inner = DimOf(pixel / unit);
      on(code[unit], Flat(p.total), p);
    }
    ResizeParams params;
    int64_t pixel;  // bytes
    UnitCode code;
  };
};

constexpr auto& kPlain = sdk::Constraints<sdk::PlainConstraint<"T">>::list;
template <class Set>
constexpr auto& kT = sdk::Constraints<typename Set::template Constraint<"T">>::list;
using Pictures = Types<float, double, int32_t, int64_t, sdk::Half, sdk::Bfloat16, uint8_t, int8_t, int16_t, uint16_t>;

}  // namespace

TENON_GPU_KERNEL(SpaceToBatchND) = Kernel<BatchKernel<true>>("SpaceToBatchND", {.constraints = kPlain});
TENON_GPU_KERNEL(BatchToSpaceND) = Kernel<BatchKernel<false>>("BatchToSpaceND", {.constraints = kPlain});
TENON_GPU_KERNEL(ReverseSequence) = Kernel<ReverseSequenceKernel>("ReverseSequence", {.constraints = kPlain});
TENON_GPU_KERNEL(ResizeBilinear) = Kernel<BilinearKernel>("ResizeBilinear", {.constraints = kT<Numbers::And<uint8_t>>});
TENON_GPU_KERNEL(ResizeBilinearGrad) = Kernel<BilinearGradKernel>("ResizeBilinearGrad", {.constraints = kT<Floats>});
TENON_GPU_KERNEL(ResizeNearestNeighbor) = Kernel<NearestKernel>("ResizeNearestNeighbor", {.constraints = kT<Pictures>});
TENON_GPU_KERNEL(ResizeNearestNeighborGrad) = Kernel<NearestGradKernel>("ResizeNearestNeighborGrad",
                                                                        {.constraints = kT<Numbers::And<uint8_t>>});

}  // namespace tenon::gpu
