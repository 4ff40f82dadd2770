// SPDX-License-Identifier: Apache-2.0
// The device code that is built into this library, one image a file of code/ (tenon_gpu_images in images.cmake makes
// the list; that of testing/no_images.cc is empty).
#ifndef TENON_DEVICES_GPU_IMAGES_H_
#define TENON_DEVICES_GPU_IMAGES_H_

#include <vector>

#include "runtime.h"

extern "C" {
struct tenon_gpu_image {
  const char* begin;
  const char* end;
  const char* names;  // Image::names
};
extern const tenon_gpu_image tenon_gpu_images[];
extern const uint64_t tenon_gpu_image_count;
// The headers that sources compiled at run time include; texts that end with a 0.
struct tenon_gpu_header {
  const char* name;
  const char* text;
};
extern const tenon_gpu_header tenon_gpu_headers[];
extern const uint64_t tenon_gpu_header_count;
}

namespace tenon::gpu {

inline std::vector<Image> EmbeddedImages() {
  std::vector<Image> images;
  for (uint64_t i = 0; i < tenon_gpu_image_count; ++i) {
    const tenon_gpu_image& image = tenon_gpu_images[i];
    images.push_back({image.begin, static_cast<uint64_t>(image.end - image.begin), image.names});
  }
  return images;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_IMAGES_H_
