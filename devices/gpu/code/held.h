// SPDX-License-Identifier: Apache-2.0
// How much of a row stays in registers.
#ifndef TENON_DEVICES_GPU_CODE_HELD_H_
#define TENON_DEVICES_GPU_CODE_HELD_H_

namespace tenon::gpu {

// Packs of 16 bytes that each thread of a row may keep (code/row.h): code for short rows has few.
inline constexpr int kFewHeld = 1, kMostHeld = 4;

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_HELD_H_
