// SPDX-License-Identifier: Apache-2.0
// Collectives without a library: copies between GPUs, and merges on the GPU of the first member with our own kernels.
//
// Members' results are the bits of the host's kernels: merged one after the other in the order of the ranks. Work is
// given to lanes in phases; a lane waits for points that an earlier phase tells, never for a later one, so several
// members may share a lane. No `done` is told before all copies were made: nobody's memory is used again while another
// reads it.
#ifndef TENON_DEVICES_GPU_COLLECTIVE_COPIES_H_
#define TENON_DEVICES_GPU_COLLECTIVE_COPIES_H_

#include "collective/collectives.h"

namespace tenon::gpu {

// work() on the lane, as work of `timeline`, which then has the value 1 if `tells`. Waits for the value 1 of the
// others.
Outcome SubmitOn(Queue& lane, const std::shared_ptr<Timeline>& timeline,
                 const std::vector<std::shared_ptr<Timeline>>& waits, bool tells,
                 const std::function<void(Queue& lane)>& work);
std::vector<std::shared_ptr<Timeline>> ReadyPoints(const CollectivePlaces& places);

// Divides `count` elements by the number of members; in a Turn of the lane. divisor: device memory of 16 bytes.
void DivideOn(Queue& lane, void* data, int64_t count, uint32_t dtype, int64_t members, char* divisor);
// Memory of a lane, while what is submitted next uses it.
class LaneMemory {
 public:
  LaneMemory(Queue& lane, uint64_t bytes);
  ~LaneMemory();
  LaneMemory(const LaneMemory&) = delete;
  LaneMemory& operator=(const LaneMemory&) = delete;
  const Outcome& outcome() const { return outcome_; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  Queue& lane_;
  void* data_ = nullptr;
  Outcome outcome_;
};

// points: gets what lanes wait for besides `ready`: to be released where a GPU is lost, also when this fails.
Outcome CollectByCopies(const CollectivePlaces& places, std::vector<std::shared_ptr<Timeline>>* points);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_COLLECTIVE_COPIES_H_
