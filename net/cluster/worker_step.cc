// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_step.h"

#include "core/base/clock.h"

namespace tenon::cluster {
namespace {

constexpr uint64_t kConnectNs = 5'000'000'000;

}  // namespace

int32_t WorkerStep::TargetOf(const exec::RendezvousKey& key) const {
  return key.channel < 0 || static_cast<size_t>(key.channel) >= part->to.size() ? -1 : part->to[key.channel];
}

Result<tenon_span> WorkerStep::Lay(exec::Message* message) const {
  const tenon_tensor_view& value = message->view();
  if (IsPlain(value.dtype)) return tenon_span{static_cast<const char*>(DataOf(value)), value.byte_size};
  if (value.dtype != TENON_DT_STRING) return InvalidArgument(StrCat("a value of ", TypeName(value.dtype), " cannot leave its process"));
  TENON_ASSIGN_OR_RETURN(Tensor compact, Tensor::CopyOf(pool(), value));
  const tenon_span bytes{static_cast<const char*>(compact.data()), value.byte_size + StringBytes(value)};
  tenon_tensor_view view = compact.view();
  Retain(view.buffer);
  view.dl.shape = view.buffer->dims;
  *message = exec::Message(view);
  return bytes;
}

Status WorkerStep::Send(const exec::RendezvousKey& key, exec::Message message) {
  const int32_t to = TargetOf(key);
  if (to < 0) return Rendezvous::Send(key, std::move(message));
  const Task& task = part->tasks[to];
  const auto where = [&task] { return StrCat("to task ", task.name(), " at ", task.address()); };
  auto connection = services_->network->Connect(task.address(), NowNs() + kConnectNs);
  if (!connection.ok()) return std::move(connection).status().Annotate(StrCat(Describe(key), " ", where()));
  TENON_ASSIGN_OR_RETURN(const std::string name, EncodeKey({session->id, number, part->parts[to], key}));
  DataHead head;
  tenon_span bytes{nullptr, 0};
  if (!message.dead()) {
    head.dtype = message.view().dtype;
    head.shape = ShapeOf(message.view());
    auto laid = Lay(&message);
    if (!laid.ok()) return std::move(laid).status().Annotate(StrCat(Describe(key), " ", where()));
    bytes = *laid;
  }
  auto kept = std::make_shared<exec::Message>(std::move(message));
  const std::string encoded = EncodeHead(head);
  Status sent = (*connection)->Send(name, encoded, bytes, [self = shared_from_this(), kept, &task](Status status) {
    if (!status.ok()) self->Lost(std::move(status).Annotate(StrCat("to task ", task.name(), " at ", task.address())));
  });
  if (!sent.ok()) return std::move(sent).Annotate(StrCat(Describe(key), " ", where()));
  services_->metrics->SentValue(part->peer_numbers[to], name.size() + encoded.size() + bytes.size);
  return sent;
}

Status WorkerStep::Take(const exec::RendezvousKey& key, exec::Message message) {
  TENON_RETURN_IF_ERROR(Rendezvous::Send(key, std::move(message)));
  std::function<void()> run;
  {
    const std::lock_guard lock(run_mutex_);
    run = TakeRun(++came_ >= part->receives.size());
  }
  if (run) run();
  return Status::Ok();
}

std::function<void()> WorkerStep::TakeRun(bool ready) { return ready ? std::exchange(run_, nullptr) : nullptr; }

void WorkerStep::RunWhenReady(std::function<void()> given) {
  std::function<void()> run;
  {
    const std::lock_guard lock(run_mutex_);
    run_ = std::move(given);
    run = TakeRun(came_ >= part->receives.size());
  }
  if (run) return run();
  const auto give_up = [this](const Status&) {
    std::unique_lock lock(run_mutex_);
    std::function<void()> late = TakeRun(true);
    lock.unlock();
    if (late) services_->background->Later(std::move(late));
  };
  given_up_.Begin(&cancellation, give_up);
}

void WorkerStep::Lost(Status why) {
  // This part may be over, and its receiver waits. Of connections that are lost the master is told anyway.
  if (why.code() != Code::kUnavailable && why.code() != Code::kCancelled) {
    const std::lock_guard lock(*services_->mutex);
    session->Note(Status(why).Annotate(StrCat("task ", services_->task)), number);
  }
  cancellation.Cancel(std::move(why));
}

}  // namespace tenon::cluster
