// SPDX-License-Identifier: Apache-2.0
// Slice, StridedSlice, StridedSliceGrad, ReverseV2, Transpose, Tile, BroadcastTo, Pad, PadV2: all one StridedCopy.
#include <algorithm>
#include <cstring>

#include "kernels/strided_copy.h"
#include "kernels/string_copy.h"

namespace tenon::cpu {
namespace {

int64_t ValueAt(const View& view, int64_t i) { return IndexAt(sdk::Data<void>(view), view.dtype, i); }

// Output dims are walked contiguously: the target's strides.
void AddAll(sdk::Dims out, const int64_t* source_strides, StridedCopy* copy) {
  std::array<int64_t, kMaxRank> strides = {};
  FillStrides(out, strides);
  for (size_t i = 0; i < out.size(); ++i) copy->Add(out[i], source_strides[i], strides[i]);
}

void CheckCount(const View& view, size_t rank, const char* what) {
  if (sdk::Count(view) != static_cast<int64_t>(rank)) {
    sdk::Fail(TENON_INVALID_ARGUMENT, what, " has ", sdk::Count(view), " elements; the tensor's rank is ", rank);
  }
}

struct SliceBuilder {
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    const sdk::Dims out = sdk::DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], in.size(), "begin");
    CheckCount(*inputs[2], in.size(), "size");
    std::array<int64_t, kMaxRank> strides = {};
    FillStrides(in, strides);
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t begin = ValueAt(*inputs[1], static_cast<int64_t>(i));
      const int64_t wanted = ValueAt(*inputs[2], static_cast<int64_t>(i));
      const int64_t size = wanted == -1 ? in[i] - begin : wanted;
      if (begin < 0 || begin > in[i] || size < 0 || size > in[i] - begin) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "slice [", begin, ", ", begin, " + ", wanted, ") of dim ", i,
                  " is outside shape ", in);
      }
      if (out.size() != in.size() || size != out[i]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "the slice has size ", size, " in dim ", i, "; the output's shape is ", out);
      }
      copy->Offset(begin * strides[i], 0);
    }
    AddAll(out, strides.data(), copy);
  }
};

// TensorFlow's slice specification against the input's dims (util/strided_slice_op.cc).
struct StridedSliceMasks {
  explicit StridedSliceMasks(sdk::CreateContext& c)
      : begin(c.Int("begin_mask")),
        end(c.Int("end_mask")),
        ellipsis(c.Int("ellipsis_mask")),
        new_axis(c.Int("new_axis_mask")),
        shrink(c.Int("shrink_axis_mask")) {
    if ((ellipsis & (ellipsis - 1)) != 0) c.Invalid("a strided slice with more than one ellipsis");
  }
  int64_t begin, end, ellipsis, new_axis, shrink;

  // function(dim's begin, stride, size of the slice) for every dim of `full`, in order.
  template <class Function>
  void ForEachDim(sdk::Dims full, const View& begins, const View& ends, const View& strides, Function&& function) const {
    CheckRank(full);
    const int64_t count = sdk::Count(begins);
    if (sdk::Count(ends) != count || sdk::Count(strides) != count || count >= 32) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "begin, end and strides have ", count, ", ", sdk::Count(ends), " and ",
                sdk::Count(strides), " elements; they must be equally many, below 32");
    }
    int64_t given = 0;  // dims that positions other than the ellipsis name
    for (int64_t i = 0; i < count; ++i) given += ((ellipsis | new_axis) >> i & 1) == 0 ? 1 : 0;
    const int64_t rank = static_cast<int64_t>(full.size());
    if (given > rank) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "a strided slice of ", given, " dims of a tensor of shape ", full);
    }
    int64_t dim = 0;
    const auto whole = [&](int64_t dims) {
      for (int64_t k = 0; k < dims; ++k, ++dim) function(int64_t{0}, int64_t{1}, full[static_cast<size_t>(dim)]);
    };
    bool seen = false;
    for (int64_t i = 0; i < count; ++i) {
      if ((ellipsis >> i & 1) != 0) {
        whole(rank - given);
        seen = true;
      } else if ((new_axis >> i & 1) == 0) {
        One(i, dim, full[static_cast<size_t>(dim)], begins, ends, strides, function);
        ++dim;
      }
    }
    if (!seen) whole(rank - given);
  }

 private:
  template <class Function>
  void One(int64_t i, int64_t dim, int64_t size, const View& begins, const View& ends, const View& strides,
           Function& function) const {
    const int64_t stride = ValueAt(strides, i);
    if (stride == 0) sdk::Fail(TENON_INVALID_ARGUMENT, "strides[", i, "] must be non-zero");
    int64_t from = ValueAt(begins, i);
    if ((shrink >> i & 1) != 0) {
      const int64_t at = from < 0 ? from + size : from;
      if (stride <= 0) sdk::Fail(TENON_INVALID_ARGUMENT, "only stride 1 allowed on non-range indexing");
      if (at < 0 || at >= size) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "slice index ", from, " of dimension ", dim, " out of bounds.");
      }
      function(at, int64_t{1}, int64_t{1});
      return;
    }
    const int64_t low = stride > 0 ? 0 : -1;
    const int64_t high = stride > 0 ? size : size - 1;
    const auto clamp = [&](int64_t v) { return std::clamp(v < 0 ? v + size : v, low, high); };
    const int64_t first = (begin >> i & 1) != 0 ? (stride > 0 ? low : high) : clamp(from);
    const int64_t last = (end >> i & 1) != 0 ? (stride > 0 ? high : low) : clamp(ValueAt(ends, i));
    const int64_t span = stride > 0 ? last - first : first - last;
    // The magnitude as unsigned: the stride may be the lowest integer.
    const uint64_t step = stride > 0 ? static_cast<uint64_t>(stride) : 0 - static_cast<uint64_t>(stride);
    const int64_t length =
        span <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / step + 1);
    function(first, length <= 1 ? int64_t{1} : stride, length);
  }
};

struct StridedSliceBuilder {
  explicit StridedSliceBuilder(sdk::CreateContext& c) : masks(c) {}
  void Build(const View* const* inputs, const View&, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    std::array<int64_t, kMaxRank> strides = {}, sizes = {}, steps = {};
    size_t dim = 0;
    CheckRank(in);
    FillStrides(in, strides);
    masks.ForEachDim(in, *inputs[1], *inputs[2], *inputs[3], [&](int64_t from, int64_t step, int64_t size) {
      if (size > 0) copy->Offset(from * strides[dim], 0);
      sizes[dim] = size;
      steps[dim] = step * strides[dim];
      ++dim;
    });
    AddAll({sizes.data(), in.size()}, steps.data(), copy);
  }
  StridedSliceMasks masks;
};

struct StridedSliceGradBuilder {
  static constexpr bool kPartial = true;
  explicit StridedSliceGradBuilder(sdk::CreateContext& c) : masks(c) {}
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims full = sdk::DimsOf(output);
    std::array<int64_t, kMaxRank> strides = {}, sizes = {}, steps = {}, dy = {};
    size_t dim = 0;
    CheckRank(full);
    FillStrides(full, strides);
    masks.ForEachDim(full, *inputs[1], *inputs[2], *inputs[3], [&](int64_t from, int64_t step, int64_t size) {
      if (size > 0) copy->Offset(0, from * strides[dim]);
      sizes[dim] = size;
      steps[dim] = step * strides[dim];
      ++dim;
    });
    FillStrides({sizes.data(), full.size()}, dy);
    for (size_t i = 0; i < full.size(); ++i) copy->Add(sizes[i], dy[i], steps[i]);
    if (copy->total() != sdk::Count(*inputs[4])) {
      sdk::Fail(TENON_INVALID_ARGUMENT, "dy has shape ", sdk::DimsOf(*inputs[4]), "; the slice of ", full, " has ",
                copy->total(), " elements");
    }
  }
  void Fill(sdk::RunContext c) const {
    std::memset(c.output<void>(0), 0, static_cast<size_t>(c.output_view(0).byte_size));
  }
  StridedSliceMasks masks;
};

struct ReverseBuilder {
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    CheckRank(in);
    std::array<int64_t, kMaxRank> strides = {};
    std::array<bool, kMaxRank> reversed = {};
    FillStrides(in, strides);
    const int64_t rank = static_cast<int64_t>(in.size());
    for (int64_t i = 0; i < sdk::Count(*inputs[1]); ++i) {
      const int64_t axis = ValueAt(*inputs[1], i);
      const int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank || reversed[static_cast<size_t>(at)]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " is outside shape ", in, " or named twice");
      }
      const auto d = static_cast<size_t>(at);
      reversed[d] = true;
      if (in[d] > 0) copy->Offset((in[d] - 1) * strides[d], 0);
      strides[d] = -strides[d];
    }
    AddAll(sdk::DimsOf(output).size() == in.size() ? in : sdk::DimsOf(output), strides.data(), copy);
  }
};

struct TransposeBuilder {
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    const sdk::Dims out = sdk::DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], in.size(), "perm");
    std::array<int64_t, kMaxRank> strides = {}, steps = {};
    std::array<bool, kMaxRank> used = {};
    FillStrides(in, strides);
    const int64_t rank = static_cast<int64_t>(in.size());
    for (int64_t i = 0; i < rank; ++i) {
      const int64_t given = ValueAt(*inputs[1], i);
      const int64_t from = given < 0 ? given + rank : given;
      if (from < 0 || from >= rank || used[static_cast<size_t>(from)]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "perm[", i, "] = ", given, " is no permutation of ", rank, " dims");
      }
      used[static_cast<size_t>(from)] = true;
      steps[static_cast<size_t>(i)] = strides[static_cast<size_t>(from)];
      if (out.size() != in.size() || out[static_cast<size_t>(i)] != in[static_cast<size_t>(from)]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "perm does not take shape ", in, " to ", out);
      }
    }
    AddAll(out, steps.data(), copy);
  }
};

// Shapes alone decide: the output's dim is a multiple of the input's.
struct TileBuilder {
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    const sdk::Dims out = sdk::DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], in.size(), "multiples");
    std::array<int64_t, kMaxRank> source = {}, target = {};
    FillStrides(in, source);
    FillStrides(out, target);
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t times = ValueAt(*inputs[1], static_cast<int64_t>(i));
      if (times < 0 || out.size() != in.size() || sdk::Multiply(times, in[i]) != out[i]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "multiples[", i, "] = ", times, " does not take shape ", in, " to ", out);
      }
      copy->Add(times, 0, target[i] * in[i]);
      copy->Add(in[i], source[i], target[i]);
    }
  }
};

struct BroadcastToBuilder {
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    const sdk::Dims out = sdk::DimsOf(output);
    CheckRank(out);
    if (in.size() > out.size()) sdk::Fail(TENON_INVALID_ARGUMENT, "shape ", in, " does not broadcast to ", out);
    std::array<int64_t, kMaxRank> source = {}, steps = {};
    FillStrides(in, source);
    const size_t added = out.size() - in.size();
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] != 1 && in[i] != out[added + i]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "shape ", in, " does not broadcast to ", out);
      }
      steps[added + i] = in[i] == 1 ? 0 : source[i];
    }
    AddAll(out, steps.data(), copy);
  }
};

template <bool kHasValue>
struct PadBuilder {
  static constexpr bool kPartial = true;
  void Build(const View* const* inputs, const View& output, StridedCopy* copy) const {
    const sdk::Dims in = sdk::DimsOf(*inputs[0]);
    const sdk::Dims out = sdk::DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], 2 * in.size(), "paddings");
    std::array<int64_t, kMaxRank> source = {}, target = {};
    FillStrides(in, source);
    FillStrides(out, target);
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t before = ValueAt(*inputs[1], static_cast<int64_t>(2 * i));
      const int64_t after = ValueAt(*inputs[1], static_cast<int64_t>(2 * i + 1));
      if (before < 0 || after < 0 || out.size() != in.size() || before > out[i] || after > out[i] ||
          before + in[i] + after != out[i]) {
        sdk::Fail(TENON_INVALID_ARGUMENT, "paddings ", before, " and ", after, " of dim ", i, " do not take shape ", in,
                  " to ", out);
      }
      copy->Offset(0, before * target[i]);
      copy->Add(in[i], source[i], target[i]);
    }
  }
  void Fill(sdk::RunContext c) const {
    const View& output = c.output_view(0);
    if constexpr (kHasValue) {
      DispatchSize(output.dtype, [&]<class T>(Tag<T>) {
        std::fill_n(c.output<T>(0), static_cast<int64_t>(output.byte_size / sizeof(T)), *c.input<T>(2));
      });
    } else {
      std::memset(c.output<void>(0), 0, static_cast<size_t>(output.byte_size));
    }
  }
};

template <sdk::FixedString kAttr>
constexpr sdk::Traits Plain() {
  return {.constraints = sdk::Constraints<PlainConstraint<kAttr>>::list};
}

}  // namespace

TENON_CPU_KERNEL(Slice) = CpuKernel<StridedKernel<SliceBuilder>>("Slice", Plain<"T">());
TENON_CPU_KERNEL(StridedSlice) = CpuKernel<StridedKernel<StridedSliceBuilder>>("StridedSlice", Plain<"T">());
TENON_CPU_KERNEL(StridedSliceGrad) =
    CpuKernel<StridedKernel<StridedSliceGradBuilder, 4>>("StridedSliceGrad", Plain<"T">());
TENON_CPU_KERNEL(ReverseV2) = CpuKernel<StridedKernel<ReverseBuilder>>("ReverseV2", Plain<"T">());
TENON_CPU_KERNEL(Transpose) = CpuKernel<StridedKernel<TransposeBuilder>>("Transpose", Plain<"T">());
TENON_CPU_KERNEL(Tile) = CpuKernel<StridedKernel<TileBuilder>>("Tile", Plain<"T">());
TENON_CPU_KERNEL(BroadcastTo) = CpuKernel<StridedKernel<BroadcastToBuilder>>("BroadcastTo", Plain<"T">());
TENON_CPU_KERNEL(Pad) = CpuKernel<StridedKernel<PadBuilder<false>>>("Pad", Plain<"T">());
TENON_CPU_KERNEL(PadV2) = CpuKernel<StridedKernel<PadBuilder<true>>>("PadV2", Plain<"T">());

// Strings.
TENON_CPU_KERNEL(SliceString) = CpuStringKernel<StridedKernel<SliceBuilder>>("Slice");
TENON_CPU_KERNEL(StridedSliceString) = CpuStringKernel<StridedKernel<StridedSliceBuilder>>("StridedSlice");
TENON_CPU_KERNEL(TransposeString) = CpuStringKernel<StridedKernel<TransposeBuilder>>("Transpose");
TENON_CPU_KERNEL(TileString) = CpuStringKernel<StridedKernel<TileBuilder>>("Tile");
TENON_CPU_KERNEL(ReverseV2String) = CpuStringKernel<StridedKernel<ReverseBuilder>>("ReverseV2");

}  // namespace tenon::cpu
