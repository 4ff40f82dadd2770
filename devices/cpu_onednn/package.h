// SPDX-License-Identifier: Apache-2.0
// The kernels of this package.
#ifndef TENON_DEVICES_CPU_ONEDNN_PACKAGE_H_
#define TENON_DEVICES_CPU_ONEDNN_PACKAGE_H_

#include "tenon/plugin.h"

namespace tenon::cpu_onednn {
extern const tenon_kernel_package kKernelPackage;
}

#endif  // TENON_DEVICES_CPU_ONEDNN_PACKAGE_H_
