// SPDX-License-Identifier: Apache-2.0
// The kernels, each of which is defined in its file with TENON_ONEDNN_KERNEL.
#include "package.h"

#include "tenon/sdk/package.h"

namespace tenon::cpu_onednn {

TENON_KERNEL_PACKAGE(kKernelPackage, tenon_onednn_kernels);

}  // namespace tenon::cpu_onednn
