// SPDX-License-Identifier: Apache-2.0
// A worker whose port gets messages that no honest master sends: random, truncated, mutated ones, and data under random
// keys. It stays, its memory does not grow, and it answers honest ones.
#include <fstream>
#include <random>

#include "net/cluster/cluster.pb.h"
#include "tenon/dtype.h"
#include "tenon/bytes/wire.h"
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
    for (uint32_t changes = random_() % 4; changes > 0 && !text.empty(); --changes)
      text[random_() % text.size()] = static_cast<char>(random_());
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
      static const char* const kNames[] = {"memory_limit",    "executor", "precision", "compile",  "debug.one_queue",
                                           "debug.partition", "master",   "",          "telepathy"};
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
      for (uint32_t i = random_() % 300; i > 0; i /= 2)
        feed.add_dims(static_cast<int64_t>(number()) << (random_() % 40));
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

constexpr uint32_t kProtocol = 5;  // of net/cluster/protocol.h

class HostileTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Over, HostileTest, ::testing::ValuesIn(BuiltTransports()),
                         [](const auto& info) { return std::string(info.param); });
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
        (void)peer.Send(attacker.Bytes(attacker.random()() % 64), attacker.Bytes(attacker.random()() % 80),
                        {Span(data)});
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
  EXPECT_NE(status.find("the master (9.8.7) speaks protocol 6, this worker (0.1.0) 5"), std::string::npos) << status;
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
std::string Open(Peer& peer, uint64_t session, const std::string& owner, const std::string& secret,
                 const std::string& option = "") {
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
  EXPECT_NE(refused.find("has no task /job:worker/replica:0/task:0 at grpc://192.0.2.1:80"), std::string::npos)
      << refused;
}

// Numbers side by side.
template <typename... Numbers>
std::string Packed(Numbers... numbers) {
  std::string out;
  (out.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return out;
}

// A part of two nodes: what comes from another task on channel 0, of type `dtype`, and `op` of it.
std::string PartGraph(uint32_t dtype, const char* op) {
  const auto node = [](std::string_view name, std::string_view of, std::string_view input,
                       const std::vector<std::pair<std::string_view, sdk::WireWriter>>& attrs) {
    sdk::WireWriter made, graph;
    made.Bytes(1, name);
    made.Bytes(2, of);
    if (!input.empty()) made.Bytes(3, input);
    for (const auto& [key, value] : attrs) {
      sdk::WireWriter attr;
      attr.Bytes(1, key);
      attr.Bytes(2, value.bytes());
      made.Bytes(5, attr.bytes());
    }
    graph.Bytes(1, made.bytes());
    return graph.bytes();
  };
  sdk::WireWriter type, text, number;
  type.Varint(6, dtype);
  text.Bytes(2, "/job:worker/replica:0/task:1/device:CPU:0");
  number.Varint(3, 1);
  std::vector<std::pair<std::string_view, sdk::WireWriter>> of_op;
  if (dtype != TENON_DT_VARIANT) of_op.emplace_back("T", type);
  return node("came", "_Recv", "",
              {{"tensor_type", type},
               {"tensor_name", text},
               {"send_device", text},
               {"send_device_incarnation", number},
               {"recv_device", text}}) +
         node("read", op, "came", of_op);
}

// A scalar of one list, of float; `places` follow.
std::string ListOf(uint64_t count, uint64_t told, const std::string& places,
                   const std::string& type = "tenon.TensorList",
                   const std::string& metadata = Packed(int64_t{TENON_DT_FLOAT}, int64_t{-1}, int64_t{-1})) {
  std::string out =
      Packed(static_cast<uint32_t>(type.size()), static_cast<uint32_t>(metadata.size()), count, told) + type + metadata;
  out.append((8 - out.size() % 8) % 8, '\0');
  return out + places;
}

// What a peer says of a list that it sends: lies about types, counts, shapes and sizes are refused by name, to whoever
// waits for the step, and the worker goes on.
TEST_P(HostileTest, AListThatIsNoneEndsItsStepAlone) {
  const Processes tasks(GetParam(), {{"worker", 2}}, {"--threads=1", "--memory-limit=16M"});
  ASSERT_TRUE(tasks.ok());
  const BuiltTransport transport(GetParam());
  Endpoint client(transport);
  Peer peer(client, tasks.address(0)), other(client, tasks.address(1));
  ASSERT_EQ(Open(peer, 1, "", ""), "");
  const auto add_part = [&](uint32_t number, uint32_t dtype, const char* op) {
    cluster::RegisterPart head;
    head.set_session(1);
    head.set_part(number);
    head.set_graph(PartGraph(dtype, op));
    for (const int channel : {0, -1}) head.add_node_channels(channel);
    for (int i = 0; i < 2; ++i) head.add_nodes_may_be_dead(false);
    cluster::Channel& channel = *head.add_channels();
    channel.set_name("c");
    channel.set_from(1);
    for (const int task : {0, 1}) {
      cluster::Task& named = *head.add_tasks();
      named.set_name("/job:worker/replica:0/task:" + std::to_string(task));
      named.set_address(tasks.address(static_cast<size_t>(task)));
      named.set_incarnation(IncarnationOf(task == 0 ? peer : other));
      head.add_parts(number + static_cast<uint32_t>(task) * 100);
    }
    head.add_fetches()->set_node(1);
    return peer.Call("part", Packet(head)).status;
  };
  ASSERT_EQ(add_part(1, TENON_DT_VARIANT, "TensorListLength"), "");
  ASSERT_EQ(add_part(2, TENON_DT_FLOAT, "Neg"), "");
  uint64_t step = 0;
  const auto run = [&](uint32_t part, const std::string& head, const std::string& body) {
    cluster::RunPart asked;
    asked.set_session(1);
    asked.set_part(part);
    asked.set_step(++step);
    Mailbox<Answer> done;
    const std::string packet = Packet(asked);
    EXPECT_EQ(peer.Start("run", {Span(packet)}, &done), "");
    (void)peer.Send(Packed(uint64_t{1}, step, part, int32_t{0}), head, {Span(body)});
    return done.Take();
  };
  const std::string scalar = Packed(uint32_t{TENON_DT_VARIANT}),
                    float_place = Packed(uint32_t{TENON_DT_FLOAT}, uint32_t{0}, uint64_t{4}, 1.5f);
  const auto length_of = [&](const std::string& body) {
    const Answer answer = run(1, scalar, body);
    EXPECT_EQ(answer.status, "");
    return answer.status.empty() && answer.response.size() >= 4 ? int{answer.response[answer.response.size() - 64]}
                                                                : -1;
  };
  const auto refused = [&](uint32_t part, const std::string& head, const std::string& body, const std::string& why) {
    const std::string status = run(part, head, body).status;
    EXPECT_NE(status.find(why), std::string::npos) << "wanted: " << why << "\nsaid: " << status;
    EXPECT_NE(status.find("a value from task "), std::string::npos) << status;
  };
  constexpr uint64_t kHuge = uint64_t{1} << 50, kMany = uint64_t{1} << 35;
  EXPECT_EQ(length_of(ListOf(3, 0, "")), 3);
  // What is waited for is another type.
  refused(1, Packed(uint32_t{TENON_DT_FLOAT}), Packed(1.0f), "a value of float comes where a variant is waited for");
  refused(2, scalar, ListOf(3, 0, ""), "a value of variant comes where no variants are waited for");
  // What is said to be there is not.
  refused(1, Packed(uint32_t{TENON_DT_VARIANT}, int64_t{1000}), ListOf(3, 0, ""), "a value of 8000 bytes comes with");
  refused(1, Packed(uint32_t{TENON_DT_VARIANT}, int64_t{2}), ListOf(3, 0, ""), "");
  refused(1, scalar, ListOf(kHuge, 0, ""), "is said to have 1125899906842624 places");
  refused(1, scalar, ListOf(kMany, kMany, ""), "34359738368 places");
  refused(1, scalar, ListOf(1, 2, float_place), "is said to have 1 places, of which 2 follow");
  refused(1, scalar,
          ListOf(1, 1, Packed(uint32_t{TENON_DT_FLOAT}, uint32_t{1}, uint64_t{1} << 32, int64_t{1} << 30, uint64_t{0})),
          "an element of 4294967296 bytes is said to have 4294967296");
  refused(1, scalar,
          ListOf(1, 1, Packed(uint32_t{TENON_DT_FLOAT}, uint32_t{1}, uint64_t{4}, int64_t{-1}) + std::string(16, '\0')),
          "an element has the shape");
  refused(1, scalar,
          ListOf(1, 1, Packed(uint32_t{TENON_DT_STRING}, uint32_t{0}, uint64_t{16}, uint64_t{16}, uint64_t{1} << 30)),
          "string 0 lies outside of its tensor");
  refused(1, scalar, ListOf(1, 1, Packed(uint32_t{TENON_DT_RESOURCE}, uint32_t{0}, uint64_t{8}, uint64_t{7})),
          "an element of type resource came from another process");
  refused(1, scalar, "", "a value of 8 bytes comes with 0");
  // What its owner knows better.
  refused(1, scalar, ListOf(1, 1, Packed(uint32_t{TENON_DT_INT32}, uint32_t{0}, uint64_t{4}, int32_t{1})),
          "element 0 is of type int32; the list holds float");
  refused(1, scalar, ListOf(3, 0, "", "tenon.TensorList", "short"),
          "no tenon.TensorList: the metadata of a list end after 5 bytes");
  refused(1, scalar, ListOf(3, 0, "", "tenon.TensorList", Packed(int64_t{1}, int64_t{-1}, int64_t{1} << 40)),
          "the elements of a list have 1099511627776 dims");
  refused(1, scalar, ListOf(3, 0, "", "tenon.Optional", "some"), "no tenon.Optional: of 3 tensors it has 0");
  refused(1, scalar, ListOf(0, 0, "", "tenon.Optional", "maybe"), "say neither that it has a value");
  refused(1, scalar, ListOf(3, 0, "", "tenon.Dataset/1", "x"),
          "a variant of type 'tenon.Dataset/1' came, which no plugin here says how to make anew");
  EXPECT_EQ(length_of(ListOf(7, 1, float_place)), 7);
  EXPECT_EQ(run(2, Packed(uint32_t{TENON_DT_FLOAT}), Packed(2.0f)).status, "");
}

}  // namespace
}  // namespace tenon::engine
