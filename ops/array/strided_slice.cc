// SPDX-License-Identifier: Apache-2.0
// StridedSlice, its gradient, and assignments to slices of variables: a[begin:end:stride, ...] with Python's meaning,
// as masks.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// What the masks say of position i of the sparse specification.
struct Masks {
  uint64_t begin, end, ellipsis, new_axis, shrink;
  static bool Has(uint64_t mask, size_t i) { return i < 64 && ((mask >> i) & 1) != 0; }
};

Masks ReadMasks(ShapeContext& c) {
  const auto mask = [&](std::string_view name) { return static_cast<uint64_t>(c.Int(name)); };
  return {mask("begin_mask"), mask("end_mask"), mask("ellipsis_mask"), mask("new_axis_mask"), mask("shrink_axis_mask")};
}

// One dim of the input as the specification, spread over all dims, treats it.
struct DenseEntry {
  bool whole = false;   // no entry: the dim passes through
  bool shrink = false;  // an index: the dim disappears
  bool begin_masked = false, end_masked = false;
  int sparse = -1;  // position in begin, end, strides
};

// How many elements begin:end:stride takes of a dim. All known; stride not 0.
int64_t Count(int64_t dim, int64_t stride, int64_t begin, int64_t end, const DenseEntry& entry) {
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? dim : dim - 1;
  const auto wrapped = [&](int64_t index) {
    const int64_t positive = index < 0 ? (index < -dim ? low : index + dim) : index;
    return std::clamp(positive, low, high);
  };
  const int64_t from = entry.begin_masked ? (stride > 0 ? low : high) : wrapped(begin);
  const int64_t to = entry.end_masked ? (stride > 0 ? high : low) : wrapped(end);
  const int64_t span = stride > 0 ? to - from : from - to;
  if (span <= 0) return 0;
  // -(stride + 1) cannot overflow where -stride would.
  const uint64_t step = stride > 0 ? static_cast<uint64_t>(stride) : static_cast<uint64_t>(-(stride + 1)) + 1;
  return static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / step + 1);
}

}  // namespace

// The shape of input[begin:end:strides], where begin is input number `first` of the node.
static Shape SlicedShape(ShapeContext& c, const Shape& input, int first) {
  const Masks masks = ReadMasks(c);
  const int64_t length =
      c.Merge(c.Merge(c.WithRank(first, 1)[0], c.WithRank(first + 1, 1)[0], "the lengths of begin and end"),
              c.WithRank(first + 2, 1)[0], "the lengths of begin and strides");
  const auto begin = c.Integers(first), end = c.Integers(first + 1), strides = c.Integers(first + 2);
  if (strides.has_value()) {
    for (int64_t stride : *strides) {
      if (stride == 0) c.Invalid("strides ", *strides, " has a 0");
    }
  }
  if (!c.ok() || length < 0 || !input.known_rank()) return Shape();
  if (length >= 32) {
    c.Invalid("a slice of ", length, " positions; 31 is the most that the masks can describe");
    return Shape();
  }
  const size_t count = static_cast<size_t>(length);

  // The ellipsis (or the end) stands for the dims that no other position names.
  int ellipses = 0, consumed = 0;
  for (size_t i = 0; i < count; ++i) {
    if (Masks::Has(masks.ellipsis, i)) {
      ++ellipses;
    } else if (!Masks::Has(masks.new_axis, i)) {
      ++consumed;
    }
  }
  if (ellipses > 1) {
    c.Invalid("a slice may have one ellipsis; ellipsis_mask has ", ellipses);
    return Shape();
  }
  if (consumed > input.rank()) {
    c.Invalid("a slice with ", consumed, " indices does not fit the shape ", input);
    return Shape();
  }
  const int passed = input.rank() - consumed;

  Shape out = Shape::Scalar();
  int dim = 0;
  const auto pass = [&] {
    for (int i = 0; i < passed; ++i) out.Append(input[dim++]);
  };
  for (size_t i = 0; i < count; ++i) {
    if (Masks::Has(masks.ellipsis, i)) {
      pass();
      continue;
    }
    if (Masks::Has(masks.new_axis, i)) {
      out.Append(1);
      continue;
    }
    const int64_t size = input[dim++];
    DenseEntry entry;
    entry.shrink = Masks::Has(masks.shrink, i);
    entry.begin_masked = Masks::Has(masks.begin, i);
    entry.end_masked = Masks::Has(masks.end, i);
    if (entry.shrink) {
      if (strides.has_value() && (*strides)[i] < 0) {
        c.Invalid("an index with the negative stride ", (*strides)[i], "; only slices may step backwards");
      } else if (begin.has_value() && size >= 0 && ((*begin)[i] < -size || (*begin)[i] >= size)) {
        c.Invalid("index ", (*begin)[i], " is outside of dim ", dim - 1, " of ", input);
      }
      continue;
    }
    const bool begin_known = entry.begin_masked || begin.has_value();
    const bool end_known = entry.end_masked || end.has_value();
    if (size < 0 || !strides.has_value() || !begin_known || !end_known) {
      out.Append(size >= 0 && entry.begin_masked && entry.end_masked && strides.has_value()
                     ? Count(size, (*strides)[i], 0, 0, entry)
                     : kUnknown);
      continue;
    }
    out.Append(Count(size, (*strides)[i], begin.has_value() ? (*begin)[i] : 0, end.has_value() ? (*end)[i] : 0, entry));
  }
  if (ellipses == 0) pass();
  return out;
}

// Of a list of sizes: those that are taken.
static void SliceElements(ShapeContext& c, const Shape& sliced) {
  const auto elements = c.Elements(0);
  const auto begin = c.Integers(1), strides = c.Integers(3);
  const Masks masks = ReadMasks(c);
  if (!elements.has_value() || c.Input(0).rank() != 1 || !begin.has_value() || !strides.has_value() ||
      begin->size() != 1 || strides->size() != 1 || (masks.ellipsis | masks.new_axis) != 0)
    return;
  const int64_t count = sliced.elements(), size = static_cast<int64_t>(elements->size()), stride = (*strides)[0];
  const int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const bool from_end = Masks::Has(masks.begin, 0) && !Masks::Has(masks.shrink, 0);
  const int64_t wrapped = (*begin)[0] < 0 ? ((*begin)[0] < -size ? low : (*begin)[0] + size) : (*begin)[0];
  const int64_t first = from_end ? (stride > 0 ? low : high) : std::clamp(wrapped, low, high);
  std::vector<int64_t> taken;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;  // a stride may be any number
    if (__builtin_mul_overflow(i, stride, &at) || __builtin_add_overflow(at, first, &at) || at < 0 || at >= size)
      return;
    taken.push_back((*elements)[static_cast<size_t>(at)]);
  }
  c.SetElements(0, taken);
}

static void StridedSliceShape(ShapeContext& c) {
  const Shape sliced = SlicedShape(c, c.Input(0), 1);
  c.SetOutput(0, sliced);
  if (sliced.fully_known()) SliceElements(c, sliced);
}

static std::vector<Attribute> SameMasks(GradientContext& g) {
  std::vector<Attribute> attributes;
  for (const char* name : {"begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"}) {
    attributes.emplace_back(name, g.Int(name));
  }
  return attributes;
}

static void StridedSliceGradient(GradientContext& g) {
  uint32_t index = g.type(g.input(1));
  std::vector<Output> bounds = {g.input(1), g.input(2), g.input(3)};
  if (index != TENON_DT_INT64 && index != TENON_DT_INT32) {  // StridedSliceGrad knows no int16
    index = TENON_DT_INT32;
    for (Output& bound : bounds) bound = g.Cast(bound, index);
  }
  g.SetDx(0, g.Op("StridedSliceGrad", {g.ShapeOf(g.input(0), index), bounds[0], bounds[1], bounds[2], g.dy(0)},
                  SameMasks(g)));
}

TENON_OP(kStridedSlice) = DefineOp({
    .name = "StridedSlice",
    .inputs = "input: T, begin: Index, end: Index, strides: Index",
    .outputs = "output: T",
    .attrs = "T: type; Index: {int16, int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "
             "new_axis_mask: int = 0; shrink_axis_mask: int = 0",
    .constraints = "rank(begin) == 1; rank(end) == 1; rank(strides) == 1; dim(begin, 0) == dim(end, 0); "
                   "dim(begin, 0) == dim(strides, 0); value(strides) != 0",
    .roles = "strided_slice",
    .doc = "input[begin:end:strides] as Python slices arrays; the masks say which positions leave out begin or "
           "end, are the ellipsis, add a dim, or are an index.",
    .properties = "moves(input), fits_half",
    .shape = ShapeFunction<StridedSliceShape>,
    .gradient = GradientFunction<StridedSliceGradient>,
});

static void StridedSliceGradShape(ShapeContext& c) {
  c.WithRank(0, 1);
  const Shape shape = c.InputAsShape(0);
  c.Merge(SlicedShape(c, shape, 1), c.Input(4), "the sliced shape and dy's shape");
  c.SetOutput(0, shape);
}

static void StridedSliceGradGradient(GradientContext& g) {
  g.SetDx(4, g.Op("StridedSlice", {g.dy(0), g.input(1), g.input(2), g.input(3)}, SameMasks(g)));
}

TENON_OP(kStridedSliceGrad) = DefineOp({
    .name = "StridedSliceGrad",
    .inputs = "shape: Index, begin: Index, end: Index, strides: Index, dy: T",
    .outputs = "output: T",
    .attrs = "T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; "
             "new_axis_mask: int = 0; shrink_axis_mask: int = 0",
    .constraints = "rank(shape) == 1; value(shape) >= 0; rank(begin) == 1; rank(end) == 1; rank(strides) == 1; "
                   "dim(begin, 0) == dim(end, 0); dim(begin, 0) == dim(strides, 0); value(strides) != 0",
    .doc = "Zeros of the given shape with dy written where StridedSlice would have read.",
    .properties = "moves(dy)",
    .shape = ShapeFunction<StridedSliceGradShape>,
    .gradient = GradientFunction<StridedSliceGradGradient>,
});

// Of variables. What is assigned broadcasts to the slice.
constexpr const char* kMaskAttrs =
    "T: type; Index: {int32, int64}; begin_mask: int = 0; end_mask: int = 0; ellipsis_mask: int = 0; new_axis_mask: "
    "int = 0; shrink_axis_mask: int = 0";
constexpr const char* kBoundConstraints =
    "rank(begin) == 1; rank(end) == 1; rank(strides) == 1; dim(begin, 0) == dim(end, 0); dim(begin, 0) == dim(strides, "
    "0); value(strides) != 0";

static void StridedSliceAssignShape(ShapeContext& c) {
  const Shape shape = c.Input(0);
  SlicedShape(c, shape, 1);
  c.SetOutput(0, shape);
  c.SetOutputHandle(0, shape, c.input_type(0));
}

TENON_OP(kStridedSliceAssign) = DefineOp({
    .name = "StridedSliceAssign",
    .inputs = "ref: Ref(T), begin: Index, end: Index, strides: Index, value: T",
    .outputs = "output_ref: Ref(T)",
    .attrs = kMaskAttrs,
    .constraints = kBoundConstraints,
    .doc = "Writes value, which broadcasts, where StridedSlice of the variable would read.",
    .traits = TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<StridedSliceAssignShape>,
});

static void ResourceStridedSliceAssignShape(ShapeContext& c) {
  const ShapeContext::Handle handle = c.InputHandle(0);
  if (handle.dtype != TENON_DT_INVALID && handle.dtype != c.Type("T"))
    return c.Invalid("the variable is of ", TypeName(handle.dtype), ", not ", TypeName(c.Type("T")));
  SlicedShape(c, handle.shape, 1);
}

TENON_OP(kResourceStridedSliceAssign) = DefineOp({
    .name = "ResourceStridedSliceAssign",
    .inputs = "ref: resource, begin: Index, end: Index, strides: Index, value: T",
    .attrs = kMaskAttrs,
    .constraints = kBoundConstraints,
    .doc = "Writes value, which broadcasts, where StridedSlice of the variable would read.",
    .traits = TENON_OP_STATEFUL | TENON_OP_WRITES_STATE | TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ResourceStridedSliceAssignShape>,
});

}  // namespace tenon::ops
