// SPDX-License-Identifier: Apache-2.0
// Which GPU tests of whole graphs use: the emulated one, or with TENON_TEST_GPU=tenon.cuda (or tenon.rocm) one of that
// plugin, real or of an emulated driver. TENON_TEST_LIBRARIES: a folder with the vendor's libraries for it; unset: as
// the plugin finds them.
#ifndef TENON_TESTS_DEVICE_GPU_H_
#define TENON_TESTS_DEVICE_GPU_H_

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "tenon/tenon.h"

namespace tenon::device_test {

inline constexpr char kGpu[] = "/device:GPU:0";
inline constexpr char kEmulatedPlugin[] = TENON_TEST_BUILD_DIR "/tests/plugins/tenon_gpu_emulated.so";

inline std::string GpuPlugin() {
  const char* wished = std::getenv("TENON_TEST_GPU");
  return wished == nullptr || wished[0] == '\0' ? "tenon.gpu_emulated" : wished;
}
inline bool GpuIsEmulated() { return GpuPlugin() == "tenon.gpu_emulated"; }
// Why there is no GPU here, for what is left out then and says this; "": there is one. In the lane of GPUs this is a
// failure (cmake/TenonTest.cmake).
inline std::string WhyNoGpu() {
  if (!GpuIsEmulated() || std::filesystem::exists(kEmulatedPlugin)) return "";
  return "no emulated GPU is built here (TENON_GPU is OFF): `make test-gpu-emulated` runs this on one";
}
inline std::string GpuLibraries() {
  const char* wished = std::getenv("TENON_TEST_LIBRARIES");
  return wished == nullptr ? "" : wished;
}

// A runtime with `devices` of them.
inline host::RuntimeOptions GpuOptions(int devices = 1) {
  host::RuntimeOptions options;
  if (GpuIsEmulated()) options.plugins = {kEmulatedPlugin};
  options.plugin_options = {{GpuPlugin(), "devices", std::to_string(devices)}, {GpuPlugin(), "cache", "off"}};
  if (!GpuLibraries().empty()) options.plugin_options.push_back({GpuPlugin(), "libraries", GpuLibraries()});
  return options;
}

// Without it nothing can be tested.
inline host::Runtime MakeRuntime(const host::RuntimeOptions& options) {
  auto made = host::Runtime::Create(options);
  if (!made.ok()) {
    std::fprintf(stderr, "%s\n", made.status().ToString().c_str());
    std::abort();
  }
  return std::move(*made);
}

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_GPU_H_
