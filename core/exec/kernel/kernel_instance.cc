// SPDX-License-Identifier: Apache-2.0
#include "core/exec/kernel/kernel_instance.h"

#include <algorithm>
#include <random>

#include "core/base/plugin_call.h"
#include "core/exec/device/environment.h"
#include "core/exec/device/resources.h"
#include "core/exec/kernel/frame.h"
#include "core/exec/kernel/work_services.h"
#include "core/graph/op_def.h"

// What a kernel's create() gets.
struct tenon_create_context {
  const tenon::graph::Node* node;
  const tenon::exec::Environment* env;
  const tenon::exec::SessionDevice* device;
  std::vector<std::unique_ptr<tenon::LiveObject>>* used;  // what the kernel leans on from now on
};

namespace tenon::exec {
namespace {

tenon_status* ResourceHandle(tenon_create_context* context, tenon_span container, tenon_span name, tenon_span type,
                             uint32_t step_local, tenon_resource** out_handle) {
  if (step_local != 0)
    return Unimplemented("step-local resources are made while the step runs: use the frame's step_resource").release();
  ResourceManager* manager =
      container.size == 0 || context->env->shared == nullptr ? context->env->resources : context->env->shared;
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
  for (char c : graph::StateName(*context->node)) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  out_seed[0] = Mix(context->env->seed);
  out_seed[1] = Mix(hash ^ context->env->seed);
  return nullptr;
}

const void* CreatingDeviceExtension(tenon_create_context* context, tenon_span id) {
  if (context->device == nullptr) return nullptr;
  const Device& device = *context->device->device;
  const void* const table = RawExtensionOf(device, View(id));
  if (table != nullptr) context->used->push_back(std::make_unique<LiveObject>(device.plugin));
  return table;
}

tenon_status* FindCapability(tenon_create_context* context, tenon_span id, const void** out_table,
                             tenon_plugin_self** out_self) {
  if (context->device == nullptr || !context->env->capabilities)
    return NotFound(StrCat("no device that could have the capability '", View(id), "'")).release();
  auto found = context->env->capabilities(View(id), context->device->device->type);
  if (!found.ok()) return Status(found.status()).release();
  context->used->push_back(std::make_unique<LiveObject>(found->plugin));
  *out_table = found->table;
  *out_self = found->self;
  return nullptr;
}

tenon_status* FunctionOf(tenon_create_context* context, tenon_span attr, uint64_t index,
                         tenon_function** out_function) {
  return Guarded([&]() -> Status {
    const graph::AttrValue* const value = context->node->FindAttr(View(attr));
    if (value == nullptr || (value->kind() & ~TENON_ATTR_LIST) != TENON_ATTR_FUNCTION)
      return NotFound(StrCat("the node has no attribute '", View(attr), "' that names a function"));
    if (index >= value->size())
      return NotFound(
          StrCat("attribute '", View(attr), "' names ", value->size(), " functions; number ", index, " is asked for"));
    if (!context->env->functions) return Unimplemented("nothing here can call functions");
    TENON_ASSIGN_OR_RETURN(*out_function, context->env->functions(value->function(index), context->node->device));
    return Status::Ok();
  }).release();
}

const tenon_create_services* CreateServices() {
  static const tenon_create_services services = {TENON_HEAD(tenon_create_services),
                                                 &ResourceHandle,
                                                 &RandomSeed,
                                                 &CreatingDeviceExtension,
                                                 &FindCapability,
                                                 &FunctionOf,
                                                 WorkServices()};
  return &services;
}

}  // namespace

Result<std::shared_ptr<KernelInstance>> KernelInstance::Create(const graph::Node& node, KernelEntry entry,
                                                               const Environment& env, const SessionDevice* device) {
  std::shared_ptr<KernelInstance> kernel(new KernelInstance(std::move(entry)));  // lives, before its plugin is asked
  const auto create = kernel->registration().create;
  if (create == nullptr) return kernel;
  tenon_create_context context{&node, &env, device, &kernel->used_};
  tenon_create_args args{TENON_HEAD(tenon_create_args), graph::StateServices(), &node, CreateServices(), &context,
                         device == nullptr ? nullptr : device->device->handle, nullptr};
  TENON_RETURN_IF_ERROR(
      kernel->entry_.instance->Call("create", &node.name, &node.op->name, [&](tenon_plugin_self* self) {
        args.self = self;
        return create(&args, &kernel->state_);
      }));
  kernel->made_ = true;
  return kernel;
}

KernelInstance::~KernelInstance() {
  if (made_ && registration().destroy != nullptr)
    TellPlugin(plugin(), "destroy", [this] { registration().destroy(state_); });
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
                                                         const Environment& env, const SessionDevice* device) {
  // Passes leave notes (names that begin with '_') that another step's node does not have.
  const auto same = [](const graph::OpDef& op, const graph::AttrMap& a, const graph::AttrMap& b) {
    return std::ranges::all_of(op.attrs, [&](const graph::AttrDef& attr) {
      const auto x = a.find(attr.name), y = b.find(attr.name);
      return x == a.end() || y == b.end() ? (x == a.end()) == (y == b.end()) : x->second.Equals(y->second);
    });
  };
  std::lock_guard lock(mutex_);
  std::vector<Kept>& kept = kernels_[{std::string(graph::StateName(node)), entry.registration,
                                      device == nullptr ? nullptr : device->device->handle}];
  for (const Kept& each : kept)
    if (each.op == node.op && each.input_types == node.input_types && each.output_types == node.output_types &&
        same(*node.op, each.attrs, node.attrs))
      return each.kernel;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<KernelInstance> made, KernelInstance::Create(node, entry, env, device));
  kept.push_back({node.op, node.attrs, node.input_types, node.output_types, std::move(made)});
  return kept.back().kernel;
}

void KernelStore::Clear() {
  std::lock_guard lock(mutex_);
  kernels_.clear();
}

}  // namespace tenon::exec
