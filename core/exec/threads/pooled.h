// SPDX-License-Identifier: Apache-2.0
// Pooled: what is made once and does not change, with the instances of it that wait for their next step.
#ifndef TENON_CORE_EXEC_THREADS_POOLED_H_
#define TENON_CORE_EXEC_THREADS_POOLED_H_

#include <memory>
#include <mutex>
#include <vector>

#include "core/base/status.h"

namespace tenon::exec {

// Any thread. An instance serves one step at a time. Instance::Create(const Made*) makes one, which `Made` outlives.
template <typename Made, typename Instance>
class Pooled {
 public:
  explicit Pooled(std::unique_ptr<const Made> made) : made_(std::move(made)) {}
  ~Pooled() {
    static_assert(sizeof(Instance) > 0);
    for (Instance* instance : idle_) delete instance;
  }
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;

  const Made& operator*() const { return *made_; }
  const Made* operator->() const { return made_.get(); }

  // To be given back.
  Result<Instance*> Acquire() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Instance* const instance = idle_.back();
        idle_.pop_back();
        return instance;
      }
      idle_.reserve(++count_);  // giving back allocates nothing
    }
    TENON_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Instance::Create(made_.get()));
    return instance.release();
  }
  // Those that wait are let go. Whether there were any.
  bool DropIdle() {
    std::vector<Instance*> dropped;
    {
      std::lock_guard lock(mutex_);
      dropped.swap(idle_);
      idle_.reserve(count_);  // giving back allocates nothing
    }
    for (Instance* instance : dropped) delete instance;
    return !dropped.empty();
  }
  void GiveBack(Instance* instance) {
    // What did not come back may still write there: that memory is lost rather than given to another.
    if (instance->abandoned()) return;
    std::lock_guard lock(mutex_);
    idle_.push_back(instance);
  }

 private:
  const std::unique_ptr<const Made> made_;
  std::mutex mutex_;
  std::vector<Instance*> idle_;
  size_t count_ = 0;  // of those that were made
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_THREADS_POOLED_H_
