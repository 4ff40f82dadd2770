// SPDX-License-Identifier: Apache-2.0
// QueueId: a queue of a session; none: the host, where it stands for who works.
#ifndef TENON_CORE_EXEC_DEVICE_QUEUE_ID_H_
#define TENON_CORE_EXEC_DEVICE_QUEUE_ID_H_

#include "core/base/id.h"

namespace tenon::exec {

using QueueId = Id<struct QueueKind>;

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_DEVICE_QUEUE_ID_H_
