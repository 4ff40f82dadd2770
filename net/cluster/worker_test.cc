// SPDX-License-Identifier: Apache-2.0
// What a worker is made of, without masters that call: its sessions, their parts and steps, and what it knows of those
// that run.
#include "net/cluster/worker.h"

#include <gtest/gtest.h>

#include "net/cluster/quick_runs.h"

namespace tenon::cluster::worker_test {
namespace {

tenon_peer* Peer(uintptr_t number) { return reinterpret_cast<tenon_peer*>(number); }
tenon_reply* Call(uintptr_t number) { return reinterpret_cast<tenon_reply*>(number); }

// Sessions with a part 3 each, which exchanges values with the task at "b:2".
struct Sessions {
  SessionTable::Session Make(uint64_t id, const std::string& owner = "", const std::string& secret = "") {
    auto session = std::make_shared<WorkerSession>();
    session->id = id;
    session->owner = owner;
    session->owner_secret = secret;
    auto parts = std::make_shared<SessionParts>(session, &services, &early);
    auto part = std::make_shared<WorkerPart>();
    part->number = 3;
    part->peers["b:2"].set_name("b");
    EXPECT_TRUE(parts->Add(part).ok());
    return parts;
  }
  static DataKey Key(uint64_t step) { return {.session = 7, .step = step, .part = 3, .key = {}}; }

  const StepServices services{.task = "a"};
  EarlySteps early;
  RunningSteps running;
  SessionTable table{"a", 2, &running};
};

TEST(QuickRuns, CountInARowOfOneProgram) {
  QuickRuns runs;
  for (uint32_t i = 0; i < QuickRuns::kEnough; ++i) runs.Took(5, true);
  EXPECT_TRUE(runs.IsQuick(5));
  EXPECT_FALSE(runs.IsQuick(6));
  runs.Took(5, false);
  EXPECT_FALSE(runs.IsQuick(5));
  for (uint32_t i = 0; i < QuickRuns::kEnough; ++i) runs.Took(0, true);
  EXPECT_FALSE(runs.IsQuick(0)) << "of no program is it known";
}

TEST(SessionLosses, AreToldUntilTheyAreKnown) {
  SessionLosses losses;
  losses.Note(Status(Code::kInternal, "one"), 5);
  losses.Note(Status(Code::kInternal, "two"), 0, "b:2");
  PingReply first, second, third;
  losses.Tell(0, &first);
  losses.Tell(1, &second);
  losses.Tell(2, &third);
  EXPECT_EQ(first.losses_size(), 2);
  ASSERT_EQ(second.losses_size(), 1);
  EXPECT_EQ(second.losses(0).text(), "two");
  EXPECT_EQ(third.losses_size(), 0);
  EXPECT_EQ(third.losses_count(), 2u);
}

TEST(SessionParts, AValueMayComeBeforeItsStepAndNotAfterIt) {
  Sessions all;
  const SessionTable::Session session = all.Make(7);
  const auto early = session->Meet(Sessions::Key(1), Peer(1));
  ASSERT_TRUE(early.ok());
  EXPECT_EQ(all.early.Of(Peer(1)), 1u);
  EXPECT_FALSE(session->Running(3, 1).ok()) << "its master has not begun it";
  const auto begun = session->Begin(3, 1);
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(*begun, early->step);
  EXPECT_EQ(all.early.Of(Peer(1)), 0u);
  EXPECT_EQ(session->Begin(3, 1).status().code(), Code::kAlreadyExists);
  EXPECT_FALSE(session->Settle(3, 1, Reply())) << "it runs";
  EXPECT_EQ(session->End(begun->get()).size(), 1u);
  EXPECT_EQ(session->Meet(Sessions::Key(1), Peer(1))->step, nullptr);
  EXPECT_EQ(session->Begin(3, 1).status().code(), Code::kFailedPrecondition);
}

TEST(SessionParts, AStepThatIsSettledNeverBegins) {
  Sessions all;
  const SessionTable::Session session = all.Make(7);
  ASSERT_TRUE(session->Meet(Sessions::Key(1), Peer(1)).ok());
  EXPECT_TRUE(session->Settle(3, 1, Reply()));
  EXPECT_EQ(all.early.Of(Peer(1)), 0u);
  EXPECT_FALSE(session->Begin(3, 1).ok());
}

TEST(SessionParts, APartThatIsDroppedGoesWithItsSteps) {
  Sessions all;
  const SessionTable::Session session = all.Make(7);
  google::protobuf::RepeatedField<uint32_t> numbers;
  numbers.Add(3);
  numbers.Add(4);
  EXPECT_EQ(session->Drop(numbers).size(), 1u);
  EXPECT_EQ(session->Meet(Sessions::Key(1), Peer(1))->step, nullptr);
  EXPECT_EQ(session->Begin(3, 1).status().code(), Code::kNotFound);
}

TEST(SessionParts, NothingBeginsOrIsAddedOnceItIsClosed) {
  Sessions all;
  const SessionTable::Session session = all.Make(7);
  ASSERT_TRUE(session->Meet(Sessions::Key(1), Peer(1)).ok());
  EXPECT_EQ(session->LosePeer("b:2", Status(Code::kUnavailable, "cut"), /*noted=*/true).size(), 1u);
  EXPECT_TRUE(session->LosePeer("c:3", Status(Code::kUnavailable, "cut"), /*noted=*/true).empty());
  EXPECT_EQ(session->Close(Status(Code::kCancelled, "over")).size(), 1u);
  EXPECT_EQ(session->Begin(3, 2).status().message(), "over");
  auto late = std::make_shared<WorkerPart>();
  late->number = 4;
  EXPECT_EQ(session->Add(late).message(), "over");
  session->Clear();
  EXPECT_EQ(all.early.Of(Peer(1)), 0u);
}

TEST(SessionTable, HasAsManyAsItMayAndEndsEachOnce) {
  Sessions all;
  const SessionTable::Session first = all.Make(7, "trainer", "secret");
  EXPECT_TRUE(all.table.Admit(first).ok());
  EXPECT_EQ(all.table.Admit(all.Make(7)).code(), Code::kAlreadyExists);
  EXPECT_TRUE(all.table.Admit(all.Make(8)).ok());
  EXPECT_EQ(all.table.Admit(all.Make(9)).code(), Code::kResourceExhausted);
  EXPECT_EQ(all.table.OwnedBy("trainer", "secret").size(), 1u);
  EXPECT_TRUE(all.table.OwnedBy("trainer", "guessed").empty());
  EXPECT_TRUE(all.table.BeginEnd(first));
  EXPECT_FALSE(all.table.BeginEnd(first));
  EXPECT_EQ(all.table.Busy(), "session 7");
  EXPECT_EQ(all.table.Find(7).status().code(), Code::kAborted);
  all.table.Ended(first);
  EXPECT_TRUE(all.table.AwaitNoneOf("trainer", "secret").ok());
  all.table.Refuse();
  EXPECT_EQ(all.table.Admit(all.Make(9)).message(), "task a is stopping");
}

TEST(RunningSteps, ACancellationIsNotMissedWhileACallComesIn) {
  Sessions all;
  const SessionTable::Session session = all.Make(7);
  const std::shared_ptr<WorkerStep> first = *session->Begin(3, 1), second = *session->Begin(3, 2);
  {
    const RunningSteps::Coming coming(&all.running, Call(1)), other(&all.running, Call(2));
    EXPECT_EQ(all.running.Cancelled(Call(1)), nullptr);
    EXPECT_TRUE(all.running.Add(Call(1), first));
    EXPECT_FALSE(all.running.Add(Call(2), second));
  }
  EXPECT_EQ(all.running.Cancelled(Call(2)), second);
  EXPECT_EQ(all.running.Say(), "step 1 of part 3 of session 7, step 2 of part 3 of session 7");
  EXPECT_EQ(all.running.BusyPeers(UINT64_MAX).count("b:2"), 1u);
  all.running.TakeUp();
  WorkerState state;
  all.running.Count(&state);
  EXPECT_EQ(state.steps_queued, 1u);
  EXPECT_EQ(state.steps_running, 1u);
  all.running.Remove(Call(1));
  all.running.Remove(Call(2));
  EXPECT_EQ(all.running.Say(), "");
  session->End(first.get());
  session->End(second.get());
}

}  // namespace
}  // namespace tenon::cluster::worker_test
