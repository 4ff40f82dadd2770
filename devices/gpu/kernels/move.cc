// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements: slices, transposes, pads, concatenations, fills.
//
// What is moved is bytes: a plan finds rows of them that lie together on both sides, and a run moves these by the
// widest unit that the rows and the addresses allow.
#include "kernels/move.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "tenon/extras/walk/slices.h"

namespace tenon::gpu {

using sdk::Dims;

// ---- Walks ----

Moving::Moving(const Walk& walk, int64_t element_bytes, Shapes& s)
    : total_(walk.total_),
      source_offset_(walk.source_offset_ * element_bytes),
      target_offset_(walk.target_offset_ * element_bytes),
      width_(element_bytes) {
  if (total_ == 0) return;
  rank_ = walk.rank_;
  for (int d = 0; d < rank_; ++d) {
    const auto at = static_cast<size_t>(d);
    dims_[at] = walk.dims_[at];
    source_strides_[at] = walk.source_strides_[at] * element_bytes;
    target_strides_[at] = walk.target_strides_[at] * element_bytes;
  }
  const auto last = static_cast<size_t>(std::max(rank_ - 1, 0));
  if (rank_ > 0 && source_strides_[last] == width_ && target_strides_[last] == width_)
    width_ *= dims_[static_cast<size_t>(--rank_)];
  rows_ = sdk::Multiply(total_, element_bytes) / width_;
  if (rank_ == 0 || PlanSwap(walk, element_bytes, s)) return;
  int64_t most = UnitCode::Dividing(width_);
  for (size_t d = 0; d < static_cast<size_t>(rank_); ++d)
    most = UnitCode::Dividing(most, source_strides_[d], target_strides_[d]);
  code_ = UnitCode("Move", most, s);
}

// A transpose: the dim that is fast in the target is slow in the source, and another one the other way round.
bool Moving::PlanSwap(const Walk& walk, int64_t element_bytes, Shapes& s) {
  constexpr int64_t kFewest = 8;  // of less, most of a square would be empty
  const int last = walk.rank_ - 1;
  const auto end = static_cast<size_t>(last);
  if (walk.target_strides_[end] != 1 || walk.source_strides_[end] == 1 || walk.dims_[end] < kFewest) return false;
  for (int fast = 0; fast < last; ++fast) {
    const auto at = static_cast<size_t>(fast);
    if (walk.source_strides_[at] != 1 || walk.dims_[at] < kFewest) continue;
    const int64_t tile = TileOf(element_bytes);
    swap_.down = walk.dims_[at];
    swap_.across = walk.dims_[end];
    swap_.source_stride = walk.source_strides_[end];
    swap_.target_stride = walk.target_strides_[at];
    swap_.tiles_across = DimOf((swap_.across + tile - 1) / tile);
    swap_.tiles_down = DimOf((swap_.down + tile - 1) / tile);
    swap_.tiles = swap_.tiles_across.size * swap_.tiles_down.size;
    for (int d = 0; d < last; ++d) {
      if (d == fast) continue;
      const auto from = static_cast<size_t>(d);
      const int to = swap_.rank++;
      swap_.dims[to] = DimOf(walk.dims_[from]);
      swap_.source_strides[to] = walk.source_strides_[from];
      swap_.target_strides[to] = walk.target_strides_[from];
      swap_.tiles *= walk.dims_[from];
    }
    swap_code_ = s.Code(sdk::Concat("SwapTiles_", element_bytes));
    return true;
  }
  return false;
}

void Moving::Launch(Launcher& on, const char* source, char* target) const {
  if (total_ == 0) return;
  source += source_offset_;
  target += target_offset_;
  if (rank_ == 0) return on.Copy(target, source, width_);
  if (swap_code_ == nullptr) return LaunchWalk(on, source, target);
  SwapParams p = swap_;
  p.source = source;
  p.target = target;
  const int64_t most = static_cast<int64_t>(on.card().facts().processors) * 32;
  on(swap_code_, Grid{{static_cast<uint32_t>(std::min(p.tiles, most)), 1, 1}, kTileThreads}, p);
}

void Moving::LaunchWalk(Launcher& on, const char* source, char* target) const {
  const int64_t unit = code_.For(source, target);
  MoveParams p = {};
  p.source = source;
  p.target = target;
  p.inner = DimOf(width_ / unit);
  p.total = rows_ * p.inner.size;
  p.rank = rank_;
  for (int d = 0; d < rank_; ++d) {
    const auto at = static_cast<size_t>(d);
    p.dims[d] = DimOf(dims_[at]);
    p.source_strides[d] = source_strides_[at] / unit;
    p.target_strides[d] = target_strides_[at] / unit;
  }
  on(code_[unit], Flat(p.total, kMoveItems), p);
}

namespace {

int64_t BytesOf(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }

// ---- What the SDK's builders build ----

template <class Builder>
struct Host;
template <>
struct Host<sdk::SliceBuilder> {
  static constexpr HostInput list[] = {{TENON_SPAN("begin"), 1}, {TENON_SPAN("size"), 2}};
};
template <>
struct Host<sdk::StridedSliceBuilder> {
  static constexpr HostInput list[] = {{TENON_SPAN("begin"), 1}, {TENON_SPAN("end"), 2}, {TENON_SPAN("strides"), 3}};
};
template <>
struct Host<sdk::StridedSliceGradBuilder> {
  static constexpr HostInput list[] = {
      {TENON_SPAN("shape"), 0}, {TENON_SPAN("begin"), 1}, {TENON_SPAN("end"), 2}, {TENON_SPAN("strides"), 3}};
};
template <>
struct Host<sdk::DynamicSliceBuilder> {
  static constexpr HostInput list[] = {{TENON_SPAN("start_indices"), 1}, {TENON_SPAN("size_indices"), 2}};
};
#define TENON_GPU_ONE_HOST_INPUT(Builder, name)                  \
  template <>                                                    \
  struct Host<sdk::Builder> {                                    \
    static constexpr HostInput list[] = {{TENON_SPAN(name), 1}}; \
  };
TENON_GPU_ONE_HOST_INPUT(ReverseBuilder, "axis")
TENON_GPU_ONE_HOST_INPUT(TransposeBuilder, "perm")
TENON_GPU_ONE_HOST_INPUT(TileBuilder, "multiples")
TENON_GPU_ONE_HOST_INPUT(BroadcastToBuilder, "shape")
#undef TENON_GPU_ONE_HOST_INPUT

template <bool kToDepth>
struct Host<sdk::DepthBuilder<kToDepth>> {
  static constexpr std::array<HostInput, 0> list = {};
};

// A builder that leaves a part of the output leaves zeros there.
template <class Builder, int32_t kSource = 0>
struct BuiltKernel {
  static constexpr auto& kHostInputs = Host<Builder>::list;
  BuiltKernel() requires std::is_default_constructible_v<Builder> = default;
  explicit BuiltKernel(sdk::CreateContext& c) requires std::is_constructible_v<Builder, sdk::CreateContext&>
      : builder(c) {}

  struct Plan {
    Plan(const BuiltKernel& kernel, Shapes& s) : output(s.input_count()) {
      Walk walk;
      kernel.builder.Build(s.inputs(), s.output(0), &walk);
      const int64_t count = sdk::Count(s.out(0)), bytes = BytesOf(s.output(0).dtype);
      if constexpr (requires { Builder::kPartial; }) {
        zeros = walk.total() == count ? 0 : sdk::Multiply(count, bytes);
      } else if (walk.total() != count) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the op's arguments give ", walk.total(), " elements; the output has ",
                  count);
      }
      moving = Moving(walk, bytes, s);
    }
    void Launch(Launcher& on, char* const* at) const {
      on.Fill(at[output], 0, zeros);
      moving.Launch(on, at[kSource], at[output]);
    }
    int32_t output;
    int64_t zeros = 0;
    Moving moving;
  };
  [[no_unique_address]] Builder builder;
};

// The output may be the input's memory.
struct DynamicUpdateKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("indices"), 2}};
  struct Plan {
    Plan(const DynamicUpdateKernel&, Shapes& s)
        : bytes(sdk::Multiply(sdk::Count(s.out(0)), BytesOf(s.output(0).dtype))) {
      Walk walk;
      sdk::DynamicUpdateSliceBuilder().Build(s.inputs(), s.output(0), &walk);
      moving = Moving(walk, BytesOf(s.output(0).dtype), s);
    }
    void Launch(Launcher& on, char* const* at) const {
      on.Copy(at[3], at[0], bytes);
      moving.Launch(on, at[1], at[3]);
    }
    int64_t bytes;
    Moving moving;
  };
};

// ---- Pads ----

// inner: the tensor without its padding. kWritesInner: MirrorPadGrad.
template <bool kWritesInner>
struct PadLayout {
  PadLayout(Dims inner, Dims outer, const View& paddings, int64_t element_bytes) : row(element_bytes) {
    size_t d = inner.size();
    while (d > 0 && inner[d - 1] == outer[d - 1]) row *= inner[--d];
    std::vector<int64_t> befores, sizes, outers;  // slowest last
    while (d-- > 0) {
      const bool plain = inner[d] == outer[d];
      if (plain && inner[d] == 1) continue;
      if (plain && !sizes.empty() && sizes.back() == outers.back()) {
        sizes.back() *= inner[d];
        outers.back() *= inner[d];
        continue;
      }
      befores.push_back(sdk::ValueAt(paddings, static_cast<int64_t>(2 * d)));
      sizes.push_back(inner[d]);
      outers.push_back(outer[d]);
    }
    if (sizes.size() > kMostMoveDims)
      sdk::Fail(TENON_UNIMPLEMENTED, "a pad of ", sizes.size(), " dims that cannot be merged; GPUs have ",
                kMostMoveDims);
    params.rank = static_cast<int32_t>(sizes.size());
    int64_t stride = 1;
    for (int32_t at = params.rank; at-- > 0;) {
      const auto from = static_cast<size_t>(params.rank - 1 - at);
      params.dims[at] = DimOf(kWritesInner ? sizes[from] : outers[from]);
      params.before[at] = befores[from];
      params.sizes[at] = sizes[from];
      params.outer_sizes[at] = outers[from];
      params.strides[at] = stride;  // in rows
      stride *= kWritesInner ? outers[from] : sizes[from];
      rows *= params.dims[at].size;
    }
  }
  // The parameters for units of so many bytes.
  PadParams For(int64_t unit, const char* source, char* target) const {
    PadParams p = params;
    p.source = source;
    p.target = target;
    p.inner = DimOf(row / unit);
    p.total = rows * p.inner.size;
    for (int32_t d = 0; d < p.rank; ++d) p.strides[d] *= p.inner.size;
    return p;
  }
  int64_t row, rows = 1;  // bytes of what is not padded, and how many such rows are written
  PadParams params = {};
};

// kValue: input 2 is put around, else zero.
template <bool kValue>
struct PadKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("paddings"), 1}};
  struct Plan {
    Plan(const PadKernel&, Shapes& s) : layout(Checked(s), s.out(0), s.input(1), BytesOf(s.output(0).dtype)) {
      const int64_t element = BytesOf(s.output(0).dtype), most = UnitCode::Dividing(layout.row);
      code = UnitCode("Pad", kValue ? std::min(element, most) : most, s);
      // 16 bytes that are not aligned so cannot be put around: their halves differ.
      whole_element = kValue ? element : 1;
    }
    static Dims Checked(Shapes& s) {
      sdk::StridedWalk walk;
      sdk::PadBuilder().Build(s.inputs(), s.output(0), &walk);
      return s.in(0);
    }
    void Launch(Launcher& on, char* const* at) const {
      char* const target = at[kValue ? 3 : 2];
      const int64_t unit = kValue ? code.For(at[0], target, at[2]) : code.For(at[0], target);
      if (unit < whole_element)
        sdk::Fail(TENON_INVALID_ARGUMENT, "elements of ", whole_element,
                  " bytes at an address that is no multiple of it");
      PadParams p = layout.For(unit, at[0], target);
      if (kValue) p.value = at[2];
      on(code[unit], Flat(p.total, kMoveItems), p);
    }
    PadLayout<false> layout;
    UnitCode code;
    int64_t whole_element;
  };
};

// The tensor without its padding is `inner`.
void CheckMirror(Dims inner, Dims outer, const View& paddings, bool reflect) {
  sdk::CheckRank(inner);
  sdk::CheckCount(paddings, 2 * inner.size(), "paddings");
  if (inner.size() != outer.size())
    sdk::Fail(TENON_INVALID_ARGUMENT, "paddings do not take shape ", inner, " to ", outer);
  for (size_t d = 0; d < inner.size(); ++d) {
    const int64_t before = sdk::ValueAt(paddings, static_cast<int64_t>(2 * d)),
                  after = sdk::ValueAt(paddings, static_cast<int64_t>(2 * d + 1));
    const int64_t limit = inner[d] - (reflect ? 1 : 0);
    if (before < 0 || after < 0 || before > limit || after > limit || before + inner[d] + after != outer[d]) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "paddings ", before, " and ", after, " of dim ", static_cast<int64_t>(d),
                " must be ", reflect ? "less than" : "no greater than", " its ", inner[d], " elements");
    }
  }
}

struct MirrorPadKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("paddings"), 1}};
  explicit MirrorPadKernel(sdk::CreateContext& c) : reflect(c.String("mode") == "REFLECT") {}
  struct Plan {
    Plan(const MirrorPadKernel& kernel, Shapes& s)
        : layout(Checked(kernel, s), s.out(0), s.input(1), BytesOf(s.output(0).dtype)),
          code("MirrorPad", UnitCode::Dividing(layout.row), s) {
      layout.params.overlap = kernel.reflect ? 1 : 0;
    }
    static Dims Checked(const MirrorPadKernel& kernel, Shapes& s) {
      CheckMirror(s.in(0), s.out(0), s.input(1), kernel.reflect);
      return s.in(0);
    }
    void Launch(Launcher& on, char* const* at) const {
      const int64_t unit = code.For(at[0], at[2]);
      const PadParams p = layout.For(unit, at[0], at[2]);
      on(code[unit], Flat(p.total, kMoveItems), p);
    }
    PadLayout<false> layout;
    UnitCode code;
  };
  bool reflect;
};
struct MirrorPadGradKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("paddings"), 1}};
  explicit MirrorPadGradKernel(sdk::CreateContext& c) : reflect(c.String("mode") == "REFLECT") {}
  struct Plan {
    Plan(const MirrorPadGradKernel& kernel, Shapes& s)
        : layout(Checked(kernel, s), s.in(0), s.input(1), BytesOf(s.output(0).dtype)),
          element(BytesOf(s.output(0).dtype)),
          code(s.Code("MirrorPadGrad", s.dtype(0))) {
      layout.params.overlap = kernel.reflect ? 1 : 0;
    }
    static Dims Checked(const MirrorPadGradKernel& kernel, Shapes& s) {
      CheckMirror(s.out(0), s.in(0), s.input(1), kernel.reflect);
      return s.out(0);
    }
    void Launch(Launcher& on, char* const* at) const {
      const PadParams p = layout.For(element, at[0], at[2]);
      on(code, Flat(p.total), p);
    }
    PadLayout<true> layout;
    int64_t element;
    Function code;
  };
  bool reflect;
};

// ---- Tensors side by side ----

int64_t AxisOf(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " is outside [", -rank, ", ", rank, ")");
  return axis < 0 ? axis + rank : axis;
}

// Parts along an axis beside the whole, each [outer, width] bytes; kJoins: they are put together, else taken apart.
template <bool kJoins>
class PartsPlan {
 public:
  struct Part {
    int32_t operand;
    const View* view;
  };
  void Join(const std::vector<Part>& parts, Part whole, int64_t given_axis, Shapes& s) {
    const Dims dims = sdk::DimsOf(*whole.view);
    const auto axis = static_cast<size_t>(AxisOf(given_axis, static_cast<int64_t>(dims.size())));
    const int64_t element = BytesOf(whole.view->dtype);
    outer_ = sdk::Count(dims.first(axis));
    row_ = sdk::Multiply(sdk::Count(dims.subspan(axis)), element);
    whole_ = whole.operand;
    int64_t at = 0, most = UnitCode::Dividing(row_);
    for (const Part& part : parts) {
      const int64_t bytes = sdk::Multiply(sdk::Count(*part.view), element), width = outer_ == 0 ? 0 : bytes / outer_;
      if (width * outer_ != bytes || width > row_ - at) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a part of shape ", sdk::DimsOf(*part.view), " does not fit ", dims,
                  " along axis ", given_axis);
      }
      most = UnitCode::Dividing(most, width);
      if (width > 0) pieces_.push_back({part.operand, at, width});
      at += width;
    }
    if (at != row_ && outer_ != 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the parts do not fill ", dims, " along axis ", given_axis);
    code_ = UnitCode(kJoins ? "Join" : "Part", most, s);
  }
  static std::vector<Part> Inputs(const Shapes& s, int32_t first, int32_t count) {
    std::vector<Part> parts;
    for (int32_t i = first; i < first + count; ++i) parts.push_back({i, &s.input(i)});
    return parts;
  }
  static std::vector<Part> Outputs(const Shapes& s) {
    std::vector<Part> parts;
    for (int32_t i = 0; i < s.output_count(); ++i) parts.push_back({s.input_count() + i, &s.output(i)});
    return parts;
  }
  void Launch(Launcher& on, char* const* at) const {
    if (outer_ == 0) return;
    int64_t unit = code_.For(at[whole_]);
    for (const Piece& piece : pieces_) unit = UnitCode::Dividing(unit, reinterpret_cast<uintptr_t>(at[piece.operand]));
    PiecesParams p = {};
    p.whole = at[whole_];
    p.outer = outer_;
    p.row = row_ / unit;
    for (size_t first = 0; first < pieces_.size(); first += kMostPieces) {
      const size_t count = std::min<size_t>(kMostPieces, pieces_.size() - first);
      int64_t widest = 0;
      for (size_t i = 0; i < count; ++i) {
        const Piece& piece = pieces_[first + i];
        p.pieces[i] = {at[piece.operand], piece.offset / unit, DimOf(piece.width / unit)};
        widest = std::max(widest, piece.width / unit);
      }
      Grid grid = GridOver(on, outer_ * widest, kMoveItems);
      grid.blocks[1] = static_cast<uint32_t>(count);
      on(code_[unit], grid, p);
    }
  }

 private:
  struct Piece {
    int32_t operand;
    int64_t offset, width;
  };
  int64_t outer_ = 0, row_ = 0;
  int32_t whole_ = 0;
  std::vector<Piece> pieces_;  // without those that are empty
  UnitCode code_;
};

// kAxis: 0 of Concat, -1 of ConcatV2.
template <int32_t kAxis>
struct ConcatKernel {
  static constexpr HostInput kHostInputs[] = {
      {kAxis == 0 ? tenon_span TENON_SPAN("concat_dim") : tenon_span TENON_SPAN("axis"), kAxis}};
  struct Plan : PartsPlan<true> {
    Plan(const ConcatKernel&, Shapes& s) {
      const int32_t n = s.input_count() - 1, first = kAxis == 0 ? 1 : 0;
      const Dims out = s.out(0);
      const int32_t axis_input = kAxis == 0 ? 0 : n;
      // Of so many inputs the last one is not known to be the host's, so that nobody waits for its value.
      if (s.input(axis_input).dl.data == nullptr)
        sdk::Fail(TENON_UNIMPLEMENTED, "GPUs put ", n, " tensors together along a constant axis alone");
      const int64_t given = s.Integer(axis_input);
      const auto axis = static_cast<size_t>(AxisOf(given, static_cast<int64_t>(out.size())));
      for (int32_t i = 0; i < n; ++i) {
        // Old graphs have scalars in a list with axis 0.
        const Dims in = s.in(first + i);
        bool fits = in.size() == out.size() || (in.empty() && axis == 0);
        for (size_t d = 0; fits && d < in.size(); ++d) fits = d == axis || in[d] == out[d];
        if (!fits)
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", in, " does not fit output ", out, " along axis ",
                    axis);
      }
      Join(Inputs(s, first, n), {s.input_count(), &s.output(0)}, given, s);
    }
  };
};
// Pack's output and Unpack's input have a dim more: width is a whole part.
struct PackKernel {
  explicit PackKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan : PartsPlan<true> {
    Plan(const PackKernel& kernel, Shapes& s) {
      Join(Inputs(s, 0, s.input_count()), {s.input_count(), &s.output(0)}, kernel.axis, s);
    }
  };
  int64_t axis;
};
struct UnpackKernel {
  explicit UnpackKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan : PartsPlan<false> {
    Plan(const UnpackKernel& kernel, Shapes& s) { Join(Outputs(s), {0, &s.input(0)}, kernel.axis, s); }
  };
  int64_t axis;
};
struct SplitKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("split_dim"), 0}};
  struct Plan : PartsPlan<false> {
    Plan(const SplitKernel&, Shapes& s) { Join(Outputs(s), {1, &s.input(1)}, s.Integer(0), s); }
  };
};
struct SplitVKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("size_splits"), 1}, {TENON_SPAN("split_dim"), 2}};
  struct Plan : PartsPlan<false> {
    Plan(const SplitVKernel&, Shapes& s) { Join(Outputs(s), {0, &s.input(0)}, s.Integer(2), s); }
  };
};

// ---- Fills ----

struct FillKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("dims"), 0}};
  struct Plan {
    Plan(const FillKernel&, Shapes& s)
        : count(sdk::Count(s.out(0))), code(s.Code(sdk::Concat("Fill_", BytesOf(s.output(0).dtype)))) {}
    void Launch(Launcher& on, char* const* at) const {
      on(code, Flat(count, kMoveItems), FillParams{at[1], {}, at[2], count});
    }
    int64_t count;
    Function code;
  };
};
struct ZerosLikeKernel {
  struct Plan {
    Plan(const ZerosLikeKernel&, Shapes& s) : bytes(sdk::Multiply(sdk::Count(s.out(0)), BytesOf(s.output(0).dtype))) {}
    void Launch(Launcher& on, char* const* at) const { on.Fill(at[1], 0, bytes); }
    int64_t bytes;
  };
};
using Ones = sdk::Numbers::And<bool>::AndComplex;
struct OnesLikeKernel {
  struct Plan {
    Plan(const OnesLikeKernel&, Shapes& s) : code(s.Code(sdk::Concat("Fill_", BytesOf(s.output(0).dtype)))) {
      params.count = sdk::Count(s.out(0));
      Ones::Dispatch(s.output(0).dtype, [&]<class T>(Tag<T>) {
        const T one = T(1);
        std::memcpy(params.pattern, static_cast<const void*>(&one), sizeof one);
      });
    }
    void Launch(Launcher& on, char* const* at) const {
      FillParams p = params;
      p.target = at[1];
      on(code, Flat(p.count, kMoveItems), p);
    }
    FillParams params = {};
    Function code;
  };
};

// The bytes as they are, of another type.
struct BitcastKernel {
  struct Plan {
    Plan(const BitcastKernel&, Shapes& s) : bytes(static_cast<int64_t>(s.output(0).byte_size)) {
      if (s.input(0).byte_size != s.output(0).byte_size) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a tensor of ", s.input(0).byte_size, " bytes is no tensor of ",
                  s.output(0).byte_size);
      }
    }
    void Launch(Launcher& on, char* const* at) const { on.Copy(at[1], at[0], bytes); }
    int64_t bytes;
  };
};

// By repeated addition, as the CPU does it: the host adds, and says where each run of elements starts.
using RangeTypes = Types<int64_t, float, double, sdk::Half, sdk::Bfloat16>;
struct RangeKernel {
  static constexpr HostInput kHostInputs[] = {
      {TENON_SPAN("start"), 0}, {TENON_SPAN("limit"), 1}, {TENON_SPAN("delta"), 2}};
  struct Plan {
    Plan(const RangeKernel&, Shapes& s) : count(sdk::Count(s.out(0))) {
      RangeTypes::Dispatch(s.output(0).dtype, [&]<class T>(Tag<T>) {
        using A = sdk::Wide<T>;
        const A start = *sdk::Data<const T>(s.input(0)), limit = *sdk::Data<const T>(s.input(1)),
                delta = *sdk::Data<const T>(s.input(2));
        Check(start, limit, delta);
        if constexpr (std::is_integral_v<A>) {
          code = s.Code("RangeWhole_i64");
          whole = {nullptr, count, start, delta};
        } else {
          code = s.Code("Range", s.output(0).dtype);
          step = static_cast<double>(delta);
          A value = start;
          for (int64_t i = 0; i < count; ++i) {
            if (i % kRangeRun == 0) starts.push_back(static_cast<double>(value));
            value = static_cast<A>(static_cast<T>(value + delta));
          }
          element = sizeof(T);
        }
      });
    }
    template <class A>
    void Check(A start, A limit, A delta) const {
      if (delta == 0) sdk::Fail(TENON_INVALID_ARGUMENT, "Requires delta != 0");
      if (delta > 0 ? start > limit : start < limit) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "Requires ",
                  delta > 0 ? "start <= limit when delta > 0" : "start >= limit when delta < 0", ": ", start, "/",
                  limit);
      }
      if (Length(start, limit, delta) != count) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a range of ", Length(start, limit, delta), " elements; the output has ",
                  count);
      }
    }
    template <class A>
    static int64_t Length(A start, A limit, A delta) {
      if constexpr (std::is_integral_v<A>) {
        using U = uint64_t;
        const U span =
            delta > 0 ? static_cast<U>(limit) - static_cast<U>(start) : static_cast<U>(start) - static_cast<U>(limit);
        const U step = delta > 0 ? static_cast<U>(delta) : U{0} - static_cast<U>(delta);
        return span == 0 ? 0 : static_cast<int64_t>((span - 1) / step + 1);
      } else {
        const double length = std::ceil(std::fabs(static_cast<double>((limit - start) / delta)));
        return length < 9e18 ? static_cast<int64_t>(length) : -1;
      }
    }
    void Launch(Launcher& on, char* const* at) const {
      if (element == 0) {
        RangeParams p = whole;
        p.target = at[3];
        return on(code, Flat(count), p);
      }
      RangeSumParams p = {};
      p.delta = step;
      for (size_t first = 0; first < starts.size(); first += kRangeStarts) {
        const size_t n = std::min<size_t>(kRangeStarts, starts.size() - first);
        std::copy_n(starts.begin() + static_cast<std::ptrdiff_t>(first), n, p.starts);
        const int64_t done = static_cast<int64_t>(first) * kRangeRun;
        p.target = at[3] + done * element;
        p.count = std::min<int64_t>(count - done, static_cast<int64_t>(n) * kRangeRun);
        on(code, Flat(static_cast<int64_t>(n)), p);
      }
    }
    int64_t count;
    Function code = nullptr;
    RangeParams whole = {};
    double step = 0;
    int64_t element = 0;  // bytes of one that is not whole
    std::vector<double> starts;
  };
};

struct LinSpaceKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("num"), 2}};
  struct Plan {
    Plan(const LinSpaceKernel&, Shapes& s) : count(s.Integer(2)), code(s.Code("LinSpace", s.output(0).dtype)) {
      if (count < 1) sdk::Fail(TENON_INVALID_ARGUMENT, "Requires num > 0: ", count);
      if (count != sdk::Count(s.out(0)))
        sdk::Fail(TENON_INTERNAL, "num is ", count, ", the output has the shape ", s.out(0));
    }
    void Launch(Launcher& on, char* const* at) const {
      on(code, Flat(count), LinSpaceParams{at[0], at[1], at[3], count});
    }
    int64_t count;
    Function code;
  };
};

template <class K>
constexpr tenon_kernel_registration Plain(std::string_view op) {
  return Kernel<K>(op, {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list});
}

}  // namespace

TENON_GPU_KERNEL(Slice) = Plain<BuiltKernel<sdk::SliceBuilder>>("Slice");
TENON_GPU_KERNEL(StridedSlice) = Plain<BuiltKernel<sdk::StridedSliceBuilder>>("StridedSlice");
TENON_GPU_KERNEL(StridedSliceGrad) = Plain<BuiltKernel<sdk::StridedSliceGradBuilder, 4>>("StridedSliceGrad");
TENON_GPU_KERNEL(XlaDynamicSlice) = Plain<BuiltKernel<sdk::DynamicSliceBuilder>>("XlaDynamicSlice");
TENON_GPU_KERNEL(XlaDynamicUpdateSlice) = Kernel<DynamicUpdateKernel>(
    "XlaDynamicUpdateSlice",
    {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list, .in_place = sdk::kInPlaceFirst});
TENON_GPU_KERNEL(ReverseV2) = Plain<BuiltKernel<sdk::ReverseBuilder>>("ReverseV2");
TENON_GPU_KERNEL(Transpose) = Plain<BuiltKernel<sdk::TransposeBuilder>>("Transpose");
TENON_GPU_KERNEL(Tile) = Plain<BuiltKernel<sdk::TileBuilder>>("Tile");
TENON_GPU_KERNEL(BroadcastTo) = Plain<BuiltKernel<sdk::BroadcastToBuilder>>("BroadcastTo");
TENON_GPU_KERNEL(SpaceToDepth) = Plain<BuiltKernel<sdk::DepthBuilder<true>>>("SpaceToDepth");
TENON_GPU_KERNEL(DepthToSpace) = Plain<BuiltKernel<sdk::DepthBuilder<false>>>("DepthToSpace");
TENON_GPU_KERNEL(Pad) = Plain<PadKernel<false>>("Pad");
TENON_GPU_KERNEL(PadV2) = Plain<PadKernel<true>>("PadV2");
TENON_GPU_KERNEL(MirrorPad) = Plain<MirrorPadKernel>("MirrorPad");
TENON_GPU_KERNEL(MirrorPadGrad) =
    Kernel<MirrorPadGradKernel>("MirrorPadGrad", {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list});
TENON_GPU_KERNEL(Concat) = Plain<ConcatKernel<0>>("Concat");
TENON_GPU_KERNEL(ConcatV2) = Plain<ConcatKernel<-1>>("ConcatV2");
TENON_GPU_KERNEL(Pack) = Plain<PackKernel>("Pack");
TENON_GPU_KERNEL(Unpack) = Plain<UnpackKernel>("Unpack");
TENON_GPU_KERNEL(Split) = Plain<SplitKernel>("Split");
TENON_GPU_KERNEL(SplitV) = Plain<SplitVKernel>("SplitV");
TENON_GPU_KERNEL(Fill) = Plain<FillKernel>("Fill");
TENON_GPU_KERNEL(Bitcast) = Plain<BitcastKernel>("Bitcast");
TENON_GPU_KERNEL(ZerosLike) = Plain<ZerosLikeKernel>("ZerosLike");
TENON_GPU_KERNEL(OnesLike) = Kernel<OnesLikeKernel>("OnesLike",
                                                    {.constraints = sdk::Constraints<Ones::Constraint<"T">>::list});
TENON_GPU_KERNEL(Range) = Kernel<RangeKernel>("Range",
                                              {.constraints = sdk::Constraints<RangeTypes::Constraint<"Tidx">>::list});
TENON_GPU_KERNEL(LinSpace) =
    Kernel<LinSpaceKernel>("LinSpace", {.constraints = sdk::Constraints<Types<float, double>::Constraint<"T">>::list});

}  // namespace tenon::gpu
