// SPDX-License-Identifier: Apache-2.0
// What every transport must do, through its table.
#include "tests/transport/suite.h"

namespace tenon::transport_testing {
namespace {

class Transports : public Suite {};
TENON_TRANSPORT_SUITE(Transports);

TEST_P(Transports, EchoACall) {
  const Outcome outcome = peer().Call("echo", "hello");
  EXPECT_EQ(outcome.status, "");
  EXPECT_EQ(outcome.response, "hello");
}

TEST_P(Transports, CallTheSideThatConnectedToo) {
  tenon_peer* back = server().connected.Take();
  Mailbox<Outcome> done;
  const std::vector<tenon_span> pieces = {Span("from "), Span("the server")};
  EXPECT_EQ(Peer::StartOn(server(), back, "echo", pieces, &done, nullptr, {}), "");
  EXPECT_EQ(done.Take().response, "from the server");
}

TEST_P(Transports, CarryEverySize) {
  const uint64_t most = LargestMessage();
  for (uint64_t size : {0ull, 1ull, 63ull, 64ull, 4095ull, 4096ull, 4097ull, 65536ull, 100'000ull, 1ull << 20, (1ull << 24) + 1, 1ull << 26,
                        1ull << 30}) {
    if (size > most) continue;
    const std::string text = Pattern(size);
    const Outcome outcome = peer().Call("echo", text);
    EXPECT_EQ(outcome.status, "") << size;
    EXPECT_TRUE(outcome.response == text) << size;
    EXPECT_EQ(peer().Send("key", "header", {Span(text)}), "") << size;
    const Placed placed = server().placed.Take();
    EXPECT_EQ(placed.status, "");
    EXPECT_TRUE(placed.data == text) << size;
  }
}

TEST_P(Transports, GatherPieces) {
  const std::string large = Pattern(300'000);
  const Outcome outcome = peer().Call("echo", "");
  EXPECT_EQ(outcome.response, "");
  Mailbox<Outcome> done;
  const std::vector<tenon_span> pieces = {Span("a"), {}, Span(large), Span("z")};
  EXPECT_EQ(peer().Start("echo", pieces, &done), "");
  EXPECT_TRUE(done.Take().response == "a" + large + "z");
}

TEST_P(Transports, CarryMetadataAndWhatIsLeftOfTheDeadline) {
  Mailbox<Incoming> seen;
  Endpoint::Options options;
  Endpoint* answering = nullptr;
  options.on_call = [&](tenon_peer*, const Incoming& call, tenon_reply* reply) {
    seen.Put(call);
    answering->Respond(reply, "");
  };
  Endpoint other(transport(), transport().Address(), options);
  answering = &other;
  Peer to(client(), other.address());
  CallOptions given;
  given.metadata = {{Span("step"), Span("7")}, {Span("empty"), Span("")}, {Span("binary"), {"\0\xff", 2}}};
  given.time = std::chrono::hours(1);
  EXPECT_EQ(to.Call("a method", "", given).status, "");
  const Incoming call = seen.Take();
  EXPECT_EQ(call.method, "a method");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"step", "7"}, {"empty", ""}, {"binary", std::string("\0\xff", 2)}};
  EXPECT_EQ(call.metadata, expected);
  EXPECT_GT(call.deadline_ns, After(std::chrono::minutes(30)));
  EXPECT_LT(call.deadline_ns, After(std::chrono::minutes(61)));
}

TEST_P(Transports, BringTheStatusOfACallThatFails) {
  EXPECT_EQ(peer().Call("fail", "no table 'x'").status, "NOT_FOUND: no table 'x'");
}

TEST_P(Transports, EndACallAtItsDeadlineAndTellTheOtherSide) {
  CallOptions brief;
  brief.time = milliseconds(50);
  EXPECT_EQ(CodeOf(peer().Call("hold", "", brief).status), "DEADLINE_EXCEEDED");
  tenon_reply* reply = server().held.Take();
  EXPECT_EQ(server().cancelled.Take(), reply);
  server().Respond(reply, "too late");
  EXPECT_EQ(peer().Call("echo", "next").response, "next");
}

TEST_P(Transports, RefuseACallWhoseDeadlineHasPassed) {
  CallOptions past;
  past.time = -std::chrono::seconds(1);
  EXPECT_EQ(CodeOf(peer().Call("echo", "", past).status), "DEADLINE_EXCEEDED");
}

TEST_P(Transports, CancelACallOnBothSides) {
  Mailbox<Outcome> done;
  uint64_t call = 0;
  EXPECT_EQ(peer().Start("hold", {}, &done, &call), "");
  tenon_reply* reply = server().held.Take();
  client().table().cancel(peer().peer, call);
  EXPECT_EQ(CodeOf(done.Take().status), "CANCELLED");
  EXPECT_EQ(server().cancelled.Take(), reply);
  server().Respond(reply, "nobody hears this");
  client().table().cancel(peer().peer, call);  // of one that is gone: nothing
  EXPECT_EQ(peer().Call("echo", "next").response, "next");
}

TEST_P(Transports, KeepTheOrderOfData) {
  for (int i = 0; i < 1000; ++i) {
    Mailbox<std::string> done;
    const std::string text = Pattern(i % 7 == 0 ? 20'000 : 8, static_cast<uint32_t>(i));
    EXPECT_EQ(peer().StartSend(std::to_string(i), "", {Span(text)}, &done), "");
    EXPECT_EQ(done.Take(), "");
    EXPECT_EQ(server().placed.Take().key, std::to_string(i));
  }
}

TEST_P(Transports, KeepTheOrderOfDataThatIsUnderWayTogether) {
  constexpr int kSends = 500;
  std::vector<std::string> texts;
  std::vector<Mailbox<std::string>> done(kSends);
  for (int i = 0; i < kSends; ++i) texts.push_back(Pattern(i % 5 == 0 ? 50'000 : 16, static_cast<uint32_t>(i)));
  for (int i = 0; i < kSends; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_EQ(peer().StartSend(key, "header of " + key, {Span(texts[i])}, &done[i]), "");
  }
  for (int i = 0; i < kSends; ++i) {
    EXPECT_EQ(done[i].Take(), "");
    const Placed placed = server().placed.Take();
    EXPECT_EQ(placed.key, std::to_string(i));
    EXPECT_EQ(placed.header, "header of " + placed.key);
    EXPECT_TRUE(placed.data == texts[i]);
  }
}

TEST_P(Transports, TellTheSenderOfDataThatIsRefused) {
  EXPECT_EQ(peer().Send("refuse", "", {Span("data")}), "FAILED_PRECONDITION: no such key");
  const std::string large = Pattern(1 << 20);
  EXPECT_EQ(peer().Send("refuse", "", {Span(large)}), "FAILED_PRECONDITION: no such key");
  EXPECT_EQ(peer().Send("fine", "", {Span("data")}), "");
  EXPECT_EQ(server().placed.Take().key, "fine");
}

TEST_P(Transports, RefuseAKeyThatIsTooLong) {
  EXPECT_EQ(peer().Send(std::string(TENON_TRANSPORT_MAX_KEY, 'k'), "", {}), "");
  EXPECT_EQ(CodeOf(peer().Send(std::string(TENON_TRANSPORT_MAX_KEY + 1, 'k'), "", {})), "INVALID_ARGUMENT");
}

TEST_P(Transports, RefuseMessagesThatAreTooLarge) {
  Endpoint::Options options;
  options.max_message_bytes = 10'000;
  Endpoint small(transport(), transport().Address(), options);
  Endpoint limited(transport(), "", options);
  const std::string large = Pattern(10'001);
  {
    Peer to(limited, server().address());
    EXPECT_EQ(CodeOf(to.Call("echo", large).status), "RESOURCE_EXHAUSTED");
    EXPECT_EQ(CodeOf(to.Send("key", "", {Span(large)})), "RESOURCE_EXHAUSTED");
  }
  Peer to(client(), small.address());  // its receiver's limit is what counts here
  EXPECT_EQ(CodeOf(to.Call("echo", large).status), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(CodeOf(to.Send("key", "", {Span(large)})), "RESOURCE_EXHAUSTED");
  EXPECT_EQ(to.Call("echo", "small").response, "small");
}

TEST_P(Transports, RefuseWhatTheOtherSideHasNoFunctionFor) {
  Endpoint::Options options;
  options.refuse_all = true;
  Endpoint mute(transport(), transport().Address(), options);
  Peer to(client(), mute.address());
  EXPECT_EQ(CodeOf(to.Call("echo", "").status), "UNIMPLEMENTED");
  EXPECT_EQ(CodeOf(to.Send("key", "", {Span("data")})), "UNIMPLEMENTED");
  Stream stream;
  EXPECT_EQ(to.Open("echo", &stream), "");
  EXPECT_EQ(CodeOf(stream.ended.Take()), "UNIMPLEMENTED");
  stream.Close();
}

TEST_P(Transports, DoManyCallsAtOnce) {
  constexpr int kCalls = 10'000;
  std::vector<Mailbox<Outcome>> done(kCalls);
  std::vector<std::string> texts;
  for (int i = 0; i < kCalls; ++i) texts.push_back(std::to_string(i));
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(peer().Start("hold", {Span(texts[i])}, &done[i]), "");
  for (int i = 0; i < kCalls; ++i) server().Respond(server().held.Take(), "answer");
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(done[i].Take().response, "answer");
}

TEST_P(Transports, DoCallsOfManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string text = Pattern(static_cast<uint64_t>(i * 37 % 9000), static_cast<uint32_t>(t));
        EXPECT_TRUE(peer().Call("echo", text).response == text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Streams ----

TEST_P(Transports, EchoAStream) {
  Stream stream;
  EXPECT_EQ(peer().Open("echo", &stream), "");
  const std::shared_ptr<Stream> there = server().streams.Take();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.Write("message " + std::to_string(i)), "");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(stream.messages.Take(), "message " + std::to_string(i));
  stream.Close();
  EXPECT_EQ(there->ended.Take(), "");
  there->Close();
  EXPECT_EQ(stream.ended.Take(), "");
}

TEST_P(Transports, EndAStreamWithTheStatusOfItsOtherSide) {
  Stream stream;
  EXPECT_EQ(peer().Open("hold", &stream), "");
  const std::shared_ptr<Stream> there = server().streams.Take();
  there->Close(Status(TENON_ABORTED, "enough"));
  EXPECT_EQ(stream.ended.Take(), "ABORTED: enough");
  EXPECT_EQ(CodeOf(stream.Write("more")), "ABORTED");
  stream.Close();
  EXPECT_EQ(CodeOf(there->ended.Take()), "ABORTED");
}

TEST_P(Transports, RefuseAStream) {
  Stream stream;
  EXPECT_EQ(peer().Open("refuse", &stream), "");
  EXPECT_EQ(stream.ended.Take(), "PERMISSION_DENIED: not here");
  stream.Close();
}

TEST_P(Transports, LetAStreamsWriterWaitForItsReader) {
  Stream stream;
  EXPECT_EQ(peer().Open("slow", &stream, std::chrono::seconds(2)), "");
  const std::shared_ptr<Stream> there = server().streams.Take();
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  there->on_message = [gone](Stream&, tenon_span) { gone.wait_for(kPatience); };
  const std::string text = Pattern(100'000);
  std::string status;
  int written = 0;
  for (; status.empty() && written < 10'000; ++written) status = stream.Write(text);
  EXPECT_EQ(CodeOf(status), "DEADLINE_EXCEEDED");
  EXPECT_LT(written, 1000);  // far less than what would be in memory without a window
  go.set_value();
  EXPECT_EQ(CodeOf(stream.ended.Take()), "DEADLINE_EXCEEDED");
  stream.Close();
  EXPECT_EQ(CodeOf(there->ended.Take()), "DEADLINE_EXCEEDED");
  there->Close();
}

TEST_P(Transports, CarryMoreOverAStreamThanItsWindow) {
  Stream stream;
  EXPECT_EQ(peer().Open("hold", &stream), "");
  const std::shared_ptr<Stream> there = server().streams.Take();
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(stream.Write(Pattern(100'000, i)), "");
  for (uint32_t i = 0; i < 200; ++i) EXPECT_TRUE(there->messages.Take() == Pattern(100'000, i));
  stream.Close();
  there->Close();
  EXPECT_EQ(there->ended.Take(), "");
  EXPECT_EQ(stream.ended.Take(), "");
}

// ---- The end of connections ----

TEST_P(Transports, EndWhatIsOpenWhenThisSideDisconnects) {
  Mailbox<Outcome> done;
  EXPECT_EQ(peer().Start("hold", {}, &done), "");
  tenon_reply* reply = server().held.Take();
  Stream stream;
  EXPECT_EQ(peer().Open("hold", &stream), "");
  const std::shared_ptr<Stream> there = server().streams.Take();
  peer().Disconnect();
  EXPECT_FALSE(done.Empty());
  EXPECT_EQ(CodeOf(done.Take().status), "CANCELLED");
  EXPECT_EQ(CodeOf(stream.ended.Take()), "CANCELLED");
  stream.Close();
  EXPECT_EQ(CodeOf(there->ended.Take()), "UNAVAILABLE");
  there->Close();
  EXPECT_EQ(server().cancelled.Take(), reply);
  EXPECT_EQ(CodeOf(server().lost.Take()), "UNAVAILABLE");
  server().Respond(reply, "nobody");
  EXPECT_TRUE(client().lost.Empty());
}

TEST_P(Transports, EndWhatIsOpenWhenTheOtherSideStops) {
  auto other = std::make_unique<Endpoint>(transport(), transport().Address());
  const std::string address = other->address();
  Peer to(client(), address);
  Mailbox<Outcome> done;
  EXPECT_EQ(to.Start("hold", {}, &done), "");
  tenon_reply* reply = other->held.Take();
  std::thread stopper([&] { other->Stop(); });
  const std::string status = done.Take().status;
  EXPECT_EQ(CodeOf(status), "UNAVAILABLE");
  EXPECT_EQ(CodeOf(client().lost.Take()), "UNAVAILABLE");
  EXPECT_EQ(CodeOf(to.Call("echo", "").status), "UNAVAILABLE");
  stopper.join();
  server().Respond(reply, "late");
}

TEST_P(Transports, ConnectAgainToAnAddress) {
  for (int i = 0; i < 20; ++i) {
    Peer again(client(), server().address());
    EXPECT_EQ(again.Call("echo", "hello").response, "hello");
  }
  auto other = std::make_unique<Endpoint>(transport(), transport().Address());
  const std::string address = other->address();
  for (int i = 0; i < 5; ++i) {
    {
      Peer to(client(), address);
      EXPECT_EQ(to.Call("echo", "hello").response, "hello");
    }
    other = nullptr;
    other = std::make_unique<Endpoint>(transport(), address);
    EXPECT_EQ(other->open_status, "");
  }
}

TEST_P(Transports, SayWhereNobodyListens) {
  const std::string address = transport().Address();
  tenon_peer* nobody = nullptr;
  const std::string status = Text(client().table().connect(client().endpoint, Span(address), After(milliseconds(200)), &nobody));
  EXPECT_TRUE(CodeOf(status) == "UNAVAILABLE" || CodeOf(status) == "DEADLINE_EXCEEDED") << status;
  EXPECT_NE(status.find(address), std::string::npos) << status;
}

TEST_P(Transports, ChooseAnAddressWhenAsked) {
  const std::string any = transport().name() == "grpc" ? "grpc://127.0.0.1:0" : transport().name() + "://";
  Endpoint first(transport(), any), second(transport(), any);
  ASSERT_EQ(first.open_status + second.open_status, "");
  EXPECT_NE(first.address(), second.address());
  Peer to(client(), second.address());
  EXPECT_EQ(to.Call("echo", "hello").response, "hello");
}

TEST_P(Transports, RefuseAnAddressThatIsTaken) {
  Endpoint second(transport(), server().address());
  EXPECT_EQ(second.endpoint, nullptr);
  EXPECT_NE(second.open_status, "");
}

TEST_P(Transports, RefuseAnotherSchemesAddress) {
  Endpoint second(transport(), "carrier-pigeon://coop");
  EXPECT_EQ(CodeOf(second.open_status), "INVALID_ARGUMENT");
  tenon_peer* nobody = nullptr;
  EXPECT_EQ(CodeOf(Text(client().table().connect(client().endpoint, Span("carrier-pigeon://coop"), 0, &nobody))), "INVALID_ARGUMENT");
}

TEST_P(Transports, RefuseBitsThatTheyDoNotKnow) {
  tenon_call_args args = {};
  args.struct_size = sizeof args;
  args.must_understand = 1;
  EXPECT_EQ(CodeOf(Text(client().table().call(peer().peer, &args, nullptr))), "UNIMPLEMENTED");
}

TEST_P(Transports, DrainThenStop) {
  Mailbox<Outcome> done;
  EXPECT_EQ(peer().Start("hold", {}, &done), "");
  tenon_reply* reply = server().held.Take();
  EXPECT_EQ(CodeOf(server().Drain(milliseconds(20))), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeOf(peer().Call("echo", "").status), "UNAVAILABLE");
  Stream stream;
  EXPECT_EQ(peer().Open("echo", &stream), "");
  EXPECT_EQ(CodeOf(stream.ended.Take()), "UNAVAILABLE");
  stream.Close();
  std::thread answer([&] { server().Respond(reply, "the last"); });
  EXPECT_EQ(server().Drain(kPatience), "");
  answer.join();
  EXPECT_EQ(done.Take().response, "the last");
  EXPECT_EQ(client().Drain(kPatience), "");
  EXPECT_EQ(CodeOf(peer().Call("echo", "").status), "UNAVAILABLE");
}

}  // namespace
}  // namespace tenon::transport_testing
