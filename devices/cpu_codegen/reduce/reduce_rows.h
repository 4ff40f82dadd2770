// SPDX-License-Identifier: Apache-2.0
// A region with reductions of trailing dims: rows, which threads share.
#ifndef TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_ROWS_H_
#define TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_ROWS_H_

#include <memory>
#include <utility>
#include <vector>

#include "code/code.h"
#include "region/region.h"
#include "run/broadcast.h"
#include "run/executable.h"

namespace tenon::cpu_codegen {

// An input beside rows.
struct RowInput {
  int32_t source;     // among the frame's
  int64_t row_bytes;  // of one of its own rows
  bool is_single;     // which has one element
  SpreadSteps steps;  // in its own rows
  int32_t part = -1;  // which one it is; -1: none
};
// Those of the region whose last `reduced` dims are a row. Fails with UNIMPLEMENTED where one is broadcast otherwise
// than by rows or within a row of one dim.
std::vector<RowInput> RowInputs(const Region& region, size_t reduced, SpreadDims* out_dims);

struct RowExecutable : Executable {
  static std::unique_ptr<Executable> Make(Region region);
  void Run(tenon_frame& frame) const override;

 private:
  void AddParts(const Region& region);
  char* BaseOf(const tenon_frame& frame, const RowInput& input) const;
  void RunRows(const tenon_frame& frame, int64_t begin, int64_t end) const;

  std::shared_ptr<const Code> code_;
  SpreadDims dims_;  // of rows
  int64_t row_ = 0, rows_ = 0;
  std::vector<Part> parts_;
  std::vector<std::pair<int32_t, int32_t>> copies_;  // parts, and outputs of the frame
  std::vector<int32_t> outputs_;                     // of the frame
  bool by_row_ = false;                              // rows are called one by one: of gathers
  std::vector<RowInput> inputs_;
  std::vector<int64_t> output_bytes_;  // of a row
  double cost_ = 0;                    // nanoseconds of a row
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_ROWS_H_
