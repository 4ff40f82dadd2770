// SPDX-License-Identifier: Apache-2.0
#include "element.h"

#include <cstring>
#include <span>

#include "tenon/sdk/element.h"
#include "tenon/sdk/string_tensor.h"

namespace tenon::ops {
using namespace sdk;

bool Fits(const Shape& shape, const Shape& wanted) {
  if (!wanted.known_rank()) return true;
  bool fits = shape.rank() == wanted.rank();
  for (int i = 0; fits && i < shape.rank(); ++i) fits = wanted[i] < 0 || wanted[i] == shape[i];
  return fits;
}

std::vector<int64_t> IndicesOf(const RunContext& c, int32_t input) {
  const tenon_tensor_view& view = c.input_view(input);
  std::vector<int64_t> indices(static_cast<size_t>(Count(view)));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = IndexAt(Data<const char>(view), view.dtype, static_cast<int64_t>(i));
  return indices;
}

void Component::Own(uint32_t dtype, uint64_t bytes, uint64_t extra) {
  bytes_ = std::make_unique_for_overwrite<char[]>(bytes + extra);
  copied_.dtype = dtype;
  copied_.byte_size = bytes;
  copied_.dl.data = bytes_.get();
  copied_.dl.ndim = static_cast<int32_t>(dims_.size());
}

Component::Component(const tenon_tensor_view& batch, int64_t row)
    : Component(batch, row * Count(DimsOf(batch).subspan(1)), std::vector<int64_t>(batch.dl.shape + 1, batch.dl.shape + batch.dl.ndim)) {}

Component::Component(const tenon_tensor_view& from, int64_t first, std::vector<int64_t> dims) : copied_(from), dims_(std::move(dims)) {
  copied_.buffer = nullptr;
  copied_.dl.byte_offset = 0;
  const int64_t count = Count(Dims(dims_));
  uint64_t extra = 0;
  const bool strings = from.dtype == TENON_DT_STRING;
  if (strings)
    for (int64_t i = 0; i < count; ++i) extra += StringAt(from, first + i).size();
  const uint64_t size = strings ? sizeof(tenon_string_cell) : ElementSize(from.dtype);
  const uint64_t bytes = static_cast<uint64_t>(count) * size;
  Own(from.dtype, bytes, extra);
  if (strings) {
    auto* cells = reinterpret_cast<tenon_string_cell*>(bytes_.get());
    uint64_t offset = bytes;
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = StringAt(from, first + i);
      cells[i] = {offset, text.size()};
      if (!text.empty()) std::memcpy(bytes_.get() + offset, text.data(), text.size());
      offset += text.size();
    }
  } else if (bytes != 0) {
    std::memcpy(bytes_.get(), Data<const char>(from) + static_cast<uint64_t>(first) * size, bytes);
  }
}

Component Component::Zeros(uint32_t dtype, std::vector<int64_t> dims) {
  Component zeros;
  zeros.dims_ = std::move(dims);
  const uint64_t size = dtype == TENON_DT_STRING ? sizeof(tenon_string_cell) : ElementSize(dtype);
  const uint64_t bytes = static_cast<uint64_t>(Count(Dims(zeros.dims_))) * size;
  zeros.Own(dtype, bytes, 0);
  std::memset(zeros.bytes_.get(), 0, bytes);
  return zeros;
}

void Component::Add(const tenon_tensor_view& more) {
  if (kept_) {
    Component own(kept_->view(), 0, std::vector<int64_t>(more.dl.shape, more.dl.shape + more.dl.ndim));
    *this = std::move(own);
  }
  const auto add = [&]<class T>(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) reinterpret_cast<T*>(bytes_.get())[i] = static_cast<T>(reinterpret_cast<T*>(bytes_.get())[i] + Data<const T>(more)[i]);
  };
  // Complex numbers are added by their parts.
  if (more.dtype == TENON_DT_COMPLEX64) return add.operator()<float>(more.byte_size / sizeof(float));
  if (more.dtype == TENON_DT_COMPLEX128) return add.operator()<double>(more.byte_size / sizeof(double));
  Numbers::Dispatch(more.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    add.template operator()<T>(more.byte_size / sizeof(T));
  });
}

tenon_tensor_view Component::view() const {
  if (kept_) return kept_->view();
  tenon_tensor_view view = copied_;
  view.dl.shape = const_cast<int64_t*>(dims_.data());
  return view;
}

void Component::Give(const RunContext& c, int32_t index) const {
  const tenon_tensor_view from = view();
  if (from.buffer != nullptr) return Check(c.services().set_output(c.frame(), index, &from));
  if (from.dtype == TENON_DT_STRING) return SetStrings(c, index, DimsOf(from), StringsOf(from));
  c.AllocOutput(index, DimsOf(from));
  if (from.byte_size != 0) std::memcpy(c.output<char>(index), Data<const char>(from), from.byte_size);
}

namespace {

// Calls function(source, target, count) for each run of elements that lies together in both, where a box of shape `inner` stands
// in the corner of one of shape `outer`; positions are elements from the first.
template <class Function>
void ForEachRun(std::span<const int64_t> inner, std::span<const int64_t> outer, int64_t source, int64_t target, const Function& function) {
  if (std::equal(inner.begin(), inner.end(), outer.begin())) return function(source, target, Count(inner));
  const int64_t source_step = Count(inner.subspan(1)), target_step = Count(outer.subspan(1));
  for (int64_t i = 0; i < inner[0]; ++i)
    ForEachRun(inner.subspan(1), outer.subspan(1), source + i * source_step, target + i * target_step, function);
}

void GiveStringRows(const RunContext& c, int32_t index, const std::vector<Element>& elements, Dims row, Dims all) {
  std::vector<std::string_view> texts(static_cast<size_t>(Count(all)));
  for (size_t i = 0; i < elements.size(); ++i) {
    const tenon_tensor_view from = elements[i][static_cast<size_t>(index)].view();
    ForEachRun(DimsOf(from), row, 0, static_cast<int64_t>(i) * Count(row), [&](int64_t source, int64_t target, int64_t count) {
      for (int64_t k = 0; k < count; ++k) texts[static_cast<size_t>(target + k)] = StringAt(from, source + k);
    });
  }
  SetStrings(c, index, all, texts);
}

}  // namespace

void GiveRows(const RunContext& c, int32_t index, uint32_t dtype, const std::vector<Element>& elements, const std::vector<int64_t>& shape) {
  std::vector<int64_t> all = {static_cast<int64_t>(elements.size())};
  all.insert(all.end(), shape.begin(), shape.end());
  if (dtype == TENON_DT_STRING) return GiveStringRows(c, index, elements, shape, all);
  c.AllocOutput(index, all);
  const auto size = static_cast<int64_t>(ElementSize(dtype));
  const int64_t row_bytes = Count(Dims(shape)) * size;
  char* to = c.output<char>(index);
  for (size_t i = 0; i < elements.size(); ++i, to += row_bytes) {
    const tenon_tensor_view from = elements[i][static_cast<size_t>(index)].view();
    if (static_cast<int64_t>(from.byte_size) != row_bytes) std::memset(to, 0, static_cast<size_t>(row_bytes));
    ForEachRun(DimsOf(from), shape, 0, 0, [&](int64_t source, int64_t target, int64_t count) {
      if (count != 0) std::memcpy(to + target * size, Data<const char>(from) + source * size, static_cast<size_t>(count * size));
    });
  }
}

void GiveJoined(const RunContext& c, int32_t index, uint32_t dtype, const std::vector<tenon_tensor_view>& tensors, Dims dims) {
  if (dtype == TENON_DT_STRING) {
    std::vector<std::string_view> texts;
    for (const tenon_tensor_view& tensor : tensors)
      for (const std::string_view text : StringsOf(tensor)) texts.push_back(text);
    return SetStrings(c, index, dims, texts);
  }
  if (ElementSize(dtype) == 0) Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be joined");
  c.AllocOutput(index, dims);
  char* to = c.output<char>(index);
  for (const tenon_tensor_view& tensor : tensors) {
    if (tensor.byte_size != 0) std::memcpy(to, Data<const char>(tensor), tensor.byte_size);
    to += tensor.byte_size;
  }
}

}  // namespace tenon::ops
