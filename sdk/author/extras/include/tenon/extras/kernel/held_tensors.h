// SPDX-License-Identifier: Apache-2.0
// Variants of tensors that no kernel's frame made: iterators of datasets have a work and no frame, so that what they
// give is held as an object (tenon_work_services.variant_hold) instead of as a variant's elements. Who reads such
// variants takes either.
#ifndef TENON_SDK_KERNEL_HELD_TENSORS_H_
#define TENON_SDK_KERNEL_HELD_TENSORS_H_

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/sdk/kernel/kept_tensor.h"
#include "tenon/sdk/kernel/work.h"

namespace tenon::sdk {

inline constexpr std::string_view kTensorVariant = "tenon.Tensor";  // one tensor: three of them are a sparse tensor
inline constexpr std::string_view kRaggedVariant = "tenon.Ragged";  // the splits, outermost first, and the values

// What such an object begins with, whichever library made it.
struct HeldTensors {
  uint64_t struct_size;
  uint64_t count;
  const tenon_tensor_view* tensors;  // [count], as long as the variant
};

// A variant of these tensors, one of the types above, with one reference. Thrown: UNIMPLEMENTED, the host has none that
// hold objects.
inline tenon_variant* HoldTensors(const tenon_work_services& services, std::string_view type,
                                  std::vector<KeptTensor> tensors) {
  struct Owned : HeldTensors {
    std::vector<KeptTensor> kept;
    std::vector<tenon_tensor_view> views;
  };
  if (!TENON_CALLABLE(&services, variant_hold))
    Fail(TENON_UNIMPLEMENTED,
         "this host has no variants that hold objects, which sparse and ragged tensors in datasets need");
  auto owned = std::make_unique<Owned>();
  owned->kept = std::move(tensors);
  for (const KeptTensor& tensor : owned->kept) owned->views.push_back(tensor.view());
  static_cast<HeldTensors&>(*owned) = {sizeof(HeldTensors), owned->views.size(), owned->views.data()};
  tenon_variant* made = nullptr;
  Check(services.variant_hold(
      ToSpan(type), ToSpan(std::string_view()), static_cast<HeldTensors*>(owned.get()),
      [](void* object) { delete static_cast<Owned*>(static_cast<HeldTensors*>(object)); }, &made));
  (void)owned.release();
  return made;
}

// The tensors that a variant of this type holds as an object, valid as long as it; none: it holds no such object.
inline std::span<const tenon_tensor_view> TensorsHeld(const tenon_work_services& services, const tenon_variant* variant,
                                                      std::string_view type) {
  if (!TENON_CALLABLE(&services, variant_held)) return {};
  const auto* held = static_cast<const HeldTensors*>(services.variant_held(variant, ToSpan(type)));
  if (held == nullptr || held->struct_size < sizeof(HeldTensors)) return {};
  return {held->tensors, static_cast<size_t>(held->count)};
}

}  // namespace tenon::sdk

#endif  // TENON_SDK_KERNEL_HELD_TENSORS_H_
