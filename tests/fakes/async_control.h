// SPDX-License-Identifier: Apache-2.0
// What async_plugin.cc offers besides its ops: its asynchronous kernels finish when a test says so.
//
// Get the table with AsyncControl(path) once a runtime has loaded the plugin. Any thread.
#ifndef TENON_TESTS_FAKES_ASYNC_CONTROL_H_
#define TENON_TESTS_FAKES_ASYNC_CONTROL_H_

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tenon/plugin.h"

// The capability; the engine passes over it.
#define TENON_TEST_ASYNC "tenon.test.async/1"

struct tenon_test_async {
  // Calls that were submitted and are not finished.
  uint64_t (*pending)();
  // All that were ever submitted.
  uint64_t (*submitted)();
  // Waits until at least `count` calls are pending, a minute at most; how many there are.
  uint64_t (*wait_for)(uint64_t count);
  // The input of pending call i, in the order of submission.
  float (*input)(uint64_t i);
  // Finishes pending call i on this thread: code 0 is success, else `text` is why not. 0: there is no such call.
  uint32_t (*finish)(uint64_t i, uint32_t code, const char* text);
};

namespace tenon::fakes {

// The library that the runtime opened, not another copy of it. NULL when none has.
inline const tenon_test_async* AsyncControl(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  const auto query = reinterpret_cast<tenon_plugin_query_function>(dlsym(library, TENON_QUERY_SYMBOL));
  tenon_query_args args = {};
  args.struct_size = sizeof(args);
  args.host_abi_major = TENON_ABI_MAJOR;
  args.host_abi_minor = TENON_ABI_MINOR;
  args.host_layout_hash = TENON_LAYOUT_HASH;
  const tenon_plugin* const plugin = query == nullptr ? nullptr : query(&args);
  for (uint64_t i = 0; plugin != nullptr && i < plugin->capability_count; ++i)
    if (std::string_view(plugin->capabilities[i].id.data, plugin->capabilities[i].id.size) == TENON_TEST_ASYNC)
      return static_cast<const tenon_test_async*>(plugin->capabilities[i].table);
  return nullptr;
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_ASYNC_CONTROL_H_
