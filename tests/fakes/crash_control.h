// SPDX-License-Identifier: Apache-2.0
// What crash_filesystem_plugin.cc offers besides its file system, "crash://PATH": losses of power when a test wants
// them.
//
// Get the table with CrashControl(path) once a runtime has loaded the plugin. One thread.
#ifndef TENON_TESTS_FAKES_CRASH_CONTROL_H_
#define TENON_TESTS_FAKES_CRASH_CONTROL_H_

#include <cstdint>
#include <string>

#include "tests/fakes/plugin_capability.h"

// The capability; the engine passes over it.
#define TENON_TEST_CRASH "tenon.test.crash/1"

struct tenon_test_crash {
  // Operations that changed something (opened for writing, wrote, synced, renamed, removed, made a folder) since the
  // last restart.
  int64_t (*changes)();
  // Files opened for reading since the last restart.
  int64_t (*reads)();
  // Change number `change` after the last restart fails (1 is the first), and so does everything after it; 0: none.
  void (*crash_at)(int64_t change);
  // Files work again, and nothing is to fail. lost: 1: what was not durable is lost, as when the power goes; 0: nothing
  // is, as when a process is killed.
  void (*restart)(uint32_t lost);
};

namespace tenon::fakes {

inline const tenon_test_crash* CrashControl(const std::string& path) {
  return static_cast<const tenon_test_crash*>(CapabilityOf(fakes::PluginOf(path), TENON_TEST_CRASH));
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_CRASH_CONTROL_H_
