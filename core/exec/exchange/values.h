// SPDX-License-Identifier: Apache-2.0
// A value on its way from one part (partition) of a step to another.
#ifndef TENON_CORE_EXEC_EXCHANGE_VALUES_H_
#define TENON_CORE_EXEC_EXCHANGE_VALUES_H_

#include "core/exec/exchange/rendezvous.h"
#include "core/exec/exchange/short_float.h"

namespace tenon::exec {

// Sends what the view shows, in that precision. What is sent is the view's memory where nobody will change it, else a copy.
Status SendValue(Rendezvous* rendezvous, const RendezvousKey& key, const tenon_tensor_view& value, TransferPrecision precision);
// What came, as it was before it was sent; `dtype` is what the receive is for. A dead value is its own.
Result<Message> Unpacked(Message message, DType dtype, BufferPool* pool);

}  // namespace tenon::exec

#endif  // TENON_CORE_EXEC_EXCHANGE_VALUES_H_
