// SPDX-License-Identifier: Apache-2.0
// The suite of sdk/author/testing for devices, over the tested plugin. Built into the tests of each. Covers E3, E10,
// H7, H8.
#include "tenon/testing/device_suite.h"
#include "tests/device/tested.h"

namespace tenon::device_test {
namespace {

const bool kRegistered = testing::RegisterSuite<DeviceSubject>("Conformance", DeviceCases(), [] {
  return DeviceSubject{Tested(), {{"devices", "1"}}, {{"devices", "2"}}};
});

}  // namespace
}  // namespace tenon::device_test
