// SPDX-License-Identifier: Apache-2.0
// The device plugin that a test program tests, driven as tenon/testing/device.h says. The program says which one:
// TENON_TESTED_PLUGIN is the library's path; the environment's variable of that name goes before it.
//
//   const Plugin plugin{{"devices", "2"}};
//   Device device(plugin, 0);
//   Bench bench;                               // the device's kernels, and the CPU's, which say what is right
#ifndef TENON_TESTS_DEVICE_TESTED_H_
#define TENON_TESTS_DEVICE_TESTED_H_

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tenon/testing/device_bench.h"
#include "tenon/testing/googletest.h"
#include "tenon/testing/samples.h"

namespace tenon::device_test {

using namespace testing;  // NOLINT(google-build-using-namespace): the kit's words are these tests' words

// What a bench loads the tested plugin with; each program that has one defines it.
extern const Settings kBenchSettings;

inline const Library& Tested() {
  static const auto* const library = [] {
    const char* wished = std::getenv("TENON_TESTED_PLUGIN");
    return new Library(wished == nullptr ? TENON_TESTED_PLUGIN : wished);  // NOLINT: lives as long as the process
  }();
  return *library;
}
inline const Library& Cpu() {
  static const auto* const library = new Library(TENON_TEST_BUILD_DIR "/tests/plugins/tenon_cpu_whole.so");
  return *library;
}

struct Plugin : Loaded {
  Plugin(std::initializer_list<Settings::value_type> settings) : Plugin(Settings(settings)) {}
  Plugin() : Plugin(Settings()) {}
  explicit Plugin(const Settings& settings) : Loaded(Tested(), WithADevice(settings)), driver(DriverOf(Tested())) {}

  // By default there is none.
  static Settings WithADevice(Settings settings) {
    const bool counted =
        std::any_of(settings.begin(), settings.end(), [](const auto& each) { return each.first == "devices"; });
    if (!counted) settings.insert(settings.end(), {"devices", "1"});
    return settings;
  }
  const tenon_device_driver* const driver;
};

struct Bench : DeviceBench {
  Bench() : Bench(kBenchSettings, 0) {}
  Bench(std::initializer_list<Settings::value_type> settings) : Bench(Settings(settings), 0) {}
  Bench(const Settings& settings, uint32_t index)
      : DeviceBench(Tested(), Plugin::WithADevice(settings), index, Cpu()) {}
};

}  // namespace tenon::device_test

#endif  // TENON_TESTS_DEVICE_TESTED_H_
