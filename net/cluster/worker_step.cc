// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_step.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "net/cluster/planted.h"
#include "net/cluster/variant_bytes.h"

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
  if (value.dtype != TENON_DT_STRING && value.dtype != TENON_DT_VARIANT)
    return InvalidArgument(StrCat("a value of ", TypeName(value.dtype), " cannot leave its process"));
  const bool strings = value.dtype == TENON_DT_STRING;
  TENON_ASSIGN_OR_RETURN(Tensor compact,
                         strings ? Tensor::CopyOf(pool(), value)
                                 : WriteVariants(value, services_->variant_types, session->session->pool()));
  const tenon_span bytes{static_cast<const char*>(compact.data()),
                         compact.byte_size() + (strings ? StringBytes(value) : 0)};
  tenon_tensor_view view = compact.view();
  Retain(view.buffer);
  view.dl.shape = view.buffer->dims;
  *message = exec::Message(view);
  return bytes;
}

Status WorkerStep::Send(const exec::RendezvousKey& key, exec::Message message) {
  const int32_t to = TargetOf(key);
  if (to < 0) return Rendezvous::Send(key, std::move(message));
  if (part->IsAskedFor(key.channel) && !message.dead()) {
    const std::lock_guard lock(asked_mutex_);
    std::optional<exec::Message> now = kept_.Made(key.channel, std::move(message));
    if (!now) return Status::Ok();
    message = *std::move(now);
  }
  return SendNow(key, std::move(message), to);
}

Status WorkerStep::SendNow(const exec::RendezvousKey& key, exec::Message message, int32_t to) {
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
  if (goes != nullptr) goes->Sent(to);
  const std::string encoded = EncodeHead(head);
  Status sent = (*connection)->Send(name, encoded, bytes, [self = Self(), kept, &task](Status status) {
    if (!status.ok()) self->Lost(std::move(status).Annotate(StrCat("to task ", task.name(), " at ", task.address())));
  });
  if (!sent.ok()) return std::move(sent).Annotate(StrCat(Describe(key), " ", where()));
  services_->metrics->SentValue(part->peer_numbers[to], name.size() + encoded.size() + bytes.size);
  return sent;
}

void WorkerStep::Receive(const exec::RendezvousKey& key, Receiver receiver) {
  if (part->asks.empty()) return Rendezvous::Receive(key, std::move(receiver));
  AskWhat(true, &AskingWindow::Needed, key.channel);
  Rendezvous::Receive(key,
                      [this, channel = key.channel, receiver = std::move(receiver)](Result<exec::Message> message) {
                        if (message.ok()) AskWhat(true, &AskingWindow::Taken, channel);
                        receiver(std::move(message));
                      });
}

void WorkerStep::AskFirst() { AskWhat(true, &AskingWindow::Begin); }
void WorkerStep::AskNoMore() { AskWhat(false, &AskingWindow::NeverAsked); }

template <class What, class... Channel>
void WorkerStep::AskWhat(bool wanted, What what, Channel... channel) {
  std::unique_lock lock(asked_mutex_);
  const std::vector<int32_t> channels = (window_.*what)(channel...);
  lock.unlock();
  Ask(channels, wanted);
}

// Of a value that this task's own part sends nobody need be asked: `asks` has those of other tasks alone.
void WorkerStep::Ask(const std::vector<int32_t>& channels, bool wanted) {
  for (const int32_t channel : channels) {
    const auto from = static_cast<size_t>(part->from[static_cast<size_t>(channel)]);
    const Task& task = part->tasks[from];
    const std::string head = EncodeHead(wanted ? DataHead() : DataHead{TENON_DT_BOOL, Shape{0}});
    const auto lost = [self = Self(), channel, &task](Status status) {
      self->Lost(std::move(status).Annotate(
          StrCat("asking task ", task.name(), " at ", task.address(), " for channel ", channel)));
    };
    Status status = [&]() -> Status {
      TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Connection> connection,
                             services_->network->Connect(task.address(), NowNs() + kConnectNs));
      TENON_ASSIGN_OR_RETURN(const std::string name,
                             EncodeKey({session->id, number, part->parts[from], {channel, 0, {}}}));
      TENON_RETURN_IF_ERROR(connection->Send(name, head, {nullptr, 0}, [lost](Status sent) {
        if (!sent.ok()) lost(std::move(sent));
      }));
      services_->metrics->SentValue(part->peer_numbers[from], name.size() + head.size());
      return Status::Ok();
    }();
    if (!status.ok()) return lost(std::move(status));
  }
}

void WorkerStep::Wished(int32_t channel, bool wanted) {
  std::optional<exec::Message> now;
  std::unique_lock lock(asked_mutex_);
  if (!wanted) kept_.Unwanted(channel);
  else if (!Planted(Bug::kEarlyWishForgotten) || !kept_.empty()) now = kept_.Wanted(channel);
  const std::function<void()> then = TakeThen(kept_.empty());
  lock.unlock();
  if (now) {
    Status sent = SendNow({channel, 0, {}}, *std::move(now), TargetOf({channel, 0, {}}));
    if (!sent.ok()) Lost(std::move(sent));
  }
  if (then) then();
}

std::function<void()> WorkerStep::TakeThen(bool over) { return over ? std::exchange(then_, nullptr) : nullptr; }

void WorkerStep::WhenGiven(std::function<void()> then) {
  {
    const std::lock_guard lock(asked_mutex_);
    if (!kept_.empty()) then_ = std::exchange(then, nullptr);
  }
  if (then) return then();
  if (Planted(Bug::kKeptForEver)) return;
  kept_no_more_.Begin(&cancellation, [this](const Status&) {
    std::unique_lock lock(asked_mutex_);
    kept_.Clear();
    std::function<void()> late = TakeThen(true);
    lock.unlock();
    if (late) services_->background->Later(std::move(late));
  });
}

void WorkerStep::Later(std::function<void()> work) {
  services_->background->Later([self = Self(), work = std::move(work)] {
    const LogScope scope({self->services_->task, self->session->id, self->number});
    work();
  });
}

Status WorkerStep::Take(const exec::RendezvousKey& key, exec::Message message) {
  TENON_RETURN_IF_ERROR(Rendezvous::Send(key, std::move(message)));
  if (goes != nullptr) {
    goes->Came();
    return Status::Ok();
  }
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
  if (why.code() != Code::kUnavailable && why.code() != Code::kCancelled)
    session->losses.Note(Status(why).Annotate(StrCat("task ", services_->task)), number);
  cancellation.Cancel(std::move(why));
}

}  // namespace tenon::cluster
