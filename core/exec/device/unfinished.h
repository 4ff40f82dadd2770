// SPDX-License-Identifier: Apache-2.0
// Unfinished: a session's steps that have returned while devices may still work for them (QueueWork::Complete).
//
// Invariants. An instance's work is here between two of its steps, while ends of steps before are not known to have
// been reached. Who drives the instance takes it out first, so that it is looked at by one thread at a time. A failure
// that is found here is told once: to the step that begins next, or at the session's end to the log.
#ifndef TENON_CORE_EXEC_DEVICE_UNFINISHED_H_
#define TENON_CORE_EXEC_DEVICE_UNFINISHED_H_

#include <mutex>
#include <vector>

#include "core/base/status.h"

namespace tenon::exec {

// What an instance's steps before may still be doing.
class UnfinishedWork {
 public:
  // Whether a step may not have ended.
  virtual bool goes_on() const = 0;
  // Whether a device did not come back, and may use what it had at any time.
  virtual bool abandoned() const = 0;
  // Forgets the steps that have ended; what failed of them, which has then ended.
  virtual Status LookAhead() = 0;
  // The same, and waits for them: as long as its patience lasts.
  virtual Status AwaitAhead() = 0;

 protected:
  ~UnfinishedWork() = default;
};

// Any thread.
class Unfinished {
 public:
  Unfinished() = default;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  // Whether there was memory for it.
  bool Add(UnfinishedWork* work) noexcept;
  // Whether it was here.
  bool Remove(UnfinishedWork* work);
  // The first failure that nobody was told of, of those that can be seen without waiting.
  Status TakeFailure();
  // A step has failed, and says so: what failed before it, and made it fail, needs no other to tell of it.
  void Told(const Status& failure);
  // A failure as the step that did not have it tells of it.
  static Status OfStepBefore(Status failure);
  // TakeFailure() will answer so.
  void Tell(Status failure);
  // Waits for all; what failed is logged. false: some did not end, and may use what they had at any time.
  bool End();

 private:
  void LookAhead();

  std::mutex mutex_;
  std::vector<UnfinishedWork*> works_;
  Status failure_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_UNFINISHED_H_
