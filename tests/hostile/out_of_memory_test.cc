// SPDX-License-Identifier: Apache-2.0
// Memory that is not there: each allocation of making a runtime, reading a graph, planning, running and releasing
// fails, once or from then on, and what comes of it is a status.
//
// The program's operator new is everybody's: the engine's, the plugins' and that of the C++ libraries below them. Each
// point is tried in a process of its own. `make test` tries some five hundred, `make test-slow` two thousand;
// TENON_OUT_OF_MEMORY_STEP=1 tries all (some minutes), and TENON_OUT_OF_MEMORY_POINT=N that one, here, for a debugger
// (with TENON_OUT_OF_MEMORY_STICKY=1 all from there on).
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tenon/tenon.h"
#include "tests/fakes/whole.h"

namespace {

constexpr uint64_t kNever = ~uint64_t{0};
std::atomic<uint64_t> allocations{0};
std::atomic<uint64_t> fails_at{kNever};
std::atomic<bool> fails_on{false};

bool Fails() {
  const uint64_t number = allocations.fetch_add(1, std::memory_order_relaxed);
  const uint64_t at = fails_at.load(std::memory_order_relaxed);
  return number == at || (number > at && fails_on.load(std::memory_order_relaxed));
}
void* Allocate(size_t size, size_t alignment) {
  if (Fails()) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void* AllocateOrThrow(size_t size, size_t alignment) {
  void* const memory = Allocate(size == 0 ? 1 : size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// Not inlined, or the compiler takes their malloc and free for ones that do not belong together.
#define TENON_SHOWN __attribute__((visibility("default"), noinline))
TENON_SHOWN void* operator new(size_t size) { return AllocateOrThrow(size, 1); }
TENON_SHOWN void* operator new[](size_t size) { return AllocateOrThrow(size, 1); }
TENON_SHOWN void* operator new(size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
TENON_SHOWN void* operator new[](size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<size_t>(alignment));
}
TENON_SHOWN void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
TENON_SHOWN void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
TENON_SHOWN void operator delete(void* memory) noexcept { std::free(memory); }
TENON_SHOWN void operator delete[](void* memory) noexcept { std::free(memory); }
TENON_SHOWN void operator delete(void* memory, size_t) noexcept { std::free(memory); }
TENON_SHOWN void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
TENON_SHOWN void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
TENON_SHOWN void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
TENON_SHOWN void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
TENON_SHOWN void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tenon::host {
namespace {

tenon_span SpanOf(const char* text) { return {text, std::char_traits<char>::length(text)}; }

// Whether it went well; the status is let go.
bool Good(tenon_status* status) {
  if (status == nullptr) return true;
  tenon_status_release(status);
  return false;
}

// A session of its own: a step, three times by a callable and once by names; and one with kernels that run on other
// threads or answer when they like.
void TrySession(tenon_runtime* runtime, uint32_t executor, const std::string& graph) {
  tenon_session* session = nullptr;
  tenon_callable *callable = nullptr, *elsewhere = nullptr;
  const auto run = [&] {
    tenon_session_options options{};
    options.struct_size = sizeof(options);
    options.executor = executor;
    if (!Good(tenon_session_create(runtime, &options, &session))) return;
    if (!Good(tenon_session_extend(session, {graph.data(), graph.size()}))) return;
    const tenon_span feed = SpanOf("x"), fetches[] = {SpanOf("loss"), SpanOf("dx")};
    float x[4] = {1, 2, 3, 4};
    int64_t dims[2] = {2, 2};
    tenon_tensor_view view{};
    view.dl.data = x;
    view.dl.device_type = 1;
    view.dl.ndim = 2;
    view.dl.dtype = {2, 32, 1};
    view.dl.shape = dims;
    view.dtype = TENON_DT_FLOAT;
    view.byte_size = sizeof(x);
    const tenon_tensor_view* feeds[] = {&view};
    if (!Good(tenon_session_prepare(session, &feed, 1, fetches, 2, nullptr, 0, nullptr, &callable))) return;
    for (int i = 0; i < 3; ++i) {
      tenon_tensor* values[2] = {nullptr, nullptr};
      if (Good(tenon_callable_run(callable, nullptr, feeds, values)))
        for (tenon_tensor* value : values) tenon_tensor_release(value);
    }
    tenon_tensor* value = nullptr;
    if (Good(tenon_session_run(session, nullptr, &feed, feeds, 1, fetches, 1, nullptr, 0, &value)))
      tenon_tensor_release(value);
    const tenon_span dequeued = SpanOf("dequeued"), enqueue = SpanOf("enqueue");
    if (!Good(tenon_session_prepare(session, &feed, 1, &dequeued, 1, &enqueue, 1, nullptr, &elsewhere))) return;
    tenon_run_options bounded{};  // a step whose enqueue has failed would wait for ever
    bounded.struct_size = sizeof(bounded);
    bounded.timeout_ns = 2'000'000'000;
    for (int i = 0; i < 3; ++i)
      if (Good(tenon_callable_run(elsewhere, &bounded, feeds, &value))) tenon_tensor_release(value);
  };
  run();
  tenon_callable_release(elsewhere);
  tenon_callable_release(callable);
  tenon_session_release(session);
}

// Everything of the C API that a host application would use, in C: what the C++ face allocates is the application's
// own.
void Try(const std::vector<std::string>& plugins, const std::string& graph) {
  constexpr size_t kMostPlugins = 32;
  tenon_span paths[kMostPlugins];
  const size_t count = std::min(plugins.size(), kMostPlugins);
  for (size_t i = 0; i < count; ++i) paths[i] = {plugins[i].data(), plugins[i].size()};
  tenon_runtime_options options{};
  options.struct_size = sizeof(options);
  options.plugins = paths;
  options.plugin_count = count;
  options.no_search = 1;
  options.threads = 2;
  options.log_level = TENON_LOG_ERROR + 2;
  tenon_runtime* runtime = nullptr;
  if (!Good(tenon_runtime_create(&options, &runtime))) return;
  for (const uint32_t executor : {TENON_EXECUTOR_AUTO, TENON_EXECUTOR_DYNAMIC}) TrySession(runtime, executor, graph);
  tenon_runtime_release(runtime);
}

// What is tried, made while there is memory: a network with a conditional and a gradient; a queue, whose kernels answer
// when they like, beside products, which go to threads of their own where they can.
std::string MakeGraph(const std::vector<std::string>& plugins) {
  RuntimeOptions options;
  options.plugins = plugins;
  options.search = false;
  const auto runtime = Runtime::Create(options);
  if (!runtime.ok()) return "";
  Graph g(*runtime);
  const Output x = g.Op("Placeholder", {}, {{"dtype", DType::kFloat}, {"shape", Shape{2, 2}}}, "x");
  const Output w = g.Const(std::vector<float>{1, 0.5f, -1, 2}, {2, 2});
  const Output h = g.Op("Relu", {g.Op("MatMul", {x, w})});
  const Output positive = g.Op("Greater", {g.Op("Sum", {h, g.Const(std::vector<int32_t>{0, 1}, {2})}), g.Const(0.0f)});
  const Operation side = g.AddNode("Switch", {h, positive});
  const Output merged = g.AddNode("Merge", {g.Op("Neg", {side.output(0)}), g.Op("Exp", {side.output(1)})}).output(0);
  const Output loss = g.Op("Sum", {merged, g.Const(std::vector<int32_t>{0, 1}, {2})}, {}, "loss");
  g.Op("Identity", {g.Gradients({loss}, {x})[0].dense}, {}, "dx");
  const Output queue = g.Op("FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kFloat}}}, "queue");
  const Output sum = g.Op("Add", {g.Op("MatMul", {h, w}), g.Op("MatMul", {w, h})});
  g.AddNode("QueueEnqueueV2", {queue, sum}, {}, "enqueue");
  const Output out =
      g.AddNode("QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kFloat}}}).output(0);
  g.Op("MatMul", {out, w}, {}, "dequeued");
  if (!g.status().ok()) return "";
  auto bytes = g.Export();
  return bytes.ok() ? *bytes : "";
}

std::vector<std::string> Plugins() {
  const std::string folder = std::string(TENON_TEST_BUILD_DIR) + "/lib/tenon/plugins/tenon_";
  std::vector<std::string> out;
  for (const char* name : {"ops_array", "ops_control", "ops_data_flow", "ops_math", "ops_nn", "ops_state", "cpu"})
    out.push_back(folder + name + ".so");
  return out;
}

void ShowWhere(int number) {
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), 2);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

// In a process of its own, whose end it returns. out_count: how many allocations there were; nullptr: nobody asks.
int TryIn(const std::vector<std::string>& plugins, const std::string& graph, uint64_t at, bool sticky,
          uint64_t* out_count) {
  auto* const shared = static_cast<uint64_t*>(
      mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    if (std::getenv("TENON_OUT_OF_MEMORY_SHOW") != nullptr) {
      void* frame[1];
      backtrace(frame, 1);  // what it loads is loaded
      for (const int number : {SIGABRT, SIGSEGV}) std::signal(number, &ShowWhere);
    } else {
      (void)!std::freopen("/dev/null", "w", stderr);  // what std::terminate says
    }
    allocations = 0;
    fails_on = sticky;
    fails_at = at;
    Try(plugins, graph);
    fails_at = kNever;
    *shared = allocations;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (out_count != nullptr) *out_count = *shared;
  munmap(shared, sizeof(uint64_t));
  return status;
}

std::string EndOf(int status) {
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM ? "it hung" : std::string("signal ") + strsignal(WTERMSIG(status));
  return "exit status " + std::to_string(WEXITSTATUS(status));
}

const char* Wish(const char* name) { return std::getenv(name); }

TEST(OutOfMemory, IsAStatusWhereverItHappens) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer's operator new is the program's";
#endif
  const std::vector<std::string> plugins = Plugins();
  // Made in a process of its own too: what it loads must not be there already.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t maker = fork();
  if (maker == 0) {
    const std::string bytes = MakeGraph(plugins);
    _exit(!bytes.empty() && write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string graph;
  char piece[4096];
  for (ssize_t got; (got = read(ends[0], piece, sizeof(piece))) > 0;) graph.append(piece, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(maker, &status, 0);
  ASSERT_EQ(status, 0);

  if (const char* point = Wish("TENON_OUT_OF_MEMORY_POINT")) {
    fails_on = Wish("TENON_OUT_OF_MEMORY_STICKY") != nullptr;
    allocations = 0;
    fails_at = std::strtoull(point, nullptr, 10);
    Try(plugins, graph);
    fails_at = kNever;
    return;
  }
  uint64_t count = 0;
  ASSERT_EQ(TryIn(plugins, graph, kNever, false, &count), 0);
  ASSERT_GT(count, 10000u);
  const uint64_t points = fakes::IsWhole() ? 1000 : 250;
  const uint64_t step = Wish("TENON_OUT_OF_MEMORY_STEP") != nullptr
                            ? std::strtoull(Wish("TENON_OUT_OF_MEMORY_STEP"), nullptr, 10)
                            : count / points;
  int bad = 0;
  uint64_t tried = 0;
  for (const bool sticky : {false, true})
    for (uint64_t at = 0; at < count && bad < 20; at += step, ++tried) {
      status = TryIn(plugins, graph, at, sticky, nullptr);
      if (status == 0) continue;
      ++bad;
      ADD_FAILURE() << "allocation " << at << " of " << count << (sticky ? " and all after it" : "") << ": "
                    << EndOf(status);
    }
  RecordProperty("tried", static_cast<int>(tried));
}

}  // namespace
}  // namespace tenon::host
