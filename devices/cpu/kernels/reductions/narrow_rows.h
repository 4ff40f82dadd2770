// SPDX-License-Identifier: Apache-2.0
// Many rows of few columns reduced to one: so many rows side by side are one wide row, which vectors go over; the
// columns of its result are folded.
//
// Op has First<A>() and Step(A, A), as in reduce.cc. Blocks of rows are reduced in A, blocks' results in S. Shares are
// as many rows whatever the threads, and are folded in their order.
#ifndef TENON_DEVICES_CPU_KERNELS_REDUCTIONS_NARROW_ROWS_H_
#define TENON_DEVICES_CPU_KERNELS_REDUCTIONS_NARROW_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "kernels/common/types.h"

namespace tenon::cpu {

// total[j] is reduced with x[r * stride + j] of so many rows; n: at most kWideRow columns.
inline constexpr int64_t kWideRow = 128;
template <class Op, class A, class S, class T>
void ReduceRows(const T* x, int64_t stride, int64_t rows, int64_t n, S* total) {
  constexpr int64_t kBlockRows = 64;
  for (int64_t first = 0; first < rows; first += kBlockRows) {
    A block[kWideRow];
    std::fill_n(block, n, Op::template First<A>());
    const int64_t last = std::min(rows, first + kBlockRows);
    for (int64_t r = first; r < last; ++r) {
      const T* line = x + r * stride;
      for (int64_t j = 0; j < n; ++j) block[j] = Op::template Step<A>(block[j], static_cast<A>(line[j]));
    }
    for (int64_t j = 0; j < n; ++j) total[j] = Op::template Step<S>(total[j], static_cast<S>(block[j]));
  }
}

class NarrowRows {
 public:
  NarrowRows() = default;
  NarrowRows(int64_t rows, int64_t columns) : rows_(rows), columns_(columns) {}
  // Whether it is worth it; else nothing below is to be asked.
  bool Pays() const { return columns_ > 0 && columns_ <= kWideRow / 2 && WideRows() >= kLeastRows; }
  // Elements of S of a run's workspace; of so many elements at most that many.
  int64_t WorkspaceCount() const { return Shares() * kWideRow; }
  static int64_t MostWorkspaceCount(int64_t elements) {
    return (elements / (kWideRow / 2 * kShareRows) + 1) * kWideRow;
  }

  // total: of each column what there was before, into which the rows are reduced.
  template <class Op, class A, class S, class T>
  void Reduce(sdk::RunContext c, const T* x, S* workspace, S* total) const {
    const int64_t wide = WideRows(), width = Together() * columns_;
    c.ParallelFor(Shares(), static_cast<double>(std::min(wide, kShareRows) * width) * 0.1,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t share = begin; share < end; ++share) {
                      const int64_t first = share * kShareRows;
                      S* own = workspace + share * kWideRow;
                      std::fill_n(own, width, Op::template First<S>());
                      ReduceRows<Op, A, S>(x + first * width, width, std::min(kShareRows, wide - first), width, own);
                    }
                  });
    for (int64_t share = 0; share < Shares(); ++share)
      for (int64_t j = 0; j < width; ++j)
        total[j % columns_] = Op::template Step<S>(total[j % columns_], workspace[share * kWideRow + j]);
    const int64_t done = wide * Together();
    ReduceRows<Op, A, S>(x + done * columns_, columns_, rows_ - done, columns_, total);
  }

 private:
  static constexpr int64_t kLeastRows = 16, kShareRows = 1024;
  int64_t Together() const { return kWideRow / columns_; }
  int64_t WideRows() const { return rows_ / Together(); }
  int64_t Shares() const { return (WideRows() + kShareRows - 1) / kShareRows; }
  int64_t rows_ = 0, columns_ = 0;
};

}  // namespace tenon::cpu

#endif  // TENON_DEVICES_CPU_KERNELS_REDUCTIONS_NARROW_ROWS_H_
