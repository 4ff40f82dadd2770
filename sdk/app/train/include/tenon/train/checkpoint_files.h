// SPDX-License-Identifier: Apache-2.0
// The files of checkpoints in a folder, on whatever file system: model.ckpt-STEP.index and
// model.ckpt-STEP.data-0000K-of-0000N.
//
// While a checkpoint of several shards is written, the shards stand in the folder model.ckpt-STEP_temp_UNIQUE; a file
// whose name ends with .tmp is being written; the index gets its name last. What a kill leaves of these is a leftover,
// which belongs to no checkpoint.
#ifndef TENON_TRAIN_CHECKPOINT_FILES_H_
#define TENON_TRAIN_CHECKPOINT_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

// "model.ckpt-120".
std::string CheckpointName(int64_t step);
// The number at its end; -1 when there is none.
int64_t StepOfCheckpoint(std::string_view name);

// The names that have an index in the folder, by step; none when there is no folder.
std::vector<std::string> FindCheckpoints(const std::string& folder);
// The index and all shards are there, and on the disk. NOT_FOUND says which is missing.
Status FlushCheckpoint(const std::string& prefix, size_t shards);
// What cannot be removed stays.
void RemoveCheckpoint(const std::string& prefix);
// A folder for the shards of a checkpoint, that no other attempt to write it has had.
std::string TemporaryFolderFor(const std::string& prefix);
// Removes leftovers; whoever calls it has the folder's lock (folder_lock.h). Not while a checkpoint is written there. A
// task that was taken for dead and goes on with an old attempt then finds its shards gone, and fails.
void RemoveLeftovers(const std::string& folder);

}  // namespace tenon::train

#endif  // TENON_TRAIN_CHECKPOINT_FILES_H_
