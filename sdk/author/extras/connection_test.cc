// SPDX-License-Identifier: Apache-2.0
// The parts of a connection over a pipe that keeps what is written: what each does with the frames that come.
#include "tenon/extras/transport/connection.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tenon/sdk/outcome.h"
#include "tenon/testing/linked.h"

namespace tenon::sdk::connection_test {
namespace {

// Takes every frame at once, or (slow) not before it is closed.
class KeepingPipe : public Pipe {
 public:
  explicit KeepingPipe(std::vector<std::string>* heads, bool slow) : heads_(heads), slow_(slow) {}
  void Start(FrameSink*) override {}
  void Write(std::string_view head, std::span<const tenon_span>, void (*written)(void*, bool),
             void* argument) override {
    heads_->emplace_back(head);
    if (slow_) return waiting_.emplace_back(written, argument), void();
    written(argument, true);
  }
  void Close() override {
    for (const auto& [written, argument] : std::exchange(waiting_, {})) written(argument, false);
  }
  std::string_view name() const override { return "them"; }

 private:
  std::vector<std::string>* const heads_;
  const bool slow_;
  std::vector<std::pair<void (*)(void*, bool), void*>> waiting_;
};

struct Owner : LinkOwner {
  void OnTimer(uint32_t, uint64_t) override {}
  void Finish(bool) override { ++finished; }
  int finished = 0;
};

// A link without a connection, and what happened.
struct Linked : ::testing::Test {
  void Make(bool slow = false) {
    state->max_message_bytes = 100;
    state->events.argument = this;
    link = std::make_unique<PeerLink>(owner.get(), nullptr, state, std::make_unique<KeepingPipe>(&heads, slow));
  }
  void TearDown() override {
    if (link != nullptr) link->pipe().Close();
    state->keeper.Stop();
  }
  void Say(tenon_status* status, std::string_view text = "") {
    const Outcome outcome = status == nullptr ? Outcome() : TakeStatus(status);
    said.push_back(std::to_string(outcome.code) + " " + outcome.message + std::string(text));
  }
  static void Done(void* self, tenon_status* status, tenon_span response) {
    static_cast<Linked*>(self)->Say(status, ToText(response));
  }
  // The head without its kind, as its reader has it.
  static HeadReader Read(const HeadWriter& head) { return HeadReader(head.view().substr(1)); }

  const std::shared_ptr<EndpointState> state = std::make_shared<EndpointState>();
  const std::shared_ptr<Owner> owner = std::make_shared<Owner>();
  std::vector<std::string> heads, said;
  std::unique_ptr<PeerLink> link;
  MessageBuffer received;
};

TEST(ConnectionLoss, HappensOnce) {
  ConnectionLoss loss;
  EXPECT_FALSE(loss.happened());
  EXPECT_TRUE(loss.Note(TENON_INVALID_ARGUMENT, "no head"));
  EXPECT_FALSE(loss.Note(TENON_CANCELLED, "later"));
  EXPECT_EQ(loss.why(), "no head");
  EXPECT_EQ(TakeStatus(loss.Reason()).code, TENON_INVALID_ARGUMENT);
  EXPECT_EQ(TakeStatus(loss.ReasonOfOpen()).code, TENON_UNAVAILABLE) << "it is not the caller's doing";
}

TEST_F(Linked, BreaksOnce) {
  Make();
  link->Break(TENON_UNAVAILABLE, "first");
  EXPECT_EQ(link->BadHead("a frame"), nullptr);
  state->keeper.Stop();  // what was posted has run
  EXPECT_EQ(owner->finished, 1);
  EXPECT_EQ(link->loss().why(), "first");
}

struct OutgoingCallsTest : Linked {
  uint64_t Call(OutgoingCalls* calls) {
    tenon_call_args args = {};
    args.method = ToSpan("method");
    args.done = Done;
    args.argument = this;
    uint64_t id = 0;
    Say(calls->Call(args, &id));
    return id;
  }
};

TEST_F(OutgoingCallsTest, EndOnceByWhatComesFirst) {
  Make();
  OutgoingCalls calls(link.get(), &received);
  const uint64_t answered = Call(&calls), lost = Call(&calls);
  const HeadWriter written = HeadWriter(FrameKind::kReply).Number(answered).Number(TENON_OK).Text({});
  HeadReader reply = Read(written);
  std::memcpy(calls.BeginReply(&reply, 3), "yes", 3);
  calls.EndReply(true);
  calls.GiveUp(answered, Failure(TENON_CANCELLED, "late"));
  EXPECT_EQ(heads.size(), 2u) << "of what has ended nobody is told";
  link->loss().Note(TENON_CANCELLED, "over");
  calls.EndAll();
  EXPECT_EQ(said, (std::vector<std::string>{"0 ", "0 ", "0 yes", "1 over"}));
  EXPECT_EQ(Call(&calls), 0u);
  EXPECT_EQ(said.back(), "1 over") << "nothing begins any more";
  EXPECT_NE(answered, lost);
}

TEST_F(OutgoingCallsTest, AreDoneWhenTheirPiecesAreFree) {
  Make(/*slow=*/true);
  OutgoingCalls calls(link.get(), &received);
  calls.GiveUp(Call(&calls), Failure(TENON_CANCELLED, "the caller cancelled it"));
  EXPECT_EQ(said.size(), 1u);
  link->pipe().Close();
  EXPECT_EQ(said.back(), "1 the caller cancelled it");
}

TEST_F(Linked, CallsThatNobodyTakesAreRefused) {
  Make();
  IncomingCalls calls(link.get());
  const HeadWriter written = HeadWriter(FrameKind::kCall).Number(7).Number(0).Text({}).Number(0);
  HeadReader head = Read(written);
  EXPECT_EQ(calls.Begin(&head, 0), nullptr);
  calls.End(true);
  ASSERT_EQ(heads.size(), 1u);
  HeadReader reply(std::string_view(heads[0]).substr(1));
  EXPECT_EQ(static_cast<FrameKind>(heads[0][0]), FrameKind::kReply);
  EXPECT_EQ(reply.Number(), 7u);
  EXPECT_EQ(reply.Number(), uint64_t{TENON_UNIMPLEMENTED});
}

TEST_F(Linked, ACallIsAnsweredOnceAndThenForgotten) {
  Make();
  static tenon_reply* asked = nullptr;
  state->events.call = [](void*, tenon_peer*, const tenon_incoming*, tenon_reply* reply) { asked = reply; };
  const auto calls = std::make_shared<IncomingCalls>(link.get());
  const HeadWriter call = HeadWriter(FrameKind::kCall).Number(7).Number(0).Text({}).Number(0);
  HeadReader head = Read(call);
  calls->Begin(&head, 0);
  calls->End(true);
  IncomingCalls::Respond(reinterpret_cast<OpenReply*>(asked), nullptr, nullptr, 0, nullptr, nullptr);
  EXPECT_EQ(heads.size(), 1u);
  EXPECT_TRUE(state->WaitIdle(Now()));
}

TEST_F(Linked, DataIsAnsweredByWhoTakesIt) {
  Make();
  static char memory[4];
  state->events.place = [](void*, tenon_peer*, tenon_span key, tenon_span, uint64_t, tenon_bytes* out,
                           void**) -> tenon_status* {
    if (ToText(key) == "no") return Failure(TENON_NOT_FOUND, "no such key");
    *out = {memory, sizeof memory};
    return nullptr;
  };
  state->events.placed = [](void* self, tenon_peer*, void*, tenon_status* status) {
    static_cast<Linked*>(self)->Say(status);
  };
  IncomingData data(link.get());
  const HeadWriter written = HeadWriter(FrameKind::kData).Number(1).Text(ToSpan("yes")).Text({});
  HeadReader taken = Read(written);
  EXPECT_EQ(data.Begin(&taken, 4), memory);
  data.End(true);
  const HeadWriter next = HeadWriter(FrameKind::kData).Number(2).Text(ToSpan("no")).Text({});
  HeadReader refused = Read(next);
  EXPECT_EQ(data.Begin(&refused, 4), nullptr);
  data.End(true);
  EXPECT_EQ(said, std::vector<std::string>{"0 "});
  EXPECT_EQ(heads.size(), 2u);
}

TEST_F(Linked, AStreamEndsOnceBothSidesHaveClosed) {
  Make();
  OpenStreams streams(link.get(), &received);
  tenon_stream_events events = {};
  events.message = [](void* self, tenon_span message) { static_cast<Linked*>(self)->Say(nullptr, ToText(message)); };
  events.end = [](void* self, tenon_status* status) { static_cast<Linked*>(self)->Say(status, "end"); };
  events.argument = this;
  StreamSide* stream = nullptr;
  ASSERT_EQ(streams.Open(ToSpan("method"), nullptr, 0, 0, events, &stream), nullptr);
  ASSERT_EQ(OpenStreams::Write(stream, ToSpan("out")), nullptr);
  const HeadWriter written = HeadWriter(FrameKind::kMessage).Number(1).Number(0);
  HeadReader message = Read(written);
  std::memcpy(streams.BeginMessage(&message, 2), "in", 2);
  streams.EndMessage(true);
  const HeadWriter next = HeadWriter(FrameKind::kClose).Number(1).Number(0).Number(TENON_OK).Text({});
  HeadReader close = Read(next);
  EXPECT_EQ(streams.BeginClose(&close), nullptr);
  EXPECT_FALSE(state->WaitIdle(Now()));
  OpenStreams::Close(stream, nullptr);
  EXPECT_TRUE(state->WaitIdle(Now()));
  EXPECT_EQ(said, (std::vector<std::string>{"0 in", "0 end"}));
}

}  // namespace
}  // namespace tenon::sdk::connection_test
