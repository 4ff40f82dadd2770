// SPDX-License-Identifier: Apache-2.0
// The cheapest way to put things on two sides, where being on a side has a price, and so has standing on different
// sides: a minimum cut (Dinic's method).
#ifndef TENON_SDK_DEVICE_MINIMUM_CUT_H_
#define TENON_SDK_DEVICE_MINIMUM_CUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace tenon::sdk {

// Things are numbers from 0 on. kNear and kFar are the two sides themselves. Prices are at least 0; kNever is not paid.
class MinimumCut {
 public:
  static constexpr int kNear = 0, kFar = 1;
  static constexpr int64_t kNever = int64_t{1} << 60;

  int Add() {
    ways_.emplace_back();
    return static_cast<int>(ways_.size()) - 1;
  }
  // `price` is paid when `near` stands near and `far` far.
  void Price(int near, int far, int64_t price) {
    if (price <= 0 || near == far) return;
    ways_[static_cast<size_t>(near)].push_back(edges_.size());
    edges_.push_back({far, price});
    ways_[static_cast<size_t>(far)].push_back(edges_.size());
    edges_.push_back({near, 0});
  }

  // Who stands near, of all ways that cost the least the one with the fewest. Nothing: it took longer than
  // `most_steps`.
  std::optional<std::vector<bool>> Solve(uint64_t most_steps) {
    steps_ = most_steps;
    while (Levels())
      if (!Fill()) return std::nullopt;
    if (steps_ == 0) return std::nullopt;
    std::vector<bool> near(ways_.size());
    for (size_t i = 0; i < near.size(); ++i) near[i] = level_[i] >= 0;
    return near;
  }

 private:
  struct Edge {
    int to;
    int64_t left;
  };
  bool Step() { return steps_ > 0 && --steps_ > 0; }

  // How many edges with something left it is from kNear; -1: there is no way. Whether kFar is reached.
  bool Levels() {
    level_.assign(ways_.size(), -1);
    level_[kNear] = 0;
    std::vector<int> queue = {kNear};
    for (size_t at = 0; at < queue.size(); ++at)
      for (const size_t way : ways_[static_cast<size_t>(queue[at])]) {
        const Edge& edge = edges_[way];
        if (!Step()) return false;
        if (edge.left == 0 || level_[static_cast<size_t>(edge.to)] >= 0) continue;
        level_[static_cast<size_t>(edge.to)] = level_[static_cast<size_t>(queue[at])] + 1;
        queue.push_back(edge.to);
      }
    return level_[kFar] >= 0;
  }
  // Takes from all the shortest ways what they have left. False: too many steps.
  bool Fill() {
    std::vector<size_t> next(ways_.size(), 0), path;
    int at = kNear;
    for (;;) {
      if (!Step()) return false;
      if (at == kFar) {
        at = Take(&path);
        continue;
      }
      const auto& ways = ways_[static_cast<size_t>(at)];
      size_t& i = next[static_cast<size_t>(at)];
      while (i < ways.size() && !(edges_[ways[i]].left > 0 && level_[static_cast<size_t>(edges_[ways[i]].to)] ==
                                                                  level_[static_cast<size_t>(at)] + 1))
        ++i;
      if (i < ways.size()) {
        path.push_back(ways[i]);
        at = edges_[ways[i]].to;
      } else if (path.empty()) {
        return true;
      } else {
        at = edges_[path.back() ^ 1].to;
        path.pop_back();
        ++next[static_cast<size_t>(at)];
      }
    }
  }
  // Goes back to where the way has nothing left.
  int Take(std::vector<size_t>* path) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (const size_t way : *path) least = std::min(least, edges_[way].left);
    size_t empty = path->size();
    for (size_t i = path->size(); i-- > 0;) {
      edges_[(*path)[i]].left -= least;
      edges_[(*path)[i] ^ 1].left += least;
      if (edges_[(*path)[i]].left == 0) empty = i;
    }
    const int at = edges_[(*path)[empty] ^ 1].to;
    path->resize(empty);
    return at;
  }

  std::vector<std::vector<size_t>> ways_ = std::vector<std::vector<size_t>>(2);
  std::vector<Edge> edges_;  // each with the one back beside it
  std::vector<int> level_;
  uint64_t steps_ = 0;
};

}  // namespace tenon::sdk
#endif  // TENON_SDK_DEVICE_MINIMUM_CUT_H_
