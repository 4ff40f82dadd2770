// SPDX-License-Identifier: Apache-2.0
// The ends of what crosses from the graph of one device to that of another. The engine runs them itself, by trait: a
// send never waits, a receive waits for the value of its name. The host forms say that the value lies in the host's
// memory.
#include "tenon/sdk/op/op.h"

namespace tenon::ops {
using namespace sdk;

#define TENON_SEND_ATTRS                                                                           \
  "; tensor_name: string; send_device: string; send_device_incarnation: int; recv_device: string; " \
  "client_terminated: bool = false"

TENON_OP(kSend) = DefineOp({
    .name = "_Send",
    .inputs = "tensor: T",
    .attrs = "T: type" TENON_SEND_ATTRS,
    .roles = "send",
    .doc = "Sends a tensor to the receive of the same name on recv_device.",
    .traits = TENON_OP_SEND | TENON_OP_STATEFUL,
});

TENON_OP(kHostSend) = DefineOp({
    .name = "_HostSend",
    .inputs = "tensor: T",
    .attrs = "T: type" TENON_SEND_ATTRS,
    .doc = "Sends a tensor in the host's memory to the receive of the same name on recv_device.",
    .traits = TENON_OP_SEND | TENON_OP_STATEFUL,
});

TENON_OP(kRecv) = DefineOp({
    .name = "_Recv",
    .outputs = "tensor: tensor_type",
    .attrs = "tensor_type: type" TENON_SEND_ATTRS,
    .roles = "recv",
    .doc = "Waits for the tensor that send_device sends under the same name.",
    .traits = TENON_OP_RECV | TENON_OP_STATEFUL,
});

TENON_OP(kHostRecv) = DefineOp({
    .name = "_HostRecv",
    .outputs = "tensor: tensor_type",
    .attrs = "tensor_type: type" TENON_SEND_ATTRS,
    .doc = "Waits, on the host, for the tensor that send_device sends under the same name.",
    .traits = TENON_OP_RECV | TENON_OP_STATEFUL,
});

#undef TENON_SEND_ATTRS

}  // namespace tenon::ops
