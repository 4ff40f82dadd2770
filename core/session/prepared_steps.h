// SPDX-License-Identifier: Apache-2.0
// PreparedSteps: the steps that a session was asked for by names, for when it is asked for them again: the last kMost,
// of large graphs fewer: so many that their plans have kMostNodes together, but kLeast in any case.
#ifndef TENON_CORE_SESSION_PREPARED_STEPS_H_
#define TENON_CORE_SESSION_PREPARED_STEPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tenon::session {

class Callable;
struct PartialRunPlan;

// Any thread.
class PreparedSteps {
 public:
  static constexpr size_t kMost = 256, kLeast = 16, kMostNodes = 1 << 17;

  struct Step {
    std::shared_ptr<Callable> callable;
    std::shared_ptr<const PartialRunPlan> partial;  // of a step in several calls, with its callable
  };
  // Without a callable: it is not kept.
  Step Find(const std::string& key);
  // The number that Keep wants of a step whose making begins now.
  uint64_t begin() const;
  // The step to use: this one, or another that was kept under the key meanwhile. One that was begun before the last
  // Drop is not kept.
  Step Keep(const std::string& key, Step step, uint64_t begun);
  // Lets go of all, those too that are being made. Whether any was kept.
  bool Drop();

 private:
  struct Kept {
    Step step;
    uint64_t used;  // of uses_
    size_t nodes;
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Kept> kept_;
  uint64_t uses_ = 0, drops_ = 0;
  size_t nodes_ = 0;
};

}  // namespace tenon::session

#endif  // TENON_CORE_SESSION_PREPARED_STEPS_H_
