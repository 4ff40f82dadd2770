// SPDX-License-Identifier: Apache-2.0
// CUPTI, NVIDIA's profiler of a process, found by name in libcupti when a GPU is first watched: when kernels, copies
// and fills ran.
//
// What is submitted between Push and Pop carries a number (an external correlation id of CUPTI); the records of it are
// given to the owner whose number it is. Work without a number is another library's, or of a GPU that nobody watches:
// it is left out. Times are those of the host's monotonic clock, which CUPTI is given in place of its own, or which its
// own is brought to when tracing begins.
//
// Only one may trace in a process. While another does (Nsight, another framework), and where the driver refuses, Start
// says so and pieces are measured by events. Between the last Stop and the next Start nothing is recorded and the place
// is left to others. Threads: any. The log says what was found, each time that it is something else.
#ifndef TENON_DEVICES_CUDA_CUPTI_LIBRARY_H_
#define TENON_DEVICES_CUDA_CUPTI_LIBRARY_H_

#include <cupti.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "named_library.h"
#include "options.h"
#include "tracer.h"

namespace tenon::gpu {

#define TENON_CUPTI_FUNCTIONS(X)                                                                                       \
  X(cuptiGetVersion)                                                                                                   \
  X(cuptiGetResultString) X(cuptiGetTimestamp) X(cuptiSubscribe) X(cuptiUnsubscribe) X(cuptiActivityRegisterCallbacks) \
      X(cuptiActivityEnable) X(cuptiActivityDisable) X(cuptiActivityFlushAll) X(cuptiActivityGetNextRecord)            \
          X(cuptiActivityPushExternalCorrelationId) X(cuptiActivityPopExternalCorrelationId)

class Cupti {
 public:
  // The one of the place that the option `libraries` names. Lives as long as the process.
  static Cupti& At(const Options& options);

  // Owners are told of their own work alone.
  uint64_t AddOwner();
  void RemoveOwner(uint64_t owner);

  // Counted. false: nothing is traced, and Stop is not to be called.
  bool Start();
  void Stop();
  // piece: at most 40 bits. false: there is nothing to Pop.
  bool Push(uint64_t owner, uint64_t piece) const;
  void Pop() const;
  // Appends what has ended by now and was not given before.
  void Collect(uint64_t owner, std::vector<Tracer::Record>* out_records);

 private:
  struct Done {
    uint32_t call;  // of the driver, that asked for it
    Tracer::Record record;
  };
  // What a buffer of CUPTI holds.
  struct Batch {
    std::vector<std::pair<uint32_t, uint64_t>> calls;  // and the number that each was made under
    std::vector<Done> done;
  };
  struct Functions {
    TENON_CUPTI_FUNCTIONS(TENON_GPU_MEMBER)
    decltype(&::cuptiActivityRegisterTimestampCallback) register_clock;  // NULL: this release has none
  };

  explicit Cupti(const Options& options);
  // "" or why nothing can be traced.
  std::string Begin();
  void End();
  CUptiResult TakeClock();
  void Say(const std::string& text);

  static void CUPTIAPI GiveBuffer(uint8_t** out_buffer, size_t* out_bytes, size_t* out_most_records);
  static void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t bytes, size_t used);
  void Take(uint8_t* buffer, size_t used);
  static void Read(const CUpti_Activity& record, uint64_t ahead_ns, Batch* out_batch);

  Functions f_ = {};
  std::string problem_;

  std::mutex start_mutex_;  // guards these; CUPTI is called with it, and calls nothing of ours that takes it
  int users_ = 0;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::vector<CUpti_ActivityKind> enabled_;
  std::string said_;

  std::mutex mutex_;  // guards these; CUPTI is never called with it
  uint64_t owners_ = 0;
  uint64_t ahead_ns_ = 0;  // of CUPTI's clock, what the host's is ahead
  std::map<uint32_t, uint64_t> calls_;
  std::vector<Done> done_;
  std::map<uint64_t, std::vector<Tracer::Record>> told_;  // by owner
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_CUDA_CUPTI_LIBRARY_H_
