// SPDX-License-Identifier: Apache-2.0
// Values that come from other tasks, on their way into the memory of their steps.
#include "net/cluster/worker.h"

#include "core/session/runtime.h"
#include "net/cluster/planted.h"
#include "net/cluster/variant_bytes.h"

namespace tenon::cluster {

// A value that is on its way here.
struct Worker::Arrival {
  std::shared_ptr<WorkerStep> step;  // nullptr: it is over, and did not need the value
  exec::RendezvousKey key;
  Tensor value;          // none: dead
  std::optional<Shape> of_variants;  // what `value` has the bytes of
  uint64_t bytes = 0;
  size_t peer = 0;  // who sent it
  bool wish = false;  // it is no value, but asks for one that the part sends, or says that nobody will
  uint64_t message_bytes = 0;
};

// As metrics number it; by the channel, which says nothing when there is no such part any more.
size_t Worker::SenderOf(const WorkerSession& session, const DataKey& key) const {
  const auto part = session.parts.find(key.part);
  if (part == session.parts.end() || key.key.channel < 0 ||
      static_cast<size_t>(key.key.channel) >= part->second->from.size())
    return metrics_.PeerOf("");
  const int32_t to = part->second->to[key.key.channel];  // a wish comes from where the value goes to
  return part->second->peer_numbers[to >= 0 ? to : part->second->from[key.key.channel]];
}

Result<std::shared_ptr<WorkerStep>> Worker::StepFor(DataKey key, tenon_peer* peer,
                                                    std::shared_ptr<WorkerSession>* out_session, size_t* out_sender) {
  const std::lock_guard lock(mutex_);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, Find(key.session));
  if (Planted(Bug::kStepNumberIgnored))
    for (const auto& [at, step] : session->steps)
      if (at.first == key.part) key.step = at.second;
  *out_session = session;
  *out_sender = SenderOf(*session, key);
  // A part may end before all that was sent to it is there: what a branch that was not taken did not need.
  const bool forget = Planted(Bug::kEarlyValueDropped) && !session->steps.contains({key.part, key.step});
  if (session->IsDropped(key.part) || session->IsOver(key.part, key.step) || forget)
    return std::shared_ptr<WorkerStep>();
  return EarlyStepOf(session, key.part, key.step, peer);
}

Status Worker::Place(tenon_peer* peer, tenon_span key_bytes, tenon_span head_bytes, uint64_t bytes,
                     tenon_bytes* out_memory, void** out_token) {
  TENON_ASSIGN_OR_RETURN(const DataKey key, DecodeKey(key_bytes));
  TENON_ASSIGN_OR_RETURN(const DataHead head, DecodeHead(head_bytes));
  auto arrival = std::make_unique<Arrival>();
  std::shared_ptr<WorkerSession> session;
  TENON_ASSIGN_OR_RETURN(arrival->step, StepFor(key, peer, &session, &arrival->peer));
  arrival->wish = arrival->step != nullptr && bytes == 0 && arrival->step->part->IsAskedFor(key.key.channel);
  if (arrival->step != nullptr && !arrival->wish && !arrival->step->part->Receives(key.key.channel))
    return InvalidArgument(StrCat("channel ", key.key.channel, " is none that part ", key.part, " receives"));
  arrival->key = key.key;
  arrival->bytes = bytes;
  arrival->message_bytes = key_bytes.size + head_bytes.size + bytes;
  *out_memory = {nullptr, 0};
  if (Status status = MakeRoom(*session, head, bytes, arrival.get()); !status.ok()) {
    // The sender's part may have ended, and whoever waits for the value would wait on.
    if (arrival->step != nullptr)
      arrival->step->cancellation.Cancel(
          Status(status).Annotate(StrCat("a value from task ", metrics_.NameOf(arrival->peer))));
    return status;
  }
  if (arrival->value.has_value()) *out_memory = {arrival->value.data(), bytes};
  *out_token = arrival.release();
  return Status::Ok();
}

Status Worker::MakeRoom(const WorkerSession& session, const DataHead& head, uint64_t bytes, Arrival* arrival) {
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

void Worker::Placed(Arrival* given, Status status) {
  const std::unique_ptr<Arrival> arrival(given);
  if (status.ok()) metrics_.ReceivedValue(arrival->peer, arrival->message_bytes);
  if (arrival->step == nullptr) return;
  if (status.ok() && arrival->wish) return arrival->step->Wished(arrival->key.channel, !arrival->value.has_value());
  exec::Message message;
  if (status.ok() && arrival->of_variants) {
    status = Guarded([&]() -> Status {
      TENON_ASSIGN_OR_RETURN(arrival->value,
                             ReadVariants(arrival->value, *arrival->of_variants, &runtime_->variant_types(),
                                          arrival->step->session->session->pool()));
      return Status::Ok();
    });
    if (!status.ok()) status = std::move(status).Annotate(StrCat("a value from task ", metrics_.NameOf(arrival->peer)));
  }
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
