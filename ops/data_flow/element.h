// SPDX-License-Identifier: Apache-2.0
// What a queue or a tensor array holds: elements, each of several components, each a tensor.
//
// A component that came as a whole stays in the buffer that it came in; a row of a batch is a copy, so that one row that is
// left keeps no batch alive.
#ifndef TENON_OPS_DATA_FLOW_ELEMENT_H_
#define TENON_OPS_DATA_FLOW_ELEMENT_H_

#include <memory>
#include <optional>
#include <vector>

#include "tenon/sdk/kept_tensor.h"
#include "tenon/sdk/shape.h"

namespace tenon::ops {

class Component {
 public:
  explicit Component(sdk::KeptTensor kept) : kept_(std::move(kept)) {}
  // A copy of row `row` of a batch: plain types and strings.
  Component(const tenon_tensor_view& batch, int64_t row);
  // A copy of the elements from `first` on, as a tensor of these dims.
  Component(const tenon_tensor_view& from, int64_t first, std::vector<int64_t> dims);
  static Component Zeros(uint32_t dtype, std::vector<int64_t> dims);
  // Adds a tensor of the same type and dims. UNIMPLEMENTED: they are no numbers.
  void Add(const tenon_tensor_view& more);
  // Valid as long as this.
  tenon_tensor_view view() const;
  // As output `index` of the frame, without a copy where it lies in a buffer.
  void Give(const sdk::RunContext& c, int32_t index) const;

 private:
  Component() = default;
  void Own(uint32_t dtype, uint64_t bytes, uint64_t extra);
  std::optional<sdk::KeptTensor> kept_;
  tenon_tensor_view copied_ = {};
  std::vector<int64_t> dims_;
  std::unique_ptr<char[]> bytes_;
};

using Element = std::vector<Component>;

// The numbers of input `input`, int32 or int64.
std::vector<int64_t> IndicesOf(const sdk::RunContext& c, int32_t input);

inline sdk::Shape ShapeOf(sdk::Dims dims) { return sdk::Shape(std::vector<int64_t>(dims.begin(), dims.end())); }
inline sdk::Shape ShapeOf(const tenon_tensor_view& view) { return ShapeOf(sdk::DimsOf(view)); }
// Whether a known shape is of those that `wanted` leaves open.
bool Fits(const sdk::Shape& shape, const sdk::Shape& wanted);

// Component `index` of the elements, of type dtype, as the rows of output `index`. shape: of a row; elements that are smaller (of
// equal rank) are padded with zeros or empty strings.
void GiveRows(const sdk::RunContext& c, int32_t index, uint32_t dtype, const std::vector<Element>& elements, const std::vector<int64_t>& shape);

// The elements of tensors of type dtype, one tensor after the other, as output `index` of these dims: equal ones become rows, others are
// joined along their first dimension.
void GiveJoined(const sdk::RunContext& c, int32_t index, uint32_t dtype, const std::vector<tenon_tensor_view>& tensors, sdk::Dims dims);

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_ELEMENT_H_
