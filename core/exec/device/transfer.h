// SPDX-License-Identifier: Apache-2.0
// Values on their way between the memories of a session, as both executors move them.
#ifndef TENON_CORE_EXEC_DEVICE_TRANSFER_H_
#define TENON_CORE_EXEC_DEVICE_TRANSFER_H_

#include "core/exec/device/queue_work.h"
#include "core/exec/device/resources.h"

namespace tenon::exec {

struct Environment;

// Memories are numbered: 0 the host's, else the number of a device with queues.

// A view of fresh memory for a value like that one. It holds the reference.
Result<tenon_tensor_view> NewCopyTarget(const Environment& env, const tenon_tensor_view& value, int32_t memory);
// What a device is told of a copy.
tenon_copy_args CopyArgs(const Environment& env, const void* source, int32_t from, void* target, int32_t to,
                         uint64_t bytes);

// Reads a variable through a reference, of a device after the writes of other steps that are under way. dtype: that the
// reader was made for; another graph may have another type for a variable of that name, INVALID_ARGUMENT. device: whose
// memory it lies in, with the queue that reads; nullptr: the host's. The view holds a reference.
Status Dereference(Resource* resource, DType dtype, const Device* device, QueueWork* work, QueueId queue,
                   const Cancellation* cancellation, tenon_tensor_view* out_view);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_TRANSFER_H_
