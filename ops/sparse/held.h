// SPDX-License-Identifier: Apache-2.0
// Variants that hold tensors: who made one says its type; its elements are the tensors.
#ifndef TENON_OPS_SPARSE_HELD_H_
#define TENON_OPS_SPARSE_HELD_H_

#include <string_view>
#include <utility>
#include <vector>

#include "tenon/extras/kernel/held_tensors.h"
#include "tenon/extras/kernel/rows.h"
#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops::sparse {

inline constexpr std::string_view kTensorType = sdk::kTensorVariant;  // one element
inline constexpr std::string_view kRaggedType = sdk::kRaggedVariant;  // the splits, outermost first, and the values

// A variant of those tensors; its reference is the caller's.
inline tenon_variant* Hold(const sdk::RunContext& c, std::string_view type,
                           const std::vector<sdk::KeptTensor>& tensors) {
  std::vector<tenon_tensor_view> elements;
  elements.reserve(tensors.size());
  for (const sdk::KeptTensor& tensor : tensors) elements.push_back(tensor.view());
  tenon_variant* made = nullptr;
  sdk::Check(c.services().variant_new(c.frame(), sdk::ToSpan(type), sdk::ToSpan(std::string_view()), elements.data(),
                                      elements.size(), &made));
  return made;
}

// The elements of the variant in a cell of an input, valid as long as the frame; nothing when the cell is empty.
// INVALID_ARGUMENT, thrown: it is of another type.
inline std::vector<tenon_tensor_view> Held(const sdk::RunContext& c, const tenon_tensor_view& view, int64_t cell,
                                           std::string_view type) {
  const tenon_variant* variant = sdk::VariantOf(view, cell);
  std::vector<tenon_tensor_view> elements;
  if (variant == nullptr) return elements;
  tenon_variant_info info{};
  c.services().variant_info(variant, &info);
  if (sdk::ToText(info.type) != type)
    sdk::Fail(TENON_INVALID_ARGUMENT, "element ", cell, " of the variants is no ", type, ", but ",
              sdk::ToText(info.type));
  if (const auto of_datasets = sdk::TensorsHeld(*sdk::Work::ServicesOf(c.services()), variant, type);
      !of_datasets.empty()) {
    elements.assign(of_datasets.begin(), of_datasets.end());
    return elements;
  }
  for (uint64_t i = 0; i < info.element_count; ++i) {
    c.services().variant_element(variant, i, &elements.emplace_back());
    if (elements.back().dtype == TENON_DT_INVALID)
      sdk::Fail(TENON_INVALID_ARGUMENT, "element ", cell, " of the variants is a ", type, " without tensor ", i);
  }
  return elements;
}

// Elements [first, first + count) of the outermost dim of a tensor, which has one, as a tensor; in range.
inline sdk::KeptTensor Rows(const sdk::RunContext& c, const tenon_tensor_view& from, int64_t first, int64_t count) {
  std::vector<int64_t> dims(sdk::DimsOf(from).begin(), sdk::DimsOf(from).end());
  const int64_t row = sdk::Count(sdk::Dims(dims).subspan(1));
  dims[0] = count;
  const auto make = [&c](uint32_t dtype, sdk::Dims shape, uint64_t extra) {
    return sdk::NewTensor(c, dtype, shape, extra);
  };
  return sdk::CopyPart(make, from, row == 0 ? 0 : first * row, dims);
}

// Output `index`, named in dynamic_outputs: the tensors' elements one after the other, as a tensor of these dims, which
// have as many. All are of one type, and plain or strings.
inline void GiveJoined(const sdk::RunContext& c, int32_t index, sdk::Dims dims, uint32_t dtype,
                       const std::vector<tenon_tensor_view>& tensors) {
  uint64_t extra = 0;
  if (dtype == TENON_DT_STRING)
    for (const tenon_tensor_view& tensor : tensors)
      for (int64_t i = 0, count = sdk::Count(tensor); i < count; ++i) extra += sdk::StringAt(tensor, i).size();
  c.AllocOutput(index, dims, extra);
  char* const base = c.output<char>(index);
  if (dtype == TENON_DT_STRING) {
    auto* cell = reinterpret_cast<tenon_string_cell*>(base);
    uint64_t at = static_cast<uint64_t>(sdk::Count(dims)) * sizeof(tenon_string_cell);
    for (const tenon_tensor_view& tensor : tensors) {
      for (int64_t i = 0, count = sdk::Count(tensor); i < count; ++i) {
        const std::string_view text = sdk::StringAt(tensor, i);
        if (!text.empty()) std::memcpy(base + at, text.data(), text.size());
        *cell++ = {at, text.size()};
        at += text.size();
      }
    }
    return;
  }
  char* to = base;
  for (const tenon_tensor_view& tensor : tensors) {
    const uint64_t bytes = static_cast<uint64_t>(sdk::Count(tensor)) * sdk::ElementSize(dtype);
    if (bytes != 0) std::memcpy(to, sdk::Data<const char>(tensor), bytes);
    to += bytes;
  }
}

}  // namespace tenon::ops::sparse
#endif  // TENON_OPS_SPARSE_HELD_H_
