// SPDX-License-Identifier: Apache-2.0
// A worker whose port gets messages that no honest master sends: random, truncated, mutated ones, and data under random keys. It
// stays, its memory does not grow, and it answers honest ones.
#include <fstream>
#include <random>

#include "net/cluster/cluster.pb.h"
#include "tests/cluster/processes.h"
#include "tests/transport/tested.h"

namespace tenon::engine {
namespace {

using namespace transport_testing;  // NOLINT: tests drive the transport's table alone

// TENON_HOSTILE=1000000 tries more.
int Messages() {
  const char* wished = std::getenv("TENON_HOSTILE");
  return wished == nullptr ? 20000 : std::atoi(wished);
}

std::string Packet(const google::protobuf::MessageLite& head, const std::string& rest = "") {
  const std::string text = head.SerializeAsString();
  const auto size = static_cast<uint32_t>(text.size());
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  out += text;
  out.append((64 - out.size() % 64) % 64, '\0');
  return out + rest;
}

int64_t ResidentKilobytes(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::atoll(line.c_str() + 6);
  return -1;
}

class Attacker {
 public:
  explicit Attacker(uint64_t incarnation) : random_(7), incarnation_(incarnation) {}

  std::string Method() {
    static const char* const methods[] = {"hello", "open", "part", "run", "ping", "close", "", "run\n", "nonsense"};
    return methods[random_() % 9];
  }
  std::string Message(const std::string& method) {
    std::string text = random_() % 8 == 0 ? Bytes(random_() % 300) : Plausible(method);
    for (uint32_t changes = random_() % 4; changes > 0 && !text.empty(); --changes) text[random_() % text.size()] = static_cast<char>(random_());
    if (random_() % 4 == 0 && !text.empty()) text.resize(random_() % text.size());
    return text;
  }
  std::string Bytes(size_t count) {
    std::string out(count, '\0');
    for (char& byte : out) byte = static_cast<char>(random_());
    return out;
  }
  std::mt19937& random() { return random_; }

 private:
  // What an honest master might send, with numbers that it would not.
  std::string Plausible(const std::string& method) {
    const auto number = [this] { return random_() % 3 == 0 ? random_() : random_() % 3; };
    if (method == "open") {
      cluster::OpenSession head;
      head.set_session(number());
      head.set_incarnation(incarnation_);
      static const char* const kNames[] = {"memory_limit", "executor", "precision", "compile", "debug.one_queue", "debug.partition", "master", "", "telepathy"};
      for (uint32_t i = random_() % 4; i > 0; --i) {
        cluster::SessionOption& option = *head.add_options();
        option.set_name(kNames[random_() % std::size(kNames)]);
        option.set_number(number());
        if (random_() % 4 == 0) option.set_text(Bytes(random_() % 40));
      }
      head.set_lease_ns(50'000'000);
      return Packet(head);
    }
    if (method == "part") {
      cluster::RegisterPart head;
      head.set_session(number());
      head.set_part(number());
      head.set_graph(Bytes(random_() % 100));
      for (uint32_t i = random_() % 4; i > 0; --i) head.add_node_channels(static_cast<int32_t>(random_()));
      for (uint32_t i = random_() % 4; i > 0; --i) head.add_targets(static_cast<int32_t>(random_()));
      return Packet(head);
    }
    if (method == "run") {
      cluster::RunPart head;
      head.set_session(number());
      head.set_part(number());
      head.set_step(number());
      cluster::TensorHead& feed = *head.add_feeds();
      feed.set_dtype(number() % 30);
      for (uint32_t i = random_() % 300; i > 0; i /= 2) feed.add_dims(static_cast<int64_t>(number()) << (random_() % 40));
      feed.set_bytes(number());
      return Packet(head, Bytes(random_() % 200));
    }
    cluster::SessionRequest head;
    head.set_session(number());
    return Packet(head);
  }

  std::mt19937 random_;
  const uint64_t incarnation_;
};

constexpr uint32_t kProtocol = 4;  // of net/cluster/protocol.h

class HostileTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, HostileTest, ::testing::ValuesIn(BuiltTransports()), [](const auto& info) { return std::string(info.param); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(HostileTest);

TEST_P(HostileTest, MessagesNeitherEndNorFeedAWorker) {
  const Processes tasks(GetParam(), {{"worker", 1}});
  ASSERT_TRUE(tasks.ok());
  const BuiltTransport transport(GetParam());
  Endpoint client(transport);
  Peer peer(client, tasks.address(0));
  cluster::HelloRequest hello;
  hello.set_protocol(kProtocol);
  const auto greet = [&] {
    const auto outcome = peer.Call("hello", Packet(hello));
    EXPECT_EQ(outcome.status, "");
    cluster::HelloReply reply;
    uint32_t size = 0;
    if (outcome.response.size() < 4) return uint64_t{0};
    std::memcpy(&size, outcome.response.data(), 4);
    EXPECT_TRUE(reply.ParseFromString(outcome.response.substr(4, size)));
    return uint64_t{reply.incarnation()};
  };
  const uint64_t incarnation = greet();
  ASSERT_NE(incarnation, 0u);
  Attacker attacker(incarnation);
  const auto attack = [&](int messages) {
    for (int i = 0; i < messages; ++i) {
      if (i % 5 == 4) {
        const std::string data = attacker.Bytes(attacker.random()() % 500);
        (void)peer.Send(attacker.Bytes(attacker.random()() % 64), attacker.Bytes(attacker.random()() % 80), {Span(data)});
      } else {
        const std::string method = attacker.Method();
        (void)peer.Call(method, attacker.Message(method));
      }
    }
  };
  attack(Messages() / 4);
  const int64_t before = ResidentKilobytes(tasks.process(0));
  attack(Messages() * 3 / 4);
  const int64_t after = ResidentKilobytes(tasks.process(0));
  EXPECT_EQ(greet(), incarnation) << "it was started again";
  EXPECT_GT(before, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep freed memory aside
  EXPECT_LT(after - before, 32 * 1024) << "kB, from " << before << " to " << after;
#else
  EXPECT_GT(after, 0);
#endif
}

TEST_P(HostileTest, AMasterOfAnotherProtocolIsToldBothVersions) {
  const Processes tasks(GetParam(), {{"worker", 1}});
  ASSERT_TRUE(tasks.ok());
  const BuiltTransport transport(GetParam());
  Endpoint client(transport);
  Peer peer(client, tasks.address(0));
  cluster::HelloRequest hello;
  hello.set_protocol(kProtocol + 1);
  hello.set_version("9.8.7");
  const std::string status = peer.Call("hello", Packet(hello)).status;
  EXPECT_NE(status.find("the master (9.8.7) speaks protocol 5, this worker (0.1.0) 4"), std::string::npos) << status;
}

// The worker's start, as it tells it.
uint64_t IncarnationOf(Peer& peer) {
  cluster::HelloRequest hello;
  hello.set_protocol(kProtocol);
  const auto outcome = peer.Call("hello", Packet(hello));
  cluster::HelloReply reply;
  uint32_t size = 0;
  if (outcome.response.size() < 4) return 0;
  std::memcpy(&size, outcome.response.data(), 4);
  EXPECT_TRUE(reply.ParseFromString(outcome.response.substr(4, size)));
  return reply.incarnation();
}

// option: one that the session is asked for; "" for none.
std::string Open(Peer& peer, uint64_t session, const std::string& owner, const std::string& secret, const std::string& option = "") {
  cluster::OpenSession head;
  head.set_session(session);
  head.set_incarnation(IncarnationOf(peer));
  head.set_owner(owner);
  head.set_owner_secret(secret);
  if (!option.empty()) head.add_options()->set_name(option);
  return peer.Call("open", Packet(head)).status;
}

std::string Ping(Peer& peer, uint64_t session) {
  cluster::SessionRequest head;
  head.set_session(session);
  return peer.Call("ping", Packet(head)).status;
}

TEST_P(HostileTest, AnOwnersNameAloneEndsNoSession) {
  const Processes tasks(GetParam(), {{"worker", 1}});
  ASSERT_TRUE(tasks.ok());
  const BuiltTransport transport(GetParam());
  Endpoint client(transport);
  Peer own(client, tasks.address(0)), stranger(client, tasks.address(0));
  ASSERT_EQ(Open(own, 1, "training", "secret"), "");
  const std::string refused = Open(stranger, 2, "training", "secreT");
  EXPECT_NE(refused.find("opened with another secret"), std::string::npos) << refused;
  EXPECT_EQ(Ping(own, 1), "") << "it was ended";
  const std::string unknown = Open(own, 4, "training", "secret", "telepathy");
  EXPECT_NE(unknown.find("the session option 'telepathy' is not known here"), std::string::npos) << unknown;
  EXPECT_EQ(Ping(own, 1), "") << "it was ended for a session that was refused";
  EXPECT_EQ(Open(own, 3, "training", "secret"), "");
  EXPECT_NE(Ping(own, 1).find("has no session 1"), std::string::npos);
  EXPECT_EQ(Ping(own, 3), "");
}

// A worker would send its values, and the token that proves it, to wherever a master says.
TEST_P(HostileTest, ATaskOfNoClusterIsNotReached) {
  const Processes tasks(GetParam(), {{"worker", 1}});
  ASSERT_TRUE(tasks.ok());
  const BuiltTransport transport(GetParam());
  Endpoint client(transport);
  Peer peer(client, tasks.address(0));
  ASSERT_EQ(Open(peer, 1, "", ""), "");
  cluster::RegisterPart head;
  head.set_session(1);
  head.set_part(1);
  cluster::Task& elsewhere = *head.add_tasks();
  elsewhere.set_name("/job:worker/replica:0/task:0");
  elsewhere.set_address("grpc://192.0.2.1:80");
  head.add_parts(1);
  const std::string refused = peer.Call("part", Packet(head)).status;
  EXPECT_NE(refused.find("has no task /job:worker/replica:0/task:0 at grpc://192.0.2.1:80"), std::string::npos) << refused;
}

}  // namespace
}  // namespace tenon::engine
