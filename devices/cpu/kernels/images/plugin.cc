// SPDX-License-Identifier: Apache-2.0
#include "kernels/common/family.h"

TENON_CPU_FAMILY("tenon.cpu_images", "Kernels of the CPU for images: resizing, cropping, colors, drawing.")
