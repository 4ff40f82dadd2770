// SPDX-License-Identifier: Apache-2.0
// Sounds as WAV: PCM, 16 bits a sample.
#ifndef TENON_OPS_SUMMARY_WAV_H_
#define TENON_OPS_SUMMARY_WAV_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

// samples: frames after each other, in [-1, 1]; what is louder is cut off, and what is no number is silent.
// INVALID_ARGUMENT for more than the format holds.
std::string EncodeWav(const sdk::RunContext& c, const float* samples, int64_t frames, int64_t channels, int64_t rate);

// What is in a file; data is part of its bytes.
struct WavContents {
  int64_t channels = 0, rate = 0, frames = 0;
  std::string_view data = {};
};
// INVALID_ARGUMENT for what is no such WAV, or ends early.
WavContents ParseWav(std::string_view bytes);

}  // namespace tenon::ops

#endif  // TENON_OPS_SUMMARY_WAV_H_
