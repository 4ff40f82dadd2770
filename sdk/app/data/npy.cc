// SPDX-License-Identifier: Apache-2.0
#include "tenon/data/npy.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tenon/data/file.h"

namespace tenon::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

Status Bad(std::string text) { return Status(Code::kInvalidArgument, "not a usable .npy file: " + std::move(text)); }

// What the header's dictionary says.
struct Description {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Result<Description> Read() {
    Description description;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take('{')) return Bad("the header is no dictionary");
    while (!Take('}')) {
      std::optional<std::string> key = String();
      if (!key || !Take(':')) return Bad("the header's dictionary cannot be read");
      if (*key == "descr") {
        TENON_TRY_ASSIGN(description.descr, Descr());
        has_descr = true;
      } else if (*key == "fortran_order") {
        TENON_TRY_ASSIGN(description.fortran_order, Boolean());
        has_order = true;
      } else if (*key == "shape") {
        TENON_TRY_ASSIGN(description.shape, Tuple());
        has_shape = true;
      } else {
        return Bad("unknown key '" + *key + "' in the header");
      }
      if (!Take(',') && Peek() != '}') return Bad("the header's dictionary cannot be read");
    }
    if (!has_descr || !has_order || !has_shape) return Bad("the header lacks descr, fortran_order or shape");
    return description;
  }

 private:
  char Peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }
  std::optional<std::string> String() {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }
  Result<std::string> Descr() {
    if (Peek() == '[') return Bad("it holds records (a structured dtype); save each field as an array of its own");
    std::optional<std::string> descr = String();
    if (!descr) return Bad("descr is no string");
    return *std::move(descr);
  }
  Result<bool> Boolean() {
    Peek();
    for (auto [word, value] : {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    return Bad("fortran_order is neither True nor False");
  }
  Result<std::vector<int64_t>> Tuple() {
    std::vector<int64_t> dims;
    if (!Take('(')) return Bad("shape is no tuple");
    while (!Take(')')) {
      if (!std::isdigit(static_cast<unsigned char>(Peek()))) return Bad("shape holds something that is no size");
      int64_t dim = 0;
      while (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) {
        if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, text_[at_] - '0', &dim)) {
          return Bad("a size in shape is beyond 64 bits");
        }
        ++at_;
      }
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote 3L
      dims.push_back(dim);
      if (dims.size() > TENON_MAX_RANK) return Bad("more than " + std::to_string(TENON_MAX_RANK) + " dimensions");
      if (!Take(',') && Peek() != ')') return Bad("shape cannot be read");
    }
    return dims;
  }

  std::string_view text_;
  size_t at_ = 0;
};

// What one element of the file is.
struct ElementType {
  DType dtype = DType::kInvalid;
  uint64_t size = 0;  // in the file
  uint64_t word = 0;  // bytes that a change of byte order reverses
  bool big_endian = false;
  bool unicode = false;  // 'U': four bytes a character
};

struct PlainType {
  std::string_view code;
  DType dtype;
  uint64_t word;
};
constexpr PlainType kPlainTypes[] = {
    {"f4", DType::kFloat, 4},     {"f8", DType::kDouble, 8},      {"f2", DType::kHalf, 2},     {"i1", DType::kInt8, 1},
    {"i2", DType::kInt16, 2},     {"i4", DType::kInt32, 4},       {"i8", DType::kInt64, 8},    {"u1", DType::kUint8, 1},
    {"u2", DType::kUint16, 2},    {"u4", DType::kUint32, 4},      {"u8", DType::kUint64, 8},   {"b1", DType::kBool, 1},
    {"c8", DType::kComplex64, 4}, {"c16", DType::kComplex128, 8}, {"V2", DType::kBfloat16, 2},
};

Result<ElementType> ParseDescr(const std::string& descr) {
  std::string_view code = descr;
  ElementType type;
  if (!code.empty() && std::string_view("<>=|").find(code[0]) != std::string_view::npos) {
    type.big_endian = code[0] == '>';
    code.remove_prefix(1);
  }
  if (code.size() > 1 && (code[0] == 'S' || code[0] == 'U')) {
    uint64_t length = 0;
    for (char c : code.substr(1)) {
      if (c < '0' || c > '9' || length > (uint64_t{1} << 40)) return Bad("dtype '" + descr + "' cannot be read");
      length = length * 10 + static_cast<uint64_t>(c - '0');
    }
    type.dtype = DType::kString;
    type.unicode = code[0] == 'U';
    type.word = type.unicode ? 4 : 1;
    type.size = length * type.word;
    return type;
  }
  for (const PlainType& plain : kPlainTypes) {
    if (plain.code != code) continue;
    type.dtype = plain.dtype;
    type.word = plain.word;
    type.size = host::DTypeSize(plain.dtype);
    return type;
  }
  const std::string help =
      code.starts_with("O") ? "Python objects; save with a plain dtype instead" : "no dtype that a tensor can have";
  return Bad("dtype '" + descr + "' is " + help);
}

// Goes over a column-major array in the row-major order of its elements.
class ColumnMajorWalk {
 public:
  explicit ColumnMajorWalk(const std::vector<int64_t>& shape) {
    uint64_t stride = 1;
    for (int64_t size : shape) {
      axes_.push_back({static_cast<uint64_t>(size), stride, 0});
      stride *= static_cast<uint64_t>(size);
    }
  }
  // Where the element stands in the file.
  uint64_t source() const { return source_; }
  void Next() {
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis) {
      source_ += axis->stride;
      if (++axis->index < axis->size) return;
      source_ -= axis->stride * axis->size;
      axis->index = 0;
    }
  }

 private:
  struct Axis {
    uint64_t size, stride, index;
  };
  std::vector<Axis> axes_;
  uint64_t source_ = 0;
};

// Elements in row-major order and in this machine's byte order.
class ElementReader {
 public:
  ElementReader(const ElementType& type, const Description& description, std::string_view data, uint64_t count)
      : type_(type), shape_(description.shape), data_(data), count_(count), transpose_(NeedsTranspose(description)) {}

  Result<Tensor> Read() const { return type_.dtype == DType::kString ? ReadStrings() : ReadPlain(); }

 private:
  static bool NeedsTranspose(const Description& description) {
    return description.fortran_order && description.shape.size() > 1;
  }

  // Calls visit(element) in row-major order of the result.
  template <typename Visit>
  void ForEach(Visit visit) const {
    if (!transpose_) {
      for (uint64_t i = 0; i < count_; ++i) visit(Element(i));
      return;
    }
    ColumnMajorWalk walk(shape_);
    for (uint64_t i = 0; i < count_; ++i, walk.Next()) visit(Element(walk.source()));
  }
  std::string_view Element(uint64_t index) const { return data_.substr(index * type_.size, type_.size); }

  Result<Tensor> ReadPlain() const {
    const bool swap = type_.big_endian && type_.word > 1;
    const bool boolean = type_.dtype == DType::kBool;
    if (!transpose_ && !swap && !boolean) {
      return Tensor::FromBytes(type_.dtype, Shape(shape_), data_.data(), count_ * type_.size);
    }
    std::string elements;
    elements.reserve(count_ * type_.size);
    ForEach([&](std::string_view element) {
      if (boolean) {
        elements.push_back(element[0] != 0);
      } else if (!swap) {
        elements.append(element);
      } else {
        for (size_t word = 0; word < element.size(); word += type_.word) {
          elements.append(element.substr(word, type_.word));
          std::reverse(elements.end() - static_cast<ptrdiff_t>(type_.word), elements.end());
        }
      }
    });
    return Tensor::FromBytes(type_.dtype, Shape(shape_), elements.data(), elements.size());
  }

  Result<Tensor> ReadStrings() const {
    std::vector<std::string> strings;
    strings.reserve(count_);
    ForEach([&](std::string_view element) { strings.push_back(type_.unicode ? Utf8(element) : Trim(element)); });
    return Tensor::Strings(strings, Shape(shape_));
  }
  static std::string Trim(std::string_view element) {
    const size_t last = element.find_last_not_of('\0');
    return std::string(element.substr(0, last == std::string_view::npos ? 0 : last + 1));
  }
  std::string Utf8(std::string_view element) const {
    std::string text;
    for (size_t i = 0; i + 4 <= element.size(); i += 4) {
      uint32_t c = 0;
      for (size_t byte = 0; byte < 4; ++byte) {
        const size_t from = type_.big_endian ? byte : 3 - byte;
        c = c << 8 | static_cast<unsigned char>(element[i + from]);
      }
      if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;  // no character: the replacement character
      if (c < 0x80) {
        text.push_back(static_cast<char>(c));
        continue;
      }
      const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
      constexpr std::array<uint32_t, 4> kLead = {0, 0xc0, 0xe0, 0xf0};
      text.push_back(static_cast<char>(kLead[static_cast<size_t>(more)] | c >> (6 * more)));
      for (int k = more - 1; k >= 0; --k) text.push_back(static_cast<char>(0x80 | (c >> (6 * k) & 0x3f)));
    }
    return Trim(text);
  }

  const ElementType& type_;
  const std::vector<int64_t>& shape_;
  std::string_view data_;
  uint64_t count_;
  bool transpose_;
};

// The header's text, and where the elements begin.
Result<std::pair<std::string_view, size_t>> SplitHeader(std::string_view bytes) {
  if (bytes.empty()) return Bad("it is empty");
  if (bytes.starts_with("PK\x03\x04")) return Bad("it is a ZIP archive, as .npz files are; name it NAME=FILE.npz");
  if (bytes.size() < 10 || bytes.substr(0, kMagic.size()) != kMagic) {
    return Bad("it does not begin with the magic \\x93NUMPY");
  }
  const auto byte = [&](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])); };
  const uint64_t version = byte(6);
  if (version < 1 || version > 3) return Bad("its version is " + std::to_string(version) + "; 1 to 3 can be read");
  const size_t begin = version == 1 ? 10 : 12;
  if (bytes.size() < begin) return Bad("it ends inside the header");
  uint64_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin) return Bad("it ends inside the header");
  return std::pair(bytes.substr(begin, length), begin + length);
}

Result<std::string> DescrOf(const Tensor& tensor, uint64_t* out_string_size) {
  if (tensor.dtype() == DType::kString) {
    uint64_t longest = 1;
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      longest = std::max<uint64_t>(longest, tensor.string(static_cast<uint64_t>(i)).size());
    }
    *out_string_size = longest;
    return "|S" + std::to_string(longest);
  }
  for (const PlainType& plain : kPlainTypes) {
    if (plain.dtype == tensor.dtype()) return (plain.word == 1 ? "|" : "<") + std::string(plain.code);
  }
  switch (static_cast<uint32_t>(tensor.dtype())) {
    case TENON_DT_QINT8:
    case TENON_DT_INT4:
    case TENON_DT_INT2:
      return std::string("|i1");
    case TENON_DT_QUINT8:
    case TENON_DT_UINT4:
    case TENON_DT_UINT2:
      return std::string("|u1");
    case TENON_DT_QINT16:
      return std::string("<i2");
    case TENON_DT_QUINT16:
      return std::string("<u2");
    case TENON_DT_QINT32:
      return std::string("<i4");
    default:
      break;
  }
  if (host::DTypeSize(tensor.dtype()) == 1) return std::string("|V1");
  return Status(Code::kUnimplemented, "a tensor of dtype " + host::DTypeName(tensor.dtype()) +
                                          " cannot be written as .npy; fetch what it refers to instead");
}

}  // namespace

Result<Tensor> ParseNpy(std::string_view bytes) {
  ReadLimit limit;
  return ParseNpy(bytes, limit);
}

Result<Tensor> ParseNpy(std::string_view bytes, ReadLimit& limit) {
  TENON_TRY_ASSIGN(auto header, SplitHeader(bytes));
  TENON_TRY_ASSIGN(const Description description, LiteralReader(header.first).Read());
  TENON_TRY_ASSIGN(const ElementType type, ParseDescr(description.descr));
  const std::string_view data = bytes.substr(header.second);
  const Shape shape(description.shape);
  uint64_t count = 1;
  bool overflow = false;
  for (int64_t dim : description.shape) overflow |= __builtin_mul_overflow(count, static_cast<uint64_t>(dim), &count);
  for (int64_t dim : description.shape) {
    if (dim == 0) count = 0;
  }
  uint64_t needed = 0;
  overflow = (overflow && count != 0) || __builtin_mul_overflow(count, type.size, &needed);
  if (overflow || needed > data.size()) {
    return Bad("shape " + shape.ToString() + " of '" + description.descr + "' needs " +
               (overflow ? "more than 64 bits can count" : std::to_string(needed)) + " bytes, the file has " +
               std::to_string(data.size()));
  }
  // Elements of no bytes ('S0') cost nothing in the file, but each costs memory here.
  if (type.size == 0 && count > bytes.size()) return Bad("more elements of no size than the file has bytes");
  // A string has a cell, and on the way a text of its own.
  constexpr uint64_t kOfString = sizeof(std::string) + sizeof(tenon_string_cell);
  TENON_TRY(limit.Take(needed + (type.dtype == DType::kString ? count * kOfString : 0),
                       "the array of shape " + shape.ToString()));
  return ElementReader(type, description, data, count).Read();
}

Result<Tensor> ReadNpy(const std::string& path) {
  ReadLimit limit;
  return ReadNpy(path, limit);
}

Result<Tensor> ReadNpy(const std::string& path, ReadLimit& limit) {
  TENON_TRY_ASSIGN(MappedFile file, MappedFile::Open(path, limit));
  Result<Tensor> tensor = ParseNpy(file.bytes(), limit);
  if (!tensor.ok()) return tensor.status().Annotate("'" + path + "'");
  return tensor;
}

Result<std::string> NpyHeader(const Tensor& tensor) {
  uint64_t string_size = 0;
  TENON_TRY_ASSIGN(const std::string descr, DescrOf(tensor, &string_size));
  std::string text = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  const Shape shape = tensor.shape();
  for (size_t i = 0; i < shape.dims().size(); ++i) {
    text += (i == 0 ? "" : " ") + std::to_string(shape[i]);
    if (i + 1 < shape.dims().size() || i == 0) text += ",";
  }
  text += "), }";
  const bool long_header = text.size() + 64 > 0xffff;
  const size_t prefix = long_header ? 12 : 10;
  while ((prefix + text.size() + 1) % 64 != 0) text.push_back(' ');
  text.push_back('\n');
  std::string header(kMagic);
  header.push_back(long_header ? 2 : 1);
  header.push_back(0);
  for (size_t i = 0; i < prefix - 8; ++i) header.push_back(static_cast<char>(text.size() >> (8 * i) & 0xff));
  return header + text;
}

std::string_view NpyElements(const Tensor& tensor, std::string* storage) {
  if (tensor.dtype() != DType::kString) {
    return {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()};
  }
  uint64_t size = 1;
  const auto count = static_cast<uint64_t>(tensor.element_count());
  for (uint64_t i = 0; i < count; ++i) size = std::max<uint64_t>(size, tensor.string(i).size());
  storage->assign(count * size, '\0');
  for (uint64_t i = 0; i < count; ++i) {
    const std::string_view text = tensor.string(i);
    if (!text.empty()) std::memcpy(storage->data() + i * size, text.data(), text.size());
  }
  return *storage;
}

Status WriteNpy(const std::string& path, const Tensor& tensor) {
  Result<std::string> header = NpyHeader(tensor);
  if (!header.ok()) return header.status().Annotate("'" + path + "'");
  std::string storage;
  return ReplaceFile(path, {*header, NpyElements(tensor, &storage)}, Durability::kQuick);
}

}  // namespace tenon::data
