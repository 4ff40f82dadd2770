// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kVarHandleOpKernel, kVariableKernel, kVariableV2Kernel,
    kVarIsInitializedOpKernel, kIsVariableInitializedKernel, kDestroyResourceOpKernel;
}  // namespace tenon::ops

namespace tenon::ops::variable_handle_test {
namespace {

using testing::KernelRunner;
using testing::Tensor;
using testing::Values;

Tensor Make(KernelRunner& step, const tenon_kernel_registration& kernel, const char* shared_name) {
  EXPECT_TRUE(step.Run(kernel,
                       {"",
                        {{"container", ""}, {"shared_name", shared_name}, {"dtype", testing::Type{TENON_DT_FLOAT}}},
                        {},
                        {TENON_DT_RESOURCE}},
                       {})
                  .ok());
  return std::move(step.outputs[0]);
}

TEST(VariableHandle, OfOneNameIsOneVariableWhateverTheOp) {
  KernelRunner step;
  tenon_resource* w = ResourceOf(Make(step, kVarHandleOpKernel, "w"));
  EXPECT_NE(w, nullptr);
  EXPECT_EQ(ResourceOf(Make(step, kVarHandleOpKernel, "w")), w);
  EXPECT_EQ(ResourceOf(Make(step, kVariableKernel, "w")), w);
  EXPECT_EQ(ResourceOf(Make(step, kVariableV2Kernel, "w")), w);
  EXPECT_NE(ResourceOf(Make(step, kVarHandleOpKernel, "v")), w);
}

TEST(VariableHandle, WithoutANameTakesTheNodes) {
  KernelRunner step;
  tenon_resource* named = ResourceOf(Make(step, kVarHandleOpKernel, "node"));
  EXPECT_EQ(ResourceOf(Make(step, kVariableV2Kernel, "")), named);
  EXPECT_EQ(ResourceOf(Make(step, kVarHandleOpKernel, "cd2c89b7-88b7-44c8-ad83-06c2a9158347")), named);
}

TEST(VariableHandle, IsAskedForItsValueAndDestroyedOnce) {
  KernelRunner step;
  const Tensor handle = Make(step, kVarHandleOpKernel, "w");
  const auto initialized = [&](const tenon_kernel_registration& kernel) {
    EXPECT_TRUE(step.Run(kernel, {"", {}, {}, {TENON_DT_BOOL}}, {&handle}).ok());
    return Values<uint8_t>(step.outputs[0])[0];
  };
  const auto destroy = [&](bool ignore_missing) {
    return step.Run(kDestroyResourceOpKernel, {"", {{"ignore_lookup_error", ignore_missing}}}, {&handle}).code;
  };
  EXPECT_EQ(initialized(kVarIsInitializedOpKernel), 0);
  ResourceOf(handle)->object = new int(1);
  ResourceOf(handle)->destroy = [](void* object) { delete static_cast<int*>(object); };
  EXPECT_EQ(initialized(kVarIsInitializedOpKernel), 1);
  EXPECT_EQ(initialized(kIsVariableInitializedKernel), 1);
  EXPECT_EQ(destroy(false), TENON_OK);
  EXPECT_EQ(destroy(false), TENON_NOT_FOUND);
  EXPECT_EQ(destroy(true), TENON_OK);
}

}  // namespace
}  // namespace tenon::ops::variable_handle_test
