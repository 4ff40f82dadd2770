// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/family.h"

TENON_CPU_FAMILY(
    "tenon.cpu_rows",
    "Kernels of the CPU that choose, order, count and sum rows: segments, sparse and ragged tensors, scatters, sets.")
