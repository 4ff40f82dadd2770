// SPDX-License-Identifier: Apache-2.0
// NVRTC, found by name in libnvrtc when the first chain is compiled.
#ifndef TENON_DEVICES_CUDA_NVRTC_COMPILER_H_
#define TENON_DEVICES_CUDA_NVRTC_COMPILER_H_

#include <nvrtc.h>

#include "named_library.h"
#include "runtime.h"

namespace tenon::gpu {

#define TENON_NVRTC_FUNCTIONS(X)                                                                                  \
  X(nvrtcVersion)                                                                                                 \
  X(nvrtcGetErrorString) X(nvrtcCreateProgram) X(nvrtcDestroyProgram) X(nvrtcCompileProgram) X(nvrtcGetCUBINSize) \
      X(nvrtcGetCUBIN) X(nvrtcGetPTXSize) X(nvrtcGetPTX) X(nvrtcGetNumSupportedArchs) X(nvrtcGetSupportedArchs)   \
          X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)

class Nvrtc {
 public:
  using Program = nvrtcProgram;
  static constexpr nvrtcResult kSuccess = NVRTC_SUCCESS;
  static constexpr char kName[] = "NVRTC";

  // The library of this process; a status says that there is none.
  static const Nvrtc& The();
  const Outcome& opened() const { return opened_; }
  // "NVRTC 13.0"; "" without one.
  const std::string& version() const { return version_; }
  // The machine code of the source for compute capability major.minor; for one that is newer than the library, PTX of
  // the newest before it, which the driver compiles.
  Outcome Compile(int major, int minor, const std::string& source, std::vector<char>* out_image) const;

  std::string ErrorText(nvrtcResult result) const { return f_.nvrtcGetErrorString(result); }
  nvrtcResult Create(Program* out, const char* source, const char* name, int headers, const char* const* texts,
                     const char* const* names) const {
    return f_.nvrtcCreateProgram(out, source, name, headers, texts, names);
  }
  nvrtcResult Compile(Program program, int count, const char* const* options) const {
    return f_.nvrtcCompileProgram(program, count, options);
  }
  nvrtcResult ImageSize(Program program, size_t* out) const {
    const nvrtcResult result = f_.nvrtcGetCUBINSize(program, out);
    return result == NVRTC_SUCCESS && *out == 0 ? f_.nvrtcGetPTXSize(program, out) : result;
  }
  nvrtcResult Image(Program program, char* out) const {
    size_t machine_code = 0;
    const nvrtcResult result = f_.nvrtcGetCUBINSize(program, &machine_code);
    return result == NVRTC_SUCCESS && machine_code == 0 ? f_.nvrtcGetPTX(program, out) : f_.nvrtcGetCUBIN(program, out);
  }
  nvrtcResult LogSize(Program program, size_t* out) const { return f_.nvrtcGetProgramLogSize(program, out); }
  nvrtcResult Log(Program program, char* out) const { return f_.nvrtcGetProgramLog(program, out); }
  nvrtcResult Destroy(Program* program) const { return f_.nvrtcDestroyProgram(program); }

 private:
  Nvrtc();
  struct Functions {
    TENON_NVRTC_FUNCTIONS(TENON_GPU_MEMBER)
  };
  Functions f_ = {};
  Outcome opened_;
  std::string version_;
  std::vector<int> architectures_;  // that it knows, ascending: 80 and the like
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_CUDA_NVRTC_COMPILER_H_
