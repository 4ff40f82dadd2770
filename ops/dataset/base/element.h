// SPDX-License-Identifier: Apache-2.0
// What a dataset gives, one after the other: elements, each of several components, each a tensor in a buffer of the
// session's memory.
#ifndef TENON_OPS_DATASET_BASE_ELEMENT_H_
#define TENON_OPS_DATASET_BASE_ELEMENT_H_

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/extras/kernel/rows.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/kernel/work.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

using Element = std::vector<sdk::KeptTensor>;

// The same tensors once more.
Element Share(const Element& element);

template <class T>
sdk::KeptTensor NewScalar(const sdk::Work& work, uint32_t dtype, T value) {
  sdk::KeptTensor tensor = work.NewTensor(dtype, {});
  *sdk::Data<T>(tensor.view()) = value;
  return tensor;
}
sdk::KeptTensor NewString(const sdk::Work& work, std::string_view text);
// As many strings as dims have elements.
sdk::KeptTensor NewStrings(const sdk::Work& work, sdk::Dims dims, std::span<const std::string_view> texts);

// The variants of a tensor from `first` on, each with a reference more, in cells that are empty.
void CopyVariants(const sdk::Work& work, const tenon_tensor_view& from, int64_t first, int64_t count,
                  tenon_variant** to);
// A copy of row `row` of a tensor of rank 1 or more: plain types, strings, variants. UNIMPLEMENTED for others.
sdk::KeptTensor RowOf(const sdk::Work& work, const tenon_tensor_view& batch, int64_t row);
// The same of `count` rows from `first` on, as a tensor of so many rows.
sdk::KeptTensor RowsOf(const sdk::Work& work, const tenon_tensor_view& batch, int64_t first, int64_t count);
// The rows of all parts (at least one), which are of one dtype and, but for how many they have, of one shape.
sdk::KeptTensor Join(const sdk::Work& work, std::span<const tenon_tensor_view> parts);
// Tensors of one dtype as the rows of a new one of this row shape. What is smaller, of equal rank, is padded with
// `padding` (a scalar); without it all have that shape.
sdk::KeptTensor Stack(const sdk::Work& work, std::span<const tenon_tensor_view> rows,
                      const std::vector<int64_t>& row_shape, const tenon_tensor_view* padding = nullptr);

// The bytes of the element's tensors, for what bounds memory.
uint64_t BytesOf(const Element& element);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_ELEMENT_H_
