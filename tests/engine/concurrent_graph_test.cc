// SPDX-License-Identifier: Apache-2.0
// Random programs run by several threads at once, in one session: each step gives what the program means for its own
// feeds, whatever the others do. Covers C4, C6, C8, C11, F1, P4. Made to be run under ThreadSanitizer too.
#include <atomic>
#include <functional>
#include <thread>

#include "tests/engine/random_program_run.h"

namespace tenon::engine::concurrent_graph_test {
namespace {

constexpr size_t kThreads = 4;
constexpr size_t kFeedings = 4;

// A program in a session, with feeds and what they should give.
struct Shared {
  Region program;
  Graph graph{TheRuntime()};
  std::vector<Name> feeds, fetches;
  std::vector<std::vector<Tensor>> values;             // of each feeding
  std::vector<std::vector<std::vector<double>>> right;  // of each feeding and fetch

  Shared(uint32_t seed, int depth) {
    ProgramOptions options;
    options.steps = 6 + static_cast<int>(seed % 7);
    options.depth = depth;
    program = ProgramMaker(seed, options).Make();
    std::vector<Output> parameters;
    for (size_t i = 0; i < program.parameters.size(); ++i)
      parameters.push_back(
          graph.Placeholder("x" + std::to_string(i), program.parameters[i].dtype, ShapeOf(program.parameters[i].form)));
    const std::vector<Output> outputs = ProgramBuilder(graph).Build(program, parameters);
    feeds.assign(parameters.begin(), parameters.end());
    for (int result : program.results) fetches.push_back(outputs[static_cast<size_t>(result)]);
    for (uint32_t feeding = 0; feeding < kFeedings; ++feeding) {
      const std::vector<Plain> plain = RandomParameters(program, seed * 31 + feeding);
      auto& tensors = values.emplace_back();
      for (const Plain& one : plain) tensors.push_back(TensorOf(one.type.dtype, ShapeOf(one.type.form), one.elements));
      const std::vector<Plain> all = Calculate(program, plain);
      auto& results = right.emplace_back();
      for (int result : program.results) results.push_back(all[static_cast<size_t>(result)].elements);
    }
  }
  bool IsRight(size_t feeding, const Result<std::vector<Tensor>>& found) const {
    if (!found.ok() || found->size() != right[feeding].size()) return false;
    for (size_t i = 0; i < found->size(); ++i)
      if (DoublesOf((*found)[i]) != right[feeding][i]) return false;
    return true;
  }
  std::vector<View> ViewsOf(size_t feeding) const { return {values[feeding].begin(), values[feeding].end()}; }
};

// Each thread begins with another feeding, so that steps with different values overlap. run: (thread, feeding) ->
// right?
int WrongSteps(int rounds, const std::function<bool(size_t, size_t)>& run) {
  std::atomic<int> wrong{0};
  std::atomic<size_t> arrived{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ++arrived;
      while (arrived.load() < kThreads) std::this_thread::yield();  // all begin together
      for (size_t i = 0; i < static_cast<size_t>(rounds); ++i)
        if (!run(t, (t + i) % kFeedings)) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  return wrong.load();
}

SessionOptions OptionsOf(uint32_t seed) {
  SessionOptions options;
  options.executor = seed % 2 == 0 ? TENON_EXECUTOR_AUTO : TENON_EXECUTOR_DYNAMIC;
  options.debug.schedule_seed = seed % 4 == 3 ? seed : 0;
  return options;
}

TEST(ConcurrentGraph, OneCallableRunByManyThreadsGivesEachItsOwnAnswer) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Shared shared(seed, static_cast<int>(seed % 3));
    auto session = Session::Create(TheRuntime(), shared.graph, OptionsOf(seed));
    ASSERT_TRUE(session.ok()) << session.status();
    auto callable = session->Prepare(shared.feeds, shared.fetches);
    ASSERT_TRUE(callable.ok()) << callable.status();
    EXPECT_EQ(
        WrongSteps(12, [&](size_t,
                           size_t feeding) { return shared.IsRight(feeding, callable->Run(shared.ViewsOf(feeding))); }),
        0)
        << "seed " << seed << "\n"
        << Describe(shared.program, shared.program.results);
  }
}

TEST(ConcurrentGraph, ManySignaturesOfOneSessionAreBuiltAndRunAtOnce) {
  for (uint32_t seed = 100; seed < 130; ++seed) {
    const Shared shared(seed, static_cast<int>(seed % 3));
    auto session = Session::Create(TheRuntime(), shared.graph, OptionsOf(seed));
    ASSERT_TRUE(session.ok()) << session.status();
    // Each thread leaves another fetch out, so that plans are built while others run.
    const auto run = [&](size_t thread, size_t feeding) {
      std::vector<Name> fetches = shared.fetches;
      const size_t without = thread % fetches.size();
      fetches.erase(fetches.begin() + static_cast<std::ptrdiff_t>(without));
      std::vector<Feed> feeds;
      for (size_t i = 0; i < shared.feeds.size(); ++i) feeds.push_back({shared.feeds[i], shared.values[feeding][i]});
      auto found = session->Run(feeds, fetches);
      if (!found.ok()) return false;
      for (size_t i = 0, from = 0; i < found->size(); ++i, ++from) {
        from += from == without;
        if (DoublesOf((*found)[i]) != shared.right[feeding][from]) return false;
      }
      return true;
    };
    EXPECT_EQ(WrongSteps(8, run), 0) << "seed " << seed << "\n" << Describe(shared.program, shared.program.results);
  }
}

TEST(ConcurrentGraph, StepsThatAreCancelledLeaveTheOthersAlone) {
  for (uint32_t seed = 200; seed < 220; ++seed) {
    const Shared shared(seed, 2);
    auto session = Session::Create(TheRuntime(), shared.graph, OptionsOf(seed));
    ASSERT_TRUE(session.ok()) << session.status();
    auto callable = session->Prepare(shared.feeds, shared.fetches);
    ASSERT_TRUE(callable.ok()) << callable.status();
    const auto run = [&](size_t thread, size_t feeding) {
      RunOptions options;
      auto cancellation = Cancellation::Create();
      if (!cancellation.ok()) return false;
      if (thread == 0) options.cancellation = &*cancellation;
      if (thread == 0) cancellation->Cancel();
      auto found = callable->Run(shared.ViewsOf(feeding), options);
      if (thread == 0 && !found.ok()) return found.status().code() == Code::kCancelled;
      return shared.IsRight(feeding, found);
    };
    EXPECT_EQ(WrongSteps(8, run), 0) << "seed " << seed;
  }
}

TEST(ConcurrentGraph, AsynchronousStepsOverlapAndGiveTheirOwnAnswers) {
  for (uint32_t seed = 300; seed < 320; ++seed) {
    const Shared shared(seed, 1 + static_cast<int>(seed % 2));
    auto session = Session::Create(TheRuntime(), shared.graph, OptionsOf(seed));
    ASSERT_TRUE(session.ok()) << session.status();
    auto callable = session->Prepare(shared.feeds, shared.fetches);
    ASSERT_TRUE(callable.ok()) << callable.status();
    // Shared with the callbacks: the last of them may still be on its way out when the test has gone on.
    const auto left = std::make_shared<std::atomic<int>>(16);
    std::atomic<int> wrong{0};
    for (size_t i = 0; i < 16; ++i) {
      const size_t feeding = i % kFeedings;
      const Status started =
          callable->RunAsync(shared.ViewsOf(feeding), [&, left, feeding](Result<std::vector<Tensor>> found) {
            if (!shared.IsRight(feeding, found)) ++wrong;
            if (--*left == 0) left->notify_one();
          });
      ASSERT_TRUE(started.ok()) << started;
    }
    for (int now = left->load(); now != 0; now = left->load()) left->wait(now);
    EXPECT_EQ(wrong.load(), 0) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tenon::engine::concurrent_graph_test
