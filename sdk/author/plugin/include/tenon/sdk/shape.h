// SPDX-License-Identifier: Apache-2.0
// A shape as a value: dims, of which each, and the rank itself, may be unknown.
//
// A dim below 0 is unknown. -1: nothing is known of it; below, it is a name (tenon_shape): dims of one graph that have
// the same name are of one size. Questions about an unknown rank answer -1, so that code needs no special case.
#ifndef TENON_SDK_SHAPE_H_
#define TENON_SDK_SHAPE_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tenon/sdk/span.h"

namespace tenon::sdk {

inline constexpr int64_t kUnknown = -1;

// a * b, or false when it does not fit. Both at least 0.
inline bool MultiplyFits(int64_t a, int64_t b, int64_t* product) { return !__builtin_mul_overflow(a, b, product); }

// Dims slowest first, row-major. Equal are shapes that know the same.
class Shape {
 public:
  // Of unknown rank, and so is Shape{}; without dims is Scalar().
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : known_(true), dims_(dims) {}
  static Shape Scalar() { return OfRank(0); }
  explicit Shape(std::vector<int64_t> dims) : known_(true), dims_(std::move(dims)) {}
  explicit Shape(const tenon_shape& shape) : known_(shape.rank >= 0) {
    if (known_) dims_.assign(shape.dims, shape.dims + shape.rank);
  }
  static Shape OfRank(int rank) { return Shape(std::vector<int64_t>(static_cast<size_t>(rank), kUnknown)); }

  bool known_rank() const { return known_; }
  // -1 when unknown.
  int rank() const { return known_ ? static_cast<int>(dims_.size()) : -1; }
  const std::vector<int64_t>& dims() const { return dims_; }

  // The dim at index, counted from the end when negative; unknown outside.
  int64_t operator[](int index) const {
    const int at = index < 0 ? index + rank() : index;
    return at >= 0 && at < rank() ? dims_[static_cast<size_t>(at)] : kUnknown;
  }
  // The same places; outside, nothing is done.
  void Set(int index, int64_t dim) {
    const int at = index < 0 ? index + rank() : index;
    if (at >= 0 && at < rank()) dims_[static_cast<size_t>(at)] = dim;
  }
  // Of a shape of known rank.
  void Append(int64_t dim) { dims_.push_back(dim); }

  bool fully_known() const {
    return known_ && std::none_of(dims_.begin(), dims_.end(), [](int64_t dim) { return dim < 0; });
  }
  // Unknown also when the product does not fit; SetOutput refuses such shapes.
  int64_t elements() const {
    if (!fully_known()) return kUnknown;
    if (std::find(dims_.begin(), dims_.end(), 0) != dims_.end()) return 0;
    int64_t product = 1;
    for (int64_t dim : dims_) {
      if (!MultiplyFits(product, dim, &product)) return kUnknown;
    }
    return product;
  }

  // dims [begin, end), negative counted from the end; unknown rank stays unknown.
  Shape Slice(int begin, int end) const {
    if (!known_) return Shape();
    const auto at = [&](int index) { return std::clamp(index < 0 ? index + rank() : index, 0, rank()); };
    const int first = at(begin);
    const int last = std::max(first, at(end));
    return Shape(std::vector<int64_t>(dims_.begin() + first, dims_.begin() + last));
  }
  Shape Slice(int begin) const { return Slice(begin, rank()); }

  // Borrows the dims.
  tenon_shape view() const { return {dims_.data(), known_ ? rank() : -1, 0}; }

  friend bool operator==(const Shape& a, const Shape& b) { return a.known_ == b.known_ && a.dims_ == b.dims_; }

 private:
  bool known_ = false;
  std::vector<int64_t> dims_;
};

// a followed by b; unknown when one rank is.
inline Shape Join(const Shape& a, const Shape& b) {
  if (!a.known_rank() || !b.known_rank()) return Shape();
  std::vector<int64_t> dims = a.dims();
  dims.insert(dims.end(), b.dims().begin(), b.dims().end());
  return Shape(std::move(dims));
}

inline void AppendPart(std::string& out, const Shape& shape) {
  if (!shape.known_rank()) {
    out += "<unknown rank>";
    return;
  }
  out += '[';
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != 0) out += ',';
    out += shape[i] < 0 ? "?" : std::to_string(shape[i]);
  }
  out += ']';
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_SHAPE_H_
