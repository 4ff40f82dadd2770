// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/family.h"

TENON_CPU_FAMILY("tenon.cpu_quantized", "Kernels of the CPU for quantized and 8-bit numbers.")
