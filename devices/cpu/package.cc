// SPDX-License-Identifier: Apache-2.0
// The kernels, each of which is defined in a file of kernels/ with TENON_CPU_KERNEL.
#include "device.h"
#include "tenon/sdk/package.h"

namespace tenon::cpu {

TENON_KERNEL_PACKAGE(kKernelPackage, tenon_cpu_kernels);

}  // namespace tenon::cpu
