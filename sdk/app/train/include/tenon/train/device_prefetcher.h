// SPDX-License-Identifier: Apache-2.0
// DevicePrefetcher: the next batches come into a device's memory while the step before them computes there.
//
//   TENON_TRY_ASSIGN(auto batches, DevicePrefetcher::Create(session, input.next, "/device:GPU:0"));
//   // what the iterator gives is fed
//   TENON_TRY_ASSIGN(Callable step, session.Prepare({input.next[0], input.next[1]}, {loss}, {update},
//       batches->devices()));
//   for (;;) {
//     TENON_TRY_ASSIGN(std::vector<Tensor> batch, batches->Next());  // OUT_OF_RANGE behind the last
//     ... step.Run({batch[0], batch[1]}) ...
//   }
//
// A thread takes the values, each time in a step of its own, and has their copy made before it hands them over; what is
// fed from the device's memory is not copied again. Where the graph knows the shapes of all of them (batches without a
// short last one) they are brought into pinned memory first, on that thread: the device's queue, which computes too,
// copies them from there as fast as its link does. From other memory the host would copy them piece by piece while that
// queue waits. It is one copy by the host either way, but none that goes beside the link's: the thread takes longer by
// the shorter of the two, which batches that lie ready hide. Nothing is lost or changes its order: what it had ready is
// given before a failure is, and a failure (the end of a pass too) once, to who asked. Nothing is taken behind a
// failure until somebody asks again.
#ifndef TENON_TRAIN_DEVICE_PREFETCHER_H_
#define TENON_TRAIN_DEVICE_PREFETCHER_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tenon/train/base.h"

namespace tenon::train {

class DevicePrefetcher {
 public:
  // values: what is taken in each step, as DatasetIterator::next; device: as TensorFlow names it. depth: how many
  // steps' values lie ready there, 1 or more; there is memory of the device for one more, which is on its way, and
  // pinned memory for one. The session must outlive this. NOT_FOUND: there is no such device; UNIMPLEMENTED: the
  // session's steps run in other processes.
  static Result<std::unique_ptr<DevicePrefetcher>> Create(const Session& session, const std::vector<Output>& values,
                                                          const std::string& device, size_t depth = 2);
  // Ends what is under way; steps that were given values may go on.
  ~DevicePrefetcher();
  DevicePrefetcher(const DevicePrefetcher&) = delete;
  DevicePrefetcher& operator=(const DevicePrefetcher&) = delete;

  // The values of the next step, in their order; waits for them, timeout at most (0: as long as it takes;
  // DEADLINE_EXCEEDED, and the next caller gets them). Begins to take more. From any thread; what several ask for at
  // once goes to them in no order.
  Result<std::vector<Tensor>> Next(std::chrono::nanoseconds timeout = std::chrono::nanoseconds(0));
  // Waits so long at most; whether Next() would give an answer at once.
  bool Wait(std::chrono::nanoseconds timeout);
  // Where each value lies, for Session::Prepare: the device, or "" (host memory) for texts and what else no device
  // holds.
  const std::vector<std::string>& devices() const { return devices_; }

 private:
  DevicePrefetcher(const Session& session, host::Callable take, std::vector<Tensor> pinned,
                   host::Cancellation cancellation, std::vector<std::string> devices, size_t depth);
  Status Ask();
  void Work();
  Result<std::vector<Tensor>> Take(const host::RunOptions& options) const;

  tenon_session* const session_;  // which its handles may move away from
  const host::Callable take_;
  const std::vector<Tensor> pinned_;  // where take_ brings the values; none: it brings them to the device itself
  host::Cancellation cancellation_;
  const std::vector<std::string> devices_;
  const size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Result<std::vector<Tensor>>> ready_;
  size_t asked_ = 0;       // callers who wait
  bool pauses_ = true;     // nobody has asked, or nobody again since a failure
  bool stops_ = false;
  std::thread thread_;     // begins with the first question
};

}  // namespace tenon::train

#endif  // TENON_TRAIN_DEVICE_PREFETCHER_H_
