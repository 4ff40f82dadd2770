// SPDX-License-Identifier: Apache-2.0
// Placement: which device each node of a graph runs on.
//
// What must hold is found first: kernels, device names (partial ones too), nodes that stay together (classes "loc:@x",
// references and handles with the node that made them, the parts of a loop variable). What is left free is decided by
// simulating the step with a cost model (schedule.h, choose.h), or by a placer that the caller brings.
//
// Knows nothing of kernels, plugins or executors: Request says all in plain values and functions. Pure: the same
// request gives the same answer. Functions of a Request are called on the caller's thread, before Place returns.
#ifndef TENON_CORE_PLACE_PLACE_H_
#define TENON_CORE_PLACE_PLACE_H_

#include "core/place/placement.h"
#include "core/place/request.h"

namespace tenon::place {

// INVALID_ARGUMENT: contradicting or malformed device names (both nodes named). NOT_FOUND: a name that no device has.
// UNIMPLEMENTED: a node without a kernel anywhere. RESOURCE_EXHAUSTED: it fits on no devices' memory.
Result<Placement> Place(const Request& request);

}  // namespace tenon::place

#endif  // TENON_CORE_PLACE_PLACE_H_
