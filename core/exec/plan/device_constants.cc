// SPDX-License-Identifier: Apache-2.0
#include "core/exec/plan/device_constants.h"

#include "core/exec/device/environment.h"
#include "core/exec/device/transfer.h"
#include "core/tensor/allowance.h"

namespace tenon::exec {

constexpr uint64_t kMostSmall = 64;  // bytes

Result<Tensor> DeviceConstants::Get(const Tensor& value, int32_t memory) {
  std::lock_guard lock(mutex_);
  if (value.byte_size() <= kMostSmall && IsPlain(value.dtype())) {
    Small small{value.dtype(), memory, value.shape().dims(),
                std::string(static_cast<const char*>(value.data()), value.byte_size())};
    if (const auto found = small_.find(small); found != small_.end()) return found->second;
    TENON_ASSIGN_OR_RETURN(Tensor copy, CopyOf(value, memory));
    return small_.emplace(std::move(small), std::move(copy)).first->second;
  }
  Copy& copy = copies_[{value.buffer(), memory}];
  if (copy.device.has_value()) return copy.device;
  TENON_ASSIGN_OR_RETURN(Tensor fresh, CopyOf(value, memory));
  copy = {value, std::move(fresh)};
  return copy.device;
}

Result<Tensor> DeviceConstants::CopyOf(const Tensor& value, int32_t memory) {
  const SessionDevice& device = env_->devices[memory];
  TENON_ASSIGN_OR_RETURN(Tensor fresh, Tensor::Allocate(device.pool, value.dtype(), value.shape()));
  const tenon_copy_args args = CopyArgs(*env_, value.data(), 0, fresh.data(), memory, value.byte_size());
  bool abandoned = false;
  const Allowance* const allowance = Allowance::Current();
  Cancellation* const for_whom = allowance == nullptr ? nullptr : allowance->cancellation();
  if (Status status = CopyNow(*env_, device, args, "constant", for_whom, &abandoned); !status.ok()) {
    if (abandoned) {  // the copy may still be made
      Retain(value.buffer());
      Retain(fresh.buffer());
    }
    return std::move(status).Annotate("a constant");
  }
  return fresh;
}

}  // namespace tenon::exec
