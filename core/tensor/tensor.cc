// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/tensor.h"

#include <cstring>

#include "core/base/checked.h"
#include "core/tensor/variant.h"

namespace tenon {

BufferPool* GlobalPool() {
  static BufferPool* const pool = BufferPool::Create(HostAllocator(), 0);
  return pool;
}

Result<int64_t> ByteSize(DType dtype, const Shape& shape) {
  TENON_ASSIGN_OR_RETURN(const int64_t count, shape.num_elements());
  if (BitsOf(dtype) == 0) return InvalidArgument(StrCat("there is no element type ", dtype));
  int64_t bits = 0;
  if (!CheckedMultiply(count, BitsOf(dtype), &bits) || BytesOfElements(dtype, static_cast<uint64_t>(count)) > kMaxBytes)
    return ResourceExhausted(
        StrCat("a tensor of ", TypeName(dtype), shape.ToString(), " needs more memory than any machine has"));
  return static_cast<int64_t>(BytesOfElements(dtype, static_cast<uint64_t>(count)));
}

bool ByteSize(DType dtype, const tenon_tensor_view& view, uint64_t* out_bytes) {
  uint64_t bits = BitsOf(dtype);
  for (int32_t i = 0; i < view.dl.ndim; ++i)
    if (view.dl.shape[i] < 0 || __builtin_mul_overflow(bits, static_cast<uint64_t>(view.dl.shape[i]), &bits))
      return false;
  *out_bytes = bits / 8 + (bits % 8 == 0 ? 0 : 1);
  return *out_bytes <= kMaxBytes;
}

Result<Tensor> Tensor::Allocate(BufferPool* pool, DType dtype, Shape shape, uint64_t extra_bytes) {
  TENON_RETURN_IF_ERROR(shape.Validate());
  TENON_ASSIGN_OR_RETURN(const int64_t bytes, ByteSize(dtype, shape));
  if (extra_bytes > kMaxBytes)
    return ResourceExhausted(StrCat(TypeName(dtype), shape.ToString(), " with ", extra_bytes,
                                    " bytes more needs more memory than any machine has"));
  TENON_ASSIGN_OR_RETURN(Buffer * buffer, pool->Allocate(static_cast<uint64_t>(bytes) + extra_bytes, shape.c()));
  if (dtype == TENON_DT_VARIANT) variant::OwnCells(buffer, static_cast<uint64_t>(bytes) / sizeof(tenon_variant*));
  return Tensor(dtype, std::move(shape), buffer);
}

Result<Tensor> Tensor::Strings(BufferPool* pool, Shape shape, std::span<const std::string_view> values) {
  uint64_t bytes = 0;
  for (std::string_view value : values) bytes += value.size();
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Allocate(pool, TENON_DT_STRING, std::move(shape), bytes));
  if (tensor.num_elements() != static_cast<int64_t>(values.size()))
    return InvalidArgument(
        StrCat("shape ", tensor.shape().ToString(), " needs ", tensor.num_elements(), " strings, got ", values.size()));
  auto* cells = tensor.as<tenon_string_cell>();
  char* base = tensor.as<char>();
  uint64_t offset = values.size() * sizeof(tenon_string_cell);
  for (size_t i = 0; i < values.size(); ++i) {
    cells[i] = {offset, values[i].size()};
    if (!values[i].empty()) std::memcpy(base + offset, values[i].data(), values[i].size());
    offset += values[i].size();
  }
  return tensor;
}

Result<Tensor> Tensor::CopyOf(BufferPool* pool, const tenon_tensor_view& view) {
  const uint64_t extra = view.dtype == TENON_DT_STRING ? StringBytes(view) : 0;
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Allocate(pool, view.dtype, ShapeOf(view), extra));
  if (view.dtype == TENON_DT_VARIANT) variant::CopyCells(view, tensor.buffer());
  else CopyElements(view, tensor.data());
  return tensor;
}

int64_t Tensor::num_elements() const {
  auto count = shape_.num_elements();
  return count.ok() ? *count : 0;
}
uint64_t Tensor::byte_size() const { return BytesOfElements(dtype_, static_cast<uint64_t>(num_elements())); }

std::string_view Tensor::string(int64_t i) const {
  const tenon_string_cell cell = as<tenon_string_cell>()[i];
  return std::string_view(as<char>() + cell.offset, cell.size);
}

tenon_tensor_view Tensor::view() const { return MakeView(dtype_, shape_.c(), data(), byte_size(), buffer_); }

int64_t NumElements(const tenon_tensor_view& view) {
  int64_t count = 1;
  for (int32_t i = 0; i < view.dl.ndim; ++i) count *= view.dl.shape[i];
  return count;
}

std::string_view StringAt(const tenon_tensor_view& view, int64_t i) {
  const auto* cells = static_cast<const tenon_string_cell*>(DataOf(view));
  return std::string_view(static_cast<const char*>(DataOf(view)) + cells[i].offset, cells[i].size);
}

uint64_t StringBytes(const tenon_tensor_view& view) {
  uint64_t bytes = 0;
  const int64_t count = NumElements(view);
  for (int64_t i = 0; i < count; ++i) bytes += StringAt(view, i).size();
  return bytes;
}

namespace {

// Copies by strides, innermost dim last.
void CopyStrided(const tenon_tensor_view& from, char* to, uint32_t size) {
  const int32_t rank = from.dl.ndim;
  std::vector<int64_t> index(rank, 0);
  const char* base = static_cast<const char*>(DataOf(from));
  const int64_t count = NumElements(from);
  for (int64_t n = 0; n < count; ++n) {
    int64_t offset = 0;
    for (int32_t d = 0; d < rank; ++d) offset += index[d] * from.dl.strides[d];
    std::memcpy(to + n * size, base + offset * size, size);
    for (int32_t d = rank - 1; d >= 0; --d) {
      if (++index[d] < from.dl.shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

void CopyElements(const tenon_tensor_view& from, void* to) {
  if (from.dtype == TENON_DT_STRING) {
    const int64_t count = NumElements(from);
    auto* cells = static_cast<tenon_string_cell*>(to);
    uint64_t offset = static_cast<uint64_t>(count) * sizeof(tenon_string_cell);
    for (int64_t i = 0; i < count; ++i) {
      const std::string_view text = StringAt(from, i);
      if (!text.empty()) std::memcpy(static_cast<char*>(to) + offset, text.data(), text.size());
      cells[i] = {offset, text.size()};
      offset += text.size();
    }
    return;
  }
  if (from.byte_size == 0) return;
  if (from.dl.strides != nullptr) return CopyStrided(from, static_cast<char*>(to), SizeOf(from.dtype));
  std::memcpy(to, DataOf(from), from.byte_size);
}

int64_t IntegerAt(const tenon_tensor_view& view, int64_t i) {
  if (view.dtype == TENON_DT_INT64) return static_cast<const int64_t*>(DataOf(view))[i];
  return static_cast<const int32_t*>(DataOf(view))[i];
}

}  // namespace tenon
