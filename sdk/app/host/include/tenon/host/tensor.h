// SPDX-License-Identifier: Apache-2.0
// Tensors in host memory, and views of the caller's memory.
//
// A Tensor shares one immutable, reference-counted value; copying it copies no elements. A View borrows elements from
// the caller and is what feeds are made of: a Tensor becomes one by itself, and so does any span of numbers with a
// shape. Elements are row-major. data<T>() is empty when T is not the tensor's type. What a Tensor lends (spans, texts,
// views) lives as long as one of its copies. Copies may be used from different threads, one object by one thread at a
// time.
#ifndef TENON_HOST_TENSOR_H_
#define TENON_HOST_TENSOR_H_

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/host/dtype.h"
#include "tenon/host/status.h"

namespace tenon::host {

class Tensor {
 public:
  Tensor() = default;  // holds nothing
  // Takes one reference over.
  static Tensor Take(tenon_tensor* tensor) {
    Tensor taken;
    taken.tensor_ = tensor;
    return taken;
  }
  Tensor(const Tensor& other) : tensor_(other.tensor_) {
    if (tensor_ != nullptr) tenon_tensor_retain(tensor_);
  }
  Tensor(Tensor&& other) noexcept : tensor_(std::exchange(other.tensor_, nullptr)) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(tensor_, other.tensor_);
    return *this;
  }
  ~Tensor() { tenon_tensor_release(tensor_); }

  // Copies `bytes` bytes of elements; INVALID_ARGUMENT when they are not what dtype and shape need, or the dtype's
  // elements are no plain memory (strings, resources, variants). data NULL: zeros.
  static Result<Tensor> FromBytes(DType dtype, const Shape& shape, const void* data, uint64_t bytes) {
    tenon_tensor* tensor = nullptr;
    TENON_TRY(Status::Take(tenon_tensor_create(static_cast<uint32_t>(dtype), shape.c_shape(), data, bytes, &tensor)));
    return Take(tensor);
  }
  template <Element T>
  static Result<Tensor> From(std::span<const T> values, const Shape& shape) {
    return FromBytes(DTypeOf<T>(), shape, values.data(), values.size_bytes());
  }
  template <Element T>
  static Result<Tensor> From(const std::vector<T>& values, const Shape& shape) requires(!std::is_same_v<T, bool>) {
    return From(std::span<const T>(values), shape);
  }
  // Of shape [], which is not [1].
  template <Element T>
  static Result<Tensor> Scalar(T value) {
    return From(std::span<const T>(&value, 1), Shape());
  }
  static Result<Tensor> Zeros(DType dtype, const Shape& shape) {
    auto count = static_cast<uint64_t>(shape.element_count());
    return FromBytes(dtype, shape, nullptr, count * DTypeSize(dtype));
  }
  // As many as the shape has elements. They are bytes, which may hold NUL.
  static Result<Tensor> Strings(std::span<const std::string> values, const Shape& shape) {
    std::vector<tenon_span> spans;
    spans.reserve(values.size());
    for (const std::string& value : values) spans.push_back(Span(value));
    tenon_tensor* tensor = nullptr;
    TENON_TRY(Status::Take(tenon_tensor_create_strings(shape.c_shape(), spans.data(), spans.size(), &tensor)));
    return Take(tensor);
  }
  static Result<Tensor> Strings(std::initializer_list<std::string> values) {
    return Strings(std::span<const std::string>(values.begin(), values.size()),
                   Shape{static_cast<int64_t>(values.size())});
  }
  static Result<Tensor> String(std::string_view value) {
    std::string text(value);
    return Strings(std::span<const std::string>(&text, 1), Shape());
  }

  // A copy of the elements that a view of host memory shows: of any type but handles and variants.
  static Result<Tensor> Copy(const tenon_tensor_view& view) {
    const char* const base = static_cast<const char*>(view.dl.data) + view.dl.byte_offset;
    const tenon_shape shape = {view.dl.shape, view.dl.ndim, 0};
    tenon_tensor* tensor = nullptr;
    if (view.dtype != TENON_DT_STRING) {
      TENON_TRY(Status::Take(tenon_tensor_create(view.dtype, shape, base, view.byte_size, &tensor)));
      return Take(tensor);
    }
    const auto* const cells = reinterpret_cast<const tenon_string_cell*>(base);
    std::vector<tenon_span> strings;
    for (uint64_t i = 0; i < view.byte_size / sizeof(tenon_string_cell); ++i)
      strings.push_back({base + cells[i].offset, cells[i].size});
    TENON_TRY(Status::Take(tenon_tensor_create_strings(shape, strings.data(), strings.size(), &tensor)));
    return Take(tensor);
  }

  // Host memory of another library (a "dltensor" capsule's pointer), without a copy but where its elements have
  // strides. Taken when it succeeds, and its deleter called when the last view of it is gone; else it stays the
  // caller's. A device's: Session::FromDLPack.
  static Result<Tensor> FromDLPack(tenon_dl_managed_tensor* managed) {
    tenon_tensor* tensor = nullptr;
    TENON_TRY(Status::Take(tenon_tensor_from_dlpack(managed, &tensor)));
    return Take(tensor);
  }
  // Shares the memory with another library, which reads it only, and calls the result's deleter when it is done with
  // it. Of a tensor that holds something, of plain elements.
  Result<tenon_dl_managed_tensor*> ToDLPack() const {
    tenon_dl_managed_tensor* managed = nullptr;
    TENON_TRY(Status::Take(tenon_tensor_to_dlpack(tensor_, &managed)));
    return managed;
  }

  explicit operator bool() const { return tensor_ != nullptr; }
  tenon_tensor* get() const { return tensor_; }
  // NULL when the tensor holds nothing.
  const tenon_tensor_view* view() const { return tensor_ == nullptr ? nullptr : tenon_tensor_get_view(tensor_); }
  DType dtype() const { return tensor_ == nullptr ? DType::kInvalid : static_cast<DType>(view()->dtype); }
  Shape shape() const {
    const tenon_tensor_view* v = view();
    return v == nullptr ? Shape() : Shape(std::vector<int64_t>(v->dl.shape, v->dl.shape + v->dl.ndim));
  }
  // 0 of one that holds nothing.
  int64_t element_count() const {
    const tenon_tensor_view* v = view();
    if (v == nullptr) return 0;
    int64_t count = 1;
    for (int32_t i = 0; i < v->dl.ndim; ++i) count *= v->dl.shape[i];
    return count;
  }
  // Whether its elements can be read here; else it lies in a device's memory, and Session::CopyTensor brings it.
  bool on_host() const { return tensor_ == nullptr || (view()->flags & TENON_VIEW_HOST_VISIBLE) != 0; }
  // The elements as bytes (for strings: the cells); none of a tensor in a device's memory.
  std::span<const uint8_t> bytes() const {
    const tenon_tensor_view* v = view();
    if (v == nullptr || v->byte_size == 0 || !on_host()) return {};
    return {static_cast<const uint8_t*>(v->dl.data) + v->dl.byte_offset, static_cast<size_t>(v->byte_size)};
  }
  template <Element T>
  std::span<const T> data() const {
    if (dtype() != DTypeOf<T>()) return {};
    std::span<const uint8_t> raw = bytes();
    return {reinterpret_cast<const T*>(raw.data()), raw.size() / sizeof(T)};
  }
  // The elements of one that Session::PinnedTensor gave, to be written while no step uses it. All others are immutable.
  template <Element T>
  std::span<T> mutable_data() const {
    const std::span<const T> values = data<T>();
    return {const_cast<T*>(values.data()), values.size()};
  }
  // The first element; `otherwise` when there is none of this type.
  template <Element T>
  T scalar(T otherwise = T()) const {
    std::span<const T> values = data<T>();
    return values.empty() ? otherwise : values[0];
  }
  // Element `index` of a string tensor; empty when there is none.
  std::string_view string(uint64_t index) const {
    return tensor_ == nullptr ? std::string_view() : Text(tenon_tensor_string(tensor_, index));
  }

 private:
  tenon_tensor* tensor_ = nullptr;
};

// Elements that belong to somebody else, or a shared Tensor. The memory must live until the call that uses the view
// returns (RunAsync: until it is done).
class View {
 public:
  View(Tensor tensor) : tensor_(std::move(tensor)) {}  // NOLINT: implicit on purpose
  template <Element T>
  View(std::span<const T> values, const Shape& shape) : View(DTypeOf<T>(), shape, values.data(), values.size_bytes()) {}
  template <Element T>
  View(const std::vector<T>& values, const Shape& shape) requires(!std::is_same_v<T, bool>)
      : View(std::span<const T>(values), shape) {}
  // Any plain type: row-major elements, `bytes` of them in all. What does not fit dtype and shape is found where the
  // view is used.
  View(DType dtype, const Shape& shape, const void* data, uint64_t bytes) : dims_(shape.dims()) {
    view_.dl.data = const_cast<void*>(data);
    view_.dl.device_type = 1;  // DLPack's kDLCPU
    view_.dl.ndim = static_cast<int32_t>(dims_.size());
    view_.dl.dtype = DLPackType(dtype);
    view_.dtype = static_cast<uint32_t>(dtype);
    view_.byte_size = bytes;
    view_.flags = TENON_VIEW_READ_ONLY | TENON_VIEW_HOST_VISIBLE;
    if (reinterpret_cast<uintptr_t>(data) % 64 == 0) view_.flags |= TENON_VIEW_ALIGNED64;
  }

  // One that the C API gave; what it points to must live as long as its elements.
  explicit View(const tenon_tensor_view& view) : dims_(view.dl.shape, view.dl.shape + view.dl.ndim), view_(view) {}

  DType dtype() const { return tensor_ ? tensor_.dtype() : static_cast<DType>(view_.dtype); }
  Shape shape() const { return tensor_ ? tensor_.shape() : Shape(dims_); }

  // As the C API takes it; borrows from this object. All zero for a Tensor that holds nothing.
  tenon_tensor_view c_view() const {
    if (tensor_) return *tensor_.view();
    tenon_tensor_view view = view_;
    view.dl.shape = const_cast<int64_t*>(dims_.data());
    return view;
  }

 private:
  static tenon_dl_data_type DLPackType(DType dtype) {
    enum : uint8_t { kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
    auto bits = static_cast<uint8_t>(DTypeSize(dtype) * 8);
    switch (dtype) {
      case DType::kFloat:
      case DType::kDouble:
      case DType::kHalf:
        return {kFloat, bits, 1};
      case DType::kBfloat16:
        return {kBfloat, bits, 1};
      case DType::kComplex64:
      case DType::kComplex128:
        return {kComplex, bits, 1};
      case DType::kBool:
        return {kBool, bits, 1};
      case DType::kInt8:
      case DType::kInt16:
      case DType::kInt32:
      case DType::kInt64:
        return {kInt, bits, 1};
      default:
        return {kUint, bits, 1};
    }
  }

  Tensor tensor_;
  std::vector<int64_t> dims_;
  tenon_tensor_view view_ = {};
};

}  // namespace tenon::host

#endif  // TENON_HOST_TENSOR_H_
