// SPDX-License-Identifier: Apache-2.0
// net/grpc beside bare gRPC, in turn in the same run: a round trip of nothing, and 100 MB one way with an answer of one
// byte.
//
// Bare is what one would write by hand for speed: a completion queue, one bidirectional stream, byte buffers over
// static slices; it leaves what it received in gRPC's slices, where the plugin puts it into memory that the receiver
// chose. The other side is a process of its own. x_bare is the bare side's time over the plugin's: more is better, 1 is
// as fast.
#include <benchmark/benchmark.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/transport/tested.h"

namespace {

using namespace tenon::transport_testing;  // NOLINT: a program of its own

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "grpc_bench: %s\n", why.c_str());
  std::_Exit(1);
}
void Check(tenon_status* status) {
  if (status != nullptr) Die(Text(status));
}

// ---- The plugin ----

const tenon_transport* Grpc() {
  static const BuiltTransport transport("grpc");
  return transport.table;
}

// Takes calls, answered with what they brought, and data, which all goes to one place.
tenon_endpoint* OpenEndpoint(const char* address, std::vector<char>* place) {
  static tenon_endpoint_events events = {};
  events.struct_size = sizeof events;
  events.argument = place;
  events.call = [](void*, tenon_peer*, const tenon_incoming* call, tenon_reply* reply) {
    Grpc()->respond(reply, nullptr, &call->request, 1, nullptr, nullptr);
  };
  events.place = [](void* argument, tenon_peer*, tenon_span, tenon_span, uint64_t bytes, tenon_bytes* memory,
                    void**) -> tenon_status* {
    auto* to = static_cast<std::vector<char>*>(argument);
    if (bytes > to->size()) return NewStatus(TENON_RESOURCE_EXHAUSTED, "too large");
    *memory = {to->data(), bytes};
    return nullptr;
  };
  events.placed = [](void*, tenon_peer*, void*, tenon_status* status) { Check(status); };
  tenon_endpoint_options options = {};
  options.struct_size = sizeof options;
  options.address = {address, std::strlen(address)};
  tenon_endpoint* endpoint = nullptr;
  Check(Grpc()->open(nullptr, &options, &events, &endpoint));
  return endpoint;
}

class Ours {
 public:
  explicit Ours(const std::string& address) : endpoint_(OpenEndpoint("", nullptr)) {
    Check(Grpc()->connect(endpoint_, Span(address), 0, &peer_));
  }
  void RoundTrip() {
    Mailbox<Answer> done;
    tenon_call_args args = {};
    args.struct_size = sizeof args;
    args.method = TENON_SPAN("echo");
    args.argument = &done;
    args.done = PutAnswer;
    Check(Grpc()->call(peer_, &args, nullptr));
    if (const std::string status = done.Take().status; !status.empty()) Die(status);
  }
  void OneWay(const std::vector<char>& bytes) {
    std::promise<tenon_status*> done;
    const tenon_span piece = {bytes.data(), bytes.size()};
    tenon_send_args args = {};
    args.struct_size = sizeof args;
    args.key = TENON_SPAN("k");
    args.pieces = &piece;
    args.piece_count = 1;
    args.argument = &done;
    args.done = [](void* argument, tenon_status* status) {
      static_cast<std::promise<tenon_status*>*>(argument)->set_value(status);
    };
    Check(Grpc()->send(peer_, &args));
    Check(done.get_future().get());
  }

 private:
  tenon_endpoint* endpoint_;
  tenon_peer* peer_ = nullptr;
};

// ---- Bare gRPC ----

grpc::ByteBuffer Buffer(const char* data, size_t size) {
  const grpc::Slice slice(data, size, grpc::Slice::STATIC_SLICE);
  return grpc::ByteBuffer(&slice, 1);
}

class Bare {
 public:
  explicit Bare(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    stream_ = stub_->Call(&context_, "/bare/Echo", &queue_, this);
    Next();
  }
  // An answer of at most one byte to what is sent.
  void Exchange(const char* data, size_t size) {
    stream_->Write(Buffer(data, size), this);
    stream_->Read(&answer_, this);
    Next();
    Next();
  }

 private:
  void Next() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok) || !ok) Die("bare gRPC failed");
  }
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer answer_;
};

[[noreturn]] void ServeBare() {
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  builder.RegisterAsyncGenericService(&service);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream(&context);
  int read = 0, write = 0;
  service.RequestCall(&context, &stream, queue.get(), queue.get(), &write);
  std::printf("127.0.0.1:%d\n", port);
  std::fflush(stdout);
  grpc::ByteBuffer message;
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok) && ok) {
    if (tag == &read) {
      stream.Write(Buffer("x", std::min<size_t>(message.Length(), 1)), &write);
    } else {
      stream.Read(&message, &read);
    }
  }
  std::_Exit(0);
}

[[noreturn]] void ServeOurs() {
  static std::vector<char> place(size_t{128} << 20);
  const tenon_span address = Grpc()->address(OpenEndpoint("grpc://127.0.0.1:0", &place));
  std::printf("%.*s\n", static_cast<int>(address.size), address.data);
  std::fflush(stdout);
  for (;;) pause();
}

// ---- Both ----

// Starts this program as the other side, which ends with it. What it listens at.
std::vector<pid_t> others;
std::string StartOther(const char* role) {
  int ends[2];
  if (pipe(ends) != 0) Die("no pipe");
  others.push_back(fork());
  if (others.back() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(ends[1], 1);
    execl("/proc/self/exe", "grpc_bench", role, static_cast<char*>(nullptr));
    std::_Exit(1);
  }
  close(ends[1]);
  char line[256];
  std::FILE* file = fdopen(ends[0], "r");
  if (std::fgets(line, sizeof line, file) == nullptr) Die("the other side did not start");
  std::fclose(file);
  return std::string(line, std::strcspn(line, "\n"));
}

struct Pair {
  Pair() : bare(StartOther("--bare")), ours(StartOther("--ours")) {}
  Bare bare;
  Ours ours;
};
Pair& Sides() {
  static Pair pair;
  return pair;
}

double Median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Processor time of this process and the others.
double CpuSeconds() {
  double seconds = 0;
  for (const pid_t pid : others) {
    clockid_t clock;
    timespec time = {};
    if (clock_getcpuclockid(pid, &clock) == 0) clock_gettime(clock, &time);
    seconds += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  timespec own = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  return seconds + static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec);
}

// Runs the two in turn; the median of each. x_bare_cpu: the same of processor time of both sides, which a busy machine
// changes less.
template <class BareFunction, class OursFunction>
void Compare(benchmark::State& state, BareFunction bare_function, OursFunction ours_function) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> bare, ours;
  double bare_cpu = 0, ours_cpu = 0;
  for (auto _ : state) {
    const double cpu_begin = CpuSeconds();
    const auto begin = Clock::now();
    bare_function();
    const auto middle = Clock::now();
    const double cpu_middle = CpuSeconds();
    const auto second = Clock::now();
    ours_function();
    const auto end = Clock::now();
    bare_cpu += cpu_middle - cpu_begin;
    ours_cpu += CpuSeconds() - cpu_middle;
    bare.push_back(std::chrono::duration<double>(middle - begin).count());
    ours.push_back(std::chrono::duration<double>(end - second).count());
  }
  const double of_bare = Median(bare), of_ours = Median(ours);
  state.counters["bare_us"] = of_bare * 1e6;
  state.counters["ours_us"] = of_ours * 1e6;
  state.counters["x_bare"] = of_bare / of_ours;
  state.counters["x_bare_cpu"] = bare_cpu / ours_cpu;
}

void RoundTrip(benchmark::State& state) {
  Pair& sides = Sides();
  Compare(
      state, [&] { sides.bare.Exchange("", 0); }, [&] { sides.ours.RoundTrip(); });
}
BENCHMARK(RoundTrip)->Iterations(5000)->UseRealTime();

void OneWay(benchmark::State& state) {
  Pair& sides = Sides();
  const std::vector<char> bytes(static_cast<size_t>(state.range(0)), 'x');
  Compare(
      state, [&] { sides.bare.Exchange(bytes.data(), bytes.size()); }, [&] { sides.ours.OneWay(bytes); });
}
BENCHMARK(OneWay)->ArgName("bytes")->Arg(100'000)->Iterations(2000)->UseRealTime();
BENCHMARK(OneWay)->ArgName("bytes")->Arg(100'000'000)->Iterations(30)->UseRealTime();

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "--bare") == 0) ServeBare();
  if (argc == 2 && std::strcmp(argv[1], "--ours") == 0) ServeOurs();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
