// SPDX-License-Identifier: Apache-2.0
#include "core/session/session_placer.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/exec/device/environment.h"
#include "core/exec/plan/plan.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/function/function_body.h"
#include "core/place/device_name.h"
#include "core/place/external_placer.h"
#include "core/session/placement.h"
#include "core/session/runtime.h"
#include "core/tensor/variant_types.h"

namespace tenon::session {
namespace {

// Has something that a later plan must find where this one put it.
bool HasState(const graph::Node& node) {
  for (DType type : node.input_types)
    if (IsRef(type) || type == TENON_DT_RESOURCE) return false;
  const auto handle = [](DType type) { return IsRef(type) || type == TENON_DT_RESOURCE; };
  return node.has(TENON_OP_STATEFUL) || std::any_of(node.output_types.begin(), node.output_types.end(), handle);
}

// What the runs of a node took, by the node's name.
struct Runs {
  uint64_t nanoseconds = 0, count = 0;
  uint64_t begin_ns = 0, end_ns = 0;  // of the last
};
using RunsByName = std::unordered_map<std::string, Runs>;
// By the row's group: "" for this process's threads, a task's name for those of a worker, and a device, by its own
// clock where it has one.
using Measured = std::map<std::string, RunsByName, std::less<>>;

constexpr std::string_view kDevice = "/device:";

Measured Sum(const trace::Trace& trace) {
  Measured out;
  trace.ForEach([&out](const trace::Trace::Event& event) {
    const bool of_device = event.group.find(kDevice) != std::string_view::npos;
    if (event.category == "wait" || event.category == "share" || (of_device && event.category != "kernel")) return;
    Runs& runs = out[std::string(event.group)][std::string(event.name)];
    runs.nanoseconds += event.end_ns - event.begin_ns;
    runs.begin_ns = event.begin_ns;
    runs.end_ns = event.end_ns;
    ++runs.count;
  });
  return out;
}

const RunsByName& RunsIn(const Measured& measured, std::string_view group) {
  static const RunsByName kNone;
  const auto found = measured.find(group);
  return found == measured.end() ? kNone : found->second;
}

// of_tasks: the rows of devices bear their tasks' names.
const RunsByName& RunsOn(const Measured& measured, const exec::SessionDevice& device, bool of_tasks) {
  const std::string_view name = device.device->name;
  const size_t task = name.rfind(kDevice);
  if (!device.queued()) return RunsIn(measured, of_tasks ? name.substr(0, task) : std::string_view());
  const std::string group(of_tasks ? name : name.substr(task));
  const RunsByName& by_own_clock = RunsIn(measured, group + ", its own clock");
  return by_own_clock.empty() ? RunsIn(measured, group) : by_own_clock;
}

// The one run of a node of the engine's own; nullptr: it did not run, or several times.
const Runs* OnlyRun(const Measured& measured, const std::string& task, const std::string& node) {
  const RunsByName& runs = RunsIn(measured, task);
  const auto found = runs.find(node);
  return found == runs.end() || found->second.count != 1 ? nullptr : &found->second;
}

}  // namespace

Result<PlacementOptions> PlacementOptions::Of(const SessionOptions& options) {
  PlacementOptions placement;
  placement.soft_placement = options.soft_placement;
  placement.one_task = options.one_task;
  placement.of_cluster = options.remote != nullptr;
  placement.placer = options.placer;
  if (!options.placement.empty()) {
    const std::string_view source =
        options.placement_source.empty() ? std::string_view("the placement") : options.placement_source;
    TENON_ASSIGN_OR_RETURN(placement.file, place::PlacementFile::Parse(options.placement, source));
  }
  if (!options.costs.empty()) {
    const std::string_view source = options.costs_source.empty() ? std::string_view("the costs") : options.costs_source;
    TENON_ASSIGN_OR_RETURN(placement.costs, place::CostModel::Parse(options.costs, source));
  }
  return placement;
}

SessionPlacer::SessionPlacer(const Runtime* runtime, const exec::Environment* env, const graph::Graph* whole,
                             std::shared_mutex* whole_mutex, PlacementOptions options)
    : runtime_(runtime),
      env_(env),
      whole_(whole),
      whole_mutex_(whole_mutex),
      options_(std::move(options)),
      devices_(DescribeDevices(*env)) {}

Result<place::Request> SessionPlacer::RequestFor(const graph::Graph& graph, const std::vector<graph::Edge>& feeds,
                                                 const std::vector<graph::Edge>& fetches) const {
  TENON_ASSIGN_OR_RETURN(place::Request request, MakePlaceRequest(graph, feeds, fetches, *env_, devices_));
  request.default_device = options_.default_device;
  request.soft_placement = options_.soft_placement;
  request.one_task = options_.one_task;
  request.of_cluster = options_.of_cluster;
  request.homes = &homes_;
  request.variants_may_cross = [this](const graph::Node& node) {
    return runtime_->variant_types().AreMadeBy(node.op->name);
  };
  request.costs = &options_.costs;
  // What of the network was measured goes before what is guessed of it.
  request.link = [this, guess = std::move(request.link)](place::DeviceId from, place::DeviceId to) {
    const exec::SessionDevice &a = env_->devices[from.index()], &b = env_->devices[to.index()];
    const std::string_view from_task = place::TaskOf(a.device->name), to_task = place::TaskOf(b.device->name);
    return from_task == to_task ? guess(from, to)
                                : LinkBetween(a, b, options_.costs.FindLink(from_task, to_task, kGuessedNetwork));
  };
  if (options_.file) request.file = &*options_.file;
  if (options_.placer.empty()) return request;
  TENON_ASSIGN_OR_RETURN(const Runtime::Placer placer, runtime_->FindPlacer(options_.placer));
  request.placer_name = options_.placer;
  request.placer = [placer, plugin = options_.placer](const place::Problem& problem, const place::Sequence& sequence,
                                                      const place::GroupDevices& start) {
    Result<place::GroupDevices> choice = place::GroupDevices();
    Status status = CallPlugin(plugin, "place", [&] {
      choice = place::AskPlacer(*placer.table, placer.self, problem, sequence, start);
      return choice.ok() ? nullptr : Status(choice.status()).release();
    });
    return status.ok() ? choice : Result<place::GroupDevices>(std::move(status));
  };
  return request;
}

void SessionPlacer::Remember(const graph::Graph& graph, const place::Placement& placement) {
  for (const graph::NodeId id : graph.ids())
    if (const place::DeviceId device = placement.device_of_node[id]; device && HasState(graph.node(id)))
      homes_.emplace(graph::StateName(graph.node(id)), devices_[device].name);
}

Status SessionPlacer::FindHomes(const graph::Graph& graph) {
  const auto ids = graph.ids();
  const bool fresh = std::any_of(ids.begin(), ids.end(), [&](graph::NodeId id) {
    return HasState(graph.node(id)) && !homes_.contains(std::string(graph::StateName(graph.node(id))));
  });
  std::shared_lock lock(*whole_mutex_);
  if (options_.file && checked_nodes_ != whole_->size()) {
    TENON_RETURN_IF_ERROR(options_.file->Check(*whole_));
    checked_nodes_ = whole_->size();
  }
  if (!fresh || devices_.size() == 1) return Status::Ok();
  auto request = RequestFor(*whole_, {}, {});
  if (!request.ok()) return Status::Ok();
  // What no plan asks for need not be right: the plan that is asked for is placed strictly afterwards.
  const auto can_run = request->can_run;
  request->can_run = [can_run, this](const graph::Node& node, place::DeviceId device) {
    if (node.has(graph::kCallsFunctions) || can_run(node, device)) return true;
    const auto others = devices_.ids();
    return std::none_of(others.begin(), others.end(), [&](place::DeviceId other) { return can_run(node, other); });
  };
  std::erase_if(request->order.list(), [this](graph::NodeId id) {
    const graph::Node& node = whole_->node(id);
    return std::any_of(node.inputs.begin(), node.inputs.end(), [](const graph::Edge& edge) { return !edge.node; });
  });
  request->soft_placement = true;
  if (const auto placement = place::Place(*request); placement.ok()) Remember(*whole_, *placement);
  return Status::Ok();
}

Result<place::Placement> SessionPlacer::PlaceNow(const optimize::Request& request, const graph::Graph& graph,
                                                 PlacementReport* report, const AskCompilers& ask,
                                                 std::unique_lock<std::mutex>* lock) {
  TENON_RETURN_IF_ERROR(FindHomes(graph));
  TENON_ASSIGN_OR_RETURN(place::Request wanted, RequestFor(graph, request.feeds, request.fetches));
  const auto whose = [](int32_t memory) { return memory == 0 ? place::DeviceId() : place::DeviceId(memory); };
  std::transform(request.feed_memories.begin(), request.feed_memories.end(), std::back_inserter(wanted.feed_devices),
                 whose);
  std::transform(request.fetch_memories.begin(), request.fetch_memories.end(), std::back_inserter(wanted.fetch_devices),
                 whose);
  wanted.explain = report != nullptr;
  wanted.spans = true;
  TENON_ASSIGN_OR_RETURN(place::Placement placement, place::Place(wanted));
  if (report == nullptr) return placement;
  std::map<std::string, place::CostError> errors;
  if (options_.costs.size() > 0) {
    graph::ShapeInference shapes(&graph);
    (void)shapes.Run(wanted.order.list()).ok();
    TENON_ASSIGN_OR_RETURN(errors, place::CompareCosts(wanted, placement.device_of_node, shapes, options_.costs));
  }
  graph::Graph placed = graph.Clone();
  ApplyPlacement(placement, devices_, &placed);
  lock->unlock();  // strangers' compilers and kernels are asked, which may take long
  auto answers = ask(std::move(placed), std::make_shared<const exec::StepTimes>(TimesOf(placement, graph)));
  lock->lock();
  if (!answers.ok()) placement.notes.push_back(StrCat("compilers were not asked: ", answers.status().ToString()));
  else if (!answers->note.empty()) placement.notes.push_back(answers->note);
  IdVector<place::DeviceId, std::string> names;
  for (const place::DeviceInfo& device : devices_) names.push_back(device.name);
  report->json =
      place::ToJson(wanted, placement, errors, answers.ok() ? answers->refusals : std::vector<place::Refusal>());
  report->svg = place::ToSvg(wanted, placement);
  report->file = place::PlacementFile::Write(graph, placement.device_of_node, names);
  return placement;
}

exec::StepTimes SessionPlacer::TimesOf(const place::Placement& placement, const graph::Graph& graph) const {
  exec::StepTimes times;
  times.node_seconds.assign(graph.size(), 0);
  const auto queued = [this](const place::NodeSpan& span) { return env_->devices[span.device.index()].queued(); };
  const auto guessed = [&queued](const place::NodeSpan& span) { return !span.known && queued(span); };
  const std::vector<place::NodeSpan>& spans = placement.node_spans;
  const bool starts =
      std::any_of(spans.begin(), spans.end(), queued) && std::none_of(spans.begin(), spans.end(), guessed);
  if (starts) times.node_starts.assign(graph.size(), 0);
  for (const place::NodeSpan& span : spans) {
    times.node_seconds[span.node] = span.finish - span.start;
    if (starts) times.node_starts[span.node] = span.start;
  }
  for (const place::TransferSpan& span : placement.transfer_spans)
    times.crossings[{span.value, env_->devices[span.to.index()].memory}] = {span.finish - span.start, span.bytes};
  return times;
}

Status SessionPlacer::Place(const optimize::Request& request, graph::Graph* graph, exec::StepTimes* times) {
  std::unique_lock lock(mutex_);
  TENON_ASSIGN_OR_RETURN(const place::Placement placement, PlaceNow(request, *graph, nullptr, nullptr, &lock));
  if (devices_.size() > 1) Remember(*graph, placement);
  if (placement.dropped > 0 && !std::exchange(told_of_dropped_, true)) {
    Log(TENON_LOG_WARNING,
        StrCat(placement.notes.front(),
               placement.dropped == 1 ? "" : StrCat("; so do ", placement.dropped - 1, " more nodes")));
  }
  *times = TimesOf(placement, *graph);
  ApplyPlacement(placement, devices_, graph);
  return Status::Ok();
}

Result<PlacementReport> SessionPlacer::Explain(const optimize::Request& request, const graph::Graph& graph,
                                               const AskCompilers& ask) {
  std::unique_lock lock(mutex_);
  PlacementReport report;
  TENON_RETURN_IF_ERROR(PlaceNow(request, graph, &report, ask, &lock).status());
  return report;
}

void SessionPlacer::RecordCosts(const exec::TracedGraph& traced, const tenon_tensor_view* const* feeds,
                                const trace::Trace& trace) {
  graph::ShapeInference shapes(traced.graph);
  for (size_t i = 0; i < traced.feeds->size(); ++i) {
    graph::OutputFacts facts;
    facts.shape = Shape(tenon_shape{feeds[i]->dl.shape, feeds[i]->dl.ndim, 0});
    shapes.Fix((*traced.feeds)[i], std::move(facts));
  }
  (void)shapes.Run(*traced.order).ok();
  const Measured measured = Sum(trace);
  const bool of_tasks = traced.crossings != nullptr;
  std::lock_guard lock(mutex_);
  for (graph::NodeId id : *traced.order) {
    const graph::Node& node = traced.graph->node(id);
    const auto device = std::find_if(devices_.begin(), devices_.end(),
                                     [&node](const place::DeviceInfo& info) { return info.name == node.device; });
    if (device == devices_.end() || !exec::NeedsKernel(node)) continue;
    const RunsByName& by_name =
        RunsOn(measured, env_->devices[static_cast<size_t>(device - devices_.begin())], of_tasks);
    const auto runs = by_name.find(node.name);
    if (runs == by_name.end()) continue;
    std::vector<Shape> inputs;
    for (const graph::Edge& edge : node.inputs) inputs.push_back(shapes.facts(edge).shape);
    options_.costs.Record(
        node.name, node.op->name, device->type, std::move(inputs),
        static_cast<double>(runs->second.nanoseconds) * 1e-9 / static_cast<double>(runs->second.count));
  }
  if (!of_tasks) return;
  for (const exec::TaskCrossing& crossing : *traced.crossings) {
    const Runs* const send = OnlyRun(measured, crossing.from, crossing.send);
    const Runs* const receive = OnlyRun(measured, crossing.to, crossing.receive);
    // Who came late found the value there: nobody saw when it came.
    if (send == nullptr || receive == nullptr || receive->begin_ns > send->begin_ns ||
        receive->end_ns <= send->begin_ns)
      continue;
    const graph::Edge value = crossing.value;
    const Shape& shape = shapes.facts(value).shape;
    const DType type = traced.graph->TypeOf(value);
    if (!shape.fully_known() || BaseType(type) == TENON_DT_STRING) continue;
    options_.costs.RecordLink(crossing.from, crossing.to, place::BytesOf(type, shape),
                              static_cast<double>(receive->end_ns - send->begin_ns) * 1e-9);
  }
}

std::string SessionPlacer::Costs() const {
  std::lock_guard lock(mutex_);
  return options_.costs.Write();
}

}  // namespace tenon::session
