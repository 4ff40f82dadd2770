// SPDX-License-Identifier: Apache-2.0
// Saver: a model's variables in checkpoints, written and read by nodes of the graph (SaveV2, RestoreV2).
//
// Invariants, for a process that may die at any instruction:
//   - a checkpoint is named in the folder's `checkpoint` file only when its files are whole and on the disk;
//   - the files of a checkpoint that is no longer named are removed after the file that no longer names it is on the
//   disk;
//   - a checkpoint that is named is never written over.
//   - an empty `checkpoint` file names none; only where there is no such file are checkpoints looked for by their
//   names.
// Restoring takes the newest that can be read: each tensor's checksum is verified by the op that reads it. One that is
// damaged is passed over, said aloud, and no longer named, so that the step that it claims can be saved again.
#ifndef TENON_TRAIN_SAVER_H_
#define TENON_TRAIN_SAVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/checkpoint_state.h"
#include "tenon/train/model.h"

namespace tenon::train {

struct Restored {
  std::string prefix;                 // empty: the folder holds no checkpoint
  int64_t step = 0;                   // of its name
  std::vector<std::string> warnings;  // what was passed over, and why
};

class Saver {
 public:
  // Adds the nodes that save and restore the model's variables made so far.
  Saver(Model& model, std::string folder, int keep);

  // Restores the newest checkpoint that can be read. An error when there are some and none can be read.
  Result<Restored> RestoreNewest(const Session& session);
  // Removes the folder's checkpoints, so that training can begin anew.
  Status Clear();
  // Writes <folder>/model.ckpt-<step>, unless the newest checkpoint is of this step; then removes all but the last
  // `keep`. Gives the prefix.
  Result<std::string> Save(const Session& session, int64_t step);

  const std::string& folder() const { return folder_; }

 private:
  Status Restore(const Session& session, const std::string& prefix) const;
  Result<CheckpointState> Candidates() const;
  Status FlushCheckpoint(const std::string& name) const;
  void RemoveCheckpoint(const std::string& name) const;
  std::string PathOf(const std::string& name) const;

  std::string folder_;
  size_t keep_;
  std::string prefix_feed_;
  std::string save_target_;
  std::string restore_target_;
  CheckpointState state_;
};

// The number at the end of "model.ckpt-120"; -1 when there is none.
int64_t StepOfCheckpoint(std::string_view name);

}  // namespace tenon::train

#endif  // TENON_TRAIN_SAVER_H_
