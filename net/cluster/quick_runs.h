// SPDX-License-Identifier: Apache-2.0
// QuickRuns: whether a part's program ran quickly so often that it will do so again.
#ifndef TENON_NET_CLUSTER_QUICK_RUNS_H_
#define TENON_NET_CLUSTER_QUICK_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <mutex>

namespace tenon::cluster {

// Any thread.
class QuickRuns {
 public:
  static constexpr uint32_t kEnough = 4;  // in a row

  // program: by its serial; 0: not known. Another begins anew.
  void Took(uint64_t program, bool quickly) {
    const std::lock_guard lock(mutex_);
    if (program != program_) runs_ = 0;
    program_ = program;
    runs_ = quickly ? std::min(runs_ + 1, kEnough) : 0;
  }
  // Whether it may be run where the last of what it needs comes.
  bool IsQuick(uint64_t program) const {
    const std::lock_guard lock(mutex_);
    return program != 0 && program == program_ && runs_ == kEnough;
  }

 private:
  mutable std::mutex mutex_;
  uint64_t program_ = 0;
  uint32_t runs_ = 0;
};

}  // namespace tenon::cluster

#endif  // TENON_NET_CLUSTER_QUICK_RUNS_H_
