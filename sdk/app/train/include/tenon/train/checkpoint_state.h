// SPDX-License-Identifier: Apache-2.0
// The file `checkpoint` of a checkpoint folder: which checkpoints are complete, oldest first.
//
// TensorFlow's CheckpointState as text protobuf. Rule: the file is replaced as a whole, after the checkpoint that it
// newly names is on the disk and before the files of one that it no longer names are removed; so whatever it names is
// complete, wherever a crash falls.
#ifndef TENON_TRAIN_CHECKPOINT_STATE_H_
#define TENON_TRAIN_CHECKPOINT_STATE_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

struct CheckpointState {
  std::vector<std::string> paths;  // relative ones are relative to the folder; the last is the newest
  std::vector<double> timestamps;  // seconds since 1970; as many as paths, or none
  double last_preserved = 0;       // the time of the last that is kept for ever though it is named no more; 0: none

  std::string Format() const;  // empty when there are none
  static Result<CheckpointState> Parse(std::string_view text);
  // NOT_FOUND when the folder has no such file.
  static Result<CheckpointState> Read(const std::string& folder);
  Status Write(const std::string& folder) const;
};

// Where a path of the file leads: relative ones into the folder; absolute ones, and those with a scheme, are whole.
std::string CheckpointPath(const std::string& folder, const std::string& path);

}  // namespace tenon::train

#endif  // TENON_TRAIN_CHECKPOINT_STATE_H_
