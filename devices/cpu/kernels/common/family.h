// SPDX-License-Identifier: Apache-2.0
// A family of kernels for the CPU as a plugin of its own, which is opened when a graph first has an op of it.
#ifndef TENON_DEVICES_CPU_KERNELS_COMMON_FAMILY_H_
#define TENON_DEVICES_CPU_KERNELS_COMMON_FAMILY_H_

#include "kernels/common/types.h"
#include "tenon/plugin.h"
#include "tenon/sdk/package.h"

// The entry point of a library with the kernels that TENON_CPU_KERNEL defines in it.
#define TENON_CPU_FAMILY(id, doc)                                                                         \
  namespace tenon::cpu {                                                                                  \
  TENON_KERNEL_PACKAGE(kKernelPackage, tenon_cpu_kernels);                                                \
  static const tenon_capability kCapabilities[] = {TENON_PROVIDES(KERNELS, &kKernelPackage)};             \
  }                                                                                                       \
  TENON_PLUGIN(id, "0.1.0", doc, tenon::cpu::kCapabilities)

#endif  // TENON_DEVICES_CPU_KERNELS_COMMON_FAMILY_H_
