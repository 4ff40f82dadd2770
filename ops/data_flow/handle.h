// SPDX-License-Identifier: Apache-2.0
// How kernels find a place (place.h): the container holds it, by the name that a node gives it.
#ifndef TENON_OPS_DATA_FLOW_HANDLE_H_
#define TENON_OPS_DATA_FLOW_HANDLE_H_

#include <memory>
#include <string>

#include "place.h"
#include "tenon/sdk/kernel/resource.h"

namespace tenon::ops {

// What a node's container and shared_name stand for; without a shared_name its own name. For create().
class NamedHandle {
 public:
  NamedHandle(sdk::CreateContext& c, std::string_view type) : name(c.String("shared_name")) {
    if (name.empty()) name = c.name();
    const std::string container(c.String("container"));
    if (!c.ok()) return;
    const tenon_create_args& args = c.args();
    c.Check(args.services->resource_handle(args.context, sdk::ToSpan(container), sdk::ToSpan(name), sdk::ToSpan(type),
                                           0, &handle));
  }
  std::string name;
  tenon_resource* handle = nullptr;
};

// The container's: who waits has the place too, and is told when it goes.
template <class T>
struct HeldPlace {
  explicit HeldPlace(std::shared_ptr<T> held) : place(std::move(held)) {}
  ~HeldPlace() { place->Abandon(); }
  HeldPlace(const HeldPlace&) = delete;
  HeldPlace& operator=(const HeldPlace&) = delete;
  const std::shared_ptr<T> place;
};

// The place that the handle stands for, made when there is none.
template <class T, class Options>
std::shared_ptr<T> PlaceOf(const sdk::RunContext& c, tenon_resource* handle, tenon_span type, const Options& options) {
  const auto make = [&] { return std::make_unique<HeldPlace<T>>(std::make_shared<T>(options)); };
  return sdk::ObjectOf<HeldPlace<T>>(c, handle, type, make).place;
}
// The one that input `input` refers to: NOT_FOUND.
template <class T>
std::shared_ptr<T> PlaceIn(const sdk::RunContext& c, int32_t input, tenon_span type) {
  return sdk::ObjectOf<HeldPlace<T>>(c, c.resource(input), type).place;
}

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_HANDLE_H_
