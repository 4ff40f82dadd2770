// SPDX-License-Identifier: Apache-2.0
#include "tenon/train/queue_runner.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

namespace tenon::train {
namespace {

// What the threads of one runner share.
struct Running {
  Running(const Session& in, QueueRunner of, Coordinator* by, std::shared_ptr<host::Cancellation> with)
      : session(&in),
        runner(std::move(of)),
        coordinator(by),
        cancellation(std::move(with)),
        left(runner.enqueue_ops.size()) {}
  const Session* session;
  QueueRunner runner;
  Coordinator* coordinator;
  std::shared_ptr<host::Cancellation> cancellation;  // of all runners' steps
  std::atomic<size_t> left;                          // threads whose input has not ended

  bool IsEnd(Code code) const {
    return std::find(runner.closed.begin(), runner.closed.end(), code) != runner.closed.end();
  }
  // Closing a queue that is closed fails, and nothing is lost.
  void RunQuietly(const std::string& node) const {
    if (!node.empty()) (void)session->RunTargets({Name(node)});
  }
};

Status Fill(const std::shared_ptr<Running>& running, const std::string& enqueue_op) {
  host::RunOptions options;
  options.cancellation = running->cancellation.get();
  auto step = running->session->Prepare({}, {}, {Name(enqueue_op)});
  Status status = step.status();
  while (status.ok() && !running->coordinator->should_stop()) status = step->Run({}, options).status();
  const bool ended = running->IsEnd(status.code());
  if (running->left.fetch_sub(1) == 1 && ended) running->RunQuietly(running->runner.close_op);
  // Who was asked to stop may fail on its way.
  if (ended || status.ok() || running->coordinator->should_stop()) return Status();
  return status.Annotate("the queue runner of '" + running->runner.queue + "', node '" + enqueue_op + "'");
}

Status CheckNodes(const Session& session, const QueueRunner& runner) {
  if (runner.enqueue_ops.empty())
    return Status(Code::kInvalidArgument, "the queue runner of '" + runner.queue + "' names no enqueue op");
  std::vector<std::string> nodes = runner.enqueue_ops;
  for (const std::string& node : {runner.close_op, runner.cancel_op})
    if (!node.empty()) nodes.push_back(node);
  for (const std::string& node : nodes)
    TENON_TRY(session.Prepare({}, {}, {Name(node)}).status().Annotate("the queue runner of '" + runner.queue + "'"));
  return Status();
}

}  // namespace

Status StartQueueRunners(const Session& session, const std::vector<QueueRunner>& runners, Coordinator* coordinator) {
  for (const QueueRunner& runner : runners) TENON_TRY(CheckNodes(session, runner));
  TENON_TRY_ASSIGN(host::Cancellation made, host::Cancellation::Create());
  auto cancellation = std::make_shared<host::Cancellation>(std::move(made));
  std::vector<std::shared_ptr<Running>> all;
  for (const QueueRunner& runner : runners) {
    all.push_back(std::make_shared<Running>(session, runner, coordinator, cancellation));
    for (const std::string& op : runner.enqueue_ops)
      coordinator->Start([running = all.back(), op] { return Fill(running, op); });
  }
  coordinator->OnStop([all, cancellation] {
    for (const std::shared_ptr<Running>& running : all) running->RunQuietly(running->runner.cancel_op);
    cancellation->Cancel();
  });
  return Status();
}

}  // namespace tenon::train
