// SPDX-License-Identifier: Apache-2.0
// Program: a plan bound to feed shapes, as straight code. Immutable.
#ifndef TENON_CORE_EXEC_PROGRAM_PROGRAM_H_
#define TENON_CORE_EXEC_PROGRAM_PROGRAM_H_

#include <atomic>
#include <string>
#include <vector>

#include "core/exec/plan/plan.h"
#include "core/exec/program/program_code.h"

namespace tenon::exec {

// Whether feeds have these dims.
bool AreShapes(const tenon_tensor_view* const* feeds, const std::vector<Shape>& shapes);

class Program {
 public:
  // The plan outlives it.
  Program(const Plan* plan, ProgramCode code);

  const Plan& plan() const { return *plan_; }
  const ProgramCode& code() const { return code_; }
  // Whether feeds have the dims that it was built for.
  bool Fits(const tenon_tensor_view* const* feeds) const { return AreShapes(feeds, code_.feed_shapes); }
  // Whether each step does the same work: no loop, no conditional, no shape that is known only in the step.
  bool fixed() const { return fixed_; }
  // No two programs of a process have one; not 0.
  uint64_t serial() const { return serial_; }
  // Steps that are still to be timed (side_by_side.h); each that is takes one.
  bool wants_times() const { return trials_.load(std::memory_order_relaxed) > 0; }
  // Whether this was the last one.
  bool TakeTrial() const { return trials_.fetch_sub(1) == 1; }
  // The dynamic executor runs its steps for now.
  bool stands_by() const { return stands_by_.load(std::memory_order_relaxed); }
  void set_stands_by(bool stands_by) const { stands_by_.store(stands_by, std::memory_order_relaxed); }
  // For errors: the node with the largest value.
  std::string DescribeLargest() const;

 private:
  const Plan* const plan_;
  const ProgramCode code_;
  const uint64_t serial_;
  const bool fixed_;
  mutable std::atomic<int> trials_;
  mutable std::atomic<bool> stands_by_{false};
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PROGRAM_PROGRAM_H_
