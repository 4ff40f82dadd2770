// SPDX-License-Identifier: Apache-2.0
#include "tensor_list.h"

#include <cstring>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

std::string ListType::Encode() const {
  std::string bytes;
  const auto put = [&](int64_t number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof number); };
  put(dtype);
  put(max_elements);
  put(element_shape.rank());
  for (int64_t dim : element_shape.dims()) put(dim);
  return bytes;
}

ListType ListType::Decode(std::string_view bytes) {
  const auto at = [&](size_t index) {
    int64_t number = 0;
    if (bytes.size() / sizeof number <= index)
      Fail(TENON_INVALID_ARGUMENT, "the metadata of a list end after ", bytes.size(), " bytes");
    std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
    return number;
  };
  ListType type;
  type.dtype = static_cast<uint32_t>(at(0));
  type.max_elements = at(1);
  if (at(2) < 0) return type;
  if (at(2) > TENON_MAX_RANK)
    Fail(TENON_INVALID_ARGUMENT, "the elements of a list have ", at(2), " dims; at most ", TENON_MAX_RANK,
         " are possible");
  std::vector<int64_t> dims(static_cast<size_t>(at(2)));
  for (size_t i = 0; i < dims.size(); ++i)
    if ((dims[i] = at(3 + i)) < -1) Fail(TENON_INVALID_ARGUMENT, "a dim of a list's elements is ", dims[i]);
  type.element_shape = Shape(std::move(dims));
  return type;
}

TensorList TensorList::OfInput(const RunContext& c, int32_t input, uint32_t dtype) {
  const tenon_tensor_view& view = c.input_view(input);
  if (view.dl.ndim != 0)
    Fail(TENON_INVALID_ARGUMENT, "input ", input, " must be one list; its shape is ", DimsOf(view));
  TensorList list(c);
  list.variant_ = VariantOf(view);
  tenon_variant_info info{};
  if (list.variant_ != nullptr) c.services().variant_info(list.variant_, &info);
  if (ToText(info.type) != kListType)
    Fail(TENON_INVALID_ARGUMENT, "input ", input, " is no list of tensors, but ",
         list.variant_ == nullptr ? "an empty variant" : ToText(info.type));
  list.type_ = ListType::Decode(ToText(info.metadata));
  list.size_ = static_cast<int64_t>(info.element_count);
  if (dtype != TENON_DT_INVALID && dtype != list.type_.dtype)
    Fail(TENON_INVALID_ARGUMENT, "the list holds ", TypeName(list.type_.dtype), ", not ", TypeName(dtype));
  return list;
}

tenon_tensor_view TensorList::At(int64_t index) const {
  tenon_tensor_view element{};
  c_.services().variant_element(variant_, static_cast<uint64_t>(index), &element);
  return element;
}

std::vector<tenon_tensor_view> TensorList::Elements() const {
  CheckRoom(c_, size_, sizeof(tenon_tensor_view));
  std::vector<tenon_tensor_view> elements(static_cast<size_t>(size_));
  for (int64_t i = 0; i < size_; ++i) elements[static_cast<size_t>(i)] = At(i);
  return elements;
}

Shape TensorList::ShapeOfEmpty(const Shape& wanted, bool ask_elements) const {
  Shape shape = MergeShapes(type_.element_shape, wanted, "the list's element shape and the one asked for");
  const bool asks = ask_elements && !shape.fully_known();
  for (const tenon_tensor_view& element : asks ? Elements() : std::vector<tenon_tensor_view>()) {
    if (element.dtype != TENON_DT_INVALID) shape = MergeShapes(shape, ShapeOf(element), "the shapes of elements");
  }
  if (!shape.fully_known())
    Fail(TENON_INVALID_ARGUMENT, "an element that was never set is read, and its shape ", shape, " is not fully known");
  return shape;
}

void TensorList::Derive(int32_t output, int64_t size, int64_t index, const tenon_tensor_view* element) const {
  tenon_variant* made = nullptr;
  Check(c_.services().variant_derive(c_.frame(), variant_, {nullptr, 0}, static_cast<uint64_t>(size),
                                     static_cast<uint64_t>(index), element, &made));
  SetVariant(c_, output, made);
}

static void Give(const RunContext& c, int32_t output, const ListType& type, const tenon_tensor_view* elements,
                 uint64_t count) {
  tenon_variant* made = nullptr;
  Check(c.services().variant_new(c.frame(), ToSpan(kListType), ToSpan(type.Encode()), elements, count, &made));
  SetVariant(c, output, made);
}

void GiveList(const RunContext& c, int32_t output, const ListType& type, int64_t size) {
  Give(c, output, type, nullptr, static_cast<uint64_t>(size));
}

void GiveList(const RunContext& c, int32_t output, const ListType& type,
              const std::vector<tenon_tensor_view>& elements) {
  Give(c, output, type, elements.empty() ? nullptr : elements.data(), elements.size());
}

Part::Part(const RunContext& c, const tenon_tensor_view& from, int64_t first, std::vector<int64_t> dims)
    : dims_(std::move(dims)) {
  const int64_t count = Count(Dims(dims_));
  if (PackedBits(from.dtype) != 0)
    Fail(TENON_UNIMPLEMENTED, "a part of a tensor of ", TypeName(from.dtype), ", whose elements share bytes");
  if (from.dtype != TENON_DT_STRING) {
    const bool plain = ElementSize(from.dtype) != 0;
    const auto size =
        static_cast<int64_t>(plain ? ElementSize(from.dtype) : sizeof(void*));  // handles and variants are pointers
    shared_ = from;
    shared_.dl.ndim = static_cast<int32_t>(dims_.size());
    shared_.dl.byte_offset += static_cast<uint64_t>(first * size);
    shared_.byte_size = static_cast<uint64_t>(count * size);
    return;
  }
  std::vector<std::string_view> texts;
  for (int64_t i = 0; i < count; ++i) texts.push_back(StringAt(from, first + i));
  copied_.emplace(NewStrings(c, Dims(dims_), texts));
}

tenon_tensor_view Part::view() const {
  if (copied_) return copied_->view();
  tenon_tensor_view view = shared_;
  view.dl.shape = const_cast<int64_t*>(dims_.data());
  return view;
}

Shape ShapeOfInput(const RunContext& c, int32_t input) {
  const tenon_tensor_view& view = c.input_view(input);
  if (view.dl.ndim > 1)
    Fail(TENON_INVALID_ARGUMENT, "a shape must be a vector, or -1; found a tensor of rank ", view.dl.ndim);
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < Count(view); ++i)
    dims.push_back(view.dtype == TENON_DT_INT64 ? c.input<int64_t>(input)[i] : c.input<int32_t>(input)[i]);
  if (view.dl.ndim == 0) {
    if (dims[0] != -1)
      Fail(TENON_INVALID_ARGUMENT, "the only scalar that is a shape is -1 (any rank); found ", dims[0]);
    return Shape();
  }
  if (dims.size() > TENON_MAX_RANK)
    Fail(TENON_INVALID_ARGUMENT, "a shape of ", dims.size(), " dims; at most ", TENON_MAX_RANK, " are possible");
  for (int64_t dim : dims)
    if (dim < -1) Fail(TENON_INVALID_ARGUMENT, "the shape ", dims, " has a dim below -1");
  return Shape(std::move(dims));
}

Shape MergeShapes(const Shape& a, const Shape& b, std::string_view what) {
  if (!a.known_rank()) return b;
  if (!b.known_rank()) return a;
  Shape merged = a;
  bool fit = a.rank() == b.rank();
  for (int i = 0; fit && i < a.rank(); ++i) {
    fit = a[i] < 0 || b[i] < 0 || a[i] == b[i];
    if (a[i] < 0) merged.Set(i, b[i]);
  }
  if (!fit) Fail(TENON_INVALID_ARGUMENT, what, " do not fit: ", a, " and ", b);
  return merged;
}

}  // namespace tenon::ops
