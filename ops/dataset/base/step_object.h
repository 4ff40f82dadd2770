// SPDX-License-Identifier: Apache-2.0
// Objects behind handles that end with their step, and that datasets share and so keep as long as they need them:
// generators of seeds, caches.
#ifndef TENON_OPS_DATASET_BASE_STEP_OBJECT_H_
#define TENON_OPS_DATASET_BASE_STEP_OBJECT_H_

#include <memory>

#include "tenon/sdk/kernel/resource.h"

namespace tenon::ops {

// A new handle without an object, as output 0.
inline tenon_resource* GiveHandle(const sdk::RunContext& c, tenon_span type) {
  tenon_resource* handle = nullptr;
  sdk::Check(c.services().step_resource(c.frame(), type, &handle));
  *c.output<tenon_resource*>(0) = handle;
  return handle;
}

// A new handle with an object, and an empty variant as what deletes it: the step and the datasets end it. Output 1 is
// dynamic.
template <class T>
void GiveObject(const sdk::RunContext& c, tenon_span type, tenon_span object_type, std::shared_ptr<T> object) {
  sdk::ObjectOf<std::shared_ptr<T>>(c, GiveHandle(c, type), object_type,
                                    [&] { return std::make_unique<std::shared_ptr<T>>(std::move(object)); });
  c.AllocOutput(1, {});
}

// The object of the handle in input `input`; none where the handle is a dummy's.
template <class T>
std::shared_ptr<T> ObjectIfThere(const sdk::RunContext& c, int32_t input, tenon_span object_type) {
  void* object = nullptr;
  tenon_status* const status =
      c.services().resource_object(c.frame(), c.resource(input), object_type, nullptr, nullptr, nullptr, &object);
  if (status == nullptr) return *static_cast<std::shared_ptr<T>*>(object);
  if (tenon_plugin_host->status_code(status) != TENON_NOT_FOUND) throw sdk::KernelError(status);
  tenon_plugin_host->status_release(status);
  return nullptr;
}

}  // namespace tenon::ops

#endif  // TENON_OPS_DATASET_BASE_STEP_OBJECT_H_
