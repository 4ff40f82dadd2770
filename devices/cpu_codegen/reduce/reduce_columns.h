// SPDX-License-Identifier: Apache-2.0
// A region with reductions of leading dims: a value for each column, such as the gradient of a bias beside that of the
// activation before it. The code has the sums as an input and a result in one memory, where each row adds to what the
// one before has left; what is reduced of the rows themselves (emit/row_generator.cc) may stand in between.
//
// The order is that of devices/cpu's kernels: rows in blocks of 64, whose sums are added in double (of floats). Of few
// columns so many rows as fit into 128 elements are one wide row; shares of 16 blocks of these are added up, then the
// columns of the wide row, then the rows behind. So results do not depend on threads, which share blocks and pieces of
// rows.
#ifndef TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_COLUMNS_H_
#define TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_COLUMNS_H_

#include <memory>
#include <vector>

#include "reduce/reduce_rows.h"
#include "region/region.h"
#include "run/broadcast.h"
#include "run/chain_stages.h"
#include "run/executable.h"

namespace tenon::cpu_codegen {

inline constexpr int64_t kSumGrain = 16;  // elements of a register, at most

struct ColumnExecutable : Executable {
  static std::unique_ptr<Executable> Make(Region region);
  void Run(tenon_frame& frame) const override;

 private:
  struct Column {
    Function function;
    uint32_t dtype;      // of the result
    int64_t size;        // bytes of a block's
    int32_t output;
    int64_t workspace;   // where its blocks' are: wide rows, one for each
  };
  struct Unit {
    int64_t block, first, count;  // columns
  };
  void MakeCode(const Region& region);
  void MakeSums(const Region& region);
  template <class May>
  void AddInPlace(const Region& region, const May& may);
  int64_t Blocks() const { return wide_blocks_ + (rows_ > wide_rows_ * together_ ? 1 : 0); }
  void RunUnit(const tenon_frame& frame, const Unit& unit) const;
  void RunRows(const tenon_frame& frame, const Unit& unit, int64_t begin, int64_t end, int64_t step) const;
  void RunWide(const tenon_frame& frame, const Unit& unit, int64_t begin, int64_t end) const;
  void AddSums(const tenon_frame& frame, const Unit& unit, int64_t step, Operands* operands) const;
  void Call(const Operands& operands, int64_t rows, int64_t count) const;
  void Finish(const tenon_frame& frame, const Column& column, int64_t begin, int64_t end) const;
  // Elements of a wide row.
  int64_t width() const { return together_ * columns_; }
  // Where the code is called with rows that are not wide ones, each of those that are one has sums of its own, whole
  // registers' worth of them.
  int64_t step() const { return is_flat_ ? columns_ : (columns_ + kSumGrain - 1) / kSumGrain * kSumGrain; }
  int64_t width_of_sums() const { return together_ * step(); }
  int64_t SumBytes(const Column& column) const {
    return (width_of_sums() + kSumGrain - 1) / kSumGrain * kSumGrain * column.size;
  }
  char* SumsOf(const tenon_frame& frame, const Column& column, int64_t block) const {
    return static_cast<char*>(frame.workspace) + column.workspace + block * SumBytes(column);
  }

  Stages stages_;
  std::shared_ptr<const Code> code_;  // where rows are reduced too; else stages_
  SpreadDims dims_;                   // of rows
  std::vector<RowInput> inputs_;      // of the region
  std::vector<int64_t> output_bytes_; // of a row
  std::vector<int64_t> element_bytes_;  // of the region's inputs, 0 where a row has one element, then of outputs
  std::vector<Column> sums_;          // in the order of the program's last inputs
  int64_t columns_ = 0, rows_ = 0, together_ = 1, wide_rows_ = 0, wide_blocks_ = 0, piece_ = 0;
  bool is_flat_ = false;              // all inputs are of the region's shape, or of one element
  double cost_ = 0;                   // nanoseconds of an element
};

}  // namespace tenon::cpu_codegen

#endif  // TENON_DEVICES_CPU_CODEGEN_REDUCE_REDUCE_COLUMNS_H_
