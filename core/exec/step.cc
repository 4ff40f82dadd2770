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
    Status status(entry.registration->create(&args, &state));
    if (!status.ok()) return std::move(status).Annotate(StrCat(node.Describe(), " [", entry.plugin, "]"));
  }
  CountLive(entry.plugin, 1);
  return std::shared_ptr<KernelInstance>(new KernelInstance(std::move(entry), state));
}

KernelInstance::~KernelInstance() {
  if (entry_.registration->destroy != nullptr && entry_.registration->create != nullptr)
    entry_.registration->destroy(state_);
  CountLive(entry_.plugin, -1);
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
