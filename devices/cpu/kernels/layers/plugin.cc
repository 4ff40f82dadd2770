// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/family.h"

TENON_CPU_FAMILY(
    "tenon.cpu_layers",
    "Kernels of the CPU for layers beyond convolution and pooling: normalization, recurrence, CTC, candidate sampling.")
