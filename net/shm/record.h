// SPDX-License-Identifier: Apache-2.0
// Records: what stands in a ring. A Record, then its payload, padded to kRecordAlignment.
//
//   kWhole     head_bytes of head, then the body
//   kParts     the head; the body of body_bytes follows in kChunk records, before any other frame
//   kLent      the head, then Pieces in the sender's memory, body_bytes in all; answered by kReturned with its id
//   kChunk     bytes of the body
//   kReturned  the receiver needs the pieces of frame `id` no longer; these come in the order of kLent
#ifndef TENON_NET_SHM_RECORD_H_
#define TENON_NET_SHM_RECORD_H_

#include <cstdint>

namespace tenon::shm {

enum class RecordKind : uint32_t { kWhole = 1, kParts = 2, kLent = 3, kChunk = 4, kReturned = 5 };

struct Record {
  RecordKind kind = RecordKind::kWhole;
  uint32_t payload_bytes = 0;
  uint32_t head_bytes = 0;
  uint32_t reserved = 0;
  uint64_t body_bytes = 0;
  uint64_t id = 0;
};
struct Piece {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

inline constexpr uint64_t kRecordAlignment = 8;
inline constexpr uint64_t kMaxPieces = 512;
inline constexpr uint64_t kMaxWhole = 64 * 1024;    // body in its record
inline constexpr uint64_t kMaxChunk = 64 * 1024;
inline constexpr uint64_t kMinLent = 256 * 1024;

constexpr uint64_t RecordBytes(uint64_t payload) {
  return (sizeof(Record) + payload + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

}  // namespace tenon::shm

#endif  // TENON_NET_SHM_RECORD_H_
