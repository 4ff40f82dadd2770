// SPDX-License-Identifier: Apache-2.0
// A program's instance by itself: steps, kernels that fail or throw, and fetches that the caller keeps.
#include "core/exec/program/instance.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "core/exec/device/step.h"
#include "core/exec/lower/lower.h"
#include "core/exec/plan/device_constants.h"
#include "core/exec/plan/make_plan.h"
#include "core/graph/graph.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::program_instance_test {
namespace {

using graph::Edge;

class ProgramInstanceTest : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  // Of one feed of so many elements.
  void Make(Edge feed, Edge fetch, int64_t elements) {
    values_.assign(static_cast<size_t>(elements), 1);
    dims_ = {elements};
    feed_ = MakeView(TENON_DT_FLOAT, {dims_.data(), 1, 0}, values_.data(), values_.size() * sizeof(float), nullptr);
    auto plan = MakePlan(graph.Clone(), {feed}, {fetch}, {}, env_, &store_, {});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = *plan;
    const tenon_tensor_view* const feeds[] = {&feed_};
    auto lowered = Lower(*plan_, feeds, &constants_);
    ASSERT_TRUE(lowered.ok()) << lowered.status().ToString();
    ASSERT_EQ(lowered->refusal.text, "");
    program_ = std::move(lowered->program);
    auto instance = ProgramInstance::Create(program_.get());
    ASSERT_TRUE(instance.ok()) << instance.status().ToString();
    instance_ = *std::move(instance);
  }
  Status Run(bool keeps = false) {
    step_.env = &env_;
    step_.cancellation = &cancellation_;
    step_.keeps = keeps ? pool_ : nullptr;
    const tenon_tensor_view* const feeds[] = {&feed_};
    return instance_->Run(&step_, feeds);
  }
  Edge Vector(int64_t elements) { return Feed(TENON_DT_FLOAT, {elements}); }

  std::vector<float> values_;
  std::vector<int64_t> dims_;
  tenon_tensor_view feed_{};
  DeviceConstants constants_{&env_};
  Cancellation cancellation_;
  Step step_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<const Program> program_;
  std::unique_ptr<ProgramInstance> instance_;
};

TEST_F(ProgramInstanceTest, EachStepSeesItsOwnFeeds) {
  const Edge x = Vector(3);
  Make(x, Add("Plus", {Add("Plus", {x, x}), x}), 3);
  for (const float value : {1.f, 5.f}) {
    values_.assign(3, value);
    ASSERT_TRUE(Run().ok());
    EXPECT_EQ(fakes::FloatsOf(&instance_->fetch(0))[2], 3 * value);
    EXPECT_FALSE(instance_->fetch_is_own(0));
    instance_->Finish();
  }
}

TEST_F(ProgramInstanceTest, ALargeFetchThatIsKeptHasABufferOfItsOwn) {
  const Edge x = Vector(2000);
  Make(x, Add("Plus", {x, x}), 2000);
  ASSERT_TRUE(Run(true).ok());
  ASSERT_TRUE(instance_->fetch_is_own(0));
  Buffer* const kept = instance_->fetch(0).buffer;
  Retain(kept);
  instance_->Finish();
  values_.assign(2000, 7);
  ASSERT_TRUE(Run().ok());  // in the arena again
  EXPECT_FALSE(instance_->fetch_is_own(0));
  EXPECT_EQ(fakes::FloatsOf(&instance_->fetch(0))[0], 14);
  EXPECT_EQ(static_cast<const float*>(kept->data)[1999], 2);
  instance_->Finish();
  Release(kept);
}

TEST_F(ProgramInstanceTest, AStepEndsAtTheFirstKernelThatFailsAndSaysWhichOne) {
  const Edge x = Vector(2);
  int runs = 0;
  fakes::g_mystery = [&](float) -> Status {
    return ++runs == 1 ? InvalidArgument("no number") : Status::Ok();
  };
  Make(x, Add("Mystery", {Add("Mystery", {x}, {}, "first")}, {}, "second"), 2);
  const Status bad = Run();
  EXPECT_EQ(bad.code(), Code::kInvalidArgument);
  EXPECT_NE(bad.ToString().find("first"), std::string::npos) << bad.ToString();
  EXPECT_EQ(runs, 1);
  instance_->Finish();
  EXPECT_TRUE(Run().ok());
  instance_->Finish();
  fakes::g_mystery = nullptr;
}

TEST_F(ProgramInstanceTest, WhatAKernelThrowsIsItsPluginsError) {
  const Edge x = Vector(2);
  fakes::g_mystery = [](float) -> Status { throw std::runtime_error("thrown"); };
  Make(x, Add("Mystery", {x}), 2);
  const Status bad = Run();
  EXPECT_NE(bad.ToString().find("tiny"), std::string::npos) << bad.ToString();
  instance_->Finish();
  fakes::g_mystery = nullptr;
}

}  // namespace
}  // namespace tenon::exec::program_instance_test
