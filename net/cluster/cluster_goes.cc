// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/cluster_goes.h"

#include <algorithm>
#include <optional>

#include "core/exec/device/step.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {

session::CallersMeeting& ClusterGoes::meeting() const {
  return static_cast<session::CallersMeeting&>(*step_->rendezvous);
}

Status ClusterGoes::Go(exec::Step* step, const tenon_tensor_view* const* feeds) {
  step_ = step;
  stands_still_ = false;
  moved_.assign(parts_->all.size(), {std::vector<uint64_t>(parts_->all.size()), 0});
  moved_before_.clear();
  asked_.clear();
  TENON_RETURN_IF_ERROR(Begin(step, feeds));
  return GoOn();
}

Status ClusterGoes::GoOn() {
  {
    const std::lock_guard lock(mutex_);
    trace_ = step_->trace;
  }
  bool ended = false;
  {
    const Subscription cancelled(step_->cancellation, [this](const Status& why) { GiveUp(why); });
    patient_ = false;
    Round(/*first=*/true);
    while (step_->enough && MayMove()) Round(/*first=*/false);
    {
      const std::lock_guard lock(mutex_);
      ended = !step_->enough || given_up_ || running_ == 0;
    }
    if (ended) Await();
  }
  stands_still_ = !ended;
  if (ended) return End();
  const std::lock_guard lock(mutex_);
  trace_ = nullptr;  // it is the call's
  return Status::Ok();
}

// ---- A round ----

void ClusterGoes::Round(bool first) {
  {
    const std::lock_guard lock(mutex_);
    asked_.clear();
    asking_ = 0;
    for (const auto& open : open_) {
      asked_.push_back(open->done || given_up_ ? nullptr : std::make_unique<Asked>());
      asking_ += asked_.back() != nullptr;
    }
  }
  for (size_t i = 0; i < asked_.size(); ++i) {
    if (asked_[i] == nullptr) continue;
    if (Status status = Guarded([&] { return Ask(i, first); }); !status.ok())
      Answered(i, std::move(status), {nullptr, 0});
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return asking_ == 0; });
  if (first) meeting().fed.clear();
}

// What fails does so before the call is made.
Status ClusterGoes::Ask(size_t index, bool first) {
  Asked& asked = *asked_[index];
  GoStep head;
  head.set_session(session().number());
  head.set_part(part(index).number);
  head.set_step(number_);
  head.set_trace(step_->trace != nullptr);
  head.set_patient(patient_);
  if (first) TENON_RETURN_IF_ERROR(AddFeeds(index, &asked, &head));
  for (const int32_t channel : part(index).given)
    if (IsLacking(channel)) head.add_wanted(parts_->first_of_callers + channel);
  {
    const std::lock_guard lock(mutex_);
    head.set_expected(SentTo(index));
  }
  asked.called_ns = trace::Trace::Now();
  asked.packet.Finish(head);
  Call(kMethodGo, index, &asked,
       [this, index](Status answer, tenon_span response) { Answered(index, std::move(answer), response); });
  return Status::Ok();
}

Status ClusterGoes::AddFeeds(size_t index, Asked* asked, GoStep* head) {
  const std::vector<int32_t>& fed = part(index).fed;
  for (const int32_t channel : meeting().fed) {
    if (std::find(fed.begin(), fed.end(), channel) == fed.end()) continue;
    std::optional<Result<exec::Message>> sent;
    meeting().Receive({channel, 0, {}}, [&sent](Result<exec::Message> message) { sent = std::move(message); });
    TENON_RETURN_IF_ERROR(sent->status());
    ChannelValue* const feed = head->add_feeds();
    feed->set_channel(parts_->first_of_callers + channel);
    asked->feeds.push_back(**std::move(sent));
    TENON_RETURN_IF_ERROR(asked->packet.Add(asked->feeds.back().view(), feed->mutable_value()));
  }
  return Status::Ok();
}

bool ClusterGoes::IsLacking(int32_t channel) const {
  const std::vector<int32_t>& wanted = meeting().wanted;
  return std::find(wanted.begin(), wanted.end(), channel) != wanted.end() && !meeting().Has({channel, 0, {}});
}

void ClusterGoes::Answered(size_t index, Status status, tenon_span response) {
  if (status.ok()) session().tasks().Heard(part(index).task);
  status = Guarded([&] {
    if (status.ok()) status = TakeAnswer(index, response);
    return status.ok() ? Status::Ok() : std::move(status).Annotate(session().tasks().Where(part(index).task));
  });
  if (!status.ok()) GiveUp(std::move(status));
  const std::lock_guard lock(mutex_);
  asked_[index]->done = true;
  if (--asking_ == 0) changed_.notify_all();
}

Status ClusterGoes::TakeAnswer(size_t index, tenon_span response) {
  GoReply head;
  TENON_ASSIGN_OR_RETURN(InPacket packet, InPacket::Parse(response, &head));
  for (const ChannelValue& value : head.given()) TENON_RETURN_IF_ERROR(TakeValue(index, value, &packet));
  TakeTrace(index, asked_[index]->called_ns, head);
  asked_[index]->over = head.over();
  asked_[index]->elsewhere = head.elsewhere();
  if (head.over()) return Status::Ok();
  TENON_RETURN_IF_ERROR(TakeSent(index, head));
  const std::lock_guard lock(mutex_);
  moved_[index].received = head.received();
  return Status::Ok();
}

Status ClusterGoes::TakeGiven(size_t index, const RunReply& reply, InPacket* packet) {
  for (const ChannelValue& value : reply.given()) TENON_RETURN_IF_ERROR(TakeValue(index, value, packet));
  return TakeSent(index, reply);
}

template <class Answer>
Status ClusterGoes::TakeSent(size_t index, const Answer& answer) {
  const std::lock_guard lock(mutex_);
  if (static_cast<size_t>(answer.sent_size()) != moved_.size())
    return Internal(StrCat("it told of ", answer.sent_size(), " parts instead of ", moved_.size()));
  // The answer to "run" may be taken before one that was given earlier.
  for (size_t i = 0; i < moved_.size(); ++i)
    moved_[index].sent[i] = std::max(moved_[index].sent[i], answer.sent(static_cast<int>(i)));
  return Status::Ok();
}

Status ClusterGoes::TakeValue(size_t index, const ChannelValue& value, InPacket* packet) {
  const std::vector<int32_t>& given = part(index).given;
  const int32_t channel = value.channel() - parts_->first_of_callers;
  if (std::find(given.begin(), given.end(), channel) == given.end())
    return Internal(StrCat("it gave a value of channel ", value.channel(), ", which is none that it fetches"));
  exec::Message message;
  if (value.has_value()) {
    TENON_ASSIGN_OR_RETURN(const tenon_tensor_view view, packet->Next(value.value()));
    TENON_ASSIGN_OR_RETURN(message, exec::Message::Of(view, meeting().pool()));
  }
  return meeting().Send({channel, 0, {}}, std::move(message));
}

// ---- Whether it stands still ----

// What others have sent to a part. Under the mutex.
uint64_t ClusterGoes::SentTo(size_t part) const {
  uint64_t sent = 0;
  for (const Moved& each : moved_) sent += each.sent[part];
  return sent;
}

bool ClusterGoes::MayMove() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] {
    for (size_t i = 0; i < asked_.size(); ++i)
      if (asked_[i] != nullptr && asked_[i]->over && !open_[i]->done) return false;
    return true;
  });
  if (given_up_ || running_ == 0) return false;
  bool adds_up = true, elsewhere = false;
  for (size_t i = 0; i < open_.size(); ++i) {
    if (open_[i]->done) continue;  // it takes no more values
    elsewhere = elsewhere || (asked_[i] != nullptr && asked_[i]->elsewhere);
    adds_up = adds_up && moved_[i].received == SentTo(i);
  }
  const std::vector<int32_t>& wanted = meeting().wanted;
  patient_ =
      elsewhere && std::any_of(wanted.begin(), wanted.end(), [this](int32_t channel) { return IsLacking(channel); });
  if (elsewhere) return patient_;
  const bool moved = moved_ != std::exchange(moved_before_, moved_);
  return moved || !adds_up;
}

void ClusterGoes::CancelCalls() {
  ClusterRun::CancelCalls();
  for (size_t i = 0; i < parts_->all.size(); ++i) {
    uint64_t call = 0;
    {
      const std::lock_guard lock(mutex_);
      if (i < asked_.size() && asked_[i] != nullptr && !asked_[i]->done) call = asked_[i]->call;
    }
    if (call != 0) ConnectionTo(i)->Cancel(call);
  }
}

}  // namespace tenon::cluster
