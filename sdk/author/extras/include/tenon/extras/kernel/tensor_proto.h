// SPDX-License-Identifier: Apache-2.0
// Tensors as TensorFlow's message TensorProto: plain types and strings. What is read is a stranger's; a failure is
// INVALID_ARGUMENT, thrown.
#ifndef TENON_SDK_KERNEL_TENSOR_PROTO_H_
#define TENON_SDK_KERNEL_TENSOR_PROTO_H_

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/bytes/wire.h"

namespace tenon::sdk::tensor_proto {

inline constexpr uint32_t kDtype = 1, kShape = 2, kContent = 4, kStrings = 8, kFloat8 = 18;  // fields of TensorProto
inline constexpr uint32_t kDim = 2, kUnknownRank = 3, kSize = 1;  // of TensorShapeProto and its Dim

inline bool IsComplex(uint32_t dtype) { return dtype == TENON_DT_COMPLEX64 || dtype == TENON_DT_COMPLEX128; }

// The field that holds a type's values one by one; 0: none that is known here.
inline uint32_t FieldOf(uint32_t dtype) {
  switch (dtype) {
    case TENON_DT_FLOAT: return 5;
    case TENON_DT_DOUBLE: return 6;
    case TENON_DT_INT32:
    case TENON_DT_INT16:
    case TENON_DT_INT8:
    case TENON_DT_UINT8:
    case TENON_DT_UINT16:
    case TENON_DT_QINT8:
    case TENON_DT_QUINT8:
    case TENON_DT_QINT16:
    case TENON_DT_QUINT16:
    case TENON_DT_QINT32: return 7;
    case TENON_DT_STRING: return kStrings;
    case TENON_DT_COMPLEX64: return 9;
    case TENON_DT_INT64: return 10;
    case TENON_DT_BOOL: return 11;
    case TENON_DT_COMPLEX128: return 12;
    case TENON_DT_HALF:
    case TENON_DT_BFLOAT16: return 13;
    case TENON_DT_UINT32: return 16;
    case TENON_DT_UINT64: return 17;
    case TENON_DT_FLOAT8_E5M2:
    case TENON_DT_FLOAT8_E4M3FN: return kFloat8;
    default: return 0;
  }
}

// ---- Read ----

struct Header {
  uint32_t dtype = TENON_DT_INVALID;
  std::vector<int64_t> dims;
  std::string_view content;  // into the message
};

inline void ReadShape(std::string_view message, std::vector<int64_t>* dims) {
  WireReader shape(message);
  bool unknown = false;
  while (shape.Next()) {
    if (shape.field() == kUnknownRank) unknown = shape.varint() != 0;
    if (shape.field() != kDim) continue;
    WireReader dim(shape.delimited());
    int64_t size = 0;
    while (dim.Next())
      if (dim.field() == kSize) size = static_cast<int64_t>(dim.varint());
    if (!dim.ok()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a damaged shape");
    if (size < 0)
      Fail(TENON_INVALID_ARGUMENT, "the TensorProto has the dim ", size, "; a tensor's dims are not negative");
    if (dims->size() == TENON_MAX_RANK)
      Fail(TENON_INVALID_ARGUMENT, "the TensorProto has more than ", TENON_MAX_RANK, " dims");
    dims->push_back(size);
  }
  if (!shape.ok()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a damaged shape");
  if (unknown && !dims->empty()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has an unknown rank, and dims");
}

inline Header ReadHeader(std::string_view message) {
  Header header;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == kDtype) header.dtype = static_cast<uint32_t>(reader.varint());
    else if (reader.field() == kShape) ReadShape(reader.delimited(), &header.dims);
    else if (reader.field() == kContent) header.content = reader.delimited();
  }
  if (!reader.ok())
    Fail(TENON_INVALID_ARGUMENT, "serialized is no TensorProto that can be read: ", message.size(), " bytes");
  return header;
}

// Numbers where they belong, as far as there is room, and how many there were. part: bytes of one; two are a complex
// number.
struct Parts {
  char* to;
  uint64_t part, room;  // room: in parts
  bool is_bool;
  uint64_t count = 0;
  void Put(uint64_t number) {
    if (count == room) return;
    if (is_bool) number = number != 0;
    std::memcpy(to + count++ * part, &number, part);
  }
};

inline void PutPacked(std::string_view packed, uint32_t dtype, Parts* parts) {
  const bool fixed = dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || IsComplex(dtype),
             bytes = FieldOf(dtype) == kFloat8;
  if (fixed && packed.size() % parts->part != 0)
    Fail(TENON_INVALID_ARGUMENT, "the TensorProto has ", packed.size(), " bytes of ", TypeName(dtype), " values");
  while (!packed.empty()) {
    uint64_t number = 0;
    if (fixed || bytes) {
      std::memcpy(&number, packed.data(), parts->part);
      packed.remove_prefix(parts->part);
    } else if (!TakeVarint(packed, &number)) {
      Fail(TENON_INVALID_ARGUMENT, "the TensorProto has damaged values of ", TypeName(dtype));
    }
    parts->Put(number);
  }
}

// Fewer values than elements: the last one is the rest; none at all: zero is.
inline void FillRest(char* output, uint64_t size, uint64_t have, uint64_t count) {
  if (have == 0) std::memset(output, 0, size * count);
  for (uint64_t i = have; have > 0 && i < count; ++i) std::memcpy(output + i * size, output + (have - 1) * size, size);
}

// That the content is as many elements as the shape has; the product is checked.
inline void CheckContent(const Header& header) {
  const auto count = static_cast<uint64_t>(Count(Dims(header.dims)));
  const uint64_t size = ElementSize(header.dtype);
  if (count > 0 && !header.content.empty() &&
      header.content.size() != static_cast<uint64_t>(Multiply(static_cast<int64_t>(count), static_cast<int64_t>(size))))
    Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content of ", header.content.size(), " bytes; ", count,
         " elements of ", TypeName(header.dtype), " have ", count * size);
  for (const char byte : header.dtype == TENON_DT_BOOL ? header.content : std::string_view())
    if (byte != 0 && byte != 1)
      Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a bool of the value ",
           static_cast<int>(static_cast<unsigned char>(byte)));
}

inline void ReadNumbers(std::string_view message, const Header& header, char* output) {
  const auto count = static_cast<uint64_t>(Count(Dims(header.dims)));
  const uint64_t size = ElementSize(header.dtype);
  if (count == 0) return;
  if (!header.content.empty()) {
    std::memcpy(output, header.content.data(), header.content.size());
    return;
  }
  const uint64_t each = IsComplex(header.dtype) ? 2 : 1;
  Parts parts{output, size / each, count * each, header.dtype == TENON_DT_BOOL};
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() != FieldOf(header.dtype)) continue;
    if (reader.is_bytes()) PutPacked(reader.bytes(), header.dtype, &parts);
    else parts.Put(reader.number());
  }
  FillRest(output, size, parts.count / each, count);
}

// Calls each(text) for the strings that the message has, at most as many as there are elements: of tensor_content,
// which has all sizes and then the bytes, or of string_val.
template <class Each>
void ForEachString(std::string_view message, const Header& header, const Each& each) {
  const int64_t count = Count(Dims(header.dims));
  std::string_view sizes = header.content;
  if (sizes.empty()) {
    int64_t found = 0;
    WireReader reader(message);
    while (found < count && reader.Next()) {
      if (reader.field() != kStrings || !reader.is_bytes()) continue;
      each(reader.bytes());
      ++found;
    }
    return;
  }
  if (static_cast<uint64_t>(count) > sizes.size())
    Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content of ", sizes.size(), " bytes, too few for ",
         count, " strings");
  std::string_view texts = sizes;
  uint64_t size = 0;
  for (int64_t i = 0; i < count; ++i)
    if (!TakeVarint(texts, &size)) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a damaged tensor_content");
  for (int64_t i = 0; i < count; ++i) {
    (void)TakeVarint(sizes, &size);
    if (size > texts.size())
      Fail(TENON_INVALID_ARGUMENT,
           "the TensorProto has a tensor_content in which a string is longer than what is left");
    each(texts.substr(0, size));
    texts.remove_prefix(size);
  }
  if (!texts.empty())
    Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content with ", texts.size(),
         " bytes behind its strings");
}

template <class Make>
KeptTensor ReadStrings(std::string_view message, const Header& header, const Make& make) {
  const auto count = static_cast<uint64_t>(Count(Dims(header.dims)));
  uint64_t bytes = 0;
  ForEachString(message, header, [&bytes](std::string_view text) { bytes += text.size(); });
  KeptTensor tensor = make(TENON_DT_STRING, Dims(header.dims), bytes);
  char* const base = Data<char>(tensor.view());
  auto* const cells = reinterpret_cast<tenon_string_cell*>(base);
  uint64_t found = 0, end = count * sizeof(tenon_string_cell);
  ForEachString(message, header, [&](std::string_view text) {
    if (!text.empty()) std::memcpy(base + end, text.data(), text.size());
    cells[found++] = {end, text.size()};
    end += text.size();
  });
  for (uint64_t i = found; i < count; ++i) cells[i] = found > 0 ? cells[found - 1] : tenon_string_cell{end, 0};
  return tensor;
}

// The tensor of a message, in memory of make(dtype, dims, extra_bytes). expected: its type; TENON_DT_INVALID: whatever
// it is.
template <class Make>
KeptTensor Read(std::string_view message, uint32_t expected, const Make& make) {
  const Header header = ReadHeader(message);
  if (expected != TENON_DT_INVALID && header.dtype != expected)
    Fail(TENON_INVALID_ARGUMENT, "Type mismatch between parsed tensor (", TypeName(header.dtype), ") and dtype (",
         TypeName(expected), ")");
  if (FieldOf(header.dtype) == 0)
    Fail(TENON_INVALID_ARGUMENT, "the TensorProto is of ", TypeName(header.dtype),
         ", which has no values that can be read");
  if (header.dtype == TENON_DT_STRING) return ReadStrings(message, header, make);
  CheckContent(header);
  KeptTensor tensor = make(header.dtype, Dims(header.dims), uint64_t{0});
  ReadNumbers(message, header, Data<char>(tensor.view()));
  return tensor;
}

// ---- Written ----

// dtype and shape of the message, which values may follow.
inline std::string HeadOf(uint32_t dtype, Dims dims) {
  WireWriter shape, head;
  for (const int64_t dim : dims) {
    WireWriter size;
    size.Varint(kSize, static_cast<uint64_t>(dim));
    shape.Bytes(kDim, size.bytes());
  }
  head.Varint(kDtype, dtype);
  head.Bytes(kShape, shape.bytes());
  return head.bytes();
}
inline std::string MemberHead(uint32_t field, uint64_t bytes) {
  std::string head;
  PutVarint(head, field << 3 | 2);
  PutVarint(head, bytes);
  return head;
}

// Calls put(bytes) for the pieces of the tensor's message, in their order; the same ones each time. UNIMPLEMENTED,
// thrown: a type that has none.
template <class Put>
void ForEachPiece(const tenon_tensor_view& tensor, const Put& put) {
  const uint32_t dtype = BaseType(tensor.dtype);
  if (FieldOf(dtype) == 0) Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be serialized");
  put(std::string_view(HeadOf(dtype, DimsOf(tensor))));
  if (dtype == TENON_DT_STRING) {
    for (int64_t i = 0, count = Count(tensor); i < count; ++i) {
      const std::string_view text = StringAt(tensor, i);
      put(std::string_view(MemberHead(kStrings, text.size())));
      put(text);
    }
    return;
  }
  const uint64_t bytes = static_cast<uint64_t>(Count(tensor)) * ElementSize(dtype);
  if (bytes == 0) return;
  put(std::string_view(MemberHead(kContent, bytes)));
  put(std::string_view(Data<const char>(tensor), bytes));
}

// The bytes of all pieces.
inline uint64_t SizeOf(const tenon_tensor_view& tensor) {
  uint64_t bytes = 0;
  ForEachPiece(tensor, [&bytes](std::string_view piece) { bytes += piece.size(); });
  return bytes;
}

}  // namespace tenon::sdk::tensor_proto
#endif  // TENON_SDK_KERNEL_TENSOR_PROTO_H_
