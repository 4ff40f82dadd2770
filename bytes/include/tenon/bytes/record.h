// SPDX-License-Identifier: Apache-2.0
// A record of TensorFlow's (TFRecord): length, masked crc32c of the length, data, masked crc32c of the data; numbers
// are little endian.
#ifndef TENON_BYTES_RECORD_H_
#define TENON_BYTES_RECORD_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/bytes/crc32c.h"
#include "tenon/bytes/wire.h"

namespace tenon::sdk {

inline constexpr size_t kRecordHead = 12, kRecordTail = 4;  // bytes before and behind the data

inline void AppendRecordHead(std::string& out, uint64_t length) {
  const size_t begin = out.size();
  PutFixed64(out, length);
  PutFixed32(out, MaskCrc32c(Crc32c(std::string_view(out).substr(begin, 8))));
}

inline void AppendRecord(std::string& out, std::string_view data) {
  AppendRecordHead(out, data.size());
  out += data;
  PutFixed32(out, MaskCrc32c(Crc32c(data)));
}

// What bytes begin with.
struct LeadingRecord {
  enum class State {
    kWhole,
    kTorn,       // they end within it, or before it
    kBadLength,  // the length has another checksum
    kBadData     // the data have
  };
  State state = State::kTorn;
  std::string_view data;                                                    // of a whole one
  size_t size() const { return kRecordHead + data.size() + kRecordTail; }  // where the next one begins
};

inline LeadingRecord ReadRecord(std::string_view bytes) {
  using State = LeadingRecord::State;
  std::string_view head = bytes.substr(0, kRecordHead);
  uint64_t length = 0;
  uint32_t crc = 0;
  if (!TakeFixed64(head, &length) || !TakeFixed32(head, &crc)) return {State::kTorn, {}};
  if (MaskCrc32c(Crc32c(bytes.substr(0, 8))) != crc) return {State::kBadLength, {}};
  const std::string_view rest = bytes.substr(kRecordHead);
  if (rest.size() < kRecordTail || length > rest.size() - kRecordTail) return {State::kTorn, {}};
  std::string_view tail = rest.substr(static_cast<size_t>(length), kRecordTail);
  (void)TakeFixed32(tail, &crc);
  const std::string_view data = rest.substr(0, static_cast<size_t>(length));
  if (MaskCrc32c(Crc32c(data)) != crc) return {State::kBadData, {}};
  return {State::kWhole, data};
}

}  // namespace tenon::sdk

#endif  // TENON_BYTES_RECORD_H_
