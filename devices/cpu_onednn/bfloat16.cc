// SPDX-License-Identifier: Apache-2.0
// What the CPU gains by bfloat16 (tenon/extras/device/mixed_precision_pass.h says what becomes of it).
#include "bfloat16.h"

#include "program.h"
#include "tenon/extras/device/mixed_precision_pass.h"

namespace tenon::cpu_onednn {
namespace {

// On one core with AVX-512 BF16: measured, see CHOICES.md.
constexpr sdk::MixedPrecisionDevice kDevice = {
    .type = "CPU",
    .can = &HasBfloat16,
    .cannot = "this processor has no bfloat16 (AVX-512 BF16), without which it would take longer than in float32",
    .costs = {.product = 0.004,
              .smallest_product = 100e3,
              .cast = 0.1,
              .call = 300,
              .moved = 0.03,
              .computed = 0.02,
              .curve = 0.05},
};

void Run(sdk::PassContext& p) { sdk::RunMixedPrecisionPass(p, kDevice); }

}  // namespace

const tenon_graph_pass kBfloat16Pass =
    sdk::DefinePass<Run>("bfloat16", {}, TENON_PRECISION_ALLOW_BFLOAT16, sdk::kMixedPrecisionProperties,
                         "known-axes,collectives,recurrent-loops");

}  // namespace tenon::cpu_onednn
