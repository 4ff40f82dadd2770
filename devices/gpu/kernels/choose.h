// SPDX-License-Identifier: Apache-2.0
// The host's half of choosing elements in their order (code/choose.h).
//
//   Choosing choosing(count, s);                                          // in Plan
//   on(counting, choosing.grid(), CountParams{..., choosing.sums(memory)});  // the first pass
//   choosing.Scan(on, memory);
//   ReadBack(c, choosing.total(memory), {&found, 1});                     // where the host has to know
//   on(placing, choosing.grid(), PlaceParams{..., choosing.sums(memory)});   // the last pass
#ifndef TENON_DEVICES_GPU_KERNELS_CHOOSE_H_
#define TENON_DEVICES_GPU_KERNELS_CHOOSE_H_

#include <algorithm>

#include "code/choose.h"
#include "kernels/kernel.h"

namespace tenon::gpu {

// sums[count] follows the sums.
inline void ScanSums(Launcher& on, Function scan, int64_t* sums, int64_t count) {
  on(scan, Grid{{1, 1, 1}, kScanThreads}, ScanParams{sums, count});
}

class Choosing {
 public:
  Choosing() = default;
  Choosing(int64_t count, Shapes& s)
      : tiles_((count + kChooseTile - 1) / kChooseTile),
        sums_(s.Workspace(sdk::Multiply(tiles_ + 1, 8))),
        blocks_(static_cast<uint32_t>(std::clamp<int64_t>(tiles_, 1, int64_t{s.facts().processors} * 16))),
        scan_(s.Code("ScanTiles")) {}
  Grid grid() const { return {{blocks_, 1, 1}, static_cast<uint32_t>(kChooseThreads)}; }
  int64_t* sums(char* memory) const { return reinterpret_cast<int64_t*>(memory + sums_); }
  const int64_t* total(char* memory) const { return sums(memory) + tiles_; }
  void Scan(Launcher& on, char* memory) const { ScanSums(on, scan_, sums(memory), tiles_); }

 private:
  int64_t tiles_ = 0, sums_ = 0;
  uint32_t blocks_ = 1;
  Function scan_ = nullptr;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_KERNELS_CHOOSE_H_
