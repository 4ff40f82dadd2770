// SPDX-License-Identifier: Apache-2.0
// WorkList: launches, copies and fills that are noted instead of submitted; a queue of its own kind has one (queue.h).
#ifndef TENON_DEVICES_GPU_WORK_LIST_H_
#define TENON_DEVICES_GPU_WORK_LIST_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime.h"

namespace tenon::gpu {

// Launches of one kernel that may be one launch of another, which does what each of them does. Lives as long as the
// list that knows it.
struct Joining {
  Function function = nullptr;  // that does several
  uint64_t bytes = 0;           // of its parameters
  // Parameters of several out of those of the first; those of one more: false, they are others', or there is no room.
  void (*begin)(void* several, const void* one) = nullptr;
  bool (*join)(void* several, const void* one) = nullptr;
  Grid (*grid)(const void* several, const CardFacts& facts) = nullptr;
};

class WorkList {
 public:
  // joining: NULL: it stays a launch of its own.
  void Launch(Function function, const Grid& grid, const void* params, uint64_t bytes,
              const Joining* joining = nullptr) {
    const uint64_t at = params_.size();
    params_.resize(at + (bytes + sizeof(Chunk) - 1) / sizeof(Chunk));
    if (bytes > 0) std::copy_n(static_cast<const char*>(params), bytes, reinterpret_cast<char*>(params_.data() + at));
    items_.push_back({Item::kLaunch, function, grid, nullptr, nullptr, bytes, at, 0, joining});
  }
  void Copy(void* target, const void* source, uint64_t bytes) {
    items_.push_back({Item::kCopy, nullptr, {}, target, source, bytes, 0, 0, nullptr});
  }
  void Fill(void* target, uint32_t value, uint64_t bytes) {
    items_.push_back({Item::kFill, nullptr, {}, target, nullptr, bytes, 0, value, nullptr});
  }

  uint64_t size() const { return items_.size(); }
  void Clear() {
    items_.clear();
    params_.clear();
  }
  // What was given and is to be launched with what is given next.
  class Joined {
   public:
    bool empty() const { return joining_ == nullptr; }
    // Whether this launch is one of them now.
    bool Take(const Joining* joining, const void* params) {
      if (joining == nullptr || joining_ == nullptr || joining->function != joining_->function) return false;
      return joining->join(params_.data(), params);
    }
    void Begin(const Joining* joining, const void* params) {
      joining_ = joining;
      params_.assign((joining->bytes + sizeof(Chunk) - 1) / sizeof(Chunk), Chunk{});
      joining->begin(params_.data(), params);
    }
    Outcome Submit(Card& card, Stream stream) {
      const Joining* const joining = std::exchange(joining_, nullptr);
      if (joining == nullptr) return {};
      return card.Launch(joining->function, joining->grid(params_.data(), card.facts()), params_.data(), joining->bytes,
                         stream);
    }

   private:
    friend WorkList;
    struct alignas(16) Chunk {
      char bytes[16];
    };
    const Joining* joining_ = nullptr;
    std::vector<Chunk> params_;
  };

  // Submits some of it; what may be joined with what comes next stays in `joined`.
  Outcome Give(uint64_t first, uint64_t count, Card& card, Stream stream, Joined* joined) const {
    Outcome outcome;
    for (uint64_t i = first; i < std::min<uint64_t>(first + count, items_.size()) && outcome.ok(); ++i) {
      const Item& item = items_[i];
      if (item.joining != nullptr && joined->Take(item.joining, params_.data() + item.params)) continue;
      outcome = joined->Submit(card, stream);
      if (!outcome.ok()) break;
      if (item.joining != nullptr) {
        joined->Begin(item.joining, params_.data() + item.params);
        continue;
      }
      switch (item.kind) {
        case Item::kLaunch:
          outcome = card.Launch(item.function, item.grid, params_.data() + item.params, item.bytes, stream);
          break;
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
    const Joining* joining;
  };
  std::vector<Item> items_;
  std::vector<Chunk> params_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_WORK_LIST_H_
