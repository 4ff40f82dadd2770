// SPDX-License-Identifier: Apache-2.0
// Memory of code: written or executed, never both; bounded; and what happens where the system gives none.
#include "code/code.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "emit/generator.h"
#include "tenon/dtype.h"
#include "tenon/testing/linked.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

namespace tenon::cpu_codegen::code_test {
namespace {

Program Some(int number) {
  Program program{BestLevel(), false, {{TENON_DT_FLOAT, false}}, {}, {}};
  for (int i = 0; i < 14; ++i)
    program.nodes.push_back({(number >> i & 1) != 0 ? Function::kNeg : Function::kAbs, TENON_DT_FLOAT, {i}});
  program.outputs = {14};
  return program;
}

// Lines of this process's map that are writable and executable.
int WritableAndExecutable() {
  std::ifstream maps("/proc/self/maps");
  int found = 0;
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find(' ');
    if (at != std::string::npos && line.size() > at + 3 && line[at + 2] == 'w' && line[at + 3] == 'x') ++found;
  }
  return found;
}
bool IsExecutable(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    size_t read = 0;
    const uint64_t begin = std::stoull(line, &read, 16), end = std::stoull(line.substr(read + 1), nullptr, 16),
                   own = reinterpret_cast<uint64_t>(address);
    if (own >= begin && own < end) return line[line.find(' ') + 3] == 'x';
  }
  return false;
}

#define NEEDS_CODE() \
  if (BestLevel() == Level::kNone || !MayExecute()) GTEST_SKIP() << "no code on this machine"

TEST(Code, PagesAreNeverWritableAndExecutable) {
  NEEDS_CODE();
  // While others make code, somebody looks.
  std::atomic<bool> done{false};
  std::atomic<int> most{0};
  std::thread watcher([&] {
    while (!done.load()) most = std::max(most.load(), WritableAndExecutable());
  });
  std::vector<std::shared_ptr<const Code>> all;
  for (int i = 0; i < 1500; ++i) all.push_back(CodeOf(Some(i)));
  done = true;
  watcher.join();
  EXPECT_EQ(most.load(), 0);
  EXPECT_EQ(WritableAndExecutable(), 0);
  for (const auto& code : all) ASSERT_NE(code, nullptr);
}

TEST(Code, TheWatcherWouldSeeThem) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  (void)page;
  EXPECT_TRUE(IsExecutable(reinterpret_cast<const void*>(&WritableAndExecutable)));
  int local = 0;
  EXPECT_FALSE(IsExecutable(&local));
}

TEST(Code, ThereIsOnlySoMuchOfIt) {
  NEEDS_CODE();
  std::vector<std::shared_ptr<const Code>> all;
  int refused = 0;
  for (int i = 0; i < 6000; ++i) {
    all.push_back(CodeOf(Some(i)));
    if (all.back() == nullptr) ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LE(StatisticsOfCode().programs, kMostPrograms);
  EXPECT_LE(StatisticsOfCode().bytes, kMostBytes);
  all.clear();
  EXPECT_NE(CodeOf(Some(6001)), nullptr) << "what nobody runs makes room";
  EXPECT_LE(StatisticsOfCode().programs, 100);
}

TEST(Code, ThreadsThatAskForTheSameGetTheSame) {
  NEEDS_CODE();
  for (int i = 0; i < 200; ++i) {
    std::shared_ptr<const Code> a, b;
    std::thread other([&] { a = CodeOf(Some(i)); });
    b = CodeOf(Some(i));
    other.join();
    ASSERT_EQ(a, b);
  }
}

// In a process of its own, which the kernel lets execute nothing that was written (as hardened systems do).
TEST(Code, WithoutExecutableMemoryThereIsNone) {
  if (BestLevel() == Level::kNone) GTEST_SKIP() << "no code on this machine";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) _exit(77);
    constexpr uint8_t kReturn[] = {0xc3};
    if (Code::Load(kReturn) != nullptr) _exit(1);
    _exit(CodeOf(Some(9001)) == nullptr && StatisticsOfCode().bytes >= 0 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this kernel cannot refuse it (Linux 6.3)";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tenon::cpu_codegen::code_test
