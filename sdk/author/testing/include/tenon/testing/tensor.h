// SPDX-License-Identifier: Apache-2.0
// Tensors of the testing host: values that are made from numbers or texts, given to kernels, and read back.
//
//   const Tensor a = Make<float>({2, 1}, {1, 2}), b = Strings({2}, {"x", "yz"});
//   EXPECT_EQ(Values<float>(a), (std::vector<float>{1, 2}));
//   EXPECT_EQ(Texts(b)[1], "yz");
//
// A Tensor is a value: a copy has memory of its own. Kernels get it as a view of a reference counted buffer (buffer.h)
// and may keep that longer than the Tensor lives. One thread at a time.
#ifndef TENON_TESTING_TENSOR_H_
#define TENON_TESTING_TENSOR_H_

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tenon/sdk/kernel/element.h"
#include "tenon/testing/host.h"

namespace tenon::testing {

inline int64_t CountOf(const Dimensions& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}
// Bytes of one element, or of its cell for strings, resources, references and variants.
inline uint64_t CellSize(uint32_t dtype) {
  if (dtype == TENON_DT_STRING) return sizeof(tenon_string_cell);
  return dtype == TENON_DT_RESOURCE || dtype == TENON_DT_VARIANT || (dtype >= TENON_DT_REF && dtype < 2 * TENON_DT_REF)
             ? sizeof(void*)
             : sdk::ElementSize(dtype);
}
inline uint64_t BytesOf(uint32_t dtype, const Dimensions& dims) {
  const auto count = static_cast<uint64_t>(CountOf(dims));
  const uint32_t packed = sdk::PackedBits(dtype);
  return packed == 0 ? count * CellSize(dtype) : (count * packed + 7) / 8;
}

// A view of memory at `data`, which need not be the host's. dims lives as long as the view.
inline tenon_tensor_view ViewOf(uint32_t dtype, const Dimensions& dims, void* data) {
  tenon_tensor_view view = {};
  view.dl.data = data;
  view.dl.ndim = static_cast<int32_t>(dims.size());
  view.dl.shape = const_cast<int64_t*>(dims.data());
  view.dtype = dtype;
  view.byte_size = BytesOf(dtype, dims);
  return view;
}
// A view of a buffer with the buffer's dims; it holds no reference.
inline tenon_tensor_view ViewOf(uint32_t dtype, tenon_buffer* buffer) {
  tenon_tensor_view view = ViewOf(dtype, buffer->dims, buffer->data);
  view.buffer = buffer;
  if (OnHost(*buffer)) {
    view.dl.device_type = 1;
    view.flags = TENON_VIEW_HOST_VISIBLE | TENON_VIEW_ALIGNED64;
  }
  return view;
}

// The memory of a tensor: bytes with a size, held by a buffer. A copy has other memory.
class Bytes {
 public:
  explicit Bytes(uint64_t size = 0) : buffer_(NewBuffer(size)) { std::memset(buffer_->data, 0, size); }
  // Takes the reference over.
  explicit Bytes(tenon_buffer* buffer) : buffer_(buffer) {}
  Bytes(const Bytes& other) : buffer_(NewBuffer(other.size(), other.buffer_->dims)) {
    std::memcpy(data(), other.data(), size());
  }
  Bytes(Bytes&& other) noexcept : buffer_(std::exchange(other.buffer_, NewBuffer(0))) {}
  Bytes& operator=(Bytes other) {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  Bytes& operator=(const std::vector<char>& bytes) { return *this = From(bytes.data(), bytes.size()); }
  ~Bytes() { Release(buffer_); }
  static Bytes From(const void* source, uint64_t size) {
    Bytes bytes(NewBuffer(size));
    if (size > 0) std::memcpy(bytes.data(), source, size);
    return bytes;
  }

  char* data() const { return buffer_->data; }
  uint64_t size() const { return buffer_->bytes; }
  bool empty() const { return size() == 0; }
  char* begin() const { return data(); }
  char* end() const { return data() + size(); }
  char& operator[](size_t i) const { return data()[i]; }
  friend bool operator==(const Bytes& a, const Bytes& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
  bool intact() const { return Intact(*buffer_); }
  tenon_buffer* buffer() const { return buffer_; }

 private:
  tenon_buffer* buffer_;
};

struct Tensor {
  Tensor() : Tensor(TENON_DT_INVALID, {}) {}
  // Of zeros; of strings: without their bytes.
  Tensor(uint32_t type, Dimensions shape) : dtype(type), dims(std::move(shape)), bytes(BytesOf(dtype, dims)) {}
  Tensor(uint32_t type, Dimensions shape, Bytes memory)
      : dtype(type), dims(std::move(shape)), bytes(std::move(memory)) {}
  // What a view shows; shares its buffer.
  static Tensor Sharing(const tenon_tensor_view& view) {
    return {view.dtype, Dimensions(view.dl.shape, view.dl.shape + view.dl.ndim), Bytes(Share(view))};
  }

  int64_t count() const { return CountOf(dims); }
  // Valid as long as the tensor and its dims are; holds no reference.
  tenon_tensor_view view() const {
    if (bytes.buffer()->dims != dims) bytes.buffer()->dims = dims;
    return ViewOf(dtype, bytes.buffer());
  }

  uint32_t dtype;
  Dimensions dims;
  Bytes bytes;
};

// ---- Making them ----

template <class T>
Tensor Make(Dimensions dims, const std::vector<T>& values, uint32_t dtype = sdk::DtypeOf<T>::value) {
  Tensor tensor(dtype, std::move(dims), Bytes(values.size() * sizeof(T)));
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = values[i];
    std::memcpy(tensor.bytes.data() + i * sizeof(T), static_cast<const void*>(&value), sizeof(T));
  }
  return tensor;
}
template <class T>
Tensor Scalar(T value) {
  return Make<T>({}, {value});
}
template <class T>
Tensor Vector(const std::vector<T>& values) {
  return Make<T>({static_cast<int64_t>(values.size())}, values);
}
inline Tensor Strings(Dimensions dims, const std::vector<std::string>& values) {
  std::string bytes(values.size() * sizeof(tenon_string_cell), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const tenon_string_cell cell = {bytes.size(), values[i].size()};
    std::memcpy(bytes.data() + i * sizeof cell, &cell, sizeof cell);
    bytes += values[i];
  }
  return {TENON_DT_STRING, std::move(dims), Bytes::From(bytes.data(), bytes.size())};
}
// What an output is to be. Those that the kernel makes need no dims.
template <class T>
Tensor Out(Dimensions dims = {}) {
  return {sdk::DtypeOf<T>::value, std::move(dims)};
}

// ---- Reading them ----

template <class T>
std::vector<T> Values(const Tensor& tensor) {
  std::vector<T> out(static_cast<size_t>(tensor.count()));
  if (out.size() * sizeof(T) > tensor.bytes.size())
    throw std::runtime_error("a tensor has fewer bytes than elements were asked for");
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(static_cast<void*>(&value), tensor.bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = value;
  }
  return out;
}
inline std::vector<std::string> Texts(const Tensor& tensor) {
  std::vector<std::string> out;
  for (const tenon_string_cell& cell : Values<tenon_string_cell>(tensor)) {
    if (cell.offset > tensor.bytes.size() || cell.size > tensor.bytes.size() - cell.offset)
      throw std::runtime_error("a string cell points outside");
    out.emplace_back(tensor.bytes.data() + cell.offset, cell.size);
  }
  return out;
}
// Of any number type; of others their bytes.
inline std::vector<double> Numbers(const Tensor& tensor) {
  std::vector<double> out;
  const auto read = [&]<class T>(T) {
    for (size_t i = 0; (i + 1) * sizeof(T) <= tensor.bytes.size(); ++i) {
      T value;
      std::memcpy(static_cast<void*>(&value), tensor.bytes.data() + i * sizeof(T), sizeof(T));
      out.push_back(static_cast<double>(static_cast<sdk::Wide<T>>(value)));
    }
  };
  switch (tensor.dtype) {
    case TENON_DT_FLOAT: read(float{}); break;
    case TENON_DT_DOUBLE: read(double{}); break;
    case TENON_DT_INT32: read(int32_t{}); break;
    case TENON_DT_INT64: read(int64_t{}); break;
    case TENON_DT_BFLOAT16: read(sdk::Bfloat16{}); break;
    case TENON_DT_HALF: read(sdk::Half{}); break;
    default: read(uint8_t{}); break;
  }
  return out;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_TENSOR_H_
