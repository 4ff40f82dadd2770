// SPDX-License-Identifier: Apache-2.0
// The file `checkpoint_best` of a checkpoint folder: the checkpoints with the best metric, best first.
//
// One line each: the metric, the name, and `kept` when it stays after better ones have come (because it was kept for
// another reason too). The file is replaced as a whole.
#ifndef TENON_TRAIN_BEST_CHECKPOINTS_H_
#define TENON_TRAIN_BEST_CHECKPOINTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

struct BestCheckpoint {
  double metric = 0;
  std::string name;
  bool kept = false;
};

struct BestCheckpoints {
  std::vector<BestCheckpoint> list;

  const BestCheckpoint* Find(std::string_view name) const;
  // True when it was there.
  bool Forget(std::string_view name);
  // Keeps the best `most`; what falls out comes back.
  std::vector<BestCheckpoint> Add(BestCheckpoint checkpoint, size_t most, bool higher_is_better);

  std::string Format() const;
  static Result<BestCheckpoints> Parse(std::string_view text);
  // None when the folder has no such file.
  static Result<BestCheckpoints> Read(const std::string& folder);
  Status Write(const std::string& folder) const;
  static Status Remove(const std::string& folder);
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_BEST_CHECKPOINTS_H_
