// SPDX-License-Identifier: Apache-2.0
// What is asked of a HIP runtime when a GPU is opened, on an emulated one (emulation/driver.cc). Covers N4.
#include <gtest/gtest.h>

#include <cstdlib>

#include "api.h"
#include "driver_card.h"

namespace tenon::gpu {
namespace {

// How a GPU of a runtime is opened whose streams wait for such memory.
Outcome OpenWhereStreamsWaitFor(const char* memory) {
  setenv("TENON_EMULATED_HIP_WAITS", memory, 1);
  HipApi api;
  Outcome outcome = api.Open();
  if (!outcome.ok()) return outcome;
  DriverCard<HipApi> card(api);
  return card.Open(0);
}

TEST(HipRuntime, WhoseStreamsWaitForAnyMemoryIsTaken) {
  const Outcome outcome = OpenWhereStreamsWaitFor("any");
  EXPECT_TRUE(outcome.ok()) << outcome.message;
}

// Not when the first step waits for another queue.
TEST(HipRuntime, WhoseStreamsWaitForSignalMemoryAloneIsRefusedWhenItsGpuIsOpened) {
  const Outcome outcome = OpenWhereStreamsWaitFor("signal");
  EXPECT_EQ(outcome.code, static_cast<uint32_t>(TENON_FAILED_PRECONDITION));
  EXPECT_EQ(outcome.message,
            "the HIP runtime's streams do not wait for words of pinned memory: hipErrorInvalidValue (said by the emulated runtime); install a newer ROCm, and leave "
            "GPU_STREAMOPS_CP_WAIT unset");
}

}  // namespace
}  // namespace tenon::gpu
