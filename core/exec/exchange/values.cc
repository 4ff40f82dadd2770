// SPDX-License-Identifier: Apache-2.0
#include "core/exec/exchange/values.h"

namespace tenon::exec {

Status SendValue(Rendezvous* rendezvous, const RendezvousKey& key, const tenon_tensor_view& value, TransferPrecision precision) {
  TENON_ASSIGN_OR_RETURN(Message message, Message::Of(value, rendezvous->pool()));
  TENON_ASSIGN_OR_RETURN(message, Shorten(std::move(message), precision, rendezvous->pool()));
  return rendezvous->Send(key, std::move(message));
}

Result<Message> Unpacked(Message message, DType dtype, BufferPool* pool) {
  // A short value may also be what was sent.
  return dtype == TENON_DT_FLOAT ? Lengthen(std::move(message), pool) : std::move(message);
}

}  // namespace tenon::exec
