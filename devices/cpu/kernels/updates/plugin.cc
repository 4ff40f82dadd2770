// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/family.h"

TENON_CPU_FAMILY(
    "tenon.cpu_updates",
    "Kernels of the CPU that update variables in ways that few graphs need: further optimizers, rows, slices.")
