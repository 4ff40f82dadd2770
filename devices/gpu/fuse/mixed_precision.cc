// SPDX-License-Identifier: Apache-2.0
#include "fuse/mixed_precision.h"

#include "driver.h"
#include "fuse/attention_pass.h"
#include "tenon/sdk/answer.h"
#include "tenon/extras/device/mixed_precision_pass.h"

namespace tenon::gpu {
namespace {

// From the data sheet of one card, H100 SXM: what is compared are bytes, multiply-adds and launches, whose proportions
// are alike on others.
constexpr double kByte = 1 / 3350.0;                             // nanoseconds at 3.35 TB/s
constexpr double kMultiplyAdd =
    1 / (494.5e3 / 2);  // at 494.5 TFLOP/s of TF32, which is what the policy has of float32; 16 bits take half of it
constexpr double kLaunch = 1500;  // of a small kernel in a captured graph, as is usual: not measured
constexpr double kHalved = 4 * kByte;                            // two bytes less are read and two less written
constexpr sdk::MixedPrecisionCosts kCosts = {
    .product = kMultiplyAdd / 2,
    .smallest_product = kLaunch / kMultiplyAdd,
    .cast = 6 * kByte,
    .call = kLaunch,
    .moved = kHalved,
    .computed = -kHalved,  // kernels of elements, softmax and normalisations take as long as their bytes
    .curve = -kHalved,
};
// Everything gains, and casts are as few as they may be.
constexpr sdk::MixedPrecisionCosts kAlways = {
    .product = 1, .smallest_product = 0, .cast = 1e-3, .call = 1e-3, .moved = 1, .computed = -1, .curve = -1};

template <uint32_t kDtype>
tenon_status* RunPass(tenon_plugin_self* self, const tenon_graph_pass_args* args) {
  return sdk::Answer([&]() -> tenon_status* {
    const std::string& storage = SystemOf(self)->options().storage;
    if (storage == "off") return nullptr;
    const bool always = storage == "always";
    const sdk::MixedPrecisionDevice device = {.type = kDeviceType,
                                              .dtype = kDtype,
                                              .trains_unscaled = kDtype != TENON_DT_HALF || always,
                                              .can = [] { return true; },
                                              .cannot = "",
                                              .joins_casts = true,
                                              .costs = always ? kAlways : kCosts};
    sdk::PassContext p(self, args);
    const sdk::MixedPrecisionGroups groups = FindAttentions(p, *args);
    sdk::RunMixedPrecisionPass(p, device, groups);
    return p.Finish();
  });
}

}  // namespace

constinit const tenon_graph_pass kBfloat16Pass = {
    TENON_HEAD(tenon_graph_pass), TENON_SPAN("bfloat16"),         nullptr, 0,
    &RunPass<TENON_DT_BFLOAT16>,  TENON_PRECISION_ALLOW_BFLOAT16, 0,       sdk::kMixedPrecisionProperties,
    TENON_SPAN("known-axes,collectives,recurrent-loops")};
constinit const tenon_graph_pass kFloat16Pass = {
    TENON_HEAD(tenon_graph_pass), TENON_SPAN("float16"),         nullptr, 0,
    &RunPass<TENON_DT_HALF>,      TENON_PRECISION_ALLOW_FLOAT16, 0,       sdk::kMixedPrecisionProperties,
    TENON_SPAN("known-axes,collectives,recurrent-loops")};

}  // namespace tenon::gpu
