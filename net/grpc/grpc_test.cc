// SPDX-License-Identifier: Apache-2.0
// What is gRPC's own: credentials, its standard services, Unix sockets, and peers that die or freeze. tests/transport
// has the rest. Covers H8, I6.
//
// This program links gRPC's shared library for a client of its own; the plugin has another copy inside, so that each
// test also shows that the two live in one process.
#include <arpa/inet.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "tests/transport/tested.h"

namespace tenon::transport_testing {
namespace {

constexpr char kLoopback[] = "grpc://127.0.0.1:0";

const Transport& Grpc() {
  static const BuiltTransport transport("grpc");
  return transport;
}
Endpoint::Options With(const std::string& credentials) {
  Endpoint::Options options;
  options.credentials = credentials;
  return options;
}
struct Connected {
  std::string status;
  tenon_peer* peer = nullptr;
};
Connected Connect(Endpoint& from, const std::string& address, std::chrono::nanoseconds time = kPatience) {
  Connected out;
  out.status = Text(from.table().connect(from.endpoint, Span(address), After(time), &out.peer));
  if (out.peer != nullptr) from.table().disconnect(std::exchange(out.peer, nullptr));
  return out;
}
std::string StatusOf(const std::string& address, const std::string& credentials,
                     std::chrono::nanoseconds time = kPatience) {
  Endpoint client(Grpc(), "", With(credentials));
  if (!client.open_status.empty()) return client.open_status;
  return Connect(client, address, time).status;
}
std::string OpenStatus(const std::string& address, const std::string& credentials) {
  return Endpoint(Grpc(), address, With(credentials)).open_status;
}

// ---- Credentials ----

// A folder with an authority's certificates, and those of another authority.
class Certificates : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    char name[] = "/tmp/tenon_grpc_XXXXXX";
    folder_ = mkdtemp(name);
    for (const std::string authority : {"authority", "stranger"}) {
      Run("req -x509 -subj /CN=" + authority + Out(authority));
      Run("req -x509 -CA " + File(authority + ".pem") + " -CAkey " + File(authority + ".key") + " -subj /CN=" +
          authority + "-task -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:false" +
          Out(authority + "-task"));
    }
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }
  static std::string File(const std::string& name) { return folder_ + "/" + name; }
  static std::string Listener() { return R"({"tls": {)" + Pair("authority-task") + "}}"; }
  static std::string Trusting(const std::string& authority) {
    return R"({"tls": {"authority": ")" + File(authority + ".pem") + R"("}})";
  }
  static std::string Mutual(const std::string& task, const std::string& authority) {
    return R"({"tls": {"mutual": true, "authority": ")" + File(authority + ".pem") + R"(", )" + Pair(task) + "}}";
  }

 private:
  static std::string Pair(const std::string& name) {
    return R"("certificate": ")" + File(name + ".pem") + R"(", "key": ")" + File(name + ".key") + '"';
  }
  static std::string Out(const std::string& name) {
    return " -keyout " + File(name + ".key") + " -out " + File(name + ".pem");
  }
  static void Run(const std::string& arguments) {
    const std::string command = "openssl " + arguments +
                                " -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 2>" +
                                File("openssl.log");
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static inline std::string folder_;
};

TEST_F(Certificates, ProveTheListener) {
  Endpoint server(Grpc(), kLoopback, With(Listener()));
  ASSERT_EQ(server.open_status, "");
  Endpoint client(Grpc(), "", With(Trusting("authority")));
  Peer peer(client, server.address());
  EXPECT_EQ(peer.Call("echo", "hidden").response, "hidden");
  const std::string large = Pattern(5'000'000);
  EXPECT_EQ(peer.Send("key", "", {Span(large)}), "");
  EXPECT_TRUE(server.placed.Take().data == large);
  EXPECT_EQ(CodeOf(StatusOf(server.address(), Trusting("stranger"))), "UNAVAILABLE");
  const std::string plain = StatusOf(server.address(), "{}");
  EXPECT_EQ(CodeOf(plain), "UNAVAILABLE");
  EXPECT_NE(plain.find("it may ask for TLS"), std::string::npos) << plain;
}

TEST_F(Certificates, NameBothSidesWhenMutual) {
  Endpoint server(Grpc(), kLoopback, With(Mutual("authority-task", "authority")));
  ASSERT_EQ(server.open_status, "");
  Endpoint client(Grpc(), "", With(Mutual("authority-task", "authority")));
  Peer peer(client, server.address());
  EXPECT_EQ(peer.Call("echo", "hidden").response, "hidden");
  EXPECT_EQ(String(client.table().peer_name(peer.peer)), "authority-task");
  EXPECT_EQ(String(server.table().peer_name(server.connected.Take())), "authority-task");
}

TEST_F(Certificates, KeepOutWhoProvesNothing) {
  Endpoint server(Grpc(), kLoopback, With(Mutual("authority-task", "authority")));
  ASSERT_EQ(server.open_status, "");
  EXPECT_EQ(CodeOf(StatusOf(server.address(), Trusting("authority"))), "UNAVAILABLE");
  EXPECT_EQ(CodeOf(StatusOf(server.address(), Mutual("stranger-task", "authority"))), "UNAVAILABLE");
  EXPECT_TRUE(server.connected.Empty());
}

// A certificate of the listener's says nothing of who comes in.
TEST_F(Certificates, OfTheListenerAloneDoNotOpenItToOtherHosts) {
  for (const char* address : {"grpc://0.0.0.0:0", "grpc://[::]:0"}) {
    const std::string status = OpenStatus(address, Listener());
    EXPECT_EQ(CodeOf(status), "FAILED_PRECONDITION") << status;
    EXPECT_NE(status.find("everybody who reaches it is let in"), std::string::npos) << status;
  }
}

TEST_F(Certificates, AreCheckedWhenAnEndpointOpens) {
  EXPECT_EQ(CodeOf(OpenStatus("", R"({"tls": {"authority": "/no/such/file"}})")), "NOT_FOUND");
  EXPECT_EQ(CodeOf(OpenStatus("", R"({"tls": {"mutual": true}})")), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(OpenStatus("", R"({"tls": {"key": ")" + File("authority.key") + R"("}})")), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(OpenStatus(kLoopback, Trusting("authority"))), "INVALID_ARGUMENT");  // to listen it needs its own
  EXPECT_EQ(CodeOf(OpenStatus("", R"({"tsl": {}})")), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(OpenStatus("", R"({"tls": {"mutal": true}})")), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(OpenStatus("", R"({"token": 7})")), "INVALID_ARGUMENT");
  EXPECT_EQ(CodeOf(OpenStatus("", "{")), "INVALID_ARGUMENT");
}

TEST(Tokens, LetInWhoHasThem) {
  Endpoint server(Grpc(), kLoopback, With(R"({"token": "open sesame"})"));
  ASSERT_EQ(server.open_status, "");
  EXPECT_EQ(StatusOf(server.address(), R"({"token": "open sesame"})"), "");
  EXPECT_EQ(CodeOf(StatusOf(server.address(), R"({"token": "open sesamf"})")), "UNAUTHENTICATED");
  EXPECT_EQ(CodeOf(StatusOf(server.address(), R"({"token": "open sesameopen sesame"})")), "UNAUTHENTICATED");
  EXPECT_EQ(CodeOf(StatusOf(server.address(), "{}")), "UNAUTHENTICATED");
}

TEST(Tokens, AreNotTakenByAListenerWithoutOne) {
  Endpoint server(Grpc(), kLoopback);
  EXPECT_EQ(CodeOf(StatusOf(server.address(), R"({"token": "open sesame"})")), "UNAUTHENTICATED");
}

TEST(Plaintext, IsRefusedOffThisHostUnlessAskedFor) {
  EXPECT_EQ(CodeOf(OpenStatus("grpc://0.0.0.0:0", "")), "FAILED_PRECONDITION");
  EXPECT_EQ(CodeOf(OpenStatus("grpc://[::]:0", "")), "FAILED_PRECONDITION");
  EXPECT_EQ(CodeOf(StatusOf("grpc://192.0.2.1:80", "")), "FAILED_PRECONDITION");
  EXPECT_EQ(CodeOf(StatusOf("grpc://127.0.0.1.example:80", "")), "FAILED_PRECONDITION");
  EXPECT_EQ(CodeOf(StatusOf("grpc://127.1:80", "")), "FAILED_PRECONDITION");
  // An address that is this host but does not look so.
  Endpoint server(Grpc(), kLoopback);
  const std::string port = server.address().substr(server.address().rfind(':'));
  EXPECT_EQ(CodeOf(StatusOf("grpc://[::ffff:127.0.0.1]" + port, "")), "FAILED_PRECONDITION");
  EXPECT_EQ(StatusOf("grpc://[::ffff:127.0.0.1]" + port, R"({"plaintext": true})"), "");
}

// The host's own name, where it means this host alone (and where it has one that is known).
TEST(Plaintext, IsLetThroughAtTheHostsOwnNameIfThatStaysHere) {
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name - 1), 0);
  addrinfo* found = nullptr;
  if (getaddrinfo(name, nullptr, nullptr, &found) != 0)
    GTEST_SKIP() << "SKIPPED LOUDLY: this host's name, " << name << ", means nothing here";
  bool stays = true;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    char text[NI_MAXHOST] = {};
    getnameinfo(each->ai_addr, each->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
    stays = stays && (std::string(text).starts_with("127.") || std::string(text) == "::1");
  }
  freeaddrinfo(found);
  Endpoint server(Grpc(), std::string("grpc://") + name + ":0");
  EXPECT_EQ(CodeOf(server.open_status), stays ? "" : "FAILED_PRECONDITION") << server.open_status;
  EXPECT_EQ(CodeOf(OpenStatus(std::string("grpc://not-") + name + ":0", "")), "FAILED_PRECONDITION");
}

// ---- Addresses ----

TEST(Addresses, MayBeUnixSockets) {
  const std::string path = "/tmp/tenon_grpc_test_" + std::to_string(getpid());
  {
    Endpoint server(Grpc(), "grpc://" + path);
    ASSERT_EQ(server.open_status, "");
    EXPECT_EQ(server.address(), "grpc://" + path);
    Endpoint client(Grpc());
    Peer peer(client, server.address());
    const std::string large = Pattern(3'000'000);
    EXPECT_TRUE(peer.Call("echo", large).response == large);
  }
  std::filesystem::remove(path);
}

TEST(Addresses, AreCheckedBeforeTheyAreTried) {
  for (const std::string wrong : {"grpc://", "grpc://host", "grpc://host:", "grpc://:1", "grpc://host:65536",
                                  "grpc://host:-1", "grpc://::1:7", "grpc://host:x", "grpc://relative/path"}) {
    EXPECT_EQ(CodeOf(StatusOf(wrong, "")), "INVALID_ARGUMENT") << wrong;
  }
}

// A socket that takes connections and says nothing.
TEST(Addresses, ThatNeverAnswerEndAtTheDeadline) {
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(silent, 5), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&at), &size), 0);
  const std::string address = "grpc://127.0.0.1:" + std::to_string(ntohs(at.sin_port));
  const std::string status = StatusOf(address, "", milliseconds(100));
  EXPECT_EQ(CodeOf(status), "DEADLINE_EXCEEDED");
  EXPECT_NE(status.find(address), std::string::npos) << status;
  close(silent);
}

// ---- gRPC as others speak it ----

// One message to a method and its answer.
struct Answer {
  grpc::Status status;
  std::string message;
};
class Stranger {
 public:
  explicit Stranger(const std::string& address)
      : stub_(grpc::CreateChannel(address.substr(std::string("grpc://").size()), grpc::InsecureChannelCredentials())) {}
  Answer Ask(const std::string& method, const std::string& message, bool versioned = false) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    if (versioned) context.AddMetadata("tenon-pipe", "1");
    const auto stream = stub_.PrepareCall(&context, method, &queue_);
    stream->StartCall(this);
    Next();
    const grpc::Slice slice(message);
    stream->WriteLast(grpc::ByteBuffer(&slice, 1), {}, this);
    Next();
    grpc::ByteBuffer buffer;
    Answer answer;
    stream->Read(&buffer, this);
    if (Next()) {
      grpc::Slice read;
      EXPECT_TRUE(buffer.DumpToSingleSlice(&read).ok());
      answer.message.assign(reinterpret_cast<const char*>(read.begin()), read.size());
    }
    stream->Finish(&answer.status, this);
    Next();
    return answer;
  }

 private:
  bool Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }
  grpc::GenericStub stub_;
  grpc::CompletionQueue queue_;
};

TEST(Strangers, LearnTheHealthOfAListener) {
  Endpoint server(Grpc(), kLoopback, With(R"({"token": "not needed for this"})"));
  Stranger stranger(server.address());
  const Answer serving = stranger.Ask("/grpc.health.v1.Health/Check", "");
  EXPECT_TRUE(serving.status.ok()) << serving.status.error_message();
  EXPECT_EQ(serving.message, std::string("\x08\x01"));
  EXPECT_EQ(stranger.Ask("/grpc.health.v1.Health/Check", "\x0a\x03 no").status.error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(stranger.Ask("/grpc.health.v1.Health/Check", "\x0a").status.error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(stranger.Ask("/grpc.health.v1.Health/Watch", "").status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(Strangers, ListTheServices) {
  Endpoint server(Grpc(), kLoopback);
  Stranger stranger(server.address());
  for (const std::string version : {"v1", "v1alpha"}) {
    const std::string method = "/grpc.reflection." + version + ".ServerReflection/ServerReflectionInfo";
    const Answer list = stranger.Ask(method, std::string("\x3a\x00", 2));
    EXPECT_TRUE(list.status.ok()) << list.status.error_message();
    EXPECT_NE(list.message.find("grpc.health.v1.Health"), std::string::npos);
    EXPECT_NE(stranger.Ask(method, "\x22\x15grpc.health.v1.Health").message.find("HealthCheckResponse"),
              std::string::npos);
    EXPECT_EQ(stranger.Ask(method, "\x22\x04none").message.find("HealthCheckResponse"), std::string::npos);
  }
}

TEST(Strangers, AreSentAwayAndNobodyElseIsHurt) {
  Endpoint server(Grpc(), kLoopback), client(Grpc());
  Peer honest(client, server.address());
  server.connected.Take();
  Stranger stranger(server.address());
  EXPECT_EQ(stranger.Ask("/another.Service/Method", "x").status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(stranger.Ask("/tenon.Transport/Pipe", "x").status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(server.connected.Empty());
  stranger.Ask("/tenon.Transport/Pipe", std::string(100, '\xff'), true);
  EXPECT_EQ(CodeOf(server.lost.Take()), "INVALID_ARGUMENT");
  stranger.Ask("/tenon.Transport/Pipe", std::string("\x05\0\0", 3), true);  // ends within a frame's sizes
  EXPECT_EQ(CodeOf(server.lost.Take()), "UNAVAILABLE");
  EXPECT_EQ(honest.Call("echo", "still here").response, "still here");
}

// ---- Callbacks that take long ----

TEST(Callbacks, ThatWaitDoNotStopOtherConnections) {
  Mailbox<int> go;
  Endpoint::Options options;
  Endpoint* answering = nullptr;
  options.on_call = [&](tenon_peer*, const Incoming& call, tenon_reply* reply) {
    if (call.method == "go") {
      go.Put(1);
    } else {
      EXPECT_EQ(go.Take(), 1);
    }
    answering->Respond(reply, "done");
  };
  Endpoint server(Grpc(), kLoopback, options), client(Grpc());
  answering = &server;
  Peer one(client, server.address()), other(client, server.address());
  Mailbox<testing::Answer> waited;
  EXPECT_EQ(one.Start("wait", {}, &waited), "");
  EXPECT_EQ(other.Call("go", "").response, "done");
  EXPECT_EQ(waited.Take().response, "done");
}

TEST(Callbacks, MayConnect) {
  Endpoint third(Grpc(), kLoopback);
  Mailbox<std::string> status;
  Endpoint::Options options;
  Endpoint* answering = nullptr;
  options.on_call = [&](tenon_peer*, const Incoming&, tenon_reply* reply) {
    tenon_peer* peer = nullptr;
    status.Put(Text(answering->table().connect(answering->endpoint, Span(third.address()), After(kPatience), &peer)));
    answering->Respond(reply, "");
    std::thread([=] { answering->table().disconnect(peer); }).detach();
  };
  Endpoint client(Grpc());
  {
    Endpoint server(Grpc(), kLoopback, options);
    answering = &server;
    Peer peer(client, server.address());
    EXPECT_EQ(peer.Call("connect", "").status, "");
    EXPECT_EQ(status.Take(), "");
    EXPECT_EQ(CodeOf(third.lost.Take()), "UNAVAILABLE");
  }
}

// ---- Peers that die or freeze ----

// This program again, in a role of below; killed at the end.
class Child {
 public:
  Child(const char* role, const std::string& address) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const std::string out = std::to_string(ends[1]);
    const std::string filter = std::string("--gtest_filter=Roles.DISABLED_") + role;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      setenv("TENON_TEST_OUT", out.c_str(), 1);
      setenv("TENON_TEST_ADDRESS", address.c_str(), 1);
      execl("/proc/self/exe", "grpc_test", filter.c_str(), "--gtest_also_run_disabled_tests", "--gtest_brief=1",
            static_cast<char*>(nullptr));
      _exit(1);
    }
    close(ends[1]);
    char text[256] = {};
    EXPECT_GT(read(ends[0], text, sizeof text - 1), 0) << "the other process did not come up";
    said = text;
    close(ends[0]);
  }
  ~Child() {
    Signal(SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  // A stopped process stands still when this returns.
  void Signal(int signal) const {
    EXPECT_EQ(kill(pid_, signal), 0);
    int status = 0;
    if (signal == SIGSTOP) {
      EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    }
  }
  std::string said;

 private:
  pid_t pid_;
};
void SayAndWait(const std::string& text) {
  const int out = std::atoi(std::getenv("TENON_TEST_OUT"));
  EXPECT_EQ(write(out, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  for (;;) pause();
}
TEST(Roles, DISABLED_Listen) {
  Endpoint server(Grpc(), std::getenv("TENON_TEST_ADDRESS"));
  SayAndWait(server.address());
}
TEST(Roles, DISABLED_Connect) {
  Endpoint client(Grpc());
  Peer peer(client, std::getenv("TENON_TEST_ADDRESS"));
  SayAndWait("connected");
}

// Calls and data that are under way when the other side is hit; all must end.
void EndAllWhenHit(int signal, uint64_t bytes) {
  const Child child("Listen", kLoopback);
  Endpoint client(Grpc());
  Peer peer(client, child.said);
  EXPECT_EQ(peer.Call("echo", "there").response, "there");
  child.Signal(signal);
  const std::string large = Pattern(bytes);
  std::vector<Mailbox<std::string>> sent(3);
  std::vector<Mailbox<testing::Answer>> called(100);
  for (auto& mailbox : sent) EXPECT_EQ(peer.StartSend("key", "", {Span(large)}, &mailbox), "");
  for (auto& mailbox : called) peer.Start("hold", {}, &mailbox);
  for (auto& mailbox : sent) EXPECT_EQ(CodeOf(mailbox.Take()), "UNAVAILABLE");
  for (auto& mailbox : called) EXPECT_EQ(CodeOf(mailbox.Take().status), "UNAVAILABLE");
  EXPECT_EQ(CodeOf(client.lost.Take()), "UNAVAILABLE");
}
TEST(Peers, ThatFreezeAreNoticed) { EndAllWhenHit(SIGSTOP, 10); }
TEST(Peers, ThatFreezeAreNoticedWhenTheirSocketIsFull) { EndAllWhenHit(SIGSTOP, 50'000'000); }

TEST(Peers, ThatDieAreNoticed) {
  const Child child("Listen", kLoopback);
  Endpoint client(Grpc());
  Peer peer(client, child.said);
  Mailbox<testing::Answer> called;
  EXPECT_EQ(peer.Start("hold", {}, &called), "");
  child.Signal(SIGKILL);
  EXPECT_EQ(CodeOf(called.Take().status), "UNAVAILABLE");
  EXPECT_EQ(CodeOf(client.lost.Take()), "UNAVAILABLE");
}

TEST(Peers, ThatComeAgainAreFoundAtOnce) {
  Endpoint client(Grpc());
  std::string address = kLoopback;
  for (int i = 0; i < 5; ++i) {
    const Child child("Listen", address);
    address = child.said;
    Peer peer(client, address);
    EXPECT_EQ(peer.Call("echo", "again").response, "again");
    child.Signal(SIGKILL);
    EXPECT_EQ(CodeOf(client.lost.Take()), "UNAVAILABLE");
    EXPECT_EQ(CodeOf(Connect(client, address).status),
              "UNAVAILABLE");  // a failure that the next connection does not wait for
  }
}

TEST(Peers, ThatConnectedAndFreezeOrDieAreNoticed) {
  for (const int signal : {SIGSTOP, SIGKILL}) {
    Endpoint server(Grpc(), kLoopback);
    const Child child("Connect", server.address());
    EXPECT_EQ(child.said, "connected");
    server.connected.Take();
    child.Signal(signal);
    EXPECT_EQ(CodeOf(server.lost.Take()), "UNAVAILABLE");
  }
}

}  // namespace
}  // namespace tenon::transport_testing
