// SPDX-License-Identifier: Apache-2.0
// The source of a kernel that computes chains of element-wise nodes with sums, means and maxima along rows between
// them: normalisations of layers, softmax, and what stands before and behind.
//
// A group of threads walks along a row by packs, once for each sum that waits for another and once for what is stored.
// Inputs that several walks need stay in registers, where a row is short enough; the nodes between are computed anew.
// Rows are as long as the kernel was compiled for, and there may be any number of them. Values are rounded as in
// source.h; a sum is added up in the order of a reduction's kernel that gives a row to a group.
#ifndef TENON_DEVICES_GPU_FUSE_ROW_SOURCE_H_
#define TENON_DEVICES_GPU_FUSE_ROW_SOURCE_H_

#include "fuse/source.h"

namespace tenon::gpu {

// Of longer rows a reduction's own kernel gives parts to several blocks.
inline constexpr int64_t kLongestRow = 16384;

struct RowNode : FusedNode {
  enum Kind {
    kElements,
    kOne,
    kSum,
    kMean,
    kMost
  } kind = kElements;  // a value for each element or for each row; of a row
};
struct RowKernel {
  std::vector<FusedInput> inputs;  // kSingle; else step: 1 along a row, 0 where a row has one; strides: along `dims`
  std::vector<RowNode> nodes;      // each after its operands
  std::vector<int> outputs;        // numbers of nodes
  int64_t width = 1;               // elements of a row
  std::vector<int64_t> dims{};     // that rows are counted along, slowest first; of the first the size does not matter
  uint32_t lanes = 1;              // threads of a row, a power of 2
  bool wide = false;               // 32 bits do not number the elements
};

std::string SourceOf(const RowKernel& kernel);
// Whether a row has one element of the input; else packs of it are loaded.
bool IsOfRow(const FusedInput& input);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_FUSE_ROW_SOURCE_H_
