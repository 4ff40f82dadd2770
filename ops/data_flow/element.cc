// SPDX-License-Identifier: Apache-2.0
#include "element.h"

#include <cstring>
#include <span>

#include "tenon/sdk/kernel/element.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/extras/walk/slices.h"

namespace tenon::ops {
using namespace sdk;

std::vector<int64_t> IndicesOf(const RunContext& c, int32_t input) {
  const tenon_tensor_view& view = c.input_view(input);
  std::vector<int64_t> indices(static_cast<size_t>(Count(view)));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = ValueAt(view, static_cast<int64_t>(i));
  return indices;
}

void CheckRoom(const RunContext& c, int64_t count, size_t size) {
  const int64_t bytes[] = {count, static_cast<int64_t>(size)};
  NewTensor(c, TENON_DT_UINT8, bytes);  // which goes at once: where it fits, so does what is to come
}

Component::Component(const RunContext& c, const tenon_tensor_view& batch, int64_t row)
    : Component(c, batch, row * Count(DimsOf(batch).subspan(1)),
                std::vector<int64_t>(batch.dl.shape + 1, batch.dl.shape + batch.dl.ndim)) {}

static KeptTensor CopyOfRow(const RunContext& c, const tenon_tensor_view& from, int64_t first, Dims dims) {
  return CopyPart([&c](uint32_t dtype, Dims of, uint64_t extra_bytes) { return NewTensor(c, dtype, of, extra_bytes); },
                  from, first, dims);
}

Component::Component(const RunContext& c, const tenon_tensor_view& from, int64_t first,
                     const std::vector<int64_t>& dims)
    : kept_(CopyOfRow(c, from, first, dims)) {}

Component Component::Zeros(const RunContext& c, uint32_t dtype, const std::vector<int64_t>& dims) {
  KeptTensor zeros = NewTensor(c, dtype, dims);
  if (zeros.view().byte_size != 0) std::memset(Data<char>(zeros.view()), 0, zeros.view().byte_size);
  return Component(std::move(zeros));
}

Component Component::Sum(const RunContext& c, const tenon_tensor_view& a, const tenon_tensor_view& b) {
  KeptTensor sum = NewTensor(c, a.dtype, DimsOf(a));
  const auto add = [&]<class T>(uint64_t count) {
    T* to = Data<T>(sum.view());
    for (uint64_t i = 0; i < count; ++i) to[i] = static_cast<T>(Data<const T>(a)[i] + Data<const T>(b)[i]);
  };
  // Complex numbers are added by their parts.
  if (a.dtype == TENON_DT_COMPLEX64) add.operator()<float>(a.byte_size / sizeof(float));
  else if (a.dtype == TENON_DT_COMPLEX128) add.operator()<double>(a.byte_size / sizeof(double));
  else
    Numbers::Dispatch(a.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      add.template operator()<T>(a.byte_size / sizeof(T));
    });
  return Component(std::move(sum));
}

void Component::Give(const RunContext& c, int32_t index) const {
  const tenon_tensor_view from = view();
  Check(c.services().set_output(c.frame(), index, &from));
}

namespace {

void GiveStringRows(const RunContext& c, int32_t index, const std::vector<Element>& elements, Dims row, Dims all) {
  std::vector<std::string_view> texts(static_cast<size_t>(Count(all)));
  for (size_t i = 0; i < elements.size(); ++i) {
    const tenon_tensor_view from = elements[i][static_cast<size_t>(index)].view();
    ForEachRun(DimsOf(from), row, 0, static_cast<int64_t>(i) * Count(row),
               [&](int64_t source, int64_t target, int64_t count) {
                 for (int64_t k = 0; k < count; ++k)
                   texts[static_cast<size_t>(target + k)] = StringAt(from, source + k);
               });
  }
  SetStrings(c, index, all, texts);
}

}  // namespace

void GiveRows(const RunContext& c, int32_t index, uint32_t dtype, const std::vector<Element>& elements,
              const std::vector<int64_t>& shape) {
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
      if (count != 0)
        std::memcpy(to + target * size, Data<const char>(from) + source * size, static_cast<size_t>(count * size));
    });
  }
}

void GiveJoined(const RunContext& c, int32_t index, uint32_t dtype, const std::vector<tenon_tensor_view>& tensors,
                Dims dims) {
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
