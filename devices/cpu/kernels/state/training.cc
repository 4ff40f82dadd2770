// SPDX-License-Identifier: Apache-2.0
// The steps of the optimizers that most graphs have. The others are in updates/optimizers.cc.
#include "kernels/state/apply.h"

namespace tenon::cpu {

TENON_CPU_KERNEL(ApplyGradientDescent) = ApplyOptimizer<sdk::GradientDescent>("ApplyGradientDescent");
TENON_CPU_KERNEL(ResourceApplyGradientDescent) = ApplyOptimizer<sdk::GradientDescent>("ResourceApplyGradientDescent");
TENON_CPU_KERNEL(ApplyMomentum) = ApplyOptimizer<sdk::Momentum>("ApplyMomentum");
TENON_CPU_KERNEL(ResourceApplyMomentum) = ApplyOptimizer<sdk::Momentum>("ResourceApplyMomentum");
TENON_CPU_KERNEL(ResourceApplyKerasMomentum) = ApplyOptimizer<sdk::KerasMomentum>("ResourceApplyKerasMomentum");
TENON_CPU_KERNEL(ApplyAdam) = ApplyOptimizer<sdk::Adam>("ApplyAdam");
TENON_CPU_KERNEL(ResourceApplyAdam) = ApplyOptimizer<sdk::Adam>("ResourceApplyAdam");

}  // namespace tenon::cpu
