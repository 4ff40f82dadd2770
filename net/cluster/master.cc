// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/master.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/exec/device/device.h"
#include "core/place/device_name.h"
#include "net/cluster/cluster_plan.h"
#include "net/cluster/cluster_run.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"
#include "net/cluster/secret.h"

namespace tenon::cluster {

namespace {

Status LossOf(const Loss& loss) {
  return Status(static_cast<Code>(std::clamp<uint32_t>(loss.code(), TENON_CANCELLED, TENON_UNAUTHENTICATED)),
                loss.text());
}

}  // namespace

Result<std::shared_ptr<exec::Runnable>> Master::MakePlan(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                         std::vector<graph::Edge> fetches,
                                                         std::vector<graph::NodeId> targets,
                                                         const exec::Environment& env,
                                                         const exec::PlanOptions& options) {
  auto plan = std::make_shared<ClusterPlan>(this, std::move(graph), env);
  TENON_RETURN_IF_ERROR(plan->Make(std::move(feeds), std::move(fetches), std::move(targets), options));
  return std::shared_ptr<exec::Runnable>(std::move(plan));
}

// ---- The cluster ----

Status Master::Greet(std::string_view address, uint64_t deadline_ns, HelloReply* out) {
  auto connection = network_->Connect(address, deadline_ns);
  if (!connection.ok()) return std::move(connection).status();
  HelloRequest head;
  head.set_protocol(kProtocol);
  head.set_version(std::string(kVersion));
  return Ask(**connection, kMethodHello, head, deadline_ns, out);
}

namespace {

std::vector<std::string> Addresses(std::string_view text) {
  std::vector<std::string> found;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) found.push_back(WithScheme(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

// The folder of a socket's path, "grpc:///folder/" of "grpc:///folder/name"; empty for what is no path, or leads
// elsewhere.
std::string_view FolderOf(std::string_view address) {
  const size_t begin = address.find(":///");
  if (begin == std::string_view::npos || address.find("/..") != std::string_view::npos) return {};
  return address.substr(0, address.rfind('/') + 1);
}

}  // namespace

Status Master::CheckGiven(const Task& task) const {
  if (options_.credentials.empty()) return Status::Ok();
  const std::string address = WithScheme(task.address());
  for (const std::string& given : given_)
    if (given == address || (!FolderOf(given).empty() && FolderOf(given) == FolderOf(address))) return Status::Ok();
  return Status(
      Code::kPermissionDenied,
      StrCat("the task at ", given_[0], " says that task ", task.name(), " is at ", address,
             ", which was not given: the credentials are not shown there. Give it too, separated by a comma (--master ",
             given_[0], ",", address, "), or the whole cluster (--cluster FILE)"));
}

Status Master::GreetAny(uint64_t deadline_ns, HelloReply* out) {
  Status first;
  for (const std::string& address : given_) {
    const uint64_t left = deadline_ns - std::min(NowNs(), deadline_ns);
    Status status = Greet(address, &address == &given_.back() ? deadline_ns : NowNs() + left / 2, out);
    if (status.ok()) return status;
    if (first.ok()) first = std::move(status).Annotate(StrCat("the cluster of ", address));
  }
  return first;
}

Status Master::ReadFilters() {
  std::string_view text = options_.session.device_filters;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    if (end > 0) {
      auto filter = place::DeviceName::Parse(text.substr(0, end));
      if (!filter.ok()) return std::move(filter).status().Annotate("the session option 'device_filters'");
      filters_.push_back(*std::move(filter));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Status::Ok();
}

// Of a task's name, whether any of its devices may be.
bool Master::IsVisible(const place::DeviceName& name, bool whole_task) const {
  return filters_.empty() || std::any_of(filters_.begin(), filters_.end(), [&](place::DeviceName filter) {
    if (whole_task) {
      filter.type.reset();
      filter.id.reset();
    }
    return filter.Matches(name);
  });
}

Status Master::AddDevices(const HelloReply& hello) {
  for (const DeviceInfo& device : hello.devices()) {
    TENON_ASSIGN_OR_RETURN(const place::DeviceName name, place::DeviceName::Parse(device.name()));
    if (IsVisible(name, /*whole_task=*/false)) devices_.push_back(DeviceFrom(device));
  }
  return Status::Ok();
}

Status Master::Open(size_t task, uint64_t deadline_ns, const HelloReply& hello) {
  TaskState& state = tasks_[task];
  if (hello.task() != state.task.name())
    return FailedPrecondition(StrCat("it says that it is ", hello.task(), "; do all tasks have the same cluster?"));
  state.incarnation = hello.incarnation();
  TENON_RETURN_IF_ERROR(AddDevices(hello));
  TENON_ASSIGN_OR_RETURN(state.connection, network_->Connect(state.task.address(), deadline_ns));
  const Owner owner = Owner::Of(options_.session.owner);
  OpenSession head;
  head.set_session(session_);
  head.set_incarnation(state.incarnation);
  head.set_isolate(options_.session.isolate);
  head.set_owner(owner.name);
  head.set_owner_secret(owner.secret);
  for (const session::CarriedOption& option : session::Carried(options_.session)) {
    SessionOption* const added = head.add_options();
    added->set_name(std::string(option.name));
    added->set_number(option.number);
    added->set_text(std::string(option.text));
  }
  head.set_lease_ns(options_.lease_ns);
  head.set_silence_ns(options_.silence_ns);
  TENON_RETURN_IF_ERROR(Ask(*state.connection, kMethodOpen, head, deadline_ns));
  state.heard_ns = NowNs();
  return Status::Ok();
}

Status Master::Join(uint64_t deadline_ns) {
  HelloReply first;
  TENON_RETURN_IF_ERROR(ReadFilters());
  TENON_RETURN_IF_ERROR(GreetAny(deadline_ns, &first));
  std::string known;
  for (const Task& task : first.tasks()) {
    known += StrCat(known.empty() ? "" : ", ", task.name());
    const auto name = place::DeviceName::Parse(task.name());
    if (name.ok() && IsVisible(*name, /*whole_task=*/true)) tasks_.emplace_back().task = task;
  }
  if (tasks_.empty())
    return NotFound(StrCat("the session option 'device_filters' is ", options_.session.device_filters,
                           ", which leaves no task of the cluster of ", given_[0], "; it has: ", known));
  for (size_t i = 0; i < tasks_.size(); ++i) {
    HelloReply hello;
    TENON_RETURN_IF_ERROR(CheckGiven(tasks_[i].task));
    Status status = Greet(tasks_[i].task.address(), deadline_ns, &hello);
    if (status.ok()) status = Open(i, deadline_ns, hello);
    if (!status.ok()) return std::move(status).Annotate(Where(i));
  }
  if (devices_.empty())
    return FailedPrecondition(StrCat("the cluster of ", given_[0], " has no device",
                                     filters_.empty() ? "" : " that the session option 'device_filters' leaves"));
  return Status::Ok();
}

Result<std::shared_ptr<Master>> Master::Connect(Network::Finder finder, MasterOptions options) {
  std::shared_ptr<Master> master(new Master(std::move(options)));
  master->session_ = RandomNumber();
  master->given_ = Addresses(master->options_.address);
  if (master->given_.empty()) return InvalidArgument("the cluster's address is empty");
  // A master serves nothing.
  master->network_ = std::make_unique<Network>(std::move(finder), Handlers(), master->options_.credentials);
  TENON_RETURN_IF_ERROR(master->Join(NowNs() + master->options_.connect_ns));
  master->watch_ = std::thread([self = master.get()] { self->Watch(); });
  return master;
}

TaskReport Master::Report(size_t task) const {
  const TaskState& state = tasks_[task];
  const std::lock_guard lock(mutex_);
  return {&state.task, NowNs() - state.heard_ns, state.said};
}

Status Master::lost(size_t task) const {
  const std::lock_guard lock(mutex_);
  return tasks_[task].lost;
}

void Master::Heard(size_t task) {
  const std::lock_guard lock(mutex_);
  tasks_[task].heard_ns = NowNs();
}

void Master::Lose(size_t task, Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (!tasks_[task].lost.ok() || stop_) return;
    tasks_[task].lost = Status(Code::kUnavailable, StrCat(Where(task), ": ", why.message(),
                                                          "; its state may be gone, so begin a new session"));
  }
  tasks_[task].gone->Cancel(lost(task));
}

// All that wait for it ask for themselves, since their patience differs.
Status Master::Settle(const Unsettled& left, Cancellation* cancellation, uint64_t deadline_ns) {
  StepRequest head;
  head.set_session(session_);
  head.set_part(left.part);
  head.set_step(left.step);
  Cancellation* const gone = tasks_[left.task].gone.get();
  Cancellation ended;
  const auto end = [&ended](const Status& why) { ended.Cancel(why); };
  Subscription given_up, lost(gone, end);
  if (cancellation != nullptr) given_up.Begin(cancellation, end);
  Status status = Ask(*tasks_[left.task].connection, kMethodSettle, head, deadline_ns, nullptr, &ended);
  return status.ok() ? std::move(status)
                     : std::move(status).Annotate(
                           StrCat(Where(left.task), ": whether step ", left.step, ", which was given up, is over"));
}

Status Master::SettleEarlier(const StepState& state, Cancellation* cancellation, uint64_t deadline_ns) {
  if (!any_unsettled_ || Planted(Bug::kGivenUpGoesOn)) return Status::Ok();
  std::vector<Unsettled> shared;
  {
    const std::lock_guard lock(settling_);
    // At a lost task nothing is done that a step of this session could meet.
    std::erase_if(unsettled_, [this](const Unsettled& left) { return !lost(left.task).ok(); });
    for (const Unsettled& left : unsettled_)
      if (state.Shares(*left.state, left.task)) shared.push_back(left);
    any_unsettled_ = !unsettled_.empty();
  }
  for (const Unsettled& left : shared) {
    TENON_RETURN_IF_ERROR(Settle(left, cancellation, deadline_ns));
    const std::lock_guard lock(settling_);
    std::erase(unsettled_, left);
    any_unsettled_ = !unsettled_.empty();
  }
  return Status::Ok();
}

Result<int64_t> Master::ResetContainers(const std::vector<std::string_view>& containers) {
  // What was given up may write still.
  if (!Planted(Bug::kResetNotSettled))
    TENON_RETURN_IF_ERROR(SettleEarlier(StepState::Everything(), nullptr, NowNs() + options_.silence_ns));
  ResetRequest head;
  head.set_session(session_);
  for (const std::string_view container : containers) head.add_containers(std::string(container));
  int64_t dropped = 0;
  Status first;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    ResetReply reply;
    if (Planted(Bug::kResetForgetsATask) && i + 1 == tasks_.size()) break;
    if (Planted(Bug::kResetAskedTwice))
      (void)Ask(*tasks_[i].connection, kMethodReset, head, NowNs() + options_.connect_ns, &reply).ok();
    Status status = lost(i);
    if (status.ok())
      status =
          Ask(*tasks_[i].connection, kMethodReset, head, NowNs() + options_.connect_ns, &reply, tasks_[i].gone.get());
    if (status.ok()) dropped += static_cast<int64_t>(reply.dropped());
    else if (first.ok()) first = std::move(status).Annotate(Where(i));
  }
  if (!first.ok() && !Planted(Bug::kResetFailureIgnored)) return first;
  return dropped;
}

void Master::Drop(const std::map<size_t, DropParts>& of_tasks) {
  for (const auto& [task, parts] : of_tasks) {
    if (!lost(task).ok()) continue;
    DropParts head = parts;
    head.set_session(session_);
    auto packet = std::make_shared<OutPacket>();
    packet->Finish(head);
    (void)tasks_[task].connection->Call(kMethodDrop, packet->pieces(), NowNs() + options_.silence_ns,
                                        [packet](const Status&, tenon_span) {});
  }
}

void Master::TakeLosses(size_t task, uint64_t known, const PingReply& answer) {
  uint64_t number = answer.losses_count() - static_cast<uint64_t>(answer.losses_size());
  for (const Loss& loss : answer.losses()) {
    if (number++ < known) continue;
    const auto peer = std::find_if(tasks_.begin(), tasks_.end(), [&](const TaskState& state) {
      return WithScheme(state.task.address()) == WithScheme(loss.peer());
    });
    // Between two tasks, of both of which it has a part; all of whom that is not known.
    const auto concerns = [&](uint64_t step, const ClusterRun& run) {
      if (loss.step() != 0) return loss.step() == step;
      return peer == tasks_.end() || (run.Uses(task) && run.Uses(static_cast<size_t>(peer - tasks_.begin())));
    };
    const std::lock_guard lock(runs_mutex_);
    for (const auto& [step, run] : runs_)
      if (concerns(step, *run)) run->GiveUp(LossOf(loss));
  }
}

void Master::Ping(size_t task) {
  SessionRequest head;
  head.set_session(session_);
  auto packet = std::make_shared<OutPacket>();
  TaskState& state = tasks_[task];
  {
    const std::lock_guard lock(mutex_);
    head.set_losses_known(state.losses);
  }
  packet->Finish(head);
  state.connection->Call(kMethodPing, packet->pieces(), NowNs() + options_.silence_ns,
                         [this, task, packet](Status status, tenon_span response) {
                           PingReply answer;
                           if (status.ok()) status = InPacket::Parse(response, &answer).status();
                           TaskState& asked = tasks_[task];
                           Status lost;
                           if (status.ok() && answer.incarnation() != asked.incarnation)
                             lost = Status(Code::kUnavailable, "it has been started again");
                           else if (!status.ok() && status.code() != Code::kDeadlineExceeded) lost = std::move(status);
                           if (!lost.ok()) Lose(task, std::move(lost));
                           else if (status.ok()) TakeLosses(task, asked.losses, answer);
                           const std::lock_guard lock(mutex_);
                           if (status.ok()) {
                             asked.heard_ns = NowNs();
                             asked.losses = std::max(asked.losses, answer.losses_count());
                             asked.said = answer;
                           }
                           asked.pinging = false;
                           --open_pings_;
                           changed_.notify_all();
                         });
}

// No answer can be said to be missing for as long as this process itself stood still: on a busy machine that takes
// seconds.
void Master::Watch() {
  std::unique_lock lock(mutex_);
  uint64_t looked_ns = NowNs();
  while (!stop_) {
    const uint64_t now = NowNs();
    const uint64_t late_ns = now - std::min(now, looked_ns + 2 * options_.ping_ns);
    looked_ns = now;
    for (size_t i = 0; i < tasks_.size() && !stop_; ++i) {
      TaskState& state = tasks_[i];
      if (!state.lost.ok()) continue;
      state.heard_ns += late_ns;
      if (now > state.heard_ns + options_.silence_ns && !Planted(Bug::kSilenceIgnored)) {
        lock.unlock();
        Lose(i, Status(Code::kUnavailable, StrCat("it has not answered for ", options_.silence_ns / 1'000'000, " ms")));
        lock.lock();
      } else if (!std::exchange(state.pinging, true)) {
        ++open_pings_;
        lock.unlock();
        Ping(i);
        lock.lock();
      }
    }
    changed_.wait_for(lock, std::chrono::nanoseconds(options_.ping_ns), [this] { return stop_; });
  }
}

Master::~Master() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (watch_.joinable()) watch_.join();
  SessionRequest head;
  head.set_session(session_);
  // A task that does not answer has its lease.
  for (const TaskState& state : tasks_)
    if (state.connection != nullptr && !state.connection->lost() && state.lost.ok())
      (void)Ask(*state.connection, kMethodClose, head, NowNs() + 2'000'000'000).ok();
  for (TaskState& state : tasks_) state.connection.reset();
  if (network_ != nullptr) network_->Stop();
}

}  // namespace tenon::cluster
