// SPDX-License-Identifier: Apache-2.0
// InstancePool: what steps run in, kept between them. An instance serves one step at a time.
#ifndef TENON_CORE_EXEC_INSTANCE_POOL_H_
#define TENON_CORE_EXEC_INSTANCE_POOL_H_

#include <mutex>
#include <vector>

namespace tenon::exec {

// Any thread. Owns the instances that are idle; T must be complete where the pool's owner is
// made and destroyed.
template <typename T>
class InstancePool {
 public:
  InstancePool() = default;
  InstancePool(const InstancePool&) = delete;
  InstancePool& operator=(const InstancePool&) = delete;
  ~InstancePool() {
    static_assert(sizeof(T) > 0);
    for (T* instance : idle_) delete instance;
  }

  // nullptr: none is idle; make one, and give it back later. There is room for it then: giving back allocates nothing.
  T* Take() {
    std::lock_guard lock(mutex_);
    if (idle_.empty()) {
      idle_.reserve(++made_);
      return nullptr;
    }
    T* instance = idle_.back();
    idle_.pop_back();
    return instance;
  }
  void GiveBack(T* instance) {
    std::lock_guard lock(mutex_);
    idle_.push_back(instance);
  }

 private:
  std::mutex mutex_;
  std::vector<T*> idle_;
  size_t made_ = 0;  // for which there is room
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_INSTANCE_POOL_H_
