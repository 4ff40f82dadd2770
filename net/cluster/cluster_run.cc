// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/cluster_run.h"

#include <algorithm>

#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {

void ClusterRun::Start(size_t index, const tenon_tensor_view* const* feeds) {
  const ClusterParts::Part& part = this->part(index);
  Open& open = *open_[index];
  RunPart head;
  head.set_session(session().number());
  head.set_part(part.number);
  head.set_step(number_);
  head.set_trace(trace_ != nullptr);
  open.called_ns = trace::Trace::Now();
  Status status;
  for (int32_t feed : part.feed_numbers)
    if (status.ok()) status = open.packet.Add(*feeds[feed], head.add_feeds());
  for (int32_t channel : part.channels) {
    if (shapes_ == nullptr) break;
    const Shape& shape = shapes_->channels[partition::ChannelId(channel)];
    if (!shape.known_rank()) continue;
    ChannelShape* out = head.add_shapes();
    out->set_channel(channel);
    out->set_known_rank(true);
    for (int64_t dim : shape.dims()) out->add_dims(dim);
  }
  if (!status.ok()) return Done(index, std::move(status), {nullptr, 0});
  open.packet.Finish(head);
  Call(kMethodRun, index, &open,
       [this, index](Status answer, tenon_span response) { Done(index, std::move(answer), response); });
}

void ClusterRun::Done(size_t index, Status status, tenon_span response) {
  // A call that is cancelled or lost ends here, whatever its task does.
  open_[index]->answered = status.code() != Code::kCancelled && status.code() != Code::kUnavailable &&
                           status.code() != Code::kDeadlineExceeded;
  if (open_[index]->answered) session().tasks().Heard(part(index).task);
  // Who waits for the answer must hear of what is thrown too.
  status = Guarded([&] {
    if (status.ok()) status = Take(index, response);
    return status.ok() ? Status::Ok() : std::move(status).Annotate(session().tasks().Where(part(index).task));
  });
  if (!status.ok()) GiveUp(std::move(status));
  // Without the lock nothing here is touched: the step may end.
  std::shared_ptr<exec::Resumer> resumer;
  {
    const std::lock_guard lock(mutex_);
    open_[index]->done = true;
    if (--running_ == 0) resumer = std::exchange(resumer_, nullptr);
    changed_.notify_all();
  }
  if (resumer != nullptr) resumer->Resume();
}

Status ClusterRun::Take(size_t index, tenon_span response) {
  const ClusterParts::Part& part = this->part(index);
  RunReply head;
  TENON_ASSIGN_OR_RETURN(InPacket packet, InPacket::Parse(response, &head));
  if (static_cast<size_t>(head.fetches_size()) != part.fetch_numbers.size())
    return Internal(StrCat("it answered ", head.fetches_size(), " fetches instead of ", part.fetch_numbers.size()));
  for (size_t i = 0; i < part.fetch_numbers.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_tensor_view view, packet.Next(head.fetches(static_cast<int>(i))));
    const auto fetch = static_cast<size_t>(part.fetch_numbers[i]);
    TENON_ASSIGN_OR_RETURN(fetches_[fetch], Tensor::CopyOf(GlobalPool(), view));
  }
  TENON_RETURN_IF_ERROR(TakeGiven(index, head, &packet));
  TakeTrace(index, open_[index]->called_ns, head);
  return Status::Ok();
}

void ClusterRun::GiveUp(Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(given_up_, true)) return;
    first_ = std::move(why);
    if (Planted(Bug::kPartsGoOn)) return;
  }
  CancelCalls();
}

void ClusterRun::CancelCalls() {
  for (size_t i = 0; i < open_.size(); ++i) {
    uint64_t call = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!open_[i]->done) call = open_[i]->call;  // what has none yet sees that the step was given up
    }
    if (call != 0) ConnectionTo(i)->Cancel(call);
  }
}

void ClusterRun::Await() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }
  session().runs().Remove(number_);
}

void ClusterRun::NoteUnsettled() {
  std::vector<UnsettledParts::Part> left;
  for (size_t i = 0; i < open_.size(); ++i) {
    // What has no state is met by nobody.
    if (!open_[i]->answered && !part(i).state->empty())
      left.push_back({part(i).task, part(i).number, number_, part(i).state});
  }
  session().unsettled().Add(left);
}

Status ClusterRun::Begin(exec::Step* step, const tenon_tensor_view* const* feeds) {
  for (const ClusterParts::Part& part : parts_->all) TENON_RETURN_IF_ERROR(session().tasks().lost(part.task));
  TENON_RETURN_IF_ERROR(session().unsettled().Settle(parts_->state, step->cancellation));
  if (parts_->shapes != nullptr) shapes_ = parts_->shapes->For(feeds, shapes_);
  const size_t count = parts_->all.size();
  trace_ = step->trace;
  given_up_ = false;
  first_ = Status::Ok();
  open_.clear();
  for (size_t i = 0; i < count; ++i) open_.push_back(std::make_unique<Open>());
  running_ = count;
  number_ = session().runs().NewNumber();
  begin_ns_ = trace::Trace::Now();
  session().runs().Add(number_, this);
  for (size_t i = 0; i < count; ++i) {
    // What is thrown is so before the call is made.
    if (Status thrown = Guarded([&] { Start(i, feeds); }); !thrown.ok()) Done(i, std::move(thrown), {nullptr, 0});
  }
  for (size_t i = 0; i < count; ++i)
    losses_[i].Begin(session().tasks().gone(part(i).task), [this](const Status& why) { GiveUp(why); });
  return Status::Ok();
}

Status ClusterRun::End() {
  for (Subscription& loss : losses_) loss.End();
  if (trace_ != nullptr) trace_->Add(StrCat("step ", number_), "cluster", begin_ns_, trace::Trace::Now());
  if (!given_up_) return Status::Ok();
  NoteUnsettled();
  return std::move(first_);
}

Status ClusterRun::Go(exec::Step* step, const tenon_tensor_view* const* feeds) {
  TENON_RETURN_IF_ERROR(Begin(step, feeds));
  cancelled_.Begin(step->cancellation, [this](const Status& why) { GiveUp(why); });
  stands_still_ = step->resumer != nullptr && Park(step->resumer);
  if (stands_still_) return Status::Ok();
  Status status = GoOn();
  if (!status.ok() && Planted(Bug::kStepRepeated) && !std::exchange(repeated_, true)) return Go(step, feeds);
  return status;
}

bool ClusterRun::Park(const std::shared_ptr<exec::Resumer>& resumer) {
  const std::lock_guard lock(mutex_);
  if (running_ != 0) resumer_ = resumer;
  return running_ != 0;
}

Status ClusterRun::GoOn() {
  stands_still_ = false;
  Await();
  cancelled_.End();
  TENON_RETURN_IF_ERROR(End());
  for (size_t i = 0; i < fetches_.size(); ++i) views_[i] = fetches_[i].view();
  return Status::Ok();
}

}  // namespace tenon::cluster
