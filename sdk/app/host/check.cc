// SPDX-License-Identifier: Apache-2.0
#include "sdk/app/host/check.h"

#include "core/tensor/tensor.h"
#include "tenon/session_options.h"

namespace tenon::arguments {
namespace {

// Of the elements of an attribute.
template <typename T>
Fault FaultOfData(const tenon_attr_value& value) {
  const auto* const data = static_cast<const T*>(value.data);
  return TENON_FAULT_WITHIN(List(data, value.count));
}

Fault FaultOfTensors(const tenon_attr_value& value) {
  const auto* const views = static_cast<const tenon_tensor_view*>(value.data);
  Fault fault = TENON_FAULT_WITHIN(List(views, value.count));
  for (uint64_t i = 0; !fault && i < value.count; ++i)
    if (fault = FaultOf(Whole(&views[i])); fault) return std::move(fault).Within(".data[" + std::to_string(i) + "]");
  return fault;
}

// That the strings' ends, and their sum, are what one process can hold: nothing is allocated by them before.
Fault FaultOfStrings(const tenon_tensor_view& view) {
  const auto* const cells = static_cast<const tenon_string_cell*>(DataOf(view));
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < view.byte_size / sizeof(tenon_string_cell); ++i) {
    bytes += std::min(cells[i].size, kMostBytes + 1);
    if ((cells[i].size != 0 && cells[i].offset > kMostAddress) || bytes > kMostBytes)
      return {"", "has the string " + std::to_string(i) + " at byte " + std::to_string(cells[i].offset) + ", of " +
                      std::to_string(cells[i].size) + " bytes, which cannot be"};
  }
  return {};
}

}  // namespace

Fault FaultOfExtent(const tenon_dl_tensor& dl, uint64_t element_bytes) {
  uint64_t below = 0, above = 0;  // of where the first element lies; beyond kMostAddress they stay
  int64_t expected = 1;
  for (int32_t i = dl.ndim; i-- > 0;) {
    if (dl.shape[i] == 0) return {};
    const int64_t stride = dl.strides == nullptr ? expected : dl.strides[i];
    uint64_t reach = stride < 0 ? 0 - static_cast<uint64_t>(stride) : static_cast<uint64_t>(stride);
    if (__builtin_mul_overflow(reach, static_cast<uint64_t>(dl.shape[i] - 1), &reach) ||
        __builtin_mul_overflow(reach, element_bytes, &reach) || reach > kMostAddress)
      return {".strides[" + std::to_string(i) + "]", "is " + std::to_string(stride) + ", with which " +
                                                         std::to_string(dl.shape[i]) +
                                                         " elements are more than can be"};
    (stride < 0 ? below : above) += reach;
    if (dl.strides == nullptr) expected *= dl.shape[i];
  }
  const auto data = reinterpret_cast<uintptr_t>(dl.data);
  uintptr_t first = 0, last = 0;
  if (__builtin_add_overflow(data, dl.byte_offset, &first) || first < below ||
      __builtin_add_overflow(first, above, &last))
    return {".data", "has elements before or behind all memory, by its strides and byte_offset"};
  return {};
}

Fault Rule<tenon_attr_value>::Find(const tenon_attr_value& value) {
  const bool list = (value.kind & TENON_ATTR_LIST) != 0;
  if (!list && value.count != 1)
    return {".count", "is " + std::to_string(value.count) + ", of an attribute that is no list"};
  switch (value.kind & ~TENON_ATTR_LIST) {
    case TENON_ATTR_STRING:
    case TENON_ATTR_FUNCTION:
      return FaultOfData<tenon_span>(value);
    case TENON_ATTR_SHAPE:
      return FaultOfData<tenon_shape>(value);
    case TENON_ATTR_TENSOR:
      return FaultOfTensors(value);
    default:
      // numbers, which are any, or an unknown kind, which is refused where it is read
      return FaultOfData<uint8_t>(value);
  }
}

Fault Rule<tenon_session_options>::Find(const tenon_session_options& options) {
  Fault fault;
  const auto look = [&](const char* name, const auto& value) {
    if (!fault) fault = FaultOf(value).Within(std::string(".") + name);
  };
#define TENON_LOOK(name, kind, value, reach, flag, help, names) look(#name, options.TENON_OPTION_MEMBER(kind, name));
  TENON_SESSION_OPTIONS(TENON_LOOK)
#undef TENON_LOOK
  return fault;
}

Fault Rule<Whole>::Find(const Whole& whole) {
  Fault fault = FaultOf(whole.view);
  if (fault || IsRef(whole.view->dtype)) return fault;
  const tenon_tensor_view& view = *whole.view;
  const Result<int64_t> bytes = ByteSize(view.dtype, ShapeOf(view));
  if (!bytes.ok()) return {"", "cannot be: " + std::string(bytes.status().message())};
  if (view.byte_size != static_cast<uint64_t>(*bytes))
    return {".byte_size", "is " + std::to_string(view.byte_size) + ", which is not that of " + TypeName(view.dtype) +
                              ShapeOf(view).ToString()};
  fault = FaultOfExtent(view.dl, BytesOfElements(view.dtype, 1)).Within(".dl");
  return !fault && view.dtype == TENON_DT_STRING && view.buffer == nullptr ? FaultOfStrings(view) : std::move(fault);
}

}  // namespace tenon::arguments
