// SPDX-License-Identifier: Apache-2.0
#include "core/place/device_set.h"

#include <algorithm>

namespace tenon::place {

int DeviceSets::Intern(const std::vector<bool>& members) {
  const auto [it, added] = numbers_.emplace(members, static_cast<int>(sets_.size()));
  if (!added) return it->second;
  Set set{members, {}};
  for (size_t i = 0; i < members.size(); ++i)
    if (members[i]) set.devices.push_back(static_cast<int>(i));
  sets_.push_back(std::move(set));
  return it->second;
}

int DeviceSets::Intersect(int a, int b) {
  if (a == b || b == kAll) return a;
  if (a == kAll) return b;
  const long long key = (static_cast<long long>(std::min(a, b)) << 32) | std::max(a, b);
  if (const auto found = intersections_.find(key); found != intersections_.end()) return found->second;
  std::vector<bool> both(device_count_);
  for (int device : devices(a)) both[device] = Contains(b, device);
  return intersections_[key] = Intern(both);
}

}  // namespace tenon::place
