// SPDX-License-Identifier: Apache-2.0
#include "hiprtc_compiler.h"

#include "run_time_compiler.h"

namespace tenon::gpu {

const Hiprtc& Hiprtc::The() {
  static const Hiprtc hiprtc;
  return hiprtc;
}

Hiprtc::Hiprtc() {
  // Newest first. In ROCm 5 it was part of the runtime.
  NamedLibrary library({"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"});
  TENON_HIPRTC_FUNCTIONS(TENON_GPU_FIND)
  if (!library.problem().empty()) {
    opened_ = Fault(TENON_UNIMPLEMENTED, "chains are not compiled: ", library.problem(),
                    "; install hiprtc of the ROCm in use");
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
