// SPDX-License-Identifier: Apache-2.0
#include "core/exec/exchange/short_float.h"

namespace tenon::exec {
namespace {

template <typename From, typename To, typename Convert>
Result<Message> ConvertAll(const Message& message, DType dtype, BufferPool* pool, Convert&& convert) {
  const tenon_tensor_view& view = message.view();
  const uint64_t count = view.byte_size / sizeof(From), bytes = count * sizeof(To);
  TENON_ASSIGN_OR_RETURN(Buffer * buffer, pool->Allocate(bytes, {view.dl.shape, view.dl.ndim, 0}));
  const auto* from = static_cast<const From*>(DataOf(view));
  auto* to = static_cast<To*>(buffer->data);
  for (uint64_t i = 0; i < count; ++i) to[i] = convert(from[i]);
  return Message(MakeView(dtype, {buffer->dims, buffer->rank, 0}, buffer->data, bytes, buffer));
}

}  // namespace

Result<Message> Shorten(Message message, TransferPrecision precision, BufferPool* pool) {
  if (precision == TransferPrecision::kFull || message.dead() || message.view().dtype != TENON_DT_FLOAT) return message;
  return ConvertAll<float, uint16_t>(message, TENON_DT_BFLOAT16, pool,
                                     [precision](float value) { return Shorten(value, precision); });
}

Result<Message> Lengthen(Message message, BufferPool* pool) {
  if (message.dead() || message.view().dtype != TENON_DT_BFLOAT16) return message;
  return ConvertAll<uint16_t, float>(message, TENON_DT_FLOAT, pool, [](uint16_t value) { return Lengthen(value); });
}

}  // namespace tenon::exec
