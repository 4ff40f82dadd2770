// SPDX-License-Identifier: Apache-2.0
// How device code says that data is bad, and how a timeline tells its value: records that host and device both see.
#ifndef TENON_DEVICES_GPU_CODE_FAULT_H_
#define TENON_DEVICES_GPU_CODE_FAULT_H_

#include <cstdint>

namespace tenon::gpu {

inline constexpr uint64_t kFaulted = 1;

// Of one timeline, in pinned memory of the host. Streams write `word`; the first kernel that finds bad data writes the
// rest, and `state` last. `reached` is the word at that time: points up to it are good.
struct FaultRecord {
  uint64_t word;
  uint64_t state;
  int64_t position, value, limit;
  uint64_t site;
  uint64_t reached;
  uint64_t unused[9];  // 128 bytes: a record of its own cache lines
};

// Of one queue, in device memory. Streams write both words when the queue goes on with another timeline.
struct FaultControl {
  uint64_t record;   // address of the timeline's record; 0: nobody asks
  uint64_t claimed;  // the record that a kernel has begun to write
};

// What a kernel that may find bad data gets: its queue's control, and who it is (Device::AddSite).
struct FaultSite {
  FaultControl* control;
  uint64_t number;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_FAULT_H_
