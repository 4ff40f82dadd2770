// SPDX-License-Identifier: Apache-2.0
// A libnvrtc whose machine code is the host's: what it "compiles" is a library for the emulated driver (driver.cc).
#include <cuda.h>
#include <nvrtc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "emulation/driver_controls.h"
#include "options.h"
#include "runtime.h"

using namespace tenon::gpu;  // NOLINT: this file defines NVRTC's own names alone

struct _nvrtcProgram {  // NOLINT: NVRTC's name
  std::string source, log;
  std::vector<char> image;
  bool is_ptx = false;
};

extern "C" EmulatedDriverControls* tenon_emulated_driver();

namespace {

constexpr int kArchitectures[] = {75, 80, 86, 89, 90, 100, 120};

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
const char* nvrtcGetErrorString(nvrtcResult result) {
  return result == NVRTC_SUCCESS ? "no error" : "an error of the emulated NVRTC";
}

// The headers are those of the host's compiler, from the same folders.
nvrtcResult nvrtcCreateProgram(nvrtcProgram* out, const char* source, const char*, int headers, const char* const*,
                               const char* const*) {
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
  // Machine code, or PTX, for what it knows alone.
  bool has_architecture = false;
  for (int i = 0; i < options; ++i) {
    for (const char* kind : {"--gpu-architecture=sm_", "--gpu-architecture=compute_"}) {
      if (std::strncmp(option[i], kind, std::strlen(kind)) != 0) continue;
      has_architecture = std::find(std::begin(kArchitectures), std::end(kArchitectures),
                                   std::atoi(option[i] + std::strlen(kind))) != std::end(kArchitectures);
      program->is_ptx = std::strstr(kind, "compute") != nullptr;
    }
  }
  if (!has_architecture) return NVRTC_ERROR_INVALID_OPTION;
  ++tenon_emulated_driver()->compiling;
  while (tenon_emulated_driver()->holds_compiler) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  --tenon_emulated_driver()->compiling;
  const Outcome outcome = TheCard().Compile(program->source, &program->image);
  program->log = outcome.message;
  return outcome.ok() ? NVRTC_SUCCESS : NVRTC_ERROR_COMPILATION;
}
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->is_ptx ? 0 : program->image.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char* out) {
  if (program->is_ptx) return NVRTC_ERROR_INVALID_PROGRAM;
  std::memcpy(out, program->image.data(), program->image.size());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->image.size();
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* out) {
  std::memcpy(out, program->image.data(), program->image.size());
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(kArchitectures));
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* out) {
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), out);
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
