// SPDX-License-Identifier: Apache-2.0
// Protobuf's wire format: a writer and a reader for the few messages that the tools need.
//
// The reader does not trust its bytes: at the first thing that cannot be, Next() ends and ok() is false. Fields that
// the caller does not ask for are skipped. Views point into the message.
#ifndef TENON_TRAIN_WIRE_H_
#define TENON_TRAIN_WIRE_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tenon::train {

class WireWriter {
 public:
  // proto3: a value of zero is left out.
  void Varint(uint32_t field, uint64_t value) {
    if (value == 0) return;
    Tag(field, 0);
    RawVarint(value);
  }
  void Double(uint32_t field, double value) { Fixed(field, 1, &value, sizeof(value)); }
  void Float(uint32_t field, float value) { Fixed(field, 5, &value, sizeof(value)); }
  // Written even when empty: inside a oneof or a repeated field an empty value is a value.
  void Bytes(uint32_t field, std::string_view value) {
    Tag(field, 2);
    RawVarint(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Tag(uint32_t field, uint32_t wire_type) { RawVarint(uint64_t{field} << 3 | wire_type); }
  void RawVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void Fixed(uint32_t field, uint32_t wire_type, const void* value, size_t size) {
    Tag(field, wire_type);
    bytes_.append(static_cast<const char*>(value), size);
  }

  std::string bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Goes to the next field; false at the end or at an error.
  bool Next() {
    if (!ok_ || rest_.empty()) return false;
    const std::string_view begin = rest_;
    const uint64_t tag = RawVarint();
    field_ = static_cast<uint32_t>(tag >> 3);
    type_ = static_cast<uint32_t>(tag & 7);
    number_ = 0;
    bytes_ = {};
    if (field_ == 0 || tag >> 32 != 0) ok_ = false;
    if (ok_) ReadValue();
    if (ok_) whole_ = begin.substr(0, begin.size() - rest_.size());
    return ok_;
  }
  bool ok() const { return ok_; }
  uint32_t field() const { return field_; }
  bool is_bytes() const { return type_ == 2; }
  bool is_varint() const { return type_ == 0; }
  uint64_t number() const { return number_; }        // of a varint or a fixed field
  std::string_view bytes() const { return bytes_; }  // of a string or message
  float as_float() const { return Cast<float, uint32_t>(); }
  double as_double() const { return Cast<double, uint64_t>(); }
  // The field with its tag, to be copied as it is.
  std::string_view whole() const { return whole_; }

 private:
  template <typename To, typename From>
  To Cast() const {
    const auto from = static_cast<From>(number_);
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
  }
  uint64_t RawVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
  }
  void ReadFixed(size_t size) {
    if (rest_.size() < size) {
      ok_ = false;
      return;
    }
    std::memcpy(&number_, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  void ReadValue() {
    switch (type_) {
      case 0:
        number_ = RawVarint();
        return;
      case 1:
        ReadFixed(8);
        return;
      case 5:
        ReadFixed(4);
        return;
      case 2: {
        const uint64_t size = RawVarint();
        if (!ok_ || size > rest_.size()) {
          ok_ = false;
          return;
        }
        bytes_ = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return;
      }
      default:
        ok_ = false;  // groups are not used by any message here
    }
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

}  // namespace tenon::train

#endif  // TENON_TRAIN_WIRE_H_
