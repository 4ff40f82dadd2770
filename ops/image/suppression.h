// SPDX-License-Identifier: Apache-2.0
// Non-maximum suppression: of things that overlap, the best alone.
#ifndef TENON_OPS_IMAGE_SUPPRESSION_H_
#define TENON_OPS_IMAGE_SUPPRESSION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <vector>

#include "tenon/sdk/kernel/element.h"

namespace tenon::ops {

// T: how numbers are rounded, step by step.
template <class T>
struct Suppression {
  T overlap;     // above which one suppresses another
  T least;       // scores that are not above it are not looked at
  T sigma = T(0.0f);  // above 0: an overlap, however large, lowers the score by a Gaussian curve of that variance
};

template <class T>
struct Chosen {
  std::vector<int32_t> index;
  std::vector<T> score;  // as it was lowered
};

// The share of two boxes, [y1, x1, y2, x2] with any corners opposite, that is common to both; 0 where one has no area.
template <class T>
T OverlapOf(const T* a, const T* b) {
  const auto of = [](T x) { return static_cast<float>(x); };
  const auto low = [&](const T* box, int i) { return T(std::min(of(box[i]), of(box[i + 2]))); };
  const auto high = [&](const T* box, int i) { return T(std::max(of(box[i]), of(box[i + 2]))); };
  const auto minus = [&](T x, T y) { return T(of(x) - of(y)); };
  const auto area = [&](const T* box) {
    return T(of(minus(high(box, 0), low(box, 0))) * of(minus(high(box, 1), low(box, 1))));
  };
  const T area_a = area(a), area_b = area(b);
  if (of(area_a) <= 0 || of(area_b) <= 0) return T(0.0f);
  const auto common = [&](int i) {
    return std::max(of(minus(T(std::min(of(high(a, i)), of(high(b, i)))), T(std::max(of(low(a, i)), of(low(b, i)))))),
                    0.0f);
  };
  const T both = T(common(0) * common(1));
  return T(of(both) / of(minus(T(of(area_a) + of(area_b)), both)));
}

// At most `most` of `count` things, the best first; of equal scores the earlier. overlap(i, j) -> T. poll: of long
// work.
template <class T, class Overlap>
Chosen<T> Suppress(sdk::CancelPoll& poll, const T* scores, int64_t count, int64_t most, const Suppression<T>& rule,
                   const Overlap& overlap) {
  struct Candidate {
    int32_t index;
    float score;
    size_t seen;  // of those chosen, which it was compared with
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && index > other.index);
    }
  };
  const bool soft = static_cast<float>(rule.sigma) > 0;
  const T scale = soft ? T(-0.5f / static_cast<float>(rule.sigma)) : T(0.0f);
  std::vector<Candidate> candidates;
  for (int64_t i = 0; i < count; ++i) {
    if (static_cast<float>(scores[i]) > static_cast<float>(rule.least))
      candidates.push_back({static_cast<int32_t>(i), static_cast<float>(scores[i]), 0});
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(candidates));
  Chosen<T> chosen;
  while (static_cast<int64_t>(chosen.index.size()) < most && !queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    const float before = next.score;
    bool suppressed = false;
    // The last chosen ones, of scores like its own, are the likeliest to lie where it does.
    for (size_t j = chosen.index.size(); j > next.seen && !suppressed; --j) {
      poll(20);
      const T common = overlap(next.index, chosen.index[j - 1]);
      if (!soft) {
        suppressed = static_cast<float>(common) > static_cast<float>(rule.overlap);
        continue;
      }
      const T weight = T(
          std::exp(static_cast<float>(T(static_cast<float>(T(static_cast<float>(scale) * static_cast<float>(common))) *
                                        static_cast<float>(common)))));
      next.score = static_cast<float>(T(next.score * static_cast<float>(weight)));
      if (next.score <= static_cast<float>(rule.least)) break;
    }
    if (suppressed) continue;
    next.seen = chosen.index.size();
    if (next.score == before) {
      chosen.index.push_back(next.index);
      chosen.score.push_back(T(next.score));
    } else if (next.score > static_cast<float>(rule.least)) {
      queue.push(next);
    }
  }
  return chosen;
}

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_SUPPRESSION_H_
