// SPDX-License-Identifier: Apache-2.0
// Buffers: reference counted memory, and the pools that they come from and go back to.
//
// Invariants: a buffer's memory is 64-byte aligned. The last release gives the memory back to its pool, from any
// thread. A pool lives until its creator and its last buffer let go of it, so a fetched tensor may outlive its session.
// Every byte that a pool hands out is charged to the pool's limit, with the buffer's record, and to the budget that it
// shares with other pools, if any. What pools keep to use again is in no limit's way: together with what is in use it
// stays within it.
#ifndef TENON_CORE_TENSOR_BUFFER_H_
#define TENON_CORE_TENSOR_BUFFER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/tensor/dtype.h"
#include "tenon/tensor.h"

namespace tenon {
class BufferPool;
// More than any machine has; so little that sums of many stay far from 2^64.
inline constexpr uint64_t kMaxBytes = uint64_t{1} << 46;
}  // namespace tenon

// The C ABI's opaque buffer.
struct tenon_buffer {
  std::atomic<int64_t> references{1};
  void* data = nullptr;
  uint64_t capacity = 0;
  tenon::BufferPool* pool = nullptr;
  tenon_buffer* parent = nullptr;  // whose memory it is, when this is another view of it
  int32_t size_class = -1;
  int32_t rank = 0;
  int64_t* dims = nullptr;  // of the tensor that it was made for: inline_dims or many_dims
  std::array<int64_t, 6> inline_dims{};
  std::vector<int64_t> many_dims;
  tenon_buffer* next = nullptr;  // in the pool's free list
  void (*drop)(void* owner) = nullptr;  // of memory that is another's
  void* owner = nullptr;
  uint64_t variants = 0;  // cells at its beginning that hold references to variants
  void (*release_cells)(tenon_buffer* buffer) = nullptr;  // of those cells
};

namespace tenon {

using Buffer = tenon_buffer;

inline void Retain(Buffer* buffer) { buffer->references.fetch_add(1, std::memory_order_relaxed); }
void Release(Buffer* buffer);
// Whose memory it is: the buffer itself, or the one that it is another view of. nullptr: of none.
inline Buffer* HomeOf(Buffer* buffer) {
  while (buffer != nullptr && buffer->parent != nullptr) buffer = buffer->parent;
  return buffer;
}
inline int64_t References(const Buffer* buffer) { return buffer->references.load(std::memory_order_acquire); }
// Whether the caller's reference is the only one.
inline bool IsUnique(const Buffer* buffer) { return References(buffer) == 1; }

// Where a pool's memory comes from.
struct Allocator {
  // 64-byte aligned. Null when there is no memory; out_why may then say why.
  void* (*allocate)(void* context, uint64_t bytes, Status* out_why);
  void (*free)(void* context, void* data, uint64_t bytes);
  void* context;
};
Allocator HostAllocator();

// What is in use, its peak, and its limit: of one pool, or of several that share it. Any thread.
class MemoryBudget {
 public:
  // limit: 0: none. owner: whose limit it is, for errors; empty: nobody's in particular.
  explicit MemoryBudget(uint64_t limit, std::string owner = "") : limit_(limit), owner_(std::move(owner)) {}
  // RESOURCE_EXHAUSTED names the limit, and charges nothing.
  Status Charge(uint64_t bytes);
  // Where nothing can be refused any more: the next one who asks is.
  void ChargeAnyway(uint64_t bytes) { in_use_.fetch_add(bytes, std::memory_order_relaxed); }
  void Refund(uint64_t bytes) { in_use_.fetch_sub(bytes, std::memory_order_relaxed); }

  // What lies ready in pools to be used again.
  void AddUnused(uint64_t bytes) { unused_.fetch_add(bytes, std::memory_order_relaxed); }
  void RemoveUnused(uint64_t bytes) { unused_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Whether so much more may be.
  bool HasRoomFor(uint64_t bytes) const {
    return limit_ == 0 || in_use() + unused_.load(std::memory_order_relaxed) + bytes <= limit_;
  }
  // The pools that share it.
  void Join(BufferPool* pool);
  void Leave(BufferPool* pool) noexcept;
  // None of them keeps anything unused.
  void Trim();

  uint64_t in_use() const { return in_use_.load(std::memory_order_relaxed); }
  uint64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }

 private:
  const uint64_t limit_;
  const std::string owner_;
  std::atomic<uint64_t> in_use_{0}, peak_{0}, unused_{0};
  std::mutex mutex_;
  std::vector<BufferPool*> pools_;
};

class BufferPool {
 public:
  // limit: bytes in use at most; 0: none. shared: charged too; nullptr: none. host: this process can touch the memory.
  static BufferPool* Create(Allocator allocator, uint64_t limit, std::shared_ptr<MemoryBudget> shared = nullptr,
                            bool host = true);
  // The creator lets go; cached memory is freed now, the rest with its buffers.
  void Close();

  // A buffer with one reference and room for `bytes`; its dims are set. RESOURCE_EXHAUSTED names the limit.
  Result<Buffer*> Allocate(uint64_t bytes, tenon_shape shape);
  // Another reference to `parent`'s memory with other dims.
  Buffer* Alias(Buffer* parent, tenon_shape shape);

  // A buffer of memory that is another's: drop(owner) is called when its last reference goes. Charged to no limit.
  Buffer* Wrap(void* data, uint64_t bytes, tenon_shape shape, void (*drop)(void* owner), void* owner);

  // The first `bytes` of a buffer's memory are its value's from now on (base/guard.h).
  void Fit(const Buffer* buffer, uint64_t bytes);

  // Memory outside buffers (arenas), charged to the same limit.
  Result<void*> AllocateRaw(uint64_t bytes);
  void FreeRaw(void* data, uint64_t bytes);

  // Memory that others allocate (allowance.h), charged to the same limit by one who keeps the pool.
  Status ChargeOutside(uint64_t bytes) { return Charge(bytes); }
  void RefundOutside(uint64_t bytes) { Refund(bytes); }
  void Ref() { references_.fetch_add(1, std::memory_order_relaxed); }
  void Unref();

  uint64_t bytes_in_use() const { return own_.in_use(); }
  uint64_t peak_bytes() const { return own_.peak(); }
  uint64_t limit() const { return own_.limit(); }
  // Whether there is a limit, its own or one that it shares.
  bool is_limited() const { return limit() != 0 || (shared_ != nullptr && shared_->limit() != 0); }
  // Calls to the allocator beneath, for tests of steady steps.
  uint64_t allocations() const { return allocations_.load(std::memory_order_relaxed); }

 private:
  friend void Release(Buffer* buffer);
  friend class MemoryBudget;
  BufferPool(Allocator allocator, uint64_t limit, std::shared_ptr<MemoryBudget> shared, bool host)
      : allocator_(allocator), own_(limit), shared_(std::move(shared)), host_(host) {}
  ~BufferPool() {
    if (shared_ != nullptr) shared_->Leave(this);
  }
  void Lock() {
    while (lock_.test_and_set(std::memory_order_acquire)) {
    }
  }
  void Unlock() { lock_.clear(std::memory_order_release); }
  Status Charge(uint64_t bytes);
  void ChargeAnyway(uint64_t bytes);
  void Refund(uint64_t bytes);
  // Whether so much more may lie unused; and where what is in use leaves no room for what does, that goes.
  bool MayCache(uint64_t bytes) const {
    return own_.HasRoomFor(bytes) && (shared_ == nullptr || shared_->HasRoomFor(bytes));
  }
  void MakeRoom();
  void AddUnused(uint64_t bytes);
  void RemoveUnused(uint64_t bytes);
  // What failed, after `bytes` were charged.
  Status Refuse(uint64_t bytes, Status why, std::string_view what);
  void Recycle(Buffer* buffer);
  void Trim();

  Allocator allocator_;
  MemoryBudget own_;
  const std::shared_ptr<MemoryBudget> shared_;
  std::atomic<uint64_t> allocations_{0};
  std::atomic<int64_t> references_{1};
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::atomic<bool> closed_{false};
  const bool host_;
  uint64_t cached_bytes_ = 0;
  static constexpr int kClasses = 160;
  std::array<Buffer*, kClasses> free_{};
  Buffer* free_aliases_ = nullptr;
};

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_BUFFER_H_
