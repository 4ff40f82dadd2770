// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/buffer.h"

#include <bit>
#include <cstdlib>
#include <new>
#include <tuple>

#include "core/base/checked.h"
#include "core/base/guard.h"
#include "core/tensor/shape.h"

namespace tenon {
namespace {

constexpr uint64_t kAlignment = 64;

// What a buffer takes beside its memory: the record, and what malloc adds to both and loses to the alignment. Charged
// with the memory: a graph can ask for millions of the smallest.
constexpr uint64_t kRecordBytes = sizeof(Buffer) + 88;
constexpr int32_t kInlineDims = std::tuple_size_v<decltype(Buffer::inline_dims)>;
uint64_t RecordBytes(int32_t rank) {
  return kRecordBytes + (rank <= kInlineDims ? 0 : static_cast<uint64_t>(rank) * sizeof(int64_t));
}

void* HostAllocate(void*, uint64_t bytes, Status*) {
  return std::aligned_alloc(kAlignment, RoundUp(bytes, kAlignment));
}
void HostFree(void*, void* data, uint64_t) { std::free(data); }

// Classes are 64 * {4, 5, 6, 7} * 2^k / 4: at most a quarter is wasted.
int SizeClass(uint64_t bytes, uint64_t* class_bytes) {
  const uint64_t units = bytes <= 256 ? (bytes + 63) / 64 : 0;
  if (units != 0 || bytes == 0) {
    const uint64_t used = units == 0 ? 1 : units;
    *class_bytes = used * 64;
    return static_cast<int>(used - 1);
  }
  const int log = 63 - std::countl_zero(bytes - 1);
  const uint64_t step = uint64_t{1} << (log - 2);
  const uint64_t steps = (bytes + step - 1) / step;  // 5 .. 8
  *class_bytes = steps * step;
  return 4 + (log - 8) * 4 + static_cast<int>(steps - 5);
}

void SetDims(Buffer* buffer, tenon_shape shape) {
  buffer->rank = shape.rank;
  if (shape.rank <= kInlineDims) {
    buffer->dims = buffer->inline_dims.data();
  } else {
    buffer->many_dims.resize(shape.rank);
    buffer->dims = buffer->many_dims.data();
  }
  for (int32_t i = 0; i < shape.rank; ++i) buffer->dims[i] = shape.dims[i];
}

}  // namespace

Allocator HostAllocator() { return {&HostAllocate, &HostFree, nullptr}; }

void Release(Buffer* buffer) {
  if (buffer->references.fetch_sub(1, std::memory_order_acq_rel) == 1) buffer->pool->Recycle(buffer);
}

Status MemoryBudget::Charge(uint64_t bytes) {
  const uint64_t now = in_use_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (limit_ != 0 && now > limit_) {
    Refund(bytes);
    return ResourceExhausted(StrCat(bytes, " more bytes would pass the memory limit of ", owner_,
                                    owner_.empty() ? "" : ", ", limit_, " bytes; ", now - bytes,
                                    " are in use; raise the limit or make the step smaller"));
  }
  uint64_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return Status::Ok();
}

void MemoryBudget::Join(BufferPool* pool) {
  const std::lock_guard lock(mutex_);
  pools_.push_back(pool);
}

void MemoryBudget::Leave(BufferPool* pool) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(pools_, pool);
}

void MemoryBudget::Trim() {
  const std::lock_guard lock(mutex_);
  for (BufferPool* pool : pools_) pool->Trim();
}

BufferPool* BufferPool::Create(Allocator allocator, uint64_t limit, std::shared_ptr<MemoryBudget> shared, bool host) {
  MemoryBudget* const budget = shared.get();
  auto* const pool = new BufferPool(allocator, limit, std::move(shared), host);
  if (budget == nullptr) return pool;
  try {
    budget->Join(pool);
  } catch (...) {
    delete pool;
    throw;
  }
  return pool;
}

void BufferPool::Close() {
  closed_.store(true);
  Trim();
  Unref();
}

void BufferPool::Unref() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    Trim();
    delete this;
  }
}

Status BufferPool::Charge(uint64_t bytes) {
  if (bytes > kMaxBytes) return ResourceExhausted(StrCat("a tensor of ", bytes, " bytes is more than any machine has"));
  TENON_RETURN_IF_ERROR(own_.Charge(bytes));
  if (shared_ == nullptr) return Status::Ok();
  Status shared = shared_->Charge(bytes);
  if (!shared.ok()) own_.Refund(bytes);
  return shared;
}

void BufferPool::Refund(uint64_t bytes) {
  own_.Refund(bytes);
  if (shared_ != nullptr) shared_->Refund(bytes);
}

void BufferPool::ChargeAnyway(uint64_t bytes) {
  own_.ChargeAnyway(bytes);
  if (shared_ != nullptr) shared_->ChargeAnyway(bytes);
}

void BufferPool::AddUnused(uint64_t bytes) {
  own_.AddUnused(bytes);
  if (shared_ != nullptr) shared_->AddUnused(bytes);
}

void BufferPool::RemoveUnused(uint64_t bytes) {
  own_.RemoveUnused(bytes);
  if (shared_ != nullptr) shared_->RemoveUnused(bytes);
}

void BufferPool::MakeRoom() {
  if (!own_.HasRoomFor(0)) Trim();
  if (shared_ != nullptr && !shared_->HasRoomFor(0)) shared_->Trim();
}

Status BufferPool::Refuse(uint64_t bytes, Status why, std::string_view what) {
  Refund(bytes);
  if (!why.ok()) return std::move(why).Annotate(StrCat(bytes, " bytes for ", what));
  return ResourceExhausted(StrCat("the system has no ", bytes, " bytes for ", what));
}

Result<Buffer*> BufferPool::Allocate(uint64_t bytes, tenon_shape shape) {
  uint64_t class_bytes = 0;
  if (bytes > kMaxBytes) return Charge(bytes);
  const int size_class = SizeClass(bytes, &class_bytes);
  TENON_RETURN_IF_ERROR(Charge(class_bytes + RecordBytes(shape.rank)));
  Lock();
  Buffer* buffer = free_[size_class];
  if (buffer != nullptr) {
    free_[size_class] = buffer->next;
    cached_bytes_ -= class_bytes;
    RemoveUnused(class_bytes + kRecordBytes);
    // Where many small pieces were released in any order, the next one is likely far away.
    if (buffer->next != nullptr) {
      __builtin_prefetch(buffer->next, 1);
      __builtin_prefetch(&buffer->next->next, 1);
    }
  }
  Unlock();
  if (buffer == nullptr) {
    MakeRoom();
    Status why;
    void* data = allocator_.allocate(allocator_.context, class_bytes, &why);
    if (data == nullptr) {
      Trim();
      data = allocator_.allocate(allocator_.context, class_bytes, &why);
    }
    buffer = data == nullptr ? nullptr : new (std::nothrow) Buffer;
    if (buffer == nullptr) {
      if (data != nullptr) allocator_.free(allocator_.context, data, class_bytes);
      Refund(RecordBytes(shape.rank));
      return Refuse(class_bytes, std::move(why), StrCat("a tensor of shape ", Shape(shape).ToString()));
    }
    allocations_.fetch_add(1, std::memory_order_relaxed);
    buffer->data = data;
    buffer->capacity = class_bytes;
    buffer->size_class = size_class;
    buffer->pool = this;
  }
  Fit(buffer, bytes);
  buffer->references.store(1, std::memory_order_relaxed);
  references_.fetch_add(1, std::memory_order_relaxed);
  SetDims(buffer, shape);
  return buffer;
}

void BufferPool::Fit(const Buffer* buffer, uint64_t bytes) {
  if (kGuards && host_) PermitOnly(buffer->data, bytes, buffer->capacity);
}

Buffer* BufferPool::Alias(Buffer* parent, tenon_shape shape) {
  Lock();
  Buffer* buffer = free_aliases_;
  if (buffer != nullptr) free_aliases_ = buffer->next;
  Unlock();
  if (buffer != nullptr) RemoveUnused(kRecordBytes);
  if (buffer == nullptr) buffer = new Buffer;
  ChargeAnyway(RecordBytes(shape.rank));
  parent = HomeOf(parent);
  Retain(parent);
  buffer->parent = parent;
  buffer->data = parent->data;
  buffer->capacity = 0;
  buffer->pool = this;
  buffer->references.store(1, std::memory_order_relaxed);
  references_.fetch_add(1, std::memory_order_relaxed);
  SetDims(buffer, shape);
  return buffer;
}

Buffer* BufferPool::Wrap(void* data, uint64_t bytes, tenon_shape shape, void (*drop)(void* owner), void* owner) {
  auto* buffer = new Buffer;
  buffer->data = data;
  buffer->capacity = bytes;
  buffer->pool = this;
  buffer->drop = drop;
  buffer->owner = owner;
  references_.fetch_add(1, std::memory_order_relaxed);
  SetDims(buffer, shape);
  return buffer;
}

void BufferPool::Recycle(Buffer* buffer) {
  if (buffer->variants != 0) buffer->release_cells(buffer);
  if (buffer->drop != nullptr) {
    buffer->drop(buffer->owner);
    delete buffer;
    return Unref();
  }
  if (buffer->parent != nullptr) {
    Buffer* parent = std::exchange(buffer->parent, nullptr);
    Refund(RecordBytes(buffer->rank));
    if (buffer->rank > kInlineDims) buffer->many_dims = {};
    if (MayCache(kRecordBytes)) {
      AddUnused(kRecordBytes);
      Lock();
      buffer->next = free_aliases_;
      free_aliases_ = buffer;
      Unlock();
    } else {
      delete buffer;
    }
    Release(parent);
    return Unref();
  }
  Refund(buffer->capacity + RecordBytes(buffer->rank));
  if (buffer->rank > kInlineDims) buffer->many_dims = {};
  Fit(buffer, 0);
  // Small pieces are always kept; of large ones at most what is in use again, so that a peak does not stay for ever.
  Lock();
  const bool keep = !closed_.load(std::memory_order_relaxed) &&
                    (buffer->capacity <= 65536 || cached_bytes_ < (uint64_t{64} << 20) + peak_bytes()) &&
                    MayCache(buffer->capacity + kRecordBytes);
  if (keep) {
    buffer->next = free_[buffer->size_class];
    free_[buffer->size_class] = buffer;
    cached_bytes_ += buffer->capacity;
    AddUnused(buffer->capacity + kRecordBytes);
  }
  Unlock();
  if (!keep) {
    Fit(buffer, buffer->capacity);
    allocator_.free(allocator_.context, buffer->data, buffer->capacity);
    delete buffer;
  }
  Unref();
}

void BufferPool::Trim() {
  Lock();
  std::array<Buffer*, kClasses> lists = free_;
  Buffer* aliases = std::exchange(free_aliases_, nullptr);
  free_.fill(nullptr);
  cached_bytes_ = 0;
  Unlock();
  for (Buffer* list : lists) {
    while (list != nullptr) {
      Buffer* next = list->next;
      Fit(list, list->capacity);
      allocator_.free(allocator_.context, list->data, list->capacity);
      RemoveUnused(list->capacity + kRecordBytes);
      delete list;
      list = next;
    }
  }
  while (aliases != nullptr) {
    RemoveUnused(kRecordBytes);
    delete std::exchange(aliases, aliases->next);
  }
}

Result<void*> BufferPool::AllocateRaw(uint64_t bytes) {
  TENON_RETURN_IF_ERROR(Charge(bytes));
  MakeRoom();
  Status why;
  void* data = allocator_.allocate(allocator_.context, bytes, &why);
  if (data == nullptr) return Refuse(bytes, std::move(why), "the memory of a step");
  allocations_.fetch_add(1, std::memory_order_relaxed);
  return data;
}

void BufferPool::FreeRaw(void* data, uint64_t bytes) {
  if (data == nullptr) return;
  allocator_.free(allocator_.context, data, bytes);
  Refund(bytes);
}

}  // namespace tenon
