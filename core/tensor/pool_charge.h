// SPDX-License-Identifier: Apache-2.0
// PoolCharge: bytes outside buffers that count against a pool's limit as long as it lives. It keeps the pool.
#ifndef TENON_CORE_TENSOR_POOL_CHARGE_H_
#define TENON_CORE_TENSOR_POOL_CHARGE_H_

#include <cstdint>

#include "core/base/status.h"
#include "core/tensor/buffer.h"

namespace tenon {

class PoolCharge {
 public:
  PoolCharge() = default;
  PoolCharge(const PoolCharge&) = delete;
  PoolCharge& operator=(const PoolCharge&) = delete;
  ~PoolCharge() {
    if (pool_ == nullptr) return;
    pool_->RefundOutside(bytes_);
    pool_->Unref();
  }

  // Once. RESOURCE_EXHAUSTED names the limit, and charges nothing.
  Status Take(BufferPool* pool, uint64_t bytes) {
    TENON_RETURN_IF_ERROR(pool->ChargeOutside(bytes));
    pool->Ref();
    pool_ = pool;
    bytes_ = bytes;
    return Status::Ok();
  }

 private:
  BufferPool* pool_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace tenon

#endif  // TENON_CORE_TENSOR_POOL_CHARGE_H_
