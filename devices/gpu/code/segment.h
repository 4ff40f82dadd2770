// SPDX-License-Identifier: Apache-2.0
// Sums of rows that stand together by their segment: SegmentSum, SparseSegmentSum and its kind, and with a sort before
// them their gradients and SparseTensorDenseMatMul.
//
// The rows are cut into chunks. A thread walks down one column of one chunk; what begins and ends within the chunk it
// writes, and the sums of its first and last segment, which may go on in other chunks, are two rows of the next level,
// until one chunk is left. The order depends on the shape alone: the same bits every time.
#ifndef TENON_DEVICES_GPU_CODE_SEGMENT_H_
#define TENON_DEVICES_GPU_CODE_SEGMENT_H_

#include "code/fault.h"
#include "code/index.h"
#include "tenon/extras/kernel/segment.h"

namespace tenon::gpu {

using sdk::Over;

// SegmentSum_<type> of the first level, SegmentSumNext_<type> of the next ones. A sum is of the type's wide or unsigned
// one.
struct SegmentSumParams {
  const void* x;
  int64_t x_rows;
  IndexTensor rows;   // which row of x is the i-th; at == NULL: row i
  IndexTensor ids;    // equal ones stand together; those outside of out are left out
  const void* scales;     // of the i-th row, as a sum's type; NULL: 1
  const int64_t* counts;  // rows that the i-th is the sum of; NULL: 1
  int64_t count, chunk, chunks, total;  // total: chunks times columns
  Dim width;
  void* out;
  int64_t out_rows;
  Over over;
  void* partial;  // [chunks, 2, width], where there are several chunks; so ids and counts
  int64_t* partial_ids;
  int64_t* partial_counts;
  FaultSite row;  // the i-th names no row of x
};

// SegmentCheck: that ids are sorted and not negative; *rows becomes the last and one.
struct SegmentCheckParams {
  IndexTensor ids;
  int64_t count;
  int64_t* rows;
  FaultSite first, order, last;
};

// ---- Gradients ----

// SegmentGradKeys: the row that each is added to as a number to sort, and how many rows each segment has.
struct SegmentKeyParams {
  IndexTensor indices, ids;
  int64_t count, rows, segments;
  uint64_t* keys;  // `rows`, where there is no such row
  uint32_t* counts;
  FaultSite index, id;
};
// SegmentGradRows_<type>: of the sorted ones, which row of the gradient it is and what that is scaled with. Of a `wide`
// type.
struct SegmentGradParams {
  const uint32_t* places;
  IndexTensor ids;
  const uint32_t* counts;
  int64_t count, segments;
  int64_t* rows;
  void* scales;
  Over over;
};
// SegmentNamedCount and SegmentNamed: the rows that are named, once each and in order; ids: of each, which one it is.
struct SegmentNamedParams {
  const uint64_t* keys;
  int64_t count, rows;
  int64_t* sums;
  int64_t* ids;
  void* named;
  int32_t named_bytes;  // of an element
};

// ---- SparseTensorDenseMatMul ----

// SparseProductKeys: rows of the product to sort; SparseProductRows_<type>: of the sorted ones, which row of the dense
// matrix it is and what that is scaled with.
struct SparseKeyParams {
  IndexTensor indices;  // [count, 2]
  int64_t count, rows, inner;
  int32_t turned;  // the first of a pair is the dense matrix's row
  uint64_t* keys;
  FaultSite row, depth;
};
struct SparseRowParams {
  const uint32_t* places;
  IndexTensor indices;
  const void* values;
  int64_t count;
  int32_t turned;
  int64_t* rows;
  void* scales;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_CODE_SEGMENT_H_
