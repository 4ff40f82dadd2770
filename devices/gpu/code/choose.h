// SPDX-License-Identifier: Apache-2.0
// Elements that are chosen, in their order: how many there are, and the place of each. In two passes over tiles of
// elements, and ScanTiles between them, a block that turns the tiles' counts into sums of those before.
#ifndef TENON_DEVICES_GPU_CODE_CHOOSE_H_
#define TENON_DEVICES_GPU_CODE_CHOOSE_H_

#include <cstdint>

namespace tenon::gpu {

inline constexpr int64_t kChooseThreads = 256, kChooseItems = 8, kChooseTile = kChooseThreads * kChooseItems;

// sums[i] becomes the sum of those before it; sums[count] is that of all.
inline constexpr uint32_t kScanThreads = 1024;
struct ScanParams {
  int64_t* sums;
  int64_t count;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_CHOOSE_H_
