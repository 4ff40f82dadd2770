// SPDX-License-Identifier: Apache-2.0
// ReadyNodes: which nodes of a step may run, and which of them runs next.
//
// Of what is ready the node that was constructed first comes first, as in straight code. A loop stands where its first
// node does; of its turns, and those of the loops within, the one that began first. What the host waits for a device
// for comes when nothing else is ready. Yet nobody waits for ever for a loop that turns until another branch has done
// something: now and then it is another's turn.
#ifndef TENON_CORE_EXEC_DATAFLOW_READY_NODES_H_
#define TENON_CORE_EXEC_DATAFLOW_READY_NODES_H_

#include <cstdint>
#include <random>
#include <vector>

#include "core/exec/dataflow/iteration.h"

namespace tenon::exec::dataflow {

struct Ready {
  LocalId node;
  bool dead;
  bool now;  // though the host waits in it, and others are ready
  Iteration* iteration;  // nullptr: nothing is ready
};

class ReadyNodes {
 public:
  // seed: 0: in the order above; else in an order that it draws, for tests. Each step goes on from there.
  explicit ReadyNodes(uint64_t seed) : shuffled_(seed != 0) {
    if (shuffled_) random_.seed(static_cast<std::minstd_rand::result_type>(seed));
  }

  void Push(LocalId node, Iteration* iteration, bool dead);
  // Until nothing else is ready, or it has been passed over for long.
  void PutOff(const Ready& ready) { put_off_.push_back(ready); }
  Ready Take();
  void Forget();
  bool empty() const { return active_.empty() && put_off_.empty(); }
  // Whether there is anything but what was put off.
  bool has_active() const { return !active_.empty(); }
  bool shuffled() const { return shuffled_; }

 private:
  Ready TakePutOff();
  Ready TakeActive();
  // Which iteration has the node that comes first; there are several.
  Iteration* First();

  const bool shuffled_;
  std::minstd_rand random_;
  std::vector<Iteration*> active_;  // that have ready nodes, in no order
  std::vector<Ready> put_off_;      // from put_off_begin_ on
  size_t put_off_begin_ = 0;
  uint32_t chosen_ = 0, passed_over_ = 0;  // between several that have ready nodes; while nodes were put off
};

inline void ReadyNodes::Push(LocalId node, Iteration* iteration, bool dead) {
  ++iteration->running;
  const auto at = static_cast<size_t>(node.number());
  if (iteration->ready_count == 0) {
    iteration->active_at = active_.size();
    active_.push_back(iteration);
    iteration->first_ready = at / 64;
  } else if (at / 64 < iteration->first_ready) {
    iteration->first_ready = at / 64;
  }
  ++iteration->ready_count;
  const uint64_t mask = uint64_t{1} << (at % 64);
  iteration->ready[at / 64] |= mask;
  if (!dead) return;
  iteration->ready_dead[at / 64] |= mask;
  ++iteration->dead_count;
}

}  // namespace tenon::exec::dataflow

#endif  // TENON_CORE_EXEC_DATAFLOW_READY_NODES_H_
