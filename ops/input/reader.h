// SPDX-License-Identifier: Apache-2.0
// Reader: records of the files whose names a queue gives, one file after the other, for all steps that ask.
//
// Nobody waits in a thread that others need. Calls stand in line, and one of them reads: when it needs a file it takes
// a name from its queue, which comes back to it, and it reads on a thread that may wait. A call that stands in line
// ends when its step is cancelled; one that reads, at the next piece of its file.
//
// Invariants. A call is in line, or active, or has ended; who takes it out of the line, under the mutex, ends it or
// makes it active, without the mutex. The file that is open, and what is known of it, belong to the active call.
#ifndef TENON_OPS_INPUT_READER_H_
#define TENON_OPS_INPUT_READER_H_

#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "format.h"
#include "tenon/extras/kernel/shared_queue.h"

namespace tenon::ops::input {

class Reader : public std::enable_shared_from_this<Reader> {
 public:
  explicit Reader(ReaderOptions options);
  ~Reader();

  const ReaderOptions& options() const { return options_; }
  // INVALID_ARGUMENT when another node that shares the reader describes it otherwise.
  void CheckSame(const ReaderOptions& other) const;

  // Each ends with done, at once or later, unless it throws.
  void ReadOne(sdk::RunContext c, sdk::Done done, sdk::SharedQueue& queue);
  // Up to `count` records, of one file.
  void ReadUpTo(sdk::RunContext c, sdk::Done done, sdk::SharedQueue& queue, int64_t count);
  void Reset(sdk::RunContext c, sdk::Done done);
  // As TensorFlow's message ReaderBaseState, of readers whose files are one record each; UNIMPLEMENTED, as in
  // TensorFlow, for the others.
  void Serialize(sdk::RunContext c, sdk::Done done);
  void Restore(sdk::RunContext c, sdk::Done done, std::string_view state);

  int64_t records_produced() const;
  int64_t units_completed() const;

 private:
  enum class Kind { kReadOne, kReadUpTo, kReset, kSerialize, kRestore };
  struct Call;
  // What ReaderBaseState holds.
  struct State {
    int64_t started = 0, finished = 0, produced = 0;
    std::string work;
  };

  void Submit(std::unique_ptr<Call> call);
  static void OnCancelled(void* call, tenon_status* why);
  // The rest is the active call's.
  void Schedule();
  void Go(sdk::Outcome scheduled) noexcept;
  bool Perform();
  bool ReadSome();
  bool TakeRecord();
  void FinishFile();
  void GiveRecords();
  void OnName(sdk::Outcome failure, std::span<const tenon_tensor_view> components) noexcept;
  void ForgetName();
  void OpenFile();
  void ResetState();
  std::string Serialized() const;
  void RestoreFrom(std::string_view text);
  void End(tenon_status* failure) noexcept;
  sdk::Outcome Start(Call& call) noexcept;
  std::string Describe() const { return sdk::Concat(options_.op, " '", options_.name, "'"); }

  const ReaderOptions options_;
  const std::unique_ptr<Format> format_;
  mutable std::mutex mutex_;  // guards line_, active_ where it changes, and the numbers of state_
  std::list<std::unique_ptr<Call>> line_;
  std::unique_ptr<Call> active_;
  State state_;
  bool open_ = false;  // a file is begun
};

}  // namespace tenon::ops::input

#endif  // TENON_OPS_INPUT_READER_H_
