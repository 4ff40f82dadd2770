// SPDX-License-Identifier: Apache-2.0
// String tensors in kernels: reading the cells, and making an output of strings.
#ifndef TENON_SDK_KERNEL_STRING_TENSOR_H_
#define TENON_SDK_KERNEL_STRING_TENSOR_H_

#include <cstring>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// Element `index` of a string tensor in host memory, unchecked; the text lives as long as the view's memory.
inline std::string_view StringAt(const tenon_tensor_view& view, int64_t index) {
  const char* base = Data<const char>(view);
  const tenon_string_cell cell = reinterpret_cast<const tenon_string_cell*>(base)[index];
  return cell.size == 0 ? std::string_view() : std::string_view(base + cell.offset, cell.size);
}
inline std::vector<std::string_view> StringsOf(const tenon_tensor_view& view) {
  std::vector<std::string_view> out;
  const int64_t count = Count(view);
  out.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) out.push_back(StringAt(view, i));
  return out;
}

// Strings: of std::string or std::string_view. Their bytes in all, without their cells: the extra_bytes of a tensor of
// strings.
template <class Strings>
uint64_t BytesOf(const Strings& strings) {
  uint64_t bytes = 0;
  for (const auto& text : strings) bytes += text.size();
  return bytes;
}
// Writes cells and bytes into the memory of a tensor with room for them: the cells, one after the other, then the
// bytes; offsets count from base.
template <class Strings>
void WriteStrings(char* base, const Strings& strings) {
  auto* cells = reinterpret_cast<tenon_string_cell*>(base);
  uint64_t offset = strings.size() * sizeof(tenon_string_cell);
  size_t at = 0;
  for (const auto& text : strings) {
    cells[at++] = {offset, text.size()};
    if (!text.empty()) std::memcpy(base + offset, text.data(), text.size());
    offset += text.size();
  }
}

// Allocates output `index` (named in dynamic_outputs) and fills it; as many strings as dims have elements.
template <class Strings>
void SetStrings(const RunContext& c, int32_t index, Dims dims, const Strings& strings) {
  c.AllocOutput(index, dims, BytesOf(strings));
  WriteStrings(c.output<char>(index), strings);
}
// The same as a tensor in a buffer of its own.
template <class Strings>
KeptTensor NewStrings(const RunContext& c, Dims dims, const Strings& strings) {
  KeptTensor tensor = NewTensor(c, TENON_DT_STRING, dims, BytesOf(strings));
  WriteStrings(Data<char>(tensor.view()), strings);
  return tensor;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_STRING_TENSOR_H_
