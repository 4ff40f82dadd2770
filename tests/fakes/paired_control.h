// SPDX-License-Identifier: Apache-2.0
// What paired_plugin.cc offers besides its two devices: what was copied how, and what copies between them do.
#ifndef TENON_TESTS_FAKES_PAIRED_CONTROL_H_
#define TENON_TESTS_FAKES_PAIRED_CONTROL_H_

#include <cstdint>
#include <string>

#include "plugin_capability.h"

// The capability; the engine passes over it.
#define TENON_TEST_PAIRED "tenon.test.paired/1"

struct tenon_test_paired {
  // Copies from LEFT to RIGHT and back that were given to a queue, and those that went to the host or came from it.
  uint64_t (*between)();
  uint64_t (*by_host)();
  // From now on: 0 no pair is reached; 1 both are; 2 asking fails; 3 both are, and copies fail.
  void (*set)(uint32_t what);
  // Pieces of work that found memory another queue was at work with.
  uint64_t (*races)();
};

namespace tenon::fakes {

// NULL when no runtime has opened the library.
inline const tenon_test_paired* PairedControl(const std::string& path) {
  return static_cast<const tenon_test_paired*>(CapabilityOf(PluginOf(path), TENON_TEST_PAIRED));
}

}  // namespace tenon::fakes

#endif  // TENON_TESTS_FAKES_PAIRED_CONTROL_H_
