// SPDX-License-Identifier: Apache-2.0
// The programs of a plan, and the plan that has none.
#include "core/exec/bindings.h"

#include <barrier>
#include <thread>

#include "core/exec/dataflow/dynamic_instance.h"
#include "core/exec/device/step.h"
#include "core/exec/plan/make_plan.h"
#include "core/exec/program/instance.h"
#include "core/graph/graph.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::bindings_test {
namespace {

using graph::Edge;

// A feed of that many numbers, all the same.
class Vector {
 public:
  explicit Vector(int64_t size, float value = 1) : values_(static_cast<size_t>(size), value), dim_(size) {
    view_ = MakeView(TENON_DT_FLOAT, {&dim_, 1, 0}, values_.data(), values_.size() * sizeof(float), nullptr);
  }
  Vector(const Vector&) = delete;
  Vector& operator=(const Vector&) = delete;
  const tenon_tensor_view* const* feeds() const { return &pointer_; }

 private:
  std::vector<float> values_;
  int64_t dim_;
  tenon_tensor_view view_;
  const tenon_tensor_view* pointer_ = &view_;
};

class BindingsTest : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  BindingsTest() {
    fakes::g_prepare_round = [](const tenon_prepare_args&) { return Status::Ok(); };
  }
  void Make(Edge feed, Edge fetch, bool dynamic = false) {
    Plan::Options options;
    options.force_dynamic = dynamic;
    auto plan = MakePlan(graph.Clone(), {feed}, {fetch}, {}, env_, &store_, options);
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    bindings_ = std::make_unique<Bindings>(*plan);
  }
  // The program for a vector of that size.
  std::shared_ptr<BoundProgram> Bound(int64_t size, const std::shared_ptr<BoundProgram>& last = nullptr) {
    const Vector vector(size);
    auto program = bindings_->Bind(vector.feeds(), last);
    EXPECT_TRUE(program.ok()) << program.status().ToString();
    return program.ok() ? *program : nullptr;
  }
  // The fetch's first number after a step with twos, and how many it has.
  std::pair<float, int64_t> Step2(int64_t size) {
    const Vector vector(size, 2);
    Cancellation cancellation;
    Step step;
    step.env = &env_;
    step.cancellation = &cancellation;
    const auto run = bindings_->NewRun();
    const Status status = run->Go(&step, vector.feeds());
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::pair<float, int64_t> out;
    if (status.ok()) out = {*fakes::FloatsOf(&run->fetch(0)), NumElements(run->fetch(0))};
    run->Finish();
    run->ReturnInstances();
    return out;
  }

  const Edge x_ = Feed(TENON_DT_FLOAT, Shape::Unknown(), "x");
  std::unique_ptr<Bindings> bindings_;
};

TEST_F(BindingsTest, MakesOneProgramForEachShapeOnFirstUse) {
  Make(x_, Add("Plus", {x_, x_}));
  EXPECT_NE(bindings_->Explain().find("\"runs\":\"not bound\""), std::string::npos);
  const auto two = Bound(2), three = Bound(3);
  ASSERT_TRUE(two != nullptr && three != nullptr);
  EXPECT_NE(two, three);
  EXPECT_EQ(Bound(2), two);
  EXPECT_EQ(Bound(3, two), three) << "the last one's shapes are others";
  EXPECT_EQ(bindings_->counts().bindings_built, 2u);
  EXPECT_EQ(Step2(3), (std::pair<float, int64_t>(4, 3)));
  EXPECT_EQ(bindings_->counts().bindings_built, 2u);
  EXPECT_NE(bindings_->Explain().find("\"runs\":\"straight\""), std::string::npos);
}

TEST_F(BindingsTest, KeepsTheLastProgramsAndThoseThatSomebodyHas) {
  Make(x_, Add("Plus", {x_, x_}));
  const auto first = Bound(1);
  for (int64_t size = 2; size <= 17; ++size) Bound(size);
  ASSERT_EQ(bindings_->counts().bindings_built, 17u);
  Bound(17);
  EXPECT_EQ(bindings_->counts().bindings_built, 17u) << "one of the last sixteen";
  EXPECT_EQ(Bound(1, first), first) << "it was dropped here, and is whole where it is used";
  EXPECT_EQ(bindings_->counts().bindings_built, 17u);
  EXPECT_NE(Bound(1), first);
  EXPECT_EQ(bindings_->counts().bindings_built, 18u);
}

TEST_F(BindingsTest, KeepsNothingOfABindingThatFailed) {
  Make(x_, Add("Round", {x_}, {}, "round"));
  fakes::g_prepare_round = [](const tenon_prepare_args& args) {
    return NumElements(*args.inputs[0]) == 3 ? OutOfRange("three is too many") : Status::Ok();
  };
  const Vector bad(3);
  for (int again = 0; again < 2; ++again) {
    const Status status = bindings_->Bind(bad.feeds(), nullptr).status();
    EXPECT_EQ(status.code(), Code::kOutOfRange);
    EXPECT_NE(status.message().find("node 'round' (Round)"), std::string::npos) << status.ToString();
  }
  EXPECT_NE(Bound(2), nullptr);
  fakes::g_prepare_round = [](const tenon_prepare_args&) { return Status::Ok(); };
  EXPECT_NE(Bound(3), nullptr) << "what could not be bound may be later";
}

TEST_F(BindingsTest, LetsTheDynamicExecutorRunWhatIsNoProgram) {
  Make(x_, Add("Plus", {x_, x_}), /*dynamic=*/true);
  EXPECT_EQ(Bound(2), nullptr);
  EXPECT_EQ(Step2(2), (std::pair<float, int64_t>(4, 2)));
  EXPECT_EQ(Step2(5), (std::pair<float, int64_t>(4, 5)));
  EXPECT_EQ(bindings_->counts().bindings_built, 0u);
  EXPECT_NE(bindings_->Explain().find("\"runs\":\"dynamic\""), std::string::npos);
}

// Another's making may take long: a step that is cancelled does not wait for it.
TEST_F(BindingsTest, WaitsForAnothersMakingUntilItIsCancelled) {
  std::barrier begun(2), cancelled(2);
  fakes::g_prepare_round = [&](const tenon_prepare_args&) {
    begun.arrive_and_wait();
    cancelled.arrive_and_wait();
    return Status::Ok();
  };
  Make(x_, Add("Round", {x_}));
  std::shared_ptr<BoundProgram> made;
  std::thread maker([&] { made = Bound(2); });
  begun.arrive_and_wait();
  Cancellation cancellation;
  cancellation.Cancel(Status(Code::kDeadlineExceeded, "it took too long"));
  const Vector vector(2);
  EXPECT_EQ(bindings_->Bind(vector.feeds(), nullptr, &cancellation).status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(bindings_->FixedProgram(vector.feeds()), 0u) << "which does not wait";
  cancelled.arrive_and_wait();
  maker.join();
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(Bound(2), made);
}

TEST_F(BindingsTest, GivesThreadsThatBindTheSameShapeOneProgram) {
  Make(x_, Add("Plus", {x_, x_}));
  std::shared_ptr<BoundProgram> found[3];
  std::barrier begin(3);
  std::vector<std::thread> threads;
  for (auto& each : found)
    threads.emplace_back([&] {
      begin.arrive_and_wait();
      each = Bound(4);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(found[0], nullptr);
  for (const auto& each : found) EXPECT_EQ(each, found[0]);
  EXPECT_EQ(bindings_->counts().bindings_built, 1u);
}

}  // namespace
}  // namespace tenon::exec::bindings_test
