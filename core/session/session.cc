// SPDX-License-Identifier: Apache-2.0
#include "core/session/session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/graph/graphdef/convert.h"
#include "core/place/device_name.h"
#include "core/session/device_trace.h"
#include "core/tensor/allowance.h"

namespace tenon::session {
namespace {

void DeviceFree(void* context, void* data, uint64_t bytes);

void* DeviceAllocate(void* context, uint64_t bytes, Status* out_why) {
  const auto* device = static_cast<const exec::Device*>(context);
  void* data = nullptr;
  Status status = CallPlugin(device->plugin, "allocate", [&] { return device->driver->allocate(device->handle, 0, bytes, 64, nullptr, &data); });
  if (status.ok() && data == nullptr) status = Internal(StrCat(DescribePlugin(device->plugin), ": its allocate() gave success and no memory"));
  if (status.ok() && (reinterpret_cast<uintptr_t>(data) & 63u) != 0) {
    status = Internal(StrCat(DescribePlugin(device->plugin), ": its allocate() gave memory that is not aligned to 64 bytes"));
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

// Held for a few instructions, so that waiting is spinning.
class SpinGuard {
 public:
  explicit SpinGuard(std::atomic_flag* flag) : flag_(flag) {
    while (flag_->test_and_set(std::memory_order_acquire)) {
    }
  }
  ~SpinGuard() { flag_->clear(std::memory_order_release); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  std::atomic_flag* flag_;
};

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

}  // namespace

// The time and memory that the making of a plan may take: until the caller cancels or its deadline passes, until the session is closed,
// and within the session's memory limit.
class Session::Planning {
 public:
  Planning(Session* session, const RunOptions& options) : session_(session), allowance_(&ends_, session->pool_) {
    const auto end = [this](const Status& reason) { ends_.Cancel(reason); };
    if (options.timeout_ns != 0) {
      auto watched = session->runtime_->deadlines().Watch(&ends_, NowNs() + options.timeout_ns, options.timeout_ns);
      if (watched.ok()) deadline_ = *watched;
      else ends_.Cancel(watched.status());
    }
    closed_.Begin(&session->closed_, end);
    if (options.cancellation != nullptr) cancelled_.Begin(options.cancellation, end);
  }
  ~Planning() {
    if (deadline_ != 0) session_->runtime_->deadlines().Forget(deadline_);
  }
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

 private:
  Session* const session_;
  Cancellation ends_;
  uint64_t deadline_ = 0;
  Subscription closed_, cancelled_;
  const Allowance allowance_;
};

// ---- Session ----

Result<std::shared_ptr<Session>> Session::Create(Runtime* runtime, SessionOptions options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  TENON_ASSIGN_OR_RETURN(PlacementOptions placement, PlacementOptions::Of(options));
  TENON_ASSIGN_OR_RETURN(const Runtime::Choice choice, runtime->ChooseDevices(options.device));
  std::shared_ptr<Session> session(new Session(runtime, std::move(options)));
  const auto make_pool = [&](const exec::Device* device) {
    const SessionOptions& given = session->options_;
    return BufferPool::Create({&DeviceAllocate, &DeviceFree, const_cast<exec::Device*>(device)}, given.memory_limit,
                              given.budget ? given.budget(*device) : nullptr);
  };
  session->pool_ = make_pool(choice.devices[0]);
  exec::Environment& env = session->env_;
  env.ops = &runtime->ops();
  env.kernels = &runtime->kernels();
  env.pool = session->pool_;
  env.resources = &session->resources_;
  env.shared = &runtime->resources();
  env.threads = &runtime->threads();
  for (const exec::Device* device : choice.devices) {
    exec::SessionDevice own;
    own.device = device;
    own.index = static_cast<int32_t>(env.devices.size());
    own.pool = session->pool_;
    if (device->queues != nullptr) {
      own.pool = make_pool(device);
      own.memory = own.index;
      own.first_queue = static_cast<int32_t>(env.queues.size());
      own.one_queue = session->options_.debug.one_queue;
      for (int i = 0; i < device->queues->size(); ++i) env.queues.push_back({device->queues->queue(i), own.index});
    }
    env.devices.push_back(own);
  }
  if (session->options_.unnamed != nullptr) env.resources = session->options_.unnamed;
  session->placement_env_ = env;
  if (const Remote* remote = session->options_.remote.get(); remote != nullptr) {
    std::vector<exec::SessionDevice>& devices = session->placement_env_.devices;
    devices.clear();
    for (const exec::Device& device : remote->devices()) {
      exec::SessionDevice& own = devices.emplace_back();
      own.device = &device;
      own.index = static_cast<int32_t>(devices.size()) - 1;
      if (device.synchronous) continue;
      own.memory = own.index;
      own.first_queue = 0;
    }
  }
  if (!session->options_.device.empty()) placement.default_device = choice.devices[choice.wished]->name;
  session->placer_ = std::make_unique<SessionPlacer>(runtime, &session->placement_env_, &session->graph_, &session->graph_mutex_, std::move(placement));
  env.compilers = [runtime] { return runtime->compilers(); };
  env.seed = session->options_.seed;
  env.precision = session->options_.precision;
  env.capture = session->options_.capture;
  return session;
}

Session::~Session() {
  Close();
  store_.Clear();
  resources_.Clear("");
  for (const exec::SessionDevice& device : env_.devices)
    if (device.queued()) device.pool->Close();
  if (pool_ != nullptr) pool_->Close();
}

namespace {

// Ends are told even when there is no memory to say why.
void CancelClosed(Cancellation* cancellation) noexcept {
  try {
    cancellation->Cancel(Status(Code::kCancelled, "the session was closed"));
  } catch (const std::bad_alloc&) {
    try {
      cancellation->Cancel(Status(OutOfMemoryStatus()));
    } catch (const std::bad_alloc&) {  // of a callback's: the flag is set
    }
  }
}

}  // namespace

void Session::Close() {
  closing_.store(true);
  CancelClosed(&closed_);
  std::unique_lock lock(run_mutex_);
  const auto patience = std::chrono::steady_clock::now() + kClosePatience;
  while (active_.load() > 0) {
    if (std::chrono::steady_clock::now() >= patience) {
      Log(TENON_LOG_ERROR, StrCat(active_.load(), " steps of the session have not ended within ", kClosePatience.count(),
                                  " s after they were cancelled; what they have is kept until the process ends"));
      if (auto self = weak_from_this().lock()) runtime_->KeepForEver(std::move(self));
      break;
    }
    for (const auto& weak : callables_)
      if (auto callable = weak.lock())
        for (const auto& context : callable->contexts_)
          if (context->active.load()) CancelClosed(&context->cancellation);
    idle_.wait_for(lock, std::chrono::milliseconds(1));
  }
  lock.unlock();
  std::lock_guard cache(cache_mutex_);
  cache_.clear();  // callables hold the session
}

Status Session::Extend(std::string_view graph_def) {
  const Allowance allowance(&closed_, pool_);
  std::unique_lock lock(graph_mutex_);
  return graph::ImportGraphDef(graph_def, &graph_, graph::Unknown::kLeaveOut);
}

Status Session::ExtendGraph(const graph::Graph& graph) {
  const Allowance allowance(&closed_, pool_);
  std::unique_lock lock(graph_mutex_);
  TENON_ASSIGN_OR_RETURN(const std::vector<int32_t> order, graph.TopologicalOrder());
  const int32_t before = graph_.size();
  std::vector<int32_t> moved(static_cast<size_t>(graph.size()), -1);
  std::vector<int32_t> fresh;
  for (const auto& [name, function] : graph.library()) graph_.library().emplace(name, function);
  const auto add = [&]() -> Status {
    for (int32_t id : order) {
      const graph::Node& node = graph.node(id);
      int32_t& to = moved[static_cast<size_t>(id)];
      to = graph_.Find(node.name);
      if (to >= 0) {
        if (graph_.node(to).op->name != node.op->name)
          return AlreadyExists(StrCat(node.Describe(), ": the session has a node of that name with op ", graph_.node(to).op->name));
        continue;
      }
      graph::NodeSpec spec{node.op, node.name, {}, {}, node.attrs, node.device};
      if (graph.library().contains(node.op->name)) {
        TENON_ASSIGN_OR_RETURN(spec.op, graph_.FunctionOp(node.op->name));
      }
      for (const graph::Edge& edge : node.inputs) {
        const int32_t source = edge.node < 0 ? -1 : moved[static_cast<size_t>(edge.node)];
        spec.inputs.push_back({source, source < 0 ? 0 : edge.index});
      }
      for (int32_t control : node.controls) spec.controls.push_back(moved[static_cast<size_t>(control)]);
      TENON_ASSIGN_OR_RETURN(to, graph_.Add(std::move(spec)));
      fresh.push_back(id);
    }
    for (int32_t id : fresh)
      for (size_t i = 0; i < graph.node(id).inputs.size(); ++i) {
        const graph::Edge edge = graph.node(id).inputs[i];
        const int32_t at = moved[static_cast<size_t>(id)];
        if (edge.node >= 0 && graph_.node(at).inputs[i].node < 0)
          TENON_RETURN_IF_ERROR(graph_.SetInput(at, static_cast<int32_t>(i), {moved[static_cast<size_t>(edge.node)], edge.index}));
      }
    return Status::Ok();
  };
  Status status = add();
  if (!status.ok()) graph_.Truncate(before);
  return status;
}

Result<graph::Graph> Session::Optimize(graph::Graph graph, optimize::Request* request) {
  TENON_ASSIGN_OR_RETURN(graph, optimize::InlineCalls(std::move(graph), request, HasKernel()));
  if (!options_.optimize) return graph;
  const int64_t merged = optimize::MergeCommonSubexpressions(&graph, request);
  if (merged == 0) return graph;
  nodes_merged_.fetch_add(static_cast<uint64_t>(merged));
  return optimize::Prune(graph, request);
}

optimize::HasKernel Session::HasKernel() const {
  return [this](const graph::Node& node) {
    const auto wanted = place::DeviceName::Parse(node.device);
    return std::any_of(placement_env_.devices.begin(), placement_env_.devices.end(), [&](const exec::SessionDevice& own) {
      const auto name = place::DeviceName::Parse(own.device->name);
      return (!wanted.ok() || !name.ok() || wanted->Matches(*name)) && !env_.kernels->Find(node, own.device->type).empty();
    });
  };
}

exec::Plan::Options Session::PlanOptions() const {
  exec::Plan::Options options;
  options.early_transfers = options_.debug.early_transfers;
  options.transfer_precision = static_cast<exec::TransferPrecision>(options_.debug.transfer_precision);
  options.force_dynamic = options_.executor == kDynamicExecutor;
  options.fold = options_.optimize;
  options.schedule_seed = static_cast<uint32_t>(options_.debug.schedule_seed);
  options.compile = options_.compile;
  return options;
}

namespace {

// What a placeholder says of its value; anything else that is fed says nothing.
Shape DeclaredShape(const graph::Graph& graph, graph::Edge feed) {
  constexpr int32_t kScalarsAreMeant = 22;  // before this version of TensorFlow's graphs, a scalar shape stood for an unknown one
  const graph::Node& node = graph.node(feed.node);
  if (!node.has(TENON_OP_FEED) || !node.inputs.empty()) return Shape::Unknown();
  std::vector<graph::OutputFacts> facts;
  bool used_values = false;
  if (!graph::ShapeInference::InferNode(node, {}, &facts, &used_values).ok()) return Shape::Unknown();
  Shape shape = std::move(facts[static_cast<size_t>(feed.index)].shape);
  return shape.rank() == 0 && graph.producer() < kScalarsAreMeant ? Shape::Unknown() : shape;
}

}  // namespace

// Without what runs it.
std::shared_ptr<Callable> Session::NewCallable(const graph::Graph& graph, const optimize::Request& request) {
  auto callable = std::make_shared<Callable>();
  callable->session_ = shared_from_this();
  const auto owner = [this](const std::vector<int32_t>& memories, size_t i) -> const exec::Device* {
    return memories.empty() || memories[i] == 0 ? nullptr : env_.devices[static_cast<size_t>(memories[i])].device;
  };
  for (size_t i = 0; i < request.feeds.size(); ++i) {
    callable->feed_places_.push_back({BaseType(graph.TypeOf(request.feeds[i])), owner(request.feed_memories, i), DeclaredShape(graph, request.feeds[i])});
    callable->feed_names_.push_back(graph.EdgeName(request.feeds[i]));
  }
  for (size_t i = 0; i < request.fetches.size(); ++i) {
    callable->fetch_devices_.push_back(owner(request.fetch_memories, i));
    callable->fetches_on_devices_ = callable->fetches_on_devices_ || callable->fetch_devices_.back() != nullptr;
  }
  return callable;
}

void Session::Keep(const std::shared_ptr<Callable>& callable) {
  plans_built_.fetch_add(1);
  std::lock_guard lock(run_mutex_);
  std::erase_if(callables_, [](const auto& weak) { return weak.expired(); });
  callables_.push_back(callable);
}

Result<std::shared_ptr<Callable>> Session::MakeCallable(graph::Graph graph, optimize::Request request) {
  TENON_ASSIGN_OR_RETURN(graph, Optimize(std::move(graph), &request));
  auto times = std::make_shared<exec::StepTimes>();
  TENON_RETURN_IF_ERROR(placer_->Place(request, &graph, times.get()));
  std::shared_ptr<Callable> callable = NewCallable(graph, request);
  exec::Plan::Options options = PlanOptions();
  options.times = std::move(times);
  options.feed_memories = std::move(request.feed_memories);
  options.fetch_memories = std::move(request.fetch_memories);
  if (options_.remote != nullptr) {
    TENON_ASSIGN_OR_RETURN(callable->remote_, options_.remote->MakePlan(std::move(graph), request.feeds, request.fetches, request.targets,
                                                                        env_, options));
  } else if (options_.debug.partition) {
    TENON_ASSIGN_OR_RETURN(callable->parted_, exec::PartedPlan::Create(std::move(graph), request.feeds, request.fetches, request.targets,
                                                                       env_, &store_, options));
  } else {
    TENON_ASSIGN_OR_RETURN(callable->plan_, exec::Plan::Create(std::move(graph), request.feeds, request.fetches, request.targets,
                                                               env_, &store_, options));
  }
  Keep(callable);
  return callable;
}

Result<std::shared_ptr<Callable>> Session::PreparePart(graph::Graph graph, std::vector<graph::Edge> feeds, std::vector<graph::Edge> fetches,
                                                       std::vector<int32_t> targets, std::shared_ptr<const exec::PartInfo> part) {
  if (closing_.load()) return Status(Code::kCancelled, "the session is closed");
  const Planning planning(this, {});
  optimize::Request request{std::move(feeds), std::move(fetches), std::move(targets)};
  std::shared_ptr<Callable> callable = NewCallable(graph, request);
  exec::Plan::Options options = PlanOptions();
  options.part = std::move(part);
  TENON_ASSIGN_OR_RETURN(callable->plan_, exec::Plan::Create(std::move(graph), std::move(request.feeds), std::move(request.fetches),
                                                             std::move(request.targets), env_, &store_, std::move(options)));
  Keep(callable);
  return callable;
}

namespace {

// Names to edges; a target's name may carry ":0" or "^" as well.
Result<optimize::Request> MakeRequest(const graph::Graph& graph, const std::vector<std::string_view>& feeds,
                                      const std::vector<std::string_view>& fetches, const std::vector<std::string_view>& targets) {
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
    if (!graph::SplitTensorName(name, &node, &index)) return InvalidArgument(StrCat("target '", name, "' is no node's name"));
    auto id = graph.Get(node);
    if (!id.ok()) return Status(id.status()).Annotate(StrCat("target '", name, "'"));
    request.targets.push_back(*id);
  }
  if (request.fetches.empty() && request.targets.empty())
    return InvalidArgument("there is nothing to run: name at least one fetch or target");
  return request;
}

}  // namespace

Result<int32_t> Session::FindDevice(std::string_view name) const {
  TENON_ASSIGN_OR_RETURN(const place::DeviceName wanted, place::DeviceName::Parse(name));
  int32_t found = -1;
  std::string known;
  for (const exec::SessionDevice& each : env_.devices) {
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
Status Session::FindMemories(const std::vector<std::string_view>& names, const std::vector<std::string_view>& devices, const char* what,
                             std::vector<int32_t>* out) const {
  if (devices.empty()) return Status::Ok();
  if (devices.size() != names.size()) return InvalidArgument(StrCat(names.size(), " ", what, " have ", devices.size(), " devices; give each one, or none at all"));
  for (size_t i = 0; i < names.size(); ++i) {
    auto found = devices[i].empty() ? Result<int32_t>(0) : FindDevice(devices[i]);
    if (!found.ok()) return std::move(found).status().Annotate(StrCat("the device of '", names[i], "'"));
    out->push_back(device(*found).memory);
  }
  return Status::Ok();
}

Result<Tensor> Session::CopyTo(const tenon_tensor_view& value, int32_t from, int32_t to) {
  if (from == 0 && to == 0) return Tensor::CopyOf(GlobalPool(), value);
  if (!IsPlain(value.dtype)) return InvalidArgument(StrCat("a tensor of ", TypeName(value.dtype), " stays in host memory"));
  const exec::SessionDevice& worker = device(from == 0 ? to : from);
  if (from != 0 && to != 0 && worker.device->driver != device(to).device->driver) {
    TENON_ASSIGN_OR_RETURN(const Tensor on_host, CopyTo(value, from, 0));
    return CopyTo(on_host.view(), 0, to);
  }
  BufferPool* pool = to == 0 ? GlobalPool() : device(to).pool;
  TENON_ASSIGN_OR_RETURN(Tensor copy, Tensor::Allocate(pool, value.dtype, ShapeOf(value)));
  const auto handle = [this](int32_t memory) { return memory == 0 ? nullptr : device(memory).device->handle; };
  const tenon_copy_args args{TENON_HEAD(tenon_copy_args), DataOf(value), copy.data(), value.byte_size, handle(from), handle(to)};
  bool abandoned = false;
  if (Status status = exec::CopyNow(env_, worker, args, "copy", nullptr, &abandoned); !status.ok()) {
    if (abandoned) Retain(copy.buffer());  // it may still be written to
    return status;
  }
  return copy;
}

Result<std::shared_ptr<Callable>> Session::Prepare(const std::vector<std::string_view>& feeds,
                                                   const std::vector<std::string_view>& fetches,
                                                   const std::vector<std::string_view>& targets,
                                                   const std::vector<std::string_view>& feed_devices,
                                                   const std::vector<std::string_view>& fetch_devices, const RunOptions& options) {
  if (closing_.load()) return Status(Code::kCancelled, "the session is closed");
  const Planning planning(this, options);
  std::shared_lock lock(graph_mutex_);
  TENON_ASSIGN_OR_RETURN(optimize::Request request, MakeRequest(graph_, feeds, fetches, targets));
  TENON_RETURN_IF_ERROR(FindMemories(feeds, feed_devices, "feeds", &request.feed_memories));
  TENON_RETURN_IF_ERROR(FindMemories(fetches, fetch_devices, "fetches", &request.fetch_memories));
  const auto on_device = [](int32_t memory) { return memory != 0; };
  if (options_.remote != nullptr && (std::any_of(request.feed_memories.begin(), request.feed_memories.end(), on_device) ||
                                     std::any_of(request.fetch_memories.begin(), request.fetch_memories.end(), on_device)))
    return Unimplemented("the steps of this session run in other processes; feed and fetch host memory");
  TENON_ASSIGN_OR_RETURN(graph::Graph pruned, optimize::Prune(graph_, &request));
  lock.unlock();
  return MakeCallable(std::move(pruned), std::move(request));
}

Result<PlacementReport> Session::ExplainPlacement(const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                                                  const std::vector<std::string_view>& targets) {
  const Planning planning(this, {});
  std::shared_lock lock(graph_mutex_);
  TENON_ASSIGN_OR_RETURN(optimize::Request request, MakeRequest(graph_, feeds, fetches, targets));
  TENON_ASSIGN_OR_RETURN(graph::Graph graph, optimize::Prune(graph_, &request));
  lock.unlock();
  TENON_ASSIGN_OR_RETURN(graph, Optimize(std::move(graph), &request));
  return placer_->Explain(request, graph);
}

Status Session::Run(const RunOptions& options, const std::vector<std::string_view>& feed_names,
                    const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
                    const std::vector<std::string_view>& target_names, std::vector<Tensor>* out_fetches) {
  const std::string key = CacheKey(feed_names, fetch_names, target_names);
  std::shared_ptr<Callable> callable;
  {
    std::lock_guard lock(cache_mutex_);
    if (const auto it = cache_.find(key); it != cache_.end()) callable = it->second;
  }
  if (callable == nullptr) {
    const uint64_t begin = NowNs();
    TENON_ASSIGN_OR_RETURN(callable, PrepareCached(feed_names, fetch_names, target_names, options));
    {
      std::lock_guard lock(cache_mutex_);
      if (!closing_.load()) callable = cache_.emplace(key, callable).first->second;
    }
    if (options.timeout_ns == 0) return callable->Run(options, feeds, out_fetches);
    // The planning's time is the step's.
    RunOptions rest = options;
    rest.asked_ns = options.timeout_ns;
    rest.timeout_ns -= std::min(NowNs() - begin, options.timeout_ns - 1);
    return callable->Run(rest, feeds, out_fetches);
  }
  plans_reused_.fetch_add(1, std::memory_order_relaxed);
  return callable->Run(options, feeds, out_fetches);
}

Result<std::shared_ptr<Callable>> Session::PrepareCached(const std::vector<std::string_view>& feeds, const std::vector<std::string_view>& fetches,
                                                         const std::vector<std::string_view>& targets, const RunOptions& options) {
  auto callable = Prepare(feeds, fetches, targets, {}, {}, options);
  if (callable.ok() || callable.status().code() != Code::kResourceExhausted) return callable;
  std::unordered_map<std::string, std::shared_ptr<Callable>> dropped;
  {
    std::lock_guard lock(cache_mutex_);
    dropped.swap(cache_);
  }
  if (dropped.empty()) return callable;
  dropped.clear();
  return Prepare(feeds, fetches, targets, {}, {}, options);
}

SessionMetrics Session::metrics() const {
  SessionMetrics out{steps_.load(), plans_built_.load(), plans_reused_.load(), 0, pool_->bytes_in_use(), pool_->peak_bytes(), 0,
                     nodes_merged_.load(), host_waits_.load(), 0, 0, captured_launches_.load()};
  for (const exec::SessionDevice& device : env_.devices) {
    if (!device.queued()) continue;
    out.device_bytes_in_use += device.pool->bytes_in_use();
    out.device_peak_bytes += device.pool->peak_bytes();
  }
  std::lock_guard lock(const_cast<Session*>(this)->run_mutex_);
  for (const auto& weak : callables_)
    if (auto callable = weak.lock(); callable != nullptr && callable->remote_ == nullptr) {
      const bool parted = callable->parted_ != nullptr;
      out.bindings_built += parted ? callable->parted_->bindings_built() : callable->plan_->bindings_built();
      out.nodes_folded += parted ? callable->parted_->nodes_folded() : callable->plan_->nodes_folded();
    }
  return out;
}

// ---- Callable ----

Callable::~Callable() {
  for (const auto& context : contexts_) context->ReturnInstances();
}

bool RunContext::abandoned() const {
  return (run != nullptr && run->abandoned()) || (parted != nullptr && parted->abandoned());
}

void RunContext::ReturnInstances() {
  if (run != nullptr) run->ReturnInstances();
  if (parted != nullptr) parted->ReturnInstances();
}

RunContext* Callable::AcquireContext() {
  {
    const SpinGuard guard(&lock_);
    if (!idle_.empty()) {
      RunContext* context = idle_.back();
      idle_.pop_back();
      return context;
    }
  }
  auto fresh = std::make_unique<RunContext>();
  RunContext* context = fresh.get();
  context->step.env = &session_->env_;
  if (remote_ != nullptr) context->remote = remote_->NewRun();
  else if (parted_ != nullptr) context->parted = std::make_unique<exec::PartedRun>(parted_.get());
  else context->run = std::make_unique<exec::PlanRun>(plan_.get());
  context->step.cancellation = &context->cancellation;
  // Close() walks the contexts under this lock.
  std::lock_guard lock(session_->run_mutex_);
  const SpinGuard guard(&lock_);
  idle_.reserve(contexts_.size() + 1);
  contexts_.push_back(std::move(fresh));
  return context;
}

void Callable::GiveBack(RunContext* context) {
  if (context->abandoned()) return session_->runtime_->KeepForEver(shared_from_this());
  if (!context->step.local_resources.empty()) context->step.local_resources.clear();
  if (context->cancellation.cancelled()) {
    // A cancelled context is not used again; it lives on for Close().
    context->ReturnInstances();
    return;
  }
  const SpinGuard guard(&lock_);
  idle_.push_back(context);
}

bool Callable::FeedPlace::Fits(const tenon_tensor_view& view) const {
  if (view.dl.ndim < 0 || view.dl.ndim > TENON_MAX_RANK) return false;
  if (shape.known_rank() && shape.rank() != view.dl.ndim) return false;
  for (int32_t i = 0; shape.known_rank() && i < view.dl.ndim; ++i)
    if (shape.dim(i) >= 0 && shape.dim(i) != view.dl.shape[i]) return false;
  uint64_t bytes = 0;
  return ByteSize(type, view, &bytes) && bytes == view.byte_size;
}

namespace {

// Why a feed's view does not fit what is declared, or itself.
Status BadFeed(const std::string& name, const tenon_tensor_view& view, DType type, const Shape& declared) {
  if (view.dl.ndim < 0 || view.dl.ndim > TENON_MAX_RANK)
    return InvalidArgument(StrCat("feed '", name, "' has rank ", view.dl.ndim, "; at most ", TENON_MAX_RANK, " are allowed"));
  const Shape found = ShapeOf(view);
  if (Status valid = found.Validate(); !valid.ok()) return std::move(valid).Annotate(StrCat("feed '", name, "'"));
  const bool same_rank = declared.known_rank() && declared.rank() == found.rank();
  bool fits = !declared.known_rank() || same_rank;
  for (int i = 0; same_rank && i < found.rank(); ++i) fits = fits && (declared.dim(i) < 0 || declared.dim(i) == found.dim(i));
  if (!fits)
    return InvalidArgument(StrCat("feed '", name, "' is declared as ", TypeName(type), declared.ToString(), ", found ", TypeName(type), found.ToString()));
  return InvalidArgument(StrCat("feed '", name, "' has a byte_size of ", view.byte_size, ", which is not that of ", TypeName(type), found.ToString()));
}

}  // namespace

Status Callable::CheckFeeds(const tenon_tensor_view* const* feeds) const {
  for (size_t i = 0; i < feed_places_.size(); ++i) {
    const tenon_tensor_view* view = feeds[i];
    const exec::Device* device = feed_places_[i].device;
    const bool is_there = view != nullptr && view->dtype == feed_places_[i].type && view->dl.strides == nullptr &&
                          (view->dl.data != nullptr || view->byte_size == 0) && exec::LiesIn(*view, device);
    if (is_there && feed_places_[i].Fits(*view)) continue;
    const std::string& name = feed_names_[i];
    if (is_there) return BadFeed(name, *view, feed_places_[i].type, feed_places_[i].shape);
    if (view == nullptr) return InvalidArgument(StrCat("feed '", name, "' is NULL"));
    if (view->dtype != feed_places_[i].type)
      return InvalidArgument(StrCat("feed '", name, "' must be ", TypeName(feed_places_[i].type), ", found ", TypeName(view->dtype)));
    if (!exec::LiesIn(*view, device))
      return InvalidArgument(StrCat("feed '", name, "' must lie in ", device == nullptr ? "host memory" : StrCat("the memory of ", device->name),
                                    ", found a tensor of DLPack's device type ", view->dl.device_type, ", device ", view->dl.device_id,
                                    "; name the device of a feed when the callable is prepared"));
    if (view->dl.strides != nullptr) return InvalidArgument(StrCat("feed '", name, "' has strides; give it contiguous"));
    return InvalidArgument(StrCat("feed '", name, "' has no data"));
  }
  return Status::Ok();
}

namespace {

// Run: of a plan or of its parts.
template <typename Run, typename Ended, typename Taker>
Status TakeFetches(Run* run, exec::Step* step, const tenon_tensor_view* const* feeds, Ended ended, size_t count, Taker taker, void* argument) {
  Status status = Guarded([&] { return run->Run(step, feeds); });
  ended();
  for (size_t i = 0; i < count && status.ok(); ++i) status = Guarded([&] { return taker(argument, i, run->fetch(i)); });
  run->Finish();
  return status;
}

}  // namespace

namespace {

// Gives a fetch that has a buffer of its own to the caller.
Status Share(size_t index, const tenon_tensor_view& view, std::vector<Tensor>* out) {
  if (view.buffer == nullptr) return Internal(StrCat("fetch ", index, " has no buffer"));
  Retain(view.buffer);
  (*out)[index] = Tensor(view.dtype, ShapeOf(view), view.buffer);
  return Status::Ok();
}

}  // namespace

// What cancels a run from outside, until it goes.
class Callable::Ends {
 public:
  Ends(DeadlineWatcher* watcher, Cancellation* own, const RunOptions& options) : watcher_(watcher) {
    if (options.timeout_ns != 0) {
      auto watched = watcher->Watch(own, NowNs() + options.timeout_ns, options.asked_ns == 0 ? options.timeout_ns : options.asked_ns, &ThisThreadsTrail());
      if (watched.ok()) deadline_ = *watched;
      else own->Cancel(watched.status());
    }
    // A part that fails, or is cancelled, must not wait for the others.
    if (exec::Rendezvous* meeting = options.rendezvous; meeting != nullptr)
      abort_.Begin(own, [meeting](const Status& reason) { meeting->Abort(reason); });
    if (options.cancellation != nullptr) caller_.Begin(options.cancellation, [own](const Status& reason) { own->Cancel(reason); });
  }
  ~Ends() { ForgetDeadline(); }
  // A watchdog may say what the step does as long as the step has its memory: not later.
  void ForgetDeadline() {
    if (deadline_ != 0) watcher_->Forget(std::exchange(deadline_, 0));
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

 private:
  DeadlineWatcher* const watcher_;
  uint64_t deadline_ = 0;
  Subscription abort_, caller_;
};

Status Callable::RunSteps(RunContext* context, const tenon_tensor_view* const* feeds, Ends* ends, Taker taker, void* argument) {
  const auto ended = [ends] { ends->ForgetDeadline(); };
  if (context->remote != nullptr) return TakeFetches(context->remote.get(), &context->step, feeds, ended, fetch_count(), taker, argument);
  if (context->parted != nullptr) return TakeFetches(context->parted.get(), &context->step, feeds, ended, fetch_count(), taker, argument);
  return TakeFetches(context->run.get(), &context->step, feeds, ended, fetch_count(), taker, argument);
}

namespace {

// Counts a step that runs, whatever ends it: the session's end waits for the count.
class Running {
 public:
  Running(std::atomic<int64_t>* active, std::atomic<uint64_t>* steps) : active_(active), steps_(steps) {
    active_->fetch_add(1, std::memory_order_seq_cst);
  }
  ~Running() {
    steps_->fetch_add(1, std::memory_order_relaxed);
    active_->fetch_sub(1, std::memory_order_seq_cst);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::atomic<int64_t>* const active_;
  std::atomic<uint64_t>* const steps_;
};

}  // namespace

Status Callable::ExecuteIn(RunContext* context, const RunOptions& options, const tenon_tensor_view* const* feeds, Taker taker,
                           void* argument) {
  Ends ends(&session_->runtime_->deadlines(), &context->cancellation, options);
  if (context->cancellation.cancelled()) return context->cancellation.reason();
  Status status = RunSteps(context, feeds, &ends, taker, argument);
  // A kernel that left off knows that the step was cancelled, and not why.
  if (status.code() != Code::kCancelled || !context->cancellation.cancelled() || context->cancellation.reason().code() == Code::kCancelled) return status;
  return context->cancellation.reason().Annotate(std::string(status.message()));
}

Status Callable::Execute(const RunOptions& options, const tenon_tensor_view* const* feeds, Taker taker, void* argument) {
  TENON_RETURN_IF_ERROR(CheckFeeds(feeds));
  Session& session = *session_;
  const Running running(&session.active_, &session.steps_);
  if (session.closing_.load(std::memory_order_seq_cst)) return Status(Code::kCancelled, "the session is closed");
  RunContext* context = AcquireContext();
  // What throws leaves its context as it is: it is not used again, and lives on with the callable.
  struct Active {
    RunContext* context;
    ~Active() { context->active.store(false, std::memory_order_release); }
  };
  Status status;
  {
    context->active.store(true, std::memory_order_release);
    const Active active{context};
    context->step.id = session.next_step_.fetch_add(1, std::memory_order_relaxed);
    context->step.trace = options.trace;
    context->step.rendezvous = options.rendezvous;
    DeviceTrace devices(session.env_, options.trace);
    status = ExecuteIn(context, options, feeds, taker, argument);
    devices.Finish();
    session.host_waits_.fetch_add(std::exchange(context->step.host_waits, 0), std::memory_order_relaxed);
    session.captured_launches_.fetch_add(std::exchange(context->step.captured_launches, 0), std::memory_order_relaxed);
    if (options.trace != nullptr && session.options_.record_costs && status.ok() && plan_ != nullptr)
      session.placer_->RecordCosts(*plan_, feeds, *options.trace);
  }
  GiveBack(context);
  return status;
}

Status Callable::Run(const RunOptions& options, const tenon_tensor_view* const* feeds, std::vector<Tensor>* out_fetches) {
  out_fetches->assign(fetch_count(), Tensor());
  // What came from another process is in buffers of its own already.
  if (remote_ != nullptr)
    return Execute(options, feeds, [](void* argument, size_t index, const tenon_tensor_view& view) {
      return Share(index, view, static_cast<std::vector<Tensor>*>(argument));
    }, out_fetches);
  return Execute(options, feeds, [](void* argument, size_t index, const tenon_tensor_view& view) -> Status {
    if (!IsPlain(view.dtype) && view.dtype != TENON_DT_STRING)
      return InvalidArgument(StrCat("fetch ", index, " is a ", TypeName(view.dtype), ", which cannot leave the session"));
    auto* out = static_cast<std::vector<Tensor>*>(argument);
    // What stays on a device is too.
    if (!exec::OnHost(view)) return Share(index, view, out);
    // The caller's own copy: it may outlive the session, and the runtime.
    TENON_ASSIGN_OR_RETURN((*out)[index], Tensor::CopyOf(GlobalPool(), view));
    return Status::Ok();
  }, out_fetches);
}

Status Callable::RunInto(const RunOptions& options, const tenon_tensor_view* const* feeds, const tenon_tensor_view* fetches) {
  if (fetches_on_devices_)
    return Unimplemented("a fetch of this callable stays on a device, whose memory the engine provides; run it without memory of your own");
  return Execute(options, feeds, [](void* argument, size_t index, const tenon_tensor_view& view) -> Status {
    const tenon_tensor_view& to = static_cast<const tenon_tensor_view*>(argument)[index];
    if (to.dtype != view.dtype || to.byte_size != view.byte_size || !IsPlain(view.dtype) || to.dl.ndim != view.dl.ndim ||
        (view.dl.ndim > 0 && std::memcmp(to.dl.shape, view.dl.shape, sizeof(int64_t) * static_cast<size_t>(view.dl.ndim)) != 0))
      return InvalidArgument(StrCat("fetch ", index, " is ", TypeName(view.dtype), ShapeOf(view).ToString(), "; the memory given is for ",
                                    TypeName(to.dtype), ShapeOf(to).ToString()));
    if (view.byte_size > 0) std::memcpy(DataOf(to), DataOf(view), view.byte_size);
    return Status::Ok();
  }, const_cast<tenon_tensor_view*>(fetches));
}

// ---- PartialRun ----

Result<std::unique_ptr<PartialRun>> PartialRun::Setup(std::shared_ptr<Session> session, const std::vector<std::string_view>& feeds,
                                                      const std::vector<std::string_view>& fetches,
                                                      const std::vector<std::string_view>& targets) {
  const Session::Planning planning(session.get(), {});
  std::shared_lock lock(session->graph_mutex_);
  TENON_ASSIGN_OR_RETURN(optimize::Request request, MakeRequest(session->graph_, feeds, fetches, targets));
  TENON_ASSIGN_OR_RETURN(graph::Graph pruned, optimize::Prune(session->graph_, &request));
  lock.unlock();
  TENON_ASSIGN_OR_RETURN(pruned, optimize::InlineCalls(std::move(pruned), &request, session->HasKernel()));
  std::unique_ptr<PartialRun> partial(new PartialRun(std::move(session), std::move(pruned)));
  partial->feeds_ = std::move(request.feeds);
  partial->fetches_ = std::move(request.fetches);
  partial->targets_ = std::move(request.targets);
  partial->executed_.assign(static_cast<size_t>(partial->graph_.size()), false);
  return partial;
}

Status PartialRun::Step(const RunOptions& options, const std::vector<std::string_view>& feed_names,
                        const tenon_tensor_view* const* feeds, const std::vector<std::string_view>& fetch_names,
                        std::vector<Tensor>* out_fetches) {
  // Feeds that were declared and are not there yet.
  std::map<graph::Edge, Tensor> given;
  for (size_t i = 0; i < feed_names.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const graph::Edge edge, graph_.ParseEdge(feed_names[i]));
    if (std::find(feeds_.begin(), feeds_.end(), edge) == feeds_.end())
      return InvalidArgument(StrCat("'", feed_names[i], "' was not declared as a feed of this partial run, or was fed before"));
    TENON_ASSIGN_OR_RETURN(given[edge], Tensor::CopyOf(session_->pool(), *feeds[i]));
  }
  optimize::Request request;
  for (std::string_view name : fetch_names) {
    TENON_ASSIGN_OR_RETURN(const graph::Edge edge, graph_.ParseEdge(name));
    if (std::find(fetches_.begin(), fetches_.end(), edge) == fetches_.end())
      return InvalidArgument(StrCat("'", name, "' was not declared as a fetch of this partial run"));
    request.fetches.push_back(edge);
  }
  const size_t asked = request.fetches.size();
  std::map<graph::Edge, Tensor> known = known_;
  known.insert(given.begin(), given.end());
  std::vector<graph::Edge> open = feeds_;
  std::erase_if(open, [&](const graph::Edge& edge) { return given.contains(edge); });
  // Targets run with the call that brings the last feed.
  if (open.empty()) request.targets = targets_;
  // What this call will run; it may not need a feed that is still open.
  std::vector<bool> runs(executed_.size(), false);
  std::vector<int32_t> stack;
  const auto want = [&](graph::Edge edge) -> Status {
    if (known.contains(edge)) return Status::Ok();
    if (std::find(open.begin(), open.end(), edge) != open.end())
      return FailedPrecondition(StrCat("'", graph_.EdgeName(edge), "' must be fed before what was asked for can be computed"));
    if (!runs[static_cast<size_t>(edge.node)]) {
      runs[static_cast<size_t>(edge.node)] = true;
      stack.push_back(edge.node);
    }
    return Status::Ok();
  };
  for (const graph::Edge& edge : request.fetches) TENON_RETURN_IF_ERROR(want(edge));
  for (int32_t target : request.targets)
    if (!executed_[static_cast<size_t>(target)]) TENON_RETURN_IF_ERROR(want({target, -1}));
  while (!stack.empty()) {
    const graph::Node& node = graph_.node(stack.back());
    stack.pop_back();
    for (const graph::Edge& edge : node.inputs) TENON_RETURN_IF_ERROR(want(edge));
    for (int32_t control : node.controls)
      if (!executed_[static_cast<size_t>(control)]) TENON_RETURN_IF_ERROR(want({control, -1}));
  }
  // Values that later calls need are fetched along. Handles are made again instead.
  std::vector<graph::Edge> kept;
  for (int32_t id = 0; id < graph_.size(); ++id) {
    if (runs[static_cast<size_t>(id)]) continue;
    for (const graph::Edge& edge : graph_.node(id).inputs) {
      if (edge.node < 0 || !runs[static_cast<size_t>(edge.node)] || known.contains(edge)) continue;
      const DType type = graph_.TypeOf(edge);
      if (IsRef(type) || type == TENON_DT_RESOURCE) {
        if (graph_.node(edge.node).has(TENON_OP_WRITES_STATE))
          return Unimplemented(StrCat("a partial run cannot stop after ", graph_.node(edge.node).Describe(), ", whose reference is used later"));
        continue;
      }
      if (std::find(kept.begin(), kept.end(), edge) == kept.end()) kept.push_back(edge);
    }
  }
  request.fetches.insert(request.fetches.end(), kept.begin(), kept.end());
  // Known values are feeds; nodes that ran are not waited for again.
  graph::Graph graph = graph_.Clone();
  for (int32_t id = 0; id < graph.size(); ++id)
    std::erase_if(graph.mutable_node(id).controls, [&](int32_t control) { return executed_[static_cast<size_t>(control)]; });
  std::erase_if(request.targets, [&](int32_t target) { return executed_[static_cast<size_t>(target)]; });
  std::vector<tenon_tensor_view> views;
  for (const auto& [edge, tensor] : known) {
    request.feeds.push_back(edge);
    views.push_back(tensor.view());
  }
  std::vector<const tenon_tensor_view*> pointers;
  for (const auto& view : views) pointers.push_back(&view);
  std::vector<Tensor> fetched;
  if (!request.fetches.empty() || !request.targets.empty()) {
    std::shared_ptr<Callable> callable;
    {
      const Session::Planning planning(session_.get(), options);
      TENON_ASSIGN_OR_RETURN(graph, optimize::Prune(graph, &request));
      TENON_ASSIGN_OR_RETURN(callable, session_->MakeCallable(std::move(graph), std::move(request)));
    }
    TENON_RETURN_IF_ERROR(callable->Run(options, pointers.data(), &fetched));
  }
  // Only now: a call that failed can be made again.
  known_ = std::move(known);
  feeds_ = std::move(open);
  for (size_t i = 0; i < kept.size(); ++i) known_[kept[i]] = fetched[asked + i];
  for (size_t id = 0; id < runs.size(); ++id) {
    if (!runs[id]) continue;
    bool handle = false;
    for (DType type : graph_.node(static_cast<int32_t>(id)).output_types) handle = handle || IsRef(type) || type == TENON_DT_RESOURCE;
    if (!handle) executed_[id] = true;
  }
  fetched.resize(asked);
  *out_fetches = std::move(fetched);
  return Status::Ok();
}

}  // namespace tenon::session
