// SPDX-License-Identifier: Apache-2.0
// DeviceSets: sets of devices by number, so that a node carries one id.
//
// A graph has few different sets (one an op and device name, about), so equal sets get equal numbers and intersections
// are remembered. Not thread-safe.
#ifndef TENON_CORE_PLACE_DEVICE_SET_H_
#define TENON_CORE_PLACE_DEVICE_SET_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/place/ids.h"

namespace tenon::place {

class DeviceSets {
 public:
  using Members = IdVector<DeviceId, bool>;
  explicit DeviceSets(size_t device_count) : device_count_(device_count) { Intern(Members(device_count, true)); }

  static constexpr SetId kAll{0};
  SetId Intern(const Members& members);
  SetId Intersect(SetId a, SetId b);
  bool empty(SetId set) const { return devices(set).empty(); }
  bool Contains(SetId set, DeviceId device) const { return sets_[set].members[device]; }
  bool IsSubset(SetId small, SetId large) { return Intersect(small, large) == small; }
  // Ascending.
  const std::vector<DeviceId>& devices(SetId set) const { return sets_[set].devices; }
  size_t device_count() const { return device_count_; }

 private:
  struct Set {
    Members members;
    std::vector<DeviceId> devices;
  };
  size_t device_count_;
  IdVector<SetId, Set> sets_;
  std::map<std::vector<bool>, SetId> numbers_;
  std::unordered_map<int64_t, SetId> intersections_;
};

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_DEVICE_SET_H_
