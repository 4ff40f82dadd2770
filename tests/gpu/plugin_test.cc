// SPDX-License-Identifier: Apache-2.0
// The plugins of CUDA and ROCm without device code, which needs no compiler of theirs: each is loaded as any plugin,
// brings its kernels, says why it has no GPU and what would help, and refuses GPUs that it has no code for.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/tenon.h"

namespace tenon::host {
namespace {

struct Vendor {
  const char* name;                  // of the folder and the plugin
  const char* title;                 // as messages have it
  std::vector<const char*> drivers;  // libraries, any of which will do
  const char* without_driver;        // what the plugin says first where there is none
};
void PrintTo(const Vendor& vendor, std::ostream* out) { *out << vendor.name; }
std::vector<Vendor> Vendors() {
  return {{"cuda", "CUDA", {"libcuda.so.1"}, "there is no NVIDIA driver: "},
          {"rocm",
           "ROCm",
           {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
           "there is no ROCm: "}};
}

class GpuPlugin : public testing::TestWithParam<Vendor> {
 protected:
  void SetUp() override {
    const std::string built = "," TENON_BUILT_VENDORS ",";
    if (built.find("," + std::string(GetParam().name) + ",") == std::string::npos)
      GTEST_SKIP() << "devices/" << GetParam().name
                   << " is left out of this build: CMake has not found its toolkit, and says so";
  }

  static std::string Id() { return std::string("tenon.") + GetParam().name; }
  static Runtime Load() {
    RuntimeOptions options;
    options.search = false;
    options.plugins = {std::string(TENON_TEST_BUILD_DIR "/tests/plugins/tenon_") + GetParam().name +
                       "_without_images.so"};
    auto made = Runtime::Create(options);
    EXPECT_TRUE(made.ok()) << made.status();
    if (!made.ok()) std::abort();  // NOLINT: nothing can be tested without a runtime
    return std::move(*made);
  }
  // Why there is no device.
  static std::string Problem(const Runtime& runtime) {
    const auto devices = runtime.Devices();
    EXPECT_EQ(devices.size(), 1u);
    if (devices.empty()) return "";
    EXPECT_EQ(Text(devices[0].plugin), Id());
    EXPECT_EQ(Text(devices[0].type), "GPU");
    EXPECT_EQ(Text(devices[0].name), "") << "a device of a library without device code";
    return std::string(Text(devices[0].problem));
  }
};

TEST_P(GpuPlugin, IsLoadedAsAnyAndSaysWhyItHasNoGpu) {
  const Runtime runtime = Load();
  const auto reports = runtime.Reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].outcome, TENON_LOAD_LOADED) << Text(reports[0].text);
  EXPECT_EQ(Text(reports[0].id), Id());
  EXPECT_GT(reports[0].kernel_count, 300u);
  const std::string problem = Problem(runtime);
  const bool has_driver = std::any_of(GetParam().drivers.begin(), GetParam().drivers.end(), [](const char* library) {
    return dlopen(library, RTLD_NOW | RTLD_LOCAL) != nullptr;
  });
  EXPECT_EQ(problem.starts_with(GetParam().without_driver), !has_driver) << problem;
  const char* const helps[] = {"; install ",         ": look at ",        "; load ",         "it is for the group ",
                               ": take its folder ", " does not start: ", "load the one in "};
  EXPECT_TRUE(std::any_of(std::begin(helps), std::end(helps),
                          [&](const char* words) { return problem.find(words) != std::string::npos; }))
      << problem << ": what would help?";
}

TEST_P(GpuPlugin, RefusesGpusThatItHasNoCodeFor) {
  if (std::getenv("TENON_TEST_DRIVERS") == nullptr)
    GTEST_SKIP() << "there is no driver of emulated GPUs here: `make test-gpu-emulated` has them";
  const std::string problem = Problem(Load());
  EXPECT_TRUE(problem.starts_with(std::string("this library has no code for ") + GetParam().title +
                                  " GPUs, of which there are "))
      << problem;
  EXPECT_TRUE(problem.ends_with("load the one in lib/tenon/plugins of `make build GPU=1`")) << problem;
}

INSTANTIATE_TEST_SUITE_P(Of, GpuPlugin, testing::ValuesIn(Vendors()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tenon::host
