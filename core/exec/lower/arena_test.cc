// SPDX-License-Identifier: Apache-2.0
// The arena of a program, on code written by hand.
#include "core/exec/lower/arena.h"

#include <gtest/gtest.h>

#include <climits>

#include "core/base/guard.h"
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"
#include "core/exec/plan/compiled_region.h"

namespace tenon::exec::arena_test {
namespace {

Slot InArena(uint64_t bytes, int32_t first, int32_t last) {
  Slot slot;
  slot.dtype = TENON_DT_FLOAT;
  slot.bytes = bytes;
  slot.first = first;
  slot.last = last;
  return slot;
}

bool Overlap(const Slot& a, const Slot& b) { return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes; }

Environment OneHost() {
  Environment env;
  env.devices.resize(1);
  return env;
}

TEST(Arena, ValuesThatLiveTogetherShareNoMemoryAndOthersDo) {
  if (kGuards) GTEST_SKIP() << "each value has a place of its own, and a guard";
  ProgramCode code;
  code.workspace_offset = {0};
  code.slots = {InArena(256, 0, 2), InArena(256, 1, 3), InArena(256, 4, 5)};
  ShareMemory(OneHost(), &code);
  EXPECT_FALSE(Overlap(code.at(SlotId(0)), code.at(SlotId(1))));
  EXPECT_TRUE(Overlap(code.at(SlotId(2)), code.at(SlotId(0))) || Overlap(code.at(SlotId(2)), code.at(SlotId(1))));
  EXPECT_EQ(code.arena_bytes, (std::vector<uint64_t>{512}));
}

TEST(Arena, TheWorkspaceOfTheHostComesBehindTheValues) {
  if (kGuards) GTEST_SKIP() << "each value has a place of its own, and a guard";
  ProgramCode code;
  code.workspace_offset = {100};  // its size, before
  code.slots = {InArena(64, 0, 1)};
  ShareMemory(OneHost(), &code);
  EXPECT_EQ(code.workspace_offset[0], 64u);
  EXPECT_EQ(code.arena_bytes[0], 64u + 128u);
}

TEST(Arena, WhatASelectMayShowLivesAsLongAsTheSelect) {
  ProgramCode code;
  code.workspace_offset = {0};
  code.slots = {InArena(64, 0, 1), InArena(64, 0, 1), InArena(64, 2, 9), InArena(64, 3, 8)};
  Slot& select = code.at(SlotId(2));
  select.home = Home::kSelected;
  select.sides = {SlotId(0), SlotId(1)};
  Slot outer = select;  // a select of a select
  outer.first = 3;
  outer.last = INT_MAX;
  outer.sides = {SlotId(2), SlotId(1)};
  code.slots.push_back(outer);
  ShareMemory(OneHost(), &code);
  EXPECT_EQ(code.at(SlotId(0)).last, INT_MAX) << "by way of the inner select";
  EXPECT_EQ(code.at(SlotId(1)).last, INT_MAX);
  for (SlotId side : {SlotId(0), SlotId(1)})
    EXPECT_FALSE(Overlap(code.at(side), code.at(SlotId(3)))) << "slot 3 lives while the select does";
}

TEST(Arena, WhatDifferentQueuesWriteIsApart) {
  Environment env;
  env.devices.resize(2);
  Device card;
  env.devices[1].device = &card;
  env.queues = {{nullptr, 1}, {nullptr, 1}};
  ProgramCode code;
  code.workspace_offset = {0, 0, 0};
  code.slots = {InArena(64, 0, 1), InArena(64, 2, 3)};
  for (Slot& slot : code.slots) slot.memory = 1;
  for (int32_t i = 0; i < 2; ++i) {
    Operation operation;
    operation.kind = Operation::Kind::kTransfer;
    operation.position = i * 2;
    operation.outputs = {SlotId(i)};
    operation.queue = QueueId(i);
    code.operations.push_back(operation);
  }
  ShareMemory(env, &code);
  EXPECT_FALSE(Overlap(code.at(SlotId(0)), code.at(SlotId(1)))) << "one would wait for the other";
  card.memory_bytes = 128;  // half of it is too little for that
  ProgramCode again = code;
  again.workspace_offset = {0, 0, 0};
  ShareMemory(env, &again);
  EXPECT_TRUE(Overlap(again.at(SlotId(0)), again.at(SlotId(1))));
}

// Two values that queue 0 brings and queue 1 reads, the second after the first is read.
TEST(Arena, WhatGoesFromQueueToQueueIsApartWhereThatIsLittle) {
  Environment env;
  env.devices.resize(2);
  Device card;
  card.memory_bytes = 1 << 20;
  env.devices[1].device = &card;
  env.queues = {{nullptr, 1}, {nullptr, 1}};
  ProgramCode code;
  code.workspace_offset = {0, 0, 0};
  for (int32_t i = 0; i < 4; ++i) {
    code.slots.push_back(InArena(64, 2 * i, 2 * i + 1));
    code.slots.back().memory = 1;
    Operation bring, read;
    bring.kind = Operation::Kind::kTransfer;
    bring.position = 2 * i;
    bring.outputs = {SlotId(i)};
    bring.queue = QueueId(0);
    read.kind = Operation::Kind::kTransfer;
    read.position = 2 * i + 1;
    read.inputs = {SlotId(i)};
    read.queue = QueueId(1);
    code.operations.push_back(bring);
    code.operations.push_back(read);
  }
  const auto bytes = [&env](ProgramCode copy) {
    ShareMemory(env, &copy);
    return copy.arena_bytes[1];
  };
  EXPECT_EQ(bytes(code), 4 * 64u) << "the third would wait until the first is read";
  card.memory_bytes = 4 * 64 * 16 - 1;
  EXPECT_EQ(bytes(code), 2 * 64u) << "by turns";
  card.memory_bytes = 2 * 64 * 2 - 1;
  EXPECT_EQ(bytes(code), 64u);
}

// What may write over its input.
class InPlaceRegion : public CompiledRegion {
 public:
  InPlaceRegion() : CompiledRegion({}, "test", "test") { in_place_ = kPairs; }
  tenon_status* Run(tenon_frame*) const override { return nullptr; }
  const char* how() const override { return "not at all"; }

 private:
  static constexpr tenon_in_place kPairs[] = {{0, 0}};
};

TEST(Arena, WhatAnotherQueueReadsIsNotTakenOver) {
  Environment env;
  env.devices.resize(2);
  Device card;
  env.devices[1].device = &card;
  env.queues = {{nullptr, 1}, {nullptr, 1}};
  for (const bool other : {false, true}) {
    ProgramCode code;
    code.workspace_offset = {0, 0, 0};
    code.slots = {InArena(64, 0, 2), InArena(64, 2, 3)};
    for (Slot& slot : code.slots) slot.memory = 1;
    Operation make, read, take;
    make.kind = read.kind = Operation::Kind::kTransfer;
    make.outputs = {SlotId(0)};
    make.queue = QueueId(0);
    read.position = 1;
    read.inputs = {SlotId(0)};
    read.queue = QueueId(other ? 1 : 0);
    take.kind = Operation::Kind::kQueued;
    take.position = 2;
    take.inputs = {SlotId(0)};
    take.outputs = {SlotId(1)};
    take.queue = QueueId(0);
    take.region = std::make_shared<InPlaceRegion>();
    code.operations.push_back(make);
    code.operations.push_back(read);
    code.operations.push_back(take);
    ShareMemory(env, &code);
    EXPECT_EQ(code.at(SlotId(1)).home, other ? Home::kArena : Home::kAlias) << "it would wait for the other queue";
  }
}

}  // namespace
}  // namespace tenon::exec::arena_test
