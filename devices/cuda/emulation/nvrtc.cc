// SPDX-License-Identifier: Apache-2.0
// A libnvrtc whose machine code is the host's: what it "compiles" is a library for the emulated driver (driver.cc).
#include <cuda.h>
#include <nvrtc.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "runtime.h"

using namespace tenon::gpu;  // NOLINT: this file defines NVRTC's own names alone

struct _nvrtcProgram {  // NOLINT: NVRTC's name
  std::string source, log;
  std::vector<char> image;
};

namespace {

Options OneDevice() {
  Options options;
  options.devices = 1;
  return options;
}
// Only its compiler is used.
Card& TheCard() {
  static auto* const card = [] {
    std::unique_ptr<Card> made;
    (void)kVendor.make(OneDevice())->Open(0, &made);
    return made.release();
  }();  // NOLINT: as long as the process
  return *card;
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = CUDA_VERSION / 1000;
  *minor = CUDA_VERSION % 1000 / 10;
  return NVRTC_SUCCESS;
}
const char* nvrtcGetErrorString(nvrtcResult result) { return result == NVRTC_SUCCESS ? "no error" : "an error of the emulated NVRTC"; }

// The headers are those of the host's compiler, from the same folders.
nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char*, int headers, const char* const*, const char* const*) {
  if (source == nullptr || headers <= 0) return NVRTC_ERROR_INVALID_INPUT;
  *out = new _nvrtcProgram{source, "", {}};
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int options, const char* const* option) {
  bool has_architecture = false;
  for (int i = 0; i < options; ++i) has_architecture |= std::strncmp(option[i], "--gpu-architecture=sm_", 22) == 0;
  if (!has_architecture) return NVRTC_ERROR_INVALID_OPTION;
  const Outcome outcome = TheCard().Compile(program->source, &program->image);
  program->log = outcome.message;
  return outcome.ok() ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->image.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* out) {
  std::memcpy(out, program->image.data(), program->image.size());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* out) {
  std::memcpy(out, program->log.c_str(), program->log.size() + 1);
  return NVRTC_SUCCESS;
}

}  // extern "C"
