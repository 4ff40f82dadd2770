// SPDX-License-Identifier: Apache-2.0
// ParseTensor, SerializeTensor: tensors as TensorFlow's message TensorProto.
#include <cstring>

#include "columns.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/op/op.h"
#include "tenon/sdk/wire.h"

namespace tenon::ops {
using namespace sdk;

namespace {

constexpr uint32_t kDtype = 1, kShape = 2, kContent = 4, kStrings = 8, kFloat8 = 18;  // fields of TensorProto
constexpr uint32_t kDim = 2, kUnknownRank = 3, kSize = 1;                                       // of TensorShapeProto and its Dim

bool IsComplex(uint32_t dtype) { return dtype == TENON_DT_COMPLEX64 || dtype == TENON_DT_COMPLEX128; }

// The field that holds a type's values one by one; 0: none that is known here.
uint32_t FieldOf(uint32_t dtype) {
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

struct Header {
  uint32_t dtype = TENON_DT_INVALID;
  std::vector<int64_t> dims;
  std::string_view content;
};

void ReadShape(std::string_view message, std::vector<int64_t>* dims) {
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
    if (size < 0) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has the dim ", size, "; a tensor's dims are not negative");
    if (dims->size() == TENON_MAX_RANK) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has more than ", TENON_MAX_RANK, " dims");
    dims->push_back(size);
  }
  if (!shape.ok()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a damaged shape");
  if (unknown && !dims->empty()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has an unknown rank, and dims");
}

Header ReadHeader(std::string_view message) {
  Header header;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == kDtype) header.dtype = static_cast<uint32_t>(reader.varint());
    else if (reader.field() == kShape) ReadShape(reader.delimited(), &header.dims);
    else if (reader.field() == kContent) header.content = reader.delimited();
  }
  if (!reader.ok()) Fail(TENON_INVALID_ARGUMENT, "serialized is no TensorProto that can be read: ", message.size(), " bytes");
  return header;
}

// Numbers where they belong, as far as there is room, and how many there were. part: bytes of one; two are a complex number.
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

void PutPacked(std::string_view packed, uint32_t dtype, Parts* parts) {
  const bool fixed = dtype == TENON_DT_FLOAT || dtype == TENON_DT_DOUBLE || IsComplex(dtype), bytes = FieldOf(dtype) == kFloat8;
  if (fixed && packed.size() % parts->part != 0) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has ", packed.size(), " bytes of ", TypeName(dtype), " values");
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
void FillRest(char* output, uint64_t size, uint64_t have, uint64_t count) {
  if (have == 0) std::memset(output, 0, size * count);
  for (uint64_t i = have; have > 0 && i < count; ++i) std::memcpy(output + i * size, output + (have - 1) * size, size);
}

void GiveNumbers(const RunContext& c, std::string_view message, const Header& header) {
  const auto count = static_cast<uint64_t>(Count(Dims(header.dims)));
  const uint64_t size = ElementSize(header.dtype);
  const bool is_bool = header.dtype == TENON_DT_BOOL;
  if (count > 0 && !header.content.empty() && header.content.size() != static_cast<uint64_t>(Multiply(static_cast<int64_t>(count), static_cast<int64_t>(size))))
    Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content of ", header.content.size(), " bytes; ", count, " elements of ", TypeName(header.dtype), " have ", count * size);
  for (const char byte : is_bool ? header.content : std::string_view())
    if (byte != 0 && byte != 1) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a bool of the value ", static_cast<int>(static_cast<unsigned char>(byte)));
  c.AllocOutput(0, header.dims);
  char* const output = c.output<char>(0);
  if (count == 0) return;
  if (!header.content.empty()) {
    std::memcpy(output, header.content.data(), header.content.size());
    return;
  }
  const uint64_t each = IsComplex(header.dtype) ? 2 : 1;
  Parts parts{output, size / each, count * each, is_bool};
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() != FieldOf(header.dtype)) continue;
    if (reader.is_bytes()) PutPacked(reader.bytes(), header.dtype, &parts);
    else parts.Put(reader.number());
  }
  FillRest(output, size, parts.count / each, count);
}

// The sizes of all strings, and then their bytes.
std::vector<std::string_view> StringsOfContent(std::string_view content, int64_t count) {
  std::vector<std::string_view> strings;
  if (static_cast<uint64_t>(count) > content.size()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content of ", content.size(), " bytes, too few for ", count, " strings");
  std::vector<uint64_t> sizes(static_cast<size_t>(count));
  for (uint64_t& size : sizes)
    if (!TakeVarint(content, &size)) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a damaged tensor_content");
  for (const uint64_t size : sizes) {
    if (size > content.size()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content in which a string is longer than what is left");
    strings.push_back(content.substr(0, size));
    content.remove_prefix(size);
  }
  if (!content.empty()) Fail(TENON_INVALID_ARGUMENT, "the TensorProto has a tensor_content with ", content.size(), " bytes behind its strings");
  return strings;
}

void GiveStrings(const RunContext& c, std::string_view message, const Header& header) {
  const int64_t count = Count(Dims(header.dims));
  if (!header.content.empty()) return SetStrings(c, 0, header.dims, StringsOfContent(header.content, count));
  parse::DenseColumn column;
  column.dtype = TENON_DT_STRING;
  parse::DenseMemory memory;
  memory.Make(c, &column, header.dims);
  auto* const views = reinterpret_cast<std::string_view*>(column.base);
  int64_t found = 0;
  WireReader reader(message);
  while (found < count && reader.Next())
    if (reader.field() == kStrings && reader.is_bytes()) views[found++] = reader.bytes();
  for (int64_t i = found; found > 0 && i < count; ++i) views[i] = views[found - 1];
  memory.Give(c, column, header.dims);
}

struct ParseTensor {
  explicit ParseTensor(CreateContext& c) : dtype(c.Type("out_type")) {
    if (FieldOf(dtype) == 0) c.Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be parsed");
  }
  void Run(RunContext c) const {
    const std::string_view message = StringAt(c.input_view(0), 0);
    const Header header = ReadHeader(message);
    if (header.dtype != dtype) Fail(TENON_INVALID_ARGUMENT, "Type mismatch between parsed tensor (", TypeName(header.dtype), ") and dtype (", TypeName(dtype), ")");
    if (dtype == TENON_DT_STRING) GiveStrings(c, message, header);
    else GiveNumbers(c, message, header);
  }
  uint32_t dtype;
};

void PutTag(std::string& out, uint32_t field) { PutVarint(out, field << 3 | 2); }

struct SerializeTensor {
  explicit SerializeTensor(CreateContext& c) : dtype(c.Type("T")) {
    if (FieldOf(dtype) == 0) c.Fail(TENON_UNIMPLEMENTED, "tensors of ", TypeName(dtype), " cannot be serialized");
  }
  void Run(RunContext c) const {
    const tenon_tensor_view& tensor = c.input_view(0);
    std::string head = HeadOf(DimsOf(tensor));
    if (dtype == TENON_DT_STRING) return GiveStrings(c, head, tensor);
    const auto bytes = static_cast<size_t>(Count(tensor)) * ElementSize(dtype);
    if (bytes > 0) {
      PutTag(head, kContent);
      PutVarint(head, bytes);
    }
    char* const to = Allocate(c, head, bytes);
    if (bytes > 0) std::memcpy(to, Data<const char>(tensor), bytes);
  }

 private:
  std::string HeadOf(Dims dims) const {
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
  // The one string of the output, which begins with `head`; where its rest goes.
  static char* Allocate(const RunContext& c, std::string_view head, uint64_t rest) {
    const uint64_t size = head.size() + rest;
    c.AllocOutput(0, {}, size);
    char* const base = c.output<char>(0);
    *reinterpret_cast<tenon_string_cell*>(base) = {sizeof(tenon_string_cell), size};
    std::memcpy(base + sizeof(tenon_string_cell), head.data(), head.size());
    return base + sizeof(tenon_string_cell) + head.size();
  }
  static void GiveStrings(const RunContext& c, std::string_view head, const tenon_tensor_view& tensor) {
    const std::vector<std::string_view> strings = StringsOf(tensor);
    std::string lead;
    uint64_t bytes = 0;
    const auto begin = [&lead](std::string_view text) {
      lead.clear();
      PutTag(lead, kStrings);
      PutVarint(lead, text.size());
    };
    for (const std::string_view text : strings) {
      begin(text);
      bytes += lead.size() + text.size();
    }
    char* to = Allocate(c, head, bytes);
    for (const std::string_view text : strings) {
      begin(text);
      to = std::copy(lead.begin(), lead.end(), to);
      to = std::copy(text.begin(), text.end(), to);
    }
  }
  uint32_t dtype;
};

constexpr Traits kGives = {.dynamic_outputs = TENON_DYNAMIC_ALL};

}  // namespace

TENON_KERNEL(kParseTensorKernel) = Registration<ParseTensor>("ParseTensor", kGives);
TENON_KERNEL(kSerializeTensorKernel) = Registration<SerializeTensor>("SerializeTensor", kGives);

static void ParseTensorShape(ShapeContext& c) { c.WithRank(0, 0); }

TENON_OP(kParseTensor) = DefineOp({
    .name = "ParseTensor",
    .inputs = "serialized: string",
    .outputs = "output: out_type",
    .attrs = "out_type: type",
    .constraints = "rank(serialized) == 0",
    .doc = "The tensor of a serialized TensorProto, whose type is said beforehand.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ParseTensorShape>,
});

TENON_OP(kSerializeTensor) = DefineOp({
    .name = "SerializeTensor",
    .inputs = "tensor: T",
    .outputs = "serialized: string",
    .attrs = "T: type",
    .doc = "The tensor as a serialized TensorProto.",
    .traits = TENON_OP_NO_GRADIENT,
    .shape = ShapeFunction<ScalarShape>,
});

}  // namespace tenon::ops
