// SPDX-License-Identifier: Apache-2.0
// SaverNodes: the part of a graph that writes variables into a checkpoint and reads them back.
//
// Each task of a cluster that holds variables writes those itself, into a shard of its own, and reads no others; so no
// variable crosses the network and all disks work at once. The shards are written as checkpoints of their own in a
// temporary folder; then one node makes one checkpoint of them by renaming (MergeV2Checkpoints), so that there is a
// checkpoint of that name with all shards or none. Variables of one task, or of no named task, are written at once
// under the checkpoint's name. All of it is one step.
//
// Restoring, too, is one step on all tasks or on none: no variable is assigned before every task has read all of its
// own, so that what a failure leaves running somewhere changes no variable afterwards.
//
// A table that stands in several variables, each with rows in their order (Model::SetPart), is one tensor in a
// checkpoint, of slices as TensorFlow has them, so that it is restored into other shards. Shards that hold rows by
// turns are tensors of their own, as all were once, and are restored into as many alone, which is found out before a
// variable is assigned.
//
// Rule: the tasks and the client see the same files by the same paths.
#ifndef TENON_TRAIN_SAVER_NODES_H_
#define TENON_TRAIN_SAVER_NODES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/train/base.h"
#include "tenon/train/model.h"

namespace tenon::train {

// A variable of the model, and what it is called in checkpoints; "" is its own name.
struct SavedVariable {
  std::string variable;
  std::string name;
};

// A value that is kept in checkpoints beside the variables: what it is computed of may fail, so that it may be missing
// there.
struct SavedValue {
  std::string name;  // in checkpoints
  Output value;
};

// "/job:ps/task:1" of a device's name; "" when it names no task.
std::string TaskOfDevice(std::string_view device);

class SaverNodes {
 public:
  // variables: of those that the model has so far; none: all. An unknown one is the graph's failure. step_variable: the
  // one whose value Restore gives, an int64 scalar; it may be missing. beside: none where the variables are of several
  // tasks.
  SaverNodes(Model& model, const std::vector<SavedVariable>& variables, const std::string& step_variable,
             const std::vector<SavedValue>& beside = {});

  size_t shards() const { return shards_; }
  // temporary: a folder beside the checkpoint that nobody else uses; it is gone afterwards.
  Status Save(const Session& session, const std::string& prefix, const std::string& temporary) const;
  // The same with the values beside the variables, which these feeds are for.
  Status SaveWithBeside(const Session& session, const std::string& prefix, std::vector<host::Feed> feeds) const;
  bool has_beside() const { return !beside_target_.empty(); }
  // Gives what the checkpoint has for the step variable. When it cannot be read, the variables stay as they were.
  Result<std::optional<int64_t>> Restore(const Session& session, const std::string& prefix) const;

 private:
  struct Saved {
    const Variable* variable;
    std::string name;
    std::string slice = {};  // of the tensor of that name, as SaveV2 says it; "": all
    std::string alone = {};  // where it is a slice: what checkpoints called it that held each shard by itself; "":
                             // there were none
    const Variable* part = nullptr;  // whose part it is; nullptr: of none
    bool by_turns() const { return part != nullptr && part->part.rows == 0; }
  };
  using Shard = std::vector<Saved>;
  std::vector<Saved> Choose(Model& model, const std::vector<SavedVariable>& variables) const;
  void AddBeside(Graph& graph, const Shard& shard, const std::vector<SavedValue>& beside);
  void AddShard(Graph& graph, const Shard& shard, int32_t number);
  void AddMerge(Graph& graph, const std::string& task);
  // What reads and assigns them; gives its target, and what the step variable is read as. alone: of checkpoints that
  // hold each shard by itself.
  struct Restoring {
    std::string target;
    Output step;
  };
  Restoring AddRestore(Graph& graph, const std::vector<std::pair<std::string, Shard>>& shards, bool alone,
                       const std::string& step_variable) const;
  Result<std::optional<int64_t>> RestoreBy(const Session& session, const std::string& prefix,
                                           const Restoring& restoring) const;
  // With what would help, where it is about a table's shards.
  Status Explained(const Status& why) const;

  size_t shards_ = 0;
  Output prefix_, parts_prefix_, parts_;  // fed; the last two with more than one shard
  std::vector<Operation> saves_;
  std::string save_target_, beside_target_;
  Restoring restore_, restore_alone_;  // no target of the second: no checkpoint held its parts alone
  std::vector<Saved> parts_of_tables_;
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_SAVER_NODES_H_
