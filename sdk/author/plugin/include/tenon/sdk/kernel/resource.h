// SPDX-License-Identifier: Apache-2.0
// The object of a resource, by the name of its type: found, or made by whoever comes first.
//
//   constexpr tenon_span kThingType = TENON_SPAN("Vendor.Thing/1");
//   Thing& thing = ObjectOf<Thing>(c, handle, kThingType, [&] { return std::make_unique<Thing>(size); });
//   Thing& same = ObjectOf<Thing>(c, c.resource(0), kThingType);
//
// One name is one C++ type: every library that knows the name takes the object for that. It ends when its container
// goes.
#ifndef TENON_SDK_KERNEL_RESOURCE_H_
#define TENON_SDK_KERNEL_RESOURCE_H_

#include <memory>
#include <type_traits>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::sdk {

// make() -> std::unique_ptr<T>, called once when there is none; what it throws becomes the status.
template <class T, class Make>
tenon_status* FindOrMake(const RunContext& c, tenon_resource* handle, tenon_span type, Make&& make, T** out_object) {
  void* object = nullptr;
  tenon_status* const status = c.services().resource_object(
      c.frame(), handle, type,
      [](void* argument, void** out_made) noexcept -> tenon_status* {
        try {
          std::unique_ptr<T> made = (*static_cast<std::remove_reference_t<Make>*>(argument))();
          *out_made = made.release();
          return nullptr;
        } catch (...) {
          return CurrentFailure();
        }
      },
      const_cast<void*>(static_cast<const void*>(std::addressof(make))),
      [](void* gone) noexcept { delete static_cast<T*>(gone); }, &object);
  *out_object = static_cast<T*>(object);
  return status;
}

// The same; a failure is thrown, as in kernel.h.
template <class T, class Make>
T& ObjectOf(const RunContext& c, tenon_resource* handle, tenon_span type, Make&& make) {
  T* object = nullptr;
  Check(FindOrMake(c, handle, type, make, &object));
  return *object;
}

// One that is there: NOT_FOUND, thrown.
template <class T>
T& ObjectOf(const RunContext& c, tenon_resource* handle, tenon_span type) {
  void* object = nullptr;
  Check(c.services().resource_object(c.frame(), handle, type, nullptr, nullptr, nullptr, &object));
  return *static_cast<T*>(object);
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_RESOURCE_H_
