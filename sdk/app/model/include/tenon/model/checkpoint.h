// SPDX-License-Identifier: Apache-2.0
// CheckpointIndex: what a checkpoint holds, read from its index alone; the values' files are not touched.
//
// The index is a table in LevelDB's format from names to entries. Nothing in it is trusted: blocks are checked by their
// sums, and neither time nor memory is beyond what the file's size is worth.
#ifndef TENON_MODEL_CHECKPOINT_H_
#define TENON_MODEL_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/model/base.h"

namespace tenon::model {

struct CheckpointTensor {
  std::string name;
  DType dtype = DType::kInvalid;
  Shape shape;
  uint64_t bytes = 0;  // in the data files
  int64_t parts = 1;   // more: it is stored in slices
};

struct CheckpointIndex {
  std::string prefix;                     // what RestoreV2 and Saver take
  int64_t shards = 1;                     // data files
  std::vector<CheckpointTensor> tensors;  // sorted by name

  // path: the prefix, or its .index or one of its .data files. NOT_FOUND: there is no index; DATA_LOSS: it is none, or
  // damaged.
  static Result<CheckpointIndex> Read(const std::string& path);
  const CheckpointTensor* Find(std::string_view name) const;
};

// "model" for "model", "model.index" and "model.data-00000-of-00001".
std::string CheckpointPrefix(std::string_view path);
// Whether a path names a checkpoint that has its index.
bool IsCheckpoint(const std::string& path);

// The value of one tensor, as the engine restores it.
Result<Tensor> ReadCheckpointTensor(const Runtime& runtime, const CheckpointIndex& index,
                                    const CheckpointTensor& tensor);

}  // namespace tenon::model

#endif  // TENON_MODEL_CHECKPOINT_H_
