// SPDX-License-Identifier: Apache-2.0
// Element types and shapes.
//
// DType holds TensorFlow's numbers (dtype.h). DTypeOf<T>() maps the C++ types that have one. A Shape may be partly
// unknown: a dimension of -1, or no rank at all (Shape::Unknown()).
#ifndef TENON_HOST_DTYPE_H_
#define TENON_HOST_DTYPE_H_

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tenon/host/status.h"

namespace tenon::host {

// A reference type (a variable of TensorFlow 1) is its type's number + TENON_DT_REF; it has no name here.
enum class DType : uint32_t {
  kInvalid = TENON_DT_INVALID,
  kFloat = TENON_DT_FLOAT,
  kDouble = TENON_DT_DOUBLE,
  kInt32 = TENON_DT_INT32,
  kUint8 = TENON_DT_UINT8,
  kInt16 = TENON_DT_INT16,
  kInt8 = TENON_DT_INT8,
  kString = TENON_DT_STRING,
  kComplex64 = TENON_DT_COMPLEX64,
  kInt64 = TENON_DT_INT64,
  kBool = TENON_DT_BOOL,
  kBfloat16 = TENON_DT_BFLOAT16,
  kUint16 = TENON_DT_UINT16,
  kComplex128 = TENON_DT_COMPLEX128,
  kHalf = TENON_DT_HALF,
  kResource = TENON_DT_RESOURCE,
  kVariant = TENON_DT_VARIANT,
  kUint32 = TENON_DT_UINT32,
  kUint64 = TENON_DT_UINT64,
};

// "float"; "ref float" has no name of its own and gives "float_ref".
inline std::string DTypeName(DType dtype) {
  auto number = static_cast<uint32_t>(dtype);
  const bool is_ref = number > TENON_DT_REF && number < 2 * TENON_DT_REF;
  std::string name(Text(tenon_dtype_name(is_ref ? number - TENON_DT_REF : number)));
  return is_ref ? name + "_ref" : name;
}
// kInvalid when unknown.
inline DType DTypeFromName(std::string_view name) { return static_cast<DType>(tenon_dtype_from_name(Span(name))); }
// Bytes of an element; 0 when unknown, and for packed elements.
inline uint64_t DTypeSize(DType dtype) { return tenon_dtype_size(static_cast<uint32_t>(dtype)); }

// The DType of a C++ type; kInvalid for types that have none. Integers go by size and sign: char and long have one too.
// Half, bfloat16 and strings have no C++ type here: their elements come as bytes (View, Tensor::FromBytes) and by
// Tensor::Strings.
template <typename T>
constexpr DType DTypeOf() {
  if constexpr (std::is_same_v<T, float>)
    return DType::kFloat;
  else if constexpr (std::is_same_v<T, double>)
    return DType::kDouble;
  else if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return DType::kComplex64;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return DType::kComplex128;
  else if constexpr (!std::is_integral_v<T>)
    return DType::kInvalid;
  else if constexpr (sizeof(T) == 1)
    return std::is_signed_v<T> ? DType::kInt8 : DType::kUint8;
  else if constexpr (sizeof(T) == 2)
    return std::is_signed_v<T> ? DType::kInt16 : DType::kUint16;
  else if constexpr (sizeof(T) == 4)
    return std::is_signed_v<T> ? DType::kInt32 : DType::kUint32;
  else
    return std::is_signed_v<T> ? DType::kInt64 : DType::kUint64;
}

// What tensors are made of and read as.
template <typename T>
concept Element = DTypeOf<T>()
!= DType::kInvalid;

// Dimensions, slowest first. Equal are shapes that say the same: [?] is not [2].
class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(std::vector<int64_t> dims) : dims_(std::move(dims)) {}
  static Shape Unknown() {
    Shape shape;
    shape.known_rank_ = false;
    return shape;
  }
  // A copy; a negative rank is an unknown one.
  static Shape From(tenon_shape shape) {
    if (shape.rank < 0) return Unknown();
    return Shape(std::vector<int64_t>(shape.dims, shape.dims + shape.rank));
  }

  bool has_rank() const { return known_rank_; }
  // -1 when unknown.
  int32_t rank() const { return known_rank_ ? static_cast<int32_t>(dims_.size()) : -1; }
  // None when the rank is unknown, as of a scalar.
  const std::vector<int64_t>& dims() const { return dims_; }
  // index < rank(), unchecked.
  int64_t operator[](size_t index) const { return dims_[index]; }
  bool fully_known() const {
    if (!known_rank_) return false;
    for (int64_t dim : dims_) {
      if (dim < 0) return false;
    }
    return true;
  }
  // The product of the dimensions; -1 when not fully known or beyond int64.
  int64_t element_count() const {
    if (!fully_known()) return -1;
    int64_t count = 1;
    for (int64_t dim : dims_) {
      if (__builtin_mul_overflow(count, dim, &count)) return -1;
    }
    return count;
  }
  // "[2,?,3]", or "unknown".
  std::string ToString() const {
    if (!known_rank_) return "unknown";
    std::string text = "[";
    for (size_t i = 0; i < dims_.size(); ++i) {
      if (i > 0) text += ',';
      text += dims_[i] < 0 ? std::string("?") : std::to_string(dims_[i]);
    }
    return text + "]";
  }
  // Borrows from this object.
  tenon_shape c_shape() const { return {dims_.data(), rank(), 0}; }

  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::vector<int64_t> dims_;
  bool known_rank_ = true;
};

}  // namespace tenon::host

#endif  // TENON_HOST_DTYPE_H_
