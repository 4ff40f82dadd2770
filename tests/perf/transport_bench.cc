// SPDX-License-Identifier: Apache-2.0
// What transports cost: null round trips, calls a second and bandwidth, beside a bare Unix socketpair and memcpy in the
// same run. The other side of shm is another process; of loopback another endpoint.
#include <benchmark/benchmark.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/transport/other_process.h"
#include "tests/transport/tested.h"

namespace {

using namespace tenon::transport_testing;  // NOLINT: a program of its own
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Echoes calls, and places all data in one piece of memory.
class Lean {
 public:
  Lean(const Transport& transport, const std::string& address) : transport_(transport) {
    events_.struct_size = sizeof events_;
    events_.argument = this;
    events_.call = [](void* self, tenon_peer*, const tenon_incoming* call, tenon_reply* reply) {
      static_cast<Lean*>(self)->transport_.table->respond(reply, nullptr, &call->request, 1, [](void*) {}, nullptr);
    };
    events_.place = [](void* self, tenon_peer*, tenon_span, tenon_span, uint64_t bytes, tenon_bytes* out_memory,
                       void**) {
      std::vector<char>& memory = static_cast<Lean*>(self)->memory_;
      if (memory.size() < bytes) memory.resize(bytes);
      *out_memory = {memory.data(), bytes};
      return static_cast<tenon_status*>(nullptr);
    };
    events_.placed = [](void*, tenon_peer*, void*, tenon_status* status) { Text(status); };
    const tenon_endpoint_options options = {TENON_HEAD(tenon_endpoint_options), Span(address), {}, 0, 0};
    const std::string failed = Text(transport.table->open(transport.self, &options, &events_, &endpoint));
    if (!failed.empty()) std::fprintf(stderr, "%s\n", failed.c_str());
  }
  ~Lean() { transport_.table->stop(endpoint); }
  Lean(const Lean&) = delete;
  Lean& operator=(const Lean&) = delete;
  std::string address() const { return String(transport_.table->address(endpoint)); }

  tenon_endpoint* endpoint = nullptr;

 private:
  const Transport& transport_;
  tenon_endpoint_events events_ = {};
  std::vector<char> memory_;
};

// A connection to an endpoint of this process, or of another.
class Path {
 public:
  explicit Path(const std::string& name) : transport(name), client_(transport, "") {
    std::string address = transport.Address();
    if (name == "loopback") {
      server_ = std::make_unique<Lean>(transport, address);
      address = server_->address();
    } else {
      other_ = std::make_unique<OtherProcess>(name, address);
      address = other_->address();
    }
    Text(transport.table->connect(client_.endpoint, Span(address), After(kPatience), &peer));
  }
  ~Path() { transport.table->disconnect(peer); }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  BuiltTransport transport;
  tenon_peer* peer = nullptr;

 private:
  std::unique_ptr<OtherProcess> other_;
  std::unique_ptr<Lean> server_;
  Lean client_;
};

// Calls that begin each other: `in_flight` chains, from the transport's own thread.
struct Chain {
  void Start() {
    tenon_call_args args = {};
    args.struct_size = sizeof args;
    args.method = Span("null");
    args.pieces = &piece;
    args.piece_count = 1;
    args.deadline_ns = After(kPatience);
    args.argument = this;
    args.done = [](void* argument, tenon_status* status, tenon_span) {
      auto* self = static_cast<Chain*>(argument);
      if (status != nullptr) self->failed = Text(status);
      const int64_t left = self->left.fetch_sub(1) - 1;
      if (left >= self->in_flight && self->failed.empty()) return self->Start();
      if (left == 0 || !self->failed.empty()) self->finished.set_value();
    };
    if (std::string refused = Text(path->transport.table->call(path->peer, &args, nullptr)); !refused.empty())
      failed = refused;
  }
  double Run(int64_t calls) {
    left = calls;
    finished = {};
    const auto begin = Clock::now();
    for (int64_t i = 0; i < in_flight; ++i) Start();
    finished.get_future().wait();
    return SecondsSince(begin);
  }
  Path* path;
  int64_t in_flight;
  tenon_span piece = Span("null");
  std::atomic<int64_t> left{0};
  std::string failed = {};
  std::promise<void> finished = {};
};

void BM_Calls(benchmark::State& state, const std::string& name) {
  Path path(name);
  Chain chain{&path, state.range(0)};
  constexpr int64_t kCalls = 1000;
  double best = chain.Run(kCalls);
  for (auto _ : state) {
    const double seconds = chain.Run(kCalls);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  if (!chain.failed.empty()) state.SkipWithError(chain.failed.c_str());
  state.SetItemsProcessed(state.iterations() * kCalls);
  state.counters["best_call"] = best / kCalls;
  state.counters["one_call"] = benchmark::Counter(static_cast<double>(state.iterations() * kCalls),
                                                  benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

double SecondsOfMemcpy(uint64_t bytes) {
  std::vector<char> from(bytes, 'f'), to(bytes, 't');
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto begin = Clock::now();
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
    best = std::min(best, SecondsSince(begin));
  }
  return best;
}

void BM_Send(benchmark::State& state, const std::string& name) {
  Path path(name);
  const auto bytes = static_cast<uint64_t>(state.range(0));
  const int sends = bytes > 10'000'000 ? 2 : 16;
  const std::string data = Pattern(bytes);
  const tenon_span piece = Span(data);
  Mailbox<std::string> done;
  tenon_send_args args = {TENON_HEAD(tenon_send_args), Span("key"), {}, &piece, 1, 0, nullptr, &done};
  args.done = [](void* argument, tenon_status* status) {
    static_cast<Mailbox<std::string>*>(argument)->Put(Text(status));
  };
  const auto run = [&] {
    const auto begin = Clock::now();
    for (int i = 0; i < sends; ++i) Text(path.transport.table->send(path.peer, &args));
    for (int i = 0; i < sends; ++i) {
      if (const std::string failed = done.Take(); !failed.empty()) state.SkipWithError(failed.c_str());
    }
    return SecondsSince(begin);
  };
  run();
  double best = 1e9;
  for (auto _ : state) {
    const double seconds = run();
    best = std::min(best, seconds / sends);
    state.SetIterationTime(seconds);
  }
  state.SetBytesProcessed(state.iterations() * sends * static_cast<int64_t>(bytes));
  state.counters["of_memcpy"] = SecondsOfMemcpy(bytes) / best;
}

// A child that echoes, or that reads and answers each `bytes` with one byte.
class Bare {
 public:
  Bare(uint64_t bytes, bool echo) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = ends[0];
    child_ = fork();
    if (child_ == 0) {
      close(ends[0]);
      std::vector<char> memory(bytes);
      while (ReadAll(ends[1], memory.data(), bytes)) {
        if (write(ends[1], memory.data(), echo ? bytes : 1) < 0) break;
      }
      _exit(0);
    }
    close(ends[1]);
  }
  ~Bare() {
    close(socket_);
    waitpid(child_, nullptr, 0);
  }
  Bare(const Bare&) = delete;
  Bare& operator=(const Bare&) = delete;
  static bool ReadAll(int from, char* to, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t got = read(from, to + done, bytes - done);
      if (got <= 0) return false;
      done += static_cast<uint64_t>(got);
    }
    return true;
  }
  bool Exchange(const char* data, uint64_t bytes, uint64_t answer) const {
    char back[64];
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t put = write(socket_, data + done, bytes - done);
      if (put <= 0) return false;
      done += static_cast<uint64_t>(put);
    }
    return ReadAll(socket_, back, answer);
  }

 private:
  int socket_ = -1;
  pid_t child_ = -1;
};

void BM_BareRoundTrip(benchmark::State& state) {
  const Bare bare(4, true);
  double best = 1e9;
  for (auto _ : state) {
    const auto begin = Clock::now();
    if (!bare.Exchange("null", 4, 4)) state.SkipWithError("the child is gone");
    best = std::min(best, SecondsSince(begin));
  }
  state.counters["best_call"] = best;
}
void BM_BareSend(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0));
  const Bare bare(bytes, false);
  const std::string data = Pattern(bytes);
  for (auto _ : state) {
    if (!bare.Exchange(data.data(), bytes, 1)) state.SkipWithError("the child is gone");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}
void BM_Memcpy(benchmark::State& state) {
  const auto bytes = static_cast<uint64_t>(state.range(0));
  std::vector<char> from(bytes, 'f'), to(bytes, 't');
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

int Serve(const std::string& name, const std::string& address) {
  const BuiltTransport transport(name);
  const Lean server(transport, address);
  std::printf("%s\n", server.address().c_str());
  std::fflush(stdout);
  char byte = 0;
  while (read(0, &byte, 1) > 0) continue;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "--serve") return Serve(argv[2], argv[3]);
  benchmark::RegisterBenchmark("RoundTrip/socketpair", BM_BareRoundTrip)->UseRealTime();
  for (int64_t bytes : {100'000, 100'000'000}) {
    benchmark::RegisterBenchmark("Send/memcpy", BM_Memcpy)->Arg(bytes)->UseRealTime();
    benchmark::RegisterBenchmark("Send/socketpair", BM_BareSend)->Arg(bytes)->UseRealTime();
  }
  for (const std::string name : {"loopback", "shm", "grpc"}) {
    if (access((std::string(TENON_TEST_BUILD_DIR "/lib/tenon/plugins/tenon_") + name + ".so").c_str(), R_OK) != 0)
      continue;
    for (int64_t in_flight : {1, 64}) {
      benchmark::RegisterBenchmark(("Calls/" + name).c_str(), BM_Calls, name)->Arg(in_flight)->UseManualTime();
    }
    for (int64_t bytes : {100'000, 100'000'000}) {
      benchmark::RegisterBenchmark(("Send/" + name).c_str(), BM_Send, name)->Arg(bytes)->UseManualTime();
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
