// SPDX-License-Identifier: Apache-2.0
#include "core/exec/exchange/values.h"

#include "core/graph/attr.h"
#include "core/graph/node.h"
#include "core/tensor/entry.h"

namespace tenon::exec {

std::string DescribeTransfer(const graph::Node& node, const tenon_tensor_view* value) {
  const auto text = [&](const char* attr) -> std::string_view {
    const graph::AttrValue* found = node.FindAttr(attr);
    return found != nullptr && found->kind() == TENON_ATTR_STRING ? std::string_view(found->s()) : std::string_view();
  };
  return StrCat("'", text("tensor_name"), "' from ", text("send_device"), " to ", text("recv_device"),
                value == nullptr ? "" : StrCat(", ", value->byte_size, " bytes"));
}

Status SendValue(Rendezvous* rendezvous, const RendezvousKey& key, const tenon_tensor_view& value,
                 TransferPrecision precision) {
  TENON_ASSIGN_OR_RETURN(Message message, Message::Of(value, rendezvous->pool()));
  TENON_ASSIGN_OR_RETURN(message, Shorten(std::move(message), precision, rendezvous->pool()));
  return rendezvous->Send(key, std::move(message));
}

Result<Message> Unpacked(Message message, DType dtype, BufferPool* pool) {
  // A short value may also be what was sent.
  if (dtype == TENON_DT_FLOAT) {
    TENON_ASSIGN_OR_RETURN(message, Lengthen(std::move(message), pool));
  }
  if (!message.dead()) TENON_RETURN_IF_ERROR(CheckEntry(message.view(), dtype).Annotate("what came"));
  return message;
}

}  // namespace tenon::exec
