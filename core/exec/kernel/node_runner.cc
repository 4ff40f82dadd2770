// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/node_runner.h"

#include <algorithm>
#include <cstring>

#include "core/exec/device/environment.h"
#include "core/exec/device/step.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/kernel_instance.h"
#include "core/exec/kernel/kernel_question.h"
#include "core/exec/kernel/place.h"
#include "core/exec/kernel/prepare_services.h"
#include "core/exec/kernel/watch.h"
#include "core/exec/threads/host_threads.h"
#include "core/graph/graph.h"
#include "core/graph/op_def.h"
#include "core/tensor/allowance.h"
#include "core/tensor/buffer.h"
#include "core/trace/trace.h"

namespace tenon::exec {
namespace {

constexpr size_t kCacheSize = 32;

// Shapes of the inputs as numbers; values too when asked.
void AppendKey(const tenon_tensor_view& view, bool values, std::vector<int64_t>* key) {
  key->push_back(view.dl.ndim);
  for (int32_t i = 0; i < view.dl.ndim; ++i) key->push_back(view.dl.shape[i]);
  if (!values || IsRef(view.dtype) || !IsPlain(view.dtype) || view.byte_size > graph::kMaxTrackedBytes || !OnHost(view))
    return;
  key->push_back(static_cast<int64_t>(view.dtype));
  const char* data = static_cast<const char*>(DataOf(view));
  for (uint64_t at = 0; at < view.byte_size; at += 8) {
    int64_t word = 0;
    std::memcpy(&word, data + at, std::min<uint64_t>(8, view.byte_size - at));
    key->push_back(word);
  }
}

// Whether the key says just the shapes of these views; the common case, without building a key.
bool SameShapes(const std::vector<int64_t>& key, std::span<const tenon_tensor_view* const> inputs) {
  size_t at = 0;
  for (const tenon_tensor_view* view : inputs) {
    if (at >= key.size() || key[at++] != view->dl.ndim) return false;
    for (int32_t i = 0; i < view->dl.ndim; ++i)
      if (at >= key.size() || key[at++] != view->dl.shape[i]) return false;
  }
  return at == key.size();
}

}  // namespace

uint64_t NewShapeIds() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(kShapeIds, std::memory_order_relaxed);
}

PreparedNode::~PreparedNode() {
  if (prepared != nullptr && kernel->registration().destroy_prepared != nullptr)
    TellPlugin(kernel->plugin(), "destroy_prepared", [this] { kernel->registration().destroy_prepared(prepared); });
}

namespace {

// Which of a node's inputs or outputs the kernel wants in the host's memory.
std::vector<bool> HostArguments(const std::vector<graph::ArgDef>& arguments, const std::vector<graph::ArgRange>& ranges,
                                const std::vector<DType>& types, const tenon_kernel_registration& kernel) {
  std::vector<bool> host(types.size());
  for (size_t i = 0; i < types.size(); ++i) host[i] = !IsPlain(types[i]) || IsRef(types[i]);
  for (uint64_t a = 0; a < kernel.host_memory_count; ++a)
    for (size_t i = 0; i < arguments.size() && i < ranges.size(); ++i)
      if (arguments[i].name == View(kernel.host_memory_args[a]))
        for (int32_t k = 0; k < ranges[i].count; ++k) host[static_cast<size_t>(ranges[i].begin + k)] = true;
  return host;
}

}  // namespace

bool WantsHostMemory(const graph::Node& node, const tenon_kernel_registration& kernel, bool input, size_t index) {
  if (kernel.device_type.size == 0) return true;
  return input ? HostArguments(node.op->inputs, node.input_ranges, node.input_types, kernel)[index]
               : HostArguments(node.op->outputs, node.output_ranges, node.output_types, kernel)[index];
}

Result<std::shared_ptr<NodeRunner>> NodeRunner::Create(const graph::Node& node, const Environment& env,
                                                       KernelStore* store, int32_t device) {
  const std::string_view type = env.devices.empty() ? std::string_view() : env.devices[device].device->type;
  std::vector<KernelEntry> candidates = env.kernels->Find(node, type);
  if (candidates.empty()) return env.kernels->NoKernel(node, type);
  const SessionDevice* const place = env.devices.empty() ? nullptr : &env.devices[device];
  std::vector<KernelRefusal> refused;
  TENON_RETURN_IF_ERROR(KeepThoseThatTakeIt(node, env, place, &candidates, &refused));
  if (candidates.empty()) return NobodyTakes(node, refused);
  // Those of one kind: for the device's queue, or for the host.
  const bool anywhere = candidates[0].registration->device_type.size == 0;
  std::erase_if(candidates,
                [&](const KernelEntry& entry) { return (entry.registration->device_type.size == 0) != anywhere; });
  return std::shared_ptr<NodeRunner>(
      new NodeRunner(node, env, store, device, std::move(candidates), std::move(refused)));
}

NodeRunner::NodeRunner(const graph::Node& node, const Environment& env, KernelStore* store, int32_t device,
                       std::vector<KernelEntry> candidates, std::vector<KernelRefusal> refused)
    : node_(&node), env_(&env), store_(store),
      device_(env.devices.empty() ? nullptr : &env.devices[device]), candidates_(std::move(candidates)),
      refused_at_once_(std::move(refused)), instances_(candidates_.size()) {
  main_queue_only_ = TouchesState(node) || registration().dynamic_outputs != 0;
  if (device_ == nullptr || !device_->queued() || registration().device_type.size == 0) return;
  queued_on_ = device_;
  host_inputs_ = HostArguments(node.op->inputs, node.input_ranges, node.input_types, registration());
  host_outputs_ = HostArguments(node.op->outputs, node.output_ranges, node.output_types, registration());
}

bool MayRunBeside(const NodeRunner& runner) {
  constexpr uint32_t kElse = TENON_KERNEL_ASYNC | TENON_KERNEL_BLOCKING | TENON_KERNEL_STATEFUL | TENON_KERNEL_VIEW;
  const graph::Node& node = runner.node();
  const auto is_value = [](DType type) { return !IsRef(type) && (IsPlain(type) || type == TENON_DT_STRING); };
  return runner.queued_on() == nullptr && !runner.has(kElse) &&
         !node.has(TENON_OP_STATEFUL | TENON_OP_WRITES_STATE | TENON_OP_IO) && !HasFunctions(node) &&
         std::all_of(node.input_types.begin(), node.input_types.end(), is_value) &&
         std::all_of(node.output_types.begin(), node.output_types.end(), is_value);
}

Place NodeRunner::PlaceFor(QueueWork* work, QueueId queue) const {
  if (queued_on_ == nullptr) return {};
  Place place{queued_on_, work, queue, 0};
  for (size_t k = 0; k < host_outputs_.size(); ++k)
    if (host_outputs_[k]) place.host_outputs |= uint64_t{1} << std::min<size_t>(k, 63);
  return place;
}

Result<std::shared_ptr<KernelInstance>> NodeRunner::Instance(size_t i) {
  std::lock_guard lock(mutex_);
  if (instances_[i] == nullptr) {
    const bool stateful = (candidates_[i].registration->traits & TENON_KERNEL_STATEFUL) != 0;
    TENON_ASSIGN_OR_RETURN(instances_[i], stateful && store_ != nullptr
                                              ? store_->Get(*node_, candidates_[i], *env_, device_)
                                              : KernelInstance::Create(*node_, candidates_[i], *env_, device_));
  }
  return instances_[i];
}

// That outputs are not larger than memory can be: who plans memory takes their bytes as they are, and what a kernel
// prepares for each pixel of an image that will not fit is not worth preparing. limit: of the memory; 0: none.
static Status CheckSizes(const graph::Node& node, const std::vector<graph::OutputFacts>& outputs, uint64_t limit) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    if (!outputs[k].shape.fully_known() || BitsOf(node.output_types[k]) == 0) continue;
    Result<int64_t> bytes = ByteSize(node.output_types[k], outputs[k].shape);
    if (bytes.ok() && limit != 0 && static_cast<uint64_t>(*bytes) > limit)
      bytes = ResourceExhausted(StrCat(*bytes, " bytes would pass the memory limit of ", limit,
                                       " bytes; raise the limit or make the step smaller"));
    if (!bytes.ok()) return Status(bytes.status()).Annotate(StrCat(node.Describe(), ", output ", k));
  }
  return Status::Ok();
}

std::vector<KernelRefusal> NodeRunner::refusals() const {
  std::lock_guard lock(mutex_);
  std::vector<KernelRefusal> all = refused_at_once_;
  all.insert(all.end(), refused_shapes_.begin(), refused_shapes_.end());
  return all;
}

std::vector<KernelRefusal> NodeRunner::RefusalsFor(const graph::ShapeInference& shapes) const {
  std::vector<KernelRefusal> all = refused_at_once_;
  const KernelQuestion question(*node_, *env_, device_, shapes);
  for (const KernelEntry& kernel : candidates_)
    if (Status status = question.Ask(kernel); !status.ok())
      all.push_back({kernel.plugin(), std::string(status.message())});
  return all;
}

Result<std::shared_ptr<PreparedNode>> NodeRunner::PrepareWith(size_t i, const KernelQuestion& question) {
  const KernelEntry& entry = candidates_[i];
  const tenon_kernel_registration& kernel = *entry.registration;
  // What was planned by the first candidate's declarations must hold for the one that runs.
  constexpr uint32_t kPlanned = TENON_KERNEL_VIEW | TENON_KERNEL_ASYNC;
  if (kernel.dynamic_outputs != registration().dynamic_outputs ||
      (kernel.traits & kPlanned) != (registration().traits & kPlanned))
    return Unimplemented("it gives its outputs in another way than the kernel that the plan was made for");
  TENON_RETURN_IF_ERROR(question.Ask(entry));
  auto node = std::make_shared<PreparedNode>();
  TENON_ASSIGN_OR_RETURN(node->kernel, Instance(i));
  if (kernel.prepare == nullptr) return node;
  tenon_prepare_args args = question.PrepareArgs();
  tenon_prepare_context context(*env_, kernel.device_type.size == 0 ? nullptr : device_, entry.plugin());
  args.services = PrepareServices();
  args.context = &context;
  TENON_RETURN_IF_ERROR(entry.instance->Call("prepare", &node_->name, &node_->op->name, [&](tenon_plugin_self* self) {
    args.self = self;
    return kernel.prepare(node->kernel->state(), &args);
  }));
  node->prepared = args.out_prepared;
  node->workspace_bytes = args.out_workspace_bytes;
  return node;
}

Result<std::shared_ptr<const PreparedNode>> NodeRunner::Prepare(const std::vector<const graph::OutputFacts*>& inputs,
                                                                const std::vector<graph::OutputFacts>& outputs) {
  TENON_RETURN_IF_ERROR(CheckAllowance());
  TENON_RETURN_IF_ERROR(
      CheckSizes(*node_, outputs, env_->pool == nullptr || queued_on_ != nullptr ? 0 : env_->pool->limit()));
  const KernelQuestion question(*node_, *env_, device_, inputs, outputs);
  std::vector<KernelRefusal> refused;
  Result<std::shared_ptr<PreparedNode>> made = Unimplemented("no kernel");
  for (size_t i = 0; i < candidates_.size(); ++i) {
    made = PrepareWith(i, question);
    if (made.status().code() != Code::kUnimplemented) break;
    refused.push_back({candidates_[i].plugin(), std::string(made.status().message())});
  }
  const KernelRefusal last =
      refused.size() < candidates_.size() ? KernelRefusal{candidates_[refused.size()].plugin(), {}} : KernelRefusal{};
  if (!refused.empty() || !made.ok()) {
    std::lock_guard lock(mutex_);
    refused_shapes_ = refused;
  }
  if (!made.ok() && last.plugin.empty()) return NobodyTakes(*node_, refused);
  if (!made.ok()) return Status(made.status()).Annotate(StrCat(node_->Describe(), " [", last.plugin, "]"));
  PreparedNode& node = **made;
  node.outputs = outputs;
  for (size_t k = 0; k < outputs.size(); ++k)
    node.output_bytes.push_back(outputs[k].shape.fully_known() ? question.output(k).byte_size : 0);
  return std::shared_ptr<const PreparedNode>(*std::move(made));
}

static bool Refers(DType type) { return type == TENON_DT_RESOURCE || IsRef(type); }

// What a resource or reference is of, seen through nodes that pass it on, as the entries of loops do; a merge's first
// input is what enters.
static Result<graph::OutputFacts> FactsOfHandle(const graph::Graph& graph, graph::Edge edge) {
  constexpr size_t kFarthest = 64;
  std::vector<graph::Edge> passed;
  for (;; edge = graph.node(edge.node).inputs[0]) {
    if (!edge.node || passed.size() == kFarthest) return graph::OutputFacts{};
    passed.push_back(edge);
    const graph::Node& node = graph.node(edge.node);
    if (node.inputs.empty()) break;
    if (!Refers(node.input_types[0])) return graph::OutputFacts{};
  }
  graph::OutputFacts facts;
  const graph::OutputFacts unknown;
  for (; !passed.empty(); passed.pop_back()) {
    const graph::Node& node = graph.node(passed.back().node);
    std::vector<const graph::OutputFacts*> inputs(node.inputs.size(), &unknown);
    if (!inputs.empty()) inputs[0] = &facts;
    std::vector<graph::OutputFacts> made;
    bool used_values = false;
    TENON_RETURN_IF_ERROR(graph::ShapeInference::InferNode(node, inputs, &made, &used_values));
    facts = made[static_cast<size_t>(passed.back().index)];
  }
  return facts;
}

Status NodeRunner::KnowHandles(const graph::Graph& graph) {
  for (size_t i = 0; i < node_->inputs.size(); ++i) {
    if (!Refers(node_->input_types[i])) continue;
    TENON_ASSIGN_OR_RETURN(graph::OutputFacts facts, FactsOfHandle(graph, node_->inputs[i]));
    handles_.resize(node_->inputs.size());
    handles_[i] = std::move(facts);
  }
  return Status::Ok();
}

Result<std::shared_ptr<const PreparedNode>> NodeRunner::Resolve(std::span<const tenon_tensor_view* const> inputs,
                                                                const std::shared_ptr<const PreparedNode>& last) {
  const bool values = value_dependent();
  if (!values && last != nullptr && SameShapes(last->key, inputs)) return last;
  std::vector<int64_t> key;
  for (const tenon_tensor_view* view : inputs) AppendKey(*view, values, &key);
  {
    std::lock_guard lock(mutex_);
    for (const auto& cached : cache_)
      if (cached->key == key) return cached;
  }
  std::vector<graph::OutputFacts> facts(inputs.size());
  std::vector<const graph::OutputFacts*> pointers;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const tenon_tensor_view& view = *inputs[i];
    if (!handles_.empty()) facts[i] = handles_[i];
    // A reference's view is its one cell: what the variable's shape is, its node says, or nobody.
    if (!IsRef(view.dtype)) facts[i].shape = ShapeOf(view);
    if (IsPlain(view.dtype) && view.byte_size <= graph::kMaxTrackedBytes && view.dl.data != nullptr && OnHost(view)) {
      TENON_ASSIGN_OR_RETURN(facts[i].value, Tensor::CopyOf(GlobalPool(), view));
    }
    pointers.push_back(&facts[i]);
  }
  std::vector<graph::OutputFacts> outputs;
  bool used_values = false;
  TENON_RETURN_IF_ERROR(graph::ShapeInference::InferNode(*node_, pointers, &outputs, &used_values));
  // Values seen now are not constant for prepare(): the next run with these shapes may bring others.
  if (!used_values)
    for (auto& fact : facts) fact.value = Tensor();
  if (used_values && !values) {
    value_dependent_.store(true);
    key.clear();
    for (const tenon_tensor_view* view : inputs) AppendKey(*view, true, &key);
  }
  for (auto& output : outputs) output.value = Tensor();
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<const PreparedNode> made, Prepare(pointers, outputs));
  // Only this function has seen it; the key completes it before it is shared.
  const_cast<PreparedNode*>(made.get())->key = std::move(key);
  const_cast<PreparedNode*>(made.get())->shape_ids = NewShapeIds();
  std::lock_guard lock(mutex_);
  if (cache_.size() < kCacheSize) cache_.push_back(made);
  else cache_[next_evicted_++ % kCacheSize] = made;
  return made;
}

Status RunPrepared(const PreparedNode& prepared, tenon_frame* frame) {
  const tenon_kernel_registration& kernel = prepared.kernel->registration();
  tenon_frame_context* context = frame->context;
  trace::Trace* trace = context->step->trace;
  if (kernel.run == nullptr)
    return Internal(StrCat(context->node->Describe(), ": its kernel is asynchronous; it cannot run here"));
  const uint64_t begin = trace != nullptr ? trace::Trace::Now() : 0;
  context->plugin = &prepared.kernel->plugin();
  tenon_status* bad = nullptr;
  try {
    const KernelCall mark(frame);
    bad = kernel.run(prepared.kernel->state(), prepared.prepared, frame);
  } catch (...) {
    EndLostUpdates(*frame);
    bad = Thrown(prepared.kernel->plugin(), "run").release();
  }
  if (context->holds()) ReleasePins(context);
  if (trace != nullptr) trace->Add(context->node->name, context->node->op->name, begin, trace::Trace::Now());
  if (bad != nullptr) return Status(bad).Annotate(context->node->Describe());
  return IsWatched(*context->step) ? LookAtOutputs(frame) : Status::Ok();
}

}  // namespace tenon::exec
