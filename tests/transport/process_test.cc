// SPDX-License-Identifier: Apache-2.0
// Transports between processes: what they do when the other one is killed, frozen, or comes again. Covers I6, J1.
#include "tests/transport/other_process.h"
#include "tests/transport/suite.h"

namespace tenon::transport_testing {
namespace {

class BetweenProcesses : public Suite {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BetweenProcesses);

std::vector<std::string> TransportsBetweenProcesses() {
  std::vector<std::string> names = BuiltTransports();
  std::erase(names, "loopback");
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, BetweenProcesses, ::testing::ValuesIn(TransportsBetweenProcesses()),
                         [](const auto& info) { return info.param; });

TEST_P(BetweenProcesses, CarryEverySize) {
  OtherProcess other(GetParam(), transport().Address());
  Peer to(client(), other.address());
  for (uint64_t size : {0ull, 5ull, 5000ull, 70'000ull, 300'000ull, 5'000'000ull, 1ull << 26, 1ull << 30}) {
    if (size > LargestMessage()) continue;
    const std::string text = Pattern(size);
    const Answer outcome = to.Call("echo", text);
    EXPECT_EQ(outcome.status, "");
    EXPECT_TRUE(outcome.response == text) << size;
    EXPECT_EQ(to.Send("key", "", {Span(text)}), "");
  }
}

TEST_P(BetweenProcesses, EndWhatIsOpenWhenTheOtherProcessIsKilled) {
  for (int i = 0; i < 10; ++i) {
    OtherProcess other(GetParam(), transport().Address());
    Peer to(client(), other.address());
    Mailbox<Answer> done;
    for (int k = 0; k < 100; ++k) EXPECT_EQ(to.Start("hold", {}, &done), "");
    Stream stream;
    EXPECT_EQ(to.Open("hold", &stream), "");
    const std::string large = Pattern(8 << 20);  // under way when it dies
    Mailbox<std::string> sent;
    EXPECT_EQ(to.StartSend("key", "", {Span(large)}, &sent), "");
    other.Kill();
    for (int k = 0; k < 100; ++k) EXPECT_EQ(CodeOf(done.Take().status), "UNAVAILABLE");
    EXPECT_EQ(CodeOf(stream.ended.Take()), "UNAVAILABLE");
    const std::string status = sent.Take();
    EXPECT_TRUE(status.empty() || CodeOf(status) == "UNAVAILABLE") << status;
    EXPECT_EQ(CodeOf(client().lost.Take()), "UNAVAILABLE");
    EXPECT_EQ(CodeOf(to.Call("echo", "").status), "UNAVAILABLE");
    stream.Close();
  }
}

TEST_P(BetweenProcesses, EndCallsToAFrozenProcessByTheirDeadlines) {
  OtherProcess other(GetParam(), transport().Address());
  Peer to(client(), other.address());
  EXPECT_EQ(to.Call("echo", "awake").response, "awake");
  other.Freeze();
  CallOptions brief;
  brief.time = milliseconds(100);
  EXPECT_EQ(CodeOf(to.Call("echo", "hello?", brief).status), "DEADLINE_EXCEEDED");
  Stream stream;
  EXPECT_EQ(to.Open("hold", &stream, milliseconds(100)), "");
  EXPECT_EQ(CodeOf(stream.ended.Take()), "DEADLINE_EXCEEDED");
  stream.Close();
  other.Thaw();
  EXPECT_EQ(to.Call("echo", "awake again").response, "awake again");
}

// Its pieces are needed until the other side takes them, or the connection is given up.
TEST_P(BetweenProcesses, GiveMemoryBackThatAFrozenProcessDoesNotTake) {
  OtherProcess other(GetParam(), transport().Address());
  Peer to(client(), other.address());
  EXPECT_EQ(to.Call("echo", "awake").response, "awake");
  other.Freeze();
  const std::string large = Pattern(32 << 20);
  const std::string status = to.Send("key", "", {Span(large)}, milliseconds(50));
  EXPECT_TRUE(CodeOf(status) == "DEADLINE_EXCEEDED" || CodeOf(status) == "UNAVAILABLE") << status;
  CallOptions brief;
  brief.time = milliseconds(50);
  const std::string called = to.Call("echo", large, brief).status;
  EXPECT_TRUE(CodeOf(called) == "DEADLINE_EXCEEDED" || CodeOf(called) == "UNAVAILABLE") << called;
}

TEST_P(BetweenProcesses, SendManySmallMessagesToAFrozenProcess) {
  OtherProcess other(GetParam(), transport().Address());
  Peer to(client(), other.address());
  EXPECT_EQ(to.Call("echo", "awake").response, "awake");
  other.Freeze();
  constexpr int kCalls = 20'000;
  const std::string text = Pattern(1000);
  Mailbox<Answer> done;
  CallOptions brief;
  brief.time = std::chrono::seconds(1);
  int begun = 0;
  for (int i = 0; i < kCalls; ++i) begun += to.Start("echo", {Span(text)}, &done, nullptr, brief).empty() ? 1 : 0;
  for (int i = 0; i < begun; ++i) {
    const std::string status = done.Take().status;
    EXPECT_TRUE(CodeOf(status) == "DEADLINE_EXCEEDED" || CodeOf(status) == "UNAVAILABLE") << status;
  }
}

TEST_P(BetweenProcesses, ConnectAgainToAProcessThatCameAgain) {
  if (GetParam() == "grpc") GTEST_SKIP() << "its port is chosen by the system";
  const std::string address = transport().Address();
  for (int i = 0; i < 3; ++i) {
    OtherProcess other(GetParam(), address);  // replaces what its killed predecessor left
    EXPECT_EQ(other.address(), address);
    Peer to(client(), address);
    EXPECT_EQ(to.Call("echo", "hello").response, "hello");
    other.Kill();
    EXPECT_EQ(CodeOf(client().lost.Take()), "UNAVAILABLE");
  }
}

}  // namespace
}  // namespace tenon::transport_testing
