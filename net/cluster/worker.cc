// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/worker.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/graph/graphdef/convert.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"
#include "net/cluster/secret.h"

namespace tenon::cluster {
namespace {

constexpr uint64_t kConnectNs = 5'000'000'000;
// Of each part; what comes for older ones that do not run is late too.
constexpr size_t kStepsRemembered = 4096;
constexpr auto kWatchPeriod = std::chrono::milliseconds(250);
// A step that lasts longer has its peers asked whether they live.
constexpr uint64_t kLastsNs = 500'000'000;
// Of processor time: about what waking a thread takes. A program that did the same work in less, kQuickRuns times in a row, runs where the
// last of what it needs has come, until a run has kept that thread for kTooLongNs.
constexpr uint64_t kQuickNs = 20'000;
constexpr uint32_t kQuickRuns = 4;
constexpr uint64_t kTooLongNs = 1'000'000;
// Steps whose values come before their master's message: of a session, and by way of one connection.
constexpr size_t kMostEarlySteps = 1024, kMostEarlyOfPeer = 4096;
// For an owner's earlier sessions to end.
constexpr auto kOwnerPatience = std::chrono::seconds(5);
// What was cancelled at the end of the patience is waited for so long.
constexpr auto kLastGrace = std::chrono::seconds(2);

template <typename Head>
void GiveHead(const Reply& reply, const Head& head) {
  OutPacket packet;
  packet.Finish(head);
  reply.Give(packet.pieces());
}

}  // namespace

struct Worker::Part {
  uint32_t number = 0;
  std::vector<std::string> names;  // of channels
  std::vector<int32_t> to;         // by channel: of `tasks`; -1: here
  std::vector<Task> tasks;
  std::vector<uint32_t> parts;     // of each of `tasks`
  std::map<std::string, Task> peers;  // that it sends values to, or gets them from; by address
  std::vector<size_t> peer_numbers;  // of each of `tasks`, as metrics number them
  std::vector<int32_t> from;       // by channel: of `tasks`
  std::vector<int32_t> receives;   // channels, in the order of the callable's receives
  std::shared_ptr<session::Callable> callable;
  bool runs_through = false;         // its steps wait for nobody once all that it receives is there
  std::set<std::string> targets;     // addresses, with their schemes, of those it sends values to
  struct Quick {
    uint64_t program = 0;  // by its serial
    uint32_t runs = 0;     // in a row, up to kQuickRuns
  };
  mutable Quick quick;  // the worker's mutex guards it

  void Took(uint64_t program, bool quickly) const {
    if (program != quick.program) quick = {program, 0};
    quick.runs = quickly ? std::min(quick.runs + 1, kQuickRuns) : 0;
  }
};

// What the master asks of a part: feeds and shapes of what will come.
struct Worker::Order {
  RunPart head;
  InPacket packet;
  Reply reply;
  std::deque<std::vector<int64_t>> dims;
  std::vector<tenon_tensor_view> views;
  std::vector<const tenon_tensor_view*> pointers;
  Status status;         // whether it could be read
  uint64_t program = 0;  // that will run it, when it is known and does the same work each time
  bool here = false;     // on the transport's thread

  Status Read(const Part& part);
};

struct Worker::Session {
  uint64_t id = 0;
  std::string owner, owner_secret;
  tenon_peer* master = nullptr;
  uint64_t lease_ns = 0, heard_ns = 0;
  std::shared_ptr<session::Session> session;
  std::map<uint32_t, std::shared_ptr<const Part>> parts;
  std::map<std::pair<uint32_t, uint64_t>, std::shared_ptr<Step>> steps;  // by part and step
  std::map<uint32_t, std::set<uint64_t>> over;                           // steps of each part that have ended, the latest
  std::vector<Loss> losses;         // that the master may not know of
  uint64_t losses_before = 0;       // that it knows
  size_t early_steps = 0;
  bool ended = false;

  void Note(const Status& why, uint64_t step) {
    Loss& loss = losses.emplace_back();
    loss.set_code(static_cast<uint32_t>(why.code()));
    loss.set_text(std::string(why.message()));
    loss.set_step(step);
  }
  void End(uint32_t part, uint64_t step) {
    std::set<uint64_t>& ended = over[part];
    ended.insert(step);
    if (ended.size() > kStepsRemembered) ended.erase(ended.begin());
  }
  bool IsOver(uint32_t part, uint64_t step) const {
    const auto at = over.find(part);
    if (at == over.end() || steps.contains({part, step}) || Planted(Bug::kEndedStepComesBack)) return false;
    return at->second.contains(step) || (at->second.size() >= kStepsRemembered && step < *at->second.begin());
  }
};

// A step of a part: where its values meet, and what cancels it. What is for another task goes there.
class Worker::Step : public exec::Rendezvous, public std::enable_shared_from_this<Step> {
 public:
  Step(Worker* worker, std::shared_ptr<Session> owner, std::shared_ptr<const Part> of, uint64_t id)
      : Rendezvous(GlobalPool(), &of->names), session(std::move(owner)), part(std::move(of)), number(id), worker_(worker) {}

  Status Send(const exec::RendezvousKey& key, exec::Message message) override;
  // A value did not reach another task.
  void Lost(Status why);
  // A value that came from another task; the step may run in this call.
  Status Take(const exec::RendezvousKey& key, exec::Message message);
  // Calls `run` when all values are there, on the thread that brings the last; cancelled before, in the background.
  void RunWhenReady(std::function<void()> run);

  const std::shared_ptr<Session> session;
  const std::shared_ptr<const Part> part;
  const uint64_t number;
  Cancellation cancellation;
  bool started() const { return started_ns != 0; }
  uint64_t started_ns = 0;  // 0: values have come, the master's message has not
  std::vector<Reply> settles;  // to be given when it is over; the worker's mutex guards it
  tenon_peer* early_of = nullptr;  // who sent its first value, until it begins; the worker's mutex guards it

 private:
  // The run, when it is time for it and nobody has taken it.
  std::function<void()> TakeRun(bool ready);

  Worker* const worker_;
  std::mutex run_mutex_;
  size_t came_ = 0;  // values
  std::function<void()> run_;
  Subscription given_up_;
};

// A value that is on its way here.
struct Worker::Arrival {
  std::shared_ptr<Step> step;  // nullptr: it is over, and did not need the value
  exec::RendezvousKey key;
  Tensor value;          // none: dead
  uint64_t bytes = 0;
  size_t peer = 0;  // who sent it
  uint64_t message_bytes = 0;
};

// ---- Values ----

Status Worker::Step::Send(const exec::RendezvousKey& key, exec::Message message) {
  const int32_t to = key.channel < 0 || static_cast<size_t>(key.channel) >= part->to.size() ? -1 : part->to[static_cast<size_t>(key.channel)];
  if (to < 0) return Rendezvous::Send(key, std::move(message));
  const Task& task = part->tasks[static_cast<size_t>(to)];
  const auto where = [&task] { return StrCat("to task ", task.name(), " at ", task.address()); };
  auto connection = worker_->network_->Connect(task.address(), NowNs() + kConnectNs);
  if (!connection.ok()) return std::move(connection).status().Annotate(StrCat(Describe(key), " ", where()));
  TENON_ASSIGN_OR_RETURN(const std::string name, EncodeKey({session->id, number, part->parts[static_cast<size_t>(to)], key}));
  DataHead head;
  tenon_span bytes{nullptr, 0};
  if (!message.dead()) {
    head.dtype = message.view().dtype;
    head.shape = ShapeOf(message.view());
    bytes = {static_cast<const char*>(DataOf(message.view())), message.view().byte_size};
    if (head.dtype == TENON_DT_STRING) {
      // Cells and bytes side by side.
      TENON_ASSIGN_OR_RETURN(Tensor compact, Tensor::CopyOf(pool(), message.view()));
      bytes = {static_cast<const char*>(compact.data()), message.view().byte_size + StringBytes(message.view())};
      tenon_tensor_view view = compact.view();
      Retain(view.buffer);
      view.dl.shape = view.buffer->dims;
      message = exec::Message(view);
    } else if (!IsPlain(head.dtype)) {
      return InvalidArgument(StrCat(Describe(key), " ", where(), ": a value of ", TypeName(head.dtype), " cannot leave its process"));
    }
  }
  auto kept = std::make_shared<exec::Message>(std::move(message));
  const std::string encoded = EncodeHead(head);
  Status sent = (*connection)->Send(name, encoded, bytes, [self = shared_from_this(), kept, &task](Status status) {
    if (!status.ok()) self->Lost(std::move(status).Annotate(StrCat("to task ", task.name(), " at ", task.address())));
  });
  if (!sent.ok()) return std::move(sent).Annotate(StrCat(Describe(key), " ", where()));
  worker_->metrics_.SentValue(part->peer_numbers[static_cast<size_t>(to)], name.size() + encoded.size() + bytes.size);
  return sent;
}

Status Worker::Step::Take(const exec::RendezvousKey& key, exec::Message message) {
  TENON_RETURN_IF_ERROR(Rendezvous::Send(key, std::move(message)));
  std::function<void()> run;
  {
    const std::lock_guard lock(run_mutex_);
    run = TakeRun(++came_ >= part->receives.size());
  }
  if (run) run();
  return Status::Ok();
}

std::function<void()> Worker::Step::TakeRun(bool ready) { return ready ? std::exchange(run_, nullptr) : nullptr; }

void Worker::Step::RunWhenReady(std::function<void()> given) {
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
    if (late) worker_->Later(std::move(late));
  };
  given_up_.Begin(&cancellation, give_up);
}

void Worker::Step::Lost(Status why) {
  // This part may be over, and its receiver waits. Of connections that are lost the master is told anyway.
  if (why.code() != Code::kUnavailable && why.code() != Code::kCancelled) {
    const std::lock_guard lock(worker_->mutex_);
    session->Note(Status(why).Annotate(StrCat("task ", worker_->options_.task)), number);
  }
  cancellation.Cancel(std::move(why));
}

// As metrics number it; by the channel, which says nothing when there is no such part any more.
size_t Worker::SenderOf(const Session& session, const DataKey& key) const {
  const auto part = session.parts.find(key.part);
  if (part == session.parts.end() || key.key.channel < 0 || static_cast<size_t>(key.key.channel) >= part->second->from.size()) return metrics_.PeerOf("");
  return part->second->peer_numbers[static_cast<size_t>(part->second->from[static_cast<size_t>(key.key.channel)])];
}

Status Worker::Place(tenon_peer* peer, tenon_span key_bytes, tenon_span head_bytes, uint64_t bytes, tenon_bytes* out_memory, void** out_token) {
  TENON_ASSIGN_OR_RETURN(DataKey key, DecodeKey(key_bytes));
  TENON_ASSIGN_OR_RETURN(const DataHead head, DecodeHead(head_bytes));
  auto arrival = std::make_unique<Arrival>();
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(session, Find(key.session));
    if (Planted(Bug::kStepNumberIgnored))
      for (const auto& [at, step] : session->steps)
        if (at.first == key.part) key.step = at.second;
    arrival->peer = SenderOf(*session, key);
    // A part may end before all that was sent to it is there: what a branch that was not taken did not need.
    const bool forget = Planted(Bug::kEarlyValueDropped) && !session->steps.contains({key.part, key.step});
    if (!session->IsOver(key.part, key.step) && !forget) {
      TENON_ASSIGN_OR_RETURN(arrival->step, EarlyStepOf(session, key.part, key.step, peer));
    }
  }
  if (arrival->step != nullptr) {
    const std::vector<int32_t>& receives = arrival->step->part->receives;
    if (std::find(receives.begin(), receives.end(), key.key.channel) == receives.end())
      return InvalidArgument(StrCat("channel ", key.key.channel, " is none that part ", key.part, " receives"));
  }
  arrival->key = key.key;
  arrival->bytes = bytes;
  arrival->message_bytes = key_bytes.size + head_bytes.size + bytes;
  *out_memory = {nullptr, 0};
  if (Status status = MakeRoom(*session, head, bytes, arrival.get()); !status.ok()) {
    // The sender's part may have ended, and whoever waits for the value would wait on.
    if (arrival->step != nullptr) arrival->step->cancellation.Cancel(Status(status).Annotate(StrCat("a value from task ", metrics_.NameOf(arrival->peer))));
    return status;
  }
  if (arrival->value.has_value()) *out_memory = {arrival->value.data(), bytes};
  *out_token = arrival.release();
  return Status::Ok();
}

Status Worker::MakeRoom(const Session& session, const DataHead& head, uint64_t bytes, Arrival* arrival) {
  if (head.dtype == TENON_DT_INVALID) return bytes == 0 ? Status::Ok() : InvalidArgument("a dead value comes with bytes");
  TENON_ASSIGN_OR_RETURN(const int64_t elements, ByteSize(head.dtype, head.shape));
  const auto cells = static_cast<uint64_t>(elements);
  if (bytes < cells || (head.dtype != TENON_DT_STRING && bytes != cells)) return InvalidArgument(StrCat("a value of ", cells, " bytes comes with ", bytes));
  TENON_ASSIGN_OR_RETURN(arrival->value, Tensor::Allocate(session.session->pool(), head.dtype, head.shape, bytes - cells));
  return Status::Ok();
}

void Worker::Placed(Arrival* given, Status status) {
  const std::unique_ptr<Arrival> arrival(given);
  if (status.ok()) metrics_.ReceivedValue(arrival->peer, arrival->message_bytes);
  if (arrival->step == nullptr) return;
  exec::Message message;
  if (status.ok() && arrival->value.has_value()) {
    tenon_tensor_view view = arrival->value.view();
    if (view.dtype == TENON_DT_STRING) status = CheckStrings(view.dl.data, arrival->value.num_elements(), arrival->bytes);
    Retain(view.buffer);
    view.dl.shape = view.buffer->dims;
    message = exec::Message(view);
  }
  if (status.ok()) status = arrival->step->Take(arrival->key, std::move(message));
  if (!status.ok()) arrival->step->cancellation.Cancel(std::move(status));
}

// ---- Calls ----

void Worker::OnCall(tenon_peer* peer, const tenon_incoming& call, Reply given) {
  const std::string_view method = View(call.method);
  const Reply reply = metrics_.Called(method, call.request.size, given);
  if (method == kMethodOpen || method == kMethodPart) {
    // They take their time, which a callback has not.
    Later([this, peer, request = call.request, reply, open = method == kMethodOpen] {
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
    return FailedPrecondition(StrCat("the master (", asked.version(), ") speaks protocol ", asked.protocol(), ", this worker ", kProtocol,
                                     "; let both be of one version"));
  HelloReply answer;
  answer.set_protocol(kProtocol);
  answer.set_incarnation(incarnation_);
  answer.set_task(options_.task);
  for (const Task& task : options_.tasks) *answer.add_tasks() = task;
  for (const exec::Device& device : runtime_->devices())
    if (device.handle != nullptr) Describe(device, answer.add_devices());
  GiveHead(reply, answer);
  return Status::Ok();
}

Result<std::shared_ptr<Worker::Session>> Worker::Find(uint64_t id) {
  if (const auto at = sessions_.find(id); at != sessions_.end()) return at->second;
  return NotFound(StrCat("task ", options_.task, " has no session ", id, "; it was closed, or the task has been started again"));
}

Status Worker::EndOf(const std::string& owner, const std::string& secret) {
  std::vector<std::shared_ptr<Session>> earlier;
  const auto is_own = [&](const auto& session) { return session->owner == owner && SameSecret(session->owner_secret, secret); };
  std::unique_lock lock(mutex_);
  for (const auto& [id, session] : sessions_)
    if (is_own(session)) earlier.push_back(session);
  lock.unlock();
  for (const auto& session : earlier)
    Later([this, session, why = Status(Code::kCancelled, StrCat("another session of '", owner, "' has begun"))] { End(session, why); });
  earlier.clear();
  lock.lock();
  // One whose process has died ends as soon as its connection is seen to be gone.
  const auto none = [&] {
    const auto of_it = [&](const auto& session) { return session->owner == owner; };
    return std::none_of(sessions_.begin(), sessions_.end(), [&](const auto& each) { return of_it(each.second); }) &&
           std::none_of(ending_.begin(), ending_.end(), of_it);
  };
  if (changed_.wait_for(lock, kOwnerPatience, none)) return Status::Ok();
  const bool stranger = std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& each) { return each.second->owner == owner && !is_own(each.second); });
  if (stranger)
    return Status(Code::kAborted, StrCat("task ", options_.task, " has a session of '", owner, "' that was opened with another secret than this one gives; it ends when its ",
                                         "master closes it, is gone, or is silent for its lease"));
  return Status(Code::kDeadlineExceeded, StrCat("the steps of an earlier session of '", owner, "' at task ", options_.task, " have not ended: ", BusyLocked()));
}

Status Worker::Open(tenon_peer* peer, tenon_span request, Reply reply) {
  OpenSession asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  session::SessionOptions options;
  for (const SessionOption& option : asked.options())
    TENON_RETURN_IF_ERROR(session::SetCarried({option.name(), option.number(), option.text()}, &options).Annotate("task ", options_.task));
  if (!asked.owner().empty() && !Planted(Bug::kOwnerIgnored)) TENON_RETURN_IF_ERROR(EndOf(asked.owner(), asked.owner_secret()));
  if (asked.incarnation() != incarnation_) return Status(Code::kAborted, StrCat("task ", options_.task, " has been started again since it was greeted"));
  std::string given;
  for (const session::CarriedOption& option : session::Carried(options))
    given += StrCat(given.empty() ? ", with " : ", ", option.name, " = ", option.text.empty() ? StrCat(option.number) : std::string(option.text));
  if (!asked.isolate()) options.unnamed = &unnamed_;
  options.budget = [this](const exec::Device& device) { return BudgetOf(device); };
  auto session = std::make_shared<Session>();
  TENON_ASSIGN_OR_RETURN(session->session, session::Session::Create(runtime_, std::move(options)));
  session->id = asked.session();
  session->owner = asked.owner();
  session->owner_secret = asked.owner_secret();
  session->master = peer;
  session->lease_ns = asked.lease_ns();
  session->heard_ns = NowNs();
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return Status(Code::kUnavailable, StrCat("task ", options_.task, " is stopping"));
    if (sessions_.size() >= options_.max_sessions)
      return ResourceExhausted(StrCat("task ", options_.task, " has ", sessions_.size(), " sessions, as many as it may; close one, or raise --max-sessions"));
    if (!sessions_.emplace(session->id, session).second) return AlreadyExists(StrCat("session ", session->id, " is open at task ", options_.task));
  }
  metrics_.SessionOpened();
  LogOf(session->id, TENON_LOG_INFO, StrCat("opened", given));
  GiveHead(reply, PingReply());
  return Status::Ok();
}

// Shows that a part is being registered, for as long as it lives.
class Worker::Planning {
 public:
  Planning(Worker* worker, uint64_t session, uint32_t part) : worker_(worker) {
    const std::lock_guard lock(worker_->mutex_);
    at_ = worker_->planning_.emplace(session, part);
  }
  ~Planning() {
    const std::lock_guard lock(worker_->mutex_);
    worker_->planning_.erase(at_);
  }
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

 private:
  Worker* const worker_;
  std::multiset<std::pair<uint64_t, uint32_t>>::iterator at_;
};

// Values, and the token that proves this task, go to the tasks that its own cluster names.
Status Worker::CheckOwn(const Task& task) const {
  for (const Task& own : options_.tasks)
    if (own.name() == task.name() && WithScheme(own.address()) == WithScheme(task.address())) return Status::Ok();
  return Status(Code::kPermissionDenied, StrCat("the cluster of task ", options_.task, " has no task ", task.name(), " at ", task.address(),
                                                "; start all tasks with the same cluster"));
}

Status Worker::Register(tenon_span request, Reply reply) {
  RegisterPart asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(session, Find(asked.session()));
  }
  for (const Task& task : asked.tasks()) TENON_RETURN_IF_ERROR(CheckOwn(task));
  const Planning planning(this, asked.session(), asked.part());
  graph::Graph graph(&runtime_->ops());
  TENON_RETURN_IF_ERROR(graph::ImportGraphDef(asked.graph(), &graph, graph::Unknown::kRefuse, graph::Of::kPart));
  const auto count = static_cast<size_t>(graph.size());
  if (static_cast<size_t>(asked.node_channels_size()) != count || static_cast<size_t>(asked.nodes_may_be_dead_size()) != count ||
      asked.tasks_size() != asked.parts_size())
    return InvalidArgument("the lists of a part do not fit its graph");
  auto part = std::make_shared<Part>();
  auto info = std::make_shared<exec::PartInfo>();
  part->number = asked.part();
  for (int32_t channel : asked.node_channels()) {
    if (channel >= asked.channels_size()) return InvalidArgument(StrCat("a node names channel ", channel, " of ", asked.channels_size()));
    info->channels.push_back(std::max(channel, -1));
  }
  for (bool dead : asked.nodes_may_be_dead()) info->nodes_may_be_dead.push_back(dead);
  for (const Channel& channel : asked.channels()) {
    if (channel.to() >= asked.tasks_size()) return InvalidArgument(StrCat("channel '", channel.name(), "' goes to no task"));
    if (channel.from() < 0 || channel.from() >= asked.tasks_size()) return InvalidArgument(StrCat("channel '", channel.name(), "' comes from no task"));
    info->may_be_dead.push_back(channel.may_be_dead());
    part->names.push_back(channel.name());
    part->to.push_back(channel.to());
    part->from.push_back(channel.from());
    for (int32_t end : {channel.from(), channel.to()})
      if (end >= 0 && (channel.to() < 0 || asked.tasks(channel.from()).name() == options_.task) && asked.tasks(end).name() != options_.task)
        part->peers.emplace(asked.tasks(end).address(), asked.tasks(end));
    if (channel.to() >= 0 && asked.tasks(channel.from()).name() == options_.task) part->targets.insert(WithScheme(asked.tasks(channel.to()).address()));
  }
  info->precision = static_cast<exec::TransferPrecision>(std::min<uint32_t>(asked.transfer_precision(), 2));
  part->tasks.assign(asked.tasks().begin(), asked.tasks().end());
  part->parts.assign(asked.parts().begin(), asked.parts().end());
  for (const Task& task : part->tasks) part->peer_numbers.push_back(metrics_.PeerOf(task.name()));
  const auto edges = [&](const auto& from, std::vector<graph::Edge>* out) -> Status {
    for (const Edge& edge : from) {
      if (edge.node() < 0 || edge.node() >= graph.size() || edge.index() < 0 ||
          static_cast<size_t>(edge.index()) >= graph.node(edge.node()).output_types.size())
        return InvalidArgument(StrCat("a part names output ", edge.index(), " of node ", edge.node()));
      out->push_back({edge.node(), edge.index()});
    }
    return Status::Ok();
  };
  std::vector<graph::Edge> feeds, fetches;
  TENON_RETURN_IF_ERROR(edges(asked.feeds(), &feeds));
  TENON_RETURN_IF_ERROR(edges(asked.fetches(), &fetches));
  for (int32_t target : asked.targets())
    if (target < 0 || target >= graph.size()) return InvalidArgument(StrCat("a part has the target ", target));
  const std::vector<int32_t> channels = info->channels;
  TENON_ASSIGN_OR_RETURN(part->callable, session->session->PreparePart(std::move(graph), std::move(feeds), std::move(fetches),
                                                                       {asked.targets().begin(), asked.targets().end()}, std::move(info)));
  for (int32_t node : part->callable->plan()->receives()) part->receives.push_back(channels[static_cast<size_t>(node)]);
  part->runs_through = !asked.in_circle() && part->callable->plan()->RunsThrough();
  for (const auto& [address, peer] : part->peers) TENON_RETURN_IF_ERROR(peers_->Verify(peer));
  {
    const std::lock_guard lock(mutex_);
    if (!session->parts.emplace(part->number, std::move(part)).second) return AlreadyExists(StrCat("part ", asked.part(), " is registered"));
  }
  GiveHead(reply, PingReply());
  return Status::Ok();
}

Result<std::shared_ptr<Worker::Step>> Worker::StepOf(const std::shared_ptr<Session>& session, uint32_t part, uint64_t step) {
  const auto at = session->parts.find(part);
  if (at == session->parts.end()) return NotFound(StrCat("session ", session->id, " has no part ", part, " at task ", options_.task));
  if (session->ended) return Status(Code::kCancelled, "the session has ended");
  if (session->IsOver(part, step)) return FailedPrecondition(StrCat("step ", step, " of part ", part, " is over"));
  const auto known = session->steps.find({part, step});
  if (known != session->steps.end()) return known->second;
  auto made = std::make_shared<Step>(this, session, at->second, step);
  session->steps.emplace(std::make_pair(part, step), made);
  return made;
}

Result<std::shared_ptr<Worker::Step>> Worker::EarlyStepOf(const std::shared_ptr<Session>& session, uint32_t part, uint64_t step, tenon_peer* sender) {
  const bool is_new = !session->steps.contains({part, step});
  const auto brought = early_.find(sender);
  const size_t of_sender = brought == early_.end() ? 0 : brought->second;
  if (is_new && (session->early_steps >= kMostEarlySteps || of_sender >= kMostEarlyOfPeer))
    return ResourceExhausted(StrCat("values came for ", session->early_steps, " steps of session ", session->id, " that its master has not begun at task ",
                                    options_.task, ", and by way of one connection for ", of_sender, "; there may be ", kMostEarlySteps, " and ", kMostEarlyOfPeer));
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Step> found, StepOf(session, part, step));
  if (is_new) {
    ++early_[sender];
    ++session->early_steps;
    found->early_of = sender;
  }
  return found;
}

void Worker::NoLongerEarly(Step* step) {
  tenon_peer* const sender = std::exchange(step->early_of, nullptr);
  if (sender == nullptr) return;
  --step->session->early_steps;
  const auto at = early_.find(sender);
  if (at != early_.end() && --at->second == 0) early_.erase(at);
}

Status Worker::Order::Read(const Part& part) {
  if (static_cast<size_t>(head.feeds_size()) != part.callable->feed_count())
    return InvalidArgument(StrCat("part ", part.number, " takes ", part.callable->feed_count(), " feeds, ", head.feeds_size(), " came"));
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

Status Worker::Run(tenon_span request, Reply reply) {
  auto order = std::make_shared<Order>();
  order->reply = reply;
  TENON_ASSIGN_OR_RETURN(order->packet, InPacket::Parse(request, &order->head));
  const RunPart& head = order->head;
  std::shared_ptr<Step> step;
  Part::Quick quick;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(head.session()));
    TENON_ASSIGN_OR_RETURN(step, StepOf(session, head.part(), head.step()));
    if (step->started()) return AlreadyExists(StrCat("step ", head.step(), " of part ", head.part(), " runs already"));
    session->heard_ns = step->started_ns = NowNs();
    NoLongerEarly(step.get());
    running_.emplace(reply.reply, step);
    ++queued_;
    if (coming_[reply.reply]) step->cancellation.Cancel(Status(Code::kCancelled, "the master gave the step up"));
    quick = step->part->quick;
  }
  const Part& part = *step->part;
  std::function<void()> run;
  const Status read = Guarded([&] {
    run = [this, step, order] { RunStep(step, order.get()); };
    order->status = order->Read(part);
    if (order->status.ok() && part.runs_through) order->program = part.callable->FixedProgram(order->pointers.data());
    // A connection that must be made first takes its time, which a callback has not.
    order->here = order->program != 0 && order->program == quick.program && quick.runs == kQuickRuns && network_->Has(part.targets);
  });
  if (!read.ok()) {  // the step has begun; it ends as others do
    order->status = read;
    order->here = false;
    RunStep(step, order.get());
  } else if (order->here) {
    step->RunWhenReady(std::move(run));
  } else {
    Later(std::move(run));
  }
  return Status::Ok();
}

Status Worker::Compute(Step* step, Order* order, OutPacket* out, std::vector<Tensor>* fetches, RunReply* answer) {
  TENON_RETURN_IF_ERROR(order->status);
  trace::Trace trace;
  session::RunOptions options;
  options.cancellation = &step->cancellation;
  options.rendezvous = step;
  if (order->head.trace()) options.trace = &trace;
  TENON_RETURN_IF_ERROR(step->part->callable->Run(options, order->pointers.data(), fetches));
  for (const Tensor& fetch : *fetches) TENON_RETURN_IF_ERROR(out->Add(fetch.view(), answer->add_fetches()));
  trace.ForEach([answer](const trace::Trace::Event& event) {
    TraceSpan* span = answer->add_spans();
    span->set_group(std::string(event.group));
    span->set_line(std::string(event.line));
    span->set_name(std::string(event.name));
    span->set_category(std::string(event.category));
    span->set_detail(std::string(event.detail));
    span->set_begin_ns(event.begin_ns);
    span->set_end_ns(event.end_ns);
  });
  return Status::Ok();
}

void Worker::RunStep(const std::shared_ptr<Step>& step, Order* order) {
  const LogScope scope({options_.task, step->session->id, step->number});
  const Part& part = *step->part;
  const Reply& reply = order->reply;
  --queued_;
  // Both stay until they are sent.
  std::shared_ptr<OutPacket> out;
  std::shared_ptr<std::vector<Tensor>> fetches;
  RunReply answer;
  answer.set_came_ns(step->started_ns);
  const uint64_t began = order->here ? NowNs() : ThreadCpuNs();
  Status status = Guarded([&] {
    out = std::make_shared<OutPacket>();
    fetches = std::make_shared<std::vector<Tensor>>();
    return Compute(step.get(), order, out.get(), fetches.get(), &answer);
  });
  const bool quickly = order->here ? NowNs() - began < kTooLongNs : ThreadCpuNs() - began < kQuickNs;
  {
    const std::lock_guard lock(mutex_);
    running_.erase(reply.reply);
    part.Took(order->program, quickly);
  }
  Status told = Guarded([&] {
    EndStep(step.get());
    metrics_.StepEnded(status);
    answer.set_answered_ns(trace::Trace::Now());
    if (status.ok()) out->Finish(answer);
  });
  if (status.ok()) status = std::move(told);
  if (!status.ok()) {
    Log(status.code() == Code::kCancelled ? TENON_LOG_INFO : TENON_LOG_WARNING, status.message());
    return reply.Fail(std::move(status));
  }
  reply.Give(out->pieces(), [out, fetches] {});
}

void Worker::EndStep(Step* step) {
  std::shared_ptr<Step> ended;
  std::vector<Reply> settles;
  {
    const std::lock_guard lock(mutex_);
    settles.swap(step->settles);
    const auto at = step->session->steps.find({step->part->number, step->number});
    if (at != step->session->steps.end()) {
      ended = std::move(at->second);
      step->session->steps.erase(at);
    }
    step->session->End(step->part->number, step->number);
  }
  for (const Reply& reply : settles) GiveHead(reply, PingReply());
}

Status Worker::Ping(tenon_span request, Reply reply) {
  SessionRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  PingReply answer;
  if (asked.session() != 0) {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(asked.session()));
    session->heard_ns = NowNs();
    std::vector<Loss>& losses = session->losses;
    const uint64_t known = std::min<uint64_t>(asked.losses_known() - std::min(asked.losses_known(), session->losses_before), losses.size());
    losses.erase(losses.begin(), losses.begin() + static_cast<std::ptrdiff_t>(known));
    session->losses_before += known;
    for (const Loss& loss : losses) *answer.add_losses() = loss;
    answer.set_losses_count(session->losses_before + losses.size());
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
  GiveHead(reply, answer);
  return Status::Ok();
}

Status Worker::Settle(tenon_span request, Reply reply) {
  StepRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  std::shared_ptr<Step> forgotten;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, Find(asked.session()));
    const auto at = session->steps.find({asked.part(), asked.step()});
    if (at != session->steps.end() && at->second->started()) {
      at->second->settles.push_back(reply);
      return Status::Ok();
    }
    if (at != session->steps.end()) {
      NoLongerEarly(at->second.get());
      forgotten = std::move(at->second);
      session->steps.erase(at);
    }
    session->End(asked.part(), asked.step());
  }
  GiveHead(reply, PingReply());
  return Status::Ok();
}

Status Worker::CloseSession(tenon_span request, Reply reply) {
  SessionRequest asked;
  TENON_RETURN_IF_ERROR(InPacket::Parse(request, &asked).status());
  std::shared_ptr<Session> session;
  {
    const std::lock_guard lock(mutex_);
    TENON_ASSIGN_OR_RETURN(session, Find(asked.session()));
  }
  // Waits for steps, which a callback may not.
  Later([this, session, reply] {
    End(session, Status(Code::kCancelled, "the master closed the session"));
    GiveHead(reply, PingReply());
  });
  return Status::Ok();
}

void Worker::OnCancelled(tenon_reply* reply) {
  const std::lock_guard lock(mutex_);
  if (const auto at = running_.find(reply); at != running_.end()) {
    // Outside of the lock it might be over; a cancellation calls what holds no lock of ours.
    const std::shared_ptr<Step> step = at->second;
    Later([step] { step->cancellation.Cancel(Status(Code::kCancelled, "the master gave the step up")); });
  } else if (const auto coming = coming_.find(reply); coming != coming_.end()) {
    coming->second = true;
  }
}

void Worker::Later(std::function<void()> work) {
  {
    const std::lock_guard lock(later_mutex_);
    ++later_;
  }
  const auto perform = [this](std::function<void()>& given) {
    const Status thrown = Guarded(given);
    if (!thrown.ok()) LogOf(0, TENON_LOG_ERROR, thrown.message());
    given = nullptr;  // what it holds (sessions, steps) goes before the count
    const std::lock_guard lock(later_mutex_);
    --later_;
    later_done_.notify_all();
  };
  std::shared_ptr<std::function<void()>> shared;
  // Steps wait for one another, and for a queue's elements; what lets them go on may be a later one.
  const Status scheduled = Guarded([&] {
    shared = std::make_shared<std::function<void()>>(std::move(work));
    return runtime_->threads().ScheduleWaiting([perform, shared] { perform(*shared); });
  });
  if (scheduled.ok()) return;
  // Then it is done here, while whoever called waits.
  LogOf(0, TENON_LOG_WARNING, scheduled.message());
  perform(shared == nullptr ? work : *shared);
}

void Worker::AwaitLater() {
  std::unique_lock lock(later_mutex_);
  later_done_.wait(lock, [this] { return later_ == 0; });
}

// ---- Sessions end ----

void Worker::End(const std::shared_ptr<Session>& session, const Status& why) {
  std::vector<std::shared_ptr<Step>> steps;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(session->ended, true)) return;
    sessions_.erase(session->id);
    ending_.insert(session);
    for (const auto& [key, step] : session->steps) steps.push_back(step);
  }
  LogOf(session->id, steps.empty() ? TENON_LOG_INFO : TENON_LOG_WARNING, StrCat("ends with ", steps.size(), " open steps: ", why.message()));
  for (const std::shared_ptr<Step>& step : steps) {
    step->cancellation.Cancel(why);
    step->Abort(why);
  }
  session->session->Close();
  const std::lock_guard lock(mutex_);
  for (const auto& [key, step] : session->steps) NoLongerEarly(step.get());
  session->steps.clear();
  session->parts.clear();
  ending_.erase(session);
  changed_.notify_all();
}

void Worker::OnLost(tenon_peer* peer) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, session] : sessions_) {
    if (session->master != peer) continue;
    Later([this, session = session] { End(session, Status(Code::kCancelled, "the session's master is gone")); });
  }
}

std::vector<std::shared_ptr<Worker::Session>> Worker::LateSessions(uint64_t now_ns) const {
  std::vector<std::shared_ptr<Session>> late;
  for (const auto& [id, session] : sessions_)
    if (session->lease_ns != 0 && !Planted(Bug::kLeaseIgnored) && now_ns > session->heard_ns + session->lease_ns) late.push_back(session);
  return late;
}

std::map<std::string, Task> Worker::BusyPeers(uint64_t now_ns) const {
  std::map<std::string, Task> busy;
  for (const auto& [reply, step] : running_)
    if (now_ns > step->started_ns + kLastsNs) busy.insert(step->part->peers.begin(), step->part->peers.end());
  return busy;
}

void Worker::LosePeer(const std::string& address, std::string_view why, bool noted) {
  std::vector<std::shared_ptr<Step>> steps;
  const auto known = std::find_if(options_.tasks.begin(), options_.tasks.end(), [&](const Task& task) { return WithScheme(task.address()) == WithScheme(address); });
  const Status status(Code::kUnavailable, StrCat("task ", known == options_.tasks.end() ? std::string() : known->name(), " at ", address, ": ", why));
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, session] : sessions_) {
      bool meant = false;
      for (const auto& [number, part] : session->parts) meant |= part->peers.contains(address);
      if (meant && noted && !Planted(Bug::kLossNotTold)) session->Note(status, 0);
      for (const auto& [key, step] : session->steps)
        if (step->part->peers.contains(address)) steps.push_back(step);
    }
  }
  for (const std::shared_ptr<Step>& step : steps) step->cancellation.Cancel(status);
}

void Worker::Watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kWatchPeriod);
    const uint64_t now = NowNs();
    const std::vector<std::shared_ptr<Session>> late = LateSessions(now);
    const std::map<std::string, Task> busy = BusyPeers(now);
    lock.unlock();
    for (const auto& session : late) End(session, Status(Code::kCancelled, "the session's master has not been heard of for its lease"));
    peers_->Look(busy, now);
    lock.lock();
  }
}

// ---- The worker ----

Worker::Worker(session::Runtime* runtime, WorkerOptions options)
    : runtime_(runtime), options_(std::move(options)), started_ns_(NowNs()), metrics_(options_.task, options_.tasks) {
  const auto choice = runtime_->ChooseDevices("");
  if (!choice.ok()) return;  // who opens a session is told
  for (const exec::Device* device : choice->devices)
    if (memories_.empty() || device->queues != nullptr)
      memories_.push_back({device->name, std::make_shared<MemoryBudget>(options_.memory_limit, StrCat("task ", options_.task))});
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

void Worker::CountSteps(WorkerState* out) const {
  std::vector<std::shared_ptr<Step>> steps;
  {
    const std::lock_guard lock(mutex_);
    out->sessions = sessions_.size();
    out->steps_queued = queued_;
    out->steps_running = running_.size() - queued_;
    for (const auto& [id, session] : sessions_)
      for (const auto& [key, step] : session->steps) {
        out->steps_expected += !step->started();
        steps.push_back(step);
      }
  }
  for (const auto& step : steps) out->values_waiting += step->waiting();
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

Result<std::unique_ptr<Worker>> Worker::Start(session::Runtime* runtime, Network::Finder finder, WorkerOptions options) {
  std::string own;
  for (const Task& task : options.tasks)
    if (task.name() == options.task) own = task.address();
  if (own.empty()) return InvalidArgument(StrCat("the cluster has no task ", options.task));
  std::unique_ptr<Worker> worker(new Worker(runtime, std::move(options)));
  Worker* self = worker.get();
  self->incarnation_ = RandomNumber();
  Handlers handlers;
  handlers.call = [self](tenon_peer* peer, const tenon_incoming& call, Reply reply) { self->OnCall(peer, call, reply); };
  handlers.cancelled = [self](tenon_reply* reply) { self->OnCancelled(reply); };
  handlers.place = [self](tenon_peer* peer, tenon_span key, tenon_span head, uint64_t bytes, tenon_bytes* memory, void** token) {
    return self->Place(peer, key, head, bytes, memory, token);
  };
  handlers.placed = [self](void* token, Status status) { self->Placed(static_cast<Arrival*>(token), std::move(status)); };
  handlers.lost = [self](tenon_peer* peer) { self->OnLost(peer); };
  handlers.connection_lost = [self](const std::string& address) {
    self->Later([self, address] {
      self->LosePeer(address, StrCat("the connection from task ", self->options_.task, " was lost, and maybe values with it"), /*noted=*/true);
    });
  };
  worker->network_ = std::make_unique<Network>(std::move(finder), std::move(handlers), worker->options_.credentials, worker->options_.max_message_bytes);
  worker->peers_ = std::make_unique<Peers>(
      worker->network_.get(), [self](std::function<void()> work) { self->Later(std::move(work)); },
      [self](const std::string& address, std::string_view why) { self->LosePeer(address, why, /*noted=*/false); });
  TENON_ASSIGN_OR_RETURN(worker->address_, worker->network_->Listen(worker->options_.listen.empty() ? own : worker->options_.listen));
  worker->watch_ = std::thread([self] { self->Watch(); });
  return worker;
}

std::string Worker::BusyLocked() const {
  std::string text;
  const auto add = [&](const std::string& more) { text += StrCat(text.empty() ? "" : ", ", more); };
  for (const auto& [reply, step] : running_) add(StrCat("step ", step->number, " of part ", step->part->number, " of session ", step->session->id));
  for (const auto& [session, part] : planning_) add(StrCat("the planning of part ", part, " of session ", session));
  if (text.empty() && !ending_.empty()) add(StrCat("session ", (*ending_.begin())->id));
  return text.empty() ? "work in the background" : text;
}

void Worker::Finish() {
  if (watch_.joinable()) watch_.join();
  std::vector<std::shared_ptr<Session>> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, session] : sessions_) open.push_back(session);
  }
  for (const auto& session : open) End(session, Status(Code::kUnavailable, StrCat("task ", options_.task, " is stopping")));
  open.clear();
  // Steps were cancelled, and answer now; what they still send ends with the network.
  AwaitLater();
  network_->Stop();
  AwaitLater();
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
  unnamed_.ClearAll();
}

}  // namespace tenon::cluster
