// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: one line an op.
#include "package.h"

#define TENON_ONEDNN_KERNELS(X) \
  X(MatMul) X(Conv2D) X(Conv2DBackpropInput) X(Conv2DBackpropFilter) X(MaxPool) X(AvgPool) X(AvgPoolGrad)

namespace tenon::cpu_onednn {

#define TENON_ONEDNN_DECLARE(name) extern const tenon_kernel_registration k##name;
TENON_ONEDNN_KERNELS(TENON_ONEDNN_DECLARE)
#undef TENON_ONEDNN_DECLARE

namespace {
#define TENON_ONEDNN_ADDRESS(name) &k##name,
constexpr const tenon_kernel_registration* kRegistrations[] = {TENON_ONEDNN_KERNELS(TENON_ONEDNN_ADDRESS)};
#undef TENON_ONEDNN_ADDRESS
}  // namespace

constinit const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                                       TENON_PLUGIN_COUNT(kRegistrations)};

}  // namespace tenon::cpu_onednn
