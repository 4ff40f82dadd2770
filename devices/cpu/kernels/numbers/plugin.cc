// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/family.h"

TENON_CPU_FAMILY(
    "tenon.cpu_numbers",
    "Kernels of the CPU for special functions, Fourier transforms, complex numbers, bits and distributions.")
