// SPDX-License-Identifier: Apache-2.0
// Tensor: dtype, shape and a reference to a buffer in host memory. Copying shares the buffer.
#ifndef TENON_CORE_TENSOR_TENSOR_H_
#define TENON_CORE_TENSOR_TENSOR_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/buffer.h"
#include "core/tensor/shape.h"
#include "core/tensor/view.h"

namespace tenon {

// The pool of everything that belongs to no session: constants of graphs, feeds made by applications.
BufferPool* GlobalPool();

// Bytes of a tensor of this type and shape; an error when it does not fit.
Result<int64_t> ByteSize(DType dtype, const Shape& shape);
// The same of a view's dims, without memory of its own: for each step. The rank is a possible one. false: no tensor has
// such dims.
bool ByteSize(DType dtype, const tenon_tensor_view& view, uint64_t* out_bytes);

class Tensor {
 public:
  Tensor() = default;
  // Takes over one reference to the buffer.
  Tensor(DType dtype, Shape shape, Buffer* owned) : dtype_(dtype), shape_(std::move(shape)), buffer_(owned) {}
  // Uninitialised memory (variants: empty cells); extra_bytes follow the cells of strings.
  static Result<Tensor> Allocate(BufferPool* pool, DType dtype, Shape shape, uint64_t extra_bytes = 0);
  static Result<Tensor> Strings(BufferPool* pool, Shape shape, std::span<const std::string_view> values);
  // A copy of what a view shows (strings with their bytes; resource handles as handles; variants are shared).
  static Result<Tensor> CopyOf(BufferPool* pool, const tenon_tensor_view& view);
  template <typename T>
  static Result<Tensor> FromValues(BufferPool* pool, DType dtype, Shape shape, std::span<const T> values);

  Tensor(const Tensor& other) : dtype_(other.dtype_), shape_(other.shape_), buffer_(other.buffer_) {
    if (buffer_ != nullptr) Retain(buffer_);
  }
  Tensor(Tensor&& other) noexcept
      : dtype_(other.dtype_), shape_(std::move(other.shape_)), buffer_(std::exchange(other.buffer_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(dtype_, other.dtype_);
    std::swap(shape_, other.shape_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~Tensor() {
    if (buffer_ != nullptr) Release(buffer_);
  }

  bool has_value() const { return buffer_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  Buffer* buffer() const { return buffer_; }
  void* data() const { return buffer_ == nullptr ? nullptr : buffer_->data; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data());
  }
  int64_t num_elements() const;
  uint64_t byte_size() const;
  // Element i of a string tensor.
  std::string_view string(int64_t i) const;
  // A view of it; valid while this object is.
  tenon_tensor_view view() const;

 private:
  DType dtype_ = TENON_DT_INVALID;
  Shape shape_;
  Buffer* buffer_ = nullptr;
};

template <typename T>
Result<Tensor> Tensor::FromValues(BufferPool* pool, DType dtype, Shape shape, std::span<const T> values) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor, Allocate(pool, dtype, std::move(shape)));
  for (size_t i = 0; i < values.size(); ++i) tensor.as<T>()[i] = values[i];
  return tensor;
}

// Helpers over views.
int64_t NumElements(const tenon_tensor_view& view);
// Element i of a string view.
std::string_view StringAt(const tenon_tensor_view& view, int64_t i);
// Bytes that strings need after their cells.
uint64_t StringBytes(const tenon_tensor_view& view);
// Copies elements, not variants, into memory of at least byte_size + extra bytes, cells rewritten; strides are
// honoured.
void CopyElements(const tenon_tensor_view& from, void* to);
// An integer element of an int32 or int64 view.
int64_t IntegerAt(const tenon_tensor_view& view, int64_t i);

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_TENSOR_H_
