// SPDX-License-Identifier: Apache-2.0
// What async_plugin.cc offers besides its ops: its asynchronous kernels finish when a test says so.
//
// Get the table with AsyncControl(path) once a runtime has loaded the plugin. Any thread.
#ifndef TENON_TESTS_FAKES_ASYNC_CONTROL_H_
#define TENON_TESTS_FAKES_ASYNC_CONTROL_H_

#include <cstdint>
#include <string>

#include "plugin_capability.h"

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

// NULL when no runtime has opened the library.
inline const tenon_test_async* AsyncControl(const std::string& path) {
  return static_cast<const tenon_test_async*>(CapabilityOf(PluginOf(path), TENON_TEST_ASYNC));
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_ASYNC_CONTROL_H_
