// SPDX-License-Identifier: Apache-2.0
// Slice, StridedSlice, StridedSliceGrad, XlaDynamicSlice, XlaDynamicUpdateSlice, ReverseV2, Transpose, Tile,
// BroadcastTo, Pad, SpaceToDepth, DepthToSpace: what their arguments mean, as walks.
//
// A builder adds to a StridedWalk from input 0 (of StridedSliceGrad: input 4; of XlaDynamicUpdateSlice: input 1) to the
// output. The other inputs are read: they lie in the host's memory. Of input 0 and the output only the shapes are read;
// strides are in elements. Arguments that do not fit them are INVALID_ARGUMENT, ranks above kMaxRank UNIMPLEMENTED,
// thrown as in kernel.h. A builder is made with the kernel, and Build may be called from several threads.
#ifndef TENON_SDK_WALK_SLICES_H_
#define TENON_SDK_WALK_SLICES_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "tenon/sdk/kernel/element.h"
#include "tenon/extras/walk/strided_walk.h"

namespace tenon::sdk {

// Element i of an integer argument.
inline int64_t ValueAt(const tenon_tensor_view& view, int64_t i) { return IndexAt(Data<void>(view), view.dtype, i); }

// Output dims are walked contiguously: the target's strides.
inline void AddAll(Dims out, const int64_t* source_strides, StridedWalk* copy) {
  std::array<int64_t, kMaxRank> strides = {};
  FillStrides(out, strides);
  for (size_t i = 0; i < out.size(); ++i) copy->Add(out[i], source_strides[i], strides[i]);
}

inline void CheckCount(const tenon_tensor_view& view, size_t rank, const char* what) {
  if (Count(view) != static_cast<int64_t>(rank)) {
    Fail(TENON_INVALID_ARGUMENT, what, " has ", Count(view), " elements; the tensor's rank is ", rank);
  }
}

// Inputs: x, begin, size, the last two a number a dim; a size of -1 goes to the end.
struct SliceBuilder {
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    const Dims out = DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], in.size(), "begin");
    CheckCount(*inputs[2], in.size(), "size");
    std::array<int64_t, kMaxRank> strides = {};
    FillStrides(in, strides);
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t begin = ValueAt(*inputs[1], static_cast<int64_t>(i));
      const int64_t wanted = ValueAt(*inputs[2], static_cast<int64_t>(i));
      const int64_t left = begin < 0 ? -1 : in[i] - begin;
      const int64_t size = wanted == -1 ? left : wanted;
      if (left < 0 || size < 0 || size > left) {
        Fail(TENON_INVALID_ARGUMENT, "slice [", begin, ", ", begin, " + ", wanted, ") of dim ", i,
                  " is outside shape ", in);
      }
      if (out.size() != in.size() || size != out[i]) {
        Fail(TENON_INVALID_ARGUMENT, "the slice has size ", size, " in dim ", i, "; the output's shape is ", out);
      }
      copy->Offset(begin * strides[i], 0);
    }
    AddAll(out, strides.data(), copy);
  }
};

// TensorFlow's slice specification against the input's dims (util/strided_slice_op.cc): bit i of a mask is of position
// i of begin, end and strides. begin and end: that bound is left out; ellipsis: as many whole dims as are not named;
// new_axis: a dim of 1, of no dim of the input; shrink: one index, whose dim goes.
struct StridedSliceMasks {
  explicit StridedSliceMasks(CreateContext& c)
      : begin(c.Int("begin_mask")),
        end(c.Int("end_mask")),
        ellipsis(c.Int("ellipsis_mask")),
        new_axis(c.Int("new_axis_mask")),
        shrink(c.Int("shrink_axis_mask")) {
    if (std::popcount(static_cast<uint64_t>(ellipsis)) > 1) c.Invalid("a strided slice with more than one ellipsis");
  }
  int64_t begin, end, ellipsis, new_axis, shrink;

  // function(dim's begin, stride, size of the slice) for every dim of `full`, in order.
  template <class Function>
  void ForEachDim(Dims full, const tenon_tensor_view& begins, const tenon_tensor_view& ends,
                  const tenon_tensor_view& strides, Function&& function) const {
    CheckRank(full);
    const int64_t count = Count(begins);
    if (Count(ends) != count || Count(strides) != count || count >= 32) {
      Fail(TENON_INVALID_ARGUMENT, "begin, end and strides have ", count, ", ", Count(ends), " and ",
                Count(strides), " elements; they must be equally many, below 32");
    }
    int64_t given = 0;  // dims that positions other than the ellipsis name
    for (int64_t i = 0; i < count; ++i) given += ((ellipsis | new_axis) >> i & 1) == 0 ? 1 : 0;
    const int64_t rank = static_cast<int64_t>(full.size());
    if (given > rank) {
      Fail(TENON_INVALID_ARGUMENT, "a strided slice of ", given, " dims of a tensor of shape ", full);
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
  void One(int64_t i, int64_t dim, int64_t size, const tenon_tensor_view& begins, const tenon_tensor_view& ends,
           const tenon_tensor_view& strides, Function& function) const {
    const int64_t stride = ValueAt(strides, i);
    if (stride == 0) Fail(TENON_INVALID_ARGUMENT, "strides[", i, "] must be non-zero");
    int64_t from = ValueAt(begins, i);
    if ((shrink >> i & 1) != 0) {
      const int64_t at = from < 0 ? from + size : from;
      if (stride <= 0) Fail(TENON_INVALID_ARGUMENT, "only stride 1 allowed on non-range indexing");
      if (at < 0 || at >= size) {
        Fail(TENON_INVALID_ARGUMENT, "slice index ", from, " of dimension ", dim, " out of bounds.");
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

// Inputs: x, begin, end, strides.
struct StridedSliceBuilder {
  explicit StridedSliceBuilder(CreateContext& c) : masks(c) {}
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view&, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
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

// Inputs: shape, begin, end, strides, dy. What the walk does not reach is to be zero.
struct StridedSliceGradBuilder {
  static constexpr bool kPartial = true;  // the rest of the output is not the walk's
  explicit StridedSliceGradBuilder(CreateContext& c) : masks(c) {}
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims full = DimsOf(output);
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
    if (copy->total() != Count(*inputs[4])) {
      Fail(TENON_INVALID_ARGUMENT, "dy has shape ", DimsOf(*inputs[4]), "; the slice of ", full, " has ",
                copy->total(), " elements");
    }
  }
  StridedSliceMasks masks;
};

// Where a box of so many elements begins that is to lie within a dim: what would reach outside is moved inside.
inline int64_t WithinDim(int64_t start, int64_t size, int64_t dim) { return std::clamp<int64_t>(start, 0, dim - size); }

// Inputs: x, start, size, the last two a number a dim; see WithinDim.
struct DynamicSliceBuilder {
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    const Dims out = DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], in.size(), "start_indices");
    CheckCount(*inputs[2], in.size(), "size_indices");
    std::array<int64_t, kMaxRank> strides = {};
    FillStrides(in, strides);
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t size = ValueAt(*inputs[2], static_cast<int64_t>(i));
      if (size < 0 || size > in[i])
        Fail(TENON_INVALID_ARGUMENT, "a box of size ", size, " in dim ", i, " does not fit the shape ", in);
      if (out.size() != in.size() || size != out[i]) {
        Fail(TENON_INVALID_ARGUMENT, "the box has size ", size, " in dim ", i, "; the output's shape is ", out);
      }
      copy->Offset(WithinDim(ValueAt(*inputs[1], static_cast<int64_t>(i)), size, in[i]) * strides[i], 0);
    }
    AddAll(out, strides.data(), copy);
  }
};

// Inputs: x, update, indices, of which there is one a dim; see WithinDim. What the walk does not reach is x.
struct DynamicUpdateSliceBuilder {
  static constexpr bool kPartial = true;  // the rest of the output is not the walk's
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims whole = DimsOf(output), update = DimsOf(*inputs[1]);
    CheckRank(whole);
    CheckCount(*inputs[2], whole.size(), "indices");
    if (update.size() != whole.size())
      Fail(TENON_INVALID_ARGUMENT, "an update of shape ", update, " for a tensor of shape ", whole,
           ": their ranks must be equal");
    std::array<int64_t, kMaxRank> source = {}, target = {};
    FillStrides(update, source);
    FillStrides(whole, target);
    for (size_t i = 0; i < whole.size(); ++i) {
      if (update[i] > whole[i])
        Fail(TENON_INVALID_ARGUMENT, "an update of shape ", update, " does not fit the shape ", whole);
      copy->Offset(0, WithinDim(ValueAt(*inputs[2], static_cast<int64_t>(i)), update[i], whole[i]) * target[i]);
      copy->Add(update[i], source[i], target[i]);
    }
  }
};

// Inputs: x, axes; negative ones count from the end, and none stands twice.
struct ReverseBuilder {
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    CheckRank(in);
    std::array<int64_t, kMaxRank> strides = {};
    std::array<bool, kMaxRank> reversed = {};
    FillStrides(in, strides);
    const int64_t rank = static_cast<int64_t>(in.size());
    for (int64_t i = 0; i < Count(*inputs[1]); ++i) {
      const int64_t axis = ValueAt(*inputs[1], i);
      const int64_t at = axis < 0 ? axis + rank : axis;
      if (at < 0 || at >= rank || reversed[static_cast<size_t>(at)]) {
        Fail(TENON_INVALID_ARGUMENT, "axis ", axis, " is outside shape ", in, " or named twice");
      }
      const auto d = static_cast<size_t>(at);
      reversed[d] = true;
      if (in[d] > 0) copy->Offset((in[d] - 1) * strides[d], 0);
      strides[d] = -strides[d];
    }
    AddAll(DimsOf(output).size() == in.size() ? in : DimsOf(output), strides.data(), copy);
  }
};

// Inputs: x, perm: dim i of the output is dim perm[i] of x.
struct TransposeBuilder {
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    const Dims out = DimsOf(output);
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
        Fail(TENON_INVALID_ARGUMENT, "perm[", i, "] = ", given, " is no permutation of ", rank, " dims");
      }
      used[static_cast<size_t>(from)] = true;
      steps[static_cast<size_t>(i)] = strides[static_cast<size_t>(from)];
      if (out.size() != in.size() || out[static_cast<size_t>(i)] != in[static_cast<size_t>(from)]) {
        Fail(TENON_INVALID_ARGUMENT, "perm does not take shape ", in, " to ", out);
      }
    }
    AddAll(out, steps.data(), copy);
  }
};

// Shapes alone decide: the output's dim is a multiple of the input's.
struct TileBuilder {
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    const Dims out = DimsOf(output);
    CheckRank(in);
    CheckCount(*inputs[1], in.size(), "multiples");
    std::array<int64_t, kMaxRank> source = {}, target = {};
    FillStrides(in, source);
    FillStrides(out, target);
    for (size_t i = 0; i < in.size(); ++i) {
      const int64_t times = ValueAt(*inputs[1], static_cast<int64_t>(i));
      if (times < 0 || out.size() != in.size() || Multiply(times, in[i]) != out[i]) {
        Fail(TENON_INVALID_ARGUMENT, "multiples[", i, "] = ", times, " does not take shape ", in, " to ", out);
      }
      copy->Add(times, 0, target[i] * in[i]);
      copy->Add(in[i], source[i], target[i]);
    }
  }
};

// Inputs: x, shape.
struct BroadcastToBuilder {
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    const Dims out = DimsOf(output);
    CheckRank(out);
    // The output's shape may come from the input's alone, before the value of the wanted shape was there.
    CheckCount(*inputs[1], out.size(), "shape");
    for (size_t i = 0; i < out.size(); ++i)
      if (const int64_t wanted = ValueAt(*inputs[1], static_cast<int64_t>(i)); wanted != out[i])
        Fail(TENON_INVALID_ARGUMENT, "a tensor of shape ", in, " does not broadcast to a shape whose dim ", i, " is ",
             wanted);
    if (in.size() > out.size()) Fail(TENON_INVALID_ARGUMENT, "shape ", in, " does not broadcast to ", out);
    std::array<int64_t, kMaxRank> source = {}, steps = {};
    FillStrides(in, source);
    const size_t added = out.size() - in.size();
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] != 1 && in[i] != out[added + i]) {
        Fail(TENON_INVALID_ARGUMENT, "shape ", in, " does not broadcast to ", out);
      }
      steps[added + i] = in[i] == 1 ? 0 : source[i];
    }
    AddAll(out, steps.data(), copy);
  }
};

// Inputs: x, paddings of shape [rank, 2]: before and after each dim. What the walk does not reach gets the padding's
// value.
struct PadBuilder {
  static constexpr bool kPartial = true;  // the rest of the output is not the walk's
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims in = DimsOf(*inputs[0]);
    const Dims out = DimsOf(output);
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
        Fail(TENON_INVALID_ARGUMENT, "paddings ", before, " and ", after, " of dim ", i, " do not take shape ", in,
                  " to ", out);
      }
      copy->Offset(0, before * target[i]);
      copy->Add(in[i], source[i], target[i]);
    }
  }
};

// [batch, height, width, channels] to and from [batch, height / block, width / block, block, block, channels].
template <bool kToDepth>
struct DepthBuilder {
  explicit DepthBuilder(CreateContext& c) : block(c.Int("block_size")) {
    if (c.String("data_format") != "NHWC") {
      c.Fail(TENON_UNIMPLEMENTED, "data_format ", c.String("data_format"), "; kernels have NHWC");
    }
  }
  void Build(const tenon_tensor_view* const* inputs, const tenon_tensor_view& output, StridedWalk* copy) const {
    const Dims image = DimsOf(kToDepth ? *inputs[0] : output), deep = DimsOf(kToDepth ? output : *inputs[0]);
    if (image.size() != 4 || deep.size() != 4 || deep[1] * block != image[1] || deep[2] * block != image[2] ||
        deep[3] != image[3] * block * block) {
      Fail(TENON_INVALID_ARGUMENT, "the shapes ", image, " and ", deep, " do not go with blocks of ", block);
    }
    const int64_t pixel = image[3], row = image[2] * pixel, deep_row = deep[2] * deep[3];
    const auto add = [&](int64_t dim, int64_t image_stride, int64_t deep_stride) {
      copy->Add(dim, kToDepth ? image_stride : deep_stride, kToDepth ? deep_stride : image_stride);
    };
    add(image[0], image[1] * row, deep[1] * deep_row);
    add(deep[1], block * row, deep_row);
    add(deep[2], block * pixel, deep[3]);
    add(block, row, block * pixel);
    add(block, pixel, pixel);
    add(pixel, 1, 1);
  }
  int64_t block;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_WALK_SLICES_H_
