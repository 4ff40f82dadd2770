// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/fakes/kernel_host.h"

namespace tenon::ops {

extern const tenon_kernel_registration kVarHandleOpKernel, kVariableKernel, kVariableV2Kernel, kVarIsInitializedOpKernel,
    kIsVariableInitializedKernel, kDestroyResourceOpKernel;

namespace {

using fakes::Step;
using fakes::Tensor;

tenon_resource* HandleOf(const Tensor& tensor) { return *static_cast<tenon_resource**>(tensor.view().dl.data); }

Tensor Make(Step& step, const tenon_kernel_registration& kernel, const char* shared_name) {
  EXPECT_TRUE(step.Run(kernel, {{{"container", ""}, {"shared_name", shared_name}}, {}, {}, {TENON_DT_RESOURCE}}, {}).ok());
  return std::move(step.outputs[0]);
}

TEST(VariableHandle, OfOneNameIsOneVariableWhateverTheOp) {
  Step step;
  tenon_resource* w = HandleOf(Make(step, kVarHandleOpKernel, "w"));
  EXPECT_NE(w, nullptr);
  EXPECT_EQ(HandleOf(Make(step, kVarHandleOpKernel, "w")), w);
  EXPECT_EQ(HandleOf(Make(step, kVariableKernel, "w")), w);
  EXPECT_EQ(HandleOf(Make(step, kVariableV2Kernel, "w")), w);
  EXPECT_NE(HandleOf(Make(step, kVarHandleOpKernel, "v")), w);
}

TEST(VariableHandle, WithoutANameTakesTheNodes) {
  Step step;
  tenon_resource* named = HandleOf(Make(step, kVarHandleOpKernel, "node"));
  EXPECT_EQ(HandleOf(Make(step, kVariableV2Kernel, "")), named);
  EXPECT_EQ(HandleOf(Make(step, kVarHandleOpKernel, "cd2c89b7-88b7-44c8-ad83-06c2a9158347")), named);
}

TEST(VariableHandle, IsAskedForItsValueAndDestroyedOnce) {
  Step step;
  const Tensor handle = Make(step, kVarHandleOpKernel, "w");
  const auto initialized = [&](const tenon_kernel_registration& kernel) {
    EXPECT_TRUE(step.Run(kernel, {{}, {}, {}, {TENON_DT_BOOL}}, {&handle}).ok());
    return step.outputs[0].Values<uint8_t>()[0];
  };
  const auto destroy = [&](uint8_t ignore_missing) {
    return step.Run(kDestroyResourceOpKernel, {{}, {{"ignore_lookup_error", ignore_missing}}, {}, {}}, {&handle}).code;
  };
  EXPECT_EQ(initialized(kVarIsInitializedOpKernel), 0);
  HandleOf(handle)->object = new int(1);
  HandleOf(handle)->destroy = [](void* object) { delete static_cast<int*>(object); };
  EXPECT_EQ(initialized(kVarIsInitializedOpKernel), 1);
  EXPECT_EQ(initialized(kIsVariableInitializedKernel), 1);
  EXPECT_EQ(destroy(0), TENON_OK);
  EXPECT_EQ(destroy(0), TENON_NOT_FOUND);
  EXPECT_EQ(destroy(1), TENON_OK);
}

}  // namespace
}  // namespace tenon::ops
