// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/exec/device/device.h"
#include "core/exec/device/resources.h"
#include "core/session/device_list.h"
#include "net/cluster/protocol.h"
#include "net/cluster/worker_step.h"

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
      Status status = Guarded([&] { return open ? Open(peer, request, reply) : Register(request, reply); });
      if (!status.ok()) reply.Fail(std::move(status));
    });
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    coming_.emplace(reply.reply, false);
  }
  Status status = Guarded([&] {
    return method == kMethodRun      ? Run(call.request, reply)
           : method == kMethodPing   ? Ping(call.request, reply)
           : method == kMethodHello  ? Hello(call.request, reply)
           : method == kMethodClose  ? CloseSession(call.request, reply)
           : method == kMethodSettle ? Settle(call.request, reply)
           : method == kMethodDrop   ? Drop(call.request, reply)
           : method == kMethodReset  ? Reset(call.request, reply)
           : method == kMethodGo     ? Go(call.request, reply)
                                     : Unimplemented(StrCat("a worker has no method '", method, "'"));
  });
  {
    const std::lock_guard lock(mutex_);
    coming_.erase(reply.reply);
  }
  if (!status.ok()) reply.Fail(std::move(status));
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
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<WorkerSession> session, Find(asked.session()));
    session->heard_ns = NowNs();
    session->TellLosses(asked.losses_known(), &answer);
  }
  const WorkerMetrics::Totals totals = metrics_.totals();
  answer.set_incarnation(incarnation_);
  answer.set_steps(totals.steps);
  answer.set_bytes_sent(totals.bytes_sent);
  answer.set_bytes_received(totals.bytes_received);
  uint64_t bytes = 0;
  for (const WorkerState::Memory& memory : memories_) bytes += memory.budget->in_use();
  answer.set_bytes_in_use(bytes);
  {
    const std::lock_guard lock(mutex_);
    answer.set_sessions(sessions_.size());
  }
  Answer(reply, answer);
  return Status::Ok();
}

// ---- The worker ----

void Worker::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kWatchPeriod);
    const uint64_t now = NowNs();
    const std::vector<std::shared_ptr<WorkerSession>> late = LateSessions(now);
    const std::map<std::string, Peers::Busy> busy = BusyPeers(now);
    lock.unlock();
    for (const auto& session : late)
      End(session, Status(Code::kCancelled, "the session's master has not been heard of for its lease"));
    peers_->Look(busy, now);
    lock.lock();
  }
}

Worker::Worker(session::Runtime* runtime, WorkerOptions options)
    : runtime_(runtime),
      options_(std::move(options)),
      started_ns_(NowNs()),
      metrics_(options_.task, options_.tasks),
      unnamed_(std::make_unique<exec::ResourceManager>()),
      background_(runtime, options_.task) {
  const auto choice = runtime_->ChooseDevices("");
  if (!choice.ok()) return;  // who opens a session is told
  for (const exec::Device* device : choice->devices)
    if (memories_.empty() || device->queues != nullptr)
      memories_.push_back(
          {device->name, std::make_shared<MemoryBudget>(options_.memory_limit, StrCat("task ", options_.task))});
}

std::shared_ptr<MemoryBudget> Worker::BudgetOf(const exec::Device& device) const {
  for (const WorkerState::Memory& memory : memories_)
    if (memory.device == device.name) return memory.budget;
  return nullptr;
}

void Worker::LogOf(uint64_t session, uint32_t level, std::string_view text) const {
  const LogScope scope({options_.task, session});
  Log(level, text);
}

std::string Worker::Metrics() const {
  WorkerState state;
  state.task = options_.task;
  state.version = kVersion;
  state.incarnation = incarnation_;
  state.uptime_ns = NowNs() - started_ns_;
  state.max_sessions = options_.max_sessions;
  state.memories = memories_;
  CountSteps(&state);
  return metrics_.ToJson(state);
}

Result<std::unique_ptr<Worker>> Worker::Start(session::Runtime* runtime, Network::Finder finder,
                                              WorkerOptions options) {
  std::string own;
  for (const Task& task : options.tasks)
    if (task.name() == options.task) own = task.address();
  if (own.empty()) return InvalidArgument(StrCat("the cluster has no task ", options.task));
  std::unique_ptr<Worker> worker(new Worker(runtime, std::move(options)));
  Worker* self = worker.get();
  self->incarnation_ = RandomNumber();
  Handlers handlers;
  handlers.call = [self](tenon_peer* peer, const tenon_incoming& call, Reply reply) {
    self->OnCall(peer, call, reply);
  };
  handlers.cancelled = [self](tenon_reply* reply) { self->OnCancelled(reply); };
  handlers.place = [self](tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes, tenon_bytes* memory,
                          void** token) { return self->Place(peer, key, head, bytes, memory, token); };
  handlers.placed = [self](void* token, Status status) {
    self->Placed(static_cast<Arrival*>(token), std::move(status));
  };
  handlers.lost = [self](tenon_peer* peer) { self->OnLost(peer); };
  handlers.connection_lost = [self](const std::string& address) {
    self->background_.Later([self, address] {
      self->LosePeer(address,
                     StrCat("the connection from task ", self->options_.task, " was lost, and maybe values with it"),
                     /*noted=*/true);
    });
  };
  worker->network_ = std::make_unique<Network>(std::move(finder), std::move(handlers), worker->options_.credentials,
                                               worker->options_.max_message_bytes);
  worker->services_ = {worker->options_.task, worker->network_.get(),    &worker->metrics_,
                       &worker->background_,  &runtime->variant_types(), &worker->mutex_};
  worker->peers_ = std::make_unique<Peers>(
      worker->network_.get(), [self](std::function<void()> work) { self->background_.Later(std::move(work)); },
      [self](const std::string& address, std::string_view why) { self->LosePeer(address, why, /*noted=*/false); });
  TENON_ASSIGN_OR_RETURN(worker->address_,
                         worker->network_->Listen(worker->options_.listen.empty() ? own : worker->options_.listen));
  worker->watch_ = std::thread([self] { self->Watch(); });
  return worker;
}

std::string Worker::BusyLocked() const {
  std::string text;
  const auto add = [&](const std::string& more) { text += StrCat(text.empty() ? "" : ", ", more); };
  for (const auto& [reply, step] : running_)
    add(StrCat("step ", step->number, " of part ", step->part->number, " of session ", step->session->id));
  for (const auto& [session, part] : planning_) add(StrCat("the planning of part ", part, " of session ", session));
  if (text.empty() && !ending_.empty()) add(StrCat("session ", (*ending_.begin())->id));
  return text.empty() ? "work in the background" : text;
}

Status Worker::Stopping() const { return Status(Code::kUnavailable, StrCat("task ", options_.task, " is stopping")); }

void Worker::Finish() {
  if (watch_.joinable()) watch_.join();
  std::vector<std::shared_ptr<WorkerSession>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, session] : sessions_) open.push_back(session);
  }
  for (const auto& session : open) End(session, Stopping());
  open.clear();
  // Steps were cancelled, and answer now; what they still send ends with the network.
  background_.Await();
  network_->Stop();
  background_.Await();
  const std::lock_guard lock(mutex_);
  finished_ = true;
  changed_.notify_all();
}

Status Worker::Stop(uint64_t deadline_ns) {
  const Status drained = network_->Drain(deadline_ns);
  std::unique_lock lock(mutex_);
  if (!std::exchange(stop_, true)) finisher_ = std::thread([this] { Finish(); });
  changed_.notify_all();
  if (changed_.wait_for(lock, kLastGrace, [this] { return finished_; })) return drained;
  return Status(Code::kAborted, StrCat("task ", options_.task, " was to stop, and this does not end: ", BusyLocked()));
}

Worker::~Worker() {
  if (!stop_ && network_ != nullptr && watch_.joinable()) (void)Stop(NowNs()).ok();
  if (finisher_.joinable()) finisher_.join();
  unnamed_->ClearAll();
}

}  // namespace tenon::cluster
