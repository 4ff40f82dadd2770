// SPDX-License-Identifier: Apache-2.0
// What a queue, a staging area or a tensor array holds: elements, each of several components, each a tensor.
//
// A component lies in a buffer of the session's memory. One that came as a whole stays in the buffer that it came in; a
// row of a batch is a copy, so that one row that is left keeps no batch alive.
#ifndef TENON_OPS_DATA_FLOW_ELEMENT_H_
#define TENON_OPS_DATA_FLOW_ELEMENT_H_

#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/extras/kernel/rows.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

class Component {
 public:
  explicit Component(sdk::KeptTensor kept) : kept_(std::move(kept)) {}
  // A copy of row `row` of a batch: plain types and strings. What is copied lies in the session's memory, as its limit
  // asks.
  Component(const sdk::RunContext& c, const tenon_tensor_view& batch, int64_t row);
  // A copy of the elements from `first` on, as a tensor of these dims.
  Component(const sdk::RunContext& c, const tenon_tensor_view& from, int64_t first, const std::vector<int64_t>& dims);
  static Component Zeros(const sdk::RunContext& c, uint32_t dtype, const std::vector<int64_t>& dims);
  // The sum of two tensors of one type and shape. UNIMPLEMENTED: they are no numbers.
  static Component Sum(const sdk::RunContext& c, const tenon_tensor_view& a, const tenon_tensor_view& b);
  // The same tensor again, in the same buffer.
  Component Share() const { return Component(kept_.Share()); }
  // Valid as long as this.
  tenon_tensor_view view() const { return kept_.view(); }
  // As output `index` of the frame, without a copy.
  void Give(const sdk::RunContext& c, int32_t index) const;

 private:
  sdk::KeptTensor kept_;
};

using Element = std::vector<Component>;

// RESOURCE_EXHAUSTED: the session has no memory for `count` things of `size` bytes, which a kernel is about to keep on
// its own heap.
void CheckRoom(const sdk::RunContext& c, int64_t count, size_t size);

// The numbers of input `input`, int32 or int64.
std::vector<int64_t> IndicesOf(const sdk::RunContext& c, int32_t input);

// Component `index` of the elements, of type dtype, as the rows of output `index`. shape: of a row; elements that are
// smaller (of equal rank) are padded with zeros or empty strings.
void GiveRows(const sdk::RunContext& c, int32_t index, uint32_t dtype, const std::vector<Element>& elements,
              const std::vector<int64_t>& shape);

// The elements of tensors of type dtype, one tensor after the other, as output `index` of these dims: equal ones become
// rows, others are joined along their first dimension.
void GiveJoined(const sdk::RunContext& c, int32_t index, uint32_t dtype, const std::vector<tenon_tensor_view>& tensors,
                sdk::Dims dims);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_ELEMENT_H_
