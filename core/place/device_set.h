// SPDX-License-Identifier: Apache-2.0
// DeviceSets: sets of devices by number, so that a node carries one int.
//
// A graph has few different sets (one an op and device name, about), so equal sets get equal numbers and intersections
// are remembered. Not thread-safe.
#ifndef TENON_CORE_PLACE_DEVICE_SET_H_
#define TENON_CORE_PLACE_DEVICE_SET_H_

#include <cstddef>
#include <map>
#include <unordered_map>
#include <vector>

namespace tenon::place {

class DeviceSets {
 public:
  explicit DeviceSets(size_t device_count) : device_count_(device_count) { Intern(std::vector<bool>(device_count, true)); }

  static constexpr int kAll = 0;
  int Intern(const std::vector<bool>& members);
  int Intersect(int a, int b);
  bool empty(int set) const { return devices(set).empty(); }
  bool Contains(int set, int device) const { return sets_[set].members[device]; }
  bool IsSubset(int small, int large) { return Intersect(small, large) == small; }
  // Ascending.
  const std::vector<int>& devices(int set) const { return sets_[set].devices; }
  size_t device_count() const { return device_count_; }

 private:
  struct Set {
    std::vector<bool> members;
    std::vector<int> devices;
  };
  size_t device_count_;
  std::vector<Set> sets_;
  std::map<std::vector<bool>, int> numbers_;
  std::unordered_map<long long, int> intersections_;
};

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_DEVICE_SET_H_
