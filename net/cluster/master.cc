// SPDX-License-Identifier: Apache-2.0
#include "net/cluster/master.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"
#include "core/base/json_escape.h"
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/runnable.h"
#include "core/graph/graphdef/convert.h"
#include "core/graph/op_def.h"
#include "core/graph/shape_inference.h"
#include "core/partition/partition.h"
#include "core/place/device_name.h"
#include "core/trace/trace.h"
#include "net/cluster/clock_difference.h"
#include "net/cluster/planted.h"
#include "net/cluster/protocol.h"
#include "net/cluster/secret.h"

namespace tenon::cluster {

namespace {

Status LossOf(const Loss& loss) { return Status(static_cast<Code>(std::clamp<uint32_t>(loss.code(), TENON_CANCELLED, TENON_UNAUTHENTICATED)), loss.text()); }

// Whether values of the part come back to it through other parts.
bool InCircle(const IdVector<partition::ChannelId, partition::Channel>& channels, int32_t part) {
  std::set<int32_t> reached;
  std::vector<int32_t> open{part};
  while (!open.empty()) {
    const int32_t from = open.back();
    open.pop_back();
    for (const partition::Channel& channel : channels)
      if (channel.from == from && reached.insert(channel.to).second) open.push_back(channel.to);
  }
  return reached.contains(part);
}

}  // namespace

// ---- A plan: one part a task ----

class ClusterPlan : public exec::Runnable, public std::enable_shared_from_this<ClusterPlan> {
 public:
  struct Part {
    size_t task = 0;
    uint32_t number = 0;
    std::vector<int32_t> feed_numbers, fetch_numbers, channels;  // channels: that it receives
    std::shared_ptr<const StepState> state;
  };
  ClusterPlan(Master* master, graph::Graph graph, const exec::Environment& env) : master_(master), graph_(std::move(graph)), env_(env) {}
  // Nothing of it runs any more: who runs it holds it.
  ~ClusterPlan() override {
    (void)Guarded([this] {
      std::map<size_t, DropParts> of_tasks;
      for (const Part& part : parts_) of_tasks[part.task].add_parts(part.number);
      master_->Drop(of_tasks);
    });
  }

  Status Make(std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches, std::vector<graph::NodeId> targets,
              const exec::PlanOptions& options);
  std::unique_ptr<exec::Run> NewRun() override;
  std::string Explain() const override;
  bool gives_own_buffers() const override { return true; }
  exec::TracedGraph traced() const override { return {&graph_, &order_, &feeds_, &crossings_}; }

  Master* master() const { return master_; }
  const std::vector<Part>& parts() const { return parts_; }
  const StepState& state() const { return state_; }
  size_t fetch_count() const { return fetch_count_; }
  exec::ChannelShapes& shapes() { return *shapes_; }

 private:
  bool HasOwnArithmetic(const graph::Node& node) const {
    return std::any_of(master_->devices_.begin(), master_->devices_.end(),
                       [&](const exec::Device& device) { return device.name == node.device && !device.synchronous; });
  }
  void FindAsked(const partition::Partitioned& parted, const std::vector<graph::NodeId>& order);
  Status Register(partition::Part* part, const partition::Partitioned& all, const std::vector<uint32_t>& numbers,
                  const exec::PlanOptions& options);
  size_t TaskOf(const std::string& name) const {
    const auto at = std::find_if(master_->tasks_.begin(), master_->tasks_.end(), [&](const auto& each) { return each.task.name() == name; });
    return static_cast<size_t>(at - master_->tasks_.begin());
  }

  Master* const master_;
  graph::Graph graph_;
  const exec::Environment env_;
  std::unique_ptr<exec::ChannelShapes> shapes_;
  std::vector<Part> parts_;
  StepState state_;  // of all parts
  std::map<int32_t, uint64_t> asked_;  // channels whose receivers ask for them (asked_values.h), and their bytes
  size_t fetch_count_ = 0;
  // What traces are read by.
  std::vector<graph::NodeId> order_;
  std::vector<graph::Edge> feeds_;
  std::vector<exec::TaskCrossing> crossings_;
};

// ---- One step ----

class ClusterRun : public exec::Run {
 public:
  explicit ClusterRun(std::shared_ptr<ClusterPlan> plan)
      : plan_(std::move(plan)), fetches_(plan_->fetch_count()), views_(plan_->fetch_count()), losses_(plan_->parts().size()) {}

  Status Go(exec::Step* step, const tenon_tensor_view* const* feeds) override;
  const tenon_tensor_view& fetch(size_t i) const override { return views_[i]; }
  void Finish() override {
    for (Tensor& tensor : fetches_) tensor = Tensor();
  }
  // Cancels what is still open; the first reason is the step's answer.
  void GiveUp(Status why);

 private:
  struct Open {
    OutPacket packet;
    uint64_t call = 0, called_ns = 0;
    bool done = false;
    bool answered = false;  // by the task itself
  };
  void NoteUnsettled(uint64_t number);
  void Start(size_t part, uint64_t number, const tenon_tensor_view* const* feeds);
  void Done(size_t part, Status status, tenon_span response);
  Status Take(size_t part, tenon_span response);
  void TakeTrace(size_t part, const RunReply& reply);
  // Until all parts have answered; then the master forgets the step.
  void Await(uint64_t number);
  Master& master() const { return *plan_->master(); }

  const std::shared_ptr<ClusterPlan> plan_;
  std::shared_ptr<const exec::ChannelShapes::Known> shapes_;
  std::vector<Tensor> fetches_;
  std::vector<tenon_tensor_view> views_;
  trace::Trace* trace_ = nullptr;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Open>> open_;
  std::vector<Subscription> losses_;  // of the parts' tasks
  size_t running_ = 0;
  bool given_up_ = false, repeated_ = false;  // repeated: a planted bug's
  Status first_;
};

void ClusterRun::Start(size_t index, uint64_t number, const tenon_tensor_view* const* feeds) {
  const ClusterPlan::Part& part = plan_->parts()[index];
  Open& open = *open_[index];
  RunPart head;
  head.set_session(master().session_);
  head.set_part(part.number);
  head.set_step(number);
  head.set_trace(trace_ != nullptr);
  open.called_ns = trace::Trace::Now();
  Status status;
  for (int32_t feed : part.feed_numbers)
    if (status.ok()) status = open.packet.Add(*feeds[feed], head.add_feeds());
  for (int32_t channel : part.channels) {
    const Shape& shape = shapes_->channels[partition::ChannelId(channel)];
    if (!shape.known_rank()) continue;
    ChannelShape* out = head.add_shapes();
    out->set_channel(channel);
    out->set_known_rank(true);
    for (int64_t dim : shape.dims()) out->add_dims(dim);
  }
  if (!status.ok()) return Done(index, std::move(status), {nullptr, 0});
  open.packet.Finish(head);
  const std::shared_ptr<Connection>& connection = master().tasks_[part.task].connection;
  const uint64_t call = connection->Call(kMethodRun, open.packet.pieces(), 0,
                                         [this, index](Status answer, tenon_span response) { Done(index, std::move(answer), response); });
  bool late = false;
  {
    const std::lock_guard lock(mutex_);
    open.call = call;
    late = given_up_ && !open.done;
  }
  if (late) connection->Cancel(call);
}

void ClusterRun::Done(size_t index, Status status, tenon_span response) {
  // A call that is cancelled or lost ends here, whatever its task does.
  open_[index]->answered = status.code() != Code::kCancelled && status.code() != Code::kUnavailable && status.code() != Code::kDeadlineExceeded;
  if (open_[index]->answered) master().Heard(plan_->parts()[index].task);
  // Who waits for the answer must hear of what is thrown too.
  status = Guarded([&] {
    if (status.ok()) status = Take(index, response);
    return status.ok() ? Status::Ok() : std::move(status).Annotate(master().Where(plan_->parts()[index].task));
  });
  if (!status.ok()) GiveUp(std::move(status));
  const std::lock_guard lock(mutex_);
  open_[index]->done = true;
  if (--running_ == 0) changed_.notify_all();
}

Status ClusterRun::Take(size_t index, tenon_span response) {
  const ClusterPlan::Part& part = plan_->parts()[index];
  RunReply head;
  TENON_ASSIGN_OR_RETURN(InPacket packet, InPacket::Parse(response, &head));
  if (static_cast<size_t>(head.fetches_size()) != part.fetch_numbers.size())
    return Internal(StrCat("it answered ", head.fetches_size(), " fetches instead of ", part.fetch_numbers.size()));
  for (size_t i = 0; i < part.fetch_numbers.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const tenon_tensor_view view, packet.Next(head.fetches(static_cast<int>(i))));
    const auto fetch = static_cast<size_t>(part.fetch_numbers[i]);
    TENON_ASSIGN_OR_RETURN(fetches_[fetch], Tensor::CopyOf(GlobalPool(), view));
  }
  if (trace_ != nullptr) TakeTrace(index, head);
  return Status::Ok();
}

// A worker's spans, by this process's clock.
void ClusterRun::TakeTrace(size_t index, const RunReply& reply) {
  const int64_t ahead = ClockAheadNs(open_[index]->called_ns, reply.came_ns(), reply.answered_ns(), trace::Trace::Now());
  const auto here = [ahead](uint64_t ns) { return static_cast<uint64_t>(std::max<int64_t>(0, static_cast<int64_t>(ns) - ahead)); };
  const std::string& task = master().tasks_[plan_->parts()[index].task].task.name();
  for (const TraceSpan& span : reply.spans())
    trace_->AddOn({StrCat(task, span.group()), span.group().empty() ? StrCat("thread ", span.line()) : span.line()}, span.name(), span.category(),
                  here(span.begin_ns()), here(span.end_ns()), span.detail());
}

void ClusterRun::GiveUp(Status why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(given_up_, true)) return;
    first_ = std::move(why);
    if (Planted(Bug::kPartsGoOn)) return;
  }
  for (size_t i = 0; i < open_.size(); ++i) {
    uint64_t call = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!open_[i]->done) call = open_[i]->call;  // what has none yet sees that the step was given up
    }
    if (call != 0) master().tasks_[plan_->parts()[i].task].connection->Cancel(call);
  }
}

void ClusterRun::Await(uint64_t number) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }
  const std::lock_guard lock(master().runs_mutex_);
  master().runs_.erase(number);
}

void ClusterRun::NoteUnsettled(uint64_t number) {
  const std::lock_guard lock(master().settling_);
  for (size_t i = 0; i < open_.size(); ++i) {
    const ClusterPlan::Part& part = plan_->parts()[i];
    // What has no state is met by nobody.
    if (!open_[i]->answered && !part.state->empty()) master().unsettled_.push_back({part.task, part.number, number, part.state});
  }
  master().any_unsettled_ = !master().unsettled_.empty();
}

Status ClusterRun::Go(exec::Step* step, const tenon_tensor_view* const* feeds) {
  for (const ClusterPlan::Part& part : plan_->parts()) TENON_RETURN_IF_ERROR(master().lost(part.task));
  TENON_RETURN_IF_ERROR(master().SettleEarlier(plan_->state(), step->cancellation));
  shapes_ = plan_->shapes().For(feeds, shapes_);
  const size_t count = plan_->parts().size();
  trace_ = step->trace;
  given_up_ = false;
  first_ = Status::Ok();
  open_.clear();
  for (size_t i = 0; i < count; ++i) open_.push_back(std::make_unique<Open>());
  running_ = count;
  const uint64_t number = master().next_step_.fetch_add(1);
  const uint64_t begin = trace::Trace::Now();
  {
    const std::lock_guard lock(master().runs_mutex_);
    master().runs_.emplace(number, this);
  }
  for (size_t i = 0; i < count; ++i) {
    // What is thrown is so before the call is made.
    if (Status thrown = Guarded([&] { Start(i, number, feeds); }); !thrown.ok()) Done(i, std::move(thrown), {nullptr, 0});
  }
  const auto give_up = [this](const Status& why) { GiveUp(why); };
  Subscription cancelled(step->cancellation, give_up);
  for (size_t i = 0; i < count; ++i) losses_[i].Begin(master().tasks_[plan_->parts()[i].task].gone.get(), give_up);
  Await(number);
  cancelled.End();
  for (Subscription& loss : losses_) loss.End();
  if (step->trace != nullptr) step->trace->Add(StrCat("step ", number), "cluster", begin, trace::Trace::Now());
  if (given_up_) NoteUnsettled(number);
  if (given_up_ && Planted(Bug::kStepRepeated) && !std::exchange(repeated_, true)) return Go(step, feeds);
  if (given_up_) return std::move(first_);
  for (size_t i = 0; i < fetches_.size(); ++i) views_[i] = fetches_[i].view();
  return Status::Ok();
}

// ---- Making a plan ----

std::unique_ptr<exec::Run> ClusterPlan::NewRun() { return std::make_unique<ClusterRun>(shared_from_this()); }

std::string ClusterPlan::Explain() const {
  std::string out = "[";
  for (const graph::NodeId id : graph_.ids()) {
    const graph::Node& node = graph_.node(id);
    out += StrCat(id == graph::NodeId(0) ? "\n" : ",\n", "{\"name\":\"", JsonEscape(node.name), "\",\"op\":\"", JsonEscape(node.op->name), "\",\"device\":\"",
                  JsonEscape(node.device), "\",\"runs\":\"remote\"}");
  }
  return out + "\n]\n";
}

Status ClusterPlan::Make(std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches,
                         std::vector<graph::NodeId> targets, const exec::PlanOptions& options) {
  fetch_count_ = fetches.size();
  partition::PartitionRequest request;
  request.graph = &graph_;
  TENON_ASSIGN_OR_RETURN(request.order, graph_.TopologicalOrder());
  request.feeds = feeds;
  request.fetches = std::move(fetches);
  request.targets = std::move(targets);
  request.default_device = master_->devices_[0].name;
  request.part_of = [](const std::string& device) { return std::string(place::TaskOf(device)); };
  TENON_ASSIGN_OR_RETURN(partition::Partitioned parted, partition::Partition(request));
  std::vector<uint32_t> numbers;
  order_ = request.order;
  feeds_ = feeds;
  for (const partition::Channel& channel : parted.channels) {
    if (channel.value.index < 0) continue;
    const partition::Part &from = parted.parts[static_cast<size_t>(channel.from)], &to = parted.parts[static_cast<size_t>(channel.to)];
    crossings_.push_back({from.graph.node(channel.send).name, to.graph.node(channel.recv).name, from.device, to.device, channel.value});
  }
  if (!options.early_transfers && parted.parts.size() > 1) FindAsked(parted, request.order);
  IdVector<partition::ChannelId, graph::Edge> values;
  for (size_t i = 0; i < parted.parts.size(); ++i) numbers.push_back(master_->next_part_.fetch_add(1));
  for (const partition::Channel& channel : parted.channels) values.push_back(channel.value);
  shapes_ = std::make_unique<exec::ChannelShapes>(exec::ChannelShapes::Question{
      &graph_, &env_, std::move(request.order), std::move(feeds), std::move(values), options.fold,
      [this](const graph::Node& node) { return HasOwnArithmetic(node); }});
  for (size_t i = 0; i < parted.parts.size(); ++i) {
    const size_t task = TaskOf(parted.parts[i].device);
    if (task == master_->tasks_.size()) return NotFound(StrCat("the cluster has no task ", parted.parts[i].device));
    Part& part = parts_.emplace_back();
    part.task = task;
    part.number = numbers[i];
    part.feed_numbers = parted.parts[i].feed_numbers;
    part.fetch_numbers = parted.parts[i].fetch_numbers;
    part.state = std::make_shared<const StepState>(StepState::Of(parted.parts[i].graph));
    state_.Add(*part.state, task);
    for (const partition::ChannelId channel : parted.channels.ids())
      if (parted.channels[channel].to == static_cast<int32_t>(i)) part.channels.push_back(channel.number());
  }
  for (size_t i = 0; i < parted.parts.size(); ++i) TENON_RETURN_IF_ERROR(Register(&parted.parts[i], parted, numbers, options));
  return Status::Ok();
}

// What a task gets of large values is asked for where it is more than the window. Inside of loops a channel has a value in each turn, and sizes may be unknown
// without the feeds: those come as they are made. A feed may be of another size than the graph says; then the window is of other bytes, and nothing else.
void ClusterPlan::FindAsked(const partition::Partitioned& parted, const std::vector<graph::NodeId>& order) {
  const uint64_t window = master_->ReceiveWindow(), large = std::max<uint64_t>(window / 64, 1);
  graph::ShapeInference inference(&graph_);
  if (!inference.Run(order).ok()) return;  // in a branch that is not taken, maybe
  std::vector<std::map<int32_t, uint64_t>> of_part(parted.parts.size());
  for (const partition::ChannelId id : parted.channels.ids()) {
    const partition::Channel& channel = parted.channels[id];
    if (channel.value.index < 0 || channel.depth > 0) continue;
    const DType type = graph_.node(channel.value.node).output_types[static_cast<size_t>(channel.value.index)];
    const Shape& shape = inference.facts(channel.value).shape;
    const auto bytes = IsPlain(type) && shape.fully_known() ? ByteSize(type, shape) : Result<int64_t>(0);
    if (bytes.ok() && static_cast<uint64_t>(*bytes) >= large) of_part[static_cast<size_t>(channel.to)].emplace(id.number(), *bytes);
  }
  for (const auto& values : of_part) {
    uint64_t all = 0;
    for (const auto& [channel, bytes] : values) all += bytes;
    if (all > window) asked_.insert(values.begin(), values.end());
  }
}

Status ClusterPlan::Register(partition::Part* part, const partition::Partitioned& all,
                             const std::vector<uint32_t>& numbers, const exec::PlanOptions& options) {
  const auto index = static_cast<size_t>(part - all.parts.data());
  graph::Graph& graph = part->graph;
  for (const graph::NodeId id : graph.ids())
    if (!part->origins[id] || part->repeats[id]) graph.mutable_node(id).device.clear();
  RegisterPart head;
  head.set_session(master_->session_);
  head.set_part(numbers[index]);
  TENON_ASSIGN_OR_RETURN(*head.mutable_graph(), graph::ExportGraphDef(graph));
  // A GraphDef has its nodes in topological order, and their ids follow it when it is read.
  TENON_ASSIGN_OR_RETURN(const std::vector<graph::NodeId> order, graph.TopologicalOrder());
  graph::NodeMap<int32_t> id_of(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const graph::NodeId node = order[i];
    id_of[node] = static_cast<int32_t>(i);
    head.add_node_channels(part->channels[node].number());
    head.add_nodes_may_be_dead(part->may_be_dead[node]);
  }
  for (size_t i = 0; i < all.parts.size(); ++i) {
    *head.add_tasks() = master_->tasks_[parts_[i].task].task;
    head.mutable_tasks(static_cast<int>(i))->set_incarnation(master_->tasks_[parts_[i].task].incarnation);
    head.add_parts(numbers[i]);
  }
  for (const partition::Channel& channel : all.channels) {
    Channel* out = head.add_channels();
    out->set_name(channel.name);
    out->set_may_be_dead(channel.may_be_dead);
    out->set_to(channel.to == static_cast<int32_t>(index) ? -1 : channel.to);
    out->set_from(channel.from);
  }
  for (const auto& [channel, bytes] : asked_) head.mutable_channels(channel)->set_asked_bytes(bytes);
  head.set_receive_window(master_->ReceiveWindow());
  const auto add = [&](const graph::Edge& edge, Edge* out) {
    out->set_node(id_of[edge.node]);
    out->set_index(edge.index);
  };
  for (const graph::Edge& edge : part->feeds) add(edge, head.add_feeds());
  for (const graph::Edge& edge : part->fetches) add(edge, head.add_fetches());
  for (graph::NodeId target : part->targets) head.add_targets(id_of[target]);
  head.set_transfer_precision(static_cast<uint32_t>(options.transfer_precision));
  head.set_in_circle(InCircle(all.channels, static_cast<int32_t>(index)));
  const size_t task = parts_[index].task;
  TENON_RETURN_IF_ERROR(master_->lost(task));
  Status status = Ask(*master_->tasks_[task].connection, kMethodPart, head, NowNs() + 60'000'000'000, nullptr, master_->tasks_[task].gone.get());
  if (Status lost = master_->lost(task); !status.ok() && !lost.ok()) return lost;
  return status.ok() ? std::move(status) : std::move(status).Annotate(master_->Where(task));
}

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

// The folder of a socket's path, "grpc:///folder/" of "grpc:///folder/name"; empty for what is no path, or leads elsewhere.
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
  return Status(Code::kPermissionDenied, StrCat("the task at ", given_[0], " says that task ", task.name(), " is at ", address,
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
  if (hello.task() != state.task.name()) return FailedPrecondition(StrCat("it says that it is ", hello.task(), "; do all tasks have the same cluster?"));
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
    return NotFound(StrCat("the session option 'device_filters' is ", options_.session.device_filters, ", which leaves no task of the cluster of ", given_[0], "; it has: ", known));
  for (size_t i = 0; i < tasks_.size(); ++i) {
    HelloReply hello;
    TENON_RETURN_IF_ERROR(CheckGiven(tasks_[i].task));
    Status status = Greet(tasks_[i].task.address(), deadline_ns, &hello);
    if (status.ok()) status = Open(i, deadline_ns, hello);
    if (!status.ok()) return std::move(status).Annotate(Where(i));
  }
  if (devices_.empty())
    return FailedPrecondition(StrCat("the cluster of ", given_[0], " has no device", filters_.empty() ? "" : " that the session option 'device_filters' leaves"));
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
    tasks_[task].lost = Status(Code::kUnavailable, StrCat(Where(task), ": ", why.message(), "; its state may be gone, so begin a new session"));
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
  return status.ok() ? std::move(status) : std::move(status).Annotate(StrCat(Where(left.task), ": whether step ", left.step, ", which was given up, is over"));
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
  if (!Planted(Bug::kResetNotSettled)) TENON_RETURN_IF_ERROR(SettleEarlier(StepState::Everything(), nullptr, NowNs() + options_.silence_ns));
  ResetRequest head;
  head.set_session(session_);
  for (const std::string_view container : containers) head.add_containers(std::string(container));
  int64_t dropped = 0;
  Status first;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    ResetReply reply;
    if (Planted(Bug::kResetForgetsATask) && i + 1 == tasks_.size()) break;
    if (Planted(Bug::kResetAskedTwice)) (void)Ask(*tasks_[i].connection, kMethodReset, head, NowNs() + options_.connect_ns, &reply).ok();
    Status status = lost(i);
    if (status.ok()) status = Ask(*tasks_[i].connection, kMethodReset, head, NowNs() + options_.connect_ns, &reply, tasks_[i].gone.get());
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
    (void)tasks_[task].connection->Call(kMethodDrop, packet->pieces(), NowNs() + options_.silence_ns, [packet](const Status&, tenon_span) {});
  }
}

void Master::TakeLosses(uint64_t known, const PingReply& answer) {
  uint64_t number = answer.losses_count() - static_cast<uint64_t>(answer.losses_size());
  for (const Loss& loss : answer.losses()) {
    if (number++ < known) continue;
    const std::lock_guard lock(runs_mutex_);
    for (const auto& [step, run] : runs_)
      if (loss.step() == 0 || loss.step() == step) run->GiveUp(LossOf(loss));
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
  state.connection->Call(kMethodPing, packet->pieces(), NowNs() + options_.silence_ns, [this, task, packet](Status status, tenon_span response) {
    PingReply answer;
    if (status.ok()) status = InPacket::Parse(response, &answer).status();
    TaskState& asked = tasks_[task];
    Status lost;
    if (status.ok() && answer.incarnation() != asked.incarnation) lost = Status(Code::kUnavailable, "it has been started again");
    else if (!status.ok() && status.code() != Code::kDeadlineExceeded) lost = std::move(status);
    if (!lost.ok()) Lose(task, std::move(lost));
    else if (status.ok()) TakeLosses(asked.losses, answer);
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

// No answer can be said to be missing for as long as this process itself stood still: on a busy machine that takes seconds.
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
