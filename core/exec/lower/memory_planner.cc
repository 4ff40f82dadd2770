// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/memory_planner.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>

#include "core/base/checked.h"

namespace tenon::exec {
namespace {

// Free pieces of the arena, by offset and by size.
class Gaps {
 public:
  // The smallest piece that fits; false when there is none.
  bool Take(uint64_t bytes, uint64_t* offset) {
    const auto it = by_size_.lower_bound({bytes, 0});
    if (it == by_size_.end()) return false;
    const auto [size, at] = *it;
    Remove(at, size);
    if (size > bytes) Insert(at + bytes, size - bytes);
    *offset = at;
    return true;
  }
  void Give(uint64_t offset, uint64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      Remove(next->first, next->second);
    }
    auto previous = by_offset_.lower_bound(offset);
    if (previous != by_offset_.begin()) {
      --previous;
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(previous->first, previous->second);
      }
    }
    Insert(offset, bytes);
  }
  // The size of the piece that ends at the arena's end, which may grow.
  uint64_t Tail(uint64_t total) const {
    if (by_offset_.empty()) return 0;
    const auto last = std::prev(by_offset_.end());
    return last->first + last->second == total ? last->second : 0;
  }
  void RemoveTail() {
    const auto last = std::prev(by_offset_.end());
    Remove(last->first, last->second);
  }

 private:
  void Insert(uint64_t offset, uint64_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.insert({bytes, offset});
  }
  void Remove(uint64_t offset, uint64_t bytes) {
    by_offset_.erase(offset);
    by_size_.erase({bytes, offset});
  }
  std::map<uint64_t, uint64_t> by_offset_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;
};

}  // namespace

// Where sums stop, so that none begins at zero again: nobody has so much memory, whoever asks for it is refused.
constexpr uint64_t kTooMuch = uint64_t{1} << 62;

std::vector<uint64_t> MemoryPlanner::Plan() {
  std::vector<size_t> order(values_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return values_[a].first < values_[b].first; });
  std::vector<uint64_t> offsets(values_.size(), 0);
  using Ending = std::pair<int32_t, size_t>;
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> alive;
  Gaps gaps;
  for (size_t i : order) {
    const uint64_t bytes = RoundUp(std::max<uint64_t>(values_[i].bytes, 1), 64);
    while (!alive.empty() && alive.top().first < values_[i].first) {
      const size_t dead = alive.top().second;
      gaps.Give(offsets[dead], RoundUp(std::max<uint64_t>(values_[dead].bytes, 1), 64));
      alive.pop();
    }
    if (!gaps.Take(bytes, &offsets[i])) {
      const uint64_t tail = gaps.Tail(total_);
      if (tail > 0) gaps.RemoveTail();
      offsets[i] = total_ - tail;
      total_ = std::min(offsets[i] + bytes, kTooMuch);
    }
    alive.emplace(values_[i].last, i);
  }
  return offsets;
}

}  // namespace tenon::exec
