// SPDX-License-Identifier: Apache-2.0
#include "core/exec/step.h"

#include <map>
#include <random>

#include "core/base/clock.h"

// What a kernel's create() gets.
struct tenon_create_context {
  const tenon::graph::Node* node;
  const tenon::exec::Environment* env;
};

namespace tenon::exec {
namespace {

struct LiveCounts {
  std::mutex mutex;
  std::map<std::string, int64_t, std::less<>> counts;
};
LiveCounts& Live() {
  static LiveCounts* const live = new LiveCounts;
  return *live;
}
void CountLive(const std::string& plugin, int64_t change) {
  std::lock_guard lock(Live().mutex);
  Live().counts[plugin] += change;
}

tenon_status* ResourceHandle(tenon_create_context* context, tenon_span container, tenon_span name, tenon_span type,
                             uint32_t step_local, tenon_resource** out_handle) {
  if (step_local != 0)
    return Unimplemented("step-local resources are made while the step runs: use the frame's step_resource").release();
  ResourceManager* manager = container.size == 0 || context->env->shared == nullptr ? context->env->resources : context->env->shared;
  auto resource = manager->Get(View(container), View(name), View(type));
  if (!resource.ok()) return Status(resource.status()).release();
  *out_handle = *resource;
  return nullptr;
}

// SplitMix64: turns the session's seed and a name into a seed of the node's own.
uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

tenon_status* RandomSeed(tenon_create_context* context, uint64_t out_seed[2]) {
  if (context->env->seed == 0) {
    std::random_device device;
    for (int i = 0; i < 2; ++i) out_seed[i] = (static_cast<uint64_t>(device()) << 32) | device();
    return nullptr;
  }
  uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a of the name, the same on every machine
  for (char c : context->node->name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  out_seed[0] = Mix(context->env->seed);
  out_seed[1] = Mix(hash ^ context->env->seed);
  return nullptr;
}

// What a trail says of a kernel's frame.
bool NameFrame(const void* frame, PluginPlace* out_place) {
  const tenon_frame_context* context = static_cast<const tenon_frame*>(frame)->context;
  if (context == nullptr || context->plugin == nullptr) return false;
  *out_place = {*context->plugin, context->function, context->node->name, context->node->op->name};
  return true;
}
[[maybe_unused]] const bool kFramesAreNamed = (SetFrameNamer(&NameFrame), true);

const tenon_create_services* CreateServices() {
  static const tenon_create_services services = {TENON_HEAD(tenon_create_services), &ResourceHandle, &RandomSeed};
  return &services;
}

}  // namespace

LiveObject::LiveObject(std::string plugin) : plugin_(std::move(plugin)) { CountLive(plugin_, 1); }
LiveObject::~LiveObject() { CountLive(plugin_, -1); }

int64_t LiveKernels(std::string_view plugin) {
  std::lock_guard lock(Live().mutex);
  const auto it = Live().counts.find(plugin);
  return it == Live().counts.end() ? 0 : it->second;
}

Result<std::shared_ptr<KernelInstance>> KernelInstance::Create(const graph::Node& node, KernelEntry entry,
                                                               const Environment& env, tenon_device* device) {
  tenon_kernel* state = nullptr;
  if (entry.registration->create != nullptr) {
    tenon_create_context context{&node, &env};
    tenon_create_args args{TENON_HEAD(tenon_create_args), graph::NodeServices(), &node, CreateServices(), &context, device};
    Status status = CallPlugin(entry.plugin, "create", &node.name, &node.op->name, [&] { return entry.registration->create(&args, &state); });
    if (!status.ok()) return std::move(status).Annotate(StrCat(node.Describe(), " [", entry.plugin, "]"));
  }
  CountLive(entry.plugin, 1);
  return std::shared_ptr<KernelInstance>(new KernelInstance(std::move(entry), state));
}

KernelInstance::~KernelInstance() {
  if (entry_.registration->destroy != nullptr && entry_.registration->create != nullptr)
    TellPlugin(entry_.plugin, "destroy", [this] { entry_.registration->destroy(state_); });
  CountLive(entry_.plugin, -1);
}

tenon_status* CallRun(const KernelInstance& kernel, const tenon_prepared* prepared, tenon_frame* frame) {
  const KernelCall mark(frame);
  try {
    return kernel.registration().run(kernel.state(), prepared, frame);
  } catch (...) {
    EndLostUpdates(*frame);
    return Thrown(kernel.plugin(), "run").release();
  }
}

void EndLostUpdates(const tenon_frame& frame) {
  for (int32_t i = 0; i < frame.input_count; ++i) {
    const tenon_tensor_view& view = *frame.inputs[i];
    if ((view.dtype != TENON_DT_RESOURCE && !IsRef(view.dtype)) || view.dl.data == nullptr || NumElements(view) != 1) continue;
    if (Resource* resource = *static_cast<Resource**>(DataOf(view))) EndUpdate(resource, &frame, TENON_UPDATE_FAILED);
  }
}

namespace {

std::string ItsFunction(const tenon_frame_context& context) {
  return StrCat(context.node->Describe(), ": ", context.plugin == nullptr ? "the engine" : DescribePlugin(*context.plugin), ": its ",
                context.function, "()");
}

}  // namespace

Status NotSet(const tenon_frame_context& context, size_t output) {
  return Internal(StrCat(ItsFunction(context), " did not set output ", output));
}

Status CheckCellsOfStrings(const tenon_frame_context& context, size_t output, const tenon_tensor_view& view) {
  if (view.dl.data == nullptr || !OnHost(view)) return Status::Ok();
  const auto* cells = static_cast<const tenon_string_cell*>(DataOf(view));
  const Buffer* memory = HomeOf(view.buffer);
  const auto offset = static_cast<uint64_t>(reinterpret_cast<const char*>(cells) -
                                            (memory == nullptr ? reinterpret_cast<const char*>(cells) : static_cast<const char*>(memory->data)));
  const uint64_t bytes = memory == nullptr ? view.byte_size : memory->capacity - offset;
  const int64_t count = NumElements(view);
  for (int64_t i = 0; i < count; ++i)
    if (cells[i].size != 0 && (cells[i].offset > bytes || cells[i].size > bytes - cells[i].offset))
      return Internal(StrCat(ItsFunction(context), " gave output ", output, " the string ", i, " at byte ", cells[i].offset, " of ", cells[i].size,
                             " bytes; its memory has ", bytes));
  return Status::Ok();
}

BufferPool* PoolOf(const Step& step, const Place& place, size_t output) {
  return place.host_output(output) ? step.env->pool : place.device->pool;
}

void MarkOutput(const Place& place, size_t output, tenon_tensor_view* view) {
  if (!place.host_output(output)) MarkDevice(view, *place.device->device);
}

void ReleasePins(tenon_frame_context* context) {
  for (uint32_t i = 0; i < context->pin_count; ++i) Release(context->pins[i]);
  context->pin_count = 0;
  for (Buffer* buffer : context->more_pins) Release(buffer);
  context->more_pins.clear();
}

}  // namespace tenon::exec
