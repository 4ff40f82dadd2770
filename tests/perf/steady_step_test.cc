// SPDX-License-Identifier: Apache-2.0
// A steady step, the tenth and later of a cached binding, on the CPU and without input or output ops, makes no
// allocation, no page fault and no system call. Covers C5, F7, J11.
//
// Allocations: this program's own malloc and its kin take the place of the C library's for every library of the
// process, and count while asked to. Page faults: getrusage. System calls: this program runs itself under ptrace, and
// what happens between two marks is counted; where ptrace is refused, that part alone is skipped, and says so.
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tenon/tenon.h"
#include "tenon/train/digits.h"
#include "tiny_network.h"

// ---- Counting allocations ----

namespace {

struct AllocationCounter {
  static constexpr size_t kKept = 4096, kDepth = 24;
  std::atomic<bool> on{false};
  std::atomic<int64_t> count{0};
  // Where they came from.
  std::array<std::array<void*, kDepth>, kKept> traces{};
  std::array<int, kKept> depths{};
};
AllocationCounter counter;
thread_local bool inside = false;  // backtrace() may allocate

void Note() {
  if (!counter.on.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  const auto index = static_cast<size_t>(counter.count.fetch_add(1));
  if (index < AllocationCounter::kKept) {
    counter.depths[index] = backtrace(counter.traces[index].data(), AllocationCounter::kDepth);
  }
  inside = false;
}

}  // namespace

extern "C" {
void* __libc_malloc(size_t);            // NOLINT: glibc's own names
void* __libc_calloc(size_t, size_t);    // NOLINT
void* __libc_realloc(void*, size_t);    // NOLINT
void* __libc_memalign(size_t, size_t);  // NOLINT

void* malloc(size_t size) {
  Note();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Note();
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  Note();
  return __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
  Note();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Note();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  Note();
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}
}

namespace tenon::perf {
namespace {

using namespace host;  // NOLINT: a test of the face

// Allocations while it lives; operator new is malloc underneath.
class Counting {
 public:
  Counting() {
    counter.count = 0;
    counter.on = true;
  }
  ~Counting() { counter.on = false; }
  Counting(const Counting&) = delete;
  Counting& operator=(const Counting&) = delete;
  static int64_t count() { return counter.count.load(); }
  static int64_t Stop() {
    counter.on = false;
    return count();
  }
};

std::string Demangled(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string readable = status == 0 ? text : name;
  std::free(text);
  return readable;
}

// How many of the kept allocations came through a library of this name.
int64_t CameThrough(const std::string& library) {
  const size_t kept = std::min(static_cast<size_t>(Counting::count()), AllocationCounter::kKept);
  int64_t count = 0;
  for (size_t i = 0; i < kept; ++i) {
    const auto begin = counter.traces[i].begin();
    count += std::any_of(begin, begin + counter.depths[i], [&](void* address) {
      Dl_info info = {};
      return dladdr(address, &info) != 0 && std::string(info.dli_fname).find(library) != std::string::npos;
    });
  }
  return count;
}

// The libraries and functions that the first allocations came through.
std::string Traces(size_t most = 6) {
  std::string text;
  const size_t kept = std::min({static_cast<size_t>(Counting::count()), AllocationCounter::kKept, most});
  for (size_t i = 0; i < kept; ++i) {
    text += "allocation " + std::to_string(i) + ":\n";
    for (int k = 0; k < counter.depths[i]; ++k) {
      Dl_info info = {};
      if (dladdr(counter.traces[i][static_cast<size_t>(k)], &info) == 0) continue;
      const auto offset =
          static_cast<char*>(counter.traces[i][static_cast<size_t>(k)]) - static_cast<char*>(info.dli_fbase);
      char address[32];
      std::snprintf(address, sizeof address, "+0x%zx", static_cast<size_t>(offset));
      text += std::string("  ") + info.dli_fname + address + " " +
              (info.dli_sname == nullptr ? "" : Demangled(info.dli_sname)) + "\n";
    }
  }
  return text;
}

// ---- Steps ----

// A prepared callable with its memory.
class Steps {
 public:
  virtual ~Steps() = default;
  void Run(int count) {
    for (int i = 0; i < count; ++i) {
      const Status status = callable_->RunInto(feeds_.data(), fetches_.data());
      if (!status.ok()) Fail(status);
    }
  }
  // After the first step: JSON that says of each node how it runs.
  std::string Explain() const {
    const Result<std::string> json = callable_->Explain();
    return json.ok() ? *json : std::string(json.status().message());
  }

 protected:
  explicit Steps(uint32_t threads) {
    RuntimeOptions options;
    options.threads = threads;
    auto runtime = Runtime::Create(options);
    if (!runtime.ok()) Fail(runtime.status());
    runtime_.emplace(std::move(*runtime));
    graph_.emplace(*runtime_);
  }
  Graph& graph() { return *graph_; }
  void Start(const std::vector<Output>& feeds, const std::vector<View>& values, const Output& fetch,
             const std::vector<Operation>& targets = {}, const std::vector<Operation>& initialize = {}) {
    auto session = Session::Create(*runtime_, *graph_);
    if (!session.ok()) Fail(session.status());
    session_.emplace(std::move(*session));
    for (const Operation& node : initialize) {
      if (const Status status = session_->RunTargets({node}); !status.ok()) Fail(status);
    }
    auto callable = session_->Prepare({feeds.begin(), feeds.end()}, {fetch}, {targets.begin(), targets.end()});
    if (!callable.ok()) Fail(callable.status());
    callable_.emplace(std::move(*callable));
    values_ = values;
    for (const View& value : values_) views_.push_back(value.c_view());
    for (const tenon_tensor_view& view : views_) feeds_.push_back(&view);
    fetch_.emplace(std::span<const float>(&result_, 1), Shape());
    fetches_ = {fetch_->c_view()};
  }

 private:
  [[noreturn]] static void Fail(const Status& status) {
    std::fprintf(stderr, "steady_step_test: %.*s\n", static_cast<int>(status.message().size()),
                 status.message().data());
    std::abort();
  }

  std::optional<Runtime> runtime_;
  std::optional<Graph> graph_;
  std::optional<Session> session_;
  std::optional<Callable> callable_;
  std::vector<View> values_;
  std::vector<tenon_tensor_view> views_, fetches_;
  std::vector<const tenon_tensor_view*> feeds_;
  std::optional<View> fetch_;
  float result_ = 0;
};

class Chain final : public Steps {
 public:
  Chain(uint32_t threads, int length) : Steps(threads) {
    const Output x = graph().Placeholder("x", DType::kFloat, Shape{});
    Output y = x;
    for (int i = 0; i < length; ++i) y = graph().Op("AddV2", {y, x});
    Start({x}, {View(std::span<const float>(&value_, 1), Shape())}, y);
  }

 private:
  float value_ = 1;
};

class Training final : public Steps {
 public:
  explicit Training(uint32_t threads) : Steps(threads), network_(graph(), 0.05f) {
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<int64_t>(i % 10);
    Start({network_.x, network_.labels}, {View(x_, {32, 64}), View(labels_, {32})}, network_.loss, {network_.update},
          {network_.initialize});
  }

 private:
  TinyNetwork network_;
  std::vector<float> x_ = std::vector<float>(32 * 64);
  std::vector<int64_t> labels_ = std::vector<int64_t>(32);
};

// The step of `tenon train digits`: convolutions, and Adam.
class Digits final : public Steps {
 public:
  explicit Digits(uint32_t threads) : Steps(threads), network_(graph(), data_, {}) {
    const train::TrainingStep step = network_.Step();
    for (size_t i = 0; i < images_.size(); ++i) images_[i] = static_cast<uint8_t>(i % 17);
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<uint8_t>(i % 10);
    Start(step.feeds, {View(images_, {32, 8, 8}), View(labels_, {32}), View(std::span<const int32_t>(shift_), {4})},
          step.loss, {step.update}, {network_.model().InitializeAll()});
  }

 private:
  train::DigitData data_;  // empty: the step is fed from here
  train::DigitNetwork network_;
  std::vector<uint8_t> images_ = std::vector<uint8_t>(32 * 64), labels_ = std::vector<uint8_t>(32);
  std::array<int32_t, 4> shift_ = {0, 1, 1, 0};
};

// A while loop of 100 turns in the straight executor.
class Loop final : public Steps {
 public:
  explicit Loop(uint32_t threads) : Steps(threads) {
    const Output x = graph().Placeholder("x", DType::kFloat, Shape{});
    const std::vector<Output> last = While(
        graph(), {graph().Const(0.0f), x}, {graph().Const(100.0f), graph().Const(1.0f), graph().Const(0.5f)},
        [&](const auto& v) {
          return graph().Op("Less", {v[0], v[2]});
        },
        [&](const auto& v) {
          return std::vector<Output>{graph().Op("AddV2", {v[0], v[3]}), graph().Op("Mul", {v[1], v[4]})};
        });
    Start({x}, {View(std::span<const float>(&value_, 1), Shape())}, last[1]);
  }

 private:
  float value_ = 1;
};

using Maker = std::function<std::unique_ptr<Steps>(uint32_t threads)>;
const std::map<std::string, Maker>& Makers() {
  static const std::map<std::string, Maker> makers = {
      {"OneOp", [](uint32_t threads) { return std::make_unique<Chain>(threads, 1); }},
      {"Chain", [](uint32_t threads) { return std::make_unique<Chain>(threads, 100); }},
      {"Training", [](uint32_t threads) { return std::make_unique<Training>(threads); }},
      {"Digits", [](uint32_t threads) { return std::make_unique<Digits>(threads); }},
      {"Loop", [](uint32_t threads) { return std::make_unique<Loop>(threads); }},
  };
  return makers;
}

constexpr int kWarmUp = 20;
constexpr int kSteps = 1000;

struct Case {
  std::string steps;
  uint32_t threads;
  // Inside oneDNN 2.6, which makes a table of arguments in each execution of a primitive: 35 where this was measured,
  // with room for other instruction sets.
  int64_t vendors_allocations = 0;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.steps << " with " << one.threads << " threads"; }
class SteadyStep : public testing::TestWithParam<Case> {
 protected:
  std::unique_ptr<Steps> Make() const { return Makers().at(GetParam().steps)(GetParam().threads); }
};

TEST_P(SteadyStep, RunsInTheStraightExecutor) {
  const auto steps = Make();
  steps->Run(1);
  const std::string explained = steps->Explain();
  EXPECT_EQ(explained.find("\"dynamic\""), std::string::npos) << explained;
  EXPECT_EQ(explained.find("\"not bound\""), std::string::npos) << explained;
}

TEST_P(SteadyStep, AllocatesNothing) {
  const auto steps = Make();
  steps->Run(kWarmUp);
  constexpr int kFew = 20;
  Counting counting;
  steps->Run(kFew);
  const int64_t count = Counting::Stop();
  ASSERT_LE(count, static_cast<int64_t>(AllocationCounter::kKept)) << "the first came from\n" << Traces();
  const int64_t vendors = CameThrough("libtenon_dnnl");
  RecordProperty("allocations_a_step", std::to_string(static_cast<double>(count - vendors) / kFew));
  RecordProperty("allocations_a_step_inside_onednn", std::to_string(static_cast<double>(vendors) / kFew));
  EXPECT_EQ(count - vendors, 0) << "in " << kFew << " steps; the first came from\n"
                                                            << Traces();
  EXPECT_LE(vendors, GetParam().vendors_allocations * kFew) << "in " << kFew << " steps, inside oneDNN";
}

// The least of a few windows: the kernel may take a page away at any time, a step that touches fresh memory does it
// always.
TEST_P(SteadyStep, TouchesNoFreshPage) {
  const auto steps = Make();
  steps->Run(kWarmUp);
  int64_t least = INT64_MAX;
  for (int window = 0; window < 5 && least > 0; ++window) {
    rusage before = {}, after = {};
    getrusage(RUSAGE_SELF, &before);
    steps->Run(kSteps);
    getrusage(RUSAGE_SELF, &after);
    least =
        std::min(least, static_cast<int64_t>(after.ru_minflt - before.ru_minflt + after.ru_majflt - before.ru_majflt));
  }
  EXPECT_EQ(least, 0) << "page faults in " << kSteps << " steps";
}

// ---- System calls ----

constexpr uint64_t kMark = 0x74656e6f;  // no option of prctl
constexpr char kChildFlag[] = "--steps=";

void Mark() { syscall(SYS_prctl, kMark, 0, 0, 0, 0); }

// What the traced child runs: Marks around the steps. "Write": one system call between the marks, for the tracer's own
// test.
int RunChild(const std::string& what, uint32_t threads) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return 77;
  if (what == "Write") {
    raise(SIGSTOP);
    Mark();
    syscall(SYS_getuid);
    Mark();
    return 0;
  }
  const auto steps = Makers().at(what)(threads);
  steps->Run(kWarmUp);
  raise(SIGSTOP);
  Mark();
  steps->Run(kSteps);
  Mark();
  return 0;
}

struct Traced {
  std::string problem;            // why there is no count
  std::map<uint64_t, int> calls;  // by number
  bool complete = false;          // both marks were seen
};

// Follows the main thread of the child from its SIGSTOP on.
Traced Follow(pid_t child) {
  Traced traced;
  int status = 0;
  if (waitpid(child, &status, 0) != child) return {"waitpid: " + std::string(std::strerror(errno)), {}, false};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return {"ptrace is refused to the child", {}, false};
  if (!WIFSTOPPED(status)) return {"the child ended with status " + std::to_string(status), {}, false};
  if (ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) {
    return {"PTRACE_SETOPTIONS: " + std::string(std::strerror(errno)), {}, false};
  }
  int marks = 0;
  long deliver = 0;
  while (ptrace(PTRACE_SYSCALL, child, nullptr, deliver) == 0 && waitpid(child, &status, 0) == child &&
         WIFSTOPPED(status)) {
    const int signal = WSTOPSIG(status);
    deliver = signal == (SIGTRAP | 0x80) || signal == SIGSTOP ? 0 : signal;
    if (signal != (SIGTRAP | 0x80)) continue;
    struct __ptrace_syscall_info info = {};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info) <= 0) {
      return {"PTRACE_GET_SYSCALL_INFO: " + std::string(std::strerror(errno)), {}, false};
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if (info.entry.nr == SYS_prctl && info.entry.args[0] == kMark) {
      ++marks;
    } else if (marks == 1) {
      ++traced.calls[info.entry.nr];
    }
  }
  traced.complete = marks == 2 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return traced;
}

Traced TraceSteps(const std::string& what, uint32_t threads) {
  const std::string steps = kChildFlag + what, count = std::to_string(threads);
  const pid_t child = fork();
  if (child < 0) return {"fork: " + std::string(std::strerror(errno)), {}, false};
  if (child == 0) {
    execl("/proc/self/exe", "steady_step_test", steps.c_str(), count.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Traced traced = Follow(child);
  if (!traced.problem.empty()) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  return traced;
}

TEST_P(SteadyStep, MakesNoSystemCall) {
  const Traced traced = TraceSteps(GetParam().steps, GetParam().threads);
  if (!traced.problem.empty()) GTEST_SKIP() << "SYSTEM CALLS WERE NOT COUNTED: " << traced.problem;
  ASSERT_TRUE(traced.complete) << "the child did not get to its end";
  for (const auto& [number, count] : traced.calls) {
    ADD_FAILURE() << count << " times system call " << number << " in " << kSteps << " steps";
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, SteadyStep,
                         testing::Values(Case{"OneOp", 1}, Case{"OneOp", 2}, Case{"Chain", 1}, Case{"Chain", 2},
                                         Case{"Training", 1}, Case{"Training", 2}, Case{"Loop", 1},
                                         Case{"Loop", 2}, Case{"Digits", 1, 60}),
                         [](const auto& info) {
                           return info.param.steps + std::to_string(info.param.threads) + "Threads";
                         });

// ---- The counters themselves ----

TEST(Counters, SeeAllocationsInsideTheLibraryAndItsPlugins) {
  auto runtime = Runtime::Create();
  ASSERT_TRUE(runtime.ok());
  Graph graph(*runtime);
  const Output x = graph.Placeholder("x", DType::kFloat, {2, 2});
  const Output y = graph.Op("MatMul", {x, x});
  auto session = Session::Create(*runtime, graph);
  ASSERT_TRUE(session.ok());
  // Preparing a kernel is an allocation of its plugin's own.
  const std::vector<float> value(4);
  Counting counting;
  const auto values = session->Run({{x, View(value, {2, 2})}}, {y});
  Counting::Stop();
  ASSERT_TRUE(values.ok()) << values.status().message();
  const std::string traces = Traces(AllocationCounter::kKept);
  EXPECT_NE(traces.find("libtenon.so"), std::string::npos);
  EXPECT_NE(traces.find("tenon_cpu.so"), std::string::npos);
}

TEST(Counters, SeeASystemCall) {
  const Traced traced = TraceSteps("Write", 1);
  if (!traced.problem.empty()) GTEST_SKIP() << "SYSTEM CALLS WERE NOT COUNTED: " << traced.problem;
  ASSERT_TRUE(traced.complete);
  EXPECT_EQ(traced.calls, (std::map<uint64_t, int>{{SYS_getuid, 1}}));
}

TEST(Counters, SeeAFreshPage) {
  rusage before = {}, after = {};
  const size_t bytes = 64 << 20;
  getrusage(RUSAGE_SELF, &before);
  std::unique_ptr<char[]> memory(new char[bytes]);
  for (size_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory.get())[i] = 1;
  getrusage(RUSAGE_SELF, &after);
  EXPECT_GT(after.ru_minflt, before.ru_minflt);
}

}  // namespace
}  // namespace tenon::perf

int main(int argc, char** argv) {
  const std::string first = argc == 3 ? argv[1] : "";
  if (first.starts_with(tenon::perf::kChildFlag)) {
    return tenon::perf::RunChild(first.substr(std::strlen(tenon::perf::kChildFlag)),
                                 static_cast<uint32_t>(std::atoi(argv[2])));
  }
  void* frames[4];
  backtrace(frames, 4);  // loads what it needs now
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
