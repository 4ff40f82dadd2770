// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/cluster_session.h"

#include <algorithm>

#include "core/base/clock.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

Status LossOf(const Loss& loss) {
  return Status(static_cast<Code>(std::clamp<uint32_t>(loss.code(), TENON_CANCELLED, TENON_UNAUTHENTICATED)),
                loss.text());
}

}  // namespace

ClusterSession::ClusterSession(Network::Finder finder, MasterOptions options)
    : options_(std::move(options)),
      number_(RandomNumber()),
      network_(std::move(finder), Handlers(), options_.credentials),
      tasks_(number_, options_.ping_ns, options_.silence_ns,
             [this](size_t task, uint64_t known, const PingReply& answer) { TakeLosses(task, known, answer); }),
      unsettled_(number_, &tasks_) {}

ClusterSession::~ClusterSession() {
  tasks_.Stop();
  tasks_.Close();
  network_.Stop();
}

Result<int64_t> ClusterSession::ResetContainers(const std::vector<std::string_view>& containers) {
  // What was given up may write still.
  if (!Planted(Bug::kResetNotSettled))
    TENON_RETURN_IF_ERROR(unsettled_.Settle(StepState::Everything(), nullptr, NowNs() + options_.silence_ns));
  ResetRequest head;
  head.set_session(number_);
  for (const std::string_view container : containers) head.add_containers(std::string(container));
  int64_t dropped = 0;
  Status first;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    ResetReply reply;
    if (Planted(Bug::kResetForgetsATask) && i + 1 == tasks_.size()) break;
    if (Planted(Bug::kResetAskedTwice))
      (void)Ask(*tasks_.connection(i), kMethodReset, head, NowNs() + options_.connect_ns, &reply).ok();
    Status status = tasks_.lost(i);
    if (status.ok())
      status =
          Ask(*tasks_.connection(i), kMethodReset, head, NowNs() + options_.connect_ns, &reply, tasks_.gone(i));
    if (status.ok()) dropped += static_cast<int64_t>(reply.dropped());
    else if (first.ok()) first = std::move(status).Annotate(tasks_.Where(i));
  }
  if (!first.ok() && !Planted(Bug::kResetFailureIgnored)) return first;
  return dropped;
}

void ClusterSession::Drop(const std::map<size_t, DropParts>& of_tasks) {
  for (const auto& [task, parts] : of_tasks) {
    if (!tasks_.lost(task).ok()) continue;
    DropParts head = parts;
    head.set_session(number_);
    auto packet = std::make_shared<OutPacket>();
    packet->Finish(head);
    (void)tasks_.connection(task)->Call(kMethodDrop, packet->pieces(), NowNs() + options_.silence_ns,
                                        [packet](const Status&, tenon_span) {});
  }
}

void ClusterSession::TakeLosses(size_t task, uint64_t known, const PingReply& answer) {
  uint64_t number = answer.losses_count() - static_cast<uint64_t>(answer.losses_size());
  for (const Loss& loss : answer.losses()) {
    if (number++ < known) continue;
    const size_t peer = tasks_.At(loss.peer());
    // Between two tasks, of both of which it has a part; all of whom that is not known.
    if (loss.step() != 0) runs_.GiveUpStep(loss.step(), LossOf(loss));
    else if (peer == tasks_.size()) runs_.GiveUpAll(LossOf(loss));
    else runs_.GiveUpBetween(task, peer, LossOf(loss));
  }
}

}  // namespace tenon::cluster
