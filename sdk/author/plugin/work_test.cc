// SPDX-License-Identifier: Apache-2.0
// tenon/sdk/kernel/work.h in a host that is older than it: whose tables end before its members, with rubbish behind
// their end.
#include "tenon/sdk/kernel/work.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "tenon/testing/kernel_case.h"

namespace tenon::sdk::work_test {
namespace {

// A table of `size` bytes of which nothing is said, and poison in the rest.
template <class Table>
Table Older(const Table& table, size_t size) {
  Table older;
  std::memset(static_cast<void*>(&older), 0x5a, sizeof older);
  std::memcpy(static_cast<void*>(&older), static_cast<const void*>(&table), size);
  older.struct_size = static_cast<uint32_t>(size);
  return older;
}

class OlderHost : public ::testing::Test {
 protected:
  OlderHost() { tenon_plugin_host = testing::Host(); }
  template <class Function>
  static uint32_t CodeOf(Function&& function) {
    try {
      function();
      return TENON_OK;
    } catch (...) {
      return TakeStatus(CurrentFailure()).code;
    }
  }
};

TEST_F(OlderHost, AFrameWithoutWorkIsSaidToHaveNone) {
  for (const size_t size : {offsetof(tenon_frame_services, work_services), offsetof(tenon_frame_services, work)}) {
    tenon_frame_services services = Older(tenon_frame_services{}, size);
    if (size > offsetof(tenon_frame_services, work_services)) services.work_services = nullptr;
    tenon_frame frame = {};
    frame.services = &services;
    EXPECT_EQ(CodeOf([&] { (void)Work(RunContext(&frame)); }), TENON_UNIMPLEMENTED) << size;
    EXPECT_EQ(CodeOf([&] { (void)Background(RunContext(&frame), "work"); }), TENON_UNIMPLEMENTED) << size;
  }
}

TEST_F(OlderHost, AKernelWithFunctionsIsRefused) {
  for (const size_t size :
       {offsetof(tenon_create_services, function), offsetof(tenon_create_services, work_services)}) {
    const tenon_create_services services = Older(tenon_create_services{}, size);
    tenon_create_args args = {};
    args.struct_size = sizeof args;
    args.services = &services;
    args.node_services = testing::NodeServices();
    CreateContext context(args);
    const Function function(context, "f");
    EXPECT_EQ(TakeStatus(context.Finish()).code, TENON_UNIMPLEMENTED) << size;
  }
}

}  // namespace
}  // namespace tenon::sdk::work_test
