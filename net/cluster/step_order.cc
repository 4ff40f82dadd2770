// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/step_order.h"

#include "net/cluster/protocol.h"

namespace tenon::cluster {

Status StepOrder::Read(const WorkerPart& part) {
  if (static_cast<size_t>(head.feeds_size()) != part.callable->feed_count())
    return InvalidArgument(
        StrCat("part ", part.number, " takes ", part.callable->feed_count(), " feeds, ", head.feeds_size(), " came"));
  views.reserve(part.callable->feed_count() + part.receives.size());
  for (const TensorHead& feed : head.feeds()) {
    TENON_ASSIGN_OR_RETURN(const tenon_tensor_view view, packet.Next(feed));
    views.push_back(view);
  }
  for (int32_t channel : part.receives) {
    tenon_tensor_view view{};
    view.dl.ndim = -1;
    for (const ChannelShape& shape : head.shapes()) {
      if (shape.channel() != channel || !shape.known_rank()) continue;
      std::vector<int64_t>& own = dims.emplace_back(shape.dims().begin(), shape.dims().end());
      view.dl.ndim = static_cast<int32_t>(own.size());
      view.dl.shape = own.data();
    }
    views.push_back(view);
  }
  for (const tenon_tensor_view& view : views) pointers.push_back(&view);
  return Status::Ok();
}

void StepOrder::Compute(const std::shared_ptr<WorkerStep>& step, std::function<void(Status)> computed) {
  if (!status.ok()) return computed(status);
  session::RunOptions options;
  options.cancellation = &step->cancellation;
  options.rendezvous = step.get();
  if (head.trace()) options.trace = &trace;
  const auto later = [step](std::function<void()> task) {
    step->Later(std::move(task));
    return Status::Ok();
  };
  const auto done = [self = shared_from_this(), step, computed = std::move(computed)](Status ran,
                                                                                      std::vector<Tensor> given) {
    if (ran.ok()) ran = Guarded([&] { return self->Fill(std::move(given)); });
    computed(std::move(ran));
  };
  step->part->callable->RunAsync(options, pointers.data(), later, done);
}

Status StepOrder::Fill(std::vector<Tensor> given) {
  fetches = std::move(given);
  for (const Tensor& fetch : fetches) TENON_RETURN_IF_ERROR(out.Add(fetch.view(), answer.add_fetches()));
  trace.ForEach([this](const trace::Trace::Event& event) { WriteSpan(event, answer.add_spans()); });
  return Status::Ok();
}

Status StepOrder::TakeLeft(WorkerStep* step) {
  for (const int32_t channel : step->part->given) {
    if (!step->Has({channel, 0, {}})) continue;
    TENON_RETURN_IF_ERROR(step->goes->Give(channel, &given, &out, answer.add_given()));
  }
  step->goes->TellSent(answer.mutable_sent());
  step->goes->TakeTrace(answer.mutable_spans());
  return Status::Ok();
}

}  // namespace tenon::cluster
