// SPDX-License-Identifier: Apache-2.0
// The kernels, each of which is defined in a file of kernels/ with TENON_GPU_KERNEL.
#include "driver.h"
#include "tenon/sdk/package.h"

namespace tenon::gpu {

TENON_KERNEL_PACKAGE(kKernelPackage, tenon_gpu_kernels);

}  // namespace tenon::gpu
