// SPDX-License-Identifier: Apache-2.0
// What may be chosen when a GPU plugin is loaded.
#ifndef TENON_DEVICES_GPU_OPTIONS_H_
#define TENON_DEVICES_GPU_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>

#include "tenon/plugin.h"
#include "tenon/sdk/outcome.h"

namespace tenon::gpu {

struct Options {
  int64_t devices = -1;      // at most so many; -1: all
  int64_t queues = 1;        // of kernels
  int64_t memory_limit = 0;  // of each device, in bytes; 0: what the driver gives
  std::string cache = "auto";  // where compiled chains are kept (fuse/cache.h)
  std::string libraries = "auto";  // where the vendor's libraries are looked for (library.h)
  std::string collectives = "auto";  // the library of collectives: auto, off, or a path
  std::string storage =
      "auto";  // in 16 bits, in sessions of precision bfloat16 and float16 (fuse/mixed_precision.h): auto, always, off
  std::map<std::string, std::string> more;  // what the vendor's plugin declares besides
};

// The declarations that every GPU plugin has.
#define TENON_GPU_OPTION(key, value, type, text) {TENON_SPAN(key), TENON_SPAN(value), TENON_SPAN(text), type, 0}
#define TENON_GPU_OPTIONS(devices)                                                                                     \
  TENON_GPU_OPTION("devices", devices, TENON_OPTION_INT, "how many devices are used at most; -1: all that there are"), \
      TENON_GPU_OPTION("queues", "1", TENON_OPTION_INT, "how many kernels of a device may run side by side"),          \
      TENON_GPU_OPTION("memory_limit", "0", TENON_OPTION_INT,                                                          \
                       "bytes of each device's memory that may be in use; 0: all of it"),                              \
      TENON_GPU_OPTION("cache", "auto", TENON_OPTION_STRING,                                                           \
                       "folder of compiled chains; auto: tenon/gpu in the user's cache folder; off: none"),            \
      TENON_GPU_OPTION("libraries", "auto", TENON_OPTION_STRING,                                                       \
                       "folder of the vendor's libraries (products, convolutions, profiling); auto: by the loader's "  \
                       "rules; off: own kernels, events"),                                                             \
      TENON_GPU_OPTION("collectives", "auto", TENON_OPTION_STRING,                                                     \
                       "library of collectives, with NCCL's functions; auto: the vendor's, where it is found; off: "   \
                       "copies between GPUs; or a path"),                                                              \
      TENON_GPU_OPTION("storage", "auto", TENON_OPTION_STRING,                                                         \
                       "what sessions of precision bfloat16 and float16 keep in 16 bits; auto: what gains by it, of "  \
                       "float16 not in steps that train with a loss that is not scaled; always: all that may be, "     \
                       "whatever casts cost; off: nothing")

// INVALID_ARGUMENT names the option and what it may be.
sdk::Outcome ParseOptions(const tenon_load_args& args, const tenon_option_declaration* declarations,
                          uint64_t declaration_count, Options* out_options);
// A whole number of `more`.
sdk::Outcome ParseInteger(std::string_view key, std::string_view text, int64_t low, int64_t high, int64_t* out);

}  // namespace tenon::gpu

#endif  // TENON_DEVICES_GPU_OPTIONS_H_
