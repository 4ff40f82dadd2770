// SPDX-License-Identifier: Apache-2.0
// DeviceConstants: a plan's constants in the memories of its devices. Any thread. Small ones that are equal are one
// there: a graph has the same rate for each of its updates, and a device sees that by the address.
#ifndef TENON_CORE_EXEC_PLAN_DEVICE_CONSTANTS_H_
#define TENON_CORE_EXEC_PLAN_DEVICE_CONSTANTS_H_

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace tenon::exec {

struct Environment;

class DeviceConstants {
 public:
  // env: outlives it.
  explicit DeviceConstants(const Environment* env) : env_(env) {}

  // A host value in the memory of a device; copied once. The wait for the copy ends with the allowance of this thread.
  Result<Tensor> Get(const Tensor& value, int32_t memory);

 private:
  struct Copy {
    Tensor host, device;
  };
  struct Small {
    DType dtype;
    int32_t memory;
    std::vector<int64_t> dims;
    std::string bytes;
    bool operator<(const Small& other) const {
      return std::tie(dtype, memory, dims, bytes) < std::tie(other.dtype, other.memory, other.dims, other.bytes);
    }
  };
  Result<Tensor> CopyOf(const Tensor& value, int32_t memory);

  const Environment* const env_;
  std::mutex mutex_;
  std::map<Small, Tensor> small_;
  std::map<std::pair<const Buffer*, int32_t>, Copy> copies_;
};

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_PLAN_DEVICE_CONSTANTS_H_
