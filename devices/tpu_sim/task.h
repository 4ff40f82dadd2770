// SPDX-License-Identifier: Apache-2.0
// Task: a closure that lies in the work item itself, so that submitting allocates nothing.
//
// A closure that takes an Outcome is called in any case, with how the work ended so far; one that takes nothing is
// called only while all is well. Either may give an Outcome, and may throw what Outcome of it can be made
// (Queue::Call).
#ifndef TENON_DEVICES_TPU_SIM_TASK_H_
#define TENON_DEVICES_TPU_SIM_TASK_H_

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "outcome.h"

namespace tenon::tpu_sim {

class Task {
 public:
  static constexpr size_t kBytes = 192;

  Task() = default;
  ~Task() { Clear(); }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  template <class Function>
  void Set(Function&& function) {
    using Held = std::decay_t<Function>;
    static_assert(sizeof(Held) <= kBytes, "capture less: a pointer to the prepared object lives long enough");
    Clear();
    new (bytes_) Held(std::forward<Function>(function));
    call_ = [](void* held, const Outcome& before) { return CallHeld(*static_cast<Held*>(held), before); };
    always_ = std::is_invocable_v<Held&, const Outcome&>;
    if constexpr (!std::is_trivially_destructible_v<Held>) {
      destroy_ = [](void* held) { static_cast<Held*>(held)->~Held(); };
    }
  }
  void Clear() {
    if (destroy_ != nullptr) destroy_(bytes_);
    destroy_ = nullptr;
    call_ = nullptr;
    always_ = false;
  }
  bool always() const { return always_; }
  explicit operator bool() const { return call_ != nullptr; }
  Outcome operator()(const Outcome& before) { return call_(bytes_, before); }

 private:
  template <class Held>
  static Outcome CallHeld(Held& held, const Outcome& before) {
    const auto call = [&] {
      if constexpr (std::is_invocable_v<Held&, const Outcome&>) {
        return held(before);
      } else {
        return held();
      }
    };
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      return {};
    } else {
      return call();
    }
  }

  alignas(std::max_align_t) unsigned char bytes_[kBytes];
  Outcome (*call_)(void* held, const Outcome& before) = nullptr;
  void (*destroy_)(void* held) = nullptr;
  bool always_ = false;
};

}  // namespace tenon::tpu_sim

#endif  // TENON_DEVICES_TPU_SIM_TASK_H_
