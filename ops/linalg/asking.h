// SPDX-License-Identifier: Apache-2.0
// How a factorization of Eigen's asks whether its step was given up. The compiler is told to include this first
// (CMakeLists.txt).
//
// A factorization is one call, which may last for hours. Wherever it begins with something Eigen asserts that sizes
// fit, by a macro that may be defined and may throw: here it asserts nothing (as without debugging), and asks at those
// places between which little is done. Results are those of Eigen without this.
#ifndef TENON_OPS_LINALG_ASKING_H_
#define TENON_OPS_LINALG_ASKING_H_

#include <cstdint>
#include <string_view>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops::linalg {

// The run that this thread computes for, and what it may yet do before it asks. Plugins are not unmapped, so that the
// quick model is in order.
struct Asking {
  const sdk::RunContext* run;
  int64_t left;
};
[[gnu::tls_model("initial-exec")]] inline constinit thread_local Asking asking = {nullptr, 0};

constexpr int64_t kBetweenQuestions = 16384;  // elements; a few to a hundred microseconds

// Asks for `run` as long as this lives.
class AsksFor {
 public:
  explicit AsksFor(const sdk::RunContext& run) noexcept : before_(asking) { asking = {&run, kBetweenQuestions}; }
  ~AsksFor() { asking = before_; }
  AsksFor(const AsksFor&) = delete;
  AsksFor& operator=(const AsksFor&) = delete;

 private:
  Asking before_;
};

[[gnu::noinline, gnu::cold]] inline void AskNow() {
  asking.left = kBetweenQuestions;
  if (asking.run != nullptr) asking.run->CheckCancelled();
}
// work: elements that are gone through before the next call, roughly.
inline void Ask(int64_t work) {
  asking.left -= work;
  if (asking.left <= 0) [[unlikely]] AskNow();
}

// What follows on an assertion of Eigen's, by its text; 0: that is not known, or little.
consteval int64_t WorkAfter(std::string_view assertion) {
  const auto has = [&](std::string_view piece) { return assertion.find(piece) != std::string_view::npos; };
  if (has("PanelMode")) return kBetweenQuestions;               // a block of a product of matrices is packed
  if (has("invalid matrix product")) return kBetweenQuestions;  // a product, which may be of a matrix and a vector
  if (has("xpr_x.size()")) return kBetweenQuestions / 64;       // a rotation of two rows or columns
  if (has("aLhs.rows()")) return kBetweenQuestions / 64;        // a sum and the like, mostly of vectors
  if (has("index < size()")) return 1;                          // an element of a vector
  return 0;
}

}  // namespace tenon::ops::linalg

#define eigen_assert(x)                                               \
  do {                                                                \
    if constexpr (::tenon::ops::linalg::WorkAfter(#x) > 0)            \
      ::tenon::ops::linalg::Ask(::tenon::ops::linalg::WorkAfter(#x)); \
  } while (false)

#endif  // TENON_OPS_LINALG_ASKING_H_
