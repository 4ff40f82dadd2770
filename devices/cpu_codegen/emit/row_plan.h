// SPDX-License-Identifier: Apache-2.0
// How a program with reductions goes over a row: in passes, since what reads a reduction's result begins when the row
// has been read to its end.
//
// A value of elements that a later pass reads is kept in memory: where it is a result, there; else where a result will
// stand that nobody has written yet; else in scratch memory. A row is a few kilobytes, which stay in the processor's
// nearest cache.
#ifndef TENON_DEVICES_CPU_CODEGEN_EMIT_ROW_PLAN_H_
#define TENON_DEVICES_CPU_CODEGEN_EMIT_ROW_PLAN_H_

#include <cstdint>
#include <vector>

#include "code/program.h"
#include "tenon/sdk/span.h"

namespace tenon::cpu_codegen {

struct RowPlan {
  // Where a value of elements is kept between passes.
  struct Home {
    int output = -1;       // its memory; -1: scratch memory
    int64_t scratch = -1;  // the row's first byte in it; -1: it is not kept
    bool is_kept() const { return output >= 0 || scratch >= 0; }
  };
  std::vector<bool> of_row;  // of values: Program::OfRows
  // Of nodes: the pass that computes their elements, or reads those that they reduce; of other values of a row, the
  // pass before which they are computed.
  std::vector<int> pass;
  int passes = 0;
  std::vector<Home> homes;  // of values
  int64_t scratch_bytes = 0;
};
RowPlan PlanRows(const Program& program);

// Whether the output may have the input's memory: nothing is written there before all of the input has been read that
// is read at all.
bool MayLieInPlace(const Program& program, const RowPlan& plan, int input, int output);

inline int64_t ElementBytes(uint32_t dtype) { return static_cast<int64_t>(sdk::ElementSize(dtype)); }

// Elements of a block: sums of blocks are added in double (devices/cpu's kernels do it in the same order).
inline constexpr int64_t kReducedBlock = 1024;
// Rows of fewer or more elements are not worth it.
inline constexpr int64_t kLeastReduced = 16, kMostReduced = 64 * kReducedBlock;
inline constexpr int64_t kMostReductions = 12;

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_EMIT_ROW_PLAN_H_
