// SPDX-License-Identifier: Apache-2.0
// A value on its way from one part (partition) of a step to another.
#ifndef TENON_CORE_EXEC_EXCHANGE_VALUES_H_
#define TENON_CORE_EXEC_EXCHANGE_VALUES_H_

#include <string>

#include "core/exec/exchange/rendezvous.h"
#include "core/exec/exchange/short_float.h"

namespace tenon::graph {
struct Node;
}

namespace tenon::exec {

// What a trace says of a send or receive: "'x:0' from /job:a/task:1/device:CPU:0 to /job:b/task:0/device:CPU:0, 4096
// bytes". value: nullptr: it did not come.
std::string DescribeTransfer(const graph::Node& node, const tenon_tensor_view* value);

// Sends what the view shows, in that precision. What is sent is the view's memory where nobody will change it, else a
// copy.
Status SendValue(Rendezvous* rendezvous, const RendezvousKey& key, const tenon_tensor_view& value,
                 TransferPrecision precision);
// What came, as it was before it was sent; `dtype` is what the receive is for, and what it must be of:
// INVALID_ARGUMENT. A dead value is its own.
Result<Message> Unpacked(Message message, DType dtype, BufferPool* pool);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_EXCHANGE_VALUES_H_
