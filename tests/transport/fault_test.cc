// SPDX-License-Identifier: Apache-2.0
// Transports under faults: whatever is dropped, delayed, reordered, duplicated, cut or partitioned ends in a clear
// status.
#include "tests/fakes/fault_transport.h"
#include "tests/transport/suite.h"

namespace tenon::transport_testing {
namespace {

using fakes::FaultRules;
using fakes::FaultTransport;

// A client whose network is bad, and a server that counts.
class Faults : public Suite {
 protected:
  void Wrap(const FaultRules& rules) {
    Unwrap();
    faults_ = std::make_unique<FaultTransport>(Host(), transport().table, transport().self, rules);
    wrapped_ = std::make_unique<Transport>(transport(), faults_->table(), faults_->self());
    Endpoint::Options options;
    options.on_call = [this](tenon_peer*, const Incoming& call, tenon_reply* reply) {
      ++arrived_;
      counting_->Respond(reply, String(call.request));
    };
    counting_ = std::make_unique<Endpoint>(transport(), transport().Address(), options);
    client_ = std::make_unique<Endpoint>(*wrapped_);
    to_ = std::make_unique<Peer>(*client_, counting_->address());
  }
  void Unwrap() {
    to_ = nullptr;
    client_ = nullptr;
    counting_ = nullptr;
    faults_ = nullptr;
  }
  void TearDown() override {
    Unwrap();
    Suite::TearDown();
  }
  struct Ends {
    int good = 0, cut = 0, late = 0;
  };
  Ends CallMany(int count, std::chrono::nanoseconds time) {
    std::vector<Mailbox<Answer>> done(static_cast<size_t>(count));
    std::vector<std::string> texts;
    CallOptions options;
    options.time = time;
    for (int i = 0; i < count; ++i) texts.push_back("call " + std::to_string(1000 + i));
    for (size_t i = 0; i < done.size(); ++i)
      EXPECT_EQ(to_->Start("echo", {Span(texts[i])}, &done[i], nullptr, options), "");
    Ends ends;
    for (size_t i = 0; i < done.size(); ++i) {
      const Answer outcome = done[i].Take();
      ends.good += outcome.status.empty() && outcome.response == texts[i] ? 1 : 0;
      ends.cut += outcome.status.empty() && outcome.response == texts[i].substr(0, texts[i].size() / 2) ? 1 : 0;
      ends.late += CodeOf(outcome.status) == "DEADLINE_EXCEEDED" ? 1 : 0;
    }
    EXPECT_EQ(ends.good + ends.cut + ends.late, count);  // nothing else, and nothing twice
    return ends;
  }

  std::atomic<int> arrived_{0};
  std::unique_ptr<FaultTransport> faults_;
  std::unique_ptr<Transport> wrapped_;
  std::unique_ptr<Endpoint> counting_, client_;
  std::unique_ptr<Peer> to_;
};
TENON_TRANSPORT_SUITE(Faults);

TEST_P(Faults, EndEveryCall) {
  FaultRules rules;
  rules.drop_request = rules.drop_reply = rules.duplicate = rules.truncate = 0.1;
  rules.delay = rules.reorder = 0.3;
  for (uint64_t seed : {1, 2, 3}) {
    rules.seed = seed;
    Wrap(rules);
    arrived_ = 0;
    constexpr int kCalls = 1000;
    const Ends ends = CallMany(kCalls, std::chrono::seconds(1));
    const auto& counts = faults_->counts();
    EXPECT_GE(ends.late, counts.dropped_requests + counts.dropped_replies);
    EXPECT_GT(counts.dropped_requests, 0);
    EXPECT_GT(counts.dropped_replies, 0);
    EXPECT_GT(counts.delayed, 0);
    EXPECT_GT(counts.reordered, 0);
    EXPECT_GT(counts.duplicated, 0);
    EXPECT_GT(ends.cut, 0);
    // One past the faults, behind all others: then they have arrived.
    Mailbox<Answer> last;
    EXPECT_EQ(Peer::StartOn(*counting_, to_->peer, "echo", {}, &last, nullptr, {}), "");
    EXPECT_EQ(last.Take().status, "");
    EXPECT_EQ(arrived_, kCalls - counts.dropped_requests + counts.duplicated + 1);
  }
}

TEST_P(Faults, AreTheSameForTheSameSeed) {
  FaultRules rules;
  rules.drop_request = rules.duplicate = rules.truncate = 0.2;
  int dropped[2], duplicated[2], cut[2];
  for (int turn = 0; turn < 2; ++turn) {
    rules.seed = 11;
    Wrap(rules);
    CallMany(200, milliseconds(300));
    dropped[turn] = faults_->counts().dropped_requests;
    duplicated[turn] = faults_->counts().duplicated;
    cut[turn] = faults_->counts().truncated;
  }
  EXPECT_EQ(dropped[0], dropped[1]);
  EXPECT_EQ(duplicated[0], duplicated[1]);
  EXPECT_EQ(cut[0], cut[1]);
}

TEST_P(Faults, OfDataReachItsSenderInOrder) {
  FaultRules rules;
  rules.drop_request = rules.duplicate = rules.truncate = 0.2;
  Wrap(rules);
  const std::string text = Pattern(3000);
  constexpr int kSends = 200;
  std::vector<Mailbox<std::string>> done(kSends);
  for (int i = 0; i < kSends; ++i) {
    EXPECT_EQ(
        to_->StartSend(std::to_string(1000 + i), "", {Span(text)}, &done[static_cast<size_t>(i)], milliseconds(500)),
        "");
  }
  int good = 0;
  for (auto& each : done) {
    const std::string status = each.Take();
    EXPECT_TRUE(status.empty() || CodeOf(status) == "DEADLINE_EXCEEDED") << status;
    good += status.empty() ? 1 : 0;
  }
  const auto& counts = faults_->counts();
  EXPECT_LE(good, kSends - counts.dropped_requests);
  std::string last;
  int short_ones = 0;
  for (int i = 0; i < kSends - counts.dropped_requests + counts.duplicated; ++i) {
    const Placed placed = counting_->placed.Take();
    EXPECT_GE(placed.key, last);
    last = placed.key;
    short_ones += placed.data.size() == text.size() / 2 ? 1 : 0;
  }
  EXPECT_GT(short_ones, 0);
}

TEST_P(Faults, OfAPartitionEndAtDeadlinesUntilItHeals) {
  Wrap({});
  EXPECT_EQ(to_->Call("echo", "before").response, "before");
  faults_->Partition(true);
  CallOptions brief;
  brief.time = milliseconds(30);
  EXPECT_EQ(CodeOf(to_->Call("echo", "during", brief).status), "DEADLINE_EXCEEDED");
  EXPECT_EQ(CodeOf(to_->Send("key", "", {Span("data")}, milliseconds(30))), "DEADLINE_EXCEEDED");
  Stream stream;
  EXPECT_EQ(to_->Open("hold", &stream), "");
  EXPECT_EQ(CodeOf(stream.Write("lost")), "UNAVAILABLE");
  stream.Close(NewStatus(TENON_ABORTED, "given up"));
  EXPECT_EQ(CodeOf(stream.ended.Take()), "ABORTED");
  const std::shared_ptr<Stream> there = counting_->streams.Take();
  EXPECT_EQ(CodeOf(there->ended.Take()), "ABORTED");
  there->Close();
  faults_->Partition(false);
  EXPECT_EQ(to_->Call("echo", "after").response, "after");
  EXPECT_EQ(arrived_, 2);
}

TEST_P(Faults, LetCallsBeCancelledAndConnectionsEnd) {
  FaultRules rules;
  rules.drop_request = 1;
  Wrap(rules);
  Mailbox<Answer> done;
  uint64_t call = 0;
  EXPECT_EQ(to_->Start("echo", {}, &done, &call), "");
  client_->table().cancel(to_->peer, call);
  EXPECT_EQ(CodeOf(done.Take().status), "CANCELLED");
  EXPECT_EQ(to_->Start("echo", {}, &done), "");
  to_->Disconnect();
  EXPECT_EQ(CodeOf(done.Take().status), "CANCELLED");
}

}  // namespace
}  // namespace tenon::transport_testing
