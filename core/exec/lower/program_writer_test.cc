// SPDX-License-Identifier: Apache-2.0
// How long a program's slots are needed, and what makes a graph no straight program.
#include "core/exec/lower/program_writer.h"

#include <gtest/gtest.h>

#include <climits>
#include <optional>

#include "core/exec/lower/straight_line.h"
#include "core/exec/plan/make_plan.h"
#include "core/graph/graph.h"
#include "tests/fakes/tiny_kernels.h"

namespace tenon::exec::program_writer_test {
namespace {

using graph::Edge;

class ProgramWriterTest : public testing::Test, public fakes::GraphMaker, protected fakes::TinyHost {
 protected:
  void Make(std::vector<Edge> feeds, std::vector<Edge> fetches) {
    auto plan = MakePlan(graph.Clone(), std::move(feeds), std::move(fetches), {}, env_, &store_, {});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = *plan;
    facts_ = std::make_unique<Facts>(plan_.get());
    const fakes::Scalars views(std::vector<float>(plan_->feeds().size(), 1));
    ASSERT_TRUE(facts_->Infer(views.pointers(), &code_.feed_shapes).ok());
    ASSERT_TRUE(facts_->FindLoops().ok());
    branches_.emplace(graph::BranchAnalysis::Run(plan_->graph(), plan_->order(), facts_->loops(), is_fed_));
    facts_->FindNeeded(*branches_);
    writer_ = std::make_unique<ProgramWriter>(plan_.get(), facts_.get(), &code_);
  }
  SlotId NewSlot() { return writer_->NewSlot(TENON_DT_FLOAT, Shape(), Home::kArena); }
  void Push() { writer_->Push(&code_.operations, Operation::Kind::kRun, graph::NodeId(0)); }

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Facts> facts_;
  const graph::BranchAnalysis::IsFed is_fed_ = [](Edge) { return false; };
  std::optional<graph::BranchAnalysis> branches_;
  ProgramCode code_;
  std::unique_ptr<ProgramWriter> writer_;
};

TEST_F(ProgramWriterTest, ASlotIsNeededUntilItsLastReader) {
  const Edge x = Feed(TENON_DT_FLOAT);
  Make({x}, {Add("Plus", {x, x})});
  const SlotId slot = NewSlot();
  Push();
  writer_->Use(slot);
  Push();
  EXPECT_EQ(code_.at(slot).first, 0);
  EXPECT_EQ(code_.at(slot).last, 1);
  EXPECT_EQ(code_.operations[1].position, 1);
  writer_->KeepToTheEnd(slot);
  EXPECT_EQ(code_.at(slot).last, INT_MAX);
}

TEST_F(ProgramWriterTest, WhatALoopReadsFromOutsideIsNeededUntilItEnds) {
  const Edge x = Feed(TENON_DT_FLOAT);
  Make({x}, {Add("Plus", {x, x})});
  const SlotId outside = NewSlot();
  const LoopId loop = writer_->NewLoop();
  writer_->OpenLoop(loop);
  const SlotId inside = NewSlot();
  writer_->Use(outside);
  writer_->Use(inside);
  for (int i = 0; i < 5; ++i) Push();
  writer_->CloseLoop(loop, {});
  EXPECT_EQ(code_.at(outside).last, code_.loop(loop).end);
  EXPECT_EQ(code_.at(outside).last, 5);
  EXPECT_EQ(code_.at(inside).last, 0);
  EXPECT_TRUE(writer_->around().empty());
}

TEST_F(ProgramWriterTest, AFeedHasItsSlotAndKeepsIt) {
  const Edge x = Feed(TENON_DT_FLOAT);
  Make({x}, {Add("Plus", {x, x})});
  const auto slot = writer_->SlotOf(plan_->feeds()[0]);
  ASSERT_TRUE(slot.ok()) << slot.status().ToString();
  EXPECT_EQ(code_.at(*slot).home, Home::kFeed);
  writer_->SetSlot(plan_->feeds()[0], NewSlot());
  EXPECT_EQ(*writer_->SlotOf(plan_->feeds()[0]), *slot);
}

TEST_F(ProgramWriterTest, AValueThatIsNotMadeYetHasNoSlot) {
  const Edge x = Feed(TENON_DT_FLOAT);
  Make({x}, {Add("Plus", {x, x})});
  EXPECT_EQ(writer_->SlotOf(plan_->fetches()[0]).status().code(), Code::kInternal);
}

TEST_F(ProgramWriterTest, ASelectMayStandInEitherOfItsSides) {
  const Edge x = Feed(TENON_DT_FLOAT);
  Make({x}, {Add("Plus", {x, x})});
  const SlotId left = NewSlot(), right = NewSlot(), other = NewSlot();
  const SlotId selected = writer_->NewSlot(TENON_DT_FLOAT, Shape(), Home::kSelected);
  code_.at(selected).sides = {left, right};
  EXPECT_TRUE(writer_->MayStandIn(selected, left));
  EXPECT_TRUE(writer_->MayStandIn(selected, right));
  EXPECT_FALSE(writer_->MayStandIn(selected, other));
}

TEST_F(ProgramWriterTest, AGraphOfPlainNodesIsStraight) {
  const Edge x = Feed(TENON_DT_FLOAT);
  Make({x}, {Add("Plus", {x, x})});
  EXPECT_EQ(WhyNotStraight(*plan_, *facts_, *branches_), "");
}

}  // namespace
}  // namespace tenon::exec::program_writer_test
