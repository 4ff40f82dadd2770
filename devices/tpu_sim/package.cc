// SPDX-License-Identifier: Apache-2.0
// Which kernels there are: one name each, defined in a file of kernels/.
#include "driver.h"

namespace tenon::tpu_sim {

extern const tenon_kernel_registration kMatMul, kAddV2, kMul, kRelu, kIdentity;

namespace {
constexpr const tenon_kernel_registration* kRegistrations[] = {&kMatMul, &kAddV2, &kMul, &kRelu, &kIdentity};
}  // namespace

constinit const tenon_kernel_package kKernelPackage = {TENON_HEAD(tenon_kernel_package), kRegistrations,
                                                       TENON_PLUGIN_COUNT(kRegistrations)};

}  // namespace tenon::tpu_sim
