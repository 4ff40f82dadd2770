// SPDX-License-Identifier: Apache-2.0
// The known name that is most like a wrong one, for "did you mean".
#ifndef TENON_SDK_NEAR_MISS_H_
#define TENON_SDK_NEAR_MISS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::sdk {

// How many characters are put in, left out, changed, or swapped with their neighbour; of what is at least `bound`
// apart, some number that is no less. Names of a scope begin alike, and most are soon seen to be too far apart.
inline size_t EditDistance(std::string_view a, std::string_view b, size_t bound = SIZE_MAX) {
  while (!a.empty() && !b.empty() && a.front() == b.front()) a.remove_prefix(1), b.remove_prefix(1);
  while (!a.empty() && !b.empty() && a.back() == b.back()) a.remove_suffix(1), b.remove_suffix(1);
  std::vector<size_t> older(b.size() + 1), before(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  size_t least_before = 0, least = 0;  // of the rows
  for (size_t i = 1; i <= a.size(); ++i) {
    older.swap(before);
    before.swap(row);
    row[0] = i;
    least_before = std::exchange(least, i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], older[j - 2] + 1);
      least = std::min(least, row[j]);
    }
    if (std::min(least, least_before) >= bound) return bound;  // a swap comes from two rows before
  }
  return row[b.size()];
}

// Keeps a view of the best name: names that are tried outlive it.
class NearMiss {
 public:
  // Nobody mistypes a name of more characters; names of strangers may have millions, and comparing two takes their
  // product.
  static constexpr size_t kLongest = 128;

  explicit NearMiss(std::string_view wrong) : wrong_(wrong), best_(Farthest(wrong.size())) {}
  void Try(std::string_view known) {
    const size_t apart = known.size() > wrong_.size() ? known.size() - wrong_.size() : wrong_.size() - known.size();
    const size_t most = std::min(best_, Farthest(wrong_.size() - SharedScope(known)));
    if (apart >= most) return;
    if (const size_t distance = EditDistance(wrong_, known, most); distance < most) {
      best_ = distance;
      found_ = known;
    }
  }
  // "; did you mean 'x'?"; "" where nothing is like it.
  std::string Hint() const { return found_.empty() ? "" : "; did you mean '" + std::string(found_) + "'?"; }

 private:
  // One slip in two to five characters, two in six to eight, ...
  static constexpr size_t Farthest(size_t size) {
    if (size > kLongest) return 0;
    return size < 2 ? 1 : std::max<size_t>(size / 3 + 1, 2);
  }

  // Bytes of "tenon.ops." or "layer/" that both begin with: nobody mistyped these, so they allow for no slips.
  size_t SharedScope(std::string_view known) const {
    size_t shared = 0;
    for (size_t i = 0; i < std::min(known.size(), wrong_.size()) && known[i] == wrong_[i]; ++i)
      if (known[i] == '.' || known[i] == '/') shared = i + 1;
    return shared;
  }

  const std::string_view wrong_;
  size_t best_;  // what is as far apart is not like it
  std::string_view found_;
};

}  // namespace tenon::sdk

#endif  // TENON_SDK_NEAR_MISS_H_
