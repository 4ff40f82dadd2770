// SPDX-License-Identifier: Apache-2.0
// What every transport must do, as cases over its built library: calls, data, streams, deadlines, limits, and the end
// of connections.
//
//   for (const SuiteCase<TransportSubject>& one : TransportCases()) {
//     const auto failures = FailuresOf([&] { one.run({library, "loopback"}); });
//   }
//
// TENON_TRANSPORT_LARGEST=1073741824 sends messages of up to that many bytes; 64 MB are the default.
#ifndef TENON_TESTING_TRANSPORT_SUITE_H_
#define TENON_TESTING_TRANSPORT_SUITE_H_

#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/testing/transport.h"

namespace tenon::testing {

// The library of a transport, the scheme of its addresses, and Transport's any_address.
struct TransportSubject {
  const Library& library;
  std::string scheme;
  std::string any_address = "";
};

inline uint64_t LargestMessage() {
  const char* given = std::getenv("TENON_TRANSPORT_LARGEST");
  return given == nullptr ? uint64_t{1} << 26 : std::strtoull(given, nullptr, 10);
}

// A server, a client, and a connection between them.
class Meeting {
 public:
  explicit Meeting(const TransportSubject& subject)
      : transport_(subject.library, subject.scheme, subject.any_address),
        server_(transport_, transport_.Address()),
        client_(transport_) {
    if (ExpectEq(server_.open_status + client_.open_status, ""))
      peer_ = std::make_unique<Peer>(client_, server_.address());
  }
  // When not, it has been reported.
  bool met() const { return peer_ != nullptr && peer_->status.empty(); }
  const Transport& transport() const { return transport_; }
  Endpoint& server() { return server_; }
  Endpoint& client() { return client_; }
  Peer& peer() { return *peer_; }

 private:
  const Transport transport_;
  Endpoint server_, client_;
  std::unique_ptr<Peer> peer_;
};

namespace transport_suite {

inline void EchoACall(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  const Answer outcome = meeting.peer().Call("echo", "hello");
  ExpectEq(outcome.status, "");
  ExpectEq(outcome.response, "hello");
}

inline void CallTheSideThatConnectedToo(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  tenon_peer* back = meeting.server().connected.Take();
  Mailbox<Answer> done;
  const std::vector<tenon_span> pieces = {Span("from "), Span("the server")};
  ExpectEq(Peer::StartOn(meeting.server(), back, "echo", pieces, &done, nullptr, {}), "");
  ExpectEq(done.Take().response, "from the server");
}

inline void CarryEverySize(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  const uint64_t most = LargestMessage();
  for (uint64_t size : {0ull, 1ull, 63ull, 64ull, 4095ull, 4096ull, 4097ull, 65536ull, 100'000ull, 1ull << 20,
                        (1ull << 24) + 1, 1ull << 26, 1ull << 30}) {
    if (size > most) continue;
    const std::string text = Pattern(size);
    const Answer outcome = meeting.peer().Call("echo", text);
    ExpectEq(outcome.status, "", std::to_string(size));
    Expect(outcome.response == text, std::to_string(size));
    ExpectEq(meeting.peer().Send("key", "header", {Span(text)}), "", std::to_string(size));
    const Placed placed = meeting.server().placed.Take();
    ExpectEq(placed.status, "");
    Expect(placed.data == text, std::to_string(size));
  }
}

inline void GatherPieces(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  const std::string large = Pattern(300'000);
  const Answer outcome = meeting.peer().Call("echo", "");
  ExpectEq(outcome.response, "");
  Mailbox<Answer> done;
  const std::vector<tenon_span> pieces = {Span("a"), {}, Span(large), Span("z")};
  ExpectEq(meeting.peer().Start("echo", pieces, &done), "");
  Expect(done.Take().response == "a" + large + "z", "done.Take().response == 'a' + large + 'z'");
}

inline void CarryMetadataAndWhatIsLeftOfTheDeadline(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Mailbox<Incoming> seen;
  Endpoint::Options options;
  Endpoint* answering = nullptr;
  options.on_call = [&](tenon_peer*, const Incoming& call, tenon_reply* reply) {
    seen.Put(call);
    answering->Respond(reply, "");
  };
  Endpoint other(meeting.transport(), meeting.transport().Address(), options);
  answering = &other;
  Peer to(meeting.client(), other.address());
  CallOptions given;
  given.metadata = {{Span("step"), Span("7")}, {Span("empty"), Span("")}, {Span("binary"), {"\0\xff", 2}}};
  given.time = std::chrono::hours(1);
  ExpectEq(to.Call("a method", "", given).status, "");
  const Incoming call = seen.Take();
  ExpectEq(call.method, "a method");
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"step", "7"}, {"empty", ""}, {"binary", std::string("\0\xff", 2)}};
  ExpectEq(call.metadata, expected);
  Expect(call.deadline_ns > After(std::chrono::minutes(30)), "call.deadline_ns > After(std::chrono::minutes(30))");
  Expect(call.deadline_ns < After(std::chrono::minutes(61)), "call.deadline_ns < After(std::chrono::minutes(61))");
}

inline void BringTheStatusOfACallThatFails(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  ExpectEq(meeting.peer().Call("fail", "no table 'x'").status, "NOT_FOUND: no table 'x'");
}

inline void EndACallAtItsDeadlineAndTellTheOtherSide(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  CallOptions brief;
  brief.time = std::chrono::milliseconds(50);
  ExpectEq(CodeOf(meeting.peer().Call("hold", "", brief).status), "DEADLINE_EXCEEDED");
  tenon_reply* reply = meeting.server().held.Take();
  ExpectEq(meeting.server().cancelled.Take(), reply);
  meeting.server().Respond(reply, "too late");
  ExpectEq(meeting.peer().Call("echo", "next").response, "next");
}

inline void RefuseACallWhoseDeadlineHasPassed(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  CallOptions past;
  past.time = -std::chrono::seconds(1);
  ExpectEq(CodeOf(meeting.peer().Call("echo", "", past).status), "DEADLINE_EXCEEDED");
}

inline void CancelACallOnBothSides(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Mailbox<Answer> done;
  uint64_t call = 0;
  ExpectEq(meeting.peer().Start("hold", {}, &done, &call), "");
  tenon_reply* reply = meeting.server().held.Take();
  meeting.client().table().cancel(meeting.peer().peer, call);
  ExpectEq(CodeOf(done.Take().status), "CANCELLED");
  ExpectEq(meeting.server().cancelled.Take(), reply);
  meeting.server().Respond(reply, "nobody hears this");
  meeting.client().table().cancel(meeting.peer().peer, call);  // of one that is gone: nothing
  ExpectEq(meeting.peer().Call("echo", "next").response, "next");
}

inline void KeepTheOrderOfData(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  for (int i = 0; i < 1000; ++i) {
    Mailbox<std::string> done;
    const std::string text = Pattern(i % 7 == 0 ? 20'000 : 8, static_cast<uint32_t>(i));
    ExpectEq(meeting.peer().StartSend(std::to_string(i), "", {Span(text)}, &done), "");
    ExpectEq(done.Take(), "");
    ExpectEq(meeting.server().placed.Take().key, std::to_string(i));
  }
}

inline void KeepTheOrderOfDataThatIsUnderWayTogether(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  constexpr int kSends = 500;
  std::vector<std::string> texts;
  std::vector<Mailbox<std::string>> done(kSends);
  for (int i = 0; i < kSends; ++i) texts.push_back(Pattern(i % 5 == 0 ? 50'000 : 16, static_cast<uint32_t>(i)));
  for (int i = 0; i < kSends; ++i) {
    const std::string key = std::to_string(i);
    ExpectEq(meeting.peer().StartSend(key, "header of " + key, {Span(texts[i])}, &done[i]), "");
  }
  for (int i = 0; i < kSends; ++i) {
    ExpectEq(done[i].Take(), "");
    const Placed placed = meeting.server().placed.Take();
    ExpectEq(placed.key, std::to_string(i));
    ExpectEq(placed.header, "header of " + placed.key);
    Expect(placed.data == texts[i], "placed.data == texts[i]");
  }
}

inline void TellTheSenderOfDataThatIsRefused(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  ExpectEq(meeting.peer().Send("refuse", "", {Span("data")}), "FAILED_PRECONDITION: no such key");
  const std::string large = Pattern(1 << 20);
  ExpectEq(meeting.peer().Send("refuse", "", {Span(large)}), "FAILED_PRECONDITION: no such key");
  ExpectEq(meeting.peer().Send("fine", "", {Span("data")}), "");
  ExpectEq(meeting.server().placed.Take().key, "fine");
}

inline void RefuseAKeyThatIsTooLong(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  ExpectEq(meeting.peer().Send(std::string(TENON_TRANSPORT_MAX_KEY, 'k'), "", {}), "");
  ExpectEq(CodeOf(meeting.peer().Send(std::string(TENON_TRANSPORT_MAX_KEY + 1, 'k'), "", {})), "INVALID_ARGUMENT");
}

inline void RefuseMessagesThatAreTooLarge(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Endpoint::Options options;
  options.max_message_bytes = 10'000;
  Endpoint small(meeting.transport(), meeting.transport().Address(), options);
  Endpoint limited(meeting.transport(), "", options);
  const std::string large = Pattern(10'001);
  {
    Peer to(limited, meeting.server().address());
    ExpectEq(CodeOf(to.Call("echo", large).status), "RESOURCE_EXHAUSTED");
    ExpectEq(CodeOf(to.Send("key", "", {Span(large)})), "RESOURCE_EXHAUSTED");
  }
  Peer to(meeting.client(), small.address());  // its receiver's limit is what counts here
  ExpectEq(CodeOf(to.Call("echo", large).status), "RESOURCE_EXHAUSTED");
  ExpectEq(CodeOf(to.Send("key", "", {Span(large)})), "RESOURCE_EXHAUSTED");
  ExpectEq(to.Call("echo", "small").response, "small");
}

inline void RefuseWhatTheOtherSideHasNoFunctionFor(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Endpoint::Options options;
  options.refuse_all = true;
  Endpoint mute(meeting.transport(), meeting.transport().Address(), options);
  Peer to(meeting.client(), mute.address());
  ExpectEq(CodeOf(to.Call("echo", "").status), "UNIMPLEMENTED");
  ExpectEq(CodeOf(to.Send("key", "", {Span("data")})), "UNIMPLEMENTED");
  Stream stream;
  ExpectEq(to.Open("echo", &stream), "");
  ExpectEq(CodeOf(stream.ended.Take()), "UNIMPLEMENTED");
  stream.Close();
}

inline void DoManyCallsAtOnce(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  constexpr int kCalls = 10'000;
  std::vector<Mailbox<Answer>> done(kCalls);
  std::vector<std::string> texts;
  for (int i = 0; i < kCalls; ++i) texts.push_back(std::to_string(i));
  for (int i = 0; i < kCalls; ++i) ExpectEq(meeting.peer().Start("hold", {Span(texts[i])}, &done[i]), "");
  for (int i = 0; i < kCalls; ++i) meeting.server().Respond(meeting.server().held.Take(), "answer");
  for (int i = 0; i < kCalls; ++i) ExpectEq(done[i].Take().response, "answer");
}

inline void DoCallsOfManyThreads(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&meeting, t] {
      for (int i = 0; i < 300; ++i) {
        const std::string text = Pattern(static_cast<uint64_t>(i * 37 % 9000), static_cast<uint32_t>(t));
        Expect(meeting.peer().Call("echo", text).response == text,
               "meeting.peer().Call('echo', text).response == text");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// ---- Streams ----

inline void EchoAStream(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Stream stream;
  ExpectEq(meeting.peer().Open("echo", &stream), "");
  const std::shared_ptr<Stream> there = meeting.server().streams.Take();
  for (int i = 0; i < 100; ++i) ExpectEq(stream.Write("message " + std::to_string(i)), "");
  for (int i = 0; i < 100; ++i) ExpectEq(stream.messages.Take(), "message " + std::to_string(i));
  stream.Close();
  ExpectEq(there->ended.Take(), "");
  there->Close();
  ExpectEq(stream.ended.Take(), "");
}

inline void EndAStreamWithTheStatusOfItsOtherSide(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Stream stream;
  ExpectEq(meeting.peer().Open("hold", &stream), "");
  const std::shared_ptr<Stream> there = meeting.server().streams.Take();
  there->Close(NewStatus(TENON_ABORTED, "enough"));
  ExpectEq(stream.ended.Take(), "ABORTED: enough");
  ExpectEq(CodeOf(stream.Write("more")), "ABORTED");
  stream.Close();
  ExpectEq(CodeOf(there->ended.Take()), "ABORTED");
}

inline void RefuseAStream(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Stream stream;
  ExpectEq(meeting.peer().Open("refuse", &stream), "");
  ExpectEq(stream.ended.Take(), "PERMISSION_DENIED: not here");
  stream.Close();
}

inline void LetAStreamsWriterWaitForItsReader(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Stream stream;
  ExpectEq(meeting.peer().Open("slow", &stream, std::chrono::seconds(1)), "");
  const std::shared_ptr<Stream> there = meeting.server().streams.Take();
  std::promise<void> go;
  std::shared_future<void> gone = go.get_future().share();
  there->on_message = [gone](Stream&, tenon_span) { gone.wait_for(kPatience); };
  const std::string text = Pattern(100'000);
  std::string status;
  int written = 0;
  for (; status.empty() && written < 10'000; ++written) status = stream.Write(text);
  ExpectEq(CodeOf(status), "DEADLINE_EXCEEDED");
  Expect(written < 1000, "written < 1000");  // far less than what would be in memory without a window
  go.set_value();
  ExpectEq(CodeOf(stream.ended.Take()), "DEADLINE_EXCEEDED");
  stream.Close();
  ExpectEq(CodeOf(there->ended.Take()), "DEADLINE_EXCEEDED");
  there->Close();
}

inline void CarryMoreOverAStreamThanItsWindow(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Stream stream;
  ExpectEq(meeting.peer().Open("hold", &stream), "");
  const std::shared_ptr<Stream> there = meeting.server().streams.Take();
  for (uint32_t i = 0; i < 200; ++i) ExpectEq(stream.Write(Pattern(100'000, i)), "");
  for (uint32_t i = 0; i < 200; ++i)
    Expect(there->messages.Take() == Pattern(100'000, i), "there->messages.Take() == Pattern(100'000, i)");
  stream.Close();
  there->Close();
  ExpectEq(there->ended.Take(), "");
  ExpectEq(stream.ended.Take(), "");
}

// ---- The end of connections ----

inline void EndWhatIsOpenWhenThisSideDisconnects(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Mailbox<Answer> done;
  ExpectEq(meeting.peer().Start("hold", {}, &done), "");
  tenon_reply* reply = meeting.server().held.Take();
  Stream stream;
  ExpectEq(meeting.peer().Open("hold", &stream), "");
  const std::shared_ptr<Stream> there = meeting.server().streams.Take();
  meeting.peer().Disconnect();
  Expect(!done.Empty(), "not done.Empty()");
  ExpectEq(CodeOf(done.Take().status), "CANCELLED");
  ExpectEq(CodeOf(stream.ended.Take()), "CANCELLED");
  stream.Close();
  ExpectEq(CodeOf(there->ended.Take()), "UNAVAILABLE");
  there->Close();
  ExpectEq(meeting.server().cancelled.Take(), reply);
  ExpectEq(CodeOf(meeting.server().lost.Take()), "UNAVAILABLE");
  meeting.server().Respond(reply, "nobody");
  Expect(meeting.client().lost.Empty(), "meeting.client().lost.Empty()");
}

inline void EndWhatIsOpenWhenTheOtherSideStops(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  auto other = std::make_unique<Endpoint>(meeting.transport(), meeting.transport().Address());
  const std::string address = other->address();
  Peer to(meeting.client(), address);
  Mailbox<Answer> done;
  ExpectEq(to.Start("hold", {}, &done), "");
  tenon_reply* reply = other->held.Take();
  std::thread stopper([&] { other->Stop(); });
  const std::string status = done.Take().status;
  ExpectEq(CodeOf(status), "UNAVAILABLE");
  ExpectEq(CodeOf(meeting.client().lost.Take()), "UNAVAILABLE");
  ExpectEq(CodeOf(to.Call("echo", "").status), "UNAVAILABLE");
  stopper.join();
  meeting.server().Respond(reply, "late");
}

inline void ConnectAgainToAnAddress(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  for (int i = 0; i < 20; ++i) {
    Peer again(meeting.client(), meeting.server().address());
    ExpectEq(again.Call("echo", "hello").response, "hello");
  }
  auto other = std::make_unique<Endpoint>(meeting.transport(), meeting.transport().Address());
  const std::string address = other->address();
  for (int i = 0; i < 5; ++i) {
    {
      Peer to(meeting.client(), address);
      ExpectEq(to.Call("echo", "hello").response, "hello");
    }
    other = nullptr;
    other = std::make_unique<Endpoint>(meeting.transport(), address);
    ExpectEq(other->open_status, "");
  }
}

inline void SayWhereNobodyListens(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  const std::string address = meeting.transport().Address();
  tenon_peer* nobody = nullptr;
  const std::string status = Text(meeting.client().table().connect(meeting.client().endpoint, Span(address),
                                                                   After(std::chrono::milliseconds(200)), &nobody));
  Expect(CodeOf(status) == "UNAVAILABLE" || CodeOf(status) == "DEADLINE_EXCEEDED", status);
  ExpectNe(status.find(address), std::string::npos, status);
}

inline void ChooseAnAddressWhenAsked(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  const std::string any = meeting.transport().AnyAddress();
  Endpoint first(meeting.transport(), any), second(meeting.transport(), any);
  ExpectEq(first.open_status + second.open_status, "");
  ExpectNe(first.address(), second.address());
  Peer to(meeting.client(), second.address());
  ExpectEq(to.Call("echo", "hello").response, "hello");
}

inline void RefuseAnAddressThatIsTaken(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Endpoint second(meeting.transport(), meeting.server().address());
  ExpectEq(second.endpoint, nullptr);
  ExpectNe(second.open_status, "");
}

inline void RefuseAnotherSchemesAddress(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Endpoint second(meeting.transport(), "carrier-pigeon://coop");
  ExpectEq(CodeOf(second.open_status), "INVALID_ARGUMENT");
  tenon_peer* nobody = nullptr;
  ExpectEq(CodeOf(Text(
               meeting.client().table().connect(meeting.client().endpoint, Span("carrier-pigeon://coop"), 0, &nobody))),
           "INVALID_ARGUMENT");
}

inline void RefuseBitsThatTheyDoNotKnow(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  tenon_call_args args = {};
  args.struct_size = sizeof args;
  args.must_understand = 1;
  ExpectEq(CodeOf(Text(meeting.client().table().call(meeting.peer().peer, &args, nullptr))), "UNIMPLEMENTED");
}

inline void DrainThenStop(const TransportSubject& subject) {
  Meeting meeting(subject);
  if (!meeting.met()) return;
  Mailbox<Answer> done;
  ExpectEq(meeting.peer().Start("hold", {}, &done), "");
  tenon_reply* reply = meeting.server().held.Take();
  ExpectEq(CodeOf(meeting.server().Drain(std::chrono::milliseconds(20))), "DEADLINE_EXCEEDED");
  ExpectEq(CodeOf(meeting.peer().Call("echo", "").status), "UNAVAILABLE");
  Stream stream;
  ExpectEq(meeting.peer().Open("echo", &stream), "");
  ExpectEq(CodeOf(stream.ended.Take()), "UNAVAILABLE");
  stream.Close();
  std::thread answer([&] { meeting.server().Respond(reply, "the last"); });
  ExpectEq(meeting.server().Drain(kPatience), "");
  answer.join();
  ExpectEq(done.Take().response, "the last");
  ExpectEq(meeting.client().Drain(kPatience), "");
  ExpectEq(CodeOf(meeting.peer().Call("echo", "").status), "UNAVAILABLE");
}

}  // namespace transport_suite

// All cases; each loads the library anew.
inline std::vector<SuiteCase<TransportSubject>> TransportCases() {
#define TENON_TESTING_CASE(name) {#name, transport_suite::name}
  return {
      TENON_TESTING_CASE(EchoACall),
      TENON_TESTING_CASE(CallTheSideThatConnectedToo),
      TENON_TESTING_CASE(CarryEverySize),
      TENON_TESTING_CASE(GatherPieces),
      TENON_TESTING_CASE(CarryMetadataAndWhatIsLeftOfTheDeadline),
      TENON_TESTING_CASE(BringTheStatusOfACallThatFails),
      TENON_TESTING_CASE(EndACallAtItsDeadlineAndTellTheOtherSide),
      TENON_TESTING_CASE(RefuseACallWhoseDeadlineHasPassed),
      TENON_TESTING_CASE(CancelACallOnBothSides),
      TENON_TESTING_CASE(KeepTheOrderOfData),
      TENON_TESTING_CASE(KeepTheOrderOfDataThatIsUnderWayTogether),
      TENON_TESTING_CASE(TellTheSenderOfDataThatIsRefused),
      TENON_TESTING_CASE(RefuseAKeyThatIsTooLong),
      TENON_TESTING_CASE(RefuseMessagesThatAreTooLarge),
      TENON_TESTING_CASE(RefuseWhatTheOtherSideHasNoFunctionFor),
      TENON_TESTING_CASE(DoManyCallsAtOnce),
      TENON_TESTING_CASE(DoCallsOfManyThreads),
      TENON_TESTING_CASE(EchoAStream),
      TENON_TESTING_CASE(EndAStreamWithTheStatusOfItsOtherSide),
      TENON_TESTING_CASE(RefuseAStream),
      TENON_TESTING_CASE(LetAStreamsWriterWaitForItsReader),
      TENON_TESTING_CASE(CarryMoreOverAStreamThanItsWindow),
      TENON_TESTING_CASE(EndWhatIsOpenWhenThisSideDisconnects),
      TENON_TESTING_CASE(EndWhatIsOpenWhenTheOtherSideStops),
      TENON_TESTING_CASE(ConnectAgainToAnAddress),
      TENON_TESTING_CASE(SayWhereNobodyListens),
      TENON_TESTING_CASE(ChooseAnAddressWhenAsked),
      TENON_TESTING_CASE(RefuseAnAddressThatIsTaken),
      TENON_TESTING_CASE(RefuseAnotherSchemesAddress),
      TENON_TESTING_CASE(RefuseBitsThatTheyDoNotKnow),
      TENON_TESTING_CASE(DrainThenStop),
  };
#undef TENON_TESTING_CASE
}

}  // namespace tenon::testing

#endif  // TENON_TESTING_TRANSPORT_SUITE_H_
