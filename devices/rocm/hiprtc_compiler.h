// SPDX-License-Identifier: Apache-2.0
// hiprtc, found by name in libhiprtc, or in libamdhip64 of ROCm 5, when the first chain is compiled.
#ifndef TENON_DEVICES_ROCM_HIPRTC_COMPILER_H_
#define TENON_DEVICES_ROCM_HIPRTC_COMPILER_H_

#include <hip/hiprtc.h>

#include "named_library.h"
#include "runtime.h"

namespace tenon::gpu {

#define TENON_HIPRTC_FUNCTIONS(X)                                                                                     \
  X(hiprtcVersion)                                                                                                    \
  X(hiprtcGetErrorString) X(hiprtcCreateProgram) X(hiprtcDestroyProgram) X(hiprtcCompileProgram) X(hiprtcGetCodeSize) \
      X(hiprtcGetCode) X(hiprtcGetProgramLogSize) X(hiprtcGetProgramLog)

class Hiprtc {
 public:
  using Program = hiprtcProgram;
  static constexpr hiprtcResult kSuccess = HIPRTC_SUCCESS;
  static constexpr char kName[] = "hiprtc";

  // The library of this process; a status says that there is none.
  static const Hiprtc& The();
  const Outcome& opened() const { return opened_; }
  // "hiprtc 5.2"; "" without one.
  const std::string& version() const { return version_; }
  // The machine code of the source; target "": for the current GPU.
  Outcome Compile(const std::string& target, const std::string& source, std::vector<char>* out_image) const;

  std::string ErrorText(hiprtcResult result) const { return f_.hiprtcGetErrorString(result); }
  hiprtcResult Create(Program* out, const char* source, const char* name, int headers, const char** texts,
                      const char** names) const {
    return f_.hiprtcCreateProgram(out, source, name, headers, texts, names);
  }
  hiprtcResult Compile(Program program, int count, const char** options) const {
    return f_.hiprtcCompileProgram(program, count, options);
  }
  hiprtcResult ImageSize(Program program, size_t* out) const { return f_.hiprtcGetCodeSize(program, out); }
  hiprtcResult Image(Program program, char* out) const { return f_.hiprtcGetCode(program, out); }
  hiprtcResult LogSize(Program program, size_t* out) const { return f_.hiprtcGetProgramLogSize(program, out); }
  hiprtcResult Log(Program program, char* out) const { return f_.hiprtcGetProgramLog(program, out); }
  hiprtcResult Destroy(Program* program) const { return f_.hiprtcDestroyProgram(program); }

 private:
  Hiprtc();
  struct Functions {
    TENON_HIPRTC_FUNCTIONS(TENON_GPU_MEMBER)
  };
  Functions f_ = {};
  Outcome opened_;
  std::string version_;
};

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_ROCM_HIPRTC_COMPILER_H_
