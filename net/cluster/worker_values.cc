// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_values.h"

#include "net/cluster/variant_bytes.h"

namespace tenon::cluster {

// A value that is on its way here.
struct WorkerValues::Arrival {
  std::shared_ptr<WorkerStep> step;  // nullptr: it is over, and did not need the value
  exec::RendezvousKey key;
  Tensor value;          // none: dead
  std::optional<Shape> of_variants;  // what `value` has the bytes of
  uint64_t bytes = 0;
  size_t peer = 0;  // who sent it
  bool wish = false;  // it is no value, but asks for one that the part sends, or says that nobody will
  uint64_t message_bytes = 0;
};

// By the channel, which says nothing when there is no such part any more.
size_t WorkerValues::SenderOf(const WorkerPart* part, const DataKey& key) const {
  if (part == nullptr || key.key.channel < 0 || static_cast<size_t>(key.key.channel) >= part->from.size())
    return services_->metrics->PeerOf("");
  const int32_t to = part->to[key.key.channel];  // a wish comes from where the value goes to
  return part->peer_numbers[to >= 0 ? to : part->from[key.key.channel]];
}

Status WorkerValues::Place(tenon_peer* peer, tenon_span key_bytes, tenon_span head_bytes, uint64_t bytes,
                           tenon_bytes* out_memory, void** out_token) const {
  TENON_ASSIGN_OR_RETURN(const DataKey key, DecodeKey(key_bytes));
  TENON_ASSIGN_OR_RETURN(const DataHead head, DecodeHead(head_bytes));
  auto arrival = std::make_unique<Arrival>();
  TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, table_->Find(key.session));
  TENON_ASSIGN_OR_RETURN(SessionParts::Meeting meeting, session->Meet(key, peer));
  arrival->step = std::move(meeting.step);
  arrival->peer = SenderOf(meeting.part.get(), key);
  arrival->wish = arrival->step != nullptr && bytes == 0 && arrival->step->part->IsAskedFor(key.key.channel);
  if (arrival->step != nullptr && !arrival->wish && !arrival->step->part->Receives(key.key.channel))
    return InvalidArgument(StrCat("channel ", key.key.channel, " is none that part ", key.part, " receives"));
  arrival->key = key.key;
  arrival->bytes = bytes;
  arrival->message_bytes = key_bytes.size + head_bytes.size + bytes;
  *out_memory = {nullptr, 0};
  if (Status status = MakeRoom(*session->session, head, bytes, arrival.get()); !status.ok()) {
    // The sender's part may have ended, and whoever waits for the value would wait on.
    if (arrival->step != nullptr)
      arrival->step->cancellation.Cancel(
          Status(status).Annotate(StrCat("a value from task ", services_->metrics->NameOf(arrival->peer))));
    return status;
  }
  if (arrival->value.has_value()) *out_memory = {arrival->value.data(), bytes};
  *out_token = arrival.release();
  return Status::Ok();
}

Status WorkerValues::MakeRoom(const WorkerSession& session, const DataHead& head, uint64_t bytes, Arrival* arrival) {
  if (head.dtype == TENON_DT_INVALID)
    return bytes == 0 ? Status::Ok() : InvalidArgument("a dead value comes with bytes");
  const bool variants = head.dtype == TENON_DT_VARIANT;
  if (arrival->step != nullptr && !arrival->wish &&
      variants != arrival->step->part->of_variants.contains(arrival->key.channel))
    return InvalidArgument(StrCat("a value of ", TypeName(head.dtype), " comes where ",
                                  variants ? "no variants are" : "a variant is", " waited for"));
  TENON_ASSIGN_OR_RETURN(const int64_t elements, ByteSize(head.dtype, head.shape));
  const auto cells = static_cast<uint64_t>(elements);
  if (bytes < cells || (head.dtype != TENON_DT_STRING && !variants && bytes != cells))
    return InvalidArgument(StrCat("a value of ", cells, " bytes comes with ", bytes));
  if (variants) arrival->of_variants = head.shape;
  TENON_ASSIGN_OR_RETURN(
      arrival->value,
      variants ? Tensor::Allocate(session.session->pool(), TENON_DT_UINT8, Shape{static_cast<int64_t>(bytes)})
               : Tensor::Allocate(session.session->pool(), head.dtype, head.shape, bytes - cells));
  return Status::Ok();
}

Status WorkerValues::Unpack(Arrival* arrival) const {
  Status status = Guarded([&]() -> Status {
    TENON_ASSIGN_OR_RETURN(arrival->value,
                           ReadVariants(arrival->value, *arrival->of_variants, services_->variant_types,
                                        arrival->step->session->session->pool()));
    return Status::Ok();
  });
  if (status.ok()) return status;
  return std::move(status).Annotate(StrCat("a value from task ", services_->metrics->NameOf(arrival->peer)));
}

void WorkerValues::Placed(void* token, Status status) const {
  const std::unique_ptr<Arrival> arrival(static_cast<Arrival*>(token));
  if (status.ok()) services_->metrics->ReceivedValue(arrival->peer, arrival->message_bytes);
  if (arrival->step == nullptr) return;
  if (status.ok() && arrival->wish) return arrival->step->Wished(arrival->key.channel, !arrival->value.has_value());
  exec::Message message;
  if (status.ok() && arrival->of_variants) status = Unpack(arrival.get());
  if (status.ok() && arrival->value.has_value()) {
    tenon_tensor_view view = arrival->value.view();
    if (view.dtype == TENON_DT_STRING)
      status = CheckStrings(view.dl.data, arrival->value.num_elements(), arrival->bytes);
    Retain(view.buffer);
    view.dl.shape = view.buffer->dims;
    message = exec::Message(view);
  }
  if (status.ok()) status = arrival->step->Take(arrival->key, std::move(message));
  if (!status.ok()) arrival->step->cancellation.Cancel(std::move(status));
}

}  // namespace tenon::cluster
