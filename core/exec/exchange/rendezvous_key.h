// SPDX-License-Identifier: Apache-2.0
// RendezvousKey: names a value of one step where the parts meet (rendezvous.h).
#ifndef TENON_CORE_EXEC_EXCHANGE_RENDEZVOUS_KEY_H_
#define TENON_CORE_EXEC_EXCHANGE_RENDEZVOUS_KEY_H_

#include <array>
#include <cstdint>

namespace tenon::exec {

struct RendezvousKey {
  static constexpr int32_t kMaxDepth = 6;  // loops around a value

  int32_t channel = -1;
  int32_t depth = 0;
  std::array<int64_t, kMaxDepth> turns{};  // of the loops, the outermost first; zero beyond depth

  bool operator==(const RendezvousKey&) const = default;
  // The key of a value in one more loop.
  RendezvousKey Within(int64_t turn) const {
    RendezvousKey inner = *this;
    inner.turns[inner.depth++] = turn;
    return inner;
  }
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_EXCHANGE_RENDEZVOUS_KEY_H_
