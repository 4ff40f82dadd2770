// SPDX-License-Identifier: Apache-2.0
// WorkList: launches, copies and fills that are noted instead of submitted; a queue of its own kind has one (queue.h).
#ifndef TENON_DEVICES_GPU_WORK_LIST_H_
#define TENON_DEVICES_GPU_WORK_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime.h"

namespace tenon::gpu {

class WorkList {
 public:
  void Launch(Function function, const Grid& grid, const void* params, uint64_t bytes) {
    const uint64_t at = params_.size();
    params_.resize(at + (bytes + sizeof(Chunk) - 1) / sizeof(Chunk));
    if (bytes > 0) std::copy_n(static_cast<const char*>(params), bytes, reinterpret_cast<char*>(params_.data() + at));
    items_.push_back({Item::kLaunch, function, grid, nullptr, nullptr, bytes, at, 0});
  }
  void Copy(void* target, const void* source, uint64_t bytes) { items_.push_back({Item::kCopy, nullptr, {}, target, source, bytes, 0, 0}); }
  void Fill(void* target, uint32_t value, uint64_t bytes) { items_.push_back({Item::kFill, nullptr, {}, target, nullptr, bytes, 0, value}); }

  uint64_t size() const { return items_.size(); }
  void Clear() {
    items_.clear();
    params_.clear();
  }
  // Submits some of it.
  Outcome Give(uint64_t first, uint64_t count, Card& card, Stream stream) const {
    Outcome outcome;
    for (uint64_t i = first; i < std::min<uint64_t>(first + count, items_.size()) && outcome.ok(); ++i) {
      const Item& item = items_[i];
      switch (item.kind) {
        case Item::kLaunch: outcome = card.Launch(item.function, item.grid, params_.data() + item.params, item.bytes, stream); break;
        case Item::kCopy: outcome = card.Copy(item.target, item.source, item.bytes, stream); break;
        case Item::kFill: outcome = card.Fill(item.target, item.value, 1, item.bytes, stream); break;
      }
    }
    return outcome;
  }

 private:
  struct alignas(16) Chunk {
    char bytes[16];
  };
  struct Item {
    enum Kind { kLaunch, kCopy, kFill } kind;
    Function function;
    Grid grid;
    void* target;
    const void* source;
    uint64_t bytes;
    uint64_t params;  // of a launch: its first chunk
    uint32_t value;   // of a fill: each byte
  };
  std::vector<Item> items_;
  std::vector<Chunk> params_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_WORK_LIST_H_
