// SPDX-License-Identifier: Apache-2.0
// Plugins while the engine uses them: two that bring different copies of one library, and one that comes and goes.
#include <dirent.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/engine/engine.h"

namespace tenon::engine::plugin_life_test {
namespace {

const char* const kTwins[] = {TENON_TWIN_A, TENON_TWIN_B};
const char* const kTwinOps[] = {"TwinA", "TwinB"};
constexpr int32_t kAnswers[] = {1, 2};

int32_t AnswerOf(Runtime& runtime, const char* op) {
  Graph graph(runtime);
  const Output answer = graph.Op(op, {});
  EXPECT_TRUE(graph.status().ok()) << graph.status().message();
  auto session = Session::Create(runtime, graph);
  if (!session.ok()) {
    ADD_FAILURE() << session.status().message();
    return -2;
  }
  auto values = session->Run({}, {answer});
  if (!values.ok()) {
    ADD_FAILURE() << values.status().message();
    return -2;
  }
  return Values<int32_t>((*values)[0])[0];
}

TEST(PluginLife, TwoPluginsMayBringDifferentCopiesOfOneLibrary) {
  RuntimeOptions options;
  options.plugins = {kTwins[0], kTwins[1]};
  auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  for (int round = 0; round < 2; ++round)
    for (int i : {0, 1}) EXPECT_EQ(AnswerOf(*runtime, kTwinOps[i]), kAnswers[i]) << kTwinOps[i];
}

struct Held {
  int64_t threads = 0, files = 0, resident_pages = 0;
};

Held Measure() {
  Held held;
  std::string word;
  for (std::ifstream status("/proc/self/status"); status >> word;)
    if (word == "Threads:") status >> held.threads;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++held.files;
  closedir(folder);
  int64_t total = 0;
  std::ifstream("/proc/self/statm") >> total >> held.resident_pages;
  return held;
}

TEST(PluginLife, AThousandTimesLoadedUsedAndUnloadedLeavesNothingBehind) {
  RuntimeOptions options;
  options.threads = 2;
  auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  Held tenth;
  for (int i = 1; i <= 1000; ++i) {
    const Status loaded = runtime->LoadPlugin(kTwins[0]);
    ASSERT_TRUE(loaded.ok()) << loaded.message();
    ASSERT_EQ(AnswerOf(*runtime, kTwinOps[0]), kAnswers[0]);
    const Status unloaded = runtime->UnloadPlugin("tenon.test.twin_a");
    ASSERT_TRUE(unloaded.ok()) << unloaded.message();
    if (i == 10) tenth = Measure();
  }
  const Held last = Measure();
  EXPECT_EQ(last.threads, tenth.threads);
  EXPECT_EQ(last.files, tenth.files);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LE(last.resident_pages, tenth.resident_pages + 64) << "pages of memory";
#endif
}

TEST(PluginLife, IsNotOverWhileASessionUsesIt) {
  RuntimeOptions options;
  options.plugins = {kTwins[0]};
  auto runtime = Runtime::Create(options);
  ASSERT_TRUE(runtime.ok()) << runtime.status().message();
  {
    Graph graph(*runtime);
    const Output answer = graph.Op(kTwinOps[0], {});
    auto session = Session::Create(*runtime, graph);
    ASSERT_TRUE(session.ok()) << session.status().message();
    ASSERT_TRUE(session->Run({}, {answer}).ok());
    const Status refused = runtime->UnloadPlugin("tenon.test.twin_a");
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition) << refused.message();
    EXPECT_TRUE(session->Run({}, {answer}).ok());
  }
  const Status unloaded = runtime->UnloadPlugin("tenon.test.twin_a");
  EXPECT_TRUE(unloaded.ok()) << unloaded.message();
}

}  // namespace
}  // namespace tenon::engine::plugin_life_test
