// SPDX-License-Identifier: Apache-2.0
// LookAhead: the least that the rest of the step takes behind a node.
#ifndef TENON_CORE_PLACE_LOOK_AHEAD_H_
#define TENON_CORE_PLACE_LOOK_AHEAD_H_

#include <vector>

#include "core/place/problem.h"

namespace tenon::place {

// Of each node on each device: the longest way to the end of the step, were each node behind it on the device that is
// best for the way, and no queue and no link ever busy. So no schedule of such a node is shorter.
class LookAhead {
 public:
  // Takes time by the edges and the square of the devices.
  explicit LookAhead(const Problem& problem);
  double After(Position position, DeviceId device) const { return rest_[Index(position, device)]; }

 private:
  size_t Index(Position position, DeviceId device) const { return position.index() * devices_ + device.index(); }
  void PushFetch(const Problem& problem, ValueId fetched, DeviceId to);
  void Push(const Problem& problem, Position reader, InputId input);

  size_t devices_;
  std::vector<double> rest_;
};

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_LOOK_AHEAD_H_
