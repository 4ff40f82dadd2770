// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker.h"

#include <chrono>

#include "core/base/clock.h"
#include "core/exec/device/device.h"
#include "net/cluster/protocol.h"

namespace tenon::cluster {
namespace {

constexpr auto kWatchPeriod = std::chrono::milliseconds(250);
// What was cancelled at the end of the patience is waited for so long.
constexpr auto kLastGrace = std::chrono::seconds(2);

}  // namespace

// ---- Calls ----

void Worker::OnCall(tenon_peer* peer, const tenon_incoming& call, Reply given) {
  const std::string_view method = View(call.method);
  const Reply reply = metrics_.Called(method, call.request.size, given);
  if (method == kMethodOpen || method == kMethodPart) {
    // They take their time, which a callback has not.
    background_.Later([this, peer, request = call.request, reply, open = method == kMethodOpen] {
      Status status =
          Guarded([&] { return open ? sessions_.Open(peer, request, reply) : sessions_.Register(request, reply); });
      if (!status.ok()) reply.Fail(std::move(status));
    });
    return;
  }
  Status status;
  {
    const RunningSteps::Coming coming(&running_, reply.reply);
    status = Guarded([&] { return Take(method, call.request, reply); });
  }
  if (!status.ok()) reply.Fail(std::move(status));
}

Status Worker::Take(std::string_view method, tenon_span request, Reply reply) {
  if (method == kMethodRun) return steps_.Run(request, reply);
  if (method == kMethodPing) return Ping(request, reply);
  if (method == kMethodHello) return Hello(request, reply);
  if (method == kMethodClose) return sessions_.Close(request, reply);
  if (method == kMethodSettle) return steps_.Settle(request, reply);
  if (method == kMethodDrop) return sessions_.Drop(request, reply);
  if (method == kMethodReset) return sessions_.Reset(request, reply);
  if (method == kMethodGo) return steps_.Go(request, reply);
  return Unimplemented(StrCat("a worker has no method '", method, "'"));
}

Status Worker::Hello(tenon_span request, Reply reply) {
  HelloRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  if (asked.protocol() != kProtocol)
    return FailedPrecondition(StrCat("the master (", asked.version(), ") speaks protocol ", asked.protocol(),
                                     ", this worker (", kVersion, ") ", kProtocol,
                                     "; let both be of one version (`tenon --version` says which)"));
  HelloReply answer;
  answer.set_protocol(kProtocol);
  answer.set_incarnation(incarnation_);
  answer.set_task(options_.task);
  for (const Task& task : options_.tasks) *answer.add_tasks() = task;
  for (const exec::Device& device : runtime_->devices())
    if (device.handle != nullptr) Describe(device, answer.add_devices());
  Answer(reply, answer);
  return Status::Ok();
}

Status Worker::Ping(tenon_span request, Reply reply) {
  SessionRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  PingReply answer;
  if (asked.session() != 0) {
    TENON_ASSIGN_OR_RETURN(const SessionTable::Session session, table_.Find(asked.session()));
    session->session->heard_ns = NowNs();
    session->session->losses.Tell(asked.losses_known(), &answer);
  }
  const WorkerMetrics::Totals totals = metrics_.totals();
  answer.set_incarnation(incarnation_);
  answer.set_steps(totals.steps);
  answer.set_bytes_sent(totals.bytes_sent);
  answer.set_bytes_received(totals.bytes_received);
  answer.set_bytes_in_use(budgets_.in_use());
  answer.set_sessions(table_.size());
  Answer(reply, answer);
  return Status::Ok();
}

std::string Worker::Metrics() const {
  WorkerState state;
  state.task = options_.task;
  state.version = kVersion;
  state.incarnation = incarnation_;
  state.uptime_ns = NowNs() - started_ns_;
  state.max_sessions = options_.max_sessions;
  state.memories = budgets_.all();
  running_.Count(&state);
  const SessionTable::Sessions sessions = table_.All();
  state.sessions = sessions.size();
  for (const SessionTable::Session& session : sessions)
    for (const std::shared_ptr<WorkerStep>& step : session->Count(&state)) state.values_waiting += step->waiting();
  return metrics_.ToJson(state);
}

// ---- From its start to its end ----

Worker::Worker(session::Runtime* runtime, Network::Finder finder, WorkerOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      incarnation_(RandomNumber()),
      started_ns_(NowNs()),
      metrics_(options_.task, options_.tasks),
      budgets_(runtime, options_.memory_limit, options_.task),
      background_(runtime, options_.task),
      network_(std::move(finder), MakeHandlers(), options_.credentials, options_.max_message_bytes),
      services_{options_.task, &network_, &metrics_, &background_, &runtime->variant_types()},
      table_(options_.task, options_.max_sessions, &running_),
      peers_(
          &network_, [this](std::function<void()> work) { background_.Later(std::move(work)); },
          [this](const std::string& address, std::string_view why) {
            sessions_.LosePeer(address, why, /*noted=*/false);
          }),
      sessions_({runtime, &services_, &table_, &early_, &peers_, &budgets_, incarnation_, options_.tasks}),
      steps_(&services_, &table_, &running_),
      values_(&services_, &table_) {}

Handlers Worker::MakeHandlers() {
  Handlers handlers;
  handlers.call = [this](tenon_peer* peer, const tenon_incoming& call, Reply reply) { OnCall(peer, call, reply); };
  handlers.cancelled = [this](tenon_reply* reply) { steps_.OnCancelled(reply); };
  handlers.place = [this](tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes, tenon_bytes* memory,
                          void** token) { return values_.Place(peer, key, head, bytes, memory, token); };
  handlers.placed = [this](void* token, Status status) { values_.Placed(token, std::move(status)); };
  handlers.lost = [this](tenon_peer* peer) { sessions_.OnLost(peer); };
  handlers.connection_lost = [this](const std::string& address) {
    background_.Later([this, address] {
      sessions_.LosePeer(address,
                         StrCat("the connection from task ", options_.task, " was lost, and maybe values with it"),
                         /*noted=*/true);
    });
  };
  return handlers;
}

Result<std::unique_ptr<Worker>> Worker::Start(session::Runtime* runtime, Network::Finder finder,
                                              WorkerOptions options) {
  std::string own;
  for (const Task& task : options.tasks)
    if (task.name() == options.task) own = task.address();
  if (own.empty()) return InvalidArgument(StrCat("the cluster has no task ", options.task));
  std::unique_ptr<Worker> worker(new Worker(runtime, std::move(finder), std::move(options)));
  const std::string& listen = worker->options_.listen;
  TENON_ASSIGN_OR_RETURN(worker->address_, worker->network_.Listen(listen.empty() ? own : listen));
  worker->watch_ = std::thread([self = worker.get()] { self->Watch(); });
  return worker;
}

void Worker::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kWatchPeriod);
    lock.unlock();
    const uint64_t now = NowNs();
    const std::map<std::string, Peers::Busy> busy = running_.BusyPeers(now);
    sessions_.EndLate(now);
    peers_.Look(busy, now);
    lock.lock();
  }
}

void Worker::Finish() {
  if (watch_.joinable()) watch_.join();
  sessions_.EndAll();
  // Steps were cancelled, and answer now; what they still send ends with the network.
  background_.Await();
  network_.Stop();
  background_.Await();
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

Status Worker::Stop(uint64_t deadline_ns) {
  const Status drained = network_.Drain(deadline_ns);
  table_.Refuse();
  std::unique_lock lock(mutex_);
  if (!std::exchange(stop_, true)) finisher_ = std::thread([this] { Finish(); });
  changed_.notify_all();
  if (changed_.wait_for(lock, kLastGrace, [this] { return finished_; })) return drained;
  return Status(Code::kAborted,
                StrCat("task ", options_.task, " was to stop, and this does not end: ", table_.Busy()));
}

Worker::~Worker() {
  if (!stop_ && watch_.joinable()) (void)Stop(NowNs()).ok();
  if (finisher_.joinable()) finisher_.join();
  network_.Stop();  // of one that did not start
}

}  // namespace tenon::cluster
