// SPDX-License-Identifier: Apache-2.0
// Which GPU tests of whole graphs use: the emulated one, or with TENON_TEST_GPU=tenon.cuda (or tenon.rocm) a real one of that plugin.
#ifndef TENON_TESTS_DEVICE_GPU_H_
#define TENON_TESTS_DEVICE_GPU_H_

#include <cstdlib>
#include <string>

#include "tenon/tenon.h"

namespace tenon::device_test {

inline constexpr char kGpu[] = "/device:GPU:0";

inline std::string GpuPlugin() {
  const char* wished = std::getenv("TENON_TEST_GPU");
  return wished == nullptr || wished[0] == '\0' ? "tenon.gpu_emulated" : wished;
}
inline bool GpuIsEmulated() { return GpuPlugin() == "tenon.gpu_emulated"; }

// A runtime with `devices` of them.
inline host::RuntimeOptions GpuOptions(int devices = 1) {
  host::RuntimeOptions options;
  if (GpuIsEmulated()) options.plugins = {TENON_TEST_BUILD_DIR "/tests/plugins/tenon_gpu_emulated.so"};
  options.plugin_options = {{GpuPlugin(), "devices", std::to_string(devices)}, {GpuPlugin(), "cache", "off"}};
  return options;
}

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_GPU_H_
