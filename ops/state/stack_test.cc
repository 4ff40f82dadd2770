// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tenon/testing/kernel_case.h"
#include "tenon/testing/linked.h"

namespace tenon::ops {
extern const tenon_kernel_registration kStackV2Kernel, kStackPushV2Kernel, kStackPopV2Kernel, kStackCloseV2Kernel;
}  // namespace tenon::ops

namespace tenon::ops::stack_test {
namespace {

using testing::KernelRunner;
using testing::Make;
using testing::Node;
using testing::Outcome;
using testing::Tensor;
using testing::Type;
using testing::Values;

Tensor Int(int32_t value) { return Make<int32_t>({}, {value}); }

// A stack of float tensors, with at most max_size elements.
Tensor NewStack(KernelRunner& step, int32_t max_size = -1) {
  const Tensor limit = Int(max_size);
  const Node node = {"StackV2", {{"stack_name", "s"}, {"elem_type", Type{TENON_DT_FLOAT}}}, {}, {TENON_DT_RESOURCE}};
  EXPECT_TRUE(step.Run(kStackV2Kernel, node, {&limit}).ok());
  return std::move(step.outputs[0]);
}
Outcome Push(KernelRunner& step, const Tensor& stack, const Tensor& value) {
  return step.Run(kStackPushV2Kernel, {"StackPushV2", {}, {}, {value.dtype}}, {&stack, &value});
}
Outcome Pop(KernelRunner& step, const Tensor& stack, uint32_t dtype = TENON_DT_FLOAT) {
  return step.Run(kStackPopV2Kernel, {"StackPopV2", {{"elem_type", Type{dtype}}}, {}, {dtype}}, {&stack});
}

TEST(Stack, GivesBackWhatWasPushedLastFirst) {
  KernelRunner step;
  const Tensor stack = NewStack(step);
  {
    const Tensor a = Make<float>({2}, {1, 2}), b = Make<float>({1, 1}, {3});
    ASSERT_TRUE(Push(step, stack, a).ok());
    EXPECT_EQ(Values<float>(step.outputs[0]), Values<float>(a));
    ASSERT_TRUE(Push(step, stack, b).ok());
  }  // the stack alone holds them now
  ASSERT_TRUE(Pop(step, stack).ok());
  EXPECT_EQ(step.outputs[0].dims, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(Values<float>(step.outputs[0]), std::vector<float>{3});
  ASSERT_TRUE(Pop(step, stack).ok());
  EXPECT_EQ(Values<float>(step.outputs[0]), (std::vector<float>{1, 2}));
}

TEST(Stack, IsAFreshOneAtEveryRunOfTheNode) {
  KernelRunner step;
  const Tensor first = NewStack(step), second = NewStack(step);
  ASSERT_TRUE(Push(step, first, Make<float>({}, {1})).ok());
  const Outcome outcome = Pop(step, second);
  EXPECT_EQ(outcome.code, TENON_INVALID_ARGUMENT);
  EXPECT_NE(outcome.message.find("empty"), std::string::npos) << outcome.message;
}

TEST(Stack, RefusesMoreThanItsMaxSize) {
  KernelRunner step;
  const Tensor stack = NewStack(step, 1);
  const Tensor value = Make<float>({}, {1});
  ASSERT_TRUE(Push(step, stack, value).ok());
  EXPECT_EQ(Push(step, stack, value).code, TENON_INVALID_ARGUMENT);
}

TEST(Stack, RefusesAnotherType) {
  KernelRunner step;
  const Tensor stack = NewStack(step);
  EXPECT_EQ(Push(step, stack, Int(1)).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(Pop(step, stack, TENON_DT_INT32).code, TENON_INVALID_ARGUMENT);
}

TEST(Stack, IsOfNoUseOnceClosed) {
  KernelRunner step;
  const Tensor stack = NewStack(step);
  const Tensor value = Make<float>({}, {1});
  ASSERT_TRUE(Push(step, stack, value).ok());
  ASSERT_TRUE(step.Run(kStackCloseV2Kernel, {}, {&stack}).ok());
  EXPECT_EQ(Push(step, stack, value).code, TENON_FAILED_PRECONDITION);
  EXPECT_EQ(Pop(step, stack).code, TENON_FAILED_PRECONDITION);
}

}  // namespace
}  // namespace tenon::ops::stack_test
