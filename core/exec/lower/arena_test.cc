// SPDX-License-Identifier: Apache-2.0
// The arena of a program, on code written by hand.
#include "core/exec/lower/arena.h"

#include <gtest/gtest.h>

#include <climits>

#include "core/base/guard.h"
#include "core/exec/device/device.h"
#include "core/exec/device/environment.h"

namespace tenon::exec {
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
  for (SlotId side : {SlotId(0), SlotId(1)}) EXPECT_FALSE(Overlap(code.at(side), code.at(SlotId(3)))) << "slot 3 lives while the select does";
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

}  // namespace
}  // namespace tenon::exec
