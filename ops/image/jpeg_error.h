// SPDX-License-Identifier: Apache-2.0
// libjpeg's errors, which do not return: they jump back to where a step was begun. A step calls C functions alone and
// makes nothing with a destructor.
#ifndef TENON_OPS_IMAGE_JPEG_ERROR_H_
#define TENON_OPS_IMAGE_JPEG_ERROR_H_

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <type_traits>

#include <jpeglib.h>

#include "tenon/sdk/kernel/kernel.h"

namespace tenon::ops {

class JpegErrors {
 public:
  explicit JpegErrors(const sdk::RunContext& c) : context(c) {
    jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr info) { Of(info).Stop(info); };
    manager.emit_message = [](j_common_ptr info, int level) {
      if (level < 0) ++info->err->num_warnings;
    };
    manager.output_message = [](j_common_ptr) {};
    progress.progress_monitor = [](j_common_ptr info) { Of(info).Look(info); };
  }
  static JpegErrors& Of(j_common_ptr info) { return *static_cast<JpegErrors*>(info->client_data); }

  // False: an error, of which text says what it is; or the step was given up.
  template <class Step>
  bool Try(Step step) {
    static_assert(std::is_trivially_destructible_v<Step>);
    if (setjmp(jump_) != 0) return false;
    step();
    return true;
  }

  jpeg_error_mgr manager = {};
  jpeg_progress_mgr progress = {};
  const sdk::RunContext& context;
  char text[JMSG_LENGTH_MAX] = {};
  static constexpr int kMostScans = 500;  // of a progressive picture, which has ten or so

  // Ends the step that is under way; it says why.
  [[noreturn]] void Leave(const char* why) {
    std::snprintf(text, sizeof text, "%s", why);
    std::longjmp(jump_, 1);
  }

 private:
  [[noreturn]] void Stop(j_common_ptr info) {
    (*info->err->format_message)(info, text);
    std::longjmp(jump_, 1);
  }
  // At each row of blocks.
  void Look(j_common_ptr info) {
    if (context.cancelled()) Leave("the step was given up");
    if (info->is_decompressor != 0 && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans)
      Leave("it has more than 500 scans");
  }
  std::jmp_buf jump_ = {};
};

}  // namespace tenon::ops

#endif  // TENON_OPS_IMAGE_JPEG_ERROR_H_
