// SPDX-License-Identifier: Apache-2.0
// Which operation waits for which, on code written by hand: two queues of one driver, one of another, and the host.
// Covers A13, R4.
#include "core/exec/lower/synchronizer.h"

#include <gtest/gtest.h>

#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/graph/graph.h"

#include "tests/fakes/tiny_ops.h"

namespace tenon::exec::synchronizer_test {
namespace {

using Kind = Operation::Kind;

class SynchronizerTest : public testing::Test, public fakes::GraphMaker {
 protected:
  SynchronizerTest() {
    first_.driver = &drivers_[0];
    second_.driver = &drivers_[1];
    env_.devices.resize(3);
    env_.devices[1].device = &first_;
    env_.devices[2].device = &second_;
    env_.queues = {{nullptr, 1}, {nullptr, 1}, {nullptr, 2}};
  }

  // A value of 64 bytes at its own place in the memory, or at `offset`.
  SlotId Value(int32_t memory, int64_t offset = -1) {
    Slot slot;
    slot.bytes = 64;
    slot.memory = memory;
    slot.offset = offset >= 0 ? static_cast<uint64_t>(offset) : 64 * code_.slots.size();
    return code_.slots.push_back(slot);
  }
  Operation Work(int32_t queue, std::vector<SlotId> inputs, std::vector<SlotId> outputs, graph::NodeId node = {}) {
    Operation operation;
    operation.kind = queue < 0 ? Kind::kRun : Kind::kQueued;
    operation.node = node ? node : Add("Draw", {}, {}, StrCat("n", graph.size())).node;
    operation.position = next_++;
    operation.queue = QueueId(queue);
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(outputs);
    return operation;
  }
  // "q0 tells 0; q1 after 0; host waits 0; host; "
  std::string Text(const std::vector<Operation>& block) const {
    std::string text;
    for (const Operation& operation : block) {
      text += operation.kind == Kind::kWait ? "host waits"
              : !operation.queue            ? "host"
                                            : StrCat("q", operation.queue.number());
      if (operation.kind != Kind::kWait && !operation.waits.empty()) text += " after";
      for (PointId wait : operation.waits) text += StrCat(" ", wait.number());
      if (operation.signal) text += StrCat(" tells ", operation.signal.number());
      text += "; ";
    }
    return text;
  }
  std::string Synchronized() {
    Synchronizer(env_, graph, [](graph::Edge) { return false; }, &code_).Run();
    return Text(code_.operations);
  }

  tenon_device_driver drivers_[2] = {};
  Device first_, second_;
  Environment env_;
  ProgramCode code_;
  int32_t next_ = 0;
};

TEST_F(SynchronizerTest, OneQueueNeedsNoWaits) {
  const SlotId a = Value(1), b = Value(1);
  code_.operations = {Work(0, {}, {a}), Work(0, {a}, {b})};
  EXPECT_EQ(Synchronized(), "q0; q0; ");
  EXPECT_EQ(code_.point_count, 0);
  EXPECT_EQ(code_.queues, std::vector<QueueId>{QueueId(0)});
}

TEST_F(SynchronizerTest, AReaderOnAnotherQueueWaitsForTheWriterOnce) {
  const SlotId a = Value(1), b = Value(1), c = Value(1);
  code_.operations = {Work(0, {}, {a}), Work(1, {a}, {b}), Work(1, {a, b}, {c})};
  EXPECT_EQ(Synchronized(), "q0 tells 0; q1 after 0; q1; ");
  EXPECT_EQ(code_.queues, (std::vector<QueueId>{QueueId(0), QueueId(1)}));
}

TEST_F(SynchronizerTest, AWriterWaitsForThoseWhoReadTheMemoryBefore) {
  const SlotId a = Value(1), b = Value(1), reused = Value(1, 32);  // half of a's memory
  code_.operations = {Work(0, {}, {a}), Work(1, {a}, {b}), Work(0, {}, {reused})};
  EXPECT_EQ(Synchronized(), "q0 tells 0; q1 after 0 tells 1; q0 after 1; ");
}

TEST_F(SynchronizerTest, TheHostWaitsWhereItReadsWhatAQueueWrites) {
  const SlotId a = Value(0);
  Operation copy = Work(0, {}, {a});
  copy.kind = Kind::kTransfer;
  code_.operations = {copy, Work(-1, {a}, {}), Work(-1, {a}, {})};
  EXPECT_EQ(Synchronized(), "q0 tells 0; host waits 0; host; host; ");
}

TEST_F(SynchronizerTest, TheHostWaitsForOneDriverOnBehalfOfAnother) {
  const SlotId a = Value(0), b = Value(2);
  Operation out = Work(0, {}, {a}), in = Work(2, {a}, {b});
  out.kind = in.kind = Kind::kTransfer;
  code_.operations = {out, in};
  EXPECT_EQ(Synchronized(), "q0 tells 0; host waits 0; q2; ");
}

TEST_F(SynchronizerTest, ControlEdgesCount) {
  const SlotId a = Value(1), b = Value(1);
  code_.operations = {Work(0, {}, {a})};
  const graph::NodeId after = Add("Draw", {}, {}, "after").node;
  graph.mutable_node(after).controls = {code_.operations[0].node};
  code_.operations.push_back(Work(1, {}, {b}, after));
  EXPECT_EQ(Synchronized(), "q0 tells 0; q1 after 0; ");
}

TEST_F(SynchronizerTest, ATurnWaitsForTheTurnBefore) {
  const SlotId go = Value(0), a = Value(1), b = Value(1);
  Operation loop = Work(-1, {}, {});
  loop.kind = Kind::kLoop;
  loop.loop = LoopId(0);
  code_.loops.emplace_back();
  code_.loops[LoopId(0)].condition = go;
  code_.loops[LoopId(0)].body_block = {Work(0, {}, {a}), Work(1, {a}, {b})};
  code_.operations = {loop};
  EXPECT_EQ(Synchronized(), "host; ");
  EXPECT_EQ(Text(code_.loops[LoopId(0)].body_block), "q0 after 1 tells 0; q1 after 0 tells 1; ")
      << "the next turn writes what this one reads";
}

TEST_F(SynchronizerTest, WhatABranchMayNotHaveDoneIsWaitedForAsWell) {
  const SlotId yes = Value(0), a = Value(1), c = Value(1);
  Operation branch = Work(-1, {yes}, {});
  branch.kind = Kind::kBranch;
  branch.branch = BranchId(0);
  code_.operations = {Work(0, {}, {a}), branch};
  code_.branches.push_back({yes, 1, {Work(0, {}, {a})}});
  code_.operations.push_back(Work(1, {a}, {c}));
  EXPECT_EQ(Synchronized(), "q0 tells 0; host; q1 after 0 1; ");
  EXPECT_EQ(Text(code_.branches[0].block), "q0 tells 1; ");
}

}  // namespace
}  // namespace tenon::exec::synchronizer_test
