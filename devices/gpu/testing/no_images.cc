// SPDX-License-Identifier: Apache-2.0
// In the place of device code: none, for a vendor's plugin that tests build without the vendor's compiler
// (tenon_gpu_plugin in images.cmake).
#include "images.h"

extern "C" {
const tenon_gpu_image tenon_gpu_images[1] = {};
const uint64_t tenon_gpu_image_count = 0;
}
