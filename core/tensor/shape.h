// SPDX-License-Identifier: Apache-2.0
// Shapes: dims that may be unknown (-1), or of unknown rank.
#ifndef TENON_CORE_TENSOR_SHAPE_H_
#define TENON_CORE_TENSOR_SHAPE_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "tenon/tensor.h"

namespace tenon {

class Shape {
 public:
  // Unknown rank.
  static Shape Unknown() {
    Shape shape;
    shape.known_rank_ = false;
    return shape;
  }
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  explicit Shape(tenon_shape shape) : known_rank_(shape.rank >= 0) {
    if (known_rank_) dims_.assign(shape.dims, shape.dims + shape.rank);
  }

  bool known_rank() const { return known_rank_; }
  int rank() const { return known_rank_ ? static_cast<int>(dims_.size()) : -1; }
  int64_t dim(int index) const { return dims_[index]; }
  const std::vector<int64_t>& dims() const { return dims_; }
  std::vector<int64_t>& dims() { return dims_; }
  bool fully_known() const {
    if (!known_rank_) return false;
    for (int64_t dim : dims_)
      if (dim < 0) return false;
    return true;
  }
  // The number of elements of a fully known shape; an error when it does not fit in 63 bits.
  Result<int64_t> num_elements() const;
  // Rank at most 254, dims >= -1.
  Status Validate() const;
  // Whether a tensor of shape `other` (perhaps partly unknown) may be of this shape.
  bool CompatibleWith(const Shape& other) const;
  // "[2,?,3]", "?" for unknown rank.
  std::string ToString() const;
  tenon_shape c() const { return {dims_.data(), rank(), 0}; }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<int64_t> dims_;
  bool known_rank_ = true;
};

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_SHAPE_H_
