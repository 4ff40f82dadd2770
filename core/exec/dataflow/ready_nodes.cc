// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/ready_nodes.h"

#include <algorithm>
#include <bit>

namespace tenon::exec::dataflow {
namespace {

// Of so many choices between turns of loops, or the step itself, one is not by their order. And so many nodes run
// before what the host waits for, and no more.
constexpr uint32_t kOrderly = 64, kPatience = 100'000;

}  // namespace

Ready ReadyNodes::Take() {
  const bool its_turn = !put_off_.empty() && (active_.empty() || ++passed_over_ > kPatience);
  if (its_turn) return TakePutOff();
  if (active_.empty()) return {LocalId(), false, false, nullptr};
  return TakeActive();
}

Ready ReadyNodes::TakePutOff() {
  passed_over_ = 0;
  Ready ready = put_off_[put_off_begin_];
  if (++put_off_begin_ == put_off_.size()) {
    put_off_.clear();
    put_off_begin_ = 0;
  }
  ready.now = true;
  return ready;
}

Iteration* ReadyNodes::First() {
  if (++chosen_ % kOrderly == 0) return active_[chosen_ / kOrderly % active_.size()];
  const auto turn_of = [](Iteration* iteration) {
    if (iteration->turn != 0) return iteration->turn;
    while (iteration->ready[iteration->first_ready] == 0) ++iteration->first_ready;
    const auto first = static_cast<int32_t>(
        iteration->first_ready * 64 + static_cast<size_t>(std::countr_zero(iteration->ready[iteration->first_ready])));
    return static_cast<uint64_t>(iteration->info->nodes[LocalId(first)].rank) << 32;
  };
  Iteration* first = active_[0];
  uint64_t turn = turn_of(first);
  for (size_t i = 1; i < active_.size(); ++i)
    if (const uint64_t other = turn_of(active_[i]); other < turn) {
      first = active_[i];
      turn = other;
    }
  return first;
}

Ready ReadyNodes::TakeActive() {
  Iteration* const iteration = shuffled_             ? active_[random_() % active_.size()]
                               : active_.size() == 1 ? active_[0]
                                                     : First();
  uint64_t* const ready = iteration->ready.data();
  size_t word = iteration->first_ready;
  int bit = 0;
  if (shuffled_) {
    word = random_() % iteration->ready.size();
    while (ready[word] == 0) word = (word + 1) % iteration->ready.size();
    const int turned = static_cast<int>(random_() % 64);
    bit = (std::countr_zero(std::rotr(ready[word], turned)) + turned) % 64;
  } else {
    while (ready[word] == 0) ++word;
    iteration->first_ready = word;
    bit = std::countr_zero(ready[word]);
  }
  ready[word] ^= uint64_t{1} << bit;
  bool dead = false;
  if (iteration->dead_count != 0) {
    uint64_t& dead_word = iteration->ready_dead[word];
    dead = (dead_word >> bit & 1) != 0;
    dead_word &= ~(uint64_t{1} << bit);
    iteration->dead_count -= static_cast<size_t>(dead);
  }
  if (--iteration->ready_count == 0) {
    active_[iteration->active_at] = active_.back();
    active_.back()->active_at = iteration->active_at;
    active_.pop_back();
  }
  return {LocalId(static_cast<int32_t>(word * 64) + bit), dead, false, iteration};
}

void ReadyNodes::Forget() {
  for (Iteration* iteration : active_) {
    std::fill(iteration->ready.begin(), iteration->ready.end(), 0);
    std::fill(iteration->ready_dead.begin(), iteration->ready_dead.end(), 0);
    iteration->ready_count = iteration->dead_count = 0;
  }
  active_.clear();
  put_off_.clear();
  put_off_begin_ = 0;
}

}  // namespace tenon::exec::dataflow
