// SPDX-License-Identifier: Apache-2.0
#include "base/element.h"

#include <algorithm>
#include <string>

#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {
using namespace sdk;

Element Share(const Element& element) {
  Element shared;
  shared.reserve(element.size());
  for (const KeptTensor& tensor : element) shared.push_back(tensor.Share());
  return shared;
}

KeptTensor NewStrings(const Work& work, Dims dims, std::span<const std::string_view> texts) {
  KeptTensor tensor = work.NewTensor(TENON_DT_STRING, dims, sdk::BytesOf(texts));
  WriteStrings(Data<char>(tensor.view()), texts);
  return tensor;
}

KeptTensor NewString(const Work& work, std::string_view text) { return NewStrings(work, {}, {&text, 1}); }

static KeptTensor ElementPart(const Work& work, const tenon_tensor_view& batch, int64_t first, Dims dims) {
  return CopyPart(
      [&work](uint32_t dtype, Dims of, uint64_t extra_bytes) { return work.NewTensor(dtype, of, extra_bytes); }, batch,
      first, dims);
}

void CopyVariants(const Work& work, const tenon_tensor_view& from, int64_t first, int64_t count, tenon_variant** to) {
  if (!TENON_CALLABLE(&work.services(), variant_retain))
    Fail(TENON_UNIMPLEMENTED, "this host retains no variants, which rows of variants need");
  for (int64_t i = 0; i < count; ++i) {
    to[i] = Data<tenon_variant* const>(from)[first + i];
    if (to[i] != nullptr) work.services().variant_retain(to[i]);
  }
}

KeptTensor RowOf(const Work& work, const tenon_tensor_view& batch, int64_t row) {
  const Dims dims = DimsOf(batch).subspan(1);
  if (batch.dtype == TENON_DT_VARIANT) {
    KeptTensor cells = work.NewTensor(TENON_DT_VARIANT, dims);
    CopyVariants(work, batch, row * Count(dims), Count(dims), Data<tenon_variant*>(cells.view()));
    return cells;
  }
  return ElementPart(work, batch, row * Count(dims), dims);
}

KeptTensor RowsOf(const Work& work, const tenon_tensor_view& batch, int64_t first, int64_t count) {
  std::vector<int64_t> dims(batch.dl.shape, batch.dl.shape + batch.dl.ndim);
  dims[0] = count;
  return ElementPart(work, batch, first * Count(Dims(dims).subspan(1)), dims);
}

KeptTensor Join(const Work& work, std::span<const tenon_tensor_view> parts) {
  std::vector<int64_t> dims(parts[0].dl.shape, parts[0].dl.shape + parts[0].dl.ndim);
  dims[0] = 0;
  for (const tenon_tensor_view& part : parts) dims[0] += part.dl.shape[0];
  if (parts[0].dtype == TENON_DT_STRING) {
    std::vector<std::string_view> texts;
    texts.reserve(static_cast<size_t>(Count(Dims(dims))));
    for (const tenon_tensor_view& part : parts)
      for (const std::string_view text : StringsOf(part)) texts.push_back(text);
    return NewStrings(work, dims, texts);
  }
  const uint64_t size = ElementSize(parts[0].dtype);
  if (size == 0) Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(parts[0].dtype), " cannot be made one batch");
  KeptTensor joined = work.NewTensor(parts[0].dtype, dims);
  char* to = Data<char>(joined.view());
  for (const tenon_tensor_view& part : parts) {
    const uint64_t bytes = static_cast<uint64_t>(Count(part)) * size;
    if (bytes != 0) std::memcpy(to, Data<const char>(part), bytes);
    to += bytes;
  }
  return joined;
}

namespace {

// The memory is asked for before anything of that size is made here.
KeptTensor StackStrings(const Work& work, std::span<const tenon_tensor_view> rows, Dims row, Dims all,
                        const tenon_tensor_view* padding) {
  const std::string_view filling = padding == nullptr ? std::string_view() : StringAt(*padding, 0);
  uint64_t bytes = filling.size();
  for (const tenon_tensor_view& view : rows)
    for (int64_t i = 0, count = Count(view); i < count; ++i) bytes += StringAt(view, i).size();
  KeptTensor batch = work.NewTensor(TENON_DT_STRING, all, bytes);
  char* const base = Data<char>(batch.view());
  auto* const cells = reinterpret_cast<tenon_string_cell*>(base);
  uint64_t end = static_cast<uint64_t>(Count(all)) * sizeof(tenon_string_cell);
  const auto put = [&](std::string_view text) {
    if (!text.empty()) std::memcpy(base + end, text.data(), text.size());
    const tenon_string_cell cell{end, text.size()};
    end += text.size();
    return cell;
  };
  std::fill_n(cells, Count(all), put(filling));
  for (size_t i = 0; i < rows.size(); ++i)
    ForEachRun(DimsOf(rows[i]), row, 0, static_cast<int64_t>(i) * Count(row),
               [&](int64_t source, int64_t target, int64_t count) {
                 for (int64_t k = 0; k < count; ++k) cells[target + k] = put(StringAt(rows[i], source + k));
               });
  return batch;
}

void Pad(char* to, int64_t elements, uint32_t dtype, const tenon_tensor_view& padding) {
  DispatchSize(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(reinterpret_cast<T*>(to), elements, *Data<const T>(padding));
  });
}

}  // namespace

KeptTensor Stack(const Work& work, std::span<const tenon_tensor_view> rows, const std::vector<int64_t>& row_shape,
                 const tenon_tensor_view* padding) {
  std::vector<int64_t> all = {static_cast<int64_t>(rows.size())};
  all.insert(all.end(), row_shape.begin(), row_shape.end());
  const uint32_t dtype = rows[0].dtype;
  if (dtype == TENON_DT_STRING) return StackStrings(work, rows, row_shape, all, padding);
  const auto size = static_cast<int64_t>(ElementSize(dtype));
  if (size == 0) Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be made one batch");
  KeptTensor batch = work.NewTensor(dtype, all);
  const int64_t row_elements = Count(Dims(row_shape));
  char* to = Data<char>(batch.view());
  for (const tenon_tensor_view& from : rows) {
    if (padding != nullptr && Count(from) != row_elements) Pad(to, row_elements, dtype, *padding);
    ForEachRun(DimsOf(from), row_shape, 0, 0, [&](int64_t source, int64_t target, int64_t count) {
      if (count != 0)
        std::memcpy(to + target * size, Data<const char>(from) + source * size, static_cast<size_t>(count * size));
    });
    to += row_elements * size;
  }
  return batch;
}

uint64_t BytesOf(const Element& element) {
  uint64_t bytes = 0;
  for (const KeptTensor& tensor : element) bytes += tensor.view().byte_size;
  return bytes;
}

}  // namespace tenon::ops
