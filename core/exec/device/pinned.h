// SPDX-License-Identifier: Apache-2.0
// Pinned tensors: memory of the caller's that the host reads and writes by address, and that a device's copies reach
// without a stop on the way.
//
// It is of the device's first host-visible kind of memory; of a device that computes in host-visible memory, or has no
// such kind, it is ordinary memory, aligned as buffers are. It goes with its last reference, from any thread, also
// after the session that it was charged to; the device's plugin is kept until then. Work of a device that names it
// holds a reference (QueueWork::Copy). Once the device is closed nothing is given back: the driver has done so.
//
// Views of it that steps are fed have no buffer, as of any memory that the caller may write again: whoever keeps such a
// value copies it.
#ifndef TENON_CORE_EXEC_DEVICE_PINNED_H_
#define TENON_CORE_EXEC_DEVICE_PINNED_H_

#include <atomic>

#include "core/exec/device/device.h"
#include "core/tensor/tensor.h"

namespace tenon::exec {

// Uninitialised; charged to the pool's limit. device: nullptr: ordinary memory. INVALID_ARGUMENT: elements that are not
// plain, a shape that is not one; RESOURCE_EXHAUSTED: the limit, or the driver, has no more.
Result<Tensor> NewPinned(const Device* device, BufferPool* pool, DType dtype, Shape shape);

// How many pinned tensors there are. Most processes have none.
extern std::atomic<int64_t> pinned_count;

// The pinned tensor's buffer that all these bytes lie in, with a reference for the caller; nullptr: there is none.
Buffer* RetainPinnedAround(const void* data, uint64_t bytes);
// Whose memory a driver is told that such a buffer's is: the device that it was made for, where it is one of the same
// driver as `device`; nullptr: ordinary memory.
tenon_device* OwnerOfPinned(const Buffer& buffer, const Device& device);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_PINNED_H_
