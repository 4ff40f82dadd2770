// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/variant_bytes.h"

#include <cstring>
#include <vector>

#include "core/base/table_check.h"
#include "core/tensor/pool_charge.h"
#include "core/tensor/variant.h"
#include "net/cluster/packet.h"

namespace tenon::cluster {
namespace {

constexpr uint64_t kCellAlignment = 8, kDataAlignment = 16;
constexpr uint64_t kCellBytes = 8, kPlaceBytes = 16;  // at least
constexpr uint64_t kMostPlaces = uint64_t{1} << 36;   // more than any machine holds

uint64_t Aligned(uint64_t at, uint64_t alignment) { return (at + alignment - 1) / alignment * alignment; }

bool MayCross(DType dtype) { return IsPlain(dtype) || dtype == TENON_DT_STRING || dtype == TENON_DT_VARIANT; }

uint64_t DataBytes(const tenon_tensor_view& view) {
  return view.byte_size + (view.dtype == TENON_DT_STRING ? StringBytes(view) : 0);
}

// Writes, or, without memory, measures.
class Writer {
 public:
  Writer(char* out, variant::Types* types) : out_(out), types_(types) {}
  uint64_t bytes() const { return at_; }

  Status Cells(const tenon_tensor_view& cells, int depth) {
    const auto* const* each = static_cast<const tenon_variant* const*>(DataOf(cells));
    for (int64_t i = 0; i < NumElements(cells); ++i) TENON_RETURN_IF_ERROR(Cell(each[i], depth));
    return Status::Ok();
  }

 private:
  Status Cell(const tenon_variant* value, int depth) {
    Align(kCellAlignment);
    if (value == nullptr) {
      Put(uint64_t{0});
      return Status::Ok();
    }
    if (depth > kMostDepth)
      return Unimplemented(
          StrCat("variants that lie in one another deeper than ", kMostDepth, " do not leave their process"));
    const tenon_variant_info info = variant::Info(*value);
    if (value->object != nullptr)
      return Unimplemented(
          StrCat("a variant of type '", value->type, "' does not leave its process: it holds an object"));
    if (types_->Find(value->type) == nullptr)
      return Unimplemented(StrCat("a variant of type '", value->type,
                                  "' does not leave its process: no plugin says how it is made anew"));
    const uint64_t told = variant::Told(*value);
    Put(static_cast<uint32_t>(info.type.size));
    Put(static_cast<uint32_t>(info.metadata.size));
    Put(info.element_count);
    Put(told);
    Bytes(info.type.data, info.type.size);
    Bytes(info.metadata.data, info.metadata.size);
    for (uint64_t i = 0; i < told; ++i) TENON_RETURN_IF_ERROR(Place(*value, i, depth));
    return Status::Ok();
  }

  Status Place(const tenon_variant& value, uint64_t index, int depth) {
    const tenon_tensor_view element = variant::Element(value, index);
    const bool is_empty = element.dtype == TENON_DT_INVALID, of_variants = element.dtype == TENON_DT_VARIANT;
    Align(kCellAlignment);
    if (!is_empty && !MayCross(element.dtype))
      return Unimplemented(StrCat("element ", index, " of a variant of type '", value.type, "' is of type ",
                                  TypeName(element.dtype), ", which does not leave its process"));
    Put(element.dtype);
    Put(static_cast<uint32_t>(element.dl.ndim));
    Put(of_variants || is_empty ? uint64_t{0} : DataBytes(element));
    if (is_empty) return Status::Ok();
    Bytes(element.dl.shape, static_cast<uint64_t>(element.dl.ndim) * sizeof(int64_t));
    if (of_variants) return Cells(element, depth + 1);
    Align(kDataAlignment);
    if (out_ != nullptr && IsPlain(element.dtype) && element.byte_size > 0)
      std::memcpy(out_ + at_, DataOf(element), element.byte_size);
    if (out_ != nullptr && !IsPlain(element.dtype)) CopyElements(element, out_ + at_);
    at_ += DataBytes(element);
    return Status::Ok();
  }

  template <typename T>
  void Put(T value) {
    Bytes(&value, sizeof value);
  }
  void Bytes(const void* from, uint64_t count) {
    if (out_ != nullptr && count > 0) std::memcpy(out_ + at_, from, count);
    at_ += count;
  }
  void Align(uint64_t alignment) {
    const uint64_t next = Aligned(at_, alignment);
    if (out_ != nullptr) std::memset(out_ + at_, 0, next - at_);
    at_ = next;
  }

  char* const out_;
  variant::Types* const types_;
  uint64_t at_ = 0;
};

class ElementsReader {
 public:
  ElementsReader(const Tensor& bytes, variant::Types* types, BufferPool* pool)
      : buffer_(bytes.buffer()), size_(bytes.byte_size()), types_(types), pool_(pool) {}

  Result<Tensor> Cells(const Shape& shape, int depth) {
    TENON_ASSIGN_OR_RETURN(const int64_t count, shape.num_elements());
    TENON_RETURN_IF_ERROR(CheckLeft(static_cast<uint64_t>(count), kCellBytes, "cells"));
    TENON_ASSIGN_OR_RETURN(Tensor cells, Tensor::Allocate(pool_, TENON_DT_VARIANT, shape));
    for (int64_t i = 0; i < count; ++i) TENON_RETURN_IF_ERROR(Cell(&cells.as<tenon_variant*>()[i], depth));
    return cells;
  }
  // That nothing is left.
  Status Finish() const {
    return at_ == size_ ? Status::Ok()
                        : InvalidArgument(StrCat(size_ - at_, " of ", size_, " bytes of variants are nothing"));
  }

 private:
  Status Cell(tenon_variant** out, int depth) {
    TENON_RETURN_IF_ERROR(Align(kCellAlignment));
    uint32_t name_bytes = 0, metadata_bytes = 0;
    uint64_t count = 0, told = 0;
    TENON_RETURN_IF_ERROR(Get(&name_bytes));
    TENON_RETURN_IF_ERROR(Get(&metadata_bytes));
    if (name_bytes == 0 && metadata_bytes == 0) return Status::Ok();
    if (depth > kMostDepth) return InvalidArgument(StrCat("variants lie in one another deeper than ", kMostDepth));
    TENON_RETURN_IF_ERROR(Get(&count));
    TENON_RETURN_IF_ERROR(Get(&told));
    TENON_ASSIGN_OR_RETURN(const std::string_view name, Text(name_bytes));
    TENON_ASSIGN_OR_RETURN(const std::string_view metadata, Text(metadata_bytes));
    const std::shared_ptr<const variant::Type> type = types_->Find(name);
    if (type == nullptr)
      return InvalidArgument(
          StrCat("a variant ",
                 CheckName(Span(name), "").ok() ? StrCat("of type '", name, "'") : std::string("without a type's name"),
                 " came, which no plugin here says how to make anew"));
    if (count > kMostPlaces || told > count)
      return InvalidArgument(
          StrCat("a variant of type '", name, "' is said to have ", count, " places, of which ", told, " follow"));
    TENON_RETURN_IF_ERROR(CheckLeft(told, kPlaceBytes, "places"));
    PoolCharge charge;
    TENON_RETURN_IF_ERROR(charge.Take(pool_, told * (sizeof(tenon_tensor_view) + sizeof(Tensor))));
    std::vector<tenon_tensor_view> elements(told);
    std::vector<Tensor> nested;  // which elements are views of
    for (tenon_tensor_view& element : elements)
      TENON_RETURN_IF_ERROR(Place(&element, &nested, depth).Annotate(StrCat("a variant of type '", name, "'")));
    TENON_RETURN_IF_ERROR(type->Check({Span(name), Span(metadata), count}, elements));
    for (tenon_tensor_view& element : elements)
      if (element.buffer != nullptr) element.dl.data = element.buffer->data;
    TENON_ASSIGN_OR_RETURN(*out,
                           variant::New(pool_, name, metadata, told == 0 ? nullptr : elements.data(), count, told));
    return Status::Ok();
  }

  // Its data's place, from the buffer's beginning; not the data, until the type's owner has seen it.
  Status Place(tenon_tensor_view* out, std::vector<Tensor>* nested, int depth) {
    TENON_RETURN_IF_ERROR(Align(kCellAlignment));
    uint32_t dtype = 0, rank = 0;
    uint64_t bytes = 0;
    TENON_RETURN_IF_ERROR(Get(&dtype));
    TENON_RETURN_IF_ERROR(Get(&rank));
    TENON_RETURN_IF_ERROR(Get(&bytes));
    if (dtype == TENON_DT_INVALID)
      return rank == 0 && bytes == 0 ? Status::Ok() : InvalidArgument("an empty place has dims or bytes");
    if (!MayCross(dtype))
      return InvalidArgument(StrCat("an element of type ", TypeName(dtype), " came from another process"));
    if (rank > TENON_MAX_RANK) return InvalidArgument(StrCat("an element of rank ", rank));
    TENON_RETURN_IF_ERROR(CheckLeft(rank, sizeof(int64_t), "dims"));
    const tenon_shape dims{reinterpret_cast<const int64_t*>(Here()), static_cast<int32_t>(rank), 0};
    at_ += rank * sizeof(int64_t);
    const Shape shape(dims);
    TENON_RETURN_IF_ERROR(shape.Validate());
    if (!shape.fully_known()) return InvalidArgument(StrCat("an element has the shape ", shape.ToString()));
    TENON_ASSIGN_OR_RETURN(const int64_t size, ByteSize(dtype, shape));
    const auto cells = static_cast<uint64_t>(size);
    if (dtype == TENON_DT_VARIANT) {
      if (bytes != 0) return InvalidArgument(StrCat("variants within variants are said to have ", bytes, " bytes"));
      TENON_ASSIGN_OR_RETURN(Tensor inner, Cells(shape, depth + 1));
      *out = MakeView(dtype, {inner.buffer()->dims, inner.buffer()->rank, 0}, nullptr, cells, inner.buffer());
      nested->push_back(std::move(inner));
      return Status::Ok();
    }
    TENON_RETURN_IF_ERROR(Align(kDataAlignment));
    const bool strings = dtype == TENON_DT_STRING;
    if (bytes < cells || (!strings && bytes != cells) || bytes > size_ - at_)
      return InvalidArgument(
          StrCat("an element of ", cells, " bytes is said to have ", bytes, ", ", size_ - at_, " are left"));
    if (strings)
      TENON_RETURN_IF_ERROR(CheckStrings(Here(), static_cast<int64_t>(cells / sizeof(tenon_string_cell)), bytes));
    *out = MakeView(dtype, dims, nullptr, cells, buffer_);
    out->dl.byte_offset = at_;
    at_ += bytes;
    return Status::Ok();
  }

  const char* Here() const { return static_cast<const char*>(buffer_->data) + at_; }
  // That `count` things of at least so many bytes each may be there.
  Status CheckLeft(uint64_t count, uint64_t least, std::string_view what) const {
    if (count <= (size_ - at_) / least) return Status::Ok();
    return InvalidArgument(
        StrCat("variants are said to have ", count, " ", what, ", ", size_ - at_, " bytes are left"));
  }
  template <typename T>
  Status Get(T* out) {
    TENON_RETURN_IF_ERROR(CheckLeft(1, sizeof(T), "numbers more"));
    std::memcpy(out, Here(), sizeof(T));
    at_ += sizeof(T);
    return Status::Ok();
  }
  Result<std::string_view> Text(uint64_t bytes) {
    TENON_RETURN_IF_ERROR(CheckLeft(bytes, 1, "bytes of text"));
    const std::string_view text(Here(), bytes);
    at_ += bytes;
    return text;
  }
  Status Align(uint64_t alignment) {
    const uint64_t next = Aligned(at_, alignment);
    if (next > size_) return InvalidArgument(StrCat("variants end after ", size_, " bytes, amid one"));
    at_ = next;
    return Status::Ok();
  }

  Buffer* const buffer_;
  const uint64_t size_;
  variant::Types* const types_;
  BufferPool* const pool_;
  uint64_t at_ = 0;
};

}  // namespace

Result<Tensor> WriteVariants(const tenon_tensor_view& cells, variant::Types* types, BufferPool* pool) {
  Writer measure(nullptr, types);
  TENON_RETURN_IF_ERROR(measure.Cells(cells, 1));
  TENON_ASSIGN_OR_RETURN(Tensor bytes,
                         Tensor::Allocate(pool, TENON_DT_UINT8, Shape{static_cast<int64_t>(measure.bytes())}));
  Writer writer(bytes.as<char>(), types);
  TENON_RETURN_IF_ERROR(writer.Cells(cells, 1));
  return bytes;
}

Result<Tensor> ReadVariants(const Tensor& bytes, const Shape& shape, variant::Types* types, BufferPool* pool) {
  ElementsReader reader(bytes, types, pool);
  TENON_ASSIGN_OR_RETURN(Tensor cells, reader.Cells(shape, 1));
  TENON_RETURN_IF_ERROR(reader.Finish());
  return cells;
}

}  // namespace tenon::cluster
