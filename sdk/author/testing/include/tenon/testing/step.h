// SPDX-License-Identifier: Apache-2.0
// What kernels of one test share: resources by name (variables, queues), those that end with the step, what they have
// asked to be called for later, and whether it was cancelled.
//
//   Variable v = Variable::Of(Make<float>({2}, {1, 2}));
//   kernel.Run({Handle(v), Make<float>({2}, {10, 20})}, {});
//   EXPECT_EQ(Values<float>(v.value), (std::vector<float>{11, 22}));
//
// One thread at a time, but for is_cancelled and works.
#ifndef TENON_TESTING_STEP_H_
#define TENON_TESTING_STEP_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tenon/kernel.h"
#include "tenon/testing/tensor.h"
#include "tenon/testing/works.h"

// The C ABI's opaque resource: an object of a plugin, or a variable's value, which lies where its kernels work (bytes
// of a foreign buffer on a device).
struct tenon_resource {
  tenon_resource() = default;
  tenon_resource(tenon_resource&& other) noexcept
      : value(std::move(other.value)),
        initialized(other.initialized),
        in_place(other.in_place),
        last_flags(other.last_flags),
        updates(other.updates),
        commits(other.commits),
        object(std::exchange(other.object, nullptr)),
        object_type(std::move(other.object_type)),
        destroy(other.destroy) {}
  ~tenon_resource() { Drop(); }
  static tenon_resource Of(tenon::testing::Tensor value) {
    tenon_resource made;
    made.value = std::move(value);
    made.initialized = true;
    return made;
  }
  // Gives whether there was something.
  bool Drop() {
    const bool held = initialized || object != nullptr;
    initialized = false;
    if (object != nullptr && destroy != nullptr) destroy(std::exchange(object, nullptr));
    object = nullptr;
    return held;
  }

  tenon::testing::Tensor value;
  bool initialized = false;  // has a value
  bool in_place = false;     // updates of the same shape write where the value stands
  uint32_t last_flags = 0;   // TENON_UPDATE_* of the latest update
  int updates = 0, commits = 0;
  void* object = nullptr;
  std::string object_type;
  void (*destroy)(void*) = nullptr;
};

namespace tenon::testing {

using Variable = tenon_resource;

// The input that stands for a resource, which lives longer.
inline Tensor Handle(tenon_resource& resource) {
  tenon_resource* const pointer = &resource;
  return {TENON_DT_RESOURCE, {}, Bytes::From(&pointer, sizeof pointer)};
}
// The same as a reference to a variable of that type.
inline Tensor Reference(tenon_resource& variable, uint32_t dtype) {
  Tensor reference = Handle(variable);
  reference.dtype = dtype + TENON_DT_REF;
  return reference;
}
// Whose handle or reference it is.
inline tenon_resource* ResourceOf(const Tensor& handle) {
  tenon_resource* resource = nullptr;
  std::memcpy(&resource, handle.bytes.data(), sizeof resource);
  return resource;
}

// See the head of this file. Ends its resources when it ends.
struct Step {
  // As if the container were cleared: named resources are gone.
  void ClearHandles() { named.clear(); }

  std::map<std::pair<std::string, std::string>, std::unique_ptr<tenon_resource>> named;  // by container and name
  std::vector<std::unique_ptr<tenon_resource>> local;
  uint64_t seed[2] = {123, 456};                // for ops whose own are 0
  tenon_plugin_self* self = nullptr;            // what the plugin's load() made (Loaded::self)
  // What the device's driver offers to kernels, by id; empty: nothing. From any thread.
  std::function<const void*(std::string_view id)> extension = nullptr;
  std::function<bool()> is_cancelled = nullptr;  // empty: no. Asked from any thread
  std::shared_ptr<Works> works = Works::OfStep();  // the last member: closed before resources end
};

}  // namespace tenon::testing

// The C ABI's opaque context of create().
struct tenon_create_context {
  tenon::testing::Step* step;
};

namespace tenon::testing {

inline const tenon_create_services* CreateServices() {
  static const tenon_create_services services = [] {
    tenon_create_services s = {};
    s.struct_size = sizeof s;
    s.resource_handle = [](tenon_create_context* context, tenon_span container, tenon_span name, tenon_span,
                           uint32_t step_local, tenon_resource** out_handle) -> tenon_status* {
      std::unique_ptr<tenon_resource>& slot = step_local != 0 ? context->step->local.emplace_back()
                                                              : context->step->named[{String(container), String(name)}];
      if (slot == nullptr) slot = std::make_unique<tenon_resource>();
      *out_handle = slot.get();
      return nullptr;
    };
    s.device_extension = [](tenon_create_context* context, tenon_span id) -> const void* {
      return context->step->extension ? context->step->extension(View(id)) : nullptr;
    };
    s.random_seed = [](tenon_create_context* context, uint64_t out_seed[2]) -> tenon_status* {
      out_seed[0] = context->step->seed[0];
      out_seed[1] = context->step->seed[1];
      return nullptr;
    };
    return s;
  }();
  return &services;
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_STEP_H_
