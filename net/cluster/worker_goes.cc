// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker_goes.h"

#include <algorithm>
#include <optional>

#include "core/base/log.h"
#include "net/cluster/part_step.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

bool Has(const std::vector<int32_t>& channels, int32_t channel) {
  return std::find(channels.begin(), channels.end(), channel) != channels.end();
}

}  // namespace

WorkerGoes::WorkerGoes(PartStep* step, const StepServices* services)
    : step_(step),
      services_(services),
      goes_(std::make_unique<session::StepInGoes>(step->part->callable, step)),
      sent_(step->part->tasks.size()) {}

void WorkerGoes::Begin(bool trace, std::function<void(Status status)> ended) {
  {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    ended_ = std::move(ended);
    Trace(trace);
  }
  given_up_.Begin(&step_->cancellation, [this](const Status&) { Wake(0); });
  Wake(0);
}

void WorkerGoes::Came() { Wake(1); }

void WorkerGoes::Sent(int32_t to) {
  const std::lock_guard lock(mutex_);
  ++sent_[static_cast<size_t>(to)];
}

// ---- How it goes on ----

void WorkerGoes::Wake(uint64_t came) {
  {
    const std::lock_guard lock(mutex_);
    received_ += came;
    elsewhere_ = false;
    if (!begun_ || over_) return;
    news_ = driving_;
    if (std::exchange(driving_, true)) return;
  }
  services_->background->Later([this, step = step_->shared_from_this()] { Drive(); });
}

void WorkerGoes::Drive() {
  const LogScope scope({services_->task, step_->session->id, step_->number});
  // Kernels that run elsewhere have their inbox looked at; whoever asks need not wait for them.
  const auto enough = [this] {
    std::unique_lock lock(mutex_);
    elsewhere_ = true;
    const Orders ready = TakeReady();
    lock.unlock();
    Answer(ready);
    return false;
  };
  for (;;) {
    session::RunOptions options;
    options.cancellation = &step_->cancellation;
    {
      const std::lock_guard lock(mutex_);
      options.trace = trace_.get();
    }
    Status status = Guarded([&] { return goes_->Go(options, enough); });
    if (!status.ok() || goes_->ended()) return End(std::move(status));
    std::unique_lock lock(mutex_);
    elsewhere_ = false;
    if (std::exchange(news_, false)) continue;
    driving_ = false;
    Trace(traces_);
    const Orders ready = TakeReady();
    lock.unlock();
    return Answer(ready);
  }
}

void WorkerGoes::End(Status status) {
  goes_.reset();
  std::unique_lock lock(mutex_);
  over_ = true;
  const Orders waiting = std::exchange(waiting_, {});
  const std::function<void(Status)> ended = std::exchange(ended_, nullptr);
  lock.unlock();
  ended(std::move(status));
  for (const auto& order : waiting) order->answer.set_over(true);
  Answer(waiting);
}

// ---- What is asked of it ----

Status WorkerGoes::Feed(const std::shared_ptr<GoOrder>& order) {
  std::vector<std::pair<int32_t, exec::Message>> feeds;
  BufferPool* const pool = step_->session->session->pool();
  for (const int32_t channel : order->head.wanted())
    if (!Has(step_->part->given, channel))
      return InvalidArgument(StrCat("part ", step_->part->number, " gives nothing on channel ", channel));
  for (const ChannelValue& feed : order->head.feeds()) {
    if (!Has(step_->part->fed, feed.channel()))
      return InvalidArgument(StrCat("part ", step_->part->number, " is fed nothing on channel ", feed.channel()));
    TENON_ASSIGN_OR_RETURN(const tenon_tensor_view view, order->packet.Next(feed.value()));
    TENON_ASSIGN_OR_RETURN(exec::Message message, exec::Message::Of(view, pool));
    feeds.emplace_back(feed.channel(), std::move(message));
  }
  for (auto& [channel, message] : feeds) {
    Status sent = step_->Send({channel, 0, {}}, std::move(message));
    if (sent.code() == Code::kAlreadyExists) return sent;  // any other error ends the step, and is told there
  }
  return Status::Ok();
}

Status WorkerGoes::Ask(std::shared_ptr<GoOrder> order) {
  TENON_RETURN_IF_ERROR(Feed(order));
  const bool fed = order->head.feeds_size() > 0;
  std::unique_lock lock(mutex_);
  Trace(order->head.trace());
  order->answer.set_over(over_);
  if (!over_)
    waiting_.push_back(order);
  else
    return lock.unlock(), Answer({order}), Status::Ok();
  const Orders ready = fed ? Orders() : TakeReady();
  lock.unlock();
  Answer(ready);
  if (fed) Wake(0);
  return Status::Ok();
}

bool WorkerGoes::IsReady(const GoOrder& order) const {
  if (driving_ ? !elsewhere_ : received_ < order.head.expected()) return false;
  const auto& wanted = order.head.wanted();
  const bool may_lack = !driving_ && !order.head.patient();
  return may_lack || std::all_of(wanted.begin(), wanted.end(), [this](int32_t channel) {
           return step_->Has({channel, 0, {}});
         });
}

WorkerGoes::Orders WorkerGoes::TakeReady() {
  Orders ready;
  if (!begun_) return ready;
  std::erase_if(waiting_, [&](const std::shared_ptr<GoOrder>& order) {
    if (!IsReady(*order)) return false;
    GoReply& answer = order->answer;
    answer.set_elsewhere(driving_);
    answer.set_received(received_);
    answer.mutable_sent()->Add(sent_.begin(), sent_.end());
    ready.push_back(order);
    return true;
  });
  return ready;
}

void WorkerGoes::Answer(const Orders& orders) {
  for (const std::shared_ptr<GoOrder>& order : orders) {
    Status status = Guarded([&]() -> Status {
      GoReply& answer = order->answer;
      if (!answer.over())
        for (const int32_t channel : order->head.wanted()) {
          if (!step_->Has({channel, 0, {}})) continue;
          TENON_RETURN_IF_ERROR(Give(channel, &order->given, &order->out, answer.add_given()));
        }
      if (order->head.trace() && !answer.over() && !answer.elsewhere()) TakeTrace(answer.mutable_spans());
      answer.set_answered_ns(trace::Trace::Now());
      order->out.Finish(answer);
      return Status::Ok();
    });
    if (status.ok())
      order->reply.Give(order->out.pieces(), [order] {});
    else
      order->reply.Fail(std::move(status));
  }
}

Status WorkerGoes::Give(int32_t channel, std::vector<exec::Message>* given, OutPacket* out, ChannelValue* head) {
  std::optional<Result<exec::Message>> made;
  step_->Receive({channel, 0, {}}, [&made](Result<exec::Message> message) { made = std::move(message); });
  TENON_RETURN_IF_ERROR(made->status());
  head->set_channel(channel);
  given->push_back(**std::move(made));
  return given->back().dead() ? Status::Ok() : out->Add(given->back().view(), head->mutable_value());
}

void WorkerGoes::TellSent(google::protobuf::RepeatedField<uint64_t>* out) const {
  const std::lock_guard lock(mutex_);
  out->Add(sent_.begin(), sent_.end());
}

// What drives it goes on with what it has.
void WorkerGoes::Trace(bool traces) {
  traces_ = traces;
  if (traces && trace_ == nullptr) trace_ = std::make_unique<trace::Trace>();
  if (!traces && !driving_) trace_.reset();
}

void WorkerGoes::TakeTrace(google::protobuf::RepeatedPtrField<TraceSpan>* out) {
  std::unique_ptr<trace::Trace> trace;
  {
    const std::lock_guard lock(mutex_);
    if (driving_ && !over_) return;  // which writes it
    trace = std::move(trace_);
    Trace(traces_);
  }
  if (trace != nullptr) trace->ForEach([out](const trace::Trace::Event& event) { WriteSpan(event, out->Add()); });
}

}  // namespace tenon::cluster
