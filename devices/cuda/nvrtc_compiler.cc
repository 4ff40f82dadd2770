// SPDX-License-Identifier: Apache-2.0
#include "nvrtc_compiler.h"

#include <cuda.h>
#include <dlfcn.h>

#include "run_time_compiler.h"

namespace tenon::gpu {

const Nvrtc& Nvrtc::The() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

Nvrtc::Nvrtc() {
  // By the loader's rules, then where the toolkit usually is.
  const std::string library_name = sdk::Concat("libnvrtc.so.", CUDA_VERSION / 1000);
  const std::string names[] = {library_name, "/usr/local/cuda/lib64/" + library_name};
  void* library = nullptr;
  for (const std::string& name : names) {
    if (library == nullptr) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  const char* missing = library == nullptr ? names[0].c_str() : nullptr;
#define TENON_NVRTC_FIND(name)                                                     \
  if (missing == nullptr) {                                                        \
    f_.name = reinterpret_cast<decltype(f_.name)>(dlsym(library, #name));          \
    if (f_.name == nullptr) missing = #name;                                       \
  }
  TENON_NVRTC_FUNCTIONS(TENON_NVRTC_FIND)
#undef TENON_NVRTC_FIND
  if (missing != nullptr) {
    opened_ = Fault(TENON_UNIMPLEMENTED, "chains are not compiled: ", missing, " was not found; install NVRTC of CUDA ", CUDA_VERSION / 1000,
                    " and name its folder in LD_LIBRARY_PATH");
    return;
  }
  int major = 0, minor = 0;
  (void)f_.nvrtcVersion(&major, &minor);
  version_ = sdk::Concat(kName, " ", major, ".", minor);
}

Outcome Nvrtc::Compile(int major, int minor, const std::string& source, std::vector<char>* out_image) const {
  if (!opened_.ok()) return opened_;
  // What has no mark is device code; a product and a sum stay two roundings, as in the kernels of the nodes.
  return CompileAtRunTime(*this, source, {sdk::Concat("--gpu-architecture=sm_", major, minor), "-std=c++20", "-default-device", "--fmad=false"}, out_image);
}

}  // namespace tenon::gpu
