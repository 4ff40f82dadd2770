// SPDX-License-Identifier: Apache-2.0
// What packages may do with a queue of tensors that another package makes (ops/data_flow): take elements from it.
//
//   void RunAsync(RunContext c, Done done) const {
//     SharedQueue& queue = QueueIn(c, 1);                    // of the handle in input 1
//     TakeOne(queue, c, [=](Outcome failure, std::span<const tenon_tensor_view> components) { ...; done(nullptr); });
//   }
//
// The object that a handle stands for is a SharedQueue to everybody, whatever it is to the package that made it; its
// calls have no C++ types, since the two may come from different compilers. Any thread.
#ifndef TENON_SDK_KERNEL_SHARED_QUEUE_H_
#define TENON_SDK_KERNEL_SHARED_QUEUE_H_

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "tenon/sdk/kernel/kernel.h"
#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/outcome.h"

namespace tenon::sdk {

// Of all queues; another number when SharedQueue changes.
inline constexpr tenon_span kQueueType = TENON_SPAN("tenon.Queue/2");

class SharedQueue {
 public:
  SharedQueue() = default;
  virtual ~SharedQueue() = default;
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  // One element, or why there is none (taken). Views are the callee's for the call only: who keeps one retains its
  // buffer.
  using Taken = void (*)(void* argument, tenon_status* failure, const tenon_tensor_view* components, uint64_t count);
  // Takes the next element once there is one: calls taken() exactly once, now or later, on any thread. It fails with
  // CANCELLED when the step is, with OUT_OF_RANGE when the queue is closed and empty. A status returned means that
  // taken() will not be called. Until it is, the frame is not done.
  virtual tenon_status* TakeOne(tenon_frame* frame, Taken taken, void* argument) noexcept = 0;
  // dtypes of an element's components; they live as long as the queue.
  virtual const uint32_t* component_types(uint64_t* out_count) const noexcept = 0;
  // "FIFOQueue 'names'"; lives as long as the queue.
  virtual tenon_span description() const noexcept = 0;
};

inline SharedQueue& QueueIn(const RunContext& c, int32_t input) {
  return ObjectOf<SharedQueue>(c, c.resource(input), kQueueType);
}

inline std::span<const uint32_t> ComponentTypes(const SharedQueue& queue) {
  uint64_t count = 0;
  const uint32_t* types = queue.component_types(&count);
  return {types, static_cast<size_t>(count)};
}

// function(Outcome failure, std::span<const tenon_tensor_view> components), which must not throw. What it could not ask
// for is thrown.
template <class Function>
void TakeOne(SharedQueue& queue, const RunContext& c, Function function) {
  auto held = std::make_unique<Function>(std::move(function));
  Check(queue.TakeOne(
      c.frame(),
      [](void* argument, tenon_status* failure, const tenon_tensor_view* components, uint64_t count) noexcept {
        const std::unique_ptr<Function> function(static_cast<Function*>(argument));
        (*function)(TakeStatus(failure), std::span<const tenon_tensor_view>(components, static_cast<size_t>(count)));
      },
      held.get()));
  (void)held.release();
}

}  // namespace tenon::sdk
#endif  // TENON_SDK_KERNEL_SHARED_QUEUE_H_
