// SPDX-License-Identifier: Apache-2.0
#include "core/exec/parts/parted_plan.h"

#include <algorithm>

#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/plan/make_plan.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/graph.h"

namespace tenon::exec {

namespace {

// Those of these numbers; of none, none.
std::vector<int32_t> Of(const std::vector<int32_t>& all, const std::vector<int32_t>& numbers) {
  std::vector<int32_t> out;
  for (int32_t number : numbers)
    if (!all.empty()) out.push_back(all[number]);
  return out;
}

}  // namespace

// ---- The plan ----

Result<std::shared_ptr<PartedPlan>> PartedPlan::Create(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                       std::vector<graph::Edge> fetches,
                                                       std::vector<graph::NodeId> targets, const Environment& env,
                                                       KernelStore* store, Plan::Options options) {
  std::shared_ptr<PartedPlan> plan(new PartedPlan(std::move(graph), env));
  plan->feeds_ = std::move(feeds);
  partition::PartitionRequest request;
  request.graph = &plan->graph_;
  TENON_ASSIGN_OR_RETURN(request.order, plan->graph_.TopologicalOrder());
  request.feeds = plan->feeds_;
  request.fetches = std::move(fetches);
  request.targets = std::move(targets);
  request.default_device = env.devices[0].device->name;
  TENON_ASSIGN_OR_RETURN(partition::Partitioned parted, partition::Partition(request));
  TENON_RETURN_IF_ERROR(plan->MakeParts(std::move(parted), store, options));
  // A device's own arithmetic is not foretold by the host's.
  const PartedPlan* self = plan.get();
  plan->shapes_ = std::make_unique<ChannelShapes>(ChannelShapes::Question{
      &plan->graph_, &plan->env_, std::move(request.order), plan->feeds_, plan->values_, options.fold,
      [self](const graph::Node& node) { return self->env_.devices[self->DeviceOf(node.device)].queued(); }});
  return plan;
}

Status PartedPlan::MakeParts(partition::Partitioned parted, KernelStore* store, const Plan::Options& options) {
  IdVector<ChannelId, bool> may_be_dead;
  for (partition::Channel& channel : parted.channels) {
    may_be_dead.push_back(channel.may_be_dead);
    values_.push_back(channel.value);
    channel_names_.push_back(std::move(channel.name));
  }
  fetches_.resize(parted.fetches.size());
  for (partition::Part& part : parted.parts) {
    // What turns loops and what crosses lies on the host, whatever the part's device.
    for (const graph::NodeId id : part.graph.ids())
      if (!part.origins[id]) part.graph.mutable_node(id).device.clear();
    for (size_t i = 0; i < part.fetch_numbers.size(); ++i)
      fetches_[part.fetch_numbers[i]] = {static_cast<int32_t>(parts_.size()), static_cast<int32_t>(i)};
    Plan::Options own = options;
    const int32_t device = DeviceOf(part.device);
    if (options.times != nullptr) own.times = TimesOf(*options.times, part, device);
    own.feed_memories = Of(options.feed_memories, part.feed_numbers);
    own.fetch_memories = Of(options.fetch_memories, part.fetch_numbers);
    own.part = std::make_shared<const PartInfo>(PartInfo{
        std::move(part.channels), may_be_dead, std::move(part.may_be_dead), device, options.transfer_precision});
    auto plan = MakePlan(std::move(part.graph), std::move(part.feeds), std::move(part.fetches), std::move(part.targets),
                         env_, store, own);
    if (!plan.ok()) return std::move(plan).status().Annotate(StrCat("on ", part.device));
    Part& made = parts_.emplace_back(
        Part{std::move(part.device), std::make_shared<Bindings>(*plan), std::move(part.feed_numbers), {}});
    for (graph::NodeId id : (*plan)->receives()) made.channels.push_back((*plan)->ChannelOf(id));
  }
  return Status::Ok();
}

int32_t PartedPlan::DeviceOf(const std::string& name) const {
  const auto at = std::find_if(env_.devices.begin(), env_.devices.end(),
                               [&](const SessionDevice& each) { return each.device->name == name; });
  return at == env_.devices.end() ? 0 : at->index;
}

// What was predicted for the whole graph, by the part's own nodes.
std::shared_ptr<const StepTimes> PartedPlan::TimesOf(const StepTimes& whole, const partition::Part& part,
                                                     int32_t device) const {
  auto times = std::make_shared<StepTimes>();
  const int32_t memory = env_.devices[device].memory;
  const auto add = [&](graph::Edge own, graph::Edge value) {
    const auto at = whole.crossings.find({value, memory});
    if (at != whole.crossings.end()) times->crossings.emplace(std::make_pair(own, memory), at->second);
  };
  for (const graph::NodeId id : part.graph.ids()) {
    const graph::NodeId origin = part.origins[id];
    times->node_seconds.push_back(!origin ? 0 : whole.SecondsOf(origin));
    if (part.channels[id]) add({id, 0}, values_[part.channels[id]]);
    for (size_t k = 0; origin && k < part.graph.node(id).output_types.size(); ++k)
      add({id, static_cast<int32_t>(k)}, {origin, static_cast<int32_t>(k)});
  }
  for (size_t i = 0; i < part.feeds.size(); ++i) add(part.feeds[i], feeds_[part.feed_numbers[i]]);
  return times;
}

Runnable::Counts PartedPlan::counts() const {
  Counts sum;
  for (const Part& part : parts_) {
    const Counts own = part.bindings->counts();
    sum.bindings_built += own.bindings_built;
    sum.nodes_folded += own.nodes_folded;
  }
  return sum;
}

bool PartedPlan::DropIdle() {
  bool dropped = false;
  for (const Part& part : parts_) dropped = part.bindings->DropIdle() || dropped;
  return dropped;
}

std::unique_ptr<Run> PartedPlan::NewRun() { return std::make_unique<PartedRun>(this); }

std::string PartedPlan::Explain() const {
  std::string out = "[";
  for (const Part& part : parts_) {
    const std::string own = part.bindings->Explain();
    // The inside of each part's list.
    const size_t begin = own.find('[') + 1, end = own.rfind(']');
    std::string_view inside = std::string_view(own).substr(begin, end - begin);
    while (inside.ends_with('\n')) inside.remove_suffix(1);
    if (!inside.empty()) out += StrCat(out.size() == 1 ? "" : ",", inside);
  }
  return out + "\n]\n";
}

// ---- One step ----

PartedRun::Part::Part(const PartedPlan::Part& from_plan, PartedRun* owner)
    : from(from_plan), run(from_plan.bindings->NewRun()) {
  step.env = &from.bindings->plan()->env();
  step.rendezvous = &owner->rendezvous_;
}

PartedRun::PartedRun(PartedPlan* plan) : plan_(plan), rendezvous_(plan->env().pool, &plan->channel_names()) {
  for (const PartedPlan::Part& part : plan->parts()) parts_.push_back(std::make_unique<Part>(part, this));
  try {
    for (size_t i = 1; i < parts_.size(); ++i) parts_[i]->thread = std::thread([this, i] { Serve(i); });
  } catch (...) {  // the system gives no more
    EndThreads();
    throw;
  }
}

PartedRun::~PartedRun() { EndThreads(); }

void PartedRun::EndThreads() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (const auto& part : parts_)
    if (part->thread.joinable()) part->thread.join();
}

void PartedRun::Serve(size_t part) {
  uint64_t done = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || step_number_ != done; });
    if (stop_) return;
    done = step_number_;
    lock.unlock();
    RunPart(part);
    lock.lock();
    if (--running_ == 0) done_.notify_one();
  }
}

void PartedRun::RunPart(size_t index) {
  Part& part = *parts_[index];
  part.status = Guarded([&] { return part.run->Go(&part.step, part.feeds.data()); });
  if (!part.status.ok()) NoteFailure(index, part.status);
}

void PartedRun::NoteFailure(size_t index, const Status& status) {
  {
    std::lock_guard lock(mutex_);
    if (first_failed_ >= 0) return;
    first_failed_ = static_cast<int64_t>(index);
  }
  const Status reason = Status(status).Annotate("the part on ", parts_[index]->from.device);
  rendezvous_.Abort(reason);
  for (const auto& other : parts_)
    if (!other->cancellation->cancelled())
      other->cancellation->Cancel(Status::Of(Code::kCancelled, "another part of the step failed: ", reason.message()));
}

void PartedRun::Begin(Step* step, const tenon_tensor_view* const* feeds) {
  first_failed_ = -1;
  shapes_ = plan_->shapes().For(feeds, shapes_);
  for (size_t i = 0; i < parts_.size(); ++i) {
    Part& part = *parts_[i];
    part.feeds.clear();
    for (int32_t number : part.from.feed_numbers) part.feeds.push_back(feeds[number]);
    for (ChannelId channel : part.from.channels) part.feeds.push_back(&shapes_->views[channel]);
    if (part.cancellation == nullptr || part.cancellation->cancelled())
      part.cancellation = std::make_unique<Cancellation>();
    part.step.cancellation = part.cancellation.get();
    part.step.trace = step->trace;
    part.step.watcher = step->watcher;
    part.step.id = step->id;
    // A part that fails says so before it has come to its end.
    part.cancelled.Begin(part.cancellation.get(), [this, i](const Status& reason) { NoteFailure(i, reason); });
  }
}

Status PartedRun::Go(Step* step, const tenon_tensor_view* const* feeds) {
  if (Status thrown = Guarded([&] { Begin(step, feeds); }); !thrown.ok()) {  // no part has begun
    for (const auto& part : parts_) part->cancelled.End();
    return thrown;
  }
  Subscription outer(step->cancellation, [this](const Status& reason) {
    for (const auto& part : parts_) part->cancellation->Cancel(reason);
  });
  {
    std::lock_guard lock(mutex_);
    ++step_number_;
    running_ = parts_.size() - 1;
  }
  start_.notify_all();
  RunPart(0);
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
  }
  outer.End();
  return End(step);
}

Status PartedRun::End(Step* step) {
  for (const auto& part : parts_) {
    part->cancelled.End();
    step->host_waits += std::exchange(part->step.host_waits, 0);
    step->captured_launches += std::exchange(part->step.captured_launches, 0);
  }
  if (first_failed_ < 0) return Status::Ok();
  const size_t first = first_failed_;
  if (!parts_[first]->status.ok() && !step->cancellation->cancelled())
    return Status(parts_[first]->status).Annotate(StrCat("on ", parts_[first]->from.device));
  // Cancelled from outside: some parts may have come to their end before.
  for (const auto& part : parts_)
    if (!part->status.ok()) return part->status;
  return Status::Ok();
}

bool PartedRun::abandoned() const {
  return std::any_of(parts_.begin(), parts_.end(), [](const auto& part) { return part->run->abandoned(); });
}

const tenon_tensor_view& PartedRun::fetch(size_t i) const {
  const PartedPlan::Fetch& fetch = plan_->fetches()[i];
  return parts_[fetch.part]->run->fetch(fetch.index);
}

void PartedRun::Finish() {
  for (const auto& part : parts_) {
    part->run->Finish();
    if (!part->run->abandoned()) part->step.End();  // else what runs still may use it
  }
  rendezvous_.Clear();
}

void PartedRun::ReturnInstances() {
  for (const auto& part : parts_) part->run->ReturnInstances();
}

}  // namespace tenon::exec
