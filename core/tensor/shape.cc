// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/shape.h"

#include "core/base/checked.h"

namespace tenon {

Result<int64_t> Shape::num_elements() const {
  if (!known_rank_) return InvalidArgument("a shape of unknown rank has no number of elements");
  int64_t product = 1;
  bool zero = false;
  for (int64_t dim : dims_) {
    if (dim < 0) return InvalidArgument(StrCat("shape ", ToString(), " is not fully known"));
    if (dim == 0) {
      zero = true;
      continue;
    }
    if (!CheckedMultiply(product, dim, &product))
      return InvalidArgument(StrCat("shape ", ToString(), " has more elements than fit in 63 bits"));
  }
  return zero ? 0 : product;
}

Status Shape::Validate() const {
  if (!known_rank_) return Status::Ok();
  if (dims_.size() > TENON_MAX_RANK)
    return InvalidArgument(StrCat("a shape has rank ", dims_.size(), "; at most ", TENON_MAX_RANK, " is allowed"));
  for (int64_t dim : dims_)
    if (dim < -1) return InvalidArgument(StrCat("shape ", ToString(), " has the negative dim ", dim));
  if (fully_known()) return num_elements().status();
  return Status::Ok();
}

bool Shape::CompatibleWith(const Shape& other) const {
  if (!known_rank_ || !other.known_rank_) return true;
  if (dims_.size() != other.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (dims_[i] >= 0 && other.dims_[i] >= 0 && dims_[i] != other.dims_[i]) return false;
  return true;
}

std::string Shape::ToString() const {
  if (!known_rank_) return "?";
  std::string out = "[";
  for (size_t i = 0; i < dims_.size(); ++i) {
    if (i > 0) out += ",";
    out += dims_[i] < 0 ? "?" : std::to_string(dims_[i]);
  }
  return out + "]";
}

}  // namespace tenon
