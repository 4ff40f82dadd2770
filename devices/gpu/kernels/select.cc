// SPDX-License-Identifier: Apache-2.0
// Select, SelectV2, OneHot, MatrixBandPart; Cast, and several at once.
#include "code/select.h"

#include <algorithm>
#include <vector>

#include "kernels/move.h"
#include "tenon/extras/walk/broadcast.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::gpu {
namespace {

using sdk::Dims;

std::string Sized(std::string_view name, uint32_t dtype) {
  return sdk::Concat(name, "_", static_cast<int64_t>(sdk::ElementSize(dtype)));
}

struct SelectV2Kernel {
  struct Plan {
    Plan(const SelectV2Kernel&, Shapes& s) : Plan(sdk::Broadcast<3>({s.in(0), s.in(1), s.in(2)}, s.out(0)), s) {}
    Plan(const sdk::Broadcast<3>& shape, Shapes& s) : code(s.Code(Sized("Select", s.output(0).dtype))) {
      if (shape.rank > kMostSelectDims) {
        sdk::Fail(TENON_UNIMPLEMENTED, "GPUs broadcast over at most ", kMostSelectDims + 1,
                  " alternations of dims; these have ", shape.rank + 1);
      }
      params.total = shape.total;
      params.inner = DimOf(shape.inner);
      params.rank = shape.rank;
      for (size_t d = 0; d < static_cast<size_t>(shape.rank); ++d) params.dims[d] = DimOf(shape.dims[d]);
      for (size_t k = 0; k < 3; ++k) {
        params.steps[k] = shape.inner_stride[k];
        std::copy_n(shape.strides[k].begin(), shape.rank, params.strides[k]);
      }
    }
    void Launch(Launcher& on, char* const* at) const {
      SelectParams p = params;
      std::copy_n(at, 3, p.of);
      p.out = at[3];
      on(code, Flat(p.total, kMoveItems), p);
    }
    SelectParams params = {};
    Function code;
  };
};

// Equal shapes; the condition has the same shape, or is a scalar, or a vector that chooses rows.
struct SelectKernel {
  struct Plan : SelectV2Kernel::Plan {
    Plan(const SelectKernel&, Shapes& s) : SelectV2Kernel::Plan(ShapeOf(s), s) {}
    static sdk::Broadcast<3> ShapeOf(Shapes& s) {
      const Dims condition = s.in(0), t = s.in(1), e = s.in(2);
      if (!std::equal(t.begin(), t.end(), e.begin(), e.end())) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "'then' of shape ", t, " and 'else' of shape ", e, " must have one shape");
      }
      if (condition.empty() || std::equal(condition.begin(), condition.end(), t.begin(), t.end()))
        return sdk::Broadcast<3>({condition, t, e}, t);
      if (condition.size() != 1 || t.empty() || condition[0] != t[0]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "a condition of shape ", condition, " does not choose from shape ", t);
      }
      std::vector<int64_t> rows(t.size(), 1);
      rows[0] = t[0];
      return sdk::Broadcast<3>({Dims(rows), t, e}, t);
    }
  };
};

struct OneHotKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("depth"), 1}};
  explicit OneHotKernel(sdk::CreateContext& c) : axis(c.Int("axis")) {}
  struct Plan {
    Plan(const OneHotKernel& kernel, Shapes& s) : code(s.Code(Sized("OneHot", s.output(0).dtype))) {
      const Dims in = s.in(0), out = s.out(0);
      const auto rank = static_cast<int64_t>(in.size());
      const int64_t at = kernel.axis == -1 ? rank : kernel.axis;
      if (at < 0 || at > rank || out.size() != in.size() + 1) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", kernel.axis, " does not fit indices of shape ", in);
      }
      const int64_t depth = s.Integer(1);
      params.total = sdk::Count(out);
      if (depth < 0 || sdk::Multiply(sdk::Count(in), depth) != params.total) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "depth ", depth, " does not give the output's shape ", out);
      }
      params.indices.kind = KindOf(s.dtype(0));
      params.depth = DimOf(depth);
      params.inner = DimOf(sdk::Count(in.subspan(static_cast<size_t>(at))));
    }
    void Launch(Launcher& on, char* const* at) const {
      OneHotParams p = params;
      p.indices.at = at[0];
      p.on = at[2];
      p.off = at[3];
      p.out = at[4];
      on(code, Flat(p.total, kMoveItems), p);
    }
    OneHotParams params = {};
    Function code;
  };
  int64_t axis;
};

struct BandKernel {
  static constexpr HostInput kHostInputs[] = {{TENON_SPAN("num_lower"), 1}, {TENON_SPAN("num_upper"), 2}};
  struct Plan {
    Plan(const BandKernel&, Shapes& s) : code(s.Code(Sized("Band", s.output(0).dtype))) {
      const Dims dims = s.in(0);
      if (dims.size() < 2) sdk::Fail(TENON_INVALID_ARGUMENT, "input must be at least 2-dim, received shape: ", dims);
      const int64_t rows = dims[dims.size() - 2], columns = dims.back();
      params = {nullptr, nullptr, sdk::Count(dims), DimOf(rows), DimOf(columns), s.Integer(1), s.Integer(2)};
      if (params.lower > rows) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "num_lower must be negative or less or equal to number of rows (", rows,
                  ") got: ", params.lower);
      }
      if (params.upper > columns) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "num_upper must be negative or less or equal to number of columns (", columns,
                  ") got: ", params.upper);
      }
    }
    void Launch(Launcher& on, char* const* at) const {
      BandParams p = params;
      p.x = at[0];
      p.out = at[3];
      on(code, Flat(p.total, kMoveItems), p);
    }
    BandParams params = {};
    Function code;
  };
};

using CastTypes = Types<float, double, sdk::Half, sdk::Bfloat16, int32_t, int64_t, bool, uint8_t, int8_t, int16_t>;
struct CastKernel {
  explicit CastKernel(sdk::CreateContext& c) : truncate(c.Has("Truncate") && c.Bool("Truncate")) {}
  struct Plan {
    Plan(const CastKernel& kernel, Shapes& s) : count(sdk::Count(s.in(0))) {
      const uint32_t from = s.dtype(0), to = s.output(0).dtype;
      const bool cuts = kernel.truncate && (from == TENON_DT_FLOAT || from == TENON_DT_DOUBLE) &&
                        (to == TENON_DT_HALF || to == TENON_DT_BFLOAT16);
      code = s.Code(sdk::Concat(cuts ? "Cut_" : "Cast_", Suffix(from), "_", Suffix(to)));
    }
    void Launch(Launcher& on, char* const* at) const {
      on(code, Flat(count, kMoveItems), CastParams{at[0], at[1], count});
    }
    int64_t count;
    Function code = nullptr;
  };
  bool truncate;
};

// Casts of float32 to 16 bits, as many in a launch as its parameters hold.
struct CastNKernel {
  struct Plan {
    Plan(const CastNKernel&, Shapes& s)
        : code(s.Code(sdk::Concat("CastMany_f32_", Suffix(s.output(0).dtype)))),
          most_blocks(int64_t{s.facts().processors} * 8) {
      for (int32_t i = 0; i < s.input_count(); ++i) counts.push_back(sdk::Count(s.in(i)));
    }
    void Launch(Launcher& on, char* const* at) const {
      CastManyParams p = {};
      const auto submit = [&] {
        if (p.items > 0)
          on(code, Grid{{static_cast<uint32_t>(std::min(p.chunks, most_blocks)), 1, 1}, kCastThreads}, p);
        p = {};
      };
      for (size_t i = 0; i < counts.size(); ++i) {
        if (counts[i] == 0) continue;
        p.item[p.items++] = {{at[i], at[counts.size() + i], counts[i]}, p.chunks};
        p.chunks += (counts[i] + kCastChunk - 1) / kCastChunk;
        if (p.items == CastManyParams::kMostItems) submit();
      }
      submit();
    }
    Function code;
    int64_t most_blocks;
    std::vector<int64_t> counts;
  };
};

constexpr tenon_in_place kInPlaceThenElse[] = {{1, 0}, {2, 0}};
constexpr auto& kPlain = sdk::Constraints<sdk::PlainConstraint<"T">>::list;

}  // namespace

TENON_GPU_KERNEL(Select) = Kernel<SelectKernel>("Select", {.constraints = kPlain, .in_place = kInPlaceThenElse});
TENON_GPU_KERNEL(SelectV2) = Kernel<SelectV2Kernel>("SelectV2", {.constraints = kPlain, .in_place = kInPlaceThenElse});
TENON_GPU_KERNEL(OneHot) = Kernel<OneHotKernel>("OneHot", {.constraints = kPlain});
TENON_GPU_KERNEL(MatrixBandPart) = Kernel<BandKernel>("MatrixBandPart",
                                                      {.constraints = kPlain, .in_place = sdk::kInPlaceFirst});
TENON_GPU_KERNEL(CastN) = Kernel<CastNKernel>(
    "Tenon>CastN", {.constraints = sdk::Constraints<Types<sdk::Half, sdk::Bfloat16>::Constraint<"DstT">>::list});
TENON_GPU_KERNEL(Cast) = Kernel<CastKernel>(
    "Cast", {.constraints = sdk::Constraints<CastTypes::Constraint<"SrcT">, CastTypes::Constraint<"DstT">>::list});

}  // namespace tenon::gpu
