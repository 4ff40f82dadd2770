// SPDX-License-Identifier: Apache-2.0
// The known name that is most like a wrong one, for "did you mean".
#ifndef TENON_CORE_GRAPH_NEAR_MISS_H_
#define TENON_CORE_GRAPH_NEAR_MISS_H_

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace tenon::graph {

// How far two names are apart, for "did you mean".
size_t EditDistance(std::string_view a, std::string_view b);

class NearMiss {
 public:
  // Nobody mistypes a name of more characters; names of strangers may have millions, and comparing two takes their product.
  static constexpr size_t kLongest = 128;

  explicit NearMiss(std::string_view wrong) : wrong_(wrong), best_(wrong.size() > kLongest ? 0 : wrong.size() / 3 + 1) {}
  void Try(std::string_view known) {
    const size_t apart = known.size() > wrong_.size() ? known.size() - wrong_.size() : wrong_.size() - known.size();
    if (apart >= best_) return;
    if (const size_t distance = EditDistance(wrong_, known); distance < best_) {
      best_ = distance;
      found_ = known;
    }
  }
  // "; did you mean 'x'?"; "" where nothing is like it.
  std::string Hint() const { return found_.empty() ? "" : StrCat("; did you mean '", found_, "'?"); }

 private:
  const std::string_view wrong_;
  size_t best_;  // what is as far apart is not like it
  std::string_view found_;
};

}  // namespace tenon::graph

#endif  // TENON_CORE_GRAPH_NEAR_MISS_H_
