// SPDX-License-Identifier: Apache-2.0
// Optionals in kernels: variants of type "tenon.Optional" that hold some tensors, or nothing.
#ifndef TENON_OPS_DATA_FLOW_OPTIONAL_H_
#define TENON_OPS_DATA_FLOW_OPTIONAL_H_

#include <optional>
#include <string_view>
#include <vector>

#include "tenon/sdk/kernel/variant.h"

namespace tenon::ops {

inline constexpr std::string_view kOptionalType = "tenon.Optional", kSome = "some";

// Output 0: an optional that holds the elements, whose memory it keeps, or (nullopt) nothing.
inline void GiveOptional(const sdk::RunContext& c, const std::optional<std::vector<tenon_tensor_view>>& elements) {
  tenon_variant* made = nullptr;
  const uint64_t count = elements.has_value() ? elements->size() : 0;
  sdk::Check(c.services().variant_new(c.frame(), sdk::ToSpan(kOptionalType),
                                      sdk::ToSpan(elements.has_value() ? kSome : std::string_view()),
                                      count == 0 ? nullptr : elements->data(), count, &made));
  sdk::SetVariant(c, 0, made);
}

// Whether an input is one optional.
inline bool IsOptional(const sdk::RunContext& c, int32_t input) {
  const tenon_tensor_view& view = c.input_view(input);
  const tenon_variant* variant = view.dl.ndim == 0 ? sdk::VariantOf(view) : nullptr;
  tenon_variant_info info{};
  if (variant != nullptr) c.services().variant_info(variant, &info);
  return sdk::ToText(info.type) == kOptionalType;
}

// What the optional that is an input holds, as long as the frame lives; nullopt: nothing. INVALID_ARGUMENT when it is
// no optional.
inline std::optional<std::vector<tenon_tensor_view>> OptionalOf(const sdk::RunContext& c, int32_t input) {
  const tenon_tensor_view& view = c.input_view(input);
  if (view.dl.ndim != 0)
    sdk::Fail(TENON_INVALID_ARGUMENT, "the input must be one optional; its shape is ", sdk::DimsOf(view));
  const tenon_variant* variant = sdk::VariantOf(view);
  tenon_variant_info info{};
  if (variant != nullptr) c.services().variant_info(variant, &info);
  if (sdk::ToText(info.type) != kOptionalType)
    sdk::Fail(TENON_INVALID_ARGUMENT, "the input is no optional, but ",
              variant == nullptr ? "an empty variant" : sdk::ToText(info.type));
  if (sdk::ToText(info.metadata) != kSome) return std::nullopt;
  std::vector<tenon_tensor_view> elements(info.element_count);
  for (uint64_t i = 0; i < info.element_count; ++i) c.services().variant_element(variant, i, &elements[i]);
  return elements;
}

}  // namespace tenon::ops

#endif  // TENON_OPS_DATA_FLOW_OPTIONAL_H_
