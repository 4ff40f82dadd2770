// SPDX-License-Identifier: Apache-2.0
// What work_plugin.cc says of itself. Get the table with WorkControl(path) once a runtime has loaded the plugin. Any
// thread.
#ifndef TENON_TESTS_FAKES_WORK_CONTROL_H_
#define TENON_TESTS_FAKES_WORK_CONTROL_H_

#include <cstdint>
#include <string>

#include "tests/fakes/plugin_capability.h"

// The capability; the engine passes over it.
#define TENON_TEST_WORK "tenon.test.work/1"

struct tenon_test_work {
  int64_t (*live_sources)();  // objects that TestSource made and that are not destroyed
  int64_t (*calls_ahead)();   // of functions, in the background, that ended well
};

namespace tenon::fakes {

// NULL when no runtime has opened the library.
inline const tenon_test_work* WorkControl(const std::string& path) {
  return static_cast<const tenon_test_work*>(CapabilityOf(PluginOf(path), TENON_TEST_WORK));
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_WORK_CONTROL_H_
