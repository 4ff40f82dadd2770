// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/kernel_instance.h"

#include <random>

#include "core/base/plugin_call.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/kernel/frame.h"

// What a kernel's create() gets.
struct tenon_create_context {
  const tenon::graph::Node* node;
  const tenon::exec::Environment* env;
};

namespace tenon::exec {
namespace {

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

Result<std::shared_ptr<KernelInstance>> KernelInstance::Create(const graph::Node& node, KernelEntry entry,
                                                               const Environment& env, tenon_device* device) {
  tenon_kernel* state = nullptr;
  if (entry.registration->create != nullptr) {
    tenon_create_context context{&node, &env};
    tenon_create_args args{TENON_HEAD(tenon_create_args), graph::NodeServices(), &node, CreateServices(), &context, device};
    Status status = CallPlugin(entry.plugin, "create", &node.name, &node.op->name, [&] { return entry.registration->create(&args, &state); });
    if (!status.ok()) return std::move(status).Annotate(StrCat(node.Describe(), " [", entry.plugin, "]"));
  }
  return std::shared_ptr<KernelInstance>(new KernelInstance(std::move(entry), state));
}

KernelInstance::~KernelInstance() {
  if (entry_.registration->destroy != nullptr && entry_.registration->create != nullptr)
    TellPlugin(entry_.plugin, "destroy", [this] { entry_.registration->destroy(state_); });
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

Result<std::shared_ptr<KernelInstance>> KernelStore::Get(const graph::Node& node, const KernelEntry& entry,
                                                         const Environment& env, tenon_device* device) {
  std::lock_guard lock(mutex_);
  auto& slot = kernels_[{node.name, entry.registration, device}];
  if (slot == nullptr) {
    TENON_ASSIGN_OR_RETURN(slot, KernelInstance::Create(node, entry, env, device));
  }
  return slot;
}

void KernelStore::Clear() {
  std::lock_guard lock(mutex_);
  kernels_.clear();
}

}  // namespace tenon::exec
