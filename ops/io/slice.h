// SPDX-License-Identifier: Apache-2.0
// Slices: boxes of a tensor, as partitioned variables stand in checkpoints.
//
// The index has an entry under the tensor's name, without bytes, that lists the stored slices, and one for each slice
// under a key made of name and box. What is asked for need not be what is stored: every stored box that touches the
// asked one gives its part.
#ifndef TENON_OPS_IO_SLICE_H_
#define TENON_OPS_IO_SLICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops::io {

struct Slice {
  std::vector<int64_t> start, length;  // one a dim
  std::vector<bool> open;  // one a dim: said to be all of it, without numbers; the same box, under another key

  static Slice Whole(sdk::Dims dims);
  int64_t elements() const;
  bool operator==(const Slice& other) const { return start == other.start && length == other.length; }
  // The box that both have; false when there is none.
  bool Intersect(const Slice& other, Slice* out) const;

  // As the index has it: a TensorSliceProto. A dim that is open says nothing. DATA_LOSS names the tensor when it is no
  // box of `dims`.
  std::string Serialize() const;
  static Slice Parse(std::string_view bytes, sdk::Dims dims, std::string_view tensor);
  // The key of its entry: ordered code of 0, the name, the rank, and start and length (0, -1 where open) of each dim.
  std::string Key(std::string_view tensor) const;
};

// What a shape_and_slice says: "" is the whole tensor; "5 3 0,2:-" two rows of a tensor of shape [5, 3].
// INVALID_ARGUMENT names the tensor.
struct SliceSpec {
  bool whole = true;          // "", of whatever shape
  std::vector<int64_t> dims;  // of the whole tensor
  Slice slice;

  static SliceSpec Parse(std::string_view text, std::string_view tensor);
};

// Copies the box that both slices have from one's bytes to the other's; gives the number of its elements.
int64_t CopyCommon(const Slice& from, const char* source, const Slice& to, char* target, uint64_t element_bytes);

}  // namespace tenon::ops::io
#endif  // TENON_OPS_IO_SLICE_H_
