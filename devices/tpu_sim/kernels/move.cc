// SPDX-License-Identifier: Apache-2.0
// Kernels that only move elements: slices, transposes, pads, concatenations, gathers, fills; and the views.
//
// A plan is a list of strided walks from an input to an output, perhaps over an output that was filled before.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/kernel.h"
#include "tenon/extras/kernel/update.h"
#include "tenon/extras/walk/gather_shape.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::tpu_sim {
namespace {

using sdk::Dims;

class MoveWalk : public sdk::StridedWalk {
 public:
  template <class T>
  void Run(const T* source, T* target) const {
    if (total_ == 0) return;
    source += source_offset_;
    target += target_offset_;
    if (rank_ == 0) {
      *target = *source;
      return;
    }
    const auto inner = static_cast<size_t>(rank_ - 1);
    const int64_t count = dims_[inner], from = source_strides_[inner], to = target_strides_[inner];
    std::array<int64_t, sdk::kMaxDims> index = {};
    for (int64_t row = total_ / count; row > 0; --row) {
      if (from == 1 && to == 1) {
        std::memcpy(target, source, static_cast<size_t>(count) * sizeof(T));
      } else {
        for (int64_t i = 0; i < count; ++i) target[i * to] = source[i * from];
      }
      for (size_t d = inner; d-- > 0;) {
        source += source_strides_[d];
        target += target_strides_[d];
        if (++index[d] < dims_[d]) break;
        source -= dims_[d] * source_strides_[d];
        target -= dims_[d] * target_strides_[d];
        index[d] = 0;
      }
    }
  }
};

struct Moves {
  static constexpr int32_t kNoFill = -2, kZeros = -1;
  struct Move {
    int32_t source, target;  // operands
    MoveWalk walk;
  };

  MoveWalk& Add(int32_t source, int32_t target) { return moves.emplace_back(Move{source, target, {}}).walk; }
  // After all are added: what it amounts to.
  void Finish(uint32_t dtype, Shapes& s) {
    sdk::DispatchSize(dtype, [&]<class T>(Tag<T>) { function = &Typed<T>; });
    int64_t total = 0;
    for (const Move& move : moves) total += move.walk.total();
    s.effort.read_bytes = sdk::Multiply(total, static_cast<int64_t>(sdk::ElementSize(dtype)));
    s.Vector(total);
  }
  void Work(char* const* at) const { function(*this, at); }

  std::vector<Move> moves;
  int32_t fill = kNoFill;  // what the output is filled with before: zeros, or an operand's first element
  int32_t filled = 0;      // that output, and its elements
  int64_t fill_count = 0;

 private:
  template <class T>
  static void Typed(const Moves& moves, char* const* at) {
    if (moves.fill != kNoFill && moves.fill_count > 0) {
      const T value = moves.fill == kZeros ? T{} : *reinterpret_cast<const T*>(at[moves.fill]);
      std::fill_n(reinterpret_cast<T*>(at[moves.filled]), moves.fill_count, value);
    }
    for (const Move& move : moves.moves) {
      move.walk.Run(reinterpret_cast<const T*>(at[move.source]), reinterpret_cast<T*>(at[move.target]));
    }
  }
  void (*function)(const Moves&, char* const*) = nullptr;
};

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
#define TENON_TPU_ONE_HOST_INPUT(Builder, name)                       \
  template <>                                                         \
  struct Host<sdk::Builder> {                                         \
    static constexpr HostInput list[] = {{TENON_SPAN(name), 1}};      \
  };
TENON_TPU_ONE_HOST_INPUT(ReverseBuilder, "axis")
TENON_TPU_ONE_HOST_INPUT(TransposeBuilder, "perm")
TENON_TPU_ONE_HOST_INPUT(TileBuilder, "multiples")
TENON_TPU_ONE_HOST_INPUT(BroadcastToBuilder, "shape")
TENON_TPU_ONE_HOST_INPUT(PadBuilder, "paddings")
#undef TENON_TPU_ONE_HOST_INPUT

// kFill: Moves::fill of a builder that leaves a part of the output.
template <class Builder, int32_t kSource = 0, int32_t kFill = Moves::kNoFill>
struct BuiltKernel {
  static constexpr auto& kHostInputs = Host<Builder>::list;
  BuiltKernel() requires std::is_default_constructible_v<Builder> = default;
  explicit BuiltKernel(sdk::CreateContext& c) requires std::is_constructible_v<Builder, sdk::CreateContext&>
      : builder(c) {}

  struct Plan : Moves {
    Plan(const BuiltKernel& kernel, Shapes& s) {
      MoveWalk& walk = Add(kSource, s.input_count());
      kernel.builder.Build(s.inputs(), s.output(0), &walk);
      const int64_t count = sdk::Count(s.out(0));
      if (kFill == kNoFill && walk.total() != count) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the op's arguments give ", walk.total(), " elements; the output has ",
                  count);
      }
      fill = kFill;
      filled = s.input_count();
      fill_count = count;
      Finish(s.output(0).dtype, s);
    }
  };
  [[no_unique_address]] Builder builder;
};

// The input, and then the update over it.
struct DynamicUpdateKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("indices"), 2}};
  struct Plan : Moves {
    Plan(const DynamicUpdateKernel&, Shapes& s) {
      Add(0, 3).Add(sdk::Count(s.out(0)), 1, 1);
      sdk::DynamicUpdateSliceBuilder().Build(s.inputs(), s.output(0), &Add(1, 3));
      Finish(s.output(0).dtype, s);
    }
  };
};

// ---- Tensors side by side ----

int64_t AxisOf(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " is outside [", -rank, ", ", rank, ")");
  return axis < 0 ? axis + rank : axis;
}

// Parts along an axis beside the whole, each [outer, width]; `joins`: the parts are put together, else taken apart.
struct PartsPlan : Moves {
  // parts: the operands, with their views.
  struct Part {
    int32_t operand;
    const View* view;
  };
  void Join(const std::vector<Part>& parts, Part whole, int64_t given_axis, bool joins, Shapes& s) {
    const Dims dims = sdk::DimsOf(*whole.view);
    const auto axis = static_cast<size_t>(AxisOf(given_axis, static_cast<int64_t>(dims.size())));
    const int64_t outer = sdk::Count(dims.first(axis)), row = sdk::Count(dims.subspan(axis));
    int64_t at = 0;
    for (const Part& part : parts) {
      const int64_t count = sdk::Count(*part.view), width = outer == 0 ? 0 : count / outer;
      if (width * outer != count || width > row - at) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a part of shape ", sdk::DimsOf(*part.view), " does not fit ", dims,
                  " along axis ", given_axis);
      }
      MoveWalk& walk = joins ? Add(part.operand, whole.operand) : Add(whole.operand, part.operand);
      walk.Offset(joins ? 0 : at, joins ? at : 0);
      walk.Add(outer, joins ? width : row, joins ? row : width);
      walk.Add(width, 1, 1);
      at += width;
    }
    if (at != row && outer != 0)
      sdk::Fail(TENON_INVALID_ARGUMENT, "the parts do not fill ", dims, " along axis ", given_axis);
    Finish(whole.view->dtype, s);
  }
  static std::vector<Part> Inputs(const Shapes& s, int32_t count) {
    std::vector<Part> parts;
    for (int32_t i = 0; i < count; ++i) parts.push_back({i, &s.input(i)});
    return parts;
  }
  static std::vector<Part> Outputs(const Shapes& s) {
    std::vector<Part> parts;
    for (int32_t i = 0; i < s.output_count(); ++i) parts.push_back({s.input_count() + i, &s.output(i)});
    return parts;
  }
};

struct ConcatKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("axis"), -1}};
  struct Plan : PartsPlan {
    Plan(const ConcatKernel&, Shapes& s) {
      const int32_t n = s.input_count() - 1;
      const Dims out = s.out(0);
      const auto axis = static_cast<size_t>(AxisOf(s.Integer(n), static_cast<int64_t>(out.size())));
      for (int32_t i = 0; i < n; ++i) {
        // Old graphs have scalars in a list with axis 0.
        const Dims in = s.in(i);
        bool fits = in.size() == out.size() || (in.empty() && axis == 0);
        for (size_t d = 0; fits && d < in.size(); ++d) fits = d == axis || in[d] == out[d];
        if (!fits)
          sdk::Fail(TENON_INVALID_ARGUMENT, "input ", i, " of shape ", in, " does not fit output ", out, " along axis ",
                    axis);
      }
      Join(Inputs(s, n), {s.input_count(), &s.output(0)}, s.Integer(n), true, s);
    }
  };
};
// Pack's output and Unpack's input have a dim more: width is a whole part.
struct PackKernel {
  explicit PackKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan : PartsPlan {
    Plan(const PackKernel& kernel, Shapes& s) {
      Join(Inputs(s, s.input_count()), {s.input_count(), &s.output(0)}, kernel.axis, true, s);
    }
  };
  int64_t axis;
};
struct UnpackKernel {
  explicit UnpackKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan : PartsPlan {
    Plan(const UnpackKernel& kernel, Shapes& s) { Join(Outputs(s), {0, &s.input(0)}, kernel.axis, false, s); }
  };
  int64_t axis;
};
struct SplitKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("split_dim"), 0}};
  struct Plan : PartsPlan {
    Plan(const SplitKernel&, Shapes& s) { Join(Outputs(s), {1, &s.input(1)}, s.Integer(0), false, s); }
  };
};
struct SplitVKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("size_splits"), 1}, {TENON_SPAN("split_dim"), 2}};
  struct Plan : PartsPlan {
    Plan(const SplitVKernel&, Shapes& s) { Join(Outputs(s), {0, &s.input(0)}, s.Integer(2), false, s); }
  };
};

// ---- Fills ----

struct FillKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("dims"), 0}};
  struct Plan : Moves {
    Plan(const FillKernel&, Shapes& s) {
      fill = 1;
      filled = s.input_count();
      fill_count = sdk::Count(s.out(0));
      Finish(s.output(0).dtype, s);
    }
  };
};
struct ZerosLikeKernel {
  struct Plan : Moves {
    Plan(const ZerosLikeKernel&, Shapes& s) {
      fill = kZeros;
      filled = 1;
      fill_count = sdk::Count(s.out(0));
      Finish(s.output(0).dtype, s);
    }
  };
};

using Ones = Types<float, Bfloat16, double, int32_t, int64_t, bool, uint8_t>;
struct OnesLikeKernel {
  struct Plan {
    Plan(const OnesLikeKernel&, Shapes& s) : count(sdk::Count(s.out(0))) {
      Ones::Dispatch(s.output(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.effort.read_bytes = 0;
      s.Vector(count);
    }
    void Work(char* const* at) const { function(at[1], count); }
    template <class T>
    static void Loop(char* out, int64_t count) {
      std::fill_n(reinterpret_cast<T*>(out), count, T(1));
    }
    int64_t count;
    void (*function)(char*, int64_t) = nullptr;
  };
};

// ---- By index ----

template <int32_t kAxis>
struct GatherKernel {
  explicit GatherKernel(sdk::CreateContext& c)
      : batch_dims(kAxis >= 0 && c.Has("batch_dims") ? c.Int("batch_dims") : 0) {}
  struct Plan {
    Plan(const GatherKernel& kernel, Shapes& s)
        : shape(sdk::GatherShapeOf(s.input(0), s.input(1), kAxis < 0 ? 0 : s.Integer(kAxis), kernel.batch_dims)),
          index_type(s.input(1).dtype) {
      const int64_t size = static_cast<int64_t>(sdk::ElementSize(s.output(0).dtype));
      const int64_t bytes = sdk::Multiply(sdk::Multiply(shape.batch * shape.outer, shape.indices), shape.inner);
      if (sdk::Multiply(sdk::Count(s.out(0)), size) != bytes) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "rows of params ", s.in(0), " by indices ", s.in(1),
                  " do not give the output's shape ", s.out(0));
      }
      s.effort.read_bytes = bytes;
      s.Vector(sdk::Count(s.out(0)));
    }
    void Work(char* const* at) const {
      const int64_t total = shape.batch * shape.outer * shape.indices;
      for (int64_t k = 0; k < total; ++k) {
        const int64_t block = k / shape.indices;  // batch and outer
        const int64_t position = block / shape.outer * shape.indices + k % shape.indices;
        const int64_t row = sdk::IndexAt(at[1], index_type, position);
        sdk::CheckRow(row, position, shape.rows);
        char* to = at[kAxis < 0 ? 2 : 3] + k * shape.inner;
        if (shape.inner > 0)
          std::memcpy(to, at[0] + (block * shape.rows + row) * shape.inner, static_cast<size_t>(shape.inner));
      }
    }
    sdk::GatherShape shape;
    uint32_t index_type;
  };
  int64_t batch_dims;
};
struct GatherV2Kernel : GatherKernel<2> {
  using GatherKernel<2>::GatherKernel;
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("axis"), 2}};
};

struct OneHotKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("depth"), 1}};
  explicit OneHotKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan {
    Plan(const OneHotKernel& kernel, Shapes& s) : index_type(s.input(0).dtype), depth(s.Integer(1)) {
      const Dims in = s.in(0), out = s.out(0);
      const auto rank = static_cast<int64_t>(in.size());
      const int64_t at = kernel.axis == -1 ? rank : kernel.axis;
      if (at < 0 || at > rank)
        sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", kernel.axis, " does not fit indices of shape ", in);
      outer = sdk::Count(in.first(static_cast<size_t>(at)));
      inner = sdk::Count(in.subspan(static_cast<size_t>(at)));
      if (depth < 0 || sdk::Multiply(outer * inner, depth) != sdk::Count(out)) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "depth ", depth, " does not give the output's shape ", out);
      }
      sdk::DispatchSize(s.output(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(sdk::Count(out));
    }
    void Work(char* const* at) const { function(*this, at); }
    template <class T>
    static void Loop(const Plan& p, char* const* at) {
      T* out = reinterpret_cast<T*>(at[4]);
      const int64_t count = p.outer * p.inner;
      if (count * p.depth == 0) return;
      std::fill_n(out, count * p.depth, *reinterpret_cast<const T*>(at[3]));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t hot = sdk::IndexAt(at[0], p.index_type, i);
        if (hot >= 0 && hot < p.depth)
          out[(i / p.inner * p.depth + hot) * p.inner + i % p.inner] = *reinterpret_cast<const T*>(at[2]);
      }
    }
    uint32_t index_type;
    int64_t depth, outer, inner;
    void (*function)(const Plan&, char* const*) = nullptr;
  };
  int64_t axis;
};

// Negative ids are dropped.
struct SegmentSumKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("num_segments"), 2}};
  struct Plan {
    Plan(const SegmentSumKernel&, Shapes& s)
        : id_type(s.input(1).dtype), count(sdk::Count(s.in(1))), rows(s.Integer(2)) {
      const Dims data = s.in(0), ids = s.in(1);
      if (ids.size() > data.size() || !std::equal(ids.begin(), ids.end(), data.begin())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids of shape ", ids, " are no prefix of data's shape ", data);
      }
      width = sdk::Count(data.subspan(ids.size()));
      if (rows < 0 || sdk::Multiply(rows, width) != sdk::Count(s.out(0))) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "num_segments ", rows, " does not give the output's shape ", s.out(0));
      }
      Numbers::Dispatch(s.input(0).dtype, [&]<class T>(Tag<T>) { function = &Loop<T>; });
      s.Vector(sdk::Multiply(count, width));
    }
    void Work(char* const* at) const { function(*this, at); }
    template <class T>
    static void Loop(const Plan& p, char* const* at) {
      const T* x = reinterpret_cast<const T*>(at[0]);
      T* out = reinterpret_cast<T*>(at[3]);
      std::fill_n(out, p.rows * p.width, T(0));
      for (int64_t i = 0; i < p.count; ++i) {
        const int64_t row = sdk::IndexAt(at[1], p.id_type, i);
        if (row >= p.rows)
          sdk::Fail(TENON_INVALID_ARGUMENT, "segment_ids[", i, "] = ", row, " is out of range [0, ", p.rows, ")");
        for (int64_t j = 0; row >= 0 && j < p.width; ++j) {
          T& sum = out[row * p.width + j];
          sum = sdk::AddOrSubtract<false>(sum, x[i * p.width + j]);
        }
      }
    }
    uint32_t id_type;
    int64_t count, rows, width;
    void (*function)(const Plan&, char* const*) = nullptr;
  };
};

// ---- Views: the engine gives the output the input's memory and never runs this ----

struct ViewKernel {
  void Run(sdk::RunContext) const { sdk::Fail(TENON_INTERNAL, "a view was run"); }
};
constexpr tenon_span kShapeArgument[] = {TENON_SPAN("shape")};
constexpr tenon_span kDimArgument[] = {TENON_SPAN("dim")};
constexpr sdk::Traits ViewOf(std::span<const tenon_span> host) {
  return {.constraints = sdk::Constraints<sdk::PlainConstraint<"T">>::list,
          .in_place = sdk::kInPlaceFirst,
          .host_memory = host,
          .flags = TENON_KERNEL_DETERMINISTIC | TENON_KERNEL_VIEW};
}

template <class K, sdk::FixedString kAttr = "T">
constexpr tenon_kernel_registration Plain(std::string_view op) {
  return Kernel<K>(op, {.constraints = sdk::Constraints<sdk::PlainConstraint<kAttr>>::list});
}

}  // namespace

TENON_TPU_KERNEL(Slice) = Plain<BuiltKernel<sdk::SliceBuilder>>("Slice");
TENON_TPU_KERNEL(StridedSlice) = Plain<BuiltKernel<sdk::StridedSliceBuilder>>("StridedSlice");
TENON_TPU_KERNEL(StridedSliceGrad) =
    Plain<BuiltKernel<sdk::StridedSliceGradBuilder, 4, Moves::kZeros>>("StridedSliceGrad");
TENON_TPU_KERNEL(XlaDynamicSlice) = Plain<BuiltKernel<sdk::DynamicSliceBuilder>>("XlaDynamicSlice");
TENON_TPU_KERNEL(XlaDynamicUpdateSlice) = Plain<DynamicUpdateKernel>("XlaDynamicUpdateSlice");
TENON_TPU_KERNEL(ReverseV2) = Plain<BuiltKernel<sdk::ReverseBuilder>>("ReverseV2");
TENON_TPU_KERNEL(Transpose) = Plain<BuiltKernel<sdk::TransposeBuilder>>("Transpose");
TENON_TPU_KERNEL(Tile) = Plain<BuiltKernel<sdk::TileBuilder>>("Tile");
TENON_TPU_KERNEL(BroadcastTo) = Plain<BuiltKernel<sdk::BroadcastToBuilder>>("BroadcastTo");
TENON_TPU_KERNEL(Pad) = Plain<BuiltKernel<sdk::PadBuilder, 0, Moves::kZeros>>("Pad");
TENON_TPU_KERNEL(PadV2) = Plain<BuiltKernel<sdk::PadBuilder, 0, 2>>("PadV2");
TENON_TPU_KERNEL(ConcatV2) = Plain<ConcatKernel>("ConcatV2");
TENON_TPU_KERNEL(Pack) = Plain<PackKernel>("Pack");
TENON_TPU_KERNEL(Unpack) = Plain<UnpackKernel>("Unpack");
TENON_TPU_KERNEL(Split) = Plain<SplitKernel>("Split");
TENON_TPU_KERNEL(SplitV) = Plain<SplitVKernel>("SplitV");
TENON_TPU_KERNEL(Fill) = Plain<FillKernel>("Fill");
TENON_TPU_KERNEL(ZerosLike) = Plain<ZerosLikeKernel>("ZerosLike");
TENON_TPU_KERNEL(OnesLike) = Kernel<OnesLikeKernel>("OnesLike",
                                                    {.constraints = sdk::Constraints<Ones::Constraint<"T">>::list});
TENON_TPU_KERNEL(Gather) = Plain<GatherKernel<-1>, "Tparams">("Gather");
TENON_TPU_KERNEL(GatherV2) = Plain<GatherV2Kernel, "Tparams">("GatherV2");
TENON_TPU_KERNEL(OneHot) = Plain<OneHotKernel>("OneHot");
TENON_TPU_KERNEL(UnsortedSegmentSum) =
    Kernel<SegmentSumKernel>("UnsortedSegmentSum", {.constraints = sdk::Constraints<Numbers::Constraint<"T">>::list});
TENON_TPU_PLAIN_KERNEL(Reshape) = PlainKernel<ViewKernel>("Reshape", ViewOf(kShapeArgument));
TENON_TPU_PLAIN_KERNEL(ExpandDims) = PlainKernel<ViewKernel>("ExpandDims", ViewOf(kDimArgument));
TENON_TPU_PLAIN_KERNEL(Squeeze) = PlainKernel<ViewKernel>("Squeeze", ViewOf({}));

}  // namespace tenon::tpu_sim
