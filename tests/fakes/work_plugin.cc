// SPDX-License-Identifier: Apache-2.0
// Ops of a stranger that call functions, wait for sockets and work in the background, with no thread of their own.
//
// TestMap: f of each row of x, stacked. TestNest: f(x) by a call of a kernel. TestPlaced: f(x), whose
// N results are to go into memory of this shape, so many bytes past an aligned address; and how many did. TestAsk:
// sends `request` over the Unix socket `path` and gives what comes back until the other side closes. TestSource makes a
// resource whose background work calls f(0), f(1), ... ahead of need, `ahead` values at most; TestNext takes the next
// of its values. TestLeaves is done while it has something scheduled for later.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "tenon/sdk/kernel/resource.h"
#include "tenon/sdk/kernel/string_tensor.h"
#include "tenon/sdk/kernel/work.h"
#include "tenon/sdk/op/op.h"
#include "tenon/sdk/package.h"
#include "tests/fakes/work_control.h"

namespace tenon::test {

using namespace sdk;  // NOLINT(google-build-using-namespace): an op's file

std::atomic<int64_t> live_sources{0}, calls_ahead{0};

// ---- Functions ----

TENON_OP(kMap) = DefineOp({.name = "TestMap",
                           .inputs = "x: float",
                           .outputs = "y: float",
                           .attrs = "f: func",
                           .shape = ShapeFunction<SameShape>});
TENON_OP(kNest) = DefineOp({.name = "TestNest",
                            .inputs = "x: float",
                            .outputs = "y: float",
                            .attrs = "f: func",
                            .shape = ShapeFunction<SameShape>});

struct Map {
  explicit Map(CreateContext& c) : f(c, "f") {}
  void Run(RunContext c) const {
    const tenon_tensor_view& x = c.input_view(0);
    const Dims dims = DimsOf(x);
    if (dims.empty()) Fail(TENON_INVALID_ARGUMENT, "x is a scalar: there is nothing to map over");
    const int64_t row = Count(dims.subspan(1));
    const Work work(c);
    for (int64_t i = 0; i < dims[0]; ++i) {
      tenon_tensor_view argument = x;
      argument.dl.byte_offset += static_cast<uint64_t>(i * row) * sizeof(float);
      argument.dl.ndim = static_cast<int32_t>(dims.size()) - 1;
      argument.dl.shape = x.dl.shape + 1;
      argument.byte_size = static_cast<uint64_t>(row) * sizeof(float);
      argument.buffer = nullptr;
      const KeptTensor y = std::move(f.Call(work, {&argument})[0]);
      if (Count(y.view()) != row)
        Fail(TENON_INVALID_ARGUMENT, "f gave ", Count(y.view()), " elements for a row of ", row);
      std::memcpy(c.output<float>(0) + i * row, Data<const float>(y.view()), static_cast<size_t>(row) * sizeof(float));
    }
  }
  Function f;
};
TENON_KERNEL(kMapKernel) = Registration<Map>("TestMap", {});

struct Nest {
  explicit Nest(CreateContext& c) : f(c, "f") {}
  void Run(RunContext c) const {
    const KeptTensor y = std::move(f.Call(Work(c), {&c.input_view(0)})[0]);
    std::memcpy(c.output<float>(0), Data<const float>(y.view()), c.output_view(0).byte_size);
  }
  Function f;
};
TENON_KERNEL(kNestKernel) = Registration<Nest>("TestNest", {});

TENON_OP(kPlaced) = DefineOp({.name = "TestPlaced", .inputs = "x: float", .outputs = "y: N * float, placed: int32",
                              .attrs = "f: func; N: int >= 1; dims: shape; past: int = 0; fault: string = ''"});

struct Placed {
  explicit Placed(CreateContext& c)
      : f(c, "f"),
        dims(c.ShapeAttr("dims").dims()),
        past(static_cast<uint64_t>(c.Int("past"))),
        fault(c.String("fault")) {}
  void Run(RunContext c) const {
    const Work work(c);
    const auto count = static_cast<size_t>(c.output_count() - 1);
    std::vector<KeptTensor> memory;
    std::vector<tenon_tensor_view> places(count);
    std::vector<const tenon_tensor_view*> given(count);
    const auto bytes = static_cast<uint64_t>(Count(Dims(dims))) * sizeof(float);
    for (size_t i = 0; i < count; ++i) {
      const int64_t room[] = {static_cast<int64_t>(bytes + past)};
      memory.push_back(work.NewTensor(TENON_DT_UINT8, room));
      std::memset(Data<char>(memory[i].view()), 0x5a, bytes + past);
      places[i] = memory[i].view();
      places[i].dl.data = Data<char>(memory[i].view()) + past;
      places[i].dl.byte_offset = 0;
      places[i].dl.ndim = fault == "rank" ? TENON_MAX_RANK + 1 : static_cast<int32_t>(dims.size());
      places[i].dl.shape = const_cast<int64_t*>(dims.data());
      places[i].dtype = fault == "string" ? TENON_DT_STRING : TENON_DT_FLOAT;
      places[i].byte_size = fault == "bytes" ? bytes + 4 : bytes;
      if (fault == "memory") places[i].dl.data = nullptr;
      given[i] = fault == "none" ? nullptr : &places[i];
    }
    const tenon_tensor_view* const arguments[] = {&c.input_view(0)};
    const std::vector<KeptTensor> results = f.CallInto(work, arguments, given);
    int32_t placed = 0;
    for (size_t i = 0; i < count; ++i) {
      const tenon_tensor_view view = results[i].view();
      const bool there = Data<const char>(view) == static_cast<const char*>(places[i].dl.data);
      if (there != (view.buffer == nullptr))
        Fail(TENON_INTERNAL, "result ", i, there ? " lies in its place and in a buffer" : " lies nowhere");
      placed += there ? 1 : 0;
      c.AllocOutput(static_cast<int32_t>(i), DimsOf(view));
      std::memcpy(c.output<float>(static_cast<int32_t>(i)), Data<const float>(view), view.byte_size);
    }
    c.AllocOutput(static_cast<int32_t>(count), {});
    *c.output<int32_t>(static_cast<int32_t>(count)) = placed;
  }
  Function f;
  std::vector<int64_t> dims;
  uint64_t past;
  std::string fault;
};
TENON_KERNEL(kPlacedKernel) = Registration<Placed>("TestPlaced", {.dynamic_outputs = TENON_DYNAMIC_ALL});

// ---- A socket ----

TENON_OP(kAsk) = DefineOp({.name = "TestAsk",
                           .inputs = "path: string, request: string",
                           .outputs = "reply: string",
                           .attrs = "timeout_ms: int >= 0 = 0",
                           .traits = TENON_OP_STATEFUL,
                           .shape = ShapeFunction<ScalarShape>});

// One exchange; lives until it is done.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(RunContext c, Done done, uint64_t timeout_ns) : c_(c), work_(c), done_(done), timeout_ns_(timeout_ns) {}
  ~Exchange() {
    if (socket_ >= 0) close(socket_);
  }
  void Begin(std::string_view path, std::string_view request) {
    request_ = request;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
      Fail(TENON_INVALID_ARGUMENT, "the path '", path, "' is too long for a socket");
    path.copy(address.sun_path, path.size());
    socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 && errno != EINPROGRESS)
      Fail(TENON_UNAVAILABLE, "nobody listens at '", path, "': ", std::strerror(errno));
    Await(TENON_WORK_WRITABLE, &Exchange::Send);
  }

 private:
  using Next = void (Exchange::*)();
  void Await(uint32_t events, Next next) {
    work_.Await(socket_, events, timeout_ns_, [self = shared_from_this(), next](const Outcome& outcome) {
      if (!outcome.ok()) return self->End(ToStatus(outcome));
      try {
        (self.get()->*next)();
      } catch (...) {
        self->End(CurrentFailure());
      }
    });
  }
  void Send() {
    const ssize_t sent = send(socket_, request_.data(), request_.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) Fail(TENON_UNAVAILABLE, "the request was not taken: ", std::strerror(errno));
    if (sent > 0) request_.erase(0, static_cast<size_t>(sent));
    if (!request_.empty()) return Await(TENON_WORK_WRITABLE, &Exchange::Send);
    shutdown(socket_, SHUT_WR);
    Await(TENON_WORK_READABLE, &Exchange::Receive);
  }
  void Receive() {
    char bytes[4096];
    const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
    if (got < 0 && errno != EAGAIN) Fail(TENON_UNAVAILABLE, "the reply did not come: ", std::strerror(errno));
    if (got > 0) reply_.append(bytes, static_cast<size_t>(got));
    if (got != 0) return Await(TENON_WORK_READABLE, &Exchange::Receive);
    SetStrings(c_, 0, {}, std::vector<std::string_view>{reply_});
    End(nullptr);
  }
  void End(tenon_status* status) { done_(status); }

  const RunContext c_;
  const Work work_;
  const Done done_;
  const uint64_t timeout_ns_;
  int socket_ = -1;
  std::string request_, reply_;
};

struct Ask {
  explicit Ask(CreateContext& c) : timeout_ns(static_cast<uint64_t>(c.Int("timeout_ms")) * 1'000'000) {}
  void RunAsync(RunContext c, Done done) const {
    std::make_shared<Exchange>(c, done, timeout_ns)->Begin(StringAt(c.input_view(0), 0), StringAt(c.input_view(1), 0));
  }
  uint64_t timeout_ns;
};
TENON_KERNEL(kAskKernel) = Registration<Ask>("TestAsk", {.dynamic_outputs = 1});

// ---- Work in the background ----

TENON_OP(kSource) = DefineOp({.name = "TestSource",
                              .outputs = "source: resource",
                              .attrs = "f: func; ahead: int >= 1 = 4; container: string = ''; shared_name: string = ''",
                              .traits = TENON_OP_STATEFUL,
                              .shape = ShapeFunction<ScalarShape>});
TENON_OP(kNext) = DefineOp({.name = "TestNext",
                            .inputs = "source: resource",
                            .outputs = "y: float",
                            .traits = TENON_OP_STATEFUL,
                            .shape = ShapeFunction<ScalarShape>});

constexpr tenon_span kSourceType = TENON_SPAN("Test.Source/1");

// Values of f ahead of need. Who wants one and finds none makes room for the next and waits with a Done.
class Source {
 public:
  Source(Function f, size_t ahead) : f_(std::move(f)), ahead_(ahead) { ++live_sources; }
  ~Source() {
    background_.reset();  // nothing comes any more
    --live_sources;
  }
  // Work of the step's session, unless that of an earlier one still goes on.
  void Serve(const RunContext& c) {
    std::unique_ptr<Background> former;
    std::lock_guard lock(mutex_);
    if (background_ != nullptr && !background_->work().cancelled()) return;
    former = std::move(background_);
    failure_ = {};
    background_ = std::make_unique<Background>(c, "source");
    Go();
  }
  void Next(RunContext c, Done done) {
    std::unique_lock lock(mutex_);
    if (!failure_.ok()) return done(ToStatus(failure_));
    if (values_.empty()) return waiting_.push_back({c, done});
    const float value = values_.front();
    values_.pop_front();
    if (!busy_) Go();
    lock.unlock();
    *c.output<float>(0) = value;
    done(nullptr);
  }

 private:
  struct Waiter {
    RunContext c;
    Done done;
  };
  // Under the lock.
  void Go() {
    busy_ = true;
    background_->work().Schedule(0, [this](const Outcome& outcome) { Produce(outcome); }, TENON_WORK_MAY_WAIT);
  }
  void Produce(Outcome outcome) {
    while (outcome.ok()) {
      int64_t number = 0;
      {
        std::lock_guard lock(mutex_);
        if (values_.size() >= ahead_) {
          busy_ = false;
          return;
        }
        number = next_++;
      }
      try {
        Add(number);
      } catch (...) {
        outcome = TakeStatus(CurrentFailure());
      }
    }
    std::deque<Waiter> waiting;
    {
      std::lock_guard lock(mutex_);
      busy_ = false;
      failure_ = outcome;
      waiting.swap(waiting_);
    }
    for (const Waiter& waiter : waiting) waiter.done(ToStatus(outcome));
  }
  void Add(int64_t number) {
    const Work work = background_->work();
    const KeptTensor argument = work.NewTensor(TENON_DT_INT64, {});
    *Data<int64_t>(argument.view()) = number;
    const tenon_tensor_view view = argument.view();
    const std::vector<KeptTensor> results = f_.Call(work, {&view});
    ++calls_ahead;
    const float value = *Data<const float>(results[0].view());
    std::unique_lock lock(mutex_);
    if (waiting_.empty()) return values_.push_back(value);
    const Waiter waiter = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    *waiter.c.output<float>(0) = value;
    waiter.done(nullptr);
  }

  const Function f_;
  const size_t ahead_;
  std::mutex mutex_;
  std::unique_ptr<Background> background_;
  std::deque<float> values_;
  std::deque<Waiter> waiting_;
  Outcome failure_;
  int64_t next_ = 0;
  bool busy_ = false;
};

struct MakeSource {
  explicit MakeSource(CreateContext& c) : f(c, "f"), ahead(static_cast<size_t>(c.Int("ahead"))) {
    const std::string container(c.String("container"));
    std::string name(c.String("shared_name"));
    if (name.empty()) name = c.name();
    if (c.ok())
      c.Check(c.args().services->resource_handle(c.args().context, ToSpan(container), ToSpan(name), ToSpan("source"), 0,
                                                 &handle));
  }
  void Run(RunContext c) const {
    ObjectOf<Source>(c, handle, kSourceType, [this] { return std::make_unique<Source>(f, ahead); }).Serve(c);
    *c.output<tenon_resource*>(0) = handle;
  }
  Function f;
  size_t ahead;
  tenon_resource* handle = nullptr;
};
TENON_KERNEL(kSourceKernel) = Registration<MakeSource>("TestSource", {.flags = TENON_KERNEL_STATEFUL});

struct TakeNext {
  void RunAsync(RunContext c, Done done) const {
    ObjectOf<Source>(c, c.resource(0), kSourceType).Next(c, done);
  }
};
TENON_KERNEL(kNextKernel) = Registration<TakeNext>("TestNext", {});

// ---- A kernel that is wrong ----

TENON_OP(kLeaves) = DefineOp({.name = "TestLeaves",
                              .inputs = "x: float",
                              .outputs = "y: float",
                              .traits = TENON_OP_STATEFUL,
                              .shape = ShapeFunction<SameShape>});
struct Leaves {
  void RunAsync(RunContext c, Done done) const {
    Work(c).Schedule(3'600'000'000'000, [](const Outcome&) { std::abort(); });
    *c.output<float>(0) = *c.input<float>(0);
    done(nullptr);
  }
};
TENON_KERNEL(kLeavesKernel) = Registration<Leaves>("TestLeaves", {});

// ---- Tuning ----

TENON_OP(kTuned) = DefineOp(
    {.name = "TestTuned", .inputs = "x: float", .outputs = "tries: int32", .shape = ShapeFunction<ScalarShape>});
// How often it had to try what is fastest, ever since the cache is there.
struct Tuned {
  struct Plan {
    Plan(const Tuned&, PrepareContext& c) {
      const tenon_prepare_args& args = c.args();
      tenon_span kept{};
      tenon_status* status = args.services->cache_get(args.context, ToSpan("fastest"), &kept);
      if (status == nullptr) {
        tries = std::atoi(std::string(ToText(kept)).c_str());
        return;
      }
      if (tenon_plugin_host->status_code(status) != TENON_NOT_FOUND) Check(status);
      tenon_plugin_host->status_release(status);
      void* scratch = nullptr;
      Check(args.services->scratch(args.context, 1 << 20, &scratch));
      std::memset(scratch, 1, 1 << 20);
      tries = ++all_tries;
      Check(args.services->cache_put(args.context, ToSpan("fastest"), ToSpan(std::to_string(tries))));
    }
    int tries = 0;
  };
  void Run(const Plan& plan, RunContext c) const { *c.output<int32_t>(0) = plan.tries; }
  static inline std::atomic<int> all_tries{0};
};
TENON_KERNEL(kTunedKernel) = Registration<Tuned>("TestTuned", {.device_type = "CPU"});

}  // namespace tenon::test

static const tenon_test_work kControl = {[]() -> int64_t { return tenon::test::live_sources; },
                                         []() -> int64_t { return tenon::test::calls_ahead; }};

TENON_OP_PACKAGE(kOps, tenon_ops);
TENON_KERNEL_PACKAGE(kKernels, tenon_kernels);
static const tenon_capability kCapabilities[] = {
    TENON_PROVIDES(OPS, &kOps), TENON_PROVIDES(KERNELS, &kKernels), {TENON_SPAN(TENON_TEST_WORK), &kControl, 0}};
TENON_PLUGIN("tenon.test.work", "0.1.0", "Calls functions, waits for sockets and works in the background.",
             kCapabilities)
