// SPDX-License-Identifier: Apache-2.0
// Inputs that are broadcast, beside the elements of a shape.
#ifndef TENON_DEVICES_CPU_CODEGEN_RUN_BROADCAST_H_
#define TENON_DEVICES_CPU_CODEGEN_RUN_BROADCAST_H_

#include <cstdint>
#include <vector>

namespace tenon::cpu_codegen {

// The shape, with dims over which all inputs walk on evenly as one: rows of `inner` elements.
struct SpreadDims {
  std::vector<int64_t> outer;  // the slowest first
  int64_t inner = 1;
};
// Of an input: element (i_0, ..., inner) of the shape is its element sum i_d * outer[d] + inner * inner.
struct SpreadSteps {
  std::vector<int64_t> outer;
  int64_t inner = 0;  // 0 or 1
  // The first element of a row.
  int64_t OfRow(const SpreadDims& dims, int64_t row) const;
};
// Fails with UNIMPLEMENTED where an input does not broadcast to the shape. out_steps: of each input.
SpreadDims DimsOfSpreads(const std::vector<std::vector<int64_t>>& shapes, const std::vector<int64_t>& out,
                         std::vector<SpreadSteps>* out_steps);

struct Spread {
  int32_t input = 0;  // of the program
  int64_t size = 0;   // bytes of an element
  SpreadSteps steps;
  bool is_same_in_all = false;  // tiles begin where it begins again
};
// Elements after which it begins again.
int64_t PeriodOf(const SpreadDims& dims, const SpreadSteps& steps);
// Its elements beside [begin, begin + count) of the shape, one after the other.
void LayOut(const SpreadDims& dims, const Spread& spread, const char* from, int64_t begin, int64_t count, char* to);

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_RUN_BROADCAST_H_
