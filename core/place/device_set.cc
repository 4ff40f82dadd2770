// SPDX-License-Identifier: Apache-2.0
#include "core/place/device_set.h"

#include <algorithm>

namespace tenon::place {

SetId DeviceSets::Intern(const Members& members) {
  const auto [it, added] = numbers_.emplace(members.list(), sets_.next_id());
  if (!added) return it->second;
  Set set{members, {}};
  for (DeviceId device : members.ids())
    if (members[device]) set.devices.push_back(device);
  sets_.push_back(std::move(set));
  return it->second;
}

SetId DeviceSets::Intersect(SetId a, SetId b) {
  if (a == b || b == kAll) return a;
  if (a == kAll) return b;
  const int64_t key = (int64_t{std::min(a, b).number()} << 32) | std::max(a, b).number();
  if (const auto found = intersections_.find(key); found != intersections_.end()) return found->second;
  Members both(device_count_);
  for (DeviceId device : devices(a)) both[device] = Contains(b, device);
  return intersections_[key] = Intern(both);
}

}  // namespace tenon::place
