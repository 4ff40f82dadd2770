// SPDX-License-Identifier: Apache-2.0
#include "core/session/session.h"

#include <algorithm>
#include <cmath>
#include <chrono>
#include <map>

#include "core/base/clock.h"
#include "core/base/live_objects.h"
#include "core/base/log.h"
#include "core/exec/bindings.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/device/transfer.h"
#include "core/exec/device/unfinished.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/kernel_refusal.h"
#include "core/exec/kernel/kernel_registry.h"
#include "core/exec/kernel/node_runner.h"
#include "core/exec/parts/parted_plan.h"
#include "core/exec/plan/claims.h"
#include "core/exec/plan/make_plan.h"
#include "core/exec/plan/step_times.h"
#include "core/graph/function/function_def.h"
#include "core/graph/function/function_library.h"
#include "core/graph/graphdef/convert.h"
#include "core/graph/merge.h"
#include "core/graph/node_name.h"
#include "core/graph/shape_inference.h"
#include "core/optimize/plugin_passes.h"
#include "core/place/device_name.h"
#include "core/session/device_list.h"
#include "core/session/partial_run_plan.h"
#include "core/session/remote.h"
#include "core/session/runtime.h"
#include "core/session/session_function.h"
#include "core/session/session_placer.h"
#include "core/session/steps.h"
#include "core/tensor/allowance.h"

namespace tenon::session {
namespace {

void DeviceFree(void* context, void* data, uint64_t bytes);

void* DeviceAllocate(void* context, uint64_t bytes, Status* out_why) {
  const auto* device = static_cast<const exec::Device*>(context);
  void* data = nullptr;
  Status status = CallPlugin(device->plugin, "allocate",
                             [&] { return device->driver->allocate(device->handle, 0, bytes, 64, nullptr, &data); });
  if (status.ok() && data == nullptr)
    status = Internal(StrCat(DescribePlugin(device->plugin), ": its allocate() gave success and no memory"));
  if (status.ok() && (reinterpret_cast<uintptr_t>(data) & 63u) != 0) {
    status = Internal(
        StrCat(DescribePlugin(device->plugin), ": its allocate() gave memory that is not aligned to 64 bytes"));
    DeviceFree(context, data, bytes);
  }
  if (status.ok()) return data;
  *out_why = std::move(status);
  return nullptr;
}
// Work that has been submitted may still name it.
void DeviceFree(void* context, void* data, uint64_t bytes) {
  const auto* device = static_cast<const exec::Device*>(context);
  tenon_queue* const queue = device->queues == nullptr ? nullptr : device->queues->queue(0);
  TellPlugin(device->plugin, "free", [&] { device->driver->free(device->handle, 0, data, bytes, queue); });
}

// For steps to end once they are cancelled: longer than they themselves have patience with kernels and devices.
constexpr std::chrono::seconds kClosePatience(60);

// With counts and lengths: a name may hold any character.
std::string CacheKey(const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                     const std::vector<std::string_view>& targets) {
  std::string key;
  for (const auto* names : {&feeds, &fetches, &targets}) {
    key.append(std::to_string(names->size())).push_back(';');
    for (std::string_view name : *names) key.append(std::to_string(name.size())).append(1, ':').append(name);
  }
  return key;
}

// The option `device` of a session whose steps run on a cluster: whole or partial, as nodes say theirs.
Result<std::string> DefaultOfCluster(const std::string& wish, const std::vector<exec::Device>& devices) {
  if (wish.empty()) return wish;
  auto wanted = place::DeviceName::Parse(wish);
  if (!wanted.ok()) return std::move(wanted).status().Annotate("the session option 'device'");
  std::string known;
  for (const exec::Device& device : devices) {
    TENON_ASSIGN_OR_RETURN(const place::DeviceName own, place::DeviceName::Parse(device.name));
    if (wanted->Matches(own)) return wanted->ToString();
    known += StrCat(known.empty() ? "" : ", ", device.name);
  }
  return NotFound(StrCat("the session option 'device': the cluster has no device '", wish, "'; there are: ", known));
}

}  // namespace

// ---- Session ----

struct Session::State {
  std::vector<std::unique_ptr<LiveObject>> devices_in_use;  // whose plugins must stay
  exec::Environment env;
  exec::Environment placement_env;  // the devices that steps run on
  exec::ResourceManager resources;
  exec::KernelStore store;
  exec::Unfinished unfinished;
  Steps steps;
};

Session::Session(Runtime* runtime, SessionOptions options)
    : runtime_(runtime), state_(std::make_unique<State>()), options_(std::move(options)), graph_(&runtime->ops()) {}

const exec::SessionDevice& Session::device(int32_t index) const { return state_->env.devices[index]; }

Planning Session::StartPlanning(const RunOptions& options) {
  return Planning(&runtime_->deadlines(), &state_->steps.closed, pool_, options);
}

Result<std::shared_ptr<Session>> Session::Create(Runtime* runtime, SessionOptions options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(PlacementOptions placement, PlacementOptions::Of(options));
  // On a cluster it is one of that's.
  TENON_ASSIGN_OR_RETURN(const DeviceChoice choice,
                         runtime->ChooseDevices(options.remote != nullptr ? std::string_view() : options.device));
  if (options.remote != nullptr) {
    TENON_ASSIGN_OR_RETURN(placement.default_device, DefaultOfCluster(options.device, options.remote->devices()));
  }
  std::shared_ptr<Session> session(new Session(runtime, std::move(options)));
  const auto make_pool = [&](const exec::Device* device) {
    const SessionOptions& given = session->options_;
    return BufferPool::Create({&DeviceAllocate, &DeviceFree, const_cast<exec::Device*>(device)}, given.memory_limit,
                              given.budget ? given.budget(*device) : nullptr, device->queues == nullptr);
  };
  session->pool_ = make_pool(choice.devices[0]);
  exec::Environment& env = session->state_->env;
  env.ops = &runtime->ops();
  env.kernels = &runtime->kernels();
  env.pool = session->pool_;
  env.shared = &runtime->resources();
  env.resources = session->options_.share_state                                        ? env.shared
                  : session->options_.unnamed != nullptr && !session->options_.isolate ? session->options_.unnamed
                                                                                       : &session->state_->resources;
  env.threads = &runtime->threads();
  for (const exec::Device* device : choice.devices) {
    exec::SessionDevice own;
    own.device = device;
    own.index = static_cast<int32_t>(env.devices.size());
    own.pool = session->pool_;
    if (device->queues != nullptr) {
      own.pool = make_pool(device);
      own.memory = own.index;
      own.first_queue = env.queues.next_id();
      own.one_queue = session->options_.debug.one_queue;
      for (int i = 0; i < device->queues->size(); ++i) env.queues.push_back({device->queues->queue(i), own.index});
    }
    env.devices.push_back(own);
    session->state_->devices_in_use.push_back(std::make_unique<LiveObject>(device->plugin));
  }
  env.pairs = exec::FindPairs(choice.devices, runtime->device_copies());
  session->state_->placement_env = env;
  if (const Remote* remote = session->options_.remote.get(); remote != nullptr) {
    std::vector<exec::SessionDevice>& devices = session->state_->placement_env.devices;
    devices.clear();
    for (const exec::Device& device : remote->devices()) {
      exec::SessionDevice& own = devices.emplace_back();
      own.device = &device;
      own.index = static_cast<int32_t>(devices.size()) - 1;
      if (device.synchronous) continue;
      own.memory = own.index;
      own.first_queue = exec::QueueId(0);
    }
  }
  if (!session->options_.device.empty() && session->options_.remote == nullptr)
    placement.default_device = choice.devices[choice.wished]->name;
  session->placer_ = std::make_unique<SessionPlacer>(runtime, &session->state_->placement_env, &session->graph_,
                                                     &session->graph_mutex_, std::move(placement));
  env.compilers = [runtime] { return runtime->compilers(); };
  env.loop_compilers = [runtime] { return runtime->loop_compilers(); };
  env.capabilities = [runtime](std::string_view id, std::string_view device_type) {
    return runtime->FindCapability(id, device_type);
  };
  env.tuning = &runtime->tuning();
  env.works = std::make_shared<exec::SessionWorks>(&runtime->events(), &runtime->threads(), session->pool_);
  env.functions = [session = session.get()](const graph::FunctionRef& function, std::string_view device) {
    return session->MakeFunction(function, device);
  };
  env.give_up_idle = [session = session.get()] { return session->GiveUpIdle(); };
  env.unfinished = &session->state_->unfinished;
  env.seed = session->options_.seed;
  env.precision = session->KernelPrecision();
  env.capture = session->options_.capture;
  env.check_numerics = session->options_.check_numerics;
  env.watch = session->options_.watch;
  session->state_->steps.runtime = runtime;
  session->state_->steps.env = &env;
  if (session->options_.record_costs) session->state_->steps.recorder = session->placer_.get();
  return session;
}

Session::~Session() {
  Close();
  state_->store.Clear();
  frozen_.reset();
  state_->resources.Clear("");
  for (const exec::SessionDevice& device : state_->env.devices)
    if (device.queued()) device.pool->Close();
  if (pool_ != nullptr) pool_->Close();
}

void Session::Close(const Status& why) {
  state_->steps.closed.Cancel(why);
  state_->steps.closing.store(true);
  exec::SessionWorks* const works = state_->env.works.get();  // none when the session could not be made
  if (works != nullptr) works->Close(why);
  std::unique_lock lock(state_->steps.mutex);
  const auto patience = std::chrono::steady_clock::now() + kClosePatience;
  while (state_->steps.active.load() > 0 || (works != nullptr && !works->idle())) {
    if (std::chrono::steady_clock::now() >= patience) {
      Log(TENON_LOG_ERROR,
          StrCat(state_->steps.active.load(), " steps of the session, and ", works == nullptr ? 0 : works->pending(),
                 " things in the background, have not ended within ", kClosePatience.count(),
                 " s after they were cancelled; what they have is kept until the process ends"));
      if (auto self = weak_from_this().lock()) runtime_->KeepForEver(std::move(self));
      break;
    }
    for (const auto& weak : callables_)
      if (auto callable = weak.lock()) callable->CancelRunning(why);
    idle_.wait_for(lock, std::chrono::milliseconds(1));
  }
  const bool idle = state_->steps.active.load() == 0 && (works == nullptr || works->idle());
  lock.unlock();
  if (!state_->unfinished.End())
    if (auto self = weak_from_this().lock()) runtime_->KeepForEver(std::move(self));
  if (idle) DropFunctions();
  prepared_.Drop();  // callables hold the session
}

bool Session::GiveUpIdle() {
  std::vector<std::shared_ptr<Callable>> all;
  {
    std::lock_guard lock(state_->steps.mutex);
    for (const auto& weak : callables_)
      if (auto callable = weak.lock()) all.push_back(std::move(callable));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a->last_run() < b->last_run(); });
  return std::any_of(all.begin(), all.end(), [](const auto& callable) { return callable->DropIdle(); });
}

// Their callables hold the session.
void Session::DropFunctions() {
  std::vector<std::weak_ptr<FunctionCode>> functions;
  {
    std::lock_guard lock(functions_mutex_);
    functions.swap(functions_);
  }
  for (const auto& weak : functions)
    if (const auto function = weak.lock()) function->Drop();
}

graph::Graph Session::EmptyGraph() const {
  graph::Graph graph(&runtime_->ops());
  const std::shared_lock lock(graph_mutex_);
  graph.library() = graph_.library();
  return graph;
}

Result<tenon_function*> Session::MakeFunction(const graph::FunctionRef& function, std::string_view device) {
  std::shared_ptr<const graph::FunctionDef> definition;
  {
    const std::shared_lock lock(graph_mutex_);
    TENON_ASSIGN_OR_RETURN(definition, graph::FindFunction(graph_.library(), function.name));
  }
  TENON_ASSIGN_OR_RETURN(graph::FunctionSignature signature,
                         graph::SignatureOf(*definition, function.attrs ? *function.attrs : graph::AttrMap()));
  // What a kernel calls is computed as kernels are, whatever passes make of the steps.
  const auto prepare = [this](const graph::Graph& graph, optimize::Request request, const RunOptions& options,
                              exec::KernelStore* store) -> Result<std::shared_ptr<Callable>> {
    const Planning planning = StartPlanning(options);
    TENON_ASSIGN_OR_RETURN(graph::Graph pruned, optimize::Prune(graph, &request));
    return MakeCallable(std::move(pruned), std::move(request), store == nullptr ? &state_->store : store,
                        KernelPrecision());
  };
  auto code =
      std::make_shared<FunctionCode>(FunctionHost{state_->env.works, pool_, [this] { return EmptyGraph(); }, prepare},
                                     function, std::move(definition), std::move(signature), std::string(device));
  {
    std::lock_guard lock(functions_mutex_);
    std::erase_if(functions_, [](const auto& weak) { return weak.expired(); });
    functions_.push_back(code);
  }
  return new SessionFunction(std::move(code), function.name);
}

Status Session::Extend(std::string_view graph_def, const RunOptions& options) {
  const Planning planning = StartPlanning(options);
  std::unique_lock lock(graph_mutex_);
  return graph::ImportGraphDef(graph_def, &graph_, graph::Unknown::kLeaveOut);
}

Status Session::ExtendGraph(const graph::Graph& graph) {
  const Allowance allowance(&state_->steps.closed, pool_);
  std::unique_lock lock(graph_mutex_);
  return graph::Merge(graph, &graph_);
}

Status Session::Freeze() {
  if (options_.remote != nullptr)
    return Unimplemented(
        "the steps of this session run in other processes, where others may write to their variables; freeze sessions "
        "whose steps run in this process");
  const std::lock_guard lock(freeze_mutex_);
  if (is_frozen_.load()) return Status::Ok();
  frozen_ = std::make_unique<FrozenVariables>();
  is_frozen_.store(true);
  prepared_.Drop();  // what was made before the session was is not kept either
  return Status::Ok();
}

Result<std::vector<Tensor>> Session::ReadVariables(graph::Graph graph, const std::vector<graph::Edge>& fetches) {
  optimize::Request request;
  request.fetches = fetches;
  std::vector<bool> in_place;
  for (const graph::Edge& fetch : fetches) in_place.push_back(IsRef(graph.TypeOf(fetch)));
  auto times = std::make_shared<exec::StepTimes>();
  TENON_RETURN_IF_ERROR(placer_->Place(request, &graph, times.get()));
  exec::PlanOptions options = PlanOptions();
  options.times = std::move(times);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<Callable> reads,
                         NewCallable(std::move(graph), std::move(request), std::move(options), &state_->store));
  RunOptions run;
  if (const Allowance* const planning = Allowance::Current()) run.cancellation = planning->cancellation();
  std::vector<tenon_tensor_view> views(fetches.size());
  TENON_RETURN_IF_ERROR(reads->RunKept(run, nullptr, pool_, {}, views));
  std::vector<Tensor> values;
  for (const tenon_tensor_view& view : views)
    values.emplace_back(view.dtype, ShapeOf(view), view.buffer);  // takes the reference over
  // References are written under their readers' eyes.
  for (size_t i = 0; i < values.size(); ++i) {
    if (!in_place[i]) continue;
    TENON_ASSIGN_OR_RETURN(values[i], Tensor::CopyOf(pool_, values[i].view()));
  }
  return values;
}

Result<graph::Graph> Session::Optimize(graph::Graph graph, optimize::Request* request) {
  TENON_ASSIGN_OR_RETURN(graph, InlineCalls(std::move(graph), request));
  if (is_frozen_.load()) {
    const auto read = [this](graph::Graph reads, const std::vector<graph::Edge>& fetches) {
      return ReadVariables(std::move(reads), fetches);
    };
    TENON_RETURN_IF_ERROR(frozen_->Replace(&graph, request, read));
  }
  if (!options_.optimize) return graph;
  const int64_t merged = optimize::MergeCommonSubexpressions(&graph, request);
  nodes_merged_.fetch_add(static_cast<uint64_t>(merged));
  if (merged + optimize::BypassUnread(&graph, *request) == 0) return graph;
  return optimize::Prune(graph, request);
}

Result<graph::Graph> Session::InlineCalls(graph::Graph graph, optimize::Request* request) const {
  const auto has_kernel = [this](const graph::Node& node) {
    const auto wanted = place::DeviceName::Parse(node.device);
    return std::any_of(state_->placement_env.devices.begin(), state_->placement_env.devices.end(),
                       [&](const exec::SessionDevice& own) {
                         const auto name = place::DeviceName::Parse(own.device->name);
                         return (!wanted.ok() || !name.ok() || wanted->Matches(*name)) &&
                                !state_->env.kernels->Find(node, own.device->type).empty();
                       });
  };
  return optimize::InlineCalls(std::move(graph), request, has_kernel);
}

Result<int64_t> Session::ResetContainers(const std::vector<std::string_view>& containers) {
  if (options_.remote != nullptr) return options_.remote->ResetContainers(containers);
  int64_t dropped = 0;
  for (const std::string_view container : containers)
    dropped += (container.empty() ? state_->env.resources : state_->env.shared)->Clear(container);
  return dropped;
}

exec::PlanOptions Session::PlanOptions() const {
  exec::PlanOptions options;
  options.early_transfers = options_.debug.early_transfers;
  options.transfer_precision = static_cast<exec::TransferPrecision>(options_.debug.transfer_precision);
  // Who looks at what each kernel makes finds it where every kernel runs by itself.
  const bool one_by_one = options_.check_numerics || options_.watch;
  options.force_dynamic = options_.executor == kDynamicExecutor || one_by_one;
  options.fold = options_.optimize;
  options.schedule_seed = static_cast<uint32_t>(options_.debug.schedule_seed);
  options.compile = options_.compile && !one_by_one;
  return options;
}

namespace {

// What a placeholder says of its value; anything else that is fed says nothing.
Shape DeclaredShape(const graph::Graph& graph, graph::Edge feed) {
  constexpr int32_t kScalarsAreMeant =
      22;  // before this version of TensorFlow's graphs, a scalar shape stood for an unknown one
  const graph::Node& node = graph.node(feed.node);
  if (!node.has(TENON_OP_FEED) || !node.inputs.empty()) return Shape::Unknown();
  std::vector<graph::OutputFacts> facts;
  bool used_values = false;
  if (!graph::ShapeInference::InferNode(node, {}, &facts, &used_values).ok()) return Shape::Unknown();
  Shape shape = std::move(facts[feed.index].shape);
  return shape.rank() == 0 && graph.producer() < kScalarsAreMeant ? Shape::Unknown() : shape;
}

}  // namespace

const exec::Device* Session::OwnerOf(const std::vector<int32_t>& memories, size_t i) const {
  return memories.empty() || memories[i] == 0 ? nullptr : state_->env.devices[memories[i]].device;
}

std::vector<Callable::Feed> Session::FeedsOf(const graph::Graph& graph, const optimize::Request& request) const {
  std::vector<Callable::Feed> feeds;
  for (size_t i = 0; i < request.feeds.size(); ++i) {
    const graph::Edge feed = request.feeds[i];
    feeds.push_back({graph.EdgeName(feed), BaseType(graph.TypeOf(feed)), OwnerOf(request.feed_memories, i),
                     DeclaredShape(graph, feed)});
  }
  return feeds;
}

Result<std::shared_ptr<Callable>> Session::NewCallable(graph::Graph graph, optimize::Request request,
                                                       exec::PlanOptions options, exec::KernelStore* store) {
  std::vector<Callable::Feed> feeds = FeedsOf(graph, request);
  std::vector<const exec::Device*> fetch_devices;
  for (size_t i = 0; i < request.fetches.size(); ++i) fetch_devices.push_back(OwnerOf(request.fetch_memories, i));
  options.feed_memories = std::move(request.feed_memories);
  options.fetch_memories = std::move(request.fetch_memories);
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<exec::Runnable> runnable,
                         NewRunnable(std::move(graph), std::move(request), std::move(options), store));
  auto callable = std::make_shared<Callable>(shared_from_this(), &state_->steps, std::move(runnable), std::move(feeds),
                                             std::move(fetch_devices));
  plans_built_.fetch_add(1);
  std::lock_guard lock(state_->steps.mutex);
  std::erase_if(callables_, [](const auto& weak) { return weak.expired(); });
  callables_.push_back(callable);
  return callable;
}

Result<std::shared_ptr<exec::Runnable>> Session::NewRunnable(graph::Graph graph, optimize::Request request,
                                                             exec::PlanOptions options, exec::KernelStore* store) {
  const bool whole = options.part == nullptr;
  if (options_.remote != nullptr)
    return options_.remote->MakePlan(std::move(graph), std::move(request.feeds), std::move(request.fetches),
                                     std::move(request.targets), state_->env, options);
  if (whole && options_.debug.partition) {
    TENON_ASSIGN_OR_RETURN(
        std::shared_ptr<exec::Runnable> parts,
        exec::PartedPlan::Create(std::move(graph), std::move(request.feeds), std::move(request.fetches),
                                 std::move(request.targets), state_->env, store, std::move(options)));
    return parts;
  }
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const exec::Plan> plan,
                         exec::MakePlan(std::move(graph), std::move(request.feeds), std::move(request.fetches),
                                        std::move(request.targets), state_->env, store, std::move(options)));
  return std::shared_ptr<exec::Runnable>(std::make_shared<exec::Bindings>(std::move(plan)));
}

// A precision that passes over steps are for is said to no kernel: what they leave alone is as it was.
uint32_t Session::KernelPrecision() const {
  return options_.precision >= TENON_PRECISION_INT8 ? TENON_PRECISION_STRICT : options_.precision;
}

Result<exec::PlanOptions> Session::MakeReady(graph::Graph* graph, optimize::Request* request, uint32_t precision) {
  TENON_ASSIGN_OR_RETURN(*graph, Optimize(std::move(*graph), request));
  auto times = std::make_shared<exec::StepTimes>();
  TENON_RETURN_IF_ERROR(placer_->Place(*request, graph, times.get()));
  auto notes = std::make_shared<optimize::NodeNotes>();
  const auto has_kernel = [this](const graph::Node& node, std::string_view device) {
    const auto name = place::DeviceName::Parse(device);
    return name.ok() && name->type.has_value() && !runtime_->kernels().Find(node, *name->type).empty();
  };
  // What a worker has not loaded runs nowhere there.
  const optimize::PassQuestion question = {precision,        PlanOptions().compile, options_.calibration,
                                           options_.no_pass, !options_.one_task,    has_kernel};
  TENON_ASSIGN_OR_RETURN(
      const bool changed,
      optimize::RunPluginPasses(runtime_->PassesFor(*graph), question, graph, request, notes.get()));
  if (changed) {
    if (options_.optimize && optimize::BypassUnread(graph, *request) != 0) {  // what the passes made needless
      TENON_ASSIGN_OR_RETURN(*graph, optimize::Prune(*graph, request));
    }
    TENON_RETURN_IF_ERROR(placer_->Place(*request, graph, times.get()));  // where the passes want their nodes
  }
  exec::PlanOptions options = PlanOptions();
  options.times = std::move(times);
  options.notes = std::move(notes);
  return options;
}

Result<std::shared_ptr<Callable>> Session::MakeCallable(graph::Graph graph, optimize::Request request,
                                                        exec::KernelStore* store, uint32_t precision) {
  TENON_ASSIGN_OR_RETURN(exec::PlanOptions options, MakeReady(&graph, &request, precision));
  return NewCallable(std::move(graph), std::move(request), std::move(options), store);
}

// A step of its own kind: what it waits for comes at any time and in any order, so that nothing of it may wait for
// something else that it does not need.
static void MakeInGoes(exec::PlanOptions* options) {
  options->times = nullptr;
  options->force_dynamic = options->early_transfers = options->turns_while_entered = true;
}

Result<std::shared_ptr<const PartialRunPlan>> Session::MakePartialRun(Pruned pruned) {
  DeclaredEdges declared(pruned.graph, pruned.request);
  TENON_ASSIGN_OR_RETURN(pruned.graph, InlineCalls(std::move(pruned.graph), &pruned.request));
  auto plan = std::make_shared<PartialRunPlan>(pruned.graph.Clone());
  plan->declared = std::move(declared);
  plan->request = pruned.request;
  plan->feeds = FeedsOf(plan->graph, plan->request);
  plan->channel_count = static_cast<int32_t>(plan->feeds.size());
  std::map<graph::Edge, int32_t> channels;
  for (const graph::Edge& fetch : plan->request.fetches) {
    const DType type = plan->graph.TypeOf(fetch);
    if (!IsPlain(BaseType(type)) && type != TENON_DT_STRING)
      return InvalidArgument(StrCat("fetch '", plan->graph.EdgeName(fetch), "' is a ", TypeName(type),
                                    ", which cannot leave the session"));
    const auto [at, is_new] = channels.emplace(fetch, plan->channel_count);
    plan->channel_count += is_new ? 1 : 0;
    plan->fetch_channels.push_back(at->second);
  }
  TENON_ASSIGN_OR_RETURN(exec::PlanOptions options, MakeReady(&pruned.graph, &pruned.request, options_.precision));
  TENON_ASSIGN_OR_RETURN(options.part, MeetCallers(plan->fetch_channels, plan->channel_count,
                                                   options_.remote != nullptr, &pruned.graph, &pruned.request));
  MakeInGoes(&options);
  TENON_ASSIGN_OR_RETURN(plan->callable, NewCallable(std::move(pruned.graph), std::move(pruned.request),
                                                     std::move(options), &state_->store));
  return std::shared_ptr<const PartialRunPlan>(std::move(plan));
}

Result<std::shared_ptr<const PartialRunPlan>> Session::PreparePartialRun(const std::vector<std::string_view>& feeds,
                                                                         const std::vector<std::string_view>& fetches,
                                                                         const std::vector<std::string_view>& targets) {
  const std::string key = "partial run " + CacheKey(feeds, fetches, targets);
  const auto make = [&]() -> Result<PreparedSteps::Step> {
    if (state_->steps.closing.load()) return state_->steps.closed.reason();
    const Planning planning = StartPlanning({});
    TENON_ASSIGN_OR_RETURN(Pruned pruned, Prune(feeds, fetches, targets));
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PartialRunPlan> plan, MakePartialRun(std::move(pruned)));
    return PreparedSteps::Step{plan->callable, plan};
  };
  TENON_ASSIGN_OR_RETURN(const PreparedSteps::Step step, options_.remote != nullptr ? make() : FindOrMake(key, make));
  return step.partial;
}

Result<std::shared_ptr<Callable>> Session::PreparePart(graph::Graph graph, std::vector<graph::Edge> feeds,
                                                       std::vector<graph::Edge> fetches,
                                                       std::vector<graph::NodeId> targets,
                                                       std::shared_ptr<const exec::PartInfo> part, bool in_goes) {
  if (state_->steps.closing.load()) return state_->steps.closed.reason();
  const Planning planning = StartPlanning({});
  {
    const std::unique_lock lock(graph_mutex_);  // kernels that call functions look here
    TENON_RETURN_IF_ERROR(graph::AddFunctions(graph.library(), &graph_.library()));
  }
  exec::PlanOptions options = PlanOptions();
  options.part = std::move(part);
  if (in_goes) MakeInGoes(&options);
  return NewCallable(std::move(graph), {std::move(feeds), std::move(fetches), std::move(targets)}, std::move(options),
                     &state_->store);
}

namespace {

// Names to edges; a target's name may carry ":0" or "^" as well.
Result<optimize::Request> MakeRequest(const graph::Graph& graph, const std::vector<std::string_view>& feeds,
                                      const std::vector<std::string_view>& fetches,
                                      const std::vector<std::string_view>& targets) {
  optimize::Request request;
  for (std::string_view name : feeds) {
    auto edge = graph.ParseEdge(name);
    if (!edge.ok()) return Status(edge.status()).Annotate(StrCat("feed '", name, "'"));
    if (std::find(request.feeds.begin(), request.feeds.end(), *edge) != request.feeds.end())
      return InvalidArgument(StrCat("'", name, "' is fed twice"));
    request.feeds.push_back(*edge);
  }
  for (std::string_view name : fetches) {
    auto edge = graph.ParseEdge(name);
    if (!edge.ok()) return Status(edge.status()).Annotate(StrCat("fetch '", name, "'"));
    request.fetches.push_back(*edge);
  }
  for (std::string_view name : targets) {
    if (name.starts_with("^")) name.remove_prefix(1);
    std::string_view node;
    int32_t index;
    if (!graph::SplitTensorName(name, &node, &index))
      return InvalidArgument(StrCat("target '", name, "' is no node's name"));
    auto id = graph.Get(node);
    if (!id.ok()) return Status(id.status()).Annotate(StrCat("target '", name, "'"));
    request.targets.push_back(*id);
  }
  if (request.fetches.empty() && request.targets.empty())
    return InvalidArgument("there is nothing to run: name at least one fetch or target");
  return request;
}

}  // namespace

Result<Session::Pruned> Session::Prune(const std::vector<std::string_view>& feeds,
                                       const std::vector<std::string_view>& fetches,
                                       const std::vector<std::string_view>& targets) const {
  const std::shared_lock lock(graph_mutex_);
  TENON_ASSIGN_OR_RETURN(optimize::Request request, MakeRequest(graph_, feeds, fetches, targets));
  TENON_ASSIGN_OR_RETURN(graph::Graph graph, optimize::Prune(graph_, &request));
  TENON_RETURN_IF_ERROR(optimize::CheckFrames(graph, request));
  return Pruned{std::move(graph), std::move(request)};
}

Result<int32_t> Session::FindDevice(std::string_view name) const {
  TENON_ASSIGN_OR_RETURN(const place::DeviceName wanted, place::DeviceName::Parse(name));
  int32_t found = -1;
  std::string known;
  for (const exec::SessionDevice& each : state_->env.devices) {
    known += StrCat(known.empty() ? "" : ", ", each.device->name);
    TENON_ASSIGN_OR_RETURN(const place::DeviceName own, place::DeviceName::Parse(each.device->name));
    if (!wanted.Matches(own)) continue;
    if (found >= 0) return InvalidArgument(StrCat("'", name, "' may be more than one device: ", known, "; name one"));
    found = each.index;
  }
  if (found < 0) return NotFound(StrCat("there is no device '", name, "'; there are: ", known));
  return found;
}

// Names of devices to memories, one for each of `edges`.
Status Session::FindMemories(const std::vector<std::string_view>& names, const std::vector<std::string_view>& devices,
                             const char* what, std::vector<int32_t>* out) const {
  if (devices.empty()) return Status::Ok();
  if (devices.size() != names.size())
    return InvalidArgument(
        StrCat(names.size(), " ", what, " have ", devices.size(), " devices; give each one, or none at all"));
  for (size_t i = 0; i < names.size(); ++i) {
    auto found = devices[i].empty() ? Result<int32_t>(0) : FindDevice(devices[i]);
    if (!found.ok()) return std::move(found).status().Annotate(StrCat("the device of '", names[i], "'"));
    out->push_back(device(*found).memory);
  }
  return Status::Ok();
}

Result<Tensor> Session::CopyTo(const tenon_tensor_view& value, int32_t from, int32_t to) {
  if (from == 0 && to == 0) return Tensor::CopyOf(GlobalPool(), value);
  if (!IsPlain(value.dtype))
    return InvalidArgument(StrCat("a tensor of ", TypeName(value.dtype), " stays in host memory"));
  const exec::SessionDevice& worker = device(from == 0 ? to : from);
  if (from != 0 && to != 0 &&
      worker.device->driver !=
          device(to).device->driver) {  // this is done now, and not in a queue's order: the host does
    TENON_ASSIGN_OR_RETURN(const Tensor on_host, CopyTo(value, from, 0));
    return CopyTo(on_host.view(), 0, to);
  }
  BufferPool* pool = to == 0 ? GlobalPool() : device(to).pool;
  TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(pool, value.dtype, ShapeOf(value)));
  const tenon_copy_args args = exec::CopyArgs(state_->env, DataOf(value), from, copy.data(), to, value.byte_size);
  bool abandoned = false;
  if (Status status = exec::CopyNow(state_->env, worker, args, "copy", nullptr, &abandoned); !status.ok()) {
    if (abandoned) Retain(copy.buffer());  // it may still be written to
    return status;
  }
  return copy;
}

Result<std::shared_ptr<Callable>> Session::Prepare(const std::vector<std::string_view>& feeds,
                                                   const std::vector<std::string_view>& fetches,
                                                   const std::vector<std::string_view>& targets,
                                                   const std::vector<std::string_view>& feed_devices,
                                                   const std::vector<std::string_view>& fetch_devices,
                                                   const RunOptions& options) {
  auto callable = PrepareOnce(feeds, fetches, targets, feed_devices, fetch_devices, options);
  if (callable.ok() || callable.status().code() != Code::kResourceExhausted || !GiveUpIdle()) return callable;
  while (GiveUpIdle()) continue;
  return PrepareOnce(feeds, fetches, targets, feed_devices, fetch_devices, options);
}

Result<std::shared_ptr<Callable>> Session::PrepareOnce(const std::vector<std::string_view>& feeds,
                                                       const std::vector<std::string_view>& fetches,
                                                       const std::vector<std::string_view>& targets,
                                                       const std::vector<std::string_view>& feed_devices,
                                                       const std::vector<std::string_view>& fetch_devices,
                                                       const RunOptions& options) {
  if (state_->steps.closing.load()) return state_->steps.closed.reason();
  const Planning planning = StartPlanning(options);
  TENON_ASSIGN_OR_RETURN(Pruned pruned, Prune(feeds, fetches, targets));
  optimize::Request& request = pruned.request;
  TENON_RETURN_IF_ERROR(FindMemories(feeds, feed_devices, "feeds", &request.feed_memories));
  TENON_RETURN_IF_ERROR(FindMemories(fetches, fetch_devices, "fetches", &request.fetch_memories));
  const auto on_device = [](int32_t memory) { return memory != 0; };
  if (options_.remote != nullptr &&
      (std::any_of(request.feed_memories.begin(), request.feed_memories.end(), on_device) ||
       std::any_of(request.fetch_memories.begin(), request.fetch_memories.end(), on_device)))
    return Unimplemented("the steps of this session run in other processes; feed and fetch host memory");
  return MakeCallable(std::move(pruned.graph), std::move(request), &state_->store, options_.precision);
}

Result<PlacementReport> Session::ExplainPlacement(const std::vector<std::string_view>& feeds,
                                                  const std::vector<std::string_view>& fetches,
                                                  const std::vector<std::string_view>& targets) {
  const Planning planning = StartPlanning({});
  TENON_ASSIGN_OR_RETURN(Pruned pruned, Prune(feeds, fetches, targets));
  TENON_ASSIGN_OR_RETURN(pruned.graph, Optimize(std::move(pruned.graph), &pruned.request));
  return placer_->Explain(pruned.request, pruned.graph,
                          [&](graph::Graph placed, std::shared_ptr<const exec::StepTimes> times) {
                            return AskPlugins(std::move(placed), std::move(times), pruned.request);
                          });
}

Result<PluginAnswers> Session::AskPlugins(graph::Graph placed, std::shared_ptr<const exec::StepTimes> times,
                                          const optimize::Request& request) {
  PluginAnswers answers;
  if (options_.remote != nullptr) return answers;
  exec::KernelStore store;  // no step's
  exec::PlanOptions options = PlanOptions();
  options.times = std::move(times);
  TENON_ASSIGN_OR_RETURN(const std::shared_ptr<const exec::Plan> plan,
                         exec::MakePlan(std::move(placed), request.feeds, request.fetches, request.targets, state_->env,
                                        &store, std::move(options)));
  graph::ShapeInference shapes(&plan->graph());
  (void)shapes.Run(plan->order()).ok();  // what is not known is not asked about
  for (const graph::NodeId id : plan->order()) {
    const std::string& name = plan->graph().node(id).name;
    if (const exec::NodeRunner* runner = plan->runner(id).get(); runner != nullptr)
      for (exec::KernelRefusal& refusal : runner->RefusalsFor(shapes))
        answers.refusals.push_back({name, std::move(refusal.plugin), std::move(refusal.reason)});
    if (plan->claims() == nullptr) continue;
    if (const exec::Claims::Refusal* refusal = plan->claims()->RefusalOf(id); refusal != nullptr)
      answers.refusals.push_back({name, refusal->compiler, refusal->reason});
  }
  if (plan->claims() != nullptr && plan->claims()->predicted().by_nodes > 0) {
    const exec::Claims::Predicted& predicted = plan->claims()->predicted();
    const auto microseconds = [](double seconds) { return static_cast<int64_t>(std::llround(seconds * 1e6)); };
    answers.note =
        StrCat("compilers take ", plan->claims()->claims().size(), " sets of nodes: the step is predicted to take ",
               microseconds(predicted.seconds), " us with them, ", microseconds(predicted.by_nodes),
               " us node by node, and ", microseconds(predicted.whole), " us if they took all that they would");
  }
  return answers;
}

Status Session::Run(const RunOptions& options, const std::vector<std::string_view>& feed_names,
                    const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
                    const std::vector<std::string_view>& target_names, std::vector<Tensor>* out_fetches) {
  uint64_t begin = 0;  // of the making
  const auto make = [&]() -> Result<PreparedSteps::Step> {
    if (begin == 0) begin = NowNs();
    TENON_ASSIGN_OR_RETURN(std::shared_ptr<Callable> callable,
                           Prepare(feed_names, fetch_names, target_names, {}, {}, options));
    return PreparedSteps::Step{std::move(callable), nullptr};
  };
  TENON_ASSIGN_OR_RETURN(const PreparedSteps::Step step,
                         FindOrMake(CacheKey(feed_names, fetch_names, target_names), make));
  if (begin == 0 || options.timeout_ns == 0) return step.callable->Run(options, feeds, out_fetches);
  // The planning's time is the step's.
  RunOptions rest = options;
  rest.asked_ns = options.timeout_ns;
  rest.timeout_ns -= std::min(NowNs() - begin, options.timeout_ns - 1);
  return step.callable->Run(rest, feeds, out_fetches);
}

// With another try without what is kept, if that is what takes the memory.
template <typename Make>
Result<PreparedSteps::Step> Session::FindOrMake(const std::string& key, const Make& make) {
  if (PreparedSteps::Step known = prepared_.Find(key); known.callable != nullptr) {
    plans_reused_.fetch_add(1, std::memory_order_relaxed);
    return known;
  }
  uint64_t begun = prepared_.begin();
  Result<PreparedSteps::Step> made = make();
  if (!made.ok() && made.status().code() == Code::kResourceExhausted && prepared_.Drop()) {
    begun = prepared_.begin();
    made = make();
  }
  if (!made.ok()) return made;
  return prepared_.Keep(key, *std::move(made), begun);
}

// The one that stays: another step may have prepared the same meanwhile. The one that was not run for longest makes
// room.
SessionMetrics Session::metrics() const {
  SessionMetrics out{state_->steps.ran.load(),
                     plans_built_.load(),
                     plans_reused_.load(),
                     0,
                     pool_->bytes_in_use(),
                     pool_->peak_bytes(),
                     0,
                     nodes_merged_.load(),
                     state_->steps.host_waits.load(),
                     0,
                     0,
                     state_->steps.captured_launches.load()};
  for (const exec::SessionDevice& device : state_->env.devices) {
    if (!device.queued()) continue;
    out.device_bytes_in_use += device.pool->bytes_in_use();
    out.device_peak_bytes += device.pool->peak_bytes();
  }
  std::lock_guard lock(state_->steps.mutex);
  for (const auto& weak : callables_)
    if (auto callable = weak.lock()) {
      const exec::Runnable::Counts counts = callable->counts();
      out.bindings_built += counts.bindings_built;
      out.nodes_folded += counts.nodes_folded;
    }
  return out;
}

}  // namespace tenon::session
