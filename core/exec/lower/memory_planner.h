// SPDX-License-Identifier: Apache-2.0
// Memory planner: offsets in one arena for values with known sizes and lifetimes.
//
// Values are placed in the order in which they begin to live, each at the best fitting gap that earlier ones left. Two
// values whose lifetimes share a position never share memory. O(n log n).
#ifndef TENON_CORE_EXEC_LOWER_MEMORY_PLANNER_H_
#define TENON_CORE_EXEC_LOWER_MEMORY_PLANNER_H_

#include <cstdint>
#include <vector>

namespace tenon::exec {

class MemoryPlanner {
 public:
  // A value that lives from position `first` to `last`, both included.
  void Add(uint64_t bytes, int32_t first, int32_t last) { values_.push_back({bytes, first, last}); }
  // One offset a value, in the order of Add; multiples of 64.
  std::vector<uint64_t> Plan();
  // The arena's size; never more than 2^62, which no pool gives.
  uint64_t total() const { return total_; }

 private:
  struct Value {
    uint64_t bytes;
    int32_t first, last;
  };
  std::vector<Value> values_;
  uint64_t total_ = 0;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_LOWER_MEMORY_PLANNER_H_
