// SPDX-License-Identifier: Apache-2.0
// World: one run of a simulated cluster, from a seed.
//
// Parameter servers and workers are the real ones, over the simulated network; a client trains on them with the real
// trainer, and begins again from its newest checkpoint whenever a step fails; visitors count in state of their own,
// under deadlines. Meanwhile tasks and the client are killed and started again, frozen, and cut off from each other.
// The model is such that every value after a step is known: an update that is lost, or applied twice, shows in the next
// step. Checked all the time: values, that every failure names a task, that no step outlasts its bound; at the end: the
// last values, that nothing waits any more, and that memory is given back.
#ifndef TENON_TESTS_SIMULATION_WORLD_H_
#define TENON_TESTS_SIMULATION_WORLD_H_

#include <cstdint>
#include <string>

namespace tenon::simulation {

struct Outcome {
  std::string violation;  // empty: all held
  uint64_t trace = 0;     // equal for equal runs
  int64_t steps = 0;      // that the client took, again ones too
  int faults = 0, sessions = 0;
  uint64_t switches = 0, frames = 0, simulated_ns = 0;
};

// What goes wrong more often than in a run where all may, so that what is rare there shows soon.
enum class Focus { kAll, kTasks, kCuts, kResets, kClients, kSilence, kVisitors, kCount };

struct RunOptions {
  uint64_t seed = 1;
  Focus focus = Focus::kAll;
  int planted_bug = 0;  // of net/cluster/planted.h; 0: none
  bool tell = false;    // what happens, on stderr
  bool calm = false;    // no faults
};

// Runs it in a process of its own, because killed tasks leave their memory behind.
Outcome Simulate(const RunOptions& options);

// Loads what all runs share; before the first.
void Prepare();

}  // namespace tenon::simulation

#endif  // TENON_TESTS_SIMULATION_WORLD_H_
