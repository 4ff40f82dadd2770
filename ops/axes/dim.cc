// SPDX-License-Identifier: Apache-2.0
#include "dim.h"

#include <algorithm>
#include <iterator>

namespace tenon::ops {

namespace {

constexpr size_t kMostNames = 16;

// Of the dim that a shape of another rank has at the place `from_end`.
Dim At(const Dims& dims, size_t from_end) { return from_end < dims.size() ? dims[dims.size() - 1 - from_end] : Dim(1); }

}  // namespace

std::optional<Dim> Dim::Product(const Dim& a, const Dim& b) {
  Dim product(0);
  if (__builtin_mul_overflow(a.number_, b.number_, &product.number_)) return {};
  if (product.number_ == 0) return product;
  std::merge(a.names_.begin(), a.names_.end(), b.names_.begin(), b.names_.end(), std::back_inserter(product.names_));
  if (product.names_.size() > kMostNames) return {};
  return product;
}

std::optional<Dim> Dim::Quotient(const Dim& a, const Dim& b) {
  // Where a size is 0 nothing says what is left; a named one is not, or a step says so.
  if (b.number_ <= 0 || a.number_ < 0 || a.number_ % b.number_ != 0 ||
      !std::includes(a.names_.begin(), a.names_.end(), b.names_.begin(), b.names_.end()))
    return {};
  Dim quotient(a.number_ / b.number_);
  std::set_difference(a.names_.begin(), a.names_.end(), b.names_.begin(), b.names_.end(),
                      std::back_inserter(quotient.names_));
  return quotient;
}

std::optional<Dim> Product(const Dims& dims) {
  std::optional<Dim> product = Dim(1);
  for (const Dim& dim : dims) {
    if (product.has_value()) product = Dim::Product(*product, dim);
  }
  return product;
}

std::optional<Dims> Broadcast(const Dims& a, const Dims& b) {
  Dims both;
  for (size_t i = std::max(a.size(), b.size()); i-- > 0;) {
    const Dim x = At(a, i), y = At(b, i);
    if (x == y || y.Is(1)) both.push_back(x);
    else if (x.Is(1)) both.push_back(y);
    else if (x.is_number() && y.is_number()) return {};
    else if (x.is_number()) both.push_back(x);  // the other is 1 or the same
    else if (y.is_number()) both.push_back(y);
    else return {};
  }
  return both;
}

std::optional<std::vector<int64_t>> RepeatedAxes(const Dims& of, const Dims& other) {
  std::vector<int64_t> axes;
  const size_t rank = std::max(of.size(), other.size());
  for (size_t i = 0; i < rank; ++i) {
    const Dim x = At(of, rank - 1 - i), y = At(other, rank - 1 - i);
    if (x == y || y.Is(1)) continue;
    if (x.Is(1)) axes.push_back(static_cast<int64_t>(i));
    else if (!x.is_number()) return {};  // it may be 1
  }
  return axes;
}

}  // namespace tenon::ops
