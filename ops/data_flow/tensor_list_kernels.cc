// SPDX-License-Identifier: Apache-2.0
// Kernels of lists of tensors. They run on the host, wherever the values come from.
#include <algorithm>
#include <cstring>
#include <optional>

#include "optional.h"
#include "tensor_list.h"
#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

namespace {

// The element type that a node names.
struct TypedList {
  explicit TypedList(CreateContext& c) : dtype(c.Type("element_dtype")) {}
  uint32_t dtype;
};

Component ZerosOf(const RunContext& c, uint32_t dtype, const Shape& shape) {
  if (dtype != TENON_DT_STRING && ElementSize(dtype) == 0)
    Fail(TENON_UNIMPLEMENTED, "an element of ", TypeName(dtype), " that was never set has no zeros");
  return Component::Zeros(c, dtype, shape.dims());
}

// Element `index` as an output, zeros where the place is empty. wanted, ask_elements: see ShapeOfEmpty.
void GiveElement(const RunContext& c, int32_t output, const TensorList& list, int64_t index, const Shape& wanted,
                 bool ask_elements) {
  const tenon_tensor_view element = list.At(index);
  if (element.dtype != TENON_DT_INVALID) return Check(c.services().set_output(c.frame(), output, &element));
  ZerosOf(c, list.type().dtype, list.ShapeOfEmpty(wanted, ask_elements)).Give(c, output);
}

void CheckFits(const TensorList& list, const tenon_tensor_view& element) {
  if (element.dtype != list.type().dtype)
    Fail(TENON_INVALID_ARGUMENT, "the list holds ", TypeName(list.type().dtype), ", not ", TypeName(element.dtype));
  if (!Fits(ShapeOf(element), list.type().element_shape))
    Fail(TENON_INVALID_ARGUMENT, "an element has shape ", ShapeOf(element), "; the list's elements have ",
         list.type().element_shape);
}

void CheckIndex(const TensorList& list, int64_t index) {
  if (index < 0 || index >= list.size())
    Fail(TENON_INVALID_ARGUMENT, "there is no element ", index, " in a list of ", list.size());
}

struct Empty : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const { GiveList(c, 0, {dtype, ShapeOfInput(c, 0), *c.input<int32_t>(1)}, 0); }
};

struct Reserve : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const int64_t size = *c.input<int32_t>(1);
    if (size < 0) Fail(TENON_INVALID_ARGUMENT, "num_elements is ", size);
    GiveList(c, 0, {dtype, ShapeOfInput(c, 0)}, size);
  }
};

struct PushBack : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    CheckFits(list, c.input_view(1));
    if (list.type().max_elements >= 0 && list.size() >= list.type().max_elements)
      Fail(TENON_INVALID_ARGUMENT, "the list is full: it holds ", list.size(), " of at most ", list.type().max_elements,
           " elements");
    const KeptTensor kept = KeptTensor::OfInput(c, 1);
    const tenon_tensor_view element = kept.view();
    list.Derive(0, list.size() + 1, list.size(), &element);
  }
};

struct PopBack : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    if (list.size() == 0) Fail(TENON_INVALID_ARGUMENT, "the list is empty; nothing can be taken from it");
    GiveElement(c, 1, list, list.size() - 1, ShapeOfInput(c, 1), false);
    list.Derive(0, list.size() - 1, 0, nullptr);
  }
};

struct GetItem : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    const int64_t index = *c.input<int32_t>(1);
    CheckIndex(list, index);
    GiveElement(c, 0, list, index, ShapeOfInput(c, 2), true);
  }
};

struct SetItem : TypedList {
  explicit SetItem(CreateContext& c) : TypedList(c), grows(c.Bool("resize_if_index_out_of_bounds")) {}
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    const int64_t index = *c.input<int32_t>(1);
    if (!grows || index < 0) CheckIndex(list, index);
    CheckFits(list, c.input_view(2));
    const KeptTensor kept = KeptTensor::OfInput(c, 2);
    const tenon_tensor_view element = kept.view();
    list.Derive(0, std::max(list.size(), index + 1), index, &element);
  }
  bool grows;
};

struct Length {
  void Run(RunContext c) const {
    *c.output<int32_t>(0) = static_cast<int32_t>(TensorList::OfInput(c, 0, TENON_DT_INVALID).size());
  }
};

struct Resize {
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, TENON_DT_INVALID);
    const int64_t size = *c.input<int32_t>(1);
    if (size < 0) Fail(TENON_INVALID_ARGUMENT, "the size of a list is to be ", size);
    list.Derive(0, size, 0, nullptr);
  }
};

// A vector of dims, -1 where they are not known; the scalar -1 for an unknown rank.
struct ListElementShape {
  explicit ListElementShape(CreateContext& c) : dtype(c.Type("shape_type")) {}
  void Run(RunContext c) const {
    const Shape shape = TensorList::OfInput(c, 0, TENON_DT_INVALID).type().element_shape;
    const std::vector<int64_t> numbers = shape.known_rank() ? shape.dims() : std::vector<int64_t>{-1};
    c.AllocOutput(0, shape.known_rank() ? std::vector<int64_t>{shape.rank()} : std::vector<int64_t>{});
    if (dtype == TENON_DT_INT64) std::copy(numbers.begin(), numbers.end(), c.output<int64_t>(0));
    else std::copy(numbers.begin(), numbers.end(), c.output<int32_t>(0));
  }
  uint32_t dtype;
};

// The elements at `indices` (all of one shape) as the rows of output 0.
void GiveRowsOf(const RunContext& c, const TensorList& list, const std::vector<int64_t>& indices, const Shape& wanted) {
  Shape shape = MergeShapes(list.type().element_shape, wanted, "the list's element shape and the one asked for");
  CheckRoom(c, static_cast<int64_t>(indices.size()), sizeof(tenon_tensor_view));
  std::vector<tenon_tensor_view> rows;
  for (int64_t index : indices) {
    rows.push_back(list.At(index));
    if (rows.back().dtype != TENON_DT_INVALID)
      shape = MergeShapes(shape, ShapeOf(rows.back()), "the shapes of elements that become rows of one tensor");
  }
  if (!shape.fully_known())
    Fail(TENON_INVALID_ARGUMENT, "of ", indices.size(), " elements none was set, and their shape ", shape,
         " is not fully known");
  std::optional<Component> zeros;
  for (tenon_tensor_view& row : rows) {
    if (row.dtype != TENON_DT_INVALID) continue;
    if (!zeros) zeros.emplace(ZerosOf(c, list.type().dtype, shape));
    row = zeros->view();
  }
  GiveJoined(c, 0, list.type().dtype, rows, Join({static_cast<int64_t>(rows.size())}, shape).dims());
}

struct Stack : TypedList {
  explicit Stack(CreateContext& c) : TypedList(c), num_elements(c.Int("num_elements")) {}
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    if (num_elements >= 0 && list.size() != num_elements)
      Fail(TENON_INVALID_ARGUMENT, "a list of ", num_elements, " elements is expected, found one of ", list.size());
    CheckRoom(c, list.size(), sizeof(int64_t));
    std::vector<int64_t> all(static_cast<size_t>(list.size()));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
    GiveRowsOf(c, list, all, ShapeOfInput(c, 1));
  }
  int64_t num_elements;
};

struct GatherRows : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    const std::vector<int64_t> indices = IndicesOf(c, 1);
    for (int64_t index : indices) CheckIndex(list, index);
    GiveRowsOf(c, list, indices, ShapeOfInput(c, 2));
  }
};

struct ConcatRows : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    const Shape whole =
        MergeShapes(list.type().element_shape, ShapeOfInput(c, 1), "the list's element shape and the one asked for");
    if (whole.rank() == 0) Fail(TENON_INVALID_ARGUMENT, "the list's elements are scalars, which have no rows");
    Shape rest = whole.Slice(1);
    std::vector<tenon_tensor_view> parts = list.Elements();
    int64_t common = whole[0];  // how many rows each element has; -2: not all the same
    for (size_t i = 0; i < parts.size(); ++i) {
      const tenon_tensor_view& part = parts[i];
      if (part.dtype == TENON_DT_INVALID) continue;
      if (part.dl.ndim == 0) Fail(TENON_INVALID_ARGUMENT, "element ", i, " is a scalar, which has no rows");
      if (whole[0] >= 0 && whole[0] != part.dl.shape[0])
        Fail(TENON_INVALID_ARGUMENT, "element ", i, " has ", part.dl.shape[0], " rows; the element shape ", whole,
             " says ", whole[0]);
      rest = MergeShapes(rest, ShapeOf(part).Slice(1), "the shapes of the rows of elements");
      common = common == -1 || common == part.dl.shape[0] ? part.dl.shape[0] : -2;
    }
    if (!rest.fully_known())
      Fail(TENON_INVALID_ARGUMENT, "no element of the list was set, and the shape of their rows, ", rest,
           ", is not fully known");
    const std::vector<Component> zeros = FillEmpty(c, common, rest, dtype, &parts);
    std::vector<int64_t> lengths;
    int64_t rows = 0;
    for (const tenon_tensor_view& part : parts) {
      lengths.push_back(part.dl.shape[0]);
      rows += part.dl.shape[0];
    }
    GiveJoined(c, 0, dtype, parts, Join({rows}, rest).dims());
    c.AllocOutput(1, std::vector<int64_t>{static_cast<int64_t>(lengths.size())});
    std::copy(lengths.begin(), lengths.end(), c.output<int64_t>(1));
  }

 private:
  // Zeros for what was never set: with as many rows as leading_dims say, else as all others have.
  static std::vector<Component> FillEmpty(const RunContext& c, int64_t common, const Shape& rest, uint32_t dtype,
                                          std::vector<tenon_tensor_view>* parts) {
    const std::vector<int64_t> leading = IndicesOf(c, 2);
    std::vector<Component> zeros;
    zeros.reserve(parts->size());
    for (size_t i = 0; i < parts->size(); ++i) {
      if ((*parts)[i].dtype != TENON_DT_INVALID) continue;
      const int64_t rows = i < leading.size() ? leading[i] : common;
      if (rows < 0)
        Fail(TENON_INVALID_ARGUMENT, "element ", i,
             " was never set, and neither leading_dims nor the other elements say how many rows it has");
      zeros.push_back(ZerosOf(c, dtype, Join({rows}, rest)));
      (*parts)[i] = zeros.back().view();
    }
    return zeros;
  }
};

void CheckListRows(const Shape& row, const Shape& element_shape) {
  if (!Fits(row, element_shape))
    Fail(TENON_INVALID_ARGUMENT, "the rows of the tensor have shape ", row, "; the list's elements shall have ",
         element_shape);
}

// Rows of a tensor as a list.
struct FromTensor : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const Shape shape = ShapeOfInput(c, 1), tensor = ShapeOf(c.input_view(0));
    if (tensor.rank() == 0) Fail(TENON_INVALID_ARGUMENT, "a scalar has no rows that could be a list");
    CheckListRows(tensor.Slice(1), shape);
    GiveParts(c, {dtype, shape}, std::vector<int64_t>(static_cast<size_t>(tensor[0]), 1), true);
  }
  // The next lengths[i] rows of input 0 as element i; drop: one row each, without its dimension.
  static void GiveParts(const RunContext& c, const ListType& type, const std::vector<int64_t>& lengths, bool drop) {
    const KeptTensor kept = KeptTensor::OfInput(c, 0);
    const tenon_tensor_view from = kept.view();
    const Shape row = ShapeOf(from).Slice(1);
    std::vector<Part> parts;
    int64_t first = 0;
    for (int64_t length : lengths) {
      parts.emplace_back(c, from, first, drop ? row.dims() : Join({length}, row).dims());
      first += length * row.elements();
    }
    GiveList(c, 0, type, ViewsOf(parts));
  }
  static std::vector<tenon_tensor_view> ViewsOf(const std::vector<Part>& parts) {
    std::vector<tenon_tensor_view> views;
    for (const Part& part : parts) views.push_back(part.view());
    return views;
  }
};

struct Split : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const Shape shape = ShapeOfInput(c, 1), tensor = ShapeOf(c.input_view(0));
    if (tensor.rank() == 0) Fail(TENON_INVALID_ARGUMENT, "a scalar has no rows that could be split");
    const std::vector<int64_t> lengths = IndicesOf(c, 2);
    int64_t rows = tensor[0];
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] < 0 || lengths[i] > rows)
        Fail(TENON_INVALID_ARGUMENT, "length ", i, " is ", lengths[i], "; ", rows, " of ", tensor[0], " rows are left");
      rows -= lengths[i];
      if (const Shape part = Join({lengths[i]}, tensor.Slice(1)); !Fits(part, shape))
        Fail(TENON_INVALID_ARGUMENT, "element ", i, " would have shape ", part, "; the list's elements shall have ",
             shape);
    }
    if (rows != 0) Fail(TENON_INVALID_ARGUMENT, "the lengths take ", tensor[0] - rows, " of ", tensor[0], " rows");
    FromTensor::GiveParts(c, {dtype, shape}, lengths, false);
  }
};

// Puts row i of input `input` at indices[i] of the elements, which grow as need be, and keeps the rows while `give`
// gives the list.
template <class Give>
void ScatterRows(const RunContext& c, int32_t input, const std::vector<int64_t>& indices,
                 std::vector<tenon_tensor_view> elements, const Give& give) {
  const Shape tensor = ShapeOf(c.input_view(input)), row = tensor.Slice(1);
  if (tensor.rank() == 0 || tensor[0] != static_cast<int64_t>(indices.size()))
    Fail(TENON_INVALID_ARGUMENT, "a tensor of shape ", tensor, " has not ", indices.size(),
         " rows, one for each index");
  for (int64_t index : indices) {
    if (index < 0) Fail(TENON_INVALID_ARGUMENT, "index ", index, " is negative");
    if (index < static_cast<int64_t>(elements.size())) continue;
    CheckRoom(c, index + 1, sizeof(tenon_tensor_view));
    elements.resize(static_cast<size_t>(index) + 1);
  }
  const KeptTensor kept = KeptTensor::OfInput(c, input);
  std::vector<Part> parts;
  parts.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    parts.emplace_back(c, kept.view(), static_cast<int64_t>(i) * row.elements(), row.dims());
    elements[static_cast<size_t>(indices[i])] = parts[i].view();
  }
  give(elements);
}

struct Scatter : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const Shape shape = ShapeOfInput(c, 2);
    const int64_t size = *c.input<int32_t>(3);
    const std::vector<int64_t> indices = IndicesOf(c, 1);
    if (size < -1) Fail(TENON_INVALID_ARGUMENT, "num_elements is ", size);
    for (int64_t index : indices)
      if (size >= 0 && index >= size) Fail(TENON_INVALID_ARGUMENT, "index ", index, " is outside of a list of ", size);
    CheckListRows(ShapeOf(c.input_view(0)).Slice(1), shape);
    CheckRoom(c, std::max<int64_t>(size, 0), sizeof(tenon_tensor_view));
    const auto give = [&](const std::vector<tenon_tensor_view>& elements) { GiveList(c, 0, {dtype, shape}, elements); };
    ScatterRows(c, 0, indices, std::vector<tenon_tensor_view>(static_cast<size_t>(std::max<int64_t>(size, 0))), give);
  }
};

struct ScatterInto : TypedList {
  using TypedList::TypedList;
  void Run(RunContext c) const {
    const TensorList list = TensorList::OfInput(c, 0, dtype);
    // Rows of another shape than the list's elements are taken, as in TensorFlow: whoever reads them as such finds out.
    const auto give = [&](const std::vector<tenon_tensor_view>& all) { GiveList(c, 0, list.type(), all); };
    ScatterRows(c, 1, IndicesOf(c, 2), list.Elements(), give);
  }
};

// ---- What any numbers have, lists and optionals have too: element by element ----

struct ZerosLikeList {
  void Run(RunContext c) const {
    if (IsOptional(c, 0)) return OfOptional(c);
    const TensorList list = TensorList::OfInput(c, 0, TENON_DT_INVALID);
    std::vector<KeptTensor> zeros;
    std::vector<tenon_tensor_view> elements = list.Elements();
    zeros.reserve(elements.size());
    for (tenon_tensor_view& element : elements)
      if (element.dtype != TENON_DT_INVALID) element = zeros.emplace_back(Zeros(c, element)).view();
    GiveList(c, 0, list.type(), elements);
  }
  // Like nothing there is nothing.
  static void OfOptional(const RunContext& c) {
    auto elements = OptionalOf(c, 0);
    std::vector<KeptTensor> zeros;
    if (elements.has_value()) zeros.reserve(elements->size());
    for (size_t i = 0; elements.has_value() && i < elements->size(); ++i)
      (*elements)[i] = zeros.emplace_back(Zeros(c, (*elements)[i])).view();
    GiveOptional(c, elements);
  }
  static KeptTensor Zeros(const RunContext& c, const tenon_tensor_view& like) {
    if (like.dtype != TENON_DT_STRING && ElementSize(like.dtype) == 0)
      Fail(TENON_UNIMPLEMENTED, "zeros like an element of ", TypeName(like.dtype));
    KeptTensor zeros = NewTensor(c, like.dtype, DimsOf(like));
    std::memset(Data<char>(zeros.view()), 0, like.byte_size);
    return zeros;
  }
};

struct AddLists {
  void Run(RunContext c) const {
    if (IsOptional(c, 0)) return OfOptionals(c);
    std::vector<TensorList> lists;
    ListType type = TensorList::OfInput(c, 0, TENON_DT_INVALID).type();
    for (int32_t i = 0; i < c.input_count(); ++i) {
      lists.push_back(TensorList::OfInput(c, i, type.dtype));
      if (lists[static_cast<size_t>(i)].size() != lists[0].size())
        Fail(TENON_INVALID_ARGUMENT, "lists of ", lists[0].size(), " and ", lists[static_cast<size_t>(i)].size(),
             " elements cannot be added");
      type.element_shape = MergeShapes(type.element_shape, lists[static_cast<size_t>(i)].type().element_shape,
                                       "the element shapes of lists that are added");
    }
    Element sums;
    CheckRoom(c, lists[0].size(), sizeof(tenon_tensor_view));
    std::vector<tenon_tensor_view> elements(static_cast<size_t>(lists[0].size()));
    sums.reserve(elements.size() * (lists.size() - 1));  // views of them stay
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = Sum(c, lists, static_cast<int64_t>(i), &sums);
    GiveList(c, 0, type, elements);
  }
  static void OfOptionals(const RunContext& c) {
    auto elements = OptionalOf(c, 0);
    Element sums;
    if (elements.has_value())
      sums.reserve(elements->size() * static_cast<size_t>(c.input_count()));  // views of them stay
    for (int32_t i = 1; i < c.input_count(); ++i) {
      const auto more = OptionalOf(c, i);
      if (more.has_value() != elements.has_value())
        Fail(TENON_INVALID_ARGUMENT, "optionals cannot be added of which one has a value and another has not");
      if (!more.has_value()) continue;
      if (more->size() != elements->size())
        Fail(TENON_INVALID_ARGUMENT, "optionals of ", elements->size(), " and ", more->size(),
             " tensors cannot be added");
      for (size_t k = 0; k < elements->size(); ++k) {
        tenon_tensor_view& sum = (*elements)[k];
        const tenon_tensor_view& term = (*more)[k];
        if (term.dtype != sum.dtype || ShapeOf(term) != ShapeOf(sum))
          Fail(TENON_INVALID_ARGUMENT, "tensors ", k, " of optionals that are added are ", TypeName(sum.dtype),
               ShapeOf(sum), " and ", TypeName(term.dtype), ShapeOf(term));
        sum = sums.emplace_back(Component::Sum(c, sum, term)).view();
      }
    }
    GiveOptional(c, elements);
  }
  // The sum of the lists' elements `index`, of which those that were never set count as zeros.
  static tenon_tensor_view Sum(const RunContext& c, const std::vector<TensorList>& lists, int64_t index,
                               Element* sums) {
    std::vector<tenon_tensor_view> terms;
    for (const TensorList& list : lists)
      if (const tenon_tensor_view element = list.At(index); element.dtype != TENON_DT_INVALID) terms.push_back(element);
    if (terms.empty()) return {};
    if (terms.size() == 1) return terms[0];
    tenon_tensor_view sum = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) {
      if (ShapeOf(terms[i]) != ShapeOf(terms[0]))
        Fail(TENON_INVALID_ARGUMENT, "elements ", index, " of lists that are added have shapes ", ShapeOf(terms[0]),
             " and ", ShapeOf(terms[i]));
      sum = sums->emplace_back(Component::Sum(c, sum, terms[i])).view();
    }
    return sum;
  }
};

constexpr Traits kListsGive = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL};
constexpr Traits kKeepsFirst = {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = 1};
constexpr Traits kLists = {.flags = 0};
using Variants = Constraints<Allowed<"T", TENON_DT_VARIANT>>;

}  // namespace

TENON_KERNEL(kEmptyTensorListKernel) = Registration<Empty>("EmptyTensorList", kListsGive);
TENON_KERNEL(kTensorListReserveKernel) = Registration<Reserve>("TensorListReserve", kListsGive);
TENON_KERNEL(kTensorListPushBackKernel) = Registration<PushBack>(
    "TensorListPushBack", {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = 2});
TENON_KERNEL(kTensorListPopBackKernel) = Registration<PopBack>("TensorListPopBack", kListsGive);
TENON_KERNEL(kTensorListGetItemKernel) = Registration<GetItem>("TensorListGetItem", kListsGive);
TENON_KERNEL(kTensorListSetItemKernel) = Registration<SetItem>(
    "TensorListSetItem", {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = 4});
TENON_KERNEL(kTensorListLengthKernel) = Registration<Length>("TensorListLength", kLists);
TENON_KERNEL(kTensorListResizeKernel) = Registration<Resize>("TensorListResize", kListsGive);
TENON_KERNEL(kTensorListElementShapeKernel) = Registration<ListElementShape>("TensorListElementShape", kListsGive);
TENON_KERNEL(kTensorListStackKernel) = Registration<Stack>("TensorListStack", kListsGive);
TENON_KERNEL(kTensorListGatherKernel) = Registration<GatherRows>("TensorListGather", kListsGive);
TENON_KERNEL(kTensorListConcatV2Kernel) = Registration<ConcatRows>("TensorListConcatV2", kListsGive);
TENON_KERNEL(kTensorListFromTensorKernel) = Registration<FromTensor>("TensorListFromTensor", kKeepsFirst);
TENON_KERNEL(kTensorListSplitKernel) = Registration<Split>("TensorListSplit", kKeepsFirst);
TENON_KERNEL(kTensorListScatterV2Kernel) = Registration<Scatter>("TensorListScatterV2", kKeepsFirst);
TENON_KERNEL(kTensorListScatterIntoExistingListKernel) = Registration<ScatterInto>(
    "TensorListScatterIntoExistingList", {.flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL, .retained_inputs = 2});
TENON_KERNEL(kZerosLikeListKernel) = Registration<ZerosLikeList>("ZerosLike", {.constraints = Variants::list,
                                                                               .flags = 0,
                                                                               .dynamic_outputs = TENON_DYNAMIC_ALL});
TENON_KERNEL(kAddListsKernel) =
    Registration<AddLists>("AddN", {.constraints = Variants::list, .flags = 0, .dynamic_outputs = TENON_DYNAMIC_ALL});

}  // namespace tenon::ops
