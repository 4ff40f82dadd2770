// SPDX-License-Identifier: Apache-2.0
// Protocol buffers' wire format without a library: for the few small messages of checkpoints and records.
//
//   WireWriter w;  w.Varint(1, 3);  w.Bytes(2, "text");  w.text()
//   WireReader r(bytes);
//   while (r.Next()) { if (r.field() == 1) count = r.varint(); else if (r.field() == 2) text = r.bytes(); }
//   if (!r.ok()) the bytes are no message
//
// Rule: a reader never looks outside of its bytes; unknown fields are stepped over.
#ifndef TENON_SDK_WIRE_H_
#define TENON_SDK_WIRE_H_

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
  // Zero is the default and is left out, as proto3 does.
  void Varint(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    PutVarint(text_, value);
  }
  // always: also zero, as a member of a oneof is written.
  void Fixed32(uint32_t field, uint32_t value, bool always = false) {
    if (value == 0 && !always) return;
    Tag(field, 5);
    PutFixed32(text_, value);
  }
  void Double(uint32_t field, double value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    if (bits == 0) return;
    Tag(field, 1);
    PutFixed64(text_, bits);
  }
  // Also when empty: a message that is there.
  void Bytes(uint32_t field, std::string_view value) {
    Tag(field, 2);
    PutVarint(text_, value.size());
    text_ += value;
  }
  const std::string& text() const { return text_; }

 private:
  void Tag(uint32_t field, uint32_t type) { PutVarint(text_, static_cast<uint64_t>(field) << 3 | type); }
  std::string text_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Takes the next field; false at the end, or when the bytes are no message.
  bool Next() {
    if (!ok_ || rest_.empty()) return false;
    uint64_t tag = 0;
    if (!TakeVarint(rest_, &tag) || tag >> 3 == 0 || tag >> 32 != 0) return ok_ = false;
    field_ = static_cast<uint32_t>(tag >> 3);
    type_ = static_cast<uint32_t>(tag & 7);
    uint32_t narrow = 0;
    switch (type_) {
      case 0: return ok_ = TakeVarint(rest_, &number_);
      case 1: return ok_ = TakeFixed64(rest_, &number_);
      case 2: {
        uint64_t size = 0;
        if (!TakeVarint(rest_, &size) || size > rest_.size()) return ok_ = false;
        bytes_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return true;
      }
      case 5:
        ok_ = TakeFixed32(rest_, &narrow);
        number_ = narrow;
        return ok_;
      default: return ok_ = false;
    }
  }
  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  // Of the current field; asking for another wire type is a malformed message, and 0 or empty.
  uint64_t varint() { return Expect(0) ? number_ : 0; }
  uint32_t fixed32() { return Expect(5) ? static_cast<uint32_t>(number_) : 0; }
  uint64_t fixed64() { return Expect(1) ? number_ : 0; }
  std::string_view bytes() { return Expect(2) ? bytes_ : std::string_view(); }

 private:
  bool Expect(uint32_t type) {
    if (type_ != type) ok_ = false;
    return type_ == type;
  }
  std::string_view rest_;
  bool ok_ = true;
  uint32_t field_ = 0;
  uint32_t type_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_WIRE_H_
