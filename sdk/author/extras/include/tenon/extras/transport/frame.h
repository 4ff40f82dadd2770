// SPDX-License-Identifier: Apache-2.0
// The heads of a connection's frames: how they are written, and read with every bound checked.
//
// A head is one byte (FrameKind) and fields: numbers as little-endian base-128 varints, texts as a length and bytes.
// What follows the fields is an error, as is a number over 64 bits or a text longer than what is left: whoever reads it
// breaks the connection with INVALID_ARGUMENT. Nothing is allocated from a number that was read.
#ifndef TENON_SDK_TRANSPORT_FRAME_H_
#define TENON_SDK_TRANSPORT_FRAME_H_

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ext/draft/transport.h"
#include "tenon/sdk/span.h"
#include "tenon/extras/transport/pipe.h"

namespace tenon::sdk {

enum class FrameKind : uint8_t {
  kCall = 1,       // id, timeout, method, metadata; body: the request
  kReply = 2,      // id, code, message; body: the response. Answers kCall and kData
  kCancel = 3,     // id: nobody waits for this call any more
  kData = 4,       // id, key, header; body: the data
  kStream = 5,     // id, timeout, method, metadata: opens a stream
  kMessage = 6,    // id, 1 from its opener; body: the message
  kCredit = 7,     // id, 1 from its opener, bytes that were read
  kClose = 8,      // id, 1 from its opener, code, message: writes no more; code not 0: the stream has failed
};

inline constexpr uint64_t kMaxMetadata = 1024;

// Builds a head in memory of its own, which is on the stack while it is small.
class HeadWriter {
 public:
  explicit HeadWriter(FrameKind kind) { Byte(static_cast<char>(kind)); }
  HeadWriter& Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<char>(value | 0x80));
    return Byte(static_cast<char>(value));
  }
  HeadWriter& Text(tenon_span text) {
    Number(text.size);
    if (text.size <= sizeof small_ - size_ && large_.empty()) {
      if (text.size != 0) std::memcpy(small_ + size_, text.data, text.size);
      size_ += text.size;
    } else {
      Grow();
      large_.append(text.data, text.size);
    }
    return *this;
  }
  HeadWriter& Metadata(const tenon_metadata* pairs, uint64_t count) {
    Number(count);
    for (uint64_t i = 0; i < count; ++i) Text(pairs[i].key).Text(pairs[i].value);
    return *this;
  }
  std::string_view view() const { return large_.empty() ? std::string_view(small_, size_) : std::string_view(large_); }

 private:
  HeadWriter& Byte(char byte) {
    if (large_.empty() && size_ < sizeof small_) {
      small_[size_++] = byte;
    } else {
      Grow();
      large_ += byte;
    }
    return *this;
  }
  void Grow() {
    if (large_.empty()) large_.assign(small_, size_);
  }

  size_t size_ = 0;
  std::string large_;  // all of it, once it is not small
  char small_[256];
};

// Reads a head field by field. After the first failure every field is empty, and Complete() is false.
class HeadReader {
 public:
  explicit HeadReader(std::string_view head) : rest_(head) {}
  uint64_t Number() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  tenon_span Text() {
    const uint64_t size = Number();
    if (size > rest_.size()) Fail();
    if (failed_) return {};
    const tenon_span text = {rest_.data(), size};
    rest_.remove_prefix(size);
    return text;
  }
  void Metadata(std::vector<tenon_metadata>* out_pairs) {
    const uint64_t count = Number();
    if (count > kMaxMetadata) Fail();
    out_pairs->clear();
    for (uint64_t i = 0; i < count && !failed_; ++i) {
      const tenon_span key = Text();
      out_pairs->push_back({key, Text()});
    }
  }
  bool Complete() const { return !failed_ && rest_.empty(); }

 private:
  void Fail() {
    failed_ = true;
    rest_ = {};
  }
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_TRANSPORT_FRAME_H_
