// SPDX-License-Identifier: Apache-2.0
#include "hiprtc_compiler.h"

#include <dlfcn.h>

#include "run_time_compiler.h"

namespace tenon::gpu {
namespace {

// Newest first. In ROCm 5 it was part of the runtime.
constexpr const char* kLibraries[] = {"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"};

}  // namespace

const Hiprtc& Hiprtc::The() {
  static const Hiprtc hiprtc;
  return hiprtc;
}

Hiprtc::Hiprtc() {
  void* library = nullptr;
  for (const char* name : kLibraries) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  const char* missing = library == nullptr ? kLibraries[0] : nullptr;
#define TENON_HIPRTC_FIND(name)                                                    \
  if (missing == nullptr) {                                                        \
    f_.name = reinterpret_cast<decltype(f_.name)>(dlsym(library, #name));          \
    if (f_.name == nullptr) missing = #name;                                       \
  }
  TENON_HIPRTC_FUNCTIONS(TENON_HIPRTC_FIND)
#undef TENON_HIPRTC_FIND
  if (missing != nullptr) {
    opened_ = Fault(TENON_UNIMPLEMENTED, "chains are not compiled: ", missing, " was not found; install hiprtc of the ROCm in use");
    return;
  }
  int major = 0, minor = 0;
  (void)f_.hiprtcVersion(&major, &minor);
  version_ = sdk::Concat(kName, " ", major, ".", minor);
}

Outcome Hiprtc::Compile(const std::string& target, const std::string& source, std::vector<char>* out_image) const {
  if (!opened_.ok()) return opened_;
  // A product and a sum stay two roundings, as in the kernels of the nodes.
  std::vector<std::string> options = {"-std=c++20", "-ffp-contract=off", "-O3"};
  if (!target.empty()) options.push_back(sdk::Concat("--gpu-architecture=", target));
  return CompileAtRunTime(*this, source, options, out_image);
}

}  // namespace tenon::gpu
