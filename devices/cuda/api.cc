// SPDX-License-Identifier: Apache-2.0
#include "api.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace tenon::gpu {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr int kOldestDriver = CUDA_VERSION / 1000 * 1000;  // of this major release

std::string VersionText(int version) { return sdk::Concat(version / 1000, ".", version % 1000 / 10); }

// Lanes of a multiprocessor that add and multiply floats in a cycle.
int LanesOf(int major, int minor) { return (major == 8 && minor == 0) || major == 7 ? 64 : 128; }

}  // namespace

Outcome CudaApi::Open() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return Fault(TENON_NOT_FOUND, "there is no NVIDIA driver: ", why == nullptr ? kLibrary : why,
                 "; install the driver (for CUDA ", VersionText(kOldestDriver),
                 " or newer) and see that nvidia-smi lists the GPU");
  }
// The macro's argument becomes what cuda.h makes of it, such as cuMemAlloc_v2.
#define TENON_CUDA_TEXT(name) #name
#define TENON_CUDA_FIND(name)                                                                          \
  f_.name = reinterpret_cast<decltype(f_.name)>(dlsym(library, TENON_CUDA_TEXT(name)));                \
  if (f_.name == nullptr && missing == nullptr) missing = TENON_CUDA_TEXT(name);
  const char* missing = nullptr;
  TENON_CUDA_FUNCTIONS(TENON_CUDA_FIND)
#undef TENON_CUDA_FIND
#undef TENON_CUDA_TEXT
  // Streams that share a hardware channel hold each other up, those of which one waits for a word among them: as many
  // channels as there may be, before the driver looks.
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  int version = 0;
  if (f_.cuDriverGetVersion != nullptr) (void)f_.cuDriverGetVersion(&version);
  const Result begun = f_.cuInit == nullptr ? CUDA_ERROR_NOT_FOUND : f_.cuInit(0);
  if (begun == CUDA_ERROR_STUB_LIBRARY) {
    return Fault(TENON_NOT_FOUND, "the ", kLibrary,
                 " that was found is the CUDA toolkit's stub, for linking alone: take its folder (stubs) off "
                 "LD_LIBRARY_PATH, and install the NVIDIA driver where there is none");
  }
  if (missing != nullptr || version < kOldestDriver) {
    return Fault(TENON_FAILED_PRECONDITION, "the NVIDIA driver is too old: it has CUDA ", VersionText(version),
                 missing == nullptr ? "" : " without ", missing == nullptr ? "" : missing,
                 ", this plugin was built with ", VersionText(CUDA_VERSION), "; install a driver for CUDA ",
                 VersionText(kOldestDriver), " or newer");
  }
  if (begun == CUDA_ERROR_NO_DEVICE) {
    return Fault(TENON_NOT_FOUND, "the NVIDIA driver (CUDA ", VersionText(version),
                 ") sees no GPU: look at nvidia-smi, at CUDA_VISIBLE_DEVICES, and in a container at what it is given");
  }
  return begun == CUDA_SUCCESS
             ? Outcome()
             : Fault(TENON_FAILED_PRECONDITION, "the NVIDIA driver does not start: ", ErrorText(begun));
}

// Errors after which every call of the process fails.
bool CudaApi::IsLost(Result result) {
  static constexpr std::array kLost = {CUDA_ERROR_ILLEGAL_ADDRESS,
                                       CUDA_ERROR_LAUNCH_TIMEOUT,
                                       CUDA_ERROR_LAUNCH_FAILED,
                                       CUDA_ERROR_HARDWARE_STACK_ERROR,
                                       CUDA_ERROR_ILLEGAL_INSTRUCTION,
                                       CUDA_ERROR_MISALIGNED_ADDRESS,
                                       CUDA_ERROR_INVALID_ADDRESS_SPACE,
                                       CUDA_ERROR_INVALID_PC,
                                       CUDA_ERROR_ECC_UNCORRECTABLE,
                                       CUDA_ERROR_NVLINK_UNCORRECTABLE,
                                       CUDA_ERROR_CONTEXT_IS_DESTROYED,
                                       CUDA_ERROR_ASSERT,
                                       CUDA_ERROR_DEVICE_UNAVAILABLE,
                                       CUDA_ERROR_EXTERNAL_DEVICE,
                                       CUDA_ERROR_DEINITIALIZED,
                                       CUDA_ERROR_UNKNOWN,
                                       CUDA_ERROR_CONTAINED,
                                       CUDA_ERROR_TENSOR_MEMORY_LEAK,
                                       CUDA_ERROR_MPS_CLIENT_TERMINATED};
  return std::find(kLost.begin(), kLost.end(), result) != kLost.end();
}

std::string CudaApi::ErrorText(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (f_.cuGetErrorName != nullptr) (void)f_.cuGetErrorName(result, &name);
  if (f_.cuGetErrorString != nullptr) (void)f_.cuGetErrorString(result, &text);
  if (name == nullptr) return sdk::Concat("CUDA error ", static_cast<int>(result));
  return sdk::Concat(name, text == nullptr ? "" : " (", text == nullptr ? "" : text, text == nullptr ? "" : ")");
}

Outcome CudaApi::Facts(DeviceHandle device, CardFacts* out) const {
  char name[256] = {};
  size_t bytes = 0;
  Result result = f_.cuDeviceGetName(name, sizeof name - 1, device);
  if (result == CUDA_SUCCESS) result = f_.cuDeviceTotalMem(&bytes, device);
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    if (result == CUDA_SUCCESS) result = f_.cuDeviceGetAttribute(&value, which, device);
    return value;
  };
  // What only estimates need; not every GPU that is shared says it.
  const auto hint = [&](CUdevice_attribute which) {
    int value = 0;
    return f_.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  out->name = name;
  out->memory_bytes = bytes;
  out->processors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  out->warp = attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  out->major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  out->minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  out->architecture = sdk::Concat("sm_", out->major, out->minor);
  out->most_shared_bytes = static_cast<uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  const double clock = hint(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3,
               memory_clock = hint(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3;
  out->flops = 2.0 * out->processors * LanesOf(out->major, out->minor) * clock;
  out->bytes_per_second = 2.0 * memory_clock * hint(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  out->link_bytes_per_second = 25e9;  // PCI Express 4, sixteen lanes; the driver does not say
  const int words = attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS),
            pools = attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
  if (result != CUDA_SUCCESS) return Fault(TENON_INTERNAL, "what GPU this is: ", ErrorText(result));
  if (out->major < 8)
    return Fault(TENON_FAILED_PRECONDITION, name, " is ", out->architecture,
                 "; this plugin has code for sm_80 and newer");
  if (words == 0)
    return Fault(TENON_FAILED_PRECONDITION, name,
                 ": its streams cannot wait for words of memory (64-bit stream memory operations)");
  if (pools == 0) return Fault(TENON_FAILED_PRECONDITION, name, ": its driver has no memory pools");
  return {};
}

}  // namespace tenon::gpu
