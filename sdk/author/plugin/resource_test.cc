// SPDX-License-Identifier: Apache-2.0
#include "tenon/sdk/kernel/resource.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "tenon/sdk/outcome.h"
#include "tenon/testing/kernel_case.h"

namespace tenon::sdk::resource_test {
namespace {

constexpr tenon_span kThingType = TENON_SPAN("Test.Thing/1"), kOtherType = TENON_SPAN("Test.Other/1");

int g_things = 0;
struct Thing {
  explicit Thing(int number) : number(number) { ++g_things; }
  ~Thing() { --g_things; }
  Thing(const Thing&) = delete;
  Thing& operator=(const Thing&) = delete;
  const int number;
};

std::function<void(const RunContext&)> g_uses;
struct Uses {
  void Run(RunContext c) const { g_uses(c); }
};
constexpr tenon_kernel_registration kUses = Registration<Uses>("Uses", {});

class Resource : public ::testing::Test {
 protected:
  Resource() { tenon_plugin_host = testing::Host(); }
  testing::Outcome Run(std::function<void(const RunContext&)> uses) {
    g_uses = std::move(uses);
    const testing::Tensor handle = testing::Handle(resource_);
    return step_.Run(kUses, {"Uses", {}, {TENON_DT_RESOURCE}}, {&handle});
  }
  static Thing& Made(const RunContext& c, int number) {
    return ObjectOf<Thing>(c, c.resource(0), kThingType, [number] { return std::make_unique<Thing>(number); });
  }
  testing::KernelRunner step_;
  testing::Variable resource_;
};

TEST_F(Resource, IsMadeByTheFirstAndEndsWithItsContainer) {
  EXPECT_EQ(Run([](const RunContext& c) { EXPECT_EQ(Made(c, 1).number, 1); }).text(), "");
  EXPECT_EQ(Run([](const RunContext& c) {
              EXPECT_EQ(Made(c, 2).number, 1) << "it is there";
              EXPECT_EQ(ObjectOf<Thing>(c, c.resource(0), kThingType).number, 1);
            }).text(), "");
  EXPECT_EQ(g_things, 1);
  EXPECT_TRUE(resource_.Drop());
  EXPECT_EQ(g_things, 0);
}

TEST_F(Resource, ThatIsNotThereOrOfAnotherTypeIsAFailure) {
  EXPECT_EQ(Run([](const RunContext& c) { (void)ObjectOf<Thing>(c, c.resource(0), kThingType); }).code,
            TENON_NOT_FOUND);
  EXPECT_EQ(Run([](const RunContext& c) { (void)Made(c, 1); }).text(), "");
  EXPECT_EQ(Run([](const RunContext& c) { (void)ObjectOf<int>(c, c.resource(0), kOtherType); }).code,
            TENON_INVALID_ARGUMENT);
}

TEST_F(Resource, WhoseMakerFailsIsNotThere) {
  const auto fails = [](const RunContext& c) {
    (void)ObjectOf<Thing>(c, c.resource(0), kThingType,
                          []() -> std::unique_ptr<Thing> { Fail(TENON_OUT_OF_RANGE, "no such thing"); });
  };
  EXPECT_EQ(Run(fails).text(), "OUT_OF_RANGE: no such thing");
  EXPECT_EQ(Run([](const RunContext& c) { EXPECT_EQ(Made(c, 3).number, 3); }).text(), "");
  Thing* thing = nullptr;
  EXPECT_EQ(Run([&](const RunContext& c) {
              const auto throws = []() -> std::unique_ptr<Thing> { throw std::runtime_error("it is not asked"); };
              EXPECT_EQ(FindOrMake(c, c.resource(0), kThingType, throws, &thing), nullptr);
            }).text(), "");
  EXPECT_EQ(thing->number, 3);
}

}  // namespace
}  // namespace tenon::sdk::resource_test
