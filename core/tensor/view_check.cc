// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/view_check.h"

#include "core/tensor/buffer.h"
#include "core/tensor/tensor.h"

namespace tenon {

std::string FaultOf(const tenon_tensor_view& view) {
  if (view.buffer == nullptr) return "memory that lives in no buffer, and that it must copy,";
  if (view.dl.ndim < 0 || view.dl.ndim > TENON_MAX_RANK || (view.dl.ndim > 0 && view.dl.shape == nullptr))
    return StrCat("a shape of rank ", view.dl.ndim, view.dl.shape == nullptr ? " without dims" : "");
  if (view.dl.strides != nullptr) return "a view with strides";
  uint64_t bytes = sizeof(tenon_resource*);
  if (!IsRef(view.dtype) && !ByteSize(view.dtype, view, &bytes)) {
    const Result<int64_t> size = ByteSize(view.dtype, ShapeOf(view));
    return StrCat("a shape that cannot be (",
                  size.ok() ? ShapeOf(view).ToString() : std::string(size.status().message()), ")");
  }
  if (view.byte_size != bytes) return StrCat("byte_size ", view.byte_size, " and a shape of ", bytes, " bytes");
  const Buffer* memory = HomeOf(view.buffer);
  const auto begin = reinterpret_cast<uintptr_t>(memory->data), data = reinterpret_cast<uintptr_t>(DataOf(view));
  if (bytes > 0 && (data < begin || data - begin > memory->capacity || bytes > memory->capacity - (data - begin)))
    return StrCat(bytes, " bytes that do not lie in their buffer of ", memory->capacity, " bytes");
  return "";
}

std::string FaultOfCells(const tenon_tensor_view& view) {
  if (view.dtype != TENON_DT_STRING || view.dl.data == nullptr || (view.flags & TENON_VIEW_HOST_VISIBLE) == 0)
    return "";
  const auto* cells = static_cast<const tenon_string_cell*>(DataOf(view));
  const Buffer* memory = HomeOf(view.buffer);
  const auto* base = reinterpret_cast<const char*>(cells);
  const uint64_t bytes = memory == nullptr
                             ? view.byte_size
                             : memory->capacity - static_cast<uint64_t>(base - static_cast<const char*>(memory->data));
  const int64_t count = NumElements(view);
  for (int64_t i = 0; i < count; ++i)
    if (cells[i].size != 0 && (cells[i].offset > bytes || cells[i].size > bytes - cells[i].offset))
      return StrCat("the string ", i, " at byte ", cells[i].offset, " of ", cells[i].size, " bytes; its memory has ",
                    bytes);
  return "";
}

std::string FaultOfPlace(const tenon_tensor_view& place) {
  if (place.dl.ndim < 0 || place.dl.ndim > TENON_MAX_RANK || (place.dl.ndim > 0 && place.dl.shape == nullptr))
    return StrCat("of rank ", place.dl.ndim);
  uint64_t bytes = 0;
  if (!IsPlain(place.dtype)) return StrCat("of ", TypeName(place.dtype), ", which has no fixed size");
  if (place.dl.strides != nullptr) return "that has strides";
  if (!ByteSize(place.dtype, place, &bytes) || bytes != place.byte_size)
    return StrCat("of ", place.byte_size, " bytes, which is not that of its shape");
  if (place.dl.data == nullptr && bytes != 0) return "without memory";
  return (place.flags & TENON_VIEW_HOST_VISIBLE) != 0 ? "" : "in a device's memory";
}

}  // namespace tenon
