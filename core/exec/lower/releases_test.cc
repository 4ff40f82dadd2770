// SPDX-License-Identifier: Apache-2.0
#include "core/exec/lower/releases.h"

#include <gtest/gtest.h>

#include <climits>

namespace tenon::exec::releases_test {
namespace {

using Kind = Operation::Kind;

Operation At(Kind kind, int32_t position) {
  Operation operation;
  operation.kind = kind;
  operation.node = graph::NodeId(position);
  operation.position = position;
  return operation;
}

Slot InBuffer(int32_t last) {
  Slot slot;
  slot.home = Home::kBuffer;
  slot.last = last;
  return slot;
}

// "run 0, release 1, ...": kinds, with the slot of a release.
std::string Text(const std::vector<Operation>& block) {
  std::string text;
  for (const Operation& operation : block)
    text += operation.kind == Kind::kRelease ? StrCat("release ", operation.outputs[0].number(), "; ")
                                             : StrCat("at ", operation.position, "; ");
  return text;
}

TEST(Releases, FollowTheLastReader) {
  ProgramCode code;
  code.slots = {InBuffer(1), InBuffer(0), InBuffer(INT_MAX), InBuffer(1)};
  code.slots.emplace_back();  // in the arena: nothing to release
  code.slots.back().last = 0;
  code.operations = {At(Kind::kDynamic, 0), At(Kind::kDynamic, 1)};
  InsertReleases(&code);
  EXPECT_EQ(Text(code.operations), "at 0; release 1; at 1; release 0; release 3; ");
  EXPECT_EQ(code.operations[1].node, graph::NodeId(0)) << "for errors: of the reader";
}

TEST(Releases, OfWhatALoopReadsFollowTheLoop) {
  ProgramCode code;
  code.slots = {InBuffer(4), InBuffer(2)};
  code.operations = {At(Kind::kLoop, 0)};
  code.operations[0].loop = LoopId(0);
  code.loops.emplace_back();
  code.loops[LoopId(0)].condition_block = {At(Kind::kRun, 1)};
  code.loops[LoopId(0)].body_block = {At(Kind::kRun, 2), At(Kind::kRun, 3)};
  code.loops[LoopId(0)].end = 4;
  InsertReleases(&code);
  EXPECT_EQ(Text(code.operations), "at 0; release 0; ") << "the loop reads it in each turn";
  EXPECT_EQ(Text(code.loops[LoopId(0)].condition_block), "at 1; ");
  EXPECT_EQ(Text(code.loops[LoopId(0)].body_block), "at 2; release 1; at 3; ");
}

TEST(Releases, StandInTheBlockOfTheirReader) {
  ProgramCode code;
  code.slots = {InBuffer(1)};
  code.operations = {At(Kind::kBranch, 0), At(Kind::kRun, 2)};
  code.operations[0].branch = BranchId(0);
  code.branches.push_back({SlotId(0), 1, {At(Kind::kRun, 1)}});
  InsertReleases(&code);
  EXPECT_EQ(Text(code.operations), "at 0; at 2; ");
  EXPECT_EQ(Text(code.branches[0].block), "at 1; release 0; ");
}

}  // namespace
}  // namespace tenon::exec::releases_test
