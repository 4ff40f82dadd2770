// SPDX-License-Identifier: Apache-2.0
#include "core/exec/dataflow/ready_nodes.h"

#include <gtest/gtest.h>

#include <set>

namespace tenon::exec::dataflow::ready_nodes_test {
namespace {

// A frame of some nodes; node i has the rank that is given for it.
struct Turn {
  Turn(std::vector<int32_t> ranks, uint64_t turn) {
    info.nodes.resize(ranks.size());
    for (size_t i = 0; i < ranks.size(); ++i) info.nodes[LocalId(static_cast<int32_t>(i))].rank = ranks[i];
    iteration.info = &info;
    iteration.turn = turn;
    iteration.ready.resize(ranks.size() / 64 + 1);
    iteration.ready_dead.resize(iteration.ready.size());
  }
  FrameInfo info;
  Iteration iteration;
};

std::vector<int32_t> TakeAll(ReadyNodes* nodes) {
  std::vector<int32_t> taken;
  for (Ready ready = nodes->Take(); ready.iteration != nullptr; ready = nodes->Take())
    taken.push_back(ready.node.number());
  return taken;
}

TEST(ReadyNodes, OfOneIterationTheFirstComesFirst) {
  Turn step(std::vector<int32_t>(200, 0), 0);
  ReadyNodes nodes(0);
  for (int32_t node : {130, 2, 64, 199, 63}) nodes.Push(LocalId(node), &step.iteration, false);
  EXPECT_EQ(step.iteration.running, 5);
  EXPECT_EQ(TakeAll(&nodes), (std::vector<int32_t>{2, 63, 64, 130, 199}));
  EXPECT_TRUE(nodes.empty());
}

TEST(ReadyNodes, ADeadNodeIsTakenAsDead) {
  Turn step({0, 1, 2}, 0);
  ReadyNodes nodes(0);
  nodes.Push(LocalId(1), &step.iteration, true);
  nodes.Push(LocalId(2), &step.iteration, false);
  EXPECT_TRUE(nodes.Take().dead);
  EXPECT_FALSE(nodes.Take().dead);
}

TEST(ReadyNodes, ALoopStandsWhereItsFirstNodeDoes) {
  Turn step({3, 40}, 0), early({0}, uint64_t{10} << 32 | 1), late({0}, uint64_t{10} << 32 | 2);
  ReadyNodes nodes(0);
  nodes.Push(LocalId(0), &late.iteration, false);
  nodes.Push(LocalId(1), &step.iteration, false);
  nodes.Push(LocalId(0), &early.iteration, false);
  nodes.Push(LocalId(0), &step.iteration, false);
  std::vector<const Iteration*> order;
  for (Ready ready = nodes.Take(); ready.iteration != nullptr; ready = nodes.Take()) order.push_back(ready.iteration);
  EXPECT_EQ(order,
            (std::vector<const Iteration*>{&step.iteration, &early.iteration, &late.iteration, &step.iteration}));
}

TEST(ReadyNodes, WhatIsPutOffComesWhenNothingElseIsReady) {
  Turn step({0, 1, 2}, 0);
  ReadyNodes nodes(0);
  for (int32_t node : {0, 1, 2}) nodes.Push(LocalId(node), &step.iteration, false);
  nodes.PutOff(nodes.Take());
  EXPECT_EQ(nodes.Take().node.number(), 1);
  EXPECT_EQ(nodes.Take().node.number(), 2);
  EXPECT_FALSE(nodes.empty());
  const Ready last = nodes.Take();
  EXPECT_EQ(last.node.number(), 0);
  EXPECT_TRUE(last.now);
}

TEST(ReadyNodes, WhatIsForgottenIsReadyNoMore) {
  Turn step({0, 1}, 0);
  ReadyNodes nodes(0);
  nodes.Push(LocalId(0), &step.iteration, true);
  nodes.Push(LocalId(1), &step.iteration, false);
  nodes.PutOff(nodes.Take());
  nodes.Forget();
  EXPECT_TRUE(nodes.empty());
  EXPECT_EQ(nodes.Take().iteration, nullptr);
  nodes.Push(LocalId(1), &step.iteration, false);
  EXPECT_EQ(TakeAll(&nodes), std::vector<int32_t>{1});
}

TEST(ReadyNodes, ASeedDrawsOrdersAndLosesNothing) {
  Turn step(std::vector<int32_t>(100, 0), 0);
  ReadyNodes nodes(7);
  std::set<std::vector<int32_t>> orders;
  for (int round = 0; round < 5; ++round) {
    for (int32_t node = 0; node < 100; node += 3) nodes.Push(LocalId(node), &step.iteration, false);
    std::vector<int32_t> order = TakeAll(&nodes);
    EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 34u);
    orders.insert(std::move(order));
  }
  EXPECT_EQ(orders.size(), 5u);
}

}  // namespace
}  // namespace tenon::exec::dataflow::ready_nodes_test
