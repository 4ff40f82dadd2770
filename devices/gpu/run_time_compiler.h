// SPDX-License-Identifier: Apache-2.0
// Compiling device code at run time, as NVRTC and hiprtc both do it. Rtc has their functions under one name each.
#ifndef TENON_DEVICES_GPU_RUN_TIME_COMPILER_H_
#define TENON_DEVICES_GPU_RUN_TIME_COMPILER_H_

#include <string>
#include <vector>

#include "images.h"
#include "runtime.h"

namespace tenon::gpu {

// The image of the source with these options. A status holds the log. Any thread.
template <class Rtc>
Outcome CompileAtRunTime(const Rtc& rtc, const std::string& source, const std::vector<std::string>& options,
                         std::vector<char>* out_image) {
  std::vector<const char*> names, texts, given;
  for (uint64_t i = 0; i < tenon_gpu_header_count; ++i) {
    names.push_back(tenon_gpu_headers[i].name);
    texts.push_back(tenon_gpu_headers[i].text);
  }
  for (const std::string& option : options) given.push_back(option.c_str());
  typename Rtc::Program program = nullptr;
  auto result =
      rtc.Create(&program, source.c_str(), "chain.cu", static_cast<int>(names.size()), texts.data(), names.data());
  if (result != Rtc::kSuccess) return Fault(TENON_INTERNAL, Rtc::kName, " takes no source: ", rtc.ErrorText(result));
  result = rtc.Compile(program, static_cast<int>(given.size()), given.data());
  Outcome outcome;
  size_t bytes = 0;
  if (result == Rtc::kSuccess) {
    result = rtc.ImageSize(program, &bytes);
    out_image->resize(bytes);
    if (result == Rtc::kSuccess) result = rtc.Image(program, out_image->data());
    if (result != Rtc::kSuccess) outcome = Fault(TENON_INTERNAL, Rtc::kName, " gives no code: ", rtc.ErrorText(result));
  } else {
    (void)rtc.LogSize(program, &bytes);
    std::string log(bytes, '\0');
    if (bytes > 0) (void)rtc.Log(program, log.data());
    outcome = Fault(TENON_INTERNAL, "a chain does not compile (", Rtc::kName, ", ", rtc.ErrorText(result),
                    "): ", log.c_str());
  }
  (void)rtc.Destroy(&program);
  return outcome;
}

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_RUN_TIME_COMPILER_H_
