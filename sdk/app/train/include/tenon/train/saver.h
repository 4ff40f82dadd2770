// SPDX-License-Identifier: Apache-2.0
// Saver: a model's variables in checkpoints, written and read by nodes of the graph (saver_nodes.h), in a folder of any
// file system.
//
// Invariants, for processes that may die at any instruction (this one, and on a cluster any task):
//   - a checkpoint is named in the folder's `checkpoint` file only when its index and all its shards are whole and on
//     the disk;
//   - the files of a checkpoint that is no longer named are removed after the file that no longer names it is on the
//     disk;
//   - a checkpoint that is named is never written over;
//   - an empty `checkpoint` file names none; only where there is no such file are checkpoints looked for by their
//     names.
// Restoring takes the newest that can be read: each tensor's checksum is verified by the op that reads it, and the step
// of its name by the step that it holds. One that is damaged, or holds another step, is passed over, said aloud, and no
// longer named, so that the step that it claims can be saved again. What an attempt that failed has left is removed
// before the next one, and when restoring. One saver at a time saves into a folder: it holds the folder's lock
// (folder_lock.h) from its first save, or from Claim, to its end. Who restores only, beside it, leaves the folder as it
// is.
//
// Saved between steps, as the Trainer does it, a checkpoint is one step's boundary on all tasks. Saved while other
// threads or workers update the variables, it holds whole variables, but perhaps of different steps (and then
// step_variable must be "").
#ifndef TENON_TRAIN_SAVER_H_
#define TENON_TRAIN_SAVER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/best_checkpoints.h"
#include "tenon/train/checkpoint_files.h"
#include "tenon/train/checkpoint_state.h"
#include "tenon/train/folder_lock.h"
#include "tenon/train/model.h"
#include "tenon/train/saver_nodes.h"

namespace tenon::train {

struct SaverOptions {
  int keep = 5;                  // the last so many
  double keep_every_hours = 0;   // besides those, for ever, one in so many hours; 0: none
  int keep_best = 0;             // besides those, the so many with the best metric of Save; named in `checkpoint_best`
  bool higher_is_better = false; // else lower
  std::vector<SavedVariable> variables;       // none: all
  std::string step_variable = "global_step";  // whose value in a checkpoint must be the checkpoint's number, if it is
                                              // there; "": none
  std::vector<SavedValue> beside;             // kept where they can be: a checkpoint is written without them where
                                              // computing them is UNIMPLEMENTED
  std::function<std::vector<host::Feed>()> beside_feeds;          // what they need; empty: nothing
  std::function<void(const std::string& why)> without_beside;     // told then
  std::function<double()> clock;              // seconds since 1970; empty: the system's
};

struct Restored {
  std::string prefix;                 // empty: the folder holds no checkpoint
  int64_t step = 0;                   // of its name
  std::vector<std::string> warnings;  // what was passed over, and why
};

class Saver {
 public:
  // Adds the nodes that save and restore the model's variables made so far.
  Saver(Model& model, std::string folder, SaverOptions options);
  Saver(Model& model, std::string folder, int keep);

  // The folder is this saver's from now on, made where it is not there. FAILED_PRECONDITION says who has it.
  Status Claim();
  // Restores the newest checkpoint that can be read. An error when there are some and none can be read.
  Result<Restored> RestoreNewest(const Session& session);
  // Restores these variables from a checkpoint of any folder: a warm start, perhaps of a part of another model.
  Status RestoreFrom(const Session& session, const std::string& prefix) const;
  // Removes the folder's checkpoints, so that training can begin anew.
  Status Clear();
  // Writes <folder>/model.ckpt-<step>, unless the newest checkpoint is of this step; then removes what need not be
  // kept. Gives the prefix. metric: for keep_best; one that is no number counts as none.
  Result<std::string> Save(const Session& session, int64_t step, std::optional<double> metric = {});

  const std::string& folder() const { return folder_; }
  // Of a checkpoint of this model: one for each task that holds variables.
  size_t shards() const { return nodes_.shards(); }

 private:
  Result<CheckpointState> Candidates() const;
  // Does something to the folder, if it is nobody else's.
  Status IfFree(const std::function<Status()>& change);
  Status RestoreOne(const Session& session, const std::string& prefix) const;
  Status WriteFiles(const Session& session, const std::string& name);
  Status WriteVariables(const Session& session, const std::string& path) const;
  std::vector<std::string> Trim(CheckpointState& state);
  Status AddToBest(const std::string& name, double metric, std::vector<std::string>& dropped);
  std::string PathOf(const std::string& name) const;

  const std::string folder_;
  SaverOptions options_;
  SaverNodes nodes_;
  CheckpointState state_;
  BestCheckpoints best_;
  std::optional<FolderLock> lock_;
  bool clean_ = false;  // no leftovers
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_SAVER_H_
