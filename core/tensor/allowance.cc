// SPDX-License-Identifier: Apache-2.0
#include "core/tensor/allowance.h"

#include <algorithm>

#include "core/tensor/tensor.h"

namespace tenon {

thread_local constinit Allowance* Allowance::current_ = nullptr;

Allowance::Allowance(Cancellation* cancellation, BufferPool* pool)
    : outer_(current_),
      cancellation_(cancellation),
      pool_(pool != nullptr || outer_ == nullptr ? pool : outer_->pool_) {
  current_ = this;
}

BufferPool* KeptPool() {
  const Allowance* allowance = Allowance::Current();
  return allowance == nullptr || allowance->pool() == nullptr ? GlobalPool() : allowance->pool();
}

Status MemoryCharge::Add(uint64_t bytes) {
  const Allowance* allowance = Allowance::Current();
  if (pool_ == nullptr && (allowance == nullptr || allowance->pool() == nullptr)) return Status::Ok();
  BufferPool* const pool = pool_ == nullptr ? allowance->pool() : pool_;
  TENON_RETURN_IF_ERROR(pool->ChargeOutside(bytes));
  if (pool_ == nullptr) pool->Ref();
  pool_ = pool;
  bytes_ += bytes;
  return Status::Ok();
}

void MemoryCharge::Remove(uint64_t bytes) {
  bytes = std::min(bytes, bytes_);
  if (bytes == 0) return;
  bytes_ -= bytes;
  pool_->RefundOutside(bytes);
}

MemoryCharge::~MemoryCharge() {
  if (pool_ == nullptr) return;
  pool_->RefundOutside(bytes_);
  pool_->Unref();
}

}  // namespace tenon
