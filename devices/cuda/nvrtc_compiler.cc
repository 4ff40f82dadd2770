// SPDX-License-Identifier: Apache-2.0
#include "nvrtc_compiler.h"

#include <cuda.h>

#include <algorithm>

#include "run_time_compiler.h"

namespace tenon::gpu {

const Nvrtc& Nvrtc::The() {
  static const Nvrtc nvrtc;
  return nvrtc;
}

Nvrtc::Nvrtc() {
  const std::string file = sdk::Concat("libnvrtc.so.", CUDA_VERSION / 1000);
  NamedLibrary library(
      {file, "/usr/local/cuda/lib64/" + file});  // by the loader's rules, then where the toolkit usually is
  TENON_NVRTC_FUNCTIONS(TENON_GPU_FIND)
  if (!library.problem().empty()) {
    opened_ = Fault(TENON_UNIMPLEMENTED, "chains are not compiled: ", library.problem(), "; install NVRTC of CUDA ",
                    CUDA_VERSION / 1000, " and name its folder in LD_LIBRARY_PATH");
    return;
  }
  int major = 0, minor = 0;
  (void)f_.nvrtcVersion(&major, &minor);
  version_ = sdk::Concat(kName, " ", major, ".", minor);
  int count = 0;
  if (f_.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS) return;
  architectures_.resize(static_cast<size_t>(std::max(count, 0)));
  if (f_.nvrtcGetSupportedArchs(architectures_.data()) != NVRTC_SUCCESS) architectures_.clear();
  std::sort(architectures_.begin(), architectures_.end());
}

Outcome Nvrtc::Compile(int major, int minor, const std::string& source, std::vector<char>* out_image) const {
  if (!opened_.ok()) return opened_;
  const int wanted = major * 10 + minor;
  const auto after = std::upper_bound(architectures_.begin(), architectures_.end(), wanted);
  const bool is_known = architectures_.empty() || (after != architectures_.begin() && after[-1] == wanted);
  if (!is_known && after == architectures_.begin()) {
    return Fault(TENON_UNIMPLEMENTED, "chains are not compiled: ", version_, " compiles for sm_",
                 architectures_.front(), " and newer, this GPU is sm_", wanted);
  }
  const std::string target = is_known ? sdk::Concat("sm_", wanted) : sdk::Concat("compute_", after[-1]);
  // What has no mark is device code; a product and a sum stay two roundings, as in the kernels of the nodes.
  return CompileAtRunTime(*this, source,
                          {"--gpu-architecture=" + target, "-std=c++20", "-default-device", "--fmad=false"}, out_image);
}

}  // namespace tenon::gpu
