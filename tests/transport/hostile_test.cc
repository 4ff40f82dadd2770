// SPDX-License-Identifier: Apache-2.0
// Frames that no honest side sends: a connection may break, with INVALID_ARGUMENT, and nothing else may happen.
#include <random>

#include "tenon/extras/transport/endpoint.h"
#include "tenon/testing/linked.h"
#include "tests/transport/tested.h"

namespace tenon::transport_testing {
namespace {

using sdk::FrameKind;
using sdk::HeadWriter;

// A pipe whose other side is the test.
class TestPipe final : public sdk::Pipe {
 public:
  void Start(sdk::FrameSink* sink) override { sink_ = sink; }
  void Write(std::string_view head, std::span<const tenon_span>, void (*written)(void*, bool),
             void* argument) override {
    {
      const std::lock_guard guard(lock_);
      heads_.emplace_back(head);
    }
    written(argument, true);
  }
  void Close() override {}
  std::string_view name() const override { return "a test"; }

  void Give(std::string_view head, uint64_t body_bytes, bool complete = true) {
    auto* memory = static_cast<char*>(sink_->Begin(head, body_bytes));
    for (uint64_t i = 0; memory != nullptr && i < body_bytes; ++i) memory[i] = 'x';
    sink_->End(complete);
  }
  // The body does not come, until it is given up.
  void Begin(std::string_view head, uint64_t body_bytes) { (void)sink_->Begin(head, body_bytes); }
  void GiveUp() { sink_->End(false); }
  std::vector<std::string> Heads() {
    const std::lock_guard guard(lock_);
    return std::exchange(heads_, {});
  }

 private:
  sdk::FrameSink* sink_ = nullptr;
  std::mutex lock_;
  std::vector<std::string> heads_;
};

// A connection over such a pipe, with a host that echoes and places.
class Victim {
 public:
  explicit Victim(uint64_t most = 1 << 16) {
    state->max_message_bytes = most;
    auto& events = state->events;
    events.argument = this;
    events.lost = [](void* self, tenon_peer*, tenon_status* why) { static_cast<Victim*>(self)->lost.Put(Text(why)); };
    events.call = [](void*, tenon_peer*, const tenon_incoming* call, tenon_reply* reply) {
      auto* const given = reinterpret_cast<sdk::OpenReply*>(reply);
      sdk::IncomingCalls::Respond(given, nullptr, &call->request, 1, nullptr, nullptr);
    };
    events.stream = [](void*, tenon_peer*, const tenon_incoming*, tenon_stream* stream,
                       tenon_stream_events* out_events) {
      out_events->message = [](void*, tenon_span) {};
      out_events->end = [](void* argument, tenon_status* status) {
        if (status != nullptr) Host()->status_release(status);
        sdk::OpenStreams::Close(static_cast<sdk::StreamSide*>(argument), nullptr);
      };
      out_events->argument = stream;
      return static_cast<tenon_status*>(nullptr);
    };
    events.place = [](void*, tenon_peer*, tenon_span, tenon_span, uint64_t bytes, tenon_bytes* out_memory,
                      void** out_token) {
      auto* memory = new std::string(bytes, '?');
      *out_memory = {memory->data(), bytes};
      *out_token = memory;
      return static_cast<tenon_status*>(nullptr);
    };
    events.placed = [](void*, tenon_peer*, void* token, tenon_status* status) {
      delete static_cast<std::string*>(token);
      if (status != nullptr) Host()->status_release(status);
    };
    auto owned = std::make_unique<TestPipe>();
    pipe = owned.get();
    connection = std::make_shared<sdk::Connection>(state, std::move(owned), true);
    state->Remember(connection);
    connection->Start();
  }
  ~Victim() {
    connection->End("the test is over", false);
    connection = nullptr;
    state->keeper.Stop();
  }
  // Whether a call is answered still.
  bool Lives() {
    pipe->Heads();
    pipe->Give(Head(HeadWriter(FrameKind::kCall).Number(1u << 30).Number(0).Text(Span("m")).Number(0)), 0);
    return pipe->Heads().size() == 1;
  }
  static std::string Head(const HeadWriter& writer) { return std::string(writer.view()); }

  std::shared_ptr<sdk::EndpointState> state = std::make_shared<sdk::EndpointState>();
  std::shared_ptr<sdk::Connection> connection;
  TestPipe* pipe = nullptr;
  Mailbox<std::string> lost;
};

std::vector<std::string> HonestHeads() {
  const tenon_metadata pair = {Span("key"), Span("value")};
  return {Victim::Head(
              HeadWriter(FrameKind::kCall).Number(3).Number(1'000'000'000).Text(Span("method")).Metadata(&pair, 1)),
          Victim::Head(HeadWriter(FrameKind::kReply).Number(uint64_t{1} << 32).Number(0).Text({})),
          Victim::Head(HeadWriter(FrameKind::kCancel).Number(3)),
          Victim::Head(HeadWriter(FrameKind::kData).Number(7).Text(Span("key")).Text(Span("header"))),
          Victim::Head(HeadWriter(FrameKind::kStream).Number(5).Number(0).Text(Span("method")).Metadata(&pair, 1)),
          Victim::Head(HeadWriter(FrameKind::kMessage).Number(5).Number(1)),
          Victim::Head(HeadWriter(FrameKind::kCredit).Number(5).Number(1).Number(100)),
          Victim::Head(HeadWriter(FrameKind::kClose).Number(5).Number(1).Number(10).Text(Span("why")))};
}

TEST(HostileHeads, ThatAreCutShortOrTooLongBreakTheConnection) {
  const int64_t statuses = live_statuses;
  for (const std::string& head : HonestHeads()) {
    for (size_t size = 0; size <= head.size() + 1; ++size) {
      if (size == head.size()) continue;
      Victim victim;
      victim.pipe->Give(size <= head.size() ? head.substr(0, size) : head + "x", 0);
      EXPECT_EQ(CodeOf(victim.lost.Take()), "INVALID_ARGUMENT") << size;
      EXPECT_FALSE(victim.Lives());
    }
  }
  EXPECT_EQ(live_statuses, statuses);
}

// Requests of which the end never comes, over connections of one endpoint: together they have so much memory, and no
// more.
TEST(HalfRequests, HaveABoundTogetherAndGiveBackWhatTheyHad) {
  constexpr uint64_t kLarge = uint64_t{40} << 20;
  Victim victim(kLarge);
  std::vector<std::shared_ptr<sdk::Connection>> connections;
  std::vector<TestPipe*> pipes;
  for (int i = 0; i < 20; ++i) {
    auto owned = std::make_unique<TestPipe>();
    pipes.push_back(owned.get());
    connections.push_back(std::make_shared<sdk::Connection>(victim.state, std::move(owned), true));
    victim.state->Remember(connections.back());
    connections.back()->Start();
  }
  const std::string call = HonestHeads()[0];
  const auto refused = [](TestPipe* pipe) {
    for (const std::string& head : pipe->Heads())
      if (head.find("requests that are not all there yet take as much memory as they may") != std::string::npos)
        return true;
    return false;
  };
  for (TestPipe* pipe : pipes) pipe->Begin(call, kLarge);
  EXPECT_FALSE(refused(pipes[0]));
  for (size_t i = 1; i < pipes.size(); ++i) EXPECT_TRUE(refused(pipes[i])) << i;
  EXPECT_TRUE(victim.Lives()) << "a small one goes on";
  pipes[0]->GiveUp();
  for (size_t i = 1; i < pipes.size(); ++i) pipes[i]->GiveUp();
  for (int i = 0; i < 3; ++i) {  // whole ones give back theirs too
    pipes[1]->Give(
        Victim::Head(
            HeadWriter(FrameKind::kCall).Number(static_cast<uint64_t>(10 + i)).Number(0).Text(Span("m")).Number(0)),
        kLarge);
    EXPECT_FALSE(refused(pipes[1])) << i;
  }
  for (const auto& connection : connections) connection->End("the test is over", false);
}

TEST(HostileHeads, OfUnknownKindsBreakTheConnection) {
  for (int kind = 0; kind < 256; ++kind) {
    if (kind >= 1 && kind <= 8) continue;
    Victim victim;
    victim.pipe->Give(std::string(1, static_cast<char>(kind)), 10);
    EXPECT_EQ(CodeOf(victim.lost.Take()), "INVALID_ARGUMENT");
  }
}

TEST(HostileHeads, ThatReuseTheNumberOfAnOpenCallOrStreamBreakTheConnection) {
  Victim victim;
  const std::string head = HonestHeads()[4];
  victim.pipe->Give(head, 0);
  EXPECT_TRUE(victim.Lives());
  victim.pipe->Give(head, 0);
  EXPECT_EQ(CodeOf(victim.lost.Take()), "INVALID_ARGUMENT");
}

TEST(HostileHeads, ThatAnnounceMoreThanTheLimitAreRefusedWithoutMemory) {
  Victim victim(1000);
  for (const std::string& head : {HonestHeads()[0], HonestHeads()[3]}) {
    victim.pipe->Heads();
    // Nothing may be given to put it in: writing 2^60 bytes would end the test.
    victim.pipe->Give(head, uint64_t{1} << 60);
    ASSERT_EQ(victim.pipe->Heads().size(), 1u);
  }
  EXPECT_TRUE(victim.Lives());
}

TEST(HostileHeads, ForWhatIsNotOpenAreDropped) {
  Victim victim;
  victim.pipe->Give(HonestHeads()[1], 100);
  for (int i : {2, 5, 6, 7}) victim.pipe->Give(HonestHeads()[static_cast<size_t>(i)], 0);
  EXPECT_TRUE(victim.Lives());
}

TEST(HostileHeads, MadeAtRandomDoNoHarm) {
  const int64_t statuses = live_statuses;
  std::mt19937 random(7);
  const std::vector<std::string> honest = HonestHeads();
  int frames = 0, broken = 0;
  while (frames < 200'000) {
    Victim victim;
    for (int i = 0; i < 2000; ++i, ++frames) {
      std::string head = honest[random() % honest.size()];
      for (uint32_t change = random() % 3; change > 0; --change)
        head[random() % head.size()] = static_cast<char>(random());
      if (random() % 50 == 0) head.resize(random() % (head.size() + 8));
      victim.pipe->Give(head, random() % 3 == 0 ? random() % 5000 : 0, random() % 20 != 0);
      if (i % 10 == 9 && !victim.Lives()) break;
    }
    if (victim.Lives()) continue;
    EXPECT_EQ(CodeOf(victim.lost.Take()), "INVALID_ARGUMENT");
    ++broken;
  }
  EXPECT_GT(broken, 100);
  EXPECT_EQ(live_statuses, statuses);
}

}  // namespace
}  // namespace tenon::transport_testing
