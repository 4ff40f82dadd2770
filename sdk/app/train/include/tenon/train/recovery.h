// SPDX-License-Identifier: Apache-2.0
// Recovery: a training on a cluster that goes on by itself after a loss: of a task, or of another client that it needs.
#ifndef TENON_TRAIN_RECOVERY_H_
#define TENON_TRAIN_RECOVERY_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <string>

#include "tenon/train/trainer.h"

namespace tenon::train {

// What runs again, from the last checkpoint, as long as it ends with a loss: for `patience` since it last went on.
struct Recovery {
  std::chrono::nanoseconds patience{0};
  std::string words;                            // the patience as the user said it; "": in seconds
  std::function<Result<TrainingReport>()> run;  // each time in a session of its own
  std::function<int64_t()> reached;             // grows as it goes on
  std::function<void(const std::string&)> say;  // what is lost, once; empty: nobody hears it
  const std::atomic<bool>* stop = nullptr;      // becomes true: no other try
};
Result<TrainingReport> RunThroughLosses(const Recovery& recovery);

// Whether somebody is gone whom a new session may find again.
bool IsLoss(const Status& status);

// Trains in sessions of the runtime with these options, one after the other, for as long as TrainingOptions::recover
// says since it last went on: begins each with Trainer::Begin, so from the newest checkpoint. Who has no owner
// (SessionOptions::owner) is given one that the folder of the checkpoints names.
Result<TrainingReport> TrainThroughLosses(Trainer& trainer, const host::Runtime& runtime, host::SessionOptions session);

}  // namespace tenon::train

#endif  // TENON_TRAIN_RECOVERY_H_
