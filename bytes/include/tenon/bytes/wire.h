// SPDX-License-Identifier: Apache-2.0
// Protocol buffers' wire format without a library: for the few messages of graphs, models, checkpoints and records.
//
//   WireWriter w;  w.Varint(1, 3);  w.Bytes(2, "text");  w.bytes()
//   WireReader r(bytes);
//   while (r.Next()) { if (r.field() == 1) count = r.varint(); else if (r.field() == 2) text = r.delimited(); }
//   if (!r.ok()) the bytes are no message
//
// Rule: a reader never looks outside of its bytes; unknown fields are stepped over. Views point into the message.
#ifndef TENON_SDK_WIRE_H_
#define TENON_SDK_WIRE_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tenon::sdk {

inline void PutFixed32(std::string& out, uint32_t value) {
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  out.append(bytes, 4);
}
inline void PutFixed64(std::string& out, uint64_t value) {
  char bytes[8];
  std::memcpy(bytes, &value, 8);
  out.append(bytes, 8);
}
inline void PutVarint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Each takes the value off the front; false when the bytes end too early or the varint is too long.
inline bool TakeFixed32(std::string_view& in, uint32_t* out) {
  if (in.size() < 4) return false;
  std::memcpy(out, in.data(), 4);
  in.remove_prefix(4);
  return true;
}
inline bool TakeFixed64(std::string_view& in, uint64_t* out) {
  if (in.size() < 8) return false;
  std::memcpy(out, in.data(), 8);
  in.remove_prefix(8);
  return true;
}
inline bool TakeVarint(std::string_view& in, uint64_t* out) {
  uint64_t value = 0;
  for (size_t i = 0; i < in.size() && i < 10; ++i) {
    const auto byte = static_cast<unsigned char>(in[i]);
    if (i == 9 && byte > 1) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *out = value;
      in.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

class WireWriter {
 public:
  // Of numbers zero is the default and is left out, as proto3 does.
  void Varint(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    PutVarint(bytes_, value);
  }
  void Fixed32(uint32_t field, uint32_t value) {
    if (value == 0) return;
    Tag(field, 5);
    PutFixed32(bytes_, value);
  }
  void Double(uint32_t field, double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    if (bits == 0) return;
    Tag(field, 1);
    PutFixed64(bytes_, bits);
  }
  // Also zero: a member of a oneof, which is there.
  void Float(uint32_t field, float value) {
    Tag(field, 5);
    PutFixed32(bytes_, std::bit_cast<uint32_t>(value));
  }
  // Also when empty: a message that is there.
  void Bytes(uint32_t field, std::string_view value) {
    Tag(field, 2);
    PutVarint(bytes_, value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(uint32_t field, uint32_t type) { PutVarint(bytes_, static_cast<uint64_t>(field) << 3 | type); }
  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Takes the next field; false at the end, or when the bytes are no message.
  bool Next() {
    if (!ok_ || rest_.empty()) return false;
    const std::string_view begin = rest_;
    number_ = 0;
    bytes_ = {};
    ok_ = TakeTag() && TakeValue();
    if (ok_) whole_ = begin.substr(0, begin.size() - rest_.size());
    return ok_;
  }
  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  bool is_varint() const { return type_ == 0; }
  bool is_bytes() const { return type_ == 2; }

  // Of the current field, of whatever wire type it is; 0 or empty where the type holds no such thing.
  uint64_t number() const { return number_; }        // of a varint or a fixed field
  std::string_view bytes() const { return bytes_; }  // of a string or message
  float as_float() const { return std::bit_cast<float>(static_cast<uint32_t>(number_)); }
  double as_double() const { return std::bit_cast<double>(number_); }
  // The field with its tag, to be copied as it is.
  std::string_view whole() const { return whole_; }

  // The same, of the wire type that the message is known to have there: another one makes it malformed, and gives 0 or
  // empty.
  uint64_t varint() { return Expect(0) ? number_ : 0; }
  uint32_t fixed32() { return Expect(5) ? static_cast<uint32_t>(number_) : 0; }
  std::string_view delimited() { return Expect(2) ? bytes_ : std::string_view(); }

 private:
  bool TakeTag() {
    uint64_t tag = 0;
    if (!TakeVarint(rest_, &tag) || tag >> 3 == 0 || tag >> 32 != 0) return false;
    field_ = static_cast<uint32_t>(tag >> 3);
    type_ = static_cast<uint32_t>(tag & 7);
    return true;
  }
  bool TakeValue() {
    uint32_t narrow = 0;
    switch (type_) {
      case 0: return TakeVarint(rest_, &number_);
      case 1: return TakeFixed64(rest_, &number_);
      case 2: return TakeDelimited();
      case 5:
        if (!TakeFixed32(rest_, &narrow)) return false;
        number_ = narrow;
        return true;
      default: return false;  // groups are not used by any message here
    }
  }
  bool TakeDelimited() {
    uint64_t size = 0;
    if (!TakeVarint(rest_, &size) || size > rest_.size()) return false;
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool Expect(uint32_t type) {
    if (type_ != type) ok_ = false;
    return type_ == type;
  }

  std::string_view rest_;
  std::string_view bytes_;
  std::string_view whole_;
  uint64_t number_ = 0;
  uint32_t field_ = 0;
  uint32_t type_ = 0;
  bool ok_ = true;
};

// The last field of that number, as it counts in protobuf; nothing where there is none, or the message is damaged.
inline std::string_view FindBytes(std::string_view message, uint32_t field) {
  std::string_view found;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == field && reader.is_bytes()) found = reader.bytes();
  }
  return reader.ok() ? found : std::string_view();
}

inline uint64_t FindNumber(std::string_view message, uint32_t field) {
  uint64_t found = 0;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == field && reader.is_varint()) found = reader.number();
  }
  return reader.ok() ? found : 0;
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_WIRE_H_
