// SPDX-License-Identifier: Apache-2.0
// Allowance: the time and the memory that a call from outside may take before a step runs: for reading a graph,
// inlining, gradients, placement, planning, folding. A few bytes of a file can ask for any amount of either.
//
// An allowance holds on the thread that makes it, from then until it goes; an inner one covers an outer one. Code that
// works on graphs asks in its long loops (CheckAllowance), and charges what it keeps (MemoryCharge). Through the
// thread, because half of these calls go through plugins (gradients, decompositions, shape functions), which come back
// with no argument of ours. Without an allowance nothing is bounded here.
#ifndef TENON_CORE_TENSOR_ALLOWANCE_H_
#define TENON_CORE_TENSOR_ALLOWANCE_H_

#include <cstdint>
#include <utility>

#include "core/base/cancellation.h"
#include "core/base/status.h"
#include "core/tensor/buffer.h"

namespace tenon {

class Allowance {
 public:
  // cancellation: ends the work, at its deadline too; nullptr: nothing does. pool: to whose limit memory is charged;
  // nullptr: the outer allowance's, if there is one.
  Allowance(Cancellation* cancellation, BufferPool* pool);
  ~Allowance() { current_ = outer_; }
  Allowance(const Allowance&) = delete;
  Allowance& operator=(const Allowance&) = delete;

  // Of this thread; nullptr: none.
  static const Allowance* Current() { return current_; }
  Cancellation* cancellation() const { return cancellation_; }
  BufferPool* pool() const { return pool_; }

 private:
  static thread_local constinit Allowance* current_;
  Allowance* const outer_;
  Cancellation* const cancellation_;
  BufferPool* const pool_;
};

// The reason, once the work of this thread is to end.
inline Status CheckAllowance() {
  const Allowance* allowance = Allowance::Current();
  if (allowance == nullptr || allowance->cancellation() == nullptr || !allowance->cancellation()->cancelled())
      [[likely]]
    return Status::Ok();
  return allowance->cancellation()->reason();
}

// Where tensors come from that a graph or a plan keeps: the allowance's pool; without one the process's (tensor.h).
BufferPool* KeptPool();

// Bytes outside buffers that are charged to the limit of the pool whose allowance is in force at the first of them,
// until it goes.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MemoryCharge();

  // RESOURCE_EXHAUSTED names the limit, and charges nothing.
  Status Add(uint64_t bytes);
  // No more than was added.
  void Remove(uint64_t bytes);

 private:
  BufferPool* pool_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_ALLOWANCE_H_
