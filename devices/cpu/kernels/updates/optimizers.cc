// SPDX-License-Identifier: Apache-2.0
// The steps of the optimizers that few graphs have, and of rows by all.
#include "kernels/state/apply.h"

namespace tenon::cpu {

TENON_CPU_KERNEL(SparseApplyMomentum) = ApplyOptimizerToRows<sdk::Momentum>("SparseApplyMomentum");
TENON_CPU_KERNEL(ResourceSparseApplyMomentum) = ApplyOptimizerToRows<sdk::Momentum>("ResourceSparseApplyMomentum");
TENON_CPU_KERNEL(ResourceSparseApplyKerasMomentum) =
    ApplyOptimizerToRows<sdk::KerasMomentum>("ResourceSparseApplyKerasMomentum");
TENON_CPU_KERNEL(ApplyAdagrad) = ApplyOptimizer<sdk::Adagrad>("ApplyAdagrad");
TENON_CPU_KERNEL(ResourceApplyAdagrad) = ApplyOptimizer<sdk::Adagrad>("ResourceApplyAdagrad");
TENON_CPU_KERNEL(SparseApplyAdagrad) = ApplyOptimizerToRows<sdk::Adagrad>("SparseApplyAdagrad");
TENON_CPU_KERNEL(ResourceSparseApplyAdagrad) = ApplyOptimizerToRows<sdk::Adagrad>("ResourceSparseApplyAdagrad");
TENON_CPU_KERNEL(ApplyAdagradV2) = ApplyOptimizer<sdk::AdagradV2>("ApplyAdagradV2");
TENON_CPU_KERNEL(ResourceApplyAdagradV2) = ApplyOptimizer<sdk::AdagradV2>("ResourceApplyAdagradV2");
TENON_CPU_KERNEL(SparseApplyAdagradV2) = ApplyOptimizerToRows<sdk::AdagradV2>("SparseApplyAdagradV2");
TENON_CPU_KERNEL(ResourceSparseApplyAdagradV2) = ApplyOptimizerToRows<sdk::AdagradV2>("ResourceSparseApplyAdagradV2");
TENON_CPU_KERNEL(ApplyAdadelta) = ApplyOptimizer<sdk::Adadelta>("ApplyAdadelta");
TENON_CPU_KERNEL(ResourceApplyAdadelta) = ApplyOptimizer<sdk::Adadelta>("ResourceApplyAdadelta");
TENON_CPU_KERNEL(SparseApplyAdadelta) = ApplyOptimizerToRows<sdk::Adadelta>("SparseApplyAdadelta");
TENON_CPU_KERNEL(ResourceSparseApplyAdadelta) = ApplyOptimizerToRows<sdk::Adadelta>("ResourceSparseApplyAdadelta");
TENON_CPU_KERNEL(ResourceApplyAdamWithAmsgrad) = ApplyOptimizer<sdk::AdamWithAmsgrad>("ResourceApplyAdamWithAmsgrad");
TENON_CPU_KERNEL(ApplyAdaMax) = ApplyOptimizer<sdk::AdaMax>("ApplyAdaMax");
TENON_CPU_KERNEL(ResourceApplyAdaMax) = ApplyOptimizer<sdk::AdaMax>("ResourceApplyAdaMax");
TENON_CPU_KERNEL(ApplyRMSProp) = ApplyOptimizer<sdk::RmsProp>("ApplyRMSProp");
TENON_CPU_KERNEL(ResourceApplyRMSProp) = ApplyOptimizer<sdk::RmsProp>("ResourceApplyRMSProp");
TENON_CPU_KERNEL(SparseApplyRMSProp) = ApplyOptimizerToRows<sdk::RmsProp>("SparseApplyRMSProp");
TENON_CPU_KERNEL(ResourceSparseApplyRMSProp) = ApplyOptimizerToRows<sdk::RmsProp>("ResourceSparseApplyRMSProp");
TENON_CPU_KERNEL(ApplyCenteredRMSProp) = ApplyOptimizer<sdk::CenteredRmsProp>("ApplyCenteredRMSProp");
TENON_CPU_KERNEL(ResourceApplyCenteredRMSProp) = ApplyOptimizer<sdk::CenteredRmsProp>("ResourceApplyCenteredRMSProp");
TENON_CPU_KERNEL(SparseApplyCenteredRMSProp) = ApplyOptimizerToRows<sdk::CenteredRmsProp>("SparseApplyCenteredRMSProp");
TENON_CPU_KERNEL(ResourceSparseApplyCenteredRMSProp) =
    ApplyOptimizerToRows<sdk::CenteredRmsProp>("ResourceSparseApplyCenteredRMSProp");
TENON_CPU_KERNEL(ApplyAddSign) = ApplyOptimizer<sdk::AddSign>("ApplyAddSign");
TENON_CPU_KERNEL(ResourceApplyAddSign) = ApplyOptimizer<sdk::AddSign>("ResourceApplyAddSign");
TENON_CPU_KERNEL(ApplyPowerSign) = ApplyOptimizer<sdk::PowerSign>("ApplyPowerSign");
TENON_CPU_KERNEL(ResourceApplyPowerSign) = ApplyOptimizer<sdk::PowerSign>("ResourceApplyPowerSign");
TENON_CPU_KERNEL(ApplyFtrl) = ApplyOptimizer<sdk::Ftrl>("ApplyFtrl");
TENON_CPU_KERNEL(ResourceApplyFtrl) = ApplyOptimizer<sdk::Ftrl>("ResourceApplyFtrl");
TENON_CPU_KERNEL(SparseApplyFtrl) = ApplyOptimizerToRows<sdk::Ftrl>("SparseApplyFtrl");
TENON_CPU_KERNEL(ResourceSparseApplyFtrl) = ApplyOptimizerToRows<sdk::Ftrl>("ResourceSparseApplyFtrl");
TENON_CPU_KERNEL(ApplyFtrlV2) = ApplyOptimizer<sdk::FtrlV2>("ApplyFtrlV2");
TENON_CPU_KERNEL(ResourceApplyFtrlV2) = ApplyOptimizer<sdk::FtrlV2>("ResourceApplyFtrlV2");
TENON_CPU_KERNEL(SparseApplyFtrlV2) = ApplyOptimizerToRows<sdk::FtrlV2>("SparseApplyFtrlV2");
TENON_CPU_KERNEL(ResourceSparseApplyFtrlV2) = ApplyOptimizerToRows<sdk::FtrlV2>("ResourceSparseApplyFtrlV2");
TENON_CPU_KERNEL(ApplyProximalGradientDescent) =
    ApplyOptimizer<sdk::ProximalGradientDescent>("ApplyProximalGradientDescent");
TENON_CPU_KERNEL(ResourceApplyProximalGradientDescent) =
    ApplyOptimizer<sdk::ProximalGradientDescent>("ResourceApplyProximalGradientDescent");
TENON_CPU_KERNEL(SparseApplyProximalGradientDescent) =
    ApplyOptimizerToRows<sdk::ProximalGradientDescent>("SparseApplyProximalGradientDescent");
TENON_CPU_KERNEL(ResourceSparseApplyProximalGradientDescent) =
    ApplyOptimizerToRows<sdk::ProximalGradientDescent>("ResourceSparseApplyProximalGradientDescent");
TENON_CPU_KERNEL(ApplyProximalAdagrad) = ApplyOptimizer<sdk::ProximalAdagrad>("ApplyProximalAdagrad");
TENON_CPU_KERNEL(ResourceApplyProximalAdagrad) = ApplyOptimizer<sdk::ProximalAdagrad>("ResourceApplyProximalAdagrad");
TENON_CPU_KERNEL(SparseApplyProximalAdagrad) = ApplyOptimizerToRows<sdk::ProximalAdagrad>("SparseApplyProximalAdagrad");
TENON_CPU_KERNEL(ResourceSparseApplyProximalAdagrad) =
    ApplyOptimizerToRows<sdk::ProximalAdagrad>("ResourceSparseApplyProximalAdagrad");
TENON_CPU_KERNEL(ApplyAdagradDA) = ApplyOptimizer<sdk::AdagradDualAveraging>("ApplyAdagradDA");
TENON_CPU_KERNEL(ResourceApplyAdagradDA) = ApplyOptimizer<sdk::AdagradDualAveraging>("ResourceApplyAdagradDA");
TENON_CPU_KERNEL(SparseApplyAdagradDA) = ApplyOptimizerToRows<sdk::AdagradDualAveraging>("SparseApplyAdagradDA");
TENON_CPU_KERNEL(ResourceSparseApplyAdagradDA) =
    ApplyOptimizerToRows<sdk::AdagradDualAveraging>("ResourceSparseApplyAdagradDA");

}  // namespace tenon::cpu
