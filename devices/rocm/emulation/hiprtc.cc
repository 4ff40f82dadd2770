// SPDX-License-Identifier: Apache-2.0
// A libhiprtc whose machine code is the host's: what it "compiles" is a library for the emulated runtime (driver.cc).
#include <hip/hip_version.h>
#include <hip/hiprtc.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "options.h"
#include "runtime.h"

using namespace tenon::gpu;  // NOLINT: this file defines hiprtc's own names alone

struct _hiprtcProgram {  // NOLINT: hiprtc's name
  std::string source, log, image;
};

namespace {

// Only its compiler is used.
Card& TheCard() {
  static auto* const card = [] {
    Options options;
    options.devices = 1;
    std::unique_ptr<Card> made;
    (void)kVendor.make(options)->Open(0, &made);
    return made.release();
  }();  // NOLINT: as long as the process
  return *card;
}

}  // namespace

extern "C" {

hiprtcResult hiprtcVersion(int* major, int* minor) {
  *major = HIP_VERSION_MAJOR;
  *minor = HIP_VERSION_MINOR;
  return HIPRTC_SUCCESS;
}
const char* hiprtcGetErrorString(hiprtcResult result) {
  return result == HIPRTC_SUCCESS ? "no error" : "an error of the emulated hiprtc";
}
// The headers are those of the host's compiler, from the same folders.
hiprtcResult hiprtcCreateProgram(hiprtcProgram* out, const char* source, const char*, int headers, const char**,
                                 const char**) {
  if (source == nullptr || headers <= 0) return HIPRTC_ERROR_INVALID_INPUT;
  *out = new _hiprtcProgram{source, "", ""};
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  delete *program;
  *program = nullptr;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int, const char**) {
  std::vector<char> code;
  const Outcome outcome = TheCard().Compile(program->source, &code);
  program->log = outcome.message;
  if (!outcome.ok()) return HIPRTC_ERROR_COMPILATION;
  const uint64_t bytes = code.size();
  program->image = "emulated" + std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) +
                   std::string(code.begin(), code.end());
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* bytes) {
  *bytes = program->image.size();
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetCode(hiprtcProgram program, char* out) {
  std::memcpy(out, program->image.data(), program->image.size());
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* bytes) {
  *bytes = program->log.size() + 1;
  return HIPRTC_SUCCESS;
}
hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* out) {
  std::memcpy(out, program->log.c_str(), program->log.size() + 1);
  return HIPRTC_SUCCESS;
}

}  // extern "C"
